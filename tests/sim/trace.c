/* SPDX-License-Identifier: MPL-2.0 */
/* trace.c -- messages by the fields of messages.def, frames by their headers; see trace.h. */
#include "tests/sim/trace.h"

#include "libbus/wire/error.h"
#include "libbus/wire/frame.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

struct field_row {
    unsigned type; /* enum msg_type */
    enum { ROW_U64, ROW_I64, ROW_STR, ROW_BIN } shape;
    const char *name;
    size_t offset;
};
#define ROW(message, field, shape_is)                                                              \
    {.type = MSG_OF_##message,                                                                     \
     .shape = (shape_is),                                                                          \
     .name = #field,                                                                               \
     .offset = offsetof(struct msg, as.message.field)},
enum {
#define MESSAGE(upper, name, number, lane, direction, what) MSG_OF_##name = MSG_##upper,
#include "schemas/messages.def"
};
#define FIELD_U64(message, field, largest, what) ROW(message, field, ROW_U64)
#define FIELD_I64(message, field, smallest, what) ROW(message, field, ROW_I64)
#define FIELD_STR(message, field, shortest, longest, what) ROW(message, field, ROW_STR)
#define FIELD_BIN(message, field, shortest, longest, what) ROW(message, field, ROW_BIN)
static const struct field_row rows[] = {
#include "schemas/messages.def"
};

/* What is written so far, cut at the end of the room. */
struct words {
    char *text;
    size_t room;
    size_t at;
};

static void say(struct words *words, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct words *words, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int written = vsnprintf(words->text + words->at, words->room - words->at, format, args);
    va_end(args);
    if (written > 0)
        words->at += (size_t)written;
    if (words->at >= words->room)
        words->at = words->room - 1;
}

void trace_error(char *text, size_t room, struct span error)
{
    static struct error_record records[LIMIT_ERROR_RECORDS];
    struct words words = {.text = text, .room = room};
    uint32_t count = 0;
    text[0] = 0;
    enum wire_err err = error_decode(error, records, LIMIT_ERROR_RECORDS, &count);
    if (err != WIRE_OK) {
        say(&words, "no error object: %s", wire_strerror(err));
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        say(&words, "%s%.*s %s %.*s", i > 0 ? " < " : "", (int)records[i].id.bytes,
            (const char *)records[i].id.data, error_kind_name(records[i].kind),
            (int)records[i].type.bytes, (const char *)records[i].type.data);
}

static void say_field(struct words *words, const struct field_row *row, const struct msg *msg)
{
    const char *field = (const char *)msg + row->offset;
    const struct span *span = (const void *)field;
    char error[256];
    switch (row->shape) {
    case ROW_U64:
        say(words, " %s=%" PRIu64, row->name, *(const uint64_t *)(const void *)field);
        break;
    case ROW_I64:
        say(words, " %s=%" PRId64, row->name, *(const int64_t *)(const void *)field);
        break;
    case ROW_STR:
        say(words, " %s=%.*s", row->name, (int)span->bytes, (const char *)span->data);
        break;
    case ROW_BIN:
        if (span->bytes == 0)
            break;
        trace_error(error, sizeof error, *span);
        say(words, " %s={%s}", row->name, error);
        break;
    }
}

void trace_message(char *text, size_t room, struct span part, enum msg_lane lane,
                   enum msg_direction direction)
{
    struct words words = {.text = text, .room = room};
    struct msg msg;
    text[0] = 0;
    enum wire_err err = msg_decode(part, lane, direction, &msg, NULL);
    if (err != WIRE_OK) {
        say(&words, "no message: %s", wire_strerror(err));
        return;
    }
    say(&words, "%s", msg_name(msg.type));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].type == (unsigned)msg.type)
            say_field(&words, &rows[i], &msg);
}

static void say_frame(struct words *words, const struct frame *frame)
{
    static const char *const names[FRAME_KIND_COUNT] = {"value", "commit", "reserve", "chunk",
                                                        "error", "topic",  "gap",     "end"};
    enum frame_kind kind = (enum frame_kind)(frame->flags & FRAME_KIND_MASK);
    say(words, " %s %" PRIu32 ":%" PRIu64, kind < FRAME_KIND_COUNT ? names[kind] : "?",
        frame->topic, frame->seq);
    if (frame->more > 0)
        say(words, "..%" PRIu64, frame->seq + frame->more);
    char error[256];
    if (kind == FRAME_ERROR || (kind == FRAME_END && frame->value.bytes > 0)) {
        trace_error(error, sizeof error, frame->value);
        say(words, " {%s}", error);
    } else if (kind == FRAME_TOPIC) {
        say(words, " %.*s", (int)frame->value.bytes, (const char *)frame->value.data);
    } else {
        say(words, " (%zu)", frame->value.bytes);
    }
}

void trace_batch(char *text, size_t room, struct span part)
{
    struct words words = {.text = text, .room = room};
    struct batch_reader reader;
    struct frame frame;
    text[0] = 0;
    enum wire_err err = batch_reader_init(&reader, part);
    if (err == WIRE_OK) {
        say(&words, "batch %" PRIu64 "+%" PRIu32 ":", reader.number, reader.frames);
        while ((err = batch_reader_next(&reader, &frame)) == WIRE_OK)
            say_frame(&words, &frame);
    }
    if (err != WIRE_EMPTY)
        say(&words, " no batch: %s", wire_strerror(err));
}

const char *trace_code(unsigned code)
{
    switch (code) {
    case CODE_OK: return "OK";
#define CODE(upper, number, type, what)                                                            \
    case CODE_##upper:                                                                             \
        return #upper;
#include "schemas/errors.def"
#undef CODE
    default: return "?";
    }
}
