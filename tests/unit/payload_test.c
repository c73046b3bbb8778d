/* SPDX-License-Identifier: MPL-2.0 */
/* payload_test.c -- the received parts that the core wants kept. */
#include "broker/io/payload.h"

#include <criterion/criterion.h>

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
    cr_assert_eq(memory.bytes_used, 0);
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
    struct buffer buffer;
    payload_id id = add(&buffer);
    uint64_t key = payload_key(&table, id);
    cr_expect_eq(table.items[id - 1].at, PAYLOAD_NOWHERE);
    payload_logged(&table, key, 4711);
    cr_expect_eq(table.items[id - 1].at, 4711);
    payload_release(&table, id, 1);
    payload_table_sweep(&table);
    struct buffer other;
    payload_id again = add(&other);
    cr_assert_eq(again, id);
    cr_expect_neq(payload_key(&table, again), key);
    payload_logged(&table, key, 5); /* of one that is gone */
    cr_expect_eq(table.items[id - 1].at, PAYLOAD_NOWHERE);
}
