/* SPDX-License-Identifier: MPL-2.0 */
/* question.c -- see question.h. */
#include "clients/web/question.h"

#include <string.h>

/* Which arguments each kind takes; a '!' marks those that it needs. */
static const struct {
    const char *path;
    const char *job;
    const char *id;
    const char *name;
    const char *from;
} kinds[QUESTION_KINDS] = {
    [QUESTION_STATUS] = {"/api/status", "job", NULL, NULL, NULL},
    [QUESTION_WHY] = {"/api/why", "!job", NULL, NULL, NULL},
    [QUESTION_VERDICT] = {"/api/verdict", "!job", NULL, NULL, NULL},
    [QUESTION_EVENTS] = {"/api/events", "!job", NULL, NULL, "from"},
    [QUESTION_ERROR] = {"/api/error", "!job", "!id", NULL, NULL},
    [QUESTION_ATTACHMENT] = {"/api/attachment", "!job", "!id", "!name", NULL},
    [QUESTION_STREAM] = {"/api/stream", "!job", NULL, NULL, "from"},
};

static int digit_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

bool question_decode(const char *text, char *out, size_t room)
{
    size_t bytes = 0;
    for (; *text != '\0'; text++) {
        int c = (unsigned char)*text;
        if (c == '%') {
            int high = digit_of(text[1]);
            int low = high >= 0 ? digit_of(text[2]) : -1;
            c = low >= 0 ? high * 16 + low : 0;
        }
        if (c == 0 || bytes + 1 >= room) {
            return false;
        }
        text += *text == '%' ? 2 : 0;
        out[bytes++] = (char)c;
    }
    out[bytes] = '\0';
    return true;
}

bool question_number(const char *text, uint64_t *out)
{
    uint64_t number = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (number > (UINT64_MAX - digit) / 10) {
            return false;
        }
        number = number * 10 + digit;
    }
    *out = number;
    return at != text && *at == '\0';
}

/* Reads one argument, where `wanted` says that there may or must be one.  false: it is missing, or
 * not well formed. */
static bool read_text(const char *wanted, question_argument_fn *argument, void *arg, char *out,
                      size_t room)
{
    if (wanted == NULL) {
        return true;
    }
    bool is_needed = wanted[0] == '!';
    const char *text = argument(arg, wanted + (is_needed ? 1 : 0));
    if (text == NULL) {
        return !is_needed;
    }
    return question_decode(text, out, room) && (out[0] != '\0' || !is_needed);
}

enum question_fault question_read(const char *path, question_argument_fn *argument, void *arg,
                                  struct question *out, const char **out_why)
{
    struct question question = {.from = 0};
    int kind = 0;
    while (kind < QUESTION_KINDS && strcmp(path, kinds[kind].path) != 0) {
        kind++;
    }
    if (kind == QUESTION_KINDS) {
        return QUESTION_NO_PATH;
    }
    question.kind = (enum question_kind)kind;
    if (!read_text(kinds[kind].job, argument, arg, question.job, sizeof question.job)) {
        *out_why = "job=NAME is needed: the name of a job\n";
        return QUESTION_MALFORMED;
    }
    if (!read_text(kinds[kind].id, argument, arg, question.id, sizeof question.id)) {
        *out_why = "id=ID is needed: the id of an error\n";
        return QUESTION_MALFORMED;
    }
    if (!read_text(kinds[kind].name, argument, arg, question.name, sizeof question.name)) {
        *out_why = "name=NAME is needed: the name of an attachment\n";
        return QUESTION_MALFORMED;
    }
    const char *from = kinds[kind].from != NULL ? argument(arg, kinds[kind].from) : NULL;
    if (from != NULL && !question_number(from, &question.from)) {
        *out_why = "from=ID takes the id of an event, a whole number\n";
        return QUESTION_MALFORMED;
    }
    *out = question;
    return QUESTION_OK;
}

bool question_is_same(const struct question *left, const struct question *right)
{
    return left->kind == right->kind && left->from == right->from &&
           strcmp(left->job, right->job) == 0 && strcmp(left->id, right->id) == 0 &&
           strcmp(left->name, right->name) == 0;
}
