/* SPDX-License-Identifier: MPL-2.0 */
/* nearest.c -- see nearest.h.
 *
 * The distance is that of optimal string alignment, row by row: the entry of column j in row i is
 * the distance of the first i letters of one word from the first j of the other. */
#include "clients/nearest.h"

#include <string.h>

static size_t least(size_t a, size_t b, size_t c)
{
    size_t both = a < b ? a : b;
    return both < c ? both : c;
}

static size_t distance(const char *left, size_t left_bytes, const char *right, size_t right_bytes)
{
    size_t rows[3][NEAREST_BYTES_MAX + 1] = {{0}};
    for (size_t j = 0; j <= right_bytes; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= left_bytes; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3];
        const size_t *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= right_bytes; j++) {
            size_t changed = above[j - 1] + (left[i - 1] != right[j - 1]);
            row[j] = least(above[j] + 1, row[j - 1] + 1, changed);
            if (i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1] &&
                two_above[j - 2] + 1 < row[j]) {
                row[j] = two_above[j - 2] + 1;
            }
        }
    }
    return rows[left_bytes % 3][right_bytes];
}

const char *nearest_word(const char *word, const char *const *words, size_t count)
{
    size_t bytes = strlen(word);
    size_t best = bytes <= 4 ? 2 : 3; /* the first distance that is too far */
    const char *nearest = NULL;
    if (bytes == 0 || bytes > NEAREST_BYTES_MAX) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        size_t other = strlen(words[i]);
        size_t far = other <= NEAREST_BYTES_MAX ? distance(word, bytes, words[i], other) : best;
        if (far < best && far < bytes) {
            best = far;
            nearest = words[i];
        }
    }
    return nearest;
}
