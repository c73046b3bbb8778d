/* SPDX-License-Identifier: MPL-2.0 */
/* swarm_work.c -- what is drawn about groups, tasks, requests and dead letters; see swarm.h. */
#include "libbus/base/must.h"
#include "tests/sim/climate.h"
#include "tests/sim/coverage.h"
#include "tests/sim/swarm_internal.h"

#include <inttypes.h>
#include <string.h>

enum { REPLY_BYTES_MIN = 8, WRITES_KEPT_FREE = 64, LETTERS_SHOWN = 4 };

static const char *const group_names[CLIMATE_GROUPS] = {"crew", "team", "gang"};
static const char *const group_patterns[CLIMATE_GROUPS] = {"+/x", "a/#", "#"};

void swarm_make_groups(struct swarm *swarm)
{
    const struct climate *climate = &swarm->climate;
    for (uint32_t job = 0; job < climate->job_count; job++)
        for (uint32_t i = 0; i < climate->group_count; i++)
            (void)crew_group_add(swarm->stage.crew,
                                 &(struct crew_group){.job = job,
                                                      .name = group_names[i],
                                                      .pattern = group_patterns[i],
                                                      .deliver_max = climate->deliver_max[i],
                                                      .from_seq = climate->group_from[i],
                                                      .keep_ms = climate->keep_most_ms});
}

static void say_join(struct swarm *swarm, struct app *app)
{
    struct dice *dice = swarm->dice;
    const struct climate *climate = &swarm->climate;
    uint32_t group =
        app->job * climate->group_count + (uint32_t)dice_below(dice, climate->group_count);
    uint32_t credit = (uint32_t)dice_between(dice, 1, climate->credit_most);
    uint64_t lease_ms = dice_hits(dice, climate->lapse_permille)
                            ? (uint64_t)dice_between(dice, 1, 2 * climate->lost_after_ms)
                            : 0;
    for (uint32_t i = 0; i < APP_SUBS; i++)
        if (app->subs[i] != NULL && app->subs[i]->group == (int)group)
            return;                               /* once is enough */
    (void)app_join(app, group, credit, lease_ms); /* if there is room */
}

static void take_tasks(struct app *app)
{
    for (uint32_t sub = 0; sub < APP_SUBS; sub++)
        while (app->subs[sub] != NULL && app->subs[sub]->group >= 0 && app_take(app, sub)) {
        }
}

/* false: not now. */
static bool reply(struct swarm *swarm, struct app *app, uint32_t task)
{
    size_t bytes = swarm_draw_bytes(swarm);
    if (bytes < REPLY_BYTES_MIN)
        bytes = REPLY_BYTES_MIN;
    if (app->write_count + WRITES_KEPT_FREE > APP_WRITES)
        return false;
    if (swarm->bulk_left > 0 && dice_hits(swarm->dice, 100)) {
        swarm->bulk_left -= 1;
        bytes = (size_t)dice_between(swarm->dice, DEFAULT_CHUNK_BYTES - 1, 800000);
    }
    enum wire_code code = app_task_reply(app, task, swarm_value(swarm, 0, bytes));
    if (code == CODE_OK && swarm->options.plant == SWARM_PLANT_REPLY)
        world_violate(swarm->stage.world, "planted: %s answers a request", app->party);
    if (code == CODE_OK)
        return true;
    if (code == CODE_ETIMEDOUT)
        return false;
    return true; /* it is not there any more */
}

static bool finish(struct swarm *swarm, struct app *app, uint32_t task)
{
    const struct climate *climate = &swarm->climate;
    struct dice *dice = swarm->dice;
    enum fate fate = (enum fate)climate_pick(dice, climate->fate_weights, FATE_COUNT);
    int64_t retry_ms = dice_between(dice, 0, climate->retry_most_ms);
    switch (fate) {
    case FATE_BACK: app_task_end(app, task, SESSION_TASK_RETURNED, 0); return true;
    case FATE_LATER: app_task_end(app, task, SESSION_TASK_REJECTED, retry_ms); return true;
    case FATE_NEVER: app_task_end(app, task, SESSION_TASK_REJECTED, -1); return true;
    case FATE_FAILED: app_task_end(app, task, SESSION_TASK_FAILED, -1); return true;
    case FATE_REPLY:
        if (app->tasks[task].terms.is_request)
            return reply(swarm, app, task);
        break;
    case FATE_DONE:
    case FATE_COUNT: break;
    }
    app_task_end(app, task, SESSION_TASK_DONE, 0);
    return true;
}

void swarm_work_all(struct swarm *swarm, struct app *app)
{
    take_tasks(app);
    while (app->task_count > 0 &&
           session_state(world_session(app->world, app->host)) != SESSION_OVER &&
           finish(swarm, app, app->task_count - 1))
        take_tasks(app);
}

static void say_request(struct swarm *swarm, struct app *app)
{
    struct dice *dice = swarm->dice;
    const struct climate *climate = &swarm->climate;
    int64_t deadline_ms = dice_hits(dice, climate->deadline_asked_permille)
                              ? dice_between(dice, 1, climate->deadline_most_ms)
                              : -1;
    size_t bytes = swarm_draw_bytes(swarm);
    if (swarm->bulk_left > 0 && dice_hits(dice, 50)) {
        swarm->bulk_left -= 1;
        bytes = (size_t)dice_between(dice, DEFAULT_CHUNK_BYTES - 1, 800000);
    }
    if (app_request(app, swarm_own_topic(swarm, app), swarm_value(swarm, 0, bytes), deadline_ms) ==
        CODE_OK)
        swarm->report.request_count += 1;
}

void swarm_show_letters(struct swarm *swarm, uint32_t job)
{
    const struct climate *climate = &swarm->climate;
    for (uint32_t i = 0; i < climate->group_count; i++) {
        uint32_t group = job * climate->group_count + i;
        stage_ask_letters(&swarm->stage, group, LETTERS_LIST, 0);
        for (uint64_t number = 0; number < LETTERS_SHOWN; number++)
            stage_ask_letters(&swarm->stage, group, LETTERS_SHOW, number);
    }
}

void swarm_treat_letters(struct swarm *swarm, uint32_t job, bool is_drop)
{
    const struct climate *climate = &swarm->climate;
    struct world *world = swarm->stage.world;
    for (uint32_t i = 0; i < climate->group_count && !world_is_broker_down(world); i++) {
        uint32_t group = job * climate->group_count + i;
        crew_group_at(swarm->stage.crew, group)->replays += !is_drop;
        stage_ask_letters(&swarm->stage, group, is_drop ? LETTERS_DROP : LETTERS_REPLAY,
                          LETTERS_ALL);
    }
}

void swarm_speak_of_work(struct swarm *swarm, struct app *app, enum speech speech)
{
    switch (speech) {
    case SPEECH_JOIN: say_join(swarm, app); break;
    case SPEECH_WORK:
        take_tasks(app);
        if (app->task_count > 0)
            (void)finish(swarm, app, (uint32_t)dice_below(swarm->dice, app->task_count));
        break;
    case SPEECH_REQUEST: say_request(swarm, app); break;
    case SPEECH_CANCEL:
        if (app->request_count > 0)
            (void)app_request_cancel(
                app, (uint32_t)dice_below(swarm->dice, app->request_count)); /* now or never */
        break;
    default: /* SPEECH_LETTERS */
        swarm_treat_letters(swarm, app->job, dice_hits(swarm->dice, 300));
        break;
    }
}
