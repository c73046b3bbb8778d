/* SPDX-License-Identifier: MPL-2.0 */
/* membership.h -- opening, joining and closing a membership. */
#ifndef API_MEMBERSHIP_H
#define API_MEMBERSHIP_H

#include "libbus/api/model.h"

/* A membership that is joining; party empty: an observer.  The library thread runs. */
enum bus_err membership_open(const struct endpoints *endpoints, const struct bus_options *options,
                             const char *job, const char *party, struct bus **out_bus,
                             struct bus_error **reterr);
/* The same for an observer that brings and fetches attachments; job empty: of any job. */
enum bus_err membership_open_courier(const struct endpoints *endpoints,
                                     const struct bus_options *options, const char *job,
                                     struct bus **out_bus, struct bus_error **reterr);
/* Waits for WELCOME.  On failure *bus is closed.  Without is_patient it gives up when no endpoint
 * can be connected to (BUS_ELOST). */
enum bus_err membership_join(struct bus **bus, bool is_patient, int64_t deadline_ns,
                             struct bus_error **reterr);
/* Says how each endpoint did last, with this code, and returns it.  Lock held. */
enum bus_err membership_say_unreachable(struct bus *bus, enum bus_err err,
                                        struct bus_error **reterr);
/* How long the broker may be out of reach, in ms.  Lock held. */
int64_t membership_broker_lost_ms(const struct bus *bus);
/* As deadline_ns: the close waits for no answer. */
#define MEMBERSHIP_AT_ONCE INT64_C(0)
/* Flushes, leaves, and ends threads and session; *bus becomes NULL. */
enum bus_err membership_close(struct bus **bus, int64_t deadline_ns);

#endif
