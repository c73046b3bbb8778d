/* SPDX-License-Identifier: MPL-2.0 */
/* span.h -- a range of bytes that another owner keeps. */
#ifndef BASE_SPAN_H
#define BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct span {
    const void *data; /* may be NULL if bytes is 0 */
    size_t bytes;
};

#define SPAN_NONE ((struct span){.data = NULL, .bytes = 0})

static inline struct span span_of(const void *data, size_t bytes)
{
    return (struct span){.data = data, .bytes = bytes};
}

/* The characters of a string, without its NUL; NULL is empty. */
static inline struct span span_text(const char *text)
{
    return (struct span){.data = text, .bytes = text != NULL ? strlen(text) : 0};
}

static inline bool span_equal(struct span a, struct span b)
{
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}

#endif
