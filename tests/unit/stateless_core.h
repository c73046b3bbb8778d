/* SPDX-License-Identifier: MPL-2.0 */
/* stateless_core.h -- for tests that define the steps of the core: a core without state. */
#ifndef TESTS_UNIT_STATELESS_CORE_H
#define TESTS_UNIT_STATELESS_CORE_H

#include "broker/core/core.h"

struct core *core_new(struct memory *memory, const struct core_options *options, int64_t now_ns)
{
    static char nothing; /* it has no state */
    (void)memory;
    (void)options;
    (void)now_ns;
    return (void *)&nothing;
}

void core_free(struct core **core)
{
    *core = NULL;
}

#endif
