/* SPDX-License-Identifier: MPL-2.0 */
/* core_port.h -- between parts and the core: bytes to events, effects to bytes.  No sockets, no
 * clock: the loop, the simulation and the in-process link all drive the broker through it.
 *
 * After each call that lets something in, core_port_out() gives what is to be sent, in order. */
#ifndef IO_CORE_PORT_H
#define IO_CORE_PORT_H

#include "broker/core/core.h"
#include "broker/io/log.h"
#include "broker/io/payload.h"
#include "broker/io/journal_thread.h"
#include "libbus/base/buffer.h"
#include "libbus/base/memory.h"
#include "libbus/wire/frame.h"
#include "libbus/wire/msg.h"

#include <stdbool.h>
#include <stdint.h>

struct core_port;

/* The clocks and the dice of one moment. */
struct core_port_now {
    int64_t now_ns; /* monotonic */
    int64_t wall_ns;
    uint64_t random;
};

/* NULL: no memory. */
struct core_port *core_port_new(struct memory *memory, const struct core_options *options,
                                int64_t now_ns);
void core_port_free(struct core_port **port);

/* A part from a connection of the control channel, or of the data channel (taken over, set to
 * NULL; kept as long as the core wants it).  The first part of an unknown conn makes it known. */
void core_port_control_in(struct core_port *port, struct core_port_now now, conn_id conn,
                          struct span part);
void core_port_data_in(struct core_port *port, struct core_port_now now, conn_id conn,
                       struct buffer **part);
/* Whose connection the next parts come from: a number in the access table in force; 0: nobody's. */
void core_port_speaker(struct core_port *port, uint32_t principal);
/* Whether a part of the data channel is for the journal: a batch, or a piece of an attachment. */
bool core_port_brings_bytes(struct span part);
/* What a part of the control channel asks of the journal: as messages.def has it; MSG_LIGHT of what
 * is no message. */
enum msg_weight core_port_weigh(struct span part);
/* Not one part, as the channel has it: a violation. */
void core_port_violation(struct core_port *port, struct core_port_now now, conn_id conn,
                         const char *complaint);
void core_port_closed(struct core_port *port, struct core_port_now now, conn_id conn);
void core_port_tick(struct core_port *port, struct core_port_now now);
void core_port_stop(struct core_port *port, struct core_port_now now);
/* The journal's state is another now; text: what is held back and why, in UTF-8. */
void core_port_journal(struct core_port *port, struct core_port_now now, enum journal_health health,
                       const char *text);
/* Another access table is in force, borrowed until the next one. */
void core_port_access(struct core_port *port, struct core_port_now now,
                      const struct access *access);
/* News of the access file that change no table; text in UTF-8, which stands until all is taken. */
void core_port_access_word(struct core_port *port, struct core_port_now now, enum access_word word,
                           const char *text);
int64_t core_port_deadline_ns(const struct core_port *port);

enum core_port_out_kind {
    CORE_PORT_NOTHING,
    CORE_PORT_CONTROL, /* part to conn, on the control channel */
    CORE_PORT_DATA,    /* head, then part, to conn, on the data channel */
    CORE_PORT_DROP,    /* forget conn: ignore what comes from it */
    CORE_PORT_RELOAD,  /* conn wants the access file to be read again */
    CORE_PORT_LOG,     /* event, and the same as text, for the operator; of conn, or 0 */
    CORE_PORT_FACT,    /* part is a record for the journal, unless core_port_step() gave it:
                       before anything that comes behind it goes out */
};
/* What is said with a part, for who must keep first what it tells. */
enum core_port_saying {
    CORE_PORT_NEWS,       /* control events and signs of life: they wait for nothing */
    CORE_PORT_OUTCOME,    /* frames: what slots became */
    CORE_PORT_ANSWER,     /* what was accepted, refused, granted, opened */
    CORE_PORT_WELCOME,    /* of a party */
    CORE_PORT_CONCLUSION, /* refused sessions, verdicts and dead letters */
    CORE_PORT_SAYING_COUNT,
};
struct core_port_out {
    enum core_port_out_kind kind;
    enum core_port_saying saying;
    conn_id conn;
    uint8_t head[DELIVERY_HEADER_BYTES];
    struct buffer *part; /* given to the caller, who drops the reference when it is sent */
    char text[512];
    struct log_event event; /* LOG: its texts are borrowed until the next call */
    bool is_warning;    /* LOG: an operator wants to know; otherwise only one who follows closely */
    payload_id payload; /* FACT: whose bytes stand beside the record; 0: it has none */
    int64_t error_ns;   /* DATA: an error is in it, decided at this time; 0: none is */
    bool is_kept;       /* DATA: of these values all is kept already (core_port_logged()) */
    bool is_essential;  /* FACT: it may use the space that is set aside for bad news */
};
/* The next thing to do; false: nothing more.  All is to be taken before the next thing is let in,
 * and a control part that was let in must stand until then.  Frames for the same subscription are
 * packed into one batch (see batch_encoder.h); a payload that is wanted whole goes by reference. */
bool core_port_out(struct core_port *port, struct core_port_out *out);

/* ---- a journal: with core_options.has_facts -------------------------------------------------- */

/* What the last call decided, as a step for the journal; NULL: nothing, or no more.  Of
 * core_port_snapshot() in pieces of about bytes_max, otherwise whole.  Before core_port_out(). */
struct journal_step *core_port_step(struct core_port *port, size_t bytes_max);
/* Below which place payloads are to be written anew, because the journal holds little before `end`
 * that is wanted: the oldest ones, of at most bytes_max; 0: none.  core_port_move() does that: each
 * call gives the next one as a step; *at begins at 0; NULL: no more. */
uint64_t core_port_sparse_below(const struct core_port *port, uint64_t end, uint64_t bytes_max);
/* Bytes of all payloads below `end`; out_next: the position of the oldest other one. */
uint64_t core_port_bytes_below(const struct core_port *port, uint64_t end, uint64_t *out_next);
struct journal_step *core_port_move(struct core_port *port, uint32_t *at, uint64_t below);
/* Whether all payloads are in the journal, where they are to be: only then can a snapshot speak of
 * them. */
bool core_port_is_logged(const struct core_port *port);
/* The position of the oldest payload; UINT64_MAX: there is none. */
uint64_t core_port_needed_from(const struct core_port *port);
/* The payload with this key is in the journal now, and kept as well as an outcome must be. */
void core_port_logged(struct core_port *port, uint64_t key, uint64_t at);
/* Payloads in the journal may go from memory, and are read back when they are sent.  Before
 * anything is let in or replayed. */
void core_port_use_store(struct core_port *port, const struct payload_store *store);
/* What a status says of the journal, of which the core knows nothing: asked when the answer is
 * encoded.  What it points to stands until the next call. */
struct core_port_journal {
    void (*describe)(void *arg, struct msg_status_end *out);
    void *arg;
};
void core_port_use_journal(struct core_port *port, const struct core_port_journal *journal);
/* The same of the connections that an answer to WHO names. */
struct core_port_peers {
    void (*describe)(void *arg, struct msg_who_row *out);
    void *arg;
};
void core_port_use_peers(struct core_port *port, const struct core_port_peers *peers);
/* What METRICS says of all that the core knows nothing of: asked for each such message.  The
 * processor time is that of STATUS, too. */
struct core_port_figures {
    void (*tell)(void *arg, struct metric_figures *out);
    void *arg;
    uint64_t (*cpu_ns)(void);
};
void core_port_use_figures(struct core_port *port, const struct core_port_figures *figures);
/* What SHARDS is told: asked for each such message, and stands until all is taken. */
struct core_port_shards {
    const struct event_shards *(*tell)(void *arg);
    void *arg;
};
void core_port_use_shards(struct core_port *port, const struct core_port_shards *shards);
/* The machine's clock at the last call that let something in. */
int64_t core_port_began_ns(const struct core_port *port);
/* Whether a payload could not be read back.  Then the port sends nothing any more, and its owner
 * ends the broker. */
bool core_port_is_broken(const struct core_port *port);
/* The bytes of a payload that a CORE_PORT_FACT names, borrowed; good until core_port_out() has no
 * more. */
struct buffer *core_port_payload(const struct core_port *port, payload_id payload);
/* In a new port: bytes that facts will refer to, taken over, under a number of their own.  The
 * caller holds a reference until core_port_payload_drop(): when no fact to come refers to them.
 * at: the position in the journal; UINT64_MAX: there is none.  false: no memory. */
bool core_port_payload_add(struct core_port *port, struct buffer **bytes, uint64_t at,
                           payload_id *out_payload);
/* The same for bytes that are in the store and stay there until they are sent. */
bool core_port_payload_add_stored(struct core_port *port, uint64_t at, uint32_t bytes,
                                  payload_id *out_payload);
void core_port_payload_drop(struct core_port *port, payload_id payload);
/* One record after the other, then core_port_resume(): see core_replay(), core_resume(). */
const char *core_port_replay(struct core_port *port, struct span record, payload_id payload);
void core_port_resume(struct core_port *port, struct core_port_now now);
/* Steps of the core so far; and that what was decided in so many of the first is in the journal. */
uint64_t core_port_steps(const struct core_port *port);
void core_port_kept(struct core_port *port, uint64_t steps);
/* All that is durable, as facts: core_port_out() gives them. */
void core_port_snapshot(struct core_port *port);
/* What they would take in the journal.  As core_port_snapshot(), where nothing waits to be taken.
 */
uint64_t core_port_snapshot_bytes(struct core_port *port);

/* Payloads and their bytes kept now, and how many of these are in memory, for status and tests. */
uint32_t core_port_payload_count(const struct core_port *port);
uint64_t core_port_payload_bytes(const struct core_port *port);
uint64_t core_port_payload_memory(const struct core_port *port);
const struct core *core_port_core(const struct core_port *port);

#endif
