/* SPDX-License-Identifier: MPL-2.0 */
/* nearest.h -- the word that somebody may have meant. */
#ifndef CLIENTS_NEAREST_H
#define CLIENTS_NEAREST_H

#include <stddef.h>

#define NEAREST_BYTES_MAX 32 /* a longer word is near to none */

/* Finds the word with the fewest changes: letters that are changed, left out, put in, or swapped
 * with a neighbour.  Of several, the first.  NULL: none is near.  Words of up to four letters are
 * near with one change, longer words with two. */
const char *nearest_word(const char *word, const char *const *words, size_t count);

#endif
