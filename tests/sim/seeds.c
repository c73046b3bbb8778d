/* SPDX-License-Identifier: MPL-2.0 */
/* seeds.c -- see seeds.h. */
#include "tests/sim/seeds.h"

#include <stddef.h>
#include <stdlib.h>

uint64_t seeds_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? strtoull(text, NULL, 10) : otherwise;
}

uint64_t seeds_first(void)
{
    return seeds_number("ERRBUS_SIM_FROM", 1);
}

uint64_t seeds_count(uint64_t default_count)
{
    return seeds_number("ERRBUS_SIM_SEEDS", default_count);
}
