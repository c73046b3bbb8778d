/* SPDX-License-Identifier: MPL-2.0 */
/* sub.h -- subscriptions: opening, positions, acknowledging. */
#ifndef CORE_STREAMS_SUB_H
#define CORE_STREAMS_SUB_H

#include "broker/core/model.h"

/* A complaint about the message, or NULL. */
const char *sub_taken(struct core *core, struct session *session, const struct msg_taken *msg);
void sub_ack(struct core *core, struct session *session, const struct parked *op);
/* The durable subscription of this number; 0: there is none. */
uint32_t sub_durable(struct core *core, struct session *session, uint32_t number);
void sub_expire(struct core *core, struct sub *sub);
void sub_rewind(struct core *core, struct sub *sub); /* a fresh connection */
/* ... and what lies before the acknowledgements that wait for their data is not sent again. */
void sub_pass_done(struct core *core, struct session *session);
bool sub_keep_pattern(struct core *core, struct sub *sub, struct span pattern);
bool sub_watch(struct core *core, struct sub *sub, struct party *party);
bool sub_add_ending(struct core *core, struct sub *sub, struct party *party, uint32_t incarnation,
                    struct failure *failure);
void sub_end_told(struct core *core, struct sub *sub);
struct route *sub_route(struct core *core, struct sub *sub, struct topic *topic, uint64_t seq);
void sub_acknowledge(struct core *core, struct route *route, uint64_t next_seq);
struct sub *sub_find(struct core *core, struct session *session, uint32_t number);
bool sub_wants(const struct sub *sub, struct span topic);
bool sub_follow(struct core *core, struct sub *sub, struct topic *topic); /* a new topic */
bool sub_holds(const struct sub *sub);                                    /* holds writers back */
/* Another attempt begins, which it reads from 0 on; in the last one slots went up to next_seq. */
void route_restart(struct core *core, struct route *route, uint64_t next_seq);
uint64_t route_floor(const struct route *route);
void route_free(struct core *core, struct route *route);
void route_ready(struct core *core, struct route *route);
void sub_ready(struct core *core, struct sub *sub);
/* There may be something to send to it. */
void sub_mark(struct core *core, struct sub *sub);
void sub_ended(struct core *core, struct party *party, struct failure *failure);

/* Dead letters are for who asks for them by name; no group takes them, or replies, for tasks. */
bool sub_matches(const struct sub *sub, struct span pattern, struct span topic);
void ending_free(struct core *core, struct ending *ending);
/* Without memory its slots and waits have told it; the end itself is lost. */
void ending_add(struct core *core, struct sub *sub, struct party *party, struct failure *failure);

#endif
