/* SPDX-License-Identifier: MPL-2.0 */
/* stage.c -- hooks of the world, spread to the applications; see stage.h. */
#include "tests/sim/stage.h"

#include "libbus/base/must.h"
#include "libbus/wire/error.h"
#include "tests/lib/core_dump.h"
#include "tests/sim/trace.h"
#include "tests/sim/words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_EVERY_STEPS = 64 }; /* all entries are walked then */

static void on_news(void *arg, uint32_t host, const struct session_news *news)
{
    struct stage *stage = arg;
    (void)news; /* looking for all costs little */
    app_look(&stage->apps[host]);
    if (stage->on_news != NULL)
        stage->on_news(stage->arg, host);
}

static void on_act(void *arg, uint32_t what, uint32_t who, uint64_t value)
{
    struct stage *stage = arg;
    stage->on_act(stage->arg, what, who, value);
}

static void tell_event(struct stage *stage, const struct msg_event *event)
{
    char text[200] = "";
    if (event->error.bytes > 0)
        trace_error(text, sizeof text, event->error);
    world_line(stage->world, "tap: %.*s %.*s %" PRIu64 " %.*s %" PRIu64 " count %" PRIu64 "%s%s",
               (int)event->name.bytes, (const char *)event->name.data, (int)event->party.bytes,
               (const char *)event->party.data, event->incarnation, (int)event->topic.bytes,
               (const char *)event->topic.data, event->seq, event->count, text[0] != 0 ? ", " : "",
               text);
}

/* Promise 8: what must not be seen is not there. */
static void on_bytes(void *arg, bool is_from_broker, struct span bytes)
{
    struct stage *stage = arg;
    const char *wrong = NULL;
    if (stage->has_secrets)
        wrong = secret_leak(bytes, is_from_broker ? SECRET_FROM_BROKER : SECRET_FROM_PARTY);
    if (wrong != NULL)
        world_violate(stage->world, "%s", wrong);
}

/* Which group, its error says alone. */
static bool is_of_group(const struct error_record *record, const char *group)
{
    char words[64];
    (void)snprintf(words, sizeof words, " to workers of %s ", group); /* fits: names are short */
    size_t bytes = strlen(words);
    const char *text = record->message.data;
    for (size_t at = 0; at + bytes <= record->message.bytes; at++)
        if (memcmp(text + at, words, bytes) == 0)
            return true;
    return false;
}

static void task_died(struct stage *stage, uint32_t job, const struct msg_event *event)
{
    static struct error_record records[LIMIT_ERROR_RECORDS];
    uint32_t count = 0;
    if (error_decode(event->error, records, LIMIT_ERROR_RECORDS, &count) != WIRE_OK || count == 0) {
        world_violate(stage->world, "a task is a dead letter for no reason");
        return;
    }
    uint32_t space = oracle_space(job, (uint32_t)records[0].attempt);
    uint32_t topic = oracle_topic(stage->oracle, space, event->topic);
    for (uint32_t group = 0; group < crew_group_count(stage->crew); group++) {
        const struct crew_group *meant = crew_group_at(stage->crew, group);
        if (meant->job != job || !is_of_group(&records[0], meant->name))
            continue;
        const char *wrong = crew_died(stage->crew, group, topic, event->seq, event->count,
                                      outcome_of_error(records[0].id));
        if (wrong != NULL)
            world_violate(stage->world, "%s", wrong);
    }
}

void stage_ask_letters(struct stage *stage, uint32_t group, enum letters_how how, uint64_t number)
{
    const struct crew_group *meant = crew_group_at(stage->crew, group);
    world_ask(stage->world, meant->job,
              &(const struct msg){.type = MSG_DEAD,
                                  .as.dead = {.request = 1 + group,
                                              .job = span_text(stage->jobs[meant->job]),
                                              .group = span_text(meant->name),
                                              .how = how,
                                              .number = number}});
}

static void on_letter(void *arg, uint32_t job, const struct msg_dead_row *row)
{
    struct stage *stage = arg;
    uint32_t group = (uint32_t)row->request - 1;
    uint32_t space = oracle_space(job, (uint32_t)row->attempt);
    uint32_t topic = oracle_topic(stage->oracle, space, row->topic);
    const char *wrong = crew_shown(stage->crew, group, topic, row->seq, row->number);
    if (wrong != NULL)
        world_violate(stage->world, "%s", wrong);
}

static void on_task_over(void *arg, uint32_t host, const struct msg_task_over *over)
{
    struct stage *stage = arg;
    app_task_over(&stage->apps[host], over);
}

static bool is_replacement(struct span error)
{
    struct error_record record;
    uint32_t count;
    return error_decode(error, &record, 1, &count) == WIRE_OK &&
           span_equal(record.type, span_text(ERROR_TYPE_REPLACED));
}

static void on_event(void *arg, uint32_t job, const struct msg_event *event)
{
    struct stage *stage = arg;
    const char *lost =
        stage->has_secrets && event->error.bytes > 0 ? words_judge(event->error) : NULL;
    if (lost != NULL)
        world_violate(stage->world, "on the control topic, %s", lost);
    if (job >= stage->job_count)
        return; /* somebody who looks back */
    bool is_lost = span_equal(event->name, span_text(EVENT_PARTY_LOST));
    if (stage->is_telling_events)
        tell_event(stage, event);
    stage->run_count += span_equal(event->name, span_text(EVENT_JOB_RUN));
    if (span_equal(event->name, span_text(EVENT_TASK_DEAD)))
        task_died(stage, job, event);
    if (!is_lost && !span_equal(event->name, span_text(EVENT_PARTY_LEFT)) &&
        !span_equal(event->name, span_text(EVENT_PARTY_FAILED)) &&
        !span_equal(event->name, span_text(EVENT_PARTY_COMPLETED)) &&
        !span_equal(event->name, span_text(EVENT_PARTY_TERMINATED)))
        return;
    const char *wrong =
        oracle_record_ended(stage->oracle, job, event->party, (uint32_t)event->incarnation, is_lost,
                            world_now_ns(stage->world));
    if (wrong != NULL)
        world_violate(stage->world, "%s", wrong);
    if (is_lost && is_replacement(event->error))
        oracle_record_replaced(stage->oracle, job, event->party, (uint32_t)event->incarnation);
}

static void check_values(struct stage *stage)
{
    uint64_t bytes = core_dump_value_bytes(core_port_core(world_gate(stage->world)));
    if (bytes > stage->job_bytes_max)
        world_violate(stage->world, "a job keeps values of %" PRIu64 " bytes, and may %" PRIu64,
                      bytes, stage->job_bytes_max);
    const char *wrong = core_dump_wrong_lease(core_port_core(world_gate(stage->world)));
    if (wrong != NULL)
        world_violate(stage->world, "%s", wrong);
}

/* Promise 9, as far as it can be seen from outside. */
static void on_step(void *arg)
{
    struct stage *stage = arg;
    if (world_is_broker_down(stage->world))
        return;
    uint64_t payload_bytes = core_port_payload_bytes(world_gate(stage->world));
    uint64_t told_bytes = core_dump_told_bytes(core_port_core(world_gate(stage->world)));
    uint64_t counted_bytes = stage->tables_bytes_max + payload_bytes + told_bytes;
    if (payload_bytes > stage->payload_bytes_max)
        world_violate(stage->world, "the broker keeps payloads of %" PRIu64 " bytes",
                      payload_bytes);
    if (world_broker_bytes(stage->world) > counted_bytes)
        world_violate(stage->world,
                      "the broker has memory of %" PRIu64 " bytes: tables may take %" PRIu64
                      ", payloads take %" PRIu64 ", events and refusals %" PRIu64,
                      world_broker_bytes(stage->world), stage->tables_bytes_max, payload_bytes,
                      told_bytes);
    /* An event may be lost, or its error may not say of which group the letter is. */
    if (world_was_starved(stage->world))
        for (uint32_t group = 0; group < crew_group_count(stage->crew); group++)
            stage_ask_letters(stage, group, LETTERS_LIST, 0);
    if (++stage->steps % VALUES_EVERY_STEPS == 0)
        check_values(stage);
}

void stage_begin(struct stage *stage, const struct world_options *options, const char *const *jobs,
                 uint32_t job_count)
{
    struct world_options hooked = *options;
    memset(stage, 0, sizeof *stage);
    hooked.hooks = (struct world_hooks){.arg = stage,
                                        .on_news = on_news,
                                        .on_act = on_act,
                                        .on_event = on_event,
                                        .on_bytes = on_bytes,
                                        .on_task_over = on_task_over,
                                        .on_letter = on_letter,
                                        .on_step = on_step};
    stage->job_bytes_max = options->core.job_bytes_max;
    stage->payload_bytes_max = UINT64_MAX;
    stage->tables_bytes_max = UINT64_MAX / 2;
    stage->oracle = oracle_new();
    stage->crew = crew_new(stage->oracle);
    stage->world = world_new(&hooked);
    stage->job_count = job_count;
    stage->jobs = jobs;
    for (uint32_t job = 0; job < job_count; job++)
        (void)world_tap(stage->world, jobs[job]); /* numbered as here */
}

uint32_t stage_add(struct stage *stage, uint32_t job, const struct host_options *options)
{
    uint32_t host = world_host(stage->world, options);
    must(host == stage->app_count);
    app_init(&stage->apps[host], stage->world, stage->oracle, host, job, options);
    stage->apps[host].crew = stage->crew;
    stage->app_count += 1;
    return host;
}

void stage_kill(struct stage *stage, uint32_t who, bool is_flushed, int64_t notice_ns)
{
    app_gone(&stage->apps[who]);
    world_kill(stage->world, who, is_flushed, notice_ns);
}

void stage_end(struct stage *stage)
{
    for (uint32_t who = 0; who < stage->app_count; who++) {
        if (world_session(stage->world, who) != NULL)
            stage_kill(stage, who, false, WORLD_NEVER);
        app_fini(&stage->apps[who]);
    }
    world_close(stage->world);
}

void stage_free(struct stage *stage)
{
    crew_free(&stage->crew);
    oracle_free(&stage->oracle);
    world_free(&stage->world);
}
