/* SPDX-License-Identifier: MPL-2.0 */
/* run_json.c -- JSON byte by byte: what is open, and up to where it could be closed. */
#include "clients/run_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARK_BYTES_MAX = 64 };

struct run_json {
    char out[RUN_JSON_BYTES_MAX];
    size_t count;
    size_t safe;                   /* up to here, everything but the containers is complete */
    char open[RUN_JSON_DEPTH_MAX]; /* the characters that close the open containers */
    size_t depth;
    bool is_key;    /* a string that begins now is a key */
    bool is_full;   /* no more is taken */
    bool is_string; /* within one */
    bool is_escape; /* the next byte belongs to an escape */
    size_t digits;  /* digits of \u that are still to come */
    size_t unit;    /* in out: where the current character begins */
    size_t string;  /* in out: where the string begins */
    size_t left_out;
    char tail[2 * RUN_JSON_STRING_MAX]; /* the end of what was left out */
    size_t tail_count;
};

struct run_json *run_json_new(void)
{
    return calloc(1, sizeof(struct run_json));
}

void run_json_free(struct run_json **json)
{
    free(*json);
    *json = NULL;
}

/* Writes bytes if there is room.  Room for all closing characters is kept. */
static void put(struct run_json *json, const char *bytes, size_t count)
{
    size_t kept = RUN_JSON_DEPTH_MAX + RUN_JSON_STRING_MAX + 2 * MARK_BYTES_MAX;
    if (json->is_full || json->count + count + kept > RUN_JSON_BYTES_MAX) {
        json->is_full = true;
        return;
    }
    memcpy(json->out + json->count, bytes, count);
    json->count += count;
}

/* Writes closing characters, for which room is kept. */
static void put_last(struct run_json *json, const char *bytes, size_t count)
{
    memcpy(json->out + json->count, bytes, count);
    json->count += count;
}

/* ---- strings ----------------------------------------------------------------------------------*/

static void keep_tail(struct run_json *json, char byte)
{
    if (json->tail_count == sizeof json->tail) {
        memmove(json->tail, json->tail + RUN_JSON_STRING_MAX, RUN_JSON_STRING_MAX);
        json->tail_count = RUN_JSON_STRING_MAX;
    }
    json->tail[json->tail_count++] = byte;
    json->left_out += 1;
}

/* Finds the beginning of a line in the tail, behind a \n.  An odd number of backslashes makes it an
 * escape. */
static size_t find_line(const struct run_json *json)
{
    size_t at = json->tail_count > RUN_JSON_STRING_MAX ? json->tail_count - RUN_JSON_STRING_MAX : 0;
    for (size_t slashes = 0; at < json->tail_count; at++) {
        if (json->tail[at] == 'n' && slashes % 2 == 1 && at > slashes) {
            return at + 1;
        }
        slashes = json->tail[at] == '\\' ? slashes + 1 : 0;
    }
    return json->tail_count;
}

static bool is_high_surrogate(const struct run_json *json, size_t at)
{
    const char *text = json->out + at;
    return at >= json->string && json->count - at >= 6 && memcmp(text, "\\u", 2) == 0 &&
           (text[2] == 'd' || text[2] == 'D') && text[3] != '\0' &&
           strchr("89abAB", text[3]) != NULL;
}

/* Removes half a character, or half a surrogate pair, at the end of the string. */
static void drop_half(struct run_json *json)
{
    if (json->is_escape || json->digits > 0) {
        json->count = json->unit;
    }
    size_t back = json->count;
    while (back > json->string && ((unsigned char)json->out[back - 1] & 0xc0) == 0x80) {
        back -= 1;
    }
    if (back > json->string && (unsigned char)json->out[back - 1] >= 0xc0) {
        json->count = back - 1; /* it may have been whole; one character is lost */
    }
    if (json->count >= json->string + 6 && is_high_surrogate(json, json->count - 6)) {
        json->count -= 6;
    }
}

static void end_string(struct run_json *json, bool is_torn)
{
    char mark[MARK_BYTES_MAX];
    if (json->left_out > 0) {
        size_t line = is_torn ? json->tail_count : find_line(json);
        size_t cut = json->left_out - (json->tail_count - line);
        int bytes = snprintf(mark, sizeof mark, " [... %zu bytes cut ...]\\n", cut);
        put_last(json, mark, (size_t)bytes);
        put_last(json, json->tail + line, json->tail_count - line);
    }
    put_last(json, "\"", 1);
    json->is_string = false;
    json->is_escape = false;
    json->digits = 0;
    if (!json->is_key) {
        json->safe = json->count;
    }
}

static void in_string(struct run_json *json, char byte)
{
    bool is_unit = !json->is_escape && json->digits == 0;
    if (is_unit && byte == '"') {
        end_string(json, false);
        return;
    }
    if (is_unit && json->left_out == 0 && json->count - json->string >= RUN_JSON_STRING_MAX) {
        drop_half(json); /* the rest of the string is left out */
        keep_tail(json, byte);
    } else if (json->left_out > 0) {
        keep_tail(json, byte);
    } else {
        json->unit = is_unit ? json->count : json->unit;
        put(json, &byte, 1);
    }
    if (json->digits > 0) {
        json->digits -= 1;
    } else if (json->is_escape) {
        json->is_escape = false;
        json->digits = byte == 'u' ? 4 : 0;
    } else {
        json->is_escape = byte == '\\';
    }
}

/* ---- between them -----------------------------------------------------------------------------*/

static bool is_object(const struct run_json *json)
{
    return json->depth > 0 && json->open[json->depth - 1] == '}';
}

static void begin_string(struct run_json *json)
{
    put(json, "\"", 1);
    json->is_string = true;
    json->string = json->unit = json->count;
    json->left_out = 0;
    json->tail_count = 0;
}

static void begin_container(struct run_json *json, char byte)
{
    if (json->depth == RUN_JSON_DEPTH_MAX) {
        json->is_full = true;
        return;
    }
    put(json, &byte, 1);
    json->open[json->depth++] = byte == '{' ? '}' : ']';
    json->is_key = byte == '{';
    json->safe = json->count;
}

static void between(struct run_json *json, char byte)
{
    switch (byte) {
    case ' ':
    case '\t':
    case '\r':
    case '\n': return; /* JSON has no newline in a string */
    case '"': begin_string(json); return;
    case '{':
    case '[': begin_container(json, byte); return;
    case '}':
    case ']':
        put(json, &byte, 1);
        json->depth -= json->depth > 0;
        json->is_key = false;
        json->safe = json->count;
        return;
    case ',':
        json->safe = json->count;
        json->is_key = is_object(json);
        put(json, &byte, 1);
        return;
    case ':':
        json->is_key = false;
        put(json, &byte, 1);
        return;
    default: put(json, &byte, 1); return;
    }
}

bool run_json_feed(struct run_json *json, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count && !json->is_full; i++) {
        if (json->is_string) {
            in_string(json, bytes[i]);
        } else {
            between(json, bytes[i]);
        }
    }
    return !json->is_full;
}

const char *run_json_finish(struct run_json *json, size_t *out_bytes, bool *out_is_torn)
{
    *out_is_torn = json->is_string || json->depth > 0 || json->is_full;
    if (json->is_string && !json->is_key) {
        drop_half(json);
        end_string(json, true);
    } else if (*out_is_torn) {
        json->count = json->safe;
    }
    while (json->depth > 0) {
        put_last(json, &json->open[--json->depth], 1);
    }
    *out_bytes = json->count;
    return json->out;
}
