/* SPDX-License-Identifier: MPL-2.0 */
/* journal_size_test.c -- values that topics keep for readers that come late do not keep the files
 * of the journal: most of what was written goes. */
#include "tests/lib/revival.h"

#include <bus/admin.h>
#include <criterion/criterion.h>
#include <stdio.h>

/* Each topic keeps the last of its values: a twenty-fifth of all. */
enum { TOPICS = 24, VALUES = 100, VALUE_BYTES = 256 * 1024, KEPT = 4, ROUNDS_MAX = 16 };

static const char *const small_files[] = {
    "ERRBUS_NUMBER_CHECKPOINT_BYTES=8388608", "ERRBUS_NUMBER_CHECKPOINT_MS=0",
    "ERRBUS_NUMBER_RECENT_BYTES=33554432",    "ERRBUS_NUMBER_TRIM_BYTES=1048576",
    "ERRBUS_NUMBER_SEGMENT_BYTES=16777216",   NULL};

TestSuite(journal_size, .init = revival_open, .fini = revival_close, .timeout = 300);

static void write_topic(struct bus *alice, int number)
{
    static const char value[VALUE_BYTES];
    char topic[16];
    snprintf(topic, sizeof topic, "t%d", number);
    for (int i = 0; i < VALUES; i++)
        expect_code(bus_publish(alice, topic, value, sizeof value), BUS_OK);
    must_flush(alice);
}

static struct bus_status_journal journal_now(void)
{
    struct bus_status *status = NULL;
    expect_code(bus_admin_status_get(stage_admin(), BUS_JOB_ALL, SOON_MS, &status, NULL), BUS_OK);
    struct bus_status_journal journal = *bus_status_journal(status);
    bus_status_free(&status);
    return journal;
}

Test(journal_size, lets_files_go_beside_values_that_are_kept)
{
    cr_assert(revival_start_failing("process", small_files,
                                    (const char *const[]){"--topic-keep", "1M", NULL}),
              "%s", process_complained(&stage.process));
    struct bus *alice = revival_open_patient("alice");
    for (int i = 0; i < TOPICS; i++)
        write_topic(alice, i);
    struct bus_status_journal journal = journal_now();
    cr_expect_gt(journal.next, (uint64_t)TOPICS * VALUES * VALUE_BYTES);
    /* Old values move before a checkpoint, and on a busy machine fewer are made. */
    for (int i = 0; i < ROUNDS_MAX && journal.first <= journal.next / 2; i++) {
        write_topic(alice, TOPICS);
        journal = journal_now();
    }
    cr_expect_gt(journal.first, journal.next / 2, "%llu of %llu", (unsigned long long)journal.first,
                 (unsigned long long)journal.next);
    struct bus_sub_options options;
    bus_sub_options_init(&options);
    options.from_seq = BUS_FROM_OLDEST;
    struct bus_sub *late = must_subscribe_with(alice, "alice/t0", &options);
    struct bus_msg *msg = NULL;
    expect_code(bus_sub_recv(late, SOON_MS, &msg, NULL), BUS_OK);
    cr_expect_lt(bus_msg_seq(msg), VALUES - KEPT / 2, "they are there still: %llu",
                 (unsigned long long)bus_msg_seq(msg));
    bus_msg_free(&msg);
    bus_sub_close(&late);
    must_close(&alice);
}
