/* SPDX-License-Identifier: MPL-2.0 */
/* part.h -- parts of ZeroMQ messages as buffers, by reference where a copy would cost more.  The
 * library's link and the broker's loop use it. */
#ifndef IO_PART_H
#define IO_PART_H

#include "libbus/base/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <zmq.h>

/* Up to this size a copy is cheaper than a reference.  libzmq reads blocks of this size: smaller
 * parts share one, and a reference to one of them would keep the whole block. */
enum { PART_COPY_BYTES = 8 * 1024 };

/* Makes a buffer of a message, with data aligned to align bytes.  libzmq aligns nothing: bytes on
 * another boundary are copied.  The caller still closes msg.  NULL: no memory, and msg is
 * unchanged. */
struct buffer *part_wrap(zmq_msg_t *msg, size_t align);

/* Makes a message of the buffer's bytes, with a reference of its own where it does not copy.
 * false: no memory. */
bool part_unwrap(struct buffer *buffer, zmq_msg_t *out_msg);

/* Takes the next part, never waits.  false: there is none. */
bool part_receive(void *socket, zmq_msg_t *msg);

#endif
