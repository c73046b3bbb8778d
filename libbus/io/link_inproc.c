/* SPDX-License-Identifier: MPL-2.0 */
/* link_inproc.c -- link.h inside one process, for race tests: ThreadSanitizer sees every step here,
 * and would report falsely for a libzmq that was built without it.
 *
 * One lock protects everything but the mark that a link is in use, which tests race for.  Each side
 * sleeps on an eventfd of its own, because link_wake() must work in a signal handler.  A link has a
 * second eventfd for data, which behaves as libzmq's descriptors: any call may clear it, and it is
 * set again only when an empty queue fills.  Queues from a link to its server are bounded, so that
 * LINK_AGAIN happens. */
#include "libbus/io/link_inproc.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "libbus/base/list.h"

enum {
    NAME_BYTES = 64,
    ENDPOINT_BYTES = 96,
    QUEUED_MAX = 64,   /* parts of one connection on their way to the server */
    WAITERS_MAX = 256, /* threads whose waits are counted */
};

/* A message on its way, to either side; part NULL: the connection is closed. */
struct packet {
    struct list link;
    struct buffer *head;
    struct buffer *part;
    uint32_t conn;
    enum link_lane lane;
};

struct conn {
    struct list link; /* in its server's */
    struct inproc *server;
    struct link *owner; /* NULL: its link let it go */
    enum link_lane lane;
    uint32_t id;
    unsigned queued;   /* packets of it in the server's queue */
    struct list inbox; /* struct packet, to the link */
};

struct inproc {
    struct list link; /* in servers */
    char name[NAME_BYTES];
    int wake_fd;
    uint32_t next_conn;
    struct list conns;
    struct list inbox; /* struct packet, to the server */
};

struct link {
    int wake_fd;
    int lane_fds[LINK_LANE_COUNT];
    int lent_fd;                       /* an epoll descriptor with those that are not lent */
    unsigned uses;                     /* without the lock: one thread at a time */
    bool is_sign_due[LINK_LANE_COUNT]; /* it was found empty: the next packet sets its descriptor */
    struct conn *conns[LINK_LANE_COUNT];
    struct conn *aside[LINK_ASIDE_MAX][LINK_LANE_COUNT]; /* the newest first */
    bool is_closed[LINK_LANE_COUNT];                     /* to be told by link_wait() */
    bool wants_room;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct waiter {
    long thread; /* 0: nobody's yet */
    uint64_t waits;
} waiters[WAITERS_MAX];
static struct list servers = {.prev = &servers, .next = &servers};

static void wake(int fd)
{
    const uint64_t one = 1;
    (void)!write(fd, &one, sizeof one); /* full means that it is awake already */
}

static void take_sign(int fd)
{
    uint64_t count;
    (void)!read(fd, &count, sizeof count); /* there may be none */
}

/* Waits for either descriptor, and clears fd.  other_fd: -1: none. */
static void wait_on(int fd, int other_fd, int64_t timeout_ms)
{
    struct pollfd items[2] = {{.fd = fd, .events = POLLIN}, {.fd = other_fd, .events = POLLIN}};
    int limit_ms = timeout_ms < 0 ? -1 : timeout_ms > 60000 ? 60000 : (int)timeout_ms;
    (void)poll(items, 2, limit_ms); /* a signal counts as a wake */
    take_sign(fd);
}

static void packet_free(struct packet *packet)
{
    list_remove(&packet->link);
    buffer_unref(&packet->head);
    buffer_unref(&packet->part);
    free(packet);
}

/* False: no memory; a lost packet is a lost connection. */
static bool post(struct list *inbox, struct buffer **head, struct buffer **part, uint32_t conn,
                 enum link_lane lane)
{
    struct packet *packet = calloc(1, sizeof *packet);
    if (packet == NULL)
        return false;
    packet->head = head != NULL ? *head : NULL;
    packet->part = part != NULL ? *part : NULL;
    packet->conn = conn;
    packet->lane = lane;
    list_push(inbox, &packet->link);
    if (head != NULL)
        *head = NULL;
    if (part != NULL)
        *part = NULL;
    return true;
}

/* ---- connections; all with the lock ---------------------------------------------------------- */

static struct inproc *find_server(const char *endpoint, enum link_lane lane)
{
    char own[ENDPOINT_BYTES];
    LIST_EACH(at, &servers) {
        struct inproc *server = LIST_OWNER(at, struct inproc, link);
        (void)snprintf(own, sizeof own, "inproc://%s/%s", server->name,
                       lane == LINK_CONTROL ? "control" : "data"); /* names are bounded */
        if (strcmp(own, endpoint) == 0)
            return server;
    }
    return NULL;
}

static void conn_free(struct conn *conn)
{
    LIST_EACH(at, &conn->inbox)
        packet_free(LIST_OWNER(at, struct packet, link));
    list_remove(&conn->link);
    free(conn);
}

/* The server closes the connection.  What it sent before still arrives. */
static void conn_sever(struct conn *conn)
{
    list_remove(&conn->link);
    conn->server = NULL;
    if (conn->owner == NULL) {
        conn_free(conn);
    } else if (conn->owner->conns[conn->lane] == conn) { /* not put aside */
        conn->owner->is_closed[conn->lane] = true;
        wake(conn->owner->wake_fd);
    }
}

static void conn_let_go(struct conn **at)
{
    struct conn *conn = *at;
    *at = NULL;
    if (conn == NULL)
        return;
    conn->owner = NULL;
    if (conn->server != NULL) {
        /* Without memory for this, the server notices the silence. */
        (void)post(&conn->server->inbox, NULL, NULL, conn->id, conn->lane);
        wake(conn->server->wake_fd);
    }
    conn_free(conn);
}

/* ---- link.h ---------------------------------------------------------------------------------- */

enum link_err link_open(struct link **out_link)
{
    struct link *link = calloc(1, sizeof *link);
    if (link == NULL)
        return LINK_RESOURCES;
    link->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    link->lent_fd = epoll_create1(EPOLL_CLOEXEC);
    bool is_open = link->wake_fd >= 0 && link->lent_fd >= 0;
    for (int lane = 0; lane < LINK_LANE_COUNT; lane++) {
        struct epoll_event event = {.events = EPOLLIN};
        int fd = link->lane_fds[lane] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        is_open = is_open && fd >= 0 && epoll_ctl(link->lent_fd, EPOLL_CTL_ADD, fd, &event) == 0;
        link->is_sign_due[lane] = true;
    }
    if (!is_open) {
        link_close(&link, 0);
        return LINK_RESOURCES;
    }
    *out_link = link;
    return LINK_OK;
}

void link_close(struct link **link, int64_t linger_ms)
{
    (void)linger_ms; /* what was sent has arrived */
    struct link *closing = *link;
    *link = NULL;
    if (closing == NULL)
        return;
    link_disconnect(closing, LINK_CONTROL);
    link_disconnect(closing, LINK_DATA);
    link_close_aside(closing);
    if (closing->wake_fd >= 0)
        close(closing->wake_fd);
    for (int lane = 0; lane < LINK_LANE_COUNT; lane++)
        if (closing->lane_fds[lane] >= 0)
            close(closing->lane_fds[lane]);
    if (closing->lent_fd >= 0)
        close(closing->lent_fd);
    free(closing);
}

void link_use_keys(struct link *link, const struct link_keys *keys)
{
    (void)link; /* who is in this process needs no key */
    (void)keys;
}

enum link_err link_connect(struct link *link, enum link_lane lane, const char *endpoint)
{
    link->uses++;
    static const char scheme[] = "inproc://";
    if (strncmp(endpoint, scheme, sizeof scheme - 1) != 0)
        return LINK_ENDPOINT;
    struct conn *conn = calloc(1, sizeof *conn);
    if (conn == NULL)
        return LINK_RESOURCES;
    pthread_mutex_lock(&lock);
    conn_let_go(&link->conns[lane]);
    conn->owner = link;
    conn->lane = lane;
    list_init(&conn->link);
    list_init(&conn->inbox);
    conn->server = find_server(endpoint, lane);
    link->conns[lane] = conn;
    link->is_sign_due[lane] = true;
    link->is_closed[lane] = conn->server == NULL;
    if (conn->server != NULL) {
        conn->id = ++conn->server->next_conn;
        list_push(&conn->server->conns, &conn->link);
    }
    pthread_mutex_unlock(&lock);
    return LINK_OK;
}

void link_disconnect(struct link *link, enum link_lane lane)
{
    link->uses++;
    pthread_mutex_lock(&lock);
    conn_let_go(&link->conns[lane]);
    link->is_closed[lane] = false;
    pthread_mutex_unlock(&lock);
}

void link_put_aside(struct link *link)
{
    link->uses++;
    pthread_mutex_lock(&lock);
    for (int lane = 0; lane < LINK_LANE_COUNT; lane++) {
        conn_let_go(&link->aside[LINK_ASIDE_MAX - 1][lane]);
        for (int i = LINK_ASIDE_MAX - 1; i > 0; i--)
            link->aside[i][lane] = link->aside[i - 1][lane];
        link->aside[0][lane] = link->conns[lane];
        link->conns[lane] = NULL;
        link->is_closed[lane] = false;
    }
    pthread_mutex_unlock(&lock);
}

void link_close_aside(struct link *link)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < LINK_ASIDE_MAX * LINK_LANE_COUNT; i++)
        conn_let_go(&link->aside[i / LINK_LANE_COUNT][i % LINK_LANE_COUNT]);
    pthread_mutex_unlock(&lock);
}

enum link_err link_send_buffer(struct link *link, enum link_lane lane, struct buffer *part)
{
    enum link_err err = LINK_OK;
    struct buffer *sent = buffer_ref(part);
    link->uses++;
    pthread_mutex_lock(&lock);
    struct conn *conn = link->conns[lane];
    take_sign(link->lane_fds[lane]);
    if (conn == NULL || conn->server == NULL) {
        err = LINK_DOWN;
    } else if (conn->queued == QUEUED_MAX ||
               !post(&conn->server->inbox, NULL, &sent, conn->id, lane)) {
        err = LINK_AGAIN;
        link->wants_room = true;
    } else {
        conn->queued++;
        wake(conn->server->wake_fd);
    }
    pthread_mutex_unlock(&lock);
    buffer_unref(&sent);
    return err;
}

enum link_err link_send(struct link *link, enum link_lane lane, struct span part)
{
    struct buffer *copy = buffer_copy(part);
    enum link_err err = copy != NULL ? link_send_buffer(link, lane, copy) : LINK_AGAIN;
    buffer_unref(&copy);
    return err;
}

/* With the lock.  Whether a message is there.  If none is there, the next one sets its descriptor.
 */
static bool lane_is_readable(struct link *link, enum link_lane lane)
{
    bool has_packet = link->conns[lane] != NULL && !list_is_empty(&link->conns[lane]->inbox);
    take_sign(link->lane_fds[lane]);
    link->is_sign_due[lane] |= !has_packet;
    return has_packet;
}

enum link_err link_receive(struct link *link, enum link_lane lane, struct buffer **out_head,
                           struct buffer **out_part)
{
    enum link_err err = LINK_OK;
    link->uses++;
    pthread_mutex_lock(&lock);
    struct conn *conn = link->conns[lane];
    if (conn == NULL) {
        err = LINK_DOWN;
    } else if (!lane_is_readable(link, lane)) {
        err = LINK_AGAIN;
    } else {
        struct packet *packet = LIST_OWNER(conn->inbox.next, struct packet, link);
        *out_head = packet->head;
        *out_part = packet->part;
        packet->head = packet->part = NULL;
        packet_free(packet);
    }
    pthread_mutex_unlock(&lock);
    return err;
}

bool link_wait_begin(struct link *link, const bool wants_room[LINK_LANE_COUNT])
{
    (void)wants_room; /* link_send() has asked for it */
    bool is_due = false;
    link->uses++;
    pthread_mutex_lock(&lock);
    for (int lane = 0; lane < LINK_LANE_COUNT; lane++)
        is_due |= lane_is_readable(link, (enum link_lane)lane) || link->is_closed[lane];
    pthread_mutex_unlock(&lock);
    return is_due;
}

/* Lock held.  NULL: there are too many. */
static struct waiter *waiter_of(long thread)
{
    for (size_t i = 0; i < WAITERS_MAX; i++)
        if (waiters[i].thread == thread || waiters[i].thread == 0)
            return &waiters[i];
    return NULL;
}

uint64_t inproc_waits_of(long thread)
{
    pthread_mutex_lock(&lock);
    const struct waiter *waiter = waiter_of(thread);
    uint64_t waits = waiter != NULL ? waiter->waits : 0;
    pthread_mutex_unlock(&lock);
    return waits;
}

static void count_wait(void)
{
    pthread_mutex_lock(&lock);
    struct waiter *waiter = waiter_of(gettid());
    if (waiter != NULL) {
        waiter->thread = gettid();
        waiter->waits += 1;
    }
    pthread_mutex_unlock(&lock);
}

void link_wait(struct link *link, int64_t timeout_ms)
{
    count_wait();
    wait_on(link->wake_fd, link->lent_fd, timeout_ms);
}

void link_wait_end(struct link *link, bool out_closed[LINK_LANE_COUNT])
{
    link->uses++;
    pthread_mutex_lock(&lock);
    for (int lane = 0; lane < LINK_LANE_COUNT; lane++) {
        /* What arrived before the end is read first. */
        out_closed[lane] = link->is_closed[lane] && !lane_is_readable(link, (enum link_lane)lane);
        if (out_closed[lane])
            link->is_closed[lane] = false;
    }
    pthread_mutex_unlock(&lock);
}

bool link_is_silent(const struct link *link, enum link_lane lane)
{
    (void)lane;
    (void)link; /* whoever is there speaks */
    return false;
}

bool link_is_greeted(const struct link *link)
{
    (void)link;
    return false; /* what it says is enough */
}

bool link_is_made(const struct link *link, enum link_lane lane)
{
    (void)link;
    (void)lane;
    return false; /* what it says is enough */
}

enum link_fault link_fault(const struct link *link, enum link_lane lane)
{
    (void)link;
    (void)lane;
    return LINK_FAULT_CLOSED; /* within a process there is always somebody to connect to */
}

bool link_is_readable(struct link *link, enum link_lane lane)
{
    link->uses++;
    pthread_mutex_lock(&lock);
    bool is_readable = lane_is_readable(link, lane);
    pthread_mutex_unlock(&lock);
    return is_readable;
}

void link_lend(struct link *link, enum link_lane lane, bool is_lent)
{
    struct epoll_event event = {.events = is_lent ? 0 : EPOLLIN};
    link->uses++;
    /* It was added before. */
    (void)epoll_ctl(link->lent_fd, EPOLL_CTL_MOD, link->lane_fds[lane], &event);
}

int link_fd(const struct link *link, enum link_lane lane)
{
    return link->lane_fds[lane];
}

void link_wake(struct link *link)
{
    wake(link->wake_fd);
}

/* ---- the server ------------------------------------------------------------------------------ */

enum link_err inproc_open(const char *name, struct inproc **out_server)
{
    if (strlen(name) == 0 || strlen(name) >= NAME_BYTES)
        return LINK_ENDPOINT;
    struct inproc *server = calloc(1, sizeof *server);
    if (server == NULL)
        return LINK_RESOURCES;
    server->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->wake_fd < 0) {
        free(server);
        return LINK_RESOURCES;
    }
    memcpy(server->name, name, strlen(name) + 1);
    list_init(&server->conns);
    list_init(&server->inbox);
    pthread_mutex_lock(&lock);
    list_push(&servers, &server->link);
    pthread_mutex_unlock(&lock);
    *out_server = server;
    return LINK_OK;
}

void inproc_close(struct inproc **server)
{
    struct inproc *closing = *server;
    *server = NULL;
    if (closing == NULL)
        return;
    pthread_mutex_lock(&lock);
    list_remove(&closing->link);
    LIST_EACH(at, &closing->conns)
        conn_sever(LIST_OWNER(at, struct conn, link));
    LIST_EACH(at, &closing->inbox)
        packet_free(LIST_OWNER(at, struct packet, link));
    pthread_mutex_unlock(&lock);
    close(closing->wake_fd);
    free(closing);
}

static struct conn *find_conn(struct inproc *server, uint32_t id)
{
    LIST_EACH(at, &server->conns) {
        struct conn *conn = LIST_OWNER(at, struct conn, link);
        if (conn->id == id)
            return conn;
    }
    return NULL;
}

enum inproc_event inproc_receive(struct inproc *server, struct inproc_in *out)
{
    *out = (struct inproc_in){.event = INPROC_NOTHING};
    pthread_mutex_lock(&lock);
    if (!list_is_empty(&server->inbox)) {
        struct packet *packet = LIST_OWNER(server->inbox.next, struct packet, link);
        struct conn *conn = find_conn(server, packet->conn);
        out->event = packet->part != NULL ? INPROC_PART : INPROC_CLOSED;
        out->lane = packet->lane;
        out->conn = packet->conn;
        out->part = packet->part;
        packet->part = NULL;
        packet_free(packet);
        if (conn != NULL) {
            conn->queued -= conn->queued > 0;
            if (conn->owner != NULL && conn->owner->wants_room) {
                conn->owner->wants_room = false;
                wake(conn->owner->wake_fd);
            }
        }
    }
    pthread_mutex_unlock(&lock);
    return out->event;
}

void inproc_send(struct inproc *server, uint32_t conn, struct buffer **head, struct buffer **part)
{
    pthread_mutex_lock(&lock);
    struct conn *to = find_conn(server, conn);
    if (to != NULL && to->owner != NULL) {
        struct link *owner = to->owner;
        if (!post(&to->inbox, head, part, conn, to->lane))
            conn_sever(to);
        else if (owner->is_sign_due[to->lane])
            wake(owner->lane_fds[to->lane]);
        owner->is_sign_due[to->lane] = false;
    }
    pthread_mutex_unlock(&lock);
    if (head != NULL)
        buffer_unref(head);
    buffer_unref(part);
}

void inproc_drop(struct inproc *server, uint32_t conn)
{
    pthread_mutex_lock(&lock);
    struct conn *dropped = find_conn(server, conn);
    if (dropped != NULL)
        conn_sever(dropped);
    pthread_mutex_unlock(&lock);
}

void inproc_wait(struct inproc *server, int64_t timeout_ms)
{
    pthread_mutex_lock(&lock);
    bool is_due = !list_is_empty(&server->inbox);
    pthread_mutex_unlock(&lock);
    if (!is_due)
        wait_on(server->wake_fd, -1, timeout_ms);
}

void inproc_wake(struct inproc *server)
{
    wake(server->wake_fd);
}
