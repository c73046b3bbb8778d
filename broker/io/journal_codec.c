/* SPDX-License-Identifier: MPL-2.0 */
/* journal_codec.c -- what was decided, as records of the journal, and back; see journal_codec.h. */
#include "broker/io/journal_codec.h"

#include "libbus/base/must.h"

#include <string.h>

enum { HEAD_BYTES = 5, PLACE_BYTES = 12, BEHIND_BYTES = 4 };

static uint8_t *codec_put(uint8_t *at, uint64_t number, int bytes)
{
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
        *at++ = (uint8_t)(number >> shift);
    return at;
}

static uint64_t codec_get(const uint8_t *at, int bytes)
{
    uint64_t number = 0;
    for (int i = 0; i < bytes; i++)
        number = number << 8 | at[i];
    return number;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* What stands before a fact, beside tag and length. */
static enum journal_codec_tag tag_of(const struct payload_table *payloads,
                                     const struct effect *effect, payload_id fresh)
{
    if (effect->payload == 0)
        return JOURNAL_CODEC_NO_PAYLOAD;
    if (effect->payload == fresh)
        return JOURNAL_CODEC_NEWEST_PAYLOAD;
    if (payload_at(payloads, effect->payload) == PAYLOAD_NOWHERE)
        return JOURNAL_CODEC_PAYLOAD_BEHIND; /* the task of a value just written died at once */
    return JOURNAL_CODEC_PAYLOAD_AT;
}

/* Of what stands between head and fact. */
static size_t place_bytes(enum journal_codec_tag tag)
{
    switch (tag) {
    case JOURNAL_CODEC_PAYLOAD_AT: return PLACE_BYTES;
    case JOURNAL_CODEC_PAYLOAD_BEHIND: return BEHIND_BYTES;
    case JOURNAL_CODEC_NO_PAYLOAD:
    case JOURNAL_CODEC_NEWEST_PAYLOAD: break;
    }
    return 0;
}

/* The payload that these facts speak of and that is not on its way yet, or 0. */
static payload_id find_fresh(const struct effects *effects, uint32_t at, uint32_t end,
                             struct payload_table *payloads)
{
    payload_id fresh = 0;
    for (uint32_t i = at; i < end; i++) {
        const struct effect *effect = &effects->items[i];
        if (effect->type != EFFECT_FACT || effect->payload == 0 || effect->payload == fresh ||
            !payload_give(payloads, effect->payload))
            continue;
        must(fresh == 0); /* a step has one batch at most */
        fresh = effect->payload;
    }
    return fresh;
}

static size_t entry_bytes(const struct effects *effects, const struct effect *effect,
                          enum journal_codec_tag tag)
{
    return HEAD_BYTES + place_bytes(tag) + effects_record(effects, effect).bytes;
}

static uint8_t *write_entry(uint8_t *at, const struct effects *effects, const struct effect *effect,
                            const struct payload_table *payloads, enum journal_codec_tag tag)
{
    struct span record = effects_record(effects, effect);
    at = codec_put(at, tag, 1);
    at = codec_put(at, record.bytes, 4);
    if (tag == JOURNAL_CODEC_PAYLOAD_AT) {
        at = codec_put(at, payload_at(payloads, effect->payload), 8);
        at = codec_put(at, payload_bytes(payloads, effect->payload), 4);
    }
    if (tag == JOURNAL_CODEC_PAYLOAD_BEHIND)
        at = codec_put(at, payload_behind(payloads, effect->payload), BEHIND_BYTES);
    memcpy(at, record.data, record.bytes);
    return at + record.bytes;
}

/* Where a step of about so many bytes ends that begins at `at`. */
static uint32_t find_end(const struct effects *effects, uint32_t at, size_t bytes_max)
{
    size_t bytes = 0;
    for (; at < effects->count && bytes < bytes_max; at++)
        if (effects->items[at].type == EFFECT_FACT)
            bytes += HEAD_BYTES + PLACE_BYTES + effects_record(effects, &effects->items[at]).bytes;
    return at;
}

struct journal_step *journal_codec_step(const struct effects *effects,
                                        struct payload_table *payloads, uint32_t *at,
                                        size_t bytes_max)
{
    uint32_t first = *at;
    uint32_t end = find_end(effects, first, bytes_max);
    payload_id fresh = find_fresh(effects, first, end, payloads);
    size_t bytes = 0;
    *at = end;
    for (uint32_t i = first; i < end; i++)
        if (effects->items[i].type == EFFECT_FACT)
            bytes += entry_bytes(effects, &effects->items[i],
                                 tag_of(payloads, &effects->items[i], fresh));
    if (bytes == 0)
        return NULL;
    struct journal_step *step = journal_step_new(2, bytes);
    must(step != NULL);
    if (fresh != 0)
        journal_step_payload(step, JOURNAL_CODEC_PAYLOAD, payload_key(payloads, fresh),
                             payload_buffer(payloads, fresh));
    uint8_t *out = journal_step_body(step, JOURNAL_CODEC_FACTS, bytes);
    for (uint32_t i = first; i < end; i++)
        if (effects->items[i].type == EFFECT_FACT)
            out = write_entry(out, effects, &effects->items[i], payloads,
                              tag_of(payloads, &effects->items[i], fresh));
    return step;
}

uint64_t journal_codec_bytes(const struct effects *effects)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < effects->count; i++)
        if (effects->items[i].type == EFFECT_FACT)
            bytes += HEAD_BYTES + PLACE_BYTES + effects_record(effects, &effects->items[i]).bytes;
    return bytes;
}

struct journal_step *journal_codec_move(struct payload_table *payloads, payload_id payload)
{
    struct buffer *bytes = payload_fetch(payloads, payload);
    if (bytes == NULL)
        return NULL;
    struct journal_step *step = journal_step_new(1, 0);
    must(step != NULL);
    payload_give_anew(payloads, payload);
    journal_step_payload(step, JOURNAL_CODEC_PAYLOAD, payload_key(payloads, payload), bytes);
    return step;
}

/* ---- reading --------------------------------------------------------------------------------- */

enum wire_err journal_codec_next(struct journal_codec_reader *reader,
                                 struct journal_codec_entry *out_entry)
{
    const uint8_t *at = reader->left.data;
    if (reader->left.bytes == 0)
        return WIRE_EMPTY;
    if (reader->left.bytes < HEAD_BYTES)
        return WIRE_TRUNCATED;
    if (at[0] > JOURNAL_CODEC_PAYLOAD_BEHIND)
        return WIRE_RANGE;
    *out_entry = (struct journal_codec_entry){.tag = (enum journal_codec_tag)at[0]};
    size_t head = HEAD_BYTES + place_bytes(out_entry->tag);
    size_t bytes = (size_t)codec_get(at + 1, 4);
    if (reader->left.bytes < head || reader->left.bytes - head < bytes)
        return WIRE_TRUNCATED;
    if (out_entry->tag == JOURNAL_CODEC_PAYLOAD_AT) {
        out_entry->payload_at = codec_get(at + HEAD_BYTES, 8);
        out_entry->payload_bytes = (uint32_t)codec_get(at + HEAD_BYTES + 8, 4);
    }
    if (out_entry->tag == JOURNAL_CODEC_PAYLOAD_BEHIND)
        out_entry->behind = (uint32_t)codec_get(at + HEAD_BYTES, BEHIND_BYTES);
    out_entry->fact = span_of(at + head, bytes);
    reader->left = span_of(at + head + bytes, reader->left.bytes - head - bytes);
    return WIRE_OK;
}
