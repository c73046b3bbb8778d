/* SPDX-License-Identifier: MPL-2.0 */
/* app.h -- the application of one party: what it says, what it is given, and whether that is what
 * the bus promises.
 *
 * Each call does what a program would do with its session, keeps book, and tells the world when a
 * promise is broken.  Nothing waits: answers come with app_look(). */
#ifndef SIM_APP_H
#define SIM_APP_H

#include "libbus/session/session.h"
#include "tests/sim/crew.h"
#include "tests/sim/oracle.h"
#include "tests/sim/secret.h"
#include "tests/sim/world.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    APP_TOPICS = 6,
    APP_SLOTS = 128,
    APP_WRITES = 4096,
    APP_SUBS = 6,
    APP_PATTERNS = 3,
    APP_POSITIONS = 64,
    APP_HELD = 4096,
    APP_ENDS = 64,
    APP_SEEN = 16,
    APP_WANTS = 256,
    APP_MARKS = 32,
    APP_RESULTS = 64,
    APP_DURABLES = 4,
    APP_TASKS = 256,
    APP_SAYINGS = 256,
    APP_REQUESTS = 256,
};

struct app_topic {
    uint32_t number; /* the session's */
    uint32_t topic;  /* the oracle's */
    uint64_t next_seq;
};

struct app_slot {
    uint32_t topic; /* index in topics */
    uint64_t seq;
    size_t value_bytes_max;
    int64_t ends_ns; /* when its deadline will have passed; INT64_MAX: none */
};

/* Something said that settles a slot. */
struct app_write {
    uint32_t topic; /* the oracle's */
    uint64_t seq;
    struct outcome outcome;
    int64_t said_ns;
    bool is_refused;
    bool is_accepted;
    bool is_doubtful; /* said twice, or taken back: its fate is known by what is seen alone */
    bool is_plain;    /* bytes that others may have written too */
};

/* Where a subscription is in a topic. */
struct app_position {
    uint32_t topic;
    uint64_t first_seq;
    uint64_t next_seq;
    bool is_started;
    uint64_t floor_seq; /* a durable name was acknowledged up to here in an earlier incarnation */
    bool has_floor;
    uint32_t record;       /* of a closed name's place: that which closed it */
    uint64_t sure_seq;     /* ... and a flush said that it was heard: what is below comes no more */
    uint64_t returned_seq; /* the first that was not done with; UINT64_MAX: none */
};

struct app_held {
    uint32_t number; /* of the topic, the broker's */
    uint32_t topic;  /* the oracle's */
    uint64_t seq;
};

struct app_end {
    uint32_t party; /* host */
    uint32_t incarnation;
};

/* A value that comes in pieces. */
struct app_partial {
    bool is_used;
    uint32_t number; /* of the topic */
    uint64_t seq;
    struct buffer *value; /* what came of it */
};

struct app_sub {
    bool is_used;
    bool is_denied;
    uint32_t number; /* the session's */
    const char *patterns[APP_PATTERNS];
    uint32_t pattern_count;
    bool is_gap;
    int64_t from_seq;
    int64_t opened_ns;
    int durable;    /* index in durables; -1: none */
    int group;      /* the crew's, of a member; -1: it is none */
    bool may_lapse; /* of a member: its leases end with silence */
    int64_t said_ns;
    int64_t joined_ns; /* when it was known to be in force; INT64_MAX: not known */
    int64_t first_ns;  /* when the first item came; INT64_MAX: none did */
    struct app_position positions[APP_POSITIONS];
    uint32_t position_count;
    struct app_held held[APP_HELD];
    uint32_t held_count;
    struct app_end ends[APP_ENDS];
    uint32_t end_count;
    struct app_end
        newest[APP_SEEN]; /* of each party the newest incarnation of which a value came */
    uint32_t newest_count;
    bool is_in_pieces;
    struct app_partial partials[APP_POSITIONS];
};

struct app_want {
    uint64_t number;
    uint32_t topic;
    uint64_t seq;
    bool is_value_wanted;
    int64_t said_ns;
};

/* What a durable name had acknowledged when a flush was asked for. */
struct app_surety {
    uint32_t drops; /* as app_durable.drops then */
    uint32_t topics[APP_POSITIONS];
    uint64_t seqs[APP_POSITIONS]; /* the first that was not */
    uint32_t count;
};

struct app_mark {
    struct session_mark mark;
    struct app_surety sureties[APP_DURABLES];
    uint32_t writes; /* said before it */
    uint64_t sayings;
    int64_t said_ns;
};

struct app_result {
    uint64_t number;
    bool is_complete; /* of COMPLETE; otherwise of RETRACT: */
    uint32_t topic;
    uint64_t seq;
    struct outcome error;
    struct outcome value;
};

/* A durable name outlives its party. */
struct app_durable {
    const char *name;
    const char *pattern;
    uint32_t drops;  /* so often it was dropped, and made anew */
    bool is_made;    /* some incarnation had it in force */
    bool is_lossy;   /* it was unattended for too long, or drops by itself */
    int64_t left_ns; /* since when nobody reads it */
    int64_t sure_ns; /* since when the broker keeps it, as long as its party may read all of it */
    int64_t keep_ms;
    struct app_position positions[APP_POSITIONS]; /* next_seq: the first not acknowledged */
    uint32_t position_count;
};

/* A task that it has, as a member of a group. */
struct app_task {
    uint32_t sub;   /* the session's number */
    uint64_t lease; /* the session's */
    struct crew_lease terms;
    bool is_over; /* as it was told */
};

/* What it said of a task, until that is accepted. */
struct app_saying {
    uint32_t sub;
    struct crew_lease terms;
    bool is_final; /* that it is done, answered or failed */
    bool is_over;  /* it was told that this does not count */
    uint32_t link; /* on which connection */
};

/* A request of its own, which may still be open. */
struct app_request {
    uint32_t topic; /* the oracle's */
    uint64_t seq;
    uint32_t reply_topic;
    uint64_t reply_seq;
    bool is_awaited;
};

/* A party of which it was told that nobody of that name ever joined. */
struct app_told {
    char name[32];
    int64_t at_ns;
};

struct app {
    struct world *world;
    struct oracle *oracle;
    struct crew *crew; /* NULL: nobody has groups */
    uint32_t host;
    uint32_t job;
    const char *job_name;
    const char *party;
    bool is_running;
    uint32_t record; /* the oracle's */
    bool is_leaving; /* it says nothing more */
    bool is_completed;
    struct app_topic topics[APP_TOPICS];
    uint32_t topic_count;
    struct app_slot slots[APP_SLOTS]; /* open */
    uint32_t slot_count;
    struct app_write *writes;
    uint32_t write_count;
    uint32_t accepted_count; /* writes looked at by marks */
    struct app_sub *subs[APP_SUBS];
    struct app_want wants[APP_WANTS];
    uint32_t want_count;
    struct app_mark marks[APP_MARKS];
    uint32_t mark_count;
    struct app_result results[APP_RESULTS];
    uint32_t result_count;
    struct app_durable durables[APP_DURABLES]; /* kept over incarnations */
    uint32_t durable_count;
    struct app_task tasks[APP_TASKS]; /* that it has */
    uint32_t task_count;
    struct app_saying sayings[APP_SAYINGS]; /* the newest */
    uint32_t saying_count;
    uint64_t saying_first; /* so many came before them */
    struct app_request requests[APP_REQUESTS];
    uint32_t request_count;
    struct app_told told[LIMIT_NOTICES]; /* by this incarnation */
    uint32_t told_count;
    int64_t up_ns;             /* since when it is known to be up; INT64_MAX: it is not yet */
    struct buffer *last_error; /* the newest received, encoded */
    bool has_secrets;          /* in its errors */
    struct secret_owner owner; /* ... which are this one's */
    uint64_t taken_count;      /* items received */
    uint32_t subs_opened;      /* every second one takes values in pieces */
    uint64_t refused_count;
    uint64_t brought_count; /* attachments */
};

/* The app of a host made by world_host(); strings are borrowed.  crew may be set afterwards. */
void app_init(struct app *app, struct world *world, struct oracle *oracle, uint32_t host,
              uint32_t job, const struct host_options *options);
void app_fini(struct app *app);

/* A process starts; a process is gone (killed, or its session was over). */
void app_start(struct app *app);
void app_gone(struct app *app);
/* What the oracle knows its topics by: its job, and the attempt that it is part of. */
uint32_t app_space(const struct app *app);
/* Whether it may speak: a session that was up and is not over. */
bool app_is_up(const struct app *app);

/* Looks for answers: when there is news, and now and then, for a flush of nothing makes none. */
void app_look(struct app *app);

/* Whether it was told that nobody of this name ever joined; NULL: it was not. */
const struct app_told *app_told_of(const struct app *app, struct span name);

/* What app_look() does about awaited slots. */
void app_wants_take(struct app *app);

/* ---- writing; name is the whole topic -------------------------------------------------------- */

/* Each gives what the session said; CODE_ETIMEDOUT: not now. */
enum wire_code app_publish(struct app *app, const char *name, const struct span *values,
                           size_t count);
enum wire_code app_reserve(struct app *app, const char *name, int64_t seq, int64_t deadline_ms,
                           size_t value_bytes_max);
struct app_need { /* a slot of any party of its job */
    const char *name;
    uint64_t seq;
};
enum { APP_NEEDS = 4 };
/* The same; the slot needs so many others, APP_NEEDS at most. */
enum wire_code app_reserve_needing(struct app *app, const char *name, int64_t deadline_ms,
                                   const struct app_need *needs, uint32_t count);
/* The open slot of that topic and number, as index in slots; -1: there is none. */
int app_slot_find(const struct app *app, const char *name, uint64_t seq);
enum wire_code app_commit(struct app *app, uint32_t slot, struct span value, bool is_owned);
/* The same for a slot that was settled before: the broker has to refuse one of the two. */
enum wire_code app_commit_again(struct app *app, uint32_t write, struct span value);
/* with_cause: because of the newest error received, if there is one. */
void app_fail(struct app *app, uint32_t slot, const char *type, const char *message,
              bool with_cause);
enum wire_code app_retract(struct app *app, const char *name, uint64_t seq, const char *type);
void app_flush(struct app *app);
enum wire_code app_complete(struct app *app);
void app_leave(struct app *app);
void app_fail_party(struct app *app, const char *type);

/* ---- reading --------------------------------------------------------------------------------- */

struct app_sub_options {
    const char *durable; /* or NULL */
    int64_t from_seq;
    int64_t keep_ms;
    bool is_gap;
};
/* Gives the index in subs; -1: no. */
int app_subscribe(struct app *app, const char *pattern, const struct app_sub_options *options);
void app_sub_add(struct app *app, uint32_t sub, const char *pattern);
void app_unsubscribe(struct app *app, uint32_t sub, bool is_drop);
/* Takes and checks the next item; false: there is none. */
bool app_take(struct app *app, uint32_t sub);
void app_ack(struct app *app, uint32_t sub, uint32_t held);
void app_return(struct app *app, uint32_t sub, uint32_t held);
enum wire_code app_await(struct app *app, const char *name, uint64_t seq, bool is_value_wanted);
void app_unawait(struct app *app, uint32_t want);

/* Closed, or its process is gone. */
void app_sub_free(struct app_sub **sub);

/* ---- groups: app_task.c ---------------------------------------------------------------------- */

/* Gives the index in subs; -1: no. */
int app_join(struct app *app, uint32_t group, uint32_t credit, uint64_t lease_ms);
/* The subscription is about to be closed. */
void app_part(struct app *app, const struct app_sub *sub);
/* A member was given this. */
void app_task_came(struct app *app, const struct app_sub *sub, const struct session_item *item);
/* TASK_OVER came. */
void app_task_over(struct app *app, const struct msg_task_over *over);
/* Settles the reply slot with this value, of 8 bytes at least, and ends the task with that; gives
 * CODE_ETIMEDOUT if there is no room now, and else the task is not there any more. */
enum wire_code app_task_reply(struct app *app, uint32_t task, struct span value);
/* What else becomes of it; retry_after_ms: when it is rejected, -1: never again. */
void app_task_end(struct app *app, uint32_t task, enum session_task_how how,
                  int64_t retry_after_ms);
/* A mark was reached that was set when so many things had been said of tasks. */
void app_sayings_accept(struct app *app, uint64_t sayings);
/* Asks with this value in that topic of its own, and awaits the reply. */
enum wire_code app_request(struct app *app, const char *name, struct span value,
                           int64_t deadline_ms);
/* The first open one of those that somebody may not have ended yet, and so on; NULL: no more. */
const struct app_request *app_request_open(const struct app *app, uint32_t *at);
/* It was told that this slot could not be promised, or that its value does not stand. */
void app_request_refused(struct app *app, uint32_t topic, uint64_t seq);
/* Takes its request back, before or behind the reply. */
enum wire_code app_request_cancel(struct app *app, uint32_t request);

/* Notes where a durable name will go on: at the first item that was not acknowledged. */
void app_durable_leave(struct app *app, const struct app_sub *sub);
bool app_sub_matches(const struct app_sub *sub, struct span topic);
/* Whether all access tables since then let the reader have all that it subscribed to. */
bool app_could_read(const struct app *app, const struct app_sub *sub, int64_t since_ns);
/* The outcome that an item is, and its type if it is an error; text: for people. */
struct outcome app_item_outcome(struct app *app, const struct session_item *item, bool is_whole,
                                char *text, size_t room, struct span *out_type);
/* Values and errors of dead letters, each under its number; false: the topic has none of them. */
bool app_letter_seen(struct app *app, struct span name, uint32_t topic, uint64_t number,
                     struct outcome outcome);
/* One of its own topics, the first time it is named; NULL: it has too many. */
struct app_topic *app_topic_get(struct app *app, const char *name);
/* It said that this value is to settle that slot. */
void app_value_said(struct app *app, uint32_t topic, uint64_t seq, struct span value);
/* An error of its own, with an id; gives its bytes in out, of LIMIT_ERROR_BYTES. */
struct outcome app_error_make(struct app *app, const char *type, const char *message,
                              uint32_t topic, uint64_t seq, bool with_cause, uint8_t *out,
                              size_t *out_bytes);
/* Where the subscription is in the oracle's topic; NULL: nowhere yet. */
const struct app_position *app_position(const struct app_sub *sub, uint32_t topic);

#endif
