/* SPDX-License-Identifier: MPL-2.0 */
/* refused_addresses.h -- the addresses that may begin no connection for a while, because too many
 * handshakes of theirs have failed.
 *
 * Each has the same time, so the first one in the list is the first one to go.  Pure. */
#ifndef IO_REFUSED_ADDRESSES_H
#define IO_REFUSED_ADDRESSES_H

#include "libbus/base/limits.h"

#include <stdbool.h>
#include <stdint.h>

/* Zeroed memory is an empty one. */
struct refused_addresses {
    uint64_t items[LIMIT_REFUSED_ADDRESSES]; /* as peer_address.h numbers them */
    int64_t until_ns[LIMIT_REFUSED_ADDRESSES];
    uint32_t count;
    uint64_t total;   /* how often an address came into the list */
    uint64_t last;    /* the one that came last; 0: none did */
    bool has_changed; /* since refused_addresses_take_change() */
};

/* The address is refused from now on.  One that is in the list keeps its time.  When the list is
 * full, the address is not taken. */
void refused_addresses_add(struct refused_addresses *refused, uint64_t address, int64_t now_ns);
bool refused_addresses_has(const struct refused_addresses *refused, uint64_t address,
                           int64_t now_ns);
/* When the first one goes; INT64_MAX: there is none. */
int64_t refused_addresses_due_ns(const struct refused_addresses *refused);
/* Those whose time is over go.  Whether the list is another one than at the last call. */
bool refused_addresses_take_change(struct refused_addresses *refused, int64_t now_ns);

#endif
