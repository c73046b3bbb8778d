/* SPDX-License-Identifier: MPL-2.0 */
/* needs_test.c -- who needs what, from both ends. */
#include "broker/core/tables/needs.h"

#include "libbus/base/must.h"

#include <criterion/criterion.h>

static struct memory memory;
static struct needs needs;

static void init(void)
{
    memory_heap_init(&memory, UINT64_MAX);
    needs_init(&needs, &memory);
}

static void fini(void)
{
    needs_fini(&needs);
    must(memory.bytes_used == 0); /* all memory is given back */
}

TestSuite(needs, .init = init, .fini = fini);

static struct need_key key(uint64_t topic, uint64_t seq)
{
    return (struct need_key){.seq = seq, .topic = topic};
}

Test(needs, finds_dependants_in_order)
{
    struct list slots[3];
    for (uint32_t i = 0; i < 3; i++) {
        list_init(&slots[i]);
        cr_assert(needs_add(&needs, key(7, 5), i + 10, &slots[i]));
    }
    cr_assert_null(needs_find(&needs, key(7, 4)));
    cr_assert_null(needs_find(&needs, key(5, 7)), "topic and number are not mistaken");
    for (uint32_t i = 0; i < 3; i++) {
        struct need_head *head = needs_find(&needs, key(7, 5));
        cr_assert_not_null(head);
        cr_assert_eq(needs_first(head), i + 10);
        needs_drop(&needs, &slots[i]);
        cr_assert(list_is_empty(&slots[i]));
    }
    cr_assert_null(needs_find(&needs, key(7, 5)), "nobody needs it any more");
    cr_assert_eq(needs.edges.used + needs.heads.used, 0);
}

Test(needs, keeps_what_is_held)
{
    struct list slot;
    struct list holder;
    list_init(&slot);
    list_init(&holder);
    cr_assert(needs_add(&needs, key(1, 1), 3, &slot));
    cr_assert(needs_add(&needs, key(1, 1), 3, &slot), "said twice");
    cr_assert(needs_add(&needs, key(1, 2), 3, &slot));
    struct need_head *head = needs_find(&needs, key(1, 1));
    head->is_held = true;
    list_push(&holder, &head->link);
    needs_drop(&needs, &slot);
    cr_assert_eq(needs_find(&needs, key(1, 1)), head);
    cr_assert_null(needs_find(&needs, key(1, 2)));
    cr_assert_eq(needs_first(head), 0);
    cr_assert_eq(needs_next(&needs, NULL), head);
    cr_assert_null(needs_next(&needs, head));
    needs_release(&needs, head);
    cr_assert(list_is_empty(&holder));
    cr_assert_null(needs_find(&needs, key(1, 1)));
}

Test(needs, changes_nothing_without_memory)
{
    struct list slot;
    list_init(&slot);
    uint64_t most = 1;
    bool is_added = false;
    for (; !is_added && most < 1 << 20; most += 64) {
        needs_fini(&needs);
        memory_heap_init(&memory, most);
        needs_init(&needs, &memory);
        is_added = needs_add(&needs, key(1, 1), 3, &slot);
        cr_assert_eq(needs.edges.used, is_added);
        cr_assert_eq(needs.heads.used, is_added);
        cr_assert_eq(list_is_empty(&slot), !is_added);
    }
    cr_assert(is_added);
    needs_drop(&needs, &slot);
}
