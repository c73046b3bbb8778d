/* SPDX-License-Identifier: MPL-2.0 */
/* error_list.c -- see error_list.h. */
#include "clients/error_list.h"

#include "clients/cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define IDS_ROOM_FIRST 64

/* ---- ids --------------------------------------------------------------------------------------*/

/* FNV-1a, 64 bits: http://www.isthe.com/chongo/tech/comp/fnv/ */
static uint64_t hash_of(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *text != '\0'; text++) {
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* The place of the id in the table, or the free place for it. */
static char **place_of(char **texts, size_t room, const char *id)
{
    size_t at = (size_t)hash_of(id) & (room - 1);
    while (texts[at] != NULL && strcmp(texts[at], id) != 0) {
        at = (at + 1) & (room - 1);
    }
    return &texts[at];
}

static bool grow(struct error_ids *ids)
{
    size_t room = ids->room > 0 ? ids->room * 2 : IDS_ROOM_FIRST;
    char **texts = calloc(room, sizeof *texts);
    if (texts == NULL) {
        return false;
    }
    for (size_t i = 0; i < ids->room; i++) {
        if (ids->texts[i] != NULL) {
            *place_of(texts, room, ids->texts[i]) = ids->texts[i];
        }
    }
    free(ids->texts);
    ids->texts = texts;
    ids->room = room;
    return true;
}

bool error_ids_add(struct error_ids *ids, const char *id, bool *out_is_short)
{
    *out_is_short = false;
    if (id[0] == '\0') {
        return true;
    }
    if (ids->count * 2 >= ids->room && !grow(ids)) {
        *out_is_short = true;
        return false;
    }
    char **place = place_of(ids->texts, ids->room, id);
    if (*place != NULL) {
        return false;
    }
    *place = strdup(id);
    *out_is_short = *place == NULL;
    ids->count += *place != NULL;
    return *place != NULL;
}

void error_ids_fini(struct error_ids *ids)
{
    for (size_t i = 0; i < ids->room; i++) {
        free(ids->texts[i]);
    }
    free(ids->texts);
    *ids = (struct error_ids){0};
}

/* ---- what stands behind one -------------------------------------------------------------------*/

/* Whether two errors are the same.  One failure may come as two objects, and a local error has no
 * id. */
static bool is_same(const struct bus_error *left, const struct bus_error *right)
{
    const char *id = bus_error_id(left);
    return left == right || (id[0] != '\0' && strcmp(id, bus_error_id(right)) == 0);
}

static bool has(const struct bus_error *const *list, size_t count, const struct bus_error *error)
{
    for (size_t i = 0; i < count; i++) {
        if (is_same(list[i], error)) {
            return true;
        }
    }
    return false;
}

size_t error_list_of(const struct bus_error *error, const struct bus_error *out[ERROR_LIST_MAX])
{
    size_t count = 1;
    out[0] = error;
    for (size_t at = 0; at < count; at++) {
        const struct bus_error *cause;
        for (size_t i = 0; (cause = bus_error_cause_at(out[at], i)) != NULL; i++) {
            if (count < ERROR_LIST_MAX && !has(out, count, cause)) {
                out[count++] = cause;
            }
        }
    }
    return count;
}

const struct bus_error *error_list_find(const struct bus_error *error, const char *id)
{
    const struct bus_error *list[ERROR_LIST_MAX];
    size_t count = error_list_of(error, list);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(bus_error_id(list[i]), id) == 0) {
            return list[i];
        }
    }
    return NULL;
}

/* ---- told as one ------------------------------------------------------------------------------*/

/* Reads the number at the end of an id, and the length of the text before it; false: there is no
 * number. */
static bool read_number(const char *id, size_t *out_prefix_bytes, uint64_t *out_number)
{
    const char *slash = strrchr(id, '/');
    char *end = NULL;
    if (slash == NULL || slash[1] < '0' || slash[1] > '9') {
        return false;
    }
    *out_prefix_bytes = (size_t)(slash + 1 - id);
    *out_number = strtoull(slash + 1, &end, 10);
    return *end == '\0';
}

bool error_id_is_within(const char *id, const char *first, const char *last)
{
    size_t bytes[3];
    uint64_t numbers[3];
    return read_number(first, &bytes[0], &numbers[0]) && read_number(id, &bytes[1], &numbers[1]) &&
           read_number(last, &bytes[2], &numbers[2]) && bytes[0] == bytes[1] &&
           bytes[1] == bytes[2] && strncmp(id, first, bytes[0]) == 0 &&
           strncmp(id, last, bytes[0]) == 0 && numbers[0] <= numbers[1] && numbers[1] <= numbers[2];
}

void error_count_print(FILE *out, uint64_t count, const char *first, const char *last)
{
    if (count > 0 && first[0] == '\0') {
        fprintf(out, " (%" PRIu64 ")", count);
    } else if (count > 0) {
        fprintf(out, " (%" PRIu64 " alike, ", count);
        cli_print_text(out, first, "");
        fputs(" to ", out);
        cli_print_text(out, last, "");
        fputs(")", out);
    }
}
