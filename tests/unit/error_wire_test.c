/* SPDX-License-Identifier: MPL-2.0 */
/* error_wire_test.c -- errors onto the wire and back: one id, whole chains, what is left out. */
#include "libbus/api/clock.h"
#include "libbus/api/error.h"
#include "libbus/api/error_wire.h"
#include "libbus/api/model.h"
#include "libbus/session/model.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct bus bus;

/* As much of a membership as errors ask for. */
static void begin(void)
{
    const struct session_options options = {
        .job = SPAN_NONE,
        .party = span_of("alice", 5),
        .heartbeat_ms = 1000,
        .lost_after_ms = 10000,
        .grace_ms = 1000,
        .broker_lost_ms = 30000,
        .outbox_bytes_max = 1 << 20,
        .inbox_bytes_max = 1 << 20,
    };
    struct session_options own = options;
    own.job = span_text("train");
    memory_heap_init(&bus.memory, UINT64_MAX);
    (void)snprintf(bus.job, sizeof bus.job, "train");
    (void)snprintf(bus.party, sizeof bus.party, "alice");
    bus.encoder = calloc(1, sizeof *bus.encoder);
    cr_assert_not_null(bus.encoder);
    cr_assert_eq(session_new(&bus.memory, &own, api_now_ns(), &bus.session), CODE_OK);
}

static void end(void)
{
    session_free(&bus.session);
    free(bus.encoder);
}

TestSuite(error_wire, .init = begin, .fini = end);

static struct bus_error *over_the_wire(const struct bus_error *error)
{
    struct span bytes = error_to_wire(&bus, error, "errbus.abandoned", "alice/w", 7);
    cr_assert_gt(bytes.bytes, 0);
    cr_assert_leq(bytes.bytes, LIMIT_ERROR_BYTES);
    return error_from_wire(bytes);
}

Test(error_wire, keeps_every_field)
{
    uint64_t seq = 0;
    struct bus_error *sent = bus_error_new("app.x", NULL, "m");
    cr_assert_eq(bus_error_set_recoverable(sent, 1), BUS_OK);
    cr_assert_eq(bus_error_set_retry_after(sent, 1500), BUS_OK);
    cr_assert_eq(bus_error_set_code(sent, 42), BUS_OK);
    cr_assert_eq(bus_error_set_stacktrace(sent, "at main"), BUS_OK);
    cr_assert_eq(bus_error_set_blame(sent, "bob"), BUS_OK);
    cr_assert_eq(bus_error_add_blame(sent, "carol"), BUS_OK);
    cr_assert_eq(bus_error_add_blame(sent, "dave"), BUS_OK);
    cr_assert_eq(bus_error_set_kind(sent, "dependency"), BUS_OK);
    cr_assert_eq(bus_error_set_origin(sent, 1), BUS_OK);
    cr_assert_eq(bus_error_set_exit_code(sent, 3), BUS_OK);
    cr_assert_eq(bus_error_set_signal(sent, 11), BUS_OK);
    cr_assert_eq(bus_error_set_trace_id(sent, "0af7651916cd43dd8448eb211c80319c"), BUS_OK);
    int64_t made_ns = bus_error_occurred_ns(sent);
    cr_assert_eq(bus_error_set_occurred(sent, made_ns - 1000, 77), BUS_OK);
    struct bus_error *got = over_the_wire(sent);
    cr_expect_str_eq(bus_error_type(got), "app.x");
    cr_expect_str_eq(bus_error_message(got), "m");
    cr_expect_str_eq(bus_error_kind(got), "dependency");
    cr_expect_eq(bus_error_is_system(got), 1);
    cr_expect_eq(bus_error_exit_code(got), 3);
    cr_expect_eq(bus_error_signal(got), 11);
    cr_expect_str_eq(bus_error_trace_id(got), "0af7651916cd43dd8448eb211c80319c");
    cr_expect_str_eq(bus_error_job(got), "train");
    uint64_t uncertainty_ns = 0;
    cr_expect_eq(bus_error_broker_ns(got, &uncertainty_ns), bus_error_broker_ns(sent, NULL));
    cr_expect_geq(uncertainty_ns, 77);
    cr_expect_str_eq(bus_error_party(got), "alice");
    cr_expect_str_eq(bus_error_stacktrace(got), "at main");
    cr_expect_str_eq(bus_error_blame(got), "bob");
    cr_expect_str_eq(bus_error_blame_at(got, 1), "carol");
    cr_expect_str_eq(bus_error_blame_at(got, 2), "dave");
    cr_expect_null(bus_error_blame_at(got, 3));
    cr_expect_str_eq(bus_error_topic(got, &seq), "alice/w");
    cr_expect_eq(seq, 7);
    cr_expect_eq(bus_error_recoverable(got), 1);
    cr_expect_eq(bus_error_retry_after_ms(got), 1500);
    cr_expect_eq(bus_error_code(got), 42);
    cr_expect_eq(bus_error_occurred_ns(got), bus_error_occurred_ns(sent));
    cr_expect_gt(bus_error_pid(got), 0);
    cr_expect_str_eq(bus_error_id(got), bus_error_id(sent));
    cr_expect_eq(strncmp(bus_error_id(sent), "train/alice/", 12), 0);
    bus_error_unref(&sent);
    bus_error_unref(&got);
}

Test(error_wire, says_that_a_stacktrace_was_cut)
{
    char *text = calloc(1, LIMIT_ERROR_STACK_BYTES + 2);
    struct bus_error *sent = bus_error_new("app.x", NULL, "m");
    memset(text, 'x', LIMIT_ERROR_STACK_BYTES + 1);
    cr_assert_eq(bus_error_set_stacktrace(sent, text), BUS_OK);
    struct bus_error *got = over_the_wire(sent);
    cr_expect_eq(bus_error_is_cut(got), 1);
    cr_expect_str_eq(bus_error_stacktrace(got), bus_error_stacktrace(sent));
    bus_error_unref(&sent);
    bus_error_unref(&got);
    free(text);
}

Test(error_wire, gives_one_failure_one_id_wherever_it_is_used)
{
    struct bus_error *error = bus_error_new("app.x", NULL, "m");
    struct bus_error *first = over_the_wire(error);
    struct bus_error *second = over_the_wire(error);
    struct bus_error *effect = bus_error_new("app.y", first, "m"); /* from the wire, and on */
    struct bus_error *third = over_the_wire(effect);
    cr_expect_str_eq(bus_error_id(first), bus_error_id(second));
    cr_expect_str_eq(bus_error_id(bus_error_root(third)), bus_error_id(error));
    cr_expect_str_neq(bus_error_id(third), bus_error_id(error));
    cr_expect_eq(bus_error_set_code(error, 1), BUS_EINVAL); /* the bus has seen it */
    bus_error_unref(&error);
    bus_error_unref(&first);
    bus_error_unref(&second);
    bus_error_unref(&effect);
    bus_error_unref(&third);
}

/* ---- what came from elsewhere ---------------------------------------------------------------- */

/* The same membership is somebody else's for a while: what it tells comes from there. */
static struct bus_error *from_bob(const struct bus_error *error)
{
    struct span bytes = error_to_wire(&bus, error, "errbus.abandoned", "bob/w", 3);
    struct error_record records[LIMIT_ERROR_RECORDS];
    uint8_t out[LIMIT_ERROR_BYTES];
    uint32_t count = 0;
    size_t out_bytes = 0;
    cr_assert_eq(error_decode(bytes, records, LIMIT_ERROR_RECORDS, &count), WIRE_OK);
    records[0].party = span_text("bob");
    records[0].id = span_text("train/bob/1/1");
    cr_assert_eq(error_encode(records, count, out, sizeof out, &out_bytes), WIRE_OK);
    return error_from_wire(span_of(out, out_bytes));
}

/* Whose it was, and how it is called there, is not lost when it is passed on as it is. */
Test(error_wire, tells_what_is_passed_on_as_ours_because_of_it)
{
    struct bus_error *made = bus_error_new("app.x", NULL, "m");
    cr_assert_eq(bus_error_set_code(made, 28), BUS_OK);
    cr_assert_eq(bus_error_set_recoverable(made, 1), BUS_OK);
    cr_assert_eq(bus_error_set_retry_after(made, 1500), BUS_OK);
    cr_assert_eq(bus_error_set_exit_code(made, 3), BUS_OK);
    cr_assert_eq(bus_error_set_signal(made, 11), BUS_OK);
    cr_assert_eq(bus_error_set_blame(made, "carol"), BUS_OK);
    cr_assert_eq(bus_error_add_blame(made, "dave"), BUS_OK);
    cr_assert_eq(bus_error_set_stacktrace(made, "at main"), BUS_OK);
    struct bus_error *bobs = from_bob(made);
    struct bus_error *got = over_the_wire(bobs);
    cr_expect_str_eq(bus_error_party(got), "alice");
    cr_expect_str_eq(bus_error_type(got), "app.x");
    cr_expect_str_eq(bus_error_message(got), "m");
    cr_expect_str_eq(bus_error_stacktrace(got), "", "the cause has it");
    cr_expect_eq(bus_error_code(got), 28);
    cr_expect_eq(bus_error_recoverable(got), 1);
    cr_expect_eq(bus_error_retry_after_ms(got), 1500);
    cr_expect_eq(bus_error_exit_code(got), 3);
    cr_expect_eq(bus_error_signal(got), 11);
    cr_expect_str_eq(bus_error_blame(got), "carol");
    cr_expect_str_eq(bus_error_blame_at(got, 1), "dave");
    cr_expect_eq(strncmp(bus_error_id(got), "train/alice/", 12), 0);
    const struct bus_error *origin = bus_error_cause(got);
    cr_assert_not_null(origin);
    cr_expect_str_eq(bus_error_id(origin), "train/bob/1/1");
    cr_expect_str_eq(bus_error_party(origin), "bob");
    cr_expect_str_eq(bus_error_stacktrace(origin), "at main");
    cr_expect_str_eq(bus_error_topic(origin, NULL), "bob/w");
    cr_expect_str_eq(bus_error_id(bus_error_root(got)), "train/bob/1/1");
    bus_error_unref(&made);
    bus_error_unref(&bobs);
    bus_error_unref(&got);
}

/* A loss stays whose loss it is; that we were told to stop, or lack something, stays so. */
/* The broker gives even numbers: what it said of this party is its word, and not the party's. */
Test(error_wire, tells_what_the_broker_said_of_it_as_its_cause)
{
    uint8_t bytes[512];
    size_t count = 0;
    struct error_record record;
    error_record_init(&record);
    record.id = span_text("train/alice/0/2");
    record.job = span_text("train");
    record.party = span_text("alice");
    record.kind = ERROR_REJECTED;
    record.message = span_text("it is too large");
    cr_assert_eq(error_encode(&record, 1, bytes, sizeof bytes, &count), WIRE_OK);
    struct bus_error *told = error_from_wire(span_of(bytes, count));
    struct bus_error *got = over_the_wire(told);
    cr_expect_str_neq(bus_error_id(got), "train/alice/0/2");
    cr_expect_str_eq(bus_error_kind(got), "application");
    cr_expect_str_eq(bus_error_message(got), "it is too large");
    cr_assert_not_null(bus_error_cause(got));
    cr_expect_str_eq(bus_error_id(bus_error_cause(got)), "train/alice/0/2");
    bus_error_unref(&told);
    bus_error_unref(&got);
}

Test(error_wire, says_who_claims_what)
{
    uint8_t bytes[512];
    size_t count = 0;
    char text[256];
    struct error_record records[2];
    for (uint32_t i = 0; i < 2; i++) {
        error_record_init(&records[i]);
        records[i].id = span_text(i == 0 ? "train/bob/1/1" : "train/carol/1/1");
        records[i].party = span_text(i == 0 ? "bob" : "carol");
        records[i].incarnation = 1;
        records[i].type = span_text("app.x");
    }
    records[0].causes[records[0].cause_count++] = 1;
    records[1].claimed_by = span_text("bob");
    cr_assert_eq(error_encode(records, 2, bytes, sizeof bytes, &count), WIRE_OK);
    struct bus_error *got = error_from_wire(span_of(bytes, count));
    cr_expect_str_eq(bus_error_claimed_by(got), "");
    cr_expect_str_eq(bus_error_claimed_by(bus_error_cause(got)), "bob");
    cr_expect_str_eq(bus_error_claimed_by(NULL), "");
    (void)bus_error_describe(got, text, sizeof text);
    cr_expect_str_eq(text, "bob: application app.x (train/bob/1/1)\n  because bob says: carol: "
                           "application app.x (train/carol/1/1) <- root");
    bus_error_unref(&got);
}

/* Whoever claims may say that it was early, and no victim. */
Test(error_wire, takes_no_claim_for_the_root_where_there_is_another)
{
    static const char *const parties[] = {"bob", "carol", "dave"};
    for (uint32_t claim = 1; claim <= 2; claim++) {
        uint8_t bytes[512];
        size_t count = 0;
        struct error_record records[3];
        for (uint32_t i = 0; i < 3; i++) {
            error_record_init(&records[i]);
            records[i].id = span_text(parties[i]);
            records[i].party = span_text(parties[i]);
            records[i].type = span_text("app.x");
            records[i].kind = i == claim ? ERROR_APPLICATION : ERROR_TERMINATED;
            records[i].occurred_ns = i == claim ? 1 : 9;
        }
        records[0].causes[records[0].cause_count++] = 1;
        records[0].causes[records[0].cause_count++] = 2;
        records[claim].claimed_by = span_text("bob");
        cr_assert_eq(error_encode(records, 3, bytes, sizeof bytes, &count), WIRE_OK);
        struct bus_error *got = error_from_wire(span_of(bytes, count));
        cr_expect_str_eq(bus_error_party(bus_error_root(got)), parties[3 - claim]);
        bus_error_unref(&got);
    }
}

Test(error_wire, passes_on_kinds_that_a_party_may_give)
{
    static const char *const kinds[][2] = {{"dependency", "dependency"},
                                           {"cancelled", "cancelled"},
                                           {"terminated", "terminated"},
                                           {"application", "application"}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct bus_error *made = bus_error_new("app.x", NULL, "m");
        cr_assert_eq(bus_error_set_kind(made, kinds[i][0]), BUS_OK);
        struct bus_error *bobs = from_bob(made);
        struct bus_error *got = over_the_wire(bobs);
        cr_expect_str_eq(bus_error_kind(got), kinds[i][1]);
        bus_error_unref(&made);
        bus_error_unref(&bobs);
        bus_error_unref(&got);
    }
    struct bus_error *lost =
        error_make(ERROR_PARTY_LOST, span_text("errbus.silent"), span_text("m"));
    struct bus_error *bobs = from_bob(lost);
    struct bus_error *got = over_the_wire(bobs);
    cr_expect_str_eq(bus_error_kind(got), "application");
    cr_expect_str_eq(bus_error_kind(bus_error_cause(got)), "party_lost");
    bus_error_unref(&lost);
    bus_error_unref(&bobs);
    bus_error_unref(&got);
}

/* Told in an earlier incarnation, or by another bus of this process, it is passed on, too. */
Test(error_wire, tells_what_an_earlier_incarnation_said_as_its_cause)
{
    struct bus_error *made = bus_error_new("app.x", NULL, "m");
    struct bus_error *first = over_the_wire(made);
    bus.session->incarnation += 1;
    struct bus_error *got = over_the_wire(made);
    cr_expect_str_neq(bus_error_id(got), bus_error_id(first));
    cr_assert_not_null(bus_error_cause(got));
    cr_expect_str_eq(bus_error_id(bus_error_cause(got)), bus_error_id(first));
    bus_error_unref(&made);
    bus_error_unref(&first);
    bus_error_unref(&got);
}

/* ---- disclosure ------------------------------------------------------------------------------ */

static void disclose(enum disclosure own, enum disclosure of_job)
{
    bus.session->options.disclosure = own;
    bus.session->job_disclosure = of_job;
}

/* What a party of this job let out passes as it came, however discreet we are; but no more than the
 * job lets anybody see, for it may be another job of that name. */
Test(error_wire, lets_pass_of_others_what_their_job_lets_pass)
{
    disclose(DISCLOSURE_FULL, DISCLOSURE_UNSAID);
    struct bus_error *made = bus_error_new("app.x", NULL, "secret");
    struct bus_error *bobs = from_bob(made);
    struct bus_error *effect = bus_error_new("app.y", bobs, "m");
    static const struct {
        enum disclosure own, of_job;
        const char *message, *type;
    } cases[] = {{DISCLOSURE_FULL, DISCLOSURE_UNSAID, "secret", "app.x"},
                 {DISCLOSURE_NONE, DISCLOSURE_UNSAID, "secret", "app.x"},
                 {DISCLOSURE_NONE, DISCLOSURE_MESSAGE, "secret", "app.x"},
                 {DISCLOSURE_FULL, DISCLOSURE_TYPE, "withheld by its party", "app.x"},
                 {DISCLOSURE_FULL, DISCLOSURE_NONE, "withheld by its party", "errbus.withheld"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        disclose(cases[i].own, cases[i].of_job);
        struct bus_error *got = over_the_wire(effect);
        cr_expect_str_eq(bus_error_message(bus_error_cause(got)), cases[i].message, "%zu", i);
        cr_expect_str_eq(bus_error_type(bus_error_cause(got)), cases[i].type, "%zu", i);
        bus_error_unref(&got);
    }
    bus_error_unref(&made);
    bus_error_unref(&bobs);
    bus_error_unref(&effect);
}

/* What the bus made of a loss holds nothing of a party's, and passes. */
Test(error_wire, lets_pass_what_the_bus_made)
{
    struct error_record record;
    uint8_t out[4096];
    size_t bytes = 0;
    error_record_init(&record);
    record.id = span_text("train/bob/1/2");
    record.job = span_text("train");
    record.party = span_text("bob");
    record.kind = ERROR_PARTY_LOST;
    record.type = span_text("errbus.silent");
    cr_assert_eq(error_encode(&record, 1, out, sizeof out, &bytes), WIRE_OK);
    struct bus_error *lost = error_from_wire(span_of(out, bytes));
    struct bus_error *effect = bus_error_new("app.y", lost, "m");
    disclose(DISCLOSURE_NONE, DISCLOSURE_NONE);
    struct bus_error *got = over_the_wire(effect);
    cr_expect_str_eq(bus_error_type(got), "errbus.withheld");
    cr_expect_str_eq(bus_error_type(bus_error_cause(got)), "errbus.silent");
    bus_error_unref(&lost);
    bus_error_unref(&effect);
    bus_error_unref(&got);
}

/* Of an incarnation that was more open, or of our own end of a bus: it names host and process. */
Test(error_wire, withholds_what_came_back_of_ours)
{
    disclose(DISCLOSURE_FULL, DISCLOSURE_UNSAID);
    struct bus_error *made = bus_error_new("app.x", NULL, "secret");
    struct bus_error *came = over_the_wire(made);
    cr_expect_neq(bus_error_pid(came), 0);
    disclose(DISCLOSURE_TYPE, DISCLOSURE_UNSAID);
    struct bus_error *effect = bus_error_new("app.y", came, "m");
    struct bus_error *got = over_the_wire(effect);
    cr_expect_str_eq(bus_error_message(bus_error_cause(got)), "withheld by its party");
    cr_expect_eq(bus_error_pid(bus_error_cause(got)), 0);
    bus_error_unref(&made);
    bus_error_unref(&came);
    bus_error_unref(&effect);
    bus_error_unref(&got);
}

/* Passed on by a more open bus of this process: the copy says no more than the error. */
Test(error_wire, passes_on_no_more_than_the_bus_that_told_it_first)
{
    disclose(DISCLOSURE_NONE, DISCLOSURE_UNSAID);
    struct bus_error *made = bus_error_new("app.secret", NULL, "secret");
    struct bus_error *first = over_the_wire(made);
    disclose(DISCLOSURE_FULL, DISCLOSURE_UNSAID);
    bus.session->incarnation += 1;
    struct bus_error *got = over_the_wire(made);
    cr_assert_not_null(bus_error_cause(got));
    cr_expect_str_eq(bus_error_type(got), "errbus.withheld");
    cr_expect_str_eq(bus_error_message(got), "withheld by its party");
    cr_expect_str_eq(bus_error_type(bus_error_cause(got)), "errbus.withheld");
    bus_error_unref(&made);
    bus_error_unref(&first);
    bus_error_unref(&got);
}

Test(error_wire, has_a_type_for_what_was_given_up)
{
    struct bus_error *got = over_the_wire(NULL);
    cr_expect_str_eq(bus_error_type(got), "errbus.abandoned");
    cr_expect_str_eq(bus_error_kind(got), "application");
    cr_expect_str_neq(bus_error_id(got), "");
    bus_error_unref(&got);
    got = over_the_wire(&error_no_memory);
    cr_expect_str_eq(bus_error_type(got), "errbus.no_memory");
    cr_expect_str_eq(bus_error_kind(got), "application"); /* it is local no more */
    cr_expect_str_neq(bus_error_id(got), "");
    bus_error_unref(&got);
}

Test(error_wire, keeps_what_two_share_once)
{
    struct bus_error *root = bus_error_new("app.root", NULL, "r");
    struct bus_error *left = bus_error_new("app.left", root, "l");
    struct bus_error *right = bus_error_new("app.right", root, "r");
    struct bus_error *top = bus_error_new("app.top", left, "t");
    cr_assert_eq(bus_error_add_cause(top, right), BUS_OK);
    cr_assert_eq(bus_error_add_cause(top, root), BUS_OK);
    struct bus_error *got = over_the_wire(top);
    cr_expect_str_eq(bus_error_type(bus_error_cause_at(got, 0)), "app.left");
    cr_expect_str_eq(bus_error_type(bus_error_cause_at(got, 1)), "app.right");
    cr_expect_eq(bus_error_cause_at(got, 2), bus_error_cause(bus_error_cause_at(got, 0)));
    cr_expect_eq(bus_error_cause_at(got, 2), bus_error_cause(bus_error_cause_at(got, 1)));
    cr_expect_eq(bus_error_cause_at(got, 2), bus_error_root(got));
    bus_error_unref(&root);
    bus_error_unref(&left);
    bus_error_unref(&right);
    bus_error_unref(&top);
    bus_error_unref(&got);
}

/* A chain of so many, the root's message so long; the caller's. */
static struct bus_error *chain_of(unsigned count, size_t message_bytes)
{
    char *message = calloc(1, message_bytes + 1);
    memset(message, 'm', message_bytes);
    struct bus_error *chain = bus_error_new("app.root", NULL, "%s", message);
    for (unsigned i = 1; i < count; i++) {
        struct bus_error *next = bus_error_new("app.link", chain, "%s", message);
        bus_error_unref(&chain);
        chain = next;
    }
    free(message);
    return chain;
}

static unsigned length_of(const struct bus_error *error)
{
    unsigned count = 0;
    for (; error != NULL; error = bus_error_cause(error))
        count++;
    return count;
}

Test(error_wire, keeps_head_and_root_of_a_chain_of_any_length)
{
    static const unsigned lengths[] = {1, 2, 63, 64, 65, 1023, 1024, 1025, 5000};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        unsigned length = lengths[i];
        struct bus_error *chain = chain_of(length, 1);
        struct bus_error *got = over_the_wire(chain);
        unsigned kept = length_of(got);
        uint64_t left_out = 0;
        for (const struct bus_error *at = got; at != NULL; at = bus_error_cause(at))
            left_out += at->left_out;
        cr_expect_str_eq(bus_error_type(bus_error_root(got)), "app.root", "of %u", length);
        cr_expect_str_eq(bus_error_id(got), bus_error_id(chain));
        cr_expect_leq(kept, (unsigned)LIMIT_ERROR_RECORDS);
        cr_expect_eq(kept, length <= LIMIT_ERROR_RECORDS ? length : kept);
        if (length <= 1024)
            cr_expect_eq(kept + left_out, length, "%u kept, %u left out of %u", kept,
                         (unsigned)left_out, length);
        else
            cr_expect_gt(left_out, 0);
        bus_error_unref(&chain);
        bus_error_unref(&got);
    }
}

Test(error_wire, leaves_out_the_middle_of_what_is_too_large)
{
    struct bus_error *chain = chain_of(LIMIT_ERROR_RECORDS, LIMIT_ERROR_MESSAGE_BYTES);
    struct bus_error *got = over_the_wire(chain);
    cr_expect_str_eq(bus_error_type(bus_error_root(got)), "app.root");
    cr_expect_str_eq(bus_error_message(got), bus_error_message(chain));
    cr_expect_geq(length_of(got), 8);
    cr_expect_lt(length_of(got), (unsigned)LIMIT_ERROR_RECORDS);
    bus_error_unref(&chain);
    bus_error_unref(&got);
}

Test(error_wire, lets_sixteen_causes_travel_among_them_the_way_to_the_root)
{
    for (unsigned count = 15; count <= 40; count += 5) {
        struct bus_error *top = bus_error_new("app.top", NULL, "t");
        for (unsigned i = 0; i < count; i++) {
            struct bus_error *cause = bus_error_new("app.cause", NULL, "%u", i);
            bool is_last = i + 1 == count;
            cause->kind = is_last ? (uint64_t)ERROR_APPLICATION : (uint64_t)ERROR_DEPENDENCY;
            cr_assert_eq(bus_error_add_cause(top, cause), BUS_OK);
            bus_error_unref(&cause);
        }
        char last[16];
        (void)snprintf(last, sizeof last, "%u", count - 1);
        struct bus_error *got = over_the_wire(top);
        cr_expect_str_eq(bus_error_message(bus_error_root(top)), last);
        cr_expect_str_eq(bus_error_message(bus_error_root(got)), last, "of %u", count);
        cr_expect_eq(got->cause_count, count < 16 ? count : 16);
        cr_expect_eq(got->left_out, count < 16 ? 0 : count - 16);
        bus_error_unref(&top);
        bus_error_unref(&got);
    }
}

Test(error_wire, makes_something_of_bytes_that_are_no_error)
{
    static const uint8_t bytes[] = {0xc1, 0xff, 0x00};
    for (size_t count = 0; count <= sizeof bytes; count++) {
        struct bus_error *got = error_from_wire(span_of(bytes, count));
        cr_expect_str_eq(bus_error_type(got), "errbus.protocol");
        bus_error_unref(&got);
    }
}

static bool is_calloc_failing;
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

/* The linker puts it in the place of calloc(), where our own objects call that. */
void *__wrap_calloc(size_t count, size_t bytes)
{
    return is_calloc_failing ? NULL : __real_calloc(count, bytes);
}

Test(error_wire, says_that_memory_is_short_instead_of_nothing)
{
    struct bus_error *sent = bus_error_new("app.x", NULL, "m");
    struct span bytes = error_to_wire(&bus, sent, "errbus.abandoned", "alice/w", 7);
    cr_assert_gt(bytes.bytes, 0);
    is_calloc_failing = true;
    struct bus_error *received = error_from_wire(bytes);
    is_calloc_failing = false;
    cr_expect_eq(received, &error_no_memory);
    bus_error_unref(&received);
    bus_error_unref(&sent);
}
