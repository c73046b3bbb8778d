/* SPDX-License-Identifier: MPL-2.0 */
/* roster.c -- places and who waits for one; see roster.h. */
#include "broker/core/tables/roster.h"

#include "libbus/base/limits.h"
#include "libbus/base/must.h"

#include <string.h>

#define FIRST_ROOM 8

void roster_init(struct roster *roster, struct memory *memory)
{
    *roster = (struct roster){.memory = memory};
}

void roster_fini(struct roster *roster)
{
    memory_give(roster->memory, roster->places, roster->room * sizeof *roster->places);
    memory_give(roster->memory, roster->waiting, roster->room * sizeof *roster->waiting);
    *roster = (struct roster){.memory = roster->memory};
}

static bool roster_grow(struct roster *roster, uint32_t needed)
{
    if (needed <= roster->room)
        return true;
    uint32_t room = roster->room > 0 ? roster->room * 2 : FIRST_ROOM;
    if (room < needed)
        room = needed;
    struct roster_place *places = memory_take(roster->memory, room * sizeof *places);
    uint32_t *waiting = memory_take(roster->memory, room * sizeof *waiting);
    if (places == NULL || waiting == NULL) {
        memory_give(roster->memory, places, room * sizeof *places);
        memory_give(roster->memory, waiting, room * sizeof *waiting);
        return false;
    }
    if (roster->place_count > 0)
        memcpy(places, roster->places, roster->place_count * sizeof *places);
    if (roster->waiting_count > 0)
        memcpy(waiting, roster->waiting, roster->waiting_count * sizeof *waiting);
    memory_give(roster->memory, roster->places, roster->room * sizeof *places);
    memory_give(roster->memory, roster->waiting, roster->room * sizeof *waiting);
    roster->places = places;
    roster->waiting = waiting;
    roster->room = room;
    return true;
}

/* Whoever waits may get a place: both have room for all. */
bool roster_reserve(struct roster *roster)
{
    return roster_grow(roster, roster->place_count + roster->waiting_count + 1);
}

void roster_add(struct roster *roster, uint32_t party)
{
    must(party != 0 && roster->place_count + roster->waiting_count < roster->room);
    roster->waiting[roster->waiting_count++] = party;
}

static bool stop_waiting(struct roster *roster, uint32_t party)
{
    for (uint32_t i = 0; i < roster->waiting_count; i++) {
        if (roster->waiting[i] != party)
            continue;
        roster->waiting_count -= 1;
        memmove(roster->waiting + i, roster->waiting + i + 1,
                (roster->waiting_count - i) * sizeof *roster->waiting);
        return true;
    }
    return false;
}

static void make_hole(struct roster *roster, uint32_t rank)
{
    if (roster->places[rank].is_completed)
        roster->completed_count -= 1;
    roster->places[rank] = (struct roster_place){0};
    roster->hole_count += 1;
}

enum roster_role roster_role(const struct roster *roster, uint32_t party)
{
    uint32_t rank;
    for (uint32_t i = 0; i < roster->waiting_count; i++)
        if (roster->waiting[i] == party)
            return ROSTER_WAITS;
    return roster_rank(roster, party, &rank) ? ROSTER_HAS_PLACE : ROSTER_NONE;
}

bool roster_remove(struct roster *roster, uint32_t party)
{
    uint32_t rank;
    switch (roster_role(roster, party)) {
    case ROSTER_WAITS: return stop_waiting(roster, party);
    case ROSTER_HAS_PLACE:
        if (roster_rank(roster, party, &rank))
            make_hole(roster, rank);
        return true;
    case ROSTER_NONE: break;
    }
    return false;
}

bool roster_complete(struct roster *roster, uint32_t party)
{
    uint32_t rank;
    if (stop_waiting(roster, party) || !roster_rank(roster, party, &rank))
        return false;
    must(!roster->places[rank].is_completed); /* an incarnation completes once */
    roster->places[rank].is_completed = true;
    roster->completed_count += 1;
    return true;
}

static void fill(struct roster *roster, uint32_t rank)
{
    uint32_t party = roster->waiting[0];
    (void)stop_waiting(roster, party); /* it is there */
    roster->places[rank] = (struct roster_place){.party = party};
}

static void close_holes(struct roster *roster)
{
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < roster->place_count; rank++)
        if (roster->places[rank].party != 0)
            roster->places[count++] = roster->places[rank];
    roster->place_count = count;
    roster->hole_count = 0;
}

bool roster_seat(struct roster *roster, uint32_t max)
{
    bool is_changed = roster->hole_count > 0;
    for (uint32_t rank = 0; roster->hole_count > 0 && rank < roster->place_count; rank++) {
        if (roster->places[rank].party != 0 || roster->waiting_count == 0)
            continue;
        fill(roster, rank);
        roster->hole_count -= 1;
    }
    if (roster->hole_count > 0)
        close_holes(roster);
    while (roster->waiting_count > 0 && roster->place_count < max) {
        fill(roster, roster->place_count++);
        is_changed = true;
    }
    if (is_changed)
        roster->epoch += 1;
    return is_changed;
}

void roster_clear(struct roster *roster)
{
    roster->place_count = 0;
    roster->waiting_count = 0;
    roster->hole_count = 0;
    roster->completed_count = 0;
}

bool roster_rank(const struct roster *roster, uint32_t party, uint32_t *out_rank)
{
    for (uint32_t rank = 0; rank < roster->place_count; rank++) {
        if (roster->places[rank].party != party)
            continue;
        *out_rank = rank;
        return true;
    }
    return false;
}

/* ---- rebuilding ------------------------------------------------------------------------------ */

/* Ranks up to count, those that are new as holes; false: no memory. */
static bool stretch(struct roster *roster, uint32_t count)
{
    if (count > LIMIT_PARTIES || !roster_grow(roster, count + roster->waiting_count))
        return false;
    for (; roster->place_count < count; roster->place_count++) {
        roster->places[roster->place_count] = (struct roster_place){0};
        roster->hole_count += 1;
    }
    return true;
}

bool roster_place(struct roster *roster, uint32_t party, uint32_t rank, bool is_completed)
{
    uint32_t before;
    if (party == 0 || rank >= LIMIT_PARTIES || !stretch(roster, rank + 1))
        return false;
    if (roster->places[rank].party != 0)
        return roster->places[rank].party == party;
    if (roster_rank(roster, party, &before)) {
        is_completed = roster->places[before].is_completed;
        make_hole(roster, before);
    } else {
        (void)stop_waiting(roster, party); /* one that completed has not waited */
    }
    roster->hole_count -= 1;
    roster->places[rank] = (struct roster_place){.party = party, .is_completed = is_completed};
    roster->completed_count += is_completed;
    return true;
}

bool roster_begin(struct roster *roster, uint64_t epoch, uint32_t world_size)
{
    if (epoch <= roster->epoch || !stretch(roster, world_size))
        return false;
    for (uint32_t rank = world_size; rank < roster->place_count; rank++)
        if (roster->places[rank].party != 0)
            return false;
    roster->hole_count -= roster->place_count - world_size;
    roster->place_count = world_size;
    roster->epoch = epoch;
    return true;
}
