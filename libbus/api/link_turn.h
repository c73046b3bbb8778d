/* SPDX-License-Identifier: MPL-2.0 */
/* link_turn.h -- one turn over the link, and what others do while the library's thread sleeps. */
#ifndef API_LINK_TURN_H
#define API_LINK_TURN_H

#include "libbus/api/model.h"

enum {
    CONTROL_PER_TURN = 64, /* parts received without the lock, then taken in with it */
    DATA_PER_TURN = 4,     /* parts, of up to LIMIT_PART_BYTES, between two looks at control */
};

/* What a turn of the thread works with. */
struct turn {
    /* received, outside the lock */
    struct buffer *control[CONTROL_PER_TURN];
    struct buffer *heads[DATA_PER_TURN];
    struct buffer *parts[DATA_PER_TURN];
    unsigned control_count;
    unsigned data_count;
    bool is_control_broken; /* a message had not one part */
    bool is_data_broken;
    struct buffer *refusal; /* of the data connection; or NULL */
    bool is_link_closed;    /* the session is told when the messages before it are read */
    /* where data was dialled beside control; "": nowhere, or the session has it */
    char early_data[LIMIT_ENDPOINT_BYTES + 1];
    /* to be sent */
    bool wants_room[LINK_LANE_COUNT];
    bool is_unread[LINK_LANE_COUNT]; /* messages may be there that the descriptor does not show */
    int64_t sleep_end_ns;            /* when the library's thread wakes by itself */
    uint8_t message[LIMIT_CONTROL_BYTES];
};

struct turn *thread_turn_new(void); /* free() frees it */

/* Without the lock: receives a bounded number of parts. */
void turn_receive_control(struct link *link, struct turn *turn);
void turn_receive_data(struct link *link, struct turn *turn);

/* All below with the lock. */

/* Gives the received parts to the session; whether there were any. */
bool turn_take_in(struct bus *bus, struct turn *turn, int64_t now_ns);
/* Carries out the session's actions on the link; whether there were any. */
bool turn_act(struct bus *bus, int64_t now_ns);
/* Sends what the session has; whether anything was sent. */
bool turn_send(struct bus *bus, struct turn *turn, int64_t now_ns);
/* Sleeps until there is something to do, without the lock. */
void turn_sleep(struct bus *bus, struct turn *turn);

/* Sends what was put into the session: in this thread if the library's thread sleeps, else by that
 * one. */
void thread_say(struct bus *bus);
void thread_unlock_say(struct bus *bus);
/* While the library's thread sleeps: takes in what came on a lane, and sends what follows from it.
 */
void thread_take(struct bus *bus, enum link_lane lane);
/* The same of data, if the library's thread sleeps and data came; whether it was so. */
bool thread_look_for_data(struct bus *bus);

#endif
