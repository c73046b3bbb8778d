/* SPDX-License-Identifier: MPL-2.0 */
/* needs.c -- heads by what is needed, edges in two lists each; see needs.h. */
#include "broker/core/tables/needs.h"

#include "libbus/base/must.h"
#include "libbus/base/span.h"

void needs_init(struct needs *needs, struct memory *memory)
{
    *needs = (struct needs){.memory = memory};
    pool_init(&needs->heads, memory, sizeof(struct need_head), UINT32_MAX);
    pool_init(&needs->edges, memory, sizeof(struct need_edge), UINT32_MAX);
    name_map_init(&needs->by_key, memory);
}

void needs_fini(struct needs *needs)
{
    name_map_fini(&needs->by_key);
    pool_fini(&needs->heads);
    pool_fini(&needs->edges);
}

static struct span key_span(const struct need_key *key)
{
    return span_of(key, sizeof *key);
}

struct need_head *needs_find(const struct needs *needs, struct need_key key)
{
    uint32_t id;
    return name_map_get(&needs->by_key, key_span(&key), &id) ? pool_find(&needs->heads, id) : NULL;
}

struct need_head *needs_next(const struct needs *needs, const struct need_head *after)
{
    return pool_next(&needs->heads, after != NULL ? after->id : 0);
}

static struct need_head *head_new(struct needs *needs, struct need_key key)
{
    struct need_head *head = pool_take(&needs->heads);
    if (head == NULL)
        return NULL;
    head->key = key;
    if (!name_map_put(&needs->by_key, key_span(&head->key), head->id)) {
        pool_give(&needs->heads, head);
        return NULL;
    }
    list_init(&head->edges);
    list_init(&head->link);
    return head;
}

static void head_update(struct needs *needs, struct need_head *head)
{
    if (head->is_held || !list_is_empty(&head->edges))
        return;
    name_map_remove(&needs->by_key, key_span(&head->key));
    pool_give(&needs->heads, head);
}

bool needs_add(struct needs *needs, struct need_key key, uint32_t dependant, struct list *of_slot)
{
    struct need_edge *edge = pool_take(&needs->edges);
    struct need_head *head = edge != NULL ? needs_find(needs, key) : NULL;
    if (edge != NULL && head == NULL)
        head = head_new(needs, key);
    if (head == NULL) {
        if (edge != NULL)
            pool_give(&needs->edges, edge);
        return false;
    }
    edge->dependant = dependant;
    edge->head = head;
    list_push(&head->edges, &edge->head_link);
    list_push(of_slot, &edge->slot_link);
    return true;
}

void needs_drop(struct needs *needs, struct list *of_slot)
{
    LIST_EACH(link, of_slot) {
        struct need_edge *edge = LIST_OWNER(link, struct need_edge, slot_link);
        struct need_head *head = edge->head;
        list_remove(&edge->slot_link);
        list_remove(&edge->head_link);
        pool_give(&needs->edges, edge);
        head_update(needs, head);
    }
}

uint32_t needs_first(const struct need_head *head)
{
    if (list_is_empty(&head->edges))
        return 0;
    return LIST_OWNER(head->edges.next, struct need_edge, head_link)->dependant;
}

void needs_release(struct needs *needs, struct need_head *head)
{
    must(head->is_held);
    head->is_held = false;
    list_remove(&head->link);
    head_update(needs, head);
}
