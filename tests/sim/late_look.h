/* SPDX-License-Identifier: MPL-2.0 */
/* late_look.h -- a broker that is late looks at what is due before it reads what came.  Who had
 * said something by then, and whose value had come, is not judged by that look. */
#ifndef SIM_LATE_LOOK_H
#define SIM_LATE_LOOK_H

#include "broker/core/core.h"
#include "broker/core/tables/event.h"
#include "libbus/base/span.h"

#include <stdbool.h>
#include <stdint.h>

enum { LATE_SESSIONS = 32, LATE_SLOTS = 256 };

struct late_look {
    int64_t now_ns; /* core_clock() of that look */
    struct late_session {
        uint32_t party;
        uint32_t incarnation;
        bool is_put_off;       /* its own timer gets a second look, or is due later */
    } sessions[LATE_SESSIONS]; /* that were heard, and not read */
    struct late_slot {
        uint32_t topic;
        uint64_t seq;
    } slots[LATE_SLOTS]; /* whose values had come, and were not read */
    uint32_t session_count, slot_count;
    uint32_t lapsed; /* the party among these whose leases that look ended; 0: none */
    char text[160];
};

/* The broker is about to look, at this time of its clock. */
void late_look_begin(struct late_look *look, const struct core *core, int64_t now_ns);
/* This came on a connection, and is not read yet. */
void late_look_unread(struct late_look *look, const struct core *core, conn_id conn, bool is_data,
                      struct span part);
/* What came is read, or never will be. */
void late_look_end(void);
/* It has looked, and read what had come.  NULL, or who was judged too early. */
const char *late_look_wrong(struct late_look *look, const struct core *core);

#endif
