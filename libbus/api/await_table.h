/* SPDX-License-Identifier: MPL-2.0 */
/* await_table.h -- waits for slots, and those whose callers stopped waiting. */
#ifndef API_AWAIT_TABLE_H
#define API_AWAIT_TABLE_H

#include "libbus/api/model.h"

struct await {
    struct list link;   /* in a list of bus->awaits, oldest first, while nobody waits for it */
    struct await *next; /* in its bucket, likewise */
    struct await *next_by_want;
    uint64_t want; /* the session's number */
    uint64_t seq;
    bool is_value_wanted;
    bool is_answered; /* item is there, or code is not CODE_OK */
    bool is_spare;    /* the call that left it behind was decided without it */
    bool is_given_up; /* it was answered, and the value is not here any more: to be asked again */
    int64_t answered_ns;
    enum wire_code code;
    struct session_item item;
    char topic[LIMIT_NAME_BYTES + 1];
};

struct await_table *await_table_new(void); /* free() frees it, once all are discarded */

/* Lock held for all calls below. */

/* Whether bus_answers_fd() is to be readable: one that was put by is answered, or none will be. */
bool await_has_answer(const struct bus *bus);
/* Takes the answers to the waits that were put by. */
void await_collect(struct bus *bus);
void await_discard_all(struct bus *bus);
/* The wait for this slot that an earlier call put by; NULL: there is none. */
struct await *await_find(struct bus *bus, const char *topic, uint64_t seq, bool is_value_wanted);
/* Takes the session's answer, if there is one. */
void await_look(struct bus *bus, struct await *await);
/* Keeps it for the next call.  is_spare: the last one was decided without it. */
void await_put_by(struct bus *bus, struct await *await, bool is_spare);
/* Takes the wait out of those that were put by. */
void await_take_out(struct bus *bus, struct await *await);
/* Ends the wait, and frees it. */
void await_drop(struct bus *bus, struct await *await);
/* Drops the oldest wait that was put by and is not answered; false: there is none. */
bool await_drop_oldest(struct bus *bus);
/* Whether one more answer may be put by; answers that are not promised any more go for it. */
bool await_has_room(struct bus *bus);
/* Gives up values beyond inbox_bytes_max that are not promised any more.  now_ns: as api_now_ns().
 */
void await_relieve(struct bus *bus, int64_t now_ns);

#endif
