/* SPDX-License-Identifier: MPL-2.0 */
/* number.h -- the numbers by which clients know topics.
 *
 * Usually that is the topic's id.  Over a long link a party would wait for it before it can write
 * anything.  So a party whose topics are all new gives the first ones numbers of its own, which no
 * other party may give: bit 30, the number of the party, and one of LIMIT_OWN_NUMBERS.  The id
 * stays what it was, as others may know the topic already; facts have the id.  PROTOCOL.md,
 * "Writing". */
#ifndef CORE_STREAMS_NUMBER_H
#define CORE_STREAMS_NUMBER_H

#include "broker/core/model.h"

#define NUMBER_OWN_BIT UINT32_C(0x40000000) /* above all ids: LIMIT_TOPICS */

/* The first of the numbers that the party of this session may give; 0: it may give none. */
uint32_t number_first(const struct core *core, const struct session *session);
/* Whether this is one of them, for a party whose topics are all new. */
bool number_is_own(const struct party *party, uint32_t number);
/* ... and no topic has it. */
bool number_is_free(const struct party *party, uint32_t number);
/* The number is free, and nobody was sent a slot of the topic. */
void number_give(struct topic *topic, uint32_t number);
void number_take_back(struct topic *topic);
/* The topic with this number could not be opened.  Its party was told so, or values in it were
 * refused: so it is never opened, even if there is room later.  A broker that restarts does not
 * know this. */
void number_refuse(struct party *party, uint32_t number);
bool number_is_refused(const struct party *party, uint32_t number);
/* A new session of the party gives its numbers anew. */
void number_forget_refused(struct party *party);

/* The topic at the place of such a number, or NULL.  It has the number if the bits above agree. */
struct topic *number_find(const struct core *core, uint32_t number);

/* The topic that clients know by this number, or NULL. */
static inline struct topic *topic_numbered(const struct core *core, uint32_t number)
{
    struct topic *topic = (number & NUMBER_OWN_BIT) != 0 ? number_find(core, number)
                                                         : pool_find(&core->topics, number);
    return topic != NULL && topic->number == number ? topic : NULL;
}

/* Its id.  There is none: 0, or the number itself if a party gave it to a topic that could not be
 * opened.  No topic has that as its id. */
static inline uint32_t topic_id_of(const struct core *core, uint32_t number)
{
    const struct topic *topic = topic_numbered(core, number);
    return topic != NULL ? topic->id : number & NUMBER_OWN_BIT ? number : 0;
}

#endif
