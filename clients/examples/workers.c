/* SPDX-License-Identifier: MPL-2.0 */
/* workers.c -- a group of workers shares the requests of a boss.  Kill one: another gets its work.
 *   ./workers one & ./workers two & ./workers boss */
#include <bus/bus.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
static struct bus *bus;
static void stop(int signal_number)
{
    bus_stop(signal_number == SIGTERM ? bus : NULL); /* every wait ends */
}

static void ask(void)
{
    for (int number = 1; number <= 4; number++) {
        uint64_t seq = 0;
        struct bus_msg *msg = NULL;
        struct bus_error *why = NULL;
        if (bus_request(bus, "squares", &number, sizeof number, BUS_FOREVER, &seq) != BUS_OK)
            return;
        if (bus_await(bus, bus_replies(bus), seq, BUS_FOREVER, &msg, &why) == BUS_OK)
            printf("%d squared is %d\n", number, *(const int *)bus_msg_value(msg, NULL));
        else
            printf("%d: %s: %s\n", number, bus_error_party(why), bus_error_message(why));
        bus_msg_free(&msg);
        bus_error_unref(&why);
    }
}

static void work(void)
{
    struct bus_sub *tasks = NULL;
    struct bus_msg *task = NULL;
    struct bus_sub_options options;
    bus_sub_options_init(&options);
    options.group = "squares";
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = stop}, NULL);
    if (bus_sub_open(bus, "boss/squares", &options, &tasks) != BUS_OK)
        return;
    while (bus_sub_recv(tasks, BUS_FOREVER, &task, NULL) == BUS_OK) {
        int number = *(const int *)bus_msg_value(task, NULL), square = number * number;
        if (number == 3 || bus_msg_reply(&task, &square, sizeof square) != BUS_OK)
            bus_msg_fail(&task, NULL);
    }
    bus_sub_close(&tasks);
}

int main(int argc, char **argv)
{
    struct bus_options options;
    bus_options_init(&options);
    options.party = argc == 2 ? argv[1] : "boss";
    options.run_rule = BUS_RUN_CONTINUE; /* one set of workers serves every run of the boss */
    if (bus_open(NULL, &options, 9000, &bus, NULL) != BUS_OK)
        return 1;
    strcmp(options.party, "boss") == 0 ? ask() : work();
    return bus_close(&bus, 5000) != BUS_OK;
}
