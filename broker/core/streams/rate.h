/* SPDX-License-Identifier: MPL-2.0 */
/* rate.h -- how fast all writers of an account may write together.
 *
 * Credit is granted from a bucket of bytes.  It fills at the rate that the access file allows.  So
 * a writer that is too fast waits, and nothing is lost.  Bytes that need no credit are a debt: the
 * end of a large value, and a value for a slot that was reserved without a size.  They never wait;
 * what is written after them does.  Without a limit none of this does anything. */
#ifndef CORE_STREAMS_RATE_H
#define CORE_STREAMS_RATE_H

#include "broker/core/model.h"

static inline bool rate_is_limited(const struct topic *topic)
{
    return topic->writer->account->limits[ACCESS_RATE] != ACCESS_UNLIMITED;
}

/* The credit that the topic gets, if it could have so much without the rate. */
uint64_t rate_bound(struct core *core, struct topic *topic, uint64_t wanted);
static inline uint64_t rate_target(struct core *core, struct topic *topic, uint64_t wanted)
{
    return rate_is_limited(topic) ? rate_bound(core, topic, wanted) : wanted;
}

/* It gets credit up to there. */
void rate_pay(struct topic *topic, uint64_t credit_limit);
/* Credit was granted, or was not: its writer waits if the rate is the reason. */
void rate_wait(struct core *core, struct topic *topic, uint64_t wanted);
void rate_timer(struct core *core, struct account *account);
/* Bytes came that were not counted as credit. */
void rate_spend(struct core *core, const struct topic *topic, uint64_t bytes);

#endif
