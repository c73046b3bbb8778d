/* SPDX-License-Identifier: MPL-2.0 */
/* refused_addresses.c -- see refused_addresses.h. */
#include "broker/io/refused_addresses.h"

#include <string.h>

#define NS_PER_MS INT64_C(1000000)

/* Its place in the list; count: it is not there. */
static uint32_t find_address(const struct refused_addresses *refused, uint64_t address)
{
    uint32_t at = 0;
    while (at < refused->count && refused->items[at] != address)
        at++;
    return at;
}

/* Those whose time is over; they are the first ones. */
static uint32_t count_over(const struct refused_addresses *refused, int64_t now_ns)
{
    uint32_t over = 0;
    while (over < refused->count && refused->until_ns[over] <= now_ns)
        over++;
    return over;
}

static void remove_over(struct refused_addresses *refused, int64_t now_ns)
{
    uint32_t over = count_over(refused, now_ns);
    if (over == 0)
        return;
    refused->count -= over;
    memmove(refused->items, refused->items + over, refused->count * sizeof *refused->items);
    memmove(refused->until_ns, refused->until_ns + over,
            refused->count * sizeof *refused->until_ns);
    refused->has_changed = true;
}

void refused_addresses_add(struct refused_addresses *refused, uint64_t address, int64_t now_ns)
{
    remove_over(refused, now_ns);
    if (refused->count == LIMIT_REFUSED_ADDRESSES ||
        find_address(refused, address) < refused->count)
        return;
    refused->items[refused->count] = address;
    refused->until_ns[refused->count] = now_ns + LIMIT_REFUSED_ADDRESS_MS * NS_PER_MS;
    refused->count += 1;
    refused->total += 1;
    refused->last = address;
    refused->has_changed = true;
}

bool refused_addresses_has(const struct refused_addresses *refused, uint64_t address,
                           int64_t now_ns)
{
    uint32_t at = find_address(refused, address);
    return at < refused->count && refused->until_ns[at] > now_ns;
}

int64_t refused_addresses_due_ns(const struct refused_addresses *refused)
{
    return refused->count > 0 ? refused->until_ns[0] : INT64_MAX;
}

bool refused_addresses_take_change(struct refused_addresses *refused, int64_t now_ns)
{
    remove_over(refused, now_ns);
    bool has_changed = refused->has_changed;
    refused->has_changed = false;
    return has_changed;
}
