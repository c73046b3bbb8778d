/* SPDX-License-Identifier: MPL-2.0 */
/* token_bucket.c -- see token_bucket.h. */
#include "libbus/base/token_bucket.h"

#define NS_PER_S UINT64_C(1000000000)
#define DEBT_MAX (INT64_C(1) << 62)

void token_bucket_init(struct token_bucket *bucket, uint64_t rate, uint64_t burst, int64_t now_ns)
{
    *bucket = (struct token_bucket){
        .rate = rate, .burst = burst, .level = (int64_t)burst, .at_ns = now_ns};
}

static void fill_up(struct token_bucket *bucket)
{
    bucket->level = (int64_t)bucket->burst;
    bucket->part = 0;
}

/* The rate is cut in two, so that 64 bits hold each product. */
int64_t token_bucket_level(struct token_bucket *bucket, int64_t now_ns)
{
    uint64_t passed_ns = now_ns > bucket->at_ns ? (uint64_t)(now_ns - bucket->at_ns) : 0;
    uint64_t missing = bucket->burst - (uint64_t)bucket->level; /* a debt is missing, too */
    uint64_t seconds = passed_ns / NS_PER_S;
    uint64_t rest_ns = passed_ns % NS_PER_S;
    bucket->at_ns = now_ns > bucket->at_ns ? now_ns : bucket->at_ns;
    if (missing == 0 || (bucket->rate > 0 && seconds > missing / bucket->rate)) {
        fill_up(bucket);
        return bucket->level;
    }
    bucket->part += rest_ns * (bucket->rate % NS_PER_S);
    uint64_t more =
        seconds * bucket->rate + rest_ns * (bucket->rate / NS_PER_S) + bucket->part / NS_PER_S;
    bucket->part %= NS_PER_S;
    if (more >= missing)
        fill_up(bucket);
    else
        bucket->level += (int64_t)more;
    return bucket->level;
}

void token_bucket_spend(struct token_bucket *bucket, uint64_t tokens)
{
    uint64_t most = (uint64_t)(bucket->level + DEBT_MAX);
    bucket->level -= (int64_t)(tokens < most ? tokens : most);
}

int64_t token_bucket_due_ns(const struct token_bucket *bucket, int64_t level)
{
    if (level <= bucket->level)
        return bucket->at_ns;
    uint64_t missing = (uint64_t)(level - bucket->level);
    if (bucket->rate == 0 || level > (int64_t)bucket->burst || missing / bucket->rate > INT32_MAX)
        return INT64_MAX;
    uint64_t rest = missing % bucket->rate;
    uint64_t rest_ns = rest < UINT64_MAX / NS_PER_S ? (rest * NS_PER_S) / bucket->rate
                                                    : rest / (bucket->rate / NS_PER_S);
    return bucket->at_ns + (int64_t)(missing / bucket->rate * NS_PER_S + rest_ns) + 1;
}
