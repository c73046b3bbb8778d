/* SPDX-License-Identifier: MPL-2.0 */
/* mix.h -- numbers that look drawn at random, and are the same each time. */
#ifndef BASE_MIX_H
#define BASE_MIX_H

#include <stdint.h>

/* The finaliser of splitmix64: every bit of the key reaches every bit of the answer. */
static inline uint64_t mix_bits(uint64_t key)
{
    key ^= key >> 30;
    key *= UINT64_C(0xbf58476d1ce4e5b9);
    key ^= key >> 27;
    key *= UINT64_C(0x94d049bb133111eb);
    key ^= key >> 31;
    return key;
}

#endif
