/* SPDX-License-Identifier: MPL-2.0 */
/* wire.c -- the thread that carries frames from port to port.
 *
 * A frame passes two lanes: from its host into the switch, and out to the other one.  Each lane has
 * its faults, and a queue for what is delayed; so nothing overtakes anything. */
#include "tests/cut/wire.h"

#include "tests/cut/segment.h"
#include "tests/lib/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FRAME_BYTES 1536
#define QUEUE_FRAMES 2048
#define QUEUE_BYTES_MIN 16384   /* of a lane, or an eighth of a second: more is dropped, */
#define QUEUE_BYTES_MAX 1048576 /* as routers do */
#define FLOWS_MAX 64
#define TURN_FRAMES 64 /* of one port, before the next has its turn */
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

struct frame {
    int64_t due_ns;
    size_t bytes;
    uint8_t data[FRAME_BYTES];
};

struct lane {
    struct wire_fault fault;
    struct wire_count count;
    struct frame *queue; /* a ring of QUEUE_FRAMES */
    size_t first;
    size_t queued;
    size_t queued_bytes;
    int64_t last_due_ns;
    struct segment flows[FLOWS_MAX]; /* the newest segment of each connection */
    size_t flow_next;
};

struct port {
    int fd;
    struct lane lanes[WIRE_WAY_COUNT];
};

struct wire {
    pthread_mutex_t lock; /* all below it */
    struct port ports[WIRE_PORTS_MAX];
    size_t count;
    uint64_t dice;
    bool is_over;
    int wake[2]; /* a pipe: is_over has changed, or the faults */
    pthread_t thread;
};

/* splitmix64 */
static uint64_t roll(struct wire *wire)
{
    uint64_t mixed = wire->dice += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ mixed >> 31;
}

/* ---- connections ------------------------------------------------------------------------------*/

static struct segment *find_flow(struct lane *lane, const struct segment *segment)
{
    for (size_t i = 0; i < FLOWS_MAX; i++) {
        if (lane->flows[i].flags != 0 && segment_is_alike(&lane->flows[i], segment)) {
            return &lane->flows[i];
        }
    }
    return NULL;
}

static void remember(struct lane *lane, const struct segment *segment)
{
    struct segment *flow = find_flow(lane, segment);
    if ((segment->flags & SEGMENT_RST) != 0) {
        if (flow != NULL) {
            flow->flags = 0;
        }
        return;
    }
    if (flow == NULL) {
        flow = &lane->flows[lane->flow_next++ % FLOWS_MAX];
    }
    *flow = *segment;
}

/* To whoever sent the segment through this lane: the host, or somebody behind another port. */
static void send_reset(struct wire *wire, size_t port, enum wire_way way,
                       const struct segment *segment)
{
    uint8_t frame[SEGMENT_RESET_BYTES];
    segment_reset(segment, frame);
    size_t to = way == WIRE_FROM_HOST ? port : frame[5];
    if (to < wire->count) {
        ssize_t sent = send(wire->ports[to].fd, frame, sizeof frame, MSG_DONTWAIT);
        (void)sent; /* a link that is down carries no reset either */
    }
}

static void reset_all(struct wire *wire, size_t port, enum wire_way way)
{
    struct lane *lane = &wire->ports[port].lanes[way];
    for (size_t i = 0; i < FLOWS_MAX; i++) {
        if ((lane->flows[i].flags & SEGMENT_ACK) != 0) {
            send_reset(wire, port, way, &lane->flows[i]);
            lane->flows[i].flags = 0;
        }
    }
}

/* ---- lanes ------------------------------------------------------------------------------------*/

/* True: the frame goes on. */
static bool examine(struct wire *wire, size_t port, enum wire_way way, const uint8_t *data,
                    size_t bytes)
{
    struct segment segment;
    struct lane *lane = &wire->ports[port].lanes[way];
    bool is_segment = segment_read(&segment, data, bytes);
    lane->count.greetings +=
        is_segment && (segment.flags & (SEGMENT_SYN | SEGMENT_ACK)) == SEGMENT_SYN;
    if (is_segment && lane->fault.is_resetting) {
        if ((segment.flags & SEGMENT_RST) == 0) {
            send_reset(wire, port, way, &segment);
        }
        return false;
    }
    if (lane->fault.drop_share > 0 && roll(wire) % WIRE_SHARE_ALL < lane->fault.drop_share) {
        return false;
    }
    if (is_segment) {
        remember(lane, &segment);
    }
    return true;
}

static size_t queue_bytes_max(const struct wire_fault *fault)
{
    int64_t bytes = fault->rate_bytes > 0 ? fault->rate_bytes / 8 : QUEUE_BYTES_MAX;
    return (size_t)(bytes < QUEUE_BYTES_MIN   ? QUEUE_BYTES_MIN
                    : bytes > QUEUE_BYTES_MAX ? QUEUE_BYTES_MAX
                                              : bytes);
}

static int64_t due_at(struct wire *wire, struct lane *lane, size_t bytes, int64_t now_ns)
{
    const struct wire_fault *fault = &lane->fault;
    int64_t due_ns = now_ns + fault->delay_ms * NS_PER_MS;
    if (fault->jitter_ms > 0) {
        uint64_t width_ns = (uint64_t)(2 * fault->jitter_ms * NS_PER_MS);
        due_ns += (int64_t)(roll(wire) % width_ns) - fault->jitter_ms * NS_PER_MS;
    }
    if (due_ns < lane->last_due_ns) {
        due_ns = lane->last_due_ns;
    }
    if (fault->rate_bytes > 0) {
        due_ns += (int64_t)bytes * NS_PER_S / fault->rate_bytes;
    }
    lane->last_due_ns = due_ns;
    return due_ns;
}

static void deliver(struct wire *wire, const uint8_t *data, size_t bytes, size_t from,
                    int64_t now_ns);

/* The frame as it is then, in copy if it must be another. */
static const uint8_t *flip(struct wire *wire, const struct wire_fault *fault, const uint8_t *data,
                           size_t bytes, uint8_t copy[FRAME_BYTES])
{
    enum { HEADER_BYTES = 14 };
    if (fault->flip_share == 0 || bytes <= HEADER_BYTES ||
        roll(wire) % WIRE_SHARE_ALL >= fault->flip_share) {
        return data;
    }
    uint64_t bit = roll(wire) % ((bytes - HEADER_BYTES) * 8);
    memcpy(copy, data, bytes);
    copy[HEADER_BYTES + bit / 8] ^= (uint8_t)(1u << bit % 8);
    return copy;
}

static void pass(struct wire *wire, size_t port, enum wire_way way, const uint8_t *data,
                 size_t bytes, int64_t now_ns)
{
    uint8_t copy[FRAME_BYTES];
    struct lane *lane = &wire->ports[port].lanes[way];
    data = flip(wire, &lane->fault, data, bytes, copy);
    lane->count.frames++;
    lane->count.bytes += bytes;
    if (way == WIRE_FROM_HOST) {
        deliver(wire, data, bytes, port, now_ns);
    } else {
        ssize_t sent = send(wire->ports[port].fd, data, bytes, MSG_DONTWAIT);
        (void)sent; /* no room, or the link is down: lost, as it would be on a cable */
    }
}

static void enter(struct wire *wire, size_t port, enum wire_way way, const uint8_t *data,
                  size_t bytes, int64_t now_ns)
{
    struct lane *lane = &wire->ports[port].lanes[way];
    bool is_prompt = lane->queued == 0 && lane->fault.delay_ms == 0 && lane->fault.rate_bytes == 0;
    if (!examine(wire, port, way, data, bytes)) {
        lane->count.dropped++;
    } else if (is_prompt) {
        pass(wire, port, way, data, bytes, now_ns);
    } else if (lane->queued == QUEUE_FRAMES ||
               lane->queued_bytes + bytes > queue_bytes_max(&lane->fault)) {
        lane->count.dropped++;
    } else {
        struct frame *frame = &lane->queue[(lane->first + lane->queued++) % QUEUE_FRAMES];
        frame->due_ns = due_at(wire, lane, bytes, now_ns);
        frame->bytes = bytes;
        memcpy(frame->data, data, bytes);
        lane->queued_bytes += bytes;
    }
}

static void deliver(struct wire *wire, const uint8_t *data, size_t bytes, size_t from,
                    int64_t now_ns)
{
    bool is_for_all = (data[0] & 1) != 0;
    for (size_t to = 0; to < wire->count; to++) {
        if (to != from && (is_for_all || data[5] == to)) {
            enter(wire, to, WIRE_TO_HOST, data, bytes, now_ns);
        }
    }
}

/* Lets go what is due.  Returns when the next frame of this lane is, or INT64_MAX. */
static int64_t drain(struct wire *wire, size_t port, enum wire_way way, int64_t now_ns)
{
    struct lane *lane = &wire->ports[port].lanes[way];
    while (lane->queued > 0 && lane->queue[lane->first].due_ns <= now_ns) {
        struct frame *frame = &lane->queue[lane->first];
        lane->first = (lane->first + 1) % QUEUE_FRAMES;
        lane->queued--;
        lane->queued_bytes -= frame->bytes;
        pass(wire, port, way, frame->data, frame->bytes, now_ns);
    }
    return lane->queued > 0 ? lane->queue[lane->first].due_ns : INT64_MAX;
}

static int64_t drain_all(struct wire *wire, int64_t now_ns)
{
    int64_t next_ns = INT64_MAX;
    for (int way = 0; way < WIRE_WAY_COUNT; way++) { /* into the switch before out of it */
        for (size_t port = 0; port < wire->count; port++) {
            int64_t due_ns = drain(wire, port, (enum wire_way)way, now_ns);
            next_ns = due_ns < next_ns ? due_ns : next_ns;
        }
    }
    return next_ns;
}

/* ---- the thread -------------------------------------------------------------------------------*/

static void read_port(struct wire *wire, size_t port, int64_t now_ns)
{
    uint8_t data[FRAME_BYTES];
    for (int i = 0; i < TURN_FRAMES; i++) {
        ssize_t bytes = recv(wire->ports[port].fd, data, sizeof data, MSG_DONTWAIT | MSG_TRUNC);
        if (bytes < 0) {
            break; /* nothing there; or ENETDOWN, once */
        }
        if (bytes >= 14 && (size_t)bytes <= sizeof data) {
            enter(wire, port, WIRE_FROM_HOST, data, (size_t)bytes, now_ns);
        }
    }
}

static struct timespec time_until(int64_t next_ns, int64_t now_ns)
{
    int64_t left_ns = next_ns - now_ns;
    left_ns = left_ns < 0 ? 0 : left_ns > NS_PER_S ? NS_PER_S : left_ns;
    return (struct timespec){.tv_sec = left_ns / NS_PER_S, .tv_nsec = left_ns % NS_PER_S};
}

static void *carry(void *arg)
{
    struct wire *wire = arg;
    struct pollfd fds[WIRE_PORTS_MAX + 1];
    char drained[16];
    for (size_t i = 0; i < wire->count; i++) {
        fds[i] = (struct pollfd){.fd = wire->ports[i].fd, .events = POLLIN};
    }
    fds[wire->count] = (struct pollfd){.fd = wire->wake[0], .events = POLLIN};
    pthread_mutex_lock(&wire->lock);
    while (!wire->is_over) {
        int64_t now_ns = test_now_ns();
        for (size_t port = 0; port < wire->count; port++) {
            read_port(wire, port, now_ns);
        }
        struct timespec wait = time_until(drain_all(wire, now_ns), now_ns);
        pthread_mutex_unlock(&wire->lock);
        ppoll(fds, wire->count + 1, &wait, NULL);
        while (read(wire->wake[0], drained, sizeof drained) > 0) {
        }
        pthread_mutex_lock(&wire->lock);
    }
    pthread_mutex_unlock(&wire->lock);
    return NULL;
}

static void wake(struct wire *wire)
{
    ssize_t written = write(wire->wake[1], "", 1);
    (void)written; /* full: it will wake in any case */
}

/* ---- public -----------------------------------------------------------------------------------*/

static void free_all(struct wire *wire)
{
    for (size_t i = 0; i < wire->count * WIRE_WAY_COUNT; i++) {
        free(wire->ports[i / WIRE_WAY_COUNT].lanes[i % WIRE_WAY_COUNT].queue);
    }
    for (size_t i = 0; i < 2; i++) {
        if (wire->wake[i] >= 0) {
            close(wire->wake[i]);
        }
    }
    free(wire);
}

struct wire *wire_open(const int *descriptors, size_t count, uint64_t seed)
{
    struct wire *wire = count <= WIRE_PORTS_MAX ? calloc(1, sizeof *wire) : NULL;
    if (wire == NULL) {
        return NULL;
    }
    wire->count = count;
    wire->dice = seed;
    wire->wake[0] = wire->wake[1] = -1;
    bool is_good = pipe2(wire->wake, O_CLOEXEC | O_NONBLOCK) == 0;
    for (size_t i = 0; i < count; i++) {
        wire->ports[i].fd = descriptors[i];
        for (int way = 0; way < WIRE_WAY_COUNT; way++) {
            struct lane *lane = &wire->ports[i].lanes[way];
            lane->queue = calloc(QUEUE_FRAMES, sizeof *lane->queue);
            is_good = is_good && lane->queue != NULL;
        }
    }
    pthread_mutex_init(&wire->lock, NULL);
    if (!is_good || pthread_create(&wire->thread, NULL, carry, wire) != 0) {
        free_all(wire);
        return NULL;
    }
    return wire;
}

void wire_set(struct wire *wire, size_t port, enum wire_way way, const struct wire_fault *fault)
{
    pthread_mutex_lock(&wire->lock);
    struct lane *lane = &wire->ports[port].lanes[way];
    bool was_resetting = lane->fault.is_resetting;
    lane->fault = *fault;
    if (fault->is_resetting && !was_resetting) {
        reset_all(wire, port, way);
    }
    pthread_mutex_unlock(&wire->lock);
    wake(wire);
}

struct wire_count wire_counted(struct wire *wire, size_t port, enum wire_way way)
{
    pthread_mutex_lock(&wire->lock);
    struct wire_count count = wire->ports[port].lanes[way].count;
    pthread_mutex_unlock(&wire->lock);
    return count;
}

void wire_clear(struct wire *wire)
{
    pthread_mutex_lock(&wire->lock);
    for (size_t i = 0; i < wire->count * WIRE_WAY_COUNT; i++) {
        struct lane *lane = &wire->ports[i / WIRE_WAY_COUNT].lanes[i % WIRE_WAY_COUNT];
        struct frame *queue = lane->queue;
        memset(lane, 0, sizeof *lane);
        lane->queue = queue;
    }
    pthread_mutex_unlock(&wire->lock);
}

void wire_close(struct wire **wire)
{
    struct wire *old = *wire;
    *wire = NULL;
    if (old == NULL) {
        return;
    }
    pthread_mutex_lock(&old->lock);
    old->is_over = true;
    pthread_mutex_unlock(&old->lock);
    wake(old);
    pthread_join(old->thread, NULL);
    pthread_mutex_destroy(&old->lock);
    free_all(old);
}
