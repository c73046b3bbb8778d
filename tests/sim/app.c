/* SPDX-License-Identifier: MPL-2.0 */
/* app.c -- how an application begins and ends, and what it writes; reading is in app_read.c. */
#include "tests/sim/app.h"

#include "libbus/base/must.h"
#include "libbus/wire/error.h"
#include "tests/sim/coverage.h"
#include "tests/sim/trace.h"
#include "tests/sim/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct session *session_of(const struct app *app)
{
    return world_session(app->world, app->host);
}

static int64_t host_ns(const struct app *app)
{
    return world_host_ns(app->world, app->host);
}

/* ---- beginning and end ----------------------------------------------------------------------- */

void app_init(struct app *app, struct world *world, struct oracle *oracle, uint32_t host,
              uint32_t job, const struct host_options *options)
{
    memset(app, 0, sizeof *app);
    app->world = world;
    app->oracle = oracle;
    app->host = host;
    app->job = job;
    app->job_name = options->job;
    app->party = options->party;
    app->writes = malloc(APP_WRITES * sizeof *app->writes);
    must(app->writes != NULL);
}

void app_fini(struct app *app)
{
    app_gone(app);
    free(app->writes);
    app->writes = NULL;
}

void app_start(struct app *app)
{
    app->record = oracle_record(app->oracle, app->job, app->party);
    oracle_record_at(app->oracle, app->record)->is_process = true;
    app->is_running = true;
    app->is_leaving = app->is_completed = false;
    app->topic_count = app->slot_count = app->task_count = app->request_count = 0;
    app->write_count = app->accepted_count = app->mark_count = 0;
    app->want_count = app->result_count = app->saying_count = 0;
    app->saying_first = 0;
    app->told_count = 0;
    app->up_ns = INT64_MAX;
    world_start(app->world, app->host);
}

/* The first that was not acknowledged. */
static uint64_t floor_of(const struct app_sub *sub, const struct app_position *position)
{
    uint64_t floor_seq = position->next_seq;
    for (uint32_t j = 0; j < sub->held_count; j++)
        if (sub->held[j].topic == position->topic && sub->held[j].seq < floor_seq)
            floor_seq = sub->held[j].seq;
    return position->returned_seq < floor_seq ? position->returned_seq : floor_seq;
}

/* Where a durable name is in a topic. */
static struct app_position *place_of(struct app_durable *durable, uint32_t topic)
{
    uint32_t at = 0;
    while (at < durable->position_count && durable->positions[at].topic != topic)
        at++;
    must(at < APP_POSITIONS);
    if (at == durable->position_count)
        durable->positions[durable->position_count++] = (struct app_position){.topic = topic};
    return &durable->positions[at];
}

void app_durable_leave(struct app *app, const struct app_sub *sub)
{
    struct app_durable *durable = &app->durables[sub->durable];
    durable->left_ns = world_now_ns(app->world);
    for (uint32_t i = 0; i < sub->position_count; i++) {
        if (!sub->positions[i].is_started)
            continue;
        struct app_position *place = place_of(durable, sub->positions[i].topic);
        place->next_seq = floor_of(sub, &sub->positions[i]);
        place->record = app->record;
    }
}

/* ---- what a flush makes sure of -------------------------------------------------------------- */

static void note_acknowledged(struct app_surety *surety, uint32_t topic, uint64_t seq)
{
    uint32_t at = 0;
    while (at < surety->count && surety->topics[at] != topic)
        at++;
    must(at < APP_POSITIONS);
    surety->count += at == surety->count;
    surety->topics[at] = topic;
    surety->seqs[at] = seq;
}

/* Of names that it has open, and that it has closed. */
static void note_sureties(const struct app *app, struct app_mark *mark)
{
    for (uint32_t i = 0; i < app->durable_count; i++) {
        const struct app_durable *durable = &app->durables[i];
        mark->sureties[i].drops = durable->drops;
        for (uint32_t j = 0; j < durable->position_count; j++)
            if (durable->positions[j].record == app->record)
                note_acknowledged(&mark->sureties[i], durable->positions[j].topic,
                                  durable->positions[j].next_seq);
    }
    for (int i = 0; i < APP_SUBS; i++) {
        const struct app_sub *sub = app->subs[i];
        for (uint32_t j = 0; sub != NULL && sub->durable >= 0 && j < sub->position_count; j++)
            if (sub->positions[j].is_started)
                note_acknowledged(&mark->sureties[sub->durable], sub->positions[j].topic,
                                  floor_of(sub, &sub->positions[j]));
    }
}

static void take_sureties(struct app *app, const struct app_mark *mark)
{
    for (uint32_t i = 0; i < app->durable_count; i++) {
        const struct app_surety *surety = &mark->sureties[i];
        for (uint32_t j = 0; surety->drops == app->durables[i].drops && j < surety->count; j++) {
            struct app_position *place = place_of(&app->durables[i], surety->topics[j]);
            if (place->sure_seq < surety->seqs[j])
                place->sure_seq = surety->seqs[j];
        }
    }
}

void app_gone(struct app *app)
{
    app->is_running = false;
    for (int i = 0; i < APP_SUBS; i++) {
        if (app->subs[i] != NULL && app->subs[i]->durable >= 0)
            app_durable_leave(app, app->subs[i]);
        if (app->subs[i] != NULL && app->subs[i]->group >= 0)
            crew_parted(app->crew, (uint32_t)app->subs[i]->group, app->record);
        else if (app->subs[i] != NULL)
            coverage_sub(app->subs[i]->durable >= 0, app->subs[i]->is_gap, COVERAGE_ORPHANED);
        app_sub_free(&app->subs[i]);
        app->subs[i] = NULL;
    }
    buffer_unref(&app->last_error);
}

uint32_t app_space(const struct app *app)
{
    return oracle_space(app->job, session_attempt(session_of(app)));
}

bool app_is_up(const struct app *app)
{
    struct session *session = session_of(app);
    return app->is_running && !app->is_leaving && session != NULL && session_is_welcome(session) &&
           session_state(session) != SESSION_OVER;
}

/* ---- what the broker answered ---------------------------------------------------------------- */

static void claim(struct app *app, const char *wrong)
{
    if (wrong != NULL)
        world_violate(app->world, "%s", wrong);
}

/* "type because of type" of an encoded refusal. */
static void refusal_text(char *text, size_t room, struct span error)
{
    static struct error_record records[LIMIT_ERROR_RECORDS];
    uint32_t count = 0;
    if (error_decode(error, records, LIMIT_ERROR_RECORDS, &count) != WIRE_OK || count == 0) {
        (void)snprintf(text, room, "no error object"); /* it has room */
        return;
    }
    int at = snprintf(text, room, "%.*s", (int)records[0].type.bytes,
                      (const char *)records[0].type.data);
    if (records[0].cause_count > 0 && at > 0 && (size_t)at < room) {
        const struct error_record *cause = &records[records[0].causes[0]];
        (void)snprintf(text + at, room - (size_t)at, " because of %.*s by %.*s",
                       (int)cause->type.bytes, (const char *)cause->type.data,
                       (int)cause->party.bytes, (const char *)cause->party.data); /* may be cut */
    }
}

/* Said by the session itself when its party is fenced, about what it was not told of: some of that
 * may have been accepted before. */
static bool refusal_is_fence(struct span error)
{
    static struct error_record records[LIMIT_ERROR_RECORDS];
    uint32_t count = 0;
    return error_decode(error, records, LIMIT_ERROR_RECORDS, &count) == WIRE_OK && count > 0 &&
           span_equal(records[0].type, span_text(ERROR_TYPE_FENCED));
}

static void write_refused(struct app *app, struct app_write *write)
{
    if (write->is_refused || write->is_doubtful)
        return;
    if (write->is_accepted)
        world_violate(app->world, "%s: %s %" PRIu64 " was refused after it was accepted",
                      app->party, oracle_topic_at(app->oracle, write->topic)->name, write->seq);
    write->is_refused = true;
    if (!write->is_plain)
        claim(app,
              oracle_refused(app->oracle, write->topic, write->seq, write->outcome, app->party));
}

static void take_refusals(struct app *app)
{
    struct span name;
    uint64_t seq;
    struct buffer *error = NULL;
    while (session_refusal(session_of(app), &name, &seq, &error)) {
        uint32_t topic = oracle_topic(app->oracle, app_space(app), name);
        app->refused_count += 1;
        if (world_is_telling(app->world)) {
            char text[200];
            refusal_text(text, sizeof text, buffer_span(error));
            world_line(app->world, "%s: %s %" PRIu64 " refused, %s", app->party,
                       oracle_topic_at(app->oracle, topic)->name, seq, text);
        }
        app_request_refused(app, topic, seq);
        bool is_fence = refusal_is_fence(buffer_span(error));
        for (uint32_t i = 0; i < app->write_count; i++)
            if (app->writes[i].topic == topic && app->writes[i].seq == seq) {
                app->writes[i].is_doubtful = app->writes[i].is_doubtful || is_fence;
                write_refused(app, &app->writes[i]);
            }
        buffer_unref(&error);
    }
}

const struct app_told *app_told_of(const struct app *app, struct span name)
{
    for (uint32_t i = 0; i < app->told_count; i++)
        if (span_equal(span_text(app->told[i].name), name))
            return &app->told[i];
    return NULL;
}

/* Each name once in an incarnation.  Of requests that nobody serves nothing is kept. */
static void take_notices(struct app *app)
{
    static struct error_record records[LIMIT_ERROR_RECORDS];
    struct buffer *notice;
    while ((notice = session_notice(session_of(app))) != NULL) {
        uint32_t count = 0;
        enum wire_err err = error_decode(buffer_span(notice), records, LIMIT_ERROR_RECORDS, &count);
        must(err == WIRE_OK && count > 0);
        struct span name = records[0].blames;
        if (records[0].kind != ERROR_NOTICE)
            world_violate(app->world, "%s was given a notice that is a failure", app->party);
        if (span_equal(records[0].type, span_text(ERROR_TYPE_NEVER_JOINED))) {
            if (app_told_of(app, name) != NULL)
                world_violate(app->world, "%s was told twice that %.*s never joined", app->party,
                              (int)name.bytes, (const char *)name.data);
            struct app_told *told = &app->told[app->told_count++];
            told->at_ns = world_now_ns(app->world);
            (void)snprintf(told->name, sizeof told->name, "%.*s", (int)name.bytes,
                           (const char *)name.data); /* it has room */
            world_line(app->world, "%s: told that %s never joined", app->party, told->name);
        }
        buffer_unref(&notice);
    }
}

static void write_accepted(struct app *app, struct app_write *write)
{
    if (write->is_refused || write->is_doubtful)
        return;
    struct oracle_topic *topic = oracle_topic_at(app->oracle, write->topic);
    write->is_accepted = true;
    claim(app, oracle_accepted(app->oracle, write->topic, write->seq, write->outcome, app->party));
    if (topic->accepted_said_ns < write->said_ns)
        topic->accepted_said_ns = write->said_ns;
}

static void sub_joined(struct app *app, struct app_sub *sub)
{
    sub->joined_ns = world_now_ns(app->world);
    if (sub->group >= 0 && !sub->is_denied)
        crew_joined(app->crew, (uint32_t)sub->group, app->record, sub->joined_ns);
}

/* As far as can be told without a look: a member that was refused is told when it takes, as it is
 * of a task.  Then the next flush says so. */
static bool is_in_force(const struct app *app, const struct app_sub *sub)
{
    return sub->group < 0 || !session_sub_is_readable(session_of(app), sub->number);
}

static void take_marks(struct app *app)
{
    struct session *session = session_of(app);
    while (app->mark_count > 0 && session_mark_reached(session, app->marks[0].mark)) {
        struct app_mark mark = app->marks[0];
        app->mark_count -= 1;
        memmove(app->marks, app->marks + 1, app->mark_count * sizeof app->marks[0]);
        /* An end answers everything, but accepts nothing. */
        if (session_state(session) == SESSION_OVER)
            continue;
        world_line(app->world, "%s: flushed", app->party);
        for (; app->accepted_count < mark.writes; app->accepted_count++)
            write_accepted(app, &app->writes[app->accepted_count]);
        app_sayings_accept(app, mark.sayings);
        take_sureties(app, &mark);
        for (int i = 0; i < APP_SUBS; i++)
            if (app->subs[i] != NULL && app->subs[i]->joined_ns == INT64_MAX &&
                app->subs[i]->said_ns <= mark.said_ns && is_in_force(app, app->subs[i]))
                sub_joined(app, app->subs[i]);
    }
}

static void result_came(struct app *app, const struct app_result *result, enum wire_code code,
                        struct buffer *error)
{
    char text[200] = "";
    if (world_is_telling(app->world) && error != NULL && error->bytes > 0)
        refusal_text(text, sizeof text, buffer_span(error));
    if (result->is_complete) {
        app->is_completed = code == CODE_OK;
        world_line(app->world, "%s: completed, %s%s%s", app->party, trace_code(code),
                   text[0] != 0 ? " " : "", text);
        return;
    }
    world_line(app->world, "%s: %s %" PRIu64 " %s%s%s%s", app->party,
               oracle_topic_at(app->oracle, result->topic)->name, result->seq,
               code == CODE_OK ? "retracted" : "not retracted, ",
               code == CODE_OK ? "" : trace_code(code), text[0] != 0 ? " " : "", text);
    if (code == CODE_OK)
        claim(app, oracle_retracted(app->oracle, result->topic, result->seq, result->error,
                                    result->value, app->party));
    else
        claim(app,
              oracle_refused(app->oracle, result->topic, result->seq, result->error, app->party));
}

static void take_results(struct app *app)
{
    for (uint32_t i = 0; i < app->result_count;) {
        struct buffer *error = NULL;
        enum wire_code code = session_result(session_of(app), app->results[i].number, &error);
        if (code == CODE_ETIMEDOUT ||
            (session_state(session_of(app)) == SESSION_OVER && code != CODE_OK)) {
            buffer_unref(&error);
            i++;
            continue;
        }
        struct app_result result = app->results[i];
        app->results[i] = app->results[--app->result_count];
        result_came(app, &result, code, error);
        buffer_unref(&error);
    }
}

void app_look(struct app *app)
{
    struct session *session = session_of(app);
    struct oracle_record *record = oracle_record_at(app->oracle, app->record);
    if (record->incarnation == 0 && session_incarnation(session) != 0) {
        oracle_record_named(app->oracle, app->record, session_incarnation(session));
        record->attempt = session_attempt(session);
        app->up_ns = world_now_ns(app->world);
        world_line(app->world, "%s: up, incarnation %" PRIu32, app->party, record->incarnation);
    }
    take_refusals(app);
    take_notices(app);
    take_results(app);
    take_marks(app);
    app_wants_take(app);
}

/* ---- writing --------------------------------------------------------------------------------- */

struct app_topic *app_topic_get(struct app *app, const char *name)
{
    uint32_t known = oracle_topic(app->oracle, app_space(app), span_text(name));
    for (uint32_t i = 0; i < app->topic_count; i++)
        if (app->topics[i].topic == known)
            return &app->topics[i];
    if (app->topic_count == APP_TOPICS)
        return NULL;
    struct app_topic *topic = &app->topics[app->topic_count];
    *topic = (struct app_topic){.topic = known};
    if (session_topic(session_of(app), span_text(name), &topic->number) != CODE_OK)
        return NULL;
    app->topic_count += 1;
    return topic;
}

static void write_add(struct app *app, uint32_t topic, uint64_t seq, struct outcome outcome,
                      bool is_plain)
{
    must(app->write_count < APP_WRITES);
    app->writes[app->write_count++] = (struct app_write){.topic = topic,
                                                         .seq = seq,
                                                         .outcome = outcome,
                                                         .said_ns = world_now_ns(app->world),
                                                         .is_plain = is_plain};
}

void app_value_said(struct app *app, uint32_t topic, uint64_t seq, struct span value)
{
    oracle_said(app->oracle, app->record, topic, seq, value, world_now_ns(app->world));
    write_add(app, topic, seq, outcome_of_value(value), value.bytes < 8);
}

enum wire_code app_publish(struct app *app, const char *name, const struct span *values,
                           size_t count)
{
    uint64_t first_seq = 0;
    struct app_topic *topic = app_topic_get(app, name);
    if (topic == NULL || app->write_count + count > APP_WRITES)
        return CODE_EFULL;
    enum wire_code code =
        session_publish(session_of(app), host_ns(app), topic->number, values, count, &first_seq);
    if (code != CODE_OK)
        return code;
    if (first_seq < topic->next_seq)
        world_violate(app->world, "%s: %s %" PRIu64 " was published twice", app->party, name,
                      first_seq);
    topic->next_seq = first_seq + count;
    for (size_t i = 0; i < count; i++)
        app_value_said(app, topic->topic, first_seq + i, values[i]);
    return CODE_OK;
}

static enum wire_code reserve(struct app *app, const char *name,
                              const struct session_reservation *reservation)
{
    uint64_t reserved = 0;
    int64_t seq = reservation->seq;
    int64_t deadline_ms = reservation->deadline_ms;
    struct app_topic *topic = app_topic_get(app, name);
    if (topic == NULL || app->slot_count == APP_SLOTS)
        return CODE_EFULL;
    enum wire_code code =
        session_reserve_with(session_of(app), host_ns(app), topic->number, reservation, &reserved);
    if (code != CODE_OK)
        return code;
    if (reserved < topic->next_seq || (seq >= 0 && reserved != (uint64_t)seq))
        world_violate(app->world, "%s: %s %" PRIu64 " was reserved twice", app->party, name,
                      reserved);
    topic->next_seq = reserved + 1;
    app->slots[app->slot_count++] = (struct app_slot){
        .topic = (uint32_t)(topic - app->topics),
        .seq = reserved,
        .value_bytes_max = reservation->value_bytes_max,
        .ends_ns = deadline_ms < 0 ? INT64_MAX : world_now_ns(app->world) + deadline_ms * WORLD_MS};
    for (size_t i = 0; i < reservation->need_count; i++)
        oracle_needs(app->oracle, app->record, topic->topic, reserved,
                     oracle_topic(app->oracle, app_space(app), reservation->needs[i].topic),
                     reservation->needs[i].seq);
    return CODE_OK;
}

enum wire_code app_reserve(struct app *app, const char *name, int64_t seq, int64_t deadline_ms,
                           size_t value_bytes_max)
{
    return reserve(app, name,
                   &(struct session_reservation){
                       .seq = seq, .deadline_ms = deadline_ms, .value_bytes_max = value_bytes_max});
}

enum wire_code app_reserve_needing(struct app *app, const char *name, int64_t deadline_ms,
                                   const struct app_need *needs, uint32_t count)
{
    struct frame_need all[APP_NEEDS];
    must(count <= APP_NEEDS);
    for (uint32_t i = 0; i < count; i++)
        all[i] = (struct frame_need){span_text(needs[i].name), needs[i].seq};
    return reserve(app, name,
                   &(struct session_reservation){
                       .seq = -1, .deadline_ms = deadline_ms, .needs = all, .need_count = count});
}

int app_slot_find(const struct app *app, const char *name, uint64_t seq)
{
    uint32_t known = oracle_topic(app->oracle, app_space(app), span_text(name));
    for (uint32_t i = 0; i < app->slot_count; i++)
        if (app->topics[app->slots[i].topic].topic == known && app->slots[i].seq == seq)
            return (int)i;
    return -1;
}

enum wire_code app_commit(struct app *app, uint32_t index, struct span value, bool is_owned)
{
    struct app_slot slot = app->slots[index];
    const struct app_topic *topic = &app->topics[slot.topic];
    if (app->write_count == APP_WRITES)
        return CODE_EFULL;
    enum wire_code code;
    if (is_owned) {
        struct buffer *buffer = buffer_copy(value);
        must(buffer != NULL);
        code =
            session_commit_owned(session_of(app), host_ns(app), topic->number, slot.seq, &buffer);
        buffer_unref(&buffer);
    } else {
        code = session_commit(session_of(app), host_ns(app), topic->number, slot.seq, value);
    }
    if (code == CODE_OK)
        app_value_said(app, topic->topic, slot.seq, value);
    if (code == CODE_OK || code == CODE_ESETTLED)
        app->slots[index] = app->slots[--app->slot_count];
    return code;
}

enum wire_code app_commit_again(struct app *app, uint32_t index, struct span value)
{
    struct app_write *first = &app->writes[index];
    const struct app_topic *topic = NULL;
    for (uint32_t i = 0; i < app->topic_count; i++)
        if (app->topics[i].topic == first->topic)
            topic = &app->topics[i];
    if (topic == NULL || app->write_count == APP_WRITES)
        return CODE_EFULL;
    enum wire_code code =
        session_commit(session_of(app), host_ns(app), topic->number, first->seq, value);
    if (code != CODE_OK)
        return code;
    /* A refusal names the slot: which of the two it means is not known. */
    if (!first->is_accepted && !first->is_refused)
        first->is_doubtful = true;
    app_value_said(app, topic->topic, first->seq, value);
    app->writes[app->write_count - 1].is_doubtful = true;
    return CODE_OK;
}

/* Over connections of its own; without waiting for an answer, for it is one piece. */
static void bring_output(struct app *app, const struct words_said *said)
{
    if (said->attached_to.bytes == 0)
        return;
    const struct msg_bring bring = {.request = 3,
                                    .job = span_text(app->job_name),
                                    .error = said->attached_to,
                                    .name = span_text(said->name),
                                    .promised = said->output.bytes};
    app->brought_count += world_bring(app->world, app->job, &bring, said->output);
}

/* One with secrets in it, as the library would tell it. */
static struct outcome error_plant(struct app *app, uint32_t topic, uint64_t seq, bool with_cause,
                                  uint8_t *out, size_t *out_bytes)
{
    struct words_said said;
    struct words words = {.session = session_of(app),
                          .job = app->job_name,
                          .party = app->party,
                          .owner = app->owner,
                          .now_ns = host_ns(app),
                          .lot = (uint64_t)world_now_ns(app->world) / 1000 + app->host,
                          .seq = seq};
    if (with_cause && app->last_error != NULL)
        words.cause = buffer_span(app->last_error);
    if (topic != UINT32_MAX)
        words.topic = oracle_topic_at(app->oracle, topic)->name;
    if (app->owner.is_old)
        words_forget_job(session_of(app));
    words_say(&words, &said);
    memcpy(out, said.error.data, said.error.bytes);
    *out_bytes = said.error.bytes;
    bring_output(app, &said);
    return outcome_of_error(said.id);
}

/* An error of this party's own, with an id; gives its bytes in out. */
struct outcome app_error_make(struct app *app, const char *type, const char *message,
                              uint32_t topic, uint64_t seq, bool with_cause, uint8_t *out,
                              size_t *out_bytes)
{
    static struct error_record records[LIMIT_ERROR_RECORDS];
    static char id[LIMIT_ERROR_ID_BYTES];
    struct session *session = session_of(app);
    uint32_t count = 0;
    if (app->has_secrets)
        return error_plant(app, topic, seq, with_cause, out, out_bytes);
    error_record_init(&records[0]);
    if (with_cause && app->last_error != NULL) {
        enum wire_err err = error_decode(buffer_span(app->last_error), records + 1,
                                         LIMIT_ERROR_RECORDS - 1, &count);
        must(err == WIRE_OK);
        for (uint32_t i = 1; i <= count; i++)
            for (uint32_t j = 0; j < records[i].cause_count; j++)
                records[i].causes[j] += 1;
        records[0].cause_count = 1;
        records[0].causes[0] = 1;
    }
    size_t id_bytes = session_error_id(session, id, sizeof id);
    records[0].id = span_of(id, id_bytes);
    records[0].job = span_text(app->job_name);
    records[0].attempt = session_attempt(session);
    records[0].party = span_text(app->party);
    records[0].incarnation = session_incarnation(session);
    records[0].kind = count > 0 ? ERROR_DEPENDENCY : ERROR_APPLICATION;
    records[0].type = span_text(type);
    records[0].message = span_text(message);
    if (topic != UINT32_MAX) {
        records[0].topic = span_text(oracle_topic_at(app->oracle, topic)->name);
        records[0].seq = seq;
    }
    enum wire_err err = error_encode(records, count + 1, out, LIMIT_ERROR_BYTES, out_bytes);
    must(err == WIRE_OK);
    return outcome_of_error(records[0].id);
}

static uint8_t error_bytes[LIMIT_ERROR_BYTES];

void app_fail(struct app *app, uint32_t index, const char *type, const char *message,
              bool with_cause)
{
    size_t bytes = 0;
    struct app_slot slot = app->slots[index];
    const struct app_topic *topic = &app->topics[slot.topic];
    if (app->write_count == APP_WRITES)
        return;
    struct outcome outcome =
        app_error_make(app, type, message, topic->topic, slot.seq, with_cause, error_bytes, &bytes);
    session_fail(session_of(app), host_ns(app), topic->number, slot.seq,
                 span_of(error_bytes, bytes));
    write_add(app, topic->topic, slot.seq, outcome, false);
    app->slots[index] = app->slots[--app->slot_count];
}

enum wire_code app_retract(struct app *app, const char *name, uint64_t seq, const char *type)
{
    size_t bytes = 0;
    struct app_topic *topic = app_topic_get(app, name);
    if (topic == NULL || app->result_count == APP_RESULTS)
        return CODE_EFULL;
    struct app_result result = {.topic = topic->topic, .seq = seq};
    result.error =
        app_error_make(app, type, "taken back", topic->topic, seq, false, error_bytes, &bytes);
    enum wire_code code = session_retract(session_of(app), topic->number, seq,
                                          span_of(error_bytes, bytes), &result.number);
    if (code != CODE_OK)
        return code;
    for (uint32_t i = 0; i < app->write_count; i++) {
        struct app_write *write = &app->writes[i];
        if (write->topic != topic->topic || write->seq != seq)
            continue;
        if (!write->is_plain && !write->is_refused && write->outcome.kind == OUTCOME_VALUE)
            result.value = write->outcome;
        write->is_doubtful = true;
    }
    int slot = app_slot_find(app, name, seq);
    if (slot >= 0)
        app->slots[slot] = app->slots[--app->slot_count];
    oracle_doubted(app->oracle, topic->topic, seq);
    app->results[app->result_count++] = result;
    return CODE_OK;
}

void app_flush(struct app *app)
{
    if (app->mark_count == APP_MARKS)
        return;
    app->marks[app->mark_count++] =
        (struct app_mark){.mark = session_mark(session_of(app)),
                          .writes = app->write_count,
                          .sayings = app->saying_first + app->saying_count,
                          .said_ns = world_now_ns(app->world)};
    note_sureties(app, &app->marks[app->mark_count - 1]);
}

enum wire_code app_complete(struct app *app)
{
    struct app_result result = {.is_complete = true};
    if (app->result_count == APP_RESULTS)
        return CODE_EFULL;
    enum wire_code code = session_complete(session_of(app), &result.number);
    if (code == CODE_OK)
        app->results[app->result_count++] = result;
    return code;
}

void app_leave(struct app *app)
{
    session_leave(session_of(app));
    app->is_leaving = true;
}

void app_fail_party(struct app *app, const char *type)
{
    size_t bytes = 0;
    (void)app_error_make(app, type, "cannot go on", UINT32_MAX, 0, false, error_bytes, &bytes);
    session_fail_party(session_of(app), span_of(error_bytes, bytes));
    app->is_leaving = true;
}
