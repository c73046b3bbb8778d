/* SPDX-License-Identifier: MPL-2.0 */
/* core_port.h -- between parts and the core: bytes to events, effects to bytes.  No sockets, no
 * clock: the loop, the simulation and the in-process link all drive the broker through it.
 *
 * After each call that lets something in, gate_out() gives what is to be sent, in order. */
#ifndef IO_CORE_PORT_H
#define IO_CORE_PORT_H

#include "broker/core/core.h"
#include "broker/io/payload.h"
#include "broker/io/journal_thread.h"
#include "libbus/base/buffer.h"
#include "libbus/base/memory.h"
#include "libbus/wire/frame.h"

#include <stdbool.h>
#include <stdint.h>

struct gate;

/* The clocks and the dice of one moment. */
struct gate_now {
    int64_t now_ns; /* monotonic */
    int64_t wall_ns;
    uint64_t random;
};

/* NULL: no memory. */
struct gate *gate_new(struct memory *memory, const struct core_options *options, int64_t now_ns);
void gate_free(struct gate **gate);

/* A part from a connection of the control channel, or of the data channel (taken over, set to
 * NULL; kept as long as the core wants it).  The first part of an unknown conn makes it known. */
void gate_control_in(struct gate *gate, struct gate_now now, conn_id conn, struct span part);
void gate_data_in(struct gate *gate, struct gate_now now, conn_id conn, struct buffer **part);
/* Whether a part of the data channel is for the journal: a batch, or a piece of an attachment. */
bool gate_brings_bytes(struct span part);
/* What a part of the control channel asks of the journal. */
enum gate_weight {
    GATE_LIGHT,   /* little or nothing, in no order */
    GATE_ORDERED, /* little, but not before what was said before it */
    GATE_HEAVY,   /* errors, names: as much as its sender likes */
};
enum gate_weight gate_weigh(struct span part);
/* Not one part, as the channel has it: a violation. */
void gate_violation(struct gate *gate, struct gate_now now, conn_id conn, const char *complaint);
void gate_closed(struct gate *gate, struct gate_now now, conn_id conn);
void gate_tick(struct gate *gate, struct gate_now now);
void gate_stop(struct gate *gate, struct gate_now now);
/* The journal's state is another now; text: what is held back and why, in UTF-8. */
void gate_journal(struct gate *gate, struct gate_now now, enum journal_health health,
                  const char *text);
int64_t gate_deadline_ns(const struct gate *gate);

enum gate_out_kind {
    GATE_NOTHING,
    GATE_CONTROL, /* part to conn, on the control channel */
    GATE_DATA,    /* head, then part, to conn, on the data channel */
    GATE_DROP,    /* forget conn: ignore what comes from it */
    GATE_LOG,     /* text, for the operator */
    GATE_FACT,    /* part is a record for the journal, unless gate_step() gave it: before anything
                     that comes behind it goes out */
};
/* What is said with a part, for who must keep first what it tells. */
enum gate_saying {
    GATE_NEWS,    /* control events and signs of life: they wait for nothing */
    GATE_OUTCOME, /* frames: what slots became */
    GATE_ANSWER,  /* what was accepted, refused, granted, opened */
    GATE_SAYING_COUNT,
};
struct gate_out {
    enum gate_out_kind kind;
    enum gate_saying saying;
    conn_id conn;
    uint8_t head[DELIVERY_HEADER_BYTES];
    struct buffer *part; /* given to the caller, who drops the reference when it is sent */
    char text[512];
    bool is_warning;    /* LOG: an operator wants to know; otherwise only one who follows closely */
    payload_id payload; /* FACT: whose bytes stand beside the record; 0: it has none */
    bool is_kept;       /* DATA: these are values of which the journal has all already */
    bool is_essential;  /* FACT: it may use the space that is set aside for bad news */
};
/* The next thing to do; false: nothing more.  All is to be taken before the next thing is let in,
 * and a control part that was let in must stand until then.  Frames for the same subscription are
 * packed into one batch (see batch_encoder.h); a payload that is wanted whole goes by reference. */
bool gate_out(struct gate *gate, struct gate_out *out);

/* ---- a journal: with core_options.has_facts -------------------------------------------------- */

/* What the last call decided, as a step for the journal; NULL: nothing, or no more.  Of
 * gate_snapshot() in pieces of about bytes_max, otherwise whole.  Before gate_out(). */
struct scribe_step *gate_step(struct gate *gate, size_t bytes_max);
/* Up to where before `end` the journal holds little that is wanted, bytes_max at most; 0: nowhere.
 * What lies below is written anew by gate_move(): the next payload of it as a step; *at begins with
 * 0; NULL: no more. */
uint64_t gate_sparse_below(const struct gate *gate, uint64_t end, uint64_t bytes_max);
struct scribe_step *gate_move(struct gate *gate, uint32_t *at, uint64_t below);
/* Whether all payloads are in the journal, where they are to be: only then can a snapshot speak of
 * them. */
bool gate_is_logged(const struct gate *gate);
/* The position of the oldest payload; UINT64_MAX: there is none. */
uint64_t gate_needed_from(const struct gate *gate);
/* The payload with this key is in the journal now. */
void gate_logged(struct gate *gate, uint64_t key, uint64_t at);
/* Payloads in the journal may go from memory, and are read back when they are sent.  Before
 * anything is let in or replayed. */
void gate_use_store(struct gate *gate, const struct payload_store *store);
/* What a status says of the journal, of which the core knows nothing: asked when the answer is
 * encoded.  What it points to stands until the next call. */
struct gate_journal {
    void (*describe)(void *arg, struct msg_status_end *out);
    void *arg;
};
void gate_use_journal(struct gate *gate, const struct gate_journal *journal);
/* Whether a payload could not be read back.  Then what was to be said was not, and the gate says
 * nothing any more: its owner ends. */
bool gate_is_broken(const struct gate *gate);
/* The bytes of a payload that a GATE_FACT names, borrowed; good until gate_out() has no more. */
struct buffer *gate_payload(const struct gate *gate, payload_id payload);
/* In a new gate: bytes that facts will refer to, taken over, under a number of their own.  The
 * caller holds a reference until gate_payload_drop(): when no fact to come refers to them.  at: the
 * position in the journal; UINT64_MAX: there is none.  false: no memory. */
bool gate_payload_add(struct gate *gate, struct buffer **bytes, uint64_t at,
                      payload_id *out_payload);
/* The same for bytes that are in the store and stay there until they are sent. */
bool gate_payload_add_stored(struct gate *gate, uint64_t at, uint32_t bytes,
                             payload_id *out_payload);
void gate_payload_drop(struct gate *gate, payload_id payload);
/* One record after the other, then gate_resume(): see core_replay(), core_resume(). */
const char *gate_replay(struct gate *gate, struct span record, payload_id payload);
void gate_resume(struct gate *gate, struct gate_now now);
/* Steps of the core so far; and that what was decided in so many of the first is in the journal. */
uint64_t gate_steps(const struct gate *gate);
void gate_kept(struct gate *gate, uint64_t steps);
/* All that is durable, as facts: gate_out() gives them. */
void gate_snapshot(struct gate *gate);
/* What they would take in the journal.  As gate_snapshot(), where nothing waits to be taken. */
uint64_t gate_snapshot_bytes(struct gate *gate);

/* Payloads and their bytes kept now, and how many of these are in memory, for status and tests. */
uint32_t gate_payload_count(const struct gate *gate);
uint64_t gate_payload_bytes(const struct gate *gate);
uint64_t gate_payload_memory(const struct gate *gate);
const struct core *gate_core(const struct gate *gate);

#endif
