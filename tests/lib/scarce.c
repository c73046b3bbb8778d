/* SPDX-License-Identifier: MPL-2.0 */
/* scarce.c -- see scarce.h. */
#include "tests/lib/scarce.h"

#include "broker/core/tables/effect.h"

/* Effects begin with 64 of a kind, or room for two facts, and double: nothing else has such sizes
 * but by chance. */
static bool is_of_effects(size_t bytes)
{
    static const size_t firsts[] = {64 * sizeof(struct effect), 64 * sizeof(struct msg),
                                    64 * sizeof(struct effect_frame),
                                    64 * sizeof(struct effect_log), 2 * (size_t)LIMIT_FACT_BYTES};
    for (size_t i = 0; i < sizeof firsts / sizeof firsts[0]; i++)
        for (size_t size = firsts[i]; size <= bytes; size *= 2)
            if (size == bytes)
                return true;
    return false;
}

static void *failing_resize(struct memory *memory, void *block, size_t old_bytes, size_t new_bytes)
{
    struct scarce *scarce = (struct scarce *)(void *)memory;
    if (new_bytes > old_bytes && !is_of_effects(new_bytes) && ++scarce->asked == scarce->fail_at)
        return NULL;
    return scarce->resize(memory, block, old_bytes, new_bytes);
}

void scarce_init(struct scarce *scarce, uint64_t bytes_max)
{
    *scarce = (struct scarce){.fail_at = 0};
    memory_heap_init(&scarce->memory, bytes_max);
    scarce->resize = scarce->memory.resize;
    scarce->memory.resize = failing_resize;
}

void scarce_fail_in(struct scarce *scarce, uint64_t n)
{
    scarce->fail_at = scarce->asked + n;
}
