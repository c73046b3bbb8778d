/* SPDX-License-Identifier: MPL-2.0 */
/* error_wire.c -- bus_error objects from the wire and onto it, and the identity the bus gives them.
 *
 * A chain too large for the wire keeps its head, its roots and what is nearest to the head; a
 * record whose causes were left out points to the nearest kept ones below, and counts the rest. */
#include "libbus/api/api_internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libbus/base/utf8.h"

/* ---- identity -------------------------------------------------------------------------------- */

static struct error_identity *identity_new(const struct error_record *record)
{
    size_t texts = record->id.bytes + record->job.bytes + record->party.bytes + record->host.bytes +
                   record->topic.bytes + 5;
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
    identity->topic = record->topic.bytes > 0 ? api_place(&at, record->topic) : NULL;
    return identity;
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
    record.wall_ns = error->made_wall_ns;
    struct error_identity *identity = identity_new(&record);
    struct error_identity *none = NULL;
    if (identity != NULL && !atomic_compare_exchange_strong(&error->identity, &none, identity))
        free(identity); /* another bus was faster */
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

static struct bus_error *from_record(const struct error_record *record)
{
    bool is_party_cut = false;
    struct bus_error *error = error_make(record->kind, record->type, record->message);
    if (error == NULL)
        return NULL;
    struct error_identity *identity = identity_new(record);
    atomic_store_explicit(&error->is_used, true, memory_order_relaxed);
    atomic_store_explicit(&error->identity, identity, memory_order_release);
    error->code = record->code;
    error->recoverable = record->recoverable;
    error->retry_after_ms = record->retry_after_ms;
    error->origin = record->origin;
    error->exit_code = record->exit_code;
    error->signal = record->signal;
    error->left_out = record->left_out;
    error->is_cut = record->is_cut != 0;
    error->has_trace_id = record->trace_id.bytes == sizeof error->trace_id;
    if (error->has_trace_id)
        memcpy(error->trace_id, record->trace_id.data, sizeof error->trace_id);
    if (identity == NULL ||
        !set_text(&error->stacktrace, record->stacktrace, LIMIT_ERROR_STACK_BYTES,
                  &error->is_cut) ||
        !set_text(&error->blames, record->blames, LIMIT_NAME_BYTES, &is_party_cut))
        bus_error_unref(&error);
    return error;
}

/* Builds from the last record on: causes are later than what they cause. */
static bool build(const struct error_record *records, uint32_t count, struct bus_error **made)
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
    struct bus_error *made[LIMIT_ERROR_RECORDS] = {NULL};
    struct bus_error *error = NULL;
    uint32_t count = 0;
    struct error_record *records = calloc(LIMIT_ERROR_RECORDS, sizeof *records);
    if (records == NULL)
        return &error_no_memory;
    if (error_decode(bytes, records, LIMIT_ERROR_RECORDS, &count) != WIRE_OK || count == 0) {
        error = error_make(ERROR_BROKER_LOST, span_text(ERROR_TYPE_PROTOCOL),
                           span_text("an error came that cannot be read"));
    } else if (build(records, count, made)) {
        error = bus_error_ref(made[0]);
    }
    for (uint32_t i = 0; i < LIMIT_ERROR_RECORDS; i++)
        bus_error_unref(&made[i]);
    free(records);
    return error != NULL ? error : &error_no_memory;
}

/* ---- onto the wire --------------------------------------------------------------------------- */

/* How much of a chain is kept, tried one after the other until it fits LIMIT_ERROR_BYTES. */
struct level {
    uint32_t records;
    size_t stack_bytes;
    size_t message_bytes;
};
static const struct level levels[] = {
    {LIMIT_ERROR_RECORDS, LIMIT_ERROR_STACK_BYTES, LIMIT_ERROR_MESSAGE_BYTES},
    {LIMIT_ERROR_RECORDS, 1024, 1024},
    {24, 256, 512},
    {8, 0, 256},
};

enum { NOT_KEPT = UINT16_MAX };
struct plan {
    struct error_walk walk;
    uint16_t order[ERROR_WALK_MAX];    /* walked errors, each before its causes */
    uint16_t position[ERROR_WALK_MAX]; /* among the records, or NOT_KEPT */
    uint8_t is_seen[ERROR_WALK_MAX];
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

/* Each before its causes: the reverse of the order in which a walk into the depth is done with
 * them. */
static void put_in_order(struct plan *plan)
{
    const struct error_walk *walk = &plan->walk;
    uint32_t depth = 0;
    uint32_t left = walk->count;
    memset(plan->is_seen, 0, walk->count);
    memset(plan->next_cause, 0, walk->count);
    plan->stack[depth++] = 0;
    plan->is_seen[0] = 1;
    while (depth > 0) {
        uint16_t now = plan->stack[depth - 1];
        if (plan->next_cause[now] == wire_cause_count(walk->items[now])) {
            plan->order[--left] = now;
            depth--;
            continue;
        }
        uint32_t cause = index_of(walk, wire_cause(walk->items[now], plan->next_cause[now]++));
        if (cause < walk->count && !plan->is_seen[cause]) {
            plan->is_seen[cause] = 1;
            plan->stack[depth++] = (uint16_t)cause;
        }
    }
}

/* Marks what is kept (0) and gives it its place among the records; the root, should it lie beyond
 * the walk, comes after all.  Returns the number of records without that root. */
static uint32_t choose(struct plan *plan, uint32_t records_max, const struct bus_error *root)
{
    const struct error_walk *walk = &plan->walk;
    uint32_t kept = 0;
    uint32_t root_index = index_of(walk, root);
    uint32_t room = records_max - 1; /* one for the root */
    uint32_t near = walk->count <= records_max ? walk->count : room - room / 4;
    for (uint32_t i = 0; i < walk->count; i++)
        plan->position[i] = NOT_KEPT;
    for (; kept < near; kept++)
        plan->position[kept] = 0;
    for (uint32_t i = near; i < walk->count && kept < room; i++) {
        if (walk->items[i]->cause_count == 0 && i != root_index) {
            plan->position[i] = 0;
            kept++;
        }
    }
    if (root_index < walk->count)
        plan->position[root_index] = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < walk->count; i++) {
        if (plan->position[plan->order[i]] == 0)
            plan->position[plan->order[i]] = (uint16_t)count++;
    }
    return count;
}

static void add_cause_index(struct error_record *record, uint32_t position)
{
    for (uint32_t i = 0; i < record->cause_count; i++) {
        if (record->causes[i] == position)
            return;
    }
    if (record->cause_count < LIMIT_ERROR_CAUSES)
        record->causes[record->cause_count++] = position;
    else
        record->left_out++;
}

/* Points a record to the nearest kept ones below it. */
static void link_causes(struct plan *plan, uint32_t index, uint32_t root_position,
                        struct error_record *record)
{
    const struct error_walk *walk = &plan->walk;
    uint32_t depth = 0;
    memset(plan->is_seen, 0, walk->count);
    plan->stack[depth++] = (uint16_t)index;
    plan->is_seen[index] = 1;
    while (depth > 0) {
        const struct bus_error *now = walk->items[plan->stack[--depth]];
        record->left_out += now->cause_count - wire_cause_count(now);
        for (uint32_t i = 0; i < wire_cause_count(now); i++) {
            uint32_t cause = index_of(walk, wire_cause(now, i));
            if (cause == walk->count) {
                add_cause_index(record, root_position);
                record->left_out++;
            } else if (plan->position[cause] != NOT_KEPT) {
                add_cause_index(record, plan->position[cause]);
            } else if (!plan->is_seen[cause]) {
                plan->is_seen[cause] = 1;
                plan->stack[depth++] = (uint16_t)cause;
                record->left_out++;
            }
        }
    }
}

static struct span shortened(const char *text, size_t bytes_max, uint64_t *is_cut)
{
    struct span span = span_text(text);
    if (span.bytes <= bytes_max)
        return span;
    *is_cut = 1;
    return span_of(text, utf8_cut(text, bytes_max));
}

static void fill(struct error_record *record, const struct bus_error *error,
                 const struct level *level)
{
    const struct error_identity *identity =
        atomic_load_explicit(&error->identity, memory_order_acquire);
    error_record_init(record);
    record->kind = error->kind == ERROR_LOCAL ? (uint64_t)ERROR_APPLICATION : error->kind;
    record->type = span_text(error->type);
    record->is_cut = error->is_cut;
    record->message = shortened(error->message, level->message_bytes, &record->is_cut);
    record->stacktrace = shortened(error->stacktrace, level->stack_bytes, &record->is_cut);
    record->blames = span_text(error->blames);
    record->code = error->code;
    record->recoverable = error->recoverable;
    record->retry_after_ms = error->retry_after_ms;
    record->origin = error->origin;
    record->exit_code = error->exit_code;
    record->signal = error->signal;
    record->left_out = error->left_out;
    if (error->has_trace_id)
        record->trace_id = span_of(error->trace_id, sizeof error->trace_id);
    if (identity == NULL)
        return;
    record->id = span_text(identity->id);
    record->job = span_text(identity->job);
    record->party = span_text(identity->party);
    record->host = span_text(identity->host);
    record->topic = span_text(identity->topic);
    record->seq = identity->seq;
    record->attempt = identity->attempt;
    record->incarnation = identity->incarnation;
    record->pid = identity->pid;
    record->occurred_ns = identity->occurred_ns;
    record->uncertainty_ns = identity->uncertainty_ns;
    record->wall_ns = identity->wall_ns;
}

static uint32_t fill_all(struct plan *plan, struct error_record *records,
                         const struct bus_error *error, const struct level *level)
{
    uint32_t count = choose(plan, level->records, error->root);
    uint32_t root = index_of(&plan->walk, error->root);
    bool is_root_beyond = root == plan->walk.count;
    for (uint32_t i = 0; i < plan->walk.count; i++) {
        if (plan->position[i] == NOT_KEPT)
            continue;
        struct error_record *record = &records[plan->position[i]];
        fill(record, plan->walk.items[i], level);
        link_causes(plan, i, is_root_beyond ? count : plan->position[root], record);
    }
    if (is_root_beyond)
        fill(&records[count++], error->root, level);
    return count;
}

/* Who and when, for a head that could not be given an identity of its own. */
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

struct span error_to_wire(struct bus *bus, const struct bus_error *error, const char *type,
                          const char *topic, uint64_t seq)
{
    struct error_encoder *encoder = bus->encoder;
    struct bus_error *own = NULL;
    struct plan plan;
    size_t bytes = 0;
    if (error == NULL) {
        own = error_make(ERROR_APPLICATION, span_text(type), SPAN_NONE);
        error = own != NULL ? own : &error_no_memory;
    }
    error_stamp(bus, error, topic, seq);
    error_walk(&plan.walk, error, LIMIT_ERROR_CAUSES);
    put_in_order(&plan);
    enum wire_err err = WIRE_FULL;
    for (size_t i = 0; i < sizeof levels / sizeof levels[0] && err != WIRE_OK; i++) {
        uint32_t count = fill_all(&plan, encoder->records, error, &levels[i]);
        stamp_record(bus, &encoder->records[0], encoder, topic, seq);
        err = error_encode(encoder->records, count, encoder->bytes, sizeof encoder->bytes, &bytes);
    }
    if (err != WIRE_OK) { /* the head alone, without what it says: names and numbers always fit */
        encoder->records[0].cause_count = 0;
        encoder->records[0].message = SPAN_NONE;
        encoder->records[0].stacktrace = SPAN_NONE;
        err = error_encode(encoder->records, 1, encoder->bytes, sizeof encoder->bytes, &bytes);
    }
    bus_error_unref(&own);
    return err == WIRE_OK ? span_of(encoder->bytes, bytes) : SPAN_NONE;
}
