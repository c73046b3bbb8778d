/* SPDX-License-Identifier: MPL-2.0 */
/* run.h -- errbus run, as its files share it.
 *
 *   run.c          what is asked for, and the whole of a run
 *   run_loop.c     waits for signals, output and the bus; carries out what run_core.c decides
 *   run_job.c      the job that it takes part in: how many, which ranks, another attempt
 *   run_party.c    what a copy is on the bus: how it joins, what is said of its end
 *   run_child.c    what it is in this machine: process, output, files
 *   run_screen.c   its output, beside that of others, on our own
 *   run_warden.c   no program outlives us
 *
 * One thread does all of it, and waits for nothing but in poll().  A member that has to wait for
 * its place in the job has a thread that does so, and says through a pipe when it is there. */
#ifndef CLIENTS_RUN_H
#define CLIENTS_RUN_H

#include "clients/cli.h"
#include "clients/run_child.h"
#include "clients/run_core.h"
#include "clients/run_warden.h"

#include <pthread.h>
#include <stdatomic.h>

#define RUN_UNNEEDED 256 /* beside exit codes: the job completed before this party was in it */

/* A wait for a place is over, or still goes on: whose, and which of them. */
struct run_word {
    unsigned index;
    unsigned wait;
    bool is_waiting;
};

#define RUN_NEWS_BYTES_MAX 1024 /* of what a party waits for, in words */

/* One of the program's copies. */
struct run_member {
    struct bus *bus;
    struct run *run;
    char news[RUN_NEWS_BYTES_MAX]; /* by the thread that waits: what it waits for */
    char party[BUS_NAME_BYTES_MAX + 1];
    char prefix[BUS_NAME_BYTES_MAX + 4];
    unsigned rank;
    bool is_reported; /* what its party was to say is said */
    bool has_told;    /* its error file is reported, though it was stopped */
    bool is_unneeded; /* ... by the broker: the job completed without it */
    bool has_waiter;  /* a thread waits for its place, or has said that it came */
    pthread_t waiter;
    unsigned wait;               /* counts these */
    int place_fd;                /* where that says a struct run_word */
    unsigned index;              /* this one */
    enum bus_err place_err;      /* what it says */
    struct bus_membership place; /* with BUS_OK */
    int place_errno;             /* why the program cannot have one, and is not started; 0 */
    struct run_child child;
};

/* One of our own streams. */
struct run_screen {
    int fd;
    bool is_closed; /* nobody reads it any more */
    unsigned turn;  /* whose output comes next */
    size_t at;      /* of shown: so much is written */
    size_t count;
    char shown[RUN_SHOWN_BYTES_MAX];
};

struct run {
    struct cli cli;
    const char *server; /* as the programs are told */
    const char *job;
    char *const *command;
    int64_t copies;
    int64_t min; /* this and the next three: of the job; -1: as it is */
    int64_t max;
    int64_t max_restarts;
    int64_t join_window_ms;
    int64_t join_timeout_ms;
    int64_t grace_ms;
    int64_t stall_ms;
    const char *disclosure; /* of errors; NULL: as the environment says */
    const char *log_folder;
    const char *master_address;
    int64_t master_port;
    bool is_plain;
    bool is_own_status; /* a program's exit status is not ours */

    char folder[RUN_PATH_BYTES_MAX]; /* where the output is kept */
    unsigned attempt;                /* from 1 */
    unsigned world_size;
    bool is_created;       /* the job has members, ranks, attempts */
    unsigned restarts_max; /* of the job */
    atomic_bool is_noting; /* one of the threads that wait says what they wait for */
    struct bus_tap *tap;   /* what becomes of the job; NULL: it has no other attempt */
    int place_pipe[2];     /* members whose place is there */
    struct run_core core;
    struct run_member *members; /* copies of them */
    struct run_screen screens[RUN_STREAMS];
    struct run_output notes; /* what we ourselves have to say */
    char notes_waiting[RUN_WAITING_BYTES_MAX];
    struct run_warden warden;
    sigset_t mask_before;
    int signal_fd;
    bool is_over;
    int code;
};

/* ---- run_job.c -------------------------------------------------------------------------------*/

/* Creates the job if that is asked for, and looks at it.  CLI_OK, or the exit code after saying
 * why. */
int run_job_prepare(struct run *run);
void run_job_finish(struct run *run);
/* Has a thread wait for the member's place. */
bool run_job_wait_for_place(struct run *run, struct run_member *member);
/* That thread is over; a wait that still goes on is ended. */
void run_job_end_wait(struct run_member *member);
/* After an attempt of ours: waits for what becomes of the job.  True: another attempt begins; a
 * program that was done is needed in it, too.  False: it is over, and *code is what that is called,
 * where the job says so. */
bool run_job_has_next(struct run *run, int *code);
/* What the end of a job is called as an exit code, by the error that is its root. */
int run_job_code(const struct run *run, const struct bus_error *error);

/* ---- run_party.c ------------------------------------------------------------------------------*/

/* Joins.  CLI_OK, RUN_UNNEEDED, or the exit code after saying why. */
int run_party_open(struct run *run, struct run_member *member);
/* Tells the bus that a copy moves, and will again in time, and what it said last; or that nothing
 * more is promised. */
void run_party_moves(struct run *run, struct run_member *member, bool is_promised);
/* Tells the bus how a copy ended, and the user if that is no good. */
void run_party_report(struct run *run, struct run_member *member, enum run_how how, int number);
/* Tells the user what the bus lets the party know, as that it waits for one that never joined. */
void run_party_notices(struct run *run, struct run_member *member);
/* Its party is over, not by our word: what that is called as an exit code.  The user is told. */
int run_party_over(struct run *run, struct run_member *member);
/* Leaves.  The exit code, which is code unless that is CLI_OK and leaving went wrong. */
int run_party_close(struct run *run, struct run_member *member, int64_t timeout_ms, int code);

/* ---- run_loop.c -------------------------------------------------------------------------------*/

/* From the first start to the last end; run->code is set. */
void run_loop(struct run *run);

/* ---- run_screen.c -----------------------------------------------------------------------------*/

/* A line of ours, for standard error. */
void run_note(struct run *run, const char *format, ...) BUS_PRINTF(2, 3);
void run_note_notice(struct run *run, const struct bus_error *notice);
/* who: what stands before it. */
void run_note_error(struct run *run, const char *who, const struct bus_error *error);
/* The error that the end of a program is, without what that wrote, which is shown as it came. */
void run_note_end(struct run *run, const char *who, const struct bus_error *error);
/* Whether there is something to write. */
bool run_screen_is_due(struct run *run, enum run_stream_number number);
/* It can be written to. */
void run_screen_write(struct run *run, enum run_stream_number number);
/* Writes what is still to be shown, unless nobody reads it. */
void run_screen_finish(struct run *run);

#endif
