/* SPDX-License-Identifier: MPL-2.0 */
/* agenda.c -- a binary heap; see agenda.h. */
#include "tests/sim/agenda.h"

#include "libbus/base/must.h"

#include <stdlib.h>

void agenda_fini(struct agenda *agenda)
{
    free(agenda->moments);
    *agenda = (struct agenda){0};
}

static bool is_before(const struct moment *a, const struct moment *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void swap(struct agenda *agenda, uint32_t a, uint32_t b)
{
    struct moment kept = agenda->moments[a];
    agenda->moments[a] = agenda->moments[b];
    agenda->moments[b] = kept;
}

void agenda_put(struct agenda *agenda, int64_t at_ns, uint32_t what, uint32_t who, uint64_t value)
{
    if (agenda->count == agenda->room) {
        agenda->room = agenda->room > 0 ? agenda->room * 2 : 256;
        agenda->moments = realloc(agenda->moments, agenda->room * sizeof *agenda->moments);
        must(agenda->moments != NULL);
    }
    uint32_t at = agenda->count++;
    agenda->moments[at] = (struct moment){
        .at_ns = at_ns, .order = agenda->order++, .what = what, .who = who, .value = value};
    for (; at > 0 && is_before(&agenda->moments[at], &agenda->moments[(at - 1) / 2]);
         at = (at - 1) / 2)
        swap(agenda, at, (at - 1) / 2);
}

int64_t agenda_next_ns(const struct agenda *agenda)
{
    return agenda->count > 0 ? agenda->moments[0].at_ns : INT64_MAX;
}

bool agenda_take(struct agenda *agenda, struct moment *out_moment)
{
    if (agenda->count == 0)
        return false;
    *out_moment = agenda->moments[0];
    agenda->moments[0] = agenda->moments[--agenda->count];
    for (uint32_t at = 0;;) {
        uint32_t least = at;
        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < agenda->count; child++)
            if (is_before(&agenda->moments[child], &agenda->moments[least]))
                least = child;
        if (least == at)
            break;
        swap(agenda, at, least);
        at = least;
    }
    return true;
}
