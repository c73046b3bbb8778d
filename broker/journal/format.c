/* SPDX-License-Identifier: MPL-2.0 */
/* format.c -- the bytes of the journal; see format.h. */
#include "broker/journal/format.h"

#include "broker/journal/crc32c.h"
#include "libbus/base/must.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NAME_DIGITS = 20 };
static const uint8_t magic[8] = {'e', 'r', 'r', 'b', 'u', 's', 'J', '\n'};

static void format_put(uint8_t *out, uint64_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)(number >> (8 * i));
}

static uint64_t format_get(const uint8_t *bytes, size_t count)
{
    uint64_t number = 0;
    for (size_t i = count; i > 0; i--)
        number = number << 8 | bytes[i - 1];
    return number;
}

void format_put64(uint8_t *out, uint64_t number)
{
    format_put(out, number, 8);
}

uint64_t format_get64(const uint8_t *bytes)
{
    return format_get(bytes, 8);
}

/* ---- segments -------------------------------------------------------------------------------- */

void segment_head_write(const struct segment_head *head, uint8_t *out)
{
    must(head->synced <= head->first);
    memset(out, 0, FORMAT_SEGMENT_BYTES);
    memcpy(out, magic, sizeof magic);
    format_put(out + 8, head->version, 4);
    format_put(out + 16, head->journal, 8);
    format_put(out + 24, head->first, 8);
    format_put(out + 32, head->trimmed, 8);
    format_put(out + 40, head->journal, 8);
    format_put(out + 48, head->bytes | (head->is_reused ? FORMAT_REUSED : 0), 8);
    format_put(out + 56, head->first - head->synced, 8);
    format_put(out + 12, crc32c(0, out, FORMAT_SEGMENT_BYTES), 4);
}

enum segment_verdict segment_head_read(const uint8_t *bytes, struct segment_head *out_head)
{
    uint8_t copy[FORMAT_SEGMENT_BYTES];
    *out_head =
        (struct segment_head){.version = (uint32_t)format_get(bytes + 8, 4),
                              .journal = format_get(bytes + 16, 8),
                              .first = format_get(bytes + 24, 8),
                              .trimmed = format_get(bytes + 32, 8),
                              .bytes = format_get(bytes + 48, 8) & ~FORMAT_REUSED,
                              .synced = format_get(bytes + 24, 8) - format_get(bytes + 56, 8),
                              .is_reused = (format_get(bytes + 48, 8) & FORMAT_REUSED) != 0};
    memcpy(copy, bytes, sizeof copy);
    memset(copy + 12, 0, 4);
    if (memcmp(bytes, magic, sizeof magic) == 0 && out_head->synced <= out_head->first &&
        format_get(bytes + 12, 4) == crc32c(0, copy, sizeof copy))
        return out_head->version <= FORMAT_VERSION && out_head->version > 0 ? SEGMENT_GOOD
                                                                            : SEGMENT_NEWER;
    return SEGMENT_BAD;
}

void segment_name_write(uint64_t first, char *out_name)
{
    snprintf(out_name, FORMAT_NAME_BYTES, "%020" PRIu64 FORMAT_SEGMENT_SUFFIX, first);
}

bool segment_name_read(const char *name, uint64_t *out_first)
{
    uint64_t first = 0;
    for (size_t i = 0; i < NAME_DIGITS; i++) {
        if (name[i] < '0' || name[i] > '9')
            return false;
        uint64_t digit = (uint64_t)(name[i] - '0');
        if (first > (UINT64_MAX - digit) / 10)
            return false;
        first = first * 10 + digit;
    }
    if (strcmp(name + NAME_DIGITS, FORMAT_SEGMENT_SUFFIX) != 0 || first % FORMAT_ALIGN != 0 ||
        first > FORMAT_POSITION_MAX)
        return false;
    *out_first = first;
    return true;
}

/* ---- records --------------------------------------------------------------------------------- */

static uint32_t head_crc(const uint8_t *bytes, uint64_t journal, uint64_t at)
{
    uint8_t place[16];
    format_put(place, journal, 8);
    format_put(place + 8, at, 8);
    return crc32c(crc32c(0, place, sizeof place), bytes + 4, FORMAT_RECORD_BYTES - 4);
}

void record_head_write(const struct record_head *head, uint64_t journal, uint64_t at, uint8_t *out)
{
    must(head->synced <= at && (at - head->synced) / FORMAT_ALIGN <= UINT32_MAX);
    format_put(out + 4, head->body_crc, 4);
    format_put(out + 8, head->bytes, 4);
    format_put(out + 12, head->kind, 2);
    format_put(out + 14, head->marks, 2);
    format_put(out + 16, head->batch, 4);
    format_put(out + 20, (at - head->synced) / FORMAT_ALIGN, 4);
    format_put(out, head_crc(out, journal, at), 4);
}

bool record_head_read(const uint8_t *bytes, uint64_t journal, uint64_t at,
                      struct record_head *out_head)
{
    uint64_t unsynced = format_get(bytes + 20, 4) * FORMAT_ALIGN;
    if (format_get(bytes, 4) != head_crc(bytes, journal, at) || unsynced > at ||
        format_get(bytes + 12, 2) == 0)
        return false;
    *out_head = (struct record_head){.body_crc = (uint32_t)format_get(bytes + 4, 4),
                                     .bytes = (uint32_t)format_get(bytes + 8, 4),
                                     .kind = (uint16_t)format_get(bytes + 12, 2),
                                     .marks = (uint16_t)format_get(bytes + 14, 2),
                                     .batch = (uint32_t)format_get(bytes + 16, 4),
                                     .synced = at - unsynced};
    return true;
}

uint32_t format_body_crc(const void *body, size_t bytes)
{
    static const uint8_t zeros[FORMAT_ALIGN];
    return crc32c(bytes > 0 ? crc32c(0, body, bytes) : 0, zeros, format_filled(bytes) - bytes);
}
