/* SPDX-License-Identifier: MPL-2.0 */
/* revocation.h -- another access table comes into force while everything runs. */
#ifndef CORE_LIFECYCLE_REVOCATION_H
#define CORE_LIFECYCLE_REVOCATION_H

#include "broker/core/model.h"

/* From this step on the table decides.  Sessions stay with the principal of the same name.  A party
 * that it does not allow any more, or that reads what it may not read any more, is lost in this
 * step (errbus.revoked), and so is an observer that taps what it may not tap.  Why the whole party
 * goes, and not what it reads alone: broker/design/time_and_loss.md.  Subscriptions follow
 * the topics that their party may read since then.  The table is borrowed, and the one before is
 * looked at once more.
 *
 * After a replay the table may be another one than before.  So whoever replayed a journal makes
 * this step with the table that is in force already. */
void revocation_step(struct core *core, const struct access *access);

#endif
