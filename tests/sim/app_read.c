/* SPDX-License-Identifier: MPL-2.0 */
/* app_read.c -- what an application subscribes to, awaits and is given; see app.h. */
#include "tests/sim/app.h"

#include "libbus/base/must.h"
#include "libbus/base/pattern.h"
#include "libbus/wire/error.h"
#include "tests/sim/coverage.h"
#include "tests/sim/trace.h"
#include "tests/sim/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { END_MARKS = 4 };

static struct session *session_of(const struct app *app)
{
    return world_session(app->world, app->host);
}

static void claim(struct app *app, const char *wrong)
{
    if (wrong != NULL)
        world_violate(app->world, "%s", wrong);
}

/* ---- in words -------------------------------------------------------------------------------- */

static struct error_record records[LIMIT_ERROR_RECORDS];

static bool is_text(struct span value)
{
    const unsigned char *byte = value.data;
    for (size_t i = 0; i < value.bytes; i++)
        if (byte[i] < 0x20 || byte[i] > 0x7e)
            return false;
    return value.bytes > 0 && value.bytes < 60;
}

static void value_text(char *text, size_t room, struct span value)
{
    if (is_text(value))
        (void)snprintf(text, room, "= %.*s", (int)value.bytes, (const char *)value.data);
    else
        (void)snprintf(text, room, "= (%zu bytes)", value.bytes);
}

/* "failed, root alice app.hot", and the path where there is one: records are decoded already. */
static void error_text(char *text, size_t room, uint32_t count)
{
    uint32_t root = 0;
    size_t at = 0;
    char path[200] = "";
    while (records[root].cause_count > 0 && records[root].causes[0] < count) {
        int more = snprintf(path + at, sizeof path - at, "%.*s < ", (int)records[root].party.bytes,
                            (const char *)records[root].party.data);
        if (more > 0 && at + (size_t)more < sizeof path)
            at += (size_t)more;
        root = records[root].causes[0];
    }
    const struct error_record *record = &records[root];
    if (at > 0)
        (void)snprintf(text, room, "failed, root %.*s %.*s, path %s%.*s", (int)record->party.bytes,
                       (const char *)record->party.data, (int)record->type.bytes,
                       (const char *)record->type.data, path, (int)record->party.bytes,
                       (const char *)record->party.data);
    else
        (void)snprintf(text, room, "failed, root %.*s %.*s", (int)record->party.bytes,
                       (const char *)record->party.data, (int)record->type.bytes,
                       (const char *)record->type.data);
}

/* ---- checking what is given ------------------------------------------------------------------ */

/* The one that stands in for all that memory is short for is of no job. */
static bool is_stand_in(void)
{
    return span_equal(records[0].job, span_text("-")) &&
           span_equal(records[0].type, span_text(ERROR_TYPE_NO_MEMORY));
}

/* Decodes an error and checks what every error must have; count 0: it is none. */
static uint32_t error_check(struct app *app, struct span error)
{
    uint32_t count = 0;
    enum wire_err err = error_decode(error, records, LIMIT_ERROR_RECORDS, &count);
    if (err != WIRE_OK || count == 0) {
        world_violate(app->world, "%s was given an error that is none: %s", app->party,
                      wire_strerror(err));
        return 0;
    }
    if (records[0].id.bytes == 0)
        world_violate(app->world, "%s was given an error without an id", app->party);
    if (!is_stand_in() && !span_equal(records[0].job, span_text(app->job_name)))
        world_violate(app->world, "%s was given an error of job %.*s", app->party,
                      (int)records[0].job.bytes, (const char *)records[0].job.data);
    return count;
}

static bool is_type(const char *type)
{
    return span_equal(records[0].type, span_text(type));
}

/* The outcome of an item; NONE: an answer that is no outcome of the slot (an error about the wait
 * itself), or nothing at all. */
struct outcome app_item_outcome(struct app *app, const struct session_item *item, bool is_whole,
                                char *text, size_t room, struct span *out_type)
{
    struct outcome none = {.kind = OUTCOME_NONE};
    text[0] = 0;
    *out_type = SPAN_NONE;
    if (item->kind == SESSION_ITEM_VALUE) {
        if (world_is_telling(app->world))
            value_text(text, room, item->value);
        return is_whole ? outcome_of_value(item->value)
                        : (struct outcome){.kind = OUTCOME_SOME_VALUE};
    }
    uint32_t count = error_check(app, item->value);
    if (count == 0)
        return none;
    if (world_is_telling(app->world))
        error_text(text, room, count);
    if (app->has_secrets)
        claim(app, words_judge(item->value));
    buffer_unref(&app->last_error);
    app->last_error = buffer_copy(item->value);
    *out_type = records[0].type;
    return is_stand_in() ? (struct outcome){.kind = OUTCOME_ERROR, .mark = OUTCOME_STAND_IN}
                         : outcome_of_error(records[0].id);
}

bool app_could_read(const struct app *app, const struct app_sub *sub, int64_t since_ns)
{
    for (uint32_t i = 0; i < sub->pattern_count; i++)
        if (!world_could_read(app->world, app->host, since_ns, sub->patterns[i]))
            return false;
    return true;
}

/* Whether an access table kept something of it from the reader at any time: then it may have been
 * sent less, or some of it later. */
static bool was_restricted(const struct app *app, const struct app_sub *sub)
{
    return !app_could_read(app, sub, sub->opened_ns);
}

static struct app_position *position_get(struct app *app, struct app_sub *sub, uint32_t topic)
{
    for (uint32_t i = 0; i < sub->position_count; i++)
        if (sub->positions[i].topic == topic)
            return &sub->positions[i];
    must(sub->position_count < APP_POSITIONS);
    struct app_position *position = &sub->positions[sub->position_count++];
    *position = (struct app_position){.topic = topic, .returned_seq = UINT64_MAX};
    if (sub->durable < 0 || was_restricted(app, sub)) /* the name may be another one by now */
        return position;
    const struct app_durable *durable = &app->durables[sub->durable];
    for (uint32_t i = 0; i < durable->position_count; i++)
        if (durable->positions[i].topic == topic) {
            position->has_floor = true;
            position->floor_seq = durable->positions[i].next_seq;
            position->sure_seq = durable->positions[i].sure_seq;
        }
    return position;
}

/* Who asked for number 0 begins with the first number that there was, or with a gap. */
static void begin_check(struct app *app, const struct app_position *position, uint64_t seq)
{
    for (uint64_t before = 0; before < seq; before++)
        if (oracle_known(app->oracle, position->topic, before).kind != OUTCOME_NONE)
            world_violate(
                app->world, "%s began with %s %" PRIu64 " and was told nothing of %" PRIu64,
                app->party, oracle_topic_at(app->oracle, position->topic)->name, seq, before);
}

/* Promise 3: in order, nothing twice, nothing missing without a gap. */
static void position_check(struct app *app, struct app_sub *sub, struct app_position *position,
                           uint64_t seq, uint64_t count)
{
    const char *name = oracle_topic_at(app->oracle, position->topic)->name;
    bool is_lossy = sub->is_gap || (sub->durable >= 0 && app->durables[sub->durable].is_lossy);
    if (!position->is_started) {
        if (position->has_floor && seq > position->floor_seq && !is_lossy && count == 1)
            world_violate(app->world,
                          "%s goes on with %s %" PRIu64 " and had acknowledged up to %" PRIu64,
                          app->party, name, seq, position->floor_seq);
        if (seq < position->sure_seq)
            world_violate(app->world,
                          "%s was sent %s %" PRIu64
                          " again, and it was said that all below %" PRIu64 " is acknowledged",
                          app->party, name, seq, position->sure_seq);
        if (sub->from_seq > 0 && seq < (uint64_t)sub->from_seq && !position->has_floor &&
            sub->durable < 0)
            world_violate(app->world, "%s was sent %s %" PRIu64 " and wanted it from %" PRId64,
                          app->party, name, seq, sub->from_seq);
        if (sub->from_seq == 0 && !position->has_floor && sub->durable < 0)
            begin_check(app, position, seq);
        position->first_seq = seq;
    } else if (seq != position->next_seq) {
        world_violate(app->world, "%s was sent %s %" PRIu64 " instead of %" PRIu64, app->party,
                      name, seq, position->next_seq);
    }
    position->is_started = true;
    position->next_seq = seq + count;
}

static void hold(struct app *app, struct app_sub *sub, const struct session_item *item,
                 uint32_t topic)
{
    if (sub->held_count == APP_HELD) { /* done with the oldest */
        session_ack(session_of(app), sub->number, sub->held[0].number, sub->held[0].seq);
        sub->held[0] = sub->held[--sub->held_count];
    }
    sub->held[sub->held_count++] =
        (struct app_held){.number = item->topic, .topic = topic, .seq = item->seq};
}

static void note_event(const struct app_sub *sub, enum coverage_sub_event event)
{
    coverage_sub(sub->durable >= 0, sub->is_gap, event);
}

/* A value of an incarnation that the subscription was told the end of.  A pattern that was added
 * later may bring what ended before.  The oldest ends of a party that began often are one, which
 * has the number of the newest among them. */
static void end_check(struct app *app, const struct app_sub *sub, struct outcome outcome,
                      struct span name)
{
    const struct oracle_record *record = oracle_origin(app->oracle, outcome);
    uint32_t told = 0;
    struct span party;
    if (record == NULL || sub->pattern_count > 1 || was_restricted(app, sub))
        return;
    for (uint32_t i = 0; i < sub->end_count; i++)
        if (strcmp(record->party, oracle_record_at(app->oracle, sub->ends[i].party)->party) == 0 &&
            sub->ends[i].incarnation > told)
            told = sub->ends[i].incarnation;
    if (told >= record->incarnation)
        world_violate(app->world, "%s was sent %.*s of incarnation %" PRIu32 " behind its end",
                      app->party, (int)name.bytes, (const char *)name.data, record->incarnation);
    bool is_kept = oracle_record_find(app->oracle, app->job, span_text(record->party),
                                      record->incarnation + LIMIT_PARTY_ENDS) == NULL;
    bool is_due = is_kept && pattern_names_party(span_text(sub->patterns[0]), &party) &&
                  span_equal(span_text(record->party), party) && /* a reply is its worker's */
                  sub->from_seq == 0 && sub->durable < 0 && session_attempt(session_of(app)) == 1;
    if (is_due && told + 1 < record->incarnation && !oracle_is_doubting(app->oracle))
        world_violate(app->world,
                      "%s was sent %.*s of incarnation %" PRIu32
                      ", and was told no end behind that of %" PRIu32,
                      app->party, (int)name.bytes, (const char *)name.data, record->incarnation,
                      told);
}

/* Of that party the newest incarnation of which a value came; NULL: none did. */
static struct app_end *newest_find(struct app *app, struct app_sub *sub, const char *party)
{
    for (uint32_t i = 0; i < sub->newest_count; i++)
        if (strcmp(oracle_record_at(app->oracle, sub->newest[i].party)->party, party) == 0)
            return &sub->newest[i];
    return NULL;
}

static void note_newest(struct app *app, struct app_sub *sub, struct outcome outcome)
{
    const struct oracle_record *record = oracle_origin(app->oracle, outcome);
    if (record == NULL || record->incarnation == 0)
        return;
    struct app_end *newest = newest_find(app, sub, record->party);
    if (newest == NULL && sub->newest_count < APP_SEEN)
        newest = &sub->newest[sub->newest_count++];
    if (newest != NULL && newest->incarnation < record->incarnation)
        *newest = (struct app_end){.party = (uint32_t)(record - oracle_record_at(app->oracle, 0)),
                                   .incarnation = record->incarnation};
}

/* Ends stand between incarnations: what the next one wrote comes behind.  Where an end stands is
 * kept for the last four incarnations of a party (broker/core/model/topic.h, END_MARKS). */
static void between_check(struct app *app, struct app_sub *sub, const struct oracle_record *record)
{
    const struct app_end *newest = newest_find(app, sub, record->party);
    bool is_kept = oracle_record_find(app->oracle, app->job, span_text(record->party),
                                      record->incarnation + END_MARKS) == NULL;
    if (newest != NULL && newest->incarnation > record->incarnation && sub->pattern_count == 1 &&
        is_kept && !was_restricted(app, sub))
        world_violate(app->world,
                      "%s was told the end of %s %" PRIu32 " behind a value of %" PRIu32,
                      app->party, record->party, record->incarnation, newest->incarnation);
}

/* What a slot became, as somebody sees it. */
static void outcome_seen(struct app *app, uint32_t topic, uint64_t seq, struct outcome outcome,
                         struct span type)
{
    int64_t now_ns = world_now_ns(app->world);
    claim(app, oracle_seen(app->oracle, topic, seq, outcome, now_ns, app->party));
    if (app->crew != NULL)
        claim(app, crew_outcome(app->crew, topic, seq, outcome, type, now_ns, app->party));
}

bool app_letter_seen(struct app *app, struct span name, uint32_t topic, uint64_t number,
                     struct outcome outcome)
{
    char whole[64];
    for (uint32_t i = 0; app->crew != NULL && i < crew_group_count(app->crew); i++) {
        const struct crew_group *group = crew_group_at(app->crew, i);
        if (group->job != app->job)
            continue;
        for (int is_why = 0; is_why < 2; is_why++) {
            (void)snprintf(whole, sizeof whole, "_groups/%s/%s", group->name,
                           is_why ? "why" : "dead"); /* fits */
            if (!span_equal(span_text(whole), name))
                continue;
            claim(app, oracle_accepted(app->oracle, topic, number, outcome, app->party));
            claim(app, crew_letter(app->crew, i, number, is_why != 0, outcome, app->party));
            return true;
        }
    }
    return false;
}

static void frame_came(struct app *app, struct app_sub *sub, const struct session_item *item)
{
    char text[200];
    struct span type;
    struct span name = session_topic_name(session_of(app), item->topic);
    if (!app_sub_matches(sub, name)) {
        world_violate(app->world, "%s was sent %.*s and did not ask for it", app->party,
                      (int)name.bytes, (const char *)name.data);
        return;
    }
    uint32_t topic = oracle_topic(app->oracle, app_space(app), name);
    struct app_position *position = position_get(app, sub, topic);
    struct outcome outcome = app_item_outcome(app, item, true, text, sizeof text, &type);
    world_line(app->world, "%s: %.*s %" PRIu64 " %s", app->party, (int)name.bytes,
               (const char *)name.data, item->seq, text);
    position_check(app, sub, position, item->seq, 1);
    hold(app, sub, item, topic);
    if (app_letter_seen(app, name, topic, item->seq, outcome))
        return;
    /* Unless a party passed it on, and disclosed less. */
    bool is_fallen = outcome.kind == OUTCOME_ERROR && is_type(ERROR_TYPE_DEPENDENCY) &&
                     disclosure_spares(records[0].id, records[0].party);
    outcome_seen(app, topic, item->seq, outcome, type);
    if (is_fallen)
        claim(app, oracle_fell(app->oracle, topic, item->seq, app->party));
    end_check(app, sub, outcome, name);
    note_newest(app, sub, outcome);
    note_event(sub, outcome.kind == OUTCOME_ERROR ? COVERAGE_ERROR : COVERAGE_VALUE);
}

static void gap_came(struct app *app, struct app_sub *sub, const struct session_item *item)
{
    struct span name = session_topic_name(session_of(app), item->topic);
    uint32_t topic = oracle_topic(app->oracle, app_space(app), name);
    struct app_position *position = position_get(app, sub, topic);
    bool is_lossy = sub->is_gap || (sub->durable >= 0 && app->durables[sub->durable].is_lossy);
    world_line(app->world, "%s: %.*s %" PRIu64 "..%" PRIu64 " missing", app->party, (int)name.bytes,
               (const char *)name.data, item->seq, item->seq + item->count - 1);
    note_event(sub, COVERAGE_MISSING);
    if (item->count == 0)
        world_violate(app->world, "%s was told a gap of nothing", app->party);
    if ((position->is_started || item->kind == SESSION_ITEM_DROPPED) && !is_lossy)
        world_violate(app->world, "%s misses %.*s %" PRIu64 " and had asked to block", app->party,
                      (int)name.bytes, (const char *)name.data, item->seq);
    position_check(app, sub, position, item->seq, item->count);
    session_ack(session_of(app), sub->number, item->topic, item->seq + item->count - 1);
}

/* What an attempt took with it that the name had not acknowledged. */
static void past_came(struct app *app, struct app_sub *sub, const struct session_item *item)
{
    struct span name = session_topic_name(session_of(app), item->topic);
    uint32_t topic = oracle_topic(app->oracle, app_space(app), name);
    world_line(app->world, "%s: %.*s %" PRIu64 " and %" PRIu64 " in all went with their attempt",
               app->party, (int)name.bytes, (const char *)name.data, item->seq, item->count);
    note_event(sub, COVERAGE_PAST);
    if (sub->durable < 0 || item->count == 0 || session_attempt(session_of(app)) < 2)
        world_violate(app->world, "%s was told of an earlier attempt: there is none", app->party);
    if (position_get(app, sub, topic)->is_started)
        world_violate(app->world, "%s was told of an earlier attempt behind what is of this one",
                      app->party);
}

/* Of the party whose end this is; NULL: there is none, and that is told.  Without memory the event
 * of an end is lost, and then nobody knew of one whose client never learnt its number. */
static const struct oracle_record *ended_record(struct app *app, struct span party,
                                                uint32_t incarnation)
{
    struct oracle *oracle = app->oracle;
    const struct oracle_record *record = oracle_record_find(oracle, app->job, party, incarnation);
    if (record != NULL)
        return record;
    if (!world_has_starved(app->world)) {
        world_violate(app->world, "%s was told the end of %.*s %" PRIu32 ", which never was",
                      app->party, (int)party.bytes, (const char *)party.data, incarnation);
        return NULL;
    }
    (void)oracle_record_ended(oracle, app->job, party, incarnation, false,
                              world_now_ns(app->world)); /* a new one cannot be lost twice */
    return oracle_record_find(oracle, app->job, party, incarnation);
}

static void end_came(struct app *app, struct app_sub *sub, const struct session_item *item)
{
    struct span party = session_topic_name(session_of(app), item->topic);
    uint32_t incarnation = (uint32_t)item->seq;
    char text[300] = "owing nothing";
    note_event(sub, COVERAGE_END);
    if (item->value.bytes > 0 && error_check(app, item->value) > 0 && world_is_telling(app->world))
        (void)snprintf(text, sizeof text, "%.*s", (int)records[0].type.bytes,
                       (const char *)records[0].type.data);
    world_line(app->world, "%s: end of %.*s %" PRIu32 ", %s", app->party, (int)party.bytes,
               (const char *)party.data, incarnation, text);
    const struct oracle_record *record = ended_record(app, party, incarnation);
    if (record == NULL)
        return;
    if (record->ended_ns == INT64_MAX && !oracle_is_doubting(app->oracle))
        world_violate(app->world, "%s was told the end of %.*s %" PRIu32 ", which has not ended",
                      app->party, (int)party.bytes, (const char *)party.data, incarnation);
    for (uint32_t i = 0; i < sub->end_count; i++) {
        const struct oracle_record *other = oracle_record_at(app->oracle, sub->ends[i].party);
        if (strcmp(other->party, record->party) == 0 && sub->ends[i].incarnation >= incarnation)
            world_violate(app->world,
                          "%s was told the end of %.*s %" PRIu32 " behind that of %" PRIu32,
                          app->party, (int)party.bytes, (const char *)party.data, incarnation,
                          sub->ends[i].incarnation);
    }
    between_check(app, sub, record);
    must(sub->end_count < APP_ENDS);
    sub->ends[sub->end_count++] = (struct app_end){
        .party = (uint32_t)(record - oracle_record_at(app->oracle, 0)), .incarnation = incarnation};
}

/* ---- subscribing ----------------------------------------------------------------------------- */

bool app_sub_matches(const struct app_sub *sub, struct span topic)
{
    for (uint32_t i = 0; i < sub->pattern_count; i++)
        if (pattern_matches(span_text(sub->patterns[i]), topic))
            return true;
    return false;
}

const struct app_position *app_position(const struct app_sub *sub, uint32_t topic)
{
    for (uint32_t i = 0; i < sub->position_count; i++)
        if (sub->positions[i].topic == topic)
            return &sub->positions[i];
    return NULL;
}

/* The broker ends a durable name whose party may not read what it is for. */
static void doubt_durable(const struct app *app, struct app_durable *durable)
{
    if (world_could_read(app->world, app->host, durable->sure_ns, durable->pattern))
        return;
    durable->sure_ns = world_now_ns(app->world);
    durable->position_count = 0;
    durable->drops += 1;
    durable->is_lossy = true;
}

static int durable_get(struct app *app, const char *pattern, const struct app_sub_options *options)
{
    for (uint32_t i = 0; i < app->durable_count; i++)
        if (strcmp(app->durables[i].name, options->durable) == 0) {
            doubt_durable(app, &app->durables[i]);
            return (int)i;
        }
    must(app->durable_count < APP_DURABLES);
    app->durables[app->durable_count] = (struct app_durable){.name = options->durable,
                                                             .pattern = pattern,
                                                             .keep_ms = options->keep_ms,
                                                             .sure_ns = world_now_ns(app->world),
                                                             .is_lossy = options->is_gap};
    return (int)app->durable_count++;
}

int app_subscribe(struct app *app, const char *pattern, const struct app_sub_options *options)
{
    struct session_sub_options session_options = {.name = span_text(options->durable),
                                                  .from_seq = options->from_seq,
                                                  .overflow = options->is_gap ? 1 : 0,
                                                  .keep_ms = (uint64_t)options->keep_ms,
                                                  .is_in_pieces = app->subs_opened++ % 2 == 1};
    int at = 0;
    while (at < APP_SUBS && app->subs[at] != NULL)
        at++;
    if (at == APP_SUBS)
        return -1;
    uint32_t number = 0;
    if (session_subscribe(session_of(app), span_text(pattern), &session_options, &number) !=
        CODE_OK)
        return -1;
    struct app_sub *sub = calloc(1, sizeof *sub);
    must(sub != NULL);
    sub->number = number;
    sub->patterns[0] = pattern;
    sub->pattern_count = 1;
    sub->is_gap = options->is_gap;
    sub->from_seq = options->from_seq;
    sub->is_in_pieces = session_options.is_in_pieces;
    sub->opened_ns = sub->said_ns = world_now_ns(app->world);
    sub->joined_ns = INT64_MAX;
    sub->first_ns = INT64_MAX;
    sub->durable = options->durable != NULL ? durable_get(app, pattern, options) : -1;
    sub->group = -1;
    app->subs[at] = sub;
    note_event(sub, COVERAGE_OPENED);
    return at;
}

void app_sub_add(struct app *app, uint32_t index, const char *pattern)
{
    struct app_sub *sub = app->subs[index];
    if (sub->pattern_count == APP_PATTERNS || sub->durable >= 0 || sub->group >= 0)
        return;
    if (session_sub_add(session_of(app), sub->number, span_text(pattern)) != CODE_OK)
        return;
    note_event(sub, COVERAGE_PATTERN);
    sub->patterns[sub->pattern_count++] = pattern;
    sub->said_ns = world_now_ns(app->world);
    sub->joined_ns = INT64_MAX;
}

void app_unsubscribe(struct app *app, uint32_t index, bool is_drop)
{
    struct app_sub *sub = app->subs[index];
    if (sub->group >= 0) {
        app_part(app, sub);
        session_unsubscribe(session_of(app), sub->number, is_drop);
        app_sub_free(&app->subs[index]);
        return;
    }
    session_unsubscribe(session_of(app), sub->number, is_drop);
    note_event(sub, is_drop ? COVERAGE_DROPPED : COVERAGE_CLOSED);
    if (sub->durable >= 0) {
        /* What was not acknowledged comes again; what was dropped is made anew. */
        struct app_durable *durable = &app->durables[sub->durable];
        if (is_drop) {
            durable->position_count = 0;
            durable->drops += 1;
            durable->left_ns = 0;
            durable->is_lossy = sub->is_gap;
        } else {
            app_durable_leave(app, sub);
        }
    }
    app_sub_free(&app->subs[index]);
}

/* Whether a durable name was kept too long with nobody reading.  Its keeping time begins when the
 * broker sees the end, which is later than ours, and ends before the first item comes. */
static void note_first(struct app *app, struct app_sub *sub)
{
    if (sub->first_ns != INT64_MAX)
        return;
    sub->first_ns = world_now_ns(app->world);
    if (sub->durable < 0)
        return;
    struct app_durable *durable = &app->durables[sub->durable];
    if (durable->left_ns > 0 && sub->first_ns - durable->left_ns > durable->keep_ms * WORLD_MS)
        durable->is_lossy = true;
}

/* NULL: there is none, and no room for one. */
static struct app_partial *partial_of(struct app_sub *sub, uint32_t number)
{
    struct app_partial *unused = NULL;
    for (uint32_t i = 0; i < APP_POSITIONS; i++) {
        if (sub->partials[i].is_used && sub->partials[i].number == number)
            return &sub->partials[i];
        if (!sub->partials[i].is_used)
            unused = &sub->partials[i];
    }
    must(unused != NULL);
    unused->number = number;
    return unused;
}

static void partial_drop(struct app_partial *partial)
{
    buffer_unref(&partial->value);
    partial->is_used = false;
}

void app_sub_free(struct app_sub **sub)
{
    for (uint32_t i = 0; *sub != NULL && i < APP_POSITIONS; i++)
        partial_drop(&(*sub)->partials[i]);
    free(*sub);
    *sub = NULL;
}

/* Whether the value is whole with this piece: then it is the item's. */
static bool piece_came(struct app *app, struct app_sub *sub, struct session_item *item)
{
    struct app_partial *partial = partial_of(sub, item->topic);
    if (item->offset == 0) {
        partial_drop(partial);
        partial->value = buffer_new((size_t)item->total_bytes);
        must(partial->value != NULL);
        partial->is_used = true;
        partial->seq = item->seq;
    }
    struct buffer *value = partial->value;
    if (!sub->is_in_pieces || !partial->is_used || partial->seq != item->seq ||
        value->bytes != item->offset || item->value.bytes > value->room - value->bytes ||
        (uintptr_t)item->value.data % 8 != 0) {
        world_violate(app->world, "%s was given a piece that does not follow", app->party);
        return false;
    }
    memcpy(value->data + value->bytes, item->value.data, item->value.bytes);
    value->bytes += item->value.bytes;
    bool is_whole = value->bytes == item->total_bytes;
    if (is_whole != (item->kind == SESSION_ITEM_VALUE))
        world_violate(app->world, "%s was given a last piece that is none", app->party);
    item->value = buffer_span(value);
    return is_whole;
}

bool app_take(struct app *app, uint32_t index)
{
    struct app_sub *sub = app->subs[index];
    struct session_item item = {0};
    struct buffer *error = NULL;
    if (sub->is_denied || (sub->group >= 0 && app->task_count == APP_TASKS))
        return false;
    enum wire_code code = session_sub_take(session_of(app), sub->number, &item, &error);
    if (code != CODE_OK) {
        bool is_over = session_state(session_of(app)) == SESSION_OVER;
        if (code != CODE_ETIMEDOUT && !is_over) {
            world_line(app->world, "%s: subscription to %s denied, %s", app->party,
                       sub->patterns[0], trace_code(code));
            sub->is_denied = true;
            if (sub->group < 0)
                note_event(sub, COVERAGE_DENIED);
            else if (sub->joined_ns != INT64_MAX) /* as it seemed when all before was answered */
                crew_parted(app->crew, (uint32_t)sub->group, app->record);
        }
        buffer_unref(&error);
        return false;
    }
    app->taken_count += 1;
    if (sub->group >= 0) {
        app_task_came(app, sub, &item);
        buffer_unref(&item.buffer);
        return true;
    }
    note_first(app, sub);
    switch (item.kind) {
    case SESSION_ITEM_PIECE: (void)piece_came(app, sub, &item); break;
    case SESSION_ITEM_VALUE:
        if (item.total_bytes == 0 || piece_came(app, sub, &item))
            frame_came(app, sub, &item);
        partial_drop(partial_of(sub, item.topic));
        break;
    case SESSION_ITEM_ERROR:
        frame_came(app, sub, &item);
        partial_drop(partial_of(sub, item.topic));
        break;
    case SESSION_ITEM_GAP:
    case SESSION_ITEM_DROPPED:
        gap_came(app, sub, &item);
        partial_drop(partial_of(sub, item.topic));
        break;
    case SESSION_ITEM_PAST: past_came(app, sub, &item); break;
    case SESSION_ITEM_END: end_came(app, sub, &item); break;
    }
    buffer_unref(&item.buffer);
    return true;
}

/* Takes it out of what is held; the last one has its place. */
static struct app_held held_take(struct app_sub *sub, uint32_t at)
{
    struct app_held held = sub->held[at];
    sub->held[at] = sub->held[--sub->held_count];
    return held;
}

void app_ack(struct app *app, uint32_t index, uint32_t at)
{
    struct app_sub *sub = app->subs[index];
    struct app_held held = held_take(sub, at);
    note_event(sub, COVERAGE_ACKED);
    session_ack(session_of(app), sub->number, held.number, held.seq);
}

void app_return(struct app *app, uint32_t index, uint32_t at)
{
    struct app_sub *sub = app->subs[index];
    struct app_held held = held_take(sub, at);
    note_event(sub, COVERAGE_RETURNED);
    session_return(session_of(app), sub->number, held.number, held.seq);
    struct app_position *position = position_get(app, sub, held.topic);
    if (held.seq < position->returned_seq)
        position->returned_seq = held.seq;
}

/* Whether the error that records have says that there is nothing to wait for, rather than what the
 * slot's outcome is: a party that ended without promising the slot may promise it in its next
 * incarnation. */
static bool is_about_the_wait(void)
{
    return is_type(ERROR_TYPE_NOT_KEPT) || is_type(ERROR_TYPE_NEVER_PROMISED) ||
           is_type(ERROR_TYPE_JUMPED) || records[0].topic.bytes == 0;
}

/* ---- awaiting -------------------------------------------------------------------------------- */

enum wire_code app_await(struct app *app, const char *name, uint64_t seq, bool is_value_wanted)
{
    struct app_want want = {.topic = oracle_topic(app->oracle, app_space(app), span_text(name)),
                            .seq = seq,
                            .is_value_wanted = is_value_wanted,
                            .said_ns = world_now_ns(app->world)};
    if (app->want_count == APP_WANTS)
        return CODE_EFULL;
    enum wire_code code =
        session_await(session_of(app), span_text(name), seq, is_value_wanted, &want.number);
    if (code == CODE_OK)
        app->wants[app->want_count++] = want;
    return code;
}

/* Nobody waits for that reply any more, or it is known. */
static void no_request(struct app *app, const struct app_want *want)
{
    for (uint32_t i = 0; i < app->request_count; i++)
        if (app->requests[i].reply_topic == want->topic && app->requests[i].reply_seq == want->seq)
            app->requests[i].is_awaited = false;
}

void app_unawait(struct app *app, uint32_t want)
{
    no_request(app, &app->wants[want]);
    session_unawait(session_of(app), app->wants[want].number);
    app->wants[want] = app->wants[--app->want_count];
}

static void want_came(struct app *app, const struct app_want *want, const struct session_item *item)
{
    char text[200];
    struct span type;
    const char *name = oracle_topic_at(app->oracle, want->topic)->name;
    struct outcome outcome =
        app_item_outcome(app, item, want->is_value_wanted, text, sizeof text, &type);
    app->taken_count += 1;
    if (item->kind != SESSION_ITEM_VALUE && item->kind != SESSION_ITEM_ERROR)
        world_violate(app->world, "%s awaited %s %" PRIu64 " and was given item %d", app->party,
                      name, want->seq, (int)item->kind);
    if (item->seq != want->seq)
        world_violate(app->world, "%s awaited %s %" PRIu64 " and was given %" PRIu64, app->party,
                      name, want->seq, item->seq);
    world_line(app->world, "%s: awaited %s %" PRIu64 " %s", app->party, name, want->seq,
               item->kind == SESSION_ITEM_VALUE && !want->is_value_wanted ? "is a value" : text);
    if (outcome.kind == OUTCOME_ERROR && is_about_the_wait())
        return;
    outcome_seen(app, want->topic, want->seq, outcome, type);
}

void app_wants_take(struct app *app)
{
    for (uint32_t i = 0; i < app->want_count;) {
        struct session_item item = {0};
        struct app_want want = app->wants[i];
        if (session_want_take(session_of(app), want.number, &item) != CODE_OK) {
            i++;
            continue;
        }
        app->wants[i] = app->wants[--app->want_count];
        no_request(app, &want);
        want_came(app, &want, &item);
        buffer_unref(&item.buffer);
    }
}
