/* SPDX-License-Identifier: MPL-2.0 */
/* error_of.h -- for tests: an encoded error that says nothing but its type. */
#ifndef TESTS_LIB_ERROR_OF_H
#define TESTS_LIB_ERROR_OF_H

#include "libbus/base/must.h"
#include "libbus/wire/error.h"

/* In memory that stands until the next call. */
static inline struct span error_of(const char *type)
{
    static uint8_t bytes[1024];
    size_t count = 0;
    struct error_record record;
    error_record_init(&record);
    record.type = span_text(type);
    must(error_encode(&record, 1, bytes, sizeof bytes, &count) == WIRE_OK);
    return span_of(bytes, count);
}

#endif
