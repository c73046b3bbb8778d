/* SPDX-License-Identifier: MPL-2.0 */
/* held_output.h -- outgoing parts that wait for the journal.
 *
 * A part may tell of any step up to the newest one that was decided when the part was made.  So it
 * waits for the ticket of that step (journal_thread.h), until it is logged or synced
 * (durability.h).  Outcomes have a queue of their own, in order: they go by other connections than
 * answers, and at `disk` wait for less. */
#ifndef IO_HELD_OUTPUT_H
#define IO_HELD_OUTPUT_H

#include "broker/core/tables/event.h"
#include "libbus/base/buffer.h"
#include "libbus/base/memory.h"
#include "libbus/wire/frame.h"

#include <stdbool.h>
#include <stdint.h>

enum held_output_stage { HELD_OUTCOMES, HELD_ANSWERS, HELD_STAGE_COUNT };

struct held {
    uint64_t ticket;
    conn_id conn;
    enum msg_lane lane;
    uint8_t head[DELIVERY_HEADER_BYTES]; /* of data */
    int64_t error_ns;                    /* as in struct core_port_out */
    struct buffer *part;
};

struct held_output_queue {
    struct held *ring; /* room is 0 or a power of two */
    uint32_t room;
    uint32_t head;
    uint32_t count;
};
struct held_output {
    struct memory *memory;
    struct held_output_queue queues[HELD_STAGE_COUNT];
};

void held_output_init(struct held_output *output, struct memory *memory);
void held_output_fini(struct held_output *output);
/* Takes held->part over; tickets do not descend.  Without memory the process ends, as in effect.h:
 * what was decided must be said. */
void held_output_push(struct held_output *output, enum held_output_stage stage,
                      const struct held *held);
/* The next whose ticket is reached; its part is the caller's.  false: none. */
bool held_output_pop(struct held_output *output, enum held_output_stage stage, uint64_t reached,
                     struct held *out_held);
/* Forgets what waits for this connection. */
void held_output_drop(struct held_output *output, enum held_output_stage stage, conn_id conn);
/* Whether anything waits in this stage: what comes behind it must wait, too. */
bool held_output_is_empty(const struct held_output *output, enum held_output_stage stage);

#endif
