/* SPDX-License-Identifier: MPL-2.0 */
/* near_name.c -- see near_name.h.
 *
 * The number of edits is the distance of optimal string alignment, row by row.  The entry of column
 * j in row i is the distance of the first i bytes of one name from the first j of the other.  An
 * entry further from the diagonal than EDITS_MAX is too far in any case.  So a row costs the same
 * for each length, and the first row without a near entry is the last. */
#include "broker/core/tables/near_name.h"

#include "libbus/base/limits.h"

#include <string.h>

enum {
    SHORT_BYTES_MAX = 4, /* a name of up to so many bytes has one edit at most */
    EDITS_MAX = 2,
    FAR = EDITS_MAX + 1,
};

static uint8_t fewest(unsigned a, unsigned b, unsigned c)
{
    unsigned both = a < b ? a : b;
    unsigned all = both < c ? both : c;
    return (uint8_t)(all < FAR ? all : FAR);
}

/* FAR or less. */
static unsigned edits_between(const uint8_t *left, size_t left_bytes, const uint8_t *right,
                              size_t right_bytes)
{
    uint8_t rows[3][LIMIT_NAME_BYTES + 1];
    memset(rows, FAR, sizeof rows);
    for (size_t j = 0; j <= right_bytes && j < FAR; j++)
        rows[0][j] = (uint8_t)j;
    for (size_t i = 1; i <= left_bytes; i++) {
        uint8_t *row = rows[i % 3];
        const uint8_t *above = rows[(i + 2) % 3];
        const uint8_t *two_above = rows[(i + 1) % 3];
        size_t end = i + EDITS_MAX < right_bytes ? i + EDITS_MAX : right_bytes;
        memset(row, FAR, sizeof rows[0]);
        row[0] = (uint8_t)(i < FAR ? i : FAR);
        unsigned nearest = row[0];
        for (size_t j = i > EDITS_MAX ? i - EDITS_MAX : 1; j <= end; j++) {
            unsigned changed = above[j - 1] + (left[i - 1] != right[j - 1] ? 1U : 0U);
            row[j] = fewest(above[j] + 1U, row[j - 1] + 1U, changed);
            bool is_swap =
                i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1];
            if (is_swap)
                row[j] = fewest(row[j], two_above[j - 2] + 1U, FAR);
            nearest = row[j] < nearest ? row[j] : nearest;
        }
        if (nearest == FAR)
            return FAR;
    }
    return rows[left_bytes % 3][right_bytes];
}

/* The first byte from at on that is no digit; bytes: there is none. */
static size_t skip_digits(const uint8_t *data, size_t bytes, size_t at)
{
    while (at < bytes && data[at] >= '0' && data[at] <= '9')
        at += 1;
    return at;
}

static bool differ_in_digits_alone(struct span a, struct span b)
{
    const uint8_t *left = a.data;
    const uint8_t *right = b.data;
    size_t i = skip_digits(left, a.bytes, 0);
    size_t j = skip_digits(right, b.bytes, 0);
    while (i < a.bytes && j < b.bytes && left[i] == right[j]) {
        i = skip_digits(left, a.bytes, i + 1);
        j = skip_digits(right, b.bytes, j + 1);
    }
    return i == a.bytes && j == b.bytes;
}

bool near_name(struct span given, struct span known, uint32_t *out_edits)
{
    size_t apart =
        given.bytes > known.bytes ? given.bytes - known.bytes : known.bytes - given.bytes;
    unsigned edits_max = given.bytes <= SHORT_BYTES_MAX ? 1 : EDITS_MAX;
    bool is_long = given.bytes > LIMIT_NAME_BYTES || known.bytes > LIMIT_NAME_BYTES;
    if (apart > edits_max || is_long || differ_in_digits_alone(given, known))
        return false;
    unsigned edits = edits_between(given.data, given.bytes, known.data, known.bytes);
    if (edits > edits_max || edits >= given.bytes)
        return false; /* of a name of one byte nothing is left */
    *out_edits = edits;
    return true;
}
