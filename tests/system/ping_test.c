/* SPDX-License-Identifier: MPL-2.0 */
/* ping_test.c -- errbus ping: brokers that are well, away, stopped, or half in reach. */
#include "tests/lib/expect.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(ping, .init = stage_open, .fini = stage_close, .timeout = 120);

/* What `errbus ping` says, kept until the next call; words may be NULL. */
static struct process *errbus_ping(int code, const char *server, const char *first,
                                   const char *second)
{
    static struct process process;
    const char *argv[] = {"errbus", "ping", "-s", server, first, second, NULL};
    process_fini(&process);
    cr_assert(process_start(&process, argv, NULL));
    int got = process_wait(&process, SOON_MS);
    cr_assert_eq(got, code, "ended with %d, not %d: %s", got, code, process_complained(&process));
    return &process;
}

static void expect_complained(const struct process *process, const char *part)
{
    const char *text = process_complained(process);
    cr_expect_not_null(strstr(text, part), "not '%s' in: %s", part, text);
}

/* An endpoint whose data channel is where nothing listens. */
static const char *without_data(void)
{
    static char text[2 * BROKER_ENDPOINT_BYTES_MAX];
    snprintf(text, sizeof text, "%s,data=127.0.0.1:1", stage.control);
    return text;
}

Test(ping, measures_both_channels)
{
    double control = 0;
    double data = 0;
    unsigned long long up = 0;
    char end = 0;
    const char *said = process_said(errbus_ping(0, stage.control, NULL, NULL));
    cr_assert_eq(
        sscanf(said, "control %lf ms, data %lf ms, up %llu s%c", &control, &data, &up, &end), 4,
        "%s", said);
    cr_expect(control > 0 && data > 0, "%s", said);
    cr_expect_eq(end, '\n');
    cr_expect_str_empty(strchr(said, '\n') + 1, "%s", said);
}

Test(ping, repeats_itself_as_json)
{
    const struct process *process = errbus_ping(0, stage.control, "--json", "-C2");
    unsigned lines = 0;
    for (const char *line = process_said(process); *line != '\0'; line = strchr(line, '\n') + 1) {
        long long control_ns = 0;
        long long data_ns = 0;
        cr_assert_eq(sscanf(line, "{\"control_ns\":%lld,\"data_ns\":%lld,", &control_ns, &data_ns),
                     2, "%s", line);
        cr_expect(control_ns > 0 && data_ns > 0, "%s", line);
        cr_expect_not_null(strstr(line, ",\"journal\":\"well\"}"), "%s", line);
        lines += 1;
    }
    cr_expect_eq(lines, 2);
}

Test(ping, says_what_to_do_where_no_broker_is)
{
    const struct process *process = errbus_ping(5, "tcp://127.0.0.1:1", NULL, NULL);
    expect_complained(process, "no broker in reach: tcp://127.0.0.1:1: nothing listens there");
    expect_complained(process, "what to do: see whether errbusd runs there");
    cr_expect_str_empty(process_said(process));
}

Test(ping, ends_within_its_bound_where_the_broker_is_stopped)
{
    process_signal(&stage.process, SIGSTOP);
    const struct process *process = errbus_ping(5, stage.control, NULL, NULL);
    expect_complained(process, "no broker in reach");
    expect_complained(process, "what to do:");
    process_signal(&stage.process, SIGCONT);
    (void)errbus_ping(0, stage.control, "--wait", "10");
}

Test(ping, tells_the_channels_apart)
{
    const struct process *process = errbus_ping(5, without_data(), NULL, NULL);
    expect_complained(process, "the data channel does not answer; the control channel does");
    expect_complained(process, "127.0.0.1:1: nothing listens there");
}

/* The handle asks over each channel as often as one likes, and is good for other questions. */
Test(ping, is_a_call_of_the_library)
{
    struct bus_pong pong;
    struct bus_status *status = NULL;
    for (int i = 0; i < 3; i++) {
        expect_code(bus_admin_ping(stage_admin(), BUS_CHANNEL_DATA, SOON_MS, &pong, NULL), BUS_OK);
        cr_expect_gt(pong.trip_ns, 0);
        cr_expect_eq(pong.journal, BUS_JOURNAL_WELL);
        expect_code(bus_admin_ping(stage_admin(), BUS_CHANNEL_CONTROL, SOON_MS, &pong, NULL),
                    BUS_OK);
        cr_expect_gt(pong.trip_ns, 0);
    }
    expect_code(bus_admin_status_get(stage_admin(), BUS_JOB_ALL, SOON_MS, &status, NULL), BUS_OK);
    cr_expect_eq(bus_status_count(status), 0, "a ping makes no job");
    bus_status_free(&status);
    expect_code(bus_admin_ping(stage_admin(), (enum bus_channel)7, SOON_MS, &pong, NULL),
                BUS_EINVAL);
}
