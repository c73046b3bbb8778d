/* SPDX-License-Identifier: MPL-2.0 */
/* earlier.h -- what is known of a topic's slots before this party wrote any. */
#ifndef SESSION_EARLIER_H
#define SESSION_EARLIER_H

#include <stdint.h>

/* Which slots of a topic earlier incarnations of this party have left. */
struct session_earlier {
    uint64_t end_seq;     /* all below are theirs */
    uint32_t incarnation; /* the last of them; 0: there are none, or it is forgotten */
    uint64_t first_seq;   /* its first slot */
    int64_t ended_ns;     /* when it ended, by the broker's wall clock; 0: not known */
};

#endif
