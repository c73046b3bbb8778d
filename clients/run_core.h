/* SPDX-License-Identifier: MPL-2.0 */
/* run_core.h -- what errbus run decides: pure.
 *
 * Copies of a program are started, told to stop and killed, and the end of each is reported once.
 * Events come in with the time.  Effects go out, and are carried out in their order.  No clock,
 * process, signal or socket is known here.
 *
 * A copy's way, in the table of run_core.c:
 *
 *   WAITING --begins--> STARTING --started--> RUNNING --ended--> SWEEPING --quiet--> DONE
 *                           |                    |  stops
 *                           +------stops----> STOPPING --grace is over--> KILLED
 *
 * SWEEPING: the program has ended.  The rest of its process group is asked to end, and may hold the
 * output for the grace at most.
 *
 * The first cause for which a copy is stopped stands.  A copy that takes too long is reported at
 * once, because others wait for it.  Any other copy is reported when it has ended.
 *
 * The broker decides whether a copy stalls, because it also hears what the program itself tells it.
 * When a copy writes something, the broker is told that it moves: at once, and then at most ten
 * times in the time that the copy may stand still. */
#ifndef CLIENTS_RUN_CORE_H
#define CLIENTS_RUN_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RUN_COPIES_MAX 128
#define RUN_NEVER INT64_MAX /* as a time */
/* A process that SIGKILL did not end by then hangs in the kernel.  Nobody waits for it any
 * longer. */
#define RUN_KILL_WAIT_MS INT64_C(5000)

enum run_event_kind {
    RUN_EVENT_BEGIN,       /* copy: may start now */
    RUN_EVENT_STARTED,     /* copy */
    RUN_EVENT_NOT_STARTED, /* copy; number: errno */
    RUN_EVENT_MOVED,       /* copy: it said something */
    RUN_EVENT_ENDED,       /* copy, once it is known to have started; number: wait status */
    RUN_EVENT_QUIET,       /* copy: nobody can write to its output any more */
    RUN_EVENT_OVER,        /* copy: its party is over; number: exit code for that */
    RUN_EVENT_SIGNAL,      /* we are asked to end; number: of the signal */
    RUN_EVENT_PASS,        /* a signal for the program alone; number */
    RUN_EVENT_TIME,        /* time has passed */
};

struct run_event {
    enum run_event_kind kind;
    int64_t now_ms; /* monotonic, never less than before */
    unsigned copy;  /* of events that name one */
    int number;
};

enum run_effect_kind {
    RUN_EFFECT_START,  /* copy; answered by STARTED or NOT_STARTED, at once or later */
    RUN_EFFECT_SIGNAL, /* copy; number: for its whole process group */
    RUN_EFFECT_MOVES,  /* copy; number: not 0: it moves, and will again in time; 0: no more */
    RUN_EFFECT_REPORT, /* copy; how it ended; number: errno or wait status */
    RUN_EFFECT_REAP,   /* copy: nothing of it is left, or is waited for */
    RUN_EFFECT_EXIT,   /* number: exit code; the last effect */
};

/* How a copy ended.  The bus is told of each in its own way. */
enum run_how {
    RUN_COMPLETED,   /* well */
    RUN_FAILED,      /* number: wait status */
    RUN_NOT_STARTED, /* number: errno */
    RUN_OUT_OF_TIME, /* took longer than the whole run may */
    RUN_STUCK,       /* SIGKILL did not end it */
    RUN_LEFT,        /* we were asked to end */
    RUN_TERMINATED,  /* its party was over before */
};

struct run_effect {
    enum run_effect_kind kind;
    unsigned copy;
    int number;
    enum run_how how;
};

/* A step has at most five effects a copy, and the exit. */
#define RUN_EFFECTS_MAX ((size_t)RUN_COPIES_MAX * 5 + 1)
struct run_effects {
    struct run_effect items[RUN_EFFECTS_MAX];
    size_t count;
};

enum run_state {
    RUN_WAITING,  /* not told to begin yet */
    RUN_STARTING, /* START was given, and its result is not known yet */
    RUN_RUNNING,
    RUN_STOPPING, /* asked to end */
    RUN_KILLED,   /* forced to */
    RUN_SWEEPING, /* it has ended, and the rest of its group is asked to end */
    RUN_DONE,
    RUN_STATE_COUNT,
};

enum run_cause {
    RUN_CAUSE_NONE,
    RUN_CAUSE_SIGNAL,
    RUN_CAUSE_OVER,
    RUN_CAUSE_TIME,
};

struct run_copy {
    enum run_state state;
    enum run_cause cause; /* why it was stopped; the first stands */
    int code;             /* RUN_CAUSE_OVER: the exit code for that */
    int64_t due_ms;       /* of STOPPING, KILLED, SWEEPING */
    int64_t told_ms;      /* RUNNING: when its last move was reported */
    bool has_moved;       /* since then */
    bool is_quiet;
    bool is_reported;
};

struct run_rules {
    unsigned copies;  /* 1..RUN_COPIES_MAX */
    int64_t grace_ms; /* between the request to end and SIGKILL */
    int64_t stall_ms; /* 0: a program may stand still */
    int64_t until_ms; /* when the whole run has to be over; RUN_NEVER */
};

struct run_core {
    struct run_rules rules;
    struct run_copy copies[RUN_COPIES_MAX];
    int asked;  /* the signal that asked us to end; 0: none */
    int code;   /* the exit code; the first that is not 0 stands */
    int status; /* the status of that program, as a shell has it; 0: code is of no program */
    bool is_over;
};

void run_core_init(struct run_core *core, const struct run_rules *rules);

/* Takes one event.  An event that cannot happen now changes nothing.  Empties effects first. */
void run_core_step(struct run_core *core, const struct run_event *event,
                   struct run_effects *effects);

/* When RUN_EVENT_TIME is wanted at the latest; RUN_NEVER. */
int64_t run_core_due_ms(const struct run_core *core);

#endif
