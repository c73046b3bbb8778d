/* SPDX-License-Identifier: MPL-2.0 */
/* session_unaccepted.c -- values that the broker had not accepted when the incarnation ended.
 *
 * Each becomes a refusal, so that no value is lost silently.  The broker may have accepted such a
 * value just then, and readers may get it.  The ended party cannot know that. */
#include "libbus/session/session_unaccepted.h"

#include "libbus/session/model.h"
#include "libbus/session/session_errors.h"

static void refuse_value(struct session *session, uint32_t number, uint64_t seq)
{
    uint8_t error[SESSION_ERROR_BYTES];
    struct own_topic *topic = own_topics_by_number(&session->own, number);
    if (topic == NULL)
        return; /* the topic of an earlier broker instance */
    refused_push(&session->refused, topic->id, seq,
                 session_error_make_at(
                     session, ERROR_PARTY_LOST, span_text(ERROR_TYPE_FENCED),
                     span_text("the broker had not accepted it when this incarnation ended"),
                     topic->name, seq, error));
}

/* Refuses the slots of one frame.  A slot with LIMIT_REFUSALS newer ones behind it is only
 * counted. */
static void refuse_frame(struct session *session, const struct frame *frame, uint64_t number)
{
    for (uint32_t i = 0; i < frame_count(frame); i++) {
        if (number + i <= session->outbox.accepted)
            continue;
        if (session->outbox.last - (number + i) > LIMIT_REFUSALS)
            refused_skip(&session->refused);
        else
            refuse_value(session, frame->topic, frame->seq + i);
    }
}

static void refuse_batch(struct session *session, struct span part)
{
    struct batch_reader reader;
    struct frame frame;
    if (batch_reader_init(&reader, part) != WIRE_OK)
        return; /* a batch of our own is well formed */
    uint64_t number = reader.number;
    while (batch_reader_next(&reader, &frame) == WIRE_OK) {
        unsigned kind = frame.flags & FRAME_KIND_MASK;
        if (kind == FRAME_VALUE || kind == FRAME_COMMIT)
            refuse_frame(session, &frame, number);
        number += frame_count(&frame);
    }
}

void session_refuse_unaccepted(struct session *session)
{
    struct buffer *part;
    for (uint32_t i = 0; (part = outbox_batch(&session->outbox, i)) != NULL; i++)
        refuse_batch(session, buffer_span(part));
    LIST_EACH(link, &session->uploads.items) {
        const struct upload *upload = LIST_OWNER(link, struct upload, link);
        refuse_value(session, upload->topic, upload->seq);
    }
    session->news.is_refusal = session->news.is_refusal || session->refused.count > 0;
}
