/* SPDX-License-Identifier: MPL-2.0 */
/* period.h -- computing with times and periods without overflow. */
#ifndef SESSION_PERIOD_H
#define SESSION_PERIOD_H

#include <stdint.h>

#define SESSION_NS_PER_MS INT64_C(1000000)

static inline int64_t ns_of_ms(int64_t period_ms)
{
    return period_ms * SESSION_NS_PER_MS;
}

static inline int64_t earlier_ns(int64_t a_ns, int64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

/* The time after a period; INT64_MAX, which is never, if that lies beyond all times. */
static inline int64_t later_ns(int64_t now_ns, int64_t period_ns)
{
    return now_ns > INT64_MAX - period_ns ? INT64_MAX : now_ns + period_ns;
}

#endif
