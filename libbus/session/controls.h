/* SPDX-License-Identifier: MPL-2.0 */
/* controls.h -- numbered control messages that the broker has not accepted yet.
 *
 * They are kept encoded and in order, and sent again with the same numbers after a reconnect.  A
 * question stays until its answer came: the connection may break between acceptance and answer, and
 * the broker answers a repeated question again.
 *
 * COMPLETE, LEAVE and the acknowledgements before them wait here for the uploads before them.
 * Chunks have no number, so the field `after` cannot name them. */
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
    bool is_question;      /* it also stays until it is answered */
    bool is_answered;
    uint64_t end; /* bytes of all messages up to this one, with it */
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
    uint64_t end;            /* control.end of the newest one ever, */
    uint64_t accepted_end;   /* ... and of the last accepted one */
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
/* The next message to send, or NULL.  Call controls_sent() when it was sent.  LIMIT_PARKED_OPS and
 * LIMIT_PARKED_BYTES bound the messages under way: the broker must keep them while it waits for the
 * data before them. */
struct control *controls_next(const struct controls *controls);
void controls_sent(struct controls *controls);
/* Makes no message wait for uploads any longer. */
void controls_hurry(struct controls *controls);
/* The broker accepted all messages up to number.  false: number was never sent. */
bool controls_accept(struct controls *controls, uint64_t number);
/* The answer to the question of this number came. */
void controls_answer(struct controls *controls, uint64_t number);
/* A new connection: sends again what is not accepted or not answered. */
void controls_rewind(struct controls *controls);

#endif
