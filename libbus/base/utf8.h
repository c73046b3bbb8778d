/* SPDX-License-Identifier: MPL-2.0 */
/* utf8.h -- checks and cuts UTF-8 text (RFC 3629). */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "libbus/base/span.h"

#include <stdbool.h>
#include <stddef.h>

/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates. */
bool utf8_is_valid(struct span text);
/* The largest length <= bytes at which text may be cut without splitting a character. */
size_t utf8_cut(const char *text, size_t bytes);

#endif
