/* SPDX-License-Identifier: MPL-2.0 */
/* list.h -- doubly linked lists through their members.
 *
 * A list is a ring with a head of its own.  A member that is in no list points to itself, so
 * removing twice does no harm. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *prev;
    struct list *next;
};

#define LIST_OWNER(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

/* Walks a list; the link may be removed in the body. */
#define LIST_EACH(link, head)                                                                      \
    for (struct list *link = (head)->next, *link##_next_ = link->next; link != (head);             \
         link = link##_next_, link##_next_ = link->next)

static inline void list_init(struct list *list)
{
    list->prev = list;
    list->next = list;
}

static inline bool list_is_empty(const struct list *list)
{
    return list->next == list;
}

static inline bool list_is_linked(const struct list *link)
{
    return link->next != link;
}

/* Before at: at the end of the list whose head at is, or in front of the member at. */
static inline void list_insert(struct list *at, struct list *link)
{
    link->prev = at->prev;
    link->next = at;
    at->prev->next = link;
    at->prev = link;
}

static inline void list_push(struct list *head, struct list *link)
{
    list_insert(head, link);
}

static inline void list_remove(struct list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    list_init(link);
}

#endif
