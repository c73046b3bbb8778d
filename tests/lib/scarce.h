/* SPDX-License-Identifier: MPL-2.0 */
/* scarce.h -- memory in which one allocation fails: the n-th since the memory was wrapped. */
#ifndef TESTS_LIB_SCARCE_H
#define TESTS_LIB_SCARCE_H

#include "libbus/base/memory.h"

#include <stdbool.h>
#include <stdint.h>

/* Users are given &memory.  It is the first member, so a call finds the struct by this address. */
struct scarce {
    struct memory memory;
    uint64_t asked;   /* allocations so far, but for those of effects */
    uint64_t fail_at; /* this one of them fails; 0: none */
    void *(*resize)(struct memory *memory, void *block, size_t old_bytes, size_t new_bytes);
};

/* The heap, up to bytes_max.  Allocations of the broker's effects cannot fail, and are not counted
 * (broker/core/tables/effect.h); they are recognized by their sizes. */
void scarce_init(struct scarce *scarce, uint64_t bytes_max);
/* The n-th allocation from now on fails. */
void scarce_fail_in(struct scarce *scarce, uint64_t n);

#endif
