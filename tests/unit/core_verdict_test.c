/* SPDX-License-Identifier: MPL-2.0 */
/* core_verdict_test.c -- which errors the core weighs, when it says why a job cannot go on, and to
 * whom; in conversations as those of core_test.c. */
#include "tests/lib/draw.h"
#include "tests/unit/core_driver.h"

TestSuite(core_verdict, .init = init, .fini = fini);

#define HOUR_NS (INT64_C(3600) * 1000 * MS)

/* What a party says when it fails as a whole. */
struct failing {
    const char *id;
    const char *blames;
    const char *too;         /* it blames, or NULL */
    const char *cause_id;    /* or NULL */
    const char *cause_party; /* of incarnation 1 */
    const char *cause_says;  /* or NULL */
    int64_t cause_after_ns;  /* its stamp; 0: before it */
    int64_t stamp_ns;        /* 0: now */
    int64_t code;
    enum error_kind kind;
};

static void fail_party(conn_id conn, struct failing what, uint64_t after)
{
    struct error_record records[2];
    size_t bytes;
    error_record_init(&records[0]);
    error_record_init(&records[1]);
    records[0].id = span_text(what.id);
    records[0].kind = what.kind;
    records[0].type = span_text("app.connection_reset");
    records[0].message = span_text("connection reset by peer");
    records[0].blames = span_text(what.blames);
    if (what.too != NULL)
        records[0].more_blames[records[0].more_blame_count++] = span_text(what.too);
    records[0].code = what.code;
    records[0].occurred_ns = what.stamp_ns != 0 ? what.stamp_ns : now_ns;
    records[0].uncertainty_ns = 100;
    if (what.cause_id != NULL) {
        records[0].causes[records[0].cause_count++] = 1;
        records[1].id = span_text(what.cause_id);
        records[1].party = span_text(what.cause_party);
        records[1].message = span_text(what.cause_says);
        records[1].incarnation = 1;
        records[1].attempt = 1;
        records[1].occurred_ns =
            records[0].occurred_ns + (what.cause_after_ns != 0 ? what.cause_after_ns : -MS);
    }
    cr_assert_eq(error_encode(records, what.cause_id != NULL ? 2 : 1, error_bytes,
                              sizeof error_bytes, &bytes),
                 WIRE_OK);
    break_down_with(conn, after, span_of(error_bytes, bytes));
}

/* An observer that has nothing to do with what is said to taps. */
static void observe_long(conn_id conn)
{
    struct msg msg = hello(conn, 0);
    msg.as.hello.role = 1;
    msg.as.hello.party = SPAN_NONE;
    msg.as.hello.job = SPAN_NONE;
    msg.as.hello.lost_after_ms = LIMIT_PERIOD_MS_MAX;
    message(conn, msg);
    forget();
}

/* The witnesses of a death speak before the broker has noticed it, whatever their clocks say. */
Test(core_verdict, is_the_loss_that_its_witnesses_blame)
{
    static const int64_t wrong_by_ns[] = {0, HOUR_NS, -HOUR_NS};
    now_ns += 2 * HOUR_NS;
    for (unsigned i = 0; i < 3; i++) {
        int64_t bob_ns = now_ns + wrong_by_ns[i] + 50 * MS;
        int64_t carol_ns = now_ns - wrong_by_ns[i] + 60 * MS;
        join_all(3);
        pass_ms(100);
        closed(1);
        tap(5);
        fail_party(2, (struct failing){.blames = "alice", .stamp_ns = bob_ns}, 0);
        fail_party(3, (struct failing){.blames = "alice", .stamp_ns = carol_ns}, 0);
        forget();
        pass_ms(999);
        EXPECT("");
        pass_ms(1);
        EXPECT_OF("5 < party.lost alice/%u #0 x0 (party_lost of alice)\n"
                  "5 < verdict.final alice/%u #0 x2 (party_lost of alice)\n",
                  i + 1, i + 1);
        closed(5);
    }
}

/* Of several that are blamed, whoever did fail. */
Test(core_verdict, is_of_any_that_are_blamed)
{
    for (unsigned i = 0; i < 2; i++) {
        join(1);
        join(2);
        tap(5);
        pass_ms(100);
        fail_party(1,
                   (struct failing){.blames = i == 0 ? "carol" : "bob",
                                    .too = i == 0 ? "bob" : "carol",
                                    .stamp_ns = now_ns - 6 * MS},
                   0);
        forget();
        fail_party(2, (struct failing){.stamp_ns = now_ns - 5 * MS}, 0);
        EXPECT_OF("2 < over 13\n2 dropped\n12 dropped\n"
                  "5 < party.failed bob/%u #0 x0 (application of bob)\n"
                  "5 < verdict.final bob/%u #0 x1 (application of bob)\n",
                  i + 1, i + 1);
        closed(5);
    }
}

/* bob/1 failed, bob/2 runs when carol blames bob: that is whom she means, and he did not fail.
 * Which incarnation it was is not looked up again when the broker begins again. */
Test(core_verdict, is_not_of_an_earlier_incarnation_than_the_one_that_is_blamed)
{
    for (unsigned i = 0; i < 2; i++) {
        const char *first = i == 0 ? "bob" : "dave";
        const char *too = i == 0 ? "dave" : "bob";
        join_all(3);
        pass_ms(100);
        fail_party(2, (struct failing){.stamp_ns = now_ns}, 0);
        join(2);
        pass_ms(100);
        fail_party(3, (struct failing){.blames = first, .too = too, .stamp_ns = now_ns}, 0);
        leave(2, 0);
        crash(50);
        compact();
        crash(50);
        pass_ms(10000); /* alice does not come back */
        observe_long(4);
        ask_verdict(4, 0);
        EXPECT("4 < row 0 root bob/1\n4 < row 1 apart carol/1\n4 < row 2 apart alice/1\n"
               "4 < verdict 2 (application of bob) x0\n");
        restart();
    }
}

Test(core_verdict, ends_mutual_blame_in_the_earlier_of_the_two)
{
    join(1);
    join(2);
    tap(5);
    pass_ms(100);
    fail_party(1, (struct failing){.blames = "bob", .stamp_ns = now_ns - 5 * MS}, 0);
    forget();
    fail_party(2, (struct failing){.blames = "alice", .stamp_ns = now_ns - 6 * MS}, 0);
    EXPECT("2 < over 13\n2 dropped\n12 dropped\n"
           "5 < party.failed bob/1 #0 x0 (application of bob)\n"
           "5 < verdict.final bob/1 #0 x1 (application of bob)\n");
}

Test(core_verdict, says_nothing_while_a_party_runs_or_when_one_has_done_well)
{
    join_all(3);
    tap(5);
    pass_ms(100);
    fail_party(1, (struct failing){0}, 0);
    pass_ms(5000);
    fail_party(2, (struct failing){0}, 0);
    forget();
    complete(3);
    leave(3, 0);
    forget();
    ask_verdict(5, 0);
    EXPECT("5 < verdict 0 x0\n");
    pass_ms(5000);
    ask_verdict(5, 0);
    EXPECT("5 < verdict 0 x0\n");
}

/* A step at a time, as the party's chain of causes leads to what was survived long ago. */
Test(core_verdict, finds_what_was_survived_when_something_leads_to_it)
{
    join_all(3);
    tap(5);
    pass_ms(100);
    fail_party(1, (struct failing){.code = 42}, 0);
    fail_party(3, (struct failing){0}, 0);
    beat_on(50, 100, (conn_id[]){2, 5, 0}); /* long enough to be survived, and bob beats */
    forget();
    fail_party(2, (struct failing){.blames = "alice"}, 0);
    EXPECT("2 < over 13\n2 dropped\n12 dropped\n"
           "5 < party.failed bob/1 #0 x0 (application of bob)\n"
           "5 < verdict.final alice/1 #0 x1 (application of alice)\n");
}

/* Though it is the first in order, for it came before all others. */
Test(core_verdict, counts_what_was_survived)
{
    join(1);
    join(2);
    observe_long(4);
    pass_ms(100);
    fail_party(1, (struct failing){0}, 0);
    beat_on(50, 100, (conn_id[]){2, 0}); /* long enough to be survived, and bob beats */
    fail_party(2, (struct failing){0}, 0);
    forget();
    ask_verdict(4, 0);
    EXPECT("4 < row 1 root bob/1\n4 < verdict 2 (application of bob) x0\n");
    const struct msg *told = &effects.msgs[effects.msg_count - 1];
    cr_assert_eq(told->type, MSG_VERDICT);
    cr_expect_eq(told->as.verdict.aside, 1);
}

/* alice fails a slot with her first error, which is stamped so long from now. */
static void fail_slot_of_alice(int64_t after_ns)
{
    struct error_record record;
    size_t bytes;
    uint32_t topic = open_topic(1, "alice/grads");
    reserve(1, topic, 0);
    error_record_init(&record);
    record.id = span_text("job/alice/1/1");
    record.message = span_text("all of it");
    record.occurred_ns = now_ns + after_ns;
    cr_assert_eq(error_encode(&record, 1, error_bytes, sizeof error_bytes, &bytes), WIRE_OK);
    message(1, (struct msg){.type = MSG_FAIL,
                            .as.fail = {.number = ++numbers[1],
                                        .after = frames[1],
                                        .topic = topic,
                                        .error = span_of(error_bytes, bytes)}});
    forget();
}

/* What a slot failed of is known by the chain of whoever failed of it. */
Test(core_verdict, may_be_a_slots_error_that_led_to_a_partys_failure)
{
    join(1);
    join(2);
    tap(5);
    observe_long(4);
    fail_slot_of_alice(0);
    pass_ms(100);
    fail_party(2, (struct failing){.cause_id = "job/alice/1/1", .cause_party = "alice"}, 0);
    leave(1, 0);
    forget();
    ask_verdict(4, 0);
    EXPECT("4 < row 0 root alice/1\n4 < row 1 victim bob/1 by cause of row 0\n"
           "4 < verdict 2 (application of alice) x1\n");
}

/* Clocks may be wrong: what it led to is stamped before it, and comes first in order. */
Test(core_verdict, is_told_as_the_first_in_order_tells_it)
{
    join(1);
    join(2);
    tap(5);
    fail_slot_of_alice(101 * MS);
    pass_ms(100);
    fail_party(2, (struct failing){.cause_id = "job/alice/1/1", .cause_party = "alice"}, 0);
    leave(1, 0);
    cr_expect_not_null(strstr(said, "5 < verdict.final alice/1 "), "%s", said);
    cr_expect_str_eq(error_message, "all of it");
}

/* bob and carol do not say the same of what alice failed of; it counts what she said. */
static uint32_t verdict_of_hearsay(bool is_bob_first, uint8_t *out)
{
    uint32_t bytes = 0;
    restart();
    join_all(3);
    tap(5);
    fail_slot_of_alice(0);
    pass_ms(100);
    leave(1, 0);
    for (conn_id i = 0; i < 2; i++) {
        bool is_bob = is_bob_first == (i == 0);
        fail_party(is_bob ? 2 : 3,
                   (struct failing){.id = is_bob ? "job/bob/1/1" : "job/carol/1/1",
                                    .cause_id = "job/alice/1/1",
                                    .cause_party = "alice",
                                    .cause_says = is_bob ? "all of it" : "its beginning",
                                    .stamp_ns = 1050 * MS + is_bob},
                   0);
    }
    for (uint32_t i = 0; i < effects.msg_count; i++)
        if (effects.msgs[i].type == MSG_EVENT && effects.msgs[i].as.event.error.bytes > 0) {
            bytes = (uint32_t)effects.msgs[i].as.event.error.bytes;
            memcpy(out, effects.msgs[i].as.event.error.data, bytes);
        }
    cr_assert_not_null(strstr(said, "5 < verdict.final alice/1 "), "%s", said);
    cr_expect_str_eq(error_message, "all of it");
    forget();
    return bytes;
}

Test(core_verdict, has_the_same_bytes_whoever_comes_first)
{
    static uint8_t first[LIMIT_ERROR_BYTES], second[LIMIT_ERROR_BYTES];
    uint32_t first_bytes = verdict_of_hearsay(true, first);
    now_ns = 1000 * MS;
    uint32_t second_bytes = verdict_of_hearsay(false, second);
    cr_expect(span_equal(span_of(first, first_bytes), span_of(second, second_bytes)));
}

Test(core_verdict, is_for_those_who_wait_when_it_is_final)
{
    join(1);
    join(2);
    observe_long(4);
    observe_long(5);
    pass_ms(100);
    ask_verdict(4, 1);
    ask_verdict(5, 1);
    closed(5);
    fail_party(1, (struct failing){.stamp_ns = now_ns - MS}, 0);
    forget();
    fail_party(2, (struct failing){.stamp_ns = now_ns - 2 * MS}, 0);
    EXPECT("2 < over 13\n2 dropped\n12 dropped\n"
           "4 < row 0 root bob/1\n4 < row 1 apart alice/1\n"
           "4 < verdict 2 (application of bob) x0\n");
    ask_verdict(4, 1);
    EXPECT("4 < row 0 root bob/1\n4 < row 1 apart alice/1\n"
           "4 < verdict 2 (application of bob) x0\n");
    message(4, (struct msg){
                   .type = MSG_VERDICT_ASK,
                   .as.verdict_ask = {.request = 8, .job = span_text("another"), .is_waiting = 1}});
    EXPECT("4 < verdict 0 x0\n");
}

Test(core_verdict, of_a_job_that_is_forgotten_is_none)
{
    join(1);
    observe_long(4);
    ask_verdict(4, 1);
    leave(1, 0);
    forget();
    pass_ms(1000);
    EXPECT("4 < verdict 0 x0\n");
}

/* A party that said that it failed is known to, though its data is still under way. */
Test(core_verdict, is_provisional_while_the_last_ones_data_is_on_its_way)
{
    join(1);
    tap(5);
    pass_ms(100);
    uint32_t a = open_topic(1, "alice/a");
    reserve(1, a, 0);
    forget();
    fail_party(1, (struct failing){0}, 2);
    EXPECT("1 < verdict 1 (application of alice) x0, over\n"
           "5 < party.failed alice/1 #0 x1 (application of alice)\n"
           "5 < verdict.provisional alice/1 #0 x0 (application of alice)\n");
    commit(1, a, 0, 5);
    EXPECT("1 < over 13\n1 dropped\n11 dropped\n"
           "5 < verdict.final alice/1 #0 x0 (application of alice)\n");
}

Test(core_verdict, begins_anew_with_who_joins_behind_it)
{
    join(1);
    tap(5);
    pass_ms(100);
    fail_party(1, (struct failing){.stamp_ns = now_ns}, 0);
    pass_ms(100);
    join(1);
    join(2);
    pass_ms(100);
    fail_party(2, (struct failing){.stamp_ns = now_ns}, 0);
    forget();
    fail_party(1, (struct failing){.stamp_ns = now_ns + 1}, 0);
    EXPECT("1 < over 13\n1 dropped\n11 dropped\n"
           "5 < party.failed alice/2 #0 x0 (application of alice)\n"
           "5 < verdict.final bob/1 #0 x0 (application of bob)\n");
}

/* Its new incarnation comes in the same step: somebody runs all the time. */
Test(core_verdict, is_none_when_a_party_replaces_itself)
{
    join(1);
    pass_ms(100);
    closed(1);
    tap(5);
    say_hello(1);
    EXPECT("1 < welcome incarnation 2\n"
           "5 < party.lost alice/1 #0 x0 (party_lost of alice)\n"
           "5 < party.joined alice/2 #0 x0\n");
    pass_ms(2400);
    EXPECT("");
}

Test(core_verdict, survives_a_restart_of_the_broker)
{
    join(1);
    join(2);
    pass_ms(100);
    fail_party(1, (struct failing){.stamp_ns = now_ns - 9 * MS}, 0);
    crash(50);
    compact();
    pass_ms(10000); /* bob does not come back */
    crash(50);
    compact();
    observe_long(4);
    ask_verdict(4, 1);
    EXPECT("4 < row 0 root alice/1\n4 < row 1 apart bob/1\n"
           "4 < verdict 2 (application of alice) x0\n");
}

/* One that truly fails, the others because of each other, each with a clock of its own, reported in
 * any order: these may only be as many as there are connections in core_driver.h. */
Test(core_verdict, is_one_in_whatever_order_the_reports_come)
{
    enum { FIRST = 6, LAST = 31, SHUFFLES = 40, COUNT = LAST - FIRST + 1 };
    static char names[LAST + 1][8];
    uint64_t seed = 1;
    now_ns += 2 * HOUR_NS;
    for (int round = 0; round < SHUFFLES; round++) {
        conn_id order[COUNT];
        for (conn_id i = 0; i < COUNT; i++) {
            struct msg msg = hello(1, 0);
            (void)snprintf(names[FIRST + i], sizeof names[0], "p%u", (unsigned)i);
            msg.as.hello.party = span_text(names[FIRST + i]);
            message(FIRST + i, msg);
            numbers[FIRST + i] = 0;
            order[i] = FIRST + i;
        }
        tap(5);
        for (conn_id i = COUNT - 1; i > 0; i--) {
            conn_id other = draw_below(&seed, i + 1);
            conn_id swapped = order[i];
            order[i] = order[other];
            order[other] = swapped;
        }
        for (conn_id i = 0; i < COUNT; i++) {
            conn_id conn = order[i];
            const char *blamed = conn > FIRST ? names[FIRST + draw_below(&seed, conn - FIRST)] : "";
            int64_t stamp_ns = now_ns - (int64_t)draw_below(&seed, HOUR_NS / MS) * MS;
            forget();
            fail_party(conn, (struct failing){.blames = blamed, .stamp_ns = stamp_ns}, 0);
        }
        char expected[100];
        (void)snprintf(expected, sizeof expected, "5 < verdict.final p0/%d #0 x%d", round + 1,
                       COUNT - 1);
        cr_assert_not_null(strstr(said, expected), "round %d: %s", round, said);
        closed(5);
    }
}

/* What failed in a start-up is told when the party has joined, and is older than its victim's
 * error. */
Test(core_verdict, believes_a_stamp_from_before_the_party_joined)
{
    static const struct {
        int64_t before_ms;
        const char *root;
    } cases[] = {{0, "alice"},
                 {1, "alice"},
                 {LIMIT_START_UP_MS - 1, "alice"},
                 {LIMIT_START_UP_MS, "alice"},
                 {LIMIT_START_UP_MS + 1, "bob"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char expected[100];
        now_ns = 2 * HOUR_NS + (int64_t)i * 24 * HOUR_NS;
        numbers[1] = numbers[2] = 0;
        join(2);
        join(1);
        tap(5);
        int64_t joined_ns = now_ns;
        pass_ms(100);
        forget();
        fail_party(2, (struct failing){.stamp_ns = joined_ns}, 0);
        fail_party(1, (struct failing){.stamp_ns = joined_ns - cases[i].before_ms * MS - 1}, 0);
        (void)snprintf(expected, sizeof expected, "5 < verdict.final %s/%zu ",
                       i == 0 ? "alice" : cases[i].root, i + 1);
        cr_expect_not_null(strstr(said, expected), "case %zu, not %s: %s", i, expected, said);
        closed(5);
    }
}

/* Three records, the causes of the first; one of these has bytes that are no text. */
static struct span an_error_with_a_bad_cause(void)
{
    struct error_record records[3];
    size_t bytes;
    for (uint32_t i = 0; i < 3; i++) {
        error_record_init(&records[i]);
        records[i].type = span_text(i == 2 ? "app.ZZZ" : "app.good");
    }
    records[0].causes[records[0].cause_count++] = 1;
    records[0].causes[records[0].cause_count++] = 2;
    cr_assert_eq(error_encode(records, 3, error_bytes, sizeof error_bytes, &bytes), WIRE_OK);
    for (size_t i = 0; i < bytes; i++)
        if (error_bytes[i] == 'Z')
            error_bytes[i] = 0xff;
    return span_of(error_bytes, bytes);
}

/* The party that sent it has failed all the same, and what the others say is weighed. */
Test(core_verdict, is_not_spoilt_by_errors_that_cannot_be_read)
{
    static const struct span cases[] = {
#define BYTES(text) {.data = text, .bytes = sizeof(text) - 1}
        BYTES("\x05"),
        BYTES("\x90"),
        BYTES("\x91\x80"),
        BYTES("\x91\x91\xa1\xff"),
        BYTES("\x91\x91\xa2x"),
        BYTES("\x91\x90\x00"),
        BYTES("\xdd\xff\xff\xff\xff"),
    };
    enum { CASES = sizeof cases / sizeof cases[0] };
    ask_from(4);
    uint64_t refused = count_refused(4);
    for (unsigned i = 0; i <= CASES; i++) {
        join_all(3);
        tap(5);
        pass_ms(100);
        break_down_with(1, 0, i < CASES ? cases[i] : an_error_with_a_bad_cause());
        fail_party(2, (struct failing){.blames = "carol", .stamp_ns = now_ns - 5 * MS}, 0);
        fail_party(3, (struct failing){.stamp_ns = now_ns - 4 * MS}, 0);
        EXPECT_OF("1 < over 13\n1 dropped\n11 dropped\n"
                  "5 < refused alice/%u #0 x0 (application of alice)\n"
                  "5 < party.failed alice/%u #0 x0 (application of alice)\n"
                  "2 < over 13\n2 dropped\n12 dropped\n"
                  "5 < party.failed bob/%u #0 x0 (application of bob)\n"
                  "3 < over 13\n3 dropped\n13 dropped\n"
                  "5 < party.failed carol/%u #0 x0 (application of carol)\n"
                  "5 < verdict.final carol/%u #0 x1 (application of carol)\n",
                  i + 1, i + 1, i + 1, i + 1, i + 1);
        cr_expect_eq(count_refused(4), ++refused, "case %u is counted, once", i);
        closed(5);
    }
}

/* ---- jobs that were created ------------------------------------------------------------------ */

/* All three or none; spares are not awaited. */
static void make_job_of_three(enum verdict_strategy strategy)
{
    struct msg_job_create job = a_strict_job(3, 0, 2000);
    job.strategy = strategy;
    make_job(job);
    join_all(3);
    tap(4);
    pass_ms(100);
    forget();
}

Test(core_verdict, is_corrected_by_a_root_that_is_reported_inside_the_window)
{
    make_job_of_three(VERDICT_EARLIEST);
    int64_t begin_ns = now_ns;
    fail_party(1, (struct failing){.stamp_ns = begin_ns - 100}, 0);
    keep_lines("verdict", "late");
    EXPECT("2 < verdict 1 (application of alice) x0, over\n"
           "3 < verdict 1 (application of alice) x0, over\n"
           "4 < verdict.provisional alice/1 #0 x0 (application of alice)\n");
    pass_ms(1900);
    fail_party(2, (struct failing){.stamp_ns = begin_ns - 101, .code = 99}, 0);
    keep_lines("verdict", "late");
    EXPECT("3 < verdict 1 (application of bob) x0, over\n"
           "4 < verdict.provisional bob/1 #0 x0 (application of bob)\n");
    fail_party(3, (struct failing){.stamp_ns = begin_ns - 100}, 0);
    keep_lines("verdict", "late");
    EXPECT("4 < verdict.final bob/1 #0 x0 (application of bob)\n");
}

Test(core_verdict, is_not_changed_by_what_is_reported_behind_the_window)
{
    make_job_of_three(VERDICT_CAUSAL);
    int64_t begin_ns = now_ns;
    fail_party(1, (struct failing){.stamp_ns = begin_ns - 100}, 0);
    forget();
    now_ns += 2000 * MS; /* the window is over, whether or not the broker has noticed */
    fail_party(2, (struct failing){.stamp_ns = begin_ns - 101, .id = "job/bob/1/1"}, 0);
    keep_lines("verdict", "late");
    EXPECT("3 < verdict 2 (application of alice) x0, over\n"
           "4 < party.failed bob/1 #0 x0 (application of bob), late\n"
           "4 < verdict.final alice/1 #0 x0 (application of alice)\n");
    crash(50); /* and so says the history */
    tap(4);
    tap_from(4, 1, 1000);
    keep_lines("verdict", "late");
    EXPECT("4 < verdict.provisional alice/1 #0 x0 (application of alice), durable\n"
           "4 < party.failed bob/1 #0 x0 (application of bob), durable, late\n"
           "4 < verdict.final alice/1 #0 x0 (application of alice), durable\n");
}

/* ---- a broker that ends while the word is not final ------------------------------------------ */

/* What was said stays said until there is more to say: who comes back hears of it, and may report
 * what is the root. */
Test(core_verdict, is_corrected_inside_the_window_over_a_restart)
{
    make_job_of_three(VERDICT_EARLIEST);
    int64_t begin_ns = now_ns;
    fail_party(1, (struct failing){.stamp_ns = begin_ns - 100}, 0);
    crash(50);
    compact();
    crash(50);
    resume(2, tokens[2], 0);
    keep_lines("verdict", "late");
    EXPECT("2 < verdict 1 (application of alice) x0, over\n"
           "2 < verdict 1 (application of alice) x0, over\n"); /* and said anew in this step */
    resume(3, tokens[3], 0);
    tap(4);
    fail_party(2, (struct failing){.stamp_ns = begin_ns - 101}, 0);
    forget();
    fail_party(3, (struct failing){.stamp_ns = begin_ns - 50}, 0);
    keep_lines("verdict", "late");
    EXPECT("4 < verdict.final bob/1 #0 x0 (application of bob)\n");
}

/* They are lost when they have not come back in ten seconds, and then all have ended. */
Test(core_verdict, is_final_after_a_restart_though_nobody_comes_back)
{
    make_job_of_three(VERDICT_EARLIEST);
    fail_party(1, (struct failing){.stamp_ns = now_ns - 100}, 0);
    crash(50);
    observe_long(4);
    ask_verdict(4, 1);
    pass_ms(9999);
    EXPECT("");
    pass_ms(1);
    EXPECT("4 < row 0 root alice/1\n4 < row 1 apart bob/1\n4 < row 2 apart carol/1\n"
           "4 < verdict 2 (application of alice) x0\n");
}

/* The job draws its conclusion in the step behind that of the final word; the broker may end in
 * between. */
Test(core_verdict, ends_its_job_over_a_restart_right_behind_it)
{
    make_job_of_three(VERDICT_EARLIEST);
    fail_party(1, (struct failing){.stamp_ns = now_ns - 100}, 0);
    leave(2, 0);
    forget();
    leave(3, 0);
    keep_lines("verdict", "late");
    EXPECT("4 < verdict.final alice/1 #0 x0 (application of alice)\n");
    crash(50);
    compact();
    crash(50);
    ask_from(4);
    pass_ms(0);
    show_job(4);
    EXPECT("4 < failed, attempt 1, epoch 1 of 0 (application of alice)\n");
}

/* Who comes back is told what was said, and in the same step another word may be said: the first
 * one stands until the step is over. */
Test(core_verdict, tells_who_comes_back_what_was_said_and_what_is_said_then)
{
    make_job_of_three(VERDICT_EARLIEST);
    int64_t begin_ns = now_ns;
    struct span first = span_text(verdict_reason_text(VERDICT_ALONE));
    fail_party(1, (struct failing){.stamp_ns = begin_ns - 100 * MS}, 0);
    fail_party(3, (struct failing){.stamp_ns = begin_ns - 50 * MS}, 0);
    pass_ms(1500);
    closed(2);
    forget();
    now_ns += 500 * MS; /* the window is over, and nobody has noticed */
    say_hello_again(2);
    const struct msg_verdict *told[2];
    uint32_t count = 0;
    for (uint32_t i = 0; i < effects.msg_count; i++)
        if (effects.msgs[i].type == MSG_VERDICT && count < 2)
            told[count++] = &effects.msgs[i].as.verdict;
    cr_assert_eq(count, 2);
    cr_expect(span_equal(told[0]->why, first), "%.*s", (int)told[0]->why.bytes,
              (const char *)told[0]->why.data);
    struct span then = span_text("it occurred 50 ms before carol/1");
    cr_expect(span_equal(told[1]->why, then), "%.*s", (int)told[1]->why.bytes,
              (const char *)told[1]->why.data);
}

/* While a party is in doubt its loss may be the root: the window waits for it. */
Test(core_verdict, waits_for_a_loss_that_others_blame)
{
    make_job_of_three(VERDICT_CAUSAL);
    closed(1);
    pass_ms(500);
    fail_party(2, (struct failing){.blames = "alice"}, 0);
    forget();
    leave(3, 0);
    forget();
    pass_ms(499);
    EXPECT("");
    pass_ms(1);
    keep_lines("verdict", "late");
    EXPECT("4 < verdict.final alice/1 #0 x1 (party_lost of alice)\n");
}

static uint64_t outlook_of(const char *job)
{
    forget();
    message(9, (struct msg){.type = MSG_VERDICT_ASK,
                            .as.verdict_ask = {.request = 7, .job = span_text(job)}});
    return outlook;
}

enum { NO_JOB, GOES_ON, ENDED_WELL, FAILED };

/* A job without a verdict goes on, ended well, or is not there. */
Test(core_verdict, says_how_a_job_fares)
{
    observe_long(9);
    cr_expect_eq(outlook_of("another"), NO_JOB);
    cr_expect_eq(outlook_of("job"), NO_JOB, "an observer makes no job");
    join(1);
    join(2);
    cr_expect_eq(outlook_of("job"), GOES_ON);
    leave(1, 0);
    cr_expect_eq(outlook_of("job"), GOES_ON);
    complete(2);
    cr_expect_eq(outlook_of("job"), ENDED_WELL);
    join(3);
    cr_expect_eq(outlook_of("job"), GOES_ON);
    fail_party(3, (struct failing){0}, 0);
    cr_expect_eq(outlook_of("job"), FAILED);
}

Test(core_verdict, says_how_a_created_job_fares)
{
    observe_long(9);
    make_job(a_job(1, 1));
    cr_expect_eq(outlook_of("job"), GOES_ON, "it gathers");
    join(1);
    pass_ms(100);
    cr_expect_eq(outlook_of("job"), GOES_ON);
    complete(1);
    pass_ms(1);
    cr_expect_eq(outlook_of("job"), ENDED_WELL);
}

Test(core_verdict, of_an_earlier_attempt_is_the_root_alone)
{
    make_job(a_strict_job(1, 1, 0));
    join(1);
    pass_ms(100);
    fail_party(1, (struct failing){0}, 0);
    pass_ms(1); /* the attempt is concluded */
    observe_long(3);
    message(
        3, (struct msg){.type = MSG_VERDICT_ASK,
                        .as.verdict_ask = {
                            .request = 7, .job = span_text("job"), .is_waiting = 1, .attempt = 1}});
    EXPECT("3 < verdict 2 (application of alice) x0\n");
    ask_verdict(3, 0);
    EXPECT("3 < verdict 0 x0\n");
}

/* Whoever completes says nothing about a job that needs the others, too. */
Test(core_verdict, counts_a_loss_of_a_created_job_though_others_complete)
{
    make_job(a_job(3, 3));
    join_all(3);
    tap(4);
    pass_ms(100);
    fail_party(1, (struct failing){0}, 0);
    complete(3);
    forget();
    pass_ms(3000); /* no spare comes */
    keep_lines("verdict", "late");
    cr_expect_not_null(strstr(said, "4 < verdict.provisional alice/1 #0 x0"), "%s", said);
}

/* The window of a loss is over by the clock, before any tick: those who only replay are told. */
Test(core_verdict, tells_that_a_loss_was_survived_before_what_comes_next)
{
    join_all(3);
    tap(4);
    pass_ms(100);
    int64_t begin_ns = now_ns;
    fail_party(1, (struct failing){.stamp_ns = begin_ns}, 0);
    leave(3, 0);
    forget();
    now_ns += 2000 * MS;
    fail_party(2, (struct failing){.stamp_ns = now_ns}, 0);
    keep_lines("verdict", "late");
    EXPECT("4 < verdict.final bob/1 #0 x0 (application of bob)\n");
}
