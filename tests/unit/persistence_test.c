/* SPDX-License-Identifier: MPL-2.0 */
/* persistence_test.c -- nothing is said before what it tells is kept; the core is played by the
 * test, the disk too. */
#include "broker/io/persistence.h"

#include "broker/io/journal_codec.h"
#include "broker/journal/format.h"
#include "tests/lib/folder.h"
#include "tests/unit/journal_driver.h"
#include "tests/unit/stateless_core.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

enum { SOON_MS = 20000, CONN = 5 };

/* ---- the core -------------------------------------------------------------------------------- */

static uint64_t decided;     /* facts so far */
static uint64_t kept;        /* as the last event said */
static bool is_idle;         /* nothing is decided, nor said */
static bool is_refusing;     /* nothing is decided, and two conclusions are said */
static bool has_conclusions; /* they are said, too */
static size_t held_bytes;    /* by what a snapshot must tell */

/* Each step decides something, and says an answer, an outcome, a conclusion and news. */
void core_step(struct core *core, const struct event *event, struct effects *effects)
{
    (void)core;
    kept = event->kept;
    if (is_refusing) {
        effects_msg(effects, CONN, MSG_VERDICT);
        effects_msg(effects, CONN, MSG_VERDICT);
    }
    if (is_idle || is_refusing)
        return;
    struct fact fact = {.type = FACT_FAILURE_FORGOTTEN, .as.failure_forgotten.failure = ++decided};
    payload_id payload = event->type == EVENT_DATA ? event->as.data.payload : 0;
    if (payload != 0)
        effects_retain(effects, payload, 1);
    effects_fact(effects, &fact, payload);
    (void)effects_msg(effects, CONN, MSG_ACCEPTED);
    effects_frame(effects, CONN, 1, FRAME_END)->frame.seq = decided;
    if (has_conclusions)
        effects_msg(effects, CONN, MSG_VERDICT);
    effects_msg(effects, CONN, MSG_ECHO);
    effects_msg(effects, CONN, MSG_STATUS_END);
}

int64_t core_deadline_ns(const struct core *core)
{
    (void)core;
    return INT64_MAX;
}

const char *core_replay(struct core *core, struct span record, payload_id payload,
                        struct effects *effects)
{
    (void)core;
    (void)record;
    (void)payload;
    (void)effects;
    return "nothing is replayed here";
}

struct core_moment core_seen(const struct core *core)
{
    (void)core;
    return (struct core_moment){0, 0};
}

void core_resume(struct core *core, const struct event *now, struct effects *effects)
{
    (void)core;
    (void)now;
    (void)effects;
}

void core_snapshot(struct core *core, struct effects *effects)
{
    (void)core;
    static const uint8_t error[LIMIT_ERROR_BYTES];
    struct fact fact = {.type = FACT_FAILURE_FORGOTTEN, .as.failure_forgotten.failure = 1};
    effects_fact(effects, &fact, 0);
    fact = (struct fact){.type = FACT_FAILURE_MADE, .as.failure_made.failure = 2};
    fact.as.failure_made.error = span_of(error, held_bytes);
    if (held_bytes > 0)
        effects_fact(effects, &fact, 0);
}

/* ---- persistence ----------------------------------------------------------------------------- */

static struct sim_disk *sim;
static struct folder folder; /* where values would be read back, if there were any */
static struct memory memory;
static struct core_port *port;
static struct persistence persistence;
static int64_t now_ns;

static void start_on(struct journal *journal, enum durability durability)
{
    memory_heap_init(&memory, UINT64_MAX);
    port = core_port_new(&memory, NULL, 0);
    cr_assert_not_null(port);
    persistence_init(&persistence, &memory);
    persistence_lend(&persistence, port, DEFAULT_MEMORY_BYTES);
    char complaint[JOURNAL_COMPLAINT_BYTES];
    cr_assert(folder_make(&folder));
    cr_assert(persistence_start(&persistence, folder.path, &journal, durability, port, complaint),
              "%s", complaint);
    cr_assert_null(journal);
}

static void start(enum durability durability)
{
    sim = sim_disk_new(11);
    start_on(driver_open(sim), durability);
}

static void fini(void)
{
    persistence_fini(&persistence);
    core_port_free(&port);
    sim_disk_free(&sim);
    folder_fini(&folder);
}

TestSuite(persistence, .fini = fini);

/* One step; a bit of each saying that was not held back. */
static unsigned decide(void)
{
    struct core_port_out out;
    unsigned said = 0;
    core_port_tick(port, (struct core_port_now){.now_ns = 1});
    persistence_give(&persistence, port);
    while (core_port_out(port, &out)) {
        bool says = out.kind == CORE_PORT_CONTROL || out.kind == CORE_PORT_DATA;
        if (!persistence_holds(&persistence, &out) && says)
            said |= 1u << out.saying;
        buffer_unref(&out.part);
    }
    return said;
}

/* Waits for the journal thread; the test fails if it has nothing to tell. */
static void hear(void)
{
    struct pollfd item = {.fd = persistence_fd(&persistence), .events = POLLIN};
    cr_assert_eq(poll(&item, 1, SOON_MS), 1);
    persistence_hear(&persistence, port, now_ns);
}

/* The end of a status, as an observer is told it now; stands until the next step. */
static struct msg_status_end ask(void)
{
    static uint8_t bytes[LIMIT_CONTROL_BYTES];
    struct core_port_out out;
    struct msg msg = {.type = MSG_NONE};
    core_port_tick(port, (struct core_port_now){.now_ns = 1});
    persistence_give(&persistence, port);
    while (core_port_out(port, &out)) {
        bool is_held = persistence_holds(&persistence, &out);
        if (!is_held && out.kind == CORE_PORT_CONTROL && msg.type != MSG_STATUS_END) {
            memcpy(bytes, out.part->data, out.part->bytes);
            cr_assert_eq(msg_decode(span_of(bytes, out.part->bytes), MSG_LANE_CONTROL,
                                    MSG_TO_CLIENT, &msg, NULL),
                         WIRE_OK);
        }
        buffer_unref(&out.part);
    }
    cr_assert_eq(msg.type, MSG_STATUS_END);
    return msg.as.status_end;
}

/* Parts that may be said now, by lane. */
static void take(unsigned counts[2])
{
    struct held held;
    while (persistence_next(&persistence, &held)) {
        cr_assert_eq(held.conn, CONN);
        counts[held.lane == MSG_LANE_DATA] += 1;
        enum core_port_saying saying =
            held.lane == MSG_LANE_DATA ? CORE_PORT_OUTCOME : CORE_PORT_ANSWER;
        bool is_on_disk = durability_wait(persistence.durability, saying) == WAIT_FOR_DISK;
        cr_assert_leq(held.ticket, is_on_disk ? persistence.news.synced : persistence.news.logged,
                      "said before it was kept");
        buffer_unref(&held.part);
    }
}

Test(persistence, holds_nothing_back_without_a_journal)
{
    sim = sim_disk_new(11);
    memory_heap_init(&memory, UINT64_MAX);
    port = core_port_new(&memory, NULL, 0);
    persistence_init(&persistence, &memory);
    cr_assert_eq(decide(), 1u << CORE_PORT_NEWS | 1u << CORE_PORT_OUTCOME | 1u << CORE_PORT_ANSWER);
    cr_assert(persistence_has_room(&persistence));
    cr_assert(persistence_is_quiet(&persistence));
    cr_assert_eq(persistence_fd(&persistence), -1);
    cr_assert_not(persistence_has_changed(&persistence));
    struct msg_status_end end = ask();
    cr_expect(span_equal(end.journal, span_text("none")));
    cr_expect_eq(end.journal_directory.bytes + end.journal_reason.bytes, 0);
    cr_expect_eq(end.journal_bytes + end.journal_next + end.journal_state, 0);
}

Test(persistence, tells_a_status_where_the_journal_is_and_how_far)
{
    start(DURABILITY_DISK);
    struct msg_status_end end = ask();
    cr_expect(span_equal(end.journal, span_text("sim")));
    cr_expect(span_equal(end.journal_directory, span_text("sim")));
    cr_expect_eq(end.journal_state, 0);
    cr_expect_eq(end.journal_reason.bytes, 0);
    cr_expect_geq(end.journal_bytes, 2 * DRIVER_SEGMENT, "a segment, and what is set aside");
    cr_expect_eq(end.journal_first, 0);
    cr_expect_eq(end.journal_next, 0);
    while (persistence.news.synced < persistence.ticket)
        hear();
    end = ask();
    cr_expect_gt(end.journal_next, 0);
    cr_expect_eq(end.journal_synced, end.journal_next);
}

/* The broker before was killed between the log and the sync. */
Test(persistence, syncs_at_disk_what_it_found_before_it_tells_of_it)
{
    sim = sim_disk_new(11);
    struct journal *journal = driver_open_as(sim, true);
    driver_must_append(journal, 0, 3);
    sim_disk_stop_after(sim, 0);
    journal_close(&journal);
    start_on(driver_open_as(sim, true), DURABILITY_DISK);
    cr_expect_gt(persistence.news.next, 0);
    cr_expect_eq(persistence.news.on_disk, persistence.news.next);
}

/* Of an outcome which the journal has already nothing more is to be kept; but it does not overtake
 * those before it. */
Test(persistence, lets_out_at_once_what_is_kept_already)
{
    start(DURABILITY_PROCESS);
    for (int how = 0; how < 3; how++) {
        struct core_port_out out = {
            .kind = CORE_PORT_DATA, .saying = CORE_PORT_OUTCOME, .conn = CONN};
        out.part = buffer_copy(span_text("value"));
        out.is_kept = how != 1; /* first; behind what is not kept; behind that */
        persistence.ticket = persistence.news.logged + 1;
        cr_expect_eq(persistence_holds(&persistence, &out), how > 0, "%d", how);
        buffer_unref(&out.part);
    }
    unsigned counts[2] = {0};
    persistence.news.logged = persistence.ticket;
    take(counts);
    cr_expect_eq(counts[1], 2);
}

/* A path need not be text, and what goes over the wire must be. */
Test(persistence, tells_a_path_that_is_no_text)
{
    start(DURABILITY_PROCESS);
    snprintf(persistence.place, sizeof persistence.place, "/a/\xff\xc3\xa9");
    cr_expect(span_equal(ask().journal_directory, span_text("/a/?\xc3\xa9")));
    snprintf(persistence.place, sizeof persistence.place, "/a/\xc3\xa9");
    cr_expect(span_equal(ask().journal_directory, span_text("/a/\xc3\xa9")));
}

Test(persistence, says_all_but_news_once_it_is_in_the_log)
{
    unsigned counts[2] = {0};
    start(DURABILITY_PROCESS);
    for (unsigned i = 0; i < 100; i++)
        cr_assert_eq(decide(), 1u << CORE_PORT_NEWS);
    while (counts[0] < 100 || counts[1] < 100) {
        hear();
        take(counts);
    }
    cr_assert(persistence_is_quiet(&persistence));
}

/* No sync goes well until it may: outcomes come out, not one answer does. */
Test(persistence, says_answers_at_disk_behind_their_sync_alone)
{
    unsigned counts[2] = {0};
    start(DURABILITY_DISK);
    for (unsigned i = 0; i < 100; i++)
        cr_assert_eq(decide(), 1u << CORE_PORT_NEWS);
    while (counts[0] < 100 || counts[1] < 100) {
        hear();
        take(counts);
        cr_assert_leq(counts[0], persistence.news.synced);
        cr_assert_leq(counts[1], persistence.news.logged);
    }
    cr_assert(persistence_is_quiet(&persistence));
}

/* The next broker may be on another machine: what it does not have, nobody was shown. */
Test(persistence, says_nothing_but_news_at_shared_before_its_sync)
{
    unsigned counts[2] = {0};
    has_conclusions = true;
    start(DURABILITY_SHARED);
    for (unsigned i = 0; i < 100; i++)
        cr_assert_eq(decide(), 1u << CORE_PORT_NEWS);
    while (counts[0] < 200 || counts[1] < 100) {
        hear();
        take(counts);
        cr_assert_leq(counts[0], 2 * persistence.news.synced);
        cr_assert_leq(counts[1], persistence.news.synced);
    }
    cr_assert(persistence_is_quiet(&persistence));
}

/* The lane of the first of two parts that may go together. */
static enum msg_lane first_said(enum durability durability, bool is_elsewhere)
{
    struct held first = {.part = NULL};
    struct held second = {.part = NULL};
    sim = sim_disk_new(11);
    if (is_elsewhere)
        sim_disk_need_keeping(sim);
    start_on(driver_open(sim), durability);
    (void)decide();
    while (persistence.news.logged < persistence.ticket ||
           (durability_syncs(durability) && persistence.news.synced < persistence.ticket))
        hear();
    cr_assert(persistence_next(&persistence, &first));
    cr_assert(persistence_next(&persistence, &second));
    cr_expect_neq(first.lane, second.lane);
    buffer_unref(&first.part);
    buffer_unref(&second.part);
    return first.lane;
}

/* A writer that flushes waits for the answer alone. */
Test(persistence, says_answers_first_behind_a_commit_on_other_machines)
{
    cr_expect_eq(first_said(DURABILITY_SHARED, true), MSG_LANE_CONTROL);
}

Test(persistence, says_outcomes_first_behind_a_sync_of_this_machine)
{
    cr_expect_eq(first_said(DURABILITY_SHARED, false), MSG_LANE_DATA);
}

Test(persistence, says_outcomes_first_behind_the_log)
{
    cr_expect_eq(first_said(DURABILITY_PROCESS, false), MSG_LANE_DATA);
}

/* A value comes, and no sync goes well. */
static void decide_on_value(enum durability durability)
{
    struct buffer *part = buffer_new(BATCH_HEADER_BYTES + frame_total(5));
    struct frame frame = {.flags = FRAME_VALUE,
                          .delivery = 1,
                          .topic = 9,
                          .seq = 1,
                          .reply_to = FRAME_NO_REPLY,
                          .value = span_text("hello")};
    start(durability);
    sim_disk_fault(sim, SIM_SYNC, 0, UINT64_MAX, EIO);
    batch_header_write(part->data, 1, (uint32_t)frame_total(5), 1);
    frame_write(part->data + BATCH_HEADER_BYTES, &frame);
    part->bytes = BATCH_HEADER_BYTES + frame_total(5);
    core_port_data_in(port, (struct core_port_now){.now_ns = 1}, CONN, &part);
    persistence_give(&persistence, port);
    struct core_port_out out;
    while (core_port_out(port, &out))
        buffer_unref(&out.part);
    cr_assert_not(core_port_is_logged(port));
    while (persistence_state(&persistence) != JOURNAL_IS_FAILED)
        hear();
}

/* What it becomes could go out at once, if the payload counted as kept. */
Test(persistence, keeps_a_payload_at_shared_when_it_is_synced)
{
    decide_on_value(DURABILITY_SHARED);
    cr_expect_not(core_port_is_logged(port));
}

Test(persistence, keeps_a_payload_at_disk_when_it_is_logged)
{
    decide_on_value(DURABILITY_DISK);
    cr_expect(core_port_is_logged(port));
}

Test(persistence, says_conclusions_at_disk_at_once)
{
    has_conclusions = true;
    start(DURABILITY_DISK);
    cr_assert_eq(decide(), 1u << CORE_PORT_NEWS | 1u << CORE_PORT_CONCLUSION);
}

/* Another broker may have the journal by then.  One sync is enough for all that one step says. */
Test(persistence, concludes_at_shared_behind_a_sync_that_begins_then)
{
    unsigned counts[2] = {0};
    is_refusing = true;
    start(DURABILITY_SHARED);
    for (uint64_t i = 1; i <= 3; i++) {
        cr_assert_eq(decide(), 0);
        cr_assert_eq(persistence.ticket, i);
        cr_expect_eq(persistence.given_bytes, i * FORMAT_RECORD_BYTES);
        take(counts);
        cr_assert_eq(counts[0], 2 * (i - 1), "it waits");
        while (persistence.news.synced < i)
            hear();
        take(counts);
        cr_assert_eq(counts[0], 2 * i);
    }
    is_refusing = false;
    has_conclusions = true;
    (void)decide();
    cr_expect_eq(persistence.ticket, 4, "its facts are synced then");
}

Test(persistence, concludes_at_disk_at_once)
{
    is_refusing = true;
    start(DURABILITY_DISK);
    cr_assert_eq(decide(), 1u << CORE_PORT_CONCLUSION);
    cr_expect_eq(persistence.ticket, 0);
}

/* What is set aside there is not for whoever is refused. */
Test(persistence, concludes_on_a_full_disk_without_a_record)
{
    is_refusing = true;
    start(DURABILITY_SHARED);
    persistence.news.state = JOURNAL_IS_FULL;
    cr_assert_eq(decide(), 1u << CORE_PORT_CONCLUSION);
    cr_expect_eq(persistence.ticket, 0);
}

Test(persistence, says_nothing_at_shared_after_a_sync_that_failed)
{
    unsigned counts[2] = {0};
    has_conclusions = true;
    start(DURABILITY_SHARED);
    sim_disk_fault(sim, SIM_SYNC, 0, UINT64_MAX, EIO);
    decide();
    while (persistence_state(&persistence) != JOURNAL_IS_FAILED)
        hear();
    take(counts);
    cr_expect_eq(counts[0] + counts[1], 0, "the next broker may not have it");
}

/* Here each step has a ticket of the same number. */
Test(persistence, tells_the_core_how_many_steps_are_kept_and_never_too_many)
{
    enum { STEPS = 20 };
    start(DURABILITY_DISK);
    for (int i = 0; i < STEPS; i++) {
        decide();
        cr_assert_eq(kept, persistence.news.synced);
        if (i % 7 == 6)
            hear();
    }
    while (persistence.news.synced < persistence.ticket)
        hear();
    decide();
    cr_expect_eq(kept, STEPS);
}

/* What decides nothing needs no journal: else a broker that is asked, and decides nothing, would
 * never say what it sent. */
Test(persistence, counts_steps_that_decided_nothing)
{
    start(DURABILITY_DISK);
    decide();
    while (persistence.news.synced < persistence.ticket)
        hear();
    is_idle = true;
    for (int i = 0; i < 5; i++)
        decide();
    persistence_hear(&persistence, port, now_ns);
    decide();
    cr_expect_eq(kept, 6);
}

Test(persistence, says_no_answer_after_a_sync_that_failed)
{
    unsigned counts[2] = {0};
    start(DURABILITY_DISK);
    sim_disk_fault(sim, SIM_SYNC, 0, UINT64_MAX, EIO);
    decide();
    while (persistence_state(&persistence) != JOURNAL_IS_FAILED || counts[1] == 0) {
        hear();
        take(counts);
    }
    cr_assert(persistence_has_changed(&persistence));
    cr_assert_not(persistence_has_changed(&persistence), "it is told once");
    cr_assert_neq(persistence_complaint(&persistence)[0], '\0');
    cr_assert_eq(counts[0], 0);
    cr_assert_eq(counts[1], 1, "it is in the log: its outcome may be seen");
    cr_assert_not(persistence_is_quiet(&persistence));
    cr_assert_not(persistence_has_room(&persistence));
}

Test(persistence, says_nothing_while_writes_are_refused_and_all_of_it_then)
{
    unsigned counts[2] = {0};
    start(DURABILITY_PROCESS);
    sim_disk_fault(sim, SIM_WRITE, 0, 2, EIO);
    decide();
    hear();
    take(counts);
    cr_assert_eq(persistence_state(&persistence), JOURNAL_IS_REFUSED);
    cr_assert(persistence_has_changed(&persistence));
    cr_assert_not(persistence_has_room(&persistence));
    cr_assert_not(persistence_is_full(&persistence));
    cr_assert_eq(counts[0] + counts[1], 0);
    struct msg_status_end end = ask();
    cr_expect_eq(end.journal_state, 2);
    cr_expect_gt(end.journal_reason.bytes, 0);
    while (counts[0] == 0 || counts[1] == 0) {
        hear();
        take(counts);
    }
    cr_assert_eq(persistence_state(&persistence), JOURNAL_IS_WELL);
    cr_assert(persistence_has_changed(&persistence));
    cr_assert(persistence_has_room(&persistence));
}

/* While another broker may have taken the shard, the core must decide nothing. */
Test(persistence, reports_a_change_once_the_broker_may_speak_again)
{
    start(DURABILITY_PROCESS);
    sim_disk_fault(sim, SIM_WRITE, 0, 2, EIO);
    decide();
    hear();
    cr_assert_eq(persistence_state(&persistence), JOURNAL_IS_REFUSED);
    uint64_t before = decided;
    persistence_report_end(&persistence);
    cr_expect_eq(decided, before);
    cr_expect(persistence_has_changed(&persistence));
}

/* Nothing comes behind that, so nobody waits. */
Test(persistence, reports_an_end_though_the_broker_may_not_speak)
{
    start(DURABILITY_DISK);
    sim_disk_fault(sim, SIM_SYNC, 0, UINT64_MAX, EIO);
    decide();
    while (persistence_state(&persistence) != JOURNAL_IS_FAILED)
        hear();
    persistence_report_end(&persistence);
    cr_expect_not(persistence_has_changed(&persistence));
}

/* What is decided on a full disk is kept and said, nothing more is let in, and then it goes on. */
Test(persistence, goes_on_by_itself_when_there_is_room_again)
{
    unsigned counts[2] = {0};
    start(DURABILITY_DISK);
    sim_disk_limit(sim, 4 * DRIVER_SEGMENT);
    while (persistence_state(&persistence) == JOURNAL_IS_WELL) {
        uint64_t ticket = persistence.ticket + 1;
        decide();
        while (persistence.news.logged < ticket)
            hear();
    }
    cr_assert(persistence_is_full(&persistence));
    cr_assert_not(persistence_has_room(&persistence));
    struct msg_status_end end = ask();
    cr_expect_eq(end.journal_state, 1);
    cr_expect_gt(end.journal_reason.bytes, 0);
    decide();
    while (counts[0] < decided || counts[1] < decided) {
        take(counts);
        if (counts[0] < decided || counts[1] < decided)
            hear();
    }
    cr_assert(persistence_is_quiet(&persistence));
    sim_disk_limit(sim, SIM_NO_LIMIT);
    while (!persistence_has_room(&persistence))
        hear();
    cr_assert_eq(persistence_state(&persistence), JOURNAL_IS_WELL);
}

/* Lets the journal grow until the disk has no more room for values. */
static void fill_segments(uint64_t segments)
{
    sim_disk_limit(sim, segments * DRIVER_SEGMENT);
    while (persistence_state(&persistence) == JOURNAL_IS_WELL) {
        uint64_t ticket = persistence.ticket + 1;
        decide();
        while (persistence.news.logged < ticket)
            hear();
    }
}

static void fill(void)
{
    fill_segments(4);
}

/* Before the next checkpoint could take more than half of what is set aside, it is made. */
Test(persistence, makes_a_checkpoint_while_there_is_room_for_it)
{
    start(DURABILITY_PROCESS);
    uint64_t most = persistence.news.aside / PERSISTENCE_ASIDE_TIMES;
    uint64_t step_bytes = 0;
    while (persistence.noted_bytes + step_bytes < most) {
        uint64_t before = persistence.noted_bytes;
        decide();
        step_bytes = persistence.noted_bytes - before;
        uint64_t ticket = persistence.ticket;
        persistence_checkpoint(&persistence, port);
        cr_assert(persistence.noted_bytes >= most || persistence.ticket == ticket, "none is due");
    }
    cr_assert_lt(persistence.noted_bytes, most);
    decide();
    cr_assert_geq(persistence.noted_bytes, most);
    cr_assert_not(persistence_has_room(&persistence), "it comes first");
    persistence_checkpoint(&persistence, port);
    cr_assert_eq(persistence.noted_bytes, 0);
    while (!persistence_has_room(&persistence))
        hear();
}

/* What the last one took is not known before it is in the log: the disk may be full with it. */
Test(persistence, makes_no_checkpoint_before_the_last_is_in_the_log)
{
    start(DURABILITY_PROCESS);
    while (!persistence_is_growing(&persistence))
        decide();
    persistence_checkpoint(&persistence, port);
    uint64_t last = persistence.checkpoint_ticket;
    while (!persistence_is_growing(&persistence))
        decide();
    persistence_checkpoint(&persistence, port);
    cr_assert_eq(persistence.checkpoint_ticket, last, "nothing was heard of it yet");
    while (persistence.news.logged < last)
        hear();
    persistence_checkpoint(&persistence, port);
    cr_assert_gt(persistence.checkpoint_ticket, last);
}

/* What waits grows by so many bytes, as by a value's. */
static void give_value(size_t bytes)
{
    struct journal_step *step = journal_step_new(1, bytes);
    memset(journal_step_body(step, JOURNAL_CODEC_SNAPSHOT, bytes), 0, bytes);
    persistence.ticket = journal_thread_give(persistence.thread, &step);
}

/* What is under way to the disk finds its place in what is set aside, should that disk be full. */
Test(persistence, is_short_when_much_waits_though_the_disk_is_well)
{
    start(DURABILITY_PROCESS);
    uint64_t aside = persistence.news.aside;
    sim_disk_fault(sim, SIM_WRITE, 0, UINT64_MAX, EIO);
    give_value(aside / PERSISTENCE_VALUE_SHARES - 1);
    cr_assert(persistence_has_room(&persistence));
    give_value(1);
    cr_assert_not(persistence_has_room(&persistence));
    while (journal_thread_waiting_bytes(persistence.thread) <
           aside / PERSISTENCE_VALUE_SHARES + aside / PERSISTENCE_FACT_SHARES) {
        cr_assert_not(persistence_is_short(&persistence));
        decide();
    }
    cr_assert(persistence_is_short(&persistence));
    cr_assert_eq(persistence_state(&persistence), JOURNAL_IS_WELL, "as far as was heard");
    hear();
    cr_assert_eq(persistence_state(&persistence), JOURNAL_IS_REFUSED);
    while (!persistence_is_growing(&persistence))
        decide();
    persistence_checkpoint(&persistence, port);
    cr_assert_eq(persistence.checkpoint_ticket, 0, "it would only wait, too");
}

/* A checkpoint, when the journal has more than one file. */
static void reach_checkpoint(void)
{
    while (persistence.news.first_end == UINT64_MAX || !persistence_is_growing(&persistence)) {
        decide();
        hear();
    }
    persistence_checkpoint(&persistence, port);
    cr_assert_eq(persistence_deadline_ns(&persistence, port), INT64_MAX, "it is not whole yet");
    while (persistence.news.logged < persistence.checkpoint_ticket)
        hear();
}

/* The same, and a payload in the first file is wanted. */
static payload_id make_checkpoint(void)
{
    payload_id payload = 0;
    start(DURABILITY_PROCESS);
    cr_assert(core_port_payload_add_stored(port, 0, 8, &payload));
    reach_checkpoint();
    return payload;
}

static void expect_trim(bool is_due)
{
    uint64_t ticket = persistence.ticket;
    persistence_hear(&persistence, port, now_ns);
    cr_assert_eq(persistence.ticket, ticket + is_due);
    cr_assert_eq(persistence.has_to_trim, !is_due);
    while (is_due && persistence.news.logged < persistence.ticket)
        hear();
}

/* What was on its way when a checkpoint was made does not hold its file for long. */
Test(persistence, trims_a_while_behind_a_checkpoint)
{
    payload_id payload = make_checkpoint();
    int64_t due_ns = now_ns + PERSISTENCE_TRIM_MS * INT64_C(1000000);
    cr_assert_eq(persistence_deadline_ns(&persistence, port), due_ns);
    core_port_payload_drop(port, payload);
    now_ns = due_ns - 1;
    expect_trim(false);
    cr_assert_eq(persistence.news.first, 0);
    now_ns = due_ns;
    expect_trim(true);
    cr_assert_gt(persistence.news.first, 0);
    cr_assert_eq(persistence_deadline_ns(&persistence, port), INT64_MAX);
}

Test(persistence, trims_when_enough_came_behind_a_checkpoint)
{
    payload_id payload = make_checkpoint();
    core_port_payload_drop(port, payload);
    persistence.given_bytes = PERSISTENCE_TRIM_BYTES - 1;
    expect_trim(false);
    persistence.given_bytes = PERSISTENCE_TRIM_BYTES;
    expect_trim(true);
    cr_assert_gt(persistence.news.first, 0);
}

Test(persistence, trims_nothing_that_is_wanted)
{
    (void)make_checkpoint();
    persistence.given_bytes = PERSISTENCE_TRIM_BYTES;
    expect_trim(true);
    cr_assert_eq(persistence.news.first, 0);
}

static void expect_checkpoint(bool is_due)
{
    uint64_t ticket = persistence.checkpoint_ticket;
    cr_expect_eq(persistence_has_room(&persistence), !is_due, "nothing is let in before it");
    persistence_checkpoint(&persistence, port);
    cr_assert_eq(persistence.checkpoint_ticket > ticket, is_due);
}

/* Where much comes in little time, a checkpoint has its time, ... */
/* What is given is counted by itself: a step once, facts and values apart.  From that alone it is
 * known when the next checkpoint is due. */
Test(persistence, counts_what_goes_into_the_journal)
{
    start(DURABILITY_PROCESS);
    uint64_t given = persistence.given_bytes;
    uint64_t noted = persistence.noted_bytes;
    (void)decide();
    uint64_t step_bytes = persistence.given_bytes - given;
    cr_expect_gt(step_bytes, 0);
    cr_expect_eq(persistence.noted_bytes - noted, step_bytes, "facts alone");
    for (int i = 0; i < 10; i++)
        (void)decide();
    cr_expect_eq(persistence.given_bytes - given, 11 * step_bytes);
    cr_expect_eq(persistence.noted_bytes - noted, 11 * step_bytes);
    is_idle = true;
    (void)decide();
    cr_expect_eq(persistence.given_bytes - given, 11 * step_bytes, "nothing was decided");
}

/* What a start had to read counts, or a broker that ends again and again makes no checkpoint. */
Test(persistence, counts_what_was_in_the_journal_before)
{
    sim = sim_disk_new(11);
    struct journal *journal = driver_open(sim);
    driver_must_append(journal, 0, 10);
    uint64_t bytes = journal_between(journal_start(journal), journal_next(journal));
    held_bytes = 100;
    start_on(journal, DURABILITY_PROCESS);
    cr_expect_gt(bytes, 0);
    cr_expect_eq(persistence.given_bytes, bytes);
    cr_expect_eq(persistence.checkpoint_bytes, persistence.snapshot_bytes);
    cr_expect_gt(persistence.checkpoint_bytes, held_bytes);
    held_bytes = 0;
}

/* Else a broker that ends before it trims keeps those files until its next checkpoint. */
Test(persistence, trims_at_once_what_a_checkpoint_of_before_made_needless)
{
    sim = sim_disk_new(11);
    struct journal *journal = driver_open(sim);
    driver_must_append(journal, 0, 10);
    cr_assert_eq(
        driver_append(journal, 10, 1, JOURNAL_CHECKPOINT_BEGIN | JOURNAL_CHECKPOINT_END, NULL),
        JOURNAL_OK);
    cr_assert_gt(journal_start(journal), journal_first(journal));
    start_on(journal, DURABILITY_PROCESS);
    cr_expect(persistence.has_to_trim);
    expect_trim(true);
    cr_expect_not(persistence.has_to_trim);
}

Test(persistence, makes_no_checkpoint_soon_after_the_last_one)
{
    start(DURABILITY_PROCESS);
    reach_checkpoint();
    int64_t due_ns = now_ns + PERSISTENCE_CHECKPOINT_MS * INT64_C(1000000);
    persistence.given_bytes = PERSISTENCE_CHECKPOINT_BYTES;
    expect_trim(true);
    cr_expect_eq(persistence_deadline_ns(&persistence, port), due_ns, "the loop is awake then");
    now_ns = due_ns - 1;
    persistence_hear(&persistence, port, now_ns);
    expect_checkpoint(false);
    now_ns = due_ns;
    persistence_hear(&persistence, port, now_ns);
    persistence.given_bytes = PERSISTENCE_CHECKPOINT_BYTES - 1;
    expect_checkpoint(false);
    persistence.given_bytes = PERSISTENCE_CHECKPOINT_BYTES;
    expect_checkpoint(true);
}

/* ... but not for whatever comes. */
Test(persistence, makes_a_checkpoint_in_a_hurry_where_very_much_comes)
{
    start(DURABILITY_PROCESS);
    reach_checkpoint();
    persistence.given_bytes = PERSISTENCE_HURRY_TIMES * PERSISTENCE_CHECKPOINT_BYTES - 1;
    expect_trim(true);
    expect_checkpoint(false);
    persistence.given_bytes = PERSISTENCE_HURRY_TIMES * PERSISTENCE_CHECKPOINT_BYTES;
    expect_checkpoint(true);
}

/* The larger a checkpoint, the more is set aside. */
Test(persistence, sets_aside_four_times_a_checkpoint)
{
    start(DURABILITY_PROCESS);
    held_bytes = DRIVER_SEGMENT;
    while (persistence.checkpoint_ticket == 0) {
        decide();
        persistence_checkpoint(&persistence, port);
    }
    while (persistence.news.aside == DRIVER_SEGMENT) {
        decide();
        hear();
    }
    cr_expect_eq(persistence.news.aside, PERSISTENCE_ASIDE_TIMES * persistence.checkpoint_bytes);
    cr_expect_gt(persistence.checkpoint_bytes, held_bytes);
    held_bytes = 0;
}

/* A full disk is where room must come from: a checkpoint is made before it is due. */
Test(persistence, makes_a_checkpoint_when_the_disk_is_full)
{
    start(DURABILITY_PROCESS);
    fill();
    persistence_checkpoint(&persistence, port);
    while (!persistence_has_room(&persistence))
        hear();
    cr_assert_eq(persistence_state(&persistence), JOURNAL_IS_WELL, "old segments went");
}

/* Where a checkpoint stands behind what readers took, no other is needed, nor room for it. */
Test(persistence, lets_go_what_was_taken_on_a_full_disk_without_another_checkpoint)
{
    payload_id payload = make_checkpoint();
    uint64_t checkpoint = persistence.checkpoint_ticket;
    persistence.given_bytes = PERSISTENCE_TRIM_BYTES;
    expect_trim(true);
    held_bytes = 2 * DRIVER_SEGMENT; /* the next would not fit */
    fill();
    persistence_checkpoint(&persistence, port);
    cr_assert_eq(persistence.checkpoint_ticket, checkpoint);
    cr_assert(persistence_is_full(&persistence));
    cr_assert_eq(persistence.news.first, 0);
    core_port_payload_drop(port, payload);
    persistence_hear(&persistence, port, now_ns);
    while (!persistence_has_room(&persistence)) {
        persistence_checkpoint(&persistence, port);
        hear();
    }
    cr_assert_eq(persistence.checkpoint_ticket, checkpoint);
    held_bytes = 0;
}

/* On a disk that is full by then, it must find its place in what is set aside. */
Test(persistence, moves_no_more_than_the_part_for_values)
{
    static const struct {
        uint64_t aside, bytes;
    } cases[] = {{0, 0},
                 {4095, 1023},
                 {4096, 1024},
                 {4 * PERSISTENCE_MOVE_BYTES - 4, PERSISTENCE_MOVE_BYTES - 1},
                 {4 * PERSISTENCE_MOVE_BYTES, PERSISTENCE_MOVE_BYTES},
                 {4 * PERSISTENCE_MOVE_BYTES + 4, PERSISTENCE_MOVE_BYTES}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect_eq(persistence_movable_bytes(cases[i].aside), cases[i].bytes, "%zu", i);
}

/* The more is wanted, the more of the journal is left as it is. */
Test(persistence, leaves_eight_times_what_is_wanted)
{
    static const struct {
        uint64_t wanted, recent;
    } cases[] = {{0, PERSISTENCE_RECENT_MIN},
                 {PERSISTENCE_RECENT_MIN / 8, PERSISTENCE_RECENT_MIN},
                 {PERSISTENCE_RECENT_MIN / 8 + 1, PERSISTENCE_RECENT_MIN + 8},
                 {PERSISTENCE_RECENT_MAX / 8 - 1, PERSISTENCE_RECENT_MAX - 8},
                 {PERSISTENCE_RECENT_MAX / 8, PERSISTENCE_RECENT_MAX},
                 {UINT64_MAX, PERSISTENCE_RECENT_MAX}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect_eq(persistence_recent_bytes(cases[i].wanted), cases[i].recent, "%zu", i);
}

enum { OLD_VALUES = 12, OLD_BYTES = 128 * 1024 };
#define OLD_APART (UINT64_C(8) * 1024 * 1024)
#define NEAR_BYTES (PERSISTENCE_CHECKPOINT_BYTES - PERSISTENCE_CHECKPOINT_BYTES / 4)

/* A journal in which few old values lie far apart, all of them older than the newest bytes. */
static void start_with_old_values(void)
{
    static const uint8_t value[OLD_BYTES];
    start(DURABILITY_PROCESS);
    for (uint64_t i = 0; i < OLD_VALUES; i++) {
        struct buffer *bytes = buffer_copy(span_of(value, sizeof value));
        payload_id payload = 0;
        cr_assert(core_port_payload_add(port, &bytes, i * OLD_APART, &payload));
    }
    persistence.news.aside = PERSISTENCE_VALUE_SHARES * PERSISTENCE_MOVE_BYTES;
    persistence.news.next = OLD_VALUES * OLD_APART + PERSISTENCE_RECENT_MIN;
}

static void expect_moves(uint64_t count)
{
    uint64_t ticket = persistence.ticket;
    uint64_t checkpoint = persistence.checkpoint_ticket;
    persistence_checkpoint(&persistence, port);
    cr_assert_eq(persistence.ticket, ticket + count);
    cr_assert_eq(persistence.checkpoint_ticket, checkpoint);
}

static void hear_all(void)
{
    while (persistence.news.logged < persistence.ticket)
        hear();
}

/* Whoever publishes waits for a part of them at most, and not for all at once. */
Test(persistence, moves_old_values_in_parts_before_a_checkpoint_is_due)
{
    start_with_old_values();
    persistence.given_bytes = NEAR_BYTES - 1;
    expect_moves(0);
    persistence.given_bytes = NEAR_BYTES;
    expect_moves(2);
    cr_expect(persistence_has_room(&persistence), "others are let in meanwhile");
    expect_moves(0);
    hear_all();
    expect_moves(2);
    hear_all();
    persistence.given_bytes += PERSISTENCE_MOVE_RATIO * 6 * OLD_BYTES;
    expect_moves(6);
    hear_all();
    expect_moves(2);
    hear_all();
    expect_moves(0);
    cr_expect(core_port_is_logged(port));
    cr_expect_eq(persistence.moved_from, 0, "the old places stay until the checkpoint");
    persistence.given_bytes = PERSISTENCE_CHECKPOINT_BYTES;
    expect_checkpoint(true);
    cr_expect_eq(persistence.moved_from, UINT64_MAX);
}

/* Where much comes, what is left comes at once. */
Test(persistence, moves_all_that_is_left_once_a_checkpoint_is_due)
{
    start_with_old_values();
    persistence.given_bytes = NEAR_BYTES;
    expect_moves(2);
    hear_all();
    persistence.given_bytes = PERSISTENCE_CHECKPOINT_BYTES;
    expect_moves(OLD_VALUES - 2);
    expect_moves(0);
    hear_all();
    expect_checkpoint(true);
}

Test(persistence, chooses_old_values_anew_for_each_checkpoint)
{
    start_with_old_values();
    persistence.given_bytes = PERSISTENCE_CHECKPOINT_BYTES;
    uint64_t next = persistence.news.next;
    persistence.news.next = 0;
    expect_checkpoint(true);
    hear_all();
    persistence.news.next = next;
    persistence.news.aside = PERSISTENCE_VALUE_SHARES * PERSISTENCE_MOVE_BYTES;
    persistence.given_bytes = NEAR_BYTES;
    expect_moves(2);
}

/* Of a large checkpoint it is further to the next one. */
Test(persistence, moves_old_values_when_the_next_checkpoint_is_near)
{
    start_with_old_values();
    persistence.checkpoint_bytes = 2 * PERSISTENCE_CHECKPOINT_BYTES / PERSISTENCE_CHECKPOINT_TIMES;
    persistence.given_bytes = 2 * NEAR_BYTES - 1;
    expect_moves(0);
    persistence.given_bytes = 2 * NEAR_BYTES;
    expect_moves(2);
}

Test(persistence, moves_nothing_early_before_the_last_checkpoint_is_whole)
{
    start_with_old_values();
    persistence.given_bytes = NEAR_BYTES;
    persistence.checkpoint_ticket = persistence.ticket + 1;
    expect_moves(0);
    persistence.checkpoint_ticket = 0;
    expect_moves(2);
}

Test(persistence, moves_nothing_early_into_a_journal_that_is_not_well)
{
    start_with_old_values();
    persistence.given_bytes = NEAR_BYTES;
    persistence.news.state = JOURNAL_IS_REFUSED;
    expect_moves(0);
    persistence.news.state = JOURNAL_IS_WELL;
    expect_moves(2);
}

/* A payload that was written anew has gone from its old place in the next checkpoint alone. */
static void move_on_a_full_disk(bool is_chosen)
{
    struct buffer *bytes = buffer_copy(span_text("a value"));
    payload_id payload = 0;
    start(DURABILITY_PROCESS);
    cr_assert(core_port_payload_add(port, &bytes, 0, &payload));
    reach_checkpoint();
    uint64_t checkpoint = persistence.checkpoint_ticket;
    persistence.given_bytes = PERSISTENCE_TRIM_BYTES;
    expect_trim(true);
    persistence.is_chosen = is_chosen;
    fill();
    persistence_checkpoint(&persistence, port);
    cr_assert_eq(persistence.checkpoint_ticket, checkpoint, "first it is written anew");
    uint64_t moved = persistence.ticket;
    while (!core_port_is_logged(port))
        hear();
    persistence_hear(&persistence, port, now_ns);
    cr_assert_gt(core_port_needed_from(port), persistence.news.first_end);
    cr_assert_eq(persistence.ticket, moved, "nothing is let go yet");
    persistence_checkpoint(&persistence, port);
    cr_assert_gt(persistence.checkpoint_ticket, checkpoint);
    while (!persistence_has_room(&persistence))
        hear();
    cr_assert_gt(persistence.news.first, 0);
}

Test(persistence, lets_no_old_place_go_before_a_checkpoint_tells_the_new_one)
{
    move_on_a_full_disk(false);
}

/* Other values pay than while the disk was well. */
Test(persistence, chooses_anew_what_moves_when_the_disk_is_full)
{
    move_on_a_full_disk(true);
}

/* There is room for one checkpoint then, not for two: the last one must be worth it. */
Test(persistence, makes_its_last_checkpoint_only_for_more_room_than_it_takes)
{
    static const struct {
        size_t held_bytes;
        bool is_made;
    } cases[] = {{1500, true}, {2500, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (i > 0)
            fini();
        start(DURABILITY_PROCESS);
        held_bytes = cases[i].held_bytes;
        fill_segments(3);
        uint64_t before = persistence.checkpoint_ticket;
        persistence_checkpoint(&persistence, port);
        cr_expect_eq(persistence.checkpoint_ticket != before, cases[i].is_made, "%zu bytes",
                     cases[i].held_bytes);
        held_bytes = 0;
    }
}

/* Files that cannot be removed are tried again; the checkpoint is not, for it takes of the room
 * that is set aside. */
Test(persistence, makes_one_checkpoint_for_a_trim_that_fails_for_a_while)
{
    start(DURABILITY_PROCESS);
    sim_disk_fault(sim, SIM_UNLINK, 0, 12, EIO);
    fill();
    persistence_checkpoint(&persistence, port);
    uint64_t ticket = persistence.ticket;
    while (!persistence_has_room(&persistence)) {
        hear();
        persistence_checkpoint(&persistence, port);
    }
    cr_assert_eq(persistence.ticket, ticket);
}

/* Of what is set aside enough is left for two checkpoints, and a fourth for what comes before. */
Test(persistence, is_short_before_the_way_out_is_closed)
{
    start(DURABILITY_PROCESS);
    sim_disk_limit(sim, 4 * DRIVER_SEGMENT);
    while (!persistence_is_short(&persistence)) {
        cr_assert_leq(persistence.news.next, 4 * DRIVER_SEGMENT, "all of it is used up");
        uint64_t ticket = persistence.ticket + 1;
        decide();
        while (persistence.news.logged < ticket)
            hear();
    }
    uint64_t needed =
        2 * (persistence.snapshot_bytes + persistence.noted_bytes) + DRIVER_SEGMENT / 4;
    cr_assert(persistence_is_full(&persistence));
    cr_assert_gt(persistence.noted_bytes, 0);
    cr_assert_lt(journal_thread_room(persistence.thread), needed);
    cr_assert_gt(journal_thread_room(persistence.thread), needed - 200, "not long before");
    persistence_checkpoint(&persistence, port);
    while (!persistence_has_room(&persistence))
        hear();
    cr_assert_not(persistence_is_short(&persistence));
}

/* What is let go on a full disk makes a checkpoint smaller: one that would not have fitted then
 * does, and room is made, though nobody says a word any more. */
Test(persistence, measures_again_what_a_checkpoint_would_take)
{
    start(DURABILITY_PROCESS);
    held_bytes = DRIVER_SEGMENT;
    fill();
    cr_assert(persistence_is_short(&persistence), "a checkpoint would not fit");
    cr_assert_eq(persistence_deadline_ns(&persistence, port), INT64_MAX,
                 "nothing has happened since");
    held_bytes = 0;
    decide();
    int64_t due_ns = persistence_deadline_ns(&persistence, port);
    cr_assert_eq(due_ns, now_ns + PERSISTENCE_MEASURE_MS * INT64_C(1000000));
    now_ns = due_ns - 1;
    persistence_hear(&persistence, port, now_ns);
    cr_assert(persistence_is_short(&persistence), "it is too soon");
    now_ns = due_ns;
    persistence_hear(&persistence, port, now_ns);
    cr_assert_not(persistence_is_short(&persistence));
    cr_assert_eq(persistence_deadline_ns(&persistence, port), INT64_MAX);
    persistence_checkpoint(&persistence, port);
    while (!persistence_has_room(&persistence))
        hear();
}
