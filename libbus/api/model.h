/* SPDX-License-Identifier: MPL-2.0 */
/* model.h -- what the files of the public API share: the structs behind the handles.
 *
 * One mutex for each bus protects its session and every member below it in struct bus.  No thread
 * holds the mutex while it waits for anything else, or while the application's code runs.  A buffer
 * whose release would call the application (bus_slot_commit_owned()) is put aside while its thread
 * holds a lock, and api_unlock() releases it.
 *
 * One thread of the library (thread.c) owns the link while it is awake.  It carries parts between
 * link and session.  Then api_tell() wakes the threads that the session's news concern.  While that
 * thread sleeps, the link belongs to the holder of the lock.  So a thread of the application sends
 * by itself what it put into the session (link_turn.c).  A thread that waits for data, or for an
 * answer to what it wrote, polls for it by itself (lane_wait.c), which saves a wake-up for each.
 * api_wake() passes everything else to the library's thread, and costs a system call only if that
 * thread sleeps.
 *
 * The failure of the party is noted in one place and once: in api_tell(), under the lock.  The
 * handler's thread (handler.c) does the rest.
 *
 * struct bus is counted: by its handle, its threads, and each slot and subscription.  bus_close()
 * frees the session; what is left of the struct then is a lock, a flag and names.
 *
 * Layers, lowest first.  A file calls only files of lower layers; tests/rules/layers.table checks
 * that, and has the numbers.
 *
 *   primitives     clock, event_fd, fork, owned (the application's buffers), codes
 *   error objects  attachment_list, error, error_fields, error_walk, error_attach
 *   arguments      endpoint, options
 *   the bus        attach_jobs, lock, waiters, error_wire, open_list
 *   news           sub_list, msg, await_table, news (who is woken, and how the party ends)
 *   the threads    handler, attach_bring, link_turn; then thread, courier and membership
 *   the calls      lane_wait, bus, publish, party, sub, slot, await, ...; admin and its calls */
#ifndef API_MODEL_H
#define API_MODEL_H

#include "libbus/base/limits.h"
#include "libbus/base/list.h"
#include "libbus/base/map.h"
#include "libbus/base/memory.h"
#include "libbus/io/link.h"
#include "libbus/session/session.h"
#include "libbus/session/session_observe.h"

#include <bus/bus.h>

#include <limits.h>
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
        50,             /* a farewell is given this long, however short the time for closing */
    API_EXIT_MS = 1000, /* the end of a process waits so long for the broker's answers */
    API_HANDLER_WAIT_MS = 10000, /* bus_close() waits at least this long for a handler that runs */
};

enum endpoint_note {
    ENDPOINT_UNTRIED,
    ENDPOINT_SILENT,     /* tried; nothing was heard */
    ENDPOINT_MUTE,       /* it accepts connections, and says nothing on them */
    ENDPOINT_CLOSED,     /* the connection closed */
    ENDPOINT_REFUSED,    /* the connection could not be made */
    ENDPOINT_UNRESOLVED, /* its host has no address */
    ENDPOINT_FOREIGN,    /* what listens there does not greet as a broker does */
    ENDPOINT_SPOKE,      /* something was heard */
    ENDPOINT_UNFIT,      /* the link cannot use it */
    /* As the faults of these names in link.h. */
    ENDPOINT_KEY_UNKNOWN,
    ENDPOINT_KEY_WANTED,
    ENDPOINT_KEY_NEEDLESS,
    ENDPOINT_KEY_OTHER,
    ENDPOINT_HUNG_UP,
    ENDPOINT_NO_ZEROMQ,
    ENDPOINT_OTHER_MECHANISM,
};
/* Those of the list, and one more that a broker named. */
enum { ENDPOINTS_ROOM = LIMIT_ENDPOINTS + 1 };
struct endpoints {
    char text[ENDPOINTS_ROOM][LIMIT_ENDPOINT_BYTES + 1];
    enum endpoint_note notes[ENDPOINTS_ROOM]; /* what happened last */
    uint32_t told[ENDPOINTS_ROOM];            /* by endpoints_doubt(): a bit for each note */
    unsigned failures[ENDPOINTS_ROOM];        /* connections in a row that could not be made */
    bool is_known[ENDPOINTS_ROOM];            /* more than silence was found there, at any time */
    unsigned listed;                          /* in the list; one more may stand behind them */
    unsigned count;
    unsigned at; /* the one in use */
    /* the data channel: where the user says that it is, "" if nothing is said; and how the last
       connection to it did */
    char data[ENDPOINTS_ROOM][LIMIT_ENDPOINT_BYTES + 1];
    char data_tried[LIMIT_ENDPOINT_BYTES + 1]; /* "": not yet */
    enum endpoint_note data_note;
    uint32_t data_told; /* as told */
    /* the key of each broker, if it has one, and our own, which is read if any has */
    bool has_key[ENDPOINTS_ROOM];
    uint8_t server_keys[ENDPOINTS_ROOM][KEY_BYTES];
    struct key_pair own;
    char key_path[PATH_MAX]; /* of our own; "": none is used */
    unsigned data_at;        /* of which endpoint */
    unsigned data_failures;  /* in a row */
};

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
struct attach_job;
struct error_attachment;
struct carrying;

/* A trace of W3C Trace Context. */
struct trace {
    bool is_set;
    uint8_t id[LIMIT_TRACE_ID_BYTES];
    char text[2 * LIMIT_TRACE_ID_BYTES + 1]; /* in hexadecimal digits */
};

/* The thread of the application that polls a lane, because it waits for what comes there. */
struct poller {
    pthread_cond_t *cond; /* what it waits for otherwise; NULL: none polls */
    int call_fd;          /* calls it; -1: none was needed yet */
    int fd;               /* what it polls; -1: there is no connection */
    bool is_called;
};

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
    int64_t process_began_ns;
    struct trace trace; /* that the work of this party is a part of */
    pid_t opener;       /* thread that gets failure_signal */
    int failure_fd;
    int room_fd;
    int tap_fd;        /* -1: not asked for */
    int notice_fd;     /* the same; lock */
    int answers_fd;    /* the same; lock */
    struct link *link; /* the library thread's; with the lock while that sleeps */
    pthread_t thread;
    pthread_t handler;
    bool has_thread;
    bool has_handler;

    struct list open; /* open_list.c's */

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

    struct poller pollers[LINK_LANE_COUNT];
    unsigned idlers;    /* threads that wait for data, and do not poll */
    int64_t taken_ns;   /* when a receiver last found data without waiting for it */
    bool is_left;       /* data is left to receivers while the library's thread sleeps */
    bool has_reader_fd; /* somebody may wait for data by a descriptor */

    int64_t stamp_ns;    /* now, or when the library thread's turn began */
    unsigned stamp_uses; /* so many more values may bear it */

    bool is_asleep;       /* the library thread waits in the link */
    bool is_done;         /* the library thread ends */
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
    const struct bus *courier_of;   /* of a courier: the bus that it brings them for, or NULL */
    struct carrying *carrying;      /* of a courier: the attachment under way; or NULL */
};

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

/* The code of the end, for what can still be done after bus_stop(). */
static inline enum bus_err api_ended(const struct bus *bus)
{
    return bus->session == NULL ? BUS_ECLOSED : bus->end;
}
/* Whether waits are over: BUS_OK, or BUS_ECLOSED after bus_stop(), or the code of the end.
 * Lock held. */
static inline enum bus_err api_over(const struct bus *bus)
{
    enum bus_err end = api_ended(bus);
    return end == BUS_OK && atomic_load_explicit(&bus->is_stopped, memory_order_acquire)
               ? BUS_ECLOSED
               : end;
}

enum msg_done { MSG_ACKNOWLEDGED, MSG_RETURNED, MSG_SETTLED /* all of it is said already */ };
struct bus_msg {
    struct bus_msg *next;
    struct bus_sub *sub;   /* NULL: from bus_await(); topic lies behind the struct then */
    struct buffer *buffer; /* may be NULL */
    struct span value;
    const char *topic;
    uint64_t seq;
    uint64_t count;       /* of values; of what is missing in a gap; 0 from bus_await() */
    uint64_t offset;      /* of an end: the first incarnation; of a piece, in its value ... */
    uint64_t total_bytes; /* ... of so many bytes; 0: it is no piece */
    int64_t stamp_ns;
    struct frame_origin origin;
    uint32_t number; /* of the topic, for the session */
    uint8_t kind;    /* enum session_item_kind */
    uint8_t delivery;
    uint8_t done; /* enum msg_done */
    bool is_request;
    bool is_acknowledged; /* by bus_msg_ack(): nothing is left to say of it */
    uint64_t lease;       /* of a task, for the session; 0: it is none */
};

/* Who, when and where: known once the bus has seen an error; one block. */
struct error_identity {
    const char *id;
    const char *job;
    const char *party;
    const char *host;
    const char *claimed_by;
    const char *topic; /* NULL: none */
    uint64_t seq;
    uint64_t attempt;
    uint64_t incarnation;
    uint64_t pid;
    int64_t occurred_ns; /* broker's clock; 0 unknown */
    uint64_t uncertainty_ns;
    int64_t wall_ns;
    enum disclosure disclosure;    /* of the bus that gave it; UNSAID: it came from the wire */
    struct error_sealing *sealing; /* NULL: nothing is sealed */
    struct trace trace;            /* of the bus that gave it; not set: none, or from the wire */
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
    struct trace trace; /* its own; not set: that of its identity holds */
    int64_t made_ns;    /* monotonic, here */
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

#endif
