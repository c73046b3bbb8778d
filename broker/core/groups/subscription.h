/* SPDX-License-Identifier: MPL-2.0 */
/* subscription.h -- how subscriptions are opened and closed, also those of groups. */
#ifndef CORE_GROUPS_SUBSCRIPTION_H
#define CORE_GROUPS_SUBSCRIPTION_H

#include "broker/core/model.h"

struct sub_terms {
    uint32_t number;
    bool is_gap;
    uint64_t window_bytes;
};
/* is_again: the message came before on another connection; it gets the answer of then. */
void sub_open(struct core *core, struct session *session, const struct msg_subscribe *msg,
              bool is_again);
/* Adds a pattern. */
void sub_add(struct core *core, struct session *session, const struct msg_sub_add *msg);
/* is_drop: a durable name goes, too. */
void sub_close(struct core *core, struct session *session, uint32_t number, bool is_drop);
/* A member is given no more tasks. */
void sub_drain(struct core *core, struct session *session, uint32_t number);
/* The subscription is over, also under a durable name. */
void sub_end(struct core *core, struct sub *sub);
/* Whether its party may be sent all that the subscription is for. */
bool sub_is_allowed(const struct core *core, const struct sub *sub);
/* It follows those topics, too, that its party may read since then; false: no memory. */
bool sub_follow_all(struct core *core, struct sub *sub);
/* Ends those of a party that are for topics which it may not read any more. */
void sub_review(struct core *core, struct party *party);
/* Its session ends: a durable name stays without a reader, another subscription is freed. */
void sub_detach(struct core *core, struct sub *sub);
/* id 0: any; name empty: not durable.  NULL: no memory. */
struct sub *sub_make(struct core *core, uint32_t id, struct party *party, struct span name,
                     int64_t from_seq, int64_t keep_ns);
/* The session reads it from now on; false: no memory. */
bool sub_attach(struct core *core, struct session *session, struct sub *sub,
                const struct sub_terms *terms);
void sub_free(struct core *core, struct sub *sub);

/* Whether it has not acknowledged all slots that are there. */
bool route_is_unread(const struct route *route);
/* A durable name that has not acknowledged all, or a group that has not done all; or NULL. */
const struct sub *job_find_owed(const struct job *job);

#endif
