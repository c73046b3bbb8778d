/* SPDX-License-Identifier: MPL-2.0 */
/* delay_line.c -- one direction of a link, as a model; see delay_line.h. */
#include "bench/delay_line.h"

#include <stdlib.h>
#include <string.h>

#define NS_PER_S 1e9
#define PACKET_NS 250000      /* a packet takes at most so long on the link, */
#define PACKET_BYTES_MIN 1500 /* or has so many bytes */
#define PACKET_BYTES_MAX 65536
#define MERGE_NS 20000     /* packets that are due within this time are one */
#define SPARE_BYTES 262144 /* of the ring, beyond what the link carries meanwhile */
#define SPARE_PACKETS 4096

/* How long the bottleneck takes for so many bytes. */
static int64_t time_of(const struct delay_line *line, size_t bytes)
{
    return (int64_t)((double)bytes * 8 * NS_PER_S / (double)line->shape.rate);
}

/* What it carries in so long. */
static size_t bytes_in(const struct link_shape *shape, int64_t ns)
{
    return (size_t)((double)shape->rate / 8 * (double)ns / NS_PER_S);
}

static size_t between(size_t least, size_t bytes, size_t most)
{
    return bytes < least ? least : bytes > most ? most : bytes;
}

bool delay_line_init(struct delay_line *line, const struct link_shape *shape, uint64_t seed,
                     int64_t open_ns)
{
    int64_t held_ns = 2 * shape->delay_ns + shape->jitter_ns + shape->late_ns + shape->queue_ns;
    *line = (struct delay_line){
        .shape = *shape,
        .room = bytes_in(shape, held_ns) + SPARE_BYTES,
        .packet_bytes = between(PACKET_BYTES_MIN, bytes_in(shape, PACKET_NS), PACKET_BYTES_MAX),
        .free_at_ns = open_ns,
        .end_due_ns = DELAY_LINE_NEVER,
        .random = seed | 1};
    line->packet_room = line->room / line->packet_bytes + SPARE_PACKETS;
    line->bytes = malloc(line->room);
    line->packets = malloc(line->packet_room * sizeof *line->packets);
    if (line->bytes == NULL || line->packets == NULL) {
        delay_line_fini(line);
        return false;
    }
    return true;
}

void delay_line_fini(struct delay_line *line)
{
    free(line->bytes);
    free(line->packets);
    memset(line, 0, sizeof *line);
}

/* So many bytes of the ring from a place on, in one or two pieces. */
static void cut(const struct delay_line *line, size_t from, size_t bytes, struct iovec pieces[2],
                int *out_count)
{
    size_t at = from % line->room;
    size_t straight = bytes < line->room - at ? bytes : line->room - at;
    pieces[0] = (struct iovec){line->bytes + at, straight};
    pieces[1] = (struct iovec){line->bytes, bytes - straight};
    *out_count = (bytes > 0) + (bytes > straight);
}

/* ---- in ---------------------------------------------------------------------------------------*/

static int64_t backlog_ns(const struct delay_line *line, int64_t now_ns)
{
    return line->free_at_ns > now_ns ? line->free_at_ns - now_ns : 0;
}

/* Half of the queue is refilled at once: so a full link needs few wakes. */
size_t delay_line_room(struct delay_line *line, int64_t now_ns, struct iovec pieces[2],
                       int *out_count)
{
    int64_t backlog = backlog_ns(line, now_ns);
    size_t bytes = 0;
    if (line->end_due_ns == DELAY_LINE_NEVER && backlog <= line->shape.queue_ns / 2) {
        bytes = between(PACKET_BYTES_MIN, bytes_in(&line->shape, line->shape.queue_ns - backlog),
                        line->room);
    }
    bytes = bytes < line->room - line->count ? bytes : line->room - line->count;
    cut(line, line->first + line->count, bytes, pieces, out_count);
    return bytes;
}

/* xorshift */
static uint64_t draw(struct delay_line *line)
{
    line->random ^= line->random << 13;
    line->random ^= line->random >> 7;
    line->random ^= line->random << 17;
    return line->random;
}

/* When a packet is due that leaves the bottleneck at this time.  It never overtakes an earlier
 * packet. */
static int64_t arrival(struct delay_line *line, int64_t leaves_ns)
{
    const struct link_shape *shape = &line->shape;
    int64_t due_ns = leaves_ns + shape->delay_ns;
    if (shape->jitter_ns > 0) {
        due_ns += (int64_t)(draw(line) % ((uint64_t)shape->jitter_ns + 1));
    }
    if (shape->late_ns > 0 && draw(line) % 100 < shape->late_percent) {
        due_ns += shape->late_ns;
    }
    if (shape->stall_every_ns > 0) {
        int64_t phase_ns = due_ns % shape->stall_every_ns;
        bool is_stalled = phase_ns >= shape->stall_every_ns - shape->stall_ns;
        due_ns += is_stalled ? shape->stall_every_ns - phase_ns : 0;
    }
    return due_ns;
}

/* Adds a packet.  It becomes part of the last one if that is due at the same time, or if there is
 * no room for another one. */
static void add_packet(struct delay_line *line, size_t bytes)
{
    size_t end = (line->packet_first + line->packet_count) % line->packet_room;
    struct delay_packet *last = &line->packets[end > 0 ? end - 1 : line->packet_room - 1];
    bool is_full = line->packet_count == line->packet_room;
    int64_t due_ns = arrival(line, line->free_at_ns);
    if (is_full || (line->packet_count > 0 && due_ns - last->due_ns < MERGE_NS &&
                    last->bytes + bytes <= line->packet_bytes)) {
        last->bytes += bytes;
        last->due_ns = is_full ? due_ns : last->due_ns;
        return;
    }
    line->packets[end] = (struct delay_packet){due_ns, bytes};
    line->packet_count++;
}

void delay_line_put(struct delay_line *line, int64_t now_ns, size_t bytes)
{
    line->free_at_ns = now_ns + backlog_ns(line, now_ns);
    line->count += bytes;
    while (bytes > 0) {
        size_t part = bytes < line->packet_bytes ? bytes : line->packet_bytes;
        line->free_at_ns += time_of(line, part);
        add_packet(line, part);
        bytes -= part;
    }
}

void delay_line_end(struct delay_line *line, int64_t now_ns)
{
    if (line->end_due_ns == DELAY_LINE_NEVER) {
        line->end_due_ns = arrival(line, now_ns + backlog_ns(line, now_ns));
    }
}

/* ---- out --------------------------------------------------------------------------------------*/

size_t delay_line_due(const struct delay_line *line, int64_t now_ns, struct iovec pieces[2],
                      int *out_count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < line->packet_count; i++) {
        const struct delay_packet *packet =
            &line->packets[(line->packet_first + i) % line->packet_room];
        if (packet->due_ns > now_ns || bytes >= PACKET_BYTES_MAX) {
            break;
        }
        bytes += packet->bytes;
    }
    cut(line, line->first, bytes, pieces, out_count);
    return bytes;
}

void delay_line_take(struct delay_line *line, size_t bytes)
{
    line->first = (line->first + bytes) % line->room;
    line->count -= bytes;
    while (bytes > 0) {
        struct delay_packet *packet = &line->packets[line->packet_first];
        size_t part = bytes < packet->bytes ? bytes : packet->bytes;
        packet->bytes -= part;
        bytes -= part;
        if (packet->bytes == 0) {
            line->packet_first = (line->packet_first + 1) % line->packet_room;
            line->packet_count--;
        }
    }
}

bool delay_line_is_over(const struct delay_line *line, int64_t now_ns)
{
    return line->count == 0 && line->end_due_ns <= now_ns;
}

int64_t delay_line_next_due(const struct delay_line *line)
{
    return line->packet_count > 0 ? line->packets[line->packet_first].due_ns : line->end_due_ns;
}

int64_t delay_line_next_room(const struct delay_line *line)
{
    bool is_open = line->end_due_ns == DELAY_LINE_NEVER && line->count < line->room;
    return is_open ? line->free_at_ns - line->shape.queue_ns / 2 : DELAY_LINE_NEVER;
}
