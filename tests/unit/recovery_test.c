/* SPDX-License-Identifier: MPL-2.0 */
/* recovery_test.c -- a journal is replayed, fact by fact with its bytes, or refused in words; the
 * core is played by the test, the disk too. */
#include "broker/io/recovery.h"

#include "broker/io/journal_codec.h"
#include "broker/journal/tool.h"
#include "tests/unit/journal_driver.h"
#include "tests/unit/stateless_core.h"

#include <stdio.h>

enum { TOLD_MAX = 64, ARRIVED = 1000 /* and which one was told of what arrived */ };

/* ---- the core -------------------------------------------------------------------------------- */

static struct core_port *port;
static struct {
    uint64_t number;
    payload_id payload; /* beside it; 0: none */
} told[TOLD_MAX];
static unsigned told_count;
static unsigned resumed_count;
static unsigned gaps; /* that a repair made */
static struct service_manager manager = {.fd = -1};
static uint64_t refused_number; /* a fact of this number is refused; 0: none */

const char *core_replay(struct core *core, struct span record, payload_id payload,
                        struct effects *effects)
{
    struct fact fact;
    (void)core;
    if (fact_decode(record, &fact) != WIRE_OK)
        return "no fact";
    uint64_t number = fact.as.failure_forgotten.failure;
    if (number >= ARRIVED)
        effects_release(effects, told[number - ARRIVED].payload, 1);
    if (number == refused_number)
        return "a fact that cannot follow";
    cr_assert_lt(told_count, TOLD_MAX);
    told[told_count].number = number;
    told[told_count].payload = payload;
    if (payload != 0)
        effects_retain(effects, payload, 1);
    told_count += 1;
    return NULL;
}

void core_step(struct core *core, const struct event *event, struct effects *effects)
{
    (void)core;
    (void)event;
    (void)effects;
    cr_assert_fail("nothing happens while a journal is replayed");
}

int64_t core_deadline_ns(const struct core *core)
{
    (void)core;
    return INT64_MAX;
}

struct core_moment core_seen(const struct core *core)
{
    (void)core;
    return (struct core_moment){0, 0};
}

void core_resume(struct core *core, const struct event *now, struct effects *effects)
{
    (void)core;
    (void)effects;
    cr_assert_eq(now->now_ns, 5);
    resumed_count += 1;
}

void core_snapshot(struct core *core, struct effects *effects)
{
    (void)core;
    (void)effects;
    cr_assert_fail("no checkpoint is made while a journal is replayed");
}

/* ---- a journal ------------------------------------------------------------------------------- */

static struct sim_disk *sim;
static struct memory memory;
static struct journal *journal;
static uint8_t body[512];
static size_t body_bytes;
static uint32_t behind; /* of a fact whose payload is that far behind */

static void init(void)
{
    sim = sim_disk_new(3);
    memory_heap_init(&memory, UINT64_MAX);
    behind = 0;
    port = core_port_new(&memory, NULL, 0);
    journal = driver_open(sim);
    cr_assert_not_null(port);
}

static void fini(void)
{
    journal_close(&journal);
    core_port_free(&port);
    sim_disk_free(&sim);
}

TestSuite(recovery, .init = init, .fini = fini);

static void put(uint64_t number, int bytes)
{
    while (bytes-- > 0)
        body[body_bytes++] = (uint8_t)(number >> 8 * bytes);
}

/* One more fact in the record that is being made. */
static void add_fact(enum journal_codec_tag tag, uint64_t number, uint64_t payload_at,
                     uint32_t payload_bytes)
{
    uint8_t record[64];
    size_t bytes = 0;
    struct fact fact = {.type = FACT_FAILURE_FORGOTTEN, .as.failure_forgotten.failure = number};
    cr_assert_eq(fact_encode(&fact, record, sizeof record, &bytes), WIRE_OK);
    put(tag, 1);
    put(bytes, 4);
    if (tag == JOURNAL_CODEC_PAYLOAD_AT) {
        put(payload_at, 8);
        put(payload_bytes, 4);
    }
    if (tag == JOURNAL_CODEC_PAYLOAD_BEHIND)
        put(behind, 4);
    memcpy(body + body_bytes, record, bytes);
    body_bytes += bytes;
}

static uint64_t append(uint16_t kind, struct span bytes, unsigned how)
{
    struct journal_record record = {.kind = kind, .body = bytes};
    uint64_t at = 0;
    cr_assert_eq(journal_append(journal, journal_lease(journal), journal_next(journal), &record, 1,
                                how, &at),
                 JOURNAL_OK);
    return at;
}

static void append_facts(unsigned how)
{
    append(JOURNAL_CODEC_FACTS, span_of(body, body_bytes), how);
    body_bytes = 0;
}

static void recover(uint64_t steps, uint64_t payloads)
{
    char complaint[JOURNAL_COMPLAINT_BYTES] = "";
    struct recovery done;
    cr_assert(recovery_run(journal, port, (struct core_port_now){.now_ns = 5}, &manager, &done,
                           complaint),
              "%s", complaint);
    cr_assert_eq(done.steps, steps);
    cr_assert_eq(done.payloads, payloads);
    cr_assert_eq(done.gaps, gaps);
    cr_assert_eq(resumed_count, 1);
}

static void expect_refused(const char *words)
{
    char complaint[JOURNAL_COMPLAINT_BYTES] = "";
    struct recovery done;
    cr_assert_not(recovery_run(journal, port, (struct core_port_now){.now_ns = 5}, &manager, &done,
                               complaint));
    cr_assert_not_null(strstr(complaint, words), "'%s' does not say: %s", complaint, words);
    cr_assert_not_null(strstr(complaint, "position"), "'%s' does not say where", complaint);
    cr_assert_eq(resumed_count, 0);
}

static void expect_told(unsigned i, uint64_t number, bool has_payload)
{
    cr_assert_lt(i, told_count);
    cr_assert_eq(told[i].number, number);
    cr_assert_eq(told[i].payload != 0, has_payload);
}

Test(recovery, of_an_empty_journal_resumes)
{
    recover(0, 0);
    cr_assert_eq(told_count, 0);
}

Test(recovery, tells_facts_in_order_with_the_payload_before_them)
{
    add_fact(JOURNAL_CODEC_NO_PAYLOAD, 1, 0, 0);
    append_facts(0);
    append(JOURNAL_CODEC_PAYLOAD, span_text("first"), 0);
    add_fact(JOURNAL_CODEC_NEWEST_PAYLOAD, 2, 0, 0);
    add_fact(JOURNAL_CODEC_NO_PAYLOAD, 3, 0, 0);
    append_facts(0);
    append(JOURNAL_THREAD_KIND_PROBE, span_text(""), 0);
    append(JOURNAL_CODEC_PAYLOAD, span_text("unwanted"), 0);
    append(JOURNAL_CODEC_PAYLOAD, span_text("second"), 0);
    add_fact(JOURNAL_CODEC_NEWEST_PAYLOAD, 4, 0, 0);
    append_facts(0);
    recover(3, 3);
    cr_assert_eq(told_count, 4);
    expect_told(0, 1, false);
    expect_told(1, 2, true);
    expect_told(2, 3, false);
    expect_told(3, 4, true);
    cr_assert_neq(told[1].payload, told[3].payload);
    cr_assert_eq(core_port_payload_count(port), 2, "what no fact wanted is not kept");
    cr_assert_eq(core_port_payload_bytes(port), strlen("first") + strlen("second"));
}

/* A snapshot speaks of payloads that stood in the journal before it, twice of one. */
Test(recovery, of_a_checkpoint_fetches_the_payloads_that_it_names)
{
    append(JOURNAL_CODEC_PAYLOAD, span_text("forgotten"), 0);
    uint64_t at = append(JOURNAL_CODEC_PAYLOAD, span_text("kept"), 0);
    add_fact(JOURNAL_CODEC_NEWEST_PAYLOAD, 100, 0, 0);
    append_facts(0);
    add_fact(JOURNAL_CODEC_PAYLOAD_AT, 1, at, 4);
    append_facts(JOURNAL_CHECKPOINT_BEGIN);
    add_fact(JOURNAL_CODEC_PAYLOAD_AT, 2, at, 4);
    append_facts(JOURNAL_CHECKPOINT_END);
    append(JOURNAL_CODEC_PAYLOAD, span_text("new"), 0);
    add_fact(JOURNAL_CODEC_NEWEST_PAYLOAD, 3, 0, 0);
    append_facts(0);
    recover(3, 2);
    cr_assert_eq(told_count, 3);
    expect_told(0, 1, true);
    expect_told(1, 2, true);
    expect_told(2, 3, true);
    cr_assert_eq(told[0].payload, told[1].payload);
    cr_assert_eq(core_port_payload_count(port), 2);
    cr_assert_eq(core_port_payload_bytes(port), strlen("kept") + strlen("new"));
    cr_assert_eq(core_port_needed_from(port), at);
}

/* A checkpoint that names a payload which is trimmed. */
static void trim_behind_checkpoint(void)
{
    uint64_t at = append(JOURNAL_CODEC_PAYLOAD, span_text("went"), 0);
    while (journal_first_end(journal) == UINT64_MAX)
        append(JOURNAL_THREAD_KIND_PROBE, span_of(body, sizeof body), 0);
    add_fact(JOURNAL_CODEC_PAYLOAD_AT, 1, at, 4);
    append_facts(JOURNAL_CHECKPOINT_BEGIN | JOURNAL_CHECKPOINT_END);
    cr_assert_eq(journal_trim(journal, journal_start(journal)), JOURNAL_OK);
    cr_assert_gt(journal_first(journal), at);
}

/* It arrived after the checkpoint was made, and went then. */
Test(recovery, does_without_a_payload_that_went_since_the_checkpoint)
{
    trim_behind_checkpoint();
    add_fact(JOURNAL_CODEC_NO_PAYLOAD, ARRIVED, 0, 0);
    append_facts(0);
    recover(2, 1);
    expect_told(0, 1, true);
    cr_assert_eq(core_port_payload_count(port), 0);
}

Test(recovery, misses_a_payload_that_no_fact_let_go)
{
    trim_behind_checkpoint();
    expect_refused("is missing: the journal begins at");
}

/* A crash in the middle of a checkpoint: the one before counts, and all behind it. */
Test(recovery, passes_over_a_checkpoint_that_is_not_whole)
{
    add_fact(JOURNAL_CODEC_NO_PAYLOAD, 1, 0, 0);
    append_facts(0);
    add_fact(JOURNAL_CODEC_NO_PAYLOAD, 2, 0, 0);
    append_facts(JOURNAL_CHECKPOINT_BEGIN | JOURNAL_CHECKPOINT_END);
    add_fact(JOURNAL_CODEC_NO_PAYLOAD, 3, 0, 0);
    append_facts(0);
    recover(2, 0);
    expect_told(0, 2, false);
    expect_told(1, 3, false);
}

Test(recovery, refuses_facts_of_a_payload_that_is_not_there)
{
    add_fact(JOURNAL_CODEC_NEWEST_PAYLOAD, 1, 0, 0);
    append_facts(0);
    expect_refused("a fact needs a payload that is missing");
}

/* Facts of payloads that the journal's thread had still when they were decided. */
static void append_facts_behind(uint64_t number, uint32_t how_far)
{
    behind = how_far;
    add_fact(JOURNAL_CODEC_PAYLOAD_BEHIND, number, 0, 0);
    append_facts(0);
}

Test(recovery, finds_the_payload_that_was_on_its_way)
{
    append(JOURNAL_CODEC_PAYLOAD, span_text("task"), 0);
    append(JOURNAL_CODEC_PAYLOAD, span_text("written anew"), 0);
    append(JOURNAL_CODEC_PAYLOAD, span_text("another"), 0);
    append_facts_behind(1, 2);
    append_facts_behind(2, 2);
    append_facts_behind(3, 0);
    recover(3, 5);
    expect_told(0, 1, true);
    expect_told(1, 2, true);
    expect_told(2, 3, true);
    cr_assert_eq(told[0].payload, told[1].payload);
    cr_assert_neq(told[0].payload, told[2].payload);
    cr_assert_eq(core_port_payload_bytes(port), strlen("task") + strlen("another"));
}

/* More of them than there is room for in the beginning. */
Test(recovery, finds_a_payload_far_behind)
{
    enum { PAYLOADS = 3000 };
    append(JOURNAL_CODEC_PAYLOAD, span_text("task"), 0);
    for (int i = 1; i < PAYLOADS; i++)
        append(JOURNAL_CODEC_PAYLOAD, span_text("another"), 0);
    append_facts_behind(1, PAYLOADS - 1);
    recover(1, PAYLOADS + 1);
    expect_told(0, 1, true);
    cr_assert_eq(core_port_payload_bytes(port), strlen("task"));
}

Test(recovery, refuses_a_payload_before_the_first)
{
    append(JOURNAL_CODEC_PAYLOAD, span_text("task"), 0);
    append_facts_behind(1, 1);
    expect_refused("a fact needs a payload that is missing");
}

Test(recovery, refuses_a_place_where_no_such_payload_is)
{
    uint64_t at = append(JOURNAL_CODEC_PAYLOAD, span_text("kept"), 0);
    add_fact(JOURNAL_CODEC_PAYLOAD_AT, 1, at, 5);
    append_facts(JOURNAL_CHECKPOINT_BEGIN | JOURNAL_CHECKPOINT_END);
    expect_refused("a payload that a fact needs is missing");
}

Test(recovery, refuses_an_empty_payload)
{
    append(JOURNAL_CODEC_PAYLOAD, span_text(""), 0);
    expect_refused("an impossible size");
}

Test(recovery, refuses_a_record_that_is_cut)
{
    add_fact(JOURNAL_CODEC_NO_PAYLOAD, 1, 0, 0);
    body_bytes -= 1;
    append_facts(0);
    expect_refused(wire_strerror(WIRE_TRUNCATED));
}

Test(recovery, refuses_a_fact_that_the_core_refuses)
{
    refused_number = 2;
    add_fact(JOURNAL_CODEC_NO_PAYLOAD, 1, 0, 0);
    add_fact(JOURNAL_CODEC_NO_PAYLOAD, 2, 0, 0);
    append_facts(0);
    expect_refused("a fact that cannot follow");
    cr_assert_eq(told_count, 1);
}

Test(recovery, refuses_a_kind_that_it_does_not_know)
{
    append(JOURNAL_CODEC_SNAPSHOT + 1, span_text("of a later version"), 0);
    expect_refused("this version does not know records of its kind");
}

static void append_snapshot(uint64_t number, unsigned how)
{
    add_fact(JOURNAL_CODEC_NO_PAYLOAD, number, 0, 0);
    append(JOURNAL_CODEC_SNAPSHOT, span_of(body, body_bytes), how);
    body_bytes = 0;
}

/* A broker was killed in the middle of a checkpoint, and went on from the one before: what the
 * unfinished one says is there already. */
Test(recovery, passes_over_a_checkpoint_that_did_not_get_to_its_end)
{
    append_snapshot(1, JOURNAL_CHECKPOINT_BEGIN);
    append_snapshot(2, JOURNAL_CHECKPOINT_END);
    add_fact(JOURNAL_CODEC_NO_PAYLOAD, 3, 0, 0);
    append_facts(0);
    append_snapshot(91, JOURNAL_CHECKPOINT_BEGIN);
    append_snapshot(92, 0);
    add_fact(JOURNAL_CODEC_NO_PAYLOAD, 4, 0, 0);
    append_facts(0);
    recover(4, 0);
    for (unsigned i = 0; i < 4; i++)
        expect_told(i, i + 1, false);
    cr_assert_eq(told_count, 4);
}

/* ---- after a repair -------------------------------------------------------------------------- */

static void ignore(void *arg, const char *line)
{
    (void)arg;
    (void)line;
}

/* The record with these bytes is damaged, and cut out. */
static void lose(const char *text)
{
    size_t bytes = 0;
    driver_must_sync(journal);
    append(JOURNAL_THREAD_KIND_PROBE, span_text(""), 0); /* it says so */
    journal_close(&journal);
    uint8_t *file = sim_disk_file(sim, DRIVER_FIRST, &bytes);
    uint8_t *at = memmem(file, bytes, text, strlen(text));
    cr_assert_not_null(at);
    *at ^= 1;
    struct disk *disk = sim_disk_open(sim);
    cr_assert_eq(tool_repair(&disk, ignore, NULL), JOURNAL_OK);
    journal = driver_open(sim);
    gaps += 1;
}

/* Two payloads of the same size, a fact behind each.  The second fact has the second payload;
 * first_payload says what the first has. */
static void append_two(enum journal_codec_tag first_payload)
{
    append(JOURNAL_CODEC_PAYLOAD, span_text("first"), 0);
    add_fact(first_payload, 1, 0, 0);
    append_facts(0);
    append(JOURNAL_CODEC_PAYLOAD, span_text("other"), 0);
    add_fact(JOURNAL_CODEC_NEWEST_PAYLOAD, 2, 0, 0);
    append_facts(0);
}

/* The value before it has the same size, and is not taken for it. */
Test(recovery, gives_no_fact_the_payload_of_another)
{
    append_two(JOURNAL_CODEC_NEWEST_PAYLOAD);
    lose("other");
    expect_refused("cannot be replayed, because a repair cut out records before it: a fact needs "
                   "a payload that is missing");
    cr_assert_eq(told_count, 1);
}

Test(recovery, counts_what_a_repair_cut_out)
{
    append_two(JOURNAL_CODEC_NO_PAYLOAD);
    lose("first");
    recover(2, 1);
}

Test(recovery, takes_no_payload_from_before_a_gap)
{
    append(JOURNAL_CODEC_PAYLOAD, span_text("first"), 0);
    append(JOURNAL_CODEC_PAYLOAD, span_text("other"), 0);
    append_facts_behind(1, 1);
    lose("other");
    expect_refused("cannot be replayed, because a repair cut out records before it: a fact needs "
                   "a payload that is missing");
}
