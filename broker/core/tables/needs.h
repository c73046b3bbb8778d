/* SPDX-License-Identifier: MPL-2.0 */
/* needs.h -- who needs which slot: edges from open slots to the slots they need.
 *
 * An edge is known from both its ends: from the dependent, an open slot that keeps a list of its
 * edges, and from what is needed, a topic and a number, for which there is a head as long as
 * anybody needs it.  Adding, dropping and finding take the same time however many there are.
 *
 * A slot can only need what was promised before it, so the graph has no cycle; that is for the
 * caller to see to. */
#ifndef CORE_NEEDS_H
#define CORE_NEEDS_H

#include "libbus/base/list.h"
#include "libbus/base/map.h"
#include "libbus/base/memory.h"
#include "libbus/base/pool.h"

#include <stdbool.h>
#include <stdint.h>

/* What is needed. */
struct need_key {
    uint64_t seq;
    uint64_t topic; /* its number; as wide as seq, so that the bytes of a key are all of it */
};
struct need_head {
    uint32_t id; /* for the pool */
    struct need_key key;
    struct list edges; /* from its dependants, in the order in which they were added */
    bool is_held;      /* by who works on it: it stays, without dependants too */
    struct list link;  /* held: the holder's */
    uint32_t root;     /* held: the holder's */
};
struct need_edge {
    uint32_t id;        /* for the pool */
    uint32_t dependant; /* the open slot's number */
    struct need_head *head;
    struct list head_link;
    struct list slot_link;
};

struct needs {
    struct memory *memory;
    struct pool heads;
    struct pool edges;
    struct name_map by_key; /* bytes of a need_key, in its head, -> id of the head */
};

void needs_init(struct needs *needs, struct memory *memory);
void needs_fini(struct needs *needs);
/* The dependant, whose edges are in of_slot, needs this too; said twice, it is there twice.  false:
 * no memory, and nothing changed. */
bool needs_add(struct needs *needs, struct need_key key, uint32_t dependant, struct list *of_slot);
/* A dependant needs nothing any more: its edges go, and heads that nobody else needs or holds. */
void needs_drop(struct needs *needs, struct list *of_slot);
/* NULL: nobody needs that. */
struct need_head *needs_find(const struct needs *needs, struct need_key key);
/* The head after this one (NULL: the first), by number; NULL: none. */
struct need_head *needs_next(const struct needs *needs, const struct need_head *after);
/* The first of those who need it; 0: nobody does. */
uint32_t needs_first(const struct need_head *head);
/* Whoever held it does so no longer: it goes, if nobody needs it. */
void needs_release(struct needs *needs, struct need_head *head);

#endif
