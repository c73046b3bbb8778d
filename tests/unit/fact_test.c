/* SPDX-License-Identifier: MPL-2.0 */
/* fact_test.c -- every fact and every field of facts.def, at its limits and beyond them; what older
 * and newer versions wrote. */
#include "libbus/wire/fact.h"

#define SCHEMA "schemas/facts.def"
#define STRUCT_OF(name) struct fact_##name
#include "tests/unit/schema_fields.def"

#include <criterion/criterion.h>
#include <string.h>

static char filler[LIMIT_FACT_BYTES + 1];
static uint8_t record[2 * LIMIT_FACT_BYTES];

static void init(void)
{
    memset(filler, 'x', sizeof filler);
}

TestSuite(fact, .init = init);

static void set(struct fact *fact, const struct row *row, uint64_t value)
{
    char *member = (char *)&fact->as + row->offset;
    struct span text = span_of(filler, value);
    if (row->type == STR || row->type == BIN)
        memcpy(member, &text, sizeof text);
    else
        memcpy(member, &value, sizeof value);
}

/* All fields at their least, or most. */
static struct fact filled(unsigned number, bool is_most)
{
    struct fact fact = {.type = (enum fact_type)number};
    for (unsigned i = 0; i < ROWS; i++)
        if (rows[i].number == number)
            set(&fact, &rows[i],
                !is_most              ? (uint64_t)rows[i].least
                : rows[i].type == I64 ? INT64_MAX
                                      : rows[i].most);
    return fact;
}

static bool is_same(const struct fact *a, const struct fact *b, const struct row *row)
{
    const char *left = (const char *)&a->as + row->offset;
    const char *right = (const char *)&b->as + row->offset;
    struct span text[2];
    if (row->type != STR && row->type != BIN)
        return memcmp(left, right, sizeof(uint64_t)) == 0;
    memcpy(&text[0], left, sizeof text[0]);
    memcpy(&text[1], right, sizeof text[1]);
    return span_equal(text[0], text[1]);
}

Test(fact, comes_back_as_it_was_at_its_least_and_its_most)
{
    unsigned facts = 0;
    for (unsigned number = 0; number < FACT_TYPE_COUNT; number++) {
        if (fact_name((enum fact_type)number) == NULL)
            continue;
        facts += 1;
        for (int is_most = 0; is_most <= 1; is_most++) {
            struct fact fact = filled(number, is_most);
            struct fact back;
            size_t bytes = 0;
            cr_assert_eq(fact_encode(&fact, record, LIMIT_FACT_BYTES, &bytes), WIRE_OK, "%s",
                         fact_name(fact.type));
            cr_assert_eq(fact_decode(span_of(record, bytes), &back), WIRE_OK);
            cr_assert_eq(back.type, fact.type);
            for (unsigned i = 0; i < ROWS; i++)
                if (rows[i].number == number)
                    cr_assert(is_same(&fact, &back, &rows[i]), "%s", rows[i].name);
        }
    }
    unsigned in_table = 0
#define FACT(upper, name, number, weight, of, what) +1
#include "schemas/facts.def"
        ;
    cr_assert_eq(facts, in_table);
}

Test(fact, refuses_what_is_beyond_a_limit_in_writing_and_in_reading)
{
    for (unsigned i = 0; i < ROWS; i++) {
        const struct row *row = &rows[i];
        struct fact fact = filled(row->number, false);
        size_t bytes = 0;
        bool has_bound = row->type == I64 ? row->least > INT64_MIN : row->most < UINT64_MAX;
        if (!has_bound)
            continue;
        set(&fact, row, row->type == I64 ? (uint64_t)(row->least - 1) : row->most + 1);
        cr_assert_eq(fact_encode(&fact, record, sizeof record, &bytes), WIRE_RANGE, "%s",
                     row->name);
        if (row->type != I64 && row->least > 0) {
            set(&fact, row, (uint64_t)row->least - 1);
            cr_assert_eq(fact_encode(&fact, record, sizeof record, &bytes), WIRE_RANGE, "%s",
                         row->name);
        }
    }
    /* reading: a party that is too large for 32 bits; a name that is none */
    static const uint8_t large[] = {0x92, 9, 0xcf, 0, 0, 0, 1, 0, 0, 0, 0};
    static const uint8_t nameless[] = {0x94, 3, 1, 0xa0, 1};
    static const uint8_t not_utf8[] = {0x94, 3, 1, 0xa1, 0xff, 1};
    struct fact back;
    cr_assert_eq(fact_decode(span_of(large, sizeof large), &back), WIRE_RANGE);
    cr_assert_eq(fact_decode(span_of(nameless, sizeof nameless), &back), WIRE_RANGE);
    cr_assert_eq(fact_decode(span_of(not_utf8, sizeof not_utf8), &back), WIRE_UTF8);
}

Test(fact, says_that_room_is_short)
{
    struct fact fact = filled(FACT_EVENT, true);
    size_t bytes = 0;
    cr_assert_eq(fact_encode(&fact, record, sizeof record, &bytes), WIRE_OK);
    for (size_t room = 0; room < bytes; room += 97) {
        size_t unused = 0;
        cr_assert_eq(fact_encode(&fact, record, room, &unused), WIRE_FULL);
    }
}

/* A field that came later reads as 0 or empty, one that is not known is skipped. */
Test(fact, is_read_across_versions)
{
    static const uint8_t older[] = {0x93, FACT_TRIMMED, 7, 12};
    static const uint8_t oldest[] = {0x92, FACT_TRIMMED, 7};
    static const uint8_t newer[] = {0x95, FACT_TRIMMED, 7, 12, 0xa3, 'n', 'e', 'w', 0x91, 1};
    static const uint8_t unknown[] = {0x92, 0x7f, 1};
    struct fact fact;
    cr_assert_eq(fact_decode(span_of(older, sizeof older), &fact), WIRE_OK);
    cr_assert_eq(fact.as.trimmed.first_seq, 12);
    cr_assert_eq(fact_decode(span_of(oldest, sizeof oldest), &fact), WIRE_OK);
    cr_assert_eq(fact.as.trimmed.topic, 7);
    cr_assert_eq(fact.as.trimmed.first_seq, 0);
    cr_assert_eq(fact_decode(span_of(newer, sizeof newer), &fact), WIRE_OK);
    cr_assert_eq(fact.as.trimmed.first_seq, 12);
    cr_assert_eq(fact_decode(span_of(unknown, sizeof unknown), &fact), WIRE_UNKNOWN);
}

Test(fact, refuses_bytes_that_are_none)
{
    static const uint8_t cut[] = {0x93, FACT_TRIMMED, 7, 0xcf, 0};
    static const uint8_t longer[] = {0x92, FACT_TRIMMED, 7, 7};
    static const uint8_t text[] = {0x92, FACT_TRIMMED, 0xa1, '7'};
    static const uint8_t numberless[] = {0x90};
    struct fact fact;
    cr_assert_eq(fact_decode(SPAN_NONE, &fact), WIRE_EMPTY);
    cr_assert_eq(fact_decode(span_of(cut, sizeof cut), &fact), WIRE_TRUNCATED);
    cr_assert_eq(fact_decode(span_of(longer, sizeof longer), &fact), WIRE_TRAILING);
    cr_assert_eq(fact_decode(span_of(text, sizeof text), &fact), WIRE_FORMAT);
    cr_assert_eq(fact_decode(span_of(numberless, sizeof numberless), &fact), WIRE_FORMAT);
    cr_assert_eq(fact_decode(span_of(record, LIMIT_FACT_BYTES + 1), &fact), WIRE_TOO_BIG);
}

/* A full disk must take bad news, and need not take promises. */
Test(fact, has_a_weight)
{
    static const enum fact_type ordinary[] = {FACT_KEPT, FACT_RESERVED, FACT_COMMITTED,
                                              FACT_CHUNK_ADDED, FACT_PARTY_JOINED};
    static const enum fact_type essential[] = {FACT_FAILED,       FACT_PARTY_ENDED,
                                               FACT_FAILURE_MADE, FACT_ACKNOWLEDGED,
                                               FACT_REFUSED,      FACT_NUMBERS};
    for (size_t i = 0; i < sizeof ordinary / sizeof ordinary[0]; i++)
        cr_assert_not(fact_is_essential(ordinary[i]), "%s", fact_name(ordinary[i]));
    for (size_t i = 0; i < sizeof essential / sizeof essential[0]; i++)
        cr_assert(fact_is_essential(essential[i]), "%s", fact_name(essential[i]));
    cr_assert_null(fact_name(FACT_NONE));
    cr_assert_null(fact_name(FACT_TYPE_COUNT));
}
