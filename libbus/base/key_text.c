/* SPDX-License-Identifier: MPL-2.0 */
/* key_text.c -- see key_text.h. */
#include "libbus/base/key_text.h"

enum {
    PREFIX_BYTES = 4,
    DIGIT_BITS = 5,
    PACKED_BYTES = 1 + KEY_BYTES + 2, /* kind, key, checksum */
};

static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
static const char *const prefixes[] = {[KEY_PUBLIC] = "ebp_", [KEY_SECRET] = "ebs_"};

/* CRC-16/IBM-3740: polynomial 0x1021, from 0xffff. */
static uint16_t checksum(const uint8_t *bytes, size_t count)
{
    uint32_t sum = 0xffff;
    for (size_t i = 0; i < count; i++) {
        sum ^= (uint32_t)bytes[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            sum = (sum & 0x8000) != 0 ? (sum << 1) ^ 0x1021 : sum << 1;
    }
    return (uint16_t)(sum & 0xffff);
}

/* false: a character is no digit. */
static bool unpack(const char *text, uint8_t packed[PACKED_BYTES])
{
    uint32_t bits = 0;
    unsigned count = 0;
    size_t at = 0;
    for (size_t i = PREFIX_BYTES; i < KEY_TEXT_BYTES; i++) {
        const char *digit = text[i] != '\0' ? strchr(digits, text[i]) : NULL;
        if (digit == NULL)
            return false;
        bits = (bits << DIGIT_BITS) | (uint32_t)(digit - digits);
        count += DIGIT_BITS;
        if (count >= 8) {
            count -= 8;
            packed[at++] = (uint8_t)(bits >> count);
        }
    }
    return true;
}

enum key_fault key_text_read(struct span text, enum key_kind kind, uint8_t out_key[KEY_BYTES])
{
    uint8_t packed[PACKED_BYTES] = {0};
    enum key_kind other = kind == KEY_PUBLIC ? KEY_SECRET : KEY_PUBLIC;
    if (text.bytes < PREFIX_BYTES)
        return KEY_FOREIGN;
    if (memcmp(text.data, prefixes[other], PREFIX_BYTES) == 0)
        return KEY_OTHER_KIND;
    if (memcmp(text.data, prefixes[kind], PREFIX_BYTES) != 0)
        return KEY_FOREIGN;
    if (text.bytes != KEY_TEXT_BYTES || !unpack(text.data, packed))
        return KEY_MISTYPED;
    uint16_t sum = checksum(packed, 1 + KEY_BYTES);
    if (packed[0] != (uint8_t)kind || packed[1 + KEY_BYTES] != sum >> 8 ||
        packed[2 + KEY_BYTES] != (sum & 0xff))
        return KEY_MISTYPED;
    memcpy(out_key, packed + 1, KEY_BYTES);
    return KEY_OK;
}

void key_text_write(const uint8_t key[KEY_BYTES], enum key_kind kind,
                    char out_text[KEY_TEXT_BYTES + 1])
{
    uint8_t packed[PACKED_BYTES];
    packed[0] = (uint8_t)kind;
    memcpy(packed + 1, key, KEY_BYTES);
    uint16_t sum = checksum(packed, 1 + KEY_BYTES);
    packed[1 + KEY_BYTES] = (uint8_t)(sum >> 8);
    packed[2 + KEY_BYTES] = (uint8_t)sum;
    memcpy(out_text, prefixes[kind], PREFIX_BYTES);
    uint32_t bits = 0;
    unsigned count = 0;
    size_t at = PREFIX_BYTES;
    for (size_t i = 0; i < PACKED_BYTES; i++) {
        bits = (bits << 8) | packed[i];
        for (count += 8; count >= DIGIT_BITS; count -= DIGIT_BITS)
            out_text[at++] = digits[(bits >> (count - DIGIT_BITS)) & 31];
    }
    out_text[at] = '\0';
}
