/* SPDX-License-Identifier: MPL-2.0 */
/* mute.c -- a broker that cannot reach the store of its journal; see mute.h. */
#include "broker/io/mute.h"

#include "broker/io/clock.h"
#include "broker/io/log.h"

#include <poll.h>
#include <string.h>

enum { MUTE_SLICE_MS = 100 };
/* A store that fails over has several reasons within a second. */
#define REASON_EVERY_NS INT64_C(5000000000)

/* Logs why the store is away, when that is not what was logged last. */
static void tell_reason(struct mute *mute, const struct persistence *persistence, int64_t now_ns)
{
    char reason[JOURNAL_COMPLAINT_BYTES];
    persistence_away(persistence, reason);
    if (reason[0] == '\0' || strcmp(reason, mute->reason) == 0 ||
        now_ns - mute->told_ns < REASON_EVERY_NS)
        return;
    log_line(LOG_WARNING, "journal: its store is away: %s", reason);
    memcpy(mute->reason, reason, sizeof mute->reason);
    mute->told_ns = now_ns;
}

bool mute_wait(struct mute *mute, const struct persistence *persistence, int signal_fd)
{
    bool was_mute = mute->is_mute;
    int64_t now_ns = clock_monotonic_ns();
    mute->is_mute = persistence_is_mute(persistence, now_ns);
    if (mute->is_mute && !was_mute)
        log_line(LOG_WARNING,
                 "journal: its store has not answered for %d s: this broker says nothing to "
                 "anybody until it does; 'errbusd --explain-store' says what the store lacks",
                 PERSISTENCE_MUTE_MS / 1000);
    else if (was_mute && !mute->is_mute)
        log_line(LOG_WARNING, "journal: its store answers again: this broker goes on");
    if (!was_mute)
        mute->reason[0] = '\0';
    if (!mute->is_mute)
        return false;
    tell_reason(mute, persistence, now_ns);
    struct pollfd items[] = {{.fd = signal_fd, .events = POLLIN},
                             {.fd = persistence_fd(persistence), .events = POLLIN}};
    (void)poll(items, sizeof items / sizeof items[0], MUTE_SLICE_MS); /* or a signal came */
    return true;
}
