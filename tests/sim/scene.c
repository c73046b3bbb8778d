/* SPDX-License-Identifier: MPL-2.0 */
/* scene.c -- see scene.h. */
#include "tests/sim/scene.h"

#include "libbus/base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SCENE_TEXT = 65536 };

static const char *const jobs[STAGE_JOBS] = {"job", "other"};

static void read_all(struct scene *scene, uint32_t who)
{
    struct app *app = &scene->stage.apps[who];
    for (uint32_t sub = 0; sub < APP_SUBS; sub++) {
        if (app->subs[sub] == NULL)
            continue;
        while (app_take(app, sub)) {
        }
        while (app->subs[sub]->held_count > 0 && !scene->is_unacked[who])
            app_ack(app, sub, 0);
    }
}

static void on_news(void *arg, uint32_t who)
{
    struct scene *scene = arg;
    if (!scene->is_holding[who])
        read_all(scene, who);
}

void scene_options_init(struct scene_options *options)
{
    world_options_init(&options->world);
    options->world.seed = 1;
    options->world.is_recorded = true;
    options->lost_after_ms = 500;
    options->grace_ms = 200;
    options->broker_lost_ms = 2000;
    options->is_telling_events = false;
}

void scene_open(struct scene *scene, const struct scene_options *options)
{
    memset(scene, 0, sizeof *scene);
    scene->lost_after_ms = options->lost_after_ms;
    scene->grace_ms = options->grace_ms;
    scene->broker_lost_ms = options->broker_lost_ms;
    stage_begin(&scene->stage, &options->world, jobs, STAGE_JOBS);
    scene->stage.arg = scene;
    scene->stage.on_news = on_news;
    scene->stage.is_telling_events = options->is_telling_events;
}

const char *scene_close(struct scene *scene)
{
    static char violation[WORLD_TEXT];
    stage_end(&scene->stage);
    const char *broken = world_violation(scene->stage.world);
    if (broken != NULL)
        (void)snprintf(violation, sizeof violation, "%s", broken); /* as long as its source */
    stage_free(&scene->stage);
    return broken != NULL ? violation : NULL;
}

static int find(const struct scene *scene, const char *party, uint32_t job)
{
    for (uint32_t who = 0; who < scene->stage.app_count; who++)
        if (strcmp(scene->stage.apps[who].party, party) == 0 && scene->stage.apps[who].job == job)
            return (int)who;
    return -1;
}

struct app *scene_app(struct scene *scene, const char *party)
{
    int who = find(scene, party, 0);
    must(who >= 0);
    return &scene->stage.apps[who];
}

static void start(struct scene *scene, const char *party, const char *job)
{
    uint32_t index = strcmp(job, jobs[0]) == 0 ? 0 : 1;
    int who = find(scene, party, index);
    struct host_options options = {.job = jobs[index],
                                   .party = party,
                                   .heartbeat_ms = 100,
                                   .lost_after_ms = scene->lost_after_ms,
                                   .grace_ms = scene->grace_ms,
                                   .broker_lost_ms = scene->broker_lost_ms,
                                   .chunk_bytes_max = DEFAULT_CHUNK_BYTES};
    if (who < 0)
        who = (int)stage_add(&scene->stage, index, &options);
    if (world_session(scene->stage.world, (uint32_t)who) != NULL) /* over: nobody uses it */
        stage_kill(&scene->stage, (uint32_t)who, true, 0);
    app_start(&scene->stage.apps[who]);
}

void scene_join_job(struct scene *scene, const char *party, const char *job)
{
    start(scene, party, job);
    scene_run(scene, 20);
}

void scene_start(struct scene *scene, const char *party, int64_t for_ms)
{
    start(scene, party, jobs[0]);
    scene_run(scene, for_ms);
}

void scene_join(struct scene *scene, const char *party)
{
    scene_join_job(scene, party, jobs[0]);
}

void scene_run(struct scene *scene, int64_t for_ms)
{
    struct world *world = scene->stage.world;
    world_run(world, world_now_ns(world) + for_ms * WORLD_MS);
}

/* What a party said goes out. */
static void pump(struct scene *scene, const struct app *app)
{
    world_pump(scene->stage.world, app->host);
}

void scene_read(struct scene *scene, const char *party)
{
    struct app *app = scene_app(scene, party);
    bool is_unacked = scene->is_unacked[app->host];
    scene->is_unacked[app->host] = true;
    read_all(scene, app->host);
    scene->is_unacked[app->host] = is_unacked;
    pump(scene, app);
}

void scene_ack_all(struct scene *scene, const char *party)
{
    struct app *app = scene_app(scene, party);
    for (uint32_t sub = 0; sub < APP_SUBS; sub++)
        while (app->subs[sub] != NULL && app->subs[sub]->held_count > 0)
            app_ack(app, sub, 0);
    pump(scene, app);
}

/* The first write to a topic asks the broker for its numbers, which takes a round trip. */
static bool wait_for_topic(struct scene *scene, const struct app *app, enum wire_code code)
{
    if (code != CODE_ETIMEDOUT)
        return false;
    pump(scene, app);
    scene_run(scene, 4);
    return true;
}

enum wire_code scene_publish(struct scene *scene, const char *party, const char *topic,
                             const char *text)
{
    struct app *app = scene_app(scene, party);
    struct span value = span_text(text);
    enum wire_code code = app_publish(app, topic, &value, 1);
    if (wait_for_topic(scene, app, code))
        code = app_publish(app, topic, &value, 1);
    pump(scene, app);
    return code;
}

enum wire_code scene_reserve(struct scene *scene, const char *party, const char *topic,
                             int64_t deadline_ms)
{
    struct app *app = scene_app(scene, party);
    enum wire_code code = app_reserve(app, topic, -1, deadline_ms, 0);
    if (wait_for_topic(scene, app, code))
        code = app_reserve(app, topic, -1, deadline_ms, 0);
    pump(scene, app);
    return code;
}

enum wire_code scene_commit(struct scene *scene, const char *party, const char *topic, uint64_t seq,
                            const char *text)
{
    struct app *app = scene_app(scene, party);
    int slot = app_slot_find(app, topic, seq);
    must(slot >= 0);
    enum wire_code code = app_commit(app, (uint32_t)slot, span_text(text), false);
    pump(scene, app);
    return code;
}

void scene_fail(struct scene *scene, const char *party, const char *topic, uint64_t seq,
                const char *type, bool with_cause)
{
    struct app *app = scene_app(scene, party);
    int slot = app_slot_find(app, topic, seq);
    must(slot >= 0);
    app_fail(app, (uint32_t)slot, type, "as the scenario wants it", with_cause);
    pump(scene, app);
}

void scene_subscribe(struct scene *scene, const char *party, const char *pattern)
{
    struct app *app = scene_app(scene, party);
    struct app_sub_options options = {.keep_ms = 600000};
    must(app_subscribe(app, pattern, &options) >= 0);
    pump(scene, app);
}

void scene_await(struct scene *scene, const char *party, const char *topic, uint64_t seq)
{
    struct app *app = scene_app(scene, party);
    must(app_await(app, topic, seq, true) == CODE_OK);
    pump(scene, app);
}

void scene_flush(struct scene *scene, const char *party)
{
    struct app *app = scene_app(scene, party);
    app_flush(app);
    app_look(app);
    pump(scene, app);
}

void scene_kill(struct scene *scene, const char *party, int64_t notice_ms)
{
    stage_kill(&scene->stage, scene_app(scene, party)->host, true,
               notice_ms == WORLD_NEVER ? WORLD_NEVER : notice_ms * WORLD_MS);
}

void scene_freeze(struct scene *scene, const char *party, int64_t for_ms)
{
    world_freeze(scene->stage.world, scene_app(scene, party)->host, for_ms * WORLD_MS);
}

void scene_break(struct scene *scene, const char *party)
{
    world_break(scene->stage.world, scene_app(scene, party)->host, 3, 0, 0);
}

const char *scene_compare(struct scene *scene, const char *expected)
{
    static char text[2 * SCENE_TEXT], seen[SCENE_TEXT];
    char *const *lines;
    uint32_t count = world_lines(scene->stage.world, &lines);
    size_t at = 0;
    seen[0] = 0;
    for (; scene->line_at < count; scene->line_at++) {
        int more = snprintf(seen + at, sizeof seen - at, "%s\n", lines[scene->line_at]);
        must(more > 0 && at + (size_t)more < sizeof seen);
        at += (size_t)more;
    }
    if (strcmp(seen, expected) == 0)
        return NULL;
    (void)snprintf(text, sizeof text, "expected:\n%s\nseen:\n%s", expected, seen); /* may be cut */
    return text;
}
