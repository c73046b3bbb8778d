/* SPDX-License-Identifier: MPL-2.0 */
/* members_test.c -- a job of two to four, and six parties that come, go, end, fail, stall, freeze
 * and are cut off in any order, under a broker that dies and comes back, often while the job fails.
 * Some of the parties have a guard, and a program that comes and goes beside it, or dies of its
 * own; and some of the jobs are cancelled.
 *
 * Held to all along:
 *   - An epoch has at least min and at most max members.
 *   - In an epoch every rank belongs to one incarnation.  All that are told of an epoch are told
 *     the same size and attempt, and the epochs that a party is told of count upwards.
 *   - The control topic tells of each epoch, one after the other.
 *   - An attempt has one final verdict, whatever the broker forgot meanwhile, and its root is why
 *     the next attempt begins.
 *   - A reader with a durable name is given values of its own attempt alone.  Only later attempts
 *     are told what they missed of earlier ones.
 *   - When all is quiet, the newest epoch is full: its ranks are those of the incarnations that are
 *     there, without a hole. */
#include "tests/lib/error_of.h"
#include "tests/sim/coverage.h"
#include "tests/sim/play.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { HOSTS = 6, MIN = 2, MAX = 4, EPOCHS = 4096, SEEDS_DEFAULT = 60, ACTS = 300 };
enum { ACTORS = 2 * HOSTS }; /* behind the parties the programs of those that have a guard */
enum { ASKER = ACTORS };     /* the host of the observer that creates the job */
enum { ACT_ALL_SORTS, ACT_CRASH, ACT_CANCEL };

#define ACTIVE_MS 30000
#define QUIET_MS 200000

struct epoch {
    uint32_t world_size; /* 0: nobody was told of it */
    uint32_t attempt;
    uint64_t owner[MAX]; /* host and incarnation; 0: not told */
};

static struct play {
    struct world *world;
    struct epoch epochs[EPOCHS];
    uint64_t seen[ACTORS]; /* the newest epoch that this session was told */
    uint32_t subs[ACTORS]; /* by its durable name; 0: none */
    uint32_t guarded;      /* which parties have a guard: bits */
    uint64_t event_epoch;  /* the newest that the control topic told */
    uint64_t newest;       /* that anybody was told */
    uint32_t attempts;     /* the highest */
    bool forgets;          /* a crash may take events that were told */
    bool is_over;          /* it completed, or so many left that it was not tried again */
    bool is_done[HOSTS];   /* completed in this attempt */
    bool is_quiet;
    bool is_failing;
    bool is_judged; /* this attempt has a final verdict ... */
    char root[200]; /* ... with the error of this id */
} play;

/* What there was to be seen, over all seeds. */
static struct {
    uint64_t failing_crashes, programs, values, pasts, stalls;
} seen;

/* What is published: of which attempt it is. */
struct note {
    uint64_t attempt, number;
};

static const char *const names[HOSTS] = {"a", "b", "c", "d", "e", "f"};

static uint32_t party_of(uint32_t host)
{
    return host % HOSTS;
}

static bool is_guard(uint32_t host)
{
    return host < HOSTS && (play.guarded & 1U << host) != 0;
}

static bool is_program(uint32_t host)
{
    return host >= HOSTS;
}

static bool is_up(uint32_t host)
{
    const struct session *session = world_session(play.world, host);
    return session != NULL && session_state(session) == SESSION_UP;
}

/* ---- what is seen ---------------------------------------------------------------------------- */

static void check_place(uint32_t host, struct session_membership place, uint64_t incarnation)
{
    const char *name = names[party_of(host)];
    struct epoch *epoch = &play.epochs[place.epoch % EPOCHS];
    if (epoch->world_size == 0)
        *epoch = (struct epoch){.world_size = place.world_size, .attempt = place.attempt};
    if (place.world_size < MIN || place.world_size > MAX || place.rank >= place.world_size)
        world_violate(play.world, "%s: epoch %" PRIu64 " has %u members, rank %u", name,
                      place.epoch, place.world_size, place.rank);
    else if (epoch->world_size != place.world_size || epoch->attempt != place.attempt)
        world_violate(play.world, "%s was told another epoch %" PRIu64 " than others", name,
                      place.epoch);
    else if (epoch->owner[place.rank] != 0 && epoch->owner[place.rank] != incarnation)
        world_violate(play.world, "two have rank %u in epoch %" PRIu64, place.rank, place.epoch);
    else
        epoch->owner[place.rank] = incarnation;
    for (uint32_t rank = 0; rank < MAX; rank++)
        if (rank != place.rank && epoch->owner[rank] == incarnation)
            world_violate(play.world, "%s has two ranks in epoch %" PRIu64, name, place.epoch);
}

static void look_at_place(uint32_t host)
{
    const char *name = names[party_of(host)];
    const struct session *session = world_session(play.world, host);
    struct session_membership place = session_membership(session);
    uint64_t incarnation = (uint64_t)(party_of(host) + 1) << 32 | session_incarnation(session);
    if (place.epoch == play.seen[host])
        return;
    if (place.epoch < play.seen[host])
        world_violate(play.world, "%s: epoch %" PRIu64 " behind %" PRIu64, name, place.epoch,
                      play.seen[host]);
    if (place.attempt != session_attempt(session))
        world_violate(play.world, "%s has a place in an attempt that is not its", name);
    play.seen[host] = place.epoch;
    if (play.newest < place.epoch)
        play.newest = place.epoch;
    if (play.attempts < place.attempt)
        play.attempts = place.attempt;
    check_place(host, place, incarnation);
}

static void take(uint32_t host, const struct session_item *item)
{
    struct session *session = world_session(play.world, host);
    const char *name = names[party_of(host)];
    struct note note = {0};
    switch (item->kind) {
    case SESSION_ITEM_VALUE:
        cr_assert_eq(item->value.bytes, sizeof note);
        memcpy(&note, item->value.data, sizeof note);
        if (note.attempt != session_attempt(session))
            world_violate(play.world, "%s was given a value of attempt %" PRIu64 " in %u", name,
                          note.attempt, session_attempt(session));
        session_ack(session, play.subs[host], item->topic, item->seq);
        seen.values += 1;
        break;
    case SESSION_ITEM_PAST:
        if (session_attempt(session) < 2 || item->count == 0)
            world_violate(play.world, "%s missed %" PRIu64 " of no attempt", name, item->count);
        session_ack_past(session, play.subs[host], item->topic);
        seen.pasts += 1;
        break;
    case SESSION_ITEM_ERROR:
    case SESSION_ITEM_GAP:
    case SESSION_ITEM_DROPPED:
        session_ack(session, play.subs[host], item->topic, item->seq + item->count - 1);
        break;
    case SESSION_ITEM_PIECE: /* nobody asked for any */
    case SESSION_ITEM_END: break;
    }
}

static void on_news(void *arg, uint32_t host, const struct session_news *news)
{
    (void)arg;
    (void)news;
    if (host >= ACTORS)
        return;
    look_at_place(host);
    play_read_all(play.world, host, &play.subs[host], take);
}

/* Of an attempt's end: an attempt is judged once, and left for what it was judged for. */
static void look_at_end(const struct msg_event *event)
{
    bool is_attempt = span_equal(event->name, span_text(EVENT_JOB_ATTEMPT));
    bool is_final = span_equal(event->name, span_text(EVENT_VERDICT_FINAL));
    struct error_record record;
    uint32_t count = 0;
    if (!is_attempt && !is_final)
        return;
    cr_assert_eq(error_decode(event->error, &record, 1, &count), WIRE_OK);
    if (is_final && play.is_judged && !play.forgets)
        world_violate(play.world, "a second final verdict");
    if (is_attempt && play.is_judged && !span_equal(record.id, span_text(play.root)))
        world_violate(play.world, "judged for %s, and tried again for %.*s", play.root,
                      (int)record.id.bytes, (const char *)record.id.data);
    play.is_judged = is_final;
    snprintf(play.root, sizeof play.root, "%.*s", (int)record.id.bytes,
             (const char *)record.id.data);
}

/* Who completed keeps the place for the rest of the attempt. */
static void look_at_party(const struct msg_event *event)
{
    if (span_equal(event->name, span_text(EVENT_JOB_ATTEMPT)))
        memset(play.is_done, 0, sizeof play.is_done);
    for (uint32_t i = 0; i < HOSTS; i++)
        if (span_equal(event->name, span_text(EVENT_PARTY_COMPLETED)) &&
            span_equal(event->party, span_text(names[i])))
            play.is_done[i] = true;
}

static void on_event(void *arg, uint32_t job, const struct msg_event *event)
{
    (void)arg;
    (void)job;
    struct dice *dice = world_dice(play.world);
    look_at_end(event);
    play.is_failing = play.is_failing && !span_equal(event->name, span_text(EVENT_JOB_ATTEMPT));
    look_at_party(event);
    if (span_equal(event->name, span_text(EVENT_JOB_FAILED)) ||
        span_equal(event->name, span_text(EVENT_JOB_COMPLETED)) ||
        span_equal(event->name, span_text(EVENT_JOB_CANCELLED)))
        play.is_over = true;
    if (span_equal(event->name, span_text(EVENT_JOB_FAILING))) {
        play.is_failing = true;
        if (!play.is_quiet && dice_hits(dice, 300))
            world_at(play.world, world_now_ns(play.world) + dice_between(dice, 0, 120) * WORLD_MS,
                     ACT_CRASH, 0, 0);
    }
    if (!span_equal(event->name, span_text(EVENT_JOB_EPOCH)))
        return;
    if (event->count < MIN || event->count > MAX)
        world_violate(play.world, "epoch %" PRIu64 " of %" PRIu64, event->seq, event->count);
    if (event->seq != play.event_epoch + 1 && !play.forgets)
        world_violate(play.world, "epoch %" PRIu64 " behind %" PRIu64, event->seq,
                      play.event_epoch);
    play.event_epoch = event->seq;
}

/* ---- what happens ---------------------------------------------------------------------------- */

static void start(uint32_t host)
{
    play.seen[host] = 0;
    play.subs[host] = 0;
    seen.programs += is_program(host);
    world_start(play.world, host);
}

/* Its own topic gets a value of this attempt; others' are read by a durable name. */
static void speak(uint32_t host)
{
    struct session *session = world_session(play.world, host);
    char topic[] = "?/w";
    uint32_t number;
    static uint64_t notes;
    topic[0] = names[party_of(host)][0];
    if (is_guard(host) || !is_up(host))
        return;
    if (play.subs[host] == 0 && dice_hits(world_dice(play.world), 500))
        (void)session_subscribe(session, span_text("+/w"),
                                &(struct session_sub_options){.name = span_text("deep")},
                                &play.subs[host]);
    if (session_topic(session, span_text(topic), &number) == CODE_OK) {
        struct note note = {session_attempt(session), ++notes};
        struct span value = span_of(&note, sizeof note);
        (void)session_publish(session, world_host_ns(play.world, host), number, &value, 1, NULL);
    }
    play_read_all(play.world, host, &play.subs[host], take);
    world_pump(play.world, host);
}

static void promise(uint32_t host, uint64_t within_ms)
{
    if (!is_up(host))
        return;
    seen.stalls += within_ms > 0;
    session_progress(world_session(play.world, host), within_ms, SPAN_NONE);
    world_pump(play.world, host);
}

static void go(uint32_t host, bool is_failing)
{
    struct session *session = world_session(play.world, host);
    if (session_state(session) != SESSION_UP)
        return;
    if (is_failing)
        session_fail_party(session, error_of("app.flaky"));
    else
        session_leave(session);
    world_pump(play.world, host);
}

/* One with a place.  A crash that forgets what was told would leave us with a wrong idea of it. */
static void complete(uint32_t host)
{
    struct session *session = world_session(play.world, host);
    uint64_t number;
    if (!is_up(host) || session_membership(session).epoch == 0 || play.forgets ||
        !dice_hits(world_dice(play.world), 300))
        return;
    (void)session_complete(session, &number); /* or it is over */
    world_pump(play.world, host);
}

static void harm(uint32_t host)
{
    struct dice *dice = world_dice(play.world);
    switch (dice_below(dice, 11)) {
    case 0:
        world_kill(play.world, host, dice_hits(dice, 500),
                   dice_hits(dice, 300) ? WORLD_NEVER : dice_between(dice, 0, 50) * WORLD_MS);
        break;
    case 1: go(host, false); break;
    case 2: go(host, true); break;
    case 3: world_freeze(play.world, host, dice_between(dice, 10, 1500) * WORLD_MS); break;
    case 4:
        world_break(play.world, host, 3, dice_between(dice, 0, 300) * WORLD_MS,
                    dice_between(dice, 0, 300) * WORLD_MS);
        break;
    case 5: world_stall(play.world, host, 3, dice_between(dice, 10, 800) * WORLD_MS); break;
    case 6: promise(host, (uint64_t)dice_between(dice, 0, 900)); break;
    case 7: complete(host); break;
    default: break; /* nothing, this time */
    }
}

static void harm_broker(bool is_crash)
{
    struct dice *dice = world_dice(play.world);
    if (world_is_broker_down(play.world))
        return;
    if (!is_crash && dice_hits(dice, 500))
        world_compact(play.world);
    else
        world_crash_broker(play.world, dice_between(dice, 1, 500) * WORLD_MS);
}

/* A process whose session is over ends; one that does not run may start. */
static void tend(uint32_t host, bool may_start)
{
    struct session *session = world_session(play.world, host);
    if (session != NULL && session_end(session, NULL) != CODE_OK)
        world_kill(play.world, host, true, 0);
    else if (session == NULL && may_start && (!is_program(host) || is_up(party_of(host))))
        start(host);
}

/* An observer comes, and comes again, until the job is cancelled. */
static void cancel(void)
{
    struct session *session = world_session(play.world, ASKER);
    if (play.is_over)
        return;
    world_at(play.world, world_now_ns(play.world) + 200 * WORLD_MS, ACT_CANCEL, 0, 0);
    if (session == NULL) {
        world_start(play.world, ASKER);
    } else if (session_end(session, NULL) != CODE_OK) {
        world_kill(play.world, ASKER, true, 0);
    } else if (session_state(session) == SESSION_UP) {
        session_ask(session, &(const struct msg){.type = MSG_JOB_CANCEL,
                                                 .as.job_cancel = {.job = span_text("job")}});
        world_pump(play.world, ASKER);
    }
}

static void on_act(void *arg, uint32_t what, uint32_t who, uint64_t value)
{
    (void)arg;
    (void)value;
    struct dice *dice = world_dice(play.world);
    if (what == ACT_CRASH) {
        seen.failing_crashes += play.is_failing && !world_is_broker_down(play.world);
        harm_broker(true);
        return;
    }
    if (what == ACT_CANCEL) {
        cancel();
        return;
    }
    if (world_is_frozen(play.world, who) || (is_program(who) && !is_guard(party_of(who))))
        return;
    tend(who, play.is_quiet ? !is_program(who) : dice_hits(dice, 500));
    if (play.is_quiet) {
        promise(who, 0);
        return;
    }
    speak(who);
    if (world_session(play.world, who) != NULL)
        harm(who);
    if (dice_hits(dice, 20))
        harm_broker(false);
}

/* ---- a seed ---------------------------------------------------------------------------------- */

static void open_world(uint64_t seed)
{
    struct world_options options = play_options(seed, 5, 20);
    memset(&play, 0, sizeof play);
    options.core.resume_ms = 500;
    options.log_most_ns = seed % 2 == 0 ? 20 * WORLD_MS : 0;
    options.hooks =
        (struct world_hooks){.on_news = on_news, .on_act = on_act, .on_event = on_event};
    play.forgets = options.log_most_ns > 0;
    play.world = world_new(&options);
    (void)world_tap(play.world, "job");
    struct host_options host = {.job = "job",
                                .heartbeat_ms = 100,
                                .lost_after_ms = 400,
                                .grace_ms = 100,
                                .broker_lost_ms = 5000};
    play.guarded = seed % 3 == 0 ? 0 : (uint32_t)dice_below(world_dice(play.world), 1U << HOSTS);
    for (uint32_t i = 0; i < ACTORS; i++) {
        host.party = names[party_of(i)];
        host.is_guard = is_guard(i);
        host.program_of = is_program(i) ? party_of(i) + 1 : 0;
        (void)world_host(play.world, &host);
    }
    host.is_guard = false;
    host.program_of = 0;
    host.job = host.party = "";
    (void)world_host(play.world, &host);
}

static void create_job(void)
{
    play_create_job(play.world, ASKER, 1000,
                    (struct msg_job_create){.job = span_text("job"),
                                            .min = MIN,
                                            .max = MAX,
                                            .join_window_ms = 700,
                                            .join_timeout_ms = -1,
                                            .settle_ms = 100,
                                            .max_restarts = 1000,
                                            .deadline_ms = -1});
    world_kill(play.world, ASKER, true, 0);
}

/* Six are there: four have a place in one epoch, and two wait; or the job is over. */
static void check_quiet(void)
{
    uint32_t count = 0;
    for (uint32_t host = 0; play.is_over && host < HOSTS; host++) {
        const struct session *session = world_session(play.world, host);
        bool is_gone = session == NULL || session_end(session, NULL) == CODE_EDENIED;
        if (!is_gone && !play.is_done[host]) /* who completed may stay */
            world_violate(play.world, "%s is in a job that is over", names[host]);
    }
    if (play.is_over)
        return;
    for (uint32_t host = 0; host < HOSTS; host++) {
        const struct session *session = world_session(play.world, host);
        if (play.is_done[host])
            count += 1;
        else if (session == NULL || session_state(session) != SESSION_UP)
            world_violate(play.world, "%s is not there in the end", names[host]);
        else
            count += session_membership(session).epoch == play.newest;
    }
    if (count != MAX || play.epochs[play.newest % EPOCHS].world_size != MAX)
        world_violate(play.world, "%u of %u have a place in the end", count,
                      play.epochs[play.newest % EPOCHS].world_size);
}

static void run(uint64_t seed)
{
    open_world(seed);
    create_job();
    int64_t begin_ns = world_now_ns(play.world);
    uint32_t actors = play.guarded != 0 ? ACTORS : HOSTS;
    for (int act = 0; act < ACTS; act++)
        world_at(play.world,
                 begin_ns + dice_between(world_dice(play.world), 0, ACTIVE_MS) * WORLD_MS,
                 ACT_ALL_SORTS, (uint32_t)dice_below(world_dice(play.world), actors), 0);
    if (seed % 4 == 3)
        world_at(play.world,
                 begin_ns + dice_between(world_dice(play.world), 0, ACTIVE_MS) * WORLD_MS,
                 ACT_CANCEL, 0, 0);
    world_run(play.world, begin_ns + ACTIVE_MS * WORLD_MS);
    play.is_quiet = true;
    for (int64_t ms = 0; ms < QUIET_MS; ms += 500)
        for (uint32_t host = 0; host < ACTORS; host++)
            world_at(play.world, world_now_ns(play.world) + (ms + 1) * WORLD_MS, ACT_ALL_SORTS,
                     host, 0);
    world_run(play.world, begin_ns + (ACTIVE_MS + QUIET_MS) * WORLD_MS);
    check_quiet();
    play_end(&play.world, seed);
}

Test(members, have_unique_dense_ranks_in_the_same_epochs_in_the_same_order, .timeout = 900)
{
    uint64_t count = seeds_count(SEEDS_DEFAULT);
    uint64_t epochs = 0;
    uint32_t attempts = 0;
    SEEDS_EACH(seed, count) {
        run(seed);
        epochs += play.newest;
        attempts += play.attempts;
    }
    fprintf(stderr, "%" PRIu64 " seeds: %" PRIu64 " epochs, %u attempts\n", count, epochs,
            attempts);
    coverage_print_table(stderr, COVERAGE_JOB);
    coverage_print_table(stderr, COVERAGE_PARTY);
    cr_expect_gt(epochs, 20 * count, "there was little to be seen");
    cr_expect_gt(attempts, count, "there were attempts beyond the first");
    fprintf(stderr,
            "%" PRIu64 " crashes while failing, %" PRIu64 " programs, %" PRIu64
            " promises, %" PRIu64 " values, %" PRIu64 " times told of missed ones\n",
            seen.failing_crashes, seen.programs, seen.stalls, seen.values, seen.pasts);
    cr_expect(seen.failing_crashes > 0 && seen.programs > 0 && seen.stalls > 0 && seen.values > 0 &&
                  seen.pasts > 0,
              "something was never to be seen");
    cr_expect_geq(coverage_met(COVERAGE_JOB), 8);
}
