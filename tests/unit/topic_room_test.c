/* SPDX-License-Identifier: MPL-2.0 */
/* topic_room_test.c -- room in a full job: what is looked at to make it, and until when. */
#include "broker/core/model.h"
#include "broker/core/streams/topic.h"
#include "tests/unit/core_driver.h"

TestSuite(topic_room, .init = init, .fini = fini);

enum {
    LOOKS = 64, /* topics that lose something for one value: PRESSURE_TOPICS_MAX */
    FRAME = FRAME_HEADER_BYTES + 16,
};

static void publish_bytes(conn_id conn, uint32_t topic, uint64_t seq, uint32_t bytes)
{
    batch_bytes = bytes + BATCH_HEADER_BYTES;
    batch(conn, 5,
          (struct event_range){.kind = FRAME_VALUE,
                               .topic = topic,
                               .seq = seq,
                               .value_bytes = bytes - FRAME_HEADER_BYTES});
    batch_bytes = 4096;
}

static uint32_t open_numbered(conn_id conn, uint32_t i)
{
    char name[24];
    (void)snprintf(name, sizeof name, "alice/%u", (unsigned)i);
    return open_topic(conn, name);
}

static bool is_refused(void)
{
    return strstr(said, "refusal") != NULL;
}

static void begin_with_job_of(uint64_t bytes)
{
    options.job_bytes_max = bytes;
    memset(numbers, 0, sizeof numbers);
    memset(frames, 0, sizeof frames);
    restart();
    join_all(2);
}

/* At n-1, n and n+1 topics of the bound, and at many. */
Test(topic_room, is_made_whatever_number_of_idle_topics_there_is)
{
    static const uint32_t idle[] = {LOOKS - 1, LOOKS, LOOKS + 1, 3 * LOOKS};
    for (unsigned i = 0; i < sizeof idle / sizeof *idle; i++) {
        begin_with_job_of(1 << 20);
        for (uint32_t k = 0; k < idle[i]; k++)
            (void)open_numbered(1, k);
        uint32_t held = open_topic(1, "alice/held");
        uint32_t a = open_topic(1, "alice/a");
        publish_bytes(1, held, 0, (1 << 20) / 8 * 7);
        core->options.job_bytes_max -= options.job_bytes_max / 8 - 2048; /* so much is left */
        forget();
        publish_bytes(1, a, 0, 4096);
        cr_expect_not(is_refused(), "%u idle topics: %s", (unsigned)idle[i], said);
    }
}

/* For one value so many topics lose their slots, and not one more.  The next step goes on. */
Test(topic_room, is_made_of_as_many_topics_as_one_value_may_cost)
{
    for (uint32_t needed = LOOKS - 1; needed <= LOOKS + 1; needed++) {
        begin_with_job_of(1 << 20);
        for (uint32_t k = 0; k < 2 * LOOKS; k++)
            publish(1, open_numbered(1, k), 0, 1, 5);
        uint32_t a = open_topic(1, "alice/a");
        core->options.job_bytes_max = 2 * LOOKS * FRAME; /* it is full */
        forget();
        publish_bytes(1, a, 0, needed * FRAME);
        cr_expect_eq(is_refused(), needed > LOOKS, "%u: %s", (unsigned)needed, said);
        is_alone = true; /* the other core has another option */
    }
}

/* A writer that waits without credit: an eighth of the job is made free, in several steps. */
Test(topic_room, is_made_for_a_writer_without_credit_in_as_many_steps_as_it_takes)
{
    enum { TOPICS = 24 * LOOKS, EIGHTH = TOPICS / 8 };
    begin_with_job_of(1 << 20);
    for (uint32_t k = 0; k < TOPICS; k++)
        publish(1, open_numbered(1, k), 0, 1, 5);
    struct job *job = pool_next(&core->jobs, 0);
    cr_assert_eq(job->bytes, TOPICS * FRAME);
    core->options.job_bytes_max = TOPICS * FRAME; /* it is full */
    (void)open_topic(1, "alice/a");
    cr_expect_eq(job->bytes, (TOPICS - LOOKS) * FRAME);
    for (uint32_t round = 2; round <= EIGHTH / LOOKS; round++) {
        cr_assert_leq(core_deadline_ns(core), now_ns, "there is more to do");
        step((struct event){.type = EVENT_TICK});
        cr_expect_eq(job->bytes, (TOPICS - round * LOOKS) * FRAME, "%u", round);
    }
    cr_expect_gt(core_deadline_ns(core), now_ns);
    is_alone = true;
}

/* The same for what a principal may have over all its topics. */
Test(topic_room, is_made_for_a_principal_whatever_number_of_idle_topics_it_has)
{
    begin_with_job_of(1 << 20);
    for (uint32_t k = 0; k < 3 * LOOKS; k++)
        (void)open_numbered(1, k);
    uint32_t held = open_topic(1, "alice/held");
    uint32_t a = open_topic(1, "alice/a");
    publish_bytes(1, held, 0, 8192);
    core->nobody.limits[ACCESS_BYTES] = 8192;
    forget();
    publish_bytes(1, a, 0, 4096);
    cr_expect_not(is_refused(), "%s", said);
    cr_expect_eq(core->nobody.held[ACCESS_BYTES], 4096);
}
