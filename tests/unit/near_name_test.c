/* SPDX-License-Identifier: MPL-2.0 */
/* near_name_test.c -- which name may have been meant where another one was given. */
#include "broker/core/tables/near_name.h"

#include "libbus/base/limits.h"

#include <criterion/criterion.h>

/* edits 0: the names are not near. */
static const struct {
    const char *given;
    const char *known;
    uint32_t edits;
} rows[] = {
    {"alise", "alice", 1},
    {"alcie", "alice", 1},
    {"alic", "alice", 1},
    {"allice", "alice", 1},
    {"lice", "alice", 1},
    {"alices", "alice", 1},
    {"Alicee", "alice", 2},
    {"aalicee", "alice", 2},
    {"laiec", "alice", 2},
    {"bbalice", "alice", 2},
    {"alisse", "alice", 2},
    {"xyalise", "alice", 0},
    {"alise", "carol", 0},
    {"alice", "alice", 0},
    {"", "a", 0},
    {"a", "", 0},
    {"", "", 0},
    {"a", "b", 0},
    {"a", "ab", 0},
    {"ab", "a", 1},
    {"ab", "ba", 1},
    {"bob", "rob", 1},
    {"bob", "ron", 0},
    {"anna", "hanna", 1},
    {"anna", "hannah", 0},
    {"hanna", "anna", 1},
    {"hannah", "anna", 2},
    {"worker-1", "worker-2", 0},
    {"worker-1", "worker-10", 0},
    {"worker-1", "worker", 2},
    {"wroker-1", "worker-1", 1},
    {"worker1", "worker-1", 1},
    {"1", "2", 0},
    {"node12", "node1", 0},
    {"nose12", "node1", 2},
    {"J\xc3\xbcrgen", "Jurgen", 2},
};

Test(near_name, is_one_edit_away_or_two)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t edits = 0;
        bool is_near = near_name(span_text(rows[i].given), span_text(rows[i].known), &edits);
        cr_expect_eq(is_near, rows[i].edits > 0, "%s for %s", rows[i].given, rows[i].known);
        cr_expect_eq(edits, rows[i].edits, "%s for %s: %u", rows[i].given, rows[i].known, edits);
    }
}

/* What follows from the definition alone, without rows: edits are made, and counted at most. */
Test(near_name, holds_for_each_place_of_an_edit)
{
    char name[] = "abcdefghij";
    size_t bytes = sizeof name - 1;
    uint32_t edits;
    for (size_t i = 0; i < bytes; i++) {
        char other[sizeof name + 1];
        memcpy(other, name, sizeof name);
        other[i] = 'x';
        cr_expect(near_name(span_of(other, bytes), span_text(name), &edits) && edits == 1);
        memmove(other + i, name + i + 1, bytes - i);
        cr_expect(near_name(span_of(other, bytes - 1), span_text(name), &edits) && edits == 1);
        memcpy(other + i + 1, name + i, bytes - i);
        other[i] = 'x';
        cr_expect(near_name(span_of(other, bytes + 1), span_text(name), &edits) && edits == 1);
        if (i + 1 == bytes)
            continue;
        memcpy(other, name, sizeof name);
        other[i] = name[i + 1];
        other[i + 1] = name[i];
        cr_expect(near_name(span_of(other, bytes), span_text(name), &edits) && edits == 1);
    }
}

Test(near_name, holds_the_limit_of_bytes)
{
    char given[LIMIT_NAME_BYTES + 2];
    char known[LIMIT_NAME_BYTES + 2];
    memset(given, 'x', sizeof given);
    memset(known, 'x', sizeof known);
    for (size_t bytes = LIMIT_NAME_BYTES - 1; bytes <= LIMIT_NAME_BYTES + 1; bytes++) {
        uint32_t edits = 0;
        given[bytes - 1] = 'y';
        cr_expect_eq(near_name(span_of(given, bytes), span_of(known, bytes), &edits),
                     bytes <= LIMIT_NAME_BYTES, "%zu", bytes);
        given[bytes - 1] = 'x';
    }
}
