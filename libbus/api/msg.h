/* SPDX-License-Identifier: MPL-2.0 */
/* msg.h -- messages for the application. */
#ifndef API_MSG_H
#define API_MSG_H

#include "libbus/api/model.h"

/* From a waited-for slot.  Takes the item's buffer over; NULL: no memory. */
struct bus_msg *msg_new(const char *topic, struct session_item *item);
/* Its task is settled. */
void msg_settled(struct bus_msg **msg);

#endif
