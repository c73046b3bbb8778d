/* SPDX-License-Identifier: MPL-2.0 */
/* nearest.h -- the word that somebody may have meant. */
#ifndef CLIENTS_NEAREST_H
#define CLIENTS_NEAREST_H

#include <stddef.h>

#define NEAREST_BYTES_MAX 32 /* a longer word is near to none */

/* The one of words that word is turned into by the fewest letters that are changed, left out, put
 * in or swapped with their neighbour; the first of several.  NULL: none by so few that it can be
 * meant: one of a word of up to four letters, two of a longer one. */
const char *nearest_word(const char *word, const char *const *words, size_t count);

#endif
