/* SPDX-License-Identifier: MPL-2.0 */
/* attach_bring.h -- what a courier does: it reads attachments and sends them, piece by piece. */
#ifndef API_ATTACH_BRING_H
#define API_ATTACH_BRING_H

#include "libbus/api/model.h"

/* A courier's part of a turn: sends the next piece of the attachment under way, or begins the next
 * attachment.  Returns whether anything moved.  Lock held. */
bool attach_bring(struct bus *bus, int64_t now_ns);
/* How long the library's thread may sleep, at most left_ms.  Lock held. */
int64_t attach_sleep_ms(const struct bus *bus, int64_t left_ms);

#endif
