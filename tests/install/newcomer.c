/* SPDX-License-Identifier: MPL-2.0 */
/* newcomer.c -- what a newcomer's own program does, and does wrong, in the first hour.
 *
 * newcomer exit: owes a value, fails, and ends by exit() without bus_close().
 * newcomer _exit, newcomer abort: the same, behind bus_flush().
 * newcomer handler: the same, by exit() from within the failure handler.
 * newcomer forget: forgets checks, and goes on behind bus_complete().
 * newcomer misspell: waits for a party that nobody is, and prints the notice.
 * newcomer member: waits for a rank in a job that was created.
 * newcomer wrong: calls that have no error of their own, with wrong arguments.
 * newcomer port: takes a port of 127.0.0.1 until it is stopped, and prints its number.
 * newcomer terminal COMMAND...: runs the command on a terminal, and prints what comes there. */
#include <bus/bus.h>

#include <arpa/inet.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void leave(const struct bus_error *verdict, void *arg)
{
    (void)arg;
    fprintf(stderr, "handler: %s\n", bus_error_type(verdict));
    exit(4);
}

static int fail_and_end(struct bus *bus, const char *how)
{
    struct bus_slot *slot = NULL;
    if (bus_slot_reserve(bus, "grads", BUS_FOREVER, &slot) != BUS_OK)
        return 1;
    struct bus_error *error = bus_error_new("app.disk_full", NULL, "no space left");
    bus_fail(bus, error);
    if (strcmp(how, "_exit") == 0 && bus_flush(bus, 10000) == BUS_OK)
        _exit(3);
    if (strcmp(how, "abort") == 0 && bus_flush(bus, 10000) == BUS_OK)
        abort();
    while (strcmp(how, "handler") == 0)
        (void)pause();
    exit(3);
}

static int expect(const char *what, int got, int wanted)
{
    if (got != wanted)
        printf("%s: %s\n", what, bus_strerror((enum bus_err)got));
    return got != wanted;
}

static int forget_checks(struct bus *bus)
{
    struct bus_slot *slot = NULL;
    int wrong = expect("commit(NULL)", (int)bus_slot_commit(&slot, "x", 1), BUS_EINVAL);
    wrong += strcmp(bus_error_message(NULL), "") != 0;
    wrong += bus_error_describe(NULL, NULL, 0) != 0;
    wrong += strcmp(bus_party(NULL), "") != 0;
    struct bus_error *error = bus_error_new("errbus.mine", NULL, "x");
    wrong += strcmp(bus_error_type(error), "errbus.reserved_type") != 0;
    bus_error_unref(&error);
    wrong += expect("complete", (int)bus_complete(bus, 10000), BUS_OK);
    wrong += expect("publish behind it", (int)bus_publish(bus, "w", "x", 1), BUS_EENDED);
    wrong += expect("reserve behind it", (int)bus_slot_reserve(bus, "w", BUS_FOREVER, &slot),
                    BUS_EENDED);
    wrong += expect("no refusal later", (int)bus_refusal(bus, &error), BUS_ETIMEDOUT);
    wrong += expect("close", (int)bus_close(&bus, 10000), BUS_OK);
    printf(wrong == 0 ? "all is refused\n" : "%d wrong\n", wrong);
    return wrong != 0;
}

/* Prints the code and the reason of a call, and releases the reason.  NULL: it has none of its
 * own. */
static void print_call(const char *call, enum bus_err err, struct bus_error *why)
{
    if (why == NULL && err != BUS_OK)
        why = bus_last_error();
    printf("%s: %s: %s\n", call, bus_strerror(err), bus_error_message(why));
    bus_error_unref(&why);
}

static int misspell(struct bus *bus)
{
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    struct bus_error *notice = NULL;
    enum bus_err err = bus_await(bus, "alicf/grads", 0, 2000, &msg, &error);
    print_call("bus_await", err, error);
    err = bus_notice(bus, 5000, &notice);
    print_call("bus_notice", err, notice);
    return (int)bus_close(&bus, 10000);
}

static int join(struct bus *bus)
{
    struct bus_membership membership;
    struct bus_error *error = NULL;
    enum bus_err err = bus_membership_wait(bus, 0, 15000, &membership, &error);
    print_call("bus_membership_wait", err, error);
    error = NULL;
    err = bus_verdict(bus, 15000, &error);
    print_call("bus_verdict", err, error);
    (void)bus_close(&bus, 10000);
    return 0;
}

static int call_wrongly(struct bus *bus)
{
    struct bus_slot *slot = NULL;
    struct bus_sub *sub = NULL;
    print_call("bus_publish", bus_publish(bus, "bob/x", "x", 1), NULL);
    print_call("bus_slot_reserve", bus_slot_reserve(bus, "a//b", BUS_FOREVER, &slot), NULL);
    print_call("bus_sub_open", bus_sub_open(bus, "hello", NULL, &sub), NULL);
    if (bus_slot_reserve(bus, "open", BUS_FOREVER, &slot) != BUS_OK)
        return 1;
    print_call("bus_complete", bus_complete(bus, 10000), NULL);
    printf("codes: %s, %s\n", bus_strerror(BUS_ESETTLED), bus_strerror(BUS_ETIMEDOUT));
    return (int)bus_close(&bus, 10000);
}

/* The status of the command, as a shell has it. */
static int run_on_terminal(char **command)
{
    char bytes[4096];
    int terminal = -1;
    int status = 0;
    pid_t child = forkpty(&terminal, NULL, NULL, NULL);
    if (child == 0) {
        (void)execvp(command[0], command);
        _exit(127);
    }
    ssize_t count = 0;
    while (child > 0 && (count = read(terminal, bytes, sizeof bytes)) > 0)
        (void)fwrite(bytes, 1, (size_t)count, stdout);
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 126;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* A port that is bound with SO_REUSEADDR and does not listen.  The system gives it to nobody who
 * asks for any port, connections to it are refused, and a broker that names it can listen there. */
static int hold_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t bytes = sizeof address;
    int yes = 1;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        bind(fd, (struct sockaddr *)&address, bytes) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &bytes) != 0) {
        perror("newcomer: no port");
        return 1;
    }
    printf("%d.\n", ntohs(address.sin_port));
    (void)fflush(stdout);
    for (;;)
        (void)pause();
}

int main(int argc, char **argv)
{
    struct bus *bus = NULL;
    struct bus_error *error = NULL;
    struct bus_options options;
    const char *verb = argc > 1 ? argv[1] : "";
    if (argc > 2 && strcmp(verb, "terminal") == 0)
        return run_on_terminal(argv + 2);
    if (strcmp(verb, "port") == 0)
        return hold_port();
    bus_options_init(&options);
    options.on_failure = strcmp(verb, "handler") == 0 ? leave : NULL;
    if (bus_open(NULL, &options, 10000, &bus, &error) != BUS_OK) {
        fprintf(stderr, "newcomer: %s\n", bus_error_message(error));
        return 1;
    }
    if (strcmp(verb, "forget") == 0)
        return forget_checks(bus);
    if (strcmp(verb, "misspell") == 0)
        return misspell(bus);
    if (strcmp(verb, "member") == 0)
        return join(bus);
    if (strcmp(verb, "wrong") == 0)
        return call_wrongly(bus);
    return fail_and_end(bus, verb);
}
