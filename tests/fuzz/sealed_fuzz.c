/* SPDX-License-Identifier: MPL-2.0 */
/* sealed_fuzz.c -- foreign bytes as what came out of a seal: whoever knows the auditor's public key
 * can seal anything.  What is taken is within its limits, and can be sealed again. */
#include "libbus/base/must.h"
#include "libbus/wire/sealed.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check_trace(struct span plain)
{
    static uint8_t again[SEALED_TRACE_BYTES_MAX];
    struct sealed_trace trace;
    struct error_attached attached;
    uint32_t count = 0;
    size_t again_bytes = 0;
    if (sealed_trace_decode(plain, &trace) != WIRE_OK)
        return;
    must(trace.id.bytes > 0 && trace.label.bytes == SEALED_LABEL_BYTES);
    must(trace.stacktrace.bytes <= LIMIT_ERROR_STACK_BYTES);
    struct span list = trace.attachments;
    for (; error_attached_next(&list, &attached); count++)
        must(attached.name.bytes > 0 && attached.name.bytes <= LIMIT_NAME_BYTES);
    must(count <= LIMIT_ERROR_ATTACHMENTS);
    must(sealed_trace_encode(&trace, again, sizeof again, &again_bytes) == WIRE_OK);
}

static void check_piece(struct span plain)
{
    uint8_t head[SEALED_PIECE_HEAD_BYTES];
    struct sealed_piece piece;
    struct span content;
    if (!sealed_piece_read(plain, &piece, &content))
        return;
    must(content.bytes + SEALED_PIECE_HEAD_BYTES == plain.bytes);
    sealed_piece_write(&piece, head);
    must(memcmp(head, plain.data, sizeof head) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    check_trace(span_of(data, bytes));
    check_piece(span_of(data, bytes));
    return 0;
}
