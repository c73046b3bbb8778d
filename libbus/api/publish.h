/* SPDX-License-Identifier: MPL-2.0 */
/* publish.h -- what other files need of publishing. */
#ifndef API_PUBLISH_H
#define API_PUBLISH_H

#include "libbus/api/model.h"

/* The whole topic's number in the session, from the name that a writer gave.  Lock.
 * Errors: BUS_EINVAL, BUS_ENOMEM, BUS_EFULL, BUS_EDENIED. */
enum bus_err publish_topic(struct bus *bus, const char *name, uint32_t *out_topic);
/* "party/name"; false: too long. */
bool publish_whole_name(const struct bus *bus, const char *name, char out[LIMIT_NAME_BYTES + 1]);
/* Waits for room after a CODE_ETIMEDOUT, from the first call (deadline 0) for send_timeout_ms;
 * BUS_OK: try again.  Lock. */
enum bus_err publish_wait(struct bus *bus, int64_t *deadline_ns);

#endif
