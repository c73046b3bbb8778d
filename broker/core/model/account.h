/* SPDX-License-Identifier: MPL-2.0 */
/* account.h -- what somebody of the access file has, over all connections and jobs. */
#ifndef CORE_MODEL_ACCOUNT_H
#define CORE_MODEL_ACCOUNT_H

#include "broker/core/tables/timers.h"
#include "libbus/base/access.h"
#include "libbus/base/list.h"
#include "libbus/base/span.h"
#include "libbus/base/token_bucket.h"

#include <stdint.h>

struct account {
    uint32_t id;                         /* 0: of everybody without a name */
    uint32_t refs;                       /* sessions, parties, jobs and attachments counted here */
    struct span name;                    /* owned: in the access file */
    uint64_t limits[ACCESS_QUOTA_COUNT]; /* by the table in force, or ACCESS_UNLIMITED */
    uint64_t held[ACCESS_QUOTA_COUNT];   /* of the rate nothing is held */
    struct list parties;                 /* that write for it */
    struct list to_trim;                 /* topics of theirs of which something may go */
    struct token_bucket bucket;          /* bytes that may be written now: its limit of the rate */
    struct list rate_waiters;            /* topics whose writers wait for the rate */
    struct timer rate_timer;             /* fires when the first of them may go on */
};

#endif
