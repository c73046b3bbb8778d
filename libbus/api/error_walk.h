/* SPDX-License-Identifier: MPL-2.0 */
/* error_walk.h -- an error and all its causes. */
#ifndef API_ERROR_WALK_H
#define API_ERROR_WALK_H

#include "libbus/api/model.h"

/* The errors below and with error, nearest first, each once; at most ERROR_WALK_MAX. */
enum { ERROR_WALK_MAX = 1024 };
struct error_walk {
    const struct bus_error *items[ERROR_WALK_MAX];
    uint32_t count;
};
void error_walk(struct error_walk *walk, const struct bus_error *error, uint32_t causes_max);
/* Cause index of at most causes_max, among which one leads to the root. */
const struct bus_error *error_cause_within(const struct bus_error *error, uint32_t index,
                                           uint32_t causes_max);

#endif
