/* SPDX-License-Identifier: MPL-2.0 */
/* core_port.c -- between parts and the core: bytes to events, effects to bytes; see core_port.h.
 *
 * Order within one step: the core decides, counts of references are carried out, then gate_out()
 * gives the effects one by one, ACCEPTED last, for a reader waits for a value and its writer does
 * not wait for the answer.  When all is given, payloads that nobody refers to any more are freed.
 * So a run may be sent from a payload that the same step released. */
#include "broker/io/core_port.h"

#include "broker/io/journal_codec.h"
#include "broker/io/batch_encoder.h"
#include "broker/io/batch_decoder.h"
#include "libbus/base/must.h"
#include "libbus/wire/msg.h"

#include <stdio.h>

/* For no longer than this a broker was away, whatever the clock on the wall says: a year. */
#define AWAY_NS_MAX (INT64_C(365) * 86400 * 1000000000)

/* A connection whose client speaks a newer minor version than we: it may say what we do not know
 * (PROTOCOL.md, "Versions").  With the first release there are none, so a list will do. */
struct newer {
    conn_id conn;
    uint64_t token; /* of its session, once we welcomed it: its data connection names it; or 0 */
};

struct gate {
    struct memory *memory;
    struct core *core;
    struct payload_table payloads;
    struct runs runs; /* of the batch that was let in last */
    struct effects effects;
    uint32_t at;      /* the next effect to be given out */
    uint32_t fact_at; /* ... to be looked at for facts */
    uint32_t late_at; /* where the first ACCEPTED is that was passed over, and how many are */
    uint32_t late_count;
    struct newer *newers;
    uint32_t newer_count, newer_room;
    struct gate_journal journal;          /* describe NULL: there is none */
    int64_t ahead_ns;                     /* the core's clock, of the machine's */
    uint64_t steps;                       /* of the core */
    uint64_t kept;                        /* ... whose facts are in the journal */
    bool is_broken;                       /* a payload could not be read back */
    uint64_t skipped;                     /* messages of newer versions that we did not know */
    char complaint[200];                  /* stands as long as the event it is in */
    uint8_t scratch[LIMIT_CONTROL_BYTES]; /* a message being encoded */
};

struct gate *gate_new(struct memory *memory, const struct core_options *options, int64_t now_ns)
{
    struct gate *gate = memory_take(memory, sizeof *gate);
    if (gate == NULL)
        return NULL;
    gate->memory = memory;
    payload_table_init(&gate->payloads, memory);
    runs_init(&gate->runs, memory);
    effects_init(&gate->effects, memory);
    gate->core = core_new(memory, options, now_ns);
    if (gate->core == NULL)
        gate_free(&gate);
    return gate;
}

void gate_free(struct gate **gate)
{
    struct gate *old = *gate;
    *gate = NULL;
    if (old == NULL)
        return;
    core_free(&old->core);
    effects_fini(&old->effects);
    runs_fini(&old->runs);
    payload_table_fini(&old->payloads);
    memory_give(old->memory, old->newers, old->newer_room * sizeof *old->newers);
    memory_give(old->memory, old, sizeof *old);
}

/* ---- newer clients --------------------------------------------------------------------------- */

static struct newer *newer_find(const struct gate *gate, conn_id conn)
{
    for (uint32_t i = 0; i < gate->newer_count; i++)
        if (gate->newers[i].conn == conn)
            return &gate->newers[i];
    return NULL;
}

/* Without memory it is forgotten, and what we do not know is a violation. */
static void newer_add(struct gate *gate, conn_id conn, uint64_t token)
{
    if (newer_find(gate, conn) != NULL)
        return;
    if (gate->newer_count == gate->newer_room) {
        uint32_t room = gate->newer_room > 0 ? gate->newer_room * 2 : 16;
        size_t size = sizeof *gate->newers;
        struct newer *newers =
            memory_resize(gate->memory, gate->newers, gate->newer_room * size, room * size);
        if (newers == NULL)
            return;
        gate->newers = newers;
        gate->newer_room = room;
    }
    gate->newers[gate->newer_count++] = (struct newer){.conn = conn, .token = token};
}

static void newer_remove(struct gate *gate, conn_id conn)
{
    struct newer *newer = newer_find(gate, conn);
    if (newer != NULL)
        *newer = gate->newers[--gate->newer_count];
}

/* What a message from a client says about its version. */
static void newer_learn(struct gate *gate, conn_id conn, const struct msg *msg)
{
    if (msg->type == MSG_HELLO && msg->as.hello.minor > PROTOCOL_MINOR)
        newer_add(gate, conn, 0);
    if (msg->type != MSG_ATTACH)
        return;
    for (uint32_t i = 0; i < gate->newer_count; i++)
        if (gate->newers[i].token == msg->as.attach.token && gate->newers[i].token != 0) {
            newer_add(gate, conn, msg->as.attach.token);
            return;
        }
}

/* ---- in -------------------------------------------------------------------------------------- */

/* Counts are carried out at once: nothing is freed before the sweep, so their place among the other
 * effects does not matter. */
static void count_references(struct gate *gate)
{
    for (uint32_t i = 0; i < gate->effects.count; i++) {
        const struct effect *effect = &gate->effects.items[i];
        if (effect->type == EFFECT_RETAIN)
            payload_retain(&gate->payloads, effect->payload, effect->count);
        else if (effect->type == EFFECT_RELEASE)
            payload_release(&gate->payloads, effect->payload, effect->count);
    }
}

static void step(struct gate *gate, struct gate_now now, struct event event)
{
    must(gate->at == gate->effects.count);
    event.now_ns = now.now_ns + gate->ahead_ns;
    event.wall_ns = now.wall_ns;
    event.random = now.random;
    event.kept = gate->kept;
    gate->steps += 1;
    effects_clear(&gate->effects);
    gate->at = gate->fact_at = 0;
    core_step(gate->core, &event, &gate->effects);
    count_references(gate);
}

static void violate(struct gate *gate, struct gate_now now, conn_id conn, enum wire_err err,
                    const char *what)
{
    snprintf(gate->complaint, sizeof gate->complaint, "%s: %s", what, wire_strerror(err));
    gate_violation(gate, now, conn, gate->complaint);
}

/* A message whose bytes are kept as those of a batch are. */
static void piece_in(struct gate *gate, struct gate_now now, conn_id conn, const struct msg *msg)
{
    payload_id payload = 0;
    struct buffer *bytes = buffer_copy(msg->as.piece.bytes);
    if (bytes == NULL || !payload_add(&gate->payloads, &bytes, &payload)) {
        buffer_unref(&bytes);
        gate_violation(gate, now, conn, "piece: the broker is short of memory");
        return;
    }
    step(gate, now,
         (struct event){.type = EVENT_MESSAGE, .conn = conn, .payload = payload, .as.msg = msg});
    payload_release(&gate->payloads, payload, 1);
}

/* A part that should be a message of this lane. */
static void message_in(struct gate *gate, struct gate_now now, conn_id conn, enum msg_lane lane,
                       struct span part)
{
    struct msg msg;
    unsigned number = MSG_NONE;
    enum wire_err err = msg_decode(part, lane, MSG_TO_BROKER, &msg, &number);
    if (err == WIRE_OK && msg.type == MSG_PIECE && msg.as.piece.bytes.bytes > 0) {
        piece_in(gate, now, conn, &msg);
    } else if (err == WIRE_OK) {
        newer_learn(gate, conn, &msg);
        step(gate, now, (struct event){.type = EVENT_MESSAGE, .conn = conn, .as.msg = &msg});
    } else if (err == WIRE_UNKNOWN && newer_find(gate, conn) != NULL) {
        gate->skipped += 1;
    } else {
        const char *name = msg_name((enum msg_type)number);
        violate(gate, now, conn, err, name != NULL ? name : "message");
    }
}

bool gate_brings_bytes(struct span part)
{
    return runs_is_batch(part) || wire_number(part) == MSG_PIECE;
}

enum gate_weight gate_weigh(struct span part)
{
    switch (wire_number(part)) {
    case MSG_TOPIC_OPEN:
    case MSG_SUBSCRIBE:
    case MSG_SUB_ADD:
    case MSG_FAIL:
    case MSG_RETRACT:
    case MSG_TASK:
    case MSG_BRING:
    case MSG_FAIL_PARTY: return GATE_HEAVY;
    case MSG_UNSUBSCRIBE:
    case MSG_ACK:
    case MSG_COMPLETE:
    case MSG_LEAVE: return GATE_ORDERED;
    default: return GATE_LIGHT;
    }
}

void gate_control_in(struct gate *gate, struct gate_now now, conn_id conn, struct span part)
{
    if (part.bytes > LIMIT_CONTROL_BYTES)
        violate(gate, now, conn, WIRE_TOO_BIG, "control part");
    else
        message_in(gate, now, conn, MSG_LANE_CONTROL, part);
}

/* The core counts its references; ours is for the step alone. */
static void batch_in(struct gate *gate, struct gate_now now, conn_id conn, struct buffer **part)
{
    payload_id payload;
    uint32_t bytes = (uint32_t)(*part)->bytes;
    enum wire_err err = runs_read(&gate->runs, buffer_span(*part));
    if (err != WIRE_OK) {
        violate(gate, now, conn, err, "batch");
        return;
    }
    if (!payload_add(&gate->payloads, part, &payload)) {
        gate_violation(gate, now, conn, "batch: the broker is short of memory");
        return;
    }
    struct event event = {.type = EVENT_DATA, .conn = conn};
    event.as.data.number = gate->runs.number;
    event.as.data.payload = payload;
    event.as.data.payload_bytes = bytes;
    event.as.data.runs = gate->runs.items;
    event.as.data.run_count = gate->runs.count;
    step(gate, now, event);
    payload_release(&gate->payloads, payload, 1);
}

void gate_data_in(struct gate *gate, struct gate_now now, conn_id conn, struct buffer **part)
{
    if (runs_is_batch(buffer_span(*part)))
        batch_in(gate, now, conn, part);
    else
        message_in(gate, now, conn, MSG_LANE_DATA, buffer_span(*part));
    buffer_unref(part);
}

void gate_violation(struct gate *gate, struct gate_now now, conn_id conn, const char *complaint)
{
    step(gate, now,
         (struct event){.type = EVENT_VIOLATION, .conn = conn, .as.complaint = complaint});
}

void gate_closed(struct gate *gate, struct gate_now now, conn_id conn)
{
    newer_remove(gate, conn);
    step(gate, now, (struct event){.type = EVENT_CLOSED, .conn = conn});
}

void gate_tick(struct gate *gate, struct gate_now now)
{
    step(gate, now, (struct event){.type = EVENT_TICK});
}

void gate_stop(struct gate *gate, struct gate_now now)
{
    step(gate, now, (struct event){.type = EVENT_STOP});
}

void gate_journal(struct gate *gate, struct gate_now now, enum journal_health health,
                  const char *text)
{
    step(gate, now,
         (struct event){.type = EVENT_JOURNAL, .as.journal = {.health = health, .text = text}});
}

int64_t gate_deadline_ns(const struct gate *gate)
{
    int64_t due_ns = core_deadline_ns(gate->core);
    return due_ns == INT64_MAX ? due_ns : due_ns - gate->ahead_ns;
}

/* ---- out ------------------------------------------------------------------------------------- */

/* What the core says is within the limits of the protocol: it can be encoded. */
static struct buffer *encode(struct gate *gate, const struct msg *msg)
{
    size_t bytes = 0;
    must(msg_encode(msg, gate->scratch, sizeof gate->scratch, &bytes) == WIRE_OK);
    struct buffer *part = buffer_copy(span_of(gate->scratch, bytes));
    must(part != NULL);
    return part;
}

/* An observer's greeting promises nothing: a broker that cannot write can still be asked why. */
static enum gate_saying saying_of(const struct msg *msg)
{
    switch (msg->type) {
    case MSG_WELCOME: return msg->as.welcome.incarnation == 0 ? GATE_NEWS : GATE_ANSWER;
    case MSG_ECHO:
    case MSG_EVENT:
    case MSG_MISSED:
    case MSG_STATUS_ROW:
    case MSG_STATUS_END:
    case MSG_VERDICT_ROW:
    case MSG_VERDICT: /* as the events of which it tells */
    case MSG_DEAD_ROW:
    case MSG_DEAD_VALUE:
    case MSG_FETCHED:
    case MSG_ATTACHMENT_ROW:
    case MSG_REFUSED: /* there is no session of which it tells */
    case MSG_BYE: return GATE_NEWS;
    default: return GATE_ANSWER;
    }
}

/* What the core cannot say about itself. */
static void describe_journal(const struct gate *gate, struct msg_status_end *end)
{
    const struct payload_table *payloads = &gate->payloads;
    end->journal = span_text("none");
    end->spilled = payloads->count - payloads->memory_count;
    end->spilled_bytes = payloads->bytes - payloads->memory_used;
    if (gate->journal.describe != NULL)
        gate->journal.describe(gate->journal.arg, end);
}

/* The bytes of a piece of a value; false: they cannot be read back. */
static bool put_value(struct gate *gate, const struct effect *effect, struct msg_dead_value *msg)
{
    if (effect->payload == 0)
        return true;
    const struct buffer *payload = payload_fetch(&gate->payloads, effect->payload);
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
static bool put_piece(struct gate *gate, const struct effect *effect, struct msg_fetched_piece *msg)
{
    const struct buffer *payload = payload_fetch(&gate->payloads, effect->payload);
    if (payload == NULL)
        return false;
    must(effect->offset <= payload->bytes && effect->bytes <= payload->bytes - effect->offset);
    msg->bytes = span_of(payload->data + effect->offset, effect->bytes);
    return true;
}

/* The one message that goes to clients on the data channel; its head names no subscription. */
static void piece_out(struct gate *gate, const struct effect *effect, struct gate_out *out)
{
    struct msg *msg = &gate->effects.msgs[effect->index];
    gate->is_broken = !put_piece(gate, effect, &msg->as.fetched_piece);
    if (gate->is_broken)
        return;
    out->kind = GATE_DATA;
    out->saying = GATE_OUTCOME;
    out->conn = effect->conn;
    delivery_header_write(out->head, 0);
    out->part = encode(gate, msg);
}

static void control_out(struct gate *gate, const struct effect *effect, struct gate_out *out)
{
    struct msg *msg = &gate->effects.msgs[effect->index];
    conn_id conn = effect->conn;
    gate->is_broken = msg->type == MSG_DEAD_VALUE && !put_value(gate, effect, &msg->as.dead_value);
    if (gate->is_broken)
        return;
    if (msg->type == MSG_STATUS_END)
        describe_journal(gate, &msg->as.status_end);
    if (msg->type == MSG_WELCOME && gate->newer_count > 0) {
        struct newer *newer = newer_find(gate, conn);
        if (newer != NULL)
            newer->token = msg->as.welcome.token;
    }
    out->kind = GATE_CONTROL;
    out->saying = saying_of(msg);
    out->conn = conn;
    out->part = encode(gate, msg);
}

static int text_length(struct span text)
{
    return (int)(text.bytes > 200 ? 200 : text.bytes);
}

/* "EVENT JOB/PARTY/INCARNATION: TEXT", as far as they are known. */
static void log_out(const struct msg *msg, struct gate_out *out)
{
    const struct msg_event *event = &msg->as.event;
    char life[16] = "";
    if (event->party.bytes > 0)
        snprintf(life, sizeof life, "/%llu", (unsigned long long)event->incarnation);
    out->kind = GATE_LOG;
    out->is_warning = span_equal(event->name, span_text("party.lost"));
    snprintf(out->text, sizeof out->text, "%.*s %.*s%s%.*s%s%s%.*s", text_length(event->name),
             (const char *)event->name.data, text_length(event->topic),
             (const char *)event->topic.data, event->party.bytes > 0 ? "/" : "",
             text_length(event->party), (const char *)event->party.data, life,
             event->text.bytes > 0 ? ": " : "", text_length(event->text),
             (const char *)event->text.data);
}

static void fact_out(struct gate *gate, const struct effect *effect, struct gate_out *out)
{
    out->kind = GATE_FACT;
    out->part = buffer_copy(effects_record(&gate->effects, effect));
    must(out->part != NULL);
    out->payload = effect->payload;
    out->is_essential = fact_is_essential((enum fact_type)effect->index);
}

/* Whether the journal has all that these effects tell: payload and outcome of a value that came
 * whole are in it together. */
static bool is_kept(const struct gate *gate, uint32_t from, uint32_t until)
{
    for (uint32_t i = from; i < until; i++) {
        const struct effect *effect = &gate->effects.items[i];
        switch (effect->type) {
        case EFFECT_SEND_RUN:
        case EFFECT_SEND_PART:
            if (!effect->is_whole ||
                payload_at(&gate->payloads, effect->payload) == PAYLOAD_NOWHERE)
                return false;
            break;
        case EFFECT_SEND_MSG:
        case EFFECT_SEND_FRAME:
        case EFFECT_SEND_TASK: return false;
        default: break;
        }
    }
    return true;
}

/* What comes next, as one part.  A stream with a hole in it is worse than none: without its bytes
 * nothing behind it is said either. */
static void data_out(struct gate *gate, const struct effect *effect, struct gate_out *out)
{
    out->saying = GATE_OUTCOME;
    out->conn = effect->conn;
    delivery_header_write(out->head, effect->sub);
    uint32_t first = gate->at;
    out->part = pack_batch(&gate->effects, &gate->payloads, &gate->at);
    out->is_kept = is_kept(gate, first, gate->at);
    gate->is_broken = out->part == NULL;
    out->kind = gate->is_broken ? GATE_NOTHING : GATE_DATA;
}

static bool is_accepted(const struct gate *gate, const struct effect *effect)
{
    return effect->type == EFFECT_SEND_MSG &&
           gate->effects.msgs[effect->index].type == MSG_ACCEPTED;
}

static void pass_over(struct gate *gate)
{
    if (gate->late_count == 0)
        gate->late_at = gate->at;
    gate->late_count += 1;
    gate->at += 1;
}

/* What was passed over. */
static void late_out(struct gate *gate, struct gate_out *out)
{
    while (!is_accepted(gate, &gate->effects.items[gate->late_at]))
        gate->late_at += 1;
    control_out(gate, &gate->effects.items[gate->late_at], out);
    gate->late_at += 1;
    gate->late_count -= 1;
}

bool gate_out(struct gate *gate, struct gate_out *out)
{
    *out = (struct gate_out){.kind = GATE_NOTHING};
    if (gate->is_broken)
        gate->at = gate->effects.count;
    while (gate->at < gate->effects.count && out->kind == GATE_NOTHING) {
        const struct effect *effect = &gate->effects.items[gate->at];
        switch (effect->type) {
        case EFFECT_SEND_MSG:
            if (is_accepted(gate, effect)) {
                pass_over(gate);
                break;
            }
            if (gate->effects.msgs[effect->index].type == MSG_FETCHED_PIECE)
                piece_out(gate, effect, out);
            else
                control_out(gate, effect, out);
            gate->at = gate->is_broken ? gate->effects.count : gate->at + 1;
            break;
        case EFFECT_SEND_RUN:
        case EFFECT_SEND_PART:
        case EFFECT_SEND_TASK:
        case EFFECT_SEND_FRAME:
            data_out(gate, effect, out);
            if (gate->is_broken)
                gate->at = gate->effects.count;
            break;
        case EFFECT_DROP:
            newer_remove(gate, effect->conn);
            out->kind = GATE_DROP;
            out->conn = effect->conn;
            gate->at += 1;
            break;
        case EFFECT_LOG:
            log_out(&gate->effects.msgs[effect->index], out);
            gate->at += 1;
            break;
        case EFFECT_FACT:
            if (gate->at >= gate->fact_at) /* otherwise gate_step() gave it */
                fact_out(gate, effect, out);
            gate->at += 1;
            break;
        case EFFECT_RETAIN:
        case EFFECT_RELEASE: gate->at += 1; break;
        }
    }
    if (gate->late_count > 0 && out->kind == GATE_NOTHING && !gate->is_broken)
        late_out(gate, out);
    if (out->kind == GATE_NOTHING)
        payload_table_sweep(&gate->payloads);
    return out->kind != GATE_NOTHING;
}

/* ---- a journal ------------------------------------------------------------------------------- */

void gate_use_store(struct gate *gate, const struct payload_store *store)
{
    payload_table_use_store(&gate->payloads, store);
}

void gate_use_journal(struct gate *gate, const struct gate_journal *journal)
{
    gate->journal = *journal;
}

bool gate_is_broken(const struct gate *gate)
{
    return gate->is_broken;
}

struct buffer *gate_payload(const struct gate *gate, payload_id payload)
{
    return payload_buffer(&gate->payloads, payload);
}

bool gate_payload_add(struct gate *gate, struct buffer **bytes, uint64_t at,
                      payload_id *out_payload)
{
    if (!payload_add(&gate->payloads, bytes, out_payload))
        return false;
    if (at != PAYLOAD_NOWHERE)
        payload_logged(&gate->payloads, payload_key(&gate->payloads, *out_payload), at);
    return true;
}

bool gate_payload_add_stored(struct gate *gate, uint64_t at, uint32_t bytes,
                             payload_id *out_payload)
{
    return payload_add_stored(&gate->payloads, at, bytes, out_payload);
}

void gate_payload_drop(struct gate *gate, payload_id payload)
{
    payload_release(&gate->payloads, payload, 1);
    payload_table_sweep(&gate->payloads);
}

const char *gate_replay(struct gate *gate, struct span record, payload_id payload)
{
    must(gate->at == gate->effects.count);
    effects_clear(&gate->effects);
    gate->at = gate->fact_at = 0;
    const char *wrong = core_replay(gate->core, record, payload, &gate->effects);
    count_references(gate);
    gate->at = gate->effects.count; /* nothing but references: there is nobody to tell yet */
    payload_table_sweep(&gate->payloads);
    return wrong;
}

/* How far the core's clock is ahead of the machine's.  That of a machine begins anew when it is
 * started, and is another one on another machine: but what occurred before is not to seem later
 * than what comes, so the core's goes on where it was, and as far as the clock on the wall did. */
static int64_t clock_ahead_ns(struct core_moment seen, struct gate_now now)
{
    if (seen.now_ns <= now.now_ns)
        return 0;
    int64_t away_ns = now.wall_ns > seen.wall_ns ? now.wall_ns - seen.wall_ns : 0;
    return seen.now_ns - now.now_ns + (away_ns < AWAY_NS_MAX ? away_ns : AWAY_NS_MAX);
}

void gate_resume(struct gate *gate, struct gate_now now)
{
    must(gate->at == gate->effects.count);
    gate->ahead_ns = clock_ahead_ns(core_seen(gate->core), now);
    struct event event = {.type = EVENT_TICK,
                          .now_ns = now.now_ns + gate->ahead_ns,
                          .wall_ns = now.wall_ns,
                          .random = now.random};
    effects_clear(&gate->effects);
    gate->steps += 1;
    gate->at = gate->fact_at = 0;
    core_resume(gate->core, &event, &gate->effects);
    count_references(gate);
}

uint64_t gate_steps(const struct gate *gate)
{
    return gate->steps;
}

void gate_kept(struct gate *gate, uint64_t steps)
{
    gate->kept = steps;
}

void gate_snapshot(struct gate *gate)
{
    must(gate->at == gate->effects.count);
    effects_clear(&gate->effects);
    gate->at = gate->fact_at = 0;
    core_snapshot(gate->core, &gate->effects);
}

uint64_t gate_snapshot_bytes(struct gate *gate)
{
    struct effects unheard; /* apart: what core_resume() decided may still be to be carried out */
    effects_init(&unheard, gate->effects.memory);
    core_snapshot(gate->core, &unheard);
    uint64_t bytes = ledger_bytes(&unheard);
    effects_fini(&unheard);
    return bytes;
}

struct scribe_step *gate_step(struct gate *gate, size_t bytes_max)
{
    return ledger_step(&gate->effects, &gate->payloads, &gate->fact_at, bytes_max);
}

uint64_t gate_sparse_below(const struct gate *gate, uint64_t end, uint64_t bytes_max)
{
    return payload_sparse_below(&gate->payloads, end, bytes_max);
}

struct scribe_step *gate_move(struct gate *gate, uint32_t *at, uint64_t below)
{
    payload_id payload = gate->is_broken ? 0 : payload_move(&gate->payloads, at, below);
    if (payload == 0)
        return NULL;
    struct scribe_step *step = ledger_move(&gate->payloads, payload);
    gate->is_broken = step == NULL;
    return step;
}

bool gate_is_logged(const struct gate *gate)
{
    return gate->payloads.logged_count == gate->payloads.count && gate->payloads.moving_count == 0;
}

uint64_t gate_needed_from(const struct gate *gate)
{
    return payload_oldest(&gate->payloads);
}

void gate_logged(struct gate *gate, uint64_t key, uint64_t at)
{
    payload_logged(&gate->payloads, key, at);
}

uint32_t gate_payload_count(const struct gate *gate)
{
    return gate->payloads.count;
}

uint64_t gate_payload_bytes(const struct gate *gate)
{
    return gate->payloads.bytes;
}

uint64_t gate_payload_memory(const struct gate *gate)
{
    return gate->payloads.memory_used;
}

const struct core *gate_core(const struct gate *gate)
{
    return gate->core;
}
