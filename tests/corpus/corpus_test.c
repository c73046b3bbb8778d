/* SPDX-License-Identifier: MPL-2.0 */
/* corpus_test.c -- the bytes of schemas/corpus: y_*.mp are taken and come out the same, n_*.mp are
 * refused with the code in the n_*.err beside them. */
#include "libbus/wire/error.h"
#include "libbus/wire/fact.h"
#include "libbus/wire/frame.h"
#include "libbus/wire/msg.h"
#include "tests/lib/titles.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#define CORPUS TEST_CORPUS_DIR

enum { FILES_MAX = 1000, NAME_BYTES = 128, FRAMES_MAX = 100 };

struct file {
    char name[NAME_BYTES]; /* without its ending */
    uint8_t *data;         /* of its own size, for the sanitizers */
    size_t bytes;
};

static struct file files[FILES_MAX]; /* *.mp, by name */
static unsigned file_count;

/* ---- files ----------------------------------------------------------------------------------- */
static uint8_t *file_read(const char *name, const char *ending, size_t *out_bytes)
{
    static uint8_t buffer[LIMIT_PART_BYTES + 1];
    char path[1024];
    snprintf(path, sizeof path, "%s/%s%s", CORPUS, name, ending);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return NULL;
    *out_bytes = fread(buffer, 1, sizeof buffer, file);
    fclose(file);
    uint8_t *data = malloc(*out_bytes + 1);
    memcpy(data, buffer, *out_bytes);
    data[*out_bytes] = 0; /* for those that are text */
    return data;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct file *)a)->name, ((const struct file *)b)->name);
}

static void corpus_load(void)
{
    DIR *folder = opendir(CORPUS);
    cr_assert_not_null(folder, "%s", CORPUS);
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        size_t length = strlen(entry->d_name);
        if (length < 4 || length >= NAME_BYTES || strcmp(entry->d_name + length - 3, ".mp") != 0)
            continue;
        cr_assert_lt(file_count, FILES_MAX);
        struct file *file = &files[file_count++];
        memcpy(file->name, entry->d_name, length - 3);
        file->data = file_read(file->name, ".mp", &file->bytes);
        cr_assert_not_null(file->data);
        file->data = realloc(file->data, file->bytes > 0 ? file->bytes : 1);
    }
    closedir(folder);
    qsort(files, file_count, sizeof files[0], by_name);
}

static void corpus_free(void)
{
    for (unsigned i = 0; i < file_count; i++)
        free(files[i].data);
    file_count = 0;
}

static bool begins(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

static struct span span_file(const struct file *file)
{
    return span_of(file->data, file->bytes);
}

/* ---- what a message is ----------------------------------------------------------------------- */
static const struct title *title_find(const char *name)
{
    for (unsigned i = 0; i < TITLES; i++)
        if (strcmp(titles[i].name, name) == 0)
            return &titles[i];
    return NULL;
}

/* ---- what is taken --------------------------------------------------------------------------- */
static uint8_t again[LIMIT_PART_BYTES];

static void check_again(const struct file *file, size_t bytes)
{
    cr_assert(span_equal(span_of(again, bytes), span_file(file)), "%s comes out different",
              file->name);
}

static void check_msg(const struct file *file)
{
    const struct title *title = title_find(file->name + strlen("y_msg_"));
    struct msg msg;
    size_t bytes = 0;
    cr_assert_not_null(title, "%s", file->name);
    cr_assert_eq(msg_decode(span_file(file), title->lane, title->direction, &msg, NULL), WIRE_OK,
                 "%s", file->name);
    cr_assert_eq((unsigned)msg.type, title->number);
    cr_assert_eq(msg_encode(&msg, again, sizeof again, &bytes), WIRE_OK, "%s", file->name);
    check_again(file, bytes);
}

/* What a broker of today writes, one of tomorrow reads. */
static void check_fact(const struct file *file)
{
    struct fact fact;
    size_t bytes = 0;
    cr_assert_eq(fact_decode(span_file(file), &fact), WIRE_OK, "%s", file->name);
    cr_assert_str_eq(fact_name(fact.type), file->name + strlen("y_fact_"));
    cr_assert_eq(fact_encode(&fact, again, sizeof again, &bytes), WIRE_OK, "%s", file->name);
    check_again(file, bytes);
}

static void check_error(const struct file *file)
{
    static struct error_record records[LIMIT_ERROR_RECORDS];
    uint32_t count = 0;
    size_t bytes = 0;
    cr_assert_eq(error_decode(span_file(file), records, LIMIT_ERROR_RECORDS, &count), WIRE_OK, "%s",
                 file->name);
    cr_assert_eq(error_encode(records, count, again, sizeof again, &bytes), WIRE_OK, "%s",
                 file->name);
    check_again(file, bytes);
}

/* The value of a frame by itself. */
static void check_value(const struct file *file, const struct frame *frame)
{
    struct frame_reserve reserve;
    struct frame_chunk chunk;
    struct frame_gap gap;
    struct error_record record;
    uint32_t count = 0;
    uint8_t value[1024];
    struct frame_need needs[4];
    switch (frame->flags & FRAME_KIND_MASK) {
    case FRAME_RESERVE:
        cr_assert_eq(frame_reserve_decode(frame->value, &reserve), WIRE_OK, "%s", file->name);
        for (uint32_t i = 0; i < reserve.need_count; i++)
            cr_assert(frame_need_next(&reserve.needs, &needs[i]));
        cr_assert(
            span_equal(span_of(value, frame_promise_encode(value, sizeof value, &reserve, needs)),
                       frame->value));
        break;
    case FRAME_CHUNK:
        cr_assert_eq(frame_chunk_decode(frame->value, &chunk), WIRE_OK, "%s", file->name);
        break;
    case FRAME_GAP:
        cr_assert_eq(frame_gap_decode(frame->value, &gap), WIRE_OK, "%s", file->name);
        cr_assert(span_equal(span_of(value, frame_gap_encode(value, &gap)), frame->value));
        break;
    case FRAME_ERROR:
        cr_assert_eq(error_decode(frame->value, &record, 1, &count), WIRE_OK, "%s", file->name);
        break;
    default: break;
    }
}

static void check_batch(const struct file *file)
{
    struct batch_reader reader;
    struct frame frame;
    size_t at = BATCH_HEADER_BYTES;
    enum wire_err err = batch_reader_init(&reader, span_file(file));
    cr_assert_eq(err, WIRE_OK, "%s", file->name);
    for (err = batch_reader_next(&reader, &frame); err == WIRE_OK;
         err = batch_reader_next(&reader, &frame)) {
        check_value(file, &frame);
        frame_write(again + at, &frame);
        at += frame.frame_bytes;
    }
    cr_assert_eq(err, WIRE_EMPTY, "%s: %s", file->name, wire_strerror(err));
    batch_header_write(again, reader.frames, (uint32_t)(at - BATCH_HEADER_BYTES), reader.number);
    check_again(file, at);
}

static void check_delivery(const struct file *file)
{
    uint32_t sub = 0;
    cr_assert_eq(delivery_header_read(span_file(file), &sub), WIRE_OK, "%s", file->name);
    delivery_header_write(again, sub);
    check_again(file, DELIVERY_HEADER_BYTES);
}

Test(corpus, y_is_taken_and_comes_out_the_same)
{
    unsigned taken = 0;
    corpus_load();
    for (unsigned i = 0; i < file_count; i++) {
        const struct file *file = &files[i];
        if (begins(file->name, "y_msg_"))
            check_msg(file);
        else if (begins(file->name, "y_fact_"))
            check_fact(file);
        else if (begins(file->name, "y_error_"))
            check_error(file);
        else if (begins(file->name, "y_batch_"))
            check_batch(file);
        else if (begins(file->name, "y_delivery"))
            check_delivery(file);
        else
            cr_assert(begins(file->name, "n_"), "%s is neither y nor n of a kind", file->name);
        taken += begins(file->name, "y_");
    }
    cr_assert_gt(taken, TITLES);
    corpus_free();
}

/* ---- what is refused ------------------------------------------------------------------------- */
static const struct {
    const char *name;
    enum wire_err err;
} codes[] = {
    {"WIRE_EMPTY", WIRE_EMPTY},       {"WIRE_TRUNCATED", WIRE_TRUNCATED},
    {"WIRE_TRAILING", WIRE_TRAILING}, {"WIRE_FORMAT", WIRE_FORMAT},
    {"WIRE_DEPTH", WIRE_DEPTH},       {"WIRE_ITEMS", WIRE_ITEMS},
    {"WIRE_UNKNOWN", WIRE_UNKNOWN},   {"WIRE_LANE", WIRE_LANE},
    {"WIRE_RANGE", WIRE_RANGE},       {"WIRE_UTF8", WIRE_UTF8},
    {"WIRE_TOO_BIG", WIRE_TOO_BIG},
};
enum { CODES = sizeof codes / sizeof codes[0] };

/* What an .err file says. */
struct verdict {
    char code[32];
    char lane[32];
    char direction[32];
};

static enum wire_err code_of(const char *name, unsigned *seen)
{
    for (unsigned i = 0; i < CODES; i++)
        if (strcmp(codes[i].name, name) == 0) {
            seen[i] += 1;
            return codes[i].err;
        }
    cr_assert_fail("%s is no code that bytes are refused with", name);
    return WIRE_OK;
}

static enum wire_err read_msg(const struct file *file, const struct verdict *verdict)
{
    struct msg msg;
    bool is_data = strcmp(verdict->lane, "data") == 0;
    bool is_to_client = strcmp(verdict->direction, "to_client") == 0;
    cr_assert(is_data || strcmp(verdict->lane, "control") == 0, "%s", file->name);
    cr_assert(is_to_client || strcmp(verdict->direction, "to_broker") == 0, "%s", file->name);
    return msg_decode(span_file(file), is_data ? MSG_LANE_DATA : MSG_LANE_CONTROL,
                      is_to_client ? MSG_TO_CLIENT : MSG_TO_BROKER, &msg, NULL);
}

static enum wire_err read_batch(const struct file *file)
{
    struct batch_reader reader;
    struct frame frame;
    enum wire_err err = batch_reader_init(&reader, span_file(file));
    if (err != WIRE_OK)
        return err; /* "nothing there" among them */
    for (unsigned i = 0; err == WIRE_OK && i < FRAMES_MAX; i++)
        err = batch_reader_next(&reader, &frame);
    cr_assert_neq(err, WIRE_EMPTY, "%s is a good batch", file->name);
    return err;
}

static enum wire_err read_bad(const struct file *file, const struct verdict *verdict)
{
    static struct error_record records[LIMIT_ERROR_RECORDS];
    struct fact fact;
    uint32_t number;
    if (begins(file->name, "n_msg_"))
        return read_msg(file, verdict);
    if (begins(file->name, "n_fact_"))
        return fact_decode(span_file(file), &fact);
    if (begins(file->name, "n_error_"))
        return error_decode(span_file(file), records, LIMIT_ERROR_RECORDS, &number);
    if (begins(file->name, "n_delivery_"))
        return delivery_header_read(span_file(file), &number);
    cr_assert(begins(file->name, "n_batch_") || begins(file->name, "n_frame_"), "%s", file->name);
    return read_batch(file);
}

static struct verdict verdict_read(const struct file *file)
{
    struct verdict verdict = {"", "", ""};
    size_t bytes = 0;
    char *text = (char *)file_read(file->name, ".err", &bytes);
    cr_assert_not_null(text, "%s.err is missing", file->name);
    cr_assert_geq(sscanf(text, "%31s %31s %31s", verdict.code, verdict.lane, verdict.direction), 1);
    free(text);
    return verdict;
}

Test(corpus, n_is_refused_with_the_code_beside_it)
{
    unsigned seen[CODES] = {0};
    corpus_load();
    for (unsigned i = 0; i < file_count; i++) {
        const struct file *file = &files[i];
        if (!begins(file->name, "n_"))
            continue;
        struct verdict verdict = verdict_read(file);
        enum wire_err err = read_bad(file, &verdict);
        cr_assert_eq(err, code_of(verdict.code, seen), "%s: %s", file->name, wire_strerror(err));
    }
    for (unsigned i = 0; i < CODES; i++)
        cr_assert_gt(seen[i], 0, "nothing is refused with %s", codes[i].name);
    corpus_free();
}

static bool is_there(const char *kind, const char *name)
{
    for (unsigned at = 0; at < file_count; at++)
        if (begins(files[at].name, kind) && strcmp(files[at].name + strlen(kind), name) == 0)
            return true;
    return false;
}

Test(corpus, has_every_fact)
{
    corpus_load();
    for (unsigned type = 1; type < FACT_TYPE_COUNT; type++)
        cr_assert(fact_name((enum fact_type)type) == NULL ||
                      is_there("y_fact_", fact_name((enum fact_type)type)),
                  "y_fact_%s.mp is missing: run corpus_write", fact_name((enum fact_type)type));
    corpus_free();
}

Test(corpus, has_every_message)
{
    corpus_load();
    for (unsigned i = 0; i < TITLES; i++)
        cr_assert(is_there("y_msg_", titles[i].name), "y_msg_%s.mp is missing: run corpus_write",
                  titles[i].name);
    corpus_free();
}
