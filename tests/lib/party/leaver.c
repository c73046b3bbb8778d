/* SPDX-License-Identifier: MPL-2.0 */
/* leaver.c -- a party that says something and ends at once, without bus_close().
 *
 *   test_leaver ENDPOINT WHAT HOW
 *
 * It joins as alice and says WHAT:
 *
 *   fail     bus_fail(), type app.leaver          slot   a slot of "w" fails with that type
 *   value    publishes "last" in "w"              more   the same, as the second value
 *   nothing
 *
 * Then it ends by HOW:
 *
 *   exit     exit(3)                              handler  exit(3) in the failure handler
 *   closing  the same, while main() is in bus_close()
 *   waiting  exit(3), while another thread waits  thread   exit(3) in another thread
 *   flush    bus_flush(), then _exit(3)           abort    bus_flush(), then abort()
 *   atexit   exit(3), with a bus_close() in a function of atexit()
 *   fork     a child calls exit(); then exit(3)
 *   signal   exit(3) in a signal handler that interrupts bus_publish()
 *
 * It says "ready" when it has joined, and begins when it is sent a line. */
#include <bus/bus.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SOON_MS = 20000, STATUS = 3 };

static struct bus *bus;
static const char *how;

static int is_how(const char *word)
{
    return strcmp(how, word) == 0;
}

static void on_failure(const struct bus_error *verdict, void *arg)
{
    (void)verdict;
    (void)arg;
    if (is_how("handler") || is_how("closing"))
        exit(STATUS);
}

static void on_signal(int number)
{
    (void)number;
    exit(STATUS);
}

static void close_at_exit(void)
{
    bus_close(&bus, SOON_MS);
}

static void *wait_long(void *arg)
{
    struct bus_msg *msg = NULL;
    (void)arg;
    if (is_how("thread"))
        exit(STATUS);
    while (bus_await(bus, "nobody/w", 0, BUS_FOREVER, &msg, NULL) == BUS_OK)
        bus_msg_free(&msg);
    return NULL;
}

static void say(const char *what)
{
    struct bus_slot *slot = NULL;
    struct bus_error *error = bus_error_new("app.leaver", NULL, "said before the end");
    enum bus_err err = BUS_OK;
    if (strcmp(what, "fail") == 0)
        bus_fail(bus, error);
    if (strcmp(what, "slot") == 0)
        err = bus_slot_reserve(bus, "w", BUS_FOREVER, &slot);
    bus_slot_fail(&slot, error);
    if (strcmp(what, "value") == 0 || strcmp(what, "more") == 0)
        err = bus_publish(bus, "w", "last", 4);
    if (err != BUS_OK)
        fprintf(stderr, "%s: %s\n", what, bus_strerror(err));
    bus_error_unref(&error);
}

static void end(void)
{
    pthread_t thread;
    if (is_how("closing"))
        bus_close(&bus, SOON_MS);
    if (is_how("waiting") || is_how("thread"))
        (void)pthread_create(&thread, NULL, wait_long, NULL);
    if (is_how("handler") || is_how("closing") || is_how("thread"))
        for (;;)
            pause();
    if (is_how("flush") || is_how("abort")) {
        enum bus_err err = bus_flush(bus, SOON_MS);
        if (err != BUS_OK)
            fprintf(stderr, "bus_flush: %s\n", bus_strerror(err));
        if (err == BUS_OK && is_how("abort"))
            abort();
        _exit(err == BUS_OK ? STATUS : 1);
    }
    if (is_how("fork")) {
        pid_t child = fork();
        if (child == 0)
            exit(0);
        (void)waitpid(child, NULL, 0);
    }
    if (is_how("signal")) {
        alarm(1);
        for (;;)
            if (bus_publish(bus, "noise", "x", 1) != BUS_OK)
                pause();
    }
    exit(STATUS);
}

int main(int argc, char **argv)
{
    struct bus_options options;
    struct bus_error *error = NULL;
    char line[16];
    if (argc != 4)
        return 2;
    how = argv[3];
    bus_options_init(&options);
    options.party = "alice";
    options.heartbeat_ms = 100;
    options.on_failure = on_failure;
    enum bus_err err = bus_open(argv[1], &options, SOON_MS, &bus, &error);
    if (err != BUS_OK) {
        fprintf(stderr, "bus_open: %s\n", bus_error_message(error));
        return 1;
    }
    if (is_how("atexit"))
        (void)atexit(close_at_exit);
    (void)sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_signal}, NULL);
    if (strcmp(argv[2], "more") == 0 &&
        (bus_publish(bus, "w", "first", 5) != BUS_OK || bus_flush(bus, SOON_MS) != BUS_OK))
        return 1;
    printf("ready\n");
    fflush(stdout);
    if (fgets(line, sizeof line, stdin) == NULL)
        return 1;
    say(argv[2]);
    end();
}
