/* SPDX-License-Identifier: MPL-2.0 */
/* pump.h -- sending: who gets which frames next, in order and in turn. */
#ifndef CORE_STREAMS_PUMP_H
#define CORE_STREAMS_PUMP_H

#include "broker/core/model.h"

void pump_all(struct core *core);

#endif
