/* SPDX-License-Identifier: MPL-2.0 */
/* scarce.h -- memory of which one allocation is not to be had, counted from when it is wrapped. */
#ifndef TESTS_LIB_SCARCE_H
#define TESTS_LIB_SCARCE_H

#include "libbus/base/memory.h"

#include <stdbool.h>
#include <stdint.h>

/* First, so that what is handed on can be told by its address: users are given &scarce->memory. */
struct scarce {
    struct memory memory;
    uint64_t asked;   /* allocations so far, but for those of effects */
    uint64_t fail_at; /* this one of them fails; 0: none */
    void *(*resize)(struct memory *memory, void *block, size_t old_bytes, size_t new_bytes);
};

/* The heap, of which bytes_max are to be had.  What the broker's effects take cannot fail (see
 * broker/core/tables/effect.h), and is not counted: it is told by its sizes. */
void scarce_init(struct scarce *scarce, uint64_t bytes_max);
/* The n-th allocation from now on fails. */
void scarce_fail_in(struct scarce *scarce, uint64_t n);

#endif
