/* SPDX-License-Identifier: MPL-2.0 */
/* opener.c -- see opener.h. */
#include "libbus/api/opener.h"

#include <string.h>

/* Opens the box that was collected, and gives its bytes on. */
static void open_box(struct opener *opener)
{
    struct sealed_piece piece;
    struct span bytes;
    struct span box = span_of(opener->box, opener->bytes);
    opener->bytes = 0;
    opener->wrong = "a piece of it is cut, or was changed";
    if (!seal_open(&opener->pair, box, opener->plain) ||
        !sealed_piece_read(span_of(opener->plain, box.bytes - SEAL_BOX_BYTES), &piece, &bytes))
        return;
    opener->wrong = "a piece of it belongs to another place";
    if (memcmp(piece.label, opener->next.label, sizeof piece.label) != 0 ||
        piece.attachment != opener->next.attachment || piece.offset != opener->next.offset ||
        opener->next.is_last)
        return;
    opener->wrong = NULL;
    opener->next.is_last = piece.is_last;
    opener->next.offset += bytes.bytes;
    if (bytes.bytes > 0)
        opener->is_enough = opener->take(bytes.data, bytes.bytes, opener->arg) != 0;
}

static bool wants_more(const struct opener *opener)
{
    return opener->wrong == NULL && !opener->is_enough;
}

bool opener_add(struct opener *opener, const void *bytes, size_t count)
{
    const uint8_t *from = bytes;
    while (count > 0 && wants_more(opener)) {
        size_t room = sizeof opener->box - opener->bytes;
        size_t some = count < room ? count : room;
        memcpy(opener->box + opener->bytes, from, some);
        opener->bytes += some;
        from += some;
        count -= some;
        if (opener->bytes == sizeof opener->box)
            open_box(opener);
    }
    return wants_more(opener);
}

bool opener_end(struct opener *opener)
{
    if (wants_more(opener) && opener->bytes > 0)
        open_box(opener);
    if (wants_more(opener) && !opener->next.is_last)
        opener->wrong = "its last piece is missing";
    return opener->wrong == NULL;
}
