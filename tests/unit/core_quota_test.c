/* SPDX-License-Identifier: MPL-2.0 */
/* core_quota_test.c -- what an access file limits: connections, jobs, open slots, bytes and the
 * rate of somebody, over all connections and jobs; at one less, as many, and one more. */
#include "broker/core/model.h"
#include "tests/unit/core_driver.h"

/* dave may be alice, too. */
enum { ALICE = 1, BOB = 2, CAROL = 3, DAVE = 4 };

static struct memory access_memory;
static struct access *table, *older;

static void read_table(const char *limits)
{
    struct access_fault fault;
    char text[1024];
    snprintf(text, sizeof text,
             "uid alice 1\nuid bob 2\nuid carol 3\nuid dave 4\n"
             "group silos alice bob\n"
             "allow silos party as alice bob carol dave alice-2 in job*\n"
             "allow carol party in job*\n"
             "allow dave party as dave alice in job*\nallow dave job status tap in job*\n%s",
             limits);
    table = access_read(&access_memory, span_text(text), &fault);
    cr_assert_not_null(table, "%u: %s", fault.line, fault.what);
    options.access = table;
}

static void limited(const char *limits)
{
    static const char *const names[] = {"", "alice", "bob", "carol", "dave"};
    memory_heap_init(&access_memory, UINT64_MAX);
    read_table(limits);
    restart();
    for (conn_id conn = 0; conn < CONNS_MAX; conn++)
        speakers[conn] = conn % 10 >= ALICE && conn % 10 <= DAVE
                             ? access_find(table, span_text(names[conn % 10]))
                             : 0;
}

/* A table with other limits comes into force. */
static void limit_anew(const char *limits)
{
    access_free(&older);
    older = table;
    read_table(limits);
    step((struct event){.type = EVENT_ACCESS, .as.access = table});
}

static void end(void)
{
    fini();
    access_free(&table);
    access_free(&older);
}

TestSuite(core_quota, .init = init, .fini = end);

static void greet(conn_id conn, const char *job, const char *party)
{
    struct msg msg = hello(conn, 0);
    msg.as.hello.job = span_text(job);
    msg.as.hello.party = span_text(party);
    message(conn, msg);
}

static const char *last_refusal(void)
{
    static char text[200];
    for (uint32_t i = 0; i < effects.msg_count; i++)
        if (effects.msgs[i].type == MSG_REFUSED)
            snprintf(text, sizeof text, "%.*s", (int)effects.msgs[i].as.refused.message.bytes,
                     (const char *)effects.msgs[i].as.refused.message.data);
    return text;
}

#define FULL "refused 4 errbus.quota\n"

/* ---- connections ----------------------------------------------------------------------------- */

Test(core_quota, counts_connections_over_all_jobs_and_of_observers)
{
    limited("limit silos connections 3\n");
    greet(ALICE, "job", "alice");
    greet(21, "job-2", "alice");
    EXPECT("1 < welcome incarnation 1\n21 < welcome incarnation 1\n");
    observe(31, "job");
    EXPECT("31 < welcome incarnation 0\n");
    observe(41, "job");
    EXPECT("41 < " FULL "41 dropped\n");
    cr_assert_str_eq(last_refusal(), "alice may have 3 connections, and has 3");
    greet(41, "job-3", "alice");
    EXPECT("41 < " FULL "41 dropped\n");
    greet(BOB, "job", "bob"); /* each member of the group has its own */
    EXPECT("2 < welcome incarnation 1\n");
    for (conn_id conn = 4; conn < 90; conn += 10)
        observe(conn, "job"); /* dave has no limit */
    forget();
    closed(31);
    forget();
    observe(41, "job");
    EXPECT("41 < welcome incarnation 0\n");
}

Test(core_quota, keeps_the_place_of_a_session_that_may_come_back)
{
    limited("limit alice connections 1\n");
    join(ALICE);
    closed(ALICE);
    forget();
    observe(21, "job");
    EXPECT("21 < " FULL "21 dropped\n");
    resume(ALICE, tokens[ALICE], 0);
    keep_lines("welcome", "refused");
    EXPECT("1 < welcome incarnation 1, resumed\n");
    closed(ALICE);
    forget();
    greet(21, "job", "alice"); /* another process in the place of the lost one */
    keep_lines("welcome", "refused");
    EXPECT("21 < welcome incarnation 2\n");
    greet(ALICE, "job", "alice-2");
    keep_lines("welcome", "refused");
    EXPECT("1 < " FULL);
}

Test(core_quota, takes_no_connection_away_when_there_may_be_fewer)
{
    limited("limit alice connections 2\n");
    observe(1, "job");
    observe(11, "job");
    forget();
    limit_anew("limit alice connections 1\n");
    EXPECT("");
    beat(1);
    beat(11);
    closed(11);
    forget();
    observe(21, "job");
    EXPECT("21 < " FULL "21 dropped\n");
    cr_assert_str_eq(last_refusal(), "alice may have 1 connections, and has 1");
    limit_anew("");
    observe(21, "job");
    EXPECT("21 < welcome incarnation 0\n");
}

/* ---- jobs ------------------------------------------------------------------------------------ */

Test(core_quota, counts_jobs_until_they_are_forgotten)
{
    limited("limit alice jobs 2\nlimit dave jobs 0\n");
    greet(1, "job-1", "alice");
    greet(11, "job-2", "alice");
    greet(BOB, "job-3", "bob");
    forget();
    greet(21, "job-4", "alice");
    EXPECT("21 < " FULL "21 dropped\n");
    cr_assert_str_eq(last_refusal(), "alice may have 2 jobs, and has 2");
    greet(21, "job-3", "alice"); /* one that bob began */
    EXPECT("21 < welcome incarnation 1\n");
    observe(DAVE, "");
    forget();
    create_job(DAVE, a_job(1, 0));
    EXPECT("4 < done 4 errbus.quota\n");
    job_name = "job-1";
    create_job(DAVE, a_job(1, 0)); /* it is there */
    cr_expect_null(strstr(said, "quota"), "%s", said);
    job_name = "job";
    closed(11);
    pass_ms(2500); /* grace, then linger */
    forget();
    greet(31, "job-4", "alice");
    EXPECT("31 < welcome incarnation 1\n");
}

Test(core_quota, knows_after_a_restart_whose_a_job_is)
{
    limited("limit alice jobs 1\n");
    join(ALICE);
    leave(ALICE, 0);
    crash(0);
    greet(ALICE, "job-2", "alice");
    EXPECT("1 < " FULL "1 dropped\n");
    compact();
    crash(0);
    greet(ALICE, "job-2", "alice");
    EXPECT("1 < " FULL "1 dropped\n");
}

/* ---- open slots ------------------------------------------------------------------------------ */

Test(core_quota, counts_open_slots_over_all_topics_and_lets_them_end)
{
    limited("limit alice open-slots 3\n");
    join(ALICE);
    uint32_t a = open_topic(ALICE, "alice/a");
    uint32_t b = open_topic(ALICE, "alice/b");
    reserve(ALICE, a, 0);
    reserve(ALICE, b, 0);
    reserve(ALICE, b, 1);
    keep_lines("refusal", "refusal");
    EXPECT("");
    reserve(ALICE, a, 1);
    keep_lines("refusal", "refusal");
    EXPECT("1 < refusal #1 (rejected of alice)\n");
    cr_assert_str_eq(error_message, "alice may have 3 open slots, and has 3");
    publish(ALICE, a, 2, 1, 7); /* that is settled at once */
    commit(ALICE, a, 0, 8);
    fail(ALICE, b, 0, frames[ALICE]);
    keep_lines("refusal", "refusal");
    EXPECT("");
    reserve(ALICE, a, 3);
    reserve(ALICE, a, 4);
    keep_lines("refusal", "refusal");
    EXPECT("");
    reserve(ALICE, a, 5);
    keep_lines("refusal", "refusal");
    EXPECT("1 < refusal #5 (rejected of alice)\n");
}

Test(core_quota, settles_all_that_is_open_when_there_may_be_less)
{
    limited("");
    join(ALICE);
    uint32_t a = open_topic(ALICE, "alice/a");
    for (uint64_t seq = 0; seq < 4; seq++)
        reserve(ALICE, a, seq);
    limit_anew("limit alice open-slots 1\n");
    commit(ALICE, a, 0, 8);
    fail(ALICE, a, 1, frames[ALICE]);
    commit(ALICE, a, 2, 9);
    keep_lines("refusal", "refusal");
    EXPECT("");
    reserve(ALICE, a, 4);
    keep_lines("refusal", "refusal");
    EXPECT("1 < refusal #4 (rejected of alice)\n");
}

Test(core_quota, counts_a_party_for_whoever_joined_as_it_last)
{
    limited("limit alice open-slots 1 bytes 1000\nlimit dave open-slots 2 bytes 2000\n");
    join(ALICE);
    uint32_t a = open_topic(ALICE, "alice/a");
    reserve(ALICE, a, 0);
    publish(ALICE, a, 1, 1, 7);
    leave(ALICE, frames[ALICE]);
    forget();
    greet(24, "job", "alice"); /* dave's key; its values are dave's now, as the census says */
    EXPECT("24 < welcome incarnation 2\n");
    crash(0);
    compact();
    crash(0);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* A value of 16 bytes counts 40; so much of the limit is left without values. */
static uint64_t value_weight(void)
{
    return frame_total(16);
}

Test(core_quota, counts_bytes_that_readers_have_not_taken)
{
    char limits[100];
    uint64_t weight = value_weight();
    snprintf(limits, sizeof limits, "limit alice bytes %d\n", (int)(3 * weight));
    limited(limits);
    uint32_t a = open_for_bob();
    uint32_t b = open_topic(ALICE, "alice/b");
    subscribe(BOB, 2, "alice/b", "keep", 0,
              0); /* a durable name: needed until it is acknowledged */
    publish(ALICE, b, 0, 1, 5);
    publish(ALICE, b, 1, 2, 6);
    keep_lines("refusal", "refusal");
    EXPECT("");
    publish(ALICE, b, 3, 1, 7);
    keep_lines("refusal", "refusal");
    EXPECT("1 < refusal #3 (rejected of alice)\n");
    char expected[100];
    snprintf(expected, sizeof expected, "alice may have %d bytes, and has %d", (int)(3 * weight),
             (int)(3 * weight));
    cr_assert_str_eq(error_message, expected);
    publish(ALICE, a, 0, 1, 8); /* another topic of hers */
    keep_lines("refusal", "refusal");
    EXPECT("1 < refusal #0 (rejected of alice)\n");
}

Test(core_quota, drops_what_nobody_needs_before_it_refuses)
{
    char limits[100];
    snprintf(limits, sizeof limits, "limit alice bytes %d\n", (int)(3 * value_weight()));
    limited(limits);
    join(ALICE);
    uint32_t a = open_topic(ALICE, "alice/a");
    uint32_t b = open_topic(ALICE, "alice/b");
    for (uint64_t seq = 0; seq < 10; seq++) {
        publish(ALICE, a, seq, 1, 5);
        publish(ALICE, b, seq, 1, 5);
    }
    keep_lines("refusal", "refusal");
    EXPECT("");
    publish(ALICE, a, 10, 4, 5); /* more than there may ever be */
    keep_lines("refusal", "refusal");
    cr_assert_not_null(strstr(said, "1 < refusal #10"), "%s", said);
}

Test(core_quota, ends_an_open_slot_at_once_whose_value_is_too_much)
{
    char limits[100];
    snprintf(limits, sizeof limits, "limit alice bytes %d\n",
             (int)(2 * COST_SLOT_BYTES + value_weight()));
    limited(limits);
    uint32_t a = open_for_bob();
    reserve(ALICE, a, 0);
    reserve(ALICE, a, 1);
    forget();
    batch(ALICE, 5,
          (struct event_range){
              .kind = FRAME_COMMIT, .topic = a, .seq = 0, .value_bytes = 5 * COST_SLOT_BYTES});
    keep_lines("refusal", "12 < ");
    EXPECT("1 < refusal #0 (rejected of alice)\n12 < sub 1 error #0 (rejected of alice)\n");
    fail(ALICE, a, 1, frames[ALICE]); /* an error needs no room */
    keep_lines("refusal", "12 < ");
    EXPECT("12 < sub 1 error #1 (application of alice)\n");
}

/* ---- topics and subscriptions ---------------------------------------------------------------- */

static void ask_topic(conn_id conn, const char *name)
{
    forget();
    message(conn, (struct msg){.type = MSG_TOPIC_OPEN,
                               .as.topic_open = {.request = 5, .topic = span_text(name)}});
    keep_lines("opened", "opened");
}

/* Sets error_message. */
static void read_answer(void)
{
    for (uint32_t i = 0; i < effects.msg_count; i++)
        if (effects.msgs[i].type == MSG_TOPIC_OPENED)
            say_error(effects.msgs[i].as.topic_opened.error);
    forget();
}

Test(core_quota, counts_topics_that_their_writer_opened)
{
    limited("limit alice topics 2\n");
    join(ALICE);
    join(BOB);
    await_slot(BOB, 1, "alice/waited", 0); /* others cannot use up what she may have */
    await_slot(BOB, 2, "alice/for", 0);
    ask_topic(ALICE, "alice/a");
    EXPECT("1 < opened 0 next 0\n");
    ask_topic(ALICE, "alice/b");
    EXPECT("1 < opened 0 next 0\n");
    ask_topic(ALICE, "alice/c");
    EXPECT("1 < opened 4 next 0\n");
    read_answer();
    cr_assert_str_eq(error_message, "alice may have 2 topics, and has 2");
    ask_topic(ALICE, "alice/waited"); /* one that the broker knows by name */
    EXPECT("1 < opened 4 next 0\n");
    ask_topic(ALICE, "alice/a"); /* again */
    EXPECT("1 < opened 0 next 0\n");
    for (int i = 0; i < 2; i++) { /* over restarts, too */
        crash(0);
        resume(ALICE, tokens[ALICE], 0);
        ask_topic(ALICE, "alice/c");
        EXPECT("1 < opened 4 next 0\n");
        compact();
    }
    limit_anew("limit alice topics 3\n");
    ask_topic(ALICE, "alice/c");
    EXPECT("1 < opened 0 next 0\n");
    limit_anew("limit alice topics 1\n"); /* nothing is taken away */
    ask_topic(ALICE, "alice/b");
    EXPECT("1 < opened 0 next 0\n");
    ask_topic(ALICE, "alice/d");
    EXPECT("1 < opened 4 next 0\n");
}

Test(core_quota, counts_subscriptions_over_all_jobs_and_durable_names)
{
    limited("limit bob subscriptions 3\n");
    join(BOB);
    subscribe(BOB, 1, "alice/a", "", 0, 0);
    subscribe(BOB, 2, "alice/a", "kept", 0, 0);
    keep_lines("subscribed", "subscribed");
    EXPECT("2 < subscribed 0\n2 < subscribed 0\n");
    job_name = "job-2";
    join(22);
    job_name = "job";
    subscribe(22, 1, "alice/#", "", 0, 0);
    keep_lines("subscribed", "subscribed");
    EXPECT("22 < subscribed 0\n");
    subscribe(22, 2, "alice/#", "", 0, 0);
    subscribe(BOB, 3, "alice/b", "other", 0, 0);
    keep_lines("subscribed", "subscribed");
    EXPECT("22 < subscribed 4\n2 < subscribed 4\n");
    leave(BOB, 0); /* its durable name stays, and counts */
    forget();
    subscribe(22, 3, "alice/#", "", 0, 0);
    subscribe(22, 4, "alice/x", "", 0, 0);
    keep_lines("subscribed", "subscribed");
    EXPECT("22 < subscribed 0\n22 < subscribed 4\n");
    crash(0);
    job_name = "job";
    greet(BOB, "job", "bob");
    attach(BOB, BOB + 10, tokens[BOB]);
    numbers[BOB] = frames[BOB] = 0;
    subscribe(BOB, 1, "alice/a", "kept", 0, 0); /* it is there, and no new one */
    keep_lines("subscribed", "subscribed");
    EXPECT("2 < subscribed 0\n");
    limit_anew("limit bob subscriptions 1\n");
    subscribe(BOB, 2, "alice/b", "", 0, 0);
    keep_lines("subscribed", "subscribed");
    EXPECT("2 < subscribed 4\n");
}

/* ---- bytes of attachments -------------------------------------------------------------------- */

static char brought[100]; /* what came of the last piece */
static const char *brought_to = "job";

static void bring(conn_id conn, const char *error, const char *name)
{
    message(conn, (struct msg){.type = MSG_BRING,
                               .as.bring = {.request = 7,
                                            .job = span_text(brought_to),
                                            .error = span_text(error),
                                            .name = span_text(name),
                                            .promised = ERROR_BYTES_UNKNOWN}});
}

static void piece(conn_id conn, uint32_t bytes)
{
    static char content[4096];
    static payload_id payload = 500;
    struct msg msg = {.type = MSG_PIECE,
                      .as.piece = {.request = 7, .is_last = 1, .bytes = span_of(content, bytes)}};
    step((struct event){.type = EVENT_MESSAGE,
                        .conn = conn + 10,
                        .principal = speakers[conn],
                        .payload = ++payload,
                        .as.msg = &msg});
    for (uint32_t i = 0; i < effects.msg_count; i++)
        if (effects.msgs[i].type == MSG_BROUGHT)
            snprintf(brought, sizeof brought, "code %u, state %u",
                     (unsigned)effects.msgs[i].as.brought.code,
                     (unsigned)effects.msgs[i].as.brought.state);
    forget();
}

static void expect_brought(conn_id conn, const char *error, const char *name, uint32_t bytes,
                           bool has_room)
{
    bring(conn, error, name);
    piece(conn, bytes);
    if (has_room)
        cr_expect_str_eq(brought, "code 0, state 2", "%s: %s", name, brought);
    else
        cr_expect_str_eq(brought, "code 4, state 4", "%s: %s", name, brought);
}

Test(core_quota, counts_bytes_of_attachments_by_the_party_of_the_error)
{
    limited("limit alice attachments 1000\n");
    join(ALICE);
    join(BOB);
    observe(21, "job"); /* a courier of alice, and one of bob */
    observe(22, "job");
    attach(21, 31, tokens[21]);
    attach(22, 32, tokens[22]);
    forget();
    expect_brought(21, "job/alice/1/1", "a", 400, true);
    expect_brought(21, "job/alice/1/1", "b", 599, true);
    expect_brought(21, "job/alice/1/2", "c", 2, false);
    expect_brought(21, "job/alice/1/2", "d", 1, true);
    expect_brought(22, "job/bob/1/1", "a", 4000, true);
    crash(0);
    compact();
    crash(0);
    observe(21, "job");
    attach(21, 31, tokens[21]);
    forget();
    expect_brought(21, "job/alice/1/3", "e", 1, false);
    limit_anew("limit alice attachments 1001\n");
    expect_brought(21, "job/alice/1/4", "f", 1, true);
}

/* ---- over two connections and two jobs ------------------------------------------------------- */

/* What alice may have is shared by both: as many as the limit pass, on whichever connection, and
 * then none does on either. */
enum { ELSEWHERE = 21, COURIER = 41, COURIER_ELSEWHERE = 61, MAY_HAVE = 4 };
static const conn_id shared[] = {ALICE, ELSEWHERE};
static uint32_t shared_topics[2];

static void join_two(const char *limits)
{
    limited(limits);
    job_name = "job-2";
    join(ELSEWHERE);
    job_name = "job";
    join(ALICE);
}

static void open_two(void)
{
    shared_topics[0] = open_topic(ALICE, "alice/a");
    shared_topics[1] = open_topic(ELSEWHERE, "alice/b");
}

static bool was_refused(void)
{
    bool is_refused = strstr(said, "refusal") != NULL;
    cr_expect_eq(is_refused, strstr(said, "rejected of alice") != NULL, "%s", said);
    forget();
    return is_refused;
}

static bool reserves(unsigned which, uint64_t seq)
{
    forget();
    reserve(shared[which], shared_topics[which], seq);
    return !was_refused();
}

static bool publishes(unsigned which, uint64_t seq)
{
    forget();
    publish(shared[which], shared_topics[which], seq, 1, 5);
    return !was_refused();
}

/* Each of them takes the next one in turn, and then one more each is too much. */
static void expect_shared(bool (*takes)(unsigned which, uint64_t seq))
{
    for (uint64_t i = 0; i < MAY_HAVE + 2; i++)
        cr_expect_eq(takes(i % 2, i / 2), i < MAY_HAVE, "number %u of %u", (unsigned)i + 1,
                     MAY_HAVE);
}

Test(core_quota, counts_open_slots_over_two_connections_and_jobs)
{
    join_two("limit alice open-slots 4\n");
    open_two();
    expect_shared(reserves);
    commit(ALICE, shared_topics[0], 0, 8); /* makes room for one, in the other job */
    cr_expect(reserves(1, MAY_HAVE / 2 + 1));
    cr_expect_not(reserves(1, MAY_HAVE / 2 + 2));
    cr_expect_not(reserves(0, MAY_HAVE / 2 + 1));
}

Test(core_quota, counts_bytes_over_two_connections_and_jobs)
{
    char limits[100];
    snprintf(limits, sizeof limits, "limit alice bytes %d\n", (int)(MAY_HAVE * value_weight()));
    join_two(limits);
    join(BOB);
    job_name = "job-2";
    join(22);
    job_name = "job";
    subscribe(BOB, 1, "alice/a", "keep", 0, 0); /* needed until they are acknowledged */
    subscribe(22, 1, "alice/b", "keep", 0, 0);
    open_two();
    expect_shared(publishes);
}

Test(core_quota, counts_one_byte_less_over_two_connections_and_jobs)
{
    char limits[100];
    snprintf(limits, sizeof limits, "limit alice bytes %d\n", (int)(MAY_HAVE * value_weight()) - 1);
    join_two(limits);
    join(BOB);
    subscribe(BOB, 1, "alice/a", "keep", 0, 0);
    open_two();
    for (uint64_t i = 0; i < MAY_HAVE - 1; i++)
        cr_expect(publishes(0, i));
    cr_expect_not(publishes(0, MAY_HAVE - 1));
    subscribe(BOB, 2, "alice/b", "", 0, 0);
    cr_expect_not(publishes(1, 0), "the other job has no more");
}

Test(core_quota, counts_topics_over_two_connections_and_jobs)
{
    static const char *const names[] = {"alice/a", "alice/b", "alice/c"};
    join_two("limit alice topics 4\n");
    for (unsigned i = 0; i < MAY_HAVE + 2; i++) {
        char expected[64];
        ask_topic(shared[i % 2], names[i / 2]);
        snprintf(expected, sizeof expected, "%u < opened %d next 0\n", shared[i % 2],
                 i < MAY_HAVE ? 0 : 4);
        EXPECT(expected);
    }
}

Test(core_quota, counts_attachments_over_two_connections_and_jobs)
{
    join_two("limit alice attachments 1000\n");
    observe(COURIER, "job");
    observe(COURIER_ELSEWHERE, "job-2");
    attach(COURIER, COURIER + 10, tokens[COURIER]);
    attach(COURIER_ELSEWHERE, COURIER_ELSEWHERE + 10, tokens[COURIER_ELSEWHERE]);
    forget();
    expect_brought(COURIER, "job/alice/1/1", "a", 500, true);
    brought_to = "job-2";
    expect_brought(COURIER_ELSEWHERE, "job-2/alice/1/1", "a", 499, true);
    expect_brought(COURIER_ELSEWHERE, "job-2/alice/1/1", "b", 2, false);
    brought_to = "job";
    expect_brought(COURIER, "job/alice/1/1", "b", 1, true);
    expect_brought(COURIER, "job/alice/1/1", "c", 1, false);
}

/* ---- the rate -------------------------------------------------------------------------------- */

/* What alice's writers do for ten seconds, and what the rate makes of it. */
enum { RATE_MS = 10000, WRITERS_MAX = 8, LINE = 0, ALL = UINT32_MAX };
struct writing {
    uint64_t rate;        /* bytes a second, in the access file */
    uint32_t value_bytes; /* with its header */
    uint32_t writers;     /* topics, one after the other on each connection */
    uint32_t connections; /* each in a job of its own */
    uint32_t offered;     /* values a second of all writers, ALL: as many as they may */
    uint32_t burst_ms;    /* they come together each so often, LINE: one after the other */
};

static uint32_t writer_topics[WRITERS_MAX];
static conn_id writer_conns[WRITERS_MAX];

static void join_writers(const struct writing *writing)
{
    static const char *const jobs[] = {"job", "job-2", "job-3", "job-4"};
    static const char *const names[] = {"alice/a", "alice/b", "alice/c", "alice/d",
                                        "alice/e", "alice/f", "alice/g", "alice/h"};
    char line[64];
    snprintf(line, sizeof line, "limit alice rate %llu\n", (unsigned long long)writing->rate);
    limited(line);
    for (uint32_t i = 0; i < writing->connections; i++) {
        job_name = jobs[i];
        join(ALICE + 20 * i);
    }
    for (uint32_t i = 0; i < writing->writers; i++) {
        writer_conns[i] = ALICE + 20 * (i % writing->connections);
        writer_topics[i] = open_topic(writer_conns[i], names[i]);
    }
}

/* How many values all writers together have had to write by then. */
static uint64_t offered_by(const struct writing *writing, int64_t ms)
{
    if (writing->offered == ALL)
        return UINT64_MAX;
    int64_t until_ms =
        writing->burst_ms != LINE ? (ms / writing->burst_ms + 1) * writing->burst_ms : ms + 1;
    return writing->offered * (uint64_t)until_ms / 1000;
}

static bool write_one(const struct writing *writing, uint32_t writer, uint64_t seq)
{
    const struct topic *topic = pool_find(&core->topics, writer_topics[writer]);
    if (topic->credit_used >= topic->credit_limit)
        return false;
    batch(writer_conns[writer], 5,
          (struct event_range){.kind = FRAME_VALUE,
                               .topic = writer_topics[writer],
                               .seq = seq,
                               .value_bytes = writing->value_bytes - (uint32_t)frame_total(0)});
    return true;
}

/* Each writer writes whenever it has something and has credit, and looks each millisecond. */
static uint64_t write_all(const struct writing *writing)
{
    uint64_t seqs[WRITERS_MAX] = {0};
    uint64_t written = 0;
    for (int64_t ms = 0; ms < RATE_MS; ms++) {
        uint64_t offered = offered_by(writing, ms);
        for (uint32_t idle = 0, i = 0; idle < writing->writers && written < offered; i++) {
            uint32_t writer = i % writing->writers;
            bool is_written = write_one(writing, writer, seqs[writer]);
            seqs[writer] += is_written;
            written += is_written;
            idle = is_written ? 0 : idle + 1;
        }
        for (uint32_t i = 0; ms % 500 == 0 && i < writing->connections; i++)
            beat(ALICE + 20 * i);
        pass_ms(1);
        forget();
    }
    return written * writing->value_bytes;
}

/* It is at most a tenth beyond the rate, and at most a tenth below what was offered of it. */
static void expect_rate(const struct writing *writing)
{
    is_alone = true;
    join_writers(writing);
    uint64_t allowed = writing->rate * RATE_MS / 1000;
    uint64_t offered = writing->offered != ALL
                           ? (uint64_t)writing->offered * writing->value_bytes * RATE_MS / 1000
                           : UINT64_MAX;
    uint64_t wanted = offered < allowed ? offered : allowed;
    uint64_t bytes = write_all(writing);
    cr_assert_leq(bytes, allowed + allowed / 10,
                  "%llu bytes, at a rate of %llu: values of %u, %u writers on %u connections, "
                  "%u offered, burst %u",
                  (unsigned long long)bytes, (unsigned long long)writing->rate,
                  writing->value_bytes, writing->writers, writing->connections, writing->offered,
                  writing->burst_ms);
    cr_assert_geq(bytes, wanted - wanted / 10,
                  "%llu bytes, at a rate of %llu: values of %u, %u writers on %u connections, "
                  "%u offered, burst %u",
                  (unsigned long long)bytes, (unsigned long long)writing->rate,
                  writing->value_bytes, writing->writers, writing->connections, writing->offered,
                  writing->burst_ms);
}

static void forget_table(void)
{
    options.access = NULL;
    restart();
    access_free(&table);
}

static void expect_rates(const struct writing *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        expect_rate(&all[i]);
        forget_table();
    }
}

/* The credit that alice's topic has so many seconds later. */
static uint64_t credit_after(uint32_t topic, int seconds)
{
    for (int i = 0; i < seconds * 2; i++) {
        beat(ALICE);
        pass_ms(500);
        forget();
    }
    return ((const struct topic *)pool_find(&core->topics, topic))->credit_limit;
}

/* Its writer writes nothing before it can write all of it. */
Test(core_quota, pays_for_a_set_of_values_as_the_rate_allows)
{
    is_alone = true;
    limited("limit alice rate 1000\n");
    join(ALICE);
    uint32_t topic = open_topic(ALICE, "alice/a");
    message(ALICE,
            (struct msg){.type = MSG_TOPIC_OPEN,
                         .as.topic_open = {
                             .request = 5, .topic = span_text("alice/a"), .needed_bytes = 8000}});
    uint64_t after_four = credit_after(topic, 4);
    cr_expect(after_four >= 3500 && after_four < 8000, "%d", (int)after_four);
    cr_expect_eq(credit_after(topic, 5), 8000);
}

/* From little to much, and by one more and one less; a value is at most a fiftieth of it all. */
Test(core_quota, keeps_any_rate_within_a_tenth_over_ten_seconds)
{
    static const struct writing all[] = {
        {1000, 100, 1, 1, ALL, LINE},         {9999, 500, 3, 1, ALL, LINE},
        {999999, 4000, 1, 1, ALL, LINE},      {1000000, 4000, 1, 1, ALL, LINE},
        {1000001, 4000, 1, 1, ALL, LINE},     {1000000, 100, 4, 1, ALL, LINE},
        {1000000, 200000, 1, 1, ALL, LINE},   {50000000, 65536, 2, 1, ALL, LINE},
        {400000000, 1000000, 4, 1, ALL, LINE}};
    expect_rates(all, sizeof all / sizeof all[0]);
}

/* A hundred values a second may be written: just less, as many and just more, twice as many; one
 * after the other, and all of half a second at once. */
Test(core_quota, lets_pass_what_is_within_the_rate_and_holds_back_what_is_beyond)
{
    static const uint32_t offered[] = {50, 99, 100, 101, 120, 200};
    for (size_t i = 0; i < 2 * sizeof offered / sizeof offered[0]; i++) {
        const struct writing writing = {400000, 4000,           1,
                                        1,      offered[i / 2], i % 2 == 0 ? LINE : 500};
        expect_rates(&writing, 1);
    }
}

/* The rate is that of the principal, however many connections, jobs and topics share it. */
Test(core_quota, keeps_the_rate_over_all_connections_of_a_principal)
{
    static const struct writing all[] = {{1000000, 4000, 4, 1, ALL, LINE},
                                         {1000000, 4000, 2, 2, ALL, LINE},
                                         {1000000, 4000, 8, 4, ALL, LINE},
                                         {1000000, 50000, 8, 4, ALL, LINE},
                                         {1000000, 4000, 8, 4, 500, 1000}};
    expect_rates(all, sizeof all / sizeof all[0]);
}

/* Larger than what flows in a tenth of a second. */
Test(core_quota, lets_large_values_be_a_debt)
{
    static const struct writing writing = {1000000, 400000, 2, 1, ALL, LINE};
    expect_rates(&writing, 1);
}

Test(core_quota, never_lets_an_outcome_wait_for_the_rate)
{
    is_alone = true;
    limited("limit alice rate 1000000\n");
    join(ALICE);
    uint32_t a = open_topic(ALICE, "alice/a");
    for (uint64_t seq = 0; seq < 30; seq++)
        reserve(ALICE, a, seq);
    forget();
    for (uint64_t seq = 0; seq < 20; seq++)
        batch(ALICE, 5,
              (struct event_range){
                  .kind = FRAME_COMMIT, .topic = a, .seq = seq, .value_bytes = 100000});
    for (uint64_t seq = 20; seq < 30; seq++)
        fail(ALICE, a, seq, frames[ALICE]);
    const struct topic *topic = pool_find(&core->topics, a);
    cr_assert_eq(topic->open_count, 0);
    keep_lines("refusal", "refusal");
    EXPECT("");
    /* 2 MB without credit are a debt: nothing more is granted for about two seconds */
    uint32_t b = open_topic(ALICE, "alice/b");
    topic = pool_find(&core->topics, b);
    cr_assert_eq(topic->credit_limit, 0);
    pass_ms(1500);
    cr_assert_eq(topic->credit_limit, 0);
    pass_ms(600);
    cr_assert_gt(topic->credit_limit, 0);
}

Test(core_quota, lets_a_writer_go_on_when_the_rate_is_not_limited_any_more)
{
    limited("limit alice rate 0\n");
    join(ALICE);
    uint32_t a = open_topic(ALICE, "alice/a");
    const struct topic *topic = pool_find(&core->topics, a);
    pass_ms(500);
    cr_assert_eq(topic->credit_limit, 0);
    limit_anew("limit alice rate 1000\n");
    pass_ms(100);
    cr_assert_gt(topic->credit_limit, 0);
    cr_assert_leq(topic->credit_limit, 500);
    limit_anew("");
    publish(ALICE, a, 0, 1, 5);
    cr_assert_gt(topic->credit_limit, 100000);
}

Test(core_quota, says_who_waits_for_the_rate)
{
    is_alone = true;
    limited("limit alice rate 1000\n");
    join(ALICE);
    observe(DAVE, "job");
    uint32_t a = open_topic(ALICE, "alice/a");
    batch(ALICE, 5, (struct event_range){.kind = FRAME_VALUE, .topic = a, .value_bytes = 20000});
    message(ALICE,
            (struct msg){.type = MSG_WAITING,
                         .as.waiting = {.room_ms = 500, .room_topic = span_text("alice/a")}});
    forget();
    message(DAVE, (struct msg){.type = MSG_WHY, .as.why = {.request = 1, .job = span_text("job")}});
    for (int i = 0; i < 10; i++)
        step((struct event){.type = EVENT_TICK});
    EXPECT("4 < rate alice:  x1000\n"
           "4 < alice: running\n"
           "4 < alice -> rate alice: rate x1 alice/a#1 since 500 ms, blocked\n"
           "4 < why 0 \n");
}
