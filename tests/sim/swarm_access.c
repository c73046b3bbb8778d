/* SPDX-License-Identifier: MPL-2.0 */
/* swarm_access.c -- in one of six seeds the broker has an access table, and others come into force
 * at random moments: each leaves some parties out, and has its principals in another order.
 *
 * Whoever may take part may read all, so that the oracle knows what each must be sent.  What a
 * party without access may not have is checked by the world, at each step. */
#include "libbus/base/must.h"
#include "tests/sim/swarm_internal.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 1024 };

static const char names[SWARM_PARTIES] = {'a', 'b', 'c', 'd', 'e', 'f'};

/* is_in: bit by bit. */
static struct access *make_table(struct swarm *swarm, unsigned is_in)
{
    char text[TEXT_BYTES];
    struct access_fault fault;
    uint64_t first = dice_below(&swarm->access_dice, SWARM_PARTIES);
    int bytes = snprintf(text, sizeof text, "allow ops admin\nallow ops party as * in *\n");
    for (uint64_t i = 0; i < SWARM_PARTIES; i++) {
        uint64_t at = (first + i) % SWARM_PARTIES;
        bytes += snprintf(text + bytes, sizeof text - (size_t)bytes, "uid %c %u\n", names[at],
                          (unsigned)at + 1);
        if ((is_in & 1U << at) != 0)
            bytes += snprintf(text + bytes, sizeof text - (size_t)bytes, "allow %c party in *\n",
                              names[at]);
    }
    bytes += snprintf(text + bytes, sizeof text - (size_t)bytes, "uid ops 99\n");
    must(bytes < TEXT_BYTES);
    struct access *made = access_read(&swarm->access_memory, span_of(text, (size_t)bytes), &fault);
    must(made != NULL);
    return made;
}

void swarm_begin_access(struct swarm *swarm, uint64_t seed, struct core_options *options)
{
    dice_init(&swarm->access_dice, seed ^ UINT64_C(0x616363657373));
    memory_heap_init(&swarm->access_memory, UINT64_MAX);
    if (!dice_hits(&swarm->access_dice, 167))
        return;
    swarm->tables[swarm->table_count++] = make_table(swarm, ~0U);
    options->access = swarm->tables[0];
}

void swarm_plan_access(struct swarm *swarm)
{
    if (swarm->table_count == 0)
        return;
    for (int64_t i = dice_between(&swarm->access_dice, 1, SWARM_TABLES - 2); i > 0; i--)
        swarm_put_down(swarm, dice_between(&swarm->access_dice, 0, swarm->climate.active_ns),
                       SWARM_ACCESS, WORLD_NOBODY, 0);
}

void swarm_change_access(struct swarm *swarm, bool lets_all_in)
{
    if (swarm->table_count == 0 || swarm->table_count == SWARM_TABLES)
        return;
    unsigned is_in = ~0U;
    for (unsigned i = 0; i < SWARM_PARTIES && !lets_all_in; i++)
        if (dice_hits(&swarm->access_dice, 250))
            is_in &= ~(1U << i);
    struct access *made = make_table(swarm, is_in);
    swarm->tables[swarm->table_count++] = made;
    world_line(swarm->stage.world, "another access table lets in %x",
               is_in & ((1U << SWARM_PARTIES) - 1));
    world_use_access(swarm->stage.world, made);
}

void swarm_end_access(struct swarm *swarm)
{
    for (uint32_t i = 0; i < swarm->table_count; i++)
        access_free(&swarm->tables[i]);
}
