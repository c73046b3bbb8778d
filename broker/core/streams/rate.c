/* SPDX-License-Identifier: MPL-2.0 */
/* rate.c -- see rate.h. */
#include "broker/core/streams/rate.h"

#include "broker/core/record/account.h"
#include "broker/core/streams/topic.h"
#include "broker/core/tables/timers.h"

enum {
    TURN_PART = 100,    /* of a second: writers that wait share what flows in this time */
    TURN_WRITERS = 1024 /* that go on at once; the others follow in the next step */
};

/* What the writer used beyond its credit is paid first.  A writer that is away gets nothing: it
 * would keep it from the others. */
uint64_t rate_bound(struct core *core, struct topic *topic, uint64_t wanted)
{
    struct token_bucket *bucket = &topic->writer->account->bucket;
    if (topic->writer->session == NULL)
        return topic->credit_limit;
    int64_t level = token_bucket_level(bucket, core_clock(core));
    if (topic->credit_used > topic->rate_paid) {
        token_bucket_spend(bucket, topic->credit_used - topic->rate_paid);
        topic->rate_paid = topic->credit_used;
        level = bucket->level;
    }
    uint64_t paid = topic->rate_paid + (level > 0 ? (uint64_t)level : 0);
    uint64_t most = topic->credit_used + bucket->burst;
    if (topic->needed_limit > most)
        most = topic->needed_limit; /* a set waits until all of it is paid */
    most = paid < most ? paid : most;
    return wanted < most ? wanted : most;
}

void rate_pay(struct topic *topic, uint64_t credit_limit)
{
    if (credit_limit <= topic->rate_paid)
        return;
    if (rate_is_limited(topic))
        token_bucket_spend(&topic->writer->account->bucket, credit_limit - topic->rate_paid);
    topic->rate_paid = credit_limit;
}

static void rate_arm(struct core *core, struct account *account)
{
    const struct token_bucket *bucket = &account->bucket;
    uint64_t turn = bucket->rate / TURN_PART;
    turn = turn < bucket->burst ? turn : bucket->burst;
    int64_t due_ns = token_bucket_due_ns(bucket, turn > 0 ? (int64_t)turn : 1);
    if (due_ns != INT64_MAX && account->rate_timer.place == 0)
        timers_set(&core->timers, &account->rate_timer, due_ns);
}

void rate_wait(struct core *core, struct topic *topic, uint64_t wanted)
{
    bool is_waiting = rate_is_limited(topic) && topic->writer->session != NULL &&
                      topic_is_stopped(topic) && wanted > topic->credit_used &&
                      wanted > topic->credit_limit;
    if (!is_waiting) {
        account_leave_rate(core, topic);
    } else if (!list_is_linked(&topic->rate_link)) {
        core->rate_wait_count += 1;
        list_push(&topic->writer->account->rate_waiters, &topic->rate_link);
        rate_arm(core, topic->writer->account);
    }
}

/* The first in line takes what there is.  One that gets nothing is the last in line then. */
void rate_timer(struct core *core, struct account *account)
{
    int turns = 0;
    while (!list_is_empty(&account->rate_waiters) && turns++ < TURN_WRITERS) {
        bool is_limited = account->limits[ACCESS_RATE] != ACCESS_UNLIMITED;
        struct list *first = account->rate_waiters.next;
        if (is_limited && token_bucket_level(&account->bucket, core_clock(core)) <= 0)
            break;
        struct topic *topic = LIST_OWNER(first, struct topic, rate_link);
        account_leave_rate(core, topic);
        topic_grant(core, topic, false);
    }
    if (!list_is_empty(&account->rate_waiters))
        rate_arm(core, account);
}

void rate_spend(struct core *core, const struct topic *topic, uint64_t bytes)
{
    struct token_bucket *bucket = &topic->writer->account->bucket;
    if (!rate_is_limited(topic))
        return;
    (void)token_bucket_level(bucket, core_clock(core)); /* up to date */
    token_bucket_spend(bucket, bytes);
}
