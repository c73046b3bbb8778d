/* SPDX-License-Identifier: MPL-2.0 */
/* utf8.h -- checks, cuts and mends UTF-8 text (RFC 3629). */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "libbus/base/span.h"

#include <stdbool.h>
#include <stddef.h>

/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates. */
bool utf8_is_valid(struct span text);
/* The largest length <= bytes at which text may be cut without splitting a character. */
size_t utf8_cut(const char *text, size_t bytes);
/* Puts '?' in the place of each byte that is of no character: text of another program, as a path or
 * the words of a database, may have such. */
void utf8_mend(char *text);

#endif
