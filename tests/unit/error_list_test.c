/* SPDX-License-Identifier: MPL-2.0 */
/* error_list_test.c -- ids that were met, and what stands behind an error. */
#include "clients/error_list.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static bool is_new(struct error_ids *ids, const char *id)
{
    bool is_short = true;
    bool is_added = error_ids_add(ids, id, &is_short);
    cr_assert_not(is_short);
    return is_added;
}

Test(error_list, takes_each_id_once)
{
    enum { IDS = 1000 }; /* the table grows several times */
    struct error_ids ids = {0};
    char id[64];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < IDS; i++) {
            snprintf(id, sizeof id, "job/party/1/%d", i);
            cr_assert_eq(is_new(&ids, id), round == 0, "%s in round %d", id, round);
        }
    }
    cr_expect_eq(ids.count, IDS);
    error_ids_fini(&ids);
    cr_expect_null(ids.texts);
    cr_expect(is_new(&ids, "job/party/1/0"), "it begins anew");
    error_ids_fini(&ids);
    error_ids_fini(&ids); /* nothing: no harm */
}

Test(error_list, takes_what_has_no_id_every_time)
{
    struct error_ids ids = {0};
    cr_expect(is_new(&ids, ""));
    cr_expect(is_new(&ids, ""));
    cr_expect_eq(ids.count, 0);
    error_ids_fini(&ids);
}

/* A diamond: both causes of the head have the root as theirs. */
Test(error_list, goes_through_causes_nearest_first_and_each_once)
{
    const struct bus_error *list[ERROR_LIST_MAX];
    struct bus_error *root = bus_error_new("app.root", NULL, "r");
    struct bus_error *left = bus_error_new("app.left", root, "l");
    struct bus_error *right = bus_error_new("app.right", root, "r");
    struct bus_error *head = bus_error_new("app.head", left, "h");
    cr_assert_eq(bus_error_add_cause(head, right), BUS_OK);
    static const char *const types[] = {"app.head", "app.left", "app.right", "app.root"};
    cr_assert_eq(error_list_of(head, list), 4);
    for (size_t i = 0; i < 4; i++) {
        cr_expect_str_eq(bus_error_type(list[i]), types[i]);
    }
    cr_expect_eq(error_list_of(root, list), 1);
    cr_expect_null(error_list_find(head, "job/party/1/1"));
    cr_expect_eq(error_list_find(head, ""), head, "none of them has been seen by a bus");
    bus_error_unref(&head);
    bus_error_unref(&right);
    bus_error_unref(&left);
    bus_error_unref(&root);
}

Test(error_list, ends_at_as_many_as_there_is_room_for)
{
    enum { CAUSES = 10 };
    const struct bus_error *list[ERROR_LIST_MAX];
    struct bus_error *causes[CAUSES];
    struct bus_error *head = bus_error_new("app.head", NULL, "h");
    for (int i = 0; i < CAUSES; i++) {
        causes[i] = bus_error_new("app.leaf", NULL, "%d", i);
        for (int deep = 0; deep < CAUSES; deep++) {
            struct bus_error *above = bus_error_new("app.step", causes[i], "%d", deep);
            bus_error_unref(&causes[i]);
            causes[i] = above;
        }
        cr_assert_eq(bus_error_add_cause(head, causes[i]), BUS_OK);
    }
    cr_expect_eq(error_list_of(head, list), ERROR_LIST_MAX);
    for (int i = 0; i < CAUSES; i++) {
        bus_error_unref(&causes[i]);
    }
    bus_error_unref(&head);
}

Test(error_list, knows_what_lies_between_two_ids)
{
    static const struct {
        const char *id, *first, *last;
        bool is_within;
    } cases[] = {
        {"job/a/1/9", "job/a/1/9", "job/a/1/11", true},
        {"job/a/1/10", "job/a/1/9", "job/a/1/11", true},
        {"job/a/1/11", "job/a/1/9", "job/a/1/11", true},
        {"job/a/1/8", "job/a/1/9", "job/a/1/11", false},
        {"job/a/1/12", "job/a/1/9", "job/a/1/11", false},
        {"job/a/2/10", "job/a/1/9", "job/a/1/11", false},
        {"job/b/1/10", "job/a/1/9", "job/a/1/11", false},
        {"job/a/1/10", "job/a/1/9", "job/b/1/11", false},
        {"job/a/1/10", "", "", false},
        {"", "job/a/1/9", "job/a/1/11", false},
        {"job/a/1/x", "job/a/1/9", "job/a/1/11", false},
        {"job/a/1/10x", "job/a/1/9", "job/a/1/11", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_expect_eq(error_id_is_within(cases[i].id, cases[i].first, cases[i].last),
                     cases[i].is_within, "%zu", i);
    }
}

static const char *count_text(uint64_t count, const char *first, const char *last)
{
    static char text[200];
    FILE *out = fmemopen(text, sizeof text, "w");
    memset(text, 0, sizeof text);
    cr_assert_not_null(out);
    error_count_print(out, count, first, last);
    fclose(out);
    return text;
}

Test(error_list, says_how_many_are_alike)
{
    cr_expect_str_eq(count_text(0, "", ""), "");
    cr_expect_str_eq(count_text(1, "", ""), " (1)");
    cr_expect_str_eq(count_text(500, "j/a/1/1", "j/a/1/999"), " (500 alike, j/a/1/1 to j/a/1/999)");
}
