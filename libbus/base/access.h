/* SPDX-License-Identifier: MPL-2.0 */
/* access.h -- the access file: who is who, who may do what, and the line that says so.
 *
 * The file names principals.  A principal is an organisation, or a person: whoever holds one of its
 * keys, or has one of its user ids on the broker's machine.  A line adds rights, and no line takes
 * any away, so the order of the lines does not matter.  errbus-access(1) has the format. */
#ifndef BASE_ACCESS_H
#define BASE_ACCESS_H

#include "libbus/base/key_text.h"
#include "libbus/base/memory.h"
#include "libbus/base/span.h"

#include <stdbool.h>
#include <stdint.h>

struct access;

/* What a line may allow.  A set of them is a sum. */
enum access_right {
    ACCESS_PARTY = 1,   /* to take part in a job under a name */
    ACCESS_TAP = 2,     /* to follow events, and to read errors and attachments */
    ACCESS_STATUS = 4,  /* to ask for status, verdicts and waits */
    ACCESS_JOB = 8,     /* to create, cancel and forget the job */
    ACCESS_DEAD = 16,   /* to list, repeat and drop dead letters */
    ACCESS_ADMIN = 32,  /* all of these but party, in all jobs, and the broker itself */
    ACCESS_RIGHTS = 63, /* all of them */
};
/* The word in the file; right: one of them. */
const char *access_right_name(enum access_right right);

/* What a line may limit: what somebody has in all, over all connections and jobs. */
enum access_quota {
    ACCESS_CONNECTIONS, /* clients that are connected, or that may come back */
    ACCESS_JOBS,        /* that they began */
    ACCESS_OPEN_SLOTS,
    ACCESS_BYTES, /* of values that the broker keeps */
    ACCESS_RATE,  /* bytes a second that they write */
    ACCESS_TOPICS,
    ACCESS_SUBSCRIPTIONS, /* durable ones, too, that nobody reads now */
    ACCESS_ATTACHMENTS,   /* bytes of attachments that the broker keeps */
    ACCESS_QUOTA_COUNT
};
#define ACCESS_UNLIMITED UINT64_MAX
/* The word in the file. */
const char *access_quota_name(enum access_quota quota);

/* What is wrong with a file, and where. */
struct access_fault {
    uint32_t line;
    struct span word; /* a part of the text; may be empty */
    const char *what; /* behind the word: "is no right: ..." */
};

/* Reads a file.  NULL: out_fault says why; its line is 0 if there was no memory. */
struct access *access_read(struct memory *memory, struct span text, struct access_fault *out_fault);
void access_free(struct access **access);

struct access_counts {
    uint32_t principals, keys, uids, groups, rules, limits;
};
struct access_counts access_counts(const struct access *access);

/* Principals are numbered from 1 in each table; 0: there is none. */
uint32_t access_find(const struct access *access, struct span name);
struct span access_name(const struct access *access, uint32_t principal);
/* now_s: seconds since 1970 by the clock of the wall.  A key or uid whose time is over is none. */
uint32_t access_by_key(const struct access *access, const uint8_t key[KEY_BYTES], int64_t now_s);
uint32_t access_by_uid(const struct access *access, uint32_t uid, int64_t now_s);
/* When a key or uid is over; INT64_MAX: never, or it is not there. */
int64_t access_key_end_s(const struct access *access, const uint8_t key[KEY_BYTES]);
int64_t access_uid_end_s(const struct access *access, uint32_t uid);
/* The keys and uids that are over behind from_s and not behind to_s, one with each call; *at begins
 * at 0.  false: no more. */
struct access_end {
    struct span name; /* whose */
    bool is_key;
    uint8_t key[KEY_BYTES];
    uint32_t uid;
    int64_t end_s;
};
bool access_ending(const struct access *access, int64_t from_s, int64_t to_s, uint32_t *at,
                   struct access_end *out_end);
/* When the next key or uid behind now_s is over; INT64_MAX: none. */
int64_t access_next_end_s(const struct access *access, int64_t now_s);

/* Each returns the first line that allows it; 0: no line does.  Principal 0 may do nothing. */

/* right: one of them.  job empty: all jobs.  With ACCESS_PARTY: under some name. */
uint32_t access_may(const struct access *access, uint32_t principal, enum access_right right,
                    struct span job);
/* To be this party. */
uint32_t access_may_be(const struct access *access, uint32_t principal, struct span job,
                       struct span party);
/* As this party, to read this topic.  A party may read what it writes. */
uint32_t access_may_read(const struct access *access, uint32_t principal, struct span job,
                         struct span party, struct span topic);
/* All topics that the pattern matches, by one line. */
uint32_t access_may_cover(const struct access *access, uint32_t principal, struct span job,
                          struct span party, struct span pattern);
/* To read all topics of a job, as some party of it. */
uint32_t access_may_read_all(const struct access *access, uint32_t principal, struct span job);
/* Some topic that the pattern matches. */
uint32_t access_may_match(const struct access *access, uint32_t principal, struct span job,
                          struct span party, struct span pattern);

/* How much of it somebody may have.  The line of a name comes before those of its groups, and of
 * these the smallest counts.  0: no line limits it, and the amount is ACCESS_UNLIMITED. */
uint32_t access_limit(const struct access *access, uint32_t principal, enum access_quota quota,
                      uint64_t *out_amount);

#endif
