/* SPDX-License-Identifier: MPL-2.0 */
/* access_check.h -- whether the broker keeps to the access table of the step: who is sent what, and
 * who is heard.  Each party has the name of its principal. */
#ifndef SIM_ACCESS_CHECK_H
#define SIM_ACCESS_CHECK_H

#include "broker/core/core.h"

enum { ACCESS_CHECK_TABLES = 16, ACCESS_CHECK_PARTIES = 32, ACCESS_CHECK_TEXT = 256 };

struct access_check {
    struct {
        const struct access *access;
        int64_t from_ns; /* until the next one came into force */
    } tables[ACCESS_CHECK_TABLES];
    uint32_t table_count; /* 0: everybody may do everything */
    /* Parties without access, and the end of their topics when they lost it. */
    struct {
        uint32_t party; /* in the core; 0: unused */
        uint32_t incarnation;
        uint64_t slots;
    } outs[ACCESS_CHECK_PARTIES];
    char text[ACCESS_CHECK_TEXT]; /* what is wrong */
};

/* This table is in force from now on; borrowed. */
void access_check_use(struct access_check *check, const struct access *access, int64_t now_ns);
/* Another core begins. */
void access_check_restart(struct access_check *check);

/* Each gives NULL, or what is wrong, good until the next call. */

/* After a step: what a party without access still has, or was heard to say. */
const char *access_check_step(struct access_check *check, const struct core *core);
/* In a step this part of the data channel is sent to that party, for the subscription with this
 * number of its client's. */
const char *access_check_part(struct access_check *check, const struct core *core, struct span job,
                              struct span party, uint32_t sub_number, struct span part);

/* Whether all tables since then let that party read all that the pattern matches. */
bool access_check_covers(const struct access_check *check, int64_t since_ns, struct span job,
                         struct span party, struct span pattern);

#endif
