/* SPDX-License-Identifier: MPL-2.0 */
/* controls.h -- numbered control messages that were said and are not accepted yet.
 *
 * Kept encoded and in order, sent again with the same numbers after a reconnect.  A question is
 * kept until its answer came: the broker may have accepted it on a connection that took the answer
 * down with it, and answers it again.  COMPLETE, LEAVE
 * and acknowledgements in front of them wait here until the uploads before them are done, for
 * chunks have no number that `after` could name. */
#ifndef SESSION_CONTROLS_H
#define SESSION_CONTROLS_H

#include "libbus/base/memory.h"
#include "libbus/base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct control {
    struct control *next;
    uint64_t number;
    uint64_t after_upload; /* waits until uploads up to this ordinal are done; 0: for none */
    bool is_question;      /* it stays until it is answered, too */
    bool is_answered;
    uint64_t end; /* bytes of all that were said up to here, with this one */
    size_t bytes;
    size_t room;
    uint8_t data[];
};

struct controls {
    struct memory *memory;
    struct control *first;
    struct control *newest;
    struct control *unsent;  /* the first that was not sent on this connection; NULL: none */
    struct control *waiting; /* the first that is not accepted; NULL: none */
    uint64_t end;            /* as in the newest that was ever said, */
    uint64_t accepted_end;   /* ... and in the last that is accepted */
    uint64_t last;           /* number given last */
    uint64_t sent_ever;
    uint64_t accepted;
};

void controls_init(struct controls *controls, struct memory *memory);
void controls_fini(struct controls *controls);

/* Room for one message; NULL: no memory. */
struct control *control_new(struct memory *memory, size_t room);
void control_free(struct memory *memory, struct control **control);

/* Takes over a control whose data and bytes are set; it was encoded with number controls->last + 1,
 * which it gets. */
void controls_append(struct controls *controls, struct control **control, uint64_t after_upload);
/* The next to send, or NULL; then controls_sent().  Only so many are under way, and of so many
 * bytes, that the broker can keep them all while they wait for their data (LIMIT_PARKED_OPS,
 * LIMIT_PARKED_BYTES). */
struct control *controls_next(const struct controls *controls);
void controls_sent(struct controls *controls);
/* None waits for uploads any more. */
void controls_hurry(struct controls *controls);
/* false: that was never sent. */
bool controls_accept(struct controls *controls, uint64_t number);
/* The answer to this number came. */
void controls_answer(struct controls *controls, uint64_t number);
void controls_rewind(struct controls *controls);

#endif
