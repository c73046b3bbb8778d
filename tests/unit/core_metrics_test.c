/* SPDX-License-Identifier: MPL-2.0 */
/* core_metrics_test.c -- the answer to METRICS: what it counts, and that no step of it is long. */
#include "broker/core/model.h"
#include "libbus/base/pool.h"
#include "tests/unit/core_driver.h"

#include <inttypes.h>

TestSuite(core_metrics, .init = init, .fini = fini);

enum { OBSERVER = 9, ROWS_MAX = 16384, ROW_KEY_BYTES = 128, ROW_COST = 8 };
/* A job has some dozen rows, which are not parted. */
enum { ROWS_STEP_MAX = LIMIT_ANSWER_STEP / ROW_COST + 64 };

/* The rows of the last answer: "slots_settled alice's job//error". */
static struct {
    char key[ROW_KEY_BYTES];
    uint64_t value;
} rows[ROWS_MAX];
static uint32_t row_count;
static uint32_t most_in_step; /* messages */
static bool is_over;

static void keep_rows(void)
{
    for (uint32_t i = 0; i < effects.msg_count; i++) {
        const struct msg *msg = &effects.msgs[i];
        const struct msg_metric_row *row = &msg->as.metric_row;
        is_over |= msg->type == MSG_METRICS_END;
        if (msg->type != MSG_METRIC_ROW || row->part != METRIC_PART_VALUE)
            continue;
        cr_assert_lt(row_count, ROWS_MAX);
        snprintf(rows[row_count].key, ROW_KEY_BYTES, "%s %.*s/%.*s/%.*s",
                 metric_kinds[row->metric].name, (int)row->job.bytes, (const char *)row->job.data,
                 (int)row->group.bytes, (const char *)row->group.data, (int)row->words.bytes,
                 (const char *)row->words.data);
        rows[row_count++].value = row->value;
    }
    if (effects.msg_count > most_in_step)
        most_in_step = effects.msg_count;
}

/* Ticks until the answer is whole; how often. */
static unsigned go_on(void)
{
    unsigned count = 0;
    while (!is_over && core_deadline_ns(core) <= now_ns) {
        step((struct event){.type = EVENT_TICK});
        keep_rows();
        count += 1;
    }
    cr_assert(is_over, "the answer has no end");
    forget();
    return count;
}

/* Asks, and steps until the answer is whole; how many steps it took. */
static unsigned ask(const struct metric_figures *figures)
{
    struct msg msg = {.type = MSG_METRICS, .as.metrics.request = 1};
    row_count = most_in_step = 0;
    is_over = false;
    step((struct event){
        .type = EVENT_MESSAGE, .conn = OBSERVER, .figures = figures, .as.msg = &msg});
    keep_rows();
    return 1 + go_on();
}

static uint64_t value_of(const char *key)
{
    uint64_t value = UINT64_MAX;
    for (uint32_t i = 0; i < row_count; i++)
        if (strcmp(rows[i].key, key) == 0) {
            cr_expect_eq(value, UINT64_MAX, "%s is there twice", key);
            value = rows[i].value;
        }
    return value;
}

#define EXPECT_ROW(key, number)                                                                    \
    cr_expect_eq(value_of(key), (number), "%s: %" PRIu64, key, value_of(key))

Test(core_metrics, counts_what_became_of_slots)
{
    join_all(2);
    ask_from(OBSERVER);
    uint32_t topic = open_topic(1, "alice/x");
    reserve(1, topic, 0);
    reserve(1, topic, 1);
    pass_ms(700);
    reserve(1, topic, 2);
    commit(1, topic, 0, 5);
    forget();
    ask(NULL);
    EXPECT_ROW("errbus_slots_open job//", 2);
    EXPECT_ROW("errbus_slots_settled job//value", 1);
    EXPECT_ROW("errbus_slots_settled job//error", 0);
    cr_expect_geq(value_of("errbus_slot_open_oldest_seconds job//"), 600 * MS);
    EXPECT_ROW("errbus_parties job//running", 2);
    EXPECT_ROW("errbus_parties job//lost", 0);
    EXPECT_ROW("errbus_jobs //", 1);
    break_down(1);
    pass_ms(5000); /* alice is lost, and owes two slots */
    forget();
    ask(NULL);
    EXPECT_ROW("errbus_slots_open job//", 0);
    EXPECT_ROW("errbus_slots_settled job//value", 1);
    EXPECT_ROW("errbus_slots_settled job//error", 2);
    EXPECT_ROW("errbus_slot_open_oldest_seconds job//", 0);
}

Test(core_metrics, tells_what_was_counted_outside_of_the_core)
{
    static struct metric_figures figures;
    ask_from(OBSERVER);
    for (int i = 0; i < SAMPLE_COUNT; i++)
        figures.samples[i] = (uint64_t)i + 100;
    figures.samples[SAMPLE_JOURNAL_BYTES] = METRIC_NOT_KNOWN;
    ask(&figures);
    EXPECT_ROW("errbus_messages //data,in", SAMPLE_MESSAGES_DATA_IN + UINT64_C(100));
    EXPECT_ROW("errbus_journal_bytes //", UINT64_MAX);
    EXPECT_ROW("errbus_violations //party", 0);
}

Test(core_metrics, lists_so_many_jobs_and_takes_the_others_together, .timeout = 120)
{
    static char name[16];
    is_alone = true;
    for (unsigned i = 0; i < LIMIT_METRICS_JOBS + 2; i++) {
        snprintf(name, sizeof name, "job%u", i);
        job_name = name;
        say_hello(1);
        forget();
        if (i < LIMIT_METRICS_JOBS + 1)
            message(1, (struct msg){.type = MSG_BEAT});
        step((struct event){.type = EVENT_CLOSED, .conn = 1});
        forget();
    }
    ask_from(OBSERVER);
    forget();
    ask(NULL);
    EXPECT_ROW("errbus_jobs //", LIMIT_METRICS_JOBS + 2);
    EXPECT_ROW("errbus_parties job0//grace", 1);
    EXPECT_ROW("errbus_parties job199//grace", 1);
    EXPECT_ROW("errbus_parties job200//grace", UINT64_MAX);
    EXPECT_ROW("errbus_parties _other//grace", 2);
    cr_expect_leq(most_in_step, ROWS_STEP_MAX, "%u messages in a step", most_in_step);
}

/* A job that is not listed, and ends, leaves its counters to the others: a counter never goes back.
 * The next job that is listed begins with 0. */
Test(core_metrics, keeps_counters_of_jobs_that_ended_and_were_not_listed, .timeout = 120)
{
    static char name[16];
    is_alone = true;
    for (unsigned i = 0; i <= LIMIT_METRICS_JOBS; i++) {
        snprintf(name, sizeof name, "job%u", i);
        job_name = name;
        if (i == 0 || i == LIMIT_METRICS_JOBS) {
            join(1);
            publish(1, open_topic(1, "alice/x"), 0, 3, 5);
            step((struct event){.type = EVENT_CLOSED, .conn = 11});
        } else {
            say_hello(1);
        }
        step((struct event){.type = EVENT_CLOSED, .conn = 1});
        forget();
    }
    ask_from(OBSERVER);
    ask(NULL);
    EXPECT_ROW("errbus_slots_settled job0//value", 3);
    EXPECT_ROW("errbus_slots_settled _other//value", 3);
    pass_ms(10000);
    job_name = "fresh";
    join(1);
    ask_from(OBSERVER);
    ask(NULL);
    EXPECT_ROW("errbus_jobs //", 1);
    EXPECT_ROW("errbus_slots_settled job0//value", UINT64_MAX);
    EXPECT_ROW("errbus_slots_settled fresh//value", 0);
    EXPECT_ROW("errbus_slots_settled _other//value", 3);
    EXPECT_ROW("errbus_slots_open _other//", 0);
    EXPECT_ROW("errbus_values //", 6);
}

Test(core_metrics, lists_so_many_groups_and_takes_the_others_together, .timeout = 120)
{
    static char name[16];
    is_alone = true;
    join_all(2);
    uint32_t tasks = open_topic(1, "alice/tasks");
    for (unsigned i = 0; i < LIMIT_METRICS_GROUPS + 2; i++) {
        snprintf(name, sizeof name, "g%u", i);
        share(2, i + 1, "alice/tasks", name, 1);
    }
    publish(1, tasks, 0, 3, 5);
    ask_from(OBSERVER);
    ask(NULL);
    EXPECT_ROW("errbus_group_tasks job/g0/leased", 1);
    EXPECT_ROW("errbus_group_tasks job/g0/waiting", 2);
    EXPECT_ROW("errbus_group_tasks job/g0/dead", 0);
    EXPECT_ROW("errbus_group_tasks job/g199/leased", 1);
    EXPECT_ROW("errbus_group_tasks job/g200/leased", UINT64_MAX);
    EXPECT_ROW("errbus_group_tasks _other/_other/leased", 2);
    EXPECT_ROW("errbus_group_tasks _other/_other/waiting", 4);
}

Test(core_metrics, tells_how_long_the_longest_call_is_blocked)
{
    join_all(2);
    message(1, (struct msg){.type = MSG_WAITING, .as.waiting = {.room_ms = 100}});
    message(2, (struct msg){.type = MSG_WAITING, .as.waiting = {.members_ms = 300}});
    pass_ms(500);
    ask_from(OBSERVER);
    ask(NULL);
    EXPECT_ROW("errbus_waiting_oldest_seconds job//", 800 * MS);
    message(2, (struct msg){.type = MSG_WAITING});
    ask(NULL);
    EXPECT_ROW("errbus_waiting_oldest_seconds job//", 600 * MS);
    message(1, (struct msg){.type = MSG_WAITING});
    ask(NULL);
    EXPECT_ROW("errbus_waiting_oldest_seconds job//", 0);
}

/* So many values of alice that nobody takes. */
static void fill_window(uint32_t topic)
{
    batch_bytes = 64 * 1024;
    for (uint64_t seq = 0; seq < 8; seq++)
        batch(1, 50,
              (struct event_range){
                  .kind = FRAME_VALUE, .topic = topic, .seq = seq, .value_bytes = 32 * 1024});
    batch_bytes = 4096;
    forget();
}

Test(core_metrics, counts_writers_that_are_held_back)
{
    options.topic_window_bytes = 256 * 1024;
    restart();
    join_all(2);
    subscribe(2, 1, "alice/x", "", 0, 0);
    subscribe(2, 2, "alice/y", "", 0, 0);
    ask_from(OBSERVER);
    ask(NULL);
    EXPECT_ROW("errbus_writers_held_back job//", 0);
    fill_window(open_topic(1, "alice/x"));
    fill_window(open_topic(1, "alice/y"));
    ask(NULL);
    EXPECT_ROW("errbus_writers_held_back job//", 2);
}

Test(core_metrics, counts_refusals_by_reason)
{
    join(1);
    uint32_t topic = open_topic(1, "alice/x");
    publish(1, topic, 0, 1, 5);
    publish(1, topic, 0, 1, 5);
    fail(1, topic, 7, frames[1]);
    forget();
    ask_from(OBSERVER);
    ask(NULL);
    EXPECT_ROW("errbus_refused //too_late", 1);
    EXPECT_ROW("errbus_refused //not_open", 1);
    EXPECT_ROW("errbus_refused //protocol", 0);
    EXPECT_ROW("errbus_refused //other", 0);
    step((struct event){.type = EVENT_VIOLATION, .conn = 1, .as.complaint = "nonsense"});
    forget();
    ask(NULL);
    EXPECT_ROW("errbus_refused //protocol", 1);
    EXPECT_ROW("errbus_violations //party", 1);
    EXPECT_ROW("errbus_violations //observer", 0);
}

/* ---- bounds ---------------------------------------------------------------------------------- */

/* So many numbers of one pool are looked at in a step, and no more. */
static void expect_bounded(unsigned step_count)
{
    uint32_t looked_at =
        (core->jobs.chunk_count + core->parties.chunk_count + core->routes.chunk_count +
         core->groups.chunk_count + core->tasks.chunk_count) *
        POOL_CHUNK_ITEMS;
    cr_expect_leq(most_in_step, ROWS_STEP_MAX, "%u messages", most_in_step);
    cr_expect_geq(step_count, looked_at / LIMIT_ANSWER_STEP, "%u numbers in %u steps", looked_at,
                  step_count);
}

static void make_topics(unsigned count)
{
    static char name[32];
    is_alone = true;
    join(1);
    subscribe(1, 1, "alice/*", "", 0, 0); /* each topic has a route, and that is looked at */
    for (unsigned i = 0; i < count; i++) {
        snprintf(name, sizeof name, "alice/%u", i);
        (void)open_topic(1, name);
        forget();
    }
}

/* A message of a party does not wait for a part of an answer: ticks alone go on with it. */
Test(core_metrics, does_nothing_of_an_answer_while_parties_speak)
{
    enum { MESSAGES = 50 };
    const struct msg question = {.type = MSG_METRICS, .as.metrics.request = 1};
    make_topics(3 * LIMIT_ANSWER_STEP);
    ask_from(OBSERVER);
    unsigned count = ask(NULL);
    cr_assert_lt(count, MESSAGES);
    is_over = false;
    message(OBSERVER, question);
    forget();
    for (unsigned i = 0; i < MESSAGES; i++) {
        message(1, (struct msg){.type = MSG_PING, .as.ping.request = i});
        for (uint32_t j = 0; j < effects.msg_count; j++)
            cr_expect(effects.msgs[j].type != MSG_METRIC_ROW);
        cr_expect_leq(core_deadline_ns(core), now_ns, "the answer is due");
        forget();
    }
    cr_expect_eq(go_on(), count - 1);
}

/* Where each tick comes late, because others have so much to say, a step is larger. */
Test(core_metrics, takes_larger_steps_when_it_takes_long, .timeout = 120)
{
    struct msg question = {.type = MSG_METRICS, .as.metrics.request = 1};
    unsigned late = 0;
    make_topics(20 * LIMIT_ANSWER_STEP);
    ask_from(OBSERVER);
    unsigned quick = ask(NULL);
    is_over = false;
    row_count = 0;
    message(OBSERVER, question);
    for (keep_rows(); !is_over; keep_rows(), late++) {
        now_ns += LIMIT_ANSWER_MS * MS_NS;
        step((struct event){.type = EVENT_TICK});
    }
    cr_expect_leq(late, quick / 3, "%u late steps, %u quick ones", late, quick);
    cr_expect_geq(late, quick / (LIMIT_WHY_STEP / LIMIT_ANSWER_STEP));
}

Test(core_metrics, cuts_its_answer_into_steps, .timeout = 120)
{
    make_topics(3 * LIMIT_ANSWER_STEP);
    ask_from(OBSERVER);
    expect_bounded(ask(NULL));
}
