/* SPDX-License-Identifier: MPL-2.0 */
/* cli_json.c -- JSON for the programs, over jansson, which is included here and nowhere else.
 *
 * A failed allocation leaves a member out and is remembered nowhere: such a process is about to
 * fail anyway, and a line that could not be built at all makes cli_json_print() say so. */
#include "clients/cli.h"

#include <bus/seal.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define CAUSES_DEPTH_MAX 32 /* of nested causes; the root is always shown too */

/* ---- base64, RFC 4648 section 4 ---------------------------------------------------------------*/

size_t cli_base64_bytes(size_t bytes)
{
    return (bytes + 2) / 3 * 4;
}

void cli_base64(const void *value, size_t bytes, char *text)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *at = value;
    for (; bytes >= 3; bytes -= 3, at += 3) {
        *text++ = digits[at[0] >> 2];
        *text++ = digits[(at[0] & 0x03) << 4 | at[1] >> 4];
        *text++ = digits[(at[1] & 0x0f) << 2 | at[2] >> 6];
        *text++ = digits[at[2] & 0x3f];
    }
    if (bytes > 0) {
        unsigned second = bytes == 2 ? at[1] : 0;
        *text++ = digits[at[0] >> 2];
        *text++ = digits[(at[0] & 0x03u) << 4 | second >> 4];
        *text++ = bytes == 2 ? digits[(second & 0x0f) << 2] : '=';
        *text++ = '=';
    }
    *text = '\0';
}

/* ---- building ---------------------------------------------------------------------------------*/

static json_t *as_json(struct cli_json *json)
{
    return (json_t *)json;
}

struct cli_json *cli_json_new(void)
{
    return (struct cli_json *)json_object();
}

/* Sets a member.  jansson takes value over, and frees it on failure. */
static void set(struct cli_json *object, const char *key, json_t *value)
{
    (void)json_object_set_new(as_json(object), key, value);
}

/* Makes a string.  If text is not UTF-8, '?' replaces each byte that is not ASCII. */
static json_t *make_text(const char *text)
{
    if (text == NULL) {
        return json_null();
    }
    json_t *string = json_string(text);
    if (string != NULL) {
        return string;
    }
    char *copy = strdup(text);
    for (char *at = copy; at != NULL && *at != '\0'; at++) {
        if ((unsigned char)*at >= 0x80) {
            *at = '?';
        }
    }
    string = copy != NULL ? json_string(copy) : NULL;
    free(copy);
    return string;
}

void cli_json_text(struct cli_json *object, const char *key, const char *text)
{
    set(object, key, make_text(text));
}

void cli_json_number(struct cli_json *object, const char *key, int64_t number)
{
    set(object, key, json_integer(number));
}

void cli_json_null(struct cli_json *object, const char *key)
{
    set(object, key, json_null());
}

void cli_json_bool(struct cli_json *object, const char *key, bool yes)
{
    set(object, key, json_boolean(yes));
}

void cli_json_time(struct cli_json *object, const char *key, int64_t at_ns)
{
    char text[CLI_TIME_BYTES_MAX];
    if (at_ns == 0) {
        cli_json_null(object, key);
        return;
    }
    cli_time_text(at_ns, text);
    cli_json_text(object, key, text);
}

void cli_json_value(struct cli_json *object, const char *key, const void *value, size_t bytes)
{
    json_t *string = json_stringn(value, bytes); /* NULL if it is not UTF-8 */
    if (string != NULL) {
        set(object, key, string);
        return;
    }
    char *text = malloc(cli_base64_bytes(bytes) + 1);
    if (text == NULL) {
        return;
    }
    cli_base64(value, bytes, text);
    cli_json_text(object, key, text);
    cli_json_text(object, "encoding", "base64");
    free(text);
}

struct cli_json *cli_json_array(struct cli_json *object, const char *key)
{
    json_t *array = json_array();
    set(object, key, array);
    return (struct cli_json *)json_object_get(as_json(object), key);
}

struct cli_json *cli_json_append(struct cli_json *array)
{
    (void)json_array_append_new(as_json(array), json_object());
    size_t count = json_array_size(as_json(array));
    return count > 0 ? (struct cli_json *)json_array_get(as_json(array), count - 1) : NULL;
}

struct cli_json *cli_json_object(struct cli_json *object, const char *key)
{
    set(object, key, json_object());
    return cli_json_find_object(object, key);
}

bool cli_json_print(struct cli_json **object, FILE *file)
{
    bool is_printed =
        json_dumpf(as_json(*object), file, JSON_COMPACT) == 0 && fputc('\n', file) != EOF;
    json_decref(as_json(*object));
    *object = NULL;
    return is_printed;
}

/* ---- lines ------------------------------------------------------------------------------------*/

struct cli_line cli_line_begin(FILE *out)
{
    fputc('{', out);
    return (struct cli_line){.out = out};
}

static void put_key(struct cli_line *line, const char *key)
{
    fputs(line->has_members ? ",\"" : "\"", line->out);
    fputs(key, line->out);
    fputs("\":", line->out);
    line->has_members = true;
}

/* Whether a string of JSON has this text as it is. */
static bool is_plain(const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < ' ' || c >= 0x80 || c == '"' || c == '\\') {
            return false;
        }
    }
    return true;
}

void cli_line_text(struct cli_line *line, const char *key, const char *text)
{
    put_key(line, key);
    if (text != NULL && is_plain(text)) {
        fputc('"', line->out);
        fputs(text, line->out);
        fputc('"', line->out);
        return;
    }
    json_t *string = make_text(text);
    (void)json_dumpf(string, line->out, JSON_ENCODE_ANY | JSON_COMPACT);
    json_decref(string);
}

void cli_line_number(struct cli_line *line, const char *key, int64_t number)
{
    put_key(line, key);
    fprintf(line->out, "%" PRId64, number);
}

void cli_line_end(struct cli_line *line)
{
    fputs("}\n", line->out);
}

/* ---- reading ----------------------------------------------------------------------------------*/

struct cli_json *cli_json_read(const char *text, size_t bytes, char problem[CLI_PROBLEM_BYTES_MAX])
{
    json_error_t error;
    json_t *json = json_loadb(text, bytes, 0, &error);
    if (json == NULL) {
        (void)snprintf(problem, CLI_PROBLEM_BYTES_MAX, "line %d: %s", error.line, error.text);
    } else if (!json_is_object(json)) {
        (void)snprintf(problem, CLI_PROBLEM_BYTES_MAX, "no JSON object");
        json_decref(json);
        json = NULL;
    }
    return (struct cli_json *)json;
}

void cli_json_free(struct cli_json **object)
{
    json_decref(as_json(*object));
    *object = NULL;
}

static json_t *find(const struct cli_json *object, const char *key)
{
    return json_object_get((const json_t *)object, key);
}

const char *cli_json_find_text(const struct cli_json *object, const char *key)
{
    return json_string_value(find(object, key));
}

bool cli_json_find_number(const struct cli_json *object, const char *key, int64_t *out_number)
{
    const json_t *json = find(object, key);
    if (!json_is_integer(json)) {
        return false;
    }
    *out_number = json_integer_value(json);
    return true;
}

bool cli_json_find_bool(const struct cli_json *object, const char *key, bool *out_yes)
{
    const json_t *json = find(object, key);
    if (!json_is_boolean(json)) {
        return false;
    }
    *out_yes = json_is_true(json);
    return true;
}

struct cli_json *cli_json_find_object(const struct cli_json *object, const char *key)
{
    json_t *json = find(object, key);
    return json_is_object(json) ? (struct cli_json *)json : NULL;
}

struct cli_json *cli_json_find_array(const struct cli_json *object, const char *key)
{
    json_t *json = find(object, key);
    return json_is_array(json) ? (struct cli_json *)json : NULL;
}

bool cli_json_has(const struct cli_json *object, const char *key)
{
    const json_t *json = find(object, key);
    return json != NULL && !json_is_null(json);
}

struct cli_json *cli_json_object_at(const struct cli_json *array, size_t index)
{
    json_t *json = json_array_get((const json_t *)array, index);
    return json_is_object(json) ? (struct cli_json *)json : NULL;
}

const char *cli_json_text_at(const struct cli_json *array, size_t index)
{
    return json_string_value(json_array_get((const json_t *)array, index));
}

size_t cli_json_count(const struct cli_json *array)
{
    return json_array_size((const json_t *)array);
}

/* ---- errors -----------------------------------------------------------------------------------*/

/* Adds the incarnation of the party, and where it ran, as far as known. */
static void add_process(struct cli_json *object, const struct bus_error *error)
{
    if (bus_error_incarnation(error) != 0) {
        cli_json_number(object, "incarnation", bus_error_incarnation(error));
    }
    if (bus_error_attempt(error) != 0) {
        cli_json_number(object, "attempt", bus_error_attempt(error));
    }
    if (bus_error_host(error)[0] != '\0') {
        cli_json_text(object, "host", bus_error_host(error));
    }
    if (bus_error_pid(error) != 0) {
        cli_json_number(object, "pid", bus_error_pid(error));
    }
}

/* Adds how the process ended, and the members that only some errors have. */
static void add_end(struct cli_json *object, const struct bus_error *error)
{
    if (bus_error_exit_code(error) >= 0) {
        cli_json_number(object, "exit_code", bus_error_exit_code(error));
    }
    if (bus_error_signal(error) > 0) {
        cli_json_number(object, "signal", bus_error_signal(error));
    }
    if (bus_error_trace_id(error)[0] != '\0') {
        cli_json_text(object, "trace_id", bus_error_trace_id(error));
    }
    if (bus_error_is_cut(error) != 0) {
        cli_json_bool(object, "cut", true);
    }
    if (bus_error_causes_left_out(error) > 0) {
        cli_json_number(object, "causes_left_out", bus_error_causes_left_out(error));
    }
}

/* Adds the blamed parties: one name, and a list if there are several. */
static void add_blames(struct cli_json *object, const struct bus_error *error)
{
    if (bus_error_blame(error)[0] != '\0') {
        cli_json_text(object, "blame", bus_error_blame(error));
    }
    if (bus_error_blame_at(error, 1) == NULL) {
        return;
    }
    struct cli_json *blames = cli_json_array(object, "blames");
    for (size_t i = 0; bus_error_blame_at(error, i) != NULL; i++) {
        (void)json_array_append_new(as_json(blames), json_string(bus_error_blame_at(error, i)));
    }
}

/* Adds the wall time, and the time on the broker's clock, by which errors are compared. */
static void add_time(struct cli_json *object, const struct bus_error *error)
{
    uint64_t uncertainty_ns = 0;
    int64_t broker_ns = bus_error_broker_ns(error, &uncertainty_ns);
    cli_json_time(object, "occurred_at", bus_error_occurred_ns(error));
    if (broker_ns != 0 && uncertainty_ns <= INT64_MAX) {
        cli_json_number(object, "broker_ns", broker_ns);
        cli_json_number(object, "uncertainty_ns", (int64_t)uncertainty_ns);
    }
}

/* Adds the attachments that the error names.  "errors show" says how much of them is there. */
static void add_attachments(struct cli_json *object, const struct bus_error *error)
{
    const char *name;
    int64_t bytes = -1;
    if (bus_error_attachment_at(error, 0, NULL) == NULL) {
        return;
    }
    struct cli_json *list = cli_json_array(object, "attachments");
    for (size_t i = 0; (name = bus_error_attachment_at(error, i, &bytes)) != NULL; i++) {
        struct cli_json *one = cli_json_append(list);
        cli_json_text(one, "name", name);
        if (bytes >= 0) {
            cli_json_number(one, "bytes", bytes);
        }
    }
}

/* An error without its causes. */
static struct cli_json *make_error_alone(const struct bus_error *error)
{
    struct cli_json *object = cli_json_new();
    uint64_t seq = 0;
    const char *topic = bus_error_topic(error, &seq);
    int recoverable = bus_error_recoverable(error);

    cli_json_text(object, "id", bus_error_id(error));
    cli_json_text(object, "kind", bus_error_kind(error));
    cli_json_text(object, "type", bus_error_type(error));
    cli_json_text(object, "message", bus_error_message(error));
    cli_json_text(object, "origin", bus_error_is_system(error) ? "system" : "user");
    cli_json_text(object, "party", bus_error_party(error));
    if (bus_error_claimed_by(error)[0] != '\0') {
        cli_json_text(object, "claimed_by", bus_error_claimed_by(error));
    }
    add_process(object, error);
    cli_json_text(object, "topic", topic);
    if (topic != NULL) {
        cli_json_number(object, "seq", (int64_t)seq);
    } else {
        cli_json_null(object, "seq");
    }
    if (recoverable >= 0) {
        cli_json_bool(object, "recoverable", recoverable == 1);
    } else {
        cli_json_null(object, "recoverable");
    }
    if (bus_error_retry_after_ms(error) >= 0) {
        cli_json_number(object, "retry_after_ms", bus_error_retry_after_ms(error));
    }
    if (bus_error_code(error) != 0) {
        cli_json_number(object, "code", bus_error_code(error));
    }
    add_end(object, error);
    add_blames(object, error);
    if (bus_error_stacktrace(error)[0] != '\0') {
        cli_json_text(object, "stacktrace", bus_error_stacktrace(error));
    }
    if (bus_error_sealed_bytes(error) > 0) {
        cli_json_number(object, "sealed_bytes", (int64_t)bus_error_sealed_bytes(error));
        cli_json_text(object, "auditor", bus_error_auditor(error));
    }
    add_attachments(object, error);
    add_time(object, error);
    return object;
}

/* Adds the causes: the first one with its own causes, the others without.  So the line stays
 * bounded. */
static void add_causes(struct cli_json *object, const struct bus_error *error)
{
    for (size_t depth = 0; depth < CAUSES_DEPTH_MAX; depth++) {
        const struct bus_error *cause = bus_error_cause(error);
        if (cause == NULL) {
            cli_json_null(object, "cause");
            return;
        }
        if (bus_error_cause_at(error, 1) != NULL) {
            struct cli_json *causes = cli_json_array(object, "causes");
            for (size_t i = 0; bus_error_cause_at(error, i) != NULL; i++) {
                json_t *one = (json_t *)make_error_alone(bus_error_cause_at(error, i));
                (void)json_array_append_new(as_json(causes), one);
            }
        }
        struct cli_json *child = make_error_alone(cause);
        set(object, "cause", as_json(child));
        object = child;
        error = cause;
    }
}

struct cli_json *cli_json_of_error(const struct bus_error *error)
{
    struct cli_json *whole = make_error_alone(error);
    add_causes(whole, error);
    set(whole, "root", as_json(make_error_alone(bus_error_root(error))));
    return whole;
}

void cli_json_error(struct cli_json *object, const char *key, const struct bus_error *error)
{
    set(object, key, as_json(cli_json_of_error(error)));
}
