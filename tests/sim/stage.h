/* SPDX-License-Identifier: MPL-2.0 */
/* stage.h -- a world with an oracle, and applications at its hosts: what scenarios and swarms
 * share.  Every event of the control topic is heard, and every step is followed by a look at what
 * must be bounded. */
#ifndef SIM_STAGE_H
#define SIM_STAGE_H

#include "tests/sim/app.h"
#include "tests/sim/oracle.h"
#include "tests/sim/world.h"

#include <stdbool.h>
#include <stdint.h>

enum { STAGE_JOBS = 2 };
enum letters_how { LETTERS_LIST, LETTERS_SHOW, LETTERS_REPLAY, LETTERS_DROP }; /* DEAD.how */
#define LETTERS_ALL UINT64_MAX

struct stage {
    struct world *world;
    struct oracle *oracle;
    struct crew *crew;
    struct app apps[WORLD_HOSTS];
    uint32_t app_count;
    uint32_t job_count;
    const char *const *jobs;    /* their names */
    uint64_t job_bytes_max;     /* of values */
    uint64_t payload_bytes_max; /* the port must not keep more */
    uint64_t steps;
    uint64_t run_count;        /* begun by parties that joined */
    uint64_t tables_bytes_max; /* the broker, but for payloads, events and refusals */
    bool is_telling_events;
    bool has_secrets; /* in errors, see secret.h: all that is said is looked through */
    /* For who drives it; arg is theirs. */
    void *arg;
    void (*on_act)(void *arg, uint32_t what, uint32_t who, uint64_t value);
    void (*on_news)(void *arg, uint32_t who);
};

/* jobs: their names, for taps; hooks in options are the stage's. */
void stage_begin(struct stage *stage, const struct world_options *options, const char *const *jobs,
                 uint32_t job_count);
/* All processes and the broker end, and nothing may leak: see world_violation(). */
void stage_end(struct stage *stage);
void stage_free(struct stage *stage);
/* A host and its app; gives the index of both. */
uint32_t stage_add(struct stage *stage, uint32_t job, const struct host_options *options);
/* An operator asks about dead letters of that group of the crew. */
void stage_ask_letters(struct stage *stage, uint32_t group, enum letters_how how, uint64_t number);
/* Its process goes, in whatever state it is; see world_kill(). */
void stage_kill(struct stage *stage, uint32_t who, bool is_flushed, int64_t notice_ns);

#endif
