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
/* Waits for room after a CODE_ETIMEDOUT, from the first call (deadline 0) for send_timeout_ms;
 * BUS_OK: try again.  Lock held. */
enum bus_err publish_wait(struct bus *bus, int64_t *deadline_ns);

#endif
