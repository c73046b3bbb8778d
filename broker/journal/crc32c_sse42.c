/* SPDX-License-Identifier: MPL-2.0 */
/* crc32c_sse42.c -- the checksum by the instruction of SSE4.2; for x86-64, see CMakeLists.txt. */
#include "broker/journal/crc32c.h"

#include <nmmintrin.h>
#include <string.h>

bool crc32c_has_processor(void)
{
    return __builtin_cpu_supports("sse4.2") != 0;
}

__attribute__((target("sse4.2"))) uint32_t crc32c_by_processor(uint32_t crc, const void *data,
                                                               size_t bytes)
{
    const uint8_t *at = data;
    uint64_t wide = ~crc;
    for (; bytes >= 8; at += 8, bytes -= 8) {
        uint64_t word = 0;
        memcpy(&word, at, sizeof word);
        wide = _mm_crc32_u64(wide, word);
    }
    uint32_t narrow = (uint32_t)wide;
    for (; bytes > 0; at++, bytes--)
        narrow = _mm_crc32_u8(narrow, *at);
    return ~narrow;
}
