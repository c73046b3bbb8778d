/* SPDX-License-Identifier: MPL-2.0 */
/* replay.h -- facts back into tables. */
#ifndef CORE_REPLAY_REPLAY_H
#define CORE_REPLAY_REPLAY_H

#include "broker/core/model.h"

void replay_forget(struct core *core); /* failures that facts spoke of are held no longer */

#endif
