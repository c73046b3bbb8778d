/* SPDX-License-Identifier: MPL-2.0 */
/* rows.c -- see rows.h. */
#include "libbus/session/rows.h"

#include <string.h>

void rows_init(struct rows *rows, struct memory *memory, uint32_t count_max)
{
    *rows = (struct rows){.memory = memory, .count_max = count_max};
}

static void give(struct rows *rows, struct row **row)
{
    if (*row != NULL)
        memory_give(rows->memory, *row, sizeof **row + (*row)->bytes);
    *row = NULL;
}

void rows_clear(struct rows *rows)
{
    while (rows->first != NULL) {
        struct row *row = rows->first;
        rows->first = row->next;
        give(rows, &row);
    }
    rows->newest = NULL;
    rows->count = 0;
}

void rows_fini(struct rows *rows)
{
    rows_clear(rows);
    give(rows, &rows->taken);
}

bool rows_push(struct rows *rows, struct span part)
{
    if (rows->count == rows->count_max)
        return false;
    struct row *row = memory_take(rows->memory, sizeof *row + part.bytes);
    if (row == NULL)
        return false;
    row->bytes = part.bytes;
    memcpy(row->data, part.data, part.bytes);
    if (rows->newest != NULL)
        rows->newest->next = row;
    else
        rows->first = row;
    rows->newest = row;
    rows->count += 1;
    return true;
}

bool rows_pop(struct rows *rows, struct span *out_part)
{
    give(rows, &rows->taken);
    struct row *row = rows->first;
    if (row == NULL)
        return false;
    rows->first = row->next;
    if (rows->first == NULL)
        rows->newest = NULL;
    rows->count -= 1;
    rows->taken = row;
    *out_part = span_of(row->data, row->bytes);
    return true;
}
