/* SPDX-License-Identifier: MPL-2.0 */
/* sync_round.c -- see sync_round.h. */
#include "broker/core/tables/sync_round.h"

#include "libbus/base/limits.h"

void sync_round_sent(struct sync_round *round, uint64_t step, uint64_t taken)
{
    if (round->step != 0)
        return;
    round->step = step;
    round->taken = taken;
}

uint64_t sync_round_bytes(struct sync_round *round, uint64_t kept_steps, uint64_t taken)
{
    if (round->step != 0 && round->step <= kept_steps) {
        round->took[1] = round->took[0];
        round->took[0] = taken - round->taken;
        round->step = 0;
    }
    uint64_t most = round->took[0] > round->took[1] ? round->took[0] : round->took[1];
    return most < LIMIT_SYNC_WINDOW_BYTES / 2 ? 2 * most : LIMIT_SYNC_WINDOW_BYTES;
}
