/* SPDX-License-Identifier: MPL-2.0 */
/* memory_test.c -- one conversation of three parties with the real core and port, once for each
 * allocation of the broker that can fail.
 *
 * Whatever failed may be refused, but in words: no promise stays open when its writer is gone, the
 * oracle's rules hold, and the broker gives everything back. */
#include "tests/sim/scene.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { REQUEST_MS = 300, LINGER_MS = 2000 };

static struct scene scene;

/* Of whichever job: no two have one name. */
static struct app *app_of(const char *party)
{
    struct stage *stage = &scene.stage;
    for (uint32_t who = 0; who < stage->app_count; who++)
        if (strcmp(stage->apps[who].party, party) == 0)
            return &stage->apps[who];
    return NULL;
}

static bool is_up(const char *party)
{
    const struct app *app = app_of(party);
    return app != NULL && app_is_up(app);
}

static void subscribe(const char *party, const char *pattern, const char *durable)
{
    struct app_sub_options options = {.durable = durable, .keep_ms = 1000};
    if (!is_up(party))
        return;
    (void)app_subscribe(app_of(party), pattern, &options);
    scene_run(&scene, 5);
}

/* No value comes twice: the oracle knows them by their bytes. */
static const char *new_value(void)
{
    static char text[32];
    static unsigned count;
    (void)snprintf(text, sizeof text, "value number %u", ++count); /* it fits */
    return text;
}

static void publish(const char *party, const char *topic)
{
    if (is_up(party))
        (void)scene_publish(&scene, party, topic, new_value());
    scene_run(&scene, 5);
}

/* A promise, and then its value or its failure. */
static void promise(const char *party, const char *topic, bool is_kept)
{
    if (!is_up(party) || scene_reserve(&scene, party, topic, 400) != CODE_OK)
        return;
    scene_run(&scene, 5);
    struct app *app = app_of(party);
    if (!is_up(party) || app->slot_count == 0)
        return;
    uint32_t slot = app->slot_count - 1;
    if (is_kept)
        (void)app_commit(app, slot, span_text(new_value()), false);
    else
        app_fail(app, slot, "app.bad", "as it must", true);
    world_pump(scene.stage.world, app->host);
    scene_run(&scene, 5);
}

/* Of a writer that is there: for who never came, one waits with right. */
static void await_of(const char *writer, const char *topic)
{
    if (!is_up("carol") || !is_up(writer))
        return;
    (void)app_await(scene_app(&scene, "carol"), topic, 0, true);
    world_pump(scene.stage.world, scene_app(&scene, "carol")->host);
}

static void pump(const char *party)
{
    world_pump(scene.stage.world, app_of(party)->host);
    scene_run(&scene, 5);
}

/* In chunks. */
static void publish_large(const char *party, const char *topic)
{
    static char large[DEFAULT_CHUNK_BYTES + 100];
    static unsigned count;
    if (!is_up(party))
        return;
    memset(large, 'x', sizeof large);
    (void)snprintf(large, sizeof large, "large value %u", ++count); /* it fits */
    struct span value = span_of(large, sizeof large);
    (void)app_publish(app_of(party), topic, &value, 1);
    pump(party);
    scene_run(&scene, 20);
}

static void retract(const char *party, const char *topic, uint64_t seq)
{
    if (!is_up(party))
        return;
    (void)app_retract(app_of(party), topic, seq, "app.sorry");
    pump(party);
}

/* A slot that falls with another one. */
static void promise_needing(const char *party, const char *topic, const char *needed)
{
    struct app_need need = {.name = needed, .seq = 0};
    if (!is_up(party))
        return;
    (void)app_reserve_needing(app_of(party), topic, -1, &need, 1);
    pump(party);
}

static void ask(const char *party, const struct msg *question)
{
    struct msg row;
    if (!is_up(party))
        return;
    struct session *session = world_session(scene.stage.world, app_of(party)->host);
    session_ask(session, question);
    pump(party);
    for (int i = 0; i < 20 && session_answer_take(session, &row); i++)
        continue;
}

/* A job that was created, and fails: two members, a barrier, a loss, the verdict. */
static void play_created(void)
{
    ask("alice", &(const struct msg){.type = MSG_JOB_CREATE,
                                     .as.job_create = {.job = span_text("other"),
                                                       .min = 2,
                                                       .max = 2,
                                                       .join_window_ms = 50,
                                                       .join_timeout_ms = 60000,
                                                       .settle_ms = 50,
                                                       .deadline_ms = -1}});
    scene_join_job(&scene, "dave", "other");
    scene_join_job(&scene, "erin", "other");
    scene_run(&scene, 100);
    if (is_up("dave")) {
        struct span value = span_text(new_value());
        (void)app_publish(app_of("dave"), "dave/w", &value, 1);
        pump("dave");
    }
    if (is_up("erin"))
        app_fail_party(app_of("erin"), "app.over");
    scene_run(&scene, 300);
    ask("alice",
        &(const struct msg){.type = MSG_JOB_SHOW, .as.job_show = {.job = span_text("other")}});
    ask("alice", &(const struct msg){.type = MSG_STATUS, .as.status = {.job = SPAN_NONE}});
}

/* Tasks and requests: leases given up, put off, failed, answered and lost, and dead letters. */
static void join_group(const char *party)
{
    if (!is_up(party))
        return;
    (void)app_join(app_of(party), 0, 2, 0); /* if there is room */
    pump(party);
}

static void request(const char *party, const char *topic)
{
    if (!is_up(party))
        return;
    (void)app_request(app_of(party), topic, span_text(new_value()), REQUEST_MS);
    pump(party);
}

static void work(const char *party, unsigned round)
{
    struct app *app = app_of(party);
    while (is_up(party) && app->task_count > 0) {
        bool is_request = app->tasks[0].terms.is_request;
        if (round == 0)
            app_task_end(app, 0, SESSION_TASK_REJECTED, app->tasks[0].terms.seq % 2 == 0 ? 10 : -1);
        else if (round == 1)
            app_task_end(app, 0, SESSION_TASK_FAILED, -1);
        else if (!is_request || app_task_reply(app, 0, span_text(new_value())) == CODE_ETIMEDOUT)
            app_task_end(app, 0, SESSION_TASK_DONE, 0);
        round += 1;
    }
    pump(party);
}

static void play_group(void)
{
    join_group("bob");
    join_group("carol");
    publish("alice", "alice/t");
    for (int i = 0; i < 4; i++)
        request("alice", "alice/t");
    for (unsigned round = 0; round < 3; round++) {
        work("bob", round);
        work("carol", round + 1);
        scene_run(&scene, 20);
    }
    crew_group_at(scene.stage.crew, 0)->replays += 1;
    for (unsigned how = 0; how < 4; how++) /* listed, shown, given again, dropped */
        ask("alice", &(const struct msg){.type = MSG_DEAD,
                                         .as.dead = {.request = 1,
                                                     .job = span_text("job"),
                                                     .group = span_text("crew"),
                                                     .how = how,
                                                     .number = how == 2 ? UINT64_MAX : 0}});
    scene_run(&scene, REQUEST_MS);
    work("bob", 2);
    work("carol", 2);
    request("alice", "alice/t"); /* whoever has it then is killed, or never answers */
    scene_run(&scene, 20);
}

/* Whoever asked knows the outcome, or was refused it. */
static void check_requests(const struct app *app, uint64_t fail_at)
{
    const struct app_request *open;
    for (uint32_t at = 0; (open = app_request_open(app, &at)) != NULL;)
        cr_assert(!open->is_awaited || app->refused_count > 0,
                  "allocation %llu: request %llu has no outcome", (unsigned long long)fail_at,
                  (unsigned long long)open->seq);
}

static void play(uint64_t fail_at)
{
    static const char *const names[] = {"alice", "bob", "carol"};
    for (int i = 0; i < 3; i++)
        scene_join(&scene, names[i]);
    subscribe("bob", "alice/#", NULL);
    subscribe("carol", "+/w", "durable");
    await_of("alice", "alice/late");
    for (int i = 0; i < 4; i++)
        publish("alice", "alice/w");
    publish_large("alice", "alice/w");
    retract("alice", "alice/w", 1);
    promise_needing("bob", "bob/n", "alice/late");
    promise("alice", "alice/w", true);
    promise("bob", "bob/w", false);
    promise("alice", "alice/late", true);
    play_group();
    if (is_up("bob"))
        scene_break(&scene, "bob");
    scene_run(&scene, 100);
    publish("bob", "bob/w");
    if (is_up("bob"))
        (void)scene_reserve(&scene, "bob", "bob/owed", -1);
    await_of("bob", "bob/owed");
    scene_run(&scene, 20);
    scene_kill(&scene, "bob", 10);
    scene_run(&scene, 400);
    play_created();
    scene_run(&scene, REQUEST_MS);
    if (is_up("alice"))
        check_requests(app_of("alice"), fail_at);
    if (is_up("alice"))
        app_fail_party(scene_app(&scene, "alice"), "app.over");
    scene_run(&scene, 300);
}

/* How many allocations it took. */
static uint64_t run_with(uint64_t fail_at, bool has_facts)
{
    static const struct crew_group group = {
        .name = "crew", .pattern = "alice/t", .deliver_max = 2, .keep_ms = 1000};
    struct scene_options options;
    scene_options_init(&options);
    options.world.fail_at = fail_at;
    options.world.core.has_facts = has_facts;
    options.world.core.linger_ms = LINGER_MS;
    scene_open(&scene, &options);
    (void)crew_group_add(scene.stage.crew, &group);
    if (fail_at > 0)
        oracle_doubt(scene.stage.oracle);
    play(fail_at);
    const struct world *world = scene.stage.world;
    cr_assert_null(world_violation(world), "allocation %llu: %s", (unsigned long long)fail_at,
                   world_violation(world));
    struct app *carol = scene_app(&scene, "carol");
    if (is_up("carol"))
        cr_assert_eq(carol->want_count, 0, "allocation %llu: an await has no answer",
                     (unsigned long long)fail_at);
    for (uint32_t who = 0; who < scene.stage.app_count; who++)
        if (world_session(scene.stage.world, who) != NULL)
            stage_kill(&scene.stage, who, true, 0);
    world_untap(scene.stage.world);
    scene_run(&scene, 5000);
    const struct core_port *port = world_gate(scene.stage.world);
    cr_assert_null(world_violation(world), "allocation %llu: %s", (unsigned long long)fail_at,
                   world_violation(world));
    cr_assert_eq(core_session_count(core_port_core(port)), 0, "allocation %llu",
                 (unsigned long long)fail_at);
    cr_assert_eq(core_port_payload_count(port), 0, "allocation %llu: payloads are left of no job",
                 (unsigned long long)fail_at);
    uint64_t allocations = world_broker_allocations(world);
    const char *broken = scene_close(&scene);
    cr_assert_null(broken, "allocation %llu: %s", (unsigned long long)fail_at, broken);
    return allocations;
}

static void run_with_each(bool has_facts)
{
    uint64_t allocations = run_with(0, has_facts);
    cr_assert_gt(allocations, 100);
    for (uint64_t at = 1; at <= allocations + 5; at++)
        (void)run_with(at, has_facts);
}

Test(memory, is_missing_at_one_place_and_every_promise_ends)
{
    run_with_each(false);
}

/* Whatever could not be done for want of memory: the facts say no more than was done. */
Test(memory, is_missing_at_one_place_and_the_facts_are_right)
{
    run_with_each(true);
}
