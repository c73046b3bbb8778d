/* SPDX-License-Identifier: MPL-2.0 */
/* error.c -- the error object to bytes and back; see error.h. */
#include "libbus/wire/error.h"

#include "libbus/base/must.h"
#include "libbus/base/utf8.h"
#include "libbus/wire/chain.h"
#include "libbus/wire/field.h"
#include "libbus/wire/msg.h"
#include "libbus/wire/walk.h"

#include <string.h>

enum {
    CUT_NOTE_BYTES_MAX = 40, /* " ... 18446744073709551615 bytes cut ... " */
    CHAIN_HEAD_BYTES_MAX = 3,
    RECORD_SLACK_BYTES = 32, /* head, left_out and causes of a record may grow by so much */
};

/* The fields of a record.  Its causes and further blames follow them as arrays. */
static const struct field record_fields[] = {
    FIELD_ROW_STR(error_record, id, 0, LIMIT_ERROR_ID_BYTES),
    FIELD_ROW_STR(error_record, job, 0, LIMIT_NAME_BYTES),
    FIELD_ROW_U64(error_record, attempt, UINT32_MAX),
    FIELD_ROW_STR(error_record, party, 0, LIMIT_NAME_BYTES),
    FIELD_ROW_U64(error_record, incarnation, UINT32_MAX),
    FIELD_ROW_U64(error_record, kind, UINT16_MAX),
    FIELD_ROW_STR(error_record, type, 0, LIMIT_ERROR_TYPE_BYTES),
    FIELD_ROW_STR(error_record, message, 0, LIMIT_ERROR_MESSAGE_BYTES),
    FIELD_ROW_STR(error_record, stacktrace, 0, LIMIT_ERROR_STACK_BYTES),
    FIELD_ROW_I64(error_record, code, INT64_MIN),
    FIELD_ROW_U64(error_record, recoverable, RECOVERABLE_NO),
    FIELD_ROW_I64(error_record, retry_after_ms, -1),
    FIELD_ROW_U64(error_record, origin, ORIGIN_SYSTEM),
    FIELD_ROW_I64(error_record, occurred_ns, INT64_MIN),
    FIELD_ROW_U64(error_record, uncertainty_ns, UINT64_MAX),
    FIELD_ROW_I64(error_record, wall_ns, INT64_MIN),
    FIELD_ROW_STR(error_record, host, 0, LIMIT_NAME_BYTES),
    FIELD_ROW_U64(error_record, pid, UINT32_MAX),
    FIELD_ROW_I64(error_record, exit_code, -1),
    FIELD_ROW_U64(error_record, signal, UINT16_MAX),
    FIELD_ROW_STR(error_record, topic, 0, LIMIT_NAME_BYTES),
    FIELD_ROW_U64(error_record, seq, UINT64_MAX),
    FIELD_ROW_STR(error_record, blames, 0, LIMIT_NAME_BYTES),
    FIELD_ROW_BIN(error_record, trace_id, 0, LIMIT_TRACE_ID_BYTES),
    FIELD_ROW_U64(error_record, left_out, UINT32_MAX),
    FIELD_ROW_U64(error_record, is_cut, 1),
    FIELDS_END,
};

static const struct field claim_field = {
    .type = FIELD_STR, .smallest = 0, .largest = LIMIT_NAME_BYTES};

static const struct field sealed_field = {
    .type = FIELD_BIN, .smallest = 0, .largest = LIMIT_ERROR_SEALED_BYTES};

static const struct field blame_field = {
    .type = FIELD_STR, .smallest = 1, .largest = LIMIT_NAME_BYTES};

/* The two fields of each attachment, which all stand in one array. */
static const struct field attached_fields[] = {
    FIELD_ROW_STR(error_attached, name, 1, LIMIT_NAME_BYTES),
    FIELD_ROW_U64(error_attached, bytes, UINT64_MAX),
    FIELDS_END,
};
enum { ATTACHED_FIELDS = FIELDS_COUNT(attached_fields) };

static const char *const kind_names[ERROR_KIND_COUNT] = {
#define KIND(upper, name, number, what) [number] = #name,
#include "schemas/errors.def"
#undef KIND
};

const char *error_kind_name(uint64_t kind)
{
    return kind_names[kind < ERROR_KIND_COUNT ? kind : ERROR_APPLICATION];
}

bool error_kind_find(struct span name, enum error_kind *out_kind)
{
    for (unsigned kind = 0; kind < ERROR_KIND_COUNT; kind++)
        if (span_equal(name, span_text(kind_names[kind]))) {
            *out_kind = (enum error_kind)kind;
            return true;
        }
    return false;
}

void error_record_init(struct error_record *record)
{
    *record = (struct error_record){.retry_after_ms = -1, .exit_code = -1};
}

static enum wire_err trace_id_check(const struct error_record *record)
{
    size_t bytes = record->trace_id.bytes;
    return bytes == 0 || bytes == LIMIT_TRACE_ID_BYTES ? WIRE_OK : WIRE_RANGE;
}

static enum wire_err more_blames_check(const struct error_record *record)
{
    if (record->more_blame_count > LIMIT_ERROR_BLAMES - 1)
        return WIRE_RANGE;
    return record->more_blame_count > 0 && record->blames.bytes == 0 ? WIRE_RANGE : WIRE_OK;
}

/* ---- attachments ----------------------------------------------------------------------------- */

size_t error_attached_write(const struct error_attached *attached, uint32_t count, uint8_t *out)
{
    struct field_writer writer;
    must(count <= LIMIT_ERROR_ATTACHMENTS);
    if (count == 0)
        return 0;
    field_writer_init(&writer, out, ERROR_ATTACHED_BYTES_MAX);
    must(msgpack_pack_array(&writer.packer, (size_t)count * ATTACHED_FIELDS) == 0);
    for (uint32_t i = 0; i < count; i++)
        must(fields_write(attached_fields, ATTACHED_FIELDS, &attached[i], &writer) == WIRE_OK);
    return writer.at;
}

/* Reads the attachment at which the walk stands. */
static enum wire_err attached_read(struct walk *walk, struct error_attached *attached)
{
    uint32_t elements = ATTACHED_FIELDS;
    return fields_read(attached_fields, ATTACHED_FIELDS, attached, walk, &elements);
}

bool error_attached_next(struct span *list, struct error_attached *out_attached)
{
    struct walk walk = walk_of(*list);
    uint32_t count;
    if (list->bytes == 0)
        return false;
    bool is_first = walk_is_container(&walk);
    must(!is_first || walk_array(&walk, &count) == WIRE_OK);
    *out_attached = (struct error_attached){.name = SPAN_NONE};
    must(attached_read(&walk, out_attached) == WIRE_OK); /* it was checked before */
    *list = span_of(walk.data + walk.at, walk.bytes - walk.at);
    return true;
}

/* ---- cutting --------------------------------------------------------------------------------- */
/* Room for what is left of two texts that were too long. */
struct cut_texts {
    char message[LIMIT_ERROR_MESSAGE_BYTES];
    char stacktrace[LIMIT_ERROR_STACK_BYTES];
};

static size_t text_append(char *out, size_t at, struct span text)
{
    memcpy(out + at, text.data, text.bytes);
    return at + text.bytes;
}

static size_t number_append(char *out, size_t at, uint64_t number)
{
    char digits[20];
    size_t begin = sizeof digits;
    do {
        begin -= 1;
        digits[begin] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    return text_append(out, at, span_of(digits + begin, sizeof digits - begin));
}

/* The beginning and the end of text, and between them how much is missing: at most limit bytes. */
static struct span text_cut(struct span text, char *out, size_t limit)
{
    const char *data = text.data;
    size_t each = (limit - CUT_NOTE_BYTES_MAX) / 2;
    size_t front = utf8_cut(data, each);
    size_t tail = text.bytes - each;
    while (tail < text.bytes && ((uint8_t)data[tail] & 0xc0) == 0x80)
        tail += 1; /* the rest of a character whose first bytes go */
    size_t at = text_append(out, 0, span_of(data, front));
    at = text_append(out, at, span_text(" ... "));
    at = number_append(out, at, tail - front);
    at = text_append(out, at, span_text(" bytes cut ... "));
    at = text_append(out, at, span_of(data + tail, text.bytes - tail));
    return span_of(out, at);
}

static enum wire_err record_cut(struct error_record *record, struct cut_texts *texts)
{
    if (!utf8_is_valid(record->message) || !utf8_is_valid(record->stacktrace))
        return WIRE_UTF8;
    if (record->message.bytes > LIMIT_ERROR_MESSAGE_BYTES) {
        record->message = text_cut(record->message, texts->message, sizeof texts->message);
        record->is_cut = 1;
    }
    if (record->stacktrace.bytes > LIMIT_ERROR_STACK_BYTES) {
        record->stacktrace =
            text_cut(record->stacktrace, texts->stacktrace, sizeof texts->stacktrace);
        record->is_cut = 1;
    }
    return WIRE_OK;
}

/* ---- out ------------------------------------------------------------------------------------- */
static enum wire_err causes_write(const struct error_record *record, struct field_writer *writer)
{
    if (msgpack_pack_array(&writer->packer, record->cause_count) != 0)
        return WIRE_FULL;
    for (uint32_t i = 0; i < record->cause_count; i++)
        if (msgpack_pack_uint32(&writer->packer, record->causes[i]) != 0)
            return WIRE_FULL;
    return WIRE_OK;
}

static enum wire_err more_blames_write(const struct error_record *record,
                                       struct field_writer *writer)
{
    enum wire_err err = WIRE_OK;
    if (msgpack_pack_array(&writer->packer, record->more_blame_count) != 0)
        return WIRE_FULL;
    for (uint32_t i = 0; err == WIRE_OK && i < record->more_blame_count; i++)
        err = fields_write(&blame_field, 1, &record->more_blames[i], writer);
    return err;
}

/* Copies the attachments as they are: they were made here, or checked when they came. */
static enum wire_err attachments_write(const struct error_record *record,
                                       struct field_writer *writer)
{
    if (record->attachments.bytes == 0)
        return msgpack_pack_array(&writer->packer, 0) == 0 ? WIRE_OK : WIRE_FULL;
    if (record->attachments.bytes > writer->room - writer->at)
        return WIRE_FULL;
    memcpy(writer->out + writer->at, record->attachments.data, record->attachments.bytes);
    writer->at += record->attachments.bytes;
    return WIRE_OK;
}

/* How many elements follow the fields: the causes, and all up to the last one that is not empty. */
static size_t elements_behind(const struct error_record *record)
{
    if (record->sealed.bytes > 0)
        return 5;
    if (record->claimed_by.bytes > 0)
        return 4;
    if (record->attachments.bytes > 0)
        return 3;
    return record->more_blame_count > 0 ? 2 : 1;
}

static enum wire_err record_write(const struct error_record *given, struct field_writer *writer)
{
    struct error_record record = *given;
    struct cut_texts texts;
    size_t behind = elements_behind(&record);
    enum wire_err err = trace_id_check(&record);
    if (err == WIRE_OK)
        err = more_blames_check(&record);
    if (err == WIRE_OK)
        err = record_cut(&record, &texts);
    if (err != WIRE_OK)
        return err;
    if (msgpack_pack_array(&writer->packer, FIELDS_COUNT(record_fields) + behind) != 0)
        return WIRE_FULL;
    err = fields_write(record_fields, FIELDS_COUNT(record_fields), &record, writer);
    if (err == WIRE_OK)
        err = causes_write(&record, writer);
    if (err == WIRE_OK && behind > 1)
        err = more_blames_write(&record, writer);
    if (err == WIRE_OK && behind > 2)
        err = attachments_write(&record, writer);
    if (err == WIRE_OK && behind > 3)
        err = fields_write(&claim_field, 1, &record.claimed_by, writer);
    if (err == WIRE_OK && behind > 4)
        err = fields_write(&sealed_field, 1, &record.sealed, writer);
    return err;
}

static enum wire_err all_write(const struct error_record *records, uint32_t count,
                               struct field_writer *writer)
{
    if (msgpack_pack_array(&writer->packer, count) != 0)
        return WIRE_FULL;
    for (uint32_t i = 0; i < count; i++) {
        enum wire_err err = record_write(&records[i], writer);
        if (err != WIRE_OK)
            return err;
    }
    return WIRE_OK;
}

/* Measures at most how many bytes each record takes, whichever records around it are left out. */
static enum wire_err records_measure(const struct error_record *records, uint32_t count,
                                     size_t *sizes)
{
    uint8_t bytes[LIMIT_ERROR_BYTES];
    for (uint32_t i = 0; i < count; i++) {
        struct field_writer writer;
        field_writer_init(&writer, bytes, sizeof bytes);
        enum wire_err err = record_write(&records[i], &writer);
        if (err != WIRE_OK)
            return err;
        sizes[i] = writer.at + RECORD_SLACK_BYTES;
    }
    return WIRE_OK;
}

/* The new place of a kept record. */
static uint32_t place_of(const struct chain *chain, uint32_t index)
{
    uint32_t place = 0;
    while (chain->links[place].index != index)
        place += 1;
    return place;
}

static enum wire_err chain_write(const struct error_record *records, const struct chain *chain,
                                 struct field_writer *writer)
{
    if (msgpack_pack_array(&writer->packer, chain->count) != 0)
        return WIRE_FULL;
    for (uint32_t i = 0; i < chain->count; i++) {
        const struct chain_link *link = &chain->links[i];
        struct error_record record = records[link->index];
        record.left_out = link->left_out;
        record.cause_count = link->cause_count;
        for (uint32_t at = 0; at < link->cause_count; at++)
            record.causes[at] = place_of(chain, link->causes[at]);
        enum wire_err err = record_write(&record, writer);
        if (err != WIRE_OK)
            return err;
    }
    return WIRE_OK;
}

enum wire_err error_encode(const struct error_record *records, uint32_t count, uint8_t *out,
                           size_t room, size_t *out_bytes)
{
    struct field_writer writer;
    size_t budget = room < LIMIT_ERROR_BYTES ? room : LIMIT_ERROR_BYTES;
    if (count == 0 || count > LIMIT_ERROR_GIVEN)
        return WIRE_RANGE;
    enum wire_err err = chain_check(records, count);
    if (err != WIRE_OK)
        return err;
    field_writer_init(&writer, out, budget);
    err = count <= LIMIT_ERROR_RECORDS ? all_write(records, count, &writer) : WIRE_FULL;
    if (err == WIRE_FULL) {
        size_t sizes[LIMIT_ERROR_GIVEN];
        struct chain chain;
        err = records_measure(records, count, sizes);
        if (err != WIRE_OK)
            return err;
        size_t head = budget < CHAIN_HEAD_BYTES_MAX ? budget : CHAIN_HEAD_BYTES_MAX;
        chain_select(records, count, sizes, budget - head, &chain);
        field_writer_init(&writer, out, budget);
        err = chain_write(records, &chain, &writer);
    }
    if (err == WIRE_OK)
        *out_bytes = writer.at;
    return err;
}

/* ---- in -------------------------------------------------------------------------------------- */
static enum wire_err causes_read(struct error_record *record, struct walk *walk)
{
    static const struct field cause = {.type = FIELD_U64, .largest = LIMIT_ERROR_RECORDS - 1};
    uint32_t count;
    enum wire_err err = walk_array(walk, &count);
    if (err != WIRE_OK)
        return err;
    if (count > LIMIT_ERROR_CAUSES)
        return WIRE_RANGE;
    record->cause_count = count;
    for (uint32_t i = 0; i < record->cause_count; i++) {
        uint64_t index;
        err = fields_read(&cause, 1, &index, walk, &count);
        if (err != WIRE_OK)
            return err;
        record->causes[i] = (uint32_t)index;
    }
    return WIRE_OK;
}

static enum wire_err more_blames_read(struct error_record *record, struct walk *walk)
{
    uint32_t count;
    enum wire_err err = walk_array(walk, &count);
    if (err != WIRE_OK)
        return err;
    record->more_blame_count = count;
    err = more_blames_check(record);
    for (uint32_t i = 0; err == WIRE_OK && i < record->more_blame_count; i++)
        err = fields_read(&blame_field, 1, &record->more_blames[i], walk, &count);
    return err;
}

/* Steps over a list of attachments; out_count: its elements. */
static enum wire_err attachments_check(struct walk *walk, uint32_t *out_count)
{
    struct error_attached attached = {.name = SPAN_NONE};
    enum wire_err err = walk_array(walk, out_count);
    if (err == WIRE_OK && (*out_count % ATTACHED_FIELDS != 0 ||
                           *out_count > LIMIT_ERROR_ATTACHMENTS * (uint32_t)ATTACHED_FIELDS))
        err = WIRE_RANGE;
    for (uint32_t i = 0; err == WIRE_OK && i < *out_count; i += ATTACHED_FIELDS)
        err = attached_read(walk, &attached);
    return err;
}

static enum wire_err attachments_read(struct error_record *record, struct walk *walk)
{
    size_t begin = walk->at;
    uint32_t count = 0;
    enum wire_err err = attachments_check(walk, &count);
    if (err == WIRE_OK && count > 0)
        record->attachments = span_of(walk->data + begin, walk->at - begin);
    return err;
}

bool error_attached_is_valid(struct span list)
{
    uint32_t count = 0;
    if (wire_walk(list) != WIRE_OK)
        return false;
    struct walk walk = walk_of(list);
    return attachments_check(&walk, &count) == WIRE_OK && count > 0;
}

static enum wire_err record_read(struct error_record *record, struct walk *walk)
{
    uint32_t elements;
    error_record_init(record);
    enum wire_err err = walk_array(walk, &elements);
    if (err == WIRE_OK)
        err = fields_read(record_fields, FIELDS_COUNT(record_fields), record, walk, &elements);
    if (err == WIRE_OK)
        err = trace_id_check(record);
    if (err == WIRE_OK && elements > 0) {
        err = causes_read(record, walk);
        elements -= 1;
    }
    if (err == WIRE_OK && elements > 0) {
        err = more_blames_read(record, walk);
        elements -= 1;
    }
    if (err == WIRE_OK && elements > 0) {
        err = attachments_read(record, walk);
        elements -= 1;
    }
    if (err == WIRE_OK && elements > 0)
        err = fields_read(&claim_field, 1, &record->claimed_by, walk, &elements);
    if (err == WIRE_OK && elements > 0)
        err = fields_read(&sealed_field, 1, &record->sealed, walk, &elements);
    for (; err == WIRE_OK && elements > 0; elements--)
        err = walk_object(walk); /* fields of a newer version */
    return err;
}

enum wire_err error_decode(struct span bytes, struct error_record *records, uint32_t room,
                           uint32_t *out_count)
{
    struct error_record chain[LIMIT_ERROR_RECORDS];
    uint32_t count;
    if (bytes.bytes > LIMIT_ERROR_BYTES)
        return WIRE_TOO_BIG;
    enum wire_err err = wire_walk(bytes);
    if (err != WIRE_OK)
        return err;
    struct walk walk = walk_of(bytes);
    err = walk_array(&walk, &count);
    if (err != WIRE_OK)
        return err;
    if (count == 0 || count > LIMIT_ERROR_RECORDS)
        return WIRE_RANGE;
    for (uint32_t i = 0; err == WIRE_OK && i < count; i++)
        err = record_read(&chain[i], &walk);
    if (err == WIRE_OK)
        err = chain_check(chain, count);
    if (err != WIRE_OK)
        return err;
    *out_count = count < room ? count : room;
    if (*out_count > 0)
        memcpy(records, chain, *out_count * sizeof *chain);
    return WIRE_OK;
}
