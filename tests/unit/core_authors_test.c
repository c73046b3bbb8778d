/* SPDX-License-Identifier: MPL-2.0 */
/* core_authors_test.c -- causes that a client brings with its error: whose word they are, and that
 * nobody speaks for others. */
#include "tests/unit/core_driver.h"

#include <stdlib.h>

static struct memory access_memory;
static struct access *table;

static void end(void)
{
    fini();
    access_free(&table);
}

TestSuite(core_authors, .init = init, .fini = end);

enum { TOLD_MAX = 8 };

/* An error of a client: the first is the error itself, and each leads to the next. */
struct telling {
    const char *id;
    const char *party;
    const char *message;
    int64_t occurred_ns;
    enum error_kind kind;
    bool is_alone; /* it leads to none, though one follows */
};

static struct span encode(const struct telling *told, uint32_t count)
{
    static const struct error_attached attached = {.name = {"log", 3}, .bytes = 10};
    uint8_t list[ERROR_ATTACHED_BYTES_MAX];
    struct error_record records[TOLD_MAX];
    size_t bytes;
    for (uint32_t i = 0; i < count; i++) {
        struct error_record *record = &records[i];
        error_record_init(record);
        record->id = span_text(told[i].id);
        record->job = span_text("job");
        record->party = span_text(told[i].party);
        record->message = span_text(told[i].message);
        record->kind = told[i].kind;
        record->occurred_ns = told[i].occurred_ns;
        record->incarnation = 1;
        record->attempt = 1;
        record->attachments = span_of(list, error_attached_write(&attached, 1, list));
        if (i + 1 < count && !told[i].is_alone)
            record->causes[record->cause_count++] = i + 1;
    }
    cr_assert_eq(error_encode(records, count, error_bytes, sizeof error_bytes, &bytes), WIRE_OK);
    return span_of(error_bytes, bytes);
}

/* The next slot of the topic of a party fails with what it tells. */
static void fail_slot(conn_id conn, uint64_t seq, const struct telling *told, uint32_t count)
{
    static uint32_t topics[CONNS_MAX];
    static const char *const names[] = {"", "alice/a", "bob/a", "carol/a"};
    if (seq == 0)
        topics[conn] = open_topic(conn, names[conn]);
    reserve(conn, topics[conn], seq);
    forget();
    message(conn, (struct msg){.type = MSG_FAIL,
                               .as.fail = {.number = ++numbers[conn],
                                           .after = frames[conn],
                                           .topic = topics[conn],
                                           .seq = seq,
                                           .error = encode(told, count)}});
}

#define FAIL_SLOT(conn, seq, ...)                                                                  \
    fail_slot((conn), (seq), (const struct telling[]){__VA_ARGS__},                                \
              sizeof((const struct telling[]){__VA_ARGS__}) / sizeof(struct telling))

static struct error_record shown[LIMIT_ERROR_RECORDS];
static uint32_t shown_count;
static uint8_t shown_bytes[LIMIT_ERROR_BYTES];

/* As a line for each record of the error that the tap was told last: "bob 'text' (job/bob/1/1)", or
 * "alice says bob ...", and the numbers of its causes. */
static void expect_shown(const char *wanted)
{
    char text[4096] = "";
    size_t at = 0;
    size_t bytes = 0;
    for (uint32_t i = 0; i < effects.msg_count; i++)
        if (effects.msgs[i].type == MSG_EVENT && effects.msgs[i].as.event.error.bytes > 0) {
            bytes = effects.msgs[i].as.event.error.bytes;
            memcpy(shown_bytes, effects.msgs[i].as.event.error.data, bytes);
        }
    cr_assert_eq(
        error_decode(span_of(shown_bytes, bytes), shown, LIMIT_ERROR_RECORDS, &shown_count),
        WIRE_OK);
    for (uint32_t i = 0; i < shown_count; i++) {
        const struct error_record *record = &shown[i];
        at += (size_t)snprintf(text + at, sizeof text - at, "%.*s%s%.*s '%.*s' (%.*s)",
                               (int)record->claimed_by.bytes, (const char *)record->claimed_by.data,
                               record->claimed_by.bytes > 0 ? " says " : "",
                               (int)record->party.bytes, (const char *)record->party.data,
                               (int)record->message.bytes, (const char *)record->message.data,
                               (int)record->id.bytes, (const char *)record->id.data);
        for (uint32_t k = 0; k < record->cause_count; k++)
            at += (size_t)snprintf(text + at, sizeof text - at, " <- %u", record->causes[k]);
        at += (size_t)snprintf(text + at, sizeof text - at, "\n");
    }
    cr_expect_str_eq(text, wanted);
}

static void meet(void)
{
    join_all(3);
    tap(5);
}

#define BOBS "bob 'the disk is full' (job/bob/1/1)"
#define BOB_TELLS                                                                                  \
    {                                                                                              \
        .id = "job/bob/1/1", .party = "bob", .message = "the disk is full", .occurred_ns = 77      \
    }

/* ---- claims ---------------------------------------------------------------------------------- */

Test(core_authors, shows_as_a_claim_what_its_party_never_said)
{
    meet();
    FAIL_SLOT(1, 0, {.id = "job/alice/1/1", .message = "no data"},
              {.id = "job/bob/1/1", .party = "bob", .message = "bob deleted it"},
              {.id = "job/carol/1/7", .party = "carol", .message = "carol told him to"});
    expect_shown("alice 'no data' (job/alice/1/1) <- 1\n"
                 "alice says bob 'bob deleted it' (job/bob/1/1) <- 2\n"
                 "alice says carol 'carol told him to' (job/carol/1/7)\n");
    cr_expect(shown[0].attachments.bytes > 0);
    cr_expect_eq(shown[1].attachments.bytes, 0, "nobody lists what another brings");
}

Test(core_authors, shows_what_its_party_said_and_not_what_others_make_of_it)
{
    meet();
    FAIL_SLOT(2, 0, BOB_TELLS);
    FAIL_SLOT(1, 0, {.id = "job/alice/1/1", .message = "no data"},
              {.id = "job/bob/1/1", .party = "carol", .message = "bob deleted it"},
              {.id = "job/carol/1/7", .party = "carol", .message = "carol told him to"});
    expect_shown("alice 'no data' (job/alice/1/1) <- 1\n" BOBS "\n");
    cr_expect_eq(shown[1].occurred_ns, 77);
}

/* bob and carol failed, each for a reason of its own. */
Test(core_authors, links_no_error_of_others_to_another)
{
    meet();
    FAIL_SLOT(2, 0, BOB_TELLS);
    FAIL_SLOT(3, 0, {.id = "job/carol/1/1", .message = "out of memory"});
    FAIL_SLOT(1, 0, {.id = "job/alice/1/1", .message = "no data"}, BOB_TELLS,
              {.id = "job/carol/1/1", .party = "carol", .message = "out of memory"});
    expect_shown("alice 'no data' (job/alice/1/1) <- 1\n" BOBS "\n");
}

/* bob names carol's error as his cause; alice tells of his alone. */
Test(core_authors, shows_all_that_led_to_the_error_of_another)
{
    meet();
    FAIL_SLOT(3, 0, {.id = "job/carol/1/1", .message = "out of memory"});
    FAIL_SLOT(2, 0, BOB_TELLS, {.id = "job/carol/1/1", .party = "carol"},
              {.id = "job/alice/1/1", .party = "alice", .message = "alice did it"});
    expect_shown(BOBS " <- 1\ncarol 'out of memory' (job/carol/1/1)\n");
    FAIL_SLOT(2, 1, {.id = "job/bob/1/3", .message = "again", .is_alone = false},
              {.id = "job/alice/1/9", .party = "alice", .message = "alice did it"},
              {.id = "job/carol/1/1", .party = "carol"});
    expect_shown("bob 'again' (job/bob/1/3) <- 1\n"
                 "bob says alice 'alice did it' (job/alice/1/9) <- 2\n"
                 "carol 'out of memory' (job/carol/1/1)\n");
    FAIL_SLOT(1, 0, {.id = "job/alice/1/1", .message = "no data"}, {.id = "job/bob/1/3"});
    expect_shown("alice 'no data' (job/alice/1/1) <- 1\n"
                 "bob 'again' (job/bob/1/3) <- 2\n"
                 "bob says alice 'alice did it' (job/alice/1/9) <- 3\n"
                 "carol 'out of memory' (job/carol/1/1)\n");
}

/* alice claims carol's error, which the broker knows from bob's chain alone. */
Test(core_authors, puts_no_claim_into_the_chain_of_another)
{
    meet();
    FAIL_SLOT(2, 0, BOB_TELLS, {.id = "job/carol/1/1", .party = "carol", .message = "she did it"});
    FAIL_SLOT(1, 0, {.id = "job/alice/1/1", .message = "no data"}, BOB_TELLS,
              {.id = "job/carol/1/1", .party = "carol", .message = "alice is right"});
    expect_shown("alice 'no data' (job/alice/1/1) <- 1\n" BOBS
                 " <- 2\nbob says carol 'she did it' (job/carol/1/1)\n");
    FAIL_SLOT(1, 1, {.id = "job/alice/1/3", .message = "again"},
              {.id = "job/carol/1/1", .party = "carol", .message = "alice is right"}, BOB_TELLS);
    expect_shown("alice 'again' (job/alice/1/3) <- 1\n"
                 "alice says carol 'alice is right' (job/carol/1/1) <- 2\n" BOBS
                 " <- 3\nbob says carol 'she did it' (job/carol/1/1)\n");
}

/* Even numbers are the broker's.  An id of the client's own job and party says nothing yet. */
Test(core_authors, takes_no_word_of_the_broker_from_a_client)
{
    meet();
    FAIL_SLOT(1, 0, {.id = "job/alice/1/1", .message = "no data"},
              {.id = "job/alice/1/2", .party = "alice", .kind = ERROR_PARTY_LOST},
              {.id = "job//0/1", .message = "the job is over"});
    expect_shown("alice 'no data' (job/alice/1/1) <- 1\n"
                 "alice says alice '' (job/alice/1/2) <- 2\n"
                 "alice says  'the job is over' (job//0/1)\n");
    FAIL_SLOT(1, 1, {.id = "job/alice/1/2", .message = "mine"});
    expect_shown("alice 'mine' (job/alice/1/2)\n"); /* the broker gave this number, just now */
    FAIL_SLOT(1, 2, {.id = "job/alice/1/4x", .message = "mine"});
    expect_shown("alice 'mine' (job/alice/1/4)\n");
    FAIL_SLOT(1, 3, {.id = "job/alice/2/1", .message = "not yet"});
    expect_shown("alice 'not yet' (job/alice/1/6)\n");
}

Test(core_authors, lets_a_client_say_the_kinds_of_its_own_errors_alone)
{
    static const struct {
        enum error_kind said, shown;
    } kinds[] = {
        {ERROR_APPLICATION, ERROR_APPLICATION}, {ERROR_DEPENDENCY, ERROR_DEPENDENCY},
        {ERROR_CANCELLED, ERROR_CANCELLED},     {ERROR_TERMINATED, ERROR_TERMINATED},
        {ERROR_PARTY_LOST, ERROR_APPLICATION},  {ERROR_DEADLINE, ERROR_APPLICATION},
        {ERROR_WORKER_LOST, ERROR_APPLICATION}, {ERROR_KIND_COUNT + 5, ERROR_APPLICATION},
    };
    meet();
    for (uint32_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        char id[32], cause[32];
        snprintf(id, sizeof id, "job/alice/1/%u", 4 * i + 1);
        snprintf(cause, sizeof cause, "job/alice/1/%u", 4 * i + 3);
        FAIL_SLOT(1, i, {.id = id, .kind = kinds[i].said}, {.id = cause, .kind = kinds[i].said});
        char wanted[200];
        snprintf(wanted, sizeof wanted, "alice '' (%s) <- 1\nalice '' (%s)\n", id, cause);
        expect_shown(wanted);
        cr_expect_eq(shown[0].kind, kinds[i].shown, "%u", kinds[i].said);
        cr_expect_eq(shown[1].kind, kinds[i].shown, "%u", kinds[i].said);
    }
}

/* ---- what is known --------------------------------------------------------------------------- */

Test(core_authors, knows_an_error_after_a_restart)
{
    meet();
    FAIL_SLOT(2, 0, BOB_TELLS);
    FAIL_SLOT(2, 1, {.id = "job/bob/1/3", .message = "it was"},
              {.id = "job/carol/1/1", .party = "carol", .message = "she did it"});
    crash(0);
    reconnect(1);
    tap(5);
    FAIL_SLOT(1, 0, {.id = "job/alice/1/1", .message = "no data"}, {.id = "job/bob/1/3"});
    expect_shown("alice 'no data' (job/alice/1/1) <- 1\nbob 'it was' (job/bob/1/3) <- 2\n"
                 "bob says carol 'she did it' (job/carol/1/1)\n");
}

/* What one error has in its chain, and another one too, is there once. */
Test(core_authors, shows_a_common_cause_once)
{
    meet();
    FAIL_SLOT(3, 0, {.id = "job/carol/1/1", .message = "out of memory"});
    FAIL_SLOT(2, 0, BOB_TELLS, {.id = "job/carol/1/1"});
    FAIL_SLOT(2, 1, {.id = "job/bob/1/3", .message = "and"}, {.id = "job/carol/1/1"});
    struct error_record records[4];
    size_t bytes;
    static const char *const ids[] = {"job/alice/1/1", "job/bob/1/1", "job/bob/1/3",
                                      "job/carol/1/1"};
    for (uint32_t i = 0; i < 4; i++) {
        error_record_init(&records[i]);
        records[i].id = span_text(ids[i]);
    }
    records[0].cause_count = 3;
    for (uint32_t i = 0; i < 3; i++)
        records[0].causes[i] = i + 1;
    cr_assert_eq(error_encode(records, 4, error_bytes, sizeof error_bytes, &bytes), WIRE_OK);
    break_down_with(1, 0, span_of(error_bytes, bytes));
    expect_shown("alice '' (job/alice/1/1) <- 2 <- 1 <- 3\nbob 'and' (job/bob/1/3) <- 3\n" BOBS
                 " <- 3\ncarol 'out of memory' (job/carol/1/1)\n");
}

/* Copies are many times as long as the message that asks for them: the rest is left out. */
Test(core_authors, reads_so_many_copies_and_no_more)
{
    enum { MANY = 40 };
    static char filler[LIMIT_ERROR_MESSAGE_BYTES];
    static struct error_record records[MANY + 1];
    static char ids[MANY][32];
    size_t bytes;
    is_alone = true;
    meet();
    memset(filler, 'x', sizeof filler);
    uint32_t topic = open_topic(2, "bob/a");
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(ids[i], sizeof ids[i], "job/bob/1/%u", 32 * i + 1);
        for (uint32_t k = 0; k < 14; k++) {
            static char own[14][32];
            snprintf(own[k], sizeof own[k], "job/bob/1/%u", 32 * i + 2 * k + 1);
            error_record_init(&records[k]);
            records[k].id = span_text(own[k]);
            records[k].message = span_of(filler, sizeof filler);
            if (k < 13)
                records[k].causes[records[k].cause_count++] = k + 1;
        }
        cr_assert_eq(error_encode(records, 14, error_bytes, sizeof error_bytes, &bytes), WIRE_OK);
        reserve(2, topic, i);
        message(2, (struct msg){.type = MSG_FAIL,
                                .as.fail = {.number = ++numbers[2],
                                            .after = frames[2],
                                            .topic = topic,
                                            .seq = i,
                                            .error = span_of(error_bytes, bytes)}});
        forget();
    }
    error_record_init(&records[0]);
    records[0].id = span_text("job/alice/1/1");
    for (uint32_t i = 0; i < MANY; i++) {
        error_record_init(&records[i + 1]);
        records[i + 1].id = span_text(ids[i]);
        if (i > 0)
            records[i].causes[records[i].cause_count++] = i + 1;
    }
    records[0].causes[records[0].cause_count++] = 1;
    records[0].causes[records[0].cause_count++] = MANY;
    cr_assert_eq(error_encode(records, MANY + 1, error_bytes, sizeof error_bytes, &bytes), WIRE_OK);
    break_down_with(1, 0, span_of(error_bytes, bytes));
    uint64_t all = 0;
    for (uint32_t i = 0; i < effects.msg_count; i++)
        if (effects.msgs[i].type == MSG_EVENT && effects.msgs[i].as.event.error.bytes > 0)
            cr_assert_eq(error_decode(effects.msgs[i].as.event.error, shown, LIMIT_ERROR_RECORDS,
                                      &shown_count),
                         WIRE_OK);
    for (uint32_t i = 0; i < shown_count; i++) {
        all += shown[i].left_out;
        cr_expect_eq(shown[i].claimed_by.bytes, 0);
    }
    cr_expect_geq(all, 1, "what has no room is counted");
}

/* ---- with an access file --------------------------------------------------------------------- */

static void begin_with_access(void)
{
    static const char rules[] = "uid alice 1\nuid bob 2\nuid ops 5\n"
                                "allow alice party reads alice/# in job\n"
                                "allow bob party in job\n"
                                "allow ops tap status in job\n";
    struct access_fault fault;
    memory_heap_init(&access_memory, UINT64_MAX);
    table = access_read(&access_memory, span_text(rules), &fault);
    cr_assert_not_null(table, "%u: %s", fault.line, fault.what);
    options.access = table;
    restart();
    speakers[1] = speakers[11] = access_find(table, span_text("alice"));
    speakers[2] = speakers[12] = access_find(table, span_text("bob"));
    speakers[5] = access_find(table, span_text("ops"));
    join(1);
    join(2);
    tap(5);
}

/* Ids are easy to guess.  alice reads her own slots. */
Test(core_authors, tells_nobody_an_error_for_its_id)
{
    begin_with_access();
    FAIL_SLOT(2, 0, BOB_TELLS);
    FAIL_SLOT(1, 0, {.id = "job/alice/1/1", .message = "no data"},
              {.id = "job/bob/1/1", .party = "bob", .message = "guessed", .occurred_ns = 78});
    expect_shown("alice 'no data' (job/alice/1/1) <- 1\n"
                 "alice says bob 'guessed' (job/bob/1/1)\n");
    FAIL_SLOT(1, 1, {.id = "job/alice/1/3", .message = "no data"},
              {.id = "job/bob/1/5", .party = "bob", .message = "guessed"});
    expect_shown("alice 'no data' (job/alice/1/3) <- 1\n"
                 "alice says bob 'guessed' (job/bob/1/5)\n");
    FAIL_SLOT(1, 2, {.id = "job/alice/1/5", .message = "no data"}, BOB_TELLS);
    expect_shown("alice 'no data' (job/alice/1/5) <- 1\n" BOBS "\n"); /* she was told */
}

/* ---- the verdict ----------------------------------------------------------------------------- */

static void verdict_with_a_liar(bool is_lying, char *out_said, size_t room)
{
    restart();
    meet();
    observe(4, "");
    FAIL_SLOT(3, 0, {.id = "job/carol/1/1", .message = "out of memory"});
    const struct telling told[] = {
        {.id = "job/alice/1/1", .message = "no data", .occurred_ns = 900},
        {.id = "job/bob/1/1", .party = "bob", .message = "bob did it", .occurred_ns = 800},
        {.id = "job/carol/1/1", .party = "carol", .occurred_ns = 1},
        {.id = "job/bob/1/2", .party = "bob", .kind = ERROR_PARTY_LOST, .occurred_ns = 2}};
    break_down_with(1, 0, encode(told, is_lying ? 4 : 1));
    leave(2, 0);
    leave(3, 0);
    forget();
    ask_verdict(4, 0);
    snprintf(out_said, room, "%s", said);
}

Test(core_authors, weighs_no_claim)
{
    static char honest[4096], lied[4096];
    verdict_with_a_liar(false, honest, sizeof honest);
    cr_expect_not_null(strstr(honest, "root alice/1"), "%s", honest);
    now_ns = 1000 * MS;
    verdict_with_a_liar(true, lied, sizeof lied);
    cr_expect_str_eq(lied, honest);
}
