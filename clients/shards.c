/* SPDX-License-Identifier: MPL-2.0 */
/* shards.c -- see shards.h. */
#include "clients/shards.h"

#include <stdlib.h>
#include <string.h>

/* A broker to which a handle is open. */
struct opened {
    uint32_t number;
    char *endpoint;
    struct bus_admin *admin;
};

struct shards {
    struct bus_admin *first;
    struct bus_shards *list;
    struct opened *opened; /* one place for each row of the list */
    size_t count;          /* of places */
};

static void close_opened(struct opened *opened)
{
    bus_admin_close(&opened->admin);
    free(opened->endpoint);
    *opened = (struct opened){0};
}

static void close_all(struct shards *shards)
{
    for (size_t i = 0; i < shards->count; i++) {
        close_opened(&shards->opened[i]);
    }
    free(shards->opened);
    shards->opened = NULL;
    shards->count = 0;
}

struct shards *shards_new(struct bus_admin *admin)
{
    struct shards *shards = calloc(1, sizeof *shards);
    if (shards != NULL) {
        shards->first = admin;
    }
    return shards;
}

void shards_free(struct shards **shards)
{
    if (*shards == NULL) {
        return;
    }
    close_all(*shards);
    bus_shards_free(&(*shards)->list);
    free(*shards);
    *shards = NULL;
}

/* ---- who there is ---------------------------------------------------------------------------- */

/* Takes the handle to this broker out of the places before, if there is one. */
static void keep_opened(struct shards *shards, const struct bus_shard *row, struct opened *out)
{
    for (size_t i = 0; i < shards->count; i++) {
        struct opened *old = &shards->opened[i];
        if (old->admin != NULL && old->number == row->number &&
            strcmp(old->endpoint, row->endpoint) == 0) {
            *out = *old;
            *old = (struct opened){0};
        }
    }
}

enum bus_err shards_look(struct shards *shards, int64_t timeout_ms, struct bus_error **reterr)
{
    struct bus_shards *list = NULL;
    enum bus_err err = bus_shards_get(shards->first, timeout_ms, &list, reterr);
    if (err != BUS_OK) {
        return err;
    }
    size_t count = bus_shards_count(list);
    struct opened *opened = calloc(count + 1, sizeof *opened);
    if (opened == NULL) {
        bus_shards_free(&list);
        return BUS_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        keep_opened(shards, bus_shards_at(list, i), &opened[i]);
    }
    close_all(shards);
    bus_shards_free(&shards->list);
    shards->list = list;
    shards->opened = opened;
    shards->count = count;
    return BUS_OK;
}

bool shards_are_several(const struct shards *shards)
{
    return shards->count > 1;
}

size_t shards_count(const struct shards *shards)
{
    return shards->count > 0 ? shards->count : 1;
}

struct shards_row shards_at(const struct shards *shards, size_t index)
{
    const struct bus_shard *row = bus_shards_at(shards->list, index);
    return row != NULL ? (struct shards_row){row->number, row->endpoint}
                       : (struct shards_row){0, ""};
}

/* ---- handles --------------------------------------------------------------------------------- */

enum bus_err shards_open(struct shards *shards, size_t index,
                         const struct bus_admin_options *options, int64_t timeout_ms,
                         struct bus_admin **out_admin, struct bus_error **reterr)
{
    const struct bus_shard *row = bus_shards_at(shards->list, index);
    struct opened *opened = row != NULL ? &shards->opened[index] : NULL;
    if (row == NULL || row->is_here) {
        *out_admin = shards->first;
        return BUS_OK;
    }
    if (opened->admin == NULL) {
        char *endpoint = strdup(row->endpoint);
        if (endpoint == NULL) {
            return BUS_ENOMEM;
        }
        enum bus_err err =
            bus_admin_open(row->endpoint, options, timeout_ms, &opened->admin, reterr);
        if (err != BUS_OK) {
            free(endpoint);
            return err;
        }
        opened->number = row->number;
        opened->endpoint = endpoint;
    }
    *out_admin = opened->admin;
    return BUS_OK;
}

void shards_drop(struct shards *shards, size_t index)
{
    if (index < shards->count) {
        close_opened(&shards->opened[index]);
    }
}
