/* SPDX-License-Identifier: MPL-2.0 */
/* wait_place.h -- what a call of the application is blocked in; a part of session.h. */
#ifndef SESSION_WAIT_PLACE_H
#define SESSION_WAIT_PLACE_H

#include "libbus/base/span.h"

#include <stdbool.h>
#include <stdint.h>

struct buffer;
struct session;

enum session_wait {
    SESSION_WAIT_SLOTS,
    SESSION_WAIT_ROOM,
    SESSION_WAIT_READS,
    SESSION_WAIT_BARRIER,
    SESSION_WAIT_MEMBERS, /* another membership */
    SESSION_WAIT_COUNT,
};

struct session_wait_place {
    struct span topic; /* of an awaited slot */
    uint64_t seq;
    uint32_t sub;       /* a subscription */
    uint32_t own_topic; /* the session's number of a topic that we write */
};

/* How long the wait of a call may be. */
struct session_patience {
    bool is_timed; /* it has an end, whoever answers */
    bool is_slice; /* of a wait that the next call continues */
};

/* A call is blocked from now on, until session_wait_end().  place: in what; NULL: in several
 * things.  patience: the same at the end.  Cheap: no clock, and no message now. */
void session_wait_begin(struct session *session, enum session_wait kind,
                        const struct session_wait_place *place, struct session_patience patience);
void session_wait_end(struct session *session, enum session_wait kind,
                      struct session_patience patience);
/* The same for a call whose timeout passed.  If the next call of the kind begins to wait for the
 * same before the next beat, the wait goes on.  A slice is continued before the second beat: a beat
 * may fall between two slices.  Who does not continue leaves the barrier. */
void session_wait_pause(struct session *session, enum session_wait kind,
                        const struct session_wait_place *place, struct session_patience patience);

/* The broker is told whether something in this process may end the blocked calls, or only an
 * answer.  Once a beat, while calls are blocked for long, the session asks whether the threads of
 * these calls are alone: whether no other thread of the process could call anything. */
bool session_wait_is_asked(const struct session *session);
void session_wait_answer(struct session *session, bool is_alone);
/* The broker ended the blocked call of this kind with *out_error, a reference of the caller's.  The
 * error is there until the next call of the kind begins to wait. */
bool session_wait_over(const struct session *session, enum session_wait kind,
                       struct buffer **out_error);
unsigned session_wait_count(const struct session *session); /* blocked calls, and paused slices */

#endif
