/* SPDX-License-Identifier: MPL-2.0 */
/* seq_queue.h -- owners by number, the smallest first: a pairing heap whose nodes live in their
 * owners, so nothing here needs memory.
 *
 * To put one in takes constant time, to take one out log n on average, whatever the order in which
 * they came.  (A list that was kept in order took half a minute for the waits of a thousand parties
 * that each wait for the next 65 numbers of one topic.)  Among equal numbers there is no order. */
#ifndef CORE_SEQ_QUEUE_H
#define CORE_SEQ_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct seq_node { /* zero: in no queue */
    uint64_t seq;
    struct seq_node *child; /* the first of those below it, whose numbers are not smaller */
    struct seq_node *next;  /* the next below the same node */
    struct seq_node
        *prev; /* the one before it; of a first child the node above; of the root itself */
};

struct seq_queue { /* zero: empty */
    struct seq_node *root;
};

static inline bool seq_node_is_in(const struct seq_node *node)
{
    return node->prev != NULL;
}

/* The node is in no queue. */
void seq_queue_put(struct seq_queue *queue, struct seq_node *node, uint64_t seq);
/* Does nothing if the node is in no queue; otherwise it is in this one. */
void seq_queue_remove(struct seq_queue *queue, struct seq_node *node);
/* One with the smallest number; NULL: none. */
static inline struct seq_node *seq_queue_first(const struct seq_queue *queue)
{
    return queue->root;
}

#endif
