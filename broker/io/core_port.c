/* SPDX-License-Identifier: MPL-2.0 */
/* core_port.c -- between parts and the core: bytes to events, effects to bytes; see core_port.h.
 *
 * Order within one step: the core decides; counts of references change; then core_port_out() gives
 * the effects one by one.  ACCEPTED comes last: a reader waits for its value, and a writer does not
 * wait for this answer.  When all effects are given, payloads without references are freed.  So a
 * range may be sent from a payload that the same step released. */
#include "broker/io/core_port.h"

#include "broker/io/journal_codec.h"
#include "broker/io/batch_encoder.h"
#include "broker/io/batch_decoder.h"
#include "libbus/base/must.h"
#include "libbus/wire/msg.h"

#include <stdio.h>

/* A broker counts as away for at most a year, whatever the wall clock says. */
#define AWAY_NS_MAX (INT64_C(365) * 86400 * 1000000000)

/* A connection whose client speaks a newer minor version than we: it may say what we do not know
 * (PROTOCOL.md, "Versions").  With the first release there are none, so a list will do. */
struct newer {
    conn_id conn;
    uint64_t token; /* of its session, once we welcomed it: its data connection names it; or 0 */
};

struct core_port {
    struct memory *memory;
    struct core *core;
    struct payload_table payloads;
    struct batch_decoder decoder; /* of the batch that was let in last */
    struct effects effects;
    uint32_t at;      /* the next effect to be given out */
    uint32_t fact_at; /* ... to be looked at for facts */
    uint32_t late_at; /* where the first ACCEPTED is that was passed over, and how many are */
    uint32_t late_count;
    struct newer *newers;
    uint32_t newer_count, newer_room;
    struct core_port_journal journal;     /* describe NULL: there is none */
    struct core_port_peers peers;         /* the same */
    struct core_port_figures figures;     /* tell NULL: there are none */
    struct core_port_shards shards;       /* the same */
    struct metric_figures told_figures;   /* for the step under way */
    int64_t began_ns;                     /* of the last step, by the machine's clock */
    int64_t ahead_ns;                     /* the core's clock, of the machine's */
    uint32_t speaker;                     /* whose parts come in */
    uint64_t steps;                       /* of the core */
    uint64_t kept;                        /* ... whose facts are in the journal */
    bool is_broken;                       /* a payload could not be read back */
    uint64_t skipped;                     /* messages of newer versions that we did not know */
    char complaint[200];                  /* stands as long as the event it is in */
    uint8_t scratch[LIMIT_CONTROL_BYTES]; /* a message being encoded */
};

struct core_port *core_port_new(struct memory *memory, const struct core_options *options,
                                int64_t now_ns)
{
    struct core_port *port = memory_take(memory, sizeof *port);
    if (port == NULL)
        return NULL;
    port->memory = memory;
    payload_table_init(&port->payloads, memory);
    batch_decoder_init(&port->decoder, memory);
    effects_init(&port->effects, memory);
    port->core = core_new(memory, options, now_ns);
    if (port->core == NULL)
        core_port_free(&port);
    return port;
}

void core_port_free(struct core_port **port)
{
    struct core_port *old = *port;
    *port = NULL;
    if (old == NULL)
        return;
    core_free(&old->core);
    effects_fini(&old->effects);
    batch_decoder_fini(&old->decoder);
    payload_table_fini(&old->payloads);
    memory_give(old->memory, old->newers, old->newer_room * sizeof *old->newers);
    memory_give(old->memory, old, sizeof *old);
}

/* ---- newer clients --------------------------------------------------------------------------- */

static struct newer *newer_find(const struct core_port *port, conn_id conn)
{
    for (uint32_t i = 0; i < port->newer_count; i++)
        if (port->newers[i].conn == conn)
            return &port->newers[i];
    return NULL;
}

/* Without memory the version is not kept, and messages of newer versions are violations. */
static void newer_add(struct core_port *port, conn_id conn, uint64_t token)
{
    if (newer_find(port, conn) != NULL)
        return;
    if (port->newer_count == port->newer_room) {
        uint32_t room = port->newer_room > 0 ? port->newer_room * 2 : 16;
        size_t size = sizeof *port->newers;
        struct newer *newers =
            memory_resize(port->memory, port->newers, port->newer_room * size, room * size);
        if (newers == NULL)
            return;
        port->newers = newers;
        port->newer_room = room;
    }
    port->newers[port->newer_count++] = (struct newer){.conn = conn, .token = token};
}

static void newer_remove(struct core_port *port, conn_id conn)
{
    struct newer *newer = newer_find(port, conn);
    if (newer != NULL)
        *newer = port->newers[--port->newer_count];
}

/* What a message from a client says about its version. */
static void newer_learn(struct core_port *port, conn_id conn, const struct msg *msg)
{
    if (msg->type == MSG_HELLO && msg->as.hello.minor > PROTOCOL_MINOR)
        newer_add(port, conn, 0);
    if (msg->type != MSG_ATTACH)
        return;
    for (uint32_t i = 0; i < port->newer_count; i++)
        if (port->newers[i].token == msg->as.attach.token && port->newers[i].token != 0) {
            newer_add(port, conn, msg->as.attach.token);
            return;
        }
}

/* ---- in -------------------------------------------------------------------------------------- */

/* Counts are carried out at once: nothing is freed before the sweep, so their place among the other
 * effects does not matter. */
static void count_references(struct core_port *port)
{
    for (uint32_t i = 0; i < port->effects.count; i++) {
        const struct effect *effect = &port->effects.items[i];
        if (effect->type == EFFECT_RETAIN)
            payload_retain(&port->payloads, effect->payload, effect->count);
        else if (effect->type == EFFECT_RELEASE)
            payload_release(&port->payloads, effect->payload, effect->count);
    }
}

static void port_step(struct core_port *port, struct core_port_now now, struct event event)
{
    must(port->at == port->effects.count);
    event.now_ns = now.now_ns + port->ahead_ns;
    event.wall_ns = now.wall_ns;
    event.random = now.random;
    event.kept = port->kept;
    event.principal = port->speaker;
    port->steps += 1;
    port->began_ns = now.now_ns;
    effects_clear(&port->effects);
    port->at = port->fact_at = 0;
    core_step(port->core, &event, &port->effects);
    count_references(port);
}

static void violate(struct core_port *port, struct core_port_now now, conn_id conn,
                    enum wire_err err, const char *what)
{
    snprintf(port->complaint, sizeof port->complaint, "%s: %s", what, wire_strerror(err));
    core_port_violation(port, now, conn, port->complaint);
}

void core_port_speaker(struct core_port *port, uint32_t principal)
{
    port->speaker = principal;
}

/* A message whose bytes are kept as those of a batch are. */
static void piece_in(struct core_port *port, struct core_port_now now, conn_id conn,
                     const struct msg *msg)
{
    payload_id payload = 0;
    struct buffer *bytes = buffer_copy(msg->as.piece.bytes);
    if (bytes == NULL || !payload_add(&port->payloads, &bytes, &payload)) {
        buffer_unref(&bytes);
        core_port_violation(port, now, conn, "piece: the broker is short of memory");
        return;
    }
    port_step(
        port, now,
        (struct event){.type = EVENT_MESSAGE, .conn = conn, .payload = payload, .as.msg = msg});
    payload_release(&port->payloads, payload, 1);
}

/* NULL: the message does not ask for them, or there are none. */
static const struct metric_figures *figures_for(struct core_port *port, const struct msg *msg)
{
    if (msg->type != MSG_METRICS || port->figures.tell == NULL)
        return NULL;
    port->figures.tell(port->figures.arg, &port->told_figures);
    return &port->told_figures;
}

static const struct event_shards *shards_for(const struct core_port *port, const struct msg *msg)
{
    bool is_told = msg->type == MSG_SHARDS && port->shards.tell != NULL;
    return is_told ? port->shards.tell(port->shards.arg) : NULL;
}

/* A part that should be a message of this lane. */
static void message_in(struct core_port *port, struct core_port_now now, conn_id conn,
                       enum msg_lane lane, struct span part)
{
    struct msg msg;
    unsigned number = MSG_NONE;
    enum wire_err err = msg_decode(part, lane, MSG_TO_BROKER, &msg, &number);
    if (err == WIRE_OK && msg.type == MSG_PIECE && msg.as.piece.bytes.bytes > 0) {
        piece_in(port, now, conn, &msg);
    } else if (err == WIRE_OK) {
        newer_learn(port, conn, &msg);
        port_step(port, now,
                  (struct event){.type = EVENT_MESSAGE,
                                 .conn = conn,
                                 .figures = figures_for(port, &msg),
                                 .shards = shards_for(port, &msg),
                                 .as.msg = &msg});
    } else if (err == WIRE_UNKNOWN && newer_find(port, conn) != NULL) {
        port->skipped += 1;
    } else {
        const char *name = msg_name((enum msg_type)number);
        violate(port, now, conn, err, name != NULL ? name : "message");
    }
}

bool core_port_brings_bytes(struct span part)
{
    const struct msg_kind *kind = msg_kind(wire_number(part));
    return batch_decoder_is_batch(part) || (kind != NULL && kind->direction == MSG_TO_BROKER &&
                                            kind->as.to_broker.weight == MSG_BYTES);
}

enum msg_weight core_port_weigh(struct span part)
{
    const struct msg_kind *kind = msg_kind(wire_number(part));
    bool is_control =
        kind != NULL && kind->direction == MSG_TO_BROKER && kind->lane == MSG_LANE_CONTROL;
    return is_control ? kind->as.to_broker.weight : MSG_LIGHT;
}

void core_port_control_in(struct core_port *port, struct core_port_now now, conn_id conn,
                          struct span part)
{
    if (part.bytes > LIMIT_CONTROL_BYTES)
        violate(port, now, conn, WIRE_TOO_BIG, "control part");
    else
        message_in(port, now, conn, MSG_LANE_CONTROL, part);
}

/* The core counts its references; ours is for the step alone. */
static void batch_in(struct core_port *port, struct core_port_now now, conn_id conn,
                     struct buffer **part)
{
    payload_id payload;
    uint32_t bytes = (uint32_t)(*part)->bytes;
    enum wire_err err = batch_decoder_read(&port->decoder, buffer_span(*part));
    if (err != WIRE_OK) {
        violate(port, now, conn, err, "batch");
        return;
    }
    if (!payload_add(&port->payloads, part, &payload)) {
        core_port_violation(port, now, conn, "batch: the broker is short of memory");
        return;
    }
    struct event event = {.type = EVENT_DATA, .conn = conn};
    event.as.data.number = port->decoder.number;
    event.as.data.payload = payload;
    event.as.data.payload_bytes = bytes;
    event.as.data.ranges = port->decoder.items;
    event.as.data.range_count = port->decoder.count;
    port_step(port, now, event);
    payload_release(&port->payloads, payload, 1);
}

void core_port_data_in(struct core_port *port, struct core_port_now now, conn_id conn,
                       struct buffer **part)
{
    if (batch_decoder_is_batch(buffer_span(*part)))
        batch_in(port, now, conn, part);
    else
        message_in(port, now, conn, MSG_LANE_DATA, buffer_span(*part));
    buffer_unref(part);
}

void core_port_violation(struct core_port *port, struct core_port_now now, conn_id conn,
                         const char *complaint)
{
    port_step(port, now,
              (struct event){.type = EVENT_VIOLATION, .conn = conn, .as.complaint = complaint});
}

void core_port_closed(struct core_port *port, struct core_port_now now, conn_id conn)
{
    newer_remove(port, conn);
    port_step(port, now, (struct event){.type = EVENT_CLOSED, .conn = conn});
}

void core_port_tick(struct core_port *port, struct core_port_now now)
{
    port_step(port, now, (struct event){.type = EVENT_TICK});
}

void core_port_stop(struct core_port *port, struct core_port_now now)
{
    port_step(port, now, (struct event){.type = EVENT_STOP});
}

void core_port_journal(struct core_port *port, struct core_port_now now, enum journal_health health,
                       const char *text)
{
    port_step(
        port, now,
        (struct event){.type = EVENT_JOURNAL, .as.journal = {.health = health, .text = text}});
}

void core_port_access(struct core_port *port, struct core_port_now now, const struct access *access)
{
    port_step(port, now, (struct event){.type = EVENT_ACCESS, .as.access = access});
}

void core_port_access_word(struct core_port *port, struct core_port_now now, enum access_word word,
                           const char *text)
{
    port_step(
        port, now,
        (struct event){.type = EVENT_ACCESS_WORD, .as.access_word = {.word = word, .text = text}});
}

int64_t core_port_deadline_ns(const struct core_port *port)
{
    int64_t due_ns = core_deadline_ns(port->core);
    return due_ns == INT64_MAX ? due_ns : due_ns - port->ahead_ns;
}

/* ---- out ------------------------------------------------------------------------------------- */

/* Messages of the core are within the limits of the protocol, so they can be encoded. */
static struct buffer *port_encode(struct core_port *port, const struct msg *msg)
{
    size_t bytes = 0;
    must(msg_encode(msg, port->scratch, sizeof port->scratch, &bytes) == WIRE_OK);
    struct buffer *part = buffer_copy(span_of(port->scratch, bytes));
    must(part != NULL);
    return part;
}

/* An observer may greet while the journal cannot be written: so operators can ask why. */
static enum core_port_saying saying_of(const struct msg *msg)
{
    switch (msg_kind((unsigned)msg->type)->as.to_client.wait) {
    case MSG_AT_ONCE: return CORE_PORT_NEWS;
    case MSG_OUTCOMES: return CORE_PORT_OUTCOME;
    case MSG_ANSWERS: return CORE_PORT_ANSWER;
    case MSG_CONCLUSIONS: return CORE_PORT_CONCLUSION;
    case MSG_OF_PARTY: return msg->as.welcome.incarnation == 0 ? CORE_PORT_NEWS : CORE_PORT_WELCOME;
    }
    must(!"a message that waits for something else");
    return CORE_PORT_ANSWER;
}

/* What the core cannot say about itself. */
static void describe_broker(const struct core_port *port, struct msg_status_end *end)
{
    const struct payload_table *payloads = &port->payloads;
    end->journal = span_text("none");
    end->spilled = payloads->count - payloads->memory_count;
    end->spilled_bytes = payloads->bytes - payloads->memory_used;
    if (port->journal.describe != NULL)
        port->journal.describe(port->journal.arg, end);
    if (port->figures.cpu_ns != NULL)
        end->cpu_ms = port->figures.cpu_ns() / 1000000;
}

/* The bytes of a piece of a value; false: they cannot be read back. */
static bool put_value(struct core_port *port, const struct effect *effect,
                      struct msg_dead_value *msg)
{
    if (effect->payload == 0)
        return true;
    const struct buffer *payload = payload_fetch(&port->payloads, effect->payload);
    if (payload == NULL)
        return false;
    struct span value = frame_value_at(payload->data + effect->offset, effect->skip);
    must(effect->count <= value.bytes);
    size_t left = value.bytes - effect->count;
    msg->value = span_of((const char *)value.data + effect->count,
                         left < LIMIT_DEAD_PIECE_BYTES ? left : LIMIT_DEAD_PIECE_BYTES);
    return true;
}

/* The bytes of an attachment's piece from some place on; false: they cannot be read back. */
static bool put_piece(struct core_port *port, const struct effect *effect,
                      struct msg_fetched_piece *msg)
{
    const struct buffer *payload = payload_fetch(&port->payloads, effect->payload);
    if (payload == NULL)
        return false;
    must(effect->offset <= payload->bytes && effect->bytes <= payload->bytes - effect->offset);
    msg->bytes = span_of(payload->data + effect->offset, effect->bytes);
    return true;
}

/* A message to a courier on the data channel; its head names no subscription. */
static void courier_out(struct core_port *port, const struct effect *effect,
                        struct core_port_out *out)
{
    struct msg *msg = &port->effects.msgs[effect->index];
    port->is_broken =
        msg->type == MSG_FETCHED_PIECE && !put_piece(port, effect, &msg->as.fetched_piece);
    if (port->is_broken)
        return;
    out->kind = CORE_PORT_DATA;
    out->saying = saying_of(msg);
    out->conn = effect->conn;
    delivery_header_write(out->head, 0);
    out->part = port_encode(port, msg);
}

static void control_out(struct core_port *port, const struct effect *effect,
                        struct core_port_out *out)
{
    struct msg *msg = &port->effects.msgs[effect->index];
    conn_id conn = effect->conn;
    port->is_broken = msg->type == MSG_DEAD_VALUE && !put_value(port, effect, &msg->as.dead_value);
    if (port->is_broken)
        return;
    if (msg->type == MSG_STATUS_END)
        describe_broker(port, &msg->as.status_end);
    if (msg->type == MSG_WHO_ROW && port->peers.describe != NULL)
        port->peers.describe(port->peers.arg, &msg->as.who_row);
    if (msg->type == MSG_WELCOME && port->newer_count > 0) {
        struct newer *newer = newer_find(port, conn);
        if (newer != NULL)
            newer->token = msg->as.welcome.token;
    }
    out->kind = CORE_PORT_CONTROL;
    out->saying = saying_of(msg);
    out->conn = conn;
    out->part = port_encode(port, msg);
}

static int text_length(struct span text)
{
    return (int)(text.bytes > 200 ? 200 : text.bytes);
}

/* What was refused is told when the first comes, then of many at once. */
static void write_times(const struct effect_log *log, char *text, size_t bytes)
{
    text[0] = '\0';
    if (log->count > 1 && span_equal(log->name, span_text(EVENT_REFUSED)))
        snprintf(text, bytes, " (%llu times)", (unsigned long long)log->count);
}

/* "EVENT JOB/PARTY/INCARNATION: TEXT", as far as they are known. */
static void write_log(const struct effect_log *log, char *text, size_t bytes)
{
    struct span job = log->job.bytes > 0 ? log->job : span_text("a connection without a session");
    char incarnation[16] = "";
    char times[32];
    write_times(log, times, sizeof times);
    if (log->party.bytes > 0)
        snprintf(incarnation, sizeof incarnation, "/%llu", (unsigned long long)log->incarnation);
    snprintf(text, bytes, "%.*s %.*s%s%.*s%s%s%.*s%s", text_length(log->name),
             (const char *)log->name.data, text_length(job), (const char *)job.data,
             log->party.bytes > 0 ? "/" : "", text_length(log->party),
             (const char *)log->party.data, incarnation, log->text.bytes > 0 ? ": " : "",
             text_length(log->text), (const char *)log->text.data, times);
}

static void log_out(struct core_port *port, const struct effect *effect, struct core_port_out *out)
{
    const struct effect_log *log = &port->effects.logs[effect->index];
    out->kind = CORE_PORT_LOG;
    out->conn = effect->conn;
    out->event = (struct log_event){.name = log->name,
                                    .job = log->job,
                                    .party = log->party,
                                    .incarnation = log->incarnation,
                                    .principal = span_text(log->principal),
                                    .error = log->error};
    out->is_warning = log->job.bytes == 0 || span_equal(log->name, span_text(EVENT_PARTY_LOST)) ||
                      span_equal(log->name, span_text(EVENT_BROKER_FORGOT));
    write_log(log, out->text, sizeof out->text);
}

static void fact_out(struct core_port *port, const struct effect *effect, struct core_port_out *out)
{
    out->kind = CORE_PORT_FACT;
    out->part = buffer_copy(effects_record(&port->effects, effect));
    must(out->part != NULL);
    out->payload = effect->payload;
    out->is_essential = fact_is_essential((enum fact_type)effect->index);
}

/* Whether all that these effects tell is kept: payload and outcome of a value that came whole are
 * in the journal together. */
static bool is_kept(const struct core_port *port, uint32_t from, uint32_t until)
{
    for (uint32_t i = from; i < until; i++) {
        const struct effect *effect = &port->effects.items[i];
        switch (effect->type) {
        case EFFECT_SEND_RANGE:
        case EFFECT_SEND_PART:
            if (!effect->is_whole ||
                payload_at(&port->payloads, effect->payload) == PAYLOAD_NOWHERE)
                return false;
            break;
        case EFFECT_SEND_MSG:
        case EFFECT_SEND_FRAME:
        case EFFECT_SEND_TASK: return false;
        case EFFECT_RETAIN:
        case EFFECT_RELEASE:
        case EFFECT_DROP:
        case EFFECT_RELOAD:
        case EFFECT_LOG:
        case EFFECT_FACT: break; /* they tell the peer nothing */
        }
    }
    return true;
}

static bool has_error(const struct core_port *port, uint32_t from, uint32_t until)
{
    for (uint32_t i = from; i < until; i++) {
        const struct effect *effect = &port->effects.items[i];
        if (effect->type == EFFECT_SEND_FRAME &&
            (port->effects.frames[effect->index].frame.flags & FRAME_KIND_MASK) == FRAME_ERROR)
            return true;
    }
    return false;
}

/* The next part to send.  A stream must have no hole: if its bytes cannot be read back, nothing
 * behind it is sent. */
static void data_out(struct core_port *port, const struct effect *effect, struct core_port_out *out)
{
    out->saying = CORE_PORT_OUTCOME;
    out->conn = effect->conn;
    delivery_header_write(out->head, effect->sub);
    uint32_t first = port->at;
    out->part = batch_encode(&port->effects, &port->payloads, &port->at);
    out->is_kept = is_kept(port, first, port->at);
    out->error_ns = has_error(port, first, port->at) ? port->began_ns : 0;
    port->is_broken = out->part == NULL;
    out->kind = port->is_broken ? CORE_PORT_NOTHING : CORE_PORT_DATA;
}

static bool is_accepted(const struct core_port *port, const struct effect *effect)
{
    return effect->type == EFFECT_SEND_MSG &&
           port->effects.msgs[effect->index].type == MSG_ACCEPTED;
}

static bool is_for_data(const struct core_port *port, const struct effect *effect)
{
    const struct msg *msg = &port->effects.msgs[effect->index];
    return msg_kind((unsigned)msg->type)->lane == MSG_LANE_DATA;
}

static void pass_over(struct core_port *port)
{
    if (port->late_count == 0)
        port->late_at = port->at;
    port->late_count += 1;
    port->at += 1;
}

/* What was passed over. */
static void late_out(struct core_port *port, struct core_port_out *out)
{
    while (!is_accepted(port, &port->effects.items[port->late_at]))
        port->late_at += 1;
    control_out(port, &port->effects.items[port->late_at], out);
    port->late_at += 1;
    port->late_count -= 1;
}

bool core_port_out(struct core_port *port, struct core_port_out *out)
{
    *out = (struct core_port_out){.kind = CORE_PORT_NOTHING};
    if (port->is_broken)
        port->at = port->effects.count;
    while (port->at < port->effects.count && out->kind == CORE_PORT_NOTHING) {
        const struct effect *effect = &port->effects.items[port->at];
        switch (effect->type) {
        case EFFECT_SEND_MSG:
            if (is_accepted(port, effect)) {
                pass_over(port);
                break;
            }
            if (is_for_data(port, effect))
                courier_out(port, effect, out);
            else
                control_out(port, effect, out);
            port->at = port->is_broken ? port->effects.count : port->at + 1;
            break;
        case EFFECT_SEND_RANGE:
        case EFFECT_SEND_PART:
        case EFFECT_SEND_TASK:
        case EFFECT_SEND_FRAME:
            data_out(port, effect, out);
            if (port->is_broken)
                port->at = port->effects.count;
            break;
        case EFFECT_DROP:
            newer_remove(port, effect->conn);
            out->kind = CORE_PORT_DROP;
            out->conn = effect->conn;
            port->at += 1;
            break;
        case EFFECT_RELOAD:
            out->kind = CORE_PORT_RELOAD;
            out->conn = effect->conn;
            port->at += 1;
            break;
        case EFFECT_LOG:
            log_out(port, effect, out);
            port->at += 1;
            break;
        case EFFECT_FACT:
            if (port->at >= port->fact_at) /* otherwise core_port_step() gave it */
                fact_out(port, effect, out);
            port->at += 1;
            break;
        case EFFECT_RETAIN:
        case EFFECT_RELEASE: port->at += 1; break;
        }
    }
    if (port->late_count > 0 && out->kind == CORE_PORT_NOTHING && !port->is_broken)
        late_out(port, out);
    if (out->kind == CORE_PORT_NOTHING)
        payload_table_sweep(&port->payloads);
    return out->kind != CORE_PORT_NOTHING;
}

/* ---- a journal ------------------------------------------------------------------------------- */

void core_port_use_store(struct core_port *port, const struct payload_store *store)
{
    payload_table_use_store(&port->payloads, store);
}

void core_port_use_journal(struct core_port *port, const struct core_port_journal *journal)
{
    port->journal = *journal;
}

void core_port_use_peers(struct core_port *port, const struct core_port_peers *peers)
{
    port->peers = *peers;
}

void core_port_use_figures(struct core_port *port, const struct core_port_figures *figures)
{
    port->figures = *figures;
}

void core_port_use_shards(struct core_port *port, const struct core_port_shards *shards)
{
    port->shards = *shards;
}

int64_t core_port_began_ns(const struct core_port *port)
{
    return port->began_ns;
}

bool core_port_is_broken(const struct core_port *port)
{
    return port->is_broken;
}

struct buffer *core_port_payload(const struct core_port *port, payload_id payload)
{
    return payload_buffer(&port->payloads, payload);
}

bool core_port_payload_add(struct core_port *port, struct buffer **bytes, uint64_t at,
                           payload_id *out_payload)
{
    if (!payload_add(&port->payloads, bytes, out_payload))
        return false;
    if (at != PAYLOAD_NOWHERE)
        payload_logged(&port->payloads, payload_key(&port->payloads, *out_payload), at);
    return true;
}

bool core_port_payload_add_stored(struct core_port *port, uint64_t at, uint32_t bytes,
                                  payload_id *out_payload)
{
    return payload_add_stored(&port->payloads, at, bytes, out_payload);
}

void core_port_payload_drop(struct core_port *port, payload_id payload)
{
    payload_release(&port->payloads, payload, 1);
    payload_table_sweep(&port->payloads);
}

const char *core_port_replay(struct core_port *port, struct span record, payload_id payload)
{
    must(port->at == port->effects.count);
    effects_clear(&port->effects);
    port->at = port->fact_at = 0;
    const char *wrong = core_replay(port->core, record, payload, &port->effects);
    count_references(port);
    port->at = port->effects.count; /* nothing but references: there is nobody to tell yet */
    payload_table_sweep(&port->payloads);
    return wrong;
}

/* How far the core's clock is ahead of the machine's.  The monotonic clock of a machine begins anew
 * at each start, and differs between machines.  But earlier events must not seem later than new
 * ones.  So the core's clock goes on from where it was, plus the time that passed on the wall
 * clock. */
static int64_t clock_ahead_ns(struct core_moment seen, struct core_port_now now)
{
    if (seen.now_ns <= now.now_ns)
        return 0;
    int64_t away_ns = now.wall_ns > seen.wall_ns ? now.wall_ns - seen.wall_ns : 0;
    return seen.now_ns - now.now_ns + (away_ns < AWAY_NS_MAX ? away_ns : AWAY_NS_MAX);
}

void core_port_resume(struct core_port *port, struct core_port_now now)
{
    must(port->at == port->effects.count);
    port->ahead_ns = clock_ahead_ns(core_seen(port->core), now);
    struct event event = {.type = EVENT_TICK,
                          .now_ns = now.now_ns + port->ahead_ns,
                          .wall_ns = now.wall_ns,
                          .random = now.random};
    effects_clear(&port->effects);
    port->steps += 1;
    port->at = port->fact_at = 0;
    core_resume(port->core, &event, &port->effects);
    count_references(port);
}

uint64_t core_port_steps(const struct core_port *port)
{
    return port->steps;
}

void core_port_kept(struct core_port *port, uint64_t steps)
{
    port->kept = steps;
}

void core_port_snapshot(struct core_port *port)
{
    must(port->at == port->effects.count);
    effects_clear(&port->effects);
    port->at = port->fact_at = 0;
    core_snapshot(port->core, &port->effects);
}

uint64_t core_port_snapshot_bytes(struct core_port *port)
{
    struct effects unheard; /* apart: what core_resume() decided may still be to be carried out */
    effects_init(&unheard, port->effects.memory);
    core_snapshot(port->core, &unheard);
    uint64_t bytes = journal_codec_bytes(&unheard);
    effects_fini(&unheard);
    return bytes;
}

struct journal_step *core_port_step(struct core_port *port, size_t bytes_max)
{
    return journal_codec_step(&port->effects, &port->payloads, &port->fact_at, bytes_max);
}

uint64_t core_port_sparse_below(const struct core_port *port, uint64_t end, uint64_t bytes_max)
{
    return payload_sparse_below(&port->payloads, end, bytes_max);
}

uint64_t core_port_bytes_below(const struct core_port *port, uint64_t end, uint64_t *out_next)
{
    return payload_bytes_below(&port->payloads, end, out_next);
}

struct journal_step *core_port_move(struct core_port *port, uint32_t *at, uint64_t below)
{
    payload_id payload = port->is_broken ? 0 : payload_move(&port->payloads, at, below);
    if (payload == 0)
        return NULL;
    struct journal_step *step = journal_codec_move(&port->payloads, payload);
    port->is_broken = step == NULL;
    return step;
}

bool core_port_is_logged(const struct core_port *port)
{
    return port->payloads.logged_count == port->payloads.count && port->payloads.moving_count == 0;
}

uint64_t core_port_needed_from(const struct core_port *port)
{
    return payload_oldest(&port->payloads);
}

void core_port_logged(struct core_port *port, uint64_t key, uint64_t at)
{
    payload_logged(&port->payloads, key, at);
}

uint32_t core_port_payload_count(const struct core_port *port)
{
    return port->payloads.count;
}

uint64_t core_port_payload_bytes(const struct core_port *port)
{
    return port->payloads.bytes;
}

uint64_t core_port_payload_memory(const struct core_port *port)
{
    return port->payloads.memory_used;
}

const struct core *core_port_core(const struct core_port *port)
{
    return port->core;
}
