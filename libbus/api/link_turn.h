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
    bool is_control_broken; /* something came that was not one part */
    bool is_data_broken;
    bool is_link_closed; /* the session is told once what came before is read */
    /* where data was dialled beside control; "": nowhere, or the session has it */
    char early_data[LIMIT_ENDPOINT_BYTES + 1];
    /* to be sent */
    bool wants_room[LINK_LANE_COUNT];
    bool is_unread[LINK_LANE_COUNT]; /* what came there may have lost its sign to a call */
    int64_t sleep_end_ns;            /* when the library's thread is up again by itself */
    uint8_t message[LIMIT_CONTROL_BYTES];
};

struct turn *thread_turn_new(void); /* free() frees it */

/* Without the lock: receives a bounded number of parts. */
void turn_receive_control(struct link *link, struct turn *turn);
void turn_receive_data(struct link *link, struct turn *turn);

/* All below with the lock. */

/* Gives what was received to the session; whether there was anything. */
bool turn_take_in(struct bus *bus, struct turn *turn, int64_t now_ns);
/* Carries out what the session wants of the link; whether there was anything. */
bool turn_act(struct bus *bus, int64_t now_ns);
/* Sends what the session has; whether anything was sent. */
bool turn_send(struct bus *bus, struct turn *turn, int64_t now_ns);
/* Sleeps until there is something to do; the lock is given up meanwhile. */
void turn_sleep(struct bus *bus, struct turn *turn);

/* Sends what was put into the session: here if the library's thread sleeps, or by it. */
void thread_say(struct bus *bus);
void thread_unlock_say(struct bus *bus);
/* While the library's thread sleeps: takes in what came over the data channel, and sends what
 * follows from it. */
void thread_take_data(struct bus *bus);
/* The same if the library's thread sleeps and something came; whether it was so. */
bool thread_look_for_data(struct bus *bus);

#endif
