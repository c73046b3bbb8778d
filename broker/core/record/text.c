/* SPDX-License-Identifier: MPL-2.0 */
/* text.c -- sentences for people, put together without stdio, and cut at a character. */
#include "broker/core/record/text.h"

#include <string.h>

void text_init(struct text *text)
{
    text->bytes = 0;
    text->data[0] = '\0';
}

void text_add_span(struct text *text, struct span part)
{
    size_t room = sizeof text->data - 1 - text->bytes;
    size_t bytes = part.bytes <= room ? part.bytes : utf8_cut(part.data, room);
    if (bytes > 0)
        memcpy(text->data + text->bytes, part.data, bytes);
    text->bytes += bytes;
    text->data[text->bytes] = '\0';
}

void text_add(struct text *text, const char *part)
{
    text_add_span(text, span_text(part));
}

void text_add_number(struct text *text, uint64_t number)
{
    char digits[20];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    text_add_span(text, span_of(digits + at, sizeof digits - at));
}

const char *text_say(struct text *text, const char *part, struct span name)
{
    text_init(text);
    text_add(text, part);
    text_add_span(text, name);
    return text->data;
}
