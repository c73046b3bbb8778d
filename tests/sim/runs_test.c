/* SPDX-License-Identifier: MPL-2.0 */
/* runs_test.c -- four programs that are started night after night, in any order; some are killed
 * and started again in the middle, and the broker dies in the middle or between two nights.  A
 * reader with a durable name and the member of a group come in some nights.  Some nights have a
 * name.
 *
 * Held to all along:
 *   - A reader is given values of its own run alone, and is told the incarnation that wrote each.
 *   - Nobody is refused.  If a party ended well in the last night, or this night has a name, it is
 *     the next run, and all take part in it.  Otherwise it continues the last run.
 *   - A night continues the last run, whoever ended well, as long as the durable name has not read
 *     all of it, or the group has not done all of it.
 *   - If a step from a shell wrote something when all had ended, a night without a name continues
 *     the run.
 *   - The durable name is given every value of a run in order, over the nights of that run.
 *   - A program of another run than the one under way is refused.
 *   - When the job is forgotten nothing of it is left: the next party is the first of a first run,
 *     and no table of the broker has anything in it before. */
#include "tests/lib/core_census.h"
#include "tests/sim/play.h"

#include <bus/bus.h>
#include <inttypes.h>
#include <string.h>

enum {
    PARTIES = 4,
    READER = PARTIES,
    MEMBER,
    PROGRAMS,
    PROBE = PROGRAMS,
    ASKER,
    SHELL,
    NIGHTS = 5
};
enum { SEEDS_DEFAULT = 100 };
enum { ACT_START, ACT_SPEAK, ACT_KILL, ACT_CRASH, ACT_LEAVE, ACT_STEP };

#define GATHERED_MS 600 /* from the begin of a night on: all are there */
#define LEAVING_MS 3000 /* all end */
#define NIGHT_MS 6000   /* whoever was killed is lost by then */
#define DOWN_MS 400     /* at most, a broker that died */

static struct play {
    struct world *world;
    bool is_wanted[PROGRAMS]; /* its program runs, or is started again */
    bool ended_well[PROGRAMS];
    bool is_known[PROGRAMS]; /* a durable name, or a group, is there */
    bool is_owed[PROGRAMS];  /* ... and has not got all of the run */
    uint32_t subs[PROGRAMS];
    uint64_t next_seqs[PARTIES]; /* of each topic, for the durable name */
    uint32_t run;                /* of the last night */
    const char *name;            /* of the run; NULL: it has none */
} play;

/* What there was to be seen, over all seeds. */
static struct {
    uint64_t runs, continued, values, restarts, crashes, fenced, held, named, tasks, refused, steps;
} seen;

/* What is published: who wrote it, and in which run. */
struct note {
    uint64_t run, incarnation;
};

static const char *const names[PROGRAMS] = {"a", "b", "c", "d", "reader", "member"};
static const char *const night_names[NIGHTS] = {"night 1", "night 2", "night 3", "night 4",
                                                "night 5"};

static bool is_up(uint32_t host)
{
    const struct session *session = world_session(play.world, host);
    return session != NULL && session_state(session) == SESSION_UP;
}

/* What was read already may come again, to who was killed. */
static void take_durably(const struct session *session, const struct session_item *item)
{
    struct span topic = session_topic_name(session, item->topic);
    uint64_t *next_seq = &play.next_seqs[*(const char *)topic.data - 'a'];
    if (item->kind != SESSION_ITEM_VALUE || item->seq > *next_seq)
        world_violate(play.world, "the durable name comes to %" PRIu64 ", and %" PRIu64 " is next",
                      item->seq, *next_seq);
    if (item->seq + item->count > *next_seq)
        *next_seq = item->seq + item->count;
}

static void take(uint32_t host, const struct session_item *item)
{
    struct session *session = world_session(play.world, host);
    struct note note;
    if (item->kind == SESSION_ITEM_END)
        return;
    if (host == READER)
        take_durably(session, item);
    if (item->kind == SESSION_ITEM_VALUE) {
        cr_assert_eq(item->value.bytes, sizeof note);
        memcpy(&note, item->value.data, sizeof note);
        seen.values += 1;
        if (note.run != session_attempt(session))
            world_violate(play.world, "%s was given a value of run %" PRIu64 " in run %u",
                          names[host], note.run, session_attempt(session));
        if (note.incarnation != item->origin.incarnation)
            world_violate(play.world, "%s was told incarnation %u of a value of %" PRIu64,
                          names[host], item->origin.incarnation, note.incarnation);
    }
    seen.tasks += item->lease != 0;
    if (item->lease != 0)
        session_task_end(session, item->lease, SESSION_TASK_DONE, 0, SPAN_NONE);
    else
        session_ack_range(session, play.subs[host], item->topic, item->seq, item->count);
}

static void on_news(void *arg, uint32_t host, const struct session_news *news)
{
    (void)arg;
    (void)news;
    if (host < PROGRAMS)
        play_read_all(play.world, host, &play.subs[host], take);
}

/* ---- what happens ---------------------------------------------------------------------------- */

static void start(uint32_t host)
{
    play.subs[host] = 0;
    world_choose_run(play.world, host, play.name, BUS_RUN_AS_FOUND);
    world_start(play.world, host);
}

/* Whoever was fenced opens another bus; anybody else that is over is wrong. */
static void tend(uint32_t host)
{
    struct session *session = world_session(play.world, host);
    if (!play.is_wanted[host])
        return;
    if (session == NULL) {
        start(host);
        return;
    }
    enum wire_code end = session_end(session, NULL);
    if (end == CODE_OK)
        return;
    if (end != CODE_EFENCED)
        world_violate(play.world, "%s was refused with %d", names[host], (int)end);
    seen.fenced += 1;
    world_kill(play.world, host, true, 0);
    start(host);
}

static void subscribe(uint32_t host)
{
    struct session_sub_options options = {.from_seq = 0, .keep_ms = 3600000};
    if (host == READER)
        options.name = span_text("log");
    if (host == MEMBER) {
        options.group = span_text("work");
        options.credit = 16;
        options.deliver_max = 16;
    }
    (void)session_subscribe(world_session(play.world, host), span_text("+/w"), &options,
                            &play.subs[host]);
    play.is_known[host] = host >= PARTIES;
}

static void speak(uint32_t host)
{
    struct session *session = world_session(play.world, host);
    char topic[] = {names[host][0], '/', 'w', '\0'};
    uint32_t number;
    if (!is_up(host))
        return;
    if (play.subs[host] == 0)
        subscribe(host);
    if (host < PARTIES && session_topic(session, span_text(topic), &number) == CODE_OK) {
        struct note note = {session_attempt(session), session_incarnation(session)};
        struct span value = span_of(&note, sizeof note);
        (void)session_publish(session, world_host_ns(play.world, host), number, &value, 1, NULL);
    }
    play_read_all(play.world, host, &play.subs[host], take);
    world_pump(play.world, host);
}

static void leave(uint32_t host)
{
    struct session *session = world_session(play.world, host);
    uint64_t number;
    if (!play.is_wanted[host])
        return;
    play.is_wanted[host] = false;
    play.ended_well[host] = is_up(host);
    if (!is_up(host))
        return;
    if (dice_hits(world_dice(play.world), 500))
        (void)session_complete(session, &number); /* or it leaves alone */
    session_leave(session);
    world_pump(play.world, host);
}

/* errbus pub: joins, writes a value that nobody reads, and leaves. */
static void step_from_shell(void)
{
    uint32_t number;
    struct session *session = world_session(play.world, SHELL);
    if (session == NULL) {
        world_choose_run(play.world, SHELL, NULL, BUS_RUN_CONTINUE);
        world_start(play.world, SHELL);
        return;
    }
    if (!is_up(SHELL) || session_topic(session, span_text("shell/x"), &number) != CODE_OK)
        return;
    struct span value = span_text("one");
    enum wire_code code =
        session_publish(session, world_host_ns(play.world, SHELL), number, &value, 1, NULL);
    if (code == CODE_OK) {
        session_leave(session);
        seen.steps += 1;
        memset(play.ended_well, 0, sizeof play.ended_well); /* each has something to go on with */
    }
    world_pump(play.world, SHELL);
}

static void on_act(void *arg, uint32_t what, uint32_t who, uint64_t value)
{
    (void)arg;
    struct dice *dice = world_dice(play.world);
    switch (what) {
    case ACT_START:
        play.is_wanted[who] = true;
        tend(who);
        break;
    case ACT_SPEAK:
        tend(who);
        speak(who);
        break;
    case ACT_KILL:
        play.is_wanted[who] = value != 0; /* its starter starts it again */
        seen.restarts += value != 0;
        if (world_session(play.world, who) != NULL)
            world_kill(play.world, who, dice_hits(dice, 500), 0); /* its name is free at once */
        break;
    case ACT_CRASH:
        seen.crashes += 1;
        if (!world_is_broker_down(play.world))
            world_crash_broker(play.world, dice_between(dice, 1, DOWN_MS) * WORLD_MS);
        break;
    case ACT_LEAVE: leave(who); break;
    case ACT_STEP: step_from_shell(); break;
    }
}

/* ---- a night --------------------------------------------------------------------------------- */

static void put(int64_t begin_ns, int64_t from_ms, int64_t to_ms, uint32_t what, uint32_t who,
                uint64_t value)
{
    int64_t at_ms = dice_between(world_dice(play.world), from_ms, to_ms);
    world_at(play.world, begin_ns + at_ms * WORLD_MS, what, who, value);
}

/* All are there, in the run that it must be. */
static void check_gathered(bool is_next)
{
    uint32_t run = play.run + is_next;
    for (uint32_t host = 0; host < PROGRAMS; host++) {
        if (!play.is_wanted[host])
            continue;
        if (!is_up(host))
            world_violate(play.world, "%s is not there", names[host]);
        else if (session_attempt(world_session(play.world, host)) != run)
            world_violate(play.world, "%s is in run %u, not %u", names[host],
                          session_attempt(world_session(play.world, host)), run);
    }
    play.run = run;
    seen.runs += is_next;
    seen.continued += !is_next;
}

/* Whether the next run begins, and what it is called. */
static bool begin_night(int night, const bool *comes)
{
    bool is_next = night == 0;
    bool is_held = play.is_owed[READER] || play.is_owed[MEMBER];
    for (uint32_t host = 0; host < PROGRAMS; host++)
        is_next = is_next || (comes[host] && play.ended_well[host]);
    bool is_named = !is_held && dice_hits(world_dice(play.world), 300);
    seen.held += is_next && is_held;
    seen.named += is_named;
    is_next = (is_next || is_named) && !is_held;
    if (!is_held)
        play.name = is_named ? night_names[night] : NULL;
    for (uint32_t host = 0; host < PROGRAMS; host++)
        if (comes[host] || is_next)
            play.ended_well[host] = false;
    if (is_next)
        memset(play.next_seqs, 0, sizeof play.next_seqs);
    return is_next;
}

/* A program of another run comes while this one is under way. */
static void begin_probe(void)
{
    world_choose_run(play.world, PROBE, "another one", BUS_RUN_AS_FOUND);
    world_start(play.world, PROBE);
}

static void end_probe(void)
{
    struct session *session = world_session(play.world, PROBE);
    if (session_end(session, NULL) != CODE_EDENIED)
        world_violate(play.world, "a program of another run is let in, or ends with %d",
                      (int)session_end(session, NULL));
    seen.refused += 1;
    world_kill(play.world, PROBE, true, 0);
}

/* Some are killed.  Who reads for the night to come stays, or goes early and comes back or not. */
static void put_ends(int64_t begin_ns, const bool *comes)
{
    struct dice *dice = world_dice(play.world);
    bool is_power_cut = dice_hits(dice, 150);
    for (uint32_t host = 0; host < PARTIES; host++) {
        if (is_power_cut)
            put(begin_ns, 2000, 2001, ACT_KILL, host, 0);
        else if (host > 0 && dice_hits(dice, 300)) /* one goes on, so that there is more to read */
            put(begin_ns, GATHERED_MS, 2000, ACT_KILL, host, dice_hits(dice, 600));
        put(begin_ns, LEAVING_MS, LEAVING_MS + 300, ACT_LEAVE, host, 0);
    }
    for (uint32_t host = READER; host < PROGRAMS; host++) {
        bool is_killed = comes[host] && dice_hits(dice, 400);
        bool is_back = dice_hits(dice, 500);
        if (is_killed)
            put(begin_ns, GATHERED_MS + 100, 1000, ACT_KILL, host, is_back);
        if (comes[host])
            put(begin_ns, LEAVING_MS + 800, LEAVING_MS + 1000, ACT_LEAVE, host, 0);
        play.is_owed[host] = play.is_known[host] && (!comes[host] || (is_killed && !is_back));
    }
}

static void spend_night(int night)
{
    struct dice *dice = world_dice(play.world);
    int64_t begin_ns = world_now_ns(play.world);
    bool comes[PROGRAMS];
    for (uint32_t host = 0; host < PROGRAMS; host++)
        comes[host] = host < PARTIES || dice_hits(dice, 500);
    bool is_next = begin_night(night, comes);
    for (uint32_t host = 0; host < PROGRAMS; host++) {
        if (comes[host])
            put(begin_ns, 0, 200, ACT_START, host, 0);
        for (int64_t ms = 250; ms < LEAVING_MS + (host < PARTIES ? 0 : 700); ms += 150)
            if (comes[host])
                world_at(play.world, begin_ns + ms * WORLD_MS, ACT_SPEAK, host, 0);
    }
    world_run(play.world, begin_ns + GATHERED_MS * WORLD_MS);
    check_gathered(is_next);
    bool is_probed = dice_hits(dice, 300);
    if (is_probed)
        begin_probe();
    put_ends(begin_ns, comes);
    if (!is_probed && dice_hits(dice, 300))
        put(begin_ns, GATHERED_MS, 2000, ACT_CRASH, 0, 0);
    if (dice_hits(dice, 300)) /* nobody is there any more */
        put(begin_ns, NIGHT_MS - 2 * DOWN_MS, NIGHT_MS - DOWN_MS, ACT_CRASH, 0, 0);
    if (dice_hits(dice, 200)) /* nobody is left, and the broker may die behind it */
        for (int64_t ms = NIGHT_MS - 1700; ms < NIGHT_MS - 1000; ms += 100)
            world_at(play.world, begin_ns + ms * WORLD_MS, ACT_STEP, SHELL, 0);
    world_run(play.world, begin_ns + NIGHT_MS * WORLD_MS);
    if (world_session(play.world, SHELL) != NULL)
        world_kill(play.world, SHELL, true, 0);
    if (is_probed && world_violation(play.world) == NULL)
        end_probe();
    for (uint32_t host = 0; host < PROGRAMS; host++)
        if (world_session(play.world, host) != NULL)
            world_kill(play.world, host, true, 0);
}

/* An observer has the job forgotten; then a party begins with nothing. */
static void forget(void)
{
    const struct msg question = {.type = MSG_JOB_FORGET,
                                 .as.job_forget = {.job = span_text("job")}};
    uint64_t code = play_ask_of_job(play.world, ASKER, 500, &question);
    if (code != CODE_OK)
        world_violate(play.world, "the job is not forgotten: %" PRIu64, code);
    world_kill(play.world, ASKER, true, 0);
    world_run(play.world, world_now_ns(play.world) + 500 * WORLD_MS);
}

static void check_forgotten(void)
{
    struct core_port *port = world_gate(play.world);
    const char *left = core_census_left(core_port_core(port));
    if (left != NULL || core_port_payload_count(port) != 0)
        world_violate(play.world, "the broker still has %s, and %" PRIu32 " payloads",
                      left != NULL ? left : "nothing", core_port_payload_count(port));
    uint64_t values = seen.values;
    play.is_wanted[0] = true;
    play.name = NULL;
    start(0);
    world_run(play.world, world_now_ns(play.world) + 300 * WORLD_MS);
    uint32_t sub = 0;
    struct session *session = world_session(play.world, 0);
    cr_assert_eq(session_state(session), SESSION_UP);
    (void)session_subscribe(session, span_text("+/w"), &(struct session_sub_options){.from_seq = 0},
                            &sub);
    play.subs[0] = sub;
    world_pump(play.world, 0);
    world_run(play.world, world_now_ns(play.world) + 300 * WORLD_MS);
    if (session_attempt(session) != 1 || session_incarnation(session) != 1 || seen.values != values)
        world_violate(play.world, "a forgotten job goes on: run %u, incarnation %u",
                      session_attempt(session), session_incarnation(session));
}

static void open_world(uint64_t seed)
{
    struct world_options options = play_options(seed, 5, 20);
    memset(&play, 0, sizeof play);
    options.core.resume_ms = 500;
    options.hooks = (struct world_hooks){.on_news = on_news, .on_act = on_act};
    play.world = world_new(&options);
    struct host_options host = {.job = "job",
                                .heartbeat_ms = 100,
                                .lost_after_ms = 400,
                                .grace_ms = 100,
                                .broker_lost_ms = 5000};
    for (uint32_t i = 0; i < PROGRAMS; i++) {
        host.party = names[i];
        (void)world_host(play.world, &host);
    }
    host.party = "probe";
    (void)world_host(play.world, &host);
    host.job = host.party = "";
    (void)world_host(play.world, &host);
    host.job = "job";
    host.party = "shell";
    (void)world_host(play.world, &host);
}

static void run(uint64_t seed)
{
    open_world(seed);
    for (int night = 0; night < NIGHTS && world_violation(play.world) == NULL; night++)
        spend_night(night);
    if (world_violation(play.world) == NULL)
        forget();
    if (world_violation(play.world) == NULL)
        check_forgotten();
    play_end(&play.world, seed);
}

Test(runs, have_values_of_their_own_alone_and_begin_when_the_last_one_is_over, .timeout = 900)
{
    uint64_t count = seeds_count(SEEDS_DEFAULT);
    SEEDS_EACH(seed, count)
        run(seed);
    fprintf(stderr,
            "%" PRIu64 " seeds: %" PRIu64 " runs, %" PRIu64 " continued, %" PRIu64
            " values, %" PRIu64 " restarts, %" PRIu64 " crashes, %" PRIu64 " fenced, %" PRIu64
            " held, %" PRIu64 " named, %" PRIu64 " tasks, %" PRIu64 " refused, %" PRIu64 " steps\n",
            count, seen.runs, seen.continued, seen.values, seen.restarts, seen.crashes, seen.fenced,
            seen.held, seen.named, seen.tasks, seen.refused, seen.steps);
    cr_expect(count < SEEDS_DEFAULT ||
                  (seen.runs > 2 * count && seen.values > 100 * count && seen.restarts > 0 &&
                   seen.continued > 0 && seen.crashes > 0 && seen.fenced > 0 && seen.held > 0 &&
                   seen.named > 0 && seen.tasks > 10 * count && seen.refused > 0 && seen.steps > 0),
              "something was never to be seen");
}
