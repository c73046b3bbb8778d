/* SPDX-License-Identifier: MPL-2.0 */
/* error_walk.c -- over an error and its causes: finding one, describing all. */
#include "libbus/api/error_walk.h"

#include "libbus/api/error.h"
#include "libbus/api/model.h"
#include "libbus/base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool has(const struct error_walk *walk, const struct bus_error *error)
{
    for (uint32_t i = 0; i < walk->count; i++) {
        if (walk->items[i] == error)
            return true;
    }
    return false;
}

const struct bus_error *error_cause_within(const struct bus_error *error, uint32_t index,
                                           uint32_t causes_max)
{
    if (error->cause_count <= causes_max || index + 1 < causes_max)
        return error->causes[index];
    /* Only causes_max causes have room.  The last of them is the one that leads to the root, unless
     * an earlier one does. */
    uint32_t leads = 0;
    while (leads + 1 < error->cause_count && error->causes[leads]->root != error->root)
        leads++;
    return error->causes[leads > index ? leads : index];
}

void error_walk(struct error_walk *walk, const struct bus_error *error, uint32_t causes_max)
{
    walk->items[0] = error;
    walk->count = 1;
    for (uint32_t at = 0; at < walk->count; at++) {
        const struct bus_error *now = walk->items[at];
        for (uint32_t i = 0; i < now->cause_count && i < causes_max; i++) {
            if (walk->count == ERROR_WALK_MAX)
                return;
            const struct bus_error *cause = error_cause_within(now, i, causes_max);
            if (!has(walk, cause))
                walk->items[walk->count++] = cause;
        }
    }
}

const struct bus_error *bus_error_find(const struct bus_error *error, const char *kind_or_type)
{
    struct error_walk walk;
    if (error == NULL || kind_or_type == NULL)
        return NULL;
    error_walk(&walk, error, UINT32_MAX);
    for (uint32_t i = 0; i < walk.count; i++) {
        if (strcmp(bus_error_kind(walk.items[i]), kind_or_type) == 0 ||
            strcmp(walk.items[i]->type, kind_or_type) == 0)
            return walk.items[i];
    }
    return NULL;
}

/* Writes as many whole characters as fit, and counts all, as snprintf. */
struct writer {
    char *text;
    size_t room; /* without the NUL; shrinks to what was written once something did not fit */
    size_t written;
    size_t bytes; /* of all */
};

static void put_span(struct writer *writer, struct span text)
{
    size_t left = writer->room - writer->written;
    size_t fitting = text.bytes <= left ? text.bytes : utf8_cut(text.data, left);
    if (fitting > 0)
        memcpy(writer->text + writer->written, text.data, fitting);
    writer->written += fitting;
    writer->bytes += text.bytes;
    if (fitting < text.bytes)
        writer->room = writer->written;
}

static void put(struct writer *writer, const char *text)
{
    put_span(writer, span_text(text));
}

/* Writes text.  A character that would break the line or control a terminal becomes a blank. */
static void put_line(struct writer *writer, struct span text)
{
    size_t from = writer->written;
    put_span(writer, text);
    for (size_t at = from; at < writer->written; at++) {
        if ((unsigned char)writer->text[at] < 0x20 || writer->text[at] == 0x7f)
            writer->text[at] = ' ';
    }
}

static void put_name(struct writer *writer, const char *name)
{
    put_line(writer, span_text(name));
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

/* Without blanks at the end. */
static struct span trimmed(const char *text, size_t bytes)
{
    while (bytes > 0 && is_blank(text[bytes - 1]))
        bytes--;
    return span_of(text, bytes);
}

/* The last line of a message says what happened, as in a stack trace.  out_before: the lines before
 * it. */
static struct span last_line(const char *message, struct span *out_before)
{
    struct span whole = trimmed(message, strlen(message));
    size_t from = whole.bytes;
    while (from > 0 && message[from - 1] != '\n')
        from--;
    *out_before = trimmed(message, from);
    while (from < whole.bytes && is_blank(message[from]))
        from++;
    return span_of(message + from, whole.bytes - from);
}

/* The other lines of a message, each with this before it. */
static void put_before(struct writer *writer, struct span lines, const char *indent)
{
    const char *at = lines.data;
    size_t left = lines.bytes;
    while (left > 0) {
        const char *end = memchr(at, '\n', left);
        size_t bytes = end != NULL ? (size_t)(end - at) : left;
        struct span line = trimmed(at, bytes);
        if (line.bytes > 0) {
            put(writer, indent);
            put_line(writer, line);
        }
        at += bytes + (end != NULL);
        left -= bytes + (end != NULL);
    }
}

static void put_number(struct writer *writer, const char *before, uint64_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%s%" PRIu64, before, number);
    put(writer, text);
}

/* Whether the error never left this process: its message alone then tells people enough. */
static bool is_of_this_process(const struct bus_error *error)
{
    return strcmp(bus_error_kind(error), error_kind_name(ERROR_LOCAL)) == 0;
}

static void put_kind(struct writer *writer, const struct bus_error *error)
{
    put(writer, bus_error_kind(error));
    put(writer, " ");
    put_name(writer, error->type);
}

/* Whether the error is what the broker says to the reader itself, as an answer to a question.  Then
 * its message comes first.  A failure of a party begins with its kind. */
static bool is_said_to_reader(const struct bus_error *error)
{
    const char *kind = bus_error_kind(error);
    return strcmp(kind, error_kind_name(ERROR_REJECTED)) == 0 ||
           strcmp(kind, error_kind_name(ERROR_BROKER_LOST)) == 0 ||
           strcmp(kind, error_kind_name(ERROR_NOTICE)) == 0 ||
           (*bus_error_party(error) == '\0' &&
            strcmp(kind, error_kind_name(ERROR_APPLICATION)) != 0);
}

/* What stands in parentheses at the end: the kind unless it came first, and the id.  An error that
 * is of no party, or of one that was not let in, has an id too.  No history has that error, so the
 * id helps nobody. */
static void put_marks(struct writer *writer, const struct bus_error *error, bool has_kind)
{
    const char *id = bus_error_id(error);
    bool has_id =
        *id != '\0' && *bus_error_party(error) != '\0' && bus_error_incarnation(error) != 0;
    if (!has_kind && !has_id)
        return;
    put(writer, " (");
    if (has_kind)
        put_kind(writer, error);
    put(writer, has_kind && has_id ? ", " : "");
    put_name(writer, has_id ? id : "");
    put(writer, ")");
}

/* "alice: party_lost errbus.silent: no sign of life for 10000 ms [alice/grads#7]
 * (job/alice/1/2)", and "there is no job train (rejected errbus.no_job)".  A claim begins with
 * "bob says: ".  Returns the lines of the message that are still to be put. */
static struct span put_error(struct writer *writer, const struct bus_error *error)
{
    uint64_t seq = 0;
    struct span before;
    struct span line = last_line(error->message, &before);
    const char *topic = bus_error_topic(error, &seq);
    if (*bus_error_claimed_by(error) != '\0') {
        put_name(writer, bus_error_claimed_by(error));
        put(writer, " says: ");
    }
    if (*bus_error_party(error) != '\0') {
        put_name(writer, bus_error_party(error));
        put(writer, ": ");
    }
    bool is_local = is_of_this_process(error) && line.bytes > 0;
    bool is_kind_last = !is_local && line.bytes > 0 && is_said_to_reader(error);
    bool is_kind_first = !is_local && !is_kind_last;
    if (is_kind_first)
        put_kind(writer, error);
    if (line.bytes > 0) {
        put(writer, is_kind_first ? ": " : "");
        put_line(writer, line);
    }
    if (topic != NULL) {
        put(writer, " [");
        put_name(writer, topic);
        put_number(writer, "#", seq);
        put(writer, "]");
    }
    for (uint32_t i = 0; i < error->blame_count; i++) {
        put(writer, i == 0 ? " blames " : ", ");
        put_name(writer, error->blames[i]);
    }
    put_marks(writer, error, is_kind_last);
    if (error->left_out > 0) {
        put_number(writer, " [", error->left_out);
        put(writer, " causes left out]");
    }
    return before;
}

size_t bus_error_describe(const struct bus_error *error, char *text, size_t text_bytes)
{
    bool is_written = text != NULL && text_bytes > 0;
    struct writer writer = {.text = text, .room = is_written ? text_bytes - 1 : 0};
    struct error_walk walk = {.count = 0};
    if (error != NULL)
        error_walk(&walk, error, UINT32_MAX);
    for (uint32_t i = 0; i < walk.count; i++) {
        if (i > 0)
            put(&writer, "\n  because ");
        struct span before = put_error(&writer, walk.items[i]);
        if (walk.count > 1 && walk.items[i] == error->root)
            put(&writer, " <- root");
        put_before(&writer, before, i == 0 ? "\n    " : "\n      ");
    }
    if (is_written)
        text[writer.written] = '\0';
    return writer.bytes;
}
