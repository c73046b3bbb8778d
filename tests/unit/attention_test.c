/* SPDX-License-Identifier: MPL-2.0 */
/* attention_test.c -- which rows of a status come first, and which are left out. */
#include "clients/web/attention.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { MANY = 1100 };

static struct bus_status_row made[2 * MANY];
static const struct bus_status_row *rows[2 * MANY];
static size_t count;
static size_t left_out[ATTENTION_KINDS];

static struct bus_status_row *add(enum bus_status_kind kind, const char *name, enum bus_state state)
{
    struct bus_status_row *row = &made[count];
    *row = (struct bus_status_row){
        .kind = kind, .job = "j", .name = name, .party = "", .state = state, .incarnation = 1};
    rows[count++] = row;
    return row;
}

/* The names in order, with spaces between. */
static const char *chosen(void)
{
    static char text[1024];
    size_t kept = attention_choose(rows, count, left_out);
    text[0] = '\0';
    for (size_t i = 0; i < kept; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s", i > 0 ? " " : "", rows[i]->name);
    }
    return text;
}

Test(attention, parties_in_trouble_come_first)
{
    add(BUS_STATUS_PARTY, "owes", BUS_STATE_RUNNING)->open_ms = 9000;
    add(BUS_STATUS_PARTY, "owes.longer", BUS_STATE_RUNNING)->open_ms = 10000;
    add(BUS_STATUS_PARTY, "2", BUS_STATE_RUNNING);
    add(BUS_STATUS_PARTY, "10", BUS_STATE_RUNNING);
    add(BUS_STATUS_PARTY, "done.before", BUS_STATE_COMPLETED)->ended_ms = 2000;
    add(BUS_STATUS_PARTY, "done", BUS_STATE_LEFT)->ended_ms = 1000;
    add(BUS_STATUS_PARTY, "lost.before", BUS_STATE_LOST)->ended_ms = 7000;
    add(BUS_STATUS_PARTY, "suspect", BUS_STATE_SUSPECT)->silent_ms = 6000;
    add(BUS_STATUS_PARTY, "failed", BUS_STATE_FAILED)->ended_ms = 5000;
    add(BUS_STATUS_PARTY, "grace", BUS_STATE_GRACE)->silent_ms = 4000;
    add(BUS_STATUS_PARTY, "ended", BUS_STATE_TERMINATED)->ended_ms = 3000;
    cr_expect_str_eq(chosen(), "ended grace failed suspect lost.before owes.longer owes 2 10 "
                               "done done.before");
}

/* A party that was lost and has come again is as well as it is now. */
Test(attention, who_came_again_is_not_in_trouble)
{
    add(BUS_STATUS_PARTY, "bob", BUS_STATE_LOST)->ended_ms = 10;
    add(BUS_STATUS_PARTY, "alice", BUS_STATE_RUNNING)->incarnation = 2;
    add(BUS_STATUS_PARTY, "alice", BUS_STATE_LOST)->ended_ms = 5;
    cr_expect_str_eq(chosen(), "bob alice alice");
    cr_expect_eq(rows[1]->incarnation, 2);
}

Test(attention, of_other_kinds_come_by_need)
{
    add(BUS_STATUS_GROUP, "well", BUS_STATE_LIVE)->members = 1;
    add(BUS_STATUS_GROUP, "deadly", BUS_STATE_LIVE)->dead = 1;
    add(BUS_STATUS_GROUP, "alone", BUS_STATE_KEPT)->waiting = 1;
    add(BUS_STATUS_GROUP, "idle", BUS_STATE_KEPT);
    add(BUS_STATUS_SUB, "near", BUS_STATE_LIVE)->pending = 1;
    add(BUS_STATUS_SUB, "far", BUS_STATE_LIVE)->pending = 2;
    add(BUS_STATUS_JOB, "a", BUS_STATE_RUNNING);
    add(BUS_STATUS_JOB, "b", BUS_STATE_FAILED);
    add(BUS_STATUS_JOB, "c", BUS_STATE_SHORT);
    cr_expect_str_eq(chosen(), "b c a far near alone deadly idle well");
}

Test(attention, beyond_the_limit_are_counted_by_kind)
{
    static char names[MANY][24];
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "party.%d", i);
        add(BUS_STATUS_PARTY, names[i], BUS_STATE_RUNNING);
    }
    add(BUS_STATUS_PARTY, "zoe", BUS_STATE_LOST);
    for (int i = 0; i < ATTENTION_ROWS_MAX; i++) {
        add(BUS_STATUS_SUB, "#", BUS_STATE_LIVE);
    }
    cr_expect_eq(attention_choose(rows, count, left_out), 2 * ATTENTION_ROWS_MAX);
    cr_expect_str_eq(rows[0]->name, "zoe");
    cr_expect_eq(left_out[BUS_STATUS_PARTY], MANY + 1 - ATTENTION_ROWS_MAX);
    cr_expect_eq(left_out[BUS_STATUS_SUB], 0);
}

Test(attention, may_be_none)
{
    cr_expect_eq(attention_choose(rows, 0, left_out), 0);
    cr_expect_eq(left_out[BUS_STATUS_PARTY], 0);
}
