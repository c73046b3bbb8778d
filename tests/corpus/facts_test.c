/* SPDX-License-Identifier: MPL-2.0 */
/* facts_test.c -- what brokers of each release have written is read by this one, and means the
 * same: tests/corpus/facts/VERSION.facts are the facts of a history, VERSION.state what they gave.
 *
 * A fact is its length in two bytes, the number of the payload beside it in four, the record.  They
 * are written by unit_core_replay with ERRBUS_WRITE_HISTORY=FOLDER, once a release.  Where the dump
 * says more than it did (tests/lib/core_dump.c), the state is written anew from the old facts,
 * which are never touched: ERRBUS_WRITE_STATE=1.  VERSION-ends goes on to the end of the job. */
#include "tests/lib/core_dump.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER TEST_SOURCE_DIR "/tests/corpus/facts"

enum { FILE_BYTES_MAX = 1 << 20 };

static char *file_read(const char *version, const char *ending, size_t *out_bytes)
{
    char path[1024];
    char *data = malloc(FILE_BYTES_MAX);
    (void)snprintf(path, sizeof path, "%s/%s.%s", FOLDER, version, ending); /* short */
    FILE *file = fopen(path, "rb");
    cr_assert(file != NULL && data != NULL, "%s", path);
    *out_bytes = fread(data, 1, FILE_BYTES_MAX - 1, file);
    data[*out_bytes] = 0;
    fclose(file);
    return data;
}

static void state_write(const char *version, const struct core_dump *dump)
{
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/%s.state", FOLDER, version); /* short */
    FILE *file = fopen(path, "wb");
    cr_assert_not_null(file);
    fwrite(dump->text, 1, dump->bytes, file);
    cr_assert_eq(fclose(file), 0);
}

static bool was_read[FACT_TYPE_COUNT];

/* Gives how many there are. */
static unsigned replay(struct core *core, struct effects *effects, const char *version)
{
    size_t bytes;
    unsigned count = 0;
    char *data = file_read(version, "facts", &bytes);
    const uint8_t *byte = (const uint8_t *)data;
    for (size_t at = 0; at < bytes; count++) {
        cr_assert_leq(at + 6, bytes);
        size_t length = (size_t)byte[at] << 8 | byte[at + 1];
        payload_id payload = (payload_id)byte[at + 2] << 24 | (payload_id)byte[at + 3] << 16 |
                             (payload_id)byte[at + 4] << 8 | byte[at + 5];
        cr_assert_leq(at + 6 + length, bytes);
        unsigned number = wire_number(span_of(byte + at + 6, length));
        cr_assert_lt(number, FACT_TYPE_COUNT);
        was_read[number] = true;
        effects_clear(effects);
        const char *wrong = core_replay(core, span_of(byte + at + 6, length), payload, effects);
        cr_assert_null(wrong, "%s, fact %u: %s", version, count, wrong);
        at += 6 + length;
    }
    free(data);
    return count;
}

static void check(const char *version)
{
    struct memory memory;
    struct effects effects;
    struct core_options options;
    struct core_dump is = {0};
    memory_heap_init(&memory, UINT64_MAX);
    effects_init(&effects, &memory);
    core_options_init(&options);
    struct core *core = core_new(&memory, &options, 0);
    cr_assert_not_null(core);
    cr_assert_gt(replay(core, &effects, version), 50);
    core_dump_take(&is, core);
    if (getenv("ERRBUS_WRITE_STATE") != NULL)
        state_write(version, &is);
    struct core_dump should = {0};
    should.text = file_read(version, "state", &should.bytes);
    const char *difference = core_dump_differ(&is, &should);
    cr_assert_null(difference, "%s, now | then: %s", version, difference);
    core_dump_fini(&is);
    core_dump_fini(&should);
    core_free(&core);
    effects_fini(&effects);
    cr_assert_eq(memory.bytes_used, 0);
}

/* Kinds above it are younger than the newest release that is kept. */
enum { NEWEST_KIND = FACT_PARKED };

Test(facts, of_older_brokers_mean_the_same)
{
    static const char *const versions[] = {"v0.1", "v0.1-ends"};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++)
        check(versions[i]);
    for (unsigned type = 1; type <= NEWEST_KIND; type++)
        cr_expect(was_read[type] || fact_name((enum fact_type)type) == NULL, "no %s is kept",
                  fact_name((enum fact_type)type));
}
