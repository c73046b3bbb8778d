/* SPDX-License-Identifier: MPL-2.0 */
/* mute.h -- a broker that cannot reach the store of its journal answers nobody.
 *
 * Another broker may have the journal by then.  Clients that hear nothing look for that one.  When
 * the store answers, and the journal is still ours, the broker goes on as after a standstill.
 *
 * Signals are obeyed meanwhile.  A broker that is stopped says BYE, so its clients look for another
 * one at once.  One that reads another access file cuts off whoever may not stay, and taps hear of
 * it.  Neither says anything of what is in the journal: that waits for the store. */
#ifndef IO_MUTE_H
#define IO_MUTE_H

#include "broker/io/persistence.h"

#include <stdbool.h>

struct mute {
    bool is_mute;
    int64_t told_ns; /* when a reason was logged last */
    char reason[JOURNAL_COMPLAINT_BYTES];
};

/* Whether the broker must be mute.  Then it waits a little, for a signal or the journal. */
bool mute_wait(struct mute *mute, const struct persistence *persistence, int signal_fd);

#endif
