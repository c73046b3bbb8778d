/* SPDX-License-Identifier: MPL-2.0 */
/* traceparent.c -- see traceparent.h, and https://www.w3.org/TR/trace-context/. */
#include "libbus/base/traceparent.h"

#include <string.h>

enum {
    VERSION_AT = 0,
    TRACE_AT = 3,
    PARENT_AT = 36,
    FLAGS_AT = 53,
    LENGTH = 55,
    PARENT_BYTES = 8,
};

/* W3C wants lower case.  -1: not a digit. */
static int digit_value(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

static bool is_byte(const char *digits)
{
    return digit_value(digits[0]) >= 0 && digit_value(digits[1]) >= 0;
}

bool traceparent_hex(const char *digits, unsigned count, uint8_t *out)
{
    uint8_t any = 0;
    for (unsigned i = 0; i < count; i++) {
        if (!is_byte(digits + 2 * (size_t)i))
            return false;
        int value = digit_value(digits[2 * i]) * 16 + digit_value(digits[2 * i + 1]);
        out[i] = (uint8_t)value;
        any |= out[i];
    }
    return any != 0;
}

static bool has_dashes(const char *text)
{
    return text[TRACE_AT - 1] == '-' && text[PARENT_AT - 1] == '-' && text[FLAGS_AT - 1] == '-';
}

static bool is_version(const char *text, size_t length)
{
    const char *version = text + VERSION_AT;
    if (!is_byte(version) || memcmp(version, "ff", 2) == 0)
        return false;
    return length == LENGTH || (memcmp(version, "00", 2) != 0 && text[LENGTH] == '-');
}

bool traceparent_read(const char *text, uint8_t out_trace_id[LIMIT_TRACE_ID_BYTES])
{
    uint8_t trace_id[LIMIT_TRACE_ID_BYTES];
    uint8_t parent[PARENT_BYTES];
    size_t length = strlen(text);
    if (length < LENGTH || !is_version(text, length) || !has_dashes(text) ||
        !traceparent_hex(text + TRACE_AT, LIMIT_TRACE_ID_BYTES, trace_id) ||
        !traceparent_hex(text + PARENT_AT, PARENT_BYTES, parent) || !is_byte(text + FLAGS_AT))
        return false;
    memcpy(out_trace_id, trace_id, LIMIT_TRACE_ID_BYTES);
    return true;
}
