/* SPDX-License-Identifier: MPL-2.0 */
/* seq_queue.c -- see seq_queue.h. */
#include "broker/core/tables/seq_queue.h"

#include "libbus/base/must.h"

/* Puts the one with the larger number below the other, which it gives.  Both have no neighbours. */
static struct seq_node *meld(struct seq_node *a, struct seq_node *b)
{
    struct seq_node *above = b->seq < a->seq ? b : a;
    struct seq_node *below = above == a ? b : a;
    below->next = above->child;
    if (below->next != NULL)
        below->next->prev = below;
    below->prev = above;
    above->child = below;
    above->next = NULL;
    return above;
}

/* Neighbours become one heap: two by two from the first on, then all of these from the last on.
 * (One after the other would leave the next call as many neighbours as this one had.) */
static struct seq_node *meld_all(struct seq_node *first)
{
    struct seq_node *pairs = NULL; /* the last one first, by next */
    while (first != NULL) {
        struct seq_node *second = first->next;
        struct seq_node *rest = second != NULL ? second->next : NULL;
        struct seq_node *pair = second != NULL ? meld(first, second) : first;
        pair->next = pairs;
        pairs = pair;
        first = rest;
    }
    struct seq_node *all = pairs;
    struct seq_node *rest = all != NULL ? all->next : NULL;
    while (rest != NULL) {
        struct seq_node *pair = rest;
        rest = pair->next;
        all = meld(all, pair);
    }
    return all;
}

static void set_root(struct seq_queue *queue, struct seq_node *node)
{
    queue->root = node;
    if (node == NULL)
        return;
    node->next = NULL;
    node->prev = node;
}

void seq_queue_put(struct seq_queue *queue, struct seq_node *node, uint64_t seq)
{
    must(!seq_node_is_in(node));
    *node = (struct seq_node){.seq = seq};
    set_root(queue, queue->root != NULL ? meld(queue->root, node) : node);
}

static void cut(struct seq_node *node)
{
    if (node->prev->child == node)
        node->prev->child = node->next;
    else
        node->prev->next = node->next;
    if (node->next != NULL)
        node->next->prev = node->prev;
}

void seq_queue_remove(struct seq_queue *queue, struct seq_node *node)
{
    if (!seq_node_is_in(node))
        return;
    struct seq_node *below = meld_all(node->child);
    if (queue->root == node) {
        set_root(queue, below);
    } else {
        cut(node);
        if (below != NULL)
            set_root(queue, meld(queue->root, below));
    }
    *node = (struct seq_node){.seq = node->seq};
}
