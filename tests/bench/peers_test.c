/* SPDX-License-Identifier: MPL-2.0 */
/* peers_test.c -- that what is measured is the work that was asked for: every system that is here
 * carries all values, whole and in order, to each of its readers; and a reader would see it if one
 * did not. */
#include "bench/peer.h"
#include "bench/systems.h"

#include <criterion/criterion.h>
#include <string.h>

/* Small ones in many batches, and large ones that no batch holds. */
static const struct load loads[] = {
    {"256 B to 2", 256, 2, 64},
    {"300 KiB", (size_t)300 * 1024, 1, 1},
};
static const uint64_t counts[] = {2500, 30};

static struct systems find(void)
{
    struct systems systems;
    systems_find_all(&systems);
    cr_assert_geq(systems.count, 9, "Errbus and what needs libzmq or less are always here");
    return systems;
}

Test(peers, carry_all_values_in_order)
{
    struct systems systems = find();
    for (size_t i = 0; i < systems.count; i++) {
        for (size_t load = 0; load < sizeof loads / sizeof loads[0]; load++) {
            double rate = 0;
            cr_expect(system_rate(systems.at[i], &loads[load], counts[load], &rate), "%s: %s",
                      systems.at[i]->name, loads[load].what);
            cr_expect_gt(rate, 0);
        }
    }
}

Test(peers, time_every_value_of_a_steady_pace)
{
    struct systems systems = find();
    for (size_t i = 0; i < systems.count; i++) {
        struct samples samples = {.count = 0};
        cr_expect(system_latency(systems.at[i], 256, INT64_C(500000), 100, &samples), "%s",
                  systems.at[i]->name);
        cr_expect_eq(samples.count, 90, "%s: %zu", systems.at[i]->name, samples.count);
        cr_expect_gt(samples_percentile(&samples, 0), 0);
        samples_fini(&samples);
    }
}

/* ---- what a reader would see ------------------------------------------------------------------*/

static const struct peer_work work = {.bytes = 32, .count = 3};

static void take(struct tally *tally, uint64_t number, size_t bytes)
{
    char value[64] = "";
    struct peer_stamp stamp = {.number = number};
    memcpy(value, &stamp, sizeof stamp);
    tally_value(tally, value, bytes);
}

Test(peers, are_done_with_the_last_value)
{
    struct tally tally;
    tally_init(&tally, &work);
    for (uint64_t i = 0; i < work.count; i++) {
        cr_assert_not(tally_is_full(&tally));
        take(&tally, i, work.bytes);
    }
    cr_assert(tally_is_full(&tally));
}

Test(peers, count_another_writer_for_itself)
{
    struct tally tally;
    struct peer_work both = work;
    both.beside = 16;
    tally_init(&tally, &both);
    take(&tally, 0, both.bytes);
    take(&tally, 0, both.beside);
    take(&tally, 1, both.beside);
    cr_assert_eq(tally.count, 1);
    cr_assert_eq(tally.beside_count, 2);
    take(&tally, 1, both.bytes);
    take(&tally, 2, both.bytes);
    cr_assert(tally_is_full(&tally));
}

static void take_two(const struct peer_work *of, uint64_t first, uint64_t second, size_t bytes)
{
    struct tally tally;
    tally_init(&tally, of);
    take(&tally, first, bytes);
    take(&tally, second, bytes);
}

Test(peers, see_a_lost_value_of_another_writer, .exit_code = 1)
{
    struct peer_work both = work;
    both.beside = 16;
    take_two(&both, 0, 2, both.beside);
}

Test(peers, see_a_lost_value, .exit_code = 1)
{
    take_two(&work, 0, 2, work.bytes);
}

Test(peers, see_a_value_twice, .exit_code = 1)
{
    take_two(&work, 0, 0, work.bytes);
}

Test(peers, see_a_value_cut_short, .exit_code = 1)
{
    struct tally tally;
    tally_init(&tally, &work);
    take(&tally, 0, work.bytes - 1);
}
