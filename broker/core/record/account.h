/* SPDX-License-Identifier: MPL-2.0 */
/* account.h -- counts what each principal has, and says what is too much.
 *
 * Each session, party and job belongs to one account, and what it has is counted there: where it is
 * made, and where it is freed.  An account has the name of the principal, for numbers of principals
 * change with each access file.  Without an access file all is counted in one account without a
 * name, which has no limits.  A smaller limit takes nothing away. */
#ifndef CORE_RECORD_ACCOUNT_H
#define CORE_RECORD_ACCOUNT_H

#include "broker/core/model.h"

void accounts_init(struct core *core);
void accounts_fini(struct core *core);

/* A reference to the account of that name, which is made if there is none.  NULL: no memory. */
struct account *account_get(struct core *core, struct span name);
struct account *account_ref(struct account *account);
void account_unref(struct core *core, struct account *account);
/* Whose message this is. */
struct span account_speaker(const struct core *core);
/* Its writer does not wait for the rate any more, if it did. */
void account_leave_rate(struct core *core, struct topic *topic);

/* The party, and what it has, is counted in this account from now on.  Takes over the reference. */
void account_take_party(struct core *core, struct party *party, struct account *account);

/* more may be negative, modulo 2^64. */
static inline void account_count(struct account *account, enum access_quota quota, uint64_t more)
{
    account->held[quota] += more;
}

static inline bool account_has_room(const struct account *account, enum access_quota quota,
                                    uint64_t more)
{
    return account->held[quota] + more <= account->limits[quota];
}

/* Counts a refusal.  "alice may have 4 jobs, and has 4"; good until the next one. */
const char *account_refuse(struct core *core, const struct account *account,
                           enum access_quota quota);

/* Another access table is in force. */
void accounts_review(struct core *core);

#endif
