/* SPDX-License-Identifier: MPL-2.0 */
/* world.c -- the clock, the broker, the hosts and what lies between; see world.h.
 *
 * A moment of the agenda is one step: a part arrives, a timer goes off, an end learns of a closed
 * connection, or whoever hangs on the hooks acts.  After it, all that the broker and the session
 * concerned want to send is put under way. */
#include "tests/sim/world.h"

#include "broker/io/durability.h"
#include "broker/io/persistence.h"
#include "libbus/base/must.h"
#include "libbus/session/session_connection.h"
#include "tests/lib/fnv.h"
#include "tests/lib/scarce.h"
#include "tests/sim/access_check.h"
#include "tests/sim/agenda.h"
#include "tests/sim/around.h"
#include "tests/sim/coverage.h"
#include "tests/sim/lane.h"
#include "tests/sim/late_look.h"
#include "tests/sim/ledger.h"
#include "tests/sim/seats.h"
#include "tests/sim/tape.h"
#include "tests/sim/trace.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SPIN_MAX = 10000, /* rounds without time passing, before somebody is said to spin */
    TAPS = 4,
    TAP_BEAT_MS = 10000,
    PARKED_MAX =
        32,        /* batches of a connection on a full disk (broker/io/waiting_batches.h: bytes) */
    OVERHEARD = 8, /* parts of a connection that an outsider remembers */
    MUTE_SLICE_MS = 100, /* as in broker/io/mute.c */
    RESTART_MS = 2000,   /* a process that ended begins again, at most so much later */
    HOST_OUTSIDE = 1000, /* as host of a connection: an outsider's; HOST_TAP + job: a tap's */
    HOST_TAP = 2000,
};
#define EPOCH_APART_NS INT64_C(43200000000000)
#define BROKER_EPOCH_NS INT64_C(86400000000000) /* its monotonic clock at the beginning, about */
#define WALL_EPOCH_NS INT64_C(1700000000000000000)
#define BROKER_BYTES_MAX (UINT64_C(1) << 30)
#define HOST_BYTES_MAX (UINT64_C(1) << 28)
#define BOX_BYTES ((size_t)1 << 20) /* of an outbox or inbox whose size nobody gave */

enum moment_kind {
    MOMENT_LANE,      /* who: connection, value: way */
    MOMENT_HOST_TICK, /* who: host, value: how often it started */
    MOMENT_BROKER_TICK,
    MOMENT_CLOSED_BROKER, /* who: connection */
    MOMENT_CLOSED_CLIENT, /* who: connection */
    MOMENT_TAP_BEAT,      /* who: tap */
    MOMENT_BROKER_UP,
    MOMENT_KEPT,
    MOMENT_ROOM,          /* the broker's disk has room */
    MOMENT_ACCESS,        /* the broker takes a new access table */
    MOMENT_LOOKED,        /* the broker was late, has looked, and has read what had come */
    MOMENT_REPLACED_TICK, /* of the broker that was replaced; value: how many were */
    MOMENT_REPLACED_END,  /* likewise: it learns that it was */
    MOMENT_SEAT,          /* who: a seat goes on */
    MOMENT_SEAT_START,    /* who: a process begins there */
    MOMENT_ACT,           /* who: host or nobody, value: index of the act */
};

struct act {
    uint32_t what, who;
    uint64_t value;
};

struct conn {
    uint32_t host;
    enum channel channel;
    struct lane lanes[WAY_COUNT];
    conn_id data;        /* control: the data connection beside it; 0: none yet */
    uint64_t sent_bytes; /* data: of frames that the broker sent on it */
    bool is_left;        /* the client has nothing to do with it any more */
    bool is_forgotten;   /* the broker: CORE_PORT_DROP */
    bool is_closed;      /* the broker was told that it is closed */
    uint32_t parked;     /* batches that wait for room on the broker's disk */
    bool is_shed;        /* ... more came than it takes: nothing of what follows is let in */
    bool is_put_off;     /* what it says on control was dropped for want of room, */
    bool is_mute;        /* ... and so it is heard no more */
    bool is_replaceds;   /* at its other end is the broker that was replaced */
};

struct host {
    struct host_options options;
    struct memory memory;
    struct session *session;
    uint32_t starts;              /* sessions so far */
    conn_id conns[CHANNEL_COUNT]; /* 0: none */
    int64_t clock_ns;             /* its clock is so far ahead of the world's */
    int64_t armed_ns;             /* the next tick put down */
    int64_t frozen_until_ns;
    enum wire_code end; /* as first seen */
    uint64_t end_hash;
    struct buffer *overheard[CHANNEL_COUNT];
};

struct tap {
    const char *job;
    conn_id conn;
    conn_id data;   /* 0: it brought nothing on this connection yet */
    uint64_t token; /* of its session; 0: it is not welcome yet */
    uint64_t connection;
    uint64_t seen_id;
    uint64_t taken_id;  /* as the broker was told */
    uint64_t copied_id; /* seen_id when the journal was copied */
};

/* What the broker says when its journal has so many records, in the log or on the disk. */
struct held_part {
    int64_t due_ns; /* when it has */
    uint32_t record_count;
    uint64_t sync;       /* of a shard: this sync must be over; 0: any */
    uint64_t steps;      /* of the broker's that are in the journal then */
    conn_id conn;        /* 0: nothing is said, but the records count */
    struct buffer *part; /* a reference */
    uint8_t head[DELIVERY_HEADER_BYTES];
};

/* In order, from `at` on. */
struct held_parts {
    struct held_part *items;
    uint32_t at, count, room;
};

/* A batch that waits for room. */
struct parked {
    conn_id conn;
    struct buffer *bytes;
};

/* What a broker says behind a step. */
struct said {
    struct held_part held;
    enum core_port_saying saying;
    bool is_kept;
};

/* A broker whose journal is another's by now.  It does not know that, for it is cut off from what
 * its journal is on, and not from its clients.  It can keep nothing any more. */
struct replaced {
    struct core_port *port; /* NULL: there is none */
    struct scarce *scarce;
    struct dice dice;
    const struct access *access;
    int64_t epoch_ns, wall_ahead_ns; /* of its machine, as in struct world */
    int64_t stopped_until_ns;
    bool is_behind;         /* its answers wait for what is never kept, */
    bool is_value_held;     /* ... and so do outcomes, even of what is kept */
    struct said *said;      /* of the step that is under way */
    unsigned seat;          /* of a shard */
    uint32_t syncing_count; /* so many records are on the disk when its last sync is done, */
    uint32_t taken_count;   /* ... and so many the next one found */
    uint32_t room;
    uint32_t count; /* of brokers that were replaced so far */
};

struct world {
    struct world_options options;
    int64_t now_ns;
    int64_t broker_epoch_ns;    /* what its machine's monotonic clock says at 0 */
    struct dice dice;           /* of faults, delays and whoever asks */
    struct dice core_port_dice; /* of the broker: its tokens */
    struct dice disk_dice;      /* how the disk fares, and when it is written */
    struct agenda agenda;
    struct act *acts;
    uint32_t act_count, act_room;
    struct scarce *scarce;  /* memory of the broker */
    bool has_starved;       /* an allocation was made to fail */
    uint64_t begun_with;    /* allocations that it needed to begin */
    struct core_port *port; /* NULL: the broker is down */
    bool is_resuming;       /* it has not looked yet at who lost access while it was down */
    struct access_check access_check;
    struct ledger *ledger;  /* NULL: it has no journal */
    uint32_t steps;         /* since the ledger was checked */
    struct seats *seats;    /* NULL: the journal is no shard */
    unsigned seat;          /* of the broker */
    int64_t seats_ahead_ms; /* their clock */
    int64_t seat_stopped_until_ns[SEATS];
    uint64_t syncs_begun; /* by the broker in that seat, */
    uint64_t syncs_done;
    uint32_t syncing_count; /* records that are on the disk when the last one is done */
    struct held_parts for_log;
    struct held_parts for_disk;
    int64_t logged_ns;     /* when the newest facts are in the log, */
    int64_t synced_ns;     /* ... and on the disk */
    uint32_t synced_count; /* records that are on the disk, */
    uint32_t copied_count; /* ... and in the copy */
    int64_t core_port_armed_ns;
    int64_t stopped_until_ns;         /* the broker */
    int64_t late_until_ns;            /* then it looks before it reads */
    const struct access *next_access; /* that it takes when it goes on; NULL: none */
    struct late_look late_look;
    struct replaced replaced;
    int64_t wall_ahead_ns; /* its wall clock was set by so much */
    int64_t full_until_ns; /* its disk */
    bool is_short;
    struct parked *parked; /* in order */
    uint32_t parked_count, parked_room;
    struct conn **conns; /* by id - 1 */
    uint32_t conn_count, conn_room;
    struct host hosts[WORLD_HOSTS];
    uint32_t host_count;
    struct tap taps[TAPS];
    uint32_t tap_count;
    char **lines;
    uint32_t line_count, line_room;
    uint64_t digest;
    char violation[WORLD_TEXT];
};

static uint8_t control_part[LIMIT_CONTROL_BYTES];

/* ---- what is seen ---------------------------------------------------------------------------- */

static void digest(struct world *world, const void *data, size_t bytes)
{
    world->digest = fnv(world->digest, data, bytes);
}

void world_violate(struct world *world, const char *format, ...)
{
    if (world->violation[0] != 0)
        return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(world->violation, sizeof world->violation, format, args); /* may be cut */
    va_end(args);
    world_line(world, "BROKEN: %s", world->violation);
}

const char *world_violation(const struct world *world)
{
    return world->violation[0] != 0 ? world->violation : NULL;
}

bool world_is_telling(const struct world *world)
{
    const struct world_options *options = &world->options;
    return options->is_recorded || options->trace != NULL || options->lines != NULL;
}

static void keep_line(struct world *world, const char *text)
{
    if (world->line_count == world->line_room) {
        world->line_room = world->line_room > 0 ? world->line_room * 2 : 64;
        world->lines = realloc(world->lines, world->line_room * sizeof *world->lines);
        must(world->lines != NULL);
    }
    char *line = malloc(strlen(text) + 1);
    must(line != NULL);
    memcpy(line, text, strlen(text) + 1);
    world->lines[world->line_count++] = line;
}

void world_line(struct world *world, const char *format, ...)
{
    char text[WORLD_TEXT];
    if (!world_is_telling(world))
        return;
    int at = snprintf(text, sizeof text, "[%4lld] ", (long long)(world->now_ns / WORLD_MS));
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text + at, sizeof text - (size_t)at, format, args); /* may be cut */
    va_end(args);
    if (world->options.trace != NULL)
        fprintf(world->options.trace, "%s\n", text);
    if (world->options.lines != NULL)
        fprintf(world->options.lines, "%s\n", text);
    if (world->options.is_recorded)
        keep_line(world, text);
}

uint32_t world_lines(const struct world *world, char *const **out_lines)
{
    *out_lines = world->lines;
    return world->line_count;
}

uint64_t world_digest(const struct world *world)
{
    return world->digest;
}

static const char *host_name(const struct world *world, uint32_t host)
{
    if (host < WORLD_HOSTS)
        return world->hosts[host].options.party;
    return host >= HOST_TAP ? "tap" : "outsider";
}

static void trace_part(struct world *world, conn_id id, enum way way, struct span bytes,
                       const char *what)
{
    if (world->options.trace == NULL)
        return;
    static char text[3000];
    struct conn *conn = world->conns[id - 1];
    unsigned number = wire_number(bytes);
    if (number == BATCH_NUMBER)
        trace_batch(text, sizeof text, bytes);
    else
        trace_message(text, sizeof text, bytes,
                      conn->channel == CHANNEL_DATA ? MSG_LANE_DATA : MSG_LANE_CONTROL,
                      way == WAY_UP ? MSG_TO_BROKER : MSG_TO_CLIENT);
    fprintf(world->options.trace, "  %10.3f %s %s%u %s %s %s\n", (double)world->now_ns / 1e6,
            host_name(world, conn->host), conn->channel == CHANNEL_DATA ? "d" : "c", (unsigned)id,
            way == WAY_UP ? "->" : "<-", what, text);
}

/* Whose connection it is: each party has the name of its principal, and who follows is "ops". */
static uint32_t principal_of(const struct world *world, conn_id id)
{
    const struct conn *conn = world->conns[id - 1];
    const struct access *access =
        conn->is_replaceds ? world->replaced.access : world->options.core.access;
    uint32_t host = conn->host;
    if (access == NULL || host == HOST_OUTSIDE)
        return 0;
    return access_find(
        access, span_text(host < WORLD_HOSTS ? world->hosts[host].options.party : WORLD_OPERATOR));
}

/* By the table of this step. */
static void check_may_read(struct world *world, const struct core_port_out *out)
{
    uint32_t host = world->conns[out->conn - 1]->host;
    if (host >= WORLD_HOSTS)
        return;
    const struct host_options *options = &world->hosts[host].options;
    uint32_t sub = 0;
    must(delivery_header_read((struct span){out->head, sizeof out->head}, &sub) == WIRE_OK);
    const char *wrong = access_check_part(&world->access_check, core_port_core(world->port),
                                          span_text(options->job), span_text(options->party), sub,
                                          buffer_span(out->part));
    if (wrong != NULL)
        world_violate(world, "%s", wrong);
}

static void check_access(struct world *world)
{
    const char *wrong = world->is_resuming
                            ? NULL
                            : access_check_step(&world->access_check, core_port_core(world->port));
    if (wrong != NULL)
        world_violate(world, "%s", wrong);
}

bool world_could_read(const struct world *world, uint32_t host, int64_t since_ns,
                      const char *pattern)
{
    const struct host_options *options = &world->hosts[host].options;
    return access_check_covers(&world->access_check, since_ns, span_text(options->job),
                               span_text(options->party), span_text(pattern));
}

static void look_at(struct world *world, bool is_from_broker, struct span bytes)
{
    if (world->options.hooks.on_bytes != NULL && bytes.bytes > 0)
        world->options.hooks.on_bytes(world->options.hooks.arg, is_from_broker, bytes);
}

/* ---- time ------------------------------------------------------------------------------------ */

int64_t world_now_ns(const struct world *world)
{
    return world->now_ns;
}

struct dice *world_dice(struct world *world)
{
    return &world->dice;
}

void world_at(struct world *world, int64_t at_ns, uint32_t what, uint32_t who, uint64_t value)
{
    if (world->act_count == world->act_room) {
        world->act_room = world->act_room > 0 ? world->act_room * 2 : 256;
        world->acts = realloc(world->acts, world->act_room * sizeof *world->acts);
        must(world->acts != NULL);
    }
    world->acts[world->act_count] = (struct act){.what = what, .who = who, .value = value};
    agenda_put(&world->agenda, at_ns, MOMENT_ACT, who, world->act_count++);
}

static struct core_port_now core_port_now(struct world *world)
{
    return (struct core_port_now){.now_ns = world->broker_epoch_ns + world->now_ns,
                                  .wall_ns = WALL_EPOCH_NS + world->now_ns + world->wall_ahead_ns,
                                  .random = dice_next(&world->core_port_dice)};
}

static bool is_stopped(const struct world *world)
{
    return world->stopped_until_ns > world->now_ns;
}

/* The broker at the other end of this connection is stopped until then. */
static int64_t peer_stopped_until_ns(const struct world *world, const struct conn *conn)
{
    return conn->is_replaceds ? world->replaced.stopped_until_ns : world->stopped_until_ns;
}

/* ---- connections ----------------------------------------------------------------------------- */

static conn_id conn_new(struct world *world, uint32_t host, enum channel channel)
{
    if (world->conn_count == world->conn_room) {
        world->conn_room = world->conn_room > 0 ? world->conn_room * 2 : 64;
        world->conns = realloc(world->conns, world->conn_room * sizeof *world->conns);
        must(world->conns != NULL);
    }
    struct conn *conn = calloc(1, sizeof *conn);
    must(conn != NULL);
    conn->host = host;
    conn->channel = channel;
    world->conns[world->conn_count++] = conn;
    return world->conn_count;
}

static void lane_arm(struct world *world, conn_id id, enum way way)
{
    struct conn *conn = world->conns[id - 1];
    struct lane *lane = &conn->lanes[way];
    if (lane->is_armed || lane->count == 0)
        return;
    int64_t due_ns = lane_due_ns(lane);
    if (way == WAY_DOWN && conn->host < WORLD_HOSTS &&
        due_ns < world->hosts[conn->host].frozen_until_ns)
        due_ns = world->hosts[conn->host].frozen_until_ns;
    if (way == WAY_UP && due_ns < peer_stopped_until_ns(world, conn))
        due_ns = peer_stopped_until_ns(world, conn);
    lane->is_armed = true;
    agenda_put(&world->agenda, due_ns > world->now_ns ? due_ns : world->now_ns, MOMENT_LANE, id,
               way);
}

/* Nothing that is attached to an error is ever in control's way. */
static void check_control(struct world *world, struct span part)
{
    unsigned number = wire_number(part);
    const struct msg_kind *kind = msg_kind(number);
    if (kind != NULL && kind->lane == MSG_LANE_DATA && kind->id == MSG_REQUEST)
        world_violate(world, "a courier's message of the data channel is on the control channel");
}

/* How long a part waits until the link has sent what was put before it, and itself. */
static int64_t sending_ns(const struct world *world, struct lane *lane, size_t bytes)
{
    uint64_t rate = world->options.link_rate;
    if (rate == 0)
        return 0;
    int64_t begin_ns = lane->free_ns > world->now_ns ? lane->free_ns : world->now_ns;
    lane->free_ns = begin_ns + (int64_t)((uint64_t)bytes * 1000 * WORLD_MS / rate);
    return lane->free_ns - world->now_ns;
}

/* Puts it under way. */
static void part_send(struct world *world, conn_id id, enum way way, struct part part)
{
    const struct world_options *options = &world->options;
    struct conn *conn = world->conns[id - 1];
    struct lane *lane = &conn->lanes[way];
    int64_t delay_ns = dice_between(&world->dice, options->delay_least_ns[conn->channel],
                                    options->delay_most_ns[conn->channel]);
    if (options->spike_permille > 0 && dice_hits(&world->dice, options->spike_permille))
        delay_ns += dice_between(&world->dice, 0, options->spike_most_ns);
    delay_ns += sending_ns(world, lane, part.bytes->bytes);
    if (conn->channel == CHANNEL_CONTROL && conn->host != HOST_OUTSIDE) /* who says anything */
        check_control(world, buffer_span(part.bytes));
    trace_part(world, id, way, buffer_span(part.bytes), lane->is_cut ? "(lost)" : "");
    lane_put(lane, part, world->now_ns + delay_ns);
    lane_arm(world, id, way);
}

/* The client closes it: what it sent may still arrive, what comes is not wanted. */
static void conn_leave(struct world *world, uint32_t host, enum channel channel, bool is_flushed,
                       int64_t notice_ns)
{
    conn_id id = world->hosts[host].conns[channel];
    if (id == 0)
        return;
    struct conn *conn = world->conns[id - 1];
    world->hosts[host].conns[channel] = 0;
    conn->is_left = true;
    lane_cut(&conn->lanes[WAY_DOWN]);
    if (!is_flushed)
        lane_cut(&conn->lanes[WAY_UP]);
    if (notice_ns != WORLD_NEVER)
        agenda_put(&world->agenda, world->now_ns + notice_ns, MOMENT_CLOSED_BROKER, id, 0);
}

/* As a session does it: its socket closes in good order, unless the network is in the way. */
static void conn_leave_by_itself(struct world *world, uint32_t host, enum channel channel)
{
    const struct world_options *options = &world->options;
    bool is_told = !dice_hits(&world->dice, options->no_notice_permille);
    int64_t notice_ns = dice_between(&world->dice, 0, options->notice_most_ns);
    bool is_flushed = dice_hits(&world->dice, 500);
    conn_leave(world, host, channel, is_flushed, is_told ? notice_ns : WORLD_NEVER);
}

/* ---- the broker ------------------------------------------------------------------------------ */

static void tap_event(struct world *world, uint32_t tap, struct span bytes)
{
    struct msg msg;
    enum wire_err err = msg_decode(bytes, MSG_LANE_CONTROL, MSG_TO_CLIENT, &msg, NULL);
    if (err != WIRE_OK) {
        world_violate(world, "the tap was sent no message: %s", wire_strerror(err));
        return;
    }
    if (msg.type == MSG_WELCOME) { /* what a courier needs for its data channel */
        world->taps[tap].token = msg.as.welcome.token;
        world->taps[tap].connection = msg.as.welcome.connection;
    }
    if (msg.type == MSG_MISSED && world->taps[tap].seen_id == 0)
        world->taps[tap].seen_id = msg.as.missed.last_id; /* it came when that was over */
    else if (msg.type == MSG_MISSED)
        world_violate(world, "the tap missed %llu..%llu",
                      (unsigned long long)msg.as.missed.first_id,
                      (unsigned long long)msg.as.missed.last_id);
    if (msg.type == MSG_DEAD_ROW && world->options.hooks.on_letter != NULL)
        world->options.hooks.on_letter(world->options.hooks.arg, tap, &msg.as.dead_row);
    if (msg.type != MSG_EVENT)
        return;
    if (msg.as.event.id != world->taps[tap].seen_id + 1)
        world_violate(world, "the tap got event %llu behind %llu",
                      (unsigned long long)msg.as.event.id,
                      (unsigned long long)world->taps[tap].seen_id);
    world->taps[tap].seen_id = msg.as.event.id;
    if (world->options.hooks.on_event != NULL)
        world->options.hooks.on_event(world->options.hooks.arg, tap, &msg.as.event);
}

/* A client takes its data connection for dead by what ECHO says was sent on it: of what waits for
 * the journal it does not speak, and where nothing waits it tells all. */
static void check_echo(struct world *world, const struct conn *control, struct span bytes)
{
    struct msg msg;
    const struct conn *data = control->data != 0 ? world->conns[control->data - 1] : NULL;
    /* Of who outlives its attempt the broker hears what is said late, and sends it nothing. */
    uint64_t sent = data != NULL && !data->is_forgotten ? data->sent_bytes : 0;
    if (wire_number(bytes) != MSG_ECHO ||
        msg_decode(bytes, MSG_LANE_CONTROL, MSG_TO_CLIENT, &msg, NULL) != WIRE_OK)
        return;
    uint64_t told = msg.as.echo.data_bytes;
    if (told > sent || (told < sent && world->options.log_most_ns == 0))
        world_violate(world, "the broker says it sent %llu bytes of frames, not %llu",
                      (unsigned long long)msg.as.echo.data_bytes, (unsigned long long)sent);
}

/* What a part on the data channel counts. */
static uint64_t counted_bytes(const struct buffer *part)
{
    struct msg msg;
    if (wire_number(buffer_span(part)) == BATCH_NUMBER)
        return part->bytes - BATCH_HEADER_BYTES;
    must(msg_decode(buffer_span(part), MSG_LANE_DATA, MSG_TO_CLIENT, &msg, NULL) == WIRE_OK);
    return msg.as.fetched_piece.bytes.bytes;
}

static void broker_send(struct world *world, const struct held_part *out)
{
    must(out->conn > 0 && out->conn <= world->conn_count);
    struct conn *conn = world->conns[out->conn - 1];
    struct part part = {.bytes = out->part};
    memcpy(part.head, out->head, sizeof part.head);
    if (conn->host >= HOST_TAP) {
        coverage_part(wire_number(buffer_span(part.bytes)));
        trace_part(world, out->conn, WAY_DOWN, buffer_span(part.bytes), "");
        tap_event(world, conn->host - HOST_TAP, buffer_span(part.bytes));
        buffer_unref(&part.bytes);
        return;
    }
    if (out->part->bytes > (conn->channel == CHANNEL_DATA ? LIMIT_PART_BYTES : LIMIT_CONTROL_BYTES))
        world_violate(world, "the broker sends a part of %zu bytes", out->part->bytes);
    if (conn->channel == CHANNEL_DATA)
        conn->sent_bytes += counted_bytes(out->part);
    else
        check_echo(world, conn, buffer_span(out->part));
    part_send(world, out->conn, WAY_DOWN, part);
}

/* ---- the broker's journal -------------------------------------------------------------------- */

static bool is_due(const struct world *world, const struct held_parts *parts,
                   const struct held_part *held)
{
    if (world->seats == NULL)
        return held->due_ns <= world->now_ns;
    if (parts == &world->for_log)
        return held->record_count <= ledger_written(world->ledger);
    return held->record_count <= world->synced_count && held->sync <= world->syncs_done;
}

/* The next one that is due; false: none is. */
static bool next_held(const struct world *world, struct held_parts *parts,
                      struct held_part *out_held)
{
    if (parts->at == parts->count || !is_due(world, parts, &parts->items[parts->at]))
        return false;
    *out_held = parts->items[parts->at++];
    if (parts->at == parts->count)
        parts->at = parts->count = 0;
    return true;
}

/* All that the journal has by now is said. */
static void say_kept(struct world *world)
{
    struct held_part held;
    while (next_held(world, &world->for_log, &held)) {
        if (world->seats == NULL)
            ledger_write(world->ledger);
        broker_send(world, &held);
    }
    while (next_held(world, &world->for_disk, &held)) {
        core_port_kept(world->port, held.steps);
        if (world->seats == NULL) {
            world->synced_count = held.record_count;
            ledger_sync(world->ledger, held.record_count);
        }
        if (held.conn != 0)
            broker_send(world, &held);
    }
}

/* All that was decided is on the disk. */
static void keep_all(struct world *world)
{
    for (uint32_t i = world->for_log.at; i < world->for_log.count; i++)
        world->for_log.items[i].due_ns = world->now_ns;
    for (uint32_t i = world->for_disk.at; i < world->for_disk.count; i++)
        world->for_disk.items[i].due_ns = world->now_ns;
    say_kept(world);
}

static void hold(struct world *world, struct held_parts *parts, const struct held_part *held,
                 int64_t due_ns)
{
    if (parts->count == parts->room) {
        parts->room = parts->room > 0 ? parts->room * 2 : 64;
        parts->items = realloc(parts->items, parts->room * sizeof *parts->items);
        must(parts->items != NULL);
    }
    parts->items[parts->count] = *held;
    parts->items[parts->count++].due_ns = due_ns;
    if (world->seats == NULL) {
        agenda_put(&world->agenda, due_ns, MOMENT_KEPT, 0, 0);
        return;
    }
    seats_wake(world->seats, world->seat);
    agenda_put(&world->agenda, world->now_ns, MOMENT_SEAT, world->seat, 0);
    agenda_put(&world->agenda, world->now_ns, MOMENT_KEPT, 0, 0); /* it may be kept already */
}

/* It is killed: what was not said until then never is. */
static void lose_held(struct held_parts *parts)
{
    for (; parts->at < parts->count; parts->at++)
        buffer_unref(&parts->items[parts->at].part);
    parts->at = parts->count = 0;
}

/* As the broker does it.  But events wait for the disk: the oracle takes what they say for certain.
 */
static enum durability_wait wait_of(const struct world *world, const struct core_port_out *out)
{
    enum durability durability = (enum durability)world->options.core.durability;
    if (world->options.log_most_ns == 0 || wire_number(buffer_span(out->part)) == MSG_ECHO)
        return WAIT_FOR_NOTHING;
    bool is_shared = world->options.sync_most_ns > 0 || world->seats != NULL;
    if (!is_shared || out->saying == CORE_PORT_NEWS)
        return WAIT_FOR_DISK;
    return durability_wait(durability, out->saying);
}

static void broker_say(struct world *world, struct core_port_out *out)
{
    struct held_part held = {
        .conn = out->conn, .part = out->part, .steps = core_port_steps(world->port) - 1};
    memcpy(held.head, out->head, sizeof held.head);
    if (world->ledger != NULL)
        held.record_count = ledger_count(world->ledger);
    switch (wait_of(world, out)) {
    case WAIT_FOR_NOTHING: broker_send(world, &held); break;
    case WAIT_FOR_LOG: hold(world, &world->for_log, &held, world->logged_ns); break;
    case WAIT_FOR_NEXT_SYNC:
        held.sync = world->syncs_begun + 1;
        hold(world, &world->for_disk, &held, world->synced_ns);
        break;
    case WAIT_FOR_DISK: hold(world, &world->for_disk, &held, world->synced_ns); break;
    }
}

/* Draws when the journal has what was decided now. */
static void draw_times(struct world *world)
{
    const struct world_options *options = &world->options;
    int64_t logged_ns = world->now_ns + dice_between(&world->dice, 0, options->log_most_ns);
    if (world->logged_ns < logged_ns)
        world->logged_ns = logged_ns;
    int64_t synced_ns = world->logged_ns;
    if (options->sync_most_ns > 0)
        synced_ns += dice_between(&world->disk_dice, 0, options->sync_most_ns);
    if (world->synced_ns < synced_ns)
        world->synced_ns = synced_ns;
}

static void broker_fact(struct world *world, struct core_port_out *out)
{
    struct buffer *payload =
        out->payload != 0 ? core_port_payload(world->port, out->payload) : NULL;
    const char *name = fact_name((enum fact_type)wire_number(buffer_span(out->part)));
    if (payload != NULL)
        look_at(world, true, buffer_span(payload));
    const char *wrong = ledger_add(world->ledger, &out->part, out->payload, payload);
    if (wrong != NULL)
        world_violate(world, "the broker tells a fact that cannot be, %s: %s", name, wrong);
}

static void ledger_look(struct world *world)
{
    const char *difference = ledger_check(world->ledger, core_port_core(world->port));
    world->steps = 0;
    if (difference != NULL)
        world_violate(world, "the facts so far give another state: %s", difference);
}

/* Carries out what the broker decided, until nothing is left. */
static void broker_out(struct world *world)
{
    static struct core_port_out out;
    if (world->options.log_most_ns > 0)
        draw_times(world);
    while (core_port_out(world->port, &out)) {
        if (out.part != NULL)
            look_at(world, true, buffer_span(out.part));
        switch (out.kind) {
        case CORE_PORT_NOTHING:
        case CORE_PORT_RELOAD: break; /* nobody asks for it here */
        case CORE_PORT_DATA:
            check_may_read(world, &out);
            broker_say(world, &out);
            break;
        case CORE_PORT_CONTROL: broker_say(world, &out); break;
        case CORE_PORT_FACT: broker_fact(world, &out); break;
        case CORE_PORT_DROP:
            world->conns[out.conn - 1]->is_forgotten = true;
            if (world->options.trace != NULL)
                fprintf(world->options.trace, "  %10.3f broker forgets connection %u\n",
                        (double)world->now_ns / 1e6, (unsigned)out.conn);
            break;
        case CORE_PORT_LOG:
            look_at(world, true, span_text(out.text));
            if (world->options.trace != NULL)
                fprintf(world->options.trace, "  %10.3f broker: %s\n", (double)world->now_ns / 1e6,
                        out.text);
            break;
        }
    }
    check_access(world);
    bool is_held = world->options.log_most_ns > 0;
    if (world->ledger != NULL)
        ledger_end_step(world->ledger);
    if (is_held && world->seats == NULL && dice_hits(&world->disk_dice, 500)) /* else later */
        ledger_write(world->ledger);
    if (is_held &&
        ledger_count(world->ledger) != world->synced_count) /* nothing may be said of it */
        hold(world, &world->for_disk,
             &(struct held_part){.record_count = ledger_count(world->ledger),
                                 .steps = core_port_steps(world->port)},
             world->synced_ns);
    else if (world->for_disk.at == world->for_disk.count) /* nothing is on its way */
        core_port_kept(world->port, core_port_steps(world->port));
    if (world->ledger != NULL && ++world->steps >= world->options.check_every)
        ledger_look(world);
}

/* Ticks of a broker that are due at once; when its next one is, or INT64_MAX. */
static int64_t tick_all(struct world *world, struct core_port *port, int64_t epoch_ns,
                        struct core_port_now (*now)(struct world *), void (*out)(struct world *))
{
    out(world);
    int64_t deadline_ns = core_port_deadline_ns(port);
    for (uint32_t spins = 0; deadline_ns <= epoch_ns + world->now_ns; spins++) {
        if (spins == SPIN_MAX) {
            world_violate(world, "the broker spins");
            return INT64_MAX;
        }
        core_port_tick(port, now(world));
        out(world);
        deadline_ns = core_port_deadline_ns(port);
    }
    return deadline_ns == INT64_MAX ? INT64_MAX : deadline_ns - epoch_ns;
}

/* Ticks that are due at once, then the next one is put down. */
static void broker_settle(struct world *world)
{
    if (world->port == NULL)
        return;
    int64_t at_ns = tick_all(world, world->port, world->broker_epoch_ns, core_port_now, broker_out);
    if (at_ns == INT64_MAX)
        return;
    if (world->core_port_armed_ns > world->now_ns && world->core_port_armed_ns <= at_ns)
        return;
    world->core_port_armed_ns = at_ns + dice_between(&world->dice, 0, world->options.tick_late_ns);
    agenda_put(&world->agenda, world->core_port_armed_ns, MOMENT_BROKER_TICK, 0, 0);
}

/* ---- on a full disk: as broker/io/loop.c does it --------------------------------------------- */

static bool is_full(const struct world *world)
{
    return world->full_until_ns > world->now_ns;
}

/* Whether this batch waits, or is not let in at all. */
static bool park(struct world *world, conn_id id, struct part *part)
{
    struct conn *conn = world->conns[id - 1];
    bool must_wait = conn->is_shed || is_full(world) || world->parked_count > 0;
    if (!must_wait || wire_number(buffer_span(part->bytes)) != BATCH_NUMBER)
        return false;
    conn->is_shed = conn->is_shed || conn->parked == PARKED_MAX;
    if (conn->is_shed)
        return true;
    if (world->parked_count == world->parked_room) {
        world->parked_room = world->parked_room > 0 ? world->parked_room * 2 : 64;
        world->parked = realloc(world->parked, world->parked_room * sizeof *world->parked);
        must(world->parked != NULL);
    }
    world->parked[world->parked_count++] =
        (struct parked){.conn = id, .bytes = buffer_ref(part->bytes)};
    conn->parked += 1;
    return true;
}

static void unpark(struct world *world)
{
    for (uint32_t i = 0; i < world->parked_count; i++) {
        struct parked *parked = &world->parked[i];
        struct conn *conn = world->conns[parked->conn - 1];
        conn->parked -= 1;
        if (world->port != NULL && !conn->is_forgotten && !conn->is_closed) {
            core_port_data_in(world->port, core_port_now(world), parked->conn, &parked->bytes);
            broker_settle(world);
        }
        buffer_unref(&parked->bytes);
    }
    world->parked_count = 0;
}

/* Whether this is not heard: little is left of what is set aside. */
static bool put_off(struct world *world, struct conn *conn, struct span part)
{
    if (conn->is_mute)
        return true;
    if (!(is_full(world) && world->is_short) && !conn->is_put_off)
        return false;
    enum msg_weight weight = core_port_weigh(part);
    conn->is_put_off = conn->is_put_off || weight == MSG_HEAVY;
    return conn->is_put_off && weight != MSG_LIGHT;
}

static void tell_health(struct world *world, enum journal_health health, const char *text)
{
    if (world->port == NULL)
        return;
    core_port_journal(world->port, core_port_now(world), health, text);
    broker_settle(world);
}

void world_fill_disk(struct world *world, int64_t for_ns, bool is_short)
{
    if (world->port == NULL || is_stopped(world) || is_full(world))
        return;
    world_line(world, "the broker's disk is full for %lld ms", (long long)(for_ns / WORLD_MS));
    world->full_until_ns = world->now_ns + for_ns;
    world->is_short = is_short;
    tell_health(world, HEALTH_FULL, "values are held back: the disk is full");
    agenda_put(&world->agenda, world->full_until_ns, MOMENT_ROOM, 0, 0);
}

/* There is room again. */
static void room(struct world *world)
{
    if (is_full(world) || world->full_until_ns == 0)
        return;
    world->full_until_ns = 0;
    world_line(world, "the broker's disk has room");
    for (uint32_t i = 0; i < world->conn_count; i++)
        world->conns[i]->is_mute |= world->conns[i]->is_put_off;
    tell_health(world, HEALTH_WELL, "");
    unpark(world);
}

/* ---- a broker that was replaced, and does not know it ---------------------------------------- */

static struct core_port_now replaced_now(struct world *world)
{
    struct replaced *replaced = &world->replaced;
    return (struct core_port_now){.now_ns = replaced->epoch_ns + world->now_ns,
                                  .wall_ns =
                                      WALL_EPOCH_NS + world->now_ns + replaced->wall_ahead_ns,
                                  .random = dice_next(&replaced->dice)};
}

/* Whether this waits for the journal: then it is never said. */
static bool replaced_holds(struct replaced *replaced, const struct said *said)
{
    enum durability_wait wait = durability_wait(DURABILITY_SHARED, said->saying);
    bool is_value = said->saying == CORE_PORT_OUTCOME;
    if (wait == WAIT_FOR_NOTHING || (said->is_kept && !replaced->is_value_held))
        return false;
    replaced->is_behind = replaced->is_behind || wait == WAIT_FOR_NEXT_SYNC;
    replaced->is_value_held = replaced->is_value_held || (replaced->is_behind && is_value);
    return replaced->is_behind;
}

static void replaced_say(struct world *world, struct said *said)
{
    bool is_taps = world->conns[said->held.conn - 1]->host >= WORLD_HOSTS;
    if (is_taps || replaced_holds(&world->replaced, said))
        buffer_unref(&said->held.part);
    else
        broker_send(world, &said->held);
}

static void said_put(struct replaced *replaced, const struct core_port_out *out, uint32_t at)
{
    if (at == replaced->room) {
        replaced->room = at > 0 ? 2 * at : 64;
        replaced->said = realloc(replaced->said, replaced->room * sizeof *replaced->said);
        must(replaced->said != NULL);
    }
    struct said *said = &replaced->said[at];
    *said = (struct said){.held = {.conn = out->conn, .part = out->part},
                          .saying = out->saying,
                          .is_kept = out->is_kept};
    memcpy(said->held.head, out->head, sizeof said->held.head);
}

/* What it decides in one step goes to its journal first, as a whole. */
static void replaced_out(struct world *world)
{
    struct replaced *replaced = &world->replaced;
    struct core_port_out out;
    uint32_t count = 0;
    while (core_port_out(replaced->port, &out)) {
        if (out.part != NULL)
            look_at(world, true, buffer_span(out.part));
        switch (out.kind) {
        case CORE_PORT_NOTHING:
        case CORE_PORT_RELOAD:
        case CORE_PORT_LOG: break;
        case CORE_PORT_DATA:
        case CORE_PORT_CONTROL: said_put(replaced, &out, count++); break;
        case CORE_PORT_FACT:
            replaced->is_behind = true;
            buffer_unref(&out.part);
            break;
        case CORE_PORT_DROP: world->conns[out.conn - 1]->is_forgotten = true; break;
        }
    }
    for (uint32_t i = 0; i < count; i++)
        replaced_say(world, &replaced->said[i]);
}

static void replaced_settle(struct world *world)
{
    struct replaced *replaced = &world->replaced;
    int64_t at_ns = tick_all(world, replaced->port, replaced->epoch_ns, replaced_now, replaced_out);
    if (at_ns != INT64_MAX)
        agenda_put(&world->agenda, at_ns, MOMENT_REPLACED_TICK, 0, replaced->count);
}

static void replaced_in(struct world *world, conn_id id, struct part *part)
{
    struct conn *conn = world->conns[id - 1];
    struct core_port *port = world->replaced.port;
    if (conn->is_forgotten || conn->is_closed || conn->is_shed || conn->is_mute)
        return;
    core_port_speaker(port, principal_of(world, id));
    if (conn->channel == CHANNEL_CONTROL)
        core_port_control_in(port, replaced_now(world), id, buffer_span(part->bytes));
    else
        core_port_data_in(port, replaced_now(world), id, &part->bytes);
    replaced_settle(world);
}

static void replaced_tick(struct world *world, uint64_t count)
{
    struct replaced *replaced = &world->replaced;
    if (replaced->port == NULL || replaced->count != count)
        return;
    if (replaced->stopped_until_ns > world->now_ns)
        agenda_put(&world->agenda, replaced->stopped_until_ns, MOMENT_REPLACED_TICK, 0, count);
    else
        replaced_settle(world);
}

/* A broker ends: clients of that one, or of the one that was replaced, are told soon. */
static void close_all_of(struct world *world, bool are_replaceds)
{
    for (conn_id id = 1; id <= world->conn_count; id++) {
        struct conn *conn = world->conns[id - 1];
        if (conn->is_replaceds != are_replaceds || conn->is_closed)
            continue;
        conn->is_closed = true;
        lane_cut(&conn->lanes[WAY_UP]);
        lane_cut(&conn->lanes[WAY_DOWN]);
        agenda_put(&world->agenda,
                   world->now_ns + dice_between(&world->disk_dice, 0, 50 * WORLD_MS),
                   MOMENT_CLOSED_CLIENT, id, 0);
    }
}

/* It learns that another broker has its journal: then it ends. */
static void replaced_end(struct world *world)
{
    struct replaced *replaced = &world->replaced;
    if (replaced->port == NULL)
        return;
    world_line(world, "the broker that was replaced ends");
    core_port_free(&replaced->port);
    if (replaced->scarce->memory.bytes_used != 0)
        world_violate(world, "the broker that was replaced leaks %llu bytes",
                      (unsigned long long)replaced->scarce->memory.bytes_used);
    free(replaced->scarce);
    free(replaced->said);
    replaced->scarce = NULL;
    replaced->said = NULL;
    close_all_of(world, true);
}

static void broker_in(struct world *world, conn_id id, struct part *part)
{
    struct conn *conn = world->conns[id - 1];
    if (conn->is_replaceds && world->replaced.port != NULL) {
        replaced_in(world, id, part);
    } else if (conn->is_replaceds || world->port == NULL) { /* nobody listens there */
        lane_cut(&conn->lanes[WAY_UP]);
        conn->is_closed = true;
        agenda_put(&world->agenda, world->now_ns + dice_between(&world->dice, 0, 20 * WORLD_MS),
                   MOMENT_CLOSED_CLIENT, id, 0);
    } else if (!conn->is_forgotten && !conn->is_closed) {
        core_port_speaker(world->port, principal_of(world, id));
        if (conn->channel == CHANNEL_CONTROL && !put_off(world, conn, buffer_span(part->bytes)))
            core_port_control_in(world->port, core_port_now(world), id, buffer_span(part->bytes));
        else if (conn->channel == CHANNEL_DATA && !park(world, id, part))
            core_port_data_in(world->port, core_port_now(world), id, &part->bytes);
        broker_settle(world);
    }
    buffer_unref(&part->bytes);
}

static void broker_closed(struct world *world, conn_id id)
{
    struct conn *conn = world->conns[id - 1];
    lane_cut(&conn->lanes[WAY_UP]);
    if (conn->is_closed)
        return;
    conn->is_closed = true;
    if (conn->is_forgotten || (conn->is_replaceds ? world->replaced.port : world->port) == NULL)
        return;
    if (world->options.trace != NULL)
        fprintf(world->options.trace, "  %10.3f connection %u of %s is closed for the broker\n",
                (double)world->now_ns / 1e6, (unsigned)id, host_name(world, conn->host));
    if (conn->is_replaceds) {
        core_port_closed(world->replaced.port, replaced_now(world), id);
        replaced_settle(world);
        return;
    }
    core_port_closed(world->port, core_port_now(world), id);
    broker_settle(world);
}

/* ---- hosts ----------------------------------------------------------------------------------- */

int64_t world_host_ns(const struct world *world, uint32_t host)
{
    return world->now_ns + world->hosts[host].clock_ns;
}

struct session *world_session(struct world *world, uint32_t host)
{
    return world->hosts[host].session;
}

uint32_t world_link(const struct world *world, uint32_t host)
{
    return world->hosts[host].conns[CHANNEL_CONTROL];
}

bool world_is_frozen(const struct world *world, uint32_t host)
{
    return world->hosts[host].frozen_until_ns > world->now_ns;
}

/* Promise 6, for the session: it ends once, and what it says about that stays. */
static void host_note_end(struct world *world, struct host *host)
{
    struct buffer *error = NULL;
    enum wire_code end = session_end(host->session, &error);
    uint64_t hash = error != NULL ? fnv(FNV_BEGIN, error->data, error->bytes) : 0;
    if (host->end != CODE_OK && (host->end != end || host->end_hash != hash))
        world_violate(world, "%s ended with %s and now says %s", host->options.party,
                      trace_code(host->end), trace_code(end));
    if (host->end == CODE_OK && end != CODE_OK) {
        char text[WORLD_TEXT] = "";
        if (world_is_telling(world) && error != NULL && error->bytes > 0)
            trace_error(text, sizeof text, buffer_span(error));
        world_line(world, "%s: over, %s%s%s", host->options.party, trace_code(end),
                   text[0] != 0 ? ", " : "", text);
        host->end = end;
        host->end_hash = hash;
    }
    if ((end != CODE_OK) != (session_state(host->session) == SESSION_OVER))
        world_violate(world, "%s: state %d and end %s", host->options.party,
                      (int)session_state(host->session), trace_code(end));
    buffer_unref(&error);
}

/* A client tries its brokers in turn.  was: its connection before; 0: it had none. */
static void choose_broker(struct world *world, const struct host *host, conn_id was)
{
    struct conn *conn = world->conns[host->conns[CHANNEL_CONTROL] - 1];
    bool is_again = was != 0 && session_dials_again(host->session);
    conn->is_replaceds = is_again
                             ? world->conns[was - 1]->is_replaceds
                             : world->replaced.port != NULL && dice_hits(&world->disk_dice, 300);
}

/* The broker that answered on control has told where its data channel is. */
static void join_channels(struct world *world, const struct host *host)
{
    struct conn *control = world->conns[host->conns[CHANNEL_CONTROL] - 1];
    control->data = host->conns[CHANNEL_DATA];
    world->conns[control->data - 1]->is_replaceds = control->is_replaceds;
}

static bool host_follow(struct world *world, uint32_t index)
{
    struct host *host = &world->hosts[index];
    conn_id was = host->conns[CHANNEL_CONTROL];
    bool is_moved = false;
    for (;; is_moved = true) {
        switch (session_action(host->session)) {
        case SESSION_NOTHING: return is_moved;
        case SESSION_CONNECT_CONTROL:
            conn_leave_by_itself(world, index, CHANNEL_DATA);
            conn_leave_by_itself(world, index, CHANNEL_CONTROL);
            host->conns[CHANNEL_CONTROL] = conn_new(world, index, CHANNEL_CONTROL);
            choose_broker(world, host, was);
            break;
        case SESSION_CONNECT_DATA:
            must(session_data_endpoint(host->session) != NULL);
            conn_leave_by_itself(world, index, CHANNEL_DATA);
            host->conns[CHANNEL_DATA] = conn_new(world, index, CHANNEL_DATA);
            if (host->conns[CHANNEL_CONTROL] != 0)
                join_channels(world, host);
            break;
        case SESSION_DISCONNECT:
            conn_leave(world, index, CHANNEL_DATA, true, 0);
            conn_leave(world, index, CHANNEL_CONTROL, true, 0);
            break;
        }
    }
}

static void overhear(struct world *world, struct host *host, enum channel channel,
                     struct buffer *bytes)
{
    unsigned number = wire_number(buffer_span(bytes));
    if (number == MSG_HELLO || number == MSG_ATTACH || !dice_hits(&world->dice, 300))
        return;
    buffer_unref(&host->overheard[channel]);
    host->overheard[channel] = buffer_ref(bytes);
}

static bool lane_has_room(const struct world *world, const struct host *host, enum channel channel)
{
    conn_id id = host->conns[channel];
    return id != 0 && world->conns[id - 1]->lanes[WAY_UP].count < world->options.lane_parts_max;
}

static void answer_alone(const struct world *world, uint32_t index)
{
    const struct world_hooks *hooks = &world->options.hooks;
    struct session *session = world->hosts[index].session;
    if (session_wait_is_asked(session))
        session_wait_answer(session, hooks->is_alone == NULL || hooks->is_alone(hooks->arg, index));
}

static bool host_send(struct world *world, uint32_t index)
{
    struct host *host = &world->hosts[index];
    int64_t now_ns = world_host_ns(world, index);
    bool is_moved = false;
    size_t bytes = 0;
    answer_alone(world, index);
    /* A session is asked whether or not the link has room, as a link does it: what it does not take
     * comes again. */
    while (session_control_out(host->session, now_ns, control_part, &bytes) &&
           lane_has_room(world, host, CHANNEL_CONTROL)) {
        struct part part = {.bytes = buffer_copy(span_of(control_part, bytes))};
        must(part.bytes != NULL);
        session_control_sent(host->session);
        answer_alone(world, index);
        look_at(world, false, buffer_span(part.bytes));
        overhear(world, host, CHANNEL_CONTROL, part.bytes);
        part_send(world, host->conns[CHANNEL_CONTROL], WAY_UP, part);
        is_moved = true;
    }
    struct buffer *batch;
    while ((batch = session_data_out(host->session, now_ns)) != NULL &&
           lane_has_room(world, host, CHANNEL_DATA)) {
        if (batch->bytes > LIMIT_PART_BYTES)
            world_violate(world, "%s sends a part of %zu bytes", host->options.party, batch->bytes);
        /* A copy, as a network makes it: what the outbox does to its own later is its own. */
        struct part part = {.bytes = buffer_copy(buffer_span(batch))};
        must(part.bytes != NULL);
        session_data_sent(host->session);
        look_at(world, false, buffer_span(part.bytes));
        overhear(world, host, CHANNEL_DATA, part.bytes);
        part_send(world, host->conns[CHANNEL_DATA], WAY_UP, part);
        is_moved = true;
    }
    return is_moved;
}

static void host_arm(struct world *world, uint32_t index)
{
    struct host *host = &world->hosts[index];
    int64_t deadline_ns = session_deadline_ns(host->session);
    if (deadline_ns == INT64_MAX)
        return;
    int64_t at_ns = deadline_ns - host->clock_ns;
    if (at_ns < world->now_ns)
        at_ns = world->now_ns;
    if (host->armed_ns > world->now_ns && host->armed_ns <= at_ns)
        return;
    host->armed_ns = at_ns + dice_between(&world->dice, 0, world->options.tick_late_ns);
    agenda_put(&world->agenda, host->armed_ns, MOMENT_HOST_TICK, index, host->starts);
}

static bool has_news(const struct session_news *news)
{
    return news->is_state || news->is_accepted || news->is_credit || news->is_result ||
           news->is_want || news->is_refusal || news->is_sub || news->is_tap || news->is_status;
}

void world_pump(struct world *world, uint32_t index)
{
    struct host *host = &world->hosts[index];
    uint32_t rounds = 0;
    if (world_is_frozen(world, index))
        return;
    for (bool is_moved = true; is_moved && host->session != NULL && world->violation[0] == 0;) {
        is_moved = host_follow(world, index);
        if (world->options.hooks.on_turn != NULL)
            world->options.hooks.on_turn(world->options.hooks.arg, index);
        is_moved = host_send(world, index) || is_moved;
        host_note_end(world, host);
        struct session_news news = session_news(host->session);
        if (has_news(&news)) {
            is_moved = true;
            if (world->options.hooks.on_news != NULL)
                world->options.hooks.on_news(world->options.hooks.arg, index, &news);
        }
        if (++rounds == SPIN_MAX)
            world_violate(world, "%s spins", host->options.party);
    }
    if (host->session != NULL)
        host_arm(world, index);
}

static void host_tick(struct world *world, uint32_t index, uint64_t start)
{
    struct host *host = &world->hosts[index];
    if (host->session == NULL || host->starts != start)
        return;
    if (world_is_frozen(world, index)) {
        agenda_put(&world->agenda, host->frozen_until_ns, MOMENT_HOST_TICK, index, start);
        host->armed_ns = host->frozen_until_ns;
        return;
    }
    session_tick(host->session, world_host_ns(world, index));
    for (uint32_t spins = 0; session_deadline_ns(host->session) <= world_host_ns(world, index);
         spins++) {
        world_pump(world, index);
        if (session_deadline_ns(host->session) > world_host_ns(world, index))
            break;
        if (spins == SPIN_MAX) {
            world_violate(world, "the session of %s spins", host->options.party);
            return;
        }
        session_tick(host->session, world_host_ns(world, index));
    }
    world_pump(world, index);
}

static void tell_task_over(struct world *world, uint32_t host, struct span bytes)
{
    struct msg msg;
    const struct world_hooks *hooks = &world->options.hooks;
    if (hooks->on_task_over != NULL && wire_number(bytes) == MSG_TASK_OVER &&
        msg_decode(bytes, MSG_LANE_CONTROL, MSG_TO_CLIENT, &msg, NULL) == WIRE_OK)
        hooks->on_task_over(hooks->arg, host, &msg.as.task_over);
}

static void host_in(struct world *world, conn_id id, struct part *part)
{
    struct conn *conn = world->conns[id - 1];
    struct host *host = &world->hosts[conn->host];
    if (host->session != NULL && host->conns[conn->channel] == id) {
        int64_t now_ns = world_host_ns(world, conn->host);
        if (conn->channel == CHANNEL_DATA) {
            session_data_in(host->session, now_ns, span_of(part->head, sizeof part->head),
                            &part->bytes);
        } else {
            tell_task_over(world, conn->host, buffer_span(part->bytes));
            session_control_in(host->session, now_ns, buffer_span(part->bytes));
        }
        world_pump(world, conn->host);
    }
    buffer_unref(&part->bytes);
}

static void client_closed(struct world *world, conn_id id)
{
    struct conn *conn = world->conns[id - 1];
    if (conn->host >= WORLD_HOSTS)
        return;
    struct host *host = &world->hosts[conn->host];
    if (host->session == NULL || host->conns[conn->channel] != id)
        return;
    if (world_is_frozen(world, conn->host)) {
        agenda_put(&world->agenda, host->frozen_until_ns, MOMENT_CLOSED_CLIENT, id, 0);
        return;
    }
    session_link_closed(host->session, world_host_ns(world, conn->host));
    world_pump(world, conn->host);
}

uint32_t world_host(struct world *world, const struct host_options *options)
{
    must(world->host_count < WORLD_HOSTS);
    struct host *host = &world->hosts[world->host_count];
    host->options = *options;
    if (host->options.outbox_bytes_max == 0)
        host->options.outbox_bytes_max = BOX_BYTES;
    if (host->options.inbox_bytes_max == 0)
        host->options.inbox_bytes_max = BOX_BYTES;
    host->clock_ns = dice_between(&world->dice, 0, 1000000 * WORLD_MS);
    return world->host_count++;
}

void world_choose_run(struct world *world, uint32_t index, const char *run, uint8_t rule)
{
    world->hosts[index].options.run = run;
    world->hosts[index].options.run_rule = rule;
}

void world_start(struct world *world, uint32_t index)
{
    struct host *host = &world->hosts[index];
    const struct host *guard =
        host->options.program_of > 0 ? &world->hosts[host->options.program_of - 1] : NULL;
    must(host->session == NULL && (guard == NULL || guard->session != NULL));
    struct session_options options = {
        .job = span_text(host->options.job),
        .party = span_text(host->options.party),
        .run = span_text(host->options.run),
        .run_rule = host->options.run_rule,
        .library = span_text("simulation"),
        .host = span_text(host->options.place[0] != 0 ? host->options.place : "nowhere"),
        .disclosure = host->options.disclosure,
        .auditor = span_of(around_auditor()->public_key, host->options.is_sealing ? KEY_BYTES : 0),
        .can_seal = host->options.is_sealing,
        .pid = index + 1,
        .client = (uint64_t)(index + 1) << 32 | (host->starts + 1),
        .heartbeat_ms = host->options.heartbeat_ms,
        .lost_after_ms = host->options.lost_after_ms,
        .grace_ms = host->options.grace_ms,
        .broker_lost_ms = host->options.broker_lost_ms,
        .outbox_bytes_max = host->options.outbox_bytes_max,
        .inbox_bytes_max = host->options.inbox_bytes_max,
        .chunk_bytes_max = host->options.chunk_bytes_max,
        .endpoints = world->options.core.durability == DURABILITY_SHARED ? 2 : 0,
        .is_guard = host->options.is_guard,
        .is_courier = host->options.is_courier,
        .guard = guard != NULL ? session_token(guard->session) : 0,
    };
    for (int channel = 0; channel < CHANNEL_COUNT; channel++)
        buffer_unref(&host->overheard[channel]);
    memory_heap_init(&host->memory, HOST_BYTES_MAX);
    enum wire_code code =
        session_new(&host->memory, &options, world_host_ns(world, index), &host->session);
    must(code == CODE_OK);
    host->starts += 1;
    host->armed_ns = 0;
    host->frozen_until_ns = 0;
    host->end = CODE_OK;
    host->end_hash = 0;
    world_pump(world, index);
}

void world_kill(struct world *world, uint32_t index, bool is_flushed, int64_t notice_ns)
{
    struct host *host = &world->hosts[index];
    for (int channel = 0; channel < CHANNEL_COUNT; channel++)
        conn_leave(world, index, (enum channel)channel, is_flushed, notice_ns);
    session_free(&host->session);
    host->frozen_until_ns = 0;
    if (host->memory.bytes_used != 0)
        world_violate(world, "the session of %s leaks %llu bytes", host->options.party,
                      (unsigned long long)host->memory.bytes_used);
}

void world_kill_all(struct world *world)
{
    for (uint32_t host = 0; host < world->host_count; host++)
        if (world_session(world, host) != NULL)
            world_kill(world, host, false, WORLD_NEVER);
}

void world_freeze(struct world *world, uint32_t index, int64_t for_ns)
{
    world->hosts[index].frozen_until_ns = world->now_ns + for_ns;
}

void world_thaw(struct world *world, uint32_t index)
{
    struct host *host = &world->hosts[index];
    host->frozen_until_ns = 0;
    for (int channel = 0; channel < CHANNEL_COUNT; channel++)
        if (host->conns[channel] != 0) {
            /* One more moment for what would come later only. */
            world->conns[host->conns[channel] - 1]->lanes[WAY_DOWN].is_armed = false;
            lane_arm(world, host->conns[channel], WAY_DOWN);
        }
    if (host->session != NULL)
        agenda_put(&world->agenda, world->now_ns, MOMENT_HOST_TICK, index, host->starts);
}

/* ---- the network ----------------------------------------------------------------------------- */

void world_break(struct world *world, uint32_t index, unsigned channels, int64_t broker_notice_ns,
                 int64_t client_notice_ns)
{
    for (unsigned channel = 0; channel < CHANNEL_COUNT; channel++) {
        conn_id id = world->hosts[index].conns[channel];
        if (id == 0 || (channels & (1u << channel)) == 0)
            continue;
        lane_cut(&world->conns[id - 1]->lanes[WAY_UP]);
        lane_cut(&world->conns[id - 1]->lanes[WAY_DOWN]);
        if (broker_notice_ns != WORLD_NEVER)
            agenda_put(&world->agenda, world->now_ns + broker_notice_ns, MOMENT_CLOSED_BROKER, id,
                       0);
        if (client_notice_ns != WORLD_NEVER)
            agenda_put(&world->agenda, world->now_ns + client_notice_ns, MOMENT_CLOSED_CLIENT, id,
                       0);
    }
}

void world_half_open_one(struct world *world, uint32_t index, enum channel channel, enum way way)
{
    conn_id id = world->hosts[index].conns[channel];
    if (id != 0)
        lane_cut(&world->conns[id - 1]->lanes[way]);
}

void world_half_open(struct world *world, uint32_t index, enum way way)
{
    world_half_open_one(world, index, CHANNEL_CONTROL, way);
    world_half_open_one(world, index, CHANNEL_DATA, way);
}

void world_stall(struct world *world, uint32_t index, unsigned channels, int64_t for_ns)
{
    for (unsigned channel = 0; channel < CHANNEL_COUNT; channel++) {
        conn_id id = world->hosts[index].conns[channel];
        if (id == 0 || (channels & (1u << channel)) == 0)
            continue;
        world->conns[id - 1]->lanes[WAY_UP].stalled_until_ns = world->now_ns + for_ns;
        world->conns[id - 1]->lanes[WAY_DOWN].stalled_until_ns = world->now_ns + for_ns;
    }
}

void world_calm(struct world *world, int64_t delay_most_ns)
{
    struct world_options *options = &world->options;
    options->spike_permille = 0;
    options->tick_late_ns = 0;
    options->link_rate = 0;
    for (int channel = 0; channel < CHANNEL_COUNT; channel++) {
        if (options->delay_most_ns[channel] > delay_most_ns)
            options->delay_most_ns[channel] = delay_most_ns;
        if (options->delay_least_ns[channel] > options->delay_most_ns[channel])
            options->delay_least_ns[channel] = options->delay_most_ns[channel];
    }
}

void world_intrude(struct world *world, enum channel channel, struct span bytes)
{
    conn_id id = conn_new(world, HOST_OUTSIDE, channel);
    lane_cut(&world->conns[id - 1]->lanes[WAY_DOWN]);
    struct part part = {.bytes = buffer_copy(bytes)};
    must(part.bytes != NULL);
    part_send(world, id, WAY_UP, part);
}

/* Whether the protocol lets it come twice: what is known by its number is dropped. */
static bool is_numbered(struct span bytes)
{
    switch (wire_number(bytes)) {
    case BATCH_NUMBER:
    case MSG_FAIL:
    case MSG_RETRACT:
    case MSG_COMPLETE:
    case MSG_SUBSCRIBE:
    case MSG_SUB_ADD:
    case MSG_TASK: return true;
    default: return false;
    }
}

void world_repeat(struct world *world, uint32_t index, enum channel channel)
{
    struct host *host = &world->hosts[index];
    conn_id id = host->conns[channel];
    struct buffer *bytes = host->overheard[channel];
    if (id == 0 || bytes == NULL || !is_numbered(buffer_span(bytes)) ||
        session_state(host->session) != SESSION_UP)
        return;
    part_send(world, id, WAY_UP, (struct part){.bytes = buffer_ref(bytes)});
}

struct span world_overheard(const struct world *world, uint32_t host, enum channel channel)
{
    const struct buffer *buffer = world->hosts[host].overheard[channel];
    return buffer != NULL ? buffer_span(buffer) : SPAN_NONE;
}

static void lane_step(struct world *world, conn_id id, enum way way)
{
    struct conn *conn = world->conns[id - 1];
    struct lane *lane = &conn->lanes[way];
    bool is_held = way == WAY_DOWN ? conn->host < WORLD_HOSTS && world_is_frozen(world, conn->host)
                                   : peer_stopped_until_ns(world, conn) > world->now_ns;
    lane->is_armed = false;
    struct part part;
    if (!is_held && lane_due_ns(lane) <= world->now_ns && lane_take(lane, &part)) {
        struct span bytes = buffer_span(part.bytes);
        digest(world, &world->now_ns, sizeof world->now_ns);
        digest(world, bytes.data, bytes.bytes < 64 ? bytes.bytes : 64);
        coverage_part(wire_number(bytes));
        trace_part(world, id, way, bytes, "in:");
        if (way == WAY_UP)
            broker_in(world, id, &part);
        else
            host_in(world, id, &part);
        if (way == WAY_UP && !conn->is_left && conn->host < WORLD_HOSTS &&
            world->hosts[conn->host].session != NULL)
            world_pump(world, conn->host); /* the lane has room again */
    }
    lane_arm(world, id, way);
}

/* ---- taps ------------------------------------------------------------------------------------ */

static void tap_say(struct world *world, uint32_t tap, const struct msg *msg)
{
    if (is_stopped(world))
        return; /* it is asked again, or not at all */
    size_t bytes = 0;
    enum wire_err err = msg_encode(msg, control_part, sizeof control_part, &bytes);
    must(err == WIRE_OK);
    coverage_part(msg->type);
    core_port_speaker(world->port, principal_of(world, world->taps[tap].conn));
    core_port_control_in(world->port, core_port_now(world), world->taps[tap].conn,
                         span_of(control_part, bytes));
    broker_settle(world);
}

/* It goes on behind what it has seen. */
static void tap_start(struct world *world, uint32_t tap)
{
    struct msg hello = {.type = MSG_HELLO,
                        .as.hello = {.major = PROTOCOL_MAJOR,
                                     .minor = PROTOCOL_MINOR,
                                     .library = span_text("simulation"),
                                     .job = span_text(world->taps[tap].job),
                                     .role = 1,
                                     .heartbeat_ms = TAP_BEAT_MS,
                                     .lost_after_ms = 10 * TAP_BEAT_MS,
                                     .grace_ms = TAP_BEAT_MS}};
    struct msg follow = {
        .type = MSG_TAP,
        .as.tap = {.from_id = world->taps[tap].seen_id + 1, .window = LIMIT_TAP_WINDOW}};
    world->taps[tap].conn = conn_new(world, HOST_TAP + tap, CHANNEL_CONTROL);
    world->taps[tap].data = 0;
    world->taps[tap].token = 0;
    world->taps[tap].taken_id = world->taps[tap].seen_id;
    tap_say(world, tap, &hello);
    tap_say(world, tap, &follow);
    agenda_put(&world->agenda, world->now_ns + TAP_BEAT_MS * WORLD_MS, MOMENT_TAP_BEAT, tap,
               world->taps[tap].conn);
}

uint32_t world_tap(struct world *world, const char *job)
{
    must(world->tap_count < TAPS);
    world->taps[world->tap_count].job = job;
    tap_start(world, world->tap_count);
    return world->tap_count++;
}

void world_ask(struct world *world, uint32_t tap, const struct msg *question)
{
    if (world->port != NULL && tap < world->tap_count)
        tap_say(world, tap, question);
}

static void tap_send(struct world *world, uint32_t tap, const struct msg *msg)
{
    size_t bytes = 0;
    enum wire_err err = msg_encode(msg, control_part, sizeof control_part, &bytes);
    must(err == WIRE_OK);
    struct buffer *part = buffer_copy(span_of(control_part, bytes));
    must(part != NULL);
    coverage_part(msg->type);
    core_port_speaker(world->port, principal_of(world, world->taps[tap].data));
    core_port_data_in(world->port, core_port_now(world), world->taps[tap].data, &part);
    broker_settle(world);
}

bool world_bring(struct world *world, uint32_t tap, const struct msg_bring *bring,
                 struct span bytes)
{
    struct tap *courier = &world->taps[tap];
    if (world->port == NULL || is_stopped(world) || courier->token == 0)
        return false;
    if (courier->data == 0) {
        courier->data = conn_new(world, HOST_TAP + tap, CHANNEL_DATA);
        tap_send(world, tap,
                 &(struct msg){
                     .type = MSG_ATTACH,
                     .as.attach = {.token = courier->token, .connection = courier->connection}});
    }
    tap_say(world, tap, &(struct msg){.type = MSG_BRING, .as.bring = *bring});
    tap_send(world, tap,
             &(struct msg){.type = MSG_PIECE,
                           .as.piece = {.request = bring->request, .is_last = 1, .bytes = bytes}});
    return true;
}

void world_untap(struct world *world)
{
    for (uint32_t tap = 0; tap < world->tap_count; tap++)
        broker_closed(world, world->taps[tap].conn);
    world->tap_count = 0;
}

static void tap_take(struct world *world, uint32_t tap)
{
    if (world->port == NULL)
        return;
    struct msg taken = {.type = MSG_TAP_TAKEN, .as.tap_taken = {.id = world->taps[tap].seen_id}};
    world->taps[tap].taken_id = world->taps[tap].seen_id;
    tap_say(world, tap, &taken);
}

static void tap_beat(struct world *world, uint32_t tap, uint64_t conn)
{
    if (tap >= world->tap_count || conn != world->taps[tap].conn || world->port == NULL)
        return;
    struct msg beat = {.type = MSG_BEAT, .as.beat = {.sent_ns = world->now_ns}};
    tap_say(world, tap, &beat);
    agenda_put(&world->agenda, world->now_ns + TAP_BEAT_MS * WORLD_MS, MOMENT_TAP_BEAT, tap, conn);
}

/* Taps take what they have before their window is full. */
static void taps_take(struct world *world)
{
    if (is_stopped(world))
        return;
    for (uint32_t i = 0; i < world->tap_count; i++)
        if (world->taps[i].seen_id >= world->taps[i].taken_id + 64)
            tap_take(world, i);
}

/* ---- the broker, from outside ---------------------------------------------------------------- */

struct core_port *world_gate(struct world *world)
{
    return world->port;
}

uint64_t world_broker_bytes(const struct world *world)
{
    return world->scarce->memory.bytes_used;
}

uint64_t world_broker_allocations(const struct world *world)
{
    return world->scarce->asked - world->begun_with;
}

static void end_port(struct world *world)
{
    core_port_free(&world->port);
    if (world->scarce->memory.bytes_used != 0)
        world_violate(world, "the broker leaks %llu bytes",
                      (unsigned long long)world->scarce->memory.bytes_used);
}

static void core_port_leave(struct world *world)
{
    replaced_end(world);
    end_port(world);
}

static struct scarce *scarce_new(void)
{
    struct scarce *scarce = calloc(1, sizeof *scarce);
    must(scarce != NULL);
    return scarce;
}

static void core_port_start(struct world *world)
{
    scarce_init(world->scarce, BROKER_BYTES_MAX);
    world->options.core.broker = dice_next(&world->core_port_dice) | 1;
    access_check_restart(&world->access_check);
    world->port = core_port_new(&world->scarce->memory, &world->options.core,
                                world->broker_epoch_ns + world->now_ns);
    must(world->port != NULL);
    world->begun_with = world->scarce->asked;
    if (world->options.fail_at > 0)
        scarce_fail_in(world->scarce, world->options.fail_at);
    world->core_port_armed_ns = 0;
}

void world_close(struct world *world)
{
    core_port_leave(world);
}

static void take_access(struct world *world)
{
    const struct access *access = world->next_access;
    if (access == NULL)
        return;
    world->next_access = NULL;
    world->options.core.access = access;
    access_check_use(&world->access_check, access, world->now_ns);
    if (world->port == NULL)
        return;
    core_port_access(world->port, core_port_now(world), access);
    check_access(world); /* in this step, before it does anything else */
    broker_settle(world);
}

/* A broker that is stopped takes it when it goes on: nothing moves its clock meanwhile. */
void world_use_access(struct world *world, const struct access *access)
{
    world->next_access = access;
    if (is_stopped(world))
        agenda_put(&world->agenda, world->stopped_until_ns, MOMENT_ACCESS, 0, 0);
    else
        take_access(world);
}

void world_replace_broker(struct world *world)
{
    for (uint32_t i = 0; i < world->host_count; i++)
        world_break(world, i, 3, WORLD_NEVER, dice_between(&world->dice, 0, 50 * WORLD_MS));
    for (uint32_t i = 0; i < world->conn_count; i++) {
        world->conns[i]->is_closed = true; /* its numbers mean nothing to the new one */
        lane_cut(&world->conns[i]->lanes[WAY_UP]);
    }
    core_port_leave(world);
    core_port_start(world);
    for (uint32_t i = 0; i < world->tap_count; i++) {
        world->taps[i].seen_id = 0;
        tap_start(world, i);
    }
}

/* What ends with the broker. */
static enum tape_end draw_end(struct world *world)
{
    bool is_hard = dice_hits(&world->disk_dice, 700);
    if (world->options.sync_most_ns == 0)
        return is_hard ? TAPE_MACHINE : TAPE_PROCESS;
    return is_hard ? TAPE_MOVES : TAPE_MACHINE;
}

/* What it was about to say, and to hear, is gone. */
static void forget_broker(struct world *world)
{
    world->stopped_until_ns = 0;
    world->full_until_ns = 0;
    unpark(world);
    lose_held(&world->for_log);
    lose_held(&world->for_disk);
}

/* Its place is empty: another broker begins there with what the journal has after this end. */
static void vacate(struct world *world, enum tape_end end, int64_t down_ns)
{
    forget_broker(world);
    const char *wrong = ledger_kill(world->ledger, end);
    if (wrong != NULL)
        world_violate(world, "the journal: %s", wrong);
    world->synced_count = ledger_count(world->ledger);
    agenda_put(&world->agenda, world->now_ns + down_ns, MOMENT_BROKER_UP, 0, 0);
}

/* All its connections break with it; clients learn of it late, and find nobody until it is back. */
void world_crash_broker(struct world *world, int64_t down_ns)
{
    if (world->port == NULL)
        return;
    world_line(world, "the broker is killed");
    coverage_crash();
    for (uint32_t i = 0; i < world->host_count; i++)
        world_break(world, i, 3, WORLD_NEVER, dice_between(&world->dice, 0, 50 * WORLD_MS));
    core_port_leave(world);
    for (uint32_t i = 0; i < world->conn_count; i++) {
        world->conns[i]->is_closed = true;
        lane_cut(&world->conns[i]->lanes[WAY_UP]);
    }
    vacate(world, draw_end(world), down_ns);
}

/* Some of its clients lose it at once.  Taps go to the next one. */
static void leave_to_replaced(struct world *world)
{
    for (uint32_t i = 0; i < world->host_count; i++)
        if (dice_hits(&world->disk_dice, 400))
            world_break(world, i, 3, WORLD_NEVER,
                        dice_between(&world->disk_dice, 0, 50 * WORLD_MS));
    for (uint32_t i = 0; i < world->conn_count; i++) {
        world->conns[i]->is_replaceds = true;
        world->conns[i]->is_closed |= world->conns[i]->host >= WORLD_HOSTS;
    }
}

/* The broker's place is free then: it goes on as the one that was replaced. */
static void become_replaced(struct world *world, int64_t stopped_until_ns)
{
    coverage_replaced();
    leave_to_replaced(world);
    world->replaced =
        (struct replaced){.port = world->port,
                          .scarce = world->scarce,
                          .access = world->options.core.access,
                          .epoch_ns = world->broker_epoch_ns,
                          .wall_ahead_ns = world->wall_ahead_ns,
                          .stopped_until_ns = stopped_until_ns,
                          .seat = world->seat,
                          .is_behind = ledger_count(world->ledger) != world->synced_count,
                          .count = world->replaced.count + 1};
    dice_init(&world->replaced.dice, dice_next(&world->disk_dice));
    world->port = NULL;
    world->scarce = scarce_new();
    agenda_put(&world->agenda, stopped_until_ns > world->now_ns ? stopped_until_ns : world->now_ns,
               MOMENT_REPLACED_TICK, 0, world->replaced.count);
}

void world_replace_by_spare(struct world *world, int64_t stopped_ns, int64_t alive_ns,
                            int64_t down_ns)
{
    if (world->port == NULL || is_stopped(world))
        return;
    must(world->options.core.durability == DURABILITY_SHARED);
    replaced_end(world);
    if (dice_hits(&world->disk_dice, 500))
        keep_all(world);
    world_line(world, "another broker takes the journal; this one goes on for %lld ms",
               (long long)((stopped_ns + alive_ns) / WORLD_MS));
    become_replaced(world, world->now_ns + stopped_ns);
    vacate(world, TAPE_MOVES, down_ns);
    agenda_put(&world->agenda, world->replaced.stopped_until_ns + alive_ns, MOMENT_REPLACED_END, 0,
               world->replaced.count);
}

void world_back_up(struct world *world)
{
    world_line(world, "the journal is copied");
    world->copied_count = ledger_count(world->ledger);
    for (uint32_t i = 0; i < world->tap_count; i++)
        world->taps[i].copied_id = world->taps[i].seen_id;
}

/* The events behind the copy have the numbers of others by then. */
void world_restore_broker(struct world *world, int64_t down_ns)
{
    world_crash_broker(world, down_ns);
    world_line(world, "the copy of the journal is restored");
    ledger_restore(world->ledger, world->copied_count);
    world->synced_count = world->copied_count;
    for (uint32_t i = 0; i < world->tap_count; i++)
        world->taps[i].seen_id = world->taps[i].copied_id;
}

void world_stop_broker(struct world *world, int64_t for_ns)
{
    if (world->port == NULL || is_stopped(world))
        return;
    world_line(world, "the broker is stopped for %lld ms", (long long)(for_ns / WORLD_MS));
    world->stopped_until_ns = world->now_ns + for_ns;
}

void world_delay_broker(struct world *world, int64_t for_ns)
{
    if (world->port == NULL || is_stopped(world))
        return;
    world_line(world, "the broker is late by %lld ms", (long long)(for_ns / WORLD_MS));
    world->stopped_until_ns = world->late_until_ns = world->now_ns + for_ns;
    agenda_put(&world->agenda, world->late_until_ns, MOMENT_BROKER_TICK, 0, 0); /* the first */
}

/* What has come until now, and is not read. */
static void note_unread(struct world *world)
{
    const struct core *core = core_port_core(world->port);
    late_look_begin(&world->late_look, core, world->broker_epoch_ns + world->now_ns);
    for (conn_id id = 1; id <= world->conn_count; id++) {
        const struct conn *conn = world->conns[id - 1];
        const struct lane *lane = &conn->lanes[WAY_UP];
        bool is_shut = conn->is_forgotten || conn->is_closed || conn->is_shed || conn->is_mute ||
                       conn->is_replaceds;
        if (is_shut || lane->stalled_until_ns > world->now_ns)
            continue;
        for (uint32_t i = 0; i < lane->count; i++) {
            const struct part *part = &lane->parts[(lane->first + i) % lane->room];
            if (part->due_ns < world->now_ns)
                late_look_unread(&world->late_look, core, id, conn->channel == CHANNEL_DATA,
                                 buffer_span(part->bytes));
        }
    }
}

static void look_late(struct world *world)
{
    if (world->late_until_ns != world->now_ns || world->port == NULL)
        return;
    world->late_until_ns = 0;
    if (is_full(world) || world->scarce->fail_at > 0)
        return; /* what it reads then it may not take */
    note_unread(world);
    agenda_put(&world->agenda, world->now_ns + 1, MOMENT_LOOKED, 0, 0);
}

static void check_late_look(struct world *world)
{
    const char *wrong = world->port == NULL || is_stopped(world)
                            ? NULL
                            : late_look_wrong(&world->late_look, core_port_core(world->port));
    late_look_end();
    if (wrong != NULL)
        world_violate(world, "the broker was late: %s", wrong);
}

void world_jump_clock(struct world *world, int64_t by_ns)
{
    world_line(world, "the broker's wall clock is set by %lld s", (long long)(by_ns / 1000000000));
    world->wall_ahead_ns += by_ns;
}

void world_starve_broker(struct world *world, uint64_t n)
{
    world_line(world, "an allocation of the broker's fails");
    world->has_starved = true;
    scarce_fail_in(world->scarce, n);
}

bool world_was_starved(struct world *world)
{
    struct scarce *scarce = world->scarce;
    bool has_failed = scarce->fail_at > 0 && scarce->asked >= scarce->fail_at;
    if (has_failed)
        scarce->fail_at = 0;
    return has_failed;
}

bool world_has_starved(const struct world *world)
{
    return world->has_starved;
}

void world_rival_broker(struct world *world)
{
    if (world->ledger == NULL || world->port == NULL)
        return;
    world_line(world, "another broker begins with the same journal");
    const char *wrong = ledger_contend(world->ledger, dice_next(&world->disk_dice) | 1);
    if (wrong != NULL)
        world_violate(world, "the journal: %s", wrong);
}

/* One more moment for what would come later only. */
static void resume_lanes(struct world *world)
{
    world->stopped_until_ns = world->late_until_ns = 0;
    for (conn_id id = 1; id <= world->conn_count; id++) {
        world->conns[id - 1]->lanes[WAY_UP].is_armed = false;
        lane_arm(world, id, WAY_UP);
    }
    agenda_put(&world->agenda, world->now_ns, MOMENT_BROKER_TICK, 0, 0);
}

void world_relieve_broker(struct world *world)
{
    bool was_full = world->full_until_ns != 0;
    replaced_end(world);
    world->scarce->fail_at = 0;
    if (is_stopped(world))
        resume_lanes(world);
    if (was_full) {
        world->full_until_ns = world->now_ns;
        room(world);
    }
}

bool world_is_broker_down(const struct world *world)
{
    return world->port == NULL;
}

/* Whoever lost access meanwhile loses it now: as broker/io/loop.c does it. */
static void judge_again(struct world *world)
{
    const struct access *access = world->options.core.access;
    if (access == NULL)
        return;
    world->is_resuming = true;
    broker_out(world);
    world->is_resuming = false;
    core_port_access(world->port, core_port_now(world), access);
    check_access(world);
}

/* Its journal may be on another machine now, or this one was started anew. */
static void broker_up(struct world *world)
{
    if (dice_hits(&world->disk_dice, 300))
        world->broker_epoch_ns =
            BROKER_EPOCH_NS + dice_between(&world->disk_dice, -EPOCH_APART_NS, EPOCH_APART_NS);
    scarce_init(world->scarce, BROKER_BYTES_MAX);
    world->port = core_port_new(&world->scarce->memory, &world->options.core,
                                world->broker_epoch_ns + world->now_ns);
    must(world->port != NULL);
    world->core_port_armed_ns = 0;
    access_check_restart(&world->access_check);
    world_line(world, "the broker is back");
    const char *wrong = ledger_rebuild(world->ledger, world->port);
    if (wrong != NULL) {
        world_violate(world, "the journal cannot be replayed: %s", wrong);
        return;
    }
    core_port_resume(world->port, core_port_now(world));
    judge_again(world);
    broker_settle(world);
    ledger_look(world);
    for (uint32_t i = 0; i < world->tap_count; i++)
        tap_start(world, i);
}

void world_compact(struct world *world)
{
    if (world->port == NULL || is_stopped(world) || world->for_disk.at < world->for_disk.count)
        return; /* what it stands for has to be in the journal */
    coverage_compact();
    ledger_clear(world->ledger);
    core_port_snapshot(world->port);
    broker_out(world);
    world->synced_count = ledger_count(world->ledger); /* until it is whole the old one stands */
    ledger_sync(world->ledger, world->synced_count);
    ledger_look(world);
}

/* ---- brokers of one shard -------------------------------------------------------------------- */

static int64_t seats_now_ms(const struct world *world)
{
    return world->seats_ahead_ms + world->now_ns / WORLD_MS;
}

/* When that is in the world, but not before now. */
static int64_t seats_ns(const struct world *world, int64_t seats_ms)
{
    int64_t at_ns = (seats_ms - world->seats_ahead_ms) * WORLD_MS;
    return at_ns > world->now_ns ? at_ns : world->now_ns;
}

static bool is_any_undue(const struct world *world, const struct held_parts *parts)
{
    for (uint32_t i = parts->at; i < parts->count; i++)
        if (!is_due(world, parts, &parts->items[i]))
            return true;
    return false;
}

static bool seat_write(void *arg, unsigned seat)
{
    struct world *world = arg;
    if (world->port == NULL || world->seat != seat)
        return false; /* another broker has the shard, or has just this one */
    if (!is_any_undue(world, &world->for_log) && !is_any_undue(world, &world->for_disk))
        return false;
    bool has_records = ledger_writable(world->ledger) > ledger_written(world->ledger);
    world->syncing_count = ledger_writable(world->ledger);
    world->syncs_begun++;
    if (has_records)
        ledger_write(world->ledger);
    else
        ledger_probe(world->ledger);
    if (world->port != NULL && world->seat == seat) /* it may have waited for the store */
        agenda_put(&world->agenda, world->now_ns, MOMENT_KEPT, 0, 0);
    return true;
}

/* The first one has the shard when the world begins. */
static void take_seats(struct world *world)
{
    int64_t again_ms = 0;
    must(world->ledger != NULL && world->options.core.durability == DURABILITY_SHARED);
    world->options.log_most_ns = 1; /* what is said waits */
    world->seats = seats_new(world->options.shard_seed, seat_write, world);
    world->seats_ahead_ms = nodes_now_ms(seats_nodes(world->seats));
    seats_start(world->seats, 0);
    while (seats_run(world->seats, 0, world->seats_ahead_ms, &again_ms) == SEAT_WAITS)
        world->seats_ahead_ms = again_ms;
    must(ledger_use_journal(world->ledger, seats_journal(world->seats, 0)) == NULL);
    for (uint32_t seat = 0; seat < SEATS; seat++)
        agenda_put(&world->agenda, 0, seat == 0 ? MOMENT_SEAT : MOMENT_SEAT_START, seat, 0);
}

static void seat_start(struct world *world, uint32_t seat)
{
    if (seats_are_taken(world->seats, seat))
        return;
    seats_start(world->seats, seat);
    agenda_put(&world->agenda, world->now_ns, MOMENT_SEAT, seat, 0);
}

/* A process has the shard, and becomes the broker. */
static void seat_took(struct world *world, unsigned seat)
{
    bool is_beside = world->port != NULL;
    if (is_beside) {
        must(world->seat != seat && world->replaced.port == NULL);
        world_line(world, "another broker has the shard");
        become_replaced(world, world->stopped_until_ns);
        world->replaced.syncing_count = world->syncing_count;
    }
    forget_broker(world);
    world->seat = seat;
    const char *wrong = ledger_use_journal(world->ledger, seats_journal(world->seats, seat));
    if (wrong != NULL)
        world_violate(world, "the shard: %s", wrong);
    world->synced_count = world->replaced.taken_count = ledger_count(world->ledger);
    world->syncs_begun = world->syncs_done = 0;
    broker_up(world);
}

/* What the one that was replaced hears too late it tells nobody.  But the next one must have it. */
static void seat_synced(struct world *world, unsigned seat)
{
    if (world->port != NULL && world->seat == seat) {
        world->synced_count = world->syncing_count;
        world->syncs_done = world->syncs_begun;
        ledger_note_synced(world->ledger, world->synced_count);
        agenda_put(&world->agenda, world->now_ns, MOMENT_KEPT, 0, 0);
    } else if (world->replaced.port != NULL && world->replaced.seat == seat) {
        if (world->replaced.syncing_count > world->replaced.taken_count)
            world_violate(world, "a broker is told that it has what the next one lacks");
    }
}

/* Another process begins in its place. */
static void seat_over(struct world *world, unsigned seat)
{
    if (world->port != NULL && world->seat == seat) {
        world_line(world, "the broker ends");
        coverage_crash();
        end_port(world);
        forget_broker(world);
        close_all_of(world, false);
    } else if (world->replaced.port != NULL && world->replaced.seat == seat) {
        replaced_end(world);
    }
    world->seat_stopped_until_ns[seat] = 0;
    agenda_put(&world->agenda,
               world->now_ns + dice_between(&world->disk_dice, 0, RESTART_MS * WORLD_MS),
               MOMENT_SEAT_START, seat, 0);
}

static void seat_step(struct world *world, uint32_t seat)
{
    int64_t again_ms = INT64_MAX;
    if (world->seat_stopped_until_ns[seat] > world->now_ns) {
        agenda_put(&world->agenda, world->seat_stopped_until_ns[seat], MOMENT_SEAT, seat, 0);
        return;
    }
    switch (seats_run(world->seats, seat, seats_now_ms(world), &again_ms)) {
    case SEAT_WAITS: break;
    case SEAT_HAS_SHARD: seat_took(world, seat); break;
    case SEAT_HAS_SYNCED: seat_synced(world, seat); break;
    case SEAT_IS_OVER: seat_over(world, seat); break;
    }
    if (again_ms != INT64_MAX)
        agenda_put(&world->agenda, seats_ns(world, again_ms), MOMENT_SEAT, seat, 0);
}

static bool must_be_mute(const struct world *world, unsigned seat)
{
    int64_t kept_ms = seats_kept_ms(world->seats, seat) - world->seats_ahead_ms;
    return persistence_is_too_late(kept_ms * WORLD_MS, world->now_ns);
}

/* A broker whose shard may be another's by now says nothing, and looks again soon (mute.h). */
static void fall_silent(struct world *world)
{
    int64_t until_ns = world->now_ns + MUTE_SLICE_MS * WORLD_MS;
    struct replaced *replaced = &world->replaced;
    if (world->port != NULL && !is_stopped(world) && must_be_mute(world, world->seat))
        world->stopped_until_ns = until_ns;
    if (replaced->port != NULL && replaced->stopped_until_ns <= world->now_ns &&
        must_be_mute(world, replaced->seat))
        replaced->stopped_until_ns = until_ns;
}

struct nodes *world_nodes(struct world *world)
{
    return seats_nodes(world->seats);
}

void world_kill_seat(struct world *world, unsigned seat)
{
    if (!seats_are_taken(world->seats, seat))
        return;
    world_line(world, "process %u is killed", seat);
    seats_kill(world->seats, seat);
    seat_over(world, seat);
}

void world_stop_seat(struct world *world, unsigned seat, int64_t for_ns)
{
    int64_t until_ns = world->now_ns + for_ns;
    if (!seats_are_taken(world->seats, seat))
        return;
    world_line(world, "process %u is stopped for %lld ms", seat, (long long)(for_ns / WORLD_MS));
    world->seat_stopped_until_ns[seat] = until_ns;
    if (world->port != NULL && world->seat == seat)
        world->stopped_until_ns = until_ns;
    else if (world->replaced.port != NULL && world->replaced.seat == seat)
        world->replaced.stopped_until_ns = until_ns;
}

/* ---- the world ------------------------------------------------------------------------------- */

void world_options_init(struct world_options *options)
{
    *options = (struct world_options){.lane_parts_max = 1000, .check_every = 1};
    for (int channel = 0; channel < CHANNEL_COUNT; channel++) {
        options->delay_least_ns[channel] = WORLD_MS;
        options->delay_most_ns[channel] = WORLD_MS;
    }
    core_options_init(&options->core);
    options->core.version = "simulation";
    options->core.data_endpoint = "tcp://*:7371";
}

struct world *world_new(const struct world_options *options)
{
    struct world *world = calloc(1, sizeof *world);
    must(world != NULL);
    world->options = *options;
    around_set(0, "nowhere"); /* until somebody speaks */
    world->digest = FNV_BEGIN;
    dice_init(&world->dice, options->seed);
    dice_init(&world->core_port_dice, ~options->seed);
    dice_init(&world->disk_dice, options->seed ^ UINT64_C(0x6469736b));
    if (options->core.has_facts)
        world->ledger = ledger_new(&options->core);
    if (options->core.has_facts && options->log_most_ns > 0)
        ledger_use_disk(world->ledger, options->seed);
    world->broker_epoch_ns = BROKER_EPOCH_NS;
    if (options->core.access != NULL)
        access_check_use(&world->access_check, options->core.access, 0);
    world->scarce = scarce_new();
    if (options->shard_seed != 0)
        take_seats(world);
    core_port_start(world);
    return world;
}

void world_free(struct world **world)
{
    struct world *old = *world;
    late_look_end();
    if (old == NULL)
        return;
    *world = NULL;
    for (uint32_t i = 0; i < old->host_count; i++) {
        session_free(&old->hosts[i].session);
        for (int channel = 0; channel < CHANNEL_COUNT; channel++)
            buffer_unref(&old->hosts[i].overheard[channel]);
    }
    for (uint32_t i = 0; i < old->conn_count; i++) {
        lane_fini(&old->conns[i]->lanes[WAY_UP]);
        lane_fini(&old->conns[i]->lanes[WAY_DOWN]);
        free(old->conns[i]);
    }
    core_port_free(&old->port);
    core_port_free(&old->replaced.port);
    seats_free(&old->seats);
    free(old->scarce);
    free(old->replaced.scarce);
    free(old->replaced.said);
    ledger_free(&old->ledger);
    lose_held(&old->for_log);
    lose_held(&old->for_disk);
    for (uint32_t i = 0; i < old->parked_count; i++)
        buffer_unref(&old->parked[i].bytes);
    free(old->parked);
    free(old->for_log.items);
    free(old->for_disk.items);
    for (uint32_t i = 0; i < old->line_count; i++)
        free(old->lines[i]);
    agenda_fini(&old->agenda);
    free(old->conns);
    free(old->acts);
    free(old->lines);
    free(old);
}

static void act(struct world *world, const struct moment *moment)
{
    struct act act = world->acts[moment->value];
    if (act.who < WORLD_HOSTS && world_is_frozen(world, act.who)) {
        agenda_put(&world->agenda, world->hosts[act.who].frozen_until_ns, MOMENT_ACT, act.who,
                   moment->value);
        return;
    }
    world->options.hooks.on_act(world->options.hooks.arg, act.what, act.who, act.value);
    if (act.who < WORLD_HOSTS && world->hosts[act.who].session != NULL)
        world_pump(world, act.who);
}

/* What a broker does by itself, and cannot while it is stopped. */
static bool waits_for_broker(const struct world *world, const struct moment *moment)
{
    switch ((enum moment_kind)moment->what) {
    case MOMENT_BROKER_TICK:
    case MOMENT_CLOSED_BROKER:
    case MOMENT_KEPT:
    case MOMENT_ROOM:
    case MOMENT_ACCESS:
    case MOMENT_TAP_BEAT: return is_stopped(world);
    case MOMENT_LANE:
    case MOMENT_HOST_TICK:
    case MOMENT_LOOKED:
    case MOMENT_REPLACED_TICK:
    case MOMENT_REPLACED_END:
    case MOMENT_SEAT:
    case MOMENT_SEAT_START:
    case MOMENT_CLOSED_CLIENT:
    case MOMENT_BROKER_UP:
    case MOMENT_ACT: break;
    }
    return false;
}

static void step(struct world *world, const struct moment *moment)
{
    if (world->seats != NULL)
        fall_silent(world);
    if (waits_for_broker(world, moment)) {
        agenda_put(&world->agenda, world->stopped_until_ns, moment->what, moment->who,
                   moment->value);
        return;
    }
    switch ((enum moment_kind)moment->what) {
    case MOMENT_LANE: lane_step(world, moment->who, (enum way)moment->value); break;
    case MOMENT_HOST_TICK: host_tick(world, moment->who, moment->value); break;
    case MOMENT_BROKER_TICK:
        look_late(world);
        broker_settle(world);
        break;
    case MOMENT_LOOKED: check_late_look(world); break;
    case MOMENT_REPLACED_TICK: replaced_tick(world, moment->value); break;
    case MOMENT_REPLACED_END:
        if (world->replaced.count == moment->value)
            replaced_end(world);
        break;
    case MOMENT_SEAT: seat_step(world, moment->who); break;
    case MOMENT_SEAT_START: seat_start(world, moment->who); break;
    case MOMENT_BROKER_UP: broker_up(world); break;
    case MOMENT_KEPT: say_kept(world); break;
    case MOMENT_ROOM: room(world); break;
    case MOMENT_ACCESS: take_access(world); break;
    case MOMENT_CLOSED_BROKER: broker_closed(world, moment->who); break;
    case MOMENT_CLOSED_CLIENT: client_closed(world, moment->who); break;
    case MOMENT_TAP_BEAT: tap_beat(world, moment->who, moment->value); break;
    case MOMENT_ACT: act(world, moment); break;
    }
    taps_take(world);
    if (world->options.hooks.on_step != NULL)
        world->options.hooks.on_step(world->options.hooks.arg);
}

void world_run(struct world *world, int64_t until_ns)
{
    struct moment moment;
    while (world->violation[0] == 0 && agenda_next_ns(&world->agenda) <= until_ns) {
        (void)agenda_take(&world->agenda, &moment); /* there is one: it is due */
        must(moment.at_ns >= world->now_ns);
        world->now_ns = moment.at_ns;
        step(world, &moment);
    }
    if (world->violation[0] == 0 && world->now_ns < until_ns)
        world->now_ns = until_ns;
}
