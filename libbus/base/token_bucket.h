/* SPDX-License-Identifier: MPL-2.0 */
/* token_bucket.h -- a rate that may be used unevenly: so much a second, and so much at once.
 *
 * Tokens flow into the bucket at its rate, until it is full.  Whoever spends takes some out.  What
 * cannot wait spends more than there is.  That is a debt, and the level is below 0 until it is
 * paid.  So over a long time the rate holds, whatever the sizes are.  Pure: the caller gives the
 * time, which never goes back. */
#ifndef BASE_TOKEN_BUCKET_H
#define BASE_TOKEN_BUCKET_H

#include <stdint.h>

struct token_bucket {
    uint64_t rate;  /* tokens a second */
    uint64_t burst; /* when it is full */
    int64_t level;  /* at at_ns; below 0: a debt */
    uint64_t part;  /* of the next token, in 10^-9 */
    int64_t at_ns;
};

/* A full one.  burst is at most 2^62. */
void token_bucket_init(struct token_bucket *bucket, uint64_t rate, uint64_t burst, int64_t now_ns);
/* What is in it now. */
int64_t token_bucket_level(struct token_bucket *bucket, int64_t now_ns);
/* Its level is up to date. */
void token_bucket_spend(struct token_bucket *bucket, uint64_t tokens);
/* Its level is up to date: when it will be so high; INT64_MAX: never. */
int64_t token_bucket_due_ns(const struct token_bucket *bucket, int64_t level);

#endif
