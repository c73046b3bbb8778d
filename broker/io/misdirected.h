/* SPDX-License-Identifier: MPL-2.0 */
/* misdirected.h -- the answer to a client that takes one channel for the other. */
#ifndef IO_MISDIRECTED_H
#define IO_MISDIRECTED_H

#include "broker/io/peers.h"
#include "libbus/base/buffer.h"
#include "libbus/base/span.h"

/* part: what came on this channel.  data and control: the endpoints of this broker.  Returns a
 * REFUSED that names the right endpoint.  NULL: it is not the first message of the other channel,
 * or there is no memory. */
struct buffer *misdirected_answer(enum lane lane, struct span part, const char *data,
                                  const char *control);

#endif
