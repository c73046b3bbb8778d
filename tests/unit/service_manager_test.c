/* SPDX-License-Identifier: MPL-2.0 */
/* service_manager_test.c -- what the service manager is told, and how often; a socket of the test
 * stands in for the manager. */
#include "broker/io/service_manager.h"

#include <criterion/criterion.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)

enum { OWN_PID = 77, PATH_BYTES = sizeof((struct sockaddr_un *)NULL)->sun_path };

static char name[PATH_BYTES]; /* of an abstract socket, with its '@' */
static int socket_fd;
static struct service_manager manager;
static char complaint[SERVICE_MANAGER_COMPLAINT_BYTES];

static void set_up(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(name, sizeof name, "@errbus-service-%ld", (long)getpid());
    memcpy(address.sun_path + 1, name + 1, strlen(name) - 1);
    socket_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    cr_assert_eq(bind(socket_fd, (struct sockaddr *)&address,
                      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))),
                 0);
    complaint[0] = '\0';
}

static void tear_down(void)
{
    service_manager_close(&manager);
    close(socket_fd);
}

TestSuite(service_manager, .init = set_up, .fini = tear_down);

static bool open_with(const char *socket_name, const char *watchdog_us, const char *watchdog_pid)
{
    struct service_manager_environment environment = {.socket = socket_name,
                                                      .watchdog_us = watchdog_us,
                                                      .watchdog_pid = watchdog_pid,
                                                      .pid = OWN_PID};
    return service_manager_open(&manager, &environment, complaint);
}

static void expect_told(const char *expected)
{
    char message[512];
    ssize_t bytes = recv(socket_fd, message, sizeof message - 1, 0);
    message[bytes > 0 ? bytes : 0] = '\0';
    cr_expect_str_eq(message, expected);
}

static void expect_nothing_told(void)
{
    expect_told("");
}

Test(service_manager, says_nothing_without_a_socket)
{
    cr_expect(open_with(NULL, "20000000", NULL));
    service_manager_ready(&manager, 0);
    cr_expect_eq(service_manager_due_ns(&manager), INT64_MAX);
    service_manager_live(&manager, 100 * NS_PER_S);
    service_manager_close(&manager);
    cr_expect(open_with("", NULL, NULL));
    service_manager_stopping(&manager);
    expect_nothing_told();
}

Test(service_manager, is_told_of_start_reload_and_stop)
{
    cr_assert(open_with(name, NULL, NULL), "%s", complaint);
    service_manager_ready(&manager, 0);
    expect_told("READY=1\nSTATUS=serving");
    service_manager_reloading(&manager, 1234567890);
    expect_told("RELOADING=1\nMONOTONIC_USEC=1234567\nSTATUS=reading the access file again");
    service_manager_ready(&manager, 0);
    expect_told("READY=1\nSTATUS=serving");
    service_manager_stopping(&manager);
    expect_told("STOPPING=1\nSTATUS=telling the parties");
    service_manager_live(&manager, 100 * NS_PER_S);
    expect_nothing_told();
}

Test(service_manager, is_asked_for_more_time_every_five_seconds)
{
    cr_assert(open_with(name, NULL, NULL), "%s", complaint);
    service_manager_extend(&manager, NS_PER_S, "reading", -1);
    expect_told("EXTEND_TIMEOUT_USEC=60000000\nSTATUS=reading");
    service_manager_extend(&manager, 6 * NS_PER_S - 1, "reading", 0);
    expect_nothing_told();
    service_manager_extend(&manager, 6 * NS_PER_S, "replaying", 0);
    expect_told("EXTEND_TIMEOUT_USEC=60000000\nSTATUS=replaying: 0 %");
    service_manager_extend(&manager, 11 * NS_PER_S, "replaying", 100);
    expect_told("EXTEND_TIMEOUT_USEC=60000000\nSTATUS=replaying: 100 %");
}

Test(service_manager, hears_a_sign_of_life_twice_in_its_period)
{
    cr_assert(open_with(name, "3000000", "77"), "%s", complaint);
    service_manager_live(&manager, NS_PER_S);
    expect_nothing_told(); /* only when the broker serves */
    service_manager_ready(&manager, NS_PER_S);
    expect_told("READY=1\nSTATUS=serving\nWATCHDOG_USEC=3000000");
    service_manager_live(&manager, NS_PER_S);
    expect_told("WATCHDOG=1");
    cr_expect_eq(service_manager_due_ns(&manager), NS_PER_S + 1500 * NS_PER_MS);
    service_manager_live(&manager, NS_PER_S + 1500 * NS_PER_MS - 1);
    expect_nothing_told();
    service_manager_live(&manager, NS_PER_S + 1500 * NS_PER_MS);
    expect_told("WATCHDOG=1");
}

/* Its start is done, and nobody waits for it.  From when it serves it is watched as any is. */
Test(service_manager, watches_no_spare_until_it_serves)
{
    cr_assert(open_with(name, "3000001", NULL), "%s", complaint);
    service_manager_spare(&manager);
    expect_told("READY=1\nSTATUS=spare: waits for its shard\nWATCHDOG_USEC=0");
    cr_expect_eq(service_manager_due_ns(&manager), INT64_MAX);
    service_manager_live(&manager, 100 * NS_PER_S);
    expect_nothing_told();
    service_manager_ready(&manager, NS_PER_S);
    expect_told("READY=1\nSTATUS=serving\nWATCHDOG_USEC=3000001");
    cr_expect_eq(service_manager_due_ns(&manager), NS_PER_S);
}

Test(service_manager, watches_nobody_without_a_period_of_this_process)
{
    static const char *const rows[][2] = {{NULL, NULL},
                                          {"0", NULL},
                                          {"-1", NULL},
                                          {"1x", NULL},
                                          {"", NULL},
                                          {"3000000", "78"},
                                          {"1000", "7x"},
                                          {"1000", ""},
                                          {" 1000", NULL},
                                          {"9223372036854775807", NULL},
                                          {"9223372036854775808", NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_assert(open_with(name, rows[i][0], rows[i][1]), "%s", complaint);
        service_manager_ready(&manager, 0);
        expect_told("READY=1\nSTATUS=serving");
        cr_expect_eq(service_manager_due_ns(&manager), INT64_MAX, "row %zu", i);
        service_manager_close(&manager);
    }
}

/* A sign of life for which there is no room is tried again soon, and does not wait. */
Test(service_manager, waits_for_no_manager_with_a_sign_of_life)
{
    cr_assert(open_with(name, "3000000", NULL), "%s", complaint);
    service_manager_ready(&manager, 0);
    while (send(manager.fd, "x", 1, MSG_DONTWAIT) == 1)
        continue;
    service_manager_live(&manager, NS_PER_S);
    cr_expect_eq(service_manager_due_ns(&manager), NS_PER_S + 20 * NS_PER_MS);
}

static void expect_refused(const char *socket_name, const char *words)
{
    cr_expect_not(open_with(socket_name, "1000000", NULL), "%s", socket_name);
    cr_expect_not_null(strstr(complaint, words), "'%s' is not in: %s", words, complaint);
    service_manager_ready(&manager, 0);
    cr_expect_eq(service_manager_due_ns(&manager), INT64_MAX);
}

Test(service_manager, refuses_a_socket_that_cannot_be)
{
    char longest[PATH_BYTES + 1];
    memset(longest, 'x', sizeof longest - 1);
    longest[0] = '/';
    longest[PATH_BYTES] = '\0';
    expect_refused(longest, "has a length");
    longest[PATH_BYTES - 1] = '\0';
    expect_refused(longest, "No such file"); /* it can be, but is not */
    expect_refused("/", "has a length");
    expect_refused("@", "has a length");
    expect_refused("vsock:2:1", "neither a path nor an abstract name");
    expect_refused("@errbus-nobody-listens-here", "Connection refused");
}
