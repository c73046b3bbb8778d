/* SPDX-License-Identifier: MPL-2.0 */
/* sealed_test.c -- the bytes that go into a seal: traces and pieces at their limits, and bytes that
 * are neither. */
#include "libbus/wire/sealed.h"

#include <criterion/criterion.h>
#include <string.h>

static uint8_t out[LIMIT_ERROR_SEALED_BYTES];
static char letters[LIMIT_ERROR_STACK_BYTES + 1];
static const uint8_t label[SEALED_LABEL_BYTES] = {1, 2, 3};

static struct span text_of(size_t bytes)
{
    memset(letters, 'x', sizeof letters);
    return span_of(letters, bytes);
}

static struct sealed_trace a_trace(void)
{
    return (struct sealed_trace){.id = span_text("job/alice/1/1"),
                                 .label = span_of(label, sizeof label),
                                 .type = span_text("app.x"),
                                 .message = span_text("it broke"),
                                 .stacktrace = span_text("at x.c:1"),
                                 .is_cut = 1};
}

Test(sealed, trace_comes_back_with_every_field)
{
    struct error_attached attached[] = {{span_text("log"), 7},
                                        {span_text("core"), ERROR_BYTES_UNKNOWN}};
    uint8_t list[ERROR_ATTACHED_BYTES_MAX];
    struct sealed_trace trace = a_trace();
    struct sealed_trace got;
    size_t bytes = 0;
    trace.attachments = span_of(list, error_attached_write(attached, 2, list));
    cr_assert_eq(sealed_trace_encode(&trace, out, sizeof out, &bytes), WIRE_OK);
    cr_assert_eq(sealed_trace_decode(span_of(out, bytes), &got), WIRE_OK);
    cr_expect(span_equal(got.id, trace.id) && span_equal(got.label, trace.label));
    cr_expect(span_equal(got.type, trace.type) && span_equal(got.message, trace.message));
    cr_expect(span_equal(got.stacktrace, trace.stacktrace));
    cr_expect(span_equal(got.attachments, trace.attachments));
    cr_expect_eq(got.is_cut, 1);
}

Test(sealed, trace_has_limits)
{
    for (int over = -1; over <= 1; over++) {
        struct sealed_trace trace = a_trace();
        size_t bytes = 0;
        trace.stacktrace = text_of((size_t)(LIMIT_ERROR_STACK_BYTES + over));
        cr_expect_eq(sealed_trace_encode(&trace, out, sizeof out, &bytes),
                     over <= 0 ? WIRE_OK : WIRE_RANGE);
        trace = a_trace();
        trace.label = span_of(letters, (size_t)(SEALED_LABEL_BYTES + over));
        cr_expect_eq(sealed_trace_encode(&trace, out, sizeof out, &bytes),
                     over == 0 ? WIRE_OK : WIRE_RANGE);
    }
}

/* All texts at their limits, and all names of attachments: it has room in a seal. */
Test(sealed, largest_trace_has_room)
{
    struct error_attached attached[LIMIT_ERROR_ATTACHMENTS];
    uint8_t list[ERROR_ATTACHED_BYTES_MAX];
    struct sealed_trace got;
    size_t bytes = 0;
    for (uint32_t i = 0; i < LIMIT_ERROR_ATTACHMENTS; i++)
        attached[i] = (struct error_attached){text_of(LIMIT_NAME_BYTES), UINT64_MAX - 1};
    struct sealed_trace trace = {.id = text_of(LIMIT_ERROR_ID_BYTES),
                                 .label = span_of(label, sizeof label),
                                 .type = text_of(LIMIT_ERROR_TYPE_BYTES),
                                 .message = text_of(LIMIT_ERROR_MESSAGE_BYTES),
                                 .stacktrace = text_of(LIMIT_ERROR_STACK_BYTES)};
    trace.attachments =
        span_of(list, error_attached_write(attached, LIMIT_ERROR_ATTACHMENTS, list));
    cr_assert_eq(sealed_trace_encode(&trace, out, SEALED_TRACE_BYTES_MAX, &bytes), WIRE_OK);
    cr_expect_eq(sealed_trace_decode(span_of(out, bytes), &got), WIRE_OK);
}

/* Each cut is noticed, and so is another number in front. */
Test(sealed, refuses_what_is_no_trace)
{
    struct sealed_trace trace = a_trace();
    struct sealed_trace got;
    size_t bytes = 0;
    cr_assert_eq(sealed_trace_encode(&trace, out, sizeof out, &bytes), WIRE_OK);
    for (size_t cut = 0; cut < bytes; cut++)
        cr_expect_neq(sealed_trace_decode(span_of(out, cut), &got), WIRE_OK, "%zu", cut);
    cr_assert_eq(out[1], 1);
    out[1] = 2;
    cr_expect_eq(sealed_trace_decode(span_of(out, bytes), &got), WIRE_UNKNOWN);
    trace.attachments = span_of("\x91\x01", 2);
    cr_assert_eq(sealed_trace_encode(&trace, out, sizeof out, &bytes), WIRE_OK);
    cr_expect_eq(sealed_trace_decode(span_of(out, bytes), &got), WIRE_FORMAT);
    cr_expect_eq(sealed_trace_decode(span_of(letters, SEALED_TRACE_BYTES_MAX + 1), &got),
                 WIRE_TOO_BIG);
}

Test(sealed, piece_names_its_place)
{
    struct sealed_piece piece = {.attachment = 15, .is_last = true, .offset = UINT64_C(1) << 40};
    struct sealed_piece got;
    struct span bytes;
    memcpy(piece.label, label, sizeof label);
    sealed_piece_write(&piece, out);
    memcpy(out + SEALED_PIECE_HEAD_BYTES, "abc", 3);
    cr_assert(sealed_piece_read(span_of(out, SEALED_PIECE_HEAD_BYTES + 3), &got, &bytes));
    cr_expect_arr_eq(got.label, label, sizeof label);
    cr_expect(got.attachment == 15 && got.is_last && got.offset == UINT64_C(1) << 40);
    cr_expect(span_equal(bytes, span_text("abc")));
    cr_expect_not(sealed_piece_read(span_of(out, SEALED_PIECE_HEAD_BYTES - 1), &got, &bytes));
    out[20] = 2;
    cr_expect_not(sealed_piece_read(span_of(out, SEALED_PIECE_HEAD_BYTES + 3), &got, &bytes));
    out[20] = 0;
    out[23] = 1;
    cr_expect_not(sealed_piece_read(span_of(out, SEALED_PIECE_HEAD_BYTES + 3), &got, &bytes));
}

Test(sealed, piece_has_room_in_a_piece)
{
    struct sealed_piece piece;
    struct span bytes;
    static uint8_t plain[LIMIT_ATTACHMENT_PIECE_BYTES];
    for (int over = -1; over <= 1; over++) {
        size_t count = (size_t)(SEALED_PIECE_HEAD_BYTES + SEALED_PIECE_BYTES + over);
        cr_expect_eq(sealed_piece_read(span_of(plain, count), &piece, &bytes), over <= 0);
    }
    cr_expect_eq(SEALED_PIECE_HEAD_BYTES + SEALED_PIECE_BYTES + SEALED_BOX_BYTES,
                 LIMIT_ATTACHMENT_PIECE_BYTES);
}

Test(sealed, sizes_follow_from_the_pieces)
{
    const uint64_t added = SEALED_BOX_BYTES + SEALED_PIECE_HEAD_BYTES;
    cr_expect_eq(sealed_bytes(0), added);
    cr_expect_eq(sealed_bytes(1), 1 + added);
    cr_expect_eq(sealed_bytes(SEALED_PIECE_BYTES - 1), SEALED_PIECE_BYTES - 1 + added);
    cr_expect_eq(sealed_bytes(SEALED_PIECE_BYTES), LIMIT_ATTACHMENT_PIECE_BYTES);
    cr_expect_eq(sealed_bytes(SEALED_PIECE_BYTES + 1), SEALED_PIECE_BYTES + 1 + 2 * added);
    cr_expect_eq(sealed_bytes(ERROR_BYTES_UNKNOWN), ERROR_BYTES_UNKNOWN);
    cr_expect_eq(sealed_bytes(ERROR_BYTES_UNKNOWN - 1), ERROR_BYTES_UNKNOWN);
}

Test(sealed, names_say_nothing)
{
    char name[SEALED_NAME_BYTES];
    sealed_name(0, name);
    cr_expect_str_eq(name, "sealed.1");
    sealed_name(LIMIT_ERROR_ATTACHMENTS - 1, name);
    cr_expect_str_eq(name, "sealed.16");
    static const char *const bad[] = {"",         "sealed.",    "sealed.0",
                                      "sealed.x", "sealed.100", "stderr"};
    cr_expect(sealed_name_is_valid(span_text("sealed.1")));
    cr_expect(sealed_name_is_valid(span_text("sealed.16")));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_expect_not(sealed_name_is_valid(span_text(bad[i])), "%s", bad[i]);
}
