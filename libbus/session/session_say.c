/* SPDX-License-Identifier: MPL-2.0 */
/* session_say.c -- numbered control messages: encoded, numbered and queued for sending. */
#include "libbus/session/session_say.h"

#include "libbus/base/must.h"
#include "libbus/session/model.h"

#include <string.h>

uint64_t session_uploads_under_way(const struct session *session)
{
    return list_is_empty(&session->uploads.items) ? 0 : session->uploads.last;
}

static size_t encode(struct session *session, const struct msg *msg)
{
    size_t bytes = 0;
    enum wire_err err = msg_encode(msg, session->scratch, SESSION_SCRATCH_BYTES, &bytes);
    must(err == WIRE_OK); /* callers checked what they were given */
    return bytes;
}

/* Makes a control of the bytes in scratch; NULL: no memory. */
static struct control *control_of(struct session *session, size_t bytes)
{
    struct control *control = control_new(session->memory, bytes);
    if (control != NULL) {
        control->bytes = bytes;
        memcpy(control->data, session->scratch, bytes);
    }
    return control;
}

/* A numbered message with an answer is sent again until the answer came. */
static bool is_question(enum msg_type type)
{
    const struct msg_kind *kind = msg_kind((unsigned)type);
    return kind->id == MSG_NUMBER && kind->as.to_broker.answer != MSG_NONE;
}

enum wire_code session_say(struct session *session, const struct msg *msg, uint64_t after_upload)
{
    struct control *control = control_of(session, encode(session, msg));
    if (control == NULL)
        return CODE_ENOMEM;
    control->is_question = is_question(msg->type);
    controls_append(&session->controls, &control, after_upload);
    return CODE_OK;
}

void session_say_surely(struct session *session, struct msg *msg, struct span *error,
                        struct control **spare, uint64_t after_upload)
{
    if (*spare == NULL || session_say(session, msg, after_upload) == CODE_OK)
        return;
    if (error != NULL)
        *error = span_of(session->spare_error, session->spare_error_bytes);
    size_t bytes = encode(session, msg);
    must(bytes <= (*spare)->room);
    memcpy((*spare)->data, session->scratch, bytes);
    (*spare)->bytes = bytes;
    controls_append(&session->controls, spare, after_upload);
}

enum wire_code session_say_asking(struct session *session, const struct msg *msg,
                                  uint64_t after_upload, uint64_t *out_number)
{
    uint64_t number = session->controls.last + 1;
    enum wire_code code = results_expect(&session->results, number);
    if (code != CODE_OK)
        return code;
    code = session_say(session, msg, after_upload);
    if (code != CODE_OK)
        results_forget(&session->results, number);
    else
        *out_number = number;
    return code;
}
