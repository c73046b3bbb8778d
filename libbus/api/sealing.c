/* SPDX-License-Identifier: MPL-2.0 */
/* sealing.c -- see sealing.h.
 *
 * An error is sealed once, when it gets its identity.  So it is the same everywhere, however often
 * it is told, and the label of its attachments is known to who brings them. */
#include "libbus/api/sealing.h"

#include "libbus/api/attachment_list.h"
#include "libbus/api/error.h"
#include "libbus/base/key_text.h"
#include "libbus/base/must.h"
#include "libbus/session/session_disclosure.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)SEALED_BOX_BYTES == (int)SEAL_BOX_BYTES, "what a seal adds");
_Static_assert((int)SEALED_KEY_BYTES == (int)KEY_BYTES, "a public key");

bool sealing_is_on(const struct bus *bus)
{
    return session_auditor(bus->session).bytes > 0;
}

/* ---- made ------------------------------------------------------------------------------------ */

static void list_again(struct error_sealing *sealing, const struct error_attachment *attachments)
{
    struct error_attached list[LIMIT_ERROR_ATTACHMENTS];
    char names[LIMIT_ERROR_ATTACHMENTS][SEALED_NAME_BYTES];
    uint32_t count = 0;
    for (const struct error_attachment *at = attachments; at != NULL; at = at->next, count++) {
        sealed_name(count, names[count]);
        list[count] = (struct error_attached){.name = span_text(names[count]),
                                              .bytes = sealed_bytes(at->bytes)};
    }
    uint8_t written[ERROR_ATTACHED_BYTES_MAX];
    sealing->list_bytes = error_attached_write(list, count, written);
    must(sealing->list_bytes <= sizeof sealing->list);
    memcpy(sealing->list, written, sealing->list_bytes);
}

/* What others do not see of the error. */
static struct sealed_trace hidden_of(const struct bus_error *error, enum disclosure level)
{
    struct sealed_trace trace = {.stacktrace = span_text(error->stacktrace),
                                 .is_cut = error->is_cut || error->is_stack_cut};
    if (level >= DISCLOSURE_TYPE)
        trace.message = span_text(error->message);
    if (level >= DISCLOSURE_NONE)
        trace.type = span_text(error->type);
    if (error->attached != NULL)
        trace.attachments = span_of(error->attached->data, error->attached->bytes);
    return trace;
}

struct error_sealing *sealing_make(struct bus *bus, const struct bus_error *error, struct span id)
{
    struct span key = session_auditor(bus->session);
    struct sealed_trace trace = hidden_of(error, session_disclosure(bus->session));
    uint8_t plain[SEALED_TRACE_BYTES_MAX];
    size_t bytes = 0;
    bool is_empty =
        trace.stacktrace.bytes + trace.message.bytes + trace.type.bytes + trace.attachments.bytes ==
        0;
    if (key.bytes == 0 || is_empty)
        return NULL;
    struct error_sealing *sealing = calloc(1, sizeof *sealing + LIMIT_ERROR_SEALED_BYTES);
    if (sealing == NULL)
        return NULL;
    seal_draw(sealing->label, sizeof sealing->label);
    trace.id = id;
    trace.label = span_of(sealing->label, sizeof sealing->label);
    enum wire_err err = sealed_trace_encode(&trace, plain, sizeof plain, &bytes);
    must(err == WIRE_OK); /* texts were mended and cut when they came in */
    memcpy(sealing->data, key.data, KEY_BYTES);
    bool is_closed = seal_close(key.data, span_of(plain, bytes), sealing->data + KEY_BYTES);
    explicit_bzero(plain, sizeof plain);
    if (!is_closed) {
        free(sealing);
        return NULL;
    }
    sealing->bytes = KEY_BYTES + SEAL_BOX_BYTES + bytes;
    key_text_write(key.data, KEY_PUBLIC, sealing->auditor);
    sealing_opened(sealing, error->attachments);
    return sealing;
}

/* ---- received -------------------------------------------------------------------------------- */

struct error_sealing *sealing_keep(struct span sealed)
{
    struct error_sealing *sealing = calloc(1, sizeof *sealing + sealed.bytes);
    if (sealing == NULL)
        return NULL;
    sealing->bytes = sealed.bytes;
    memcpy(sealing->data, sealed.data, sealed.bytes);
    if (sealed.bytes >= KEY_BYTES)
        key_text_write(sealed.data, KEY_PUBLIC, sealing->auditor);
    return sealing;
}

void sealing_opened(struct error_sealing *sealing, const struct error_attachment *attachments)
{
    sealing->is_open = true;
    list_again(sealing, attachments);
}

const char *sealing_open(const struct error_sealing *sealing, struct span id,
                         const struct key_pair *pair, uint8_t *room, struct sealed_trace *out_trace)
{
    size_t around = KEY_BYTES + SEAL_BOX_BYTES;
    if (!seal_is_there())
        return "this build cannot open it: install libsodium-dev and build it again";
    if (sealing->bytes < around || sealing->bytes > LIMIT_ERROR_SEALED_BYTES)
        return "what is sealed is not whole";
    if (memcmp(sealing->data, pair->public_key, KEY_BYTES) != 0)
        return "it is sealed to another key";
    struct span box = span_of(sealing->data + KEY_BYTES, sealing->bytes - KEY_BYTES);
    struct span plain = span_of(room, sealing->bytes - around);
    if (!seal_open(pair, box, room))
        return "what is sealed is cut, or was changed";
    if (sealed_trace_decode(plain, out_trace) != WIRE_OK)
        return "what was sealed is not a trace, or is of a newer version";
    return span_equal(out_trace->id, id) ? NULL : "what is sealed belongs to another error";
}
