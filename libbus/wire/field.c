/* SPDX-License-Identifier: MPL-2.0 */
/* field.c -- the one walker that encodes, decodes and checks by descriptors; see field.h. */
#include "libbus/wire/field.h"

#include "libbus/base/must.h"
#include "libbus/base/utf8.h"

#include <string.h>

static int append_bytes(void *data, const char *bytes, size_t count)
{
    struct field_writer *writer = data;
    if (writer->room - writer->at < count)
        return -1;
    if (count > 0)
        memcpy(writer->out + writer->at, bytes, count);
    writer->at += count;
    return 0;
}

void field_writer_init(struct field_writer *writer, uint8_t *out, size_t room)
{
    writer->out = out;
    writer->room = room;
    writer->at = 0;
    msgpack_packer_init(&writer->packer, writer, append_bytes);
}

static uint64_t u64_of(const struct field *field, const void *object)
{
    uint64_t number;
    memcpy(&number, (const char *)object + field->offset, sizeof number);
    return number;
}

static int64_t i64_of(const struct field *field, const void *object)
{
    int64_t number;
    memcpy(&number, (const char *)object + field->offset, sizeof number);
    return number;
}

static struct span span_at(const struct field *field, const void *object)
{
    struct span span;
    memcpy(&span, (const char *)object + field->offset, sizeof span);
    return span;
}

static enum wire_err bytes_check(const struct field *field, struct span bytes)
{
    if (bytes.bytes < (uint64_t)field->smallest || bytes.bytes > field->largest)
        return WIRE_RANGE;
    return field->type == FIELD_BIN || utf8_is_valid(bytes) ? WIRE_OK : WIRE_UTF8;
}

enum wire_err field_check(const struct field *field, const void *object)
{
    switch (field->type) {
    case FIELD_U64: return u64_of(field, object) <= field->largest ? WIRE_OK : WIRE_RANGE;
    case FIELD_I64: return i64_of(field, object) >= field->smallest ? WIRE_OK : WIRE_RANGE;
    case FIELD_STR:
    case FIELD_BIN: return bytes_check(field, span_at(field, object));
    case FIELD_NONE: break;
    }
    must(!"a field without a type");
    return WIRE_RANGE;
}

static int str_pack(msgpack_packer *packer, struct span text)
{
    int failed = msgpack_pack_str(packer, text.bytes);
    return failed != 0 ? failed : msgpack_pack_str_body(packer, text.data, text.bytes);
}

static int bin_pack(msgpack_packer *packer, struct span bytes)
{
    int failed = msgpack_pack_bin(packer, bytes.bytes);
    return failed != 0 ? failed : msgpack_pack_bin_body(packer, bytes.data, bytes.bytes);
}

static int field_pack(const struct field *field, const void *object, msgpack_packer *packer)
{
    switch (field->type) {
    case FIELD_U64: return msgpack_pack_uint64(packer, u64_of(field, object));
    case FIELD_I64: return msgpack_pack_int64(packer, i64_of(field, object));
    case FIELD_STR: return str_pack(packer, span_at(field, object));
    case FIELD_BIN: return bin_pack(packer, span_at(field, object));
    case FIELD_NONE: break;
    }
    must(!"a field without a type");
    return -1;
}

enum wire_err fields_write(const struct field *fields, uint32_t count, const void *object,
                           struct field_writer *writer)
{
    for (uint32_t i = 0; i < count; i++) {
        enum wire_err err = field_check(&fields[i], object);
        if (err != WIRE_OK)
            return err;
        if (field_pack(&fields[i], object, &writer->packer) != 0)
            return WIRE_FULL;
    }
    return WIRE_OK;
}

static enum wire_err u64_read(const msgpack_object *object, void *out)
{
    if (object->type == MSGPACK_OBJECT_NEGATIVE_INTEGER)
        return WIRE_RANGE;
    if (object->type != MSGPACK_OBJECT_POSITIVE_INTEGER)
        return WIRE_FORMAT;
    memcpy(out, &object->via.u64, sizeof object->via.u64);
    return WIRE_OK;
}

static enum wire_err i64_read(const msgpack_object *object, void *out)
{
    if (object->type == MSGPACK_OBJECT_POSITIVE_INTEGER && object->via.u64 > INT64_MAX)
        return WIRE_RANGE;
    if (object->type != MSGPACK_OBJECT_POSITIVE_INTEGER &&
        object->type != MSGPACK_OBJECT_NEGATIVE_INTEGER)
        return WIRE_FORMAT;
    memcpy(out, &object->via.i64, sizeof object->via.i64);
    return WIRE_OK;
}

static enum wire_err bytes_read(const msgpack_object *object, enum field_type type, void *out)
{
    struct span bytes;
    if (type == FIELD_STR && object->type == MSGPACK_OBJECT_STR)
        bytes = span_of(object->via.str.ptr, object->via.str.size);
    else if (type == FIELD_BIN && object->type == MSGPACK_OBJECT_BIN)
        bytes = span_of(object->via.bin.ptr, object->via.bin.size);
    else
        return WIRE_FORMAT;
    memcpy(out, &bytes, sizeof bytes);
    return WIRE_OK;
}

/* Reads a field by msgpack-c.  It leaves str and bin where they are, and takes memory from the zone
 * only for arrays and maps.  Those do not come here, so nothing is allocated. */
static enum wire_err field_read(const struct field *field, void *object, struct walk *walk)
{
    msgpack_zone zone = {0};
    msgpack_object got;
    if (walk_is_container(walk))
        return WIRE_FORMAT;
    if (msgpack_unpack((const char *)walk->data, walk->bytes, &walk->at, &zone, &got) <= 0)
        return WIRE_FORMAT;
    void *out = (char *)object + field->offset;
    switch (field->type) {
    case FIELD_U64: return u64_read(&got, out);
    case FIELD_I64: return i64_read(&got, out);
    case FIELD_STR:
    case FIELD_BIN: return bytes_read(&got, field->type, out);
    case FIELD_NONE: break;
    }
    must(!"a field without a type");
    return WIRE_FORMAT;
}

enum wire_err fields_read(const struct field *fields, uint32_t count, void *object,
                          struct walk *walk, uint32_t *elements)
{
    for (uint32_t i = 0; i < count; i++) {
        enum wire_err err = WIRE_OK;
        if (*elements > 0) {
            err = field_read(&fields[i], object, walk);
            *elements -= 1;
        }
        if (err == WIRE_OK)
            err = field_check(&fields[i], object);
        if (err != WIRE_OK)
            return err;
    }
    return WIRE_OK;
}

enum wire_err fields_encode(uint32_t number, const struct field *fields, uint32_t count,
                            const void *object, uint8_t *out, size_t room, size_t *out_bytes)
{
    struct field_writer writer;
    field_writer_init(&writer, out, room);
    if (msgpack_pack_array(&writer.packer, (size_t)count + 1) != 0 ||
        msgpack_pack_uint32(&writer.packer, number) != 0)
        return WIRE_FULL;
    enum wire_err err = fields_write(fields, count, object, &writer);
    if (err == WIRE_OK)
        *out_bytes = writer.at;
    return err;
}

enum wire_err fields_decode(struct span record, const struct field *fields, uint32_t count,
                            void *object)
{
    struct walk walk = walk_of(record);
    uint32_t elements = 0;
    enum wire_err err = walk_array(&walk, &elements);
    must(err == WIRE_OK && elements > 0);
    err = walk_object(&walk); /* its number */
    must(err == WIRE_OK);
    elements -= 1;
    return fields_read(fields, count, object, &walk, &elements);
}
