/* SPDX-License-Identifier: MPL-2.0 */
/* item.h -- what a receiver gets from an inbox or for a want: values, an error, or a gap. */
#ifndef SESSION_ITEM_H
#define SESSION_ITEM_H

#include "libbus/base/buffer.h"
#include "libbus/base/span.h"
#include "libbus/wire/frame.h"

#include <stdint.h>

/* One outcome, or several values of one size for consecutive slots.  The values lie in buffer, each
 * frame_padded() behind the one before.  The receiver owns one reference of buffer per value. */
enum session_item_kind {
    SESSION_ITEM_VALUE,
    SESSION_ITEM_ERROR,   /* value: an encoded error */
    SESSION_ITEM_GAP,     /* seq..seq+count-1 are missing: the broker no longer kept them */
    SESSION_ITEM_DROPPED, /* the same: the subscription was too slow, and asked to lose slots */
    SESSION_ITEM_PAST,    /* count missing of earlier attempts, seq: the first, in the oldest */
    SESSION_ITEM_END,     /* topic: the party; seq: incarnation; value: an error, or empty */
    SESSION_ITEM_PIECE,   /* of a value of which more is to come; the last one is a VALUE */
};
struct session_item {
    enum session_item_kind kind;
    struct buffer *buffer; /* may be NULL if value is empty */
    struct span value;     /* the first; aligned to 8 */
    uint32_t topic;        /* the broker's number, for session_topic_name(); 0: of a wait that was
                              denied */
    uint64_t seq;
    uint64_t count; /* values, or what is missing */
    struct frame_origin origin;
    uint64_t first;       /* of an end: the first incarnation that it stands for */
    uint64_t offset;      /* of a piece: its offset in the value */
    uint64_t total_bytes; /* of a piece: the size of the value; 0: it is a whole value */
    uint8_t delivery;
    int64_t stamp_ns;
    uint32_t batch; /* counts data connections: on which one it came */
    uint64_t reply_to;
    uint64_t lease; /* in a group: its number here, for session_task_end(); 0: none */
};

#endif
