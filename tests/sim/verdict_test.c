/* SPDX-License-Identifier: MPL-2.0 */
/* verdict_test.c -- a job that was created, of five that fail within a second and are tried again.
 *
 * In each attempt one fails for a reason of its own, or is killed; of the others some fail by it,
 * one blaming another, and some are only told.  Reports go out in any order and take up to a
 * fifth of a second, connections break, and stamps are what they like.  Held to, after every step:
 * whoever is told the final verdict of an attempt, be it a party, the control topic or an observer
 * that asks, is told the same bytes.  And the root is where all blame ends, however late its
 * report, and whatever one of them claims of others.  Some have something to say when all is said:
 * that is history, marked late. */
#include "tests/sim/play.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { HOSTS = 5, ASKER = HOSTS, ATTEMPTS = 3, SEEDS_DEFAULT = 100, FINAL = 2 };
enum { SEEDS_WITH_A_LIAR = 1000 }; /* jobs, each of three attempts */
enum act { ACT_TEND, ACT_FAIL };

#define REPORTS_MS 600 /* from the first to the last report of an attempt */
#define SETTLE_MS 2000
#define HEARD_MS 500 /* longer than any message takes */

static struct play {
    struct world *world;
    uint32_t attempt;    /* that is played; 0: none yet */
    uint32_t root;       /* the host */
    bool is_root_killed; /* or else it fails */
    uint32_t blamed[HOSTS];
    uint32_t liar;           /* a host that claims errors of others; HOSTS: nobody does */
    int64_t heard_ns[HOSTS]; /* what it said late has been heard by then; 0: it said nothing */
    struct final {
        uint8_t bytes[LIMIT_ERROR_BYTES];
        size_t count; /* 0: nobody was told */
        char root[LIMIT_ERROR_ID_BYTES + 1];
        char what[300]; /* of the root: all that the verdict decides by */
        bool is_event_told;
        bool is_asker_told;
        bool is_party_told[HOSTS];
        uint32_t late_count; /* failures told behind it */
    } finals[ATTEMPTS + 1];
} play;

static const char *const names[HOSTS] = {"a", "b", "c", "d", "e"};

/* ---- what is told ---------------------------------------------------------------------------- */

static void check_root(const struct error_record *root)
{
    if (!span_equal(root->party, span_text(names[play.root])))
        world_violate(play.world, "the root is %.*s and not %s", (int)root->party.bytes,
                      (const char *)root->party.data, names[play.root]);
    else if (play.is_root_killed ? root->kind != ERROR_PARTY_LOST
                                 : !span_equal(root->type, span_text("app.root")))
        world_violate(play.world, "the root is another error of %s", names[play.root]);
}

static void note_root(struct final *final, const struct error_record *root)
{
    (void)snprintf(final->what, sizeof final->what,
                   "%.*s kind %" PRIu64 " type %.*s party %.*s incarnation %" PRIu64
                   " attempt %" PRIu64 " blames '%.*s'",
                   (int)root->id.bytes, (const char *)root->id.data, root->kind,
                   (int)root->type.bytes, (const char *)root->type.data, (int)root->party.bytes,
                   (const char *)root->party.data, root->incarnation, root->attempt,
                   (int)root->blames.bytes, (const char *)root->blames.data); /* fits */
}

/* The final word, which is the first or the same. */
static struct final *check_final(const char *who, struct span error)
{
    static struct error_record records[LIMIT_ERROR_RECORDS];
    uint32_t count;
    cr_assert_eq(error_decode(error, records, LIMIT_ERROR_RECORDS, &count), WIRE_OK);
    cr_assert_leq(records[0].attempt, ATTEMPTS);
    struct final *final = &play.finals[records[0].attempt];
    if (final->count == 0) {
        check_root(&records[0]);
        memcpy(final->bytes, error.data, error.bytes);
        memcpy(final->root, records[0].id.data, records[0].id.bytes);
        final->count = error.bytes;
        note_root(final, &records[0]);
    } else if (!span_equal(error, span_of(final->bytes, final->count))) {
        world_violate(play.world, "%s was told another verdict of attempt %" PRIu64 " than others",
                      who, records[0].attempt);
    }
    return final;
}

/* Of an attempt about which all is said: late, and not the root of it. */
static void check_failed(const struct msg_event *event)
{
    static struct error_record records[LIMIT_ERROR_RECORDS];
    uint32_t count;
    cr_assert_eq(error_decode(event->error, records, LIMIT_ERROR_RECORDS, &count), WIRE_OK);
    cr_assert_leq(records[0].attempt, ATTEMPTS);
    struct final *final = &play.finals[records[0].attempt];
    if (!final->is_event_told)
        return;
    if (!event->is_late)
        world_violate(play.world, "%.*s failed behind the final verdict, and is not late",
                      (int)event->party.bytes, (const char *)event->party.data);
    final->late_count += 1;
}

static void on_event(void *arg, uint32_t job, const struct msg_event *event)
{
    (void)arg;
    (void)job;
    if (span_equal(event->name, span_text(EVENT_VERDICT_FINAL)))
        check_final("the control topic", event->error)->is_event_told = true;
    if (span_equal(event->name, span_text(EVENT_PARTY_FAILED)))
        check_failed(event);
}

/* What stands with each party is looked at whether or not it has news. */
static void on_step(void *arg)
{
    (void)arg;
    for (uint32_t host = 0; host < HOSTS; host++) {
        const struct session *session = world_session(play.world, host);
        struct buffer *error = NULL;
        if (session != NULL && session_verdict(session, &error) == FINAL)
            check_final(names[host], buffer_span(error))->is_party_told[host] = true;
        buffer_unref(&error);
    }
}

static void take_answer(struct session *session)
{
    struct msg row;
    while (session_verdict_take(session, &row))
        if (row.type == MSG_VERDICT && row.as.verdict.state == FINAL)
            check_final("who asked", row.as.verdict.error)->is_asker_told = true;
}

/* ---- what happens ---------------------------------------------------------------------------- */

enum { LIES = HOSTS + 1 };

/* Claims errors of each party, and of the broker, that happened before all else; each is the cause
 * of the one before it.  It throws no dice: the world goes on as it would without. */
static void lie(struct error_record *records)
{
    static char ids[LIES][64];
    records[0].causes[records[0].cause_count++] = 1;
    for (uint32_t i = 0; i < LIES; i++) {
        struct error_record *claim = &records[1 + i];
        const char *party = i < HOSTS ? names[i] : "";
        snprintf(ids[i], sizeof ids[i], "job/%s/%u/%u", party, i < HOSTS ? play.attempt : 0,
                 2000 + (i != play.liar && i % 2 == 1)); /* even: the broker's word */
        error_record_init(claim);
        claim->id = span_text(ids[i]);
        claim->job = span_text("job");
        claim->party = span_text(party);
        claim->incarnation = claim->attempt = play.attempt;
        claim->kind = i % 2 == 0 ? ERROR_PARTY_LOST : ERROR_APPLICATION;
        claim->occurred_ns = 1 + i;
        if (i + 1 < LIES)
            claim->causes[claim->cause_count++] = 2 + i;
    }
}

static void fail_as(uint32_t host, const char *type)
{
    struct dice *dice = world_dice(play.world);
    struct session *session = world_session(play.world, host);
    char id[LIMIT_ERROR_ID_BYTES];
    uint8_t bytes[2048];
    size_t count;
    struct error_record records[1 + LIES];
    struct error_record *record = &records[0];
    error_record_init(record);
    record->id = span_of(id, session_error_id(session, id, sizeof id));
    record->type = span_text(type);
    record->blames = span_text(host == play.root ? "" : names[play.blamed[host]]);
    record->recoverable = RECOVERABLE_YES;
    if (dice_hits(dice, 700))
        record->occurred_ns = dice_between(dice, 1, 3600 * 1000) * WORLD_MS;
    if (host == play.liar)
        lie(records);
    cr_assert_eq(
        error_encode(records, host == play.liar ? 1 + LIES : 1, bytes, sizeof bytes, &count),
        WIRE_OK);
    session_fail_party(session, span_of(bytes, count));
    world_pump(play.world, host);
}

static void fail(uint32_t host)
{
    fail_as(host, host == play.root ? "app.root" : "app.victim");
}

/* Who blames whom is a tree with the root at its top; who fails when is another matter. */
static void plan_attempt(void)
{
    struct dice *dice = world_dice(play.world);
    uint32_t order[HOSTS];
    for (uint32_t i = 0; i < HOSTS; i++) {
        uint32_t other = (uint32_t)dice_below(dice, i + 1);
        order[i] = order[other];
        order[other] = i;
    }
    play.root = order[0];
    play.is_root_killed = dice_hits(dice, 300);
    uint32_t failing = (uint32_t)dice_between(dice, 1, HOSTS - 1);
    for (uint32_t i = 0; i < failing; i++) {
        play.blamed[order[i]] = order[i > 0 ? dice_below(dice, i) : 0];
        world_at(play.world,
                 world_now_ns(play.world) + dice_between(dice, 1, REPORTS_MS) * WORLD_MS, ACT_FAIL,
                 order[i], play.attempt);
    }
}

static void on_fail(uint32_t host, uint64_t attempt)
{
    struct dice *dice = world_dice(play.world);
    if (attempt != play.attempt || world_session(play.world, host) == NULL)
        return;
    if (host == play.root && play.is_root_killed) {
        world_kill(play.world, host, true, 0);
        return;
    }
    fail(host);
    if (dice_hits(dice, 200))
        world_break(play.world, host, 3, dice_between(dice, 0, 50) * WORLD_MS,
                    dice_between(dice, 0, 50) * WORLD_MS);
}

/* Nobody is between two attempts: all have a place in the next one. */
static bool is_all_there(void)
{
    for (uint32_t host = 0; host < HOSTS; host++) {
        const struct session *session = world_session(play.world, host);
        if (session == NULL || session_state(session) != SESSION_UP ||
            session_membership(session).world_size != HOSTS ||
            session_attempt(session) != play.attempt + 1)
            return false;
    }
    return true;
}

/* Its bus is over, and it has nothing more to wait for. */
static bool has_heard_all(const struct session *session)
{
    struct buffer *error = NULL;
    bool is_final = session_verdict(session, &error) == FINAL;
    buffer_unref(&error);
    return session_end(session, NULL) != CODE_OK && (is_final || !session_is_failing(session));
}

static void end_or_say_more(uint32_t host, const struct session *session)
{
    if (session_is_failing(session) && dice_hits(world_dice(play.world), 300)) {
        play.heard_ns[host] = world_now_ns(play.world) + HEARD_MS * WORLD_MS;
        fail_as(host, "app.late");
    } else if (play.heard_ns[host] <= world_now_ns(play.world)) {
        play.heard_ns[host] = 0;
        world_kill(play.world, host, true, 0);
    }
}

/* A process whose attempt has its final verdict ends, and begins again as long as that helps. */
static void tend(uint32_t host)
{
    struct session *session = world_session(play.world, host);
    bool is_said = play.finals[play.attempt].count > 0;
    if (session == NULL && (play.attempt == 0 || (is_said && play.attempt < ATTEMPTS)))
        world_start(play.world, host);
    else if (session != NULL && is_said && has_heard_all(session))
        end_or_say_more(host, session);
}

static void on_act(void *arg, uint32_t what, uint32_t who, uint64_t value)
{
    (void)arg;
    if (what == ACT_FAIL) {
        on_fail(who, value);
        return;
    }
    struct session *asker = world_session(play.world, ASKER);
    for (uint32_t host = 0; host < HOSTS; host++)
        tend(host);
    take_answer(asker);
    bool is_asking = play.attempt > 0 && !play.finals[play.attempt].is_asker_told;
    if (play.attempt == ATTEMPTS || is_asking || !is_all_there())
        return; /* who asks again meanwhile is not told the first time */
    play.attempt += 1;
    session_ask_verdict(asker, span_text("job"), play.attempt, true);
    world_pump(play.world, ASKER);
    plan_attempt();
}

/* ---- a seed ---------------------------------------------------------------------------------- */

static void open_world(uint64_t seed)
{
    struct world_options options = play_options(seed, 200, 200);
    memset(&play, 0, sizeof play);
    play.liar = HOSTS;
    options.hooks =
        (struct world_hooks){.on_act = on_act, .on_event = on_event, .on_step = on_step};
    play.world = world_new(&options);
    (void)world_tap(play.world, "job");
    struct host_options host = {.job = "job",
                                .heartbeat_ms = 200,
                                .lost_after_ms = 1500,
                                .grace_ms = 1000,
                                .broker_lost_ms = 5000};
    for (uint32_t i = 0; i < HOSTS; i++) {
        host.party = names[i];
        (void)world_host(play.world, &host);
    }
    host.job = host.party = "";
    (void)world_host(play.world, &host);
}

static void create_job(void)
{
    play_create_job(play.world, ASKER, 2000,
                    (struct msg_job_create){.job = span_text("job"),
                                            .min = HOSTS,
                                            .max = HOSTS,
                                            .settle_ms = SETTLE_MS,
                                            .max_restarts = ATTEMPTS - 1,
                                            .join_timeout_ms = -1,
                                            .deadline_ms = -1});
}

/* How many parties were told, of all attempts. */
static uint32_t check_told(void)
{
    uint32_t told = 0;
    for (uint32_t attempt = 1; attempt <= ATTEMPTS; attempt++) {
        const struct final *final = &play.finals[attempt];
        if (!final->is_event_told || !final->is_asker_told)
            world_violate(play.world, "attempt %u has no final verdict for %s", attempt,
                          final->is_event_told ? "who asked" : "the control topic");
        for (uint32_t host = 0; host < HOSTS; host++)
            told += final->is_party_told[host];
    }
    return told;
}

static uint32_t late_count;

static uint32_t run(uint64_t seed, uint32_t liar)
{
    enum { TENDED_MS = 60000, EVERY_MS = 20 };
    open_world(seed);
    play.liar = liar;
    create_job();
    int64_t begin_ns = world_now_ns(play.world);
    for (int64_t ms = 0; ms < TENDED_MS; ms += EVERY_MS)
        world_at(play.world, begin_ns + ms * WORLD_MS, ACT_TEND, 0, 0);
    world_run(play.world, begin_ns + TENDED_MS * WORLD_MS);
    uint32_t told = check_told();
    for (uint32_t attempt = 1; attempt <= ATTEMPTS; attempt++)
        late_count += play.finals[attempt].late_count;
    play_end(&play.world, seed);
    return told;
}

Test(verdict, is_one_for_all_parties_in_whatever_order_the_reports_come, .timeout = 600)
{
    uint64_t count = seeds_count(SEEDS_DEFAULT);
    uint64_t told = 0;
    SEEDS_EACH(seed, count)
        told += run(seed, HOSTS);
    fprintf(stderr, "%" PRIu64 " seeds: parties were told %" PRIu64 " times, %u failed late\n",
            count, told, late_count);
    cr_expect_gt(late_count, count, "some came late, and were in the history all the same");
    cr_expect_gt(told, count * ATTEMPTS, "in every attempt more than one party was told");
}

/* Whoever is the liar, and whether or not it is the root itself: claims change no verdict. */
Test(verdict, is_the_same_whatever_a_party_claims_of_others, .timeout = 600)
{
    static char roots[ATTEMPTS + 1][sizeof play.finals[0].what];
    uint64_t count = seeds_count(SEEDS_WITH_A_LIAR);
    uint64_t compared = 0;
    uint64_t of_liars = 0;
    SEEDS_EACH(seed, count) {
        uint32_t liar = (uint32_t)(seed % HOSTS);
        (void)run(seed, HOSTS);
        for (uint32_t attempt = 1; attempt <= ATTEMPTS; attempt++)
            memcpy(roots[attempt], play.finals[attempt].what, sizeof roots[attempt]);
        (void)run(seed, liar);
        for (uint32_t attempt = 1; attempt <= ATTEMPTS; attempt++) {
            const char *root = play.finals[attempt].root;
            cr_assert_str_eq(play.finals[attempt].what, roots[attempt],
                             "seed %" PRIu64 ", attempt %u", seed, attempt);
            compared += root[0] != '\0';
            of_liars += root[0] != '\0' && root[4] == names[liar][0];
        }
    }
    cr_expect_geq(compared, count * ATTEMPTS * 9 / 10, "%" PRIu64, compared);
    cr_expect_gt(of_liars, 0, "some liars are the root themselves");
    fprintf(stderr, "%" PRIu64 " jobs, %" PRIu64 " verdicts are those without the liar\n", count,
            compared);
}
