/* SPDX-License-Identifier: MPL-2.0 */
/* list_test.c -- members in order, in front of one another, and out again. */
#include "libbus/base/list.h"

#include <criterion/criterion.h>
#include <stdint.h>

struct thing {
    uint32_t number;
    struct list link;
};

Test(list, inserts_in_front_of_a_member)
{
    struct list head;
    struct thing first = {.number = 1};
    struct thing last = {.number = 2};
    list_init(&head);
    cr_assert(list_is_empty(&head));
    list_push(&head, &last.link);
    list_insert(&last.link, &first.link);
    cr_assert_eq(LIST_OWNER(head.next, struct thing, link)->number, 1);
    cr_assert_eq(LIST_OWNER(head.prev, struct thing, link)->number, 2);
    cr_assert(list_is_linked(&first.link));
}

Test(list, keeps_order_and_removes_twice_without_harm)
{
    struct list head;
    struct thing things[3];
    list_init(&head);
    for (uint32_t i = 0; i < 3; i++) {
        things[i].number = i;
        list_push(&head, &things[i].link);
    }
    list_remove(&things[1].link);
    list_remove(&things[1].link);
    cr_assert_not(list_is_linked(&things[1].link));
    uint32_t sum = 0;
    LIST_EACH(link, &head) {
        sum = sum * 10 + LIST_OWNER(link, struct thing, link)->number;
        list_remove(link);
    }
    cr_assert_eq(sum, 2); /* 0, then 2 */
    cr_assert(list_is_empty(&head));
}
