/* SPDX-License-Identifier: MPL-2.0 */
/* batch_encoder.h -- frames for one subscription as one part of a message, packed together or by
 * reference.
 *
 * A frame is encoded once and sent to all readers.  Frames that lie in a payload are passed on as
 * they are; a payload that is wanted whole is passed on itself.  Effects that only change counts of
 * references may stand between the effects of one batch. */
#ifndef IO_BATCH_ENCODER_H
#define IO_BATCH_ENCODER_H

#include "broker/core/tables/effect.h"
#include "broker/io/payload.h"
#include "libbus/base/buffer.h"

#include <stdint.h>

/* The batch that begins with the SEND_RANGE or SEND_FRAME at effects->items[*at].  *at is moved
 * behind its last effect.  The caller gets a reference of its own.  Without memory the process
 * ends, as in effect.h.  NULL: a payload cannot be read back. */
struct buffer *batch_encode(const struct effects *effects, struct payload_table *payloads,
                            uint32_t *at);

#endif
