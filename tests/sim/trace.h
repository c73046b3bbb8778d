/* SPDX-License-Identifier: MPL-2.0 */
/* trace.h -- parts in words, for the transcript of a run that broke a promise. */
#ifndef SIM_TRACE_H
#define SIM_TRACE_H

#include "libbus/base/span.h"
#include "libbus/wire/msg.h"

#include <stddef.h>

/* A message of either channel. */
void trace_message(char *text, size_t room, struct span part, enum msg_lane lane,
                   enum msg_direction direction);
/* A batch and its frames, the first ones. */
void trace_batch(char *text, size_t room, struct span part);
/* "id type (because of id type ...)" of an encoded error. */
void trace_error(char *text, size_t room, struct span error);
const char *trace_code(unsigned code);

#endif
