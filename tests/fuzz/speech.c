/* SPDX-License-Identifier: MPL-2.0 */
/* speech.c -- well-formed messages out of foreign bytes; see speech.h. */
#include "tests/fuzz/speech.h"

#include "libbus/base/must.h"
#include "libbus/wire/error.h"

#include <string.h>

enum { USUAL = 160, FRAMES_MAX = 8 }; /* bytes below USUAL ask for what a good peer would say */

uint8_t feed_byte(struct feed *feed)
{
    if (feed->left == 0)
        return 0;
    feed->left -= 1;
    return *feed->data++;
}

struct span feed_span(struct feed *feed, size_t bytes_max)
{
    size_t bytes = bytes_max < feed->left ? bytes_max : feed->left;
    struct span span = span_of(feed->data, bytes);
    feed->data += bytes;
    feed->left -= bytes;
    return span;
}

struct span speech_error(void)
{
    static uint8_t bytes[512];
    static size_t count;
    struct error_record record;
    error_record_init(&record);
    record.kind = ERROR_APPLICATION;
    record.id = span_text("job/alice/1/1");
    record.job = span_text("job");
    record.party = span_text("alice");
    record.incarnation = 1;
    record.attempt = 1;
    record.type = span_text("app.bad");
    record.message = span_text("bad");
    if (count == 0)
        must(error_encode(&record, 1, bytes, sizeof bytes, &count) == WIRE_OK);
    return span_of(bytes, count);
}

/* ---- fields ---------------------------------------------------------------------------------- */

static uint64_t usual_number(const struct speaker *speaker, const char *field, uint8_t byte)
{
    if (strcmp(field, "major") == 0)
        return PROTOCOL_MAJOR;
    if (strcmp(field, "number") == 0)
        return speaker->number;
    if (strcmp(field, "token") == 0)
        return speaker->token;
    if (strcmp(field, "connection") == 0)
        return speaker->connection;
    if (strcmp(field, "topic") == 0)
        return speaker->topic;
    if (strcmp(field, "own_number") == 0)
        return byte % 2 == 0 ? speaker->own_number : 0;
    if (strcmp(field, "seq") == 0)
        return speaker->seq;
    if (strstr(field, "_bytes") != NULL || strstr(field, "_ms") != NULL)
        return (uint64_t)byte << 6;
    return byte & 7;
}

static uint64_t number_of(struct feed *feed, const struct speaker *speaker, const char *field,
                          uint64_t largest)
{
    static const uint64_t odd[] = {0,          1,          UINT64_MAX, UINT32_MAX,
                                   1ULL << 63, 1ULL << 31, INT64_MAX,  65536};
    uint8_t byte = feed_byte(feed);
    uint64_t number = usual_number(speaker, field, byte);
    if (largest == 1)
        return byte & 1; /* one thing or the other, each as often */
    if (byte >= 240)
        number = odd[byte & 7];
    else if (byte >= USUAL)
        number = number + byte - 200; /* a little beside it, either way */
    return number < largest ? number : largest;
}

static struct span text_of(struct feed *feed, const struct speaker *speaker, const char *field,
                           size_t shortest, size_t longest)
{
    static const char *const odd[] = {"alice",         "bob/w", "alice/#",     "#",           "+/w",
                                      "job/alice/1/1", "carol", "errbus.lost", "tcp://*:7371"};
    uint8_t byte = feed_byte(feed);
    struct span text = span_text(odd[byte % 9]);
    if (byte < USUAL && strcmp(field, "job") == 0)
        text = span_text(speaker->job != NULL ? speaker->job : "job");
    if (byte < USUAL && strcmp(field, "party") == 0)
        text = span_text(speaker->party);
    if (byte < USUAL && strcmp(field, "topic") == 0)
        text = span_text(byte % 16 == 15 ? "alice/_replies" : byte % 2 == 0 ? "alice/w" : "bob/w");
    if (byte < USUAL && shortest == 0 && byte % 4 == 0)
        text = SPAN_NONE;
    if (text.bytes > longest)
        text.bytes = longest;
    return text;
}

static struct span bytes_of(struct feed *feed, size_t shortest, size_t longest)
{
    uint8_t byte = feed_byte(feed);
    struct span error = speech_error();
    if (byte < USUAL && error.bytes <= longest)
        return shortest == 0 && byte % 4 == 0 ? SPAN_NONE : error;
    struct span bytes = feed_span(feed, byte & 31);
    return bytes.bytes < shortest ? error : bytes;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* One function a message fills its fields in the order of the table. */
#define MESSAGE(upper, name, number, lane, direction, what)                                        \
    static void fill_##name(struct msg *msg, struct feed *feed, const struct speaker *speaker)     \
    {                                                                                              \
        msg->type = MSG_##upper;                                                                   \
        (void)feed;                                                                                \
        (void)speaker;
#define FIELD_U64(message, field, largest, what)                                                   \
    msg->as.message.field = number_of(feed, speaker, #field, largest);
#define FIELD_I64(message, field, smallest, what)                                                  \
    msg->as.message.field = (int64_t)number_of(feed, speaker, #field, UINT64_MAX);                 \
    if (msg->as.message.field < (smallest))                                                        \
        msg->as.message.field = (smallest);
#define FIELD_STR(message, field, shortest, longest, what)                                         \
    msg->as.message.field = text_of(feed, speaker, #field, shortest, longest);
#define FIELD_BIN(message, field, shortest, longest, what)                                         \
    msg->as.message.field = bytes_of(feed, shortest, longest);
#define MESSAGE_END(upper, name) }
#include "schemas/messages.def"

static const struct {
    enum msg_type type;
    enum msg_direction direction;
    enum msg_lane lane;
    void (*fill)(struct msg *msg, struct feed *feed, const struct speaker *speaker);
} rows[] = {
#define MESSAGE(upper, name, number, lane_, direction_, what)                                      \
    {MSG_##upper, MSG_##direction_, MSG_LANE_##lane_, fill_##name},
#include "schemas/messages.def"
};
enum { ROWS = sizeof rows / sizeof rows[0] };

struct msg speech_msg_of(struct feed *feed, const struct speaker *speaker, enum msg_type type)
{
    struct msg msg = {.type = MSG_NONE};
    for (int i = 0; i < ROWS; i++)
        if (rows[i].type == type)
            rows[i].fill(&msg, feed, speaker);
    return msg;
}

struct msg speech_msg(struct feed *feed, const struct speaker *speaker,
                      enum msg_direction direction)
{
    struct msg msg = {.type = MSG_NONE};
    int at = feed_byte(feed) % ROWS;
    while (rows[at].direction != direction)
        at = (at + 1) % ROWS;
    rows[at].fill(&msg, feed, speaker);
    return msg;
}

bool speech_is_data(enum msg_type type)
{
    for (int i = 0; i < ROWS; i++)
        if (rows[i].type == type)
            return rows[i].lane == MSG_LANE_DATA;
    return false;
}

/* ---- batches --------------------------------------------------------------------------------- */

static struct span value_of(struct feed *feed, enum frame_kind kind, uint8_t room[64])
{
    struct frame_reserve reserve = {.deadline_ms = feed_byte(feed) % 4 == 0 ? feed_byte(feed) : -1,
                                    .value_bytes_max = feed_byte(feed)};
    if (kind == FRAME_RESERVE)
        return span_of(room, frame_reserve_encode(room, &reserve));
    if (kind == FRAME_ERROR)
        return speech_error();
    if (kind == FRAME_TOPIC)
        return span_text(feed_byte(feed) % 2 == 0 ? "bob/w" : "alice/w");
    struct span value = feed_span(feed, feed_byte(feed) & 31);
    if (kind != FRAME_CHUNK)
        return value;
    uint8_t total = feed_byte(feed);
    frame_chunk_prefix_write(room, total & 63, feed_byte(feed) & 31);
    if (value.bytes > 0)
        memcpy(room + FRAME_CHUNK_PREFIX_BYTES, value.data, value.bytes);
    return span_of(room, FRAME_CHUNK_PREFIX_BYTES + value.bytes);
}

size_t speech_batch(struct feed *feed, const struct speaker *speaker, uint64_t number,
                    uint8_t out[SPEECH_BATCH_BYTES_MAX], uint32_t *out_frames)
{
    uint32_t count = feed_byte(feed) % FRAMES_MAX + 1;
    size_t at = BATCH_HEADER_BYTES;
    uint64_t seq = speaker->seq;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t room[64];
        enum frame_kind kind = (enum frame_kind)(feed_byte(feed) % FRAME_KIND_COUNT);
        uint8_t beside = feed_byte(feed);
        struct frame frame = {.flags = (uint16_t)kind,
                              .delivery = 1,
                              .attempt = 1,
                              .topic = (uint32_t)number_of(feed, speaker, "topic", UINT32_MAX),
                              .seq = beside < USUAL ? seq++ : beside % 4,
                              .reply_to = beside % 8 == 5 ? beside / 8 % 4 : FRAME_NO_REPLY,
                              .value = value_of(feed, kind, room)};
        frame_write(out + at, &frame);
        at += frame_total(frame.value.bytes);
    }
    batch_header_write(out, count, (uint32_t)(at - BATCH_HEADER_BYTES), number);
    *out_frames = count;
    return at;
}
