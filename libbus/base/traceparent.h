/* SPDX-License-Identifier: MPL-2.0 */
/* traceparent.h -- reads the traceparent of W3C Trace Context: which trace some work is a part of.
 */
#ifndef BASE_TRACEPARENT_H
#define BASE_TRACEPARENT_H

#include "libbus/base/limits.h"

#include <stdbool.h>
#include <stdint.h>

/* "00-<32 digits>-<16 digits>-<2 digits>", the digits 0-9 and a-f: version, trace, parent, flags.
 * A version after 00 may have more behind another '-'.  false: it is no traceparent, or its trace
 * or parent is all 0; out_trace_id is as before. */
bool traceparent_read(const char *text, uint8_t out_trace_id[LIMIT_TRACE_ID_BYTES]);

/* Digits to bytes: count bytes from twice as many digits.  false: one is no digit, or all are 0;
 * out is undefined then. */
bool traceparent_hex(const char *digits, unsigned count, uint8_t *out);

#endif
