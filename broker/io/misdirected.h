/* SPDX-License-Identifier: MPL-2.0 */
/* misdirected.h -- the answer to a client that takes the data channel for the control channel. */
#ifndef IO_MISDIRECTED_H
#define IO_MISDIRECTED_H

#include "libbus/base/buffer.h"
#include "libbus/base/span.h"

/* part: what came on the data channel.  data and control: the endpoints of this broker.  Returns a
 * REFUSED that names the right endpoint.  NULL: the part is no greeting, or there is no memory. */
struct buffer *misdirected_answer(struct span part, const char *data, const char *control);

#endif
