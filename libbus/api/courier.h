/* SPDX-License-Identifier: MPL-2.0 */
/* courier.h -- a party's courier, which brings the attachments of its errors. */
#ifndef API_COURIER_H
#define API_COURIER_H

#include "libbus/api/model.h"

/* Part of a turn of the library's thread.  That of a party hands attachments over to its courier,
 * and opens one if it has none.  That of a courier sends the next piece.  Lock, which is given up
 * meanwhile.  Whether anything moved. */
bool attach_turn(struct bus *bus, int64_t now_ns);
/* Waits until the courier has brought everything, or has ended it where it cannot.
 * Errors: BUS_ETIMEDOUT; what keeps a courier out. */
enum bus_err attach_flush(struct bus *bus, int64_t deadline_ns);
/* After the threads ended: closes the courier.  What it did not bring is cut. */
void attach_close(struct bus *bus);

#endif
