/* SPDX-License-Identifier: MPL-2.0 */
/* utf8.c -- checks, cuts and mends text; see utf8.h. */
#include "libbus/base/utf8.h"

#include <stdint.h>
#include <string.h>

/* RFC 3629, section 4: what the first byte says about the length and the second byte. */
struct lead {
    uint8_t first, last;     /* this range of first bytes ... */
    uint8_t bytes;           /* ... begins a character so long ... */
    uint8_t lowest, highest; /* ... whose second byte is in this range */
};
static const struct lead leads[] = {
    {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf}, {0xe1, 0xec, 3, 0x80, 0xbf},
    {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf}, {0xf0, 0xf0, 4, 0x90, 0xbf},
    {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
};

static bool is_continuation(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

/* The size of the character at text, of which so many bytes are left; 0: it is not well formed. */
static size_t character_bytes(const uint8_t *text, size_t left)
{
    if (text[0] < 0x80)
        return 1;
    for (size_t i = 0; i < sizeof leads / sizeof leads[0]; i++) {
        const struct lead *lead = &leads[i];
        if (text[0] < lead->first || text[0] > lead->last)
            continue;
        if (left < lead->bytes || text[1] < lead->lowest || text[1] > lead->highest)
            return 0;
        for (size_t at = 2; at < lead->bytes; at++)
            if (!is_continuation(text[at]))
                return 0;
        return lead->bytes;
    }
    return 0;
}

bool utf8_is_valid(struct span text)
{
    const uint8_t *data = text.data;
    size_t at = 0;
    while (at < text.bytes) {
        uint64_t word;
        if (text.bytes - at >= sizeof word) {
            memcpy(&word, data + at, sizeof word);
            if ((word & UINT64_C(0x8080808080808080)) == 0) {
                at += sizeof word;
                continue;
            }
        }
        size_t bytes = character_bytes(data + at, text.bytes - at);
        if (bytes == 0)
            return false;
        at += bytes;
    }
    return true;
}

size_t utf8_cut(const char *text, size_t bytes)
{
    const uint8_t *data = (const uint8_t *)text;
    size_t lead = bytes;
    /* A character has four bytes at most: its first is among the last four before the cut. */
    while (lead > 0 && bytes - lead < 4) {
        lead -= 1;
        if (!is_continuation(data[lead]))
            break;
    }
    if (bytes == 0 || is_continuation(data[lead]))
        return bytes; /* no text, or no UTF-8: any place will do */
    return character_bytes(data + lead, bytes - lead) > 0 ? bytes : lead;
}

void utf8_mend(char *text)
{
    size_t bytes = strlen(text);
    size_t at = 0;
    while (at < bytes) {
        size_t step = character_bytes((const uint8_t *)text + at, bytes - at);
        if (step == 0)
            text[at] = '?';
        at += step > 0 ? step : 1;
    }
}
