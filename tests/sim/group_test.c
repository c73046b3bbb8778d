/* SPDX-License-Identifier: MPL-2.0 */
/* group_test.c -- a master that asks, and five workers that answer, refuse, forget, are killed,
 * frozen and cut off, under a broker that dies and comes back.
 *
 * Held to all along, and when all is quiet:
 *   - every request ends once, and stays as it ended when it is asked for again: with a reply that
 *     a worker gave to this request, or with an error;
 *   - what is a dead letter was not answered, and what failed as one is one;
 *   - each lease is given once: no slot comes to anybody with a delivery that somebody has had,
 *     nor with more than are allowed;
 *   - values that are no requests are done or dead: the group is behind all of them;
 *   - with some seeds all workers are gone for so long that values go.  Then each that nobody was
 *     done with is dead, or is told to be gone. */
#include "tests/lib/error_of.h"
#include "tests/sim/coverage.h"
#include "tests/sim/play.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORKERS = 5,
    MASTER = WORKERS, /* its host; workers are those before it */
    HOSTS,
    ASKER = HOSTS, /* the host of an observer */
    TASKS = 60,    /* every third of them is no request */
    DELIVER_MAX = 3,
    HELD_MAX = 64,
    REPLIES_MAX = 16, /* to one request, by workers that lost their lease too */
    SEEDS_DEFAULT = 100,
    HARMS = 60,
};
#define ACTIVE_MS 15000
/* Between these times no worker runs.  The group holds its values for KEEP_MS alone, and its topic
 * has a window of few values. */
#define AWAY_FROM_MS 5000
#define AWAY_UNTIL_MS 13000
#define KEEP_MS 300
#define AWAY_WINDOW_BYTES 512
#define AWAY_VALUE_BYTES 4096
#define QUIET_MS 120000

enum { ACT_HARM, ACT_TEND, ACT_FINISH, ACT_TASK, ACT_TAKE_BACK };

struct held {
    uint64_t lease; /* 0: none */
    uint64_t seq;
    bool is_request;
};

struct hand { /* of a worker, in one incarnation */
    uint32_t sub;
    bool has_sub;
    struct held held[HELD_MAX];
    uint32_t held_count;
};

struct asked {
    bool is_request;
    bool is_said;
    uint64_t reply_seq;
    uint64_t want;
    bool is_over; /* its outcome is known: */
    bool is_value;
    uint32_t serial; /* of the reply */
    char type[64];   /* of the error */
    uint32_t replies[REPLIES_MAX];
    uint32_t reply_count;
    bool was_given[DELIVER_MAX + 1];
    bool is_dead;
    bool was_silent, was_failed; /* somebody said so */
    bool is_done;                /* somebody said so; it is no request */
    bool is_gone;                /* its value, before it was given */
};

static struct play {
    struct world *world;
    struct hand hands[WORKERS];
    struct asked asked[TASKS];
    uint32_t tasks, replies; /* the master's topics */
    bool has_topics;
    uint32_t serial; /* of the last reply said */
    bool forgets;    /* a crash may take events that were told */
    bool is_quiet;
    bool is_busy; /* there is more to do than they can do at once */
    bool is_away; /* all workers are gone for a while */
    uint32_t values, errors, dead, again;
    uint32_t gone, dead_gone; /* values: never given; given back */
} play;

static struct dice *dice(void)
{
    return world_dice(play.world);
}

/* ---- the master ------------------------------------------------------------------------------ */

static void on_outcome(struct asked *asked, const struct session_item *item)
{
    struct error_record records[LIMIT_ERROR_RECORDS];
    uint32_t count = 0;
    uint32_t serial = 0;
    char type[64] = "";
    bool is_value = item->kind == SESSION_ITEM_VALUE;
    if (is_value && item->value.bytes == sizeof serial)
        memcpy(&serial, item->value.data, sizeof serial);
    if (!is_value && error_decode(item->value, records, LIMIT_ERROR_RECORDS, &count) == WIRE_OK)
        (void)snprintf(type, sizeof type, "%.*s", (int)records[0].type.bytes,
                       (const char *)records[0].type.data); /* they are short */
    size_t seq = (size_t)(asked - play.asked);
    if (asked->is_over &&
        (asked->is_value != is_value || asked->serial != serial || strcmp(asked->type, type) != 0))
        world_violate(play.world, "request %zu ended twice: %u%s, then %u%s", seq, asked->serial,
                      asked->type, serial, type);
    bool was_said = !is_value;
    for (uint32_t i = 0; i < asked->reply_count; i++)
        was_said = was_said || asked->replies[i] == serial;
    if (!was_said)
        world_violate(play.world, "request %zu has a reply that nobody gave", seq);
    if (strcmp(type, ERROR_TYPE_UNANSWERED) == 0 && !asked->was_silent)
        world_violate(play.world, "request %zu: nobody was done without an answer", seq);
    if (strcmp(type, "app.failed") == 0 && !asked->was_failed)
        world_violate(play.world, "request %zu: nobody failed it", seq);
    play.values += is_value && !asked->is_over;
    play.errors += !is_value && !asked->is_over;
    asked->is_over = true;
    asked->is_value = is_value;
    asked->serial = serial;
    (void)snprintf(asked->type, sizeof asked->type, "%s", type); /* as long */
}

static void look_for_replies(struct session *session)
{
    for (size_t i = 0; i < TASKS; i++) {
        struct asked *asked = &play.asked[i];
        struct session_item item;
        if (asked->want == 0 || session_want_take(session, asked->want, &item) != CODE_OK)
            continue;
        asked->want = 0;
        on_outcome(asked, &item);
        buffer_unref(&item.buffer);
    }
}

static void say_task(uint64_t seq)
{
    struct asked *asked = &play.asked[seq];
    struct session *session = world_session(play.world, MASTER);
    static uint8_t bytes[AWAY_VALUE_BYTES]; /* nobody reads them */
    struct span value = span_of(bytes, play.is_away ? sizeof bytes : sizeof seq);
    uint64_t first = seq;
    enum wire_code code;
    int64_t now_ns = world_host_ns(play.world, MASTER);
    if (!play.has_topics) {
        cr_assert_eq(session_topic(session, span_text("m/tasks"), &play.tasks), CODE_OK);
        cr_assert_eq(session_topic(session, span_text("m/_replies"), &play.replies), CODE_OK);
        play.has_topics = true;
    }
    asked->is_request = seq % 3 != 0;
    if (asked->is_request) {
        int64_t deadline_ms = dice_hits(dice(), 200) ? dice_between(dice(), 1, 3000) : -1;
        code = session_request(session, now_ns, play.tasks, play.replies, value, NULL, deadline_ms,
                               &asked->reply_seq);
    } else
        code = session_publish(session, now_ns, play.tasks, &value, 1, &first);
    if (code == CODE_ETIMEDOUT) { /* its turn comes before that of the next */
        world_at(play.world, world_now_ns(play.world) + 10 * WORLD_MS, ACT_TASK, MASTER, seq);
        world_pump(play.world, MASTER);
        return;
    }
    cr_assert_eq(code, CODE_OK, "code %d", (int)code);
    asked->is_said = true;
    if (asked->is_request)
        cr_assert_eq(
            session_await(session, span_text("m/_replies"), asked->reply_seq, true, &asked->want),
            CODE_OK);
    if (seq + 1 < TASKS)
        world_at(play.world,
                 world_now_ns(play.world) +
                     dice_between(dice(), 0, 2 * ACTIVE_MS / TASKS) * WORLD_MS,
                 ACT_TASK, MASTER, seq + 1);
    if (asked->is_request && dice_hits(dice(), 100))
        world_at(play.world, world_now_ns(play.world) + dice_between(dice(), 0, 500) * WORLD_MS,
                 ACT_TAKE_BACK, MASTER, seq);
    world_pump(play.world, MASTER);
}

static void take_back(uint64_t seq)
{
    uint64_t number;
    struct session *session = world_session(play.world, MASTER);
    (void)session_retract(session, play.replies, play.asked[seq].reply_seq,
                          error_of("app.taken_back"), &number); /* or it is not taken back */
    world_pump(play.world, MASTER);
}

/* ---- workers --------------------------------------------------------------------------------- */

static void on_task(uint32_t host, const struct session_item *item)
{
    struct hand *hand = &play.hands[host];
    uint64_t seq = item->seq;
    if (seq >= TASKS || item->delivery == 0 || item->delivery > DELIVER_MAX) {
        world_violate(play.world, "slot %" PRIu64 " came with delivery %u", seq, item->delivery);
        return;
    }
    struct asked *asked = &play.asked[seq];
    if (asked->was_given[item->delivery])
        world_violate(play.world, "slot %" PRIu64 " was given twice with delivery %u", seq,
                      item->delivery);
    asked->was_given[item->delivery] = true;
    play.again += item->delivery > 1;
    cr_assert_lt(hand->held_count, (uint32_t)HELD_MAX);
    hand->held[hand->held_count] = (struct held){
        .lease = item->lease, .seq = seq, .is_request = item->reply_to != FRAME_NO_REPLY};
    uint64_t incarnation = session_incarnation(world_session(play.world, host));
    world_at(play.world,
             world_now_ns(play.world) +
                 dice_between(dice(), 0, play.is_busy ? 2500 : 400) * WORLD_MS,
             ACT_FINISH, host, incarnation << 32 | hand->held_count);
    hand->held_count += 1;
}

static void take_tasks(uint32_t host, struct session *session)
{
    struct hand *hand = &play.hands[host];
    struct session_item item;
    if (!hand->has_sub && session_state(session) == SESSION_UP) {
        struct session_sub_options options = {.group = span_text("team"),
                                              .credit = play.is_busy ? 1 : 1 + host,
                                              .lease_ms = host == 0 ? 300 : 0,
                                              .keep_ms = play.is_away ? KEEP_MS : 0,
                                              .deliver_max = DELIVER_MAX};
        hand->has_sub =
            session_subscribe(session, span_text("m/tasks"), &options, &hand->sub) == CODE_OK;
    }
    while (hand->has_sub && session_sub_take(session, hand->sub, &item, NULL) == CODE_OK) {
        on_task(host, &item);
        buffer_unref(&item.buffer);
    }
}

static void answer(uint32_t host, const struct held *held)
{
    struct session *session = world_session(play.world, host);
    struct asked *asked = &play.asked[held->seq];
    uint32_t serial = ++play.serial;
    cr_assert_lt(asked->reply_count, (uint32_t)REPLIES_MAX);
    enum wire_code code = session_task_reply(session, world_host_ns(play.world, host), held->lease,
                                             span_of(&serial, sizeof serial), NULL);
    if (code == CODE_OK)
        asked->replies[asked->reply_count++] = serial;
    else
        session_task_end(session, held->lease, SESSION_TASK_RETURNED, 0, SPAN_NONE);
}

static void finish(uint32_t host, uint64_t value)
{
    struct session *session = world_session(play.world, host);
    struct hand *hand = &play.hands[host];
    if (session == NULL || session_incarnation(session) != value >> 32 ||
        session_end(session, NULL) != CODE_OK)
        return; /* its incarnation is over */
    const struct held *held = &hand->held[(uint32_t)value];
    unsigned what = (unsigned)dice_below(dice(), 12);
    struct asked *asked = &play.asked[held->seq];
    if (what == 0)
        session_task_end(session, held->lease, SESSION_TASK_RETURNED, 0, SPAN_NONE);
    else if (what == 1)
        session_task_end(session, held->lease, SESSION_TASK_REJECTED, dice_between(dice(), -1, 500),
                         error_of("app.not_now"));
    else if (what == 2) {
        asked->was_failed = true;
        session_task_end(session, held->lease, SESSION_TASK_FAILED, -1, error_of("app.failed"));
    } else if (held->is_request && what > 3)
        answer(host, held);
    else {
        asked->was_silent = true;
        asked->is_done = true;
        session_task_end(session, held->lease, SESSION_TASK_DONE, 0, SPAN_NONE);
    }
    world_pump(play.world, host);
}

static void start(uint32_t host)
{
    if (host < WORKERS)
        play.hands[host] = (struct hand){.held_count = 0};
    world_start(play.world, host);
}

/* ---- what is done to them -------------------------------------------------------------------- */

static void harm_broker(void)
{
    if (world_is_broker_down(play.world))
        return;
    if (dice_hits(dice(), 600))
        world_crash_broker(play.world, dice_between(dice(), 1, 300) * WORLD_MS);
    else
        world_compact(play.world);
}

static void harm(uint32_t host)
{
    unsigned what = (unsigned)dice_below(dice(), 6);
    if (what == 0 && host != MASTER)
        world_kill(play.world, host, dice_hits(dice(), 500),
                   dice_between(dice(), 0, 50) * WORLD_MS);
    else if (what == 1)
        world_freeze(play.world, host,
                     dice_between(dice(), 10, host == MASTER ? 200 : 900) * WORLD_MS);
    else if (what == 2)
        world_break(play.world, host, 3, dice_between(dice(), 0, 100) * WORLD_MS,
                    dice_between(dice(), 0, 100) * WORLD_MS);
    else if (what == 3)
        world_stall(play.world, host, 1 + (unsigned)dice_below(dice(), 3),
                    dice_between(dice(), 10, 200) * WORLD_MS);
    else if (what == 4)
        harm_broker();
}

static bool is_away_now(void)
{
    int64_t now_ns = world_now_ns(play.world);
    return play.is_away && now_ns >= AWAY_FROM_MS * WORLD_MS && now_ns < AWAY_UNTIL_MS * WORLD_MS;
}

/* Whoever is over goes; whoever is gone comes back. */
static void tend(uint32_t host)
{
    struct session *session = world_session(play.world, host);
    if (is_away_now()) {
        if (session != NULL)
            world_kill(play.world, host, true, 0);
        return;
    }
    if (world_is_frozen(play.world, host))
        return;
    if (session != NULL && session_end(session, NULL) != CODE_OK && host != MASTER)
        world_kill(play.world, host, true, 0);
    else if (session == NULL)
        start(host);
}

static void on_act(void *arg, uint32_t what, uint32_t who, uint64_t value)
{
    (void)arg;
    if (what == ACT_TEND)
        tend(who);
    else if (world_session(play.world, who) == NULL)
        return;
    else if (world_is_frozen(play.world, who))
        world_at(play.world, world_now_ns(play.world) + 10 * WORLD_MS, what, who, value);
    else if (what == ACT_HARM && !play.is_quiet)
        harm(who);
    else if (what == ACT_FINISH)
        finish(who, value);
    else if (what == ACT_TASK)
        say_task(value);
    else if (what == ACT_TAKE_BACK)
        take_back(value);
}

static void on_news(void *arg, uint32_t host, const struct session_news *news)
{
    (void)arg;
    (void)news;
    struct session *session = world_session(play.world, host);
    if (host == MASTER && session_end(session, NULL) != CODE_OK)
        world_violate(play.world, "the master was taken for lost");
    else if (host == MASTER)
        look_for_replies(session);
    else if (host < WORKERS && session_end(session, NULL) == CODE_OK)
        take_tasks(host, session);
}

static bool is_of_type(struct span error, const char *type)
{
    struct error_record records[LIMIT_ERROR_RECORDS];
    uint32_t count = 0;
    return error_decode(error, records, LIMIT_ERROR_RECORDS, &count) == WIRE_OK &&
           span_equal(records[0].type, span_text(type));
}

static void on_event(void *arg, uint32_t job, const struct msg_event *event)
{
    (void)arg;
    (void)job;
    bool is_gone = span_equal(event->name, span_text(EVENT_TASKS_GONE));
    for (uint64_t i = 0; is_gone && i < event->count && event->seq + i < TASKS; i++) {
        play.gone += !play.asked[event->seq + i].is_gone;
        play.asked[event->seq + i].is_gone = true;
    }
    if (!span_equal(event->name, span_text(EVENT_TASK_DEAD)) || event->seq >= TASKS)
        return;
    if (play.asked[event->seq].is_dead && !play.forgets)
        world_violate(play.world, "slot %" PRIu64 " died twice", event->seq);
    play.dead += !play.asked[event->seq].is_dead;
    play.dead_gone += is_of_type(event->error, ERROR_TYPE_NOT_KEPT);
    play.asked[event->seq].is_dead = true;
}

/* ---- a seed ---------------------------------------------------------------------------------- */

static void open_world(uint64_t seed)
{
    static const char *const names[] = {"w0", "w1", "w2", "w3", "w4", "m"};
    struct world_options options = play_options(seed, 5, 20);
    memset(&play, 0, sizeof play);
    options.core.resume_ms = 1000;
    options.core.unserved_ms = 2000;
    options.log_most_ns = seed % 2 == 0 ? 20 * WORLD_MS : 0;
    options.hooks =
        (struct world_hooks){.on_news = on_news, .on_act = on_act, .on_event = on_event};
    play.forgets = options.log_most_ns > 0;
    play.is_busy = seed % 4 == 1;
    play.is_away = seed % 3 == 0;
    if (play.is_away)
        options.core.topic_window_bytes = AWAY_WINDOW_BYTES;
    play.world = world_new(&options);
    (void)world_tap(play.world, "job");
    struct host_options host = {
        .job = "job", .heartbeat_ms = 50, .grace_ms = 200, .broker_lost_ms = 10000};
    for (uint32_t i = 0; i < HOSTS; i++) {
        host.party = names[i];
        host.lost_after_ms = i == MASTER ? 5000 : 400;
        host.grace_ms = i == MASTER ? 5000 : 100;
        (void)world_host(play.world, &host);
    }
    host.job = host.party = "";
    (void)world_host(play.world, &host);
}

/* Slots that the group is not done with. */
static void check_place(void)
{
    struct msg row;
    world_start(play.world, ASKER);
    world_run(play.world, world_now_ns(play.world) + 1000 * WORLD_MS);
    struct session *session = world_session(play.world, ASKER);
    session_ask(session, &(const struct msg){.type = MSG_STATUS});
    world_pump(play.world, ASKER);
    world_run(play.world, world_now_ns(play.world) + 1000 * WORLD_MS);
    unsigned found = 0;
    while (session_answer_take(session, &row)) {
        if (row.type != MSG_STATUS_ROW || row.as.status_row.kind != 3 ||
            !span_equal(row.as.status_row.name, span_text("team")))
            continue;
        found += 1;
        if (row.as.status_row.pending > 0)
            world_violate(play.world, "%" PRIu64 " slots are neither done nor dead",
                          row.as.status_row.pending);
    }
    if (found != 1)
        world_violate(play.world, "there are %u groups", found);
    world_kill(play.world, ASKER, true, 0);
}

static void check_outcomes(void)
{
    for (size_t i = 0; i < TASKS; i++) {
        const struct asked *asked = &play.asked[i];
        bool is_letter = strcmp(asked->type, "errbus.dead_letter") == 0 ||
                         strcmp(asked->type, "errbus.worker_lost") == 0;
        if (!asked->is_said)
            world_violate(play.world, "task %zu was not said", i);
        else if (!asked->is_request && !asked->is_done && !asked->is_dead && !asked->is_gone &&
                 !play.forgets)
            world_violate(play.world, "task %zu ended without a word", i);
        else if (asked->is_request && !asked->is_over)
            world_violate(play.world, "request %zu has not ended", i);
        else if (asked->is_request && is_letter && !asked->is_dead && !play.forgets)
            world_violate(play.world, "request %zu failed as a dead letter, and is none", i);
        else if (asked->is_request && !is_letter && asked->is_dead && !play.forgets)
            world_violate(play.world, "request %zu is a dead letter, and ended as %s", i,
                          asked->is_value ? "a value" : asked->type);
    }
}

/* As they are now, they were. */
static void ask_again(void)
{
    struct session *session = world_session(play.world, MASTER);
    for (size_t i = 0; i < TASKS; i++)
        if (play.asked[i].is_request)
            cr_assert_eq(session_await(session, span_text("m/_replies"), play.asked[i].reply_seq,
                                       true, &play.asked[i].want),
                         CODE_OK);
    world_pump(play.world, MASTER);
    world_run(play.world, world_now_ns(play.world) + 2000 * WORLD_MS);
    for (size_t i = 0; i < TASKS; i++)
        if (play.asked[i].want != 0)
            world_violate(play.world, "request %zu is not answered any more", i);
}

static void run(uint64_t seed)
{
    open_world(seed);
    for (uint32_t host = 0; host < HOSTS; host++)
        start(host);
    world_at(play.world, 500 * WORLD_MS, ACT_TASK, MASTER, 0);
    for (int i = 0; i < HARMS; i++)
        world_at(play.world, dice_between(dice(), 500, ACTIVE_MS) * WORLD_MS, ACT_HARM,
                 (uint32_t)dice_below(dice(), HOSTS), 0);
    for (int64_t ms = 0; ms < ACTIVE_MS + QUIET_MS; ms += 300)
        for (uint32_t host = 0; host < WORKERS; host++)
            world_at(play.world, (ms + 1) * WORLD_MS, ACT_TEND, host, 0);
    world_run(play.world, ACTIVE_MS * WORLD_MS);
    play.is_quiet = true;
    world_run(play.world, (ACTIVE_MS + QUIET_MS) * WORLD_MS);
    if (world_violation(play.world) == NULL)
        check_outcomes();
    if (world_violation(play.world) == NULL)
        check_place();
    if (world_violation(play.world) == NULL)
        ask_again();
    play_end(&play.world, seed);
}

Test(group, ends_each_task_once_and_each_lease_is_given_once, .timeout = 900)
{
    uint64_t count = seeds_count(SEEDS_DEFAULT);
    uint64_t values = 0, errors = 0, dead = 0, again = 0, gone = 0, dead_gone = 0;
    SEEDS_EACH(seed, count) {
        run(seed);
        values += play.values;
        errors += play.errors;
        dead += play.dead;
        again += play.again;
        gone += play.gone;
        dead_gone += play.dead_gone;
    }
    fprintf(stderr,
            "%" PRIu64 " seeds: %" PRIu64 " replies, %" PRIu64 " errors, %" PRIu64
            " dead letters, %" PRIu64 " tasks given again, %" PRIu64 " values gone, %" PRIu64
            " of them dead letters\n",
            count, values, errors, dead, again, gone + dead_gone, dead_gone);
    cr_expect_gt(values, 5 * count, "a group that does nothing proves nothing");
    cr_expect_gt(errors, 2 * count);
    cr_expect_gt(dead, count);
    cr_expect_gt(again, 5 * count);
    cr_expect_gt(gone, count / 4);
    if (count >= SEEDS_DEFAULT) /* it is rare */
        cr_expect_gt(dead_gone, count / 50);
    coverage_print_table(stderr, COVERAGE_TASK);
    cr_expect_eq(coverage_met(COVERAGE_TASK), coverage_possible(COVERAGE_TASK));
}
