/* SPDX-License-Identifier: MPL-2.0 */
/* postgres_none.c -- the door to PostgreSQL of a build without libpq: it opens for nobody. */
#include "broker/journal/postgres_door.h"

#include <stdio.h>
#include <stdlib.h>

static bool none_connect(struct door *door, const char *conninfo, char *why)
{
    (void)door;
    (void)conninfo;
    snprintf(
        why, DOOR_WHY_BYTES,
        "this errbusd was built without libpq: install the package libpq-dev, and build again");
    return false;
}

static void none_disconnect(struct door *door)
{
    (void)door; /* it is never connected */
}

static void none_run(struct door *door, const struct door_statement *statements, size_t count,
                     struct door_answer *out)
{
    (void)statements;
    (void)count;
    *out = (struct door_answer){.verdict = DOOR_DOUBT};
    none_connect(door, "", out->why);
}

static size_t none_rows(const struct door_answer *answer)
{
    (void)answer;
    return 0;
}

static struct span none_field(const struct door_answer *answer, size_t row, unsigned column)
{
    (void)answer;
    (void)row;
    (void)column;
    return SPAN_NONE;
}

static void none_clear(struct door_answer *answer)
{
    answer->rows = NULL;
}

static void none_rest(struct door *door)
{
    (void)door; /* nothing would change */
}

static void none_close(struct door *door)
{
    free(door);
}

struct door *door_new(void)
{
    static const struct door_ops ops = {.connect = none_connect,
                                        .disconnect = none_disconnect,
                                        .run = none_run,
                                        .rows = none_rows,
                                        .field = none_field,
                                        .clear = none_clear,
                                        .rest = none_rest,
                                        .close = none_close};
    struct door *door = calloc(1, sizeof *door);
    if (door != NULL)
        door->ops = &ops;
    return door;
}
