/* SPDX-License-Identifier: MPL-2.0 */
/* stream.h -- bytes over a socket of the kernel, as cheaply as a plain program can have them: reads
 * as much as there is, writes what has gathered in one call, and large values without a copy. */
#ifndef BENCH_STREAM_H
#define BENCH_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "tcp:PORT" of the loopback, or "unix:PATH".  All of these end the program where they fail. */
int stream_listen(const char *endpoint);
/* Waits until somebody listens, within some seconds. */
int stream_connect(const char *endpoint);
/* Waits as stream_connect(), for a library that connects by itself. */
void stream_await(const char *endpoint);
/* One that nobody uses. */
unsigned stream_free_port(void);
/* NULL: it is not an endpoint of a port, but of a path. */
const char *stream_path(const char *endpoint);
unsigned stream_port(const char *endpoint);

/* Outgoing bytes, held back until there are enough of them. */
struct outlet {
    int fd;
    char *bytes;
    size_t count;
};
void outlet_init(struct outlet *outlet, int fd);
void outlet_add(struct outlet *outlet, const void *bytes, size_t count);
void outlet_flush(struct outlet *outlet);

/* Incoming bytes. */
struct inlet {
    int fd;
    char *bytes;
    size_t room;
    size_t start; /* what is before it has been taken */
    size_t end;
};
void inlet_init(struct inlet *inlet, int fd, size_t largest);
/* Reads until so many bytes are there from start on. */
const char *inlet_need(struct inlet *inlet, size_t count);
/* A line with its newline, which is taken; bytes without the newline and a return. */
const char *inlet_line(struct inlet *inlet, size_t *out_bytes);
static inline void inlet_take(struct inlet *inlet, size_t count)
{
    inlet->start += count;
}

/* All of it; false: the other side is gone. */
bool stream_write(int fd, const void *bytes, size_t count);

#endif
