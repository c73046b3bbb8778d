/* SPDX-License-Identifier: MPL-2.0 */
/* access_check.h -- whether whoever lost access has lost it. */
#ifndef SIM_ACCESS_CHECK_H
#define SIM_ACCESS_CHECK_H

#include "broker/core/core.h"

/* What a party without access still has in the broker: NULL: nothing.  Each party has the name of
 * its principal. */
const char *access_check(const struct core *core, const struct access *access);

#endif
