/* SPDX-License-Identifier: MPL-2.0 */
/* swarm_check.c -- what must hold when a run has come to rest; see swarm.h.
 *
 * What is checked while it runs stands where it is seen: app.c, app_read.c, oracle.c, world.c. */
#include "libbus/base/pattern.h"
#include "tests/lib/core_census.h"
#include "tests/lib/core_dump.h"
#include "tests/sim/swarm_internal.h"
#include "tests/sim/trace.h"

#include <inttypes.h>
#include <string.h>

/* Tables that grew stay as large as they are; a job's own memory must be back.  The largest are
 * those of a step's effects: 4096 sends, each of them two effects at most, and facts beside them,
 * take about 1.5 MiB.  What a job leaves behind each time is found by the visits (swarm.c). */
#define MEMORY_SLACK_BYTES (UINT64_C(3) * 1024 * 1024)
/* Beside what is accounted for: parts of which only some frames are kept. */
#define PAYLOAD_SLACK_BYTES (UINT64_C(2) * 1024 * 1024)
/* A deadline so near that the broker may count it either way. */
#define DEADLINE_SLACK_NS (300 * WORLD_MS)

void swarm_note_baseline(struct swarm *swarm)
{
    struct stage *stage = &swarm->stage;
    swarm->baseline_bytes = world_broker_bytes(stage->world);
    stage->payload_bytes_max =
        swarm->climate.job_count * swarm->job_bytes_max + PAYLOAD_SLACK_BYTES;
    stage->tables_bytes_max = swarm->baseline_bytes + MEMORY_SLACK_BYTES;
}

/* The app that writes this topic, up; NULL: none is. */
static struct app *writer_of(struct swarm *swarm, const struct oracle_topic *topic)
{
    struct span party = topic_party(span_text(topic->name));
    for (uint32_t who = 0; who < swarm->stage.app_count; who++) {
        struct app *app = &swarm->stage.apps[who];
        if (app_is_up(app) && app_space(app) == topic->job &&
            span_equal(span_text(app->party), party) && app_is_up(app))
            return app;
    }
    return NULL;
}

/* Below this number every slot of the topic is settled, as far as anybody can know. */
static uint64_t settled_to(struct swarm *swarm, uint32_t index)
{
    struct oracle_topic *topic = oracle_topic_at(swarm->stage.oracle, index);
    struct app *app = writer_of(swarm, topic);
    uint64_t seq = topic->next_seq;
    if (app == NULL)
        return seq;
    for (uint32_t i = 0; i < app->slot_count; i++) {
        const struct app_slot *slot = &app->slots[i];
        bool is_over = slot->ends_ns < world_now_ns(app->world) - DEADLINE_SLACK_NS;
        if (app->topics[slot->topic].topic == index && slot->seq < seq && !is_over)
            seq = slot->seq;
    }
    const struct app_request *request;
    for (uint32_t at = 0; (request = app_request_open(app, &at)) != NULL;)
        if (request->reply_topic == index && request->reply_seq < seq)
            seq = request->reply_seq;
    return seq;
}

/* A party that took part in earlier attempts alone is waited for, as one that never joined. */
static bool has_joined(struct swarm *swarm, const struct oracle_topic *topic)
{
    struct span party = topic_party(span_text(topic->name));
    uint32_t attempt = topic->job / ORACLE_ATTEMPT + 1;
    for (uint32_t i = 1; i < ORACLE_RECORDS; i++) {
        const struct oracle_record *record =
            oracle_record_find(swarm->stage.oracle, topic->job % ORACLE_ATTEMPT, party, i);
        if (record != NULL && record->attempt == attempt)
            return true;
    }
    return false;
}

/* Promise 2, for waits. */
static void check_wants(struct swarm *swarm, const struct app *app)
{
    for (uint32_t i = 0; i < app->want_count; i++) {
        const struct app_want *want = &app->wants[i];
        const struct oracle_topic *topic = oracle_topic_at(app->oracle, want->topic);
        if (want->seq < settled_to(swarm, want->topic))
            world_violate(app->world, "%s still awaits %s %" PRIu64 ", which is settled",
                          app->party, topic->name, want->seq);
        if (writer_of(swarm, topic) == NULL && has_joined(swarm, topic))
            world_violate(app->world, "%s still awaits %s %" PRIu64 ", whose writer is gone",
                          app->party, topic->name, want->seq);
    }
}

static bool has_ever_joined(struct swarm *swarm, uint32_t job, struct span party)
{
    for (uint32_t i = 1; i < ORACLE_RECORDS; i++)
        if (oracle_record_find(swarm->stage.oracle, job % ORACLE_ATTEMPT, party, i) != NULL)
            return true;
    return false;
}

/* Whoever waits for a party that never joined was told so; whoever was told waited for such a
 * party.  That is looked at where nothing can delay or lose a word: since the faults stopped. */
static void check_notices(struct swarm *swarm, const struct app *app)
{
    struct stage *stage = &swarm->stage;
    int64_t told_ns = (LIMIT_NOTICE_MS + 200) * WORLD_MS;
    for (uint32_t i = 0; i < app->want_count; i++) {
        const struct app_want *want = &app->wants[i];
        const struct oracle_topic *topic = oracle_topic_at(app->oracle, want->topic);
        struct span party = topic_party(span_text(topic->name));
        if (want->said_ns >= swarm->in_vain_ns &&
            want->said_ns + told_ns < world_now_ns(app->world) &&
            !has_ever_joined(swarm, topic->job, party) && app_told_of(app, party) == NULL)
            world_violate(app->world, "%s awaits %s and was not told that nobody writes it",
                          app->party, topic->name);
    }
    for (uint32_t who = 0; who < stage->app_count; who++) {
        const struct app *other = &stage->apps[who];
        const struct app_told *told = app_told_of(app, span_text(other->party));
        if (told != NULL && other->job == app->job && app_is_up(other) &&
            told->at_ns >= swarm->in_vain_ns && other->up_ns < told->at_ns - told_ns)
            world_violate(app->world, "%s was told that %s never joined, and it is there",
                          app->party, other->party);
    }
}

/* Whether a subscription that was sent nothing of a topic must have been: something was accepted
 * that was said after it was in force, and nothing open stands before it.  (A durable name that is
 * acknowledged to the end has nothing to bring.  What is read from the oldest slot on begins where
 * that is when the reader may read it.) */
static bool is_expecting(struct swarm *swarm, const struct app *app, const struct app_sub *sub,
                         uint32_t index, uint64_t end_seq)
{
    const struct oracle_topic *topic = oracle_topic_at(swarm->stage.oracle, index);
    const struct app *writer = writer_of(swarm, topic);
    uint64_t first_seq = sub->from_seq > 0 ? (uint64_t)sub->from_seq : 0;
    if (sub->durable >= 0 || sub->from_seq == FROM_NOW || first_seq >= end_seq)
        return false;
    if (writer == NULL)
        return sub->joined_ns < topic->accepted_said_ns;
    for (uint32_t i = 0; i < writer->write_count; i++) {
        const struct app_write *write = &writer->writes[i];
        if (write->topic == index && write->is_accepted && write->said_ns > sub->joined_ns &&
            write->seq < end_seq && write->seq >= first_seq &&
            (sub->from_seq != FROM_OLDEST || app_could_read(app, sub, write->said_ns)))
            return true;
    }
    return false;
}

/* Promises 3 and 4, for one subscription and topic. */
static void check_route(struct swarm *swarm, const struct app *app, const struct app_sub *sub,
                        uint32_t index)
{
    const struct oracle_topic *topic = oracle_topic_at(app->oracle, index);
    if (topic->job != app_space(app) || !app_sub_matches(sub, span_text(topic->name)))
        return;
    const struct app_position *position = app_position(sub, index);
    uint64_t end_seq = settled_to(swarm, index);
    bool is_started = position != NULL && position->is_started;
    if (is_started && position->next_seq < end_seq)
        world_violate(app->world, "%s waits at %s %" PRIu64 ", and %" PRIu64 " are settled",
                      app->party, topic->name, position->next_seq, end_seq);
    if (!is_started && is_expecting(swarm, app, sub, index, end_seq))
        world_violate(app->world, "%s was sent nothing of %s", app->party, topic->name);
}

static void check_subs(struct swarm *swarm, const struct app *app)
{
    for (uint32_t i = 0; i < APP_SUBS; i++) {
        const struct app_sub *sub = app->subs[i];
        if (sub == NULL || sub->is_denied)
            continue;
        if (sub->joined_ns == INT64_MAX)
            world_violate(app->world, "%s subscribed to %s and was not answered", app->party,
                          sub->patterns[0]);
        if (sub->group >= 0)
            continue; /* what it is given, is given to one of many */
        for (uint32_t topic = 0; topic < oracle_topic_count(app->oracle); topic++)
            check_route(swarm, app, sub, topic);
    }
}

/* Promise 2, for requests: nobody waits for one but behind a slot that its own party owes. */
static void check_requests(struct swarm *swarm, const struct app *app)
{
    const struct app_request *request;
    for (uint32_t at = 0; (request = app_request_open(app, &at)) != NULL;)
        if (request->is_awaited && app_is_up(app) &&
            request->seq < settled_to(swarm, request->topic))
            world_violate(app->world, "%s still waits for the reply to %s %" PRIu64 ", as %" PRIu64,
                          app->party, oracle_topic_at(app->oracle, request->topic)->name,
                          request->seq, request->reply_seq);
}

/* What is still owed needs nothing that failed. */
static void check_needs(struct swarm *swarm, const struct app *app)
{
    struct session *session = world_session(swarm->stage.world, app->host);
    for (uint32_t i = 0; i < app->slot_count; i++) {
        const struct app_topic *topic = &app->topics[app->slots[i].topic];
        uint64_t seq = app->slots[i].seq;
        const char *failed = oracle_failed_need(app->oracle, app->record, topic->topic, seq);
        bool is_over = app->slots[i].ends_ns < world_now_ns(app->world) + DEADLINE_SLACK_NS ||
                       oracle_known(app->oracle, topic->topic, seq).kind != OUTCOME_NONE;
        if (failed != NULL && !is_over && !session_is_settled(session, topic->number, seq))
            world_violate(app->world, "%s still owes %s %" PRIu64 ", which needs %s, which failed",
                          app->party, oracle_topic_at(app->oracle, topic->topic)->name, seq,
                          failed);
    }
}

void swarm_check_calm(struct swarm *swarm)
{
    struct stage *stage = &swarm->stage;
    for (uint32_t who = 0; who < stage->app_count; who++) {
        struct app *app = &stage->apps[who];
        struct session *session = world_session(stage->world, who);
        if (!app->is_running)
            continue;
        if (session_state(session) != SESSION_UP)
            world_violate(stage->world, "%s is in state %d with nothing in its way", app->party,
                          (int)session_state(session));
        if (app->mark_count > 0)
            world_violate(stage->world, "%s waits for a flush said at %" PRId64 " ms", app->party,
                          app->marks[0].said_ns / WORLD_MS);
        if (app->result_count > 0)
            world_violate(stage->world, "%s waits for the result of %s %" PRIu64, app->party,
                          app->results[0].is_complete
                              ? "completing"
                              : oracle_topic_at(app->oracle, app->results[0].topic)->name,
                          app->results[0].seq);
        if (app->is_leaving)
            world_violate(stage->world, "%s left and is still here", app->party);
        check_wants(swarm, app);
        check_subs(swarm, app);
        check_requests(swarm, app);
        check_notices(swarm, app);
        if (app_is_up(app))
            check_needs(swarm, app);
    }
    if (swarm->stage.crew != NULL && !world_is_broker_down(stage->world)) {
        char text[CORE_DUMP_TEXT];
        uint64_t undone = core_dump_undone(core_port_core(world_gate(stage->world)), text);
        if (undone > 0)
            world_violate(stage->world, "%" PRIu64 " tasks are not done: %s", undone, text);
    }
    if (swarm->probe_count > 0)
        world_violate(stage->world,
                      "%" PRIu32 " topics cannot be published to, %s among them, and all is read",
                      swarm->probe_count, swarm->probe_name);
}

static bool is_named(const struct app_sub *sub, const char *party)
{
    struct span named;
    for (uint32_t i = 0; i < sub->pattern_count; i++)
        if (pattern_names_party(span_text(sub->patterns[i]), &named) &&
            span_equal(named, span_text(party)))
            return true;
    return false;
}

static bool was_told(const struct app *app, const struct app_sub *sub, const char *party,
                     uint32_t incarnation)
{
    for (uint32_t i = 0; i < sub->end_count; i++)
        if (sub->ends[i].incarnation == incarnation &&
            strcmp(oracle_record_at(app->oracle, sub->ends[i].party)->party, party) == 0)
            return true;
    return false;
}

void swarm_check_ended(struct swarm *swarm, uint32_t who)
{
    struct stage *stage = &swarm->stage;
    const struct app *gone = &stage->apps[who];
    const struct oracle_record *record = oracle_record_at(stage->oracle, gone->record);
    if (gone->is_running && session_state(world_session(stage->world, who)) != SESSION_OVER)
        world_violate(stage->world, "%s said that it ends, and goes on", gone->party);
    if (record->ended_ns == INT64_MAX && !oracle_is_doubting(stage->oracle))
        world_violate(stage->world, "nobody was told that %s ended", gone->party);
    for (uint32_t i = 0; i < stage->app_count; i++) {
        struct app *app = &stage->apps[i];
        if (!app_is_up(app))
            continue;
        check_wants(swarm, app);
        check_subs(swarm, app);
        if (app->job != gone->job)
            continue;
        for (uint32_t j = 0; j < APP_SUBS; j++)
            if (app->subs[j] != NULL && !app->subs[j]->is_denied && app->subs[j]->group < 0 &&
                is_named(app->subs[j], gone->party) && app->subs[j]->joined_ns < record->ended_ns &&
                !was_told(app, app->subs[j], gone->party, record->incarnation))
                world_violate(stage->world, "%s was not told of the end of %s %" PRIu32 " on %s",
                              app->party, gone->party, record->incarnation,
                              app->subs[j]->patterns[0]);
    }
}

void swarm_check_after(struct swarm *swarm)
{
    struct world *world = swarm->stage.world;
    const char *replaced = oracle_check_replaced(swarm->stage.oracle);
    if (replaced != NULL && !oracle_is_doubting(swarm->stage.oracle))
        world_violate(world, "%s", replaced);
    const struct core_port *port = world_gate(world);
    const char *left = core_census_left(core_port_core(port));
    if (left != NULL)
        world_violate(world, "the core still has %s", left);
    if (core_port_payload_count(port) != 0 || core_port_payload_bytes(port) != 0)
        world_violate(world, "%" PRIu32 " payloads of %" PRIu64 " bytes are left",
                      core_port_payload_count(port), core_port_payload_bytes(port));
    uint64_t told_bytes = core_dump_told_bytes(core_port_core(port));
    if (world_broker_bytes(world) > swarm->baseline_bytes + MEMORY_SLACK_BYTES + told_bytes)
        world_violate(world, "the broker has %" PRIu64 " bytes, and had %" PRIu64,
                      world_broker_bytes(world), swarm->baseline_bytes);
}
