/* SPDX-License-Identifier: MPL-2.0 */
/* batch_encoder.c -- frames to a subscription as one part; see batch_encoder.h. */
#include "broker/io/batch_encoder.h"

#include "libbus/base/limits.h"
#include "libbus/base/must.h"

#include <string.h>

/* A payload of this size that a reader wants whole is sent as a part of its own, without a copy.  A
 * smaller one is copied into a batch: libzmq spends some hundreds of nanoseconds on each part. */
#define WHOLE_BYTES (UINT64_C(8) * 1024)
/* Frames of this size let a batch grow further: libzmq is slow with single messages of about
 * 64 KiB; batches of several such frames have 1.7 times the throughput. */
#define BULK_FRAME_BYTES (UINT64_C(16) * 1024)

/* What goes into one part: effects from the first up to end, by reference or as bytes. */
struct plan {
    uint32_t end;
    uint32_t frames;
    size_t bytes;         /* of all frames */
    payload_id reference; /* not 0: this payload, whole */
};

static bool is_count(const struct effect *effect)
{
    return effect->type == EFFECT_RETAIN || effect->type == EFFECT_RELEASE;
}

static bool is_same_stream(const struct effect *a, const struct effect *b)
{
    bool is_sent = b->type == EFFECT_SEND_RANGE || b->type == EFFECT_SEND_PART ||
                   b->type == EFFECT_SEND_TASK || b->type == EFFECT_SEND_FRAME;
    return is_sent && a->conn == b->conn && a->sub == b->sub;
}

static uint32_t skip_counts(const struct effects *effects, uint32_t at)
{
    while (at < effects->count && is_count(&effects->items[at]))
        at++;
    return at;
}

/* Whether the ranges from here on are one payload, one behind the other, all of it. */
static bool plan_reference(const struct effects *effects, const struct payload_table *payloads,
                           uint32_t first, struct plan *out_plan)
{
    const struct effect *head = &effects->items[first];
    if (head->type != EFFECT_SEND_RANGE || head->offset != BATCH_HEADER_BYTES)
        return false;
    size_t bytes = payload_bytes(payloads, head->payload);
    size_t offset = BATCH_HEADER_BYTES;
    uint32_t at = first;
    while (at < effects->count) {
        const struct effect *range = &effects->items[at];
        if (range->type != EFFECT_SEND_RANGE || !is_same_stream(head, range) ||
            range->payload != head->payload || range->offset != offset)
            return false;
        offset += range->bytes;
        at = skip_counts(effects, at + 1);
        if (offset == bytes)
            break;
    }
    *out_plan = (struct plan){.end = at, .reference = head->payload, .bytes = bytes};
    return offset == bytes;
}

/* The value of a frame made here; that of a gap is encoded into scratch. */
static struct span frame_value(const struct effect_frame *made,
                               uint8_t scratch[FRAME_GAP_BYTES_MAX])
{
    if ((made->frame.flags & FRAME_KIND_MASK) != FRAME_GAP)
        return made->frame.value;
    return span_of(scratch, frame_gap_encode(scratch, &made->gap));
}

static size_t effect_bytes(const struct effects *effects, const struct effect *effect)
{
    if (effect->type != EFFECT_SEND_FRAME)
        return effect->bytes;
    uint8_t scratch[FRAME_GAP_BYTES_MAX];
    return frame_total(frame_value(&effects->frames[effect->index], scratch).bytes);
}

static uint32_t effect_frames(const struct effect *effect)
{
    return effect->type == EFFECT_SEND_RANGE ? effect->count : 1;
}

/* Takes effects into the plan as long as they are of one stream and there is room. */
static struct plan plan_copy(const struct effects *effects, const struct payload_table *payloads,
                             uint32_t first)
{
    const struct effect *head = &effects->items[first];
    struct plan plan = {.end = first};
    struct plan whole;
    while (plan.end < effects->count) {
        const struct effect *effect = &effects->items[plan.end];
        if (!is_same_stream(head, effect))
            break;
        size_t bytes = effect_bytes(effects, effect);
        uint32_t frames = effect_frames(effect);
        must(frames > 0);
        size_t most = bytes / frames >= BULK_FRAME_BYTES ? LIMIT_BATCH_BYTES : DEFAULT_BATCH_BYTES;
        if (plan.frames > 0 && (BATCH_HEADER_BYTES + plan.bytes + bytes > most ||
                                plan.frames + frames > LIMIT_BATCH_FRAMES))
            break;
        if (plan.frames > 0 && plan_reference(effects, payloads, plan.end, &whole) &&
            whole.bytes >= WHOLE_BYTES)
            break;
        plan.bytes += bytes;
        plan.frames += frames;
        plan.end = skip_counts(effects, plan.end + 1);
    }
    return plan;
}

/* NULL: its payload cannot be read back. */
static uint8_t *write_effect(uint8_t *out, const struct effects *effects,
                             struct payload_table *payloads, const struct effect *effect)
{
    if (effect->type != EFFECT_SEND_FRAME) {
        const struct buffer *payload = payload_fetch(payloads, effect->payload);
        if (payload == NULL)
            return NULL;
        must(effect->offset <= payload->bytes);
        if (effect->type == EFFECT_SEND_PART)
            return out + frame_part_write(out, payload->data + effect->offset, effect->skip,
                                          effect->count);
        if (effect->type == EFFECT_SEND_TASK)
            return out + frame_task_write(out, payload->data + effect->offset, effect->skip,
                                          &effects->frames[effect->index].frame);
        must(effect->bytes <= payload->bytes - effect->offset);
        memcpy(out, payload->data + effect->offset, effect->bytes);
        return out + effect->bytes;
    }
    uint8_t scratch[FRAME_GAP_BYTES_MAX];
    const struct effect_frame *made = &effects->frames[effect->index];
    struct frame frame = made->frame;
    frame.value = frame_value(made, scratch);
    frame_write(out, &frame);
    return out + frame_total(frame.value.bytes);
}

static struct buffer *copy(const struct effects *effects, struct payload_table *payloads,
                           uint32_t first, const struct plan *plan)
{
    struct buffer *part = buffer_new(BATCH_HEADER_BYTES + plan->bytes);
    must(part != NULL);
    batch_header_write(part->data, plan->frames, (uint32_t)plan->bytes, 0);
    uint8_t *out = part->data + BATCH_HEADER_BYTES;
    for (uint32_t i = first; i < plan->end && out != NULL; i++)
        if (!is_count(&effects->items[i]))
            out = write_effect(out, effects, payloads, &effects->items[i]);
    if (out == NULL) {
        buffer_unref(&part);
        return NULL;
    }
    part->bytes = (size_t)(out - part->data);
    must(part->bytes == BATCH_HEADER_BYTES + plan->bytes);
    return part;
}

struct buffer *batch_encode(const struct effects *effects, struct payload_table *payloads,
                            uint32_t *at)
{
    uint32_t first = *at;
    struct plan copied = {.end = first};
    struct plan whole = {.end = first};
    bool is_whole = plan_reference(effects, payloads, first, &whole);
    if (!is_whole || whole.bytes < WHOLE_BYTES)
        copied = plan_copy(effects, payloads, first);
    /* A small payload goes by reference too, if nothing else would be packed with it. */
    bool by_reference = is_whole && whole.end >= copied.end;
    *at = by_reference ? whole.end : copied.end;
    if (by_reference) {
        struct buffer *payload = payload_fetch(payloads, whole.reference);
        return payload != NULL ? buffer_ref(payload) : NULL;
    }
    return copy(effects, payloads, first, &copied);
}
