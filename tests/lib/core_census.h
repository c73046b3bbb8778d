/* SPDX-License-Identifier: MPL-2.0 */
/* core_census.h -- counts what a core still has once all its jobs and sessions are gone. */
#ifndef TEST_CORE_CENSUS_H
#define TEST_CORE_CENSUS_H

#include "broker/core/core.h"

/* NULL: every pool, table and list of the core is empty.  Otherwise the first one that is not, with
 * its count, as "2 failures"; borrowed until the next call.  Jobs and sessions count, too: the
 * caller lets them end first.  The core's spare failure must have its one reference. */
const char *core_census_left(const struct core *core);

/* NULL: what is counted in each account is what its sessions, parties and jobs have, and all topics
 * that are stopped are counted.  Otherwise what is wrong; borrowed until the next call. */
const char *core_census_miscounted(const struct core *core);

#endif
