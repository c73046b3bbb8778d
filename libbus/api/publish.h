/* SPDX-License-Identifier: MPL-2.0 */
/* publish.h -- what other files need of publishing. */
#ifndef API_PUBLISH_H
#define API_PUBLISH_H

#include "libbus/api/model.h"

/* The whole topic's number in the session, from the name that a writer gave.  Lock.
 * Errors: BUS_EINVAL, BUS_ENOMEM, BUS_EFULL, BUS_EDENIED. */
enum bus_err publish_topic(struct bus *bus, const char *name, uint32_t *out_topic);
/* "party/name" of a name without '/', or a whole topic of this party.
 * Errors: BUS_EINVAL: it is no topic; BUS_EDENIED: it is one of another party. */
enum bus_err publish_whole_name(const struct bus *bus, const char *name,
                                char out[LIMIT_NAME_BYTES + 1]);
/* Why a call that writes a value of so many bytes returned err.  Lock held. */
enum bus_err publish_say(struct bus *bus, enum bus_err err, const char *topic, size_t value_bytes,
                         struct bus_error **reterr);
/* How long a call that writes has waited. {0}: not yet. */
struct publish_patience {
    int64_t deadline_ns;
    uint64_t progress; /* session_write_progress() when deadline_ns was set */
};
/* Waits for room after a CODE_ETIMEDOUT, for send_timeout_ms.  That time begins anew if the broker
 * made progress meanwhile, for a long link may need longer for one value.  BUS_OK: try again.
 * BUS_ETIMEDOUT: a slice is over, and bus_room_progress() tells the caller of the progress.
 * topic: as session_write_progress() takes it.  Lock held. */
enum bus_err publish_wait(struct bus *bus, uint32_t topic, struct publish_patience *patience);

#endif
