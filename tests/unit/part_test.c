/* SPDX-License-Identifier: MPL-2.0 */
/* part_test.c -- messages of ZeroMQ as buffers and back, and what is copied on the way. */
#include "libbus/io/part.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

/* Around the limit up to which bytes are copied. */
static const size_t sizes[] = {
    0, 1, PART_COPY_BYTES - 1, PART_COPY_BYTES, PART_COPY_BYTES + 1, 64 * PART_COPY_BYTES};
#define SIZES (sizeof sizes / sizeof *sizes)

static void fill(uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(i * 7);
}

static void expect_filled(const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(((const uint8_t *)bytes)[i], (uint8_t)(i * 7));
}

Test(part, becomes_a_buffer_by_reference_above_the_limit)
{
    for (size_t i = 0; i < SIZES; i++) {
        zmq_msg_t msg;
        cr_assert_eq(zmq_msg_init_size(&msg, sizes[i]), 0);
        fill(zmq_msg_data(&msg), sizes[i]);
        const void *data = zmq_msg_data(&msg);
        struct buffer *buffer = part_wrap(&msg, 1);
        cr_assert_not_null(buffer);
        cr_expect_eq(buffer->data == data, sizes[i] > PART_COPY_BYTES, "%zu bytes", sizes[i]);
        zmq_msg_close(&msg); /* the buffer has no need of it */
        cr_expect_eq(buffer->bytes, sizes[i]);
        expect_filled(buffer->data, buffer->bytes);
        buffer_unref(&buffer);
    }
}

static void leave(void *data, void *hint)
{
    (void)data;
    (void)hint;
}

Test(part, is_copied_if_it_lies_off_the_boundary_that_is_asked_for)
{
    static _Alignas(16) uint8_t bytes[2 * PART_COPY_BYTES + 16];
    for (size_t off = 0; off < 16; off++) {
        zmq_msg_t msg;
        fill(bytes + off, 2 * PART_COPY_BYTES);
        cr_assert_eq(zmq_msg_init_data(&msg, bytes + off, 2 * PART_COPY_BYTES, leave, NULL), 0);
        struct buffer *buffer = part_wrap(&msg, 8);
        zmq_msg_close(&msg);
        cr_assert_not_null(buffer);
        cr_expect_eq((uintptr_t)buffer->data % 8, 0);
        cr_expect_eq(buffer->data == bytes + off, off % 8 == 0);
        expect_filled(buffer->data, buffer->bytes);
        buffer_unref(&buffer);
    }
}

Test(part, is_made_of_a_buffer_with_a_reference_of_its_own)
{
    for (size_t i = 0; i < SIZES; i++) {
        zmq_msg_t msg;
        struct buffer *buffer = buffer_new(sizes[i]);
        cr_assert_not_null(buffer);
        buffer->bytes = sizes[i];
        fill(buffer->data, sizes[i]);
        cr_assert(part_unwrap(buffer, &msg));
        bool is_reference = sizes[i] > PART_COPY_BYTES;
        cr_expect_eq(zmq_msg_data(&msg) == (void *)buffer->data, is_reference);
        cr_expect_eq(atomic_load(&buffer->refs), is_reference ? 2 : 1);
        buffer_unref(&buffer);
        cr_expect_eq(zmq_msg_size(&msg), sizes[i]);
        expect_filled(zmq_msg_data(&msg), sizes[i]);
        zmq_msg_close(&msg);
    }
}

Test(part, is_received_without_waiting)
{
    void *context = zmq_ctx_new();
    void *from = zmq_socket(context, ZMQ_PAIR);
    void *to = zmq_socket(context, ZMQ_PAIR);
    zmq_msg_t msg;
    zmq_msg_init(&msg);
    cr_assert_eq(zmq_bind(to, "inproc://part"), 0);
    cr_assert_eq(zmq_connect(from, "inproc://part"), 0);
    cr_expect_not(part_receive(to, &msg));
    cr_assert_eq(zmq_send(from, "ab", 2, 0), 2);
    cr_assert(part_receive(to, &msg));
    cr_expect_eq(zmq_msg_size(&msg), 2);
    cr_expect_not(part_receive(to, &msg));
    zmq_msg_close(&msg);
    zmq_close(from);
    zmq_close(to);
    zmq_ctx_term(context);
}
