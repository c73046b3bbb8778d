/* SPDX-License-Identifier: MPL-2.0 */
/* part.c -- parts of ZeroMQ messages as buffers; see part.h. */
#include "libbus/io/part.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct wrapped {
    struct buffer buffer;
    zmq_msg_t msg;
};

static void release_wrapped(struct buffer *buffer)
{
    struct wrapped *wrapped = buffer->owner;
    zmq_msg_close(&wrapped->msg);
    free(wrapped);
}

/* The last reference may be dropped here, on a thread of libzmq. */
static void drop_reference(void *data, void *hint)
{
    (void)data; /* lies in the buffer */
    struct buffer *buffer = hint;
    buffer_unref(&buffer);
}

struct buffer *part_wrap(zmq_msg_t *msg, size_t align)
{
    size_t bytes = zmq_msg_size(msg);
    struct wrapped *wrapped = NULL;
    if (bytes > PART_COPY_BYTES && (uintptr_t)zmq_msg_data(msg) % align == 0)
        wrapped = malloc(sizeof *wrapped);
    if (wrapped == NULL)
        return buffer_copy(span_of(zmq_msg_data(msg), bytes));
    zmq_msg_init(&wrapped->msg);
    zmq_msg_move(&wrapped->msg, msg);
    atomic_init(&wrapped->buffer.refs, 1);
    wrapped->buffer.data = zmq_msg_data(&wrapped->msg);
    wrapped->buffer.bytes = bytes;
    wrapped->buffer.room = bytes;
    wrapped->buffer.release = release_wrapped;
    wrapped->buffer.owner = wrapped;
    return &wrapped->buffer;
}

bool part_unwrap(struct buffer *buffer, zmq_msg_t *out_msg)
{
    if (buffer->bytes <= PART_COPY_BYTES) {
        if (zmq_msg_init_size(out_msg, buffer->bytes) != 0)
            return false;
        memcpy(zmq_msg_data(out_msg), buffer->data, buffer->bytes);
        return true;
    }
    if (zmq_msg_init_data(out_msg, buffer->data, buffer->bytes, drop_reference,
                          buffer_ref(buffer)) == 0)
        return true;
    drop_reference(NULL, buffer);
    return false;
}

bool part_receive(void *socket, zmq_msg_t *msg)
{
    int got;
    do {
        got = zmq_msg_recv(msg, socket, ZMQ_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    return got >= 0;
}
