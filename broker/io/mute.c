/* SPDX-License-Identifier: MPL-2.0 */
/* mute.c -- a broker that cannot reach the store of its journal; see mute.h. */
#include "broker/io/mute.h"

#include "broker/io/clock.h"
#include "broker/io/log.h"

#include <poll.h>

enum { MUTE_SLICE_MS = 100 };

bool mute_wait(struct mute *mute, const struct persistence *persistence, int signal_fd)
{
    bool was_mute = mute->is_mute;
    mute->is_mute = persistence_is_mute(persistence, clock_monotonic_ns());
    if (mute->is_mute && !was_mute)
        log_line(LOG_WARNING,
                 "journal: its store has not answered for %d s: this broker says nothing to "
                 "anybody until it does; 'errbusd --explain-store' says what the store lacks",
                 PERSISTENCE_MUTE_MS / 1000);
    else if (was_mute && !mute->is_mute)
        log_line(LOG_WARNING, "journal: its store answers again: this broker goes on");
    if (!mute->is_mute)
        return false;
    struct pollfd items[] = {{.fd = signal_fd, .events = POLLIN},
                             {.fd = persistence_fd(persistence), .events = POLLIN}};
    (void)poll(items, sizeof items / sizeof items[0], MUTE_SLICE_MS); /* or a signal came */
    return true;
}
