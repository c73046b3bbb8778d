/* SPDX-License-Identifier: MPL-2.0 */
/* points_test.c -- which points a measurement is asked for. */
#include "bench/harness.h"

#include <criterion/criterion.h>

TestSuite(points);

Test(points, asks_at_all_points_where_none_is_named)
{
    struct bench bench;
    char *words[] = {"link_bench", "--runs", "3"};
    cr_assert(bench_init(&bench, "link", 3, words));
    cr_expect_eq(bench.runs, 3);
    cr_expect(bench_wants(&bench, "25 ms 10M 256 B, "));
}

Test(points, asks_at_points_that_begin_as_one_that_is_named)
{
    struct bench bench;
    char *words[] = {"link_bench", "--only", "25 ms 10M,100 ms"};
    cr_assert(bench_init(&bench, "link", 3, words));
    cr_expect(bench_wants(&bench, "25 ms 10M 256 B, "));
    cr_expect(bench_wants(&bench, "100 ms 1G 64 MiB, "));
    cr_expect_not(bench_wants(&bench, "25 ms 100M 256 B, "));
    cr_expect_not(bench_wants(&bench, "5 ms 1G 256 B, "));
}

Test(points, takes_no_word_without_what_belongs_to_it)
{
    struct bench bench;
    char *words[] = {"link_bench", "--only"};
    cr_expect_not(bench_init(&bench, "link", 2, words));
}
