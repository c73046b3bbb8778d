/* SPDX-License-Identifier: MPL-2.0 */
/* admission.c -- see admission.h.
 *
 * libzmq closes a single connection only with its whole socket.  So the broker shuts the descriptor
 * down, and libzmq reads the end of the connection. */
#include "broker/io/admission.h"

#include "broker/io/listen_filter.h"
#include "broker/io/peer_address.h"

#include <sys/socket.h>
#include <zmq.h>

enum { DISMISSED_AT_ONCE = 256 }; /* new connections, between two looks at the monitors */

void admission_cut(int fd)
{
    if (fd >= 0)
        (void)shutdown(fd, SHUT_RDWR); /* a closed connection needs no shutdown */
}

void admission_init(struct admission *admission, struct memory *memory, struct figures *figures,
                    uint32_t open_max, int64_t wait_ns)
{
    *admission = (struct admission){.figures = figures, .listening = {-1, -1}};
    new_connections_init(&admission->connections, memory, open_max, wait_ns);
}

void admission_fini(struct admission *admission)
{
    new_connections_fini(&admission->connections);
}

/* Hosts have no addresses at a socket of ipc. */
void admission_listens(struct admission *admission, enum lane lane, int fd)
{
    int domain = AF_UNIX;
    socklen_t bytes = sizeof domain;
    bool is_known = getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0;
    admission->listening[lane] = is_known && domain != AF_UNIX ? fd : -1;
}

/* The address is that of whoever has the descriptor now.  So a refusal meets the right host, even
 * if the connection that was accepted is gone. */
void admission_came(struct admission *admission, enum lane lane, int fd, int64_t now_ns)
{
    if (new_connections_came(&admission->connections, lane, fd, peer_address(fd), now_ns))
        return;
    admission_cut(fd);
    admission->figures->refused += 1;
}

void admission_saw(struct admission *admission, enum lane lane, unsigned type)
{
    admission->is_unfinished[lane] = type == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
}

void admission_left(struct admission *admission, enum lane lane, int fd, int64_t now_ns)
{
    new_connections_left(&admission->connections, lane, fd, admission->is_unfinished[lane], now_ns);
}

int64_t admission_due_ns(const struct admission *admission)
{
    int64_t due_ns = new_connections_due_ns(&admission->connections);
    int64_t refused_ns = refused_addresses_due_ns(&admission->connections.refused);
    return refused_ns < due_ns ? refused_ns : due_ns;
}

/* Where the kernel has no such filter, the connections are closed when they are accepted. */
static void refuse_addresses(struct admission *admission, int64_t now_ns)
{
    struct refused_addresses *refused = &admission->connections.refused;
    if (!refused_addresses_take_change(refused, now_ns))
        return;
    for (int i = 0; i < LANE_COUNT; i++)
        if (admission->listening[i] >= 0)
            (void)listen_filter_set(admission->listening[i], refused);
}

void admission_review(struct admission *admission, int64_t now_ns)
{
    const struct refused_addresses *refused = &admission->connections.refused;
    int fd;
    refuse_addresses(admission, now_ns);
    for (int i = 0;
         i < DISMISSED_AT_ONCE && new_connections_next(&admission->connections, now_ns, &fd); i++) {
        admission_cut(fd);
        admission->warnings.silent += 1;
        admission->figures->silent += 1;
    }
    connection_warnings_tell(&admission->warnings, refused->total, refused->last, now_ns);
}
