/* SPDX-License-Identifier: MPL-2.0 */
/* error_wire.h -- error objects to bytes and back. */
#ifndef API_ERROR_WIRE_H
#define API_ERROR_WIRE_H

#include "libbus/api/model.h"

/* From the wire; NULL or the no-memory error if that fails; never NULL: bytes that are no error
 * give one of type errbus.protocol. */
struct bus_error *error_from_wire(struct span bytes);
/* Gives errors that this bus sees for the first time their identity, causes included.  Lock
 * held. */
void error_stamp(struct bus *bus, const struct bus_error *error, const char *topic, uint64_t seq);
/* Stamps and encodes into the bus's encoder; error NULL: of this type.  Lock held. */
struct span error_to_wire(struct bus *bus, const struct bus_error *error, const char *type,
                          const char *topic, uint64_t seq);

#endif
