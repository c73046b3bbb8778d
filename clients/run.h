/* SPDX-License-Identifier: MPL-2.0 */
/* run.h -- errbus run: what its files share.
 *
 *   run.c          reads the command line, and leads through a run
 *   run_loop.c     waits for signals, output and the bus; carries out what run_core.c decides
 *   run_job.c      the job: how many members, which ranks, another attempt
 *   run_together.c lets all copies join and leave, several at a time
 *   run_party.c    a copy on the bus: joins, and reports its end
 *   run_child.c    a copy on this machine: process, output, files
 *   run_screen.c   shows the output of all copies on our own output
 *   run_warden.c   kills the programs if we end before them
 *
 * While programs run, one thread does everything, and waits only in poll().  A member that must
 * wait for its place in the job has a thread of its own, which reports through a pipe when the
 * place is there.  Joining and leaving have several threads. */
#ifndef CLIENTS_RUN_H
#define CLIENTS_RUN_H

#include "clients/cli.h"
#include "clients/run_child.h"
#include "clients/run_core.h"
#include "clients/run_warden.h"

#include <pthread.h>
#include <stdatomic.h>

#define RUN_UNNEEDED 256 /* not an exit code: the job completed before this party joined */

/* What a waiting thread says: whose wait it is, its number, and whether it still waits. */
struct run_word {
    unsigned index;
    unsigned wait;
    bool is_waiting;
};

#define RUN_NEWS_BYTES_MAX 1024 /* of the text that says what a party waits for */

/* One of the program's copies. */
struct run_member {
    struct bus *bus;
    struct run *run;
    char news[RUN_NEWS_BYTES_MAX]; /* what it waits for; the waiting thread writes it */
    char party[BUS_NAME_BYTES_MAX + 1];
    char prefix[BUS_NAME_BYTES_MAX + 4];
    unsigned rank;
    enum bus_err open_err;        /* of joining */
    struct bus_error *open_error; /* why it could not join */
    enum bus_err close_err;       /* of leaving */
    bool is_reported;             /* its end is reported to the bus */
    bool has_told;                /* it was stopped, but its error file is reported */
    bool is_unneeded;             /* ... by the broker: the job completed without it */
    bool has_waiter;              /* a thread waits for its place, or is not joined yet */
    pthread_t waiter;
    unsigned wait;               /* counts these waits */
    int place_fd;                /* where the thread writes a struct run_word */
    unsigned index;              /* this one */
    enum bus_err place_err;      /* the result of the wait */
    struct bus_membership place; /* with BUS_OK */
    int place_errno;             /* why the program gets no place, and is not started; 0 */
    struct run_child child;
};

/* One of our own streams. */
struct run_screen {
    int fd;
    bool is_closed; /* nobody reads it any more */
    unsigned turn;  /* the copy whose output comes next */
    size_t at;      /* how much of shown is written */
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
    const char *auditor;    /* a public key; NULL: the same */
    const char *run;        /* the name of the job's run; NULL: the same */
    const char *log_folder;
    const char *master_address;
    int64_t master_port;
    bool is_plain;
    bool is_own_status; /* our exit status is not the program's */

    char folder[RUN_PATH_BYTES_MAX]; /* where the output is kept; "": not made yet */
    unsigned attempt;                /* from 1 */
    unsigned world_size;
    bool is_created;       /* the job has members, ranks, attempts */
    unsigned restarts_max; /* of the job */
    atomic_bool is_noting; /* one of the waiting threads says what they wait for */
    struct bus_tap *tap;   /* events of the job; NULL: it has no other attempt */
    int place_pipe[2];     /* carries struct run_word */
    struct run_core core;
    struct run_member *members; /* as many as there are copies */
    struct run_screen screens[RUN_STREAMS];
    struct run_output notes; /* our own messages */
    char notes_waiting[RUN_WAITING_BYTES_MAX];
    struct run_warden warden;
    sigset_t mask_before;
    int signal_fd;
    int64_t looked_ms; /* when the copies were looked at last */
    int64_t leave_until_ms;
    bool is_over;
    bool is_overtaken; /* the next run of the job began, and ended what the copies had joined */
    int code;
};

/* ---- run_job.c -------------------------------------------------------------------------------*/

/* Creates the job if the user asked for that, and reads it.  CLI_OK, or the exit code after saying
 * why. */
int run_job_prepare(struct run *run);
void run_job_finish(struct run *run);
/* Starts a thread that waits for the member's place. */
bool run_job_wait_for_place(struct run *run, struct run_member *member);
/* Ends that wait if it goes on, and joins the thread. */
void run_job_end_wait(struct run_member *member);
/* After our part of an attempt: waits for the end of the attempt.  True: another attempt begins,
 * which also needs programs that were done.  False: the job is over, and *code is its exit code if
 * the job decides that. */
bool run_job_has_next(struct run *run, int *code);
/* The exit code for the end of a job, by the error that is its root. */
int run_job_code(const struct run *run, const struct bus_error *error);

/* ---- run_party.c ------------------------------------------------------------------------------*/

/* Joins; may run in several threads at once. */
enum bus_err run_party_open(struct run_member *member, struct bus_error **reterr);
/* Says why it could not join: open_err and open_error.  RUN_UNNEEDED, or the exit code. */
int run_party_not_open(struct run *run, struct run_member *member);
/* Tells the bus that a copy moves and what it wrote last.  is_promised: it will move again in
 * time. */
void run_party_moves(struct run *run, struct run_member *member, bool is_promised);
/* Tells the bus how a copy ended, and the user if it failed. */
void run_party_report(struct run *run, struct run_member *member, enum run_how how, int number);
/* Tells the user what the bus lets the party know, as that it waits for one that never joined. */
void run_party_notices(struct run *run, struct run_member *member);
/* Tells the user that the party is over, though we did not end it.  Returns the exit code. */
int run_party_over(struct run *run, struct run_member *member);
/* It has left, with close_err.  The exit code, which is code unless that is CLI_OK and leaving went
 * wrong. */
int run_party_closed(struct run *run, struct run_member *member, int code);

/* ---- run_together.c ---------------------------------------------------------------------------*/

/* Lets all copies join.  CLI_OK, RUN_UNNEEDED, or the exit code after saying why. */
int run_join_together(struct run *run);
/* Lets all copies leave that joined.  The exit code, as run_party_closed() says. */
int run_leave_together(struct run *run, int code);

/* ---- run_loop.c -------------------------------------------------------------------------------*/

/* From the first start to the last end; run->code is set. */
void run_loop(struct run *run);

/* ---- run_screen.c -----------------------------------------------------------------------------*/

/* Queues a line of our own for standard error. */
void run_note(struct run *run, const char *format, ...) BUS_PRINTF(2, 3);
void run_note_notice(struct run *run, const struct bus_error *notice);
/* who: what stands before it. */
void run_note_error(struct run *run, const char *who, const struct bus_error *error);
/* Queues the error of a program's end, without the output in it, which was shown already. */
void run_note_end(struct run *run, const char *who, const struct bus_error *error);
/* Whether there is something to write. */
bool run_screen_is_due(struct run *run, enum run_stream_number number);
/* Writes what there is; the stream must be writable. */
void run_screen_write(struct run *run, enum run_stream_number number);
/* Writes all that is left, unless nobody reads it. */
void run_screen_finish(struct run *run);

#endif
