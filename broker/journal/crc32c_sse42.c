/* SPDX-License-Identifier: MPL-2.0 */
/* crc32c_sse42.c -- the checksum by the instruction of SSE4.2; for x86-64, see CMakeLists.txt.
 *
 * The instruction takes 8 bytes.  One can begin in each cycle, and its result comes three cycles
 * later.  So long data is read as three streams side by side, and the three sums are joined.  To
 * append n bytes to a sum is to multiply it by x^8n modulo the polynomial.  Tables do that, 8 bits
 * at a time in four steps (as in Mark Adler's crc32c.c, 2013). */
#include "broker/journal/crc32c.h"

#include <nmmintrin.h>
#include <pthread.h>
#include <string.h>

/* Bytes of one of three streams: long ones cost the least, short ones serve small records. */
enum { LONG_BYTES = 4096, SHORT_BYTES = 256, BITS = 32, TABLES = 4, ROWS = 256 };
/* The polynomial, its bits in reverse, without the highest. */
#define POLYNOMIAL UINT32_C(0x82f63b78)

struct shift {
    uint32_t tables[TABLES][ROWS];
};
static struct shift long_shift;
static struct shift short_shift;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Matrices over GF(2): a sum times one of them is the sum with zeros behind it. */
static uint32_t times(const uint32_t *matrix, uint32_t sum)
{
    uint32_t product = 0;
    for (; sum != 0; sum >>= 1, matrix++)
        product ^= (sum & 1) != 0 ? *matrix : 0;
    return product;
}

static void square(uint32_t *out, const uint32_t *matrix)
{
    for (int i = 0; i < BITS; i++)
        out[i] = times(matrix, matrix[i]);
}

/* bytes: a power of two. */
static void make_shift(struct shift *shift, size_t bytes)
{
    uint32_t matrix[BITS] = {POLYNOMIAL}; /* one zero bit */
    uint32_t squared[BITS];
    for (int i = 1; i < BITS; i++)
        matrix[i] = UINT32_C(1) << (i - 1);
    for (size_t bits = 1; bits < 8 * bytes; bits *= 2) {
        square(squared, matrix);
        memcpy(matrix, squared, sizeof matrix);
    }
    for (int table = 0; table < TABLES; table++)
        for (uint32_t row = 0; row < ROWS; row++)
            shift->tables[table][row] = times(matrix, row << (8 * table));
}

static void make_shifts(void)
{
    make_shift(&long_shift, LONG_BYTES);
    make_shift(&short_shift, SHORT_BYTES);
}

static uint64_t shifted(const struct shift *shift, uint64_t sum)
{
    return shift->tables[0][sum & 0xff] ^ shift->tables[1][(sum >> 8) & 0xff] ^
           shift->tables[2][(sum >> 16) & 0xff] ^ shift->tables[3][(sum >> 24) & 0xff];
}

bool crc32c_has_processor(void)
{
    return __builtin_cpu_supports("sse4.2") != 0;
}

static uint64_t word_at(const uint8_t *at)
{
    uint64_t word = 0;
    memcpy(&word, at, sizeof word);
    return word;
}

/* Three streams of so many bytes each. */
__attribute__((target("sse4.2"))) static uint64_t three(uint64_t sum, const uint8_t *at,
                                                        size_t bytes, const struct shift *shift)
{
    uint64_t second = 0;
    uint64_t third = 0;
    for (const uint8_t *end = at + bytes; at < end; at += 8) {
        sum = _mm_crc32_u64(sum, word_at(at));
        second = _mm_crc32_u64(second, word_at(at + bytes));
        third = _mm_crc32_u64(third, word_at(at + 2 * bytes));
    }
    return shifted(shift, shifted(shift, sum) ^ second) ^ third;
}

__attribute__((target("sse4.2"))) uint32_t crc32c_by_processor(uint32_t crc, const void *data,
                                                               size_t bytes)
{
    const uint8_t *at = data;
    uint64_t wide = ~crc;
    if (bytes >= (size_t)3 * SHORT_BYTES)
        (void)pthread_once(&once, make_shifts); /* fails for no reason that could be */
    for (; bytes >= (size_t)3 * LONG_BYTES; at += 3 * LONG_BYTES, bytes -= 3 * LONG_BYTES)
        wide = three(wide, at, LONG_BYTES, &long_shift);
    for (; bytes >= (size_t)3 * SHORT_BYTES; at += 3 * SHORT_BYTES, bytes -= 3 * SHORT_BYTES)
        wide = three(wide, at, SHORT_BYTES, &short_shift);
    for (; bytes >= 8; at += 8, bytes -= 8)
        wide = _mm_crc32_u64(wide, word_at(at));
    uint32_t narrow = (uint32_t)wide;
    for (; bytes > 0; at++, bytes--)
        narrow = _mm_crc32_u8(narrow, *at);
    return ~narrow;
}
