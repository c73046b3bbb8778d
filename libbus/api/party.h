/* SPDX-License-Identifier: MPL-2.0 */
/* party.h -- what other files need of the party. */
#ifndef API_PARTY_H
#define API_PARTY_H

#include "libbus/api/model.h"

/* Waits for the broker's answer to a numbered request.  Lock held. */
/* Waits until the broker has answered all up to the mark.  Lock held. */
enum bus_err party_wait_answered(struct bus *bus, struct session_mark mark, int64_t deadline_ns);
enum bus_err party_wait_result(struct bus *bus, uint64_t number, int64_t deadline_ns);

#endif
