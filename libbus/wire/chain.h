/* SPDX-License-Identifier: MPL-2.0 */
/* chain.h -- which records of an error's chain go on the wire, and how they are linked then. */
#ifndef WIRE_CHAIN_H
#define WIRE_CHAIN_H

#include "libbus/base/limits.h"
#include "libbus/wire/error.h"

#include <stddef.h>
#include <stdint.h>

/* A record that is kept. */
struct chain_link {
    uint32_t index; /* in the chain that was given */
    uint32_t cause_count;
    uint32_t causes[LIMIT_ERROR_CAUSES]; /* in the chain that was given; all of them kept */
    uint64_t left_out;                   /* its own and those of this gap */
};
struct chain {
    uint32_t count;
    struct chain_link links[LIMIT_ERROR_RECORDS]; /* ascending by index; the first is the head */
};

/* WIRE_RANGE: causes are not later records, there twice, or too many. */
enum wire_err chain_check(const struct error_record *records, uint32_t count);

/* Keeps what the first record leads to, in its order.  Returns the number of records that are left.
 * The records are good by chain_check(), 1 <= count <= LIMIT_ERROR_GIVEN. */
uint32_t chain_trim(struct error_record *records, uint32_t count);

/* Keeps what fits.  sizes are upper bounds of the records' bytes; budget is not asked for the head.
 * The records are good by chain_check(), 1 <= count <= LIMIT_ERROR_GIVEN. */
void chain_select(const struct error_record *records, uint32_t count, const size_t *sizes,
                  size_t budget, struct chain *out_chain);

#endif
