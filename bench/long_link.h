/* SPDX-License-Identifier: MPL-2.0 */
/* long_link.h -- a long link before what listens on this machine: a link_relay as a process. */
#ifndef BENCH_LONG_LINK_H
#define BENCH_LONG_LINK_H

#include "tests/lib/process.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LONG_LINK_AT_BYTES 512

struct long_link {
    struct process relay;
    char at[LONG_LINK_AT_BYTES]; /* where it leads to, its ports replaced by those of the relay */
};

/* at: one or more endpoints of the loopback, each with ":PORT".  false: the relay does not start,
 * and link->relay tells why. */
bool long_link_start(struct long_link *link, const char *at, uint64_t rate, int64_t delay_us);
/* The same, with one or two words more for the relay, as "late_percent=1"; NULL: none. */
bool long_link_start_with(struct long_link *link, const char *at, uint64_t rate, int64_t delay_us,
                          const char *word, const char *other);
/* The bytes that it carried to each port of `at`, and from it. */
bool long_link_carried(struct long_link *link, uint64_t (*out)[2], size_t ports);
void long_link_fini(struct long_link *link);

#endif
