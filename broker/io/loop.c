/* SPDX-License-Identifier: MPL-2.0 */
/* loop.c -- the broker's one thread; see loop.h.
 *
 * What is known of libzmq 4.3 and kept to here: every send and receive is told not to wait; sends
 * are MANDATORY, so that a peer that is gone (EHOSTUNREACH) and one that does not read (EAGAIN) are
 * told apart; no heartbeat of libzmq's, which aborts when a queue is full; monitors are looked at
 * in every round, for a full one stops the I/O thread. */
#include "broker/io/loop.h"

#include "broker/io/access_change.h"
#include "broker/io/admission.h"
#include "broker/io/authentication.h"
#include "broker/io/channel.h"
#include "broker/io/clock.h"
#include "broker/io/core_port.h"
#include "broker/io/descriptors.h"
#include "broker/io/failpoint.h"
#include "broker/io/figures.h"
#include "broker/io/log.h"
#include "broker/io/misdirected.h"
#include "broker/io/mute.h"
#include "broker/io/newcomers.h"
#include "broker/io/peers.h"
#include "broker/io/persistence.h"
#include "broker/io/put_off.h"
#include "broker/io/received.h"
#include "broker/io/recovery.h"
#include "broker/io/service_manager.h"
#include "broker/io/sharding.h"
#include "broker/io/signals.h"
#include "broker/io/waiting_batches.h"
#include "broker/io/web_child.h"
#include "broker/io/who.h"
#include "libbus/base/must.h"
#include "libbus/io/monitor.h"
#include "libbus/io/part.h"
#include "libbus/io/ready.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <zmq.h>

#define NS_PER_MS INT64_C(1000000)

enum {
    DATA_TURN_PARTS = 16, /* data parts between two looks at control, which goes first */
    DATA_TURN_BYTES = 512 * 1024,
    CONTROL_TURN_PARTS = 1024, /* so that a flood of control does not end data */
    STOP_MS = 1000,            /* for parties to hear BYE and go; then channel.c lingers */
    WAIT_MS_MAX = 60000,
};

struct loop {
    struct memory memory;
    struct core_port *port;
    struct authentication authentication;
    struct peers peers;
    struct admission admission;
    struct persistence persistence;
    struct mute mute;
    struct sharding sharding;
    struct waiting_batches waiting_batches;
    struct clock clock;
    struct figures figures;
    void *context;
    struct channel channels[LANE_COUNT];
    int signal_fd;
    struct service_manager *manager;
    uint64_t replayed; /* steps of the journal */
    bool is_spinning;  /* it was asked never to sleep */
    bool is_stopping;
    int64_t stop_deadline_ns;
    struct access_change access_change;
    struct who who;
    struct web_child web;
    int64_t access_end_s;     /* when the next key or uid ends, on the wall clock */
    int64_t access_warning_s; /* ... when people are told of the next one */
    uint32_t clogged_count;   /* peers to be reported as not reading */
    struct put_off put_off;
    struct newcomers newcomers;
    uint64_t ignored; /* parts of connections that could not be numbered */
};

/* ---- sending --------------------------------------------------------------------------------- */

/* Addresses the peer: what is sent next goes to it.  false: it is gone, or does not read. */
static bool address(struct loop *loop, struct peer *peer)
{
    int fault = channel_address(&loop->channels[peer->lane], peer->routing);
    if (fault == EHOSTUNREACH) {
        peers_close(&loop->peers, peer);
    } else if (fault == EAGAIN && !peer->is_clogged) {
        peer->is_clogged = true;
        loop->clogged_count += 1;
    }
    return fault == 0;
}

/* Parts to a peer that is gone are lost, as are those in its connection.  When its session goes on,
 * what counts is sent again. */
static void send_out(struct loop *loop, enum lane lane, conn_id conn, const uint8_t *head,
                     struct buffer *part, int64_t error_ns)
{
    zmq_msg_t msg;
    struct peer *peer = peers_by_conn(&loop->peers, conn);
    if (peer == NULL || peer->lane != lane || peer->is_closing || peer->is_clogged)
        return;
    failpoint_reach(lane == LANE_DATA ? "deliver" : "answer");
    must(part_unwrap(part, &msg)); /* as in effect.h: what was decided must be said */
    if (address(loop, peer)) {
        loop->figures.messages_out[lane] += 1;
        loop->figures.bytes_out[lane] += zmq_msg_size(&msg);
        channel_send(&loop->channels[lane], head, &msg);
        if (error_ns != 0)
            histogram_see(&loop->figures.error_delivery, clock_monotonic_ns() - error_ns);
    }
    zmq_msg_close(&msg);
    failpoint_reach(lane == LANE_DATA ? "delivered" : "answered");
}

static void forget(struct loop *loop, conn_id conn)
{
    struct peer *peer = peers_by_conn(&loop->peers, conn);
    if (peer == NULL)
        return;
    peer->is_forgotten = true;
    if (!peer->is_closing) /* else its descriptor may be another's by now */
        new_connections_forgotten(&loop->admission.connections, peer->lane, peer->fd,
                                  clock_monotonic_ns());
    waiting_batches_drop(&loop->waiting_batches, peer);
}

/* The last call of the port was a step of the core, which took so long. */
static void see_step(struct loop *loop)
{
    uint64_t steps = core_port_steps(loop->port);
    if (steps == loop->figures.steps)
        return;
    loop->figures.steps = steps;
    histogram_see(&loop->figures.step, clock_monotonic_ns() - core_port_began_ns(loop->port));
}

static void carry_out(struct loop *loop)
{
    struct core_port_out out;
    see_step(loop);
    persistence_give(&loop->persistence, loop->port);
    while (core_port_out(loop->port, &out)) {
        if (persistence_holds(&loop->persistence, &out))
            continue;
        switch (out.kind) {
        case CORE_PORT_NOTHING: break;
        case CORE_PORT_CONTROL: send_out(loop, LANE_CONTROL, out.conn, NULL, out.part, 0); break;
        case CORE_PORT_DATA:
            send_out(loop, LANE_DATA, out.conn, out.head, out.part, out.error_ns);
            break;
        case CORE_PORT_DROP: forget(loop, out.conn); break;
        case CORE_PORT_RELOAD:
            access_change_ask(&loop->access_change, &loop->peers, out.conn);
            break;
        case CORE_PORT_FACT: buffer_unref(&out.part); break; /* no journal: none was asked for */
        case CORE_PORT_LOG: who_log(&loop->who, &out); break;
        }
        buffer_unref(&out.part);
    }
}

/* Sends what waited for the journal and is in it now, and reports how the journal is. */
static void hear_journal(struct loop *loop)
{
    struct held held;
    persistence_hear(&loop->persistence, loop->port, clock_monotonic_ns());
    persistence_checkpoint(&loop->persistence, loop->port);
    while (persistence_next(&loop->persistence, &held)) {
        enum lane lane = held.lane == MSG_LANE_DATA ? LANE_DATA : LANE_CONTROL;
        send_out(loop, lane, held.conn, held.head, held.part, held.error_ns);
        buffer_unref(&held.part);
    }
    if (persistence_report(&loop->persistence, loop->port, &loop->clock))
        carry_out(loop);
}

/* Peers whose queue was full when the broker had a message for them.  A report about one may fill
 * the queue of another; each is reported once. */
static void report_clogged(struct loop *loop)
{
    while (loop->clogged_count > 0) {
        loop->clogged_count = 0;
        for (uint32_t i = 0; i < loop->peers.used; i++) {
            struct peer *peer = &loop->peers.items[i];
            if (peer->conn == 0 || !peer->is_clogged || peer->is_forgotten)
                continue;
            peer->is_forgotten = true;
            core_port_violation(loop->port, clock_now(&loop->clock), peer->conn,
                                "the client does not read what the broker sends");
            carry_out(loop);
        }
    }
}

/* ---- monitors -------------------------------------------------------------------------------- */

static void drain_monitor(struct loop *loop, enum lane lane)
{
    struct monitor_event event;
    while (monitor_read(loop->channels[lane].monitor, &event)) {
        figures_see_event(&loop->figures, event.type);
        if (event.type == ZMQ_EVENT_LISTENING) {
            admission_listens(&loop->admission, lane, event.value);
        } else if (event.type == ZMQ_EVENT_ACCEPTED) {
            peers_fd_accepted(&loop->peers, lane, event.value);
            admission_came(&loop->admission, lane, event.value, clock_monotonic_ns());
            if (lane == LANE_DATA)
                monitor_give_room(event.value);
        } else if (event.type == ZMQ_EVENT_DISCONNECTED) {
            peers_fd_closed(&loop->peers, lane, event.value);
            admission_left(&loop->admission, lane, event.value, clock_monotonic_ns());
        } else if (event.type == ZMQ_EVENT_ACCEPT_FAILED) {
            connection_warnings_not_accepted(&loop->admission.warnings, channel_name(lane),
                                             event.value, clock_monotonic_ns());
        }
        admission_saw(&loop->admission, lane, event.type);
    }
}

static void drain_monitors(struct loop *loop)
{
    for (int i = 0; i < LANE_COUNT; i++)
        drain_monitor(loop, (enum lane)i);
}

/* The monitors are emptied first; see admission.h. */
static void dismiss_new_connections(struct loop *loop)
{
    int64_t now_ns = clock_monotonic_ns();
    if (admission_due_ns(&loop->admission) <= now_ns)
        drain_monitors(loop);
    admission_review(&loop->admission, now_ns);
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* Learns whose connection it is.  libzmq let it in, but the access file may be another by now. */
static void admit(struct loop *loop, struct peer *peer, zmq_msg_t *part, uint32_t part_count)
{
    const char *address = part_count > 0 ? zmq_msg_gets(part, "Peer-Address") : NULL;
    snprintf(peer->address, sizeof peer->address, "%s", address != NULL ? address : "");
    if (loop->authentication.socket == NULL)
        return;
    const char *user_id = part_count > 0 ? zmq_msg_gets(part, "User-Id") : NULL;
    peer->identity = authentication_identify(&loop->authentication, user_id);
    peer->principal = authentication_find(&loop->authentication, &peer->identity);
    if (peer->principal != 0)
        return;
    peer->is_forgotten = true;
    admission_cut(peer->fd);
    who_log_stranger(&loop->who, peer, channel_name(peer->lane));
}

/* The connection of a first part.  On a busy machine it is read in the turn in which the connection
 * is accepted.  So those that are too many are let go before, and this may be one of them. */
static struct peer *add_peer(struct loop *loop, enum lane lane, struct received *received)
{
    struct peer *peer = NULL;
    drain_monitor(loop, lane); /* see peers.h */
    dismiss_new_connections(loop);
    int fd = zmq_msg_get(&received->part, ZMQ_SRCFD);
    if (!new_connections_is_leaving(&loop->admission.connections, lane, fd))
        peer = peers_add(&loop->peers, lane, received->routing, fd);
    if (peer != NULL) {
        new_connections_spoke(&loop->admission.connections, lane, fd);
        admit(loop, peer, &received->part, received->part_count);
    }
    return peer;
}

/* The connection of a part, which is added if it is new.  NULL: its parts are ignored. */
static struct peer *find_peer(struct loop *loop, enum lane lane, struct received *received)
{
    struct peer *peer = NULL;
    if (received->is_numbered)
        peer = peers_by_routing(&loop->peers, lane, received->routing);
    if (peer == NULL && received->is_numbered)
        peer = add_peer(loop, lane, received);
    if (peer == NULL) {
        loop->ignored += 1;
        log_line(LOG_DETAIL, "%s channel: ignored a message from %s (%llu so far)",
                 channel_name(lane),
                 received->is_numbered ? "a connection above the limit"
                                       : "a connection that chose its own id",
                 (unsigned long long)loop->ignored);
        return NULL;
    }
    peers_read(&loop->peers, peer);
    return peer->is_forgotten || peer->is_mute ? NULL : peer;
}

/* Whether this data part waits for room, or is dropped and comes again. */
static bool park(struct loop *loop, struct peer *peer, struct buffer **part)
{
    bool must_wait = peer->is_shed || persistence_is_full(&loop->persistence) ||
                     !waiting_batches_is_empty(&loop->waiting_batches);
    if (!must_wait || !core_port_brings_bytes(buffer_span(*part)))
        return false;
    if (!waiting_batches_take(&loop->waiting_batches, peer, part))
        buffer_unref(part);
    return true;
}

/* Lets in what was parked, as far as there is room. */
static void unpark(struct loop *loop)
{
    struct held held;
    while (persistence_has_room(&loop->persistence) &&
           waiting_batches_next(&loop->waiting_batches, &loop->peers, &held)) {
        const struct peer *peer = peers_by_conn(&loop->peers, held.conn);
        if (peer != NULL && !peer->is_forgotten && !peer->is_closing) {
            core_port_data_in(loop->port, clock_now(&loop->clock), held.conn, &held.part);
            carry_out(loop);
        }
        buffer_unref(&held.part);
    }
}

/* On a full disk all is read, so that clients which come then can attach. */
static bool may_read_data(const struct loop *loop)
{
    return persistence_has_room(&loop->persistence) || persistence_is_full(&loop->persistence);
}

/* Lets those come back whose messages had to wait for the journal. */
static void recall(struct loop *loop)
{
    if (!put_off_is_over(&loop->put_off, &loop->persistence))
        return;
    drain_monitors(loop);
    put_off_end(&loop->put_off, &loop->peers);
}

/* A client that has the endpoint of the wrong channel waits for an answer where it spoke. */
static void answer_misdirected(struct loop *loop, const struct peer *peer, struct span said)
{
    struct buffer *answer =
        misdirected_answer(peer->lane, said, loop_data_endpoint(loop), loop_control_endpoint(loop));
    if (answer != NULL)
        send_out(loop, peer->lane, peer->conn, NULL, answer, 0);
    buffer_unref(&answer);
}

static void control_in(struct loop *loop, struct peer *peer, struct span said)
{
    core_port_speaker(loop->port, peer->principal);
    if (!put_off_message(&loop->put_off, &loop->persistence, peer, said) &&
        !sharding_holds(&loop->sharding, loop->port, peer, said))
        core_port_control_in(loop->port, clock_now(&loop->clock), peer->conn, said);
}

static void let_newcomers_in(struct loop *loop, bool is_all)
{
    struct buffer *said;
    struct peer *peer;
    while ((peer = newcomers_next(&loop->newcomers, &loop->peers, is_all, &said)) != NULL) {
        control_in(loop, peer, buffer_span(said));
        carry_out(loop);
        buffer_unref(&said);
    }
}

static void let_in(struct loop *loop, struct peer *peer, struct received *received)
{
    struct core_port_now now = clock_now(&loop->clock);
    zmq_msg_t *part = &received->part;
    struct span said = span_of(zmq_msg_data(part), zmq_msg_size(part));
    core_port_speaker(loop->port, peer->principal);
    if (received->part_count != 1) {
        core_port_violation(loop->port, now, peer->conn, "a message must have exactly one part");
        return;
    }
    answer_misdirected(loop, peer, said);
    if (peer->lane == LANE_CONTROL) {
        if (newcomers_hold(&loop->newcomers, &loop->peers, peer, said))
            return;
        if (peer->waiting > 0)
            let_newcomers_in(loop, true); /* its messages have an order */
        control_in(loop, peer, said);
    } else {
        struct buffer *buffer = part_wrap(part, 1);
        if (buffer == NULL)
            core_port_violation(loop->port, now, peer->conn, "the broker is short of memory");
        else if (!park(loop, peer, &buffer))
            core_port_data_in(loop->port, now, peer->conn, &buffer);
    }
}

/* Reads up to so many parts and bytes; true: there is more. */
static bool read_lane(struct loop *loop, enum lane lane, unsigned parts_max, size_t bytes_max)
{
    struct received received;
    size_t bytes = 0;
    for (unsigned i = 0; i < parts_max && bytes < bytes_max; i++) {
        if (i > 0 && persistence_is_growing(&loop->persistence))
            return true; /* a checkpoint comes first */
        if (!received_read(loop->channels[lane].socket, &received)) {
            peers_empty(&loop->peers, lane);
            return false;
        }
        bytes += zmq_msg_size(&received.part);
        loop->figures.messages_in[lane] += 1;
        loop->figures.bytes_in[lane] += zmq_msg_size(&received.part);
        struct peer *peer = find_peer(loop, lane, &received);
        if (peer != NULL) {
            let_in(loop, peer, &received);
            carry_out(loop);
        }
        zmq_msg_close(&received.part);
    }
    return true;
}

/* What waited for the directory is let in, or refused. */
static void settle_shards(struct loop *loop)
{
    struct sharding_out out;
    while (sharding_next(&loop->sharding, &loop->peers, &out)) {
        conn_id conn = out.peer->conn;
        core_port_speaker(loop->port, out.peer->principal);
        if (out.is_answer) {
            send_out(loop, LANE_CONTROL, conn, NULL, out.part, 0);
            if (out.is_over)
                forget(loop, conn);
        } else {
            core_port_control_in(loop->port, clock_now(&loop->clock), conn, buffer_span(out.part));
            carry_out(loop);
        }
        buffer_unref(&out.part);
    }
    sharding_review(&loop->sharding, loop->port, &loop->persistence);
}

static void tell_closed(struct loop *loop, enum lane lane)
{
    struct peer *peer;
    while ((peer = peers_closed(&loop->peers, lane)) != NULL) {
        conn_id conn = peer->conn;
        bool is_forgotten = peer->is_forgotten;
        waiting_batches_drop(&loop->waiting_batches, peer);
        sharding_drop(&loop->sharding, conn);
        peers_remove(&loop->peers, peer);
        if (is_forgotten)
            continue;
        core_port_closed(loop->port, clock_now(&loop->clock), conn);
        carry_out(loop);
    }
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static void tick(struct loop *loop)
{
    struct core_port_now now = clock_now(&loop->clock);
    if (core_port_deadline_ns(loop->port) > now.now_ns)
        return;
    core_port_tick(loop->port, now);
    carry_out(loop);
}

static void remove_endpoints(struct loop *loop)
{
    for (int i = 0; i < LANE_COUNT; i++)
        channel_remove_endpoint(&loop->channels[i]);
}

static void begin_stop(struct loop *loop)
{
    struct core_port_now now = clock_now(&loop->clock);
    service_manager_stopping(loop->manager);
    loop->is_stopping = true;
    loop->stop_deadline_ns = now.now_ns + STOP_MS * NS_PER_MS;
    web_child_end(&loop->web);
    core_port_stop(loop->port, now);
    carry_out(loop);
}

/* ---- another access file --------------------------------------------------------------------- */

/* before: the table of before, or the same one when a key has come to its end. */
static void apply_access(struct loop *loop, const struct access *before)
{
    struct peer *peer;
    drain_monitors(loop); /* see dismiss_new_connections() */
    access_change_begin(&loop->access_change, &loop->peers, before);
    core_port_access(loop->port, clock_now(&loop->clock), loop->authentication.access);
    carry_out(loop);
    while ((peer = access_change_next(&loop->access_change, &loop->peers, &loop->authentication,
                                      clock_monotonic_ns())) != NULL) {
        core_port_closed(loop->port, clock_now(&loop->clock), peer->conn);
        carry_out(loop);
    }
    loop->access_end_s = authentication_next_end_s(&loop->authentication);
}

static void say_of_access(struct loop *loop, enum access_word word, const char *text)
{
    log_line(LOG_WARNING, "access: %.1000s", text);
    core_port_access_word(loop->port, clock_now(&loop->clock), word, text);
    carry_out(loop);
}

/* Each key that is near its end is told once. */
static void tell_of_ends(struct loop *loop, const struct access *before)
{
    char text[AUTHENTICATION_COMPLAINT_BYTES];
    struct authentication_ends ends;
    authentication_ends_begin(&loop->authentication, before, &ends);
    while (authentication_ends_next(&loop->authentication, &ends, text))
        say_of_access(loop, ACCESS_IS_EXPIRING, text);
    loop->access_warning_s = authentication_next_warning_s(&loop->authentication);
}

static void reload_access(struct loop *loop)
{
    char complaint[AUTHENTICATION_COMPLAINT_BYTES] = "";
    service_manager_reloading(loop->manager, clock_monotonic_ns());
    struct access *before = authentication_reload(&loop->authentication, complaint);
    if (before != NULL) {
        apply_access(loop, before);
        tell_of_ends(loop, before);
        access_free(&before);
    } else if (*complaint != '\0') {
        say_of_access(loop, ACCESS_IS_REFUSED, complaint);
    }
    access_change_done(&loop->access_change, &loop->peers);
    service_manager_ready(loop->manager, clock_monotonic_ns());
}

/* Keys and uids end, and revoked peers have had their time. */
static void look_at_access(struct loop *loop)
{
    if (loop->authentication.socket == NULL)
        return;
    if (authentication_has_ended(&loop->authentication, loop->access_end_s))
        apply_access(loop, loop->authentication.access);
    if (authentication_has_ended(&loop->authentication, loop->access_warning_s))
        tell_of_ends(loop, loop->authentication.access);
    if (loop->access_change.is_asked)
        reload_access(loop);
    if (clock_monotonic_ns() < loop->access_change.cut_ns)
        return;
    drain_monitors(loop); /* see dismiss_new_connections() */
    access_change_cut(&loop->access_change, &loop->peers);
}

static void read_signals(struct loop *loop)
{
    struct signalfd_siginfo info;
    while (read(loop->signal_fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGHUP) {
            reload_access(loop);
        } else if (info.ssi_signo == SIGCHLD) {
            web_child_reap(&loop->web, clock_monotonic_ns());
        } else if (loop->is_stopping) {
            remove_endpoints(loop);
            _exit(128 + (int)info.ssi_signo);
        } else {
            signals_log_stop(&info);
            begin_stop(loop);
        }
    }
}

/* How long the loop may sleep if nothing arrives. */
static long wait_ms(const struct loop *loop)
{
    const int64_t others_ns[] = {
        persistence_deadline_ns(&loop->persistence, loop->port),
        loop->is_stopping ? loop->stop_deadline_ns : INT64_MAX,
        loop->access_change.cut_ns,
        admission_due_ns(&loop->admission),
        service_manager_due_ns(loop->manager),
        loop->web.due_ns,
        sharding_due_ns(&loop->sharding),
        event_warnings_due_ns(&loop->who.warnings),
    };
    int64_t deadline_ns = core_port_deadline_ns(loop->port);
    for (size_t i = 0; i < sizeof others_ns / sizeof others_ns[0]; i++)
        if (others_ns[i] < deadline_ns)
            deadline_ns = others_ns[i];
    int64_t left_ns = deadline_ns - clock_monotonic_ns();
    if (left_ns <= 0 || peers_are_closing(&loop->peers))
        return 0;
    bool is_long = left_ns >= WAIT_MS_MAX * NS_PER_MS;
    return is_long ? WAIT_MS_MAX : (long)((left_ns + NS_PER_MS - 1) / NS_PER_MS);
}

/* What the loop waits for: signals, news of the journal and of children, monitors, two sockets. */
enum {
    WATCH_SIGNALS,
    WATCH_KEYS,
    WATCH_JOURNAL,
    WATCH_SHARDS,
    WATCH_WEB,
    WATCH_MONITORS = WATCH_WEB + WEB_CHILD_STREAMS,
    WATCH_SOCKETS = WATCH_MONITORS + LANE_COUNT
};

/* Handles monitors and signals; sleeps, unless there is work.  Whether the journal has news. */
static bool watch(struct loop *loop, bool is_busy)
{
    struct pollfd items[WATCH_SOCKETS + LANE_COUNT];
    bool reads_data = may_read_data(loop);
    items[WATCH_SIGNALS] = (struct pollfd){.fd = loop->signal_fd, .events = POLLIN};
    items[WATCH_KEYS] = (struct pollfd){.fd = loop->authentication.fd, .events = POLLIN};
    items[WATCH_JOURNAL] =
        (struct pollfd){.fd = persistence_fd(&loop->persistence), .events = POLLIN};
    items[WATCH_SHARDS] = (struct pollfd){.fd = sharding_fd(&loop->sharding), .events = POLLIN};
    web_child_watch(&loop->web, &items[WATCH_WEB]);
    for (int i = 0; i < LANE_COUNT; i++) {
        bool is_read = i != LANE_DATA || reads_data;
        items[WATCH_MONITORS + i] =
            (struct pollfd){.fd = loop->channels[i].monitor_fd, .events = POLLIN};
        items[WATCH_SOCKETS + i] =
            (struct pollfd){.fd = is_read ? loop->channels[i].fd : -1, .events = POLLIN};
    }
    is_busy = is_busy || loop->is_spinning || authentication_is_asked(&loop->authentication) ||
              ready_has(loop->channels[LANE_CONTROL].socket, ZMQ_POLLIN) ||
              (reads_data && ready_has(loop->channels[LANE_DATA].socket, ZMQ_POLLIN));
    int count = poll(items, sizeof items / sizeof items[0], is_busy ? 0 : (int)wait_ms(loop));
    must(count >= 0 || errno == EINTR);
    if (count <= 0)
        return false;
    for (int i = 0; i < LANE_COUNT; i++)
        if (items[WATCH_MONITORS + i].revents != 0)
            drain_monitor(loop, (enum lane)i);
    web_child_hear(&loop->web, &items[WATCH_WEB]);
    if (items[WATCH_SIGNALS].revents != 0)
        read_signals(loop);
    return items[WATCH_JOURNAL].revents != 0;
}

/* The broker must end: it cannot read a value back, or cannot write the journal. */
static bool is_broken(const struct loop *loop)
{
    return core_port_is_broken(loop->port) || persistence_has_failed(&loop->persistence);
}

/* The broker was stopped and has told its parties, or had no more time; or it is broken. */
static bool is_over(const struct loop *loop)
{
    bool is_stopped = loop->is_stopping && (core_session_count(core_port_core(loop->port)) == 0 ||
                                            loop->peers.lanes[LANE_CONTROL].count == 0 ||
                                            clock_monotonic_ns() >= loop->stop_deadline_ns);
    return is_stopped || is_broken(loop);
}

enum loop_end loop_run(struct loop *loop)
{
    bool has_news = false;
    drain_monitors(loop); /* see ready.h */
    service_manager_ready(loop->manager, clock_monotonic_ns());
    while (!is_over(loop)) {
        if (mute_wait(&loop->mute, &loop->persistence, loop->signal_fd)) {
            persistence_hear(&loop->persistence, loop->port, clock_monotonic_ns());
            persistence_report_end(&loop->persistence); /* all else is said later */
            service_manager_live(loop->manager, clock_monotonic_ns());
            read_signals(loop);
            continue;
        }
        if (has_news)
            hear_journal(loop); /* before anything is read, and never where it must be mute */
        bool is_busy = read_lane(loop, LANE_CONTROL, CONTROL_TURN_PARTS, SIZE_MAX);
        tell_closed(loop, LANE_CONTROL);
        let_newcomers_in(loop, false);
        if (may_read_data(loop))
            is_busy |= read_lane(loop, LANE_DATA, DATA_TURN_PARTS, DATA_TURN_BYTES);
        tell_closed(loop, LANE_DATA);
        settle_shards(loop);
        authentication_answer(&loop->authentication, &loop->admission.connections);
        look_at_access(loop);
        web_child_start(&loop->web, clock_monotonic_ns());
        dismiss_new_connections(loop);
        tick(loop);
        who_log_sums(&loop->who, false);
        hear_journal(loop);
        unpark(loop); /* after reading, which may have made room */
        recall(loop);
        report_clogged(loop);
        failpoint_reach("round");
        service_manager_live(loop->manager, clock_monotonic_ns());
        has_news = watch(loop, is_busy || is_broken(loop));
    }
    who_log_sums(&loop->who, true);
    if (is_broken(loop))
        log_line(LOG_WARNING, "stopped: %s",
                 core_port_is_broken(loop->port) ? "a value cannot be read back from the journal"
                                                 : "the journal cannot be written any more");
    else
        log_line(LOG_INFO, "stopped, as requested; parties that were not told in time: %u",
                 core_session_count(core_port_core(loop->port)));
    bool has_forgotten = persistence_has_forgotten(&loop->persistence);
    return has_forgotten ? LOOP_FORGOT : is_broken(loop) ? LOOP_BROKEN : LOOP_STOPPED;
}

/* ---- opening and closing --------------------------------------------------------------------- */

/* Replays the journal, so that the broker has the state of the last record. */
static bool loop_recover(struct loop *loop, const struct config *config, struct journal **journal,
                         enum durability durability, char *complaint)
{
    struct recovery done;
    char fault[JOURNAL_COMPLAINT_BYTES] = "";
    persistence_lend(&loop->persistence, loop->port, config->memory_bytes);
    if (!recovery_run(*journal, loop->port, clock_now(&loop->clock), loop->manager, &done, fault)) {
        snprintf(complaint, LOOP_COMPLAINT_BYTES,
                 "journal: %.800s; 'errbusd --export %.300s' prints what it holds; to start empty, "
                 "name another journal with --journal",
                 fault, journal_folder(*journal));
        return false;
    }
    loop->replayed = done.steps;
    if (!persistence_start(&loop->persistence, config->journal, journal, durability, loop->port,
                           fault)) {
        snprintf(complaint, LOOP_COMPLAINT_BYTES, "cannot start: %s", fault);
        return false;
    }
    carry_out(loop);
    if (loop->authentication.access != NULL) /* who lost access meanwhile loses it now */
        core_port_access(loop->port, clock_now(&loop->clock), loop->authentication.access);
    carry_out(loop);
    return true;
}

static void tell_all(void *arg, struct metric_figures *out)
{
    struct loop *loop = arg;
    figures_tell(&loop->figures, loop->admission.connections.open, out);
    out->samples[SAMPLE_CONNECTIONS_CONTROL] = loop->peers.lanes[LANE_CONTROL].count;
    out->samples[SAMPLE_CONNECTIONS_DATA] = loop->peers.lanes[LANE_DATA].count;
    out->samples[SAMPLE_NEW_CONNECTIONS] = loop->admission.connections.waiting;
    out->samples[SAMPLE_ADDRESS_REFUSALS] = loop->admission.connections.refused.total;
    authentication_tell(&loop->authentication, out);
    persistence_tell(&loop->persistence, out);
}

static bool open_core_port(struct loop *loop, const struct config *config, const char *version,
                           uint64_t broker, enum durability durability, char *complaint)
{
    char advertised[LIMIT_ENDPOINT_BYTES];
    struct core_options options = config->core;
    struct core_port_now now = clock_now(&loop->clock);
    if (!endpoint_advertise(loop->channels[LANE_CONTROL].endpoint,
                            loop->channels[LANE_DATA].endpoint, config->advertise, advertised)) {
        snprintf(complaint, LOOP_COMPLAINT_BYTES,
                 "cannot advertise '%s': give HOST, HOST:PORT, tcp://HOST:PORT or ipc://PATH",
                 config->advertise);
        return false;
    }
    options.broker = broker != 0 ? broker : now.random;
    options.has_facts = broker != 0;
    durability_tell(durability, &options);
    options.version = version;
    options.data_endpoint = advertised;
    options.access = loop->authentication.access;
    loop->port = core_port_new(&loop->memory, &options, now.now_ns);
    if (loop->port == NULL) {
        snprintf(complaint, LOOP_COMPLAINT_BYTES, "cannot start: out of memory");
        return false;
    }
    who_init(&loop->who, &loop->peers, &loop->authentication);
    core_port_use_peers(loop->port, &(struct core_port_peers){who_describe, &loop->who});
    figures_begin(&loop->figures, now.wall_ns);
    core_port_use_figures(loop->port, &(struct core_port_figures){tell_all, loop, figures_cpu_ns});
    return true;
}

static struct loop *give_up(struct loop *loop, char *complaint, const char *why)
{
    snprintf(complaint, LOOP_COMPLAINT_BYTES, "%.1400s", why);
    loop_close(&loop);
    return NULL;
}

struct loop *loop_open(const struct config *config, struct service_manager *manager,
                       char complaint[LOOP_COMPLAINT_BYTES])
{
    struct loop *loop = calloc(1, sizeof *loop);
    if (loop == NULL)
        return give_up(NULL, complaint, "cannot start: out of memory");
    memory_heap_init(&loop->memory, UINT64_MAX);
    peers_init(&loop->peers, &loop->memory);
    admission_init(&loop->admission, &loop->memory, &loop->figures, descriptors_for_connections(),
                   (int64_t)failpoint_number("NEW_CONNECTION_MS", LIMIT_NEW_CONNECTION_MS) *
                       NS_PER_MS);
    persistence_init(&loop->persistence, &loop->memory);
    waiting_batches_init(&loop->waiting_batches, &loop->memory);
    newcomers_init(&loop->newcomers, &loop->memory);
    sharding_init(&loop->sharding, &loop->memory);
    loop->is_spinning = config->is_spinning;
    loop->manager = manager;
    loop->access_change.cut_ns = INT64_MAX;
    loop->signal_fd = signals_open();
    if (loop->signal_fd < 0 || !descriptors_are_enough())
        return give_up(loop, complaint,
                       "cannot start: too few file descriptors: raise the limit (ulimit -n)");
    received_hide_ids((unsigned)clock_now(&loop->clock).random);
    loop->context = zmq_ctx_new();
    char fault[AUTHENTICATION_COMPLAINT_BYTES] = "";
    if (loop->context == NULL || zmq_ctx_set(loop->context, ZMQ_IO_THREADS, LANE_COUNT) != 0) {
        snprintf(fault, sizeof fault, "cannot start: %s", zmq_strerror(errno));
        return give_up(loop, complaint, fault);
    }
    if (!web_child_open(&loop->web, config->web, config->web_token, config->access[0] != '\0',
                        fault) ||
        !authentication_open(&loop->authentication, loop->context, config->access, config->key,
                             &loop->web, fault))
        return give_up(loop, complaint, fault);
    loop->admission.connections.counts_failures = loop->authentication.socket != NULL;
    const char *const endpoints[] = {config->control, config->data};
    for (int i = 0; i < LANE_COUNT; i++)
        if (!authentication_open_channel(&loop->authentication, &loop->channels[i], loop->context,
                                         (enum lane)i, endpoints[i], fault))
            return give_up(loop, complaint, fault);
    return loop;
}

bool loop_begin(struct loop *loop, const struct config *config, const char *version,
                struct journal **journal, enum durability durability,
                char complaint[LOOP_COMPLAINT_BYTES])
{
    uint64_t broker = *journal != NULL ? journal_id(*journal) : 0;
    char key[KEY_TEXT_BYTES + 1];
    sharding_see(&loop->sharding, *journal);
    if (!open_core_port(loop, config, version, broker, durability, complaint) ||
        (*journal != NULL && !loop_recover(loop, config, journal, durability, complaint)))
        return false;
    snprintf(complaint, LOOP_COMPLAINT_BYTES, "cannot start: %s", SHARDING_LACKS);
    if (!sharding_begin(&loop->sharding, config, &loop->authentication, loop_control_endpoint(loop),
                        loop->port))
        return false;
    loop_public_key(loop, key);
    web_child_begin(&loop->web, loop_control_endpoint(loop), key, clock_monotonic_ns());
    return true;
}

struct loop_restored loop_restored(const struct loop *loop)
{
    return (struct loop_restored){.steps = loop->replayed,
                                  .is_key_new = loop->authentication.is_key_new,
                                  .jobs = core_job_count(core_port_core(loop->port)),
                                  .parties = core_session_count(core_port_core(loop->port)),
                                  .values = core_port_payload_count(loop->port),
                                  .bytes = core_port_payload_bytes(loop->port)};
}

const char *loop_control_endpoint(const struct loop *loop)
{
    return loop->channels[LANE_CONTROL].endpoint;
}

const char *loop_data_endpoint(const struct loop *loop)
{
    return loop->channels[LANE_DATA].endpoint;
}

void loop_public_key(const struct loop *loop, char text[KEY_TEXT_BYTES + 1])
{
    text[0] = '\0';
    if (loop->authentication.socket != NULL)
        key_text_write(loop->authentication.key.public_key, KEY_PUBLIC, text);
}

void loop_close(struct loop **loop)
{
    struct loop *old = *loop;
    *loop = NULL;
    if (old == NULL)
        return;
    web_child_close(&old->web);
    remove_endpoints(old);
    signals_release(old->signal_fd);
    for (int i = 0; i < LANE_COUNT; i++)
        channel_close(&old->channels[i]);
    authentication_stop(&old->authentication);
    while (old->context != NULL && zmq_ctx_term(old->context) != 0 && errno == EINTR)
        continue;
    persistence_fini(&old->persistence);
    waiting_batches_fini(&old->waiting_batches);
    newcomers_fini(&old->newcomers);
    sharding_fini(&old->sharding);
    core_port_free(&old->port);
    authentication_fini(&old->authentication);
    admission_fini(&old->admission);
    peers_fini(&old->peers);
    free(old);
}
