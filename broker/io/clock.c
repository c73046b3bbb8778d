/* SPDX-License-Identifier: MPL-2.0 */
/* clock.c -- where the broker's time and randomness come from; see clock.h. */
#include "broker/io/clock.h"

#include "libbus/base/must.h"

#include <errno.h>
#include <sys/random.h>
#include <time.h>

#define NS_PER_S INT64_C(1000000000)

static int64_t read_ns(clockid_t id)
{
    struct timespec time;
    must(clock_gettime(id, &time) == 0);
    return (int64_t)time.tv_sec * NS_PER_S + time.tv_nsec;
}

static void throw_dice(struct clock *clock)
{
    size_t have = 0;
    while (have < sizeof clock->dice) {
        ssize_t got = getrandom((char *)clock->dice + have, sizeof clock->dice - have, 0);
        must(got > 0 || errno == EINTR); /* it fails for no other reason we can meet */
        have += got > 0 ? (size_t)got : 0;
    }
    clock->left = CLOCK_DICE_COUNT;
}

int64_t clock_monotonic_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

int64_t clock_wall_ns(void)
{
    return read_ns(CLOCK_REALTIME);
}

struct core_port_now clock_now(struct clock *clock)
{
    if (clock->left == 0)
        throw_dice(clock);
    uint64_t random = clock->dice[--clock->left];
    return (struct core_port_now){.now_ns = clock_monotonic_ns(),
                                  .wall_ns = clock_wall_ns(),
                                  .random = random != 0 ? random : 1};
}
