/* SPDX-License-Identifier: MPL-2.0 */
/* link_zmq.c -- the two connections of a client over ZeroMQ; see link.h.
 *
 * Each connection is a DEALER socket of its own, which is closed with the connection.  A DEALER
 * that reconnected would send its old queue before anything new.  The socket's monitor tells that a
 * connection broke or could not be made.  The link reports that once it has received everything
 * that had arrived.
 *
 * ZMQ_RECONNECT_IVL -1 and ZMQ_IMMEDIATE would forbid the reconnect too.  But with either of them
 * libzmq 4.3.4 drops messages that arrived just before the connection closed.  So the socket keeps
 * a reconnect interval of one day, and is closed long before. */
#include "libbus/io/link.h"

#include "libbus/base/limits.h"
#include "libbus/io/greeting_probe.h"
#include "libbus/io/monitor.h"
#include "libbus/io/part.h"
#include "libbus/io/ready.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

enum {
    DATA_SEND_QUEUE = 16, /* in parts; small, because the outbox is the queue */
    CONTROL_SEND_QUEUE = 1024,
    RECEIVE_QUEUE = 4096, /* credit allows fewer */
    MONITOR_NAME_BYTES = 48,
    VALUE_ALIGN = 8, /* of buffers, see link.h */
    KEPT_PARTS = 8,  /* of data, see keep_part() */
    KEPT_BYTES_MAX = DEFAULT_BATCH_BYTES + PART_COPY_BYTES,
    RECONNECT_MS = 24 * 3600 * 1000,
    /* libzmq ends the process when its own threads find no free descriptor.  So that many must be
     * free, which includes room for what the host opens meanwhile. */
    OPEN_DESCRIPTORS = 16,
    CONNECT_DESCRIPTORS = 8,
    /* A connection on which no handshake ends for so long is looked into: over a link that needs
     * longer, one connection is made in vain. */
    SILENT_MS = 1000,
    /* A service that closes by itself does so after the same time again, give or take that. */
    CLOSES_AGAIN_MS = 300,
};
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)
/* What link_wait() polls: the wake, then of each lane the socket and the monitor. */
enum {
    WAIT_WAKE,
    WAIT_SOCKETS,
    WAIT_MONITORS = WAIT_SOCKETS + LINK_LANE_COUNT,
    WAIT_ITEMS = WAIT_MONITORS + LINK_LANE_COUNT
};
/* Each event but the first and the last means that the connection is over, or cannot be made. */
#define MONITOR_EVENTS                                                                             \
    (ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CLOSED | ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_DISCONNECTED | \
     ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |                  \
     ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_SUCCEEDED)

struct connection {
    void *socket; /* NULL: none */
    void *monitor;
    int fd; /* of socket and monitor, to be polled */
    int monitor_fd;
    int lent_fd;                  /* an epoll descriptor with fd in it, unless it is lent */
    bool is_made;                 /* the transport said that it was connected */
    bool is_broken;               /* reported once all that has arrived is received */
    enum link_fault fault;        /* why it is broken */
    bool has_keys;                /* it is made with keys */
    bool is_greeted;              /* the handshake succeeded */
    int64_t made_ns;              /* with is_made: when */
    struct sockaddr_storage peer; /* ... and with whom; AF_UNSPEC: not known */
    int64_t probe_ns;             /* ... and when the other side is asked, if no handshake ends */
    bool is_unclear;              /* it is broken, and the other side is to be asked why */
    bool is_probed;               /* the other side was asked, as the handshake did not end */
    bool is_silent;               /* ... and said nothing */
    bool is_zeromq;               /* ... and greeted */
    char endpoint[LIMIT_ENDPOINT_BYTES + 1];
};
static const struct connection none = {.lent_fd = -1};

/* Asks the other side of one connection what it is.  link_wait() does that, without the lock: so
 * what it needs is here. */
struct asking {
    bool is_due;
    enum link_lane lane;
    bool is_long; /* the connection lasted so long that it may have been closed for any reason */
    int64_t listen_ms; /* as of greeting_probe() */
    struct sockaddr_storage peer;
    char endpoint[LIMIT_ENDPOINT_BYTES + 1];
    enum greeting answer;
};

struct link {
    void *context;
    int wake_fd;
    uint64_t opened; /* connections so far: names of monitors */
    bool is_lent[LINK_LANE_COUNT];
    bool has_keys;
    struct link_keys keys;           /* of the next connections, with has_keys */
    struct pollfd items[WAIT_ITEMS]; /* what link_wait() polls; only it uses this meanwhile */
    bool has_timed_out;              /* ... and how that ended; the same holds */
    int64_t silent_in_ms;            /* ... and when a probe is due, -1: none; the same holds */
    struct asking asking;            /* the same holds */
    struct buffer *kept[KEPT_PARTS]; /* NULL: none; the next one takes the place of kept[kept_at] */
    unsigned kept_at;
    bool is_kept_new;                        /* a part was kept since link_wait() last timed out */
    enum link_fault faults[LINK_LANE_COUNT]; /* of the connections that were last reported */
    struct connection connections[LINK_LANE_COUNT];
    struct connection aside[LINK_ASIDE_MAX][LINK_LANE_COUNT]; /* the newest first */
};

/* ---- opening --------------------------------------------------------------------------------- */

static bool has_descriptors(int like, int wanted)
{
    int fds[OPEN_DESCRIPTORS];
    int count = 0;
    while (count < wanted && (fds[count] = fcntl(like, F_DUPFD_CLOEXEC, 0)) >= 0)
        count++;
    bool is_enough = count == wanted;
    while (count > 0)
        close(fds[--count]);
    return is_enough;
}

/* libzmq's threads start with the first socket, and must not take the host's signals. */
static bool start_threads(void *context)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_BLOCK, &all, &before) != 0)
        return false;
    void *first = zmq_socket(context, ZMQ_PAIR);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (first == NULL)
        return false;
    zmq_close(first);
    return true;
}

enum link_err link_open(struct link **out_link)
{
    struct link *link = calloc(1, sizeof *link);
    if (link == NULL)
        return LINK_RESOURCES;
    for (int i = 0; i < LINK_LANE_COUNT; i++) {
        link->connections[i] = none;
        for (int j = 0; j < LINK_ASIDE_MAX; j++)
            link->aside[j][i] = none;
    }
    link->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    link->context = zmq_ctx_new();
    if (link->wake_fd < 0 || !has_descriptors(link->wake_fd, OPEN_DESCRIPTORS) ||
        link->context == NULL || zmq_ctx_set(link->context, ZMQ_IO_THREADS, LINK_LANE_COUNT) != 0 ||
        !start_threads(link->context)) {
        link_close(&link, 0);
        return LINK_RESOURCES;
    }
    *out_link = link;
    return LINK_OK;
}

/* ---- what came last -------------------------------------------------------------------------- */

static void drop_kept(struct link *link)
{
    for (unsigned i = 0; i < KEPT_PARTS; i++)
        buffer_unref(&link->kept[i]);
}

/* Keeps a reference of the last few batches, so that the next one finds the place of an earlier
 * one. libzmq takes the memory of each part from malloc, in a thread of its own.  The C library
 * gives free memory at the end of that thread's heap back to the system as soon as it is a batch's
 * worth.  Then most pages of each batch cost a page fault, which is half of the cost of a reader of
 * values of 4 KiB (bench/README.md).  A part above KEPT_BYTES_MAX needs no help: it raises the C
 * library's own bounds. The kept parts go when link_wait() times out and nothing came. */
static void keep_part(struct link *link, struct buffer *part)
{
    if (part->bytes <= PART_COPY_BYTES || part->bytes > KEPT_BYTES_MAX)
        return;
    buffer_unref(&link->kept[link->kept_at]);
    link->kept[link->kept_at] = buffer_ref(part);
    link->kept_at = (link->kept_at + 1) % KEPT_PARTS;
    link->is_kept_new = true;
}

static void disconnect(struct connection *connection, int linger_ms)
{
    if (connection->socket != NULL) {
        zmq_setsockopt(connection->socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
        zmq_socket_monitor(connection->socket, NULL, 0);
        zmq_close(connection->socket);
    }
    if (connection->monitor != NULL)
        zmq_close(connection->monitor);
    if (connection->lent_fd >= 0)
        close(connection->lent_fd);
    *connection = none;
}

void link_close(struct link **link, int64_t linger_ms)
{
    struct link *old = *link;
    *link = NULL;
    if (old == NULL)
        return;
    int bounded_ms = linger_ms < 0 ? 0 : linger_ms > INT32_MAX ? INT32_MAX : (int)linger_ms;
    for (int i = 0; i < LINK_LANE_COUNT; i++)
        disconnect(&old->connections[i], bounded_ms);
    link_close_aside(old);
    drop_kept(old);
    while (old->context != NULL && zmq_ctx_term(old->context) != 0 && errno == EINTR)
        continue;
    if (old->wake_fd >= 0)
        close(old->wake_fd);
    explicit_bzero(&old->keys, sizeof old->keys);
    free(old);
}

/* ---- connecting ------------------------------------------------------------------------------ */

static bool set_number(void *socket, int option, int value)
{
    return zmq_setsockopt(socket, option, &value, sizeof value) == 0;
}

static bool set_options(void *socket, enum link_lane lane, const char *endpoint)
{
    bool is_data = lane == LINK_DATA;
    uint64_t affinity = UINT64_C(1) << lane;
    int64_t part_bytes_max = (int64_t)(is_data ? LIMIT_PART_BYTES : LIMIT_CONTROL_BYTES);
    return zmq_setsockopt(socket, ZMQ_AFFINITY, &affinity, sizeof affinity) == 0 &&
           zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &part_bytes_max, sizeof part_bytes_max) == 0 &&
           set_number(socket, ZMQ_RECONNECT_IVL, RECONNECT_MS) &&
           set_number(socket, ZMQ_LINGER, 0) &&
           set_number(socket, ZMQ_SNDHWM, is_data ? DATA_SEND_QUEUE : CONTROL_SEND_QUEUE) &&
           set_number(socket, ZMQ_RCVHWM, RECEIVE_QUEUE) &&
           set_number(socket, ZMQ_IPV6, strchr(endpoint, '[') != NULL);
}

static bool open_monitor(struct link *link, struct connection *connection)
{
    char name[MONITOR_NAME_BYTES];
    snprintf(name, sizeof name, "inproc://monitor-%llu", (unsigned long long)++link->opened);
    connection->monitor = zmq_socket(link->context, ZMQ_PAIR);
    return connection->monitor != NULL && set_number(connection->monitor, ZMQ_LINGER, 0) &&
           set_number(connection->monitor, ZMQ_RCVHWM, 0) &&
           zmq_socket_monitor(connection->socket, name, MONITOR_EVENTS) == 0 &&
           zmq_connect(connection->monitor, name) == 0;
}

void link_use_keys(struct link *link, const struct link_keys *keys)
{
    link->has_keys = keys != NULL;
    if (keys != NULL)
        link->keys = *keys;
    else
        explicit_bzero(&link->keys, sizeof link->keys);
}

static bool set_keys(void *socket, const struct link_keys *keys)
{
    return zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, keys->server_key, KEY_BYTES) == 0 &&
           zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, keys->own.public_key, KEY_BYTES) == 0 &&
           zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, keys->own.secret_key, KEY_BYTES) == 0;
}

static int64_t link_now_ns(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0)
        return 0;
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* libzmq does not say why a handshake failed.  So the other side was asked for its greeting. */
static enum link_fault fault_of_greeting(enum greeting greeting, bool has_keys)
{
    switch (greeting) {
    case GREETING_WOKEN:
    case GREETING_UNCLEAR:
    case GREETING_SILENT: break;
    case GREETING_OTHER: return LINK_FAULT_OTHER_MECHANISM;
    case GREETING_HUNG_UP: return LINK_FAULT_HUNG_UP;
    case GREETING_FOREIGN: return LINK_FAULT_NO_ZEROMQ;
    case GREETING_NULL: return has_keys ? LINK_FAULT_KEY_NEEDLESS : LINK_FAULT_FOREIGN;
    case GREETING_CURVE: return has_keys ? LINK_FAULT_KEY_OTHER : LINK_FAULT_KEY_WANTED;
    }
    return LINK_FAULT_FOREIGN;
}

/* Whether the event says that a handshake failed.  With keys libzmq may say "closed" alone. */
static bool is_of_handshake(const struct connection *connection, unsigned event)
{
    switch (event) {
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL: return true;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
    case ZMQ_EVENT_CONNECT_RETRIED: return false;
    default: return connection->is_made && connection->has_keys && !connection->is_greeted;
    }
}

/* The fault that an event stands for, if it is the first to end a connection.  libzmq resolves a
 * name before it makes a socket.  So a retry with nothing closed means that the host has no
 * address. */
static enum link_fault fault_of(const struct connection *connection, unsigned event)
{
    if (is_of_handshake(connection, event))
        return LINK_FAULT_FOREIGN;
    switch (event) {
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH: return LINK_FAULT_KEY_UNKNOWN;
    case ZMQ_EVENT_CONNECT_RETRIED:
        return connection->is_made ? LINK_FAULT_CLOSED : LINK_FAULT_UNRESOLVED;
    default: return connection->is_made ? LINK_FAULT_CLOSED : LINK_FAULT_REFUSED;
    }
}

static bool is_tcp(const char *endpoint)
{
    return strncmp(endpoint, "tcp://", 6) == 0;
}

static void drain_monitor(struct connection *connection, enum link_lane lane)
{
    struct monitor_event event;
    while (monitor_read(connection->monitor, &event)) {
        if (event.type == ZMQ_EVENT_CONNECTED) {
            connection->is_made = true;
            connection->made_ns = link_now_ns();
            connection->probe_ns = connection->made_ns + SILENT_MS * NS_PER_MS;
            greeting_probe_peer(event.value, connection->endpoint, &connection->peer);
            if (lane == LINK_DATA)
                monitor_give_room(event.value);
        } else if (event.type == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
            connection->is_greeted = true;
            connection->is_silent = false;
        } else if (!connection->is_broken) {
            connection->is_broken = true;
            connection->fault = fault_of(connection, event.type);
            connection->is_unclear =
                is_of_handshake(connection, event.type) && is_tcp(connection->endpoint);
        }
    }
}

/* Makes the epoll descriptor: a thread may wait for it while the other thread changes what is in
 * it. */
static bool open_lending(struct connection *connection, bool is_lent)
{
    struct epoll_event event = {.events = is_lent ? 0 : EPOLLIN};
    connection->lent_fd = epoll_create1(EPOLL_CLOEXEC);
    return connection->lent_fd >= 0 &&
           epoll_ctl(connection->lent_fd, EPOLL_CTL_ADD, connection->fd, &event) == 0;
}

static bool is_transport(const char *endpoint)
{
    return is_tcp(endpoint) || strncmp(endpoint, "ipc://", 6) == 0;
}

enum link_err link_connect(struct link *link, enum link_lane lane, const char *endpoint)
{
    struct connection *connection = &link->connections[lane];
    disconnect(connection, 0);
    if (!is_transport(endpoint))
        return LINK_ENDPOINT;
    if (!has_descriptors(link->wake_fd, CONNECT_DESCRIPTORS))
        return LINK_RESOURCES;
    connection->socket = zmq_socket(link->context, ZMQ_DEALER);
    connection->has_keys = link->has_keys && is_tcp(endpoint);
    snprintf(connection->endpoint, sizeof connection->endpoint, "%s", endpoint);
    if (connection->socket == NULL || !set_options(connection->socket, lane, endpoint) ||
        (connection->has_keys && !set_keys(connection->socket, &link->keys)) ||
        !open_monitor(link, connection)) {
        disconnect(connection, 0);
        return LINK_RESOURCES;
    }
    connection->fd = ready_fd(connection->socket);
    connection->monitor_fd = ready_fd(connection->monitor);
    drain_monitor(connection, lane); /* see ready.h */
    if (!open_lending(connection, link->is_lent[lane])) {
        disconnect(connection, 0);
        return LINK_RESOURCES;
    }
    if (zmq_connect(connection->socket, endpoint) == 0)
        return LINK_OK;
    enum link_err err =
        errno == EMFILE || errno == ENFILE || errno == ENOMEM ? LINK_RESOURCES : LINK_ENDPOINT;
    disconnect(connection, 0);
    return err;
}

void link_disconnect(struct link *link, enum link_lane lane)
{
    disconnect(&link->connections[lane], 0);
}

void link_put_aside(struct link *link)
{
    for (int i = 0; i < LINK_LANE_COUNT; i++)
        disconnect(&link->aside[LINK_ASIDE_MAX - 1][i], 0);
    memmove(&link->aside[1], &link->aside[0], sizeof link->aside - sizeof link->aside[0]);
    memcpy(link->aside[0], link->connections, sizeof link->connections);
    for (int i = 0; i < LINK_LANE_COUNT; i++)
        link->connections[i] = none;
}

void link_close_aside(struct link *link)
{
    for (int i = 0; i < LINK_ASIDE_MAX * LINK_LANE_COUNT; i++)
        disconnect(&link->aside[i / LINK_LANE_COUNT][i % LINK_LANE_COUNT], 0);
}

/* ---- sending and receiving ------------------------------------------------------------------- */

static enum link_err send_msg(struct connection *connection, zmq_msg_t *msg)
{
    int sent;
    do {
        sent = zmq_msg_send(msg, connection->socket, ZMQ_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return LINK_OK;
    enum link_err err = errno == EAGAIN ? LINK_AGAIN : LINK_DOWN;
    zmq_msg_close(msg);
    return err;
}

enum link_err link_send(struct link *link, enum link_lane lane, struct span part)
{
    struct connection *connection = &link->connections[lane];
    zmq_msg_t msg;
    if (connection->socket == NULL || connection->is_broken)
        return LINK_DOWN;
    if (zmq_msg_init_size(&msg, part.bytes) != 0)
        return LINK_RESOURCES;
    if (part.bytes > 0)
        memcpy(zmq_msg_data(&msg), part.data, part.bytes);
    return send_msg(connection, &msg);
}

enum link_err link_send_buffer(struct link *link, enum link_lane lane, struct buffer *part)
{
    struct connection *connection = &link->connections[lane];
    zmq_msg_t msg;
    if (connection->socket == NULL || connection->is_broken)
        return LINK_DOWN;
    if (!part_unwrap(part, &msg))
        return LINK_RESOURCES;
    return send_msg(connection, &msg);
}

/* Reads a whole message; the first `wanted` parts into parts.  Returns how many there were: 0 means
 * nothing to read. */
static unsigned receive_message(void *socket, zmq_msg_t parts[LINK_LANE_COUNT], unsigned wanted)
{
    zmq_msg_t other;
    unsigned count = 0;
    zmq_msg_init(&other);
    for (bool more = true; more; count++) {
        zmq_msg_t *part = count < wanted ? &parts[count] : &other;
        if (!part_receive(socket, part))
            break;
        more = zmq_msg_more(part);
    }
    zmq_msg_close(&other);
    return count;
}

/* Drops a connection when there is no memory for a message: to go on without the message would
 * break the order. */
static enum link_err drop_connection(struct connection *connection)
{
    disconnect(connection, 0);
    connection->is_broken = true;
    return LINK_RESOURCES;
}

enum link_err link_receive(struct link *link, enum link_lane lane, struct buffer **out_head,
                           struct buffer **out_part)
{
    struct connection *connection = &link->connections[lane];
    unsigned wanted = lane == LINK_DATA ? 2 : 1;
    zmq_msg_t parts[2];
    if (connection->socket == NULL)
        return LINK_DOWN;
    zmq_msg_init(&parts[0]);
    zmq_msg_init(&parts[1]);
    unsigned count = receive_message(connection->socket, parts, wanted);
    bool has_first = count == 1 || count == wanted;
    struct buffer *first = has_first ? part_wrap(&parts[0], VALUE_ALIGN) : NULL;
    struct buffer *second =
        count == wanted && wanted == 2 ? part_wrap(&parts[1], VALUE_ALIGN) : NULL;
    zmq_msg_close(&parts[0]);
    zmq_msg_close(&parts[1]);
    if (count == 0)
        return LINK_AGAIN;
    if (count == wanted && (first == NULL || (wanted == 2 && second == NULL))) {
        buffer_unref(&first);
        buffer_unref(&second);
        return drop_connection(connection);
    }
    *out_head = wanted == 2 ? first : NULL;
    *out_part = wanted == 2 ? second : first;
    if (second != NULL)
        keep_part(link, second);
    return LINK_OK;
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Whether a connection is broken and has nothing more to receive.  Closes it, so that it is
 * reported once. */
static bool take_closed(struct connection *connection, enum link_fault *out_fault)
{
    if (!connection->is_broken || connection->is_unclear ||
        (connection->socket != NULL && ready_has(connection->socket, ZMQ_POLLIN)))
        return false;
    *out_fault = connection->fault;
    disconnect(connection, 0);
    return true;
}

static bool is_any_broken(const struct link *link)
{
    bool is_broken = false;
    for (int i = 0; i < LINK_LANE_COUNT; i++)
        is_broken |= link->connections[i].is_broken;
    return is_broken;
}

/* Whether there is something to receive or to send already. */
static bool is_any_ready(const struct link *link, const bool wants_room[LINK_LANE_COUNT])
{
    for (int i = 0; i < LINK_LANE_COUNT; i++) {
        const struct connection *connection = &link->connections[i];
        int room = wants_room[i] && !connection->is_broken ? ZMQ_POLLOUT : 0;
        if (connection->socket != NULL && ready_has(connection->socket, ZMQ_POLLIN | room))
            return true;
    }
    return false;
}

static void ask_why(struct link *link, enum link_lane lane, bool is_long, int64_t listen_ms)
{
    link->asking.is_due = true;
    link->asking.lane = lane;
    link->asking.is_long = is_long;
    link->asking.listen_ms = is_long ? 0 : listen_ms;
    link->asking.peer = link->connections[lane].peer;
    memcpy(link->asking.endpoint, link->connections[lane].endpoint, sizeof link->asking.endpoint);
}

/* In how many ms the other side is to be asked what it is; -1: it is not. */
static int64_t probe_in_ms(const struct connection *connection, int64_t now_ns)
{
    bool is_ungreeted = connection->is_made && !connection->is_greeted && !connection->is_broken &&
                        !connection->is_probed && is_tcp(connection->endpoint);
    int64_t left_ns = connection->probe_ns - now_ns;
    return !is_ungreeted ? -1 : left_ns > 0 ? (left_ns + NS_PER_MS - 1) / NS_PER_MS : 0;
}

/* Chooses what link_wait() shall ask, if it shall.  While control is well, it does not wait for a
 * data connection to close again.  While control waits for a greeting, data is not asked: it would
 * say the same. */
static void plan_asking(struct link *link)
{
    const struct connection *control = &link->connections[LINK_CONTROL];
    const struct connection *data = &link->connections[LINK_DATA];
    int64_t now_ns = link_now_ns();
    int64_t age_ms = (now_ns - control->made_ns) / NS_PER_MS;
    int64_t control_ms = probe_in_ms(control, now_ns);
    int64_t data_ms = control->is_greeted ? probe_in_ms(data, now_ns) : -1;
    link->asking.is_due = false;
    link->silent_in_ms = control_ms >= 0 ? control_ms : data_ms;
    if (data->is_unclear || data_ms == 0)
        ask_why(link, LINK_DATA, true, 0);
    if (control->is_unclear)
        ask_why(link, LINK_CONTROL, age_ms >= SILENT_MS, age_ms + CLOSES_AGAIN_MS);
    else if (control_ms == 0)
        ask_why(link, LINK_CONTROL, true, 0);
}

/* What the other side said on a connection that has ended for a reason that libzmq does not tell.
 * libzmq waits for the end of a handshake for 30 s, and gives up: that is silence. */
static void explain_end(struct connection *connection, enum greeting answer)
{
    bool is_still_silent = connection->is_silent && answer == GREETING_SILENT;
    connection->fault =
        is_still_silent ? LINK_FAULT_CLOSED : fault_of_greeting(answer, connection->has_keys);
    connection->is_unclear = false;
}

/* A connection that stays open and whose other side says nothing is not over.  Its other side may
 * stand still, and go on.  Whoever was woken before the answer came asks once more, later. */
static void take_answer(struct link *link)
{
    struct connection *connection = &link->connections[link->asking.lane];
    enum greeting answer = link->asking.answer;
    if (!link->asking.is_due || connection->socket == NULL)
        return;
    link->asking.is_due = false;
    if (answer == GREETING_HUNG_UP && link->asking.is_long)
        answer = GREETING_UNCLEAR;
    if (connection->is_unclear) {
        explain_end(connection, answer);
    } else if (answer == GREETING_WOKEN) {
        connection->probe_ns = link_now_ns() + SILENT_MS * NS_PER_MS;
    } else {
        connection->is_probed = true;
        connection->is_silent = answer == GREETING_SILENT;
        connection->is_zeromq =
            answer == GREETING_NULL || answer == GREETING_CURVE || answer == GREETING_OTHER;
        if (!connection->is_broken && answer == GREETING_FOREIGN) {
            connection->fault = LINK_FAULT_NO_ZEROMQ;
            connection->is_broken = true;
        }
    }
}

bool link_wait_begin(struct link *link, const bool wants_room[LINK_LANE_COUNT])
{
    link->items[WAIT_WAKE] = (struct pollfd){.fd = link->wake_fd, .events = POLLIN};
    for (int i = 0; i < LINK_LANE_COUNT; i++) {
        const struct connection *connection = &link->connections[i];
        bool is_open = connection->socket != NULL;
        link->items[WAIT_SOCKETS + i] =
            (struct pollfd){.fd = is_open ? connection->lent_fd : -1, .events = POLLIN};
        link->items[WAIT_MONITORS + i] =
            (struct pollfd){.fd = is_open ? connection->monitor_fd : -1, .events = POLLIN};
    }
    plan_asking(link);
    return is_any_broken(link) || is_any_ready(link, wants_room);
}

void link_wait(struct link *link, int64_t timeout_ms)
{
    if (link->asking.is_due) {
        link->asking.answer = greeting_probe(&link->asking.peer, link->asking.endpoint,
                                             link->asking.listen_ms, link->wake_fd);
        timeout_ms = 0;
    }
    if (link->silent_in_ms >= 0 && (timeout_ms < 0 || timeout_ms > link->silent_in_ms))
        timeout_ms = link->silent_in_ms;
    int bounded_ms = timeout_ms < 0 ? -1 : timeout_ms > INT32_MAX ? INT32_MAX : (int)timeout_ms;
    int count = poll(link->items, WAIT_ITEMS, bounded_ms);
    link->has_timed_out = count == 0;
    if (count <= 0 || link->items[WAIT_WAKE].revents == 0)
        return;
    uint64_t wakes;
    if (read(link->wake_fd, &wakes, sizeof wakes) < 0)
        return; /* it was read already */
}

void link_wait_end(struct link *link, bool out_closed[LINK_LANE_COUNT])
{
    for (int i = 0; i < LINK_LANE_COUNT; i++) {
        struct connection *connection = &link->connections[i];
        if (connection->monitor != NULL && link->items[WAIT_MONITORS + i].revents != 0)
            drain_monitor(connection, (enum link_lane)i);
    }
    take_answer(link);
    for (int i = 0; i < LINK_LANE_COUNT; i++) {
        struct connection *connection = &link->connections[i];
        out_closed[i] = take_closed(connection, &link->faults[i]);
    }
    if (link->has_timed_out && !link->is_kept_new)
        drop_kept(link);
    link->is_kept_new = link->is_kept_new && !link->has_timed_out;
}

bool link_is_made(const struct link *link, enum link_lane lane)
{
    return link->connections[lane].is_made;
}

bool link_is_silent(const struct link *link, enum link_lane lane)
{
    return link->connections[lane].is_silent;
}

bool link_is_greeted(const struct link *link)
{
    return link->connections[LINK_CONTROL].is_greeted || link->connections[LINK_CONTROL].is_zeromq;
}

enum link_fault link_fault(const struct link *link, enum link_lane lane)
{
    return link->faults[lane];
}

bool link_is_readable(struct link *link, enum link_lane lane)
{
    void *socket = link->connections[lane].socket;
    return socket != NULL && ready_has(socket, ZMQ_POLLIN);
}

void link_lend(struct link *link, enum link_lane lane, bool is_lent)
{
    const struct connection *connection = &link->connections[lane];
    struct epoll_event event = {.events = is_lent ? 0 : EPOLLIN};
    if (link->is_lent[lane] == is_lent)
        return;
    link->is_lent[lane] = is_lent;
    /* The descriptor was added before.  If the change failed, both threads would wait for it. */
    if (connection->socket != NULL)
        (void)epoll_ctl(connection->lent_fd, EPOLL_CTL_MOD, connection->fd, &event);
}

int link_fd(const struct link *link, enum link_lane lane)
{
    const struct connection *connection = &link->connections[lane];
    return connection->socket != NULL ? connection->fd : -1;
}

void link_wake(struct link *link)
{
    uint64_t one = 1;
    if (write(link->wake_fd, &one, sizeof one) < 0)
        return; /* the counter is full, and so readable */
}
