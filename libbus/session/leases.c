/* SPDX-License-Identifier: MPL-2.0 */
/* leases.c -- see leases.h. */
#include "libbus/session/leases.h"

#include "libbus/base/must.h"

static struct lease *lease_of(struct list *link)
{
    return LIST_OWNER(link, struct lease, link);
}

void leases_init(struct leases *leases, struct memory *memory)
{
    *leases = (struct leases){.memory = memory};
    pool_init(&leases->pool, memory, sizeof(struct lease), UINT32_MAX - 1);
    id_map_init(&leases->by_number, memory);
    list_init(&leases->held);
    list_init(&leases->due);
    list_init(&leases->said);
    list_init(&leases->lost);
}

static void lease_free(struct leases *leases, struct lease *lease)
{
    buffer_unref(&lease->why);
    buffer_unref(&lease->error);
    leases->lost_count -= lease->state == LEASE_LOST;
    list_remove(&lease->link);
    id_map_remove(&leases->by_number, lease->number);
    pool_give(&leases->pool, lease);
}

void leases_fini(struct leases *leases)
{
    struct lease *lease;
    while ((lease = pool_next(&leases->pool, 0)) != NULL)
        lease_free(leases, lease);
    pool_fini(&leases->pool);
    id_map_fini(&leases->by_number);
}

struct lease *leases_add(struct leases *leases)
{
    struct lease *lease = id_map_reserve(&leases->by_number) ? pool_take(&leases->pool) : NULL;
    if (lease == NULL)
        return NULL;
    lease->number = ++leases->last;
    lease->state = LEASE_HELD;
    list_push(&leases->held, &lease->link);
    (void)id_map_put(&leases->by_number, lease->number, lease->id); /* reserved above */
    return lease;
}

struct lease *leases_find(const struct leases *leases, uint64_t number)
{
    uint32_t id;
    struct lease *lease =
        id_map_get(&leases->by_number, number, &id) ? pool_find(&leases->pool, id) : NULL;
    return lease != NULL && lease->state == LEASE_HELD ? lease : NULL;
}

static bool is_of(const struct lease *lease, const struct lease_key *key)
{
    return lease->sub == key->sub && lease->topic == key->topic && lease->seq == key->seq &&
           lease->delivery == key->delivery;
}

struct lease *leases_find_task(const struct leases *leases, const struct lease_key *key)
{
    struct lease *lease = NULL;
    while ((lease = pool_next(&leases->pool, lease != NULL ? lease->id : 0)) != NULL)
        if (is_of(lease, key))
            return lease;
    return NULL;
}

void leases_lose(struct leases *leases, const struct lease_key *key)
{
    struct lease *lease = leases_add(leases);
    if (lease == NULL)
        return;
    lease->sub = key->sub;
    lease->topic = key->topic;
    lease->seq = key->seq;
    lease->delivery = key->delivery;
    lease->is_over = true;
    lease->state = LEASE_LOST;
    list_remove(&lease->link);
    list_push(&leases->lost, &lease->link);
    leases->lost_count += 1;
    if (leases->lost_count > LEASES_LOST_MAX)
        lease_free(leases, lease_of(leases->lost.next));
}

bool leases_was_lost(struct leases *leases, const struct lease_key *key)
{
    LIST_EACH(link, &leases->lost) {
        if (!is_of(lease_of(link), key))
            continue;
        lease_free(leases, lease_of(link));
        return true;
    }
    return false;
}

void leases_settle(struct leases *leases, struct lease *lease, enum lease_end end,
                   int64_t retry_after_ms, struct span error, uint64_t after_upload)
{
    must(lease->state == LEASE_HELD);
    list_remove(&lease->link);
    if (lease->is_over) { /* the broker wants no TASK */
        lease_free(leases, lease);
        return;
    }
    lease->state = LEASE_DUE;
    lease->end = end;
    lease->retry_after_ms = retry_after_ms;
    lease->error = error.bytes > 0 ? buffer_copy(error) : NULL;
    lease->after_upload = after_upload;
    lease->settled = ++leases->settled;
    list_push(&leases->due, &lease->link);
}

void leases_said(struct leases *leases, struct lease *lease, uint64_t control_number)
{
    must(lease->state == LEASE_DUE);
    lease->state = LEASE_SAID;
    lease->control_number = control_number;
    buffer_unref(&lease->error);
    list_remove(&lease->link);
    list_push(&leases->said, &lease->link);
}

void leases_accept(struct leases *leases, uint64_t control_number)
{
    while (!list_is_empty(&leases->said) &&
           lease_of(leases->said.next)->control_number <= control_number)
        lease_free(leases, lease_of(leases->said.next));
}

bool leases_reached(const struct leases *leases, uint64_t settled)
{
    struct list *link = leases->due.next;
    if (link != &leases->due && LIST_OWNER(link, struct lease, link)->settled <= settled)
        return false; /* this is the oldest in due */
    for (link = leases->said.next; link != &leases->said; link = link->next)
        if (LIST_OWNER(link, struct lease, link)->settled <= settled)
            return false;
    return true;
}

void leases_drop(struct leases *leases, uint32_t sub)
{
    LIST_EACH(link, &leases->held)
        if (lease_of(link)->sub == sub)
            lease_free(leases, lease_of(link));
    LIST_EACH(link, &leases->lost)
        if (lease_of(link)->sub == sub)
            lease_free(leases, lease_of(link));
}
