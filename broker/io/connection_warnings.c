/* SPDX-License-Identifier: MPL-2.0 */
/* connection_warnings.c -- see connection_warnings.h. */
#include "broker/io/connection_warnings.h"

#include "broker/io/log.h"
#include "broker/io/peer_address.h"
#include "libbus/base/limits.h"

#include <inttypes.h>
#include <stdbool.h>
#include <zmq.h>

#define WARNINGS_EVERY_NS (INT64_C(10) * 1000 * 1000 * 1000)

static bool is_time(int64_t last_ns, int64_t now_ns)
{
    return last_ns == 0 || now_ns - last_ns >= WARNINGS_EVERY_NS;
}

void connection_warnings_not_accepted(struct connection_warnings *warnings, const char *channel,
                                      int fault, int64_t now_ns)
{
    if (!is_time(warnings->accepting_ns, now_ns))
        return;
    warnings->accepting_ns = now_ns;
    log_line(LOG_WARNING, "%s channel: cannot accept a connection from a client: %s", channel,
             zmq_strerror(fault));
}

void connection_warnings_tell(struct connection_warnings *warnings, uint64_t refusals,
                              uint64_t address, int64_t now_ns)
{
    char text[PEER_ADDRESS_TEXT_BYTES];
    bool is_nothing = warnings->silent == 0 && warnings->refusals == refusals;
    if (is_nothing || !is_time(warnings->closed_ns, now_ns))
        return;
    peer_address_write(address, text);
    if (warnings->silent > 0)
        log_line(LOG_WARNING,
                 "closed %" PRIu64 " connections that sent no valid first message in time",
                 warnings->silent);
    if (warnings->refusals != refusals)
        log_line(LOG_WARNING,
                 "refused new connections of an address for %d ms, %" PRIu64
                 " times, the last time "
                 "of %s: an address may have %d failed handshakes in a second, and leave %d in the "
                 "middle",
                 LIMIT_REFUSED_ADDRESS_MS, refusals - warnings->refusals, text,
                 LIMIT_HANDSHAKE_FAILURES, LIMIT_HANDSHAKES_UNFINISHED);
    warnings->closed_ns = now_ns;
    warnings->silent = 0;
    warnings->refusals = refusals;
}
