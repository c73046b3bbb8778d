/* SPDX-License-Identifier: MPL-2.0 */
/* walk.c -- the bounded walk over msgpack that comes before everything else.
 *
 * msgpack-c 4.0.0 reserves memory for as many elements as an array claims, and reports excessive
 * depth as a lack of memory (its issue 1013).  So msgpack-c gets only bytes that were walked here.
 * The formats are those of the msgpack specification, "Formats", 2013. */
#include "libbus/wire/walk.h"

#include "libbus/base/limits.h"
#include "libbus/wire/msg.h"

#include <limits.h>

enum head_type { HEAD_SCALAR, HEAD_BYTES, HEAD_CONTAINER, HEAD_NEVER };

/* What a first byte announces. */
struct head {
    enum head_type type;
    uint8_t width;  /* bytes of the scalar, or of the length that follows */
    uint8_t fixed;  /* bytes beside: the type of an extension, or a length without a number */
    uint8_t factor; /* objects for each element: 1 array, 2 map */
};
static const struct head heads[0x20] = {
    /* c0 nil      */ {HEAD_SCALAR, 0, 0, 0},
    /* c1 not used */ {HEAD_NEVER, 0, 0, 0},
    /* c2 false    */ {HEAD_SCALAR, 0, 0, 0},
    /* c3 true     */ {HEAD_SCALAR, 0, 0, 0},
    /* c4 bin 8    */ {HEAD_BYTES, 1, 0, 0},
    /* c5 bin 16   */ {HEAD_BYTES, 2, 0, 0},
    /* c6 bin 32   */ {HEAD_BYTES, 4, 0, 0},
    /* c7 ext 8    */ {HEAD_BYTES, 1, 1, 0},
    /* c8 ext 16   */ {HEAD_BYTES, 2, 1, 0},
    /* c9 ext 32   */ {HEAD_BYTES, 4, 1, 0},
    /* ca float 32 */ {HEAD_SCALAR, 4, 0, 0},
    /* cb float 64 */ {HEAD_SCALAR, 8, 0, 0},
    /* cc uint 8   */ {HEAD_SCALAR, 1, 0, 0},
    /* cd uint 16  */ {HEAD_SCALAR, 2, 0, 0},
    /* ce uint 32  */ {HEAD_SCALAR, 4, 0, 0},
    /* cf uint 64  */ {HEAD_SCALAR, 8, 0, 0},
    /* d0 int 8    */ {HEAD_SCALAR, 1, 0, 0},
    /* d1 int 16   */ {HEAD_SCALAR, 2, 0, 0},
    /* d2 int 32   */ {HEAD_SCALAR, 4, 0, 0},
    /* d3 int 64   */ {HEAD_SCALAR, 8, 0, 0},
    /* d4 fixext 1 */ {HEAD_SCALAR, 1, 1, 0},
    /* d5 fixext 2 */ {HEAD_SCALAR, 2, 1, 0},
    /* d6 fixext 4 */ {HEAD_SCALAR, 4, 1, 0},
    /* d7 fixext 8 */ {HEAD_SCALAR, 8, 1, 0},
    /* d8 fixext16 */ {HEAD_SCALAR, 16, 1, 0},
    /* d9 str 8    */ {HEAD_BYTES, 1, 0, 0},
    /* da str 16   */ {HEAD_BYTES, 2, 0, 0},
    /* db str 32   */ {HEAD_BYTES, 4, 0, 0},
    /* dc array 16 */ {HEAD_CONTAINER, 2, 0, 1},
    /* dd array 32 */ {HEAD_CONTAINER, 4, 0, 1},
    /* de map 16   */ {HEAD_CONTAINER, 2, 0, 2},
    /* df map 32   */ {HEAD_CONTAINER, 4, 0, 2},
};

static uint64_t number_read(const uint8_t *data, size_t width)
{
    uint64_t number = 0;
    for (size_t i = 0; i < width; i++)
        number = number << 8 | data[i];
    return number;
}

/* Steps over the head of the object that stands here and the bytes it has of its own; out_objects:
 * how many objects follow as its elements. */
static enum wire_err walk_head(struct walk *walk, enum head_type *out_type, uint64_t *out_objects)
{
    *out_type = HEAD_SCALAR;
    *out_objects = 0;
    if (walk->at == walk->bytes)
        return WIRE_TRUNCATED;
    uint8_t first = walk->data[walk->at];
    size_t left = walk->bytes - walk->at - 1;
    uint64_t own = 0; /* bytes behind the first */
    if (first >= 0xc0 && first < 0xe0) {
        const struct head *head = &heads[first - 0xc0];
        if (head->type == HEAD_NEVER)
            return WIRE_FORMAT;
        own = (uint64_t)head->width + head->fixed;
        if (head->type != HEAD_SCALAR) {
            if (left < head->width)
                return WIRE_TRUNCATED;
            uint64_t number = number_read(walk->data + walk->at + 1, head->width);
            own += head->type == HEAD_BYTES ? number : 0;
            *out_objects = number * head->factor;
        }
        *out_type = head->type;
    } else if (first >= 0xa0 && first < 0xc0) {
        own = first & 0x1f; /* fixstr */
    } else if (first >= 0x80 && first < 0xa0) {
        *out_type = HEAD_CONTAINER; /* fixmap, fixarray */
        *out_objects = (uint64_t)(first & 0x0f) * (first < 0x90 ? 2 : 1);
    }
    if (own > left)
        return WIRE_TRUNCATED;
    walk->at += 1 + (size_t)own;
    return WIRE_OK;
}

enum wire_err walk_object(struct walk *walk)
{
    uint64_t open[LIMIT_WALK_DEPTH]; /* objects that are still to come, at each depth */
    unsigned depth = 0;
    uint64_t items = 0;
    if (walk->at == walk->bytes)
        return WIRE_EMPTY;
    do {
        enum head_type type;
        uint64_t objects;
        if (depth > 0)
            open[depth - 1] -= 1;
        enum wire_err err = walk_head(walk, &type, &objects);
        if (err != WIRE_OK)
            return err;
        if (type == HEAD_CONTAINER) {
            if (depth == LIMIT_WALK_DEPTH)
                return WIRE_DEPTH;
            items += objects;
            if (objects > walk->bytes - walk->at || items > LIMIT_WALK_ITEMS)
                return WIRE_ITEMS;
            open[depth] = objects;
            depth += 1;
        }
        while (depth > 0 && open[depth - 1] == 0)
            depth -= 1;
    } while (depth > 0);
    return WIRE_OK;
}

enum wire_err walk_array(struct walk *walk, uint32_t *out_count)
{
    struct walk inner = *walk;
    enum head_type type;
    uint64_t objects;
    if (!walk_is_container(walk))
        return walk->at == walk->bytes ? WIRE_TRUNCATED : WIRE_FORMAT;
    uint8_t first = walk->data[walk->at];
    if (first < 0x90 || first >= 0xde)
        return WIRE_FORMAT; /* a map */
    enum wire_err err = walk_head(&inner, &type, &objects);
    if (err != WIRE_OK)
        return err;
    *walk = inner;
    *out_count = (uint32_t)objects;
    return WIRE_OK;
}

bool walk_is_container(const struct walk *walk)
{
    if (walk->at == walk->bytes)
        return false;
    uint8_t first = walk->data[walk->at];
    return (first >= 0x80 && first < 0xa0) || (first >= 0xdc && first < 0xe0);
}

enum wire_err wire_walk(struct span part)
{
    if (part.bytes > LIMIT_PART_BYTES)
        return WIRE_TOO_BIG;
    struct walk walk = walk_of(part);
    enum wire_err err = walk_object(&walk);
    if (err != WIRE_OK)
        return err;
    return walk.at == walk.bytes ? WIRE_OK : WIRE_TRAILING;
}

unsigned wire_number(struct span part)
{
    struct walk walk = walk_of(part);
    uint32_t count;
    if (walk_array(&walk, &count) != WIRE_OK || count == 0 || walk.at == walk.bytes)
        return MSG_NONE;
    uint8_t first = walk.data[walk.at];
    if (first < 0x80)
        return first;
    if (first < 0xcc || first > 0xcf)
        return MSG_NONE;
    size_t width = (size_t)1 << (first - 0xcc);
    if (walk.bytes - walk.at - 1 < width)
        return MSG_NONE;
    uint64_t number = number_read(walk.data + walk.at + 1, width);
    return number < UINT_MAX ? (unsigned)number : UINT_MAX;
}
