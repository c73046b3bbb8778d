/* SPDX-License-Identifier: MPL-2.0 */
/* promise.c -- sends numbers in a promised slot, and checks the numbers that were received. */
#include "clients/fedavg/fedavg.h"

enum bus_err promise_make(const struct cli *cli, const char *name, int64_t seq, int64_t deadline_ms,
                          struct bus_slot **out_slot, int *out_exit)
{
    struct bus_slot_options options;
    bus_slot_options_init(&options);
    options.seq = seq;
    options.deadline_ms = deadline_ms;
    enum bus_err err = bus_slot_reserve_with(cli->bus, name, &options, out_slot, NULL);
    if (err != BUS_OK && err != BUS_ESETTLED) {
        *out_exit = cli_report(cli, err, NULL);
    }
    return err;
}

bool promise_keep(const struct cli *cli, struct bus_slot **slot, const double *numbers,
                  size_t count, int *out_exit)
{
    enum bus_err err = bus_slot_commit(slot, numbers, count * sizeof *numbers);
    bus_slot_fail(slot, NULL); /* frees a slot that the commit refused */
    if (err != BUS_OK) {
        *out_exit = cli_report(cli, err, NULL);
    }
    return err == BUS_OK;
}

struct bus_error *promise_examine(const struct bus_msg *msg, const char *party, size_t count)
{
    size_t bytes = 0;
    const double *numbers = bus_msg_value(msg, &bytes);
    size_t wanted = count * sizeof *numbers;
    struct bus_error *error = NULL;
    if (bytes != wanted) {
        error = bus_error_new("fedavg.wrong_size", NULL, "%s sent %zu bytes instead of %zu", party,
                              bytes, wanted);
    } else if (first_not_finite(numbers, count) < count) {
        size_t at = first_not_finite(numbers, count);
        error = bus_error_new("fedavg.not_finite", NULL, "%s sent %g as number %zu of %zu", party,
                              numbers[at], at, count);
    }
    if (error != NULL) {
        /* Without memory for the blame, the message still names the party. */
        (void)bus_error_set_blame(error, party);
    }
    return error;
}
