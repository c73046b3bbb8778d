/* SPDX-License-Identifier: MPL-2.0 */
/* error_open.c -- see error_open.h.
 *
 * The opened error is a copy: errors are immutable once the bus has seen them.  Told again on a
 * bus, the copy leaves the process as sealed as it came. */
#include "libbus/api/error_open.h"

#include "libbus/api/attachment_list.h"
#include "libbus/api/error.h"
#include "libbus/api/error_wire.h"

#include <bus/seal.h>
#include <stdlib.h>
#include <string.h>

int bus_can_seal(void)
{
    return seal_is_there();
}

size_t bus_error_sealed_bytes(const struct bus_error *error)
{
    const struct error_sealing *sealing = error_identity_of(error)->sealing;
    return sealing != NULL ? sealing->bytes : 0;
}

const char *bus_error_auditor(const struct bus_error *error)
{
    const struct error_sealing *sealing = error_identity_of(error)->sealing;
    return sealing != NULL ? sealing->auditor : "";
}

/* ---- one trace ------------------------------------------------------------------------------- */

static enum bus_err read_key(const char *key_path, struct key_pair *out_pair,
                             struct bus_error **reterr)
{
    char complaint[KEY_FILE_COMPLAINT_BYTES] = "";
    switch (key_file_read(key_path, out_pair, complaint)) {
    case KEY_FILE_OK: return BUS_OK;
    case KEY_FILE_DENIED:
        return error_say(reterr, BUS_EDENIED, ERROR_TYPE_NOT_AUTHORISED, "%s", complaint);
    case KEY_FILE_WRONG: break;
    }
    return error_say(reterr, BUS_EPROTO, ERROR_TYPE_ARGUMENT, "%s", complaint);
}

/* Says why the trace does not open, with the two keys if they differ. */
static enum bus_err say_why(const struct bus_error *error, const struct key_pair *pair,
                            const char *why, struct bus_error **reterr)
{
    char own[KEY_TEXT_BYTES + 1];
    key_text_write(pair->public_key, KEY_PUBLIC, own);
    if (strcmp(own, bus_error_auditor(error)) != 0 && *bus_error_auditor(error) != '\0')
        return error_say(reterr, BUS_EDENIED, ERROR_TYPE_NOT_OPENED,
                         "the trace of '%.600s' is sealed to %s, and this key is %s",
                         bus_error_id(error), bus_error_auditor(error), own);
    return error_say(reterr, seal_is_there() ? BUS_EPROTO : BUS_EINVAL,
                     seal_is_there() ? ERROR_TYPE_NOT_OPENED : ERROR_TYPE_CANNOT_SEAL,
                     "the trace of '%.600s' does not open: %s", bus_error_id(error), why);
}

enum bus_err error_open_trace(const struct bus_error *error, const char *key_path, uint8_t *room,
                              struct sealed_trace *out_trace, struct key_pair *out_pair,
                              struct bus_error **reterr)
{
    const struct error_sealing *sealing = error_identity_of(error)->sealing;
    enum bus_err err = read_key(key_path, out_pair, reterr);
    if (err != BUS_OK)
        return err;
    if (sealing == NULL)
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_NOT_OPENED,
                         "'%.600s' has nothing sealed: its party seals to the auditor that it "
                         "names itself (ERRBUS_AUDITOR), or with the disclosure 'full' to that of "
                         "its job",
                         bus_error_id(error));
    const char *why =
        sealing_open(sealing, span_text(bus_error_id(error)), out_pair, room, out_trace);
    return why == NULL ? BUS_OK : say_why(error, out_pair, why, reterr);
}

/* ---- an error and its causes ----------------------------------------------------------------- */

/* What the copy is made from. */
struct opening {
    struct error_record records[LIMIT_ERROR_GIVEN];
    struct bus_error *made[LIMIT_ERROR_GIVEN];
    enum disclosure hidden[LIMIT_ERROR_GIVEN]; /* what of it was sealed; UNSAID: not opened */
    uint8_t *rooms[LIMIT_ERROR_GIVEN];
    uint32_t count;
};

static void opening_free(struct opening *opening)
{
    for (uint32_t i = 0; i < opening->count; i++) {
        bus_error_unref(&opening->made[i]);
        if (opening->rooms[i] != NULL)
            explicit_bzero(opening->rooms[i], SEALED_TRACE_BYTES_MAX);
        free(opening->rooms[i]);
    }
    free(opening);
}

/* Puts what was sealed into the record. */
static void put_back(struct error_record *record, const struct sealed_trace *trace,
                     enum disclosure *out_hidden)
{
    *out_hidden = trace->type.bytes > 0      ? DISCLOSURE_NONE
                  : trace->message.bytes > 0 ? DISCLOSURE_TYPE
                                             : DISCLOSURE_MESSAGE;
    record->stacktrace = trace->stacktrace;
    record->attachments = trace->attachments;
    record->is_cut = trace->is_cut;
    if (trace->message.bytes > 0)
        record->message = trace->message;
    if (trace->type.bytes > 0)
        record->type = trace->type;
}

/* Opens the trace of a record if this key opens it.  false: no memory. */
static bool open_record(struct opening *opening, uint32_t index, const struct key_pair *pair)
{
    struct error_record *record = &opening->records[index];
    struct sealed_trace trace;
    if (record->sealed.bytes == 0)
        return true;
    struct error_sealing *sealing = sealing_keep(record->sealed);
    opening->rooms[index] = malloc(SEALED_TRACE_BYTES_MAX);
    bool has_room = sealing != NULL && opening->rooms[index] != NULL;
    if (has_room && sealing_open(sealing, record->id, pair, opening->rooms[index], &trace) == NULL)
        put_back(record, &trace, &opening->hidden[index]);
    free(sealing);
    return has_room;
}

static void mark_open(const struct opening *opening)
{
    for (uint32_t i = 0; i < opening->count; i++) {
        if (opening->hidden[i] == DISCLOSURE_UNSAID)
            continue;
        struct error_identity *identity =
            atomic_load_explicit(&opening->made[i]->identity, memory_order_acquire);
        identity->disclosure = opening->hidden[i];
        sealing_opened(identity->sealing, opening->made[i]->attachments);
    }
}

static enum bus_err copy_opened(struct opening *opening, const struct bus_error *error,
                                const struct key_pair *pair, struct bus_error **out_opened,
                                struct bus_error **reterr)
{
    bool is_made = true;
    opening->count = error_to_records(error, opening->records);
    for (uint32_t i = 0; is_made && i < opening->count; i++)
        is_made = open_record(opening, i, pair);
    if (!is_made || !error_build(opening->records, opening->count, opening->made))
        return error_give(reterr, BUS_ENOMEM, &error_no_memory);
    mark_open(opening);
    *out_opened = bus_error_ref(opening->made[0]);
    return BUS_OK;
}

enum bus_err bus_error_open(const struct bus_error *error, const char *path,
                            struct bus_error **out_opened, struct bus_error **reterr)
{
    uint8_t room[SEALED_TRACE_BYTES_MAX];
    struct sealed_trace trace;
    struct key_pair pair = {.public_key = {0}};
    if (error == NULL || path == NULL || out_opened == NULL)
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "bus_error_open() needs an error, the path of a key file, and out_opened");
    enum bus_err err = error_open_trace(error, path, room, &trace, &pair, reterr);
    struct opening *opening = err == BUS_OK ? calloc(1, sizeof *opening) : NULL;
    if (err == BUS_OK && opening == NULL)
        err = error_give(reterr, BUS_ENOMEM, &error_no_memory);
    if (err == BUS_OK)
        err = copy_opened(opening, error, &pair, out_opened, reterr);
    if (opening != NULL)
        opening_free(opening);
    explicit_bzero(room, sizeof room);
    key_pair_forget(&pair);
    return err;
}
