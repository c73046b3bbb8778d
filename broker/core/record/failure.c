/* SPDX-License-Identifier: MPL-2.0 */
/* failure.c -- error objects: made by the broker, taken over from clients, shared by count.
 *
 * An error is encoded once; slots, events, ends and refusals refer to it.  An error without
 * references is freed at the beginning of the next step, since effects of this one may point to it.
 * A party gives its own errors odd numbers, the broker gives errors about the party even ones.  So
 * both can give an id at once, and no two failures share one. */
#include "broker/core/record/failure.h"

#include "broker/core/record/attachment.h"
#include "broker/core/record/auditor.h"
#include "broker/core/record/authors.h"
#include "broker/core/record/count.h"
#include "broker/core/record/note.h"
#include "broker/core/record/tell.h"
#include "broker/core/record/text.h"
#include "broker/core/tables/storms.h"
#include "broker/core/tables/verdict.h"
#include "libbus/wire/chain.h"
#include "libbus/wire/disclosure.h"

#include <string.h>

/* Bytes for all causes together.  The error itself and its names have room besides. */
#define CAUSES_BYTES_MAX (LIMIT_ERROR_BYTES - 2 * LIMIT_ERROR_MESSAGE_BYTES)

/* Used when memory for the real failure is short.  It is never counted and never freed. */
static struct failure *no_memory(struct core *core)
{
    struct failure *failure = pool_find(&core->failures, 1);
    must(failure != NULL); /* failure_keep_spare(), in core_new() */
    return failure_ref(failure);
}

bool failure_is_spare(const struct core *core, const struct failure *failure)
{
    return failure == pool_find(&core->failures, 1);
}

/* Wraps scratch_bytes as a failure of one reference; NULL: no memory. */
static struct failure *wrap(struct core *core, size_t byte_count, const struct error_record *head)
{
    struct failure *failure = pool_take(&core->failures);
    if (failure == NULL)
        return NULL;
    failure->bytes = memory_take(core->memory, byte_count);
    if (failure->bytes == NULL) {
        pool_give(&core->failures, failure);
        return NULL;
    }
    memcpy(failure->bytes, core->scratch_bytes, byte_count);
    failure->byte_count = (uint32_t)byte_count;
    failure->refs = 1;
    failure->kind = (enum error_kind)head->kind;
    list_init(&failure->unused_link);
    uint32_t count = 0;
    enum wire_err err =
        error_decode(failure_span(failure), core->scratch, LIMIT_ERROR_RECORDS, &count);
    must(err == WIRE_OK && count > 0); /* we encoded it ourselves */
    struct span id = core->scratch[0].id;
    failure->id_bytes = (uint32_t)id.bytes;
    failure->id_at = id.bytes > 0 ? (uint32_t)((const uint8_t *)id.data - failure->bytes) : 0;
    struct span type = core->scratch[0].type;
    failure->type_bytes = (uint32_t)type.bytes;
    failure->type_at = type.bytes > 0 ? (uint32_t)((const uint8_t *)type.data - failure->bytes) : 0;
    if (!authors_know(core, failure)) {
        memory_give(core->memory, failure->bytes, byte_count);
        pool_give(&core->failures, failure);
        return NULL;
    }
    return failure;
}

/* Copies the records of cause behind the first `used` of those being put together, and adds them to
 * the causes of record 0.  Returns the number of records used then.  A cause without room for all
 * of its records is left out: its own causes would lead to what is not there. */
static uint32_t append_cause(struct core *core, const struct failure *cause, uint32_t used)
{
    struct error_record *records = core->joined;
    uint32_t count = 0;
    if (cause == NULL)
        return used;
    if (records[0].cause_count == LIMIT_ERROR_CAUSES || AUTHORS_ROOM - used < LIMIT_ERROR_RECORDS ||
        error_decode(failure_span(cause), records + used, LIMIT_ERROR_RECORDS, &count) != WIRE_OK) {
        records[0].left_out += 1;
        return used;
    }
    for (uint32_t i = used; i < used + count; i++)
        for (uint32_t k = 0; k < records[i].cause_count; k++)
            records[i].causes[k] += used;
    records[0].causes[records[0].cause_count++] = used;
    return used + count;
}

/* All of them, but the last ones if they are too long together. */
static uint32_t append_causes(struct core *core, const struct failure_spec *spec)
{
    uint64_t bytes = spec->cause != NULL ? spec->cause->byte_count : 0;
    uint32_t used = append_cause(core, spec->cause, 1);
    for (uint32_t i = 0; i < spec->cause_count; i++) {
        bytes += spec->causes[i]->byte_count;
        if (bytes <= CAUSES_BYTES_MAX)
            used = append_cause(core, spec->causes[i], used);
        else
            core->joined[0].left_out += 1;
    }
    return used;
}

static void text_id(struct text *text, const struct failure_spec *spec, uint64_t number)
{
    text_init(text);
    text_add_span(text, spec->job->name);
    text_add(text, "/");
    if (spec->party != NULL)
        text_add_span(text, spec->party->name);
    text_add(text, "/");
    text_add_number(text, spec->party != NULL ? spec->party->incarnation : 0);
    text_add(text, "/");
    text_add_number(text, number);
}

enum { ERROR_NUMBERS_AHEAD = 64 };

/* The number of the broker's next error about this party.  Facts name numbers in advance, so no
 * number is given twice over a restart, also when no fact tells of the error. */
static uint64_t next_number(struct core *core, struct party *party)
{
    party->error_count += 1;
    if (party->error_count > party->error_limit) {
        party->error_limit = party->error_count + ERROR_NUMBERS_AHEAD - 1;
        note_error_numbers(core, party);
    }
    return 2 * party->error_count;
}

/* Adds the place of the process that failed, and the time by the wall clock. */
static void put_origin(const struct core *core, const struct failure_spec *spec,
                       struct error_record *head)
{
    const struct session *session = spec->session;
    if (session == NULL && spec->party != NULL && !spec->is_brokers)
        session = party_any_session(spec->party);
    if (session != NULL && spec->job->spec.disclosure < DISCLOSURE_TYPE) {
        head->host = session->host;
        head->pid = session->pid;
    }
    if (session != NULL && spec->job->spec.disclosure < DISCLOSURE_NONE)
        head->trace_id = session->trace_id;
    head->origin = ORIGIN_SYSTEM;
    head->occurred_ns = spec->occurred_ns != 0 ? spec->occurred_ns : core->now_ns;
    head->uncertainty_ns = spec->uncertainty_ns;
    head->wall_ns = core->wall_ns - (core->now_ns - head->occurred_ns);
}

/* NULL: no memory. */
static struct failure *make(struct core *core, const struct failure_spec *spec)
{
    struct text id;
    uint64_t number = 0;
    if (spec->party != NULL)
        number = next_number(core, spec->party);
    else
        number = ++spec->job->error_count;
    text_id(&id, spec, number);
    struct error_record *head = &core->joined[0];
    error_record_init(head);
    uint32_t count = append_causes(core, spec);
    head->id = span_of(id.data, id.bytes);
    head->job = spec->job->name;
    head->attempt = spec->job->attempt;
    if (spec->party != NULL && !spec->is_brokers) {
        head->party = spec->party->name;
        head->incarnation = spec->party->incarnation;
    }
    head->kind = spec->kind;
    head->type = span_text(spec->type);
    head->message = span_text(spec->message);
    put_origin(core, spec, head);
    if (spec->topic != NULL) {
        head->topic = spec->topic->name;
        head->seq = spec->seq;
    }
    head->blames = spec->blame;
    size_t bytes;
    if (error_encode(core->joined, count, core->scratch_bytes, LIMIT_ERROR_BYTES, &bytes) !=
        WIRE_OK)
        return NULL;
    return wrap(core, bytes, head);
}

struct failure *failure_make(struct core *core, const struct failure_spec *spec)
{
    struct failure *failure = make(core, spec);
    count_error(core, spec->job, spec->kind);
    return failure != NULL ? failure : no_memory(core);
}

struct failure *failure_of_rejection(struct core *core, const struct session *session,
                                     const char *type, const char *message, struct topic *topic,
                                     uint64_t seq)
{
    return failure_make(core, &(struct failure_spec){.job = session->job,
                                                     .party = session->party,
                                                     .kind = ERROR_REJECTED,
                                                     .type = type,
                                                     .message = message,
                                                     .topic = topic,
                                                     .seq = seq});
}

struct failure *failure_of_answer(struct core *core, const struct session *session,
                                  enum wire_code code, const char *type, const char *message)
{
    return code == CODE_OK ? NULL : failure_of_rejection(core, session, type, message, NULL, 0);
}

bool failure_keep_spare(struct core *core)
{
    struct job nobody = {.name = span_text("-"), .attempt = 0};
    must(core->now_ns == 0 && core->wall_ns == 0); /* no stamp: all cores have the same */
    struct failure *failure =
        make(core, &(struct failure_spec){.job = &nobody,
                                          .kind = ERROR_REJECTED,
                                          .type = ERROR_TYPE_NO_MEMORY,
                                          .message = "the broker is short of memory"});
    if (failure != NULL)
        failure->number = ++core->failure_number; /* every core has it: no fact makes it */
    return failure != NULL;
}

/* Bytes that are no error: the slot fails all the same, with this one. */
static struct failure *unreadable(struct core *core, struct session *session, struct topic *topic,
                                  uint64_t seq)
{
    return failure_make(
        core, &(struct failure_spec){.job = session->job,
                                     .party = session->party,
                                     .kind = ERROR_APPLICATION,
                                     .type = ERROR_TYPE_PROTOCOL,
                                     .message = "the party failed; its error could not be read",
                                     .topic = topic,
                                     .seq = seq});
}

void failure_refuse(struct core *core, struct session *session, struct failure *failure)
{
    count_refusal(core, ERROR_TYPE_PROTOCOL);
    tell_like(core, session->job, STORM_REFUSED,
              &(struct tell){.name = EVENT_REFUSED,
                             .party = session->party,
                             .incarnation = session->incarnation,
                             .text = "an error object that could not be read",
                             .failure = failure});
}

/* Announces the attachments of the error, and those of its causes. */
static void take_attachments(struct core *core, const struct author *author,
                             const struct error_record *records, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (records[i].attachments.bytes > 0 && records[i].incarnation == author->incarnation &&
            authors_is_own(author, records[i].id))
            attach_take(core, author->party->job, &records[i]);
}

/* Takes the error in the scratch, whose head is the author's own.  NULL: it has no room. */
static struct failure *take(struct core *core, const struct author *author, uint32_t count)
{
    size_t bytes;
    struct error_record *head = &core->scratch[0];
    disclosure_apply(auditor_disclosure(author->party->job), head);
    authors_sign(author, head);
    if (head->occurred_ns == 0)
        head->occurred_ns = core->now_ns;
    const struct error_record *records = authors_check(core, author, &count);
    if (error_encode(records, count, core->scratch_bytes, LIMIT_ERROR_BYTES, &bytes) != WIRE_OK)
        return NULL;
    take_attachments(core, author, records, count);
    count_error(core, author->party->job, records->kind);
    struct failure *failure = wrap(core, bytes, records);
    return failure != NULL ? failure : no_memory(core);
}

struct failure *failure_take(struct core *core, struct session *session, struct span bytes,
                             struct topic *topic, uint64_t seq, bool *out_is_readable)
{
    struct author author = {session->party, session->incarnation, session->job->attempt};
    struct error_record *head = &core->scratch[0];
    uint32_t count = 0;
    struct text id;
    *out_is_readable = false;
    if (error_decode(bytes, core->scratch, LIMIT_ERROR_RECORDS, &count) != WIRE_OK || count == 0)
        return unreadable(core, session, topic, seq);
    if (!authors_is_own(&author, head->id)) {
        text_id(&id, &(struct failure_spec){.job = session->job, .party = session->party},
                next_number(core, session->party));
        head->id = span_of(id.data, id.bytes);
    }
    if (head->topic.bytes == 0 && topic != NULL) {
        head->topic = topic->name;
        head->seq = seq;
    }
    struct failure *failure = take(core, &author, count);
    if (failure == NULL)
        return unreadable(core, session, topic, seq);
    *out_is_readable = true;
    return failure;
}

struct failure *failure_take_late(struct core *core, struct party *party, uint32_t incarnation,
                                  uint32_t attempt, struct span bytes)
{
    struct author author = {party, incarnation, attempt};
    uint32_t count = 0;
    if (error_decode(bytes, core->scratch, LIMIT_ERROR_RECORDS, &count) != WIRE_OK || count == 0 ||
        !authors_is_own(&author, core->scratch[0].id)) {
        count_refusal(core, ERROR_TYPE_PROTOCOL);
        return NULL;
    }
    return take(core, &author, count);
}

struct failure *failure_restore(struct core *core, struct span bytes)
{
    uint32_t count = 0;
    if (bytes.bytes > LIMIT_ERROR_BYTES ||
        error_decode(bytes, core->scratch, LIMIT_ERROR_RECORDS, &count) != WIRE_OK || count == 0)
        return NULL;
    memcpy(core->scratch_bytes, bytes.data, bytes.bytes);
    return wrap(core, bytes.bytes, &core->scratch[0]);
}

/* The number of an error about a job, as text_id() made its id; 0: it is another error. */
static uint64_t number_about_job(struct span job, const struct error_record *head)
{
    static const char middle[] = "//0/";
    size_t before = job.bytes + sizeof middle - 1;
    const char *id = head->id.data;
    uint64_t number = 0;
    if (head->party.bytes > 0 || head->id.bytes <= before || memcmp(id, job.data, job.bytes) != 0 ||
        memcmp(id + job.bytes, middle, sizeof middle - 1) != 0)
        return 0;
    for (size_t i = before; i < head->id.bytes; i++) {
        if (id[i] < '0' || id[i] > '9' || number > UINT32_MAX)
            return 0; /* so many errors no job has */
        number = 10 * number + (uint64_t)(id[i] - '0');
    }
    return number;
}

void failure_resume_numbers(struct core *core)
{
    struct error_record *records = core->scratch;
    const struct failure *failure = NULL;
    uint32_t count = 0;
    uint32_t id;
    while ((failure = pool_next(&core->failures, failure != NULL ? failure->id : 0)) != NULL) {
        if (error_decode(failure_span(failure), records, LIMIT_ERROR_RECORDS, &count) != WIRE_OK ||
            count == 0 || !name_map_get(&core->job_names, records[0].job, &id))
            continue;
        struct job *job = pool_find(&core->jobs, id);
        uint64_t number = number_about_job(job->name, &records[0]);
        if (job->error_count < number)
            job->error_count = number;
    }
}

struct failure *failure_extract(struct core *core, const struct failure *failure, struct span id)
{
    struct error_record *records = core->scratch;
    uint32_t count = 0;
    uint32_t head = 0;
    size_t bytes;
    if (error_decode(failure_span(failure), records, LIMIT_ERROR_RECORDS, &count) != WIRE_OK)
        return NULL;
    while (head < count &&
           (records[head].claimed_by.bytes > 0 || !span_equal(records[head].id, id)))
        head += 1;
    if (head == count)
        return NULL;
    for (uint32_t i = head; i < count; i++)
        for (uint32_t k = 0; k < records[i].cause_count; k++)
            records[i].causes[k] -= head;
    records += head;
    count = chain_trim(records, count - head);
    if (error_encode(records, count, core->scratch_bytes, LIMIT_ERROR_BYTES, &bytes) != WIRE_OK)
        return NULL;
    return wrap(core, bytes, &records[0]);
}

struct failure *failure_shorten(struct core *core, struct failure *failure)
{
    struct error_record *head = &core->scratch[0];
    struct failure *shorter = NULL;
    uint32_t count = 0;
    size_t bytes;
    enum wire_err err =
        error_decode(failure_span(failure), core->scratch, LIMIT_ERROR_RECORDS, &count);
    must(err == WIRE_OK && count > 0); /* we encoded it ourselves */
    head->message = span_text("its details are left out: its job, or who wrote it, keeps all the "
                              "bytes that it may");
    head->stacktrace = SPAN_NONE;
    head->attachments = SPAN_NONE;
    head->sealed = SPAN_NONE;
    head->more_blame_count = 0;
    head->left_out += count - 1;
    head->cause_count = 0;
    if (error_encode(head, 1, core->scratch_bytes, LIMIT_ERROR_BYTES, &bytes) == WIRE_OK)
        shorter = wrap(core, bytes, head);
    failure_unref(core, failure);
    return shorter != NULL ? shorter : no_memory(core);
}

struct failure *failure_recall(struct core *core, const struct job *job,
                               const struct verdict_error *error)
{
    struct error_record record;
    size_t bytes;
    error_record_init(&record);
    record.id = error->id;
    record.job = job->name;
    record.attempt = error->attempt;
    record.party = error->party;
    record.incarnation = error->incarnation;
    record.kind = error->kind;
    record.type = span_text(ERROR_TYPE_NOT_KEPT);
    record.message = span_text("its details are no longer kept");
    record.code = error->code;
    record.recoverable = error->recoverable;
    record.origin = error->origin;
    record.occurred_ns = error->occurred_ns;
    record.uncertainty_ns = error->uncertainty_ns;
    struct failure *failure = NULL;
    if (error_encode(&record, 1, core->scratch_bytes, LIMIT_ERROR_BYTES, &bytes) == WIRE_OK)
        failure = wrap(core, bytes, &record);
    return failure != NULL ? failure : no_memory(core);
}

struct failure *failure_ref(struct failure *failure)
{
    if (failure != NULL)
        failure->refs += 1;
    return failure;
}

void failure_unref(struct core *core, struct failure *failure)
{
    if (failure == NULL)
        return;
    must(failure->refs > 0);
    failure->refs -= 1;
    if (failure->refs == 0)
        list_push(&core->unused_failures, &failure->unused_link);
}

void failure_free_unused(struct core *core)
{
    LIST_EACH(link, &core->unused_failures) {
        struct failure *failure = LIST_OWNER(link, struct failure, unused_link);
        list_remove(link);
        if (failure->refs > 0)
            continue; /* somebody took it up again */
        note_failure_forgotten(core, failure);
        authors_forget(core, failure);
        memory_give(core->memory, failure->bytes, failure->byte_count);
        pool_give(&core->failures, failure);
    }
}

void failure_forget_replayed(struct core *core)
{
    for (uint32_t i = 0; i < core->replayed.room; i++)
        if (core->replayed.entries[i].is_used)
            failure_unref(core, pool_find(&core->failures, core->replayed.entries[i].value));
    id_map_fini(&core->replayed);
}

void failure_forget_fallen(struct core *core)
{
    for (uint32_t i = 0; i < core->fallen_at && i < FALLEN_KEPT; i++) {
        failure_unref(core, core->fallen[i].root);
        failure_unref(core, core->fallen[i].failure);
        core->fallen[i] = (struct fallen){0};
    }
    core->fallen_at = 0; /* none of them is used */
}
