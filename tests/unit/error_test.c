/* SPDX-License-Identifier: MPL-2.0 */
/* error_test.c -- the error object: every field, its limits, cutting, and what is refused. */
#include "libbus/wire/error.h"

#include "libbus/wire/msg.h"

#include <criterion/criterion.h>
#include <msgpack.h>
#include <stdlib.h>

enum { FIELDS = 26 }; /* of a record, before its causes */

static uint8_t out[LIMIT_ERROR_BYTES];
static struct error_record got[LIMIT_ERROR_RECORDS];
static char filler[2 * LIMIT_ERROR_STACK_BYTES];

static struct error_record record_full(void)
{
    struct error_record record;
    error_record_init(&record);
    record.id = span_text("train/alice/2/7");
    record.job = span_text("train");
    record.attempt = 3;
    record.party = span_text("alice");
    record.incarnation = 2;
    record.kind = ERROR_DEPENDENCY;
    record.type = span_text("app.nan");
    record.message = span_text("weights are J\xc3\xbcrgen");
    record.stacktrace = span_text("at main\nat step");
    record.code = -17;
    record.recoverable = RECOVERABLE_YES;
    record.retry_after_ms = 1500;
    record.origin = ORIGIN_SYSTEM;
    record.occurred_ns = 123456789;
    record.uncertainty_ns = 1000;
    record.wall_ns = INT64_MAX;
    record.host = span_text("node-7");
    record.pid = 4711;
    record.exit_code = 139;
    record.signal = 11;
    record.topic = span_text("alice/grads");
    record.seq = UINT64_MAX - 1;
    record.blames = span_text("bob");
    record.more_blame_count = 2;
    record.more_blames[0] = span_text("carol");
    record.more_blames[1] = span_text("J\xc3\xbcrgen");
    record.trace_id = span_of("0123456789abcdef", 16);
    record.left_out = 5;
    record.is_cut = 1;
    record.attachments = span_of("\x92\xa3log\x07", 6);
    record.claimed_by = span_text("mallory");
    record.sealed = span_of("a sealed\0box", 12);
    return record;
}

static void check_same(const struct error_record *a, const struct error_record *b)
{
    cr_assert(span_equal(a->id, b->id));
    cr_assert(span_equal(a->job, b->job));
    cr_assert_eq(a->attempt, b->attempt);
    cr_assert(span_equal(a->party, b->party));
    cr_assert_eq(a->incarnation, b->incarnation);
    cr_assert_eq(a->kind, b->kind);
    cr_assert(span_equal(a->type, b->type));
    cr_assert(span_equal(a->message, b->message));
    cr_assert(span_equal(a->stacktrace, b->stacktrace));
    cr_assert_eq(a->code, b->code);
    cr_assert_eq(a->recoverable, b->recoverable);
    cr_assert_eq(a->retry_after_ms, b->retry_after_ms);
    cr_assert_eq(a->origin, b->origin);
    cr_assert_eq(a->occurred_ns, b->occurred_ns);
    cr_assert_eq(a->uncertainty_ns, b->uncertainty_ns);
    cr_assert_eq(a->wall_ns, b->wall_ns);
    cr_assert(span_equal(a->host, b->host));
    cr_assert_eq(a->pid, b->pid);
    cr_assert_eq(a->exit_code, b->exit_code);
    cr_assert_eq(a->signal, b->signal);
    cr_assert(span_equal(a->topic, b->topic));
    cr_assert_eq(a->seq, b->seq);
    cr_assert(span_equal(a->blames, b->blames));
    cr_assert(span_equal(a->trace_id, b->trace_id));
    cr_assert_eq(a->left_out, b->left_out);
    cr_assert_eq(a->is_cut, b->is_cut);
    cr_assert_eq(a->cause_count, b->cause_count);
    for (uint32_t i = 0; i < a->cause_count; i++)
        cr_assert_eq(a->causes[i], b->causes[i]);
    cr_assert_eq(a->more_blame_count, b->more_blame_count);
    for (uint32_t i = 0; i < a->more_blame_count; i++)
        cr_assert(span_equal(a->more_blames[i], b->more_blames[i]));
    cr_assert(span_equal(a->attachments, b->attachments));
    cr_assert(span_equal(a->claimed_by, b->claimed_by));
    cr_assert(span_equal(a->sealed, b->sealed));
}

Test(error, comes_back_with_every_field)
{
    struct error_record records[3];
    size_t bytes = 0;
    uint32_t count = 0;
    records[0] = record_full();
    records[0].cause_count = 2;
    records[0].causes[0] = 2; /* the foremost first, whatever its place */
    records[0].causes[1] = 1;
    error_record_init(&records[1]);
    error_record_init(&records[2]);
    cr_assert_eq(error_encode(records, 3, out, sizeof out, &bytes), WIRE_OK);
    cr_assert_eq(wire_walk(span_of(out, bytes)), WIRE_OK);
    cr_assert_eq(error_decode(span_of(out, bytes), got, LIMIT_ERROR_RECORDS, &count), WIRE_OK);
    cr_assert_eq(count, 3);
    for (uint32_t i = 0; i < 3; i++)
        check_same(&records[i], &got[i]);
    cr_assert((const uint8_t *)got[0].message.data > out &&
              (const uint8_t *)got[0].message.data < out + bytes);
    cr_assert_eq(got[1].retry_after_ms, -1);
    cr_assert_eq(got[1].exit_code, -1);
}

Test(error, says_only_as_many_records_as_there_is_room_for)
{
    struct error_record records[3];
    size_t bytes = 0;
    for (uint32_t i = 0; i < 3; i++)
        error_record_init(&records[i]);
    records[0].cause_count = 1;
    records[0].causes[0] = 2;
    cr_assert_eq(error_encode(records, 3, out, sizeof out, &bytes), WIRE_OK);
    for (uint32_t room = 0; room <= 4; room++) {
        uint32_t count = 99;
        cr_assert_eq(error_decode(span_of(out, bytes), got, room, &count), WIRE_OK);
        cr_assert_eq(count, room < 3 ? room : 3);
    }
}

/* ---- limits ---------------------------------------------------------------------------------- */
static enum wire_err encode_one(const struct error_record *record)
{
    size_t bytes;
    return error_encode(record, 1, out, sizeof out, &bytes);
}

static void check_span_limit(size_t offset, size_t most)
{
    struct error_record record;
    for (size_t bytes = most - 1; bytes <= most + 1; bytes++) {
        struct span text = span_of(filler, bytes);
        error_record_init(&record);
        memcpy((char *)&record + offset, &text, sizeof text);
        cr_assert_eq(encode_one(&record), bytes <= most ? WIRE_OK : WIRE_RANGE, "at %zu", offset);
    }
    struct span bad = span_text("ab\xff");
    memcpy((char *)&record + offset, &bad, sizeof bad);
    cr_assert_eq(encode_one(&record), WIRE_UTF8, "at %zu", offset);
}

static void check_number_limit(size_t offset, uint64_t most)
{
    struct error_record record;
    for (uint64_t number = most - 1; number != most + 2; number++) {
        error_record_init(&record);
        memcpy((char *)&record + offset, &number, sizeof number);
        cr_assert_eq(encode_one(&record), number <= most ? WIRE_OK : WIRE_RANGE, "at %zu", offset);
    }
}

static void check_least(size_t offset, int64_t least)
{
    struct error_record record;
    for (int64_t number = least - 1; number <= least + 1; number++) {
        error_record_init(&record);
        memcpy((char *)&record + offset, &number, sizeof number);
        cr_assert_eq(encode_one(&record), number >= least ? WIRE_OK : WIRE_RANGE, "at %zu", offset);
    }
}

/* The last of those it blames, with a name of so many bytes of the filler. */
static void check_blame(struct error_record *record, size_t bytes, enum wire_err wanted)
{
    record->more_blames[record->more_blame_count - 1] = span_of(filler, bytes);
    cr_assert_eq(encode_one(record), wanted, "%zu", bytes);
}

Test(error, holds_the_limits_of_its_fields)
{
    memset(filler, 'x', sizeof filler);
    check_span_limit(offsetof(struct error_record, id), LIMIT_ERROR_ID_BYTES);
    check_span_limit(offsetof(struct error_record, job), LIMIT_NAME_BYTES);
    check_span_limit(offsetof(struct error_record, party), LIMIT_NAME_BYTES);
    check_span_limit(offsetof(struct error_record, type), LIMIT_ERROR_TYPE_BYTES);
    check_span_limit(offsetof(struct error_record, host), LIMIT_NAME_BYTES);
    check_span_limit(offsetof(struct error_record, topic), LIMIT_NAME_BYTES);
    check_span_limit(offsetof(struct error_record, blames), LIMIT_NAME_BYTES);
    check_number_limit(offsetof(struct error_record, attempt), UINT32_MAX);
    check_number_limit(offsetof(struct error_record, incarnation), UINT32_MAX);
    check_number_limit(offsetof(struct error_record, kind), UINT16_MAX);
    check_number_limit(offsetof(struct error_record, recoverable), RECOVERABLE_NO);
    check_number_limit(offsetof(struct error_record, origin), ORIGIN_SYSTEM);
    check_number_limit(offsetof(struct error_record, pid), UINT32_MAX);
    check_number_limit(offsetof(struct error_record, signal), UINT16_MAX);
    check_number_limit(offsetof(struct error_record, left_out), UINT32_MAX);
    check_number_limit(offsetof(struct error_record, is_cut), 1);
    check_least(offsetof(struct error_record, retry_after_ms), -1);
    check_least(offsetof(struct error_record, exit_code), -1);
}

/* The first has a field of its own; a name is within its limits wherever it stands. */
Test(error, blames_up_to_sixteen_parties_each_by_a_name)
{
    struct error_record record;
    size_t bytes;
    uint32_t count;
    error_record_init(&record);
    for (uint32_t i = 0; i < LIMIT_ERROR_BLAMES - 1; i++)
        record.more_blames[i] = span_text("x");
    record.more_blame_count = 1;
    cr_assert_eq(encode_one(&record), WIRE_RANGE, "more than none");
    record.blames = span_text("bob");
    for (uint32_t more = 0; more <= LIMIT_ERROR_BLAMES; more++) {
        record.more_blame_count = more;
        enum wire_err err = error_encode(&record, 1, out, sizeof out, &bytes);
        cr_assert_eq(err, more < LIMIT_ERROR_BLAMES ? WIRE_OK : WIRE_RANGE, "%u", more);
        if (err != WIRE_OK)
            break;
        cr_assert_eq(error_decode(span_of(out, bytes), got, 1, &count), WIRE_OK);
        check_same(&record, &got[0]);
    }
    memset(filler, 'x', sizeof filler);
    record.more_blame_count = LIMIT_ERROR_BLAMES - 1;
    check_blame(&record, 0, WIRE_RANGE);
    check_blame(&record, 1, WIRE_OK);
    check_blame(&record, LIMIT_NAME_BYTES - 1, WIRE_OK);
    check_blame(&record, LIMIT_NAME_BYTES, WIRE_OK);
    check_blame(&record, LIMIT_NAME_BYTES + 1, WIRE_RANGE);
    filler[0] = (char)0xff;
    check_blame(&record, 7, WIRE_UTF8);
}

Test(error, lists_up_to_sixteen_attachments_whatever_is_empty_before_them)
{
    static uint8_t list[ERROR_ATTACHED_BYTES_MAX];
    struct error_attached given[LIMIT_ERROR_ATTACHMENTS];
    struct error_attached attached;
    struct error_record record;
    size_t bytes;
    uint32_t count;
    memset(filler, 'x', sizeof filler);
    for (uint32_t i = 0; i < LIMIT_ERROR_ATTACHMENTS; i++)
        given[i] = (struct error_attached){.name = span_of(filler, LIMIT_NAME_BYTES - i),
                                           .bytes = i == 0 ? ERROR_BYTES_UNKNOWN : i};
    for (uint32_t n = 0; n <= LIMIT_ERROR_ATTACHMENTS; n++) {
        error_record_init(&record);
        record.attachments = span_of(list, error_attached_write(given, n, list));
        cr_assert_eq(error_encode(&record, 1, out, sizeof out, &bytes), WIRE_OK);
        cr_assert_eq(error_decode(span_of(out, bytes), got, 1, &count), WIRE_OK);
        check_same(&record, &got[0]);
        struct span left = got[0].attachments;
        for (uint32_t i = 0; i < n; i++) {
            cr_assert(error_attached_next(&left, &attached));
            cr_assert(span_equal(attached.name, given[i].name));
            cr_assert_eq(attached.bytes, given[i].bytes);
        }
        cr_assert_not(error_attached_next(&left, &attached));
    }
    error_record_init(&record);
    record.attachments = span_of(list, error_attached_write(given, 2, list));
    cr_assert_eq(error_encode(&record, 1, out, bytes / 16, &bytes), WIRE_FULL);
}

Test(error, has_a_trace_id_of_sixteen_bytes_or_none)
{
    for (size_t bytes = 0; bytes <= 17; bytes++) {
        struct error_record record;
        error_record_init(&record);
        record.trace_id = span_of(filler, bytes);
        cr_assert_eq(encode_one(&record), bytes == 0 || bytes == 16 ? WIRE_OK : WIRE_RANGE);
    }
}

/* ---- cutting --------------------------------------------------------------------------------- */
static void encode_and_decode(const struct error_record *record)
{
    size_t bytes = 0;
    uint32_t count = 0;
    cr_assert_eq(error_encode(record, 1, out, sizeof out, &bytes), WIRE_OK);
    cr_assert_eq(error_decode(span_of(out, bytes), got, 1, &count), WIRE_OK);
}

Test(error, cuts_long_texts_in_the_middle)
{
    struct error_record record;
    error_record_init(&record);
    memset(filler, 'x', sizeof filler);
    filler[0] = 'A';
    for (size_t bytes = LIMIT_ERROR_MESSAGE_BYTES - 1; bytes <= LIMIT_ERROR_MESSAGE_BYTES + 1;
         bytes++) {
        record.message = span_of(filler, bytes);
        encode_and_decode(&record);
        bool is_cut = bytes > LIMIT_ERROR_MESSAGE_BYTES;
        cr_assert_eq(got[0].is_cut, is_cut);
        cr_assert_eq(span_equal(got[0].message, record.message), !is_cut);
    }
    filler[9999] = 'Z';
    record.message = span_of(filler, 10000);
    encode_and_decode(&record);
    const char *text = got[0].message.data;
    cr_assert_leq(got[0].message.bytes, LIMIT_ERROR_MESSAGE_BYTES);
    cr_assert_gt(got[0].message.bytes, LIMIT_ERROR_MESSAGE_BYTES - 40);
    cr_assert_eq(text[0], 'A');
    cr_assert_eq(text[got[0].message.bytes - 1], 'Z');
    cr_assert_eq(memcmp(text + 2028, " ... 5944 bytes cut ... ", 24), 0, "%.40s", text + 2028);
    cr_assert_eq(got[0].message.bytes, 10000 - 5944 + 24);

    record.message = SPAN_NONE;
    for (size_t bytes = LIMIT_ERROR_STACK_BYTES - 1; bytes <= LIMIT_ERROR_STACK_BYTES + 1;
         bytes++) {
        record.stacktrace = span_of(filler, bytes);
        encode_and_decode(&record);
        bool is_cut = bytes > LIMIT_ERROR_STACK_BYTES;
        cr_assert_leq(got[0].stacktrace.bytes, LIMIT_ERROR_STACK_BYTES);
        cr_assert_eq(got[0].is_cut, is_cut);
        cr_assert_eq(span_equal(got[0].stacktrace, record.stacktrace), !is_cut);
    }
}

Test(error, cuts_between_characters)
{
    struct error_record record;
    error_record_init(&record);
    for (size_t shift = 0; shift < 4; shift++) {
        memset(filler, 'x', sizeof filler);
        for (size_t at = shift; at + 4 <= sizeof filler; at += 4)
            memcpy(filler + at, "\xf0\x9f\x98\x80", 4);
        record.message = span_of(filler, 8000 + shift);
        record.stacktrace = span_of(filler, 20000 + shift);
        encode_and_decode(&record); /* which refuses what is not UTF-8 */
        cr_assert_eq(got[0].is_cut, 1);
    }
    filler[4001] = 'x'; /* in what is cut out */
    size_t bytes;
    cr_assert_eq(error_encode(&record, 1, out, sizeof out, &bytes), WIRE_UTF8);
}

/* ---- room ------------------------------------------------------------------------------------ */
Test(error, fits_in_the_room_it_needs_and_not_in_less)
{
    struct error_record record = record_full();
    size_t needed = 0;
    size_t bytes = 12345;
    cr_assert_eq(error_encode(&record, 1, out, sizeof out, &needed), WIRE_OK);
    for (size_t room = 0; room <= needed; room++) {
        uint8_t *small = malloc(room + 1);
        small[room] = 0xee;
        cr_assert_eq(error_encode(&record, 1, small, room, &bytes),
                     room < needed ? WIRE_FULL : WIRE_OK, "%zu", room);
        cr_assert_eq(small[room], 0xee);
        free(small);
    }
}

Test(error, always_has_room_for_the_largest_head_and_root)
{
    static struct error_record records[LIMIT_ERROR_GIVEN];
    static uint8_t large[2 * LIMIT_ERROR_BYTES];
    size_t bytes = 0;
    uint32_t count = 0;
    memset(filler, 'x', sizeof filler);
    for (uint32_t i = 0; i < LIMIT_ERROR_GIVEN; i++) {
        records[i] = record_full();
        records[i].id = span_of(filler, LIMIT_ERROR_ID_BYTES);
        records[i].job = records[i].party = records[i].host = span_of(filler, LIMIT_NAME_BYTES);
        records[i].type = records[i].topic = records[i].blames = records[i].job;
        records[i].more_blame_count = LIMIT_ERROR_BLAMES - 1;
        for (uint32_t k = 0; k < LIMIT_ERROR_BLAMES - 1; k++)
            records[i].more_blames[k] = records[i].job;
        records[i].message = records[i].stacktrace = span_of(filler, sizeof filler);
        records[i].seq = i;
        records[i].cause_count = i + 1 < LIMIT_ERROR_GIVEN;
        records[i].causes[0] = i + 1;
    }
    cr_assert_eq(error_encode(records, LIMIT_ERROR_GIVEN, large, sizeof large, &bytes), WIRE_OK);
    cr_assert_leq(bytes, LIMIT_ERROR_BYTES);
    cr_assert_eq(error_decode(span_of(large, bytes), got, LIMIT_ERROR_RECORDS, &count), WIRE_OK);
    cr_assert_eq(count, 2);
    cr_assert_eq(got[0].seq, 0);
    cr_assert_eq(got[1].seq, LIMIT_ERROR_GIVEN - 1);
    cr_assert_eq(got[0].left_out, 5 + (LIMIT_ERROR_GIVEN - 2) * 6, "theirs count too");
}

/* Records are measured before it is known what will be left out around them. */
Test(error, fits_in_every_room_that_its_head_fits_in)
{
    enum { COUNT = 60 };
    struct error_record records[COUNT];
    size_t head = 0;
    size_t whole = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        error_record_init(&records[i]);
        records[i].left_out = i > 0 ? 70000 : 0;
        records[i].cause_count = 0;
        for (uint32_t cause = i + 1; i % 4 == 0 && cause < COUNT && cause <= i + 4; cause++)
            records[i].causes[records[i].cause_count++] = cause;
    }
    struct error_record alone = records[0];
    alone.cause_count = 0;
    alone.left_out = UINT32_MAX;
    cr_assert_eq(error_encode(&alone, 1, out, sizeof out, &head), WIRE_OK);
    cr_assert_eq(error_encode(records, COUNT, out, sizeof out, &whole), WIRE_OK);
    for (size_t room = head; room <= whole; room++) {
        size_t bytes = 0;
        uint32_t count = 0;
        uint64_t told = 0;
        cr_assert_eq(error_encode(records, COUNT, out, room, &bytes), WIRE_OK, "in %zu", room);
        cr_assert_leq(bytes, room);
        cr_assert_eq(error_decode(span_of(out, bytes), got, COUNT, &count), WIRE_OK);
        for (uint32_t i = 0; i < count; i++)
            told += 1 + got[i].left_out;
        cr_assert_eq(told, COUNT + (COUNT - 1) * UINT64_C(70000));
    }
}

Test(error, is_refused_if_its_records_are_none_or_too_many)
{
    static struct error_record records[LIMIT_ERROR_GIVEN + 1];
    size_t bytes;
    for (uint32_t i = 0; i <= LIMIT_ERROR_GIVEN; i++)
        error_record_init(&records[i]);
    cr_assert_eq(error_encode(records, 0, out, sizeof out, &bytes), WIRE_RANGE);
    cr_assert_eq(error_encode(records, LIMIT_ERROR_GIVEN - 1, out, sizeof out, &bytes), WIRE_OK);
    cr_assert_eq(error_encode(records, LIMIT_ERROR_GIVEN, out, sizeof out, &bytes), WIRE_OK);
    cr_assert_eq(error_encode(records, LIMIT_ERROR_GIVEN + 1, out, sizeof out, &bytes), WIRE_RANGE);
}

/* ---- foreign bytes, made by msgpack-c -------------------------------------------------------- */
static msgpack_sbuffer foreign;
static msgpack_packer packer;

static void foreign_begin(uint32_t count)
{
    msgpack_sbuffer_clear(&foreign);
    msgpack_packer_init(&packer, &foreign, msgpack_sbuffer_write);
    msgpack_pack_array(&packer, count);
}

/* The first so many fields of an empty record. */
static void foreign_fields(uint32_t fields)
{
    /* t: text, b: bytes, n: number; the order of struct error_record */
    static const char types[] = "ttntnntttnnnnnnntnnntntbnn";
    for (uint32_t i = 0; i < fields; i++)
        switch (types[i]) {
        case 't': msgpack_pack_str(&packer, 0); break;
        case 'b': msgpack_pack_bin(&packer, 0); break;
        default: msgpack_pack_int(&packer, 0);
        }
}

static void foreign_record(uint32_t cause_count, const uint64_t *causes)
{
    msgpack_pack_array(&packer, FIELDS + 1);
    foreign_fields(FIELDS);
    msgpack_pack_array(&packer, cause_count);
    for (uint32_t i = 0; i < cause_count; i++)
        msgpack_pack_uint64(&packer, causes[i]);
}

static enum wire_err foreign_decode(uint32_t *out_count)
{
    return error_decode(span_of(foreign.data, foreign.size), got, LIMIT_ERROR_RECORDS, out_count);
}

Test(error, lacks_fields_of_an_older_version_and_skips_those_of_a_newer)
{
    uint32_t count = 0;
    msgpack_sbuffer_init(&foreign);
    for (uint32_t fields = 0; fields <= FIELDS; fields++) {
        foreign_begin(1);
        msgpack_pack_array(&packer, fields);
        foreign_fields(fields);
        cr_assert_eq(foreign_decode(&count), WIRE_OK, "%u fields", fields);
        cr_assert_eq(got[0].cause_count, 0);
        cr_assert_eq(got[0].retry_after_ms, fields > 11 ? 0 : -1, "%u fields", fields);
        cr_assert_eq(got[0].exit_code, fields > 18 ? 0 : -1, "%u fields", fields);
    }
    foreign_begin(2);
    msgpack_pack_array(&packer, FIELDS + 7);
    foreign_fields(FIELDS);
    msgpack_pack_array(&packer, 1);
    msgpack_pack_int(&packer, 1);
    msgpack_pack_array(&packer, 0);
    msgpack_pack_array(&packer, 0);
    msgpack_pack_str_with_body(&packer, "eve", 3);
    msgpack_pack_bin_with_body(&packer, "box", 3);
    msgpack_pack_map(&packer, 1); /* two fields that nobody knows */
    msgpack_pack_nil(&packer);
    msgpack_pack_double(&packer, 1.5);
    msgpack_pack_true(&packer);
    foreign_record(0, NULL);
    cr_assert_eq(foreign_decode(&count), WIRE_OK);
    cr_assert_eq(count, 2);
    cr_assert_eq(got[0].causes[0], 1);
    cr_assert(span_equal(got[0].claimed_by, span_text("eve")));
    cr_assert(span_equal(got[0].sealed, span_text("box")));
    msgpack_sbuffer_destroy(&foreign);
}

static void check_causes(uint32_t records, uint32_t cause_count, const uint64_t *causes,
                         enum wire_err wanted)
{
    uint32_t count;
    foreign_begin(records);
    foreign_record(0, NULL);
    for (uint32_t i = 1; i < records; i++)
        foreign_record(i == 1 ? cause_count : 0, causes);
    cr_assert_eq(foreign_decode(&count), wanted, "%u of %u", cause_count, records);
}

Test(error, refuses_causes_that_are_not_later_or_twice_or_too_many)
{
    uint64_t causes[LIMIT_ERROR_CAUSES + 1];
    msgpack_sbuffer_init(&foreign);
    check_causes(3, 1, (uint64_t[]){2}, WIRE_OK);
    check_causes(3, 1, (uint64_t[]){1}, WIRE_RANGE);
    check_causes(3, 1, (uint64_t[]){0}, WIRE_RANGE);
    check_causes(3, 1, (uint64_t[]){3}, WIRE_RANGE);
    check_causes(3, 1, (uint64_t[]){UINT64_MAX}, WIRE_RANGE);
    check_causes(3, 1, (uint64_t[]){UINT64_C(0x100000002)}, WIRE_RANGE);
    check_causes(4, 2, (uint64_t[]){2, 3}, WIRE_OK);
    check_causes(4, 2, (uint64_t[]){3, 2}, WIRE_OK);
    check_causes(4, 2, (uint64_t[]){3, 3}, WIRE_RANGE);
    for (uint32_t i = 0; i <= LIMIT_ERROR_CAUSES; i++)
        causes[i] = i + 2;
    check_causes(30, LIMIT_ERROR_CAUSES - 1, causes, WIRE_OK);
    check_causes(30, LIMIT_ERROR_CAUSES, causes, WIRE_OK);
    check_causes(30, LIMIT_ERROR_CAUSES + 1, causes, WIRE_RANGE);
    msgpack_sbuffer_destroy(&foreign);
}

/* A record that blames first, and then so many more as are in names. */
static enum wire_err decode_blames(const char *first, uint32_t more, const char *names)
{
    uint32_t count;
    foreign_begin(1);
    msgpack_pack_array(&packer, FIELDS + 2);
    foreign_fields(22);
    msgpack_pack_str(&packer, strlen(first));
    msgpack_pack_str_body(&packer, first, strlen(first));
    msgpack_pack_bin(&packer, 0);
    msgpack_pack_int(&packer, 0);
    msgpack_pack_int(&packer, 0);
    msgpack_pack_array(&packer, 0);
    msgpack_pack_array(&packer, more);
    for (uint32_t i = 0; i < more; i++) {
        msgpack_pack_str(&packer, names[0] != '\0');
        msgpack_pack_str_body(&packer, names, names[0] != '\0');
    }
    return foreign_decode(&count);
}

Test(error, refuses_blames_behind_none_without_a_name_or_too_many)
{
    msgpack_sbuffer_init(&foreign);
    cr_assert_eq(decode_blames("a", 1, "b"), WIRE_OK);
    cr_assert_eq(got[0].more_blame_count, 1);
    cr_assert_eq(decode_blames("", 0, "b"), WIRE_OK);
    cr_assert_eq(decode_blames("", 1, "b"), WIRE_RANGE);
    cr_assert_eq(decode_blames("a", 1, ""), WIRE_RANGE);
    cr_assert_eq(decode_blames("a", 1, "\xff"), WIRE_UTF8);
    cr_assert_eq(decode_blames("a", LIMIT_ERROR_BLAMES - 2, "b"), WIRE_OK);
    cr_assert_eq(decode_blames("a", LIMIT_ERROR_BLAMES - 1, "b"), WIRE_OK);
    cr_assert_eq(decode_blames("a", LIMIT_ERROR_BLAMES, "b"), WIRE_RANGE);
    msgpack_sbuffer_destroy(&foreign);
}

/* A record with so many attachments of this name, and more things in their array behind them. */
static enum wire_err decode_attached(uint32_t attached, const char *name, uint32_t more)
{
    uint32_t count;
    foreign_begin(1);
    msgpack_pack_array(&packer, FIELDS + 3);
    foreign_fields(FIELDS);
    msgpack_pack_array(&packer, 0);
    msgpack_pack_array(&packer, 0);
    msgpack_pack_array(&packer, 2 * attached + more);
    for (uint32_t i = 0; i < attached; i++) {
        msgpack_pack_str(&packer, strlen(name));
        msgpack_pack_str_body(&packer, name, strlen(name));
        msgpack_pack_int(&packer, 1);
    }
    for (uint32_t i = 0; i < more; i++)
        msgpack_pack_int(&packer, 1);
    return foreign_decode(&count);
}

Test(error, refuses_attachments_without_a_name_or_too_many)
{
    msgpack_sbuffer_init(&foreign);
    cr_assert_eq(decode_attached(0, "a", 0), WIRE_OK);
    cr_assert_eq(got[0].attachments.bytes, 0);
    cr_assert_eq(decode_attached(1, "a", 0), WIRE_OK);
    cr_assert_eq(got[0].attachments.bytes, 4);
    cr_assert_eq(decode_attached(1, "a", 1), WIRE_RANGE);
    cr_assert_eq(decode_attached(1, "a", 2), WIRE_FORMAT);
    cr_assert_eq(decode_attached(1, "", 0), WIRE_RANGE);
    cr_assert_eq(decode_attached(1, "\xff", 0), WIRE_UTF8);
    cr_assert_eq(decode_attached(LIMIT_ERROR_ATTACHMENTS, "a", 0), WIRE_OK);
    cr_assert_eq(decode_attached(LIMIT_ERROR_ATTACHMENTS + 1, "a", 0), WIRE_RANGE);
    msgpack_sbuffer_destroy(&foreign);
}

Test(error, holds_the_limit_of_records_it_reads)
{
    msgpack_sbuffer_init(&foreign);
    check_causes(LIMIT_ERROR_RECORDS - 1, 0, NULL, WIRE_OK);
    check_causes(LIMIT_ERROR_RECORDS, 0, NULL, WIRE_OK);
    check_causes(LIMIT_ERROR_RECORDS + 1, 0, NULL, WIRE_RANGE);
    uint32_t count;
    foreign_begin(0);
    cr_assert_eq(foreign_decode(&count), WIRE_RANGE);
    msgpack_sbuffer_destroy(&foreign);
}

Test(error, refuses_bytes_that_are_no_error)
{
    static const struct {
        struct span bytes;
        enum wire_err err;
    } cases[] = {
#define BYTES(text) {.data = text, .bytes = sizeof(text) - 1}
        {BYTES(""), WIRE_EMPTY},
        {BYTES("\x05"), WIRE_FORMAT},
        {BYTES("\x81\x01\x02"), WIRE_FORMAT},
        {BYTES("\x91\x05"), WIRE_FORMAT},
        {BYTES("\x91\x80"), WIRE_FORMAT},
        {BYTES("\x91\x91\x05"), WIRE_FORMAT}, /* the id is text */
        {BYTES("\x91\x91\xc4\x00"), WIRE_FORMAT},
        {BYTES("\x91\x91\x90"), WIRE_FORMAT},
        {BYTES("\x91\x91\xa1\xff"), WIRE_UTF8},
        {BYTES("\x91\x93\xa0\xa0\xff"), WIRE_RANGE},
        {BYTES("\x91\x91"), WIRE_ITEMS},
        {BYTES("\x91\x91\xa2x"), WIRE_TRUNCATED},
        {BYTES("\x91\x90\x00"), WIRE_TRAILING},
        {BYTES("\x91\x90"), WIRE_OK},
        {BYTES("\xdd\xff\xff\xff\xff"), WIRE_ITEMS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t count = 99;
        cr_assert_eq(error_decode(cases[i].bytes, got, 1, &count), cases[i].err, "case %zu", i);
        cr_assert_eq(count, cases[i].err == WIRE_OK ? 1 : 99);
    }
    static uint8_t big[LIMIT_ERROR_BYTES + 1];
    uint32_t count;
    memset(big, 0x90, sizeof big);
    cr_assert_eq(error_decode(span_of(big, LIMIT_ERROR_BYTES), got, 1, &count), WIRE_TRAILING);
    cr_assert_eq(error_decode(span_of(big, LIMIT_ERROR_BYTES + 1), got, 1, &count), WIRE_TOO_BIG);
}

Test(error, is_refused_when_cut_anywhere)
{
    struct error_record record = record_full();
    size_t bytes = 0;
    cr_assert_eq(error_encode(&record, 1, out, sizeof out, &bytes), WIRE_OK);
    for (size_t size = 0; size < bytes; size++) {
        uint32_t count;
        uint8_t *copy = malloc(size + 1);
        memcpy(copy, out, size);
        cr_assert_neq(error_decode(span_of(copy, size), got, 1, &count), WIRE_OK, "%zu", size);
        free(copy);
    }
}

Test(error, has_names_for_its_kinds)
{
    for (unsigned kind = 0; kind < ERROR_KIND_COUNT; kind++) {
        enum error_kind found = ERROR_KIND_COUNT;
        cr_assert(error_kind_find(span_text(error_kind_name(kind)), &found));
        cr_assert_eq((unsigned)found, kind);
    }
    enum error_kind found = ERROR_KIND_COUNT;
    cr_assert_str_eq(error_kind_name(ERROR_PARTY_LOST), "party_lost");
    cr_assert_str_eq(error_kind_name(ERROR_KIND_COUNT), "application");
    cr_assert_str_eq(error_kind_name(UINT64_MAX), "application");
    cr_assert_not(error_kind_find(span_text("party_los"), &found));
    cr_assert_not(error_kind_find(SPAN_NONE, &found));
    cr_assert_eq(found, ERROR_KIND_COUNT);
}
