/* SPDX-License-Identifier: MPL-2.0 */
/* swarm_night.c -- programs that are started again: at a night most parties of the first job end,
 * each in its own way, and come again as the climate says.  The night draws a name for the next
 * run, or none, and for each party whether it begins runs, follows them, or serves each of them.
 *
 * Nobody here says which run a party must be in: runs_test.c does.  The oracle knows each topic by
 * its run, so it notices a value of one run that somebody is given in another one. */
#include "tests/sim/swarm_internal.h"

enum { NIGHTS_MAX = 4 };

static const char *const run_names[] = {"monday", "tuesday", "wednesday"};

static uint8_t draw_rule(struct dice *dice)
{
    static const uint32_t weights[] = {
        [BUS_RUN_AS_FOUND] = 30, [BUS_RUN_CONTINUE] = 3, [BUS_RUN_FOLLOW] = 6, [BUS_RUN_NEXT] = 1};
    return (uint8_t)climate_pick(dice, weights, sizeof weights / sizeof weights[0]);
}

void swarm_plan_nights(struct swarm *swarm, struct dice *dice)
{
    for (int64_t i = dice_between(dice, 1, NIGHTS_MAX); i > 0; i--)
        swarm_put_down(swarm, dice_between(dice, 0, swarm->climate.active_ns), SWARM_NIGHT,
                       WORLD_NOBODY, 0);
}

/* is_hard: some are killed. */
static void end_day(struct swarm *swarm, struct app *app, bool is_hard)
{
    struct dice *dice = swarm->dice;
    if (is_hard && dice_hits(dice, 400)) {
        swarm_kill(swarm, app->host);
        return;
    }
    if (!app_is_up(app))
        return;
    if (dice_hits(dice, 300) && app_complete(app) == CODE_OK)
        swarm->is_completing[app->host] = true;
    app_leave(app);
    world_pump(app->world, app->host);
}

void swarm_night(struct swarm *swarm)
{
    struct dice *dice = swarm->dice;
    struct world *world = swarm->stage.world;
    const char *run = NULL;
    if (swarm->phase != SWARM_ACTIVE)
        return;
    bool is_hard = dice_hits(dice, 500);
    if (dice_hits(dice, 500))
        run = run_names[dice_below(dice, sizeof run_names / sizeof run_names[0])];
    world_line(world, "night falls; the next run is %s", run != NULL ? run : "without a name");
    for (uint32_t who = 0; who < swarm->stage.app_count; who++) {
        struct app *app = &swarm->stage.apps[who];
        if (app->job != 0)
            continue;
        world_choose_run(world, who, run, draw_rule(dice));
        if (app->is_running && !dice_hits(dice, 50)) /* or it works through the night */
            end_day(swarm, app, is_hard);
    }
}

void swarm_give_up_run(struct swarm *swarm, uint32_t who)
{
    struct session *session = world_session(swarm->stage.world, who);
    if (session == NULL || session_end(session, NULL) != CODE_EDENIED)
        return;
    swarm->report.held_count += 1;
    world_choose_run(swarm->stage.world, who, NULL, BUS_RUN_AS_FOUND);
}
