/* SPDX-License-Identifier: MPL-2.0 */
/* swarm.c -- running one seed; see swarm.h.  What must hold is in swarm_check.c. */
#include "tests/sim/swarm.h"

#include "broker/io/durability.h"
#include "libbus/base/must.h"
#include "tests/lib/core_dump.h"
#include "tests/sim/climate.h"
#include "tests/sim/coverage.h"
#include "tests/sim/swarm_internal.h"
#include "tests/sim/trace.h"
#include "tests/sim/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JUMP_MOST_NS (INT64_C(12) * 3600 * 1000000000)

enum {
    VALUE_ROOM = 6 << 20,
    BATCH_BYTES = 1 << 20,
    BATCH_MOST = 40,
    QUIET_EVERY_MS = 20,
    DRAIN_EVERY_MS = 500,
    DRAIN_ROUNDS = 400,
    DRAIN_IDLE_MOST = 6, /* longer than anything is put off for */
    WRITES_KEPT_FREE = 64,
    BULK_MANY = 12,
    SPARE_ALIVE_MS = 2000,   /* a broker that was replaced serves so long, */
    SPARE_STOPPED_MS = 1000, /* ... or stands still so long, */
    SPARE_LATE_MS = 20,      /* ... and serves so long then */
    FAST_RATE = 12500000     /* bytes a second */
};

static const char *const job_names[STAGE_JOBS] = {"job", "other"};
static const char *const party_names[SWARM_PARTIES] = {"a", "b", "c", "d", "e", "f"};
static const char *const topic_names[SWARM_PARTIES][SWARM_TOPICS] = {
    {"a/x", "a/y", "a/z/z"}, {"b/x", "b/y", "b/z/z"}, {"c/x", "c/y", "c/z/z"},
    {"d/x", "d/y", "d/z/z"}, {"e/x", "e/y", "e/z/z"}, {"f/x", "f/y", "f/z/z"}};
/* Their parties never join. */
static const char *const misspelt_names[SWARM_PARTIES] = {"aa/x", "bb/x", "cc/x",
                                                          "dd/x", "ee/x", "ff/x"};
static const char *const reply_names[SWARM_PARTIES] = {"a/_replies", "b/_replies", "c/_replies",
                                                       "d/_replies", "e/_replies", "f/_replies"};
static const char *const work_patterns[] = {"_groups/#", "_groups/crew/dead", "_groups/+/why",
                                            "+/_replies", "a/_replies"};
static const char *const patterns[] = {"#",   "+/x", "+/#", "a/#",   "b/#",   "c/#", "a/x",
                                       "b/y", "a/+", "c/x", "b/z/z", "+/z/+", "d/#", "e/x"};
static const char *const durable_names[APP_DURABLES] = {"one", "two", "three", "four"};
static const char *const durable_patterns[APP_DURABLES] = {"#", "a/#", "+/x", "b/y"};

static uint8_t value_bytes[VALUE_ROOM];

/* ---- values ---------------------------------------------------------------------------------- */

size_t swarm_draw_bytes(struct swarm *swarm)
{
    struct dice *dice = swarm->dice;
    if (dice_hits(dice, swarm->climate.large_permille))
        return (size_t)dice_between(dice, 1000, swarm->climate.large_bytes_max);
    return (size_t)dice_below(dice, swarm->climate.small_bytes_max);
}

struct span swarm_value(struct swarm *swarm, size_t at, size_t bytes)
{
    must(at + bytes <= VALUE_ROOM);
    uint64_t number = ++swarm->value_count;
    for (size_t i = 0; i < bytes; i++)
        value_bytes[at + i] = (uint8_t)(number + i * 7);
    memcpy(value_bytes + at, &number, bytes < sizeof number ? bytes : sizeof number);
    return span_of(value_bytes + at, bytes);
}

/* ---- what parties say ------------------------------------------------------------------------ */

const char *swarm_own_topic(struct swarm *swarm, const struct app *app)
{
    uint32_t party = app->host % swarm->climate.party_count;
    return topic_names[party][dice_below(swarm->dice, swarm->climate.topic_count)];
}

static const char *any_topic(struct swarm *swarm)
{
    if (swarm->climate.group_count > 0 && dice_hits(swarm->dice, 200))
        return reply_names[dice_below(swarm->dice, swarm->climate.party_count)];
    return topic_names[dice_below(swarm->dice, swarm->climate.party_count)]
                      [dice_below(swarm->dice, swarm->climate.topic_count)];
}

static void say_publish(struct swarm *swarm, struct app *app)
{
    struct span values[BATCH_MOST];
    uint64_t most = dice_hits(swarm->dice, 100) ? BATCH_MOST : 4;
    size_t count = 1 + dice_below(swarm->dice, most);
    size_t bytes = swarm_draw_bytes(swarm);
    if (bytes * count > BATCH_BYTES)
        count = 1;
    for (size_t i = 0; i < count; i++)
        values[i] = swarm_value(swarm, i * bytes, bytes);
    const char *name = swarm_own_topic(swarm, app);
    enum wire_code code = app_publish(app, name, values, count); /* now or never */
    world_line(app->world, "%s publishes %zu of %zu bytes to %s: %s", app->party, count, bytes,
               name, trace_code(code));
}

/* Slots that somebody may have promised: the newest of any topic, mostly. */
static void reserve_needing(struct swarm *swarm, struct app *app, const char *name,
                            int64_t deadline_ms)
{
    struct app_need needs[APP_NEEDS];
    uint32_t count = (uint32_t)dice_between(swarm->dice, 1, APP_NEEDS);
    for (uint32_t i = 0; i < count; i++) {
        needs[i].name = any_topic(swarm);
        uint32_t topic = oracle_topic(app->oracle, app_space(app), span_text(needs[i].name));
        int64_t next = (int64_t)oracle_topic_at(app->oracle, topic)->next_seq;
        int64_t seq = next - dice_between(swarm->dice, -1, 4);
        needs[i].seq = seq < 0 ? 0 : (uint64_t)seq;
    }
    (void)app_reserve_needing(app, name, deadline_ms, needs, count); /* now or never */
}

static void say_reserve(struct swarm *swarm, struct app *app)
{
    struct dice *dice = swarm->dice;
    const char *name = swarm_own_topic(swarm, app);
    int64_t seq = -1, deadline_ms = -1;
    size_t bytes_max = dice_hits(dice, 500) ? 0 : swarm_draw_bytes(swarm) + 1;
    if (dice_hits(dice, swarm->climate.deadline_permille))
        deadline_ms = dice_between(dice, 1, swarm->climate.deadline_most_ms);
    if (dice_hits(dice, swarm->climate.needs_permille)) {
        reserve_needing(swarm, app, name, deadline_ms);
        return;
    }
    if (dice_hits(dice, swarm->climate.chosen_permille)) {
        uint32_t topic = oracle_topic(app->oracle, app_space(app), span_text(name));
        seq = (int64_t)oracle_topic_at(app->oracle, topic)->next_seq + dice_between(dice, -1, 5);
        if (seq < 0)
            seq = 0;
    }
    enum wire_code code = app_reserve(app, name, seq, deadline_ms, bytes_max); /* now or never */
    world_line(app->world, "%s reserves a slot of %s, number %lld, deadline %lld ms: %s",
               app->party, name, (long long)seq, (long long)deadline_ms, trace_code(code));
}

static void say_commit(struct swarm *swarm, struct app *app)
{
    if (app->slot_count == 0)
        return;
    uint32_t slot = (uint32_t)dice_below(swarm->dice, app->slot_count);
    size_t bytes = swarm_draw_bytes(swarm);
    if (swarm->bulk_left > 0 && app->slots[slot].value_bytes_max == 0 &&
        dice_hits(swarm->dice, swarm->is_passing ? 700 : 200)) {
        swarm->bulk_left -= 1;
        bytes = (size_t)dice_between(swarm->dice, DEFAULT_CHUNK_BYTES - 1, 800000);
        if (swarm->is_passing) /* in its job there is no room for it */
            bytes = (size_t)dice_between(swarm->dice, 2 * VALUE_ROOM / 3, VALUE_ROOM);
    }
    size_t bytes_max = app->slots[slot].value_bytes_max;
    if (bytes_max > 0 && bytes > bytes_max && !dice_hits(swarm->dice, 100))
        bytes = bytes_max;
    struct app_slot meant = app->slots[slot];
    struct span value = swarm_value(swarm, 0, bytes);
    enum wire_code code =
        app_commit(app, slot, value, dice_hits(swarm->dice, 300)); /* now or never */
    world_line(app->world, "%s commits %zu bytes to %s %llu: %s", app->party, bytes,
               oracle_topic_at(app->oracle, app->topics[meant.topic].topic)->name,
               (unsigned long long)meant.seq, trace_code(code));
}

static void say_fail(struct swarm *swarm, struct app *app)
{
    if (app->slot_count > 0)
        app_fail(app, (uint32_t)dice_below(swarm->dice, app->slot_count), "app.failed", "no luck",
                 dice_hits(swarm->dice, 500));
}

static void say_retract(struct swarm *swarm, struct app *app)
{
    if (app->write_count == 0)
        return;
    uint32_t back = (uint32_t)dice_below(swarm->dice, 8) + 1;
    const struct app_write *write =
        &app->writes[back > app->write_count ? 0 : app->write_count - back];
    if (!write->is_doubtful)
        (void)app_retract(app, oracle_topic_at(app->oracle, write->topic)->name, write->seq,
                          "app.retracted"); /* now or never */
}

static void say_again(struct swarm *swarm, struct app *app)
{
    if (app->write_count == 0)
        return;
    uint32_t back = (uint32_t)dice_below(swarm->dice, 4) + 1;
    uint32_t write = back > app->write_count ? 0 : app->write_count - back;
    if (!app->writes[write].is_doubtful)
        (void)app_commit_again(app, write, swarm_value(swarm, 0, 40)); /* refused, here or there */
}

static void say_subscribe(struct swarm *swarm, struct app *app)
{
    struct dice *dice = swarm->dice;
    struct app_sub_options options = {.from_seq = dice_between(dice, FROM_OLDEST, 1),
                                      .keep_ms = 600000,
                                      .is_gap = dice_hits(dice, swarm->climate.gap_permille)};
    const char *pattern = patterns[dice_below(dice, sizeof patterns / sizeof patterns[0])];
    if (swarm->climate.group_count > 0 && dice_hits(dice, 300))
        pattern = work_patterns[dice_below(dice, sizeof work_patterns / sizeof work_patterns[0])];
    if (dice_hits(dice, 100))
        options.from_seq = dice_between(dice, 2, 10);
    if (dice_hits(dice, swarm->climate.durable_permille)) {
        uint32_t name = (uint32_t)dice_below(dice, APP_DURABLES);
        for (int i = 0; i < APP_SUBS; i++)
            if (app->subs[i] != NULL && app->subs[i]->durable >= 0 &&
                strcmp(app->durables[app->subs[i]->durable].name, durable_names[name]) == 0)
                return;
        options.durable = durable_names[name];
        options.is_gap = name == 3; /* the name stands for all its properties */
        options.keep_ms = swarm->climate.keep_most_ms;
        pattern = durable_patterns[name];
    }
    (void)app_subscribe(app, pattern, &options); /* if there is room */
}

static int any_sub(struct swarm *swarm, const struct app *app)
{
    uint32_t at = (uint32_t)dice_below(swarm->dice, APP_SUBS);
    for (uint32_t i = 0; i < APP_SUBS; i++)
        if (app->subs[(at + i) % APP_SUBS] != NULL)
            return (int)((at + i) % APP_SUBS);
    return -1;
}

static void read_some(struct swarm *swarm, struct app *app, enum speech speech)
{
    int sub = any_sub(swarm, app);
    if (sub < 0)
        return;
    uint64_t count = dice_hits(swarm->dice, 200) ? 1000 : dice_below(swarm->dice, 8) + 1;
    switch (speech) {
    case SPEECH_SUB_ADD:
        app_sub_add(app, (uint32_t)sub,
                    patterns[dice_below(swarm->dice, sizeof patterns / sizeof patterns[0])]);
        break;
    case SPEECH_UNSUBSCRIBE:
        app_unsubscribe(app, (uint32_t)sub, dice_hits(swarm->dice, 300));
        break;
    case SPEECH_TAKE:
        while (count-- > 0 && app_take(app, (uint32_t)sub)) {
        }
        break;
    case SPEECH_ACK:
        for (; count > 0 && app->subs[sub]->held_count > 0; count--)
            app_ack(app, (uint32_t)sub,
                    (uint32_t)dice_below(swarm->dice, app->subs[sub]->held_count));
        break;
    default: /* SPEECH_RETURN */
        if (app->subs[sub]->held_count > 0)
            app_return(app, (uint32_t)sub,
                       (uint32_t)dice_below(swarm->dice, app->subs[sub]->held_count));
        break;
    }
}

static void say_await(struct swarm *swarm, struct app *app)
{
    const char *name = any_topic(swarm);
    uint32_t topic = oracle_topic(app->oracle, app_space(app), span_text(name));
    int64_t seq =
        (int64_t)oracle_topic_at(app->oracle, topic)->next_seq + dice_between(swarm->dice, -4, 6);
    (void)app_await(app, name, seq < 0 ? 0 : (uint64_t)seq,
                    dice_hits(swarm->dice, 700)); /* if there is room */
    if (seq % 4 == 0)
        (void)app_await(app, misspelt_names[(uint64_t)seq / 4 % SWARM_PARTIES], 0, true);
}

static void say_progress(struct swarm *swarm, struct app *app)
{
    char where[SECRET_BYTES + 1] = "somewhere";
    struct session *session = world_session(swarm->stage.world, app->host);
    if (app->has_secrets)
        secret_write(SECRET_WHERE, &app->owner, where);
    if (app->has_secrets && app->owner.is_old)
        words_forget_job(session);
    session_progress(session, dice_hits(swarm->dice, 500) ? 0 : dice_below(swarm->dice, 3000) + 1,
                     span_text(where));
}

static void say_end(struct swarm *swarm, struct app *app)
{
    switch (dice_below(swarm->dice, 4)) {
    case 0: app_fail_party(app, "app.hopeless"); break;
    case 1:
        if (app_complete(app) == CODE_OK)
            swarm->is_completing[app->host] = true;
        break;
    default: app_leave(app); break;
    }
}

/* For a transcript; what publishes, reserves and commits says so itself. */
static void tell_speech(const struct swarm *swarm, const struct app *app, enum speech speech)
{
    static const char *const names[SPEECH_COUNT] = {
        [SPEECH_FAIL] = "fails a slot",
        [SPEECH_RETRACT] = "retracts",
        [SPEECH_AGAIN] = "settles what was settled",
        [SPEECH_SUBSCRIBE] = "subscribes",
        [SPEECH_SUB_ADD] = "adds a pattern",
        [SPEECH_UNSUBSCRIBE] = "unsubscribes",
        [SPEECH_TAKE] = "takes",
        [SPEECH_ACK] = "acknowledges",
        [SPEECH_RETURN] = "returns",
        [SPEECH_AWAIT] = "awaits",
        [SPEECH_UNAWAIT] = "awaits no more",
        [SPEECH_FLUSH] = "flushes",
        [SPEECH_PROGRESS] = "promises progress",
        [SPEECH_END] = "comes to an end",
        [SPEECH_LETTERS] = "treats dead letters",
    };
    if (speech < SPEECH_COUNT && names[speech] != NULL)
        world_line(swarm->stage.world, "%s %s", app->party, names[speech]);
}

static void speak(struct swarm *swarm, struct app *app)
{
    enum speech speech =
        (enum speech)climate_pick(swarm->dice, swarm->climate.speech_weights, SPEECH_COUNT);
    if (app->write_count + BATCH_MOST + WRITES_KEPT_FREE > APP_WRITES)
        speech = SPEECH_TAKE;
    if (swarm->is_completing[app->host] && speech != SPEECH_ACK && speech != SPEECH_FLUSH &&
        speech != SPEECH_WORK && speech != SPEECH_END)
        speech = SPEECH_TAKE;
    tell_speech(swarm, app, speech);
    if (swarm->options.plant == SWARM_PLANT_RETRACTION && speech == SPEECH_RETRACT &&
        app->write_count > 0)
        world_violate(swarm->stage.world, "planted: %s takes something back", app->party);
    switch (speech) {
    case SPEECH_PUBLISH: say_publish(swarm, app); break;
    case SPEECH_RESERVE: say_reserve(swarm, app); break;
    case SPEECH_COMMIT: say_commit(swarm, app); break;
    case SPEECH_FAIL: say_fail(swarm, app); break;
    case SPEECH_RETRACT: say_retract(swarm, app); break;
    case SPEECH_AGAIN: say_again(swarm, app); break;
    case SPEECH_SUBSCRIBE: say_subscribe(swarm, app); break;
    case SPEECH_SUB_ADD:
    case SPEECH_UNSUBSCRIBE:
    case SPEECH_TAKE:
    case SPEECH_ACK:
    case SPEECH_RETURN: read_some(swarm, app, speech); break;
    case SPEECH_AWAIT: say_await(swarm, app); break;
    case SPEECH_UNAWAIT:
        if (app->want_count > 0)
            app_unawait(app, (uint32_t)dice_below(swarm->dice, app->want_count));
        break;
    case SPEECH_FLUSH: app_flush(app); break;
    case SPEECH_PROGRESS: say_progress(swarm, app); break;
    case SPEECH_END: say_end(swarm, app); break;
    case SPEECH_JOIN:
    case SPEECH_WORK:
    case SPEECH_REQUEST:
    case SPEECH_CANCEL:
    case SPEECH_LETTERS: swarm_speak_of_work(swarm, app, speech); break;
    case SPEECH_COUNT: break;
    }
}

/* ---- what is done to them -------------------------------------------------------------------- */

static int64_t draw_notice(struct swarm *swarm)
{
    if (dice_hits(swarm->dice, swarm->climate.quiet_permille))
        return WORLD_NEVER;
    return dice_between(swarm->dice, 0, swarm->climate.notice_most_ns);
}

void swarm_put_down(struct swarm *swarm, int64_t at_ns, enum swarm_act what, uint32_t who,
                    uint64_t value)
{
    if (swarm->options.replayed == NULL)
        world_at(swarm->stage.world, at_ns, what, who, value);
}

static void restart_later(struct swarm *swarm, uint32_t who)
{
    struct world *world = swarm->stage.world;
    if (swarm->phase == SWARM_ACTIVE && dice_hits(swarm->dice, swarm->climate.restart_permille))
        swarm_put_down(swarm,
                       world_now_ns(world) +
                           dice_between(swarm->dice, 0, swarm->climate.restart_most_ns),
                       SWARM_START, WORLD_NOBODY, who);
}

static void intrude(struct swarm *swarm, uint32_t who)
{
    uint8_t bytes[300];
    struct world *world = swarm->stage.world;
    enum channel channel = dice_hits(swarm->dice, 500) ? CHANNEL_DATA : CHANNEL_CONTROL;
    struct span overheard = world_overheard(world, who, channel);
    if (overheard.bytes > 0 && dice_hits(swarm->dice, 600)) {
        world_intrude(world, channel, overheard);
        return;
    }
    size_t count = dice_below(swarm->dice, sizeof bytes) + 1;
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)dice_next(swarm->dice);
    world_intrude(world, channel, span_of(bytes, count));
}

void swarm_kill(struct swarm *swarm, uint32_t who)
{
    struct dice *dice = swarm->dice;
    world_line(swarm->stage.world, "%s is killed", swarm->stage.apps[who].party);
    bool is_flushed = dice_hits(dice, 500);
    stage_kill(&swarm->stage, who, is_flushed, draw_notice(swarm));
    swarm->report.end_count += 1;
    restart_later(swarm, who);
}

/* Both channels, or data alone: what is dead of control alone, nobody promises to notice. */
static void half_open(struct swarm *swarm, uint32_t who, bool is_both)
{
    enum way way = dice_hits(swarm->dice, 500) ? WAY_UP : WAY_DOWN;
    if (is_both)
        world_half_open(swarm->stage.world, who, way);
    else
        world_half_open_one(swarm->stage.world, who, CHANNEL_DATA, way);
}

static void harm(struct swarm *swarm)
{
    struct dice *dice = swarm->dice;
    struct world *world = swarm->stage.world;
    uint32_t who = (uint32_t)dice_below(dice, swarm->stage.app_count);
    if (world_session(world, who) == NULL)
        return;
    enum fault fault = (enum fault)climate_pick(dice, swarm->climate.fault_weights, FAULT_COUNT);
    int64_t broker_notice_ns = draw_notice(swarm);
    int64_t client_notice_ns = draw_notice(swarm);
    int64_t for_ns = dice_between(dice, 0, swarm->climate.freeze_most_ns);
    coverage_fault(fault);
    if (fault < FAULT_COUNT)
        world_line(world, "a fault strikes %s: %s, for %lld ms at most",
                   swarm->stage.apps[who].party, climate_fault_name(fault),
                   (long long)(for_ns / WORLD_MS));
    switch (fault) {
    case FAULT_BREAK: world_break(world, who, 3, broker_notice_ns, client_notice_ns); break;
    case FAULT_BREAK_ONE:
        /* Beats run on the control channel: if the other breaks alone, the kernel has to tell of it
         * in the end, at one side at least. */
        if (broker_notice_ns == WORLD_NEVER && client_notice_ns == WORLD_NEVER)
            client_notice_ns = dice_between(dice, 0, 1000 * WORLD_MS);
        world_break(world, who, 1u << dice_below(dice, 2), broker_notice_ns, client_notice_ns);
        break;
    case FAULT_HALF_OPEN: half_open(swarm, who, for_ns % 2 == 0); break;
    case FAULT_STALL:
        world_stall(world, who, (unsigned)dice_between(dice, 1, 3), for_ns / 2);
        break;
    case FAULT_FREEZE: world_freeze(world, who, for_ns); break;
    case FAULT_KILL: swarm_kill(swarm, who); break;
    case FAULT_INTRUDE: intrude(swarm, who); break;
    case FAULT_REPEAT:
        world_repeat(world, who, dice_hits(dice, 700) ? CHANNEL_DATA : CHANNEL_CONTROL);
        break;
    case FAULT_STOP: world_stop_broker(world, for_ns * (dice_hits(dice, 100) ? 20 : 1)); break;
    case FAULT_CLOCK:
        crew_doubt_clocks(swarm->stage.crew);
        world_jump_clock(world, dice_between(dice, -JUMP_MOST_NS, JUMP_MOST_NS));
        break;
    case FAULT_FULL: world_fill_disk(world, for_ns, dice_hits(dice, 300)); break;
    case FAULT_MEMORY:
        world_starve_broker(world, dice_below(dice, 40) + 1);
        oracle_doubt(swarm->stage.oracle);
        break;
    case FAULT_RIVAL: world_rival_broker(world); break;
    case FAULT_LATE: world_delay_broker(world, dice_between(dice, 11, 450) * WORLD_MS); break;
    case FAULT_COUNT: break;
    }
}

/* ---- moments --------------------------------------------------------------------------------- */

void swarm_read_all(struct swarm *swarm, struct app *app)
{
    swarm_work_all(swarm, app);
    for (uint32_t sub = 0; sub < APP_SUBS; sub++) {
        if (app->subs[sub] == NULL || app->subs[sub]->group >= 0)
            continue;
        while (app_take(app, sub)) {
        }
        while (app->subs[sub]->held_count > 0)
            app_ack(app, sub, app->subs[sub]->held_count - 1);
    }
}

static void on_speak(struct swarm *swarm, uint32_t who)
{
    struct world *world = swarm->stage.world;
    struct app *app = &swarm->stage.apps[who];
    if (swarm->phase != SWARM_ACTIVE)
        return;
    if (app_is_up(app))
        speak(swarm, app);
    swarm_put_down(swarm,
                   world_now_ns(world) +
                       dice_between(swarm->dice, 1, 2 * swarm->climate.speech_every_ns),
                   SWARM_SPEAK, who, 0);
}

static void on_end(struct swarm *swarm, uint32_t who, uint64_t record)
{
    struct app *app = &swarm->stage.apps[who];
    if (!app->is_running || app->record != record)
        return;
    for (uint32_t sub = 0; sub < APP_SUBS; sub++)
        while (app->subs[sub] != NULL && app_take(app, sub)) {
        }
    swarm_give_up_run(swarm, who);
    stage_kill(&swarm->stage, who, true, 0);
    swarm->report.end_count += 1;
    restart_later(swarm, who);
}

static void on_start(struct swarm *swarm, uint32_t who)
{
    if (swarm->phase != SWARM_ACTIVE || swarm->stage.apps[who].is_running)
        return;
    swarm->is_completing[who] = false;
    swarm->is_burying[who] = false;
    app_start(&swarm->stage.apps[who]);
}

static void on_quiet(struct swarm *swarm, uint32_t who)
{
    struct world *world = swarm->stage.world;
    struct app *app = &swarm->stage.apps[who];
    if (!app->is_running)
        return;
    app_look(app);
    swarm_read_all(swarm, app);
    world_at(world, world_now_ns(world) + QUIET_EVERY_MS * WORLD_MS, SWARM_QUIET, who, 0);
}

static void on_probe(struct swarm *swarm, uint32_t who, uint64_t index)
{
    struct world *world = swarm->stage.world;
    struct app *app = &swarm->stage.apps[who];
    if (!app_is_up(app) || swarm->is_completing[who] || index >= app->topic_count) {
        swarm->probe_count -= 1; /* its incarnation is over: nobody is held back */
        return;
    }
    struct span value = swarm_value(swarm, 0, 16);
    const char *name = oracle_topic_at(app->oracle, app->topics[index].topic)->name;
    enum wire_code code = app_publish(app, name, &value, 1);
    if (code == CODE_ETIMEDOUT) {
        swarm->probe_name = name;
        world_at(world, world_now_ns(world) + QUIET_EVERY_MS * WORLD_MS, SWARM_PROBE, who, index);
        return;
    }
    swarm->probe_count -= 1;
    app_flush(app);
}

/* The broker looks at its journal often enough, and stands still at times.  The next one may be on
 * a machine with another wall clock. */
static void give_to_spare(struct swarm *swarm, int64_t down_ns)
{
    struct dice *dice = &swarm->journal_dice;
    bool is_standing = dice_hits(dice, 200);
    int64_t stopped_ns = is_standing ? dice_between(dice, 0, SPARE_STOPPED_MS * WORLD_MS) : 0;
    int64_t alive_ns =
        dice_between(dice, 0, (is_standing ? SPARE_LATE_MS : SPARE_ALIVE_MS) * WORLD_MS);
    world_replace_by_spare(swarm->stage.world, stopped_ns, alive_ns, down_ns);
    if (dice_hits(dice, 500))
        return;
    crew_doubt_clocks(swarm->stage.crew);
    world_jump_clock(swarm->stage.world, dice_between(dice, -JUMP_MOST_NS, JUMP_MOST_NS));
}

/* Mostly it is back before anybody gives up. */
static void on_crash(struct swarm *swarm)
{
    struct dice *dice = &swarm->journal_dice;
    int64_t most_ms = swarm->climate.broker_lost_ms / (dice_hits(dice, 100) ? 1 : 4);
    if (swarm->phase != SWARM_ACTIVE || world_is_broker_down(swarm->stage.world))
        return;
    int64_t down_ns = dice_between(dice, 0, most_ms * WORLD_MS);
    if (swarm->spare_permille > 0 && dice_hits(dice, swarm->spare_permille))
        give_to_spare(swarm, down_ns);
    else
        world_crash_broker(swarm->stage.world, down_ns);
    swarm->report.crash_count += 1;
    if (swarm->crash_kills_permille == 0 || !dice_hits(dice, swarm->crash_kills_permille))
        return;
    uint32_t who = (uint32_t)dice_below(dice, swarm->stage.app_count);
    if (swarm->stage.apps[who].is_running)
        swarm_kill(swarm, who);
}

static void on_cancel(struct swarm *swarm)
{
    struct msg cancel = {.type = MSG_JOB_CANCEL,
                         .as.job_cancel = {.request = 2,
                                           .job = span_text(job_names[0]),
                                           .message = span_text("nobody needs it any more")}};
    world_line(swarm->stage.world, "the job is cancelled");
    world_ask(swarm->stage.world, 0, &cancel);
}

static bool is_by_lot(enum swarm_act what)
{
    return what == SWARM_CANCEL || what == SWARM_SPEAK || what == SWARM_HARM ||
           what == SWARM_START || what == SWARM_CRASH || what == SWARM_COMPACT ||
           what == SWARM_NIGHT || what == SWARM_ACCESS;
}

static void record(struct swarm *swarm, const struct script_moment *moment)
{
    if (swarm->options.recorded == NULL || !is_by_lot((enum swarm_act)moment->what))
        return;
    script_add(swarm->options.recorded, *moment);
}

/* The dice lie as they did when it was recorded. */
static struct script_moment replayed(struct swarm *swarm, uint64_t index)
{
    struct script_moment moment = swarm->options.replayed->moments[index];
    *swarm->dice = moment.dice;
    swarm->journal_dice = moment.journal_dice;
    return moment;
}

static void act(struct swarm *swarm, enum swarm_act what, uint32_t who, uint64_t value)
{
    struct world *world = swarm->stage.world;
    switch (what) {
    case SWARM_SPEAK: on_speak(swarm, who); break;
    case SWARM_HARM:
        if (swarm->phase != SWARM_ACTIVE)
            break;
        harm(swarm);
        swarm_put_down(swarm,
                       world_now_ns(world) +
                           dice_between(swarm->dice, 1, 2 * swarm->climate.fault_every_ns),
                       SWARM_HARM, WORLD_NOBODY, 0);
        break;
    case SWARM_START: on_start(swarm, (uint32_t)value); break;
    case SWARM_END: on_end(swarm, who, value); break;
    case SWARM_QUIET: on_quiet(swarm, who); break;
    case SWARM_PROBE: on_probe(swarm, who, value); break;
    case SWARM_CRASH: on_crash(swarm); break;
    case SWARM_COMPACT: world_compact(world); break;
    case SWARM_CANCEL: on_cancel(swarm); break;
    case SWARM_NIGHT: swarm_night(swarm); break;
    case SWARM_ACCESS:
        if (swarm->phase == SWARM_ACTIVE)
            swarm_change_access(swarm, false);
        break;
    case SWARM_SCRIPTED: break; /* it was looked up by now */
    }
}

static void on_act(void *arg, uint32_t what, uint32_t who, uint64_t value)
{
    struct swarm *swarm = arg;
    struct script_moment moment = {.at_ns = world_now_ns(swarm->stage.world),
                                   .what = what,
                                   .who = who,
                                   .value = value,
                                   .dice = *swarm->dice,
                                   .journal_dice = swarm->journal_dice};
    if (what == SWARM_SCRIPTED)
        moment = replayed(swarm, value);
    else
        record(swarm, &moment);
    act(swarm, (enum swarm_act)moment.what, moment.who, moment.value);
}

static void on_news(void *arg, uint32_t who)
{
    struct swarm *swarm = arg;
    struct world *world = swarm->stage.world;
    if (swarm->phase == SWARM_CALM && app_is_up(&swarm->stage.apps[who]))
        swarm_work_all(swarm, &swarm->stage.apps[who]);
    if (session_state(world_session(world, who)) != SESSION_OVER || swarm->is_burying[who])
        return;
    swarm->is_burying[who] = true;
    world_at(world, world_now_ns(world) + dice_between(swarm->dice, 0, 50) * WORLD_MS, SWARM_END,
             who, swarm->stage.apps[who].record);
}

/* ---- phases ---------------------------------------------------------------------------------- */

/* What one lets others see, and where it runs: a secret, too. */
static struct secret_owner draw_owner(struct swarm *swarm, uint32_t job,
                                      struct host_options *options)
{
    struct dice *dice = &swarm->secret_dice;
    struct secret_owner owner = {.own = DISCLOSURE_UNSAID};
    if (!swarm->stage.has_secrets)
        return owner;
    owner.own = (enum disclosure)dice_between(dice, DISCLOSURE_FULL, DISCLOSURE_NONE);
    owner.of_job = job == 0 ? swarm->of_job : DISCLOSURE_UNSAID;
    owner.is_old = dice_hits(dice, 250);
    if (!swarm->options.seals_nothing)
        owner.is_sealing = dice_hits(dice, 300) && !owner.is_old;
    options->is_sealing = owner.is_sealing;
    options->disclosure = owner.own;
    secret_write(SECRET_HOST, &owner, options->place);
    return owner;
}

static void people(struct swarm *swarm)
{
    const struct climate *climate = &swarm->climate;
    for (uint32_t job = 0; job < climate->job_count; job++)
        for (uint32_t party = 0; party < climate->party_count; party++) {
            struct host_options options = {.job = job_names[job],
                                           .party = party_names[party],
                                           .heartbeat_ms = climate->heartbeat_ms,
                                           .lost_after_ms = climate->lost_after_ms,
                                           .grace_ms = climate->grace_ms,
                                           .broker_lost_ms = climate->broker_lost_ms,
                                           .outbox_bytes_max = climate->outbox_bytes_max,
                                           .inbox_bytes_max = climate->inbox_bytes_max,
                                           .chunk_bytes_max = climate->chunk_bytes_max};
            struct secret_owner owner = draw_owner(swarm, job, &options);
            uint32_t who = stage_add(&swarm->stage, job, &options);
            swarm->stage.apps[who].has_secrets = swarm->stage.has_secrets;
            swarm->stage.apps[who].owner = owner;
            int64_t at_ns =
                dice_hits(swarm->dice, 700) ? 0 : dice_between(swarm->dice, 0, climate->active_ns);
            swarm_put_down(swarm, at_ns, SWARM_START, WORLD_NOBODY, who);
            swarm_put_down(swarm, at_ns, SWARM_SPEAK, who, 0);
        }
    if (climate->fault_every_ns > 0)
        swarm_put_down(swarm, climate->fault_every_ns, SWARM_HARM, WORLD_NOBODY, 0);
}

static void follow_script(struct swarm *swarm)
{
    const struct script *script = swarm->options.replayed;
    for (uint32_t i = 0; script != NULL && i < script->count; i++)
        world_at(swarm->stage.world, script->moments[i].at_ns, SWARM_SCRIPTED,
                 script->moments[i].who, i);
}

/* A phase draws what it drew when it was recorded, whatever was left out before. */
static void begin_phase(struct swarm *swarm, enum script_phase phase)
{
    if (swarm->options.replayed != NULL)
        *swarm->dice = swarm->options.replayed->phases[phase];
    else if (swarm->options.recorded != NULL)
        swarm->options.recorded->phases[phase] = *swarm->dice;
}

/* So long it takes until all that runs by time has run out. */
static int64_t quiet_ns(const struct climate *climate)
{
    int64_t ms = 2 * climate->lost_after_ms + climate->grace_ms + climate->broker_lost_ms +
                 climate->keep_most_ms + climate->deadline_most_ms + 3000;
    if (climate->group_count > 0)
        ms += climate->retry_most_ms + 2000; /* as long as requests wait for a group at most */
    return ms * WORLD_MS;
}

/* What groups have to do, and subscriptions are to be sent.  A reader with little room, far away,
 * takes a large value for seconds. */
static uint64_t left_to_do(struct world *world)
{
    if (world_is_broker_down(world))
        return 0;
    const struct core *core = core_port_core(world_gate(world));
    return core_dump_undone(core, NULL) + core_dump_unsent(core);
}

/* Until nothing is left to be done by anybody: as long as something is done. */
static void drain(struct swarm *swarm)
{
    struct world *world = swarm->stage.world;
    uint64_t before = UINT64_MAX;
    uint32_t idle = 0;
    for (int i = 0; i < DRAIN_ROUNDS && world_violation(world) == NULL; i++) {
        uint64_t left = left_to_do(world);
        idle = left < before ? 0 : idle + 1;
        if (left == 0 || idle == DRAIN_IDLE_MOST)
            return;
        before = left;
        world_run(world, world_now_ns(world) + DRAIN_EVERY_MS * WORLD_MS);
    }
}

static void flush_all(struct swarm *swarm)
{
    for (uint32_t who = 0; who < swarm->stage.app_count; who++)
        if (app_is_up(&swarm->stage.apps[who])) {
            app_flush(&swarm->stage.apps[who]);
            world_pump(swarm->stage.world, who);
        }
}

/* What was returned is never acknowledged, and a durable name with it may keep the whole job full:
 * it is given up. */
static void drop_returned(struct app *app)
{
    for (uint32_t i = 0; i < APP_SUBS; i++) {
        const struct app_sub *sub = app->subs[i];
        bool has_returned = false;
        if (sub == NULL || sub->durable < 0)
            continue;
        for (uint32_t k = 0; k < sub->position_count; k++)
            has_returned |= sub->positions[k].returned_seq != UINT64_MAX;
        if (has_returned)
            app_unsubscribe(app, i, true);
    }
}

static bool is_of_replies(const struct app *app, uint32_t topic)
{
    const char *name = oracle_topic_at(app->oracle, app->topics[topic].topic)->name;
    return strstr(name, "/_replies") != NULL;
}

/* An open slot holds back what is behind it, and so its writer in the end.  Without any, all is
 * read and acknowledged, and everybody must be able to write. */
static void settle_and_probe(struct swarm *swarm)
{
    struct stage *stage = &swarm->stage;
    for (uint32_t who = 0; who < stage->app_count; who++) {
        struct app *app = &stage->apps[who];
        if (!app_is_up(app))
            continue;
        drop_returned(app);
        for (int i = 0; i < APP_SLOTS && app->slot_count > 0; i++)
            app_fail(app, 0, "app.given_up", "too late", false);
        for (uint32_t topic = 0; topic < app->topic_count && !swarm->is_completing[who]; topic++) {
            if (is_of_replies(app, topic))
                continue;
            swarm->probe_count += 1;
            world_at(stage->world, world_now_ns(stage->world) + 300 * WORLD_MS, SWARM_PROBE, who,
                     topic);
        }
        world_pump(stage->world, who);
    }
}

static void drop_letters(struct swarm *swarm)
{
    for (uint32_t job = 0; job < swarm->climate.job_count; job++) {
        if (swarm->stage.has_secrets)
            swarm_show_letters(swarm, job);
        swarm_treat_letters(swarm, job, true);
    }
}

/* Each waits for a party that never joins, for longer than the second after which it is told. */
static void await_in_vain(struct swarm *swarm)
{
    struct stage *stage = &swarm->stage;
    swarm->in_vain_ns = world_now_ns(stage->world);
    for (uint32_t who = 0; who < stage->app_count; who++)
        if (app_is_up(&stage->apps[who])) {
            (void)app_await(&stage->apps[who], misspelt_names[who % SWARM_PARTIES], 0, true);
            world_pump(stage->world, who);
        }
    world_run(stage->world, world_now_ns(stage->world) + (LIMIT_NOTICE_MS + 300) * WORLD_MS);
}

static void quiet(struct swarm *swarm)
{
    struct stage *stage = &swarm->stage;
    begin_phase(swarm, SCRIPT_QUIET);
    swarm->phase = SWARM_CALM;
    world_line(stage->world, "faults stop");
    swarm_change_access(swarm, true);
    world_calm(stage->world, 5 * WORLD_MS);
    world_relieve_broker(stage->world);
    for (uint32_t who = 0; who < stage->app_count; who++) {
        world_thaw(stage->world, who);
        world_at(stage->world, world_now_ns(stage->world), SWARM_QUIET, who, 0);
    }
    world_run(stage->world, world_now_ns(stage->world) + quiet_ns(&swarm->climate));
    await_in_vain(swarm);
    drain(swarm);
    flush_all(swarm);
    world_run(stage->world, world_now_ns(stage->world) + 1000 * WORLD_MS);
    swarm_check_calm(swarm);
    drop_letters(swarm);
    settle_and_probe(swarm);
    flush_all(swarm);
    /* A data channel has no beats.  One that died while it was idle is noticed by what is sent now:
     * the more often one was dead before, the later, but within broker_lost_ms. */
    int64_t probed_ms = 1500 + swarm->climate.broker_lost_ms;
    world_run(stage->world, world_now_ns(stage->world) + probed_ms * WORLD_MS);
    drain(swarm);
    if (swarm->climate.group_count > 0) /* behind what was settled others may have waited */
        world_run(stage->world, world_now_ns(stage->world) + 3000 * WORLD_MS);
    if (swarm->probe_count > 0) { /* and what has died meanwhile keeps a small job full */
        drop_letters(swarm);
        world_run(stage->world, world_now_ns(stage->world) + 1500 * WORLD_MS);
    }
    swarm_check_calm(swarm);
}

static void end_party(struct swarm *swarm, uint32_t who)
{
    struct stage *stage = &swarm->stage;
    struct app *app = &stage->apps[who];
    /* A link on which nothing came for long may be dead in one direction: that shows only now. */
    int64_t patience_ms = 700 + swarm->climate.lost_after_ms;
    switch (dice_below(swarm->dice, 4)) {
    case 0: app_fail_party(app, "app.hopeless"); break;
    case 1:
        swarm_kill(swarm, who);
        patience_ms += 2 * swarm->climate.lost_after_ms + swarm->climate.grace_ms;
        break;
    default: app_leave(app); break;
    }
    world_pump(stage->world, who);
    world_run(stage->world, world_now_ns(stage->world) + patience_ms * WORLD_MS);
    swarm_check_ended(swarm, who);
}

static void ending(struct swarm *swarm)
{
    struct stage *stage = &swarm->stage;
    begin_phase(swarm, SCRIPT_ENDING);
    uint32_t first = (uint32_t)dice_below(swarm->dice, stage->app_count);
    for (uint32_t i = 0; i < stage->app_count && world_violation(stage->world) == NULL; i++) {
        uint32_t who = (first + i) % stage->app_count;
        if (app_is_up(&stage->apps[who]))
            end_party(swarm, who);
    }
}

/* A party in a job of its own does a little of everything, leaves, and is forgotten with it. */
static uint64_t visit(struct swarm *swarm, uint32_t visitor)
{
    struct stage *stage = &swarm->stage;
    struct host_options options = {.job = "third",
                                   .party = party_names[visitor],
                                   .heartbeat_ms = 1000,
                                   .lost_after_ms = 5000,
                                   .grace_ms = 100,
                                   .broker_lost_ms = 5000};
    struct app_sub_options sub_options = {.keep_ms = 1000};
    struct world *world = stage->world;
    struct app *app = &stage->apps[stage_add(stage, STAGE_JOBS, &options)];
    const char *name = topic_names[visitor][0];
    struct span value = swarm_value(swarm, 0, 100);
    app_start(app);
    world_run(world, world_now_ns(world) + 200 * WORLD_MS);
    (void)app_reserve(app, name, -1, -1, 0);     /* asks for the topic's number */
    (void)app_subscribe(app, "#", &sub_options); /* there is room */
    world_pump(world, app->host);
    world_run(world, world_now_ns(world) + 200 * WORLD_MS);
    (void)app_publish(app, name, &value, 1);
    for (int i = 0; i < 3; i++)
        (void)app_reserve(app, name, -1, 10000, 0);
    if (app->slot_count > 1)
        app_fail(app, 0, "app.failed", "no luck", false);
    (void)app_await(app, name, 3, true);
    world_pump(world, app->host);
    world_run(world, world_now_ns(world) + 200 * WORLD_MS);
    swarm_read_all(swarm, app);
    app_leave(app);
    world_pump(world, app->host);
    world_run(world, world_now_ns(world) + 1000 * WORLD_MS);
    stage_kill(stage, app->host, true, 0);
    world_run(world, world_now_ns(world) + 300000 * WORLD_MS);
    return world_broker_bytes(world);
}

static void after(struct swarm *swarm)
{
    struct stage *stage = &swarm->stage;
    begin_phase(swarm, SCRIPT_AFTER);
    for (uint32_t who = 0; who < stage->app_count; who++)
        if (world_session(stage->world, who) != NULL)
            stage_kill(stage, who, true, 0);
    world_run(stage->world, world_now_ns(stage->world) + quiet_ns(&swarm->climate));
    world_untap(stage->world);
    world_run(stage->world, world_now_ns(stage->world) + 300000 * WORLD_MS);
    swarm_check_after(swarm);
    (void)visit(swarm, 0); /* what grows once may stay grown */
    uint64_t second = visit(swarm, 1);
    uint64_t third = visit(swarm, 2);
    if (third > second)
        world_violate(stage->world, "a visit leaves %llu bytes in the broker",
                      (unsigned long long)(third - second));
}

/* In half of the seeds whose journal takes time, the durability is `shared`, which says what waits
 * for the disk.  Each next broker is on another machine.  The broker ends more often, and takes
 * parties of its machine with it.  What is drawn about that leaves the rest as it is. */
static void draw_machines(struct swarm *swarm, struct world_options *options, uint64_t seed)
{
    struct dice dice;
    dice_init(&dice, seed ^ UINT64_C(0x736861726564));
    durability_tell(DURABILITY_SHARED, &options->core);
    options->sync_most_ns = dice_between(&dice, 1, 100 * WORLD_MS);
    swarm->crash_count += (uint32_t)dice_between(&dice, 1, 5);
    swarm->crash_kills_permille = (uint32_t)dice_between(&dice, 0, 1000);
    swarm->spare_permille = (uint32_t)dice_between(&dice, 0, 1000);
}

/* Every other seed has a journal, whose facts must give the state of the broker all the time; every
 * fourth has a broker that is killed and goes on. */
static void draw_journal(struct swarm *swarm, struct world_options *options, uint64_t seed)
{
    struct dice *dice = &swarm->journal_dice;
    dice_init(dice, seed ^ UINT64_C(0x6a6f75726e616c));
    options->core.has_facts = seed % 2 == 0;
    options->core.resume_ms = dice_between(dice, 1, 1500);
    options->check_every = (uint32_t)dice_between(dice, 1, 400);
    if (seed % 4 == 2)
        swarm->crash_count = (uint32_t)dice_between(dice, 1, 5);
    if (seed % 8 == 2)
        options->log_most_ns = dice_between(dice, 1, 20 * WORLD_MS);
    if (seed % 16 == 10 && !swarm->options.is_plain)
        draw_machines(swarm, options, seed);
}

static void plan_crashes(struct swarm *swarm, bool has_facts)
{
    struct dice *dice = &swarm->journal_dice;
    for (uint32_t i = 0; i < swarm->crash_count; i++)
        swarm_put_down(swarm, dice_between(dice, 0, swarm->climate.active_ns), SWARM_CRASH,
                       WORLD_NOBODY, 0);
    for (uint64_t i = has_facts ? dice_below(dice, 4) : 0; i > 0; i--)
        swarm_put_down(swarm, dice_between(dice, 0, swarm->climate.active_ns), SWARM_COMPACT,
                       WORLD_NOBODY, 0);
}

/* Takes out of the world what a failing run does not need (shrink.h). */
static void ease(struct swarm *swarm, struct world_options *options)
{
    const struct script *script = swarm->options.replayed;
    unsigned eases = swarm->options.eases;
    if ((eases & SWARM_EASE_SHORT) != 0)
        swarm->climate.active_ns =
            script->count > 0 ? script->moments[script->count - 1].at_ns + 1 : 1;
    if ((eases & SWARM_EASE_STEADY) != 0)
        options->spike_permille = 0;
    if ((eases & SWARM_EASE_STEADY) != 0)
        options->link_rate = 0;
    if ((eases & SWARM_EASE_PROMPT) != 0)
        options->tick_late_ns = 0;
    if ((eases & SWARM_EASE_DISK) != 0)
        options->log_most_ns = 0;
    for (int channel = 0; channel < CHANNEL_COUNT && (eases & SWARM_EASE_DELAY) != 0; channel++)
        options->delay_most_ns[channel] = options->delay_least_ns[channel];
}

/* In some seeds without a journal values are larger than their job: they pass through. */
static void draw_passing(struct swarm *swarm, struct world_options *options, uint64_t seed)
{
    swarm->is_passing = seed % 16 == 7 && !swarm->options.is_plain;
    if (!swarm->is_passing)
        return;
    options->core.job_bytes_max = 4 << 20;
    options->core.value_bytes_max = VALUE_ROOM;
    options->link_rate = seed % 32 == 23 ? FAST_RATE : 0;
    struct climate *climate = &swarm->climate;
    climate->bulk_max = BULK_MANY;
    climate->active_ns += 2000 * WORLD_MS;
    climate->deadline_permille /= 4;
    climate->gap_permille /= 2;
    /* Durable names, groups and awaits need values whole. */
    climate->durable_permille /= 8;
    climate->speech_weights[SPEECH_AWAIT] /= 8;
    climate->speech_weights[SPEECH_SUBSCRIBE] *= 4;
    climate->group_count = 0;
    for (uint32_t i = SPEECH_JOIN; i < SPEECH_COUNT; i++)
        climate->speech_weights[i] = 0;
}

/* In a quarter of the seeds jobs and windows have room enough for parties to number their first
 * topics themselves.  In three of four of these, links are so long and so slow that windows follow
 * them, and large values fill them.  In one of 16 seeds they also carry so much that windows grow.
 * What is drawn about that leaves other seeds as they are. */
static void draw_roomy(struct swarm *swarm, struct world_options *options, uint64_t seed)
{
    uint64_t kind = seed % 16;
    struct climate *climate = &swarm->climate;
    struct dice dice;
    if (swarm->options.is_plain || swarm->options.has_no_rate ||
        (kind != 6 && kind != 8 && kind != 9 && kind != 13))
        return;
    dice_init(&dice, seed ^ UINT64_C(0x726f6f6d79));
    options->core.job_bytes_max = (uint64_t)dice_between(&dice, 8, 64) << 20;
    options->core.topic_window_bytes = (uint64_t)LIMIT_OWN_CREDIT_BYTES << dice_below(&dice, 8);
    bool is_fast = kind == 9;
    if (!is_fast && dice_hits(&dice, 250))
        return;
    options->link_rate = is_fast || dice_hits(&dice, 500) ? FAST_RATE : FAST_RATE / 10;
    for (int channel = 0; channel < CHANNEL_COUNT; channel++) {
        int64_t more_ns = dice_between(&dice, 2, is_fast ? 10 : 100) * WORLD_MS;
        options->delay_least_ns[channel] += more_ns;
        options->delay_most_ns[channel] += more_ns;
    }
    climate->large_permille = is_fast ? 250 : 100;
    if (is_fast)
        climate->large_bytes_max = VALUE_ROOM / 8;
    climate->active_ns += (is_fast ? 2000 : 1000) * WORLD_MS;
}

static struct swarm *swarm_new(uint64_t seed, const struct swarm_options *how)
{
    struct swarm *swarm = calloc(1, sizeof *swarm);
    must(swarm != NULL);
    struct world_options options;
    struct dice dice;
    dice_init(&dice, seed);
    world_options_init(&options);
    options.seed = dice_next(&dice);
    options.trace = how->trace;
    options.lines = how->lines;
    swarm->options = *how;
    climate_draw(&swarm->climate, &options, &dice);
    if (!how->is_plain) {
        dice_init(&dice, seed ^ UINT64_C(0x67726f757073));
        climate_draw_more(&swarm->climate, &options, &dice);
        if (how->has_no_rate)
            options.link_rate = 0;
    }
    draw_journal(swarm, &options, seed);
    if (seed % 8 == 5) /* so that several large values follow each other */
        swarm->climate.bulk_max = BULK_MANY;
    draw_passing(swarm, &options, seed);
    draw_roomy(swarm, &options, seed);
    ease(swarm, &options);
    if (!how->is_plain)
        swarm_begin_access(swarm, seed, &options.core);
    stage_begin(&swarm->stage, &options, job_names, swarm->climate.job_count);
    swarm->job_bytes_max = options.core.job_bytes_max;
    swarm->dice = world_dice(swarm->stage.world);
    swarm->bulk_left = swarm->climate.bulk_max;
    swarm_make_groups(swarm);
    swarm->stage.arg = swarm;
    swarm->stage.on_act = on_act;
    swarm->stage.on_news = on_news;
    swarm->stage.is_telling_events = world_is_telling(swarm->stage.world);
    plan_crashes(swarm, options.core.has_facts);
    return swarm;
}

/* One of eight seeds with a journal, or two if it has groups, is about a job that was created: it
 * has members, attempts, and an end.  What it draws is its own. */
static void create_job(struct swarm *swarm, uint64_t seed)
{
    struct dice dice;
    const struct climate *climate = &swarm->climate;
    struct dice timeout_dice; /* what it draws leaves the rest as it is */
    dice_init(&dice, seed ^ UINT64_C(0x6a6f62));
    dice_init(&timeout_dice, seed ^ UINT64_C(0x6a6f696e));
    uint64_t min = (uint64_t)dice_between(&dice, 1, climate->party_count);
    struct msg_job_create job = {
        .request = 1,
        .job = span_text(job_names[0]),
        .min = min,
        .max = dice_hits(&dice, 500)
                   ? 0
                   : (uint64_t)dice_between(&dice, (int64_t)min, climate->party_count),
        .join_window_ms = dice_between(&dice, 0, 400),
        .join_timeout_ms =
            dice_hits(&timeout_dice, 300) ? dice_between(&timeout_dice, 1, 2000) : -1,
        .settle_ms = dice_between(&dice, 0, 200),
        .max_restarts = dice_below(&dice, 5),
        .deadline_ms = dice_hits(&dice, 200) ? dice_between(&dice, 200, 4000) : -1,
        .disclosure = swarm->of_job};
    world_line(swarm->stage.world, "a job of %llu to %llu is created, with %llu restarts",
               (unsigned long long)job.min, (unsigned long long)job.max,
               (unsigned long long)job.max_restarts);
    world_ask(swarm->stage.world, 0,
              &(const struct msg){.type = MSG_JOB_CREATE, .as.job_create = job});
    if (dice_hits(&dice, 200))
        swarm_put_down(swarm, dice_between(&dice, 0, climate->active_ns), SWARM_CANCEL,
                       WORLD_NOBODY, 0);
}

/* In one of five seeds the programs of the first job are started again and again.  What is drawn
 * about it leaves the rest as it is. */
static void plan_nights(struct swarm *swarm, uint64_t seed)
{
    struct dice dice;
    dice_init(&dice, seed ^ UINT64_C(0x6e69676874));
    swarm_plan_nights(swarm, &dice);
}

/* In every other seed, errors have secrets in them, and a job that is created a level of its own.
 * What is drawn about them leaves the rest as it is. */
static void draw_secrets(struct swarm *swarm, uint64_t seed, bool is_created)
{
    struct dice *dice = &swarm->secret_dice;
    dice_init(dice, seed ^ UINT64_C(0x646973637265));
    swarm->stage.has_secrets = dice_hits(dice, 500);
    if (swarm->stage.has_secrets && is_created)
        swarm->of_job = (enum disclosure)dice_between(dice, DISCLOSURE_UNSAID, DISCLOSURE_NONE);
}

/* What is kept is told to whoever comes late and asks. */
static void look_back(struct swarm *swarm)
{
    struct world *world = swarm->stage.world;
    if (!swarm->stage.has_secrets)
        return;
    struct span job = span_text(job_names[0]);
    world_ask(world, 0,
              &(const struct msg){.type = MSG_STATUS, .as.status = {.request = 4, .job = job}});
    world_ask(
        world, 0,
        &(const struct msg){.type = MSG_VERDICT_ASK, .as.verdict_ask = {.request = 5, .job = job}});
    (void)world_tap(world, job_names[0]);
}

static void run_phases(struct swarm *swarm, uint64_t seed)
{
    struct world *world = swarm->stage.world;
    bool has_groups = swarm->climate.group_count > 0;
    bool is_created = seed % 16 == 14 || (seed % 16 == 6 && has_groups);
    bool has_nights = !is_created && seed % 5 == 4 && !swarm->options.is_plain;
    swarm_note_baseline(swarm);
    draw_secrets(swarm, seed, is_created);
    if (is_created)
        create_job(swarm, seed);
    if (has_nights)
        plan_nights(swarm, seed);
    swarm_plan_access(swarm);
    people(swarm);
    follow_script(swarm);
    world_run(world, swarm->climate.active_ns);
    if (world_violation(world) == NULL)
        quiet(swarm);
    if (world_violation(world) == NULL)
        ending(swarm);
    if (world_violation(world) == NULL)
        look_back(swarm);
    if (world_violation(world) == NULL)
        after(swarm);
    stage_end(&swarm->stage);
}

void swarm_run(uint64_t seed, const struct swarm_options *options, struct swarm_report *out_report)
{
    struct swarm *swarm = swarm_new(seed, options);
    struct world *world = swarm->stage.world;
    run_phases(swarm, seed);
    *out_report = swarm->report;
    for (uint32_t who = 0; who < swarm->stage.app_count; who++) {
        out_report->taken_count += swarm->stage.apps[who].taken_count;
        out_report->refused_count += swarm->stage.apps[who].refused_count;
        out_report->brought_count += swarm->stage.apps[who].brought_count;
    }
    out_report->run_count = swarm->stage.run_count;
    out_report->digest = world_digest(world);
    const char *violation = world_violation(world);
    (void)snprintf(out_report->violation, sizeof out_report->violation, "%s",
                   violation != NULL ? violation : ""); /* as long as its source */
    stage_free(&swarm->stage);
    swarm_end_access(swarm);
    free(swarm);
}
