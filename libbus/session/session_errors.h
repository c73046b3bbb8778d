/* SPDX-License-Identifier: MPL-2.0 */
/* session_errors.h -- errors made by this client. */
#ifndef SESSION_SESSION_ERRORS_H
#define SESSION_SESSION_ERRORS_H

#include "libbus/session/model.h"

/* Encodes an error of this party; type and message are cut to their limits.  out has
 * SESSION_ERROR_BYTES. */
struct span session_error_make(struct session *session, enum error_kind kind, struct span type,
                               struct span message, uint8_t *out);
/* The same for an error of the slot (topic, seq). */
struct span session_error_make_at(struct session *session, enum error_kind kind, struct span type,
                                  struct span message, struct span topic, uint64_t seq,
                                  uint8_t *out);
/* Encodes the error that replaces an error for which there is no memory.  out has
 * SESSION_SPARE_ERROR_BYTES. */
size_t session_error_spare(uint8_t *out);

#endif
