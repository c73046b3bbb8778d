/* SPDX-License-Identifier: MPL-2.0 */
/* results.h -- answers to RETRACT and COMPLETE, by the number of the question. */
#ifndef SESSION_RESULTS_H
#define SESSION_RESULTS_H

#include "libbus/base/buffer.h"
#include "libbus/base/map.h"
#include "libbus/base/memory.h"
#include "libbus/base/pool.h"
#include "libbus/base/span.h"
#include "libbus/wire/error.h"

#include <stdbool.h>
#include <stdint.h>

struct result {
    uint32_t id; /* for the pool */
    bool is_answered;
    enum wire_code code;
    struct buffer *error;
    uint64_t number;
};

struct results {
    struct pool pool;
    struct id_map by_number;
};

void results_init(struct results *results, struct memory *memory);
void results_fini(struct results *results);
/* A question was sent.  Errors: CODE_EFULL: LIMIT_RESULTS; CODE_ENOMEM. */
enum wire_code results_expect(struct results *results, uint64_t number);
/* The question was not sent after all. */
void results_forget(struct results *results, uint64_t number);
/* false: nobody asked, or it was answered before. */
bool results_answer(struct results *results, uint64_t number, enum wire_code code,
                    struct span error);
/* Takes the answer; CODE_ETIMEDOUT: none yet; CODE_EINVAL: never asked, or taken before.  out_error
 * may be NULL; it gets the caller's reference, or NULL if there is none. */
enum wire_code results_take(struct results *results, uint64_t number, struct buffer **out_error);

#endif
