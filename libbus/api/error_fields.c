/* SPDX-License-Identifier: MPL-2.0 */
/* error_fields.c -- what else an error says: how it came about, when by which clock, and what is
 * missing from it. */
#include "libbus/api/error_fields.h"

#include "libbus/api/error.h"
#include "libbus/api/model.h"
#include "libbus/base/traceparent.h"

#include <string.h>

/* ---- changing a fresh one -------------------------------------------------------------------- */

enum bus_err bus_error_set_kind(struct bus_error *error, const char *kind)
{
    static const enum error_kind own[] = {ERROR_APPLICATION, ERROR_DEPENDENCY, ERROR_CANCELLED,
                                          ERROR_TERMINATED};
    enum bus_err err = error_check_fresh(error);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        if (kind == NULL || strcmp(kind, error_kind_name(own[i])) != 0)
            continue;
        if (err == BUS_OK)
            error->kind = own[i];
        return error_say_code(err, __func__);
    }
    return error_say_code(BUS_EINVAL, __func__);
}

enum bus_err bus_error_set_origin(struct bus_error *error, int is_system)
{
    enum bus_err err = error_check_fresh(error);
    if (err == BUS_OK)
        error->origin = is_system != 0 ? ORIGIN_SYSTEM : ORIGIN_USER;
    return error_say_code(err, __func__);
}

enum bus_err bus_error_set_exit_code(struct bus_error *error, int exit_code)
{
    if (exit_code < 0)
        return error_say_code(BUS_EINVAL, __func__);
    enum bus_err err = error_check_fresh(error);
    if (err == BUS_OK)
        error->exit_code = exit_code;
    return error_say_code(err, __func__);
}

enum bus_err bus_error_set_signal(struct bus_error *error, int number)
{
    if (number < 1 || number > UINT16_MAX)
        return error_say_code(BUS_EINVAL, __func__);
    enum bus_err err = error_check_fresh(error);
    if (err == BUS_OK)
        error->signal = (uint64_t)number;
    return error_say_code(err, __func__);
}

/* Moves the time on both clocks.  A time before this machine was started becomes 1 on the monotonic
 * clock. */
enum bus_err bus_error_set_occurred(struct bus_error *error, int64_t occurred_ns,
                                    uint64_t uncertainty_ns)
{
    if (occurred_ns <= 0)
        return error_say_code(BUS_EINVAL, __func__);
    enum bus_err err = error_check_fresh(error);
    if (err != BUS_OK)
        return error_say_code(err, __func__);
    int64_t earlier_ns = error->made_wall_ns - occurred_ns;
    error->made_ns = error->made_ns > earlier_ns ? error->made_ns - earlier_ns : 1;
    error->made_wall_ns = occurred_ns;
    error->made_uncertainty_ns = uncertainty_ns;
    return BUS_OK;
}

enum bus_err bus_error_set_trace_id(struct bus_error *error, const char *trace_id)
{
    uint8_t bytes[LIMIT_TRACE_ID_BYTES];
    bool is_good = trace_id != NULL && strlen(trace_id) == 2 * sizeof bytes &&
                   traceparent_hex(trace_id, LIMIT_TRACE_ID_BYTES, bytes);
    enum bus_err err = is_good ? error_check_fresh(error) : BUS_EINVAL;
    if (err != BUS_OK)
        return error_say_code(err, __func__);
    trace_set(&error->trace, span_of(bytes, sizeof bytes));
    return BUS_OK;
}

void trace_set(struct trace *trace, struct span id)
{
    static const char digits[] = "0123456789abcdef";
    trace->is_set = id.bytes == sizeof trace->id;
    if (!trace->is_set)
        return;
    memcpy(trace->id, id.data, sizeof trace->id);
    for (size_t i = 0; i < sizeof trace->id; i++) {
        trace->text[2 * i] = digits[trace->id[i] / 16];
        trace->text[2 * i + 1] = digits[trace->id[i] % 16];
    }
}

const struct trace *error_trace(const struct bus_error *error)
{
    return error->trace.is_set ? &error->trace : &error_identity_of(error)->trace;
}

/* ---- reading --------------------------------------------------------------------------------- */

const char *bus_error_job(const struct bus_error *error)
{
    return error_identity_of(error)->job;
}

uint32_t bus_error_attempt(const struct bus_error *error)
{
    return (uint32_t)error_identity_of(error)->attempt;
}

int bus_error_is_system(const struct bus_error *error)
{
    return error_or_none(error)->origin == ORIGIN_SYSTEM;
}

int bus_error_exit_code(const struct bus_error *error)
{
    return (int)error_or_none(error)->exit_code;
}

int bus_error_signal(const struct bus_error *error)
{
    return (int)error_or_none(error)->signal;
}

const char *bus_error_trace_id(const struct bus_error *error)
{
    return error_trace(error_or_none(error))->text;
}

int64_t bus_error_broker_ns(const struct bus_error *error, uint64_t *out_uncertainty_ns)
{
    const struct error_identity *identity = error_identity_of(error);
    if (out_uncertainty_ns != NULL)
        *out_uncertainty_ns = identity->uncertainty_ns;
    return identity->occurred_ns;
}

int bus_error_is_cut(const struct bus_error *error)
{
    return error_or_none(error)->is_cut || error_or_none(error)->is_stack_cut;
}

uint32_t bus_error_causes_left_out(const struct bus_error *error)
{
    return (uint32_t)error_or_none(error)->left_out;
}
