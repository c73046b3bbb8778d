/* SPDX-License-Identifier: MPL-2.0 */
/* frame.c -- headers of batches and frames, by hand; see frame.h.
 *
 * A header is six words of 8 bytes.  Its type bytes are checked a word at a time under masks. */
#include "libbus/wire/frame.h"

#include "libbus/base/must.h"

enum {
    AT_FLAGS = 2,
    AT_DELIVERY = 5,
    AT_ATTEMPT = 7,
    AT_TOPIC = 12,
    AT_SEQ = 17,
    AT_STAMP = 26,
    AT_REPLY_TO = 35,
    AT_VALUE_BYTES = 44,
    HEADER_WORDS = FRAME_HEADER_BYTES / 8,
};

/* The type bytes of a header, with zeros for all its numbers. */
static const uint8_t type_bytes[FRAME_HEADER_BYTES] = {
    [0] = 0x98,  [1] = 0xcd,  [4] = 0xcc,  [6] = 0xce,  [11] = 0xce,
    [16] = 0xcf, [25] = 0xcf, [34] = 0xcf, [43] = 0xc6,
};
static const uint8_t type_mask[FRAME_HEADER_BYTES] = {
    [0] = 0xff,  [1] = 0xff,  [4] = 0xff,  [6] = 0xff,  [11] = 0xff,
    [16] = 0xff, [25] = 0xff, [34] = 0xff, [43] = 0xff,
};
static const uint8_t padding_bytes[8] = {0xc0, 0xc0, 0xc0, 0xc0, 0xc0, 0xc0, 0xc0, 0xc0};

/* How many bytes the value of each kind may have. */
static const struct {
    uint64_t least, most;
} value_limits[FRAME_KIND_COUNT] = {
    [FRAME_VALUE] = {0, LIMIT_CHUNK_BYTES},
    [FRAME_COMMIT] = {0, LIMIT_CHUNK_BYTES},
    [FRAME_RESERVE] = {1, FRAME_PROMISE_BYTES_MAX},
    [FRAME_CHUNK] = {FRAME_CHUNK_PREFIX_BYTES, FRAME_CHUNK_PREFIX_BYTES + LIMIT_CHUNK_BYTES},
    [FRAME_ERROR] = {1, LIMIT_ERROR_BYTES},
    [FRAME_TOPIC] = {1, LIMIT_NAME_BYTES},
    [FRAME_GAP] = {1, FRAME_GAP_BYTES_MAX},
    [FRAME_END] = {0, LIMIT_ERROR_BYTES},
};

static const char *const err_texts[WIRE_ERR_COUNT] = {
    [WIRE_OK] = "well formed",
    [WIRE_EMPTY] = "nothing there",
    [WIRE_TRUNCATED] = "ends in the middle",
    [WIRE_TRAILING] = "bytes behind the end",
    [WIRE_FORMAT] = "not the msgpack that belongs here",
    [WIRE_DEPTH] = "nested too deep",
    [WIRE_ITEMS] = "too many elements",
    [WIRE_UNKNOWN] = "no message of this number",
    [WIRE_LANE] = "a message of the other channel or direction",
    [WIRE_RANGE] = "a field outside its limits",
    [WIRE_UTF8] = "text that is not UTF-8",
    [WIRE_TOO_BIG] = "larger than its limit",
    [WIRE_FULL] = "no room to write",
};

const char *wire_strerror(enum wire_err err)
{
    return (unsigned)err < WIRE_ERR_COUNT ? err_texts[err] : "no such code";
}

/* ---- numbers, big-endian --------------------------------------------------------------------- */
static inline uint64_t word_read(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* The value of a big-endian number that word_read() or memcpy() took as it lies in memory. */
static inline uint64_t u64_swap(uint64_t number)
{
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? __builtin_bswap64(number) : number;
}

static inline uint32_t u32_swap(uint32_t number)
{
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? __builtin_bswap32(number) : number;
}

static inline uint16_t u16_swap(uint16_t number)
{
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? __builtin_bswap16(number) : number;
}

static inline uint64_t u64_read(const uint8_t *at)
{
    return u64_swap(word_read(at));
}

static inline uint32_t u32_read(const uint8_t *at)
{
    uint32_t number;
    memcpy(&number, at, sizeof number);
    return u32_swap(number);
}

static inline uint16_t u16_read(const uint8_t *at)
{
    uint16_t number;
    memcpy(&number, at, sizeof number);
    return u16_swap(number);
}

static inline void u64_write(uint8_t *at, uint64_t number)
{
    number = u64_swap(number);
    memcpy(at, &number, sizeof number);
}

static inline void u32_write(uint8_t *at, uint32_t number)
{
    number = u32_swap(number);
    memcpy(at, &number, sizeof number);
}

static inline void u16_write(uint8_t *at, uint16_t number)
{
    number = u16_swap(number);
    memcpy(at, &number, sizeof number);
}

/* ---- writing --------------------------------------------------------------------------------- */
void frame_header_write(uint8_t *out, const struct frame *frame)
{
    size_t bytes = frame->more * frame_padded(frame->value.bytes) + frame->value.bytes;
    must(bytes <= UINT32_MAX && frame->more <= FRAME_MORE_MAX);
    memcpy(out, type_bytes, FRAME_HEADER_BYTES);
    u16_write(out + AT_FLAGS, (uint16_t)(frame->flags | frame->more << FRAME_MORE_SHIFT));
    out[AT_DELIVERY] = frame->delivery;
    u32_write(out + AT_ATTEMPT, frame->attempt);
    u32_write(out + AT_TOPIC, frame->topic);
    u64_write(out + AT_SEQ, frame->seq);
    u64_write(out + AT_STAMP, (uint64_t)frame->stamp_ns);
    u64_write(out + AT_REPLY_TO, frame->reply_to);
    u32_write(out + AT_VALUE_BYTES, (uint32_t)bytes);
}

void frame_write(uint8_t *out, const struct frame *frame)
{
    size_t behind = frame->more * frame_padded(frame->value.bytes);
    const uint8_t *last = frame->value.data; /* NULL of an empty one: nothing is added to it */
    frame_header_write(out, frame);
    out += FRAME_HEADER_BYTES;
    if (behind > 0) {
        memcpy(out, last, behind);
        last += behind;
    }
    frame_value_write(out + behind, span_of(last, frame->value.bytes));
}

void frame_topic_rewrite(uint8_t *frame, uint32_t topic)
{
    u32_write(frame + AT_TOPIC, topic);
}

void batch_header_write(uint8_t out[BATCH_HEADER_BYTES], uint32_t frames, uint32_t bytes,
                        uint64_t number)
{
    out[0] = 0x95;
    out[1] = 0xcd;
    u16_write(out + 2, BATCH_NUMBER);
    out[4] = BATCH_FORMAT;
    out[5] = 0xce;
    u32_write(out + 6, frames);
    out[10] = 0xce;
    u32_write(out + 11, bytes);
    out[15] = 0xcf;
    u64_write(out + 16, number);
}

void delivery_header_write(uint8_t out[DELIVERY_HEADER_BYTES], uint32_t sub)
{
    out[0] = 0x92;
    out[1] = 0xcd;
    u16_write(out + 2, DELIVERY_NUMBER);
    out[4] = 0xce;
    u32_write(out + 5, sub);
}

void frame_chunk_prefix_write(uint8_t out[FRAME_CHUNK_PREFIX_BYTES], uint64_t total_bytes,
                              uint64_t offset)
{
    u64_write(out, total_bytes);
    u64_write(out + 8, offset);
}

/* ---- reading --------------------------------------------------------------------------------- */
enum wire_err delivery_header_read(struct span part, uint32_t *out_sub)
{
    const uint8_t *at = part.data;
    if (part.bytes == 0)
        return WIRE_EMPTY;
    if (part.bytes < DELIVERY_HEADER_BYTES)
        return WIRE_TRUNCATED;
    if (at[0] != 0x92 || at[1] != 0xcd || u16_read(at + 2) != DELIVERY_NUMBER || at[4] != 0xce)
        return WIRE_FORMAT;
    if (part.bytes > DELIVERY_HEADER_BYTES)
        return WIRE_TRAILING;
    *out_sub = u32_read(at + 5);
    return WIRE_OK;
}

enum wire_err batch_reader_init(struct batch_reader *reader, struct span part)
{
    const uint8_t *at = part.data;
    if (part.bytes == 0)
        return WIRE_EMPTY;
    if (part.bytes > LIMIT_PART_BYTES)
        return WIRE_TOO_BIG;
    if (part.bytes < BATCH_HEADER_BYTES)
        return WIRE_TRUNCATED;
    if (at[0] != 0x95 || at[1] != 0xcd || u16_read(at + 2) != BATCH_NUMBER || at[4] >= 0x80 ||
        at[5] != 0xce || at[10] != 0xce || at[15] != 0xcf)
        return WIRE_FORMAT;
    uint32_t frames = u32_read(at + 6);
    uint32_t bytes = u32_read(at + 11);
    uint64_t number = u64_read(at + 16);
    if (at[4] != BATCH_FORMAT || frames == 0 || frames > LIMIT_BATCH_FRAMES ||
        number > UINT64_MAX - frames)
        return WIRE_RANGE;
    if (bytes != part.bytes - BATCH_HEADER_BYTES)
        return bytes > part.bytes - BATCH_HEADER_BYTES ? WIRE_TRUNCATED : WIRE_TRAILING;
    if (bytes / FRAME_HEADER_BYTES < frames)
        return WIRE_ITEMS;
    *reader = (struct batch_reader){.data = part.data,
                                    .bytes = part.bytes,
                                    .at = BATCH_HEADER_BYTES,
                                    .frames_left = frames,
                                    .frames = frames,
                                    .number = number};
    return WIRE_OK;
}

static bool types_are_right(const uint8_t *header)
{
    uint64_t wrong = 0;
    for (size_t i = 0; i < HEADER_WORDS; i++)
        wrong |= (word_read(header + i * 8) & word_read(type_mask + i * 8)) ^
                 word_read(type_bytes + i * 8);
    return wrong == 0;
}

/* bytes: of the value, or of all values with the padding between them. */
static enum wire_err fields_check(const struct frame *frame, size_t bytes)
{
    unsigned kind = frame->flags & FRAME_KIND_MASK;
    if (kind >= FRAME_KIND_COUNT)
        return WIRE_RANGE;
    if (frame->more > 0 && (kind != FRAME_VALUE || frame->reply_to != FRAME_NO_REPLY))
        return WIRE_RANGE;
    if (frame->flags & FRAME_LAST_CHUNK && kind != FRAME_CHUNK)
        return WIRE_RANGE;
    if (frame->delivery == 0 || frame->seq >= UINT64_MAX - frame->more)
        return WIRE_RANGE;
    if (bytes > value_limits[kind].most)
        return WIRE_TOO_BIG;
    return bytes < value_limits[kind].least ? WIRE_RANGE : WIRE_OK;
}

/* The size of each value, if count values have bytes in all; false: no size gives that. */
static bool values_divide(size_t bytes, uint32_t count, size_t *out_each)
{
    size_t stride = frame_padded(bytes) / count;
    if (stride == 0 || stride % 8 != 0 || stride * count != frame_padded(bytes))
        return false;
    *out_each = bytes - stride * (count - 1);
    return true;
}

static bool padding_is_right(const struct frame *frame)
{
    size_t stride = frame_padded(frame->value.bytes);
    size_t padding = stride - frame->value.bytes;
    const uint8_t *at = (const uint8_t *)frame->value.data + frame->value.bytes;
    if (padding == 0)
        return true;
    for (uint32_t i = 0; i < frame_count(frame); i++, at += stride)
        if (memcmp(at, padding_bytes, padding) != 0)
            return false;
    return true;
}

/* The frame that begins at header, which has so many bytes up to the end of its batch. */
static enum wire_err frame_read(const uint8_t *header, size_t left, struct frame *out_frame)
{
    if (left < FRAME_HEADER_BYTES)
        return WIRE_TRUNCATED;
    if (!types_are_right(header))
        return WIRE_FORMAT;
    uint16_t flags = u16_read(header + AT_FLAGS);
    struct frame frame = {.flags = flags & (FRAME_KIND_MASK | FRAME_LAST_CHUNK),
                          .more = flags >> FRAME_MORE_SHIFT,
                          .delivery = header[AT_DELIVERY],
                          .attempt = u32_read(header + AT_ATTEMPT),
                          .topic = u32_read(header + AT_TOPIC),
                          .seq = u64_read(header + AT_SEQ),
                          .stamp_ns = (int64_t)u64_read(header + AT_STAMP),
                          .reply_to = u64_read(header + AT_REPLY_TO)};
    size_t bytes = u32_read(header + AT_VALUE_BYTES);
    enum wire_err err = fields_check(&frame, bytes);
    if (err != WIRE_OK)
        return err;
    frame.value = span_of(header + FRAME_HEADER_BYTES, bytes);
    if (frame.more > 0 && !values_divide(bytes, frame_count(&frame), &frame.value.bytes))
        return WIRE_RANGE;
    frame.frame_bytes = frame_total(bytes);
    if (frame.frame_bytes > left)
        return WIRE_TRUNCATED;
    if (!padding_is_right(&frame))
        return WIRE_FORMAT;
    *out_frame = frame;
    return WIRE_OK;
}

size_t frame_part_write(uint8_t *out, const uint8_t *whole, uint32_t skip, uint32_t count)
{
    struct frame part;
    must(frame_read(whole, SIZE_MAX, &part) == WIRE_OK);
    must(count > 0 && count <= frame_count(&part) && skip <= frame_count(&part) - count);
    size_t stride = frame_padded(part.value.bytes);
    part.seq += skip;
    part.more = (uint16_t)(count - 1);
    part.value.data = (const uint8_t *)part.value.data + skip * stride;
    frame_write(out, &part);
    return FRAME_HEADER_BYTES + count * stride;
}

size_t frame_task_write(uint8_t *out, const uint8_t *whole, uint32_t skip, const struct frame *as)
{
    struct frame one;
    must(frame_read(whole, SIZE_MAX, &one) == WIRE_OK && skip < frame_count(&one));
    one.flags = (uint16_t)((as->flags & FRAME_KIND_MASK) | (one.flags & FRAME_LAST_CHUNK));
    one.more = 0;
    one.delivery = as->delivery;
    one.attempt = as->attempt;
    one.topic = as->topic;
    one.seq = as->seq;
    one.reply_to = as->reply_to;
    one.value.data = (const uint8_t *)one.value.data + skip * frame_padded(one.value.bytes);
    frame_write(out, &one);
    return frame_total(one.value.bytes);
}

struct span frame_value_at(const uint8_t *whole, uint32_t skip)
{
    struct frame one;
    size_t prefix = 0;
    must(frame_read(whole, SIZE_MAX, &one) == WIRE_OK && skip < frame_count(&one));
    if ((one.flags & FRAME_KIND_MASK) == FRAME_CHUNK)
        prefix = FRAME_CHUNK_PREFIX_BYTES;
    return span_of((const uint8_t *)one.value.data + skip * frame_padded(one.value.bytes) + prefix,
                   one.value.bytes - prefix);
}

enum wire_err batch_reader_next(struct batch_reader *reader, struct frame *out_frame)
{
    size_t left = reader->bytes - reader->at;
    if (reader->frames_left == 0)
        return left == 0 ? WIRE_EMPTY : WIRE_TRAILING;
    enum wire_err err = frame_read(reader->data + reader->at, left, out_frame);
    if (err != WIRE_OK)
        return err;
    reader->count += frame_count(out_frame);
    if (reader->number > UINT64_MAX - reader->count)
        return WIRE_RANGE;
    reader->at += out_frame->frame_bytes;
    reader->frames_left -= 1;
    return WIRE_OK;
}

enum wire_err frame_chunk_decode(struct span value, struct frame_chunk *out_chunk)
{
    const uint8_t *at = value.data;
    if (value.bytes < FRAME_CHUNK_PREFIX_BYTES)
        return WIRE_TRUNCATED;
    uint64_t total_bytes = u64_read(at);
    uint64_t offset = u64_read(at + 8);
    uint64_t bytes = value.bytes - FRAME_CHUNK_PREFIX_BYTES;
    if (total_bytes > LIMIT_VALUE_BYTES || bytes > LIMIT_CHUNK_BYTES)
        return WIRE_TOO_BIG;
    if (offset > total_bytes || bytes > total_bytes - offset)
        return WIRE_RANGE;
    *out_chunk = (struct frame_chunk){.total_bytes = total_bytes,
                                      .offset = offset,
                                      .bytes = span_of(at + FRAME_CHUNK_PREFIX_BYTES, bytes)};
    return WIRE_OK;
}
