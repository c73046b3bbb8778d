/* SPDX-License-Identifier: MPL-2.0 */
/* words.c -- the library's own error objects, in a bus that has no more than they ask for; see
 * words.h. */
#include "tests/sim/words.h"

#include "libbus/api/attach_jobs.h"
#include "libbus/api/error.h"
#include "libbus/api/error_wire.h"
#include "libbus/api/model.h"
#include "libbus/api/sealing.h"
#include "libbus/base/must.h"
#include "libbus/session/model.h"
#include "libbus/wire/disclosure.h"
#include "tests/lib/fnv.h"
#include "tests/sim/around.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CAUSE_BYTES_MAX = 2000 }; /* chains go on up to there */

/* ---- what remains ---------------------------------------------------------------------------- */

static uint64_t hash_of(struct span id)
{
    return fnv(FNV_BEGIN, id.data, id.bytes);
}

static int64_t code_of(struct span id)
{
    return (int64_t)(hash_of(id) >> 1);
}

static int64_t retry_of(struct span cause)
{
    return (int64_t)(hash_of(cause) & 0xffff);
}

static uint64_t recoverable_of(struct span id)
{
    return hash_of(id) % 2 == 0 ? RECOVERABLE_YES : RECOVERABLE_NO;
}

/* It also says whether the maker seals, and what. */
static void blame_of(struct span id, const struct secret_owner *owner, char out[16])
{
    int own = owner->is_sealing ? (int)owner->own : 0;
    int of_job = owner->is_sealing ? (int)owner->of_job : 0;
    (void)snprintf(out, 16, "%d-%d-%u", own % 10, of_job % 10, (unsigned)(hash_of(id) % 1000));
}

static struct secret_owner owner_of(struct span blame)
{
    const char *digits = blame.data;
    bool is_said = blame.bytes > 3 && digits[0] > '0' && digits[0] <= '0' + DISCLOSURE_NONE;
    if (!is_said)
        return (struct secret_owner){.own = DISCLOSURE_UNSAID};
    return (struct secret_owner){.own = (enum disclosure)(digits[0] - '0'),
                                 .of_job = (enum disclosure)(digits[2] - '0'),
                                 .is_sealing = true};
}

/* The library has given it an id; what follows from that is put in behind its back. */
static void mark(struct bus_error *error, const struct secret_owner *owner)
{
    char blame[16];
    struct span id = span_text(bus_error_id(error));
    blame_of(id, owner, blame);
    error->code = code_of(id);
    error->recoverable = recoverable_of(id);
    must(error->blame_count == 0 && error_add_blame(error, span_text(blame)));
    if (error->cause_count > 0)
        error->retry_after_ms = retry_of(span_text(bus_error_id(error->causes[0])));
}

/* Whose id the record has what it says from; count: nobody's. */
static uint32_t maker_of(const struct error_record *records, uint32_t count, int64_t code)
{
    uint32_t i = 0;
    while (i < count && code_of(records[i].id) != code)
        i++;
    return i;
}

static bool has_retry(const struct error_record *records, uint32_t count, int64_t retry_after_ms)
{
    uint32_t i = 0;
    while (i < count && retry_of(records[i].id) != retry_after_ms)
        i++;
    return retry_after_ms < 0 || i < count;
}

/* By its type; or that is withheld.  An error of the bus that the broker has forgotten is a claim
 * of the party that passes it on, and is withheld as all that a party says. */
static bool is_ours(const struct error_record *record)
{
    if (record->claimed_by.bytes > 0 && disclosure_spares(record->id, record->party))
        return false;
    char mark_of_types[SECRET_BYTES + 1];
    secret_write(SECRET_TYPE, &(struct secret_owner){.own = DISCLOSURE_FULL}, mark_of_types);
    bool is_marked = record->type.bytes == SECRET_BYTES &&
                     memcmp(record->type.data, mark_of_types, SECRET_BYTES - 4) == 0;
    return is_marked || span_equal(record->type, span_text(ERROR_TYPE_WITHHELD));
}

/* What the bus made has no code, and what passes that on has none either. */
static bool is_of_bus(const struct error_record *records, const struct error_record *record)
{
    return record->code == 0 && record->cause_count > 0 && records[record->causes[0]].code == 0;
}

/* For an error that memory was short for: of no party, and no job that there could be. */
static bool is_stand_in(const struct error_record *record)
{
    return span_equal(record->job, span_text("-")) && record->party.bytes == 0;
}

/* ---- what is sealed -------------------------------------------------------------------------- */

static uint64_t opened_count;

uint64_t words_opened(void)
{
    return opened_count;
}

static bool is_secret(struct span text, enum secret secret, const struct secret_owner *owner)
{
    char wanted[SECRET_BYTES + 1];
    secret_write(secret, owner, wanted);
    return span_equal(text, span_text(wanted));
}

/* Under its true name, of as many bytes. */
static bool has_attachment(struct span list, const struct secret_owner *owner)
{
    struct error_attached attached;
    return error_attached_next(&list, &attached) && is_secret(attached.name, SECRET_NAME, owner) &&
           attached.bytes == SECRET_BYTES;
}

/* NULL: whoever has the key reads all that others do not see, and they see what they may. */
static const char *judge_sealed(const struct error_record *record, const struct secret_owner *owner)
{
    static uint8_t room[SEALED_TRACE_BYTES_MAX];
    static struct error_sealing *sealing;
    struct sealed_trace trace;
    enum disclosure level = disclosure_stricter(owner->own, owner->of_job);
    struct span type = record->type;
    struct span message = record->message;
    free(sealing);
    sealing = sealing_keep(record->sealed);
    if (record->sealed.bytes == 0)
        return "what its party sealed";
    if (level < DISCLOSURE_TYPE && !is_secret(message, SECRET_MESSAGE, owner))
        return "its message, which is not sealed";
    if (level < DISCLOSURE_NONE && !is_secret(type, SECRET_TYPE, owner))
        return "its type, which is not sealed";
    const char *closed = sealing_open(sealing, record->id, around_auditor(), room, &trace);
    if (closed != NULL)
        return closed;
    if (trace.type.bytes > 0)
        type = trace.type;
    if (trace.message.bytes > 0)
        message = trace.message;
    if (!is_secret(type, SECRET_TYPE, owner) || !is_secret(message, SECRET_MESSAGE, owner) ||
        !is_secret(trace.stacktrace, SECRET_STACKTRACE, owner))
        return "a text that was sealed";
    if (record->attachments.bytes > 0 && !has_attachment(trace.attachments, owner))
        return "the name of an attachment, which was sealed";
    opened_count += 1;
    return NULL;
}

/* An error that is passed on as it came says what it said, and has it as its cause. */
const char *words_judge(struct span error)
{
    static struct error_record records[LIMIT_ERROR_RECORDS];
    static char text[LIMIT_ERROR_ID_BYTES + 100];
    uint32_t count = 0;
    if (error_decode(error, records, LIMIT_ERROR_RECORDS, &count) != WIRE_OK)
        return "an error that cannot be read";
    for (uint32_t i = 0; i < count; i++)
        if (records[i].left_out > 0)
            return NULL; /* it may have been among those */
    for (uint32_t i = 0; i < count; i++) {
        char blame[16] = "";
        const struct error_record *record = &records[i];
        if (!is_ours(record) || is_of_bus(records, record) || is_stand_in(record))
            continue;
        uint32_t maker = maker_of(records, count, record->code);
        struct secret_owner owner = owner_of(record->blames);
        if (maker < count)
            blame_of(records[maker].id, &owner, blame);
        const char *lost = maker == count ? "its code, or whose error it is"
                           : record->recoverable != recoverable_of(records[maker].id)
                               ? "whether it may pass"
                           : !span_equal(record->blames, span_text(blame))        ? "whom it blames"
                           : !has_retry(records, count, record->retry_after_ms)   ? "its cause"
                           : record->party.bytes == 0 || record->incarnation == 0 ? "its party"
                           : record->wall_ns == 0                                 ? "its stamp"
                           : maker == i && owner.is_sealing ? judge_sealed(record, &owner)
                                                            : NULL;
        if (lost == NULL)
            continue;
        (void)snprintf(text, sizeof text, "of the error %.*s is lost: %s", (int)record->id.bytes,
                       (const char *)record->id.data, lost);
        return text;
    }
    return NULL;
}

/* ---- creating -------------------------------------------------------------------------------- */

static void plant_trace_id(struct bus_error *error, const struct secret_owner *owner)
{
    char secret[SECRET_BYTES + 1];
    char digits[2 * SECRET_TRACE_BYTES + 1];
    secret_write(SECRET_TRACE_ID, owner, secret);
    for (size_t i = 0; i < SECRET_TRACE_BYTES; i++)
        (void)snprintf(digits + 2 * i, 3, "%02x", i < SECRET_BYTES ? (unsigned char)secret[i] : 1u);
    must(bus_error_set_trace_id(error, digits) == BUS_OK);
}

static struct bus_error *plant(const struct secret_owner *owner, const struct bus_error *cause)
{
    char type[SECRET_BYTES + 1];
    char message[SECRET_BYTES + 1];
    char stacktrace[SECRET_BYTES + 1];
    secret_write(SECRET_TYPE, owner, type);
    secret_write(SECRET_MESSAGE, owner, message);
    secret_write(SECRET_STACKTRACE, owner, stacktrace);
    struct bus_error *error = bus_error_new(type, cause, "%s", message);
    must(bus_error_set_stacktrace(error, stacktrace) == BUS_OK);
    plant_trace_id(error, owner);
    return error;
}

/* Of one that was received, of one that never was on a bus, or of none. */
static struct bus_error *make(const struct words *words, const struct bus_error *cause,
                              struct words_said *said)
{
    struct bus_error *inner = NULL;
    if (words->lot % 3 == 0)
        inner = plant(&words->owner, cause);
    struct bus_error *error = plant(&words->owner, inner != NULL ? inner : cause);
    if (cause != NULL)
        must(bus_error_set_kind(error, "dependency") == BUS_OK);
    must(bus_error_add_data(error, said->name, said->output.data, said->output.bytes) == BUS_OK);
    bus_error_unref(&inner);
    return error;
}

static struct bus *bus_of(const struct words *words)
{
    static struct bus bus;
    static struct error_encoder encoder;
    bus.encoder = &encoder;
    bus.session = words->session;
    (void)snprintf(bus.job, sizeof bus.job, "%s", words->job);
    (void)snprintf(bus.party, sizeof bus.party, "%s", words->party);
    return &bus;
}

/* A sealed attachment goes under another name, in a box of its own. */
static void seal_output(const struct error_sealing *sealing, struct words_said *said)
{
    static uint8_t box[SEALED_PIECE_HEAD_BYTES + SECRET_BYTES + SEAL_BOX_BYTES];
    uint8_t plain[SEALED_PIECE_HEAD_BYTES + SECRET_BYTES];
    struct sealed_piece piece = {.is_last = true};
    memcpy(piece.label, sealing->label, sizeof piece.label);
    sealed_piece_write(&piece, plain);
    memcpy(plain + SEALED_PIECE_HEAD_BYTES, said->output.data, SECRET_BYTES);
    must(seal_close(sealing->data, span_of(plain, sizeof plain), box));
    sealed_name(0, said->name);
    said->output = span_of(box, sizeof box);
    must(said->output.bytes == sealed_bytes(SECRET_BYTES));
}

void words_forget_job(struct session *session)
{
    session->job_disclosure = DISCLOSURE_UNSAID;
}

/* Some of others are passed on as they came; what the bus said of us is told by it alone. */
static bool is_passed_on(const struct words *words, const struct bus_error *cause)
{
    return cause != NULL && words->lot % 5 < 2 && strcmp(bus_error_party(cause), words->party) != 0;
}

void words_say(const struct words *words, struct words_said *out_said)
{
    static char id[LIMIT_ERROR_ID_BYTES + 1];
    static char attached_to[LIMIT_ERROR_ID_BYTES + 1];
    static char output[SECRET_BYTES + 1];
    struct bus *bus = bus_of(words);
    struct error_record head;
    char host[SECRET_BYTES + 1];
    uint32_t count = 0;
    secret_write(SECRET_HOST, &words->owner, host);
    around_set(words->now_ns, host);
    secret_write(SECRET_NAME, &words->owner, out_said->name);
    secret_write(SECRET_OUTPUT, &words->owner, output);
    out_said->output = span_text(output);
    bool has_cause = words->cause.bytes > 0 && words->cause.bytes < CAUSE_BYTES_MAX;
    struct bus_error *cause = has_cause ? error_from_wire(words->cause) : NULL;
    struct bus_error *error = NULL;
    if (is_passed_on(words, cause)) {
        error = bus_error_ref(cause);
    } else {
        error = make(words, cause, out_said);
        error_stamp(bus, error, words->topic, words->seq);
        if (error->causes != NULL && error->causes[0] != cause)
            mark(error->causes[0], &words->owner);
        mark(error, &words->owner);
    }
    out_said->error = error_to_wire(bus, error, ERROR_TYPE_ABANDONED, words->topic, words->seq);
    (void)snprintf(attached_to, sizeof attached_to, "%s",
                   bus->attach_jobs != NULL ? bus_error_id(error) : "");
    out_said->attached_to = span_text(attached_to);
    const struct error_sealing *sealing = error_identity_of(error)->sealing;
    if (out_said->attached_to.bytes > 0 && sealing != NULL)
        seal_output(sealing, out_said);
    attach_fini(bus);
    must(error_decode(out_said->error, &head, 1, &count) == WIRE_OK && count == 1);
    (void)snprintf(id, sizeof id, "%.*s", (int)head.id.bytes, (const char *)head.id.data);
    out_said->id = span_text(id);
    bus_error_unref(&error);
    bus_error_unref(&cause);
}
