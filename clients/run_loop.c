/* SPDX-License-Identifier: MPL-2.0 */
/* run_loop.c -- the edge of run_core.c: events from signals, pipes and the bus, and its effects. */
#include "clients/run.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
    /* The most that is read of each stream after the program ended: more than a pipe holds.  The
     * bound is needed because another process may go on writing. */
    LAST_BYTES_MAX = 2 * 1024 * 1024,
    SIGNALS_MAX = 16,
    /* How often the copies are looked at: a death by a signal is dated to the last look.  Launchers
     * of training jobs look as often. */
    LOOK_MS = 100,
    POLLS_MAX = 2 + RUN_STREAMS + RUN_COPIES_MAX * (RUN_STREAMS + 3),
};

static void happen(struct run *run, enum run_event_kind kind, unsigned copy, int number);

/* ---- effects ----------------------------------------------------------------------------------*/

static void set_environment(const struct run *run, const struct run_member *member,
                            struct run_environment *out)
{
    unsigned local_rank = (unsigned)(member - run->members);
    out->count = 0;
    run_environment_set(out, "ERRBUS_SERVER", "%s", run->server);
    run_environment_set(out, "ERRBUS_JOB", "%s", run->job);
    run_environment_set(out, "ERRBUS_PARTY", "%s", member->party);
    run_environment_set(out, "ERRBUS_TOKEN", "%s", bus_token(member->bus));
    run_environment_set(out, "ERRBUS_RANK", "%u", member->rank);
    run_environment_set(out, "ERRBUS_LOCAL_RANK", "%u", local_rank);
    run_environment_set(out, "ERRBUS_WORLD_SIZE", "%u", run->world_size);
    run_environment_set(out, "ERRBUS_ATTEMPT", "%u", run->attempt);
    run_environment_set(out, "ERRBUS_ERROR_FILE", "%s", member->child.error_file);
    run_environment_set(out, "RANK", "%u", member->rank);
    run_environment_set(out, "LOCAL_RANK", "%u", local_rank);
    run_environment_set(out, "WORLD_SIZE", "%u", run->world_size);
    run_environment_set(out, "LOCAL_WORLD_SIZE", "%u", (unsigned)run->copies);
    run_environment_set(out, "MASTER_ADDR", "%s", run->master_address);
    run_environment_set(out, "MASTER_PORT", "%d", (int)run->master_port);
    run_environment_set(out, "TORCHELASTIC_RESTART_COUNT", "%u", run->attempt - 1);
    run_environment_set(out, "TORCHELASTIC_ERROR_FILE", "%s", member->child.error_file);
}

static void start(struct run *run, unsigned copy)
{
    struct run_environment environment;
    struct run_member *member = &run->members[copy];
    int reason = member->place_errno;
    if (reason == 0) {
        set_environment(run, member, &environment);
        reason =
            run_child_start(&member->child, &(struct run_start){.command = run->command,
                                                                .environment = &environment,
                                                                .has_input = run->copies == 1 &&
                                                                             !isatty(STDIN_FILENO),
                                                                .mask = &run->mask_before});
    }
    if (reason == 0) {
        run_warden_add(&run->warden, member->child.pid);
    } else {
        happen(run, RUN_EVENT_NOT_STARTED, copy, reason);
    }
}

static void reap(struct run *run, struct run_member *member)
{
    static const char *const names[RUN_STREAMS] = {"stdout", "stderr"};
    for (int i = 0; i < RUN_STREAMS; i++) {
        const struct run_stream *stream = &member->child.streams[i];
        if (stream->unkept > 0) {
            run_note(run, "%s: %s/%s is not complete: %" PRIu64 " bytes are missing: %s",
                     member->party, member->child.folder, names[i], stream->unkept,
                     strerror(stream->file_errno));
        }
        if (stream->output.unshown_bytes > 0) {
            run_note(run, "%s: %" PRIu64 " bytes of its %s are not shown here, but in %s/%s",
                     member->party, stream->output.unshown_bytes, names[i], member->child.folder,
                     names[i]);
        }
    }
    if (member->child.pid != 0) {
        run_warden_remove(&run->warden, member->child.pid);
    }
    run_child_reap(&member->child);
}

static void carry_out(struct run *run, const struct run_effect *effect)
{
    struct run_member *member = &run->members[effect->copy];
    switch (effect->kind) {
    case RUN_EFFECT_START: start(run, effect->copy); break;
    case RUN_EFFECT_SIGNAL: run_child_signal(&member->child, effect->number); break;
    case RUN_EFFECT_MOVES: run_party_moves(run, member, effect->number != 0); break;
    case RUN_EFFECT_REPORT: run_party_report(run, member, effect->how, effect->number); break;
    case RUN_EFFECT_REAP: reap(run, member); break;
    case RUN_EFFECT_EXIT:
        run->is_over = true;
        run->code = effect->number;
        break;
    }
}

static void happen(struct run *run, enum run_event_kind kind, unsigned copy, int number)
{
    struct run_effects effects;
    struct run_event event = {.kind = kind, .now_ms = cli_now_ms(), .copy = copy, .number = number};
    run_core_step(&run->core, &event, &effects);
    for (size_t i = 0; i < effects.count; i++) {
        carry_out(run, &effects.items[i]);
    }
}

/* ---- events -----------------------------------------------------------------------------------*/

/* Reads up to limit bytes of one stream of a copy. */
static void take_in(struct run *run, unsigned copy, enum run_stream_number number, size_t limit)
{
    struct run_child *child = &run->members[copy].child;
    bool was_quiet = run_child_is_quiet(child);
    if (run_child_read(child, number, limit)) {
        child->last_stream = number;
        happen(run, RUN_EVENT_MOVED, copy, 0);
    }
    if (!was_quiet && run_child_is_quiet(child)) {
        happen(run, RUN_EVENT_QUIET, copy, 0);
    }
}

static void look_at_output(struct run *run, unsigned copy)
{
    for (enum run_stream_number i = RUN_STDOUT; i < RUN_STREAMS; i++) {
        take_in(run, copy, i, run_output_room(&run->members[copy].child.streams[i].output));
    }
}

/* Looks whether a copy has ended.  Its standard error is read before the end is reported, because
 * its last lines belong to the error. */
static void look_for_end(struct run *run, unsigned copy)
{
    int wait_status = 0;
    struct run_child *child = &run->members[copy].child;
    if (run_child_has_ended(child, &wait_status)) {
        take_in(run, copy, RUN_STDERR, run_child_unread(child, RUN_STDERR));
        happen(run, RUN_EVENT_ENDED, copy, wait_status);
        run->looked_ms = 0; /* which of the others outlived it is worth a look */
        take_in(run, copy, RUN_STDOUT, LAST_BYTES_MAX);
        take_in(run, copy, RUN_STDERR, LAST_BYTES_MAX);
    }
}

/* Looks whether a copy has started.  It may have ended by then, so this looks for its end too. */
static void look_at_start(struct run *run, unsigned copy)
{
    int reason = 0;
    struct run_child *child = &run->members[copy].child;
    pid_t group = child->pid;
    if (!run_child_hear(child, &reason)) {
        return;
    }
    if (reason != 0) {
        run_warden_remove(&run->warden, group);
    }
    happen(run, reason == 0 ? RUN_EVENT_STARTED : RUN_EVENT_NOT_STARTED, copy, reason);
    look_for_end(run, copy);
}

/* Reads which members have a place.  In a job that nobody created, programs need no place. */
static void look_at_places(struct run *run)
{
    struct run_word word;
    if (read(run->place_pipe[0], &word, sizeof word) != (ssize_t)sizeof word) {
        return;
    }
    unsigned index = word.index;
    struct run_member *member = &run->members[index];
    if (!member->has_waiter || member->wait != word.wait) {
        return; /* this wait was ended, and its thread joined */
    }
    if (word.is_waiting) {
        run_note(run, "%s: %s", member->party, member->news);
        return;
    }
    (void)pthread_join(member->waiter, NULL); /* this was its last word */
    member->has_waiter = false;
    if (member->place_err == BUS_OK) {
        member->rank = member->place.rank;
        run->world_size = member->place.world_size;
        run->attempt = member->place.attempt;
        happen(run, RUN_EVENT_BEGIN, index, 0);
    } else if (member->place_err == BUS_ENOMEM) { /* else the party's end tells it */
        member->place_errno = ENOMEM;
        happen(run, RUN_EVENT_BEGIN, index, 0);
    }
}

static void look_at_signals(struct run *run)
{
    struct signalfd_siginfo signals[SIGNALS_MAX];
    ssize_t bytes = read(run->signal_fd, signals, sizeof signals);
    size_t count = bytes > 0 ? (size_t)bytes / sizeof signals[0] : 0;
    for (size_t i = 0; i < count; i++) {
        int number = (int)signals[i].ssi_signo;
        if (number == SIGCHLD) {
            for (unsigned copy = 0; copy < run->copies; copy++) {
                look_for_end(run, copy);
            }
        } else if (number == SIGUSR1 || number == SIGUSR2) {
            happen(run, RUN_EVENT_PASS, 0, number);
        } else {
            happen(run, RUN_EVENT_SIGNAL, 0, number);
        }
    }
}

/* ---- waiting ----------------------------------------------------------------------------------*/

/* The kinds of descriptors that the loop polls. */
enum waited { OUR_SIGNALS, OUR_PLACES, OUR_SCREEN, ITS_START, ITS_OUTPUT, ITS_PARTY, ITS_NOTICE };

struct waiting {
    struct pollfd polls[POLLS_MAX];
    struct {
        unsigned copy;
        enum waited what;
    } owners[POLLS_MAX];
    nfds_t count;
};

static void want(struct waiting *waiting, int fd, short events, unsigned copy, enum waited what)
{
    waiting->polls[waiting->count] = (struct pollfd){.fd = fd, .events = events};
    waiting->owners[waiting->count].copy = copy;
    waiting->owners[waiting->count].what = what;
    waiting->count++;
}

static void want_all(struct run *run, struct waiting *waiting)
{
    waiting->count = 0;
    want(waiting, run->signal_fd, POLLIN, 0, OUR_SIGNALS);
    if (run->is_created) {
        want(waiting, run->place_pipe[0], POLLIN, 0, OUR_PLACES);
    }
    for (unsigned i = 0; i < run->copies; i++) {
        struct run_member *member = &run->members[i];
        if (!member->is_reported) {
            want(waiting, bus_failure_fd(member->bus), POLLIN, i, ITS_PARTY);
            want(waiting, bus_notice_fd(member->bus), POLLIN, i, ITS_NOTICE);
        }
        if (member->child.report >= 0) {
            want(waiting, member->child.report, POLLIN, i, ITS_START);
        }
        for (int n = 0; n < RUN_STREAMS; n++) {
            struct run_stream *stream = &member->child.streams[n];
            if (stream->fd >= 0 && run_output_room(&stream->output) > 0) {
                want(waiting, stream->fd, POLLIN, i, ITS_OUTPUT);
            }
        }
    }
    for (enum run_stream_number n = RUN_STDOUT; n < RUN_STREAMS; n++) {
        if (run_screen_is_due(run, n)) {
            want(waiting, run->screens[n].fd, POLLOUT, (unsigned)n, OUR_SCREEN);
        }
    }
}

static bool has_programs(const struct run *run)
{
    for (unsigned i = 0; i < run->copies; i++) {
        const struct run_child *child = &run->members[i].child;
        if (child->pid != 0 && !child->has_ended) {
            return true;
        }
    }
    return false;
}

static int timeout_of(const struct run *run)
{
    int64_t due_ms = run_core_due_ms(&run->core);
    int64_t look_ms = run->looked_ms + LOOK_MS;
    due_ms = has_programs(run) && look_ms < due_ms ? look_ms : due_ms;
    if (due_ms == RUN_NEVER) {
        return -1;
    }
    int64_t left_ms = due_ms - cli_now_ms();
    return left_ms < 0 ? 0 : left_ms > INT32_MAX ? INT32_MAX : (int)left_ms;
}

static void look(struct run *run, const struct waiting *waiting)
{
    for (nfds_t i = 0; i < waiting->count && !run->is_over; i++) {
        unsigned copy = waiting->owners[i].copy;
        if (waiting->polls[i].revents == 0) {
            continue;
        }
        switch (waiting->owners[i].what) {
        case OUR_SIGNALS: look_at_signals(run); break;
        case OUR_PLACES: look_at_places(run); break;
        case OUR_SCREEN: run_screen_write(run, copy); break;
        case ITS_START: look_at_start(run, copy); break;
        case ITS_OUTPUT: look_at_output(run, copy); break;
        case ITS_NOTICE: run_party_notices(run, &run->members[copy]); break;
        case ITS_PARTY:
            if (!run->members[copy].is_reported) {
                run->members[copy].is_reported = true;
                happen(run, RUN_EVENT_OVER, copy, run_party_over(run, &run->members[copy]));
            }
            break;
        }
    }
}

/* Notes which copies run, so that a death can be dated. */
static void look_who_runs(struct run *run)
{
    int64_t now_ms = cli_now_ms();
    if (now_ms - run->looked_ms < LOOK_MS) {
        return;
    }
    run->looked_ms = now_ms;
    for (unsigned i = 0; i < run->copies; i++) {
        run_child_look(&run->members[i].child);
    }
}

/* Starts one copy.  The loop starts one at a time: a fork takes time, and others may end
 * meanwhile. */
static void begin(struct run *run, unsigned copy)
{
    struct run_member *member = &run->members[copy];
    if (run->is_created && run_job_wait_for_place(run, member)) {
        return;
    }
    member->place_errno = run->is_created ? EAGAIN : 0; /* no thread can wait for it */
    happen(run, RUN_EVENT_BEGIN, copy, 0);
}

void run_loop(struct run *run)
{
    static struct waiting waiting;
    unsigned begun = 0;
    run->is_over = false;
    while (!run->is_over) {
        want_all(run, &waiting);
        if (poll(waiting.polls, waiting.count, begun < run->copies ? 0 : timeout_of(run)) > 0) {
            look(run, &waiting);
        }
        if (run_core_due_ms(&run->core) <= cli_now_ms()) {
            happen(run, RUN_EVENT_TIME, 0, 0);
        }
        look_who_runs(run);
        if (begun < run->copies && !run->is_over) {
            begin(run, begun++);
        }
    }
}
