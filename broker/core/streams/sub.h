/* SPDX-License-Identifier: MPL-2.0 */
/* sub.h -- subscriptions: where they are in their topics, and what they are to be sent. */
#ifndef CORE_STREAMS_SUB_H
#define CORE_STREAMS_SUB_H

#include "broker/core/model.h"

/* The session's subscription of this number, or NULL. */
struct sub *sub_find(struct core *core, struct session *session, uint32_t number);
/* The same, if it is durable: its id; 0: there is none. */
uint32_t sub_durable(struct core *core, struct session *session, uint32_t number);
/* Whether it holds writers back. */
bool sub_holds(const struct sub *sub);
/* Whether one of its patterns matches the topic. */
bool sub_wants(const struct sub *sub, struct span topic);
/* Dead letters are for subscriptions that name their party.  A group takes neither dead letters nor
 * replies as tasks. */
bool sub_matches(const struct sub *sub, struct span pattern, struct span topic);
/* There may be something to send to it. */
void sub_mark(struct core *core, struct sub *sub);
/* There may be something to send on all its routes. */
void sub_ready(struct core *core, struct sub *sub);
void route_ready(struct core *core, struct route *route);
/* A route in a topic from seq on; NULL: no memory. */
struct route *sub_route(struct core *core, struct sub *sub, struct topic *topic, uint64_t seq);
/* The same from where the subscription begins, unless it has one; false: no memory. */
bool sub_follow(struct core *core, struct sub *sub, struct topic *topic);
void route_free(struct core *core, struct route *route);
/* The first slot that the route needs. */
uint64_t route_floor(const struct route *route);
/* Another attempt begins, which the route reads from 0 on; the last one ended at next_seq. */
void route_restart(struct core *core, struct route *route, uint64_t next_seq);
/* A fresh connection: what was not taken is sent again. */
void sub_rewind(struct core *core, struct sub *sub);
/* What was acknowledged, though the acknowledgement waits for its data, is not sent again. */
void sub_pass_done(struct core *core, struct session *session);
/* The party has ended: subscriptions that name it are to be told. */
void sub_ended(struct core *core, struct party *party);
/* false: no memory. */
bool sub_add_ending(struct core *core, struct sub *sub, struct party *party, struct party_end end);
/* The ends of earlier incarnations, as far as they stand where the subscription reads from now on.
 * Without memory an end is not told; slots and waits are. */
void sub_add_past_endings(struct core *core, struct sub *sub, struct party *party);
/* The same of the last incarnation. */
void ending_add(struct core *core, struct sub *sub, struct party *party);
void ending_free(struct core *core, struct ending *ending);
/* The client has taken the oldest end. */
void sub_end_told(struct core *core, struct sub *sub);
/* The subscription is told when this party ends; false: no memory. */
bool sub_watch(struct core *core, struct sub *sub, struct party *party);
/* One pattern more, without its topics; false: no memory. */
bool sub_keep_pattern(struct core *core, struct sub *sub, struct span pattern);
/* It was left without a reader for too long: it holds writers back no more. */
void sub_expire(struct core *core, struct sub *sub);
/* A complaint about the message, or NULL. */
const char *sub_taken(struct core *core, struct session *session, const struct msg_taken *msg);
void sub_ack(struct core *core, struct session *session, const struct parked *op);
/* All below next_seq is acknowledged; for replay, too. */
void sub_acknowledge(struct core *core, struct route *route, uint64_t next_seq);

#endif
