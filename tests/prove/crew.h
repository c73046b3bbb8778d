/* SPDX-License-Identifier: MPL-2.0 */
/* crew.h -- the processes of a run: a broker with a journal, parties that are harmed (writers and
 * readers that keep diaries, tests/lib/party/torturer.c; workers of a group, worker.c), two pulses
 * and one who asks the workers, that are not (pulse.c, asker.c), the fedavg example, a created job
 * of three programs that has two attempts, and a tap; where that is allowed, each on a host of its
 * own whose cable can be cut (tests/cut/hosts.h).
 *
 * A run is a sequence of watches.  Each is a job of its own: at last everybody comes to an end in
 * good order, and the diaries are held against each other (tests/lib/diaries.h). */
#ifndef TESTS_PROVE_CREW_H
#define TESTS_PROVE_CREW_H

#include "tests/cut/hosts.h"
#include "tests/lib/diaries.h"
#include "tests/lib/folder.h"
#include "tests/lib/process.h"
#include "tests/lib/meter.h"
#include "tests/prove/volume.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum {
    CREW_WRITERS = 3,
    CREW_READERS = 2,
    CREW_WORKERS = 2,
    CREW_VICTIMS = CREW_WRITERS + CREW_READERS + CREW_WORKERS,
    CREW_PULSES = 2,
    CREW_SILOS = 2,
    CREW_MEMBERS = 3,
    CREW_HOSTS = 1 + CREW_VICTIMS + CREW_PULSES + 1,
    CREW_TOLD = CREW_PULSES + CREW_READERS, /* who is told of an end: pulses, then readers ... */
    CREW_WAITERS = CREW_PULSES + 1,         /* who waits and is not harmed: pulses, and who asks */
    CREW_WORDS = 512,
    CREW_PATH = FOLDER_PATH_BYTES_MAX + 32,
};

/* As torturer.c has them. */
#define CREW_LOST_AFTER_MS INT64_C(2500)
#define CREW_GRACE_MS INT64_C(2000)

enum victim_role { VICTIM_WRITES, VICTIM_READS, VICTIM_WORKS };

struct victim {
    char name[8];
    size_t host;
    struct process process;
    unsigned starts;
    enum victim_role role;
    bool is_running;
    bool has_moved;                /* its host has its second address */
    bool is_done;                  /* came to its end, as it was told */
    bool is_held;                  /* stays as it is when it has ended, until crew_start_victim() */
    int64_t lost_ms;               /* when the tap last told that it was lost; 0: never */
    int64_t told_ms[CREW_TOLD];    /* when each was last told of its end ... */
    int64_t error_ms[CREW_PULSES]; /* ... or of an error in place of what it owed; 0: never */
};

struct pulse_process {
    char name[8];
    size_t host;
    struct process process;
    bool is_ready;
};

/* How tasks ended, each in one way; and what was done with them. */
struct crew_tasks {
    uint64_t answered, failed, done, dead;
    uint64_t again;       /* were given again, for their worker did not live to let them go */
    uint64_t needs;       /* values that needed a reply, and ended as it did */
    uint64_t attachments; /* fetched whole */
};

struct crew {
    bool has_links;
    struct hosts hosts;
    struct folder folder; /* journal, sockets */
    struct volume volume; /* ... the journal, if the disk shall be full now and then */
    int64_t full_ms;      /* when the tap last told that it was; 0: never */
    struct folder diaries;
    char control[CREW_PATH], data[CREW_PATH], journal[CREW_PATH];
    char job[32];
    unsigned watch;
    bool has_broker;
    bool is_ending;
    bool is_work_done; /* all tasks of this watch have ended */
    bool
        is_tampered; /* a value is struck out of a reader's diary: to see whether that is noticed */
    struct process broker;
    struct process tap;
    struct process learners[1 + CREW_SILOS]; /* the fedavg example, in a job of its own */
    struct process members;                  /* of a created job: one fails its first attempt */
    struct victim victims[CREW_VICTIMS];
    struct pulse_process pulses[CREW_PULSES];
    struct pulse_process asker;
    int64_t
        slowest_ms[CREW_WAITERS]; /* what each waited for, the longest since this was set to 0 */
    struct pulse_process residents[CREW_PULSES]; /* pulses of a job that goes on over all watches */
    struct meter *meter;
    FILE *results;
    struct diaries_sums sums; /* of all watches, as the next */
    struct crew_tasks tasks;
    unsigned incarnations_over; /* ended because the bus said so */
    char words[CREW_WORDS];     /* what is wrong; "": nothing yet */
};

/* with_links: hosts and cables, if the system allows them; why_not then says why it does not. */
bool crew_open(struct crew *crew, bool with_links, char why_not[HOSTS_PROBLEM_BYTES_MAX]);
/* Before the broker starts: its journal is to be on a volume that can be filled. */
bool crew_mount(struct crew *crew, char why_not[VOLUME_PROBLEM_BYTES]);
void crew_close(struct crew *crew);

bool crew_start_broker(struct crew *crew);
/* One that is the same but for its journal's files, which are small: a full disk is met where a
 * file begins (broker/design/journal.md). */
bool crew_start_small_broker(struct crew *crew);
void crew_kill_broker(struct crew *crew);
void crew_start_victim(struct crew *crew, struct victim *victim);
void crew_kill_victim(struct victim *victim);
uint64_t crew_task_count(const struct crew *crew);

/* Two clients that live as long as the run, so that what they need can be seen to stay.  Where they
 * were not started, their end is none.  False: see words. */
bool crew_start_residents(struct crew *crew);
void crew_end_residents(struct crew *crew);

/* Everybody of a new job is there and at work; false: see words. */
bool crew_begin_watch(struct crew *crew);
/* All come to an end, and what they wrote down fits; false: see words. */
bool crew_end_watch(struct crew *crew);

/* Takes in what was said for so long; who was declared over gets another incarnation. */
void crew_listen(struct crew *crew, int64_t ms);
bool crew_is_well(const struct crew *crew); /* no words, and nobody stopped us (process_stop()) */
void crew_blame(struct crew *crew, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
