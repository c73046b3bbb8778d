/* SPDX-License-Identifier: MPL-2.0 */
/* access_words.h -- what a single word of an access file may be. */
#ifndef BASE_ACCESS_WORDS_H
#define BASE_ACCESS_WORDS_H

#include "libbus/base/span.h"

#include <stdbool.h>
#include <stdint.h>

/* A name of a job or party: whole, or its begin with '*' behind. */
bool word_is_name_or_begin(struct span word);
bool word_matches_name(struct span word, struct span name);
/* Decimal digits alone. */
bool word_is_number(struct span word, uint64_t most, uint64_t *out_number);
/* A number that may end in K, M or G, or in the same small letter: of 1024, or of 1000. */
bool word_is_amount(struct span word, unsigned thousand, uint64_t *out_amount);
/* YYYY-MM-DD; out_end_s: the end of that day in UTC, in seconds since 1970. */
bool word_is_date(struct span word, int64_t *out_end_s);

#endif
