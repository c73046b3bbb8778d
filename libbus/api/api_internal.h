/* SPDX-License-Identifier: MPL-2.0 */
/* api_internal.h -- what the files of the public API share: one membership behind its handle.
 *
 * Design notes.
 *
 * One mutex for each bus protects its session and whatever below is not said to be fixed or atomic.
 * It is never held while waiting for anything but itself, nor while the application's code runs:
 * buffers whose release would call the application (bus_slot_commit_owned) are put aside while this
 * thread holds a lock, and released by api_unlock().
 *
 * One thread of the library (thread.c) has the link while it is up.  It carries parts between link
 * and session and then, in api_tell(), wakes those whom the session's news concern.  While it
 * sleeps, the link is with the lock: a thread of the application that put something into the
 * session says it itself (thread_say()), and one that waits for data looks out for it itself
 * (lookout.c), for each thread that a value need not pass through spares it a wake-up.  What else
 * there is to be done is the library's thread's: api_wake() costs a system call only if that
 * sleeps.
 *
 * The failure of the party is taken note of in one place, api_tell(), under the lock and once; the
 * handler's thread (handler.c) does the rest.
 *
 * struct bus is counted: by its handle, its threads, and each slot and subscription.  The session
 * goes with bus_close(); what is left of the struct is a lock, a flag and names. */
#ifndef API_INTERNAL_H
#define API_INTERNAL_H

#include "libbus/base/limits.h"
#include "libbus/base/list.h"
#include "libbus/base/map.h"
#include "libbus/base/memory.h"
#include "libbus/io/link.h"
#include "libbus/session/session.h"
#include "libbus/session/session_observe.h"

#include <bus/bus.h>

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

enum {
    API_TOPIC_CACHE = 256, /* topics that publishing finds without asking the session */
    API_COPY_BYTES = LIMIT_CHUNK_BYTES, /* larger values are copied before the lock is taken */
    API_STAMP_USES = 256,               /* values published in a row that may bear the same time */
    API_LEAVE_MS = 5,                   /* data is left to receivers for so long at a time */
    API_TOKEN_BYTES = 16,               /* hexadecimal digits */
    API_CLOSE_LINGER_MS =
        50, /* a farewell is given this long, however short the time for closing */
    API_HANDLER_WAIT_MS = 10000, /* bus_close() waits at least this long for a handler that runs */
};

/* ---- endpoint.c: a list of endpoints --------------------------------------------------------- */

enum endpoint_note {
    ENDPOINT_UNTRIED,
    ENDPOINT_SILENT, /* tried; nothing was heard */
    ENDPOINT_CLOSED, /* the connection closed, or could not be made */
    ENDPOINT_SPOKE,  /* something was heard */
    ENDPOINT_UNFIT,  /* the link cannot use it */
};
struct endpoints {
    char text[LIMIT_ENDPOINTS][LIMIT_ENDPOINT_BYTES + 1];
    enum endpoint_note notes[LIMIT_ENDPOINTS]; /* what happened last */
    unsigned count;
    unsigned at; /* the one in use */
};
/* list: NULL: $ERRBUS_SERVER, else the default.  Errors: BUS_EINVAL, with a sentence. */
enum bus_err endpoints_read(struct endpoints *endpoints, const char *list,
                            struct bus_error **reterr);
const char *endpoints_next(struct endpoints *endpoints);
void endpoints_describe(const struct endpoints *endpoints, char *text, size_t room);

/* ---- options.c ------------------------------------------------------------------------------- */

/* Defaults, then what the caller's struct has; NULL: defaults.  false: bytes behind what is
 * known. */
bool options_take(void *known, size_t known_bytes, const void *given, size_t given_bytes);
/* Defaults into the caller's struct, as far as it goes, zero behind, and its size at its front. */
void options_give(void *options, size_t bytes, const void *defaults, size_t default_bytes);
/* Timeouts are 0 and up, or BUS_FOREVER. */
static inline bool options_time_is_valid(int64_t timeout_ms)
{
    return timeout_ms >= BUS_FOREVER;
}
/* The options in force, checked; job and party are written to the two texts. */
enum bus_err options_of_bus(const struct bus_options *given, struct bus_options *out_options,
                            char job[LIMIT_NAME_BYTES + 1], char party[LIMIT_NAME_BYTES + 1],
                            struct bus_error **reterr);
/* The token in force for a party of this job: of options, or of the environment; 0: none. */
enum bus_err options_token(const struct bus_options *options, uint64_t *out_token,
                           struct bus_error **reterr);
enum bus_err options_job(const char *given, char job[LIMIT_NAME_BYTES + 1],
                         struct bus_error **reterr);
enum bus_err options_periods(const struct bus_options *options, struct bus_error **reterr);

/* ---- core.c: the membership ------------------------------------------------------------------ */

struct topic_cache_entry {
    char name[LIMIT_NAME_BYTES + 1]; /* as the application gave it */
    uint32_t topic;                  /* the session's number */
    bool is_used;
};

/* Room to encode one error, set aside because failing a slot must not fail. */
struct error_encoder {
    struct error_record records[LIMIT_ERROR_GIVEN];
    uint8_t bytes[LIMIT_ERROR_BYTES];
    char id[LIMIT_ERROR_ID_BYTES];
};

struct bus_sub;
struct await_table;
struct turn;

struct bus {
    /* fixed when it is open */
    struct bus_options options;
    char job[LIMIT_NAME_BYTES + 1];
    char party[LIMIT_NAME_BYTES + 1]; /* empty: an observer */
    char replies[LIMIT_NAME_BYTES + 16];
    char token[API_TOKEN_BYTES + 1]; /* "" until it is welcome */
    uint64_t guard;                  /* the token of the guard that we speak for; 0: none */
    bool is_courier;                 /* an observer that brings and fetches attachments */
    unsigned fork_generation;
    pid_t opener; /* thread that gets failure_signal */
    int failure_fd;
    int room_fd;
    int tap_fd;        /* -1: not asked for */
    struct link *link; /* the library thread's; with the lock while that sleeps */
    pthread_t thread;
    pthread_t handler;
    bool has_thread;
    bool has_handler;

    /* atomic */
    atomic_uint refs;
    atomic_bool is_stopped;
    atomic_bool is_data_due; /* values wait for the link: what is attached stands behind them */
    atomic_bool is_over;     /* of a courier: it can bring nothing any more */

    pthread_mutex_t lock; /* protects all below */
    pthread_cond_t news;  /* something in general changed */
    pthread_cond_t handler_news;
    unsigned waiters;        /* for news */
    struct memory memory;    /* of the session */
    struct session *session; /* NULL: closed */
    struct endpoints endpoints;
    struct error_encoder *encoder;
    struct turn *turn; /* the library thread's */
    struct topic_cache_entry *topics;
    struct topic_cache_entry *last_topic;

    pthread_cond_t
        *lookout;     /* what the thread waits for that looks out for data; NULL: none does */
    int lookout_fd;   /* calls it; -1: none was needed yet */
    int data_fd;      /* what it polls */
    unsigned idlers;  /* threads that wait for data, and do not look out */
    int64_t taken_ns; /* when a receiver last found data without waiting for it */
    bool is_left;     /* data is left to receivers while the library's thread sleeps */
    bool has_sub_fd;  /* somebody may wait for data by a descriptor */

    int64_t stamp_ns;    /* now, or when the library thread's turn began */
    unsigned stamp_uses; /* so many more values may bear it */

    bool is_asleep; /* the library thread waits in the link */
    bool is_done;   /* the library thread ends */
    bool is_lookout_called;
    bool is_disconnected; /* the session said that everything was sent, or the thread ended */
    bool is_stop_told;    /* waiters know of is_stopped */
    bool is_handed_over;  /* *out_bus is written */
    bool is_closed;       /* no failure can come any more */
    bool is_room_wanted;  /* BUS_EFULL was said since room_fd was last made readable */
    bool is_handler_running;
    bool is_handler_done;
    bool is_handing_over; /* what is attached is on its way to the courier */

    enum bus_err end;          /* BUS_OK, or the code of the party's end */
    struct bus_error *failure; /* why, unless the end is our own leave */
    struct bus_error *unfit;   /* an endpoint turned out to be none */

    struct list subs;             /* struct bus_sub.link */
    struct id_map subs_by_number; /* session's number -> index into sub_slots */
    struct bus_sub **sub_slots;
    uint32_t sub_room;
    struct await_table *awaits; /* whose callers stopped waiting, see await.c */
    uint64_t *forgotten;        /* numbers whose result nobody waits for any more */
    uint32_t forgotten_count;
    uint32_t forgotten_room;
    uint64_t refusals_told;         /* by bus_flush() */
    struct attach_job *attach_jobs; /* errors whose attachments are to be brought; a courier: by it,
                                       the first under way */
    struct bus *courier;            /* that brings them, or NULL: none was needed yet */
    int64_t courier_ns;             /* not before, the next one is opened */
    const struct bus *employer;     /* of a courier: the bus that it brings them for, or NULL */
    struct carrying *carrying;      /* of a courier: the attachment under way; or NULL */
};

/* Whether this is a child of the process that made it: nothing may be touched then. */
extern atomic_uint core_fork_generation;
unsigned core_watch_forks(void); /* the generation now */
static inline bool api_is_foreign(const struct bus *bus)
{
    return bus->fork_generation !=
           atomic_load_explicit(&core_fork_generation, memory_order_relaxed);
}

/* Copies a text to *at, with a NUL, and moves on behind it; for blocks that hold several. */
static inline const char *api_place(char **at, struct span text)
{
    char *placed = *at;
    if (text.bytes > 0)
        memcpy(placed, text.data, text.bytes);
    placed[text.bytes] = '\0';
    *at = placed + text.bytes + 1;
    return placed;
}

void api_ref(struct bus *bus);
void api_unref(struct bus *bus);

/* What a thread of the application has to remember between lock and unlock. */
struct owned;
struct api_thread {
    unsigned locks_held;     /* of buses; a handler may use another one */
    bool has_waited;         /* with the lock that it holds now: the bus is counted meanwhile */
    struct owned *put_aside; /* the application's buffers, to be released without a lock */
};
#define API_OWN_THREAD _Thread_local __attribute__((tls_model("initial-exec"))) /* few bytes */
extern API_OWN_THREAD struct api_thread api_thread;

static inline void api_lock(struct bus *bus)
{
    pthread_mutex_lock(&bus->lock);
    api_thread.locks_held++;
}

void api_after_unlock(struct bus *bus, bool has_waited);
static inline void api_unlock(struct bus *bus)
{
    bool has_waited = api_thread.has_waited;
    api_thread.has_waited = false;
    pthread_mutex_unlock(&bus->lock);
    api_thread.locks_held--;
    if (has_waited || api_thread.put_aside != NULL)
        api_after_unlock(bus, has_waited);
}
/* Something was put into the session: wakes the library thread if it sleeps.  With the lock, for
 * the link must not go meanwhile; it is once in a sleep. */
void api_wake(struct bus *bus);
void api_unlock_wake(struct bus *bus);
/* Waits for cond, whose waiters are counted in waiters, until deadline_ns (INT64_MAX: for ever).
 * false: it has passed.  Buffers put aside are released first, without the lock. */
bool api_wait(struct bus *bus, pthread_cond_t *cond, unsigned *waiters, int64_t deadline_ns);
/* The beginning of such a wait: the bus is counted until the lock is given up. */
void api_wait_begin(struct bus *bus);
bool api_cond_init(pthread_cond_t *cond);
int64_t api_now_ns(void);
uint64_t api_random(void); /* 0: the system gives none */
int64_t api_wall_ns(void);
void api_see_time(struct bus *bus, int64_t now_ns);
/* About now, for the stamp of a value: a clock costs as much as the rest of a small one.  It was
 * read for API_STAMP_USES values, and in this turn or this sleep of the library thread.  Lock. */
static inline int64_t api_stamp_ns(struct bus *bus)
{
    if (bus->stamp_uses == 0)
        api_see_time(bus, api_now_ns());
    bus->stamp_uses--;
    return bus->stamp_ns;
}
int64_t api_deadline_ns(int64_t timeout_ms);
int64_t api_left_ms(int64_t deadline_ns);
/* The code of the end, for what can still be done after bus_stop(). */
static inline enum bus_err api_ended(const struct bus *bus)
{
    return bus->session == NULL ? BUS_ECLOSED : bus->end;
}
/* Whether waits are over: BUS_OK, or BUS_ECLOSED after bus_stop(), or the code of the end.
 * Lock. */
static inline enum bus_err api_over(const struct bus *bus)
{
    enum bus_err end = api_ended(bus);
    return end == BUS_OK && atomic_load_explicit(&bus->is_stopped, memory_order_acquire)
               ? BUS_ECLOSED
               : end;
}
/* The error that belongs to a code of the end, to reterr if that is not NULL; returns err. */
enum bus_err api_say_over(const struct bus *bus, enum bus_err err, struct bus_error **reterr);
/* Wakes whom the session's news concern; notes the end of the party.  Lock. */
void api_tell(struct bus *bus);
void api_tell_all(struct bus *bus);
/* Nobody waits for this result any more.  Lock. */
void api_forget_result(struct bus *bus, uint64_t number);
void api_signal_fd(int fd);
void api_clear_fd(int fd);
int api_event_fd(void);

/* A buffer around the application's bytes; its release calls free_fn, never with a lock held. */
struct buffer *owned_new(void *value, size_t value_bytes, void (*free_fn)(void *, void *),
                         void *arg);
/* Gives it up without calling free_fn. */
void owned_discard(struct buffer **buffer);

/* A membership that is joining; party empty: an observer.  The library thread runs. */
enum bus_err core_open(const struct endpoints *endpoints, const struct bus_options *options,
                       const char *job, const char *party, struct bus **out_bus,
                       struct bus_error **reterr);
/* The same for an observer that brings and fetches attachments. */
enum bus_err core_open_courier(const struct endpoints *endpoints, const struct bus_options *options,
                               struct bus **out_bus, struct bus_error **reterr);
/* Waits until it is welcome; if it is not in time it is closed. */
enum bus_err core_join(struct bus **bus, int64_t deadline_ns, struct bus_error **reterr);
/* What each endpoint said last, as a BUS_ETIMEDOUT.  Lock. */
enum bus_err core_say_unreachable(struct bus *bus, struct bus_error **reterr);
/* Flush, leave, threads, session; *bus is gone. */
enum bus_err core_close(struct bus **bus, int64_t timeout_ms);

/* ---- thread.c, handler.c --------------------------------------------------------------------- */

/* A thread of the library: named, all signals blocked. */
bool thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg);
struct turn *thread_turn_new(void); /* what its turns work with; free() frees it */
/* What was put into the session is said: here if the library's thread sleeps, or by it.  Lock. */
void thread_say(struct bus *bus);
void thread_unlock_say(struct bus *bus);
/* Takes in what came over the data channel, and says what follows from it; the library's thread
 * sleeps.  Lock. */
void thread_take_data(struct bus *bus);
/* The same if something came and the library's thread sleeps; whether it was so.  Lock. */
bool thread_look_for_data(struct bus *bus);
void *thread_main(void *bus);
void *handler_main(void *bus);
/* Waits for a handler that runs or is to run; false: it still runs, and is left to itself. */
bool handler_finish(struct bus *bus, int64_t timeout_ms);

/* ---- lookout.c: waiting for data ------------------------------------------------------------- */

/* As api_wait(), for what comes over the data channel: the first who waits looks out for it. */
bool lookout_wait(struct bus *bus, pthread_cond_t *cond, unsigned *waiters, int64_t deadline_ns);
/* A receiver found data without waiting for it: it is as quick as its writers, or slower.  Lock. */
void lookout_found(struct bus *bus);
/* Whether data may be left to receivers for API_LEAVE_MS: one of them looks for itself, and nobody
 * else waits for it.  Lock. */
bool lookout_may_leave(const struct bus *bus);
/* Wakes who waits for cond, in api_wait() or lookout_wait().  Lock. */
void lookout_broadcast(struct bus *bus, pthread_cond_t *cond);
/* The data channel has another connection, or none: data_fd is set anew.  Lock. */
void lookout_reconnected(struct bus *bus);

/* ---- party.c --------------------------------------------------------------------------------- */

/* Waits for the broker's answer to a numbered request.  Lock. */
enum bus_err party_wait_result(struct bus *bus, uint64_t number, int64_t deadline_ns);

/* ---- attach.c: attachments of errors --------------------------------------------------------- */

struct error_attachment;
struct attach_job;
void attachments_free(struct error_attachment *attachments);
/* What the record of an error says of its attachments; false: no memory. */
bool attachments_read(struct bus_error *error, struct span list);
/* What is attached to this error is to be brought.  Lock. */
void attach_note(struct bus *bus, const struct bus_error *error);
/* The library thread's part: a party's hands them over to its courier, which it opens when there is
 * something to be brought; a courier's reads the next piece.  Lock, which is given up meanwhile.
 * Whether anything moved. */
bool attach_turn(struct bus *bus, int64_t now_ns);
/* So long the library thread may sleep, at most left_ms.  Lock. */
int64_t attach_sleep_ms(const struct bus *bus, int64_t left_ms);
/* Waits until all that was told is brought, or ends where it can not.  Errors: BUS_ETIMEDOUT; what
 * keeps a courier out. */
enum bus_err attach_flush(struct bus *bus, int64_t deadline_ns);
/* Without threads: the courier goes.  What was not brought by now is cut. */
void attach_close(struct bus *bus);
void attach_fini(struct bus *bus);

/* ---- publish.c ------------------------------------------------------------------------------- */

/* The whole topic's number in the session, from the name that a writer gave.  Lock.
 * Errors: BUS_EINVAL, BUS_ENOMEM, BUS_EFULL, BUS_EDENIED. */
enum bus_err publish_topic(struct bus *bus, const char *name, uint32_t *out_topic);
/* "party/name"; false: too long. */
bool publish_whole_name(const struct bus *bus, const char *name, char out[LIMIT_NAME_BYTES + 1]);
/* Waits for room after a CODE_ETIMEDOUT, from the first call (deadline 0) for send_timeout_ms;
 * BUS_OK: try again.  Lock. */
enum bus_err publish_wait(struct bus *bus, int64_t *deadline_ns);

/* ---- sub.c, msg.c ---------------------------------------------------------------------------- */

enum msg_done { MSG_ACKNOWLEDGED, MSG_RETURNED, MSG_SETTLED /* its task, already */ };
struct bus_msg {
    struct bus_msg *next;
    struct bus_sub *sub;   /* NULL: from bus_await(); topic lies behind the struct then */
    struct buffer *buffer; /* may be NULL */
    struct span value;
    const char *topic;
    uint64_t seq;
    uint64_t count;       /* of values; of what is missing in a gap; 0 from bus_await() */
    uint64_t offset;      /* of a piece, in its value ... */
    uint64_t total_bytes; /* ... of so many bytes; 0: it is no piece */
    int64_t stamp_ns;
    uint32_t number; /* of the topic, for the session */
    uint8_t kind;    /* enum session_item_kind */
    uint8_t delivery;
    uint8_t done; /* enum msg_done */
    bool is_request;
    uint64_t lease; /* of a task, for the session; 0: it is none */
};
/* From a waited-for slot.  Takes the item's buffer over; NULL: no memory. */
struct bus_msg *msg_new(const char *topic, struct session_item *item);
/* What became of its task is said. */
void msg_settled(struct bus_msg **msg);
struct bus *sub_bus(const struct bus_sub *sub);
/* Done with: to the subscription, which acknowledges.  Any thread. */
void sub_give_back(struct bus_msg *msg);
/* Acknowledges what was given back since.  Lock. */
void sub_collect_all(struct bus *bus);
/* The session has something for these subscriptions.  Lock. */
void sub_tell(struct bus *bus);
void sub_tell_all(struct bus *bus);
/* The bus closes: what comes back from now on is only freed.  Lock. */
void sub_detach_all(struct bus *bus);

/* ---- await.c --------------------------------------------------------------------------------- */

struct await_table *await_table_new(void); /* free() frees it, once all are discarded */
void await_collect(struct bus *bus);       /* answers to those put by.  Lock. */
void await_discard_all(struct bus *bus);

/* ---- error.c, error_wire.c ------------------------------------------------------------------- */

/* Who, when and where: known once the bus has seen an error; one block. */
struct error_identity {
    const char *id;
    const char *job;
    const char *party;
    const char *host;
    const char *topic; /* NULL: none */
    uint64_t seq;
    uint64_t attempt;
    uint64_t incarnation;
    uint64_t pid;
    int64_t occurred_ns; /* broker's clock; 0 unknown */
    uint64_t uncertainty_ns;
    int64_t wall_ns;
    enum disclosure disclosure; /* of the bus that gave it; UNSAID: it came from the wire */
};
struct attached_list { /* as error_record.attachments */
    size_t bytes;
    uint8_t data[ERROR_ATTACHED_BYTES_MAX];
};
struct bus_error {
    atomic_uint refs;
    atomic_bool is_used; /* as a cause, or by the bus: immutable */
    bool is_static;
    bool is_cut; /* the message, or what came from elsewhere */
    bool is_stack_cut;
    _Atomic(struct error_identity *) identity;
    uint64_t kind;
    char *type; /* this and the texts below: "" or from the heap */
    char *message;
    char *stacktrace;
    char *blames[LIMIT_ERROR_BLAMES];
    uint32_t blame_count;
    int64_t code;
    uint64_t recoverable;
    int64_t retry_after_ms;
    uint64_t origin;
    int64_t exit_code;
    uint64_t signal;
    uint64_t left_out;
    uint8_t trace_id[16];
    char trace_text[33]; /* in hexadecimal digits */
    bool has_trace_id;
    int64_t made_ns; /* monotonic, here */
    int64_t made_wall_ns;
    uint64_t made_uncertainty_ns; /* of both */
    struct bus_error **causes;
    uint32_t cause_count;
    uint32_t cause_room;
    const struct bus_error *root; /* itself or one below */
    struct bus_error *next_dead;  /* while it is being freed */
    struct error_attachment *attachments;
    struct attached_list *attached; /* of them, or NULL: there are none */
    bool is_noted;                  /* a bus brings them, or has */
};

/* Errors that cost no memory. */
extern struct bus_error error_no_memory;
extern struct bus_error error_timed_out;
extern struct bus_error error_closed;
extern struct bus_error error_forked;

/* Writes what happened to reterr, if that is not NULL, and returns err.  What never left the
 * process is of kind local. */
enum bus_err error_say(struct bus_error **reterr, enum bus_err err, const char *type,
                       const char *format, ...) BUS_PRINTF(4, 5);
enum bus_err error_say_static(struct bus_error **reterr, enum bus_err err, struct bus_error *error);
/* BUS_OK: it may be changed. */
enum bus_err error_check_fresh(const struct bus_error *error);
/* Never NULL: empty as long as the bus has not seen it. */
const struct error_identity *error_identity_of(const struct bus_error *error);
void error_keep_trace_id(struct bus_error *error, struct span trace_id); /* empty: none */
/* An empty error of this kind; NULL: no memory. */
struct bus_error *error_make(uint64_t kind, struct span type, struct span message);
bool error_add_cause(struct bus_error *error, const struct bus_error *cause);
/* There is room for it; false: no memory. */
bool error_add_blame(struct bus_error *error, struct span party);
/* From the wire; NULL or the no-memory error if that fails; never NULL: bytes that are no error
 * give one of type errbus.protocol. */
struct bus_error *error_from_wire(struct span bytes);
/* The identity that this bus gives errors it sees for the first time, causes included.  Lock. */
void error_stamp(struct bus *bus, const struct bus_error *error, const char *topic, uint64_t seq);
/* Stamps and encodes into the bus's encoder; error NULL: of this type.  Lock. */
struct span error_to_wire(struct bus *bus, const struct bus_error *error, const char *type,
                          const char *topic, uint64_t seq);
/* Text cut in its middle, and saying so, to at most room - 1 bytes; invalid UTF-8 replaced. */
char *error_text(struct span text, size_t bytes_max, bool *out_is_cut);

/* The errors below and with error, nearest first, each once; at most ERROR_WALK_MAX. */
enum { ERROR_WALK_MAX = 1024 };
struct error_walk {
    const struct bus_error *items[ERROR_WALK_MAX];
    uint32_t count;
};
void error_walk(struct error_walk *walk, const struct bus_error *error, uint32_t causes_max);
/* Cause index of at most causes_max, among which one leads to the root. */
const struct bus_error *error_cause_within(const struct bus_error *error, uint32_t index,
                                           uint32_t causes_max);

#endif
