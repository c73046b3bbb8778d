/* SPDX-License-Identifier: MPL-2.0 */
/* cast.h -- the processes of one case, each on its host, and what is learnt from what they say. */
#ifndef TESTS_CUT_CAST_H
#define TESTS_CUT_CAST_H

#include "tests/cut/hosts.h"
#include "tests/cut/plan.h"
#include "tests/lib/process.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CAST_PARTIES_MAX (WIRE_PORTS_MAX - 1)
#define CAST_TOPICS_MAX 8
#define CAST_NAME_BYTES 32

struct actor {
    char name[CAST_NAME_BYTES];
    size_t host;
    struct process process;
    bool is_over;
    int64_t error_ms; /* when it said that the last party was lost to it; 0: never */
};

struct followed {
    char topic[64];
    uint64_t next;
};

struct cast {
    const struct plan *plan;
    const struct hosts *hosts;
    char endpoint[256];
    struct actor broker;
    struct actor tap;    /* of the job, beside the broker */
    struct actor reader; /* of what the last party writes, there too */
    struct actor parties[CAST_PARTIES_MAX];
    size_t party_count;
    const struct actor *last; /* of parties: whose link is cut */

    bool has_matched;      /* the pattern was in the last party's log */
    int64_t lost_ms;       /* when the broker said that it was lost; 0: never */
    int64_t suspect_ms;    /* ... that it was in doubt, since the cut */
    unsigned strays;       /* losses and failures of others */
    unsigned incarnations; /* of the last party */
    int64_t end_ms;        /* when the reader came to its end */
    bool is_end_error;     /* ... which was a loss */
    unsigned after_end;    /* frames behind it */
    uint64_t values;       /* the reader was given */
    uint64_t lost, twice;  /* of the values */
    struct followed followed[CAST_TOPICS_MAX];
};

/* Host 0 is the broker's, the parties have the others, one each.  False: somebody did not start. */
bool cast_start(struct cast *cast, const struct hosts *hosts, const struct plan *plan);

/* How many hosts that takes. */
size_t cast_hosts(const struct plan *plan);

/* Of a federated job, so that it is not over before the link is mended. */
int cast_rounds(const struct plan *plan);

/* Takes in what was said for at most so long, or until something was. */
void cast_listen(struct cast *cast, int64_t within_ms);

bool cast_is_over(const struct cast *cast); /* all parties have ended, and the reader knows */

/* All that everybody said. */
void cast_print(const struct cast *cast);

void cast_fini(struct cast *cast);

#endif
