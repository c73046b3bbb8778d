/* SPDX-License-Identifier: MPL-2.0 */
/* results.c -- see results.h. */
#include "libbus/session/results.h"

#include "libbus/base/limits.h"

void results_init(struct results *results, struct memory *memory)
{
    *results = (struct results){0};
    pool_init(&results->pool, memory, sizeof(struct result), LIMIT_RESULTS);
    id_map_init(&results->by_number, memory);
}

void results_fini(struct results *results)
{
    struct result *result = NULL;
    while ((result = pool_next(&results->pool, result != NULL ? result->id : 0)) != NULL)
        buffer_unref(&result->error);
    pool_fini(&results->pool);
    id_map_fini(&results->by_number);
}

static struct result *find_result(const struct results *results, uint64_t number)
{
    uint32_t id;
    return id_map_get(&results->by_number, number, &id) ? pool_find(&results->pool, id) : NULL;
}

enum wire_code results_expect(struct results *results, uint64_t number)
{
    if (results->pool.used == LIMIT_RESULTS)
        return CODE_EFULL;
    struct result *result = pool_take(&results->pool);
    if (result == NULL)
        return CODE_ENOMEM;
    result->number = number;
    if (!id_map_put(&results->by_number, number, result->id)) {
        pool_give(&results->pool, result);
        return CODE_ENOMEM;
    }
    return CODE_OK;
}

static void forget(struct results *results, struct result *result)
{
    id_map_remove(&results->by_number, result->number);
    pool_give(&results->pool, result);
}

void results_forget(struct results *results, uint64_t number)
{
    struct result *result = find_result(results, number);
    if (result == NULL)
        return;
    buffer_unref(&result->error);
    forget(results, result);
}

bool results_answer(struct results *results, uint64_t number, enum wire_code code,
                    struct span error)
{
    struct result *result = find_result(results, number);
    if (result == NULL || result->is_answered)
        return false;
    result->is_answered = true;
    result->code = code;
    /* Without memory the code alone is the answer. */
    result->error = error.bytes > 0 ? buffer_copy(error) : NULL;
    return true;
}

enum wire_code results_take(struct results *results, uint64_t number, struct buffer **out_error)
{
    struct result *result = find_result(results, number);
    if (result == NULL)
        return CODE_EINVAL;
    if (!result->is_answered)
        return CODE_ETIMEDOUT;
    enum wire_code code = result->code;
    if (out_error != NULL)
        *out_error = result->error;
    else
        buffer_unref(&result->error);
    forget(results, result);
    return code;
}
