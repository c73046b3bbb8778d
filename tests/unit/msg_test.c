/* SPDX-License-Identifier: MPL-2.0 */
/* msg_test.c -- every message and every field of messages.def, at its limits and beyond them.
 *
 * The table is expanded once more here, to rows that the tests walk; the bytes are made by
 * msgpack-c itself. */
#include "libbus/wire/msg.h"

#include "tests/lib/titles.h"
#define SCHEMA "schemas/messages.def"
#define STRUCT_OF(name) struct msg_##name
#include "tests/unit/schema_fields.def"

#include <criterion/criterion.h>
#include <msgpack.h>
#include <stdlib.h>

/* ---- values for the fields ------------------------------------------------------------------- */
/* A field's value as the test wants it on the wire. */
struct value {
    enum { NUMBER, SIGNED, TEXT, BYTES, NIL, EMPTY_ARRAY, BAD_TEXT, ABSENT } as;
    uint64_t number; /* NUMBER, SIGNED; of the others the bytes */
};

static char filler[LIMIT_CONTROL_BYTES];
static msgpack_sbuffer bytes; /* the message of the running test */

static void init(void)
{
    memset(filler, 'x', sizeof filler);
    msgpack_sbuffer_init(&bytes);
}

static void fini(void)
{
    msgpack_sbuffer_destroy(&bytes);
}

TestSuite(msg, .init = init, .fini = fini);

static struct value value_least(const struct row *row)
{
    switch (row->type) {
    case U64: return (struct value){NUMBER, 0};
    case I64: return (struct value){SIGNED, (uint64_t)row->least};
    case STR: return (struct value){TEXT, (uint64_t)row->least};
    default: return (struct value){BYTES, (uint64_t)row->least};
    }
}

static struct value value_most(const struct row *row)
{
    switch (row->type) {
    case U64: return (struct value){NUMBER, row->most};
    case I64: return (struct value){SIGNED, INT64_MAX};
    case STR: return (struct value){TEXT, row->most};
    default: return (struct value){BYTES, row->most};
    }
}

static void value_pack(msgpack_packer *packer, struct value value)
{
    switch (value.as) {
    case NUMBER: msgpack_pack_uint64(packer, value.number); break;
    case SIGNED: msgpack_pack_int64(packer, (int64_t)value.number); break;
    case BYTES: msgpack_pack_bin_with_body(packer, filler, value.number); break;
    case TEXT: msgpack_pack_str_with_body(packer, filler, value.number); break;
    case NIL: msgpack_pack_nil(packer); break;
    case EMPTY_ARRAY: msgpack_pack_array(packer, 0); break;
    case BAD_TEXT: msgpack_pack_str_with_body(packer, "\xff\xff\xff\xff", value.number); break;
    case ABSENT: break;
    }
}

/* The message with all fields at their least, or most, but row `special`, which has this value; if
 * that is ABSENT, the rest is absent too. */
static void message_pack(unsigned number, bool is_most, uint32_t special, struct value value)
{
    msgpack_packer packer;
    uint32_t fields = 0;
    bool is_over = false;
    msgpack_sbuffer_clear(&bytes);
    msgpack_packer_init(&packer, &bytes, msgpack_sbuffer_write);
    for (uint32_t i = 0; i < ROWS; i++)
        if (rows[i].number == number && !(special <= i && value.as == ABSENT))
            fields += 1;
    msgpack_pack_array(&packer, fields + 1);
    msgpack_pack_uint32(&packer, number);
    for (uint32_t i = 0; i < ROWS; i++) {
        if (rows[i].number != number)
            continue;
        is_over = is_over || (i == special && value.as == ABSENT);
        if (is_over)
            break;
        value_pack(&packer, i == special ? value
                            : is_most    ? value_most(&rows[i])
                                         : value_least(&rows[i]));
    }
}

static const struct title *title_of(unsigned number)
{
    for (uint32_t i = 0; i < TITLES; i++)
        if (titles[i].number == number)
            return &titles[i];
    return NULL;
}

static enum wire_err decode(struct msg *out_msg)
{
    unsigned number = 0;
    struct span part = span_of(bytes.data, bytes.size);
    const struct title *title = title_of(wire_number(part));
    enum wire_err err = msg_decode(part, title->lane, title->direction, out_msg, &number);
    cr_assert_eq(number, title->number);
    return err;
}

/* ---- what is taken --------------------------------------------------------------------------- */
static void check_member(const struct msg *msg, const struct row *row, struct value value)
{
    const char *member = (const char *)&msg->as + row->offset;
    uint64_t number;
    struct span span;
    if (row->type == U64 || row->type == I64) {
        memcpy(&number, member, sizeof number);
        cr_assert_eq(number, value.number, "%s", row->name);
        return;
    }
    memcpy(&span, member, sizeof span);
    cr_assert_eq(span.bytes, value.number, "%s", row->name);
    cr_assert_eq(memcmp(span.bytes > 0 ? span.data : "", filler, span.bytes), 0, "%s", row->name);
    if (span.bytes > 0)
        cr_assert((const char *)span.data >= bytes.data &&
                      (const char *)span.data + span.bytes <= bytes.data + bytes.size,
                  "%s is a part of what was read", row->name);
}

Test(msg, comes_back_with_every_field_at_its_least_and_most)
{
    static uint8_t out[LIMIT_CONTROL_BYTES];
    for (uint32_t i = 0; i < TITLES; i++)
        for (unsigned is_most = 0; is_most <= 1; is_most++) {
            struct msg msg;
            size_t size = 0;
            message_pack(titles[i].number, is_most, ROWS, (struct value){NIL, 0});
            cr_assert_eq(decode(&msg), WIRE_OK, "%s", titles[i].name);
            cr_assert_eq((unsigned)msg.type, titles[i].number);
            for (uint32_t row = 0; row < ROWS; row++)
                if (rows[row].number == titles[i].number)
                    check_member(&msg, &rows[row],
                                 is_most ? value_most(&rows[row]) : value_least(&rows[row]));
            cr_assert_eq(msg_encode(&msg, out, sizeof out, &size), WIRE_OK, "%s", titles[i].name);
            cr_assert(span_equal(span_of(out, size), span_of(bytes.data, bytes.size)), "%s",
                      titles[i].name);
        }
}

Test(msg, lacks_fields_of_an_older_version)
{
    for (uint32_t from = 0; from < ROWS; from++) {
        struct msg msg;
        bool is_needed = false;
        message_pack(rows[from].number, true, from, (struct value){ABSENT, 0});
        for (uint32_t row = from; row < ROWS; row++)
            if (rows[row].number == rows[from].number && rows[row].type >= STR)
                is_needed = is_needed || rows[row].least > 0;
        cr_assert_eq(decode(&msg), is_needed ? WIRE_RANGE : WIRE_OK, "%s", rows[from].name);
        for (uint32_t row = from; !is_needed && row < ROWS; row++)
            if (rows[row].number == rows[from].number)
                check_member(&msg, &rows[row], (struct value){NUMBER, 0});
    }
}

Test(msg, skips_fields_of_a_newer_version)
{
    /* [CREDIT, 1, 2, 3, {1: [nil]}, 2.5, ext] */
    static const char newer[] = "\x97\x46\x01\x02\x03\x81\x01\x91\xc0\xca\x40\x20\x00\x00"
                                "\xd4\x05\x00";
    struct msg msg;
    unsigned number;
    cr_assert_eq(msg_decode(span_of(newer, sizeof newer - 1), MSG_LANE_CONTROL, MSG_TO_CLIENT, &msg,
                            &number),
                 WIRE_OK);
    cr_assert_eq(msg.type, MSG_CREDIT);
    cr_assert_eq(msg.as.credit.topic, 1);
    cr_assert_eq(msg.as.credit.limit_bytes, 2);
    cr_assert_eq(msg.as.credit.batch_bytes, 3);
}

Test(msg, takes_numbers_of_any_width)
{
    static const struct span forms[] = {
#define FORM(text) {.data = text, .bytes = sizeof(text) - 1}
        FORM("\x92\x05\x07"),
        FORM("\x92\xcc\x05\xcc\x07"),
        FORM("\x92\xcd\x00\x05\xcd\x00\x07"),
        FORM("\xdc\x00\x02\xce\x00\x00\x00\x05\xce\x00\x00\x00\x07"),
        FORM("\xdd\x00\x00\x00\x02\x05\xcf\x00\x00\x00\x00\x00\x00\x00\x07"),
        FORM("\x92\x05\xd0\x07"),
        FORM("\x92\x05\xd1\x00\x07"),
        FORM("\x92\x05\xd2\x00\x00\x00\x07"),
        FORM("\x92\x05\xd3\x00\x00\x00\x00\x00\x00\x00\x07"),
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        struct msg msg;
        cr_assert_eq(msg_decode(forms[i], MSG_LANE_CONTROL, MSG_TO_BROKER, &msg, NULL), WIRE_OK,
                     "%zu", i);
        cr_assert_eq(msg.type, MSG_BEAT);
        cr_assert_eq(msg.as.beat.sent_ns, 7);
    }
}

/* ---- what is refused ------------------------------------------------------------------------- */
static void check_refusal(uint32_t row, struct value value, enum wire_err wanted)
{
    struct msg msg = {.type = MSG_NONE};
    message_pack(rows[row].number, false, row, value);
    cr_assert_eq(decode(&msg), wanted, "%s", rows[row].name);
    cr_assert_eq(msg.type, MSG_NONE, "nothing is written without success");
}

Test(msg, is_refused_for_any_field_beyond_its_limits)
{
    for (uint32_t i = 0; i < ROWS; i++) {
        const struct row *row = &rows[i];
        bool is_number = row->type == U64 || row->type == I64;
        unsigned as = row->type == STR ? TEXT : row->type == BIN ? BYTES : NUMBER;
        check_refusal(i, (struct value){NIL, 0}, WIRE_FORMAT);
        check_refusal(i, (struct value){EMPTY_ARRAY, 0}, WIRE_FORMAT);
        check_refusal(i, (struct value){is_number ? TEXT : NUMBER, 1}, WIRE_FORMAT);
        if (row->type == U64)
            check_refusal(i, (struct value){SIGNED, UINT64_MAX}, WIRE_RANGE);
        if (row->type == STR)
            check_refusal(i, (struct value){BYTES, row->most}, WIRE_FORMAT);
        if (row->type == BIN)
            check_refusal(i, (struct value){TEXT, row->most}, WIRE_FORMAT);
        if (row->type == STR)
            check_refusal(i, (struct value){BAD_TEXT, 4}, WIRE_UTF8);
        if (row->type != I64 && row->most < UINT64_MAX)
            check_refusal(i, (struct value){as, row->most + 1}, WIRE_RANGE);
        if (row->type == I64)
            check_refusal(i, (struct value){NUMBER, (uint64_t)INT64_MAX + 1}, WIRE_RANGE);
        if (row->type == I64 && row->least > INT64_MIN)
            check_refusal(i, (struct value){SIGNED, (uint64_t)row->least - 1}, WIRE_RANGE);
        if (!is_number && row->least > 0)
            check_refusal(i, (struct value){as, (uint64_t)row->least - 1}, WIRE_RANGE);
    }
}

Test(msg, is_refused_when_cut_anywhere)
{
    for (uint32_t i = 0; i < TITLES; i++) {
        struct msg msg;
        message_pack(titles[i].number, false, ROWS, (struct value){NIL, 0});
        for (size_t size = 0; size < bytes.size; size++) {
            uint8_t *copy = malloc(size + 1);
            memcpy(copy, bytes.data, size);
            enum wire_err err =
                msg_decode(span_of(copy, size), titles[i].lane, titles[i].direction, &msg, NULL);
            cr_assert(err == WIRE_TRUNCATED || err == WIRE_ITEMS ||
                          (size == 0 && err == WIRE_EMPTY),
                      "%s at %zu: %s", titles[i].name, size, wire_strerror(err));
            free(copy);
        }
    }
}

Test(msg, is_refused_on_the_other_channel_and_in_the_other_direction)
{
    for (uint32_t i = 0; i < TITLES; i++)
        for (unsigned way = 0; way < 4; way++) {
            struct msg msg;
            unsigned number = 0;
            enum msg_lane lane = (enum msg_lane)(way & 1);
            enum msg_direction direction = (enum msg_direction)(way >> 1);
            bool is_its = lane == titles[i].lane && direction == titles[i].direction;
            message_pack(titles[i].number, false, ROWS, (struct value){NIL, 0});
            cr_assert_eq(
                msg_decode(span_of(bytes.data, bytes.size), lane, direction, &msg, &number),
                is_its ? WIRE_OK : WIRE_LANE, "%s", titles[i].name);
            cr_assert_eq(number, titles[i].number);
        }
}

static void check_number(struct span part, enum wire_err wanted, unsigned wanted_number)
{
    struct msg msg;
    unsigned number = 12345;
    cr_assert_eq(msg_decode(part, MSG_LANE_CONTROL, MSG_TO_BROKER, &msg, &number), wanted);
    cr_assert_eq(number, wanted_number);
}

Test(msg, tells_its_number_on_every_outcome)
{
    uint8_t batch[BATCH_HEADER_BYTES];
    uint8_t delivery[DELIVERY_HEADER_BYTES];
    static uint8_t big[LIMIT_CONTROL_BYTES + 1];
    batch_header_write(batch, 1, 48, 1);
    delivery_header_write(delivery, 1);
    check_number(span_of(batch, sizeof batch), WIRE_LANE, BATCH_NUMBER);
    check_number(span_of(delivery, sizeof delivery), WIRE_LANE, DELIVERY_NUMBER);
    check_number(SPAN_NONE, WIRE_EMPTY, MSG_NONE);
    check_number(span_of("\x92\x05", 2), WIRE_ITEMS, MSG_BEAT);
    check_number(span_of("\x93\x05\x01\xcd", 4), WIRE_TRUNCATED, MSG_BEAT);
    check_number(span_of("\x93\x05\x01\x01\x01", 5), WIRE_TRAILING, MSG_BEAT);
    check_number(span_of("\x93\x05\xc1\x01", 4), WIRE_FORMAT, MSG_BEAT);
    check_number(span_of("\x93\x05\xc0\x01", 4), WIRE_FORMAT, MSG_BEAT);
    check_number(span_of("\x91\x7f", 2), WIRE_UNKNOWN, 127);
    check_number(span_of("\x91\x00", 2), WIRE_FORMAT, MSG_NONE);
    check_number(span_of("\x91\xcd\xff\xff", 4), WIRE_UNKNOWN, 0xffff);
    check_number(span_of("\x91\xff", 2), WIRE_FORMAT, MSG_NONE);
    check_number(span_of("\x90", 1), WIRE_FORMAT, MSG_NONE);
    check_number(span_of("\x80", 1), WIRE_FORMAT, MSG_NONE);
    check_number(span_of("\x05", 1), WIRE_FORMAT, MSG_NONE);
    memcpy(big, "\x96\x05\x01\x01\x01\x01\xc6", 7); /* a field that nobody knows */
    for (uint64_t size = LIMIT_CONTROL_BYTES - 1; size <= LIMIT_CONTROL_BYTES + 1; size++) {
        for (int i = 0; i < 4; i++)
            big[7 + i] = (uint8_t)((size - 11) >> (24 - 8 * i));
        check_number(span_of(big, size), size <= LIMIT_CONTROL_BYTES ? WIRE_OK : WIRE_TOO_BIG,
                     MSG_BEAT);
    }
}

/* ---- encoding -------------------------------------------------------------------------------- */
static void member_set(struct msg *msg, const struct row *row, struct value value)
{
    char *member = (char *)&msg->as + row->offset;
    struct span span = span_of(filler, value.number);
    if (row->type == U64 || row->type == I64)
        memcpy(member, &value.number, sizeof value.number);
    else
        memcpy(member, &span, sizeof span);
}

static void message_fill(struct msg *msg, unsigned number)
{
    *msg = (struct msg){.type = (enum msg_type)number};
    for (uint32_t i = 0; i < ROWS; i++)
        if (rows[i].number == number)
            member_set(msg, &rows[i], value_least(&rows[i]));
}

Test(msg, does_not_encode_a_field_beyond_its_limits)
{
    static uint8_t out[2 * LIMIT_CONTROL_BYTES];
    for (uint32_t i = 0; i < ROWS; i++) {
        const struct row *row = &rows[i];
        struct msg msg;
        size_t size = 12345;
        message_fill(&msg, row->number);
        if (row->type != I64 && row->most < UINT64_MAX) {
            member_set(&msg, row, (struct value){NUMBER, row->most + 1});
            cr_assert_eq(msg_encode(&msg, out, sizeof out, &size), WIRE_RANGE, "%s", row->name);
        }
        message_fill(&msg, row->number);
        if (row->least > 0 || (row->type == I64 && row->least > INT64_MIN)) {
            member_set(&msg, row, (struct value){NUMBER, (uint64_t)(row->least - 1)});
            cr_assert_eq(msg_encode(&msg, out, sizeof out, &size), WIRE_RANGE, "%s", row->name);
        }
        if (row->type == STR) {
            struct span bad = span_text("\xc0\x80\x80");
            memcpy((char *)&msg.as + row->offset, &bad, sizeof bad);
            cr_assert_eq(msg_encode(&msg, out, sizeof out, &size), WIRE_UTF8, "%s", row->name);
        }
        cr_assert_eq(size, 12345);
    }
}

Test(msg, is_full_in_less_room_than_it_needs)
{
    for (uint32_t i = 0; i < TITLES; i++) {
        struct msg msg;
        uint8_t whole[256];
        size_t needed = 0;
        size_t size = 0;
        message_fill(&msg, titles[i].number);
        cr_assert_eq(msg_encode(&msg, whole, sizeof whole, &needed), WIRE_OK);
        for (size_t room = 0; room <= needed; room++) {
            uint8_t *out = malloc(room + 1);
            out[room] = 0xee;
            cr_assert_eq(msg_encode(&msg, out, room, &size), room < needed ? WIRE_FULL : WIRE_OK,
                         "%s in %zu", titles[i].name, room);
            cr_assert_eq(out[room], 0xee, "nothing behind the room is touched");
            free(out);
        }
    }
}

Test(msg, has_names_and_numbers_of_its_own)
{
    for (uint32_t i = 0; i < TITLES; i++) {
        cr_assert_str_eq(msg_name((enum msg_type)titles[i].number), titles[i].name);
        cr_assert_neq(titles[i].number, MSG_NONE);
        cr_assert_lt(titles[i].number, BATCH_NUMBER);
        cr_assert_eq(title_of(titles[i].number), &titles[i], "%s shares a number", titles[i].name);
    }
    cr_assert_null(msg_name(MSG_NONE));
    cr_assert_null(msg_name((enum msg_type)127));
    cr_assert_null(msg_name((enum msg_type)BATCH_NUMBER));
    cr_assert_null(msg_name((enum msg_type) - 1));
}
