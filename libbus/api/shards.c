/* SPDX-License-Identifier: MPL-2.0 */
/* shards.c -- the shards of a broker's store, and where their brokers are. */
#include "libbus/api/admin.h"
#include "libbus/api/endpoint.h"
#include "libbus/api/error.h"
#include "libbus/api/grow.h"
#include "libbus/api/model.h"
#include "libbus/base/key_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A row and its endpoint. */
struct shard {
    struct bus_shard public;
    char endpoint[KEY_TEXT_BYTES + 1 + LIMIT_ENDPOINT_BYTES + 1];
};

struct bus_shards {
    struct shard **rows;
    size_t count, room;
};

/* As a client needs it: all brokers have the key of the one that answers. */
static void write_endpoint(const struct endpoints *endpoints, struct span endpoint, char *out,
                           size_t room)
{
    static const char tcp[] = "tcp://";
    struct link_keys keys;
    char key[KEY_TEXT_BYTES + 1];
    bool is_tcp =
        endpoint.bytes > sizeof tcp - 1 && memcmp(endpoint.data, tcp, sizeof tcp - 1) == 0;
    int skipped = is_tcp ? (int)(sizeof tcp - 1) : 0;
    if (!is_tcp || !endpoints_keys(endpoints, &keys)) {
        (void)snprintf(out, room, "%.*s", (int)endpoint.bytes, (const char *)endpoint.data);
        return;
    }
    key_text_write(keys.server_key, KEY_PUBLIC, key);
    (void)snprintf(out, room, "%s%s@%.*s", tcp, key, (int)endpoint.bytes - skipped,
                   (const char *)endpoint.data + skipped);
    explicit_bzero(&keys, sizeof keys);
}

static enum bus_err take_shard(struct bus *bus, const struct msg *row, void *arg,
                               struct bus_error **reterr)
{
    struct bus_shards *shards = arg;
    if (row->type == MSG_SHARDS_END)
        return BUS_OK;
    struct shard **rows = api_grow(shards->rows, shards->count, &shards->room, sizeof *rows);
    struct shard *shard = rows != NULL ? malloc(sizeof *shard) : NULL;
    if (rows != NULL)
        shards->rows = rows;
    if (shard == NULL)
        return error_give(reterr, BUS_ENOMEM, &error_no_memory);
    write_endpoint(&bus->endpoints, row->as.shard_row.endpoint, shard->endpoint,
                   sizeof shard->endpoint);
    shard->public = (struct bus_shard){.number = (uint32_t)row->as.shard_row.shard,
                                       .endpoint = shard->endpoint,
                                       .is_here = row->as.shard_row.is_here != 0};
    shards->rows[shards->count++] = shard;
    return BUS_OK;
}

enum bus_err bus_shards_get(struct bus_admin *admin, int64_t timeout_ms,
                            struct bus_shards **out_shards, struct bus_error **reterr)
{
    struct admin_call call;
    const struct msg question = {.type = MSG_SHARDS};
    if (out_shards == NULL)
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "bus_shards_get() needs out_shards");
    enum bus_err err = admin_begin(admin, NULL, timeout_ms, &call, reterr);
    if (err != BUS_OK)
        return err;
    struct bus_shards *shards = calloc(1, sizeof *shards);
    if (shards == NULL)
        err = error_give(reterr, BUS_ENOMEM, &error_no_memory);
    else
        err = admin_ask(&call, &question, take_shard, shards, reterr);
    if (err == BUS_OK)
        *out_shards = shards;
    else
        bus_shards_free(&shards);
    admin_end(&call);
    return err;
}

size_t bus_shards_count(const struct bus_shards *shards)
{
    return shards != NULL ? shards->count : 0;
}

const struct bus_shard *bus_shards_at(const struct bus_shards *shards, size_t index)
{
    return shards != NULL && index < shards->count ? &shards->rows[index]->public : NULL;
}

void bus_shards_free(struct bus_shards **shards)
{
    if (shards == NULL || *shards == NULL)
        return;
    for (size_t i = 0; i < (*shards)->count; i++)
        free((*shards)->rows[i]);
    free((*shards)->rows);
    free(*shards);
    *shards = NULL;
}
