/* SPDX-License-Identifier: MPL-2.0 */
/* fnv.h -- for tests: FNV-1a, a hash by which bytes are told apart. */
#ifndef TESTS_LIB_FNV_H
#define TESTS_LIB_FNV_H

#include <stddef.h>
#include <stdint.h>

#define FNV_BEGIN UINT64_C(0xcbf29ce484222325)

/* Goes on from a hash of what came before, or from FNV_BEGIN. */
static inline uint64_t fnv(uint64_t hash, const void *data, size_t bytes)
{
    const uint8_t *byte = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
