/* SPDX-License-Identifier: MPL-2.0 */
/* app_task.c -- what an application does in a group, and what it asks of others; see app.h. */
#include "tests/sim/app.h"

#include "libbus/base/must.h"
#include "libbus/base/pattern.h"
#include "libbus/wire/error.h"
#include "tests/sim/coverage.h"
#include "tests/sim/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OWNED_BYTES_MIN = 30000 }; /* large ones travel by reference, if in chunks */

static uint8_t error_bytes[LIMIT_ERROR_BYTES];

static struct session *session_of(const struct app *app)
{
    return world_session(app->world, app->host);
}

static void claim(struct app *app, const char *wrong)
{
    if (wrong != NULL)
        world_violate(app->world, "%s", wrong);
}

static const char *name_of(const struct app *app, uint32_t topic)
{
    return oracle_topic_at(app->oracle, topic)->name;
}

static uint32_t replies_of(struct app *app, struct span topic)
{
    char name[64];
    struct span party = topic_party(topic);
    (void)snprintf(name, sizeof name, "%.*s/_replies", (int)party.bytes,
                   (const char *)party.data); /* fits: names are short here */
    return oracle_topic(app->oracle, app_space(app), span_text(name));
}

/* ---- members --------------------------------------------------------------------------------- */

int app_join(struct app *app, uint32_t index, uint32_t credit, uint64_t lease_ms)
{
    const struct crew_group *group = crew_group_at(app->crew, index);
    struct session_sub_options options = {.group = span_text(group->name),
                                          .credit = credit,
                                          .lease_ms = lease_ms,
                                          .deliver_max = group->deliver_max,
                                          .from_seq = group->from_seq,
                                          .keep_ms = (uint64_t)group->keep_ms};
    int at = 0;
    uint32_t number = 0;
    while (at < APP_SUBS && app->subs[at] != NULL)
        at++;
    if (at == APP_SUBS ||
        session_subscribe(session_of(app), span_text(group->pattern), &options, &number) != CODE_OK)
        return -1;
    struct app_sub *sub = calloc(1, sizeof *sub);
    must(sub != NULL);
    *sub = (struct app_sub){.is_used = true,
                            .number = number,
                            .patterns = {group->pattern},
                            .pattern_count = 1,
                            .durable = -1,
                            .group = (int)index,
                            .may_lapse = lease_ms > 0,
                            .said_ns = world_now_ns(app->world),
                            .joined_ns = INT64_MAX,
                            .first_ns = INT64_MAX};
    app->subs[at] = sub;
    world_line(app->world, "%s joins %s, credit %" PRIu32 ", leases of %" PRIu64 " ms", app->party,
               group->name, credit, lease_ms);
    return at;
}

void app_part(struct app *app, const struct app_sub *sub)
{
    for (uint32_t i = 0; i < app->task_count;) {
        if (app->tasks[i].sub != sub->number) {
            i++;
            continue;
        }
        crew_back(app->crew, &app->tasks[i].terms, 0, false);
        app->tasks[i] = app->tasks[--app->task_count];
    }
    for (uint32_t i = 0; i < app->saying_count; i++)
        if (app->sayings[i].sub == sub->number && !app->sayings[i].is_final)
            crew_back(app->crew, &app->sayings[i].terms, 0, false); /* at once, if need be */
    crew_parted(app->crew, (uint32_t)sub->group, app->record);
    world_line(app->world, "%s leaves %s", app->party,
               crew_group_at(app->crew, (uint32_t)sub->group)->name);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

/* A letter of an earlier attempt that is given again is a task where it lies. */
static bool is_letter_of(struct span topic, const char *group)
{
    char name[64];
    (void)snprintf(name, sizeof name, "_groups/%s/dead", group); /* fits: names are short here */
    return span_equal(topic, span_text(name));
}

/* A dead letter whose value went, or that there was no memory for, is given again with the error of
 * its death in place of it.  This is no outcome of its slot. */
static bool is_letter_without_value(const struct app *app, const struct crew_lease *terms,
                                    struct outcome outcome, struct span type)
{
    bool is_missing =
        span_equal(type, span_text(ERROR_TYPE_NOT_KEPT)) || world_has_starved(app->world);
    return outcome.kind == OUTCOME_ERROR && is_missing &&
           crew_died_of(app->crew, terms->group, terms->topic, terms->seq, outcome.mark);
}

void app_task_came(struct app *app, const struct app_sub *sub, const struct session_item *item)
{
    char text[200];
    struct span type;
    struct span name = session_topic_name(session_of(app), item->topic);
    const char *group = crew_group_at(app->crew, (uint32_t)sub->group)->name;
    if (item->kind != SESSION_ITEM_VALUE && item->kind != SESSION_ITEM_ERROR) {
        world_violate(app->world, "%s was given item %d by %s", app->party, (int)item->kind, group);
        return;
    }
    if ((!app_sub_matches(sub, name) && !is_letter_of(name, group)) || item->lease == 0 ||
        (item->kind == SESSION_ITEM_VALUE && item->count > 1)) {
        world_violate(app->world, "%s was given %.*s %" PRIu64 " by %s, %" PRIu64 " at once",
                      app->party, (int)name.bytes, (const char *)name.data, item->seq, group,
                      item->count);
        return;
    }
    struct outcome outcome = app_item_outcome(app, item, true, text, sizeof text, &type);
    struct crew_lease terms = {.group = (uint32_t)sub->group,
                               .topic = oracle_topic(app->oracle, app_space(app), name),
                               .seq = item->seq,
                               .delivery = item->delivery,
                               .record = app->record,
                               .may_lapse = sub->may_lapse,
                               .is_request = item->reply_to != FRAME_NO_REPLY,
                               .reply_seq = item->reply_to};
    if (terms.is_request)
        terms.reply_topic = replies_of(app, name);
    world_line(app->world, "%s: %.*s %" PRIu64 " of %s, delivery %u %s", app->party,
               (int)name.bytes, (const char *)name.data, item->seq, group, item->delivery, text);
    coverage_lease(terms.is_request, item->delivery > 1 ? COVERAGE_LEASED_AGAIN : COVERAGE_LEASED);
    int64_t now_ns = world_now_ns(app->world);
    if (!app_letter_seen(app, name, terms.topic, terms.seq, outcome) &&
        !is_letter_without_value(app, &terms, outcome, type))
        claim(app, oracle_seen(app->oracle, terms.topic, terms.seq, outcome, now_ns, app->party));
    claim(app, crew_given(app->crew, &terms, now_ns, app->party));
    must(app->task_count < APP_TASKS);
    app->tasks[app->task_count++] =
        (struct app_task){.sub = sub->number, .lease = item->lease, .terms = terms};
}

static bool is_meant(const struct app *app, const struct crew_lease *terms, uint32_t sub,
                     const struct msg_task_over *over)
{
    struct span name = session_topic_name(session_of(app), (uint32_t)over->topic);
    return sub == over->sub && terms->seq == over->seq && terms->delivery == over->delivery &&
           span_equal(span_text(name_of(app, terms->topic)), name);
}

void app_task_over(struct app *app, const struct msg_task_over *over)
{
    for (uint32_t i = 0; i < app->task_count; i++)
        if (is_meant(app, &app->tasks[i].terms, app->tasks[i].sub, over)) {
            app->tasks[i].is_over = true;
            coverage_lease(app->tasks[i].terms.is_request, COVERAGE_LEASE_OVER);
        }
    for (uint32_t i = 0; i < app->saying_count; i++)
        if (is_meant(app, &app->sayings[i].terms, app->sayings[i].sub, over)) {
            app->sayings[i].is_over = true;
            coverage_lease(app->sayings[i].terms.is_request, COVERAGE_SAID_IN_VAIN);
        }
}

static void forget_sayings(struct app *app, uint32_t count)
{
    app->saying_count -= count;
    app->saying_first += count;
    memmove(app->sayings, app->sayings + count, app->saying_count * sizeof app->sayings[0]);
}

/* It is not held any more; what was said of it is, until that is accepted. */
static void said(struct app *app, uint32_t index, bool is_final)
{
    const struct app_task *task = &app->tasks[index];
    if (app->saying_count == APP_SAYINGS)
        forget_sayings(app, APP_SAYINGS / 2);
    app->sayings[app->saying_count++] =
        (struct app_saying){.sub = task->sub,
                            .terms = task->terms,
                            .is_final = is_final,
                            .is_over = task->is_over,
                            .link = world_link(app->world, app->host)};
    app->tasks[index] = app->tasks[--app->task_count];
}

void app_sayings_accept(struct app *app, uint64_t sayings)
{
    uint32_t count = 0;
    while (count < app->saying_count && app->saying_first + count < sayings) {
        const struct app_saying *saying = &app->sayings[count++];
        /* What it was told over a connection that broke it may not have heard. */
        if (saying->is_final && !saying->is_over &&
            saying->link == world_link(app->world, app->host))
            claim(app, crew_done(app->crew, &saying->terms, app->party));
    }
    forget_sayings(app, count);
}

/* A refusal names the slot alone: of two replies to one request it is not known which it means. */
static void doubt_earlier(struct app *app, uint32_t topic, uint64_t seq)
{
    bool is_doubtful = false;
    for (uint32_t i = 0; i + 1 < app->write_count; i++) {
        struct app_write *write = &app->writes[i];
        if (write->topic != topic || write->seq != seq)
            continue;
        is_doubtful = true;
        write->is_doubtful = true; /* what is known of it by now the oracle has */
    }
    if (is_doubtful)
        app->writes[app->write_count - 1].is_doubtful = true;
}

enum wire_code app_task_reply(struct app *app, uint32_t index, struct span value)
{
    const struct app_task task = app->tasks[index];
    const struct crew_lease *terms = &task.terms;
    must(value.bytes >= 8 && terms->is_request);
    if (app->write_count == APP_WRITES)
        return CODE_ETIMEDOUT;
    struct buffer *owned = value.bytes > OWNED_BYTES_MIN ? buffer_copy(value) : NULL;
    enum wire_code code =
        session_task_reply(session_of(app), world_host_ns(app->world, app->host), task.lease,
                           owned != NULL ? buffer_span(owned) : value, owned);
    buffer_unref(&owned);
    world_line(app->world, "%s replies to %s %" PRIu64 ", delivery %" PRIu32 ", in %" PRIu64 ": %s",
               app->party, name_of(app, terms->topic), terms->seq, terms->delivery,
               terms->reply_seq, trace_code(code));
    if (code == CODE_ETIMEDOUT)
        return code;
    if (code == CODE_OK) {
        app_value_said(app, terms->reply_topic, terms->reply_seq, value);
        doubt_earlier(app, terms->reply_topic, terms->reply_seq);
        crew_answered(app->crew, terms, outcome_of_value(value), world_now_ns(app->world));
        coverage_lease(true, COVERAGE_REPLIED);
        said(app, index, true);
        return code;
    }
    /* Its lease is over, or nothing can be said any more. */
    if (code == CODE_ESETTLED && !task.is_over)
        world_violate(app->world, "%s may not reply to %s %" PRIu64 ", and was not told why",
                      app->party, name_of(app, terms->topic), terms->seq);
    session_task_end(session_of(app), task.lease, SESSION_TASK_RETURNED, 0, SPAN_NONE);
    crew_back(app->crew, terms, 0, false);
    said(app, index, false);
    return code;
}

void app_task_end(struct app *app, uint32_t index, enum session_task_how how,
                  int64_t retry_after_ms)
{
    static const char *const names[] = {"is done with", "gives back", "rejects", "fails"};
    static const enum coverage_lease events[] = {COVERAGE_DONE, COVERAGE_GIVEN_BACK,
                                                 COVERAGE_REJECTED, COVERAGE_FAILED};
    const struct app_task task = app->tasks[index];
    const struct crew_lease *terms = &task.terms;
    struct span error = SPAN_NONE;
    size_t bytes = 0;
    int64_t now_ns = world_now_ns(app->world);
    bool is_final = how == SESSION_TASK_DONE || (how == SESSION_TASK_FAILED && terms->is_request);
    if (how == SESSION_TASK_REJECTED || how == SESSION_TASK_FAILED) {
        /* With what others said, or that as it is: over several hops, if there are secrets. */
        bool with_cause = app->has_secrets && (terms->seq + terms->delivery) % 2 == 0;
        struct outcome outcome = app_error_make(app, "app.not_done", "no luck", UINT32_MAX, 0,
                                                with_cause, error_bytes, &bytes);
        error = span_of(error_bytes, bytes);
        if (is_final)
            crew_answered(app->crew, terms, outcome, now_ns);
    }
    if (how == SESSION_TASK_DONE && terms->is_request)
        crew_silent(app->crew, terms);
    if (!is_final) {
        bool is_never =
            how == SESSION_TASK_FAILED || (how == SESSION_TASK_REJECTED && retry_after_ms < 0);
        bool is_later = how == SESSION_TASK_REJECTED && retry_after_ms > 0;
        crew_back(app->crew, terms, is_later ? now_ns + retry_after_ms * WORLD_MS : 0, is_never);
    }
    world_line(app->world, "%s %s %s %" PRIu64 ", delivery %" PRIu32 ", %" PRId64 " ms", app->party,
               names[how], name_of(app, terms->topic), terms->seq, terms->delivery, retry_after_ms);
    coverage_lease(terms->is_request, events[how]);
    session_task_end(session_of(app), task.lease, how, retry_after_ms, error);
    said(app, index, is_final);
}

/* ---- requests -------------------------------------------------------------------------------- */

static bool is_open(const struct app *app, const struct app_request *request)
{
    return oracle_known(app->oracle, request->reply_topic, request->reply_seq).kind == OUTCOME_NONE;
}

const struct app_request *app_request_open(const struct app *app, uint32_t *at)
{
    while (*at < app->request_count)
        if (is_open(app, &app->requests[(*at)++]))
            return &app->requests[*at - 1];
    return NULL;
}

/* Room for one more. */
static bool make_room(struct app *app)
{
    if (app->request_count < APP_REQUESTS)
        return true;
    uint32_t count = 0;
    for (uint32_t i = 0; i < app->request_count; i++)
        if (is_open(app, &app->requests[i]))
            app->requests[count++] = app->requests[i];
    app->request_count = count;
    return count < APP_REQUESTS;
}

enum wire_code app_request(struct app *app, const char *name, struct span value,
                           int64_t deadline_ms)
{
    uint64_t reply_seq = 0;
    struct app_topic *topic = app_topic_get(app, name);
    uint32_t reply_topic = replies_of(app, span_text(name));
    struct app_topic *replies = app_topic_get(app, name_of(app, reply_topic));
    if (topic == NULL || replies == NULL || app->write_count == APP_WRITES || !make_room(app))
        return CODE_EFULL;
    if (topic->next_seq == 0) /* which number comes next is not known here before one came */
        return app_publish(app, name, &value, 1);
    struct buffer *owned = value.bytes > OWNED_BYTES_MIN ? buffer_copy(value) : NULL;
    enum wire_code code = session_request(
        session_of(app), world_host_ns(app->world, app->host), topic->number, replies->number,
        owned != NULL ? buffer_span(owned) : value, owned, deadline_ms, &reply_seq);
    buffer_unref(&owned);
    world_line(app->world, "%s asks with %zu bytes in %s %" PRIu64 ", within %" PRId64 " ms: %s",
               app->party, value.bytes, name, topic->next_seq, deadline_ms, trace_code(code));
    if (code != CODE_OK)
        return code;
    struct app_request request = {.topic = topic->topic,
                                  .seq = topic->next_seq,
                                  .reply_topic = reply_topic,
                                  .reply_seq = reply_seq};
    app_value_said(app, topic->topic, topic->next_seq, value);
    topic->next_seq += 1;
    replies->next_seq = reply_seq + 1;
    crew_asked(app->crew, app->record, request.topic, request.seq, reply_topic, reply_seq,
               deadline_ms, world_now_ns(app->world));
    request.is_awaited = app_await(app, name_of(app, reply_topic), reply_seq, true) == CODE_OK;
    app->requests[app->request_count++] = request;
    return CODE_OK;
}

void app_request_refused(struct app *app, uint32_t topic, uint64_t seq)
{
    for (uint32_t i = 0; i < app->request_count; i++)
        if (app->requests[i].reply_topic == topic && app->requests[i].reply_seq == seq)
            app->requests[i].is_awaited = false; /* that was its answer */
}

enum wire_code app_request_cancel(struct app *app, uint32_t index)
{
    const struct app_request *request = &app->requests[index];
    world_line(app->world, "%s takes its request %s %" PRIu64 " back", app->party,
               name_of(app, request->topic), request->seq);
    return app_retract(app, name_of(app, request->reply_topic), request->reply_seq,
                       "app.taken_back");
}
