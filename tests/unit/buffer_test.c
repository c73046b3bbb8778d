/* SPDX-License-Identifier: MPL-2.0 */
/* buffer_test.c -- counted bytes: one release, by the last to let go. */
#include "libbus/base/buffer.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

Test(buffer, is_new_empty_and_aligned)
{
    for (size_t room = 0; room < 100; room++) {
        struct buffer *buffer = buffer_new(room);
        cr_assert_not_null(buffer);
        cr_assert_eq(buffer->bytes, 0);
        cr_assert_geq(buffer->room, room);
        cr_assert_eq((uintptr_t)buffer->data % 8, 0);
        memset(buffer->data, 0xff, room);
        buffer_unref(&buffer);
        cr_assert_null(buffer);
    }
}

Test(buffer, refuses_a_room_beyond_all_memory)
{
    cr_assert_null(buffer_new(SIZE_MAX));
    cr_assert_null(buffer_new(SIZE_MAX - 8));
}

Test(buffer, copies_what_it_is_given)
{
    char bytes[] = "abc";
    struct buffer *buffer = buffer_copy(span_of(bytes, 3));
    bytes[0] = 'x';
    cr_assert(span_equal(buffer_span(buffer), span_text("abc")));
    buffer_unref(&buffer);
    buffer = buffer_copy(SPAN_NONE);
    cr_assert_eq(buffer_span(buffer).bytes, 0);
    buffer_unref(&buffer);
}

static unsigned releases;
static void count_release(struct buffer *buffer)
{
    (void)buffer;
    releases += 1;
}

Test(buffer, is_released_once_by_the_last)
{
    struct buffer buffer = {.release = count_release};
    atomic_init(&buffer.refs, 1);
    struct buffer *first = &buffer;
    struct buffer *second = buffer_ref(first);
    struct buffer *third = buffer_ref(first);
    struct buffer *none = NULL;
    buffer_unref(&second);
    buffer_unref(&first);
    cr_assert_eq(releases, 0);
    buffer_unref(&third);
    cr_assert_eq(releases, 1);
    buffer_unref(&third);
    buffer_unref(&none);
    cr_assert_eq(releases, 1);
    cr_assert_null(first);
    cr_assert_null(second);
    cr_assert_null(third);
}

/* Whether large pages were asked for where this address lies: "hg" in what the system tells of its
 * mapping (proc_pid_smaps(5)). */
static bool is_in_large_pages(const void *address)
{
    char line[512];
    bool is_there = false;
    bool is_asked = false;
    FILE *maps = fopen("/proc/self/smaps", "re");
    cr_assert_not_null(maps);
    while (fgets(line, sizeof line, maps) != NULL) {
        unsigned long long begin, end;
        if (sscanf(line, "%llx-%llx", &begin, &end) == 2)
            is_there = (uintptr_t)address >= begin && (uintptr_t)address < end;
        if (is_there && strncmp(line, "VmFlags:", 8) == 0)
            is_asked = strstr(line, " hg") != NULL;
    }
    (void)fclose(maps);
    return is_asked;
}

Test(buffer, is_in_large_pages_if_it_has_two_mib)
{
    const size_t least = (size_t)2 * 1024 * 1024;
    struct buffer *less = buffer_new(least - 1);
    struct buffer *large = buffer_new(least);
    struct buffer *larger = buffer_new(least + 1);
    cr_assert(less != NULL && large != NULL && larger != NULL);
    cr_expect_not(is_in_large_pages(less->data + least / 2));
    cr_expect(is_in_large_pages(large->data + least / 2));
    cr_expect(is_in_large_pages(larger->data + least / 2));
    memset(larger->data, 0xff, least + 1); /* all of it is there */
    buffer_unref(&less);
    buffer_unref(&large);
    buffer_unref(&larger);
}

/* ---- large ones ------------------------------------------------------------------------------ */

#define MIB ((size_t)1 << 20)
#define LARGE (40 * MIB)
enum { THREADS = 4, TURNS = 50, MANY = 100 };

/* The address is that of the block which was given back: no page of it is made anew. */
Test(buffer, is_used_again_if_it_is_large)
{
    struct buffer *first = buffer_new(LARGE);
    cr_assert_not_null(first);
    const uint8_t *data = first->data;
    memset(first->data, 0xff, LARGE);
    first->bytes = LARGE;
    buffer_unref(&first);
    struct buffer *other = buffer_new(2 * LARGE);
    cr_expect_neq(other->data, data, "it has no room for so much");
    struct buffer *again = buffer_new(LARGE - MIB);
    cr_expect_eq(again->data, data);
    cr_expect_eq(again->bytes, 0);
    cr_expect_geq(again->room, LARGE - MIB);
    struct buffer *more = buffer_new(LARGE);
    cr_expect_neq(more->data, data, "it is in use");
    memset(again->data, 0, LARGE - MIB);
    buffer_unref(&other);
    buffer_unref(&again);
    buffer_unref(&more);
}

static size_t address_space_mib(void)
{
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    cr_assert_not_null(file);
    cr_assert_eq(fscanf(file, "%zu", &pages), 1);
    fclose(file);
    return pages * 4096 / MIB;
}

#ifdef __SANITIZE_ADDRESS__
enum { KEPT_MOST = 2 * MANY }; /* it keeps the addresses of what was freed */
#else
enum { KEPT_MOST = MANY / 3 };
#endif

/* Most of a hundred that were given back are gone. */
Test(buffer, is_not_kept_beyond_a_few)
{
    struct buffer *buffers[MANY];
    size_t before = address_space_mib();
    for (size_t i = 0; i < MANY; i++)
        cr_assert_not_null(buffers[i] = buffer_new(LARGE));
    cr_expect_geq(address_space_mib(), before + MANY * LARGE / MIB);
    for (size_t i = 0; i < MANY; i++)
        buffer_unref(&buffers[i]);
    cr_expect_leq(address_space_mib(), before + KEPT_MOST * LARGE / MIB);
}

static void *take_and_give(void *arg)
{
    uint8_t mark = *(const uint8_t *)arg;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        size_t room = LARGE + (turn + mark) % 3 * 20 * MIB;
        struct buffer *buffer = buffer_new(room);
        if (buffer == NULL || buffer->room < room)
            return "no buffer with that room";
        buffer->data[0] = buffer->data[room - 1] = mark;
        if (buffer->data[0] != mark || buffer->data[room - 1] != mark)
            return "another thread has it, too";
        buffer_unref(&buffer);
    }
    return NULL;
}

Test(buffer, has_one_owner_among_threads)
{
    static const uint8_t marks[THREADS] = {1, 2, 3, 4};
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, take_and_give, (void *)&marks[i]), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *fault = NULL;
        cr_expect_eq(pthread_join(threads[i], &fault), 0);
        cr_expect_null(fault, "%s", (const char *)fault);
    }
}
