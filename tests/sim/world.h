/* SPDX-License-Identifier: MPL-2.0 */
/* world.h -- a broker, parties and the network between them in one process, under virtual time.
 *
 * The broker is the port with the core behind it, a party is a session; between them encoded parts
 * travel over connections of two lanes each way.  Within a lane parts keep their order; between
 * lanes they do not.  A connection that breaks takes with it what is under way, and its two ends
 * are told late, or never.  The same seed gives the same run, part by part: see world_digest().
 *
 * A world knows nothing of what applications want; they hang on the hooks (app.h). */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "broker/io/core_port.h"
#include "libbus/session/session.h"
#include "libbus/session/session_observe.h"
#include "tests/sim/dice.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define WORLD_MS INT64_C(1000000) /* ns */
#define WORLD_NOBODY UINT32_MAX
#define WORLD_NEVER INT64_C(-1) /* as time until an end is told of a closed connection */

enum { WORLD_HOSTS = 16, WORLD_TEXT = 512 };

enum channel { CHANNEL_CONTROL, CHANNEL_DATA, CHANNEL_COUNT };
enum way { WAY_UP, WAY_DOWN, WAY_COUNT }; /* up: to the broker */

struct world_hooks {
    void *arg;
    /* Before a session is asked what it wants to send; or NULL. */
    void (*on_turn)(void *arg, uint32_t host);
    /* A session has news; afterwards what it wants to send goes out. */
    void (*on_news)(void *arg, uint32_t host, const struct session_news *news);
    /* A moment put down by world_at(). */
    void (*on_act)(void *arg, uint32_t what, uint32_t who, uint64_t value);
    /* An event of a job's control topic, at the moment it is made. */
    void (*on_event)(void *arg, uint32_t job, const struct msg_event *event);
    /* A dead letter, when somebody asks as world_ask(); or NULL. */
    void (*on_letter)(void *arg, uint32_t job, const struct msg_dead_row *row);
    /* All that a party says, and all that the broker says, notes and logs, byte for byte. */
    void (*on_bytes)(void *arg, bool is_from_broker, struct span bytes);
    /* A member of a group is told that a lease of it is over; before its session is.  Or NULL. */
    void (*on_task_over)(void *arg, uint32_t host, const struct msg_task_over *over);
    /* Whether the process of a host has no threads but those whose calls are blocked; NULL: it has
     * none. */
    bool (*is_alone)(void *arg, uint32_t host);
    /* After each moment. */
    void (*on_step)(void *arg);
};

struct world_options {
    uint64_t seed;
    struct core_options core;
    int64_t delay_least_ns[CHANNEL_COUNT], delay_most_ns[CHANNEL_COUNT];
    uint64_t link_rate;      /* bytes a second, each way of each connection; 0: no limit */
    uint32_t spike_permille; /* so many parts take longer, by ... */
    int64_t spike_most_ns;
    int64_t tick_late_ns;        /* timers go off so late at most */
    uint32_t lane_parts_max;     /* parts under way that a link takes */
    uint32_t no_notice_permille; /* of connections that a session closes, unknown to the broker */
    int64_t notice_most_ns;
    uint32_t check_every; /* steps of the broker, after which its journal must give what it has */
    /* Facts take so long at most until they are on the disk; what is said with them waits, and a
     * broker that is killed never says it.  What is written until then may survive or be torn. */
    int64_t log_most_ns;
    /* Not 0: facts are in the log then, and take so long at most until they are on the disk; what
     * waits for which is said by the durability in core (broker/io/durability.h).  The machine of
     * the broker ends with it, and the next one has what was synced. */
    int64_t sync_most_ns;
    /* Not 0: the journal is a shard in the model of PostgreSQL (nodes.h), and facts take as long as
     * that takes.  Durability must be shared; log_most_ns and sync_most_ns mean nothing.  A second
     * process waits for the shard (seats.h). */
    uint64_t shard_seed;
    /* This allocation of the broker fails, counted from when it has begun; 0: none.  What effects
     * take is not counted: see effect.h. */
    uint64_t fail_at;
    bool is_recorded; /* lines are kept, see world_lines() */
    FILE *trace;      /* everything that happens goes there; NULL: nowhere */
    FILE *lines;      /* what world_line() is told alone; NULL: nowhere */
    struct world_hooks hooks;
};

struct host_options {
    const char *job;
    const char *party;
    const char *run;  /* its name; NULL: the run that the ends of the party make it */
    uint8_t run_rule; /* as HELLO.run_rule */
    int64_t heartbeat_ms, lost_after_ms, grace_ms, broker_lost_ms;
    size_t outbox_bytes_max, inbox_bytes_max; /* 0: a MiB */
    uint64_t chunk_bytes_max;                 /* 0: as the protocol allows */
    enum disclosure disclosure;               /* of its errors */
    bool is_sealing;                          /* their traces, to the auditor of around.h */
    char place[24];                           /* where it runs; "": nowhere */
    bool is_guard;
    bool is_courier;     /* an observer: job and party are empty */
    uint32_t program_of; /* 0, or 1 + the host of the guard that guards it */
};

struct world;

void world_options_init(struct world_options *options);
struct world *world_new(const struct world_options *options);
/* The broker ends; whatever memory it has then is a leak. */
void world_close(struct world *world);
void world_free(struct world **world);

int64_t world_now_ns(const struct world *world);
struct dice *world_dice(struct world *world);
/* Goes on until that time, or until a promise is broken. */
void world_run(struct world *world, int64_t until_ns);
void world_at(struct world *world, int64_t at_ns, uint32_t what, uint32_t who, uint64_t value);

/* Follows the control topic of a job from its beginning; returns the job's number, from 0. */
uint32_t world_tap(struct world *world, const char *job);
/* Who follows it asks something: the answer is not waited for. */
void world_ask(struct world *world, uint32_t tap, const struct msg *question);
/* Who follows it brings an attachment of one piece. */
bool world_bring(struct world *world, uint32_t tap, const struct msg_bring *bring,
                 struct span bytes);
/* Nobody follows any more: taps, too, keep a job. */
void world_untap(struct world *world);

/* ---- parties --------------------------------------------------------------------------------- */

/* A place for a party; options are copied.  Nothing runs in it yet. */
uint32_t world_host(struct world *world, const struct host_options *options);
/* Processes that start there from now on are of the run of this name (NULL: it has none), and say
 * of themselves what HELLO.run_rule says. */
void world_choose_run(struct world *world, uint32_t host, const char *run, uint8_t rule);
/* A process starts there: a session that knows nothing of an earlier one. */
void world_start(struct world *world, uint32_t host);
/* It is gone at once.  What it sent is still under way if is_flushed. */
void world_kill(struct world *world, uint32_t host, bool is_flushed, int64_t notice_ns);
/* All that run; the broker is never told. */
void world_kill_all(struct world *world);
void world_freeze(struct world *world, uint32_t host, int64_t for_ns);
void world_thaw(struct world *world, uint32_t host);
bool world_is_frozen(const struct world *world, uint32_t host);
/* NULL: no process runs there. */
struct session *world_session(struct world *world, uint32_t host);
/* Its control connection: another number for each; 0: it has none. */
uint32_t world_link(const struct world *world, uint32_t host);
/* The clock of that host, for calls of its session. */
int64_t world_host_ns(const struct world *world, uint32_t host);
/* After calls of its session: what it wants to send goes out. */
void world_pump(struct world *world, uint32_t host);

/* ---- the network ----------------------------------------------------------------------------- */

/* The connections of these channels (bit by bit) break; told to the ends after so long. */
void world_break(struct world *world, uint32_t host, unsigned channels, int64_t broker_notice_ns,
                 int64_t client_notice_ns);
/* One way of both connections swallows everything from now on; nobody is told. */
void world_half_open(struct world *world, uint32_t host, enum way way);
void world_half_open_one(struct world *world, uint32_t host, enum channel channel, enum way way);
/* Nothing arrives for a while, one channel's or both's, either way; then all of it. */
void world_stall(struct world *world, uint32_t host, unsigned channels, int64_t for_ns);
/* From now on parts take no longer than so, and timers are on time. */
void world_calm(struct world *world, int64_t delay_most_ns);
/* An outsider sends these bytes over a connection of its own. */
void world_intrude(struct world *world, enum channel channel, struct span bytes);
/* A batch, or a message with a number, that this host sent in this incarnation comes once more. */
void world_repeat(struct world *world, uint32_t host, enum channel channel);
/* A part that this host sent lately, for an outsider to send again; empty: there is none. */
struct span world_overheard(const struct world *world, uint32_t host, enum channel channel);

/* ---- the broker ------------------------------------------------------------------------------ */

struct core_port *world_gate(struct world *world);
uint64_t world_broker_bytes(const struct world *world);       /* memory that it has */
uint64_t world_broker_allocations(const struct world *world); /* see fail_at */
/* With core_options.has_facts: it is killed; after a while another one begins with its journal. */
void world_crash_broker(struct world *world, int64_t down_ns);
/* With durability shared: another broker takes its journal, and begins after down_ns.  The first
 * one does not know that.  It does nothing for stopped_ns, and serves its clients for alive_ns
 * then, but can keep nothing.  Clients that look for a broker find either. */
void world_replace_by_spare(struct world *world, int64_t stopped_ns, int64_t alive_ns,
                            int64_t down_ns);
/* With a shard: for faults of the store, whose clients are the seats. */
struct nodes *world_nodes(struct world *world);
/* The process of a seat is gone: that of the broker, of one that was replaced, or a spare.  Another
 * one begins there soon. */
void world_kill_seat(struct world *world, unsigned seat);
/* It does nothing for so long, and does not know that. */
void world_stop_seat(struct world *world, unsigned seat, int64_t for_ns);
/* A copy of its journal is made.  Without log_most_ns, and the journal is not compacted. */
void world_back_up(struct world *world);
/* As world_crash_broker(), but the next broker begins with the copy. */
void world_restore_broker(struct world *world, int64_t down_ns);
bool world_is_broker_down(const struct world *world);
/* It does nothing for so long, and is not told how long that was. */
void world_stop_broker(struct world *world, int64_t for_ns);
/* The same, for less than it takes for a standstill.  Then it looks at what is due before it reads
 * what came.  That look judges nobody who had said something, and no slot whose value had come. */
void world_delay_broker(struct world *world, int64_t for_ns);
/* Its wall clock is set forward, or back. */
void world_jump_clock(struct world *world, int64_t by_ns);
/* Its disk is full for so long: values wait as the loop lets them (broker/design/durability.md,
 * "A full disk"); is_short: so little is set aside that control waits, too. */
void world_fill_disk(struct world *world, int64_t for_ns, bool is_short);
/* The n-th allocation from now on fails; see fail_at. */
void world_starve_broker(struct world *world, uint64_t n);
/* True once for each allocation that failed. */
bool world_was_starved(struct world *world);
/* Whether it was ever made to fail, by this or a broker before. */
bool world_has_starved(const struct world *world);
/* Another broker begins with its journal while it lives. */
void world_rival_broker(struct world *world);
/* It goes on, its disk has room, and no allocation fails. */
void world_relieve_broker(struct world *world);
/* Its journal becomes a snapshot of what is. */
void world_compact(struct world *world);
/* Another access table comes into force, borrowed for the rest of the run; the first one was in
 * core_options.  A party has the name of its principal.  Who follows the control topic is
 * WORLD_OPERATOR. */
#define WORLD_OPERATOR "ops"
void world_use_access(struct world *world, const struct access *access);
/* Whether all tables since then let this party read all that the pattern matches. */
bool world_could_read(const struct world *world, uint32_t host, int64_t since_ns,
                      const char *pattern);
/* Another broker takes its place, which knows nothing. */
void world_replace_broker(struct world *world);

/* ---- what was seen --------------------------------------------------------------------------- */

/* A promise is broken: the first one is kept and ends the run. */
void world_violate(struct world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
const char *world_violation(const struct world *world); /* NULL: none */
/* Whether world_line() leads anywhere: lines cost more than the rest of a run. */
bool world_is_telling(const struct world *world);
/* "[ 110] ..." */
void world_line(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Lines so far; borrowed until the next one. */
uint32_t world_lines(const struct world *world, char *const **out_lines);
uint64_t world_digest(const struct world *world);

#endif
