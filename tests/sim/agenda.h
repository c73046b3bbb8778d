/* SPDX-License-Identifier: MPL-2.0 */
/* agenda.h -- what happens when: a heap of moments, those of the same time in the order in which
 * they were put down. */
#ifndef SIM_AGENDA_H
#define SIM_AGENDA_H

#include <stdbool.h>
#include <stdint.h>

struct moment {
    int64_t at_ns;
    uint64_t order;
    uint32_t what; /* for whoever put it down */
    uint32_t who;
    uint64_t value;
};

struct agenda {
    struct moment *moments; /* a heap, the earliest first */
    uint32_t count, room;
    uint64_t order;
};

void agenda_fini(struct agenda *agenda);
void agenda_put(struct agenda *agenda, int64_t at_ns, uint32_t what, uint32_t who, uint64_t value);
/* INT64_MAX: nothing is put down. */
int64_t agenda_next_ns(const struct agenda *agenda);
bool agenda_take(struct agenda *agenda, struct moment *out_moment);

#endif
