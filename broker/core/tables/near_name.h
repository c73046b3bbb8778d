/* SPDX-License-Identifier: MPL-2.0 */
/* near_name.h -- whether one name may have been meant where another one was given. */
#ifndef CORE_NEAR_NAME_H
#define CORE_NEAR_NAME_H

#include "libbus/base/span.h"

#include <stdbool.h>
#include <stdint.h>

/* Whether known is another name than given, and so near that it may have been meant: one edit away
 * from a name of up to four bytes, two from a longer one.  An edit takes a byte out, puts one in,
 * changes one, or swaps two neighbours.  Names that differ in digits alone are not near: worker-3
 * may well come when worker-2 is there.  out_edits: how many edits. */
bool near_name(struct span given, struct span known, uint32_t *out_edits);

#endif
