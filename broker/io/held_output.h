/* SPDX-License-Identifier: MPL-2.0 */
/* held_output.h -- what is said only once it is kept: outgoing parts that wait for the journal.
 *
 * A part waits for the ticket of the newest step that was decided when it was made
 * (journal_thread.h): what it tells may stand on any step up to that.  Outcomes wait until it is
 * logged, answers, where that is promised, until it is synced.  Each has a queue of its own, in
 * order: an outcome is not held up by the answers before it, which go by another connection and may
 * wait for the disk. */
#ifndef IO_HELD_OUTPUT_H
#define IO_HELD_OUTPUT_H

#include "broker/core/tables/event.h"
#include "libbus/base/buffer.h"
#include "libbus/base/memory.h"
#include "libbus/wire/frame.h"

#include <stdbool.h>
#include <stdint.h>

enum hold_stage { HOLD_OUTCOMES, HOLD_ANSWERS, HOLD_STAGE_COUNT };

struct held {
    uint64_t ticket;
    conn_id conn;
    enum msg_lane lane;
    uint8_t head[DELIVERY_HEADER_BYTES]; /* of data */
    struct buffer *part;
};

struct hold_queue {
    struct held *ring; /* room is 0 or a power of two */
    uint32_t room;
    uint32_t head;
    uint32_t count;
};
struct hold {
    struct memory *memory;
    struct hold_queue queues[HOLD_STAGE_COUNT];
};

void hold_init(struct hold *hold, struct memory *memory);
void hold_fini(struct hold *hold);
/* Takes held->part over; tickets do not descend.  Without memory the process ends, as in effect.h:
 * what was decided must be said. */
void hold_push(struct hold *hold, enum hold_stage stage, const struct held *held);
/* The next whose ticket is reached; its part is the caller's.  false: none. */
bool hold_pop(struct hold *hold, enum hold_stage stage, uint64_t reached, struct held *out_held);
/* Forgets what waits for this connection. */
void hold_drop(struct hold *hold, enum hold_stage stage, conn_id conn);
/* Whether anything waits in this stage: what comes behind it must wait, too. */
bool hold_is_empty(const struct hold *hold, enum hold_stage stage);

#endif
