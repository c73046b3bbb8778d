/* SPDX-License-Identifier: MPL-2.0 */
/* wait_place.h -- what a call of the application is blocked in. */
#ifndef SESSION_WAIT_PLACE_H
#define SESSION_WAIT_PLACE_H

#include "libbus/base/span.h"

#include <stdint.h>

enum session_wait { SESSION_WAIT_SLOTS, SESSION_WAIT_ROOM, SESSION_WAIT_READS, SESSION_WAIT_COUNT };

struct session_wait_place {
    struct span topic; /* of an awaited slot */
    uint64_t seq;
    uint32_t sub; /* a subscription */
};

#endif
