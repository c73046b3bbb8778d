/* SPDX-License-Identifier: MPL-2.0 */
/* session_errors.c -- errors made by this client, and their ids. */
#include "libbus/session/session_errors.h"

#include "libbus/base/must.h"
#include "libbus/base/utf8.h"
#include "libbus/session/model.h"

enum { NUMBER_DIGITS_MAX = 20 };

static size_t put_number(char *out, uint64_t number)
{
    char digits[NUMBER_DIGITS_MAX];
    size_t count = 0;
    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    for (size_t i = 0; i < count; i++)
        out[i] = digits[count - 1 - i];
    return count;
}

size_t session_error_id(struct session *session, char *out, size_t room)
{
    const struct session_options *options = &session->options;
    must(room >= options->job.bytes + options->party.bytes + 2 * NUMBER_DIGITS_MAX + 3);
    uint64_t number = session->error_count * 2 + 1; /* odd; the broker's are even */
    session->error_count += 1;
    size_t at = 0;
    memcpy(out, options->job.data, options->job.bytes);
    at += options->job.bytes;
    out[at++] = '/';
    if (options->party.bytes > 0)
        memcpy(out + at, options->party.data, options->party.bytes);
    at += options->party.bytes;
    out[at++] = '/';
    at += put_number(out + at, session->incarnation);
    out[at++] = '/';
    return at + put_number(out + at, number);
}

static struct span cut(struct span text, size_t most)
{
    if (text.bytes <= most)
        return text;
    return span_of(text.data, utf8_cut(text.data, most));
}

struct span session_error_make(struct session *session, enum error_kind kind, struct span type,
                               struct span message, uint8_t *out)
{
    return session_error_make_at(session, kind, type, message, SPAN_NONE, 0, out);
}

struct span session_error_make_at(struct session *session, enum error_kind kind, struct span type,
                                  struct span message, struct span topic, uint64_t seq,
                                  uint8_t *out)
{
    char id[LIMIT_ERROR_ID_BYTES];
    struct error_record record;
    error_record_init(&record);
    record.id = span_of(id, session_error_id(session, id, sizeof id));
    record.job = session->options.job;
    record.attempt = session->attempt;
    record.party = session->options.party;
    record.incarnation = session->incarnation;
    record.kind = kind;
    record.type = cut(type, LIMIT_ERROR_TYPE_BYTES);
    record.message = cut(message, LIMIT_ERROR_MESSAGE_BYTES);
    record.origin = ORIGIN_SYSTEM;
    record.occurred_ns = session_broker_ns(session, session->now_ns, &record.uncertainty_ns);
    record.host = session->options.host;
    record.pid = session->options.pid;
    record.trace_id = session->options.trace_id;
    record.topic = topic;
    record.seq = seq;
    size_t bytes = 0;
    enum wire_err err = error_encode(&record, 1, out, SESSION_ERROR_BYTES, &bytes);
    must(err == WIRE_OK); /* all lengths are within limits, type and message came as valid text */
    return span_of(out, bytes);
}

size_t session_error_spare(uint8_t *out)
{
    struct error_record record;
    error_record_init(&record);
    record.kind = ERROR_APPLICATION;
    record.type = span_text(ERROR_TYPE_NO_MEMORY);
    record.message = span_text("out of memory for the error's own text");
    size_t bytes = 0;
    enum wire_err err = error_encode(&record, 1, out, SESSION_SPARE_ERROR_BYTES, &bytes);
    must(err == WIRE_OK);
    return bytes;
}
