/* SPDX-License-Identifier: MPL-2.0 */
/* protocol_test.c -- PROTOCOL.md has every message with its fields, every limit with its value,
 * every kind of frame.  A line that is missing is printed as it has to be. */
#include "libbus/base/limits.h"
#include "libbus/wire/frame.h"
#include "libbus/wire/msg.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>

enum { PAGE_BYTES_MAX = 1 << 20, LINE_BYTES_MAX = 2048 };

static char page[PAGE_BYTES_MAX];

static void page_load(void)
{
    FILE *file = fopen(TEST_SOURCE_DIR "/schemas/PROTOCOL.md", "r");
    cr_assert_not_null(file);
    size_t bytes = fread(page, 1, sizeof page - 1, file);
    fclose(file);
    page[bytes] = '\0';
    cr_assert_lt(bytes, sizeof page - 1);
}

/* Whether it stands there as a line of its own. */
static bool has_line(const char *line)
{
    size_t bytes = strlen(line);
    for (const char *at = strstr(page, line); at != NULL; at = strstr(at + 1, line))
        if ((at == page || at[-1] == '\n') && at[bytes] == '\n')
            return true;
    return false;
}

/* ---- messages -------------------------------------------------------------------------------- */
/* A message, and behind it its fields. */
static const struct row {
    const char *message; /* NULL: a field */
    const char *field;
    unsigned number;
    const char *what;
} rows[] = {
#define MESSAGE(upper, name, number, lane, direction, what) {#upper, NULL, number, what},
#define FIELD_U64(owner, member, largest, what) {NULL, #member, 0, what},
#define FIELD_I64(owner, member, smallest, what) {NULL, #member, 0, what},
#define FIELD_STR(owner, member, shortest, longest, what) {NULL, #member, 0, what},
#define FIELD_BIN(owner, member, shortest, longest, what) {NULL, #member, 0, what},
#include "schemas/messages.def"
};
enum { ROWS = sizeof rows / sizeof rows[0] };

/* | 5 | `BEAT` | sent_ns | we live | */
static size_t line_make(size_t first, char *line)
{
    size_t row = first + 1;
    int at =
        snprintf(line, LINE_BYTES_MAX, "| %u | `%s` |", rows[first].number, rows[first].message);
    for (; row < ROWS && rows[row].message == NULL; row++)
        at += snprintf(line + at, LINE_BYTES_MAX - (size_t)at, " %s", rows[row].field);
    snprintf(line + at, LINE_BYTES_MAX - (size_t)at, " | %s |", rows[first].what);
    return row;
}

Test(protocol, has_every_message_with_its_fields)
{
    char line[LINE_BYTES_MAX];
    unsigned missing = 0;
    page_load();
    for (size_t row = 0; row < ROWS;) {
        row = line_make(row, line);
        if (!has_line(line)) {
            fprintf(stderr, "%s\n", line);
            missing += 1;
        }
    }
    cr_assert_eq(missing, 0, "%u lines of PROTOCOL.md, \"Messages\", are not as above", missing);
}

/* ---- limits ---------------------------------------------------------------------------------- */
#define LIMIT(name)                                                                                \
    {                                                                                              \
#name, (uint64_t)(name)                                                                    \
    }
static const struct {
    const char *name;
    uint64_t value;
} limits[] = {
    LIMIT(LIMIT_NAME_BYTES),
    LIMIT(LIMIT_TOPIC_LEVELS),
    LIMIT(LIMIT_ENDPOINT_BYTES),
    LIMIT(LIMIT_CREDENTIAL_BYTES),
    LIMIT(LIMIT_VALUE_BYTES),
    LIMIT(LIMIT_CHUNK_BYTES),
    LIMIT(LIMIT_PART_BYTES),
    LIMIT(LIMIT_CONTROL_BYTES),
    LIMIT(LIMIT_BATCH_FRAMES),
    LIMIT(LIMIT_WALK_DEPTH),
    LIMIT(LIMIT_WALK_ITEMS),
    LIMIT(LIMIT_ERROR_BYTES),
    LIMIT(LIMIT_ERROR_RECORDS),
    LIMIT(LIMIT_ERROR_CAUSES),
    LIMIT(LIMIT_ERROR_BLAMES),
    LIMIT(LIMIT_ERROR_MESSAGE_BYTES),
    LIMIT(LIMIT_ERROR_STACK_BYTES),
    LIMIT(LIMIT_ERROR_TYPE_BYTES),
    LIMIT(LIMIT_ERROR_ID_BYTES),
    LIMIT(LIMIT_NEW_CONNECTIONS),
    LIMIT(LIMIT_NEW_CONNECTION_MS),
    LIMIT(LIMIT_REFUSED_ADDRESS_MS),
    LIMIT(LIMIT_REFUSED_ADDRESSES),
    LIMIT(LIMIT_SUBS),
    LIMIT(LIMIT_SUB_PATTERNS),
    LIMIT(LIMIT_SUB_WINDOW_BYTES),
    LIMIT(LIMIT_AWAITS),
    LIMIT(DEFAULT_TAP_WINDOW),
    LIMIT(LIMIT_TAP_WINDOW),
    LIMIT(LIMIT_TAP_WINDOW_BYTES),
    LIMIT(LIMIT_DEAD_PIECE_BYTES),
    LIMIT(LIMIT_DEAD_WINDOW_BYTES),
    LIMIT(LIMIT_ATTACHMENT_PIECE_BYTES),
    LIMIT(DEFAULT_BRING_WINDOW_BYTES),
    LIMIT(LIMIT_BRING_WINDOW_BYTES),
    LIMIT(DEFAULT_FETCH_WINDOW_BYTES),
    LIMIT(LIMIT_FETCH_WINDOW_BYTES),
    LIMIT(LIMIT_PERIOD_MS_MAX),
    LIMIT(COST_SLOT_BYTES),
};

Test(protocol, has_every_limit_that_a_peer_can_meet)
{
    unsigned missing = 0;
    page_load();
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        char beginning[128];
        snprintf(beginning, sizeof beginning, "\n| `%s` | %" PRIu64 " | ", limits[i].name,
                 limits[i].value);
        if (strstr(page, beginning) == NULL) {
            fprintf(stderr, "%s...\n", beginning + 1);
            missing += 1;
        }
    }
    cr_assert_eq(missing, 0, "%u lines of PROTOCOL.md, \"Limits\", are not as above", missing);
}

/* ---- frames ---------------------------------------------------------------------------------- */
static const char *const kinds[FRAME_KIND_COUNT] = {
    [FRAME_VALUE] = "VALUE", [FRAME_COMMIT] = "COMMIT", [FRAME_RESERVE] = "RESERVE",
    [FRAME_CHUNK] = "CHUNK", [FRAME_ERROR] = "ERROR",   [FRAME_TOPIC] = "TOPIC",
    [FRAME_GAP] = "GAP",     [FRAME_END] = "END",
};

Test(protocol, has_every_kind_of_frame)
{
    page_load();
    for (unsigned kind = 0; kind < FRAME_KIND_COUNT; kind++) {
        char beginning[64];
        snprintf(beginning, sizeof beginning, "\n| %u | `%s` | ", kind, kinds[kind]);
        cr_assert_not_null(strstr(page, beginning), "%s", beginning + 1);
    }
}
