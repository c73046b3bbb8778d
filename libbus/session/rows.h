/* SPDX-License-Identifier: MPL-2.0 */
/* rows.h -- a queue of encoded messages: events of a tap, or rows of an answer. */
#ifndef SESSION_ROWS_H
#define SESSION_ROWS_H

#include "libbus/base/memory.h"
#include "libbus/base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct row {
    struct row *next;
    size_t bytes;
    uint8_t data[];
};

struct rows {
    struct memory *memory;
    struct row *first;
    struct row *newest;
    struct row *taken; /* the row handed out last: it is valid until the next one is taken */
    uint32_t count;
    uint32_t count_max;
};

void rows_init(struct rows *rows, struct memory *memory, uint32_t count_max);
void rows_fini(struct rows *rows);
void rows_clear(struct rows *rows); /* keeps the row handed out last */
/* Copies a part; false: count_max is reached, or no memory. */
bool rows_push(struct rows *rows, struct span part);
/* The oldest, borrowed until the next call; false: none. */
bool rows_pop(struct rows *rows, struct span *out_part);

#endif
