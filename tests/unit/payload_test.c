/* SPDX-License-Identifier: MPL-2.0 */
/* payload_test.c -- the received parts that the core wants kept. */
#include "broker/io/payload.h"

#include "libbus/base/must.h"
#include "tests/lib/draw.h"

#include <criterion/criterion.h>
#include <string.h>

/* Counts how often the buffer under test is freed. */
static int released;
static uint8_t bytes[100];

static void count_release(struct buffer *buffer)
{
    (void)buffer; /* the test's own */
    released += 1;
}

static void make(struct buffer *buffer)
{
    *buffer = (struct buffer){.data = bytes, .bytes = sizeof bytes, .room = sizeof bytes};
    atomic_init(&buffer->refs, 1);
    buffer->release = count_release;
}

static struct memory memory;
static struct payload_table table;

static void set_up(void)
{
    released = 0;
    memory_heap_init(&memory, UINT64_MAX);
    payload_table_init(&table, &memory);
}

static void tear_down(void)
{
    payload_table_fini(&table);
    must(memory.bytes_used == 0);
}

TestSuite(payload, .init = set_up, .fini = tear_down);

static payload_id add(struct buffer *buffer)
{
    struct buffer *given = buffer;
    payload_id id = 0;
    make(buffer);
    cr_assert(payload_add(&table, &given, &id));
    cr_assert_null(given);
    return id;
}

Test(payload, is_freed_once_when_the_last_reference_goes_and_the_step_is_over)
{
    struct buffer buffer;
    payload_id id = add(&buffer);
    cr_expect_eq(table.count, 1);
    cr_expect_eq(table.bytes, sizeof bytes);
    payload_retain(&table, id, 3);
    payload_release(&table, id, 1);
    payload_table_sweep(&table);
    cr_expect_eq(released, 0);
    payload_release(&table, id, 2);
    payload_table_sweep(&table);
    cr_expect_eq(released, 0);
    payload_release(&table, id, 1);
    cr_expect_eq(released, 0);
    cr_expect_eq(payload_buffer(&table, id), &buffer);
    payload_table_sweep(&table);
    cr_expect_eq(released, 1);
    cr_expect_eq(table.count, 0);
    cr_expect_eq(table.bytes, 0);
    payload_table_sweep(&table);
    cr_expect_eq(released, 1);
}

Test(payload, is_kept_if_it_is_retained_again_in_the_same_step)
{
    struct buffer buffer;
    payload_id id = add(&buffer);
    payload_release(&table, id, 1);
    payload_retain(&table, id, 1);
    payload_table_sweep(&table);
    cr_expect_eq(released, 0);
    payload_release(&table, id, 1);
    payload_retain(&table, id, 1);
    payload_release(&table, id, 1);
    payload_table_sweep(&table);
    cr_expect_eq(released, 1);
}

Test(payload, uses_ids_again_and_grows)
{
    enum { COUNT = 200 };
    static struct buffer buffers[COUNT + 1];
    payload_id ids[COUNT];
    for (int i = 0; i < COUNT; i++)
        ids[i] = add(&buffers[i]);
    for (int i = 0; i < COUNT; i++)
        cr_expect_eq(payload_buffer(&table, ids[i]), &buffers[i]);
    payload_release(&table, ids[7], 1);
    payload_release(&table, ids[8], 1);
    payload_table_sweep(&table);
    cr_expect_eq(released, 2);
    payload_id again = add(&buffers[COUNT]);
    cr_expect(again == ids[7] || again == ids[8]);
    cr_expect_eq(table.used, COUNT);
    cr_expect_eq(table.count, COUNT - 1);
}

Test(payload, leaves_the_buffer_to_its_owner_without_memory)
{
    struct buffer buffer;
    struct buffer *given = &buffer;
    payload_id id = 0;
    make(&buffer);
    memory.bytes_max = memory.bytes_used;
    cr_expect_not(payload_add(&table, &given, &id));
    cr_expect_eq(given, &buffer);
    cr_expect_eq(released, 0);
}

Test(payload, drops_what_is_left_at_the_end)
{
    static struct buffer buffers[2];
    add(&buffers[0]);
    add(&buffers[1]);
    payload_table_fini(&table);
    cr_expect_eq(released, 2);
}

Test(payload, knows_where_in_the_journal_it_is)
{
    static struct buffer buffer; /* dropped behind the test */
    payload_id id = add(&buffer);
    uint64_t key = payload_key(&table, id);
    cr_expect_eq(table.items[id - 1].at, PAYLOAD_NOWHERE);
    payload_logged(&table, key, 4711);
    cr_expect_eq(table.items[id - 1].at, 4711);
    payload_release(&table, id, 1);
    payload_table_sweep(&table);
    static struct buffer other;
    payload_id again = add(&other);
    cr_assert_eq(again, id);
    cr_expect_neq(payload_key(&table, again), key);
    payload_logged(&table, key, 5); /* of one that is gone */
    cr_expect_eq(table.items[id - 1].at, PAYLOAD_NOWHERE);
}

/* ---- a store --------------------------------------------------------------------------------- */

static uint64_t fetched_at[16];
static int fetched;
static bool is_lost;

static bool fetch(void *arg, uint64_t at, void *out_body, size_t count)
{
    cr_assert_eq(arg, &memory);
    fetched_at[fetched++ % 16] = at;
    memset(out_body, (int)at, count);
    return !is_lost;
}

static void use_store(uint64_t memory_bytes)
{
    struct payload_store store = {.fetch = fetch, .arg = &memory, .memory_bytes = memory_bytes};
    payload_table_use_store(&table, &store);
    fetched = 0;
    is_lost = false;
}

static bool is_in_memory(payload_id id)
{
    return payload_buffer(&table, id) != NULL;
}

Test(payload, drops_the_oldest_bytes_once_they_are_logged)
{
    static struct buffer buffers[4];
    payload_id ids[4];
    use_store(2 * sizeof bytes);
    for (int i = 0; i < 4; i++)
        ids[i] = add(&buffers[i]);
    cr_expect_eq(released, 0, "nothing of it is in the journal");
    cr_expect_eq(table.memory_used, 4 * sizeof bytes);
    payload_logged(&table, payload_key(&table, ids[0]), 1000);
    cr_expect_eq(released, 1);
    for (int i = 1; i < 4; i++)
        payload_logged(&table, payload_key(&table, ids[i]), 1000 + (uint64_t)i);
    cr_expect_eq(released, 2);
    cr_expect_not(is_in_memory(ids[0]));
    cr_expect_not(is_in_memory(ids[1]));
    cr_expect(is_in_memory(ids[2]));
    cr_expect(is_in_memory(ids[3]));
    cr_expect_eq(table.memory_used, 2 * sizeof bytes);
    cr_expect_eq(table.bytes, 4 * sizeof bytes);
    cr_expect_eq(payload_bytes(&table, ids[0]), sizeof bytes);
}

Test(payload, reads_back_what_was_dropped_and_drops_another_for_it)
{
    static struct buffer buffers[3];
    payload_id ids[3];
    use_store(2 * sizeof bytes);
    for (int i = 0; i < 3; i++) {
        ids[i] = add(&buffers[i]);
        payload_logged(&table, payload_key(&table, ids[i]), 7 + (uint64_t)i);
    }
    cr_expect_not(is_in_memory(ids[0]));
    const struct buffer *back = payload_fetch(&table, ids[0]);
    cr_assert_not_null(back);
    cr_expect_eq(back->bytes, sizeof bytes);
    cr_expect_eq(back->data[0], 7);
    cr_expect_eq(back->data[sizeof bytes - 1], 7);
    cr_expect_eq(fetched, 1);
    cr_expect_eq(fetched_at[0], 7);
    cr_expect_not(is_in_memory(ids[1]));
    cr_expect(is_in_memory(ids[2]));
    cr_expect_eq(payload_fetch(&table, ids[0]), back);
    cr_expect_eq(payload_fetch(&table, ids[2]), &buffers[2]);
    cr_expect_eq(fetched, 1, "what is in memory is not read");
    cr_expect_eq(table.memory_used, 2 * sizeof bytes);
}

Test(payload, says_so_when_it_cannot_be_read_back)
{
    payload_id id = 0;
    use_store(1000);
    cr_assert(payload_add_stored(&table, 5, 10, &id));
    cr_expect_eq(table.logged_count, 1);
    cr_expect_eq(table.bytes, 10);
    cr_expect_eq(table.memory_used, 0);
    cr_expect_eq(payload_at(&table, id), 5);
    is_lost = true;
    cr_expect_null(payload_fetch(&table, id));
    cr_expect_not(is_in_memory(id));
    cr_expect_eq(table.memory_used, 0);
    is_lost = false;
    cr_expect_not_null(payload_fetch(&table, id));
    cr_expect_eq(table.memory_used, 10);
}

/* The queue of what may go is a list through the table: taken from anywhere, and put to its end. */
Test(payload, keeps_its_accounts_whatever_comes_and_goes)
{
    enum { COUNT = 40 };
    static struct buffer buffers[COUNT];
    payload_id ids[COUNT] = {0};
    uint64_t random = 1;
    use_store(10 * sizeof bytes);
    for (int step = 0; step < 4000; step++) {
        unsigned place = draw_below(&random, COUNT);
        if (ids[place] == 0) {
            ids[place] = add(&buffers[place]);
        } else if (payload_at(&table, ids[place]) == PAYLOAD_NOWHERE) {
            payload_logged(&table, payload_key(&table, ids[place]), draw(&random));
        } else if (draw_below(&random, 3) != 0) {
            cr_assert_not_null(payload_fetch(&table, ids[place]));
        } else {
            payload_release(&table, ids[place], 1);
            payload_table_sweep(&table);
            ids[place] = 0;
        }
        uint64_t used = 0;
        uint64_t stuck = 0;
        for (int i = 0; i < COUNT; i++) {
            used += ids[i] != 0 && is_in_memory(ids[i]) ? sizeof bytes : 0;
            stuck +=
                ids[i] != 0 && payload_at(&table, ids[i]) == PAYLOAD_NOWHERE ? sizeof bytes : 0;
        }
        cr_assert_eq(table.memory_used, used);
        cr_assert(used <= 10 * sizeof bytes || table.oldest == 0 || stuck > 0);
    }
    cr_expect_gt(fetched, 100);
}

/* ---- moving ---------------------------------------------------------------------------------- */

/* So many payloads of 100 bytes, each so far behind the last. */
static void add_stored(payload_id *ids, int count, uint64_t from, uint64_t distance)
{
    for (int i = 0; i < count; i++)
        cr_assert(payload_add_stored(&table, from + (uint64_t)i * distance, 100, &ids[i]));
}

Test(payload, knows_where_the_journal_holds_little)
{
    payload_id ids[100];
    use_store(1000);
    cr_expect_eq(payload_sparse_below(&table, 1000000, 1000), 0, "there is none");
    add_stored(ids, 3, 5000, 10000);              /* little */
    add_stored(ids, 97, 1000000 - 97 * 100, 100); /* all of it */
    uint64_t below = payload_sparse_below(&table, 1000000, 10000);
    cr_expect_gt(below, 25000, "%llu", (unsigned long long)below);
    cr_expect_leq(below, 1000000);
    below = payload_sparse_below(&table, 1000000, 250);
    cr_expect_gt(below, 15000, "%llu", (unsigned long long)below);
    cr_expect_leq(below, 25000, "the third is too much: %llu", (unsigned long long)below);
    cr_expect_eq(payload_sparse_below(&table, 1000000, 99), 0, "each is too much");
    cr_expect_eq(payload_sparse_below(&table, 5000, 10000), 0, "none lies before");
}

/* Writes the payloads below that place anew, one behind the other; how many. */
static int move_all_below(uint64_t below, uint64_t *to)
{
    uint32_t at = 0;
    int count = 0;
    payload_id id;
    while ((id = payload_move(&table, &at, below)) != 0) {
        payload_logged(&table, payload_key(&table, id), *to);
        *to += 100;
        count++;
    }
    return count;
}

/* Those that were written anew before are the oldest ones again: close together, and together with
 * those behind them more than go at a time. */
Test(payload, takes_what_lies_close_together_in_parts)
{
    payload_id ids[150];
    uint64_t to = 1000000;
    use_store(1000);
    add_stored(ids, 150, 5000, 100);
    for (int left = 150; left > 0;) {
        int moved = move_all_below(payload_sparse_below(&table, 1000000, 1000), &to);
        cr_assert(moved > 0 && moved <= 10, "%d", moved);
        left -= moved;
    }
    cr_expect_eq(payload_sparse_below(&table, 1000000, 1000), 0);
    cr_expect_eq(payload_oldest(&table), 1000000);
}

Test(payload, takes_no_more_than_may_go_at_a_time)
{
    static const struct {
        uint64_t bytes_max;
        int moved;
    } cases[] = {{99, 0}, {100, 1}, {199, 1}, {200, 2}, {201, 2}};
    payload_id ids[50];
    uint64_t to = 1000000;
    use_store(1000);
    add_stored(ids, 50, 5000, 100);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t below = payload_sparse_below(&table, 1000000, cases[i].bytes_max);
        cr_expect_eq(move_all_below(below, &to), cases[i].moved, "%zu", i);
    }
}

Test(payload, knows_what_stands_below_a_place)
{
    payload_id ids[3];
    uint64_t next = 0;
    use_store(1000);
    cr_expect_eq(payload_bytes_below(&table, 5000, &next), 0);
    cr_expect_eq(next, UINT64_MAX, "there is none");
    add_stored(ids, 3, 5000, 1000);
    cr_expect_eq(payload_bytes_below(&table, 5000, &next), 0);
    cr_expect_eq(next, 5000);
    cr_expect_eq(payload_bytes_below(&table, 6001, &next), 200);
    cr_expect_eq(next, 7000);
    cr_expect_eq(payload_bytes_below(&table, 8000, &next), 300);
    cr_expect_eq(next, UINT64_MAX);
}

Test(payload, leaves_alone_what_is_dense)
{
    payload_id ids[100];
    use_store(1000);
    add_stored(ids, 100, 7, 399);
    cr_expect_eq(payload_sparse_below(&table, 7 + 100 * 399, 100000), 0);
}

Test(payload, is_where_it_was_until_it_has_moved)
{
    payload_id ids[3];
    uint32_t at = 0;
    use_store(1000);
    add_stored(ids, 3, 1000, 1000);
    cr_expect_eq(payload_move(&table, &at, 3000), ids[0]);
    cr_expect_eq(payload_move(&table, &at, 3000), ids[1]);
    cr_expect_eq(payload_move(&table, &at, 3000), 0);
    cr_expect_eq(table.moving_count, 2);
    cr_expect_eq(payload_oldest(&table), 1000);
    payload_logged(&table, payload_key(&table, ids[0]), 9000);
    cr_expect_eq(payload_at(&table, ids[0]), 9000);
    cr_expect_eq(payload_oldest(&table), 2000);
    cr_expect_eq(table.moving_count, 1);
    uint64_t key = payload_key(&table, ids[1]);
    payload_release(&table, ids[1], 1);
    payload_table_sweep(&table);
    cr_expect_eq(table.moving_count, 0, "what is gone moves no more");
    payload_logged(&table, key, 9100);
    cr_expect_eq(table.moving_count, 0);
    cr_expect_eq(table.logged_count, table.count);
}
