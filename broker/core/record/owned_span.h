/* SPDX-License-Identifier: MPL-2.0 */
/* owned_span.h -- copies of text that the core owns. */
#ifndef CORE_RECORD_OWNED_SPAN_H
#define CORE_RECORD_OWNED_SPAN_H

#include "broker/core/model.h"

/* A copy; false: no memory. */
bool span_keep(struct core *core, struct span text, struct span *out_owned);
void span_drop(struct core *core, struct span *owned);

#endif
