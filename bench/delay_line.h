/* SPDX-License-Identifier: MPL-2.0 */
/* delay_line.h -- one direction of a link, as a model: bytes that are put in come out in order,
 * behind a bottleneck with a rate and a delay.  It has no clock and no socket: times are arguments.
 *
 *   put -> queue before the bottleneck -> the bottleneck, at its rate -> delay, jitter -> due
 *
 * Bytes go in and out in packets, as a link carries them: a packet is due as a whole.  What does
 * not fit into the queue stays with the sender, who has to wait. */
#ifndef BENCH_DELAY_LINE_H
#define BENCH_DELAY_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define DELAY_LINE_NEVER INT64_MAX

struct link_shape {
    uint64_t rate;          /* bits a second */
    int64_t delay_ns;       /* one way */
    int64_t jitter_ns;      /* a packet takes at most so much longer, at random */
    int64_t queue_ns;       /* the queue before the bottleneck holds what this time carries */
    int64_t stall_every_ns; /* 0: the link never stalls */
    int64_t stall_ns;       /* at the end of each such period nothing comes out for so long */
    int64_t late_ns; /* some packets take so much longer, and hold up the packets behind them */
    uint64_t late_percent;
};

struct delay_packet {
    int64_t due_ns;
    size_t bytes;
};

struct delay_line {
    struct link_shape shape;
    char *bytes; /* a ring */
    size_t room;
    size_t first;
    size_t count;
    struct delay_packet *packets; /* a ring */
    size_t packet_room;
    size_t packet_first;
    size_t packet_count;
    size_t packet_bytes; /* the longest packet */
    int64_t free_at_ns;  /* until then the bottleneck is busy with what it has */
    int64_t end_due_ns;  /* of the end of the stream; DELAY_LINE_NEVER: it has not ended */
    uint64_t random;
};

/* Nothing leaves the bottleneck before open_ns.  False: there is no memory. */
bool delay_line_init(struct delay_line *line, const struct link_shape *shape, uint64_t seed,
                     int64_t open_ns);
void delay_line_fini(struct delay_line *line);

/* Where bytes may be put now: out_count pieces, 0 if there is no room.  The sum of their bytes. */
size_t delay_line_room(struct delay_line *line, int64_t now_ns, struct iovec pieces[2],
                       int *out_count);
/* So many bytes were put there. */
void delay_line_put(struct delay_line *line, int64_t now_ns, size_t bytes);
/* Nothing more comes; the end travels behind the bytes. */
void delay_line_end(struct delay_line *line, int64_t now_ns);

/* What is due now; as delay_line_room(). */
size_t delay_line_due(const struct delay_line *line, int64_t now_ns, struct iovec pieces[2],
                      int *out_count);
/* So many bytes of it were taken. */
void delay_line_take(struct delay_line *line, size_t bytes);
/* Everything was taken, and the end is due. */
bool delay_line_is_over(const struct delay_line *line, int64_t now_ns);

/* When there is something to take, or DELAY_LINE_NEVER. */
int64_t delay_line_next_due(const struct delay_line *line);
/* When there is room; DELAY_LINE_NEVER: only after something was taken, or it has ended. */
int64_t delay_line_next_room(const struct delay_line *line);

#endif
