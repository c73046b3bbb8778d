/* SPDX-License-Identifier: MPL-2.0 */
/* corpus_write.c -- writes schemas/corpus: bytes that must be taken (y_*.mp) and bytes that must be
 * refused (n_*.mp, with the code beside them in n_*.err).
 *
 *   corpus_write DIRECTORY           writes what is not there yet
 *   corpus_write --check DIRECTORY   compares, writes nothing; 1: something differs
 *
 * A file that is there is never changed: bytes that were promised once stay promised.  A message
 * that got a field comes out longer: remove its file, and it is written anew.  The name of a file
 * says what it is: msg, fact, batch, frame, delivery or error.  An .err file has the code, and for
 * messages the channel and the direction they are read in. */
#include "libbus/wire/error.h"
#include "libbus/wire/fact.h"
#include "libbus/wire/frame.h"
#include "libbus/wire/msg.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *directory;
static bool is_check;
static unsigned differences;

/* ---- files ----------------------------------------------------------------------------------- */
static void fail(const char *what, const char *path)
{
    fprintf(stderr, "corpus_write: %s: %s\n", what, path);
    exit(2);
}

/* Whether the file is there; its bytes in out. */
static bool file_read(const char *path, uint8_t *out, size_t room, size_t *out_bytes)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return false;
    *out_bytes = fread(out, 1, room, file);
    fclose(file);
    return true;
}

static void file_put(const char *name, const char *ending, const void *data, size_t bytes)
{
    static uint8_t there[LIMIT_PART_BYTES + 1];
    char path[1024];
    size_t there_bytes = 0;
    snprintf(path, sizeof path, "%s/%s.%s", directory, name, ending);
    if (file_read(path, there, sizeof there, &there_bytes)) {
        if (there_bytes != bytes || memcmp(there, data, bytes) != 0) {
            printf("differs: %s\n", path);
            differences += 1;
        }
        return;
    }
    if (is_check) {
        printf("missing: %s\n", path);
        differences += 1;
        return;
    }
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0)
        fail("cannot write", path);
}

static void good(const char *name, const void *data, size_t bytes)
{
    char whole[128];
    snprintf(whole, sizeof whole, "y_%s", name);
    file_put(whole, "mp", data, bytes);
}

static void bad(const char *name, const char *code, const void *data, size_t bytes)
{
    char whole[128];
    char line[128];
    snprintf(whole, sizeof whole, "n_%s", name);
    snprintf(line, sizeof line, "%s\n", code);
    file_put(whole, "mp", data, bytes);
    file_put(whole, "err", line, strlen(line));
}

/* ---- messages -------------------------------------------------------------------------------- */
static uint8_t error_bytes[LIMIT_ERROR_BYTES];
static size_t error_size;

enum type { U64, I64, STR, BIN, END };
struct row {
    const char *message; /* with END: its name */
    unsigned number;
    enum type type;
    size_t offset;
    uint64_t most;
};
static const struct row rows[] = {
#define FIELD_U64(owner, member, largest, what)                                                    \
    {#owner, 0, U64, offsetof(struct msg_##owner, member), largest},
#define FIELD_I64(owner, member, smallest, what)                                                   \
    {#owner, 0, I64, offsetof(struct msg_##owner, member), INT64_MAX},
#define FIELD_STR(owner, member, shortest, longest, what)                                          \
    {#owner, 0, STR, offsetof(struct msg_##owner, member), longest},
#define FIELD_BIN(owner, member, shortest, longest, what)                                          \
    {#owner, 0, BIN, offsetof(struct msg_##owner, member), longest},
#define MESSAGE_END(upper, name) {#name, MSG_##upper, END, 0, 0},
#include "schemas/messages.def"
};

/* Values that differ from field to field, so that two that are swapped show. */
static void member_fill(void *as, const struct row *row, unsigned index)
{
    static const char *const texts[] = {"alice/grads", "bob/weights", "J\xc3\xbcrgen/x", "c/d"};
    char *member = (char *)as + row->offset;
    uint64_t number = row->most < 1000 ? row->most : (uint64_t)1 << (index * 5 % 60);
    int64_t negative = -(int64_t)index - 100;
    struct span text = span_text(texts[index % 4]);
    struct span bytes = row->most == LIMIT_ERROR_BYTES ? span_of(error_bytes, error_size)
                                                       : span_of("\x00\xff\x80", 3);
    if (number > row->most)
        number = row->most;
    switch (row->type) {
    case U64: memcpy(member, &number, sizeof number); break;
    case I64: memcpy(member, &negative, sizeof negative); break;
    case STR: memcpy(member, &text, sizeof text); break;
    case BIN: memcpy(member, &bytes, sizeof bytes); break;
    case END: break;
    }
}

/* Signed numbers with a bound. */
static void message_mend(struct msg *msg, unsigned number)
{
    if (number == MSG_JOB_MEMBER)
        msg->as.job_member.rank = -1;
    if (number == MSG_SUBSCRIBE)
        msg->as.subscribe.from_seq = FROM_NOW;
    if (number == MSG_TASK)
        msg->as.task.retry_after_ms = -1;
}

static void write_messages(void)
{
    struct msg msg = {.type = MSG_NONE};
    unsigned index = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *row = &rows[i];
        if (row->type != END) {
            member_fill(&msg.as, row, index++);
            continue;
        }
        uint8_t bytes[4096];
        size_t size = 0;
        char name[64];
        msg.type = (enum msg_type)row->number;
        message_mend(&msg, row->number);
        snprintf(name, sizeof name, "msg_%s", row->message);
        if (msg_encode(&msg, bytes, sizeof bytes, &size) != WIRE_OK)
            fail("cannot encode", name);
        good(name, bytes, size);
        memset(&msg, 0, sizeof msg);
        index = 0;
    }
}

/* ---- facts ----------------------------------------------------------------------------------- */
static const struct row fact_rows[] = {
#define FIELD_U64(owner, member, largest, what)                                                    \
    {#owner, 0, U64, offsetof(struct fact_##owner, member), largest},
#define FIELD_I64(owner, member, smallest, what)                                                   \
    {#owner, 0, I64, offsetof(struct fact_##owner, member), INT64_MAX},
#define FIELD_STR(owner, member, shortest, longest, what)                                          \
    {#owner, 0, STR, offsetof(struct fact_##owner, member), longest},
#define FIELD_BIN(owner, member, shortest, longest, what)                                          \
    {#owner, 0, BIN, offsetof(struct fact_##owner, member), longest},
#define FACT_END(upper, name) {#name, FACT_##upper, END, 0, 0},
#include "schemas/facts.def"
};

/* Signed numbers with a bound. */
static void fact_mend(struct fact *fact)
{
    if (fact->type == FACT_RESERVED)
        fact->as.reserved.deadline_ms = -1;
    if (fact->type == FACT_JOB_CREATED)
        fact->as.job_created.deadline_ms = fact->as.job_created.join_timeout_ms = -1;
    if (fact->type == FACT_SUB_OPENED)
        fact->as.sub_opened.from_seq = FROM_NOW;
    if (fact->type == FACT_PARKED)
        fact->as.parked.retry_after_ms = -1;
}

static void write_facts(void)
{
    struct fact fact = {.type = FACT_NONE};
    unsigned index = 0;
    for (size_t i = 0; i < sizeof fact_rows / sizeof fact_rows[0]; i++) {
        const struct row *row = &fact_rows[i];
        if (row->type != END) {
            member_fill(&fact.as, row, index++);
            continue;
        }
        uint8_t bytes[4096];
        size_t size = 0;
        char name[64];
        fact.type = (enum fact_type)row->number;
        fact_mend(&fact);
        snprintf(name, sizeof name, "fact_%s", row->message);
        if (fact_encode(&fact, bytes, sizeof bytes, &size) != WIRE_OK)
            fail("cannot encode", name);
        good(name, bytes, size);
        memset(&fact, 0, sizeof fact);
        index = 0;
    }
}

/* ---- errors ---------------------------------------------------------------------------------- */
static struct error_record records[4];

static void error_put(const char *name, uint32_t count)
{
    if (error_encode(records, count, error_bytes, sizeof error_bytes, &error_size) != WIRE_OK)
        fail("cannot encode", name);
    good(name, error_bytes, error_size);
}

static void write_errors(void)
{
    for (uint32_t i = 0; i < 4; i++)
        error_record_init(&records[i]);
    error_put("error_bare", 1);
    records[0].id = span_text("train/carol/1/1");
    records[0].job = span_text("train");
    records[0].attempt = 1;
    records[0].party = span_text("carol");
    records[0].incarnation = 1;
    records[0].kind = ERROR_DEPENDENCY;
    records[0].type = span_text("app.no_input");
    records[0].message = span_text("no gradients from alice and J\xc3\xbcrgen");
    records[0].stacktrace = span_text("at step\nat main");
    records[0].code = -17;
    records[0].recoverable = RECOVERABLE_YES;
    records[0].retry_after_ms = 1500;
    records[0].occurred_ns = INT64_C(123456789012);
    records[0].uncertainty_ns = 250000;
    records[0].wall_ns = INT64_C(1700000000000000000);
    records[0].host = span_text("node-7");
    records[0].pid = 4711;
    records[0].topic = span_text("carol/model");
    records[0].seq = 7;
    records[0].trace_id =
        span_of("\x01\x23\x45\x67\x89\xab\xcd\xef\x01\x23\x45\x67\x89\xab\xcd\xef", 16);
    records[0].cause_count = 2;
    records[0].causes[0] = 2; /* the foremost first */
    records[0].causes[1] = 1;
    records[1].party = span_text("J\xc3\xbcrgen");
    records[1].kind = ERROR_DEADLINE;
    records[1].type = span_text(ERROR_TYPE_DEADLINE);
    records[1].blames = span_text("alice");
    records[1].origin = ORIGIN_SYSTEM;
    records[1].left_out = 3;
    records[1].cause_count = 1;
    records[1].causes[0] = 3;
    records[2].party = span_text("alice");
    records[2].kind = ERROR_PARTY_LOST;
    records[2].type = span_text(ERROR_TYPE_CONNECTION_CLOSED);
    records[2].exit_code = 137;
    records[2].signal = 9;
    records[2].cause_count = 1;
    records[2].causes[0] = 3;
    records[3].kind = ERROR_APPLICATION;
    records[3].type = span_text("app.nan");
    records[3].is_cut = 1;
    error_put("error_with_causes", 4);
    struct error_record first = records[0];
    records[0] = records[1];
    records[0].left_out = records[0].cause_count = 0;
    records[0].more_blame_count = 2;
    records[0].more_blames[0] = span_text("bob");
    records[0].more_blames[1] = span_text("J\xc3\xbcrgen");
    error_put("error_with_blames", 1);
    const struct error_attached attached[] = {{span_text("stderr"), 5000000},
                                              {span_text("log"), ERROR_BYTES_UNKNOWN}};
    uint8_t list[ERROR_ATTACHED_BYTES_MAX];
    records[0].attachments = span_of(list, error_attached_write(attached, 2, list));
    error_put("error_with_attachments", 1);
    records[0].attachments = SPAN_NONE;
    records[0].claimed_by = span_text("mallory");
    error_put("error_that_is_claimed", 1);
    records[0].claimed_by = SPAN_NONE;
    records[0].sealed = span_of("a key of 32 bytes, then a sealed box", 36);
    error_put("error_that_is_sealed", 1);
    records[0].sealed = SPAN_NONE;
    records[0] = first;
    records[0].cause_count = 0;
    error_put("error_alone", 1);
}

/* ---- batches --------------------------------------------------------------------------------- */
static uint8_t batch[4096];

static struct frame frame_of(unsigned flags, uint64_t seq, const void *value, size_t bytes)
{
    return (struct frame){.flags = (uint16_t)flags,
                          .delivery = 1,
                          .attempt = 1,
                          .topic = 7,
                          .seq = seq,
                          .stamp_ns = INT64_C(123456789012) + (int64_t)seq,
                          .reply_to = FRAME_NO_REPLY,
                          .value = span_of(value, bytes)};
}

static size_t batch_make(const struct frame *frames, uint32_t count, uint64_t number)
{
    size_t at = BATCH_HEADER_BYTES;
    for (uint32_t i = 0; i < count; i++) {
        frame_write(batch + at, &frames[i]);
        at += frame_total(frames[i].value.bytes) +
              frames[i].more * frame_padded(frames[i].value.bytes);
    }
    batch_header_write(batch, count, (uint32_t)(at - BATCH_HEADER_BYTES), number);
    return at;
}

static void write_batch(const char *name, const struct frame *frames, uint32_t count,
                        uint64_t number)
{
    size_t bytes = batch_make(frames, count, number);
    good(name, batch, bytes);
}

static void write_batches(void)
{
    uint8_t reserve[FRAME_RESERVE_BYTES_MAX];
    uint8_t gap[FRAME_GAP_BYTES_MAX];
    uint8_t chunks[2][FRAME_CHUNK_PREFIX_BYTES + 5];
    struct frame_reserve promise = {.deadline_ms = 30000, .value_bytes_max = 1 << 20};
    struct frame_gap missing = {.count = 12, .reason = GAP_NOT_KEPT};
    size_t reserve_bytes = frame_reserve_encode(reserve, &promise);
    size_t gap_bytes = frame_gap_encode(gap, &missing);
    for (unsigned i = 0; i < 2; i++) {
        frame_chunk_prefix_write(chunks[i], 10, i * 5);
        memcpy(chunks[i] + FRAME_CHUNK_PREFIX_BYTES, i == 0 ? "01234" : "56789", 5);
    }
    struct frame run[3];
    for (unsigned i = 0; i < 3; i++)
        run[i] = frame_of(FRAME_VALUE, 41 + i, "a value", 7);
    struct frame kept[] = {frame_of(FRAME_RESERVE, 0, reserve, reserve_bytes),
                           frame_of(FRAME_COMMIT, 0, "12345678", 8)};
    struct frame chunked[] = {
        frame_of(FRAME_CHUNK, 3, chunks[0], sizeof chunks[0]),
        frame_of(FRAME_CHUNK | FRAME_LAST_CHUNK, 3, chunks[1], sizeof chunks[1])};
    struct frame sent[] = {frame_of(FRAME_TOPIC, 0, "alice/grads", 11),
                           frame_of(FRAME_GAP, 5, gap, gap_bytes),
                           frame_of(FRAME_VALUE, 17, "", 0),
                           frame_of(FRAME_ERROR, 18, error_bytes, error_size),
                           frame_of(FRAME_TOPIC, 0, "alice", 5),
                           frame_of(FRAME_END, 1, error_bytes, error_size),
                           frame_of(FRAME_END, 2, "", 0)};
    struct frame ends = {.delivery = UINT8_MAX,
                         .attempt = UINT32_MAX,
                         .topic = UINT32_MAX,
                         .seq = UINT64_MAX - 1,
                         .stamp_ns = INT64_MIN,
                         .reply_to = 0};
    struct frame many = frame_of(FRAME_VALUE, 41, "value 1\300value 2\300value 3", 7);
    many.more = 2;
    write_batch("batch_run", run, 3, 1000);
    write_batch("batch_many_values", &many, 1, 1000);
    struct frame_need needs[] = {{span_text("alice/grads"), 7}, {span_text("bob/a/b"), UINT64_MAX}};
    uint8_t needing[FRAME_RESERVE_BYTES_MAX + 2 * FRAME_NEED_BYTES_MAX];
    promise.need_count = 2;
    struct frame needed = frame_of(FRAME_RESERVE, 1, needing,
                                   frame_promise_encode(needing, sizeof needing, &promise, needs));
    write_batch("batch_promise_with_needs", &needed, 1, 8);
    write_batch("batch_promise_kept", kept, 2, 1);
    write_batch("batch_chunks", chunked, 2, 0);
    write_batch("batch_to_subscriber", sent, 7, 0);
    write_batch("batch_numbers_at_their_ends", &ends, 1, UINT64_MAX - 1);
    delivery_header_write(batch, 3);
    good("delivery", batch, DELIVERY_HEADER_BYTES);
}

/* A good batch of one value with one byte changed. */
static void bad_batch(const char *name, const char *code, size_t at, unsigned byte)
{
    struct frame frame = frame_of(FRAME_VALUE, 41, "a value", 7);
    size_t bytes = batch_make(&frame, 1, 1000);
    batch[at] = (uint8_t)byte;
    bad(name, code, batch, bytes);
}

static void bad_frame(const char *name, const char *code, struct frame frame)
{
    size_t bytes = batch_make(&frame, 1, 1000);
    bad(name, code, batch, bytes);
}

/* Three values where there can be but one, or no number for the last. */
static void bad_many(const char *name, unsigned flags, uint64_t seq, uint64_t reply_to,
                     uint64_t number)
{
    struct frame frame = frame_of(flags, seq, "value 1\300value 2\300value 3", 7);
    frame.more = 2;
    frame.reply_to = reply_to;
    bad(name, "WIRE_RANGE", batch, batch_make(&frame, 1, number));
}

static void write_bad_batches(void)
{
    static const uint8_t text[256];
    struct frame frame = frame_of(FRAME_VALUE, 41, "a value", 7);
    size_t bytes = batch_make(&frame, 1, 1000);
    bad("batch_empty", "WIRE_EMPTY", batch, 0);
    bad("batch_header_cut", "WIRE_TRUNCATED", batch, 23);
    bad("batch_frame_cut", "WIRE_TRUNCATED", batch, bytes - 8);
    bad("batch_longer", "WIRE_TRAILING", batch, bytes + 8);
    bad_batch("batch_other_number", "WIRE_FORMAT", 3, 0x02);
    bad_batch("batch_other_format", "WIRE_RANGE", 4, 0x02);
    bad_batch("batch_no_frames", "WIRE_RANGE", 9, 0);
    bad_batch("batch_fewer_frames_than_said", "WIRE_ITEMS", 9, 2);
    bad_batch("batch_too_many_frames", "WIRE_RANGE", 8, 0x41);
    bad_batch("frame_is_array_of_7", "WIRE_FORMAT", 24, 0x97);
    bad_batch("frame_other_type_of_seq", "WIRE_FORMAT", 24 + 16, 0xd3);
    bad_batch("frame_unknown_kind", "WIRE_RANGE", 24 + 3, 8);
    bad_batch("frame_many_in_too_few_bytes", "WIRE_RANGE", 24 + 3, 0x20);
    bad_batch("frame_last_of_no_chunks", "WIRE_RANGE", 24 + 3, 0x10);
    bad_batch("frame_delivery_0", "WIRE_RANGE", 24 + 5, 0);
    bad_batch("frame_value_beyond_batch", "WIRE_TRUNCATED", 24 + 46, 1);
    bad_batch("frame_value_shorter_than_frame", "WIRE_FORMAT", 24 + 47, 6);
    bad_batch("frame_value_too_big", "WIRE_TOO_BIG", 24 + 45, 0x11);
    bad_batch("frame_padding_not_nil", "WIRE_FORMAT", 24 + 55, 0);
    bad_many("frame_many_commits", FRAME_COMMIT, 41, FRAME_NO_REPLY, 1000);
    bad_many("frame_many_requests", FRAME_VALUE, 41, 5, 1000);
    bad_many("frame_many_beyond_last", FRAME_VALUE, UINT64_MAX - 2, FRAME_NO_REPLY, 1000);
    bad_many("frame_many_numbers_beyond_last", FRAME_VALUE, 41, FRAME_NO_REPLY, UINT64_MAX - 2);
    bad_frame("frame_seq_beyond_last", "WIRE_RANGE", frame_of(FRAME_VALUE, UINT64_MAX, "x", 1));
    bad_frame("frame_topic_without_name", "WIRE_RANGE", frame_of(FRAME_TOPIC, 0, "", 0));
    bad_frame("frame_topic_too_long", "WIRE_TOO_BIG", frame_of(FRAME_TOPIC, 0, text, 201));
    bad_frame("frame_chunk_without_prefix", "WIRE_RANGE", frame_of(FRAME_CHUNK, 1, text, 15));
    bad_frame("frame_error_empty", "WIRE_RANGE", frame_of(FRAME_ERROR, 1, "", 0));
    delivery_header_write(batch, 3);
    bad("delivery_cut", "WIRE_TRUNCATED", batch, 8);
    bad("delivery_longer", "WIRE_TRAILING", batch, 10);
    batch[0] = 0x93;
    bad("delivery_is_array_of_3", "WIRE_FORMAT", batch, 9);
}

/* ---- refused messages and errors, byte by byte ----------------------------------------------- */
#define BYTES(text) text, sizeof(text) - 1
static const struct {
    const char *name;
    const char *code;
    const char *data;
    size_t bytes;
} refused[] = {
    {"msg_empty", "WIRE_EMPTY control to_broker", BYTES("")},
    {"msg_not_an_array", "WIRE_FORMAT control to_broker", BYTES("\x05")},
    {"msg_map", "WIRE_FORMAT control to_broker", BYTES("\x81\x05\x01")},
    {"msg_empty_array", "WIRE_FORMAT control to_broker", BYTES("\x90")},
    {"msg_number_0", "WIRE_FORMAT control to_broker", BYTES("\x91\x00")},
    {"msg_number_negative", "WIRE_FORMAT control to_broker", BYTES("\x91\xff")},
    {"msg_number_is_text", "WIRE_FORMAT control to_broker", BYTES("\x91\xa1\x05")},
    {"msg_number_unknown", "WIRE_UNKNOWN control to_broker", BYTES("\x91\x7f")},
    {"msg_number_huge", "WIRE_UNKNOWN control to_broker",
     BYTES("\x91\xcf\xff\xff\xff\xff\xff\xff\xff\xff")},
    {"msg_byte_c1", "WIRE_FORMAT control to_broker", BYTES("\x92\x05\xc1")},
    {"msg_cut", "WIRE_TRUNCATED control to_broker", BYTES("\x92\x05\xcf\x00\x00")},
    {"msg_cut_before_a_field", "WIRE_ITEMS control to_broker", BYTES("\x92\x05")},
    {"msg_two_in_one", "WIRE_TRAILING control to_broker", BYTES("\x92\x05\x01\x92\x05\x01")},
    {"msg_array_of_4_billion", "WIRE_ITEMS control to_broker", BYTES("\xdd\xff\x00\x00\x00\x05")},
    {"msg_map_of_4_billion", "WIRE_ITEMS control to_broker",
     BYTES("\x93\x05\x01\xdf\xff\xff\xff\xff")},
    {"msg_text_of_4_billion", "WIRE_TRUNCATED control to_broker",
     BYTES("\x93\x05\x01\xdb\xff\xff\xff\xff")},
    {"msg_nested_9_deep", "WIRE_DEPTH control to_broker",
     BYTES("\x93\x05\x01\x91\x91\x91\x91\x91\x91\x91\x91\xc0")},
    {"msg_to_client_at_broker", "WIRE_LANE control to_broker", BYTES("\x93\x43\x01\x02")},
    {"msg_to_broker_at_client", "WIRE_LANE control to_client", BYTES("\x92\x05\x01")},
    {"msg_control_on_data", "WIRE_LANE data to_broker", BYTES("\x92\x05\x01")},
    {"msg_data_on_control", "WIRE_LANE control to_broker", BYTES("\x92\x02\x01")},
    {"msg_batch_on_control", "WIRE_LANE control to_broker", BYTES("\x92\xcd\x0b\x00\x01")},
    {"msg_field_is_nil", "WIRE_FORMAT control to_broker", BYTES("\x92\x05\xc0")},
    {"msg_field_is_float", "WIRE_FORMAT control to_broker", BYTES("\x92\x05\xca\x00\x00\x00\x00")},
    {"msg_field_is_array", "WIRE_FORMAT control to_broker", BYTES("\x92\x05\x90")},
    {"msg_text_as_bytes", "WIRE_FORMAT control to_broker",
     BYTES("\x93\x0a\x01\xc4\x03"
           "a/b")},
    {"msg_bytes_as_text", "WIRE_FORMAT control to_broker", BYTES("\x94\x09\x01\x01\xa1x")},
    {"msg_text_not_utf8", "WIRE_UTF8 control to_broker", BYTES("\x93\x0a\x01\xa3\xff\xfe\xfd")},
    {"msg_text_overlong", "WIRE_UTF8 control to_broker", BYTES("\x93\x0a\x01\xa3x\xc0\xaf")},
    {"msg_text_too_short", "WIRE_RANGE control to_broker", BYTES("\x93\x0a\x01\xa2/x")},
    {"msg_text_missing", "WIRE_RANGE control to_broker", BYTES("\x92\x0a\x01")},
    {"msg_number_too_large", "WIRE_RANGE control to_broker", BYTES("\x92\x06\xce\x05\x26\x5c\x01")},
    {"msg_number_below_0", "WIRE_RANGE control to_broker", BYTES("\x92\x06\xff")},
    {"msg_signed_too_large", "WIRE_RANGE control to_broker",
     BYTES("\x92\x05\xcf\x80\x00\x00\x00\x00\x00\x00\x00")},
    {"msg_signed_too_small", "WIRE_RANGE control to_broker",
     BYTES("\x97\x0d\x01\x01\xa1#\xa0\xa0\xfd")},
    {"fact_empty", "WIRE_EMPTY", BYTES("")},
    {"fact_not_an_array", "WIRE_FORMAT", BYTES("\x05")},
    {"fact_number_0", "WIRE_FORMAT", BYTES("\x91\x00")},
    {"fact_number_unknown", "WIRE_UNKNOWN", BYTES("\x91\xcd\x03\xe7")},
    {"fact_cut", "WIRE_TRUNCATED", BYTES("\x92\x04\xcd\x01")},
    {"fact_two_in_one", "WIRE_TRAILING", BYTES("\x92\x04\x01\x92\x04\x01")},
    {"fact_number_is_text", "WIRE_FORMAT", BYTES("\x92\x04\xa1x")},
    {"fact_number_too_large", "WIRE_RANGE", BYTES("\x92\x04\xcf\x00\x00\x00\x01\x00\x00\x00\x00")},
    {"fact_name_empty", "WIRE_RANGE", BYTES("\x94\x03\x01\xa0\x01")},
    {"fact_name_not_utf8", "WIRE_UTF8", BYTES("\x94\x03\x01\xa1\xff\x01")},
    {"error_empty", "WIRE_EMPTY", BYTES("")},
    {"error_not_an_array", "WIRE_FORMAT", BYTES("\xa1x")},
    {"error_no_records", "WIRE_RANGE", BYTES("\x90")},
    {"error_record_is_number", "WIRE_FORMAT", BYTES("\x91\x05")},
    {"error_id_is_bytes", "WIRE_FORMAT", BYTES("\x91\x91\xc4\x00")},
    {"error_id_not_utf8", "WIRE_UTF8", BYTES("\x91\x91\xa1\x80")},
    {"error_attempt_negative", "WIRE_RANGE", BYTES("\x91\x93\xa0\xa0\xff")},
    {"error_cut", "WIRE_TRUNCATED", BYTES("\x91\x91\xa2x")},
    {"error_longer", "WIRE_TRAILING", BYTES("\x91\x90\x90")},
    {"error_array_of_4_billion", "WIRE_ITEMS", BYTES("\xdd\xff\xff\xff\xff\x90")},
};

/* Records that have nothing but these causes, and what is behind them. */
static void bad_lists(const char *name, int lists, const char *causes, size_t bytes)
{
    static const char fields[] = "\xa0\xa0\x00\xa0\x00\x00\xa0\xa0\xa0\x00\x00\x00\x00\x00\x00\x00"
                                 "\xa0\x00\x00\x00\xa0\x00\xa0\xc4\x00\x00\x00";
    char data[128];
    size_t at = 0;
    data[at++] = (char)0x92;
    data[at++] = (char)0xdc;
    data[at++] = 0;
    data[at++] = (char)(26 + lists);
    memcpy(data + at, fields, sizeof fields - 1);
    at += sizeof fields - 1;
    memcpy(data + at, causes, bytes);
    at += bytes;
    data[at++] = (char)0x90;
    bad(name, "WIRE_RANGE", data, at);
}

static void bad_causes(const char *name, const char *causes, size_t bytes)
{
    bad_lists(name, 1, causes, bytes);
}

static void write_refused(void)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        bad(refused[i].name, refused[i].code, refused[i].data, refused[i].bytes);
    bad_causes("error_causes_itself", BYTES("\x91\x00"));
    bad_causes("error_cause_does_not_exist", BYTES("\x91\x02"));
    bad_causes("error_cause_twice", BYTES("\x92\x01\x01"));
    bad_lists("error_blames_more_than_none", 2, BYTES("\x90\x91\xa1x"));
    bad_lists("error_attachment_without_a_size", 3, BYTES("\x90\x90\x91\xa1x"));
    bad_lists("error_attachment_without_a_name", 3, BYTES("\x90\x90\x92\xa0\x01"));
    bad_causes("error_17_causes", BYTES("\xdc\x00\x11\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01"
                                        "\x01\x01\x01\x01\x01\x01"));
}

/* Larger than anything may be: the one file of this size. */
static void write_large(void)
{
    static uint8_t large[LIMIT_ERROR_BYTES + 1];
    memcpy(large, "\x91\x91\xdb\x00\x00\xff\xfa", 7);
    memset(large + 7, 'x', sizeof large - 7);
    bad("error_too_large", "WIRE_TOO_BIG", large, sizeof large);
}

int main(int count, char **words)
{
    is_check = count == 3 && strcmp(words[1], "--check") == 0;
    if (count != (is_check ? 3 : 2)) {
        fprintf(stderr, "usage: corpus_write [--check] DIRECTORY\n");
        return 2;
    }
    directory = words[count - 1];
    write_errors();
    write_messages();
    write_facts();
    write_batches();
    write_bad_batches();
    write_refused();
    write_large();
    return differences > 0;
}
