/* SPDX-License-Identifier: MPL-2.0 */
/* error_wire.c -- bus_error objects from the wire and onto it, and the identity the bus gives them.
 *
 * The wire takes flat records, each before its causes, and leaves out what has no room
 * (libbus/wire/error.h); here a graph becomes records, and records become a graph again. */
#include "libbus/api/error_wire.h"

#include "libbus/api/attach_jobs.h"
#include "libbus/api/attachment_list.h"
#include "libbus/api/clock.h"
#include "libbus/api/error.h"
#include "libbus/api/error_fields.h"
#include "libbus/api/error_walk.h"
#include "libbus/api/model.h"
#include "libbus/api/sealing.h"
#include "libbus/base/must.h"
#include "libbus/base/utf8.h"
#include "libbus/session/session_disclosure.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- identity -------------------------------------------------------------------------------- */

static struct error_identity *identity_new(const struct error_record *record)
{
    size_t texts = record->id.bytes + record->job.bytes + record->party.bytes + record->host.bytes +
                   record->topic.bytes + record->claimed_by.bytes + 6;
    struct error_identity *identity = malloc(sizeof *identity + texts);
    if (identity == NULL)
        return NULL;
    char *at = (char *)(identity + 1);
    *identity = (struct error_identity){
        .seq = record->seq,
        .attempt = record->attempt,
        .incarnation = record->incarnation,
        .pid = record->pid,
        .occurred_ns = record->occurred_ns,
        .uncertainty_ns = record->uncertainty_ns,
        .wall_ns = record->wall_ns,
    };
    identity->id = api_place(&at, record->id);
    identity->job = api_place(&at, record->job);
    identity->party = api_place(&at, record->party);
    identity->host = api_place(&at, record->host);
    identity->claimed_by = api_place(&at, record->claimed_by);
    identity->topic = record->topic.bytes > 0 ? api_place(&at, record->topic) : NULL;
    return identity;
}

/* A time before this process began was not measured by its clock.  The system counts that beginning
 * in ticks, which may be a tenth of a second long. */
static bool is_of_another_clock(const struct bus *bus, const struct bus_error *error)
{
    const int64_t tick_ns = 100000000;
    int64_t slack_ns =
        tick_ns + (error->made_uncertainty_ns < INT64_MAX / 2 ? (int64_t)error->made_uncertainty_ns
                                                              : INT64_MAX / 2);
    return error->made_ns < bus->process_began_ns - slack_ns;
}

static void stamp_one(struct bus *bus, struct bus_error *error, const char *topic, uint64_t seq)
{
    char id[LIMIT_ERROR_ID_BYTES];
    char host[LIMIT_NAME_BYTES + 1] = "";
    struct error_record record;
    if (error->is_static || atomic_load_explicit(&error->identity, memory_order_acquire) != NULL)
        return;
    (void)gethostname(host, sizeof host - 1); /* without a name there is none */
    host[utf8_cut(host, strlen(host))] = '\0';
    error_record_init(&record);
    record.id = span_of(id, session_error_id(bus->session, id, sizeof id));
    record.job = span_text(bus->job);
    record.party = span_text(bus->party);
    record.host = utf8_is_valid(span_text(host)) ? span_text(host) : SPAN_NONE;
    record.topic = span_text(topic);
    record.seq = seq;
    record.attempt = session_attempt(bus->session);
    record.incarnation = session_incarnation(bus->session);
    record.pid = (uint64_t)getpid();
    record.occurred_ns = session_broker_ns(bus->session, error->made_ns, &record.uncertainty_ns);
    if (record.uncertainty_ns <= UINT64_MAX - error->made_uncertainty_ns)
        record.uncertainty_ns += error->made_uncertainty_ns;
    if (is_of_another_clock(bus, error))
        record.uncertainty_ns = UINT64_MAX;
    record.wall_ns = error->made_wall_ns;
    struct error_identity *identity = identity_new(&record);
    struct error_identity *none = NULL;
    if (identity != NULL) {
        identity->trace = bus->trace;
        identity->disclosure = session_disclosure(bus->session);
        identity->sealing = sealing_make(bus, error, record.id);
    }
    if (identity != NULL && !atomic_compare_exchange_strong(&error->identity, &none, identity))
        error_identity_free(identity); /* another bus was faster */
}

void error_stamp(struct bus *bus, const struct bus_error *error, const char *topic, uint64_t seq)
{
    struct error_walk walk;
    error_walk(&walk, error, UINT32_MAX);
    for (uint32_t i = walk.count; i-- > 0;) {
        struct bus_error *used = (struct bus_error *)(uintptr_t)walk.items[i];
        if (!used->is_static)
            atomic_store_explicit(&used->is_used, true, memory_order_release);
        stamp_one(bus, used, i == 0 ? topic : NULL, seq);
    }
}

/* ---- from the wire --------------------------------------------------------------------------- */

static bool set_text(char **text, struct span from, size_t bytes_max, bool *out_is_cut)
{
    if (from.bytes == 0)
        return true;
    char *copy = error_text(from, bytes_max, out_is_cut);
    if (copy == NULL)
        return false;
    *text = copy;
    return true;
}

static bool set_blames(struct bus_error *error, const struct error_record *record)
{
    bool is_set = record->blames.bytes == 0 || error_add_blame(error, record->blames);
    for (uint32_t i = 0; is_set && i < record->more_blame_count; i++)
        is_set = error_add_blame(error, record->more_blames[i]);
    return is_set;
}

static struct bus_error *from_record(const struct error_record *record)
{
    struct bus_error *error = error_make(record->kind, record->type, record->message);
    if (error == NULL)
        return NULL;
    struct error_identity *identity = identity_new(record);
    atomic_store_explicit(&error->is_used, true, memory_order_relaxed);
    atomic_store_explicit(&error->identity, identity, memory_order_release);
    bool is_kept = identity != NULL;
    if (is_kept && record->sealed.bytes > 0) {
        identity->sealing = sealing_keep(record->sealed);
        is_kept = identity->sealing != NULL;
    }
    error->code = record->code;
    error->recoverable = record->recoverable;
    error->retry_after_ms = record->retry_after_ms;
    error->origin = record->origin;
    error->exit_code = record->exit_code;
    error->signal = record->signal;
    error->left_out = record->left_out;
    error->is_cut = record->is_cut != 0;
    trace_set(&error->trace, record->trace_id);
    if (!is_kept ||
        !set_text(&error->stacktrace, record->stacktrace, LIMIT_ERROR_STACK_BYTES,
                  &error->is_cut) ||
        !set_blames(error, record) || !attachments_read(error, record->attachments))
        bus_error_unref(&error);
    return error;
}

/* Builds from the last record on: causes are later than what they cause. */
bool error_build(const struct error_record *records, uint32_t count, struct bus_error **made)
{
    for (uint32_t i = count; i-- > 0;) {
        made[i] = from_record(&records[i]);
        if (made[i] == NULL)
            return false;
        for (uint32_t c = 0; c < records[i].cause_count; c++) {
            uint32_t cause = records[i].causes[c];
            if (cause > i && cause < count && !error_add_cause(made[i], made[cause]))
                return false;
        }
    }
    return true;
}

struct bus_error *error_from_wire(struct span bytes)
{
    return error_from_wire_of(bytes, SPAN_NONE, 0);
}

struct bus_error *error_from_wire_of(struct span bytes, struct span topic, uint64_t seq)
{
    struct bus_error *made[LIMIT_ERROR_RECORDS] = {NULL};
    struct bus_error *error = NULL;
    uint32_t count = 0;
    struct error_record *records = calloc(LIMIT_ERROR_RECORDS, sizeof *records);
    if (records == NULL)
        return &error_no_memory;
    if (error_decode(bytes, records, LIMIT_ERROR_RECORDS, &count) != WIRE_OK || count == 0) {
        error = error_make(ERROR_BROKER_LOST, span_text(ERROR_TYPE_PROTOCOL),
                           span_text("the error that was received cannot be read"));
    } else {
        if (topic.bytes > 0) {
            records[0].topic = topic;
            records[0].seq = seq;
        }
        if (error_build(records, count, made))
            error = bus_error_ref(made[0]);
    }
    for (uint32_t i = 0; i < LIMIT_ERROR_RECORDS; i++)
        bus_error_unref(&made[i]);
    free(records);
    return error != NULL ? error : &error_no_memory;
}

/* ---- onto the wire --------------------------------------------------------------------------- */

_Static_assert(ERROR_WALK_MAX + 1 <= LIMIT_ERROR_GIVEN,
               "a walk and the root beyond it are encoded");

struct plan {
    struct error_walk walk;
    uint16_t position[ERROR_WALK_MAX]; /* of each walked error among the records */
    bool is_seen[ERROR_WALK_MAX];
    uint16_t stack[ERROR_WALK_MAX];
    uint8_t next_cause[ERROR_WALK_MAX];
};

static uint32_t index_of(const struct error_walk *walk, const struct bus_error *error)
{
    uint32_t i = 0;
    while (i < walk->count && walk->items[i] != error)
        i++;
    return i;
}

static uint32_t wire_cause_count(const struct bus_error *error)
{
    return error->cause_count < LIMIT_ERROR_CAUSES ? error->cause_count : LIMIT_ERROR_CAUSES;
}

static const struct bus_error *wire_cause(const struct bus_error *error, uint32_t index)
{
    return error_cause_within(error, index, LIMIT_ERROR_CAUSES);
}

/* Gives each error a position before its causes.  That is the reverse of the order in which a
 * depth-first walk leaves them. */
static void put_in_order(struct plan *plan)
{
    const struct error_walk *walk = &plan->walk;
    uint32_t depth = 0;
    uint32_t left = walk->count;
    memset(plan->is_seen, 0, walk->count * sizeof plan->is_seen[0]);
    memset(plan->next_cause, 0, walk->count);
    plan->stack[depth++] = 0;
    plan->is_seen[0] = true;
    while (depth > 0) {
        uint16_t now = plan->stack[depth - 1];
        if (plan->next_cause[now] == wire_cause_count(walk->items[now])) {
            plan->position[now] = (uint16_t)--left;
            depth--;
            continue;
        }
        uint32_t cause = index_of(walk, wire_cause(walk->items[now], plan->next_cause[now]++));
        if (cause < walk->count && !plan->is_seen[cause]) {
            plan->is_seen[cause] = true;
            plan->stack[depth++] = (uint16_t)cause;
        }
    }
}

static void add_cause(struct error_record *record, uint32_t position)
{
    for (uint32_t i = 0; i < record->cause_count; i++) {
        if (record->causes[i] == position)
            return;
    }
    record->causes[record->cause_count++] = position;
}

/* Leaves out the causes beyond the walk.  The root is kept: it is the last record then. */
static void link_causes(const struct plan *plan, const struct bus_error *error,
                        struct error_record *record)
{
    record->left_out += error->cause_count - wire_cause_count(error);
    for (uint32_t i = 0; i < wire_cause_count(error); i++) {
        const struct bus_error *cause = wire_cause(error, i);
        uint32_t index = index_of(&plan->walk, cause);
        add_cause(record, index < plan->walk.count ? plan->position[index] : plan->walk.count);
        record->left_out += index == plan->walk.count && cause != plan->walk.items[0]->root;
    }
}

/* How much of the error others see.  For an error that was made here, or that comes from another
 * job, this bus decides, and the bus that saw it first.  The same holds for an error of an earlier
 * incarnation of this party.  An error of another party of this job stays as that party disclosed
 * it, but shows at most what the job lets anybody see: a job of this name may have been another one
 * then. */
static enum disclosure disclosure_of(const struct bus *bus, const struct bus_error *error,
                                     const struct error_identity *identity)
{
    enum disclosure level = session_disclosure(bus->session);
    if (identity == NULL || error->is_static)
        return level;
    if (identity->disclosure != DISCLOSURE_UNSAID)
        return disclosure_stricter(level, identity->disclosure);
    if (strcmp(identity->job, bus->job) != 0)
        return level;
    if (disclosure_spares(span_text(identity->id), span_text(identity->party)))
        return DISCLOSURE_FULL;
    return strcmp(identity->party, bus->party) == 0 ? level : session_job_disclosure(bus->session);
}

/* Fills in what the object has. */
static void fill_whole(struct error_record *record, const struct bus_error *error)
{
    const struct error_identity *identity =
        atomic_load_explicit(&error->identity, memory_order_acquire);
    error_record_init(record);
    record->kind = error->kind == ERROR_LOCAL ? (uint64_t)ERROR_APPLICATION : error->kind;
    record->type = span_text(error->type);
    record->is_cut = error->is_cut;
    record->message = span_text(error->message);
    record->stacktrace = span_text(error->stacktrace);
    record->blames = span_text(bus_error_blame(error));
    for (uint32_t i = 1; i < error->blame_count; i++)
        record->more_blames[record->more_blame_count++] = span_text(error->blames[i]);
    record->code = error->code;
    record->recoverable = error->recoverable;
    record->retry_after_ms = error->retry_after_ms;
    record->origin = error->origin;
    record->exit_code = error->exit_code;
    record->signal = error->signal;
    record->left_out = error->left_out;
    const struct trace *trace = error_trace(error);
    if (trace->is_set)
        record->trace_id = span_of(trace->id, sizeof trace->id);
    if (error->attached != NULL)
        record->attachments = span_of(error->attached->data, error->attached->bytes);
    if (identity == NULL)
        return;
    record->id = span_text(identity->id);
    record->job = span_text(identity->job);
    record->party = span_text(identity->party);
    record->host = span_text(identity->host);
    record->claimed_by = span_text(identity->claimed_by);
    record->topic = span_text(identity->topic);
    record->seq = identity->seq;
    record->attempt = identity->attempt;
    record->incarnation = identity->incarnation;
    record->pid = identity->pid;
    record->occurred_ns = identity->occurred_ns;
    record->uncertainty_ns = identity->uncertainty_ns;
    record->wall_ns = identity->wall_ns;
    if (identity->sealing != NULL)
        record->sealed = span_of(identity->sealing->data, identity->sealing->bytes);
}

/* Takes away what must not leave the process. */
static void hide(const struct bus *bus, struct error_record *record, const struct bus_error *error)
{
    const struct error_identity *identity =
        atomic_load_explicit(&error->identity, memory_order_acquire);
    const struct error_sealing *sealing = identity != NULL ? identity->sealing : NULL;
    enum disclosure level = disclosure_of(bus, error, identity);
    record->claimed_by = SPAN_NONE; /* the broker says that */
    if (sealing != NULL && sealing->is_open)
        record->attachments = span_of(sealing->list, sealing->list_bytes);
    if (sealing != NULL || sealing_is_on(bus)) /* what could not be sealed stays here */
        level = disclosure_stricter(level, DISCLOSURE_MESSAGE);
    if (level < DISCLOSURE_MESSAGE && error->is_stack_cut)
        record->is_cut = 1;
    disclosure_apply(level, record);
}

/* bus NULL: for nobody but this process. */
static void fill(const struct bus *bus, struct error_record *record, const struct bus_error *error)
{
    fill_whole(record, error);
    if (bus != NULL)
        hide(bus, record, error);
}

/* The whole chain as records; returns how many. */
static uint32_t fill_all(const struct bus *bus, struct plan *plan, const struct bus_error *error,
                         struct error_record *records)
{
    error_walk(&plan->walk, error, LIMIT_ERROR_CAUSES);
    put_in_order(plan);
    for (uint32_t i = 0; i < plan->walk.count; i++) {
        struct error_record *record = &records[plan->position[i]];
        fill(bus, record, plan->walk.items[i]);
        link_causes(plan, plan->walk.items[i], record);
    }
    if (index_of(&plan->walk, error->root) < plan->walk.count)
        return plan->walk.count;
    fill(bus, &records[plan->walk.count], error->root);
    return plan->walk.count + 1;
}

uint32_t error_to_records(const struct bus_error *error, struct error_record *records)
{
    struct plan plan;
    return fill_all(NULL, &plan, error, records);
}

/* Fills in who and when, if there was no memory for an identity. */
static void stamp_record(struct bus *bus, struct error_record *head, struct error_encoder *encoder,
                         const char *topic, uint64_t seq)
{
    if (head->id.bytes > 0)
        return;
    head->id =
        span_of(encoder->id, session_error_id(bus->session, encoder->id, sizeof encoder->id));
    head->job = span_text(bus->job);
    head->party = span_text(bus->party);
    head->incarnation = session_incarnation(bus->session);
    head->attempt = session_attempt(bus->session);
    head->occurred_ns = session_broker_ns(bus->session, api_now_ns(), &head->uncertainty_ns);
    head->wall_ns = api_wall_ns();
    head->topic = span_text(topic);
    head->seq = seq;
}

/* Whether another incarnation or party, or the broker, has told this error before. */
static bool is_of_another(const struct bus *bus, const struct bus_error *error)
{
    const struct error_identity *identity =
        atomic_load_explicit(&error->identity, memory_order_acquire);
    return !error->is_static && identity != NULL &&
           (strcmp(identity->job, bus->job) != 0 || strcmp(identity->party, bus->party) != 0 ||
            identity->incarnation != session_incarnation(bus->session) ||
            disclosure_spares(span_text(identity->id), span_text(identity->party)));
}

static bool copy_blames(struct bus_error *error, const struct bus_error *from)
{
    bool is_copied = true;
    for (uint32_t i = 0; is_copied && i < from->blame_count; i++)
        is_copied = error_add_blame(error, span_text(from->blames[i]));
    return is_copied;
}

/* The kind of an error that is told again.  A loss is another party's: the error that follows from
 * it is an application's failure. */
static uint64_t kind_again(const struct bus_error *error)
{
    bool is_kept = error->kind == ERROR_DEPENDENCY || error->kind == ERROR_CANCELLED ||
                   error->kind == ERROR_TERMINATED;
    return is_kept ? error->kind : (uint64_t)ERROR_APPLICATION;
}

/* Makes an error of ours that says the same as an error of somebody else.  That error becomes its
 * cause, so that readers see whose it was.  NULL: no memory. */
static struct bus_error *tell_again(struct bus *bus, const struct bus_error *error,
                                    const char *topic, uint64_t seq)
{
    struct bus_error *again =
        error_make(kind_again(error), span_text(error->type), span_text(error->message));
    if (again == NULL)
        return NULL;
    again->is_cut = error->is_cut;
    again->code = error->code;
    again->recoverable = error->recoverable;
    again->retry_after_ms = error->retry_after_ms;
    again->exit_code = error->exit_code;
    again->signal = error->signal;
    if (!copy_blames(again, error) || !error_add_cause(again, error)) {
        bus_error_unref(&again);
        return NULL;
    }
    error_stamp(bus, again, topic, seq);
    struct error_identity *identity = atomic_load_explicit(&again->identity, memory_order_acquire);
    if (identity != NULL) /* the copy hides what another bus of this process hides */
        identity->disclosure =
            disclosure_stricter(identity->disclosure, error_identity_of(error)->disclosure);
    return again;
}

/* Queues the attachments of these errors for the courier. */
static void note_attachments(struct bus *bus, const struct error_walk *walk)
{
    for (uint32_t i = 0; i < walk->count; i++) {
        const struct bus_error *told = walk->items[i];
        const struct error_identity *identity =
            atomic_load_explicit(&told->identity, memory_order_acquire);
        bool is_shown =
            identity != NULL && identity->sealing != NULL
                ? identity->sealing->is_open
                : !sealing_is_on(bus) && disclosure_of(bus, told, identity) < DISCLOSURE_MESSAGE;
        if (is_shown)
            attach_note(bus, told);
    }
}

struct span error_to_wire(struct bus *bus, const struct bus_error *error, const char *type,
                          const char *topic, uint64_t seq)
{
    struct error_encoder *encoder = bus->encoder;
    struct bus_error *own = NULL;
    struct plan plan;
    size_t bytes = 0;
    if (error == NULL) {
        own = error_make(ERROR_APPLICATION, span_text(type), span_text("no reason was given"));
        error = own != NULL ? own : &error_no_memory;
    } else if (is_of_another(bus, error)) {
        own = tell_again(bus, error, topic, seq);
        error = own != NULL ? own : error;
    }
    error_stamp(bus, error, topic, seq);
    uint32_t count = fill_all(bus, &plan, error, encoder->records);
    stamp_record(bus, &encoder->records[0], encoder, topic, seq);
    note_attachments(bus, &plan.walk);
    enum wire_err err =
        error_encode(encoder->records, count, encoder->bytes, sizeof encoder->bytes, &bytes);
    must(err ==
         WIRE_OK); /* texts were mended and cut when they came in, and the head always fits */
    bus_error_unref(&own);
    return span_of(encoder->bytes, bytes);
}
