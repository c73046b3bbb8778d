/* SPDX-License-Identifier: MPL-2.0 */
/* subscription.h -- how subscriptions are opened and closed, also those of groups. */
#ifndef CORE_GROUPS_SUBSCRIPTION_H
#define CORE_GROUPS_SUBSCRIPTION_H

#include "broker/core/model.h"

/* is_again: it came before on another connection, and is answered as it was then. */
void sub_open(struct core *core, struct session *session, const struct msg_subscribe *msg,
              bool is_again);
void sub_add(struct core *core, struct session *session, const struct msg_sub_add *msg);
void sub_close(struct core *core, struct session *session, uint32_t number, bool is_drop);
void sub_drain(struct core *core, struct session *session, uint32_t number);
void sub_detach(struct core *core, struct sub *sub); /* its session ends */
void sub_free(struct core *core, struct sub *sub);
/* id 0: any; name empty: not durable. */
struct sub *sub_make(struct core *core, uint32_t id, struct party *party, struct span name,
                     int64_t from_seq, int64_t keep_ns);
struct sub_terms {
    uint32_t number;
    bool is_gap;
    uint64_t window_bytes;
};
bool sub_attach(struct core *core, struct session *session, struct sub *sub,
                const struct sub_terms *terms);

#endif
