/* SPDX-License-Identifier: MPL-2.0 */
/* courier.h -- a party's courier, which brings the attachments of its errors. */
#ifndef API_COURIER_H
#define API_COURIER_H

#include "libbus/api/model.h"

/* A part of a turn of the library's thread.  A party's thread hands attachments to its courier, and
 * opens one if there is none.  A courier's thread sends the next piece.  Lock held, but not during
 * that. Returns whether anything moved. */
bool attach_turn(struct bus *bus, int64_t now_ns);
/* Waits until the courier has brought everything, or given it up.  Errors: BUS_ETIMEDOUT; why no
 * courier can be opened. */
enum bus_err attach_flush(struct bus *bus, int64_t deadline_ns);
/* Closes the courier, after the threads ended.  Attachments that it did not bring are cut. */
void attach_close(struct bus *bus);

#endif
