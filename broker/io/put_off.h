/* SPDX-License-Identifier: MPL-2.0 */
/* put_off.h -- control messages for which the journal has no room: dropped, and said again.
 *
 * The rest of the reserve is for messages that make room.  What else a connection says from its
 * first message without room on is dropped, for its messages have an order.  When there is room
 * again, the connection is cut, and the client says all of it again by another one.  It is cut, and
 * not only ignored, because a client that hears nothing dials beside it for some time: a broker
 * whose places are all taken would not let that in. */
#ifndef IO_PUT_OFF_H
#define IO_PUT_OFF_H

#include "broker/io/peers.h"
#include "broker/io/persistence.h"
#include "libbus/base/span.h"

#include <stdbool.h>

struct put_off {
    bool has_any; /* connections were put off, and not cut yet */
};

/* Whether this control message is dropped.  The first one is told in the log. */
bool put_off_message(struct put_off *put_off, const struct persistence *persistence,
                     struct peer *peer, struct span part);
/* Whether there is room again for connections that were put off. */
bool put_off_is_over(const struct put_off *put_off, const struct persistence *persistence);
/* Cuts them; the caller has emptied the monitors, as for admission_review(). */
void put_off_end(struct put_off *put_off, struct peers *peers);

#endif
