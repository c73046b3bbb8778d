/* SPDX-License-Identifier: MPL-2.0 */
/* error_wire.h -- error objects to bytes and back. */
#ifndef API_ERROR_WIRE_H
#define API_ERROR_WIRE_H

#include "libbus/api/model.h"

/* From the wire; NULL or the no-memory error if that fails; never NULL: bytes that are no error
 * give one of type errbus.protocol. */
struct bus_error *error_from_wire(struct span bytes);
/* The same for one of the slots that were refused with this error together: it is of this slot,
 * whatever it says.  topic SPAN_NONE: as error_from_wire(). */
struct bus_error *error_from_wire_of(struct span bytes, struct span topic, uint64_t seq);
/* An error and its causes as they are, hidden or not; records has room for LIMIT_ERROR_GIVEN, and
 * borrows from error.  Returns how many there are. */
uint32_t error_to_records(const struct bus_error *error, struct error_record *records);
/* Makes an object of each record, with the causes that it has; made[0] is the error.  false: no
 * memory, and some are NULL. */
bool error_build(const struct error_record *records, uint32_t count, struct bus_error **made);
/* Gives errors that this bus sees for the first time their identity, causes included.  Lock
 * held. */
void error_stamp(struct bus *bus, const struct bus_error *error, const char *topic, uint64_t seq);
/* Stamps and encodes into the bus's encoder; error NULL: of this type.  Lock held. */
struct span error_to_wire(struct bus *bus, const struct bus_error *error, const char *type,
                          const char *topic, uint64_t seq);

#endif
