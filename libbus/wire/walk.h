/* SPDX-License-Identifier: MPL-2.0 */
/* walk.h -- steps over msgpack and trusts no byte of it; for this folder alone. */
#ifndef WIRE_WALK_H
#define WIRE_WALK_H

#include "libbus/base/span.h"
#include "libbus/wire/frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct walk {
    const uint8_t *data;
    size_t bytes;
    size_t at; /* <= bytes; where the next object begins */
};

static inline struct walk walk_of(struct span bytes)
{
    return (struct walk){.data = bytes.data, .bytes = bytes.bytes, .at = 0};
}

/* Steps over one object with all it holds: well formed, not deeper than LIMIT_WALK_DEPTH, not more
 * than LIMIT_WALK_ITEMS elements.  Nothing left is WIRE_EMPTY. */
enum wire_err walk_object(struct walk *walk);

/* Steps into an array: over its head alone.  WIRE_FORMAT: something else stands here. */
enum wire_err walk_array(struct walk *walk, uint32_t *out_count);

/* Whether an array or a map stands here. */
bool walk_is_container(const struct walk *walk);

#endif
