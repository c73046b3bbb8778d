/* SPDX-License-Identifier: MPL-2.0 */
/* admission.c -- see admission.h.
 *
 * libzmq closes a single connection only with its whole socket.  So the broker shuts the descriptor
 * down, and libzmq reads the end of the connection. */
#include "broker/io/admission.h"

#include "broker/io/peer_address.h"

#include <sys/socket.h>

enum { DISMISSED_AT_ONCE = 256 }; /* new connections, between two looks at the monitors */

void admission_init(struct admission *admission, struct memory *memory, struct figures *figures,
                    uint32_t open_max, int64_t wait_ns)
{
    *admission = (struct admission){.figures = figures};
    new_connections_init(&admission->connections, memory, open_max, wait_ns);
}

void admission_fini(struct admission *admission)
{
    new_connections_fini(&admission->connections);
}

/* The address is that of whoever has the descriptor now.  So a refusal meets the right host, even
 * if the connection that was accepted is gone. */
void admission_came(struct admission *admission, enum lane lane, int fd, int64_t now_ns)
{
    if (new_connections_came(&admission->connections, lane, fd, peer_address(fd), now_ns))
        return;
    (void)shutdown(fd, SHUT_RDWR); /* a closed connection needs no shutdown */
    admission->warnings.refused += 1;
    admission->figures->refused += 1;
}

int64_t admission_due_ns(const struct admission *admission)
{
    return new_connections_due_ns(&admission->connections);
}

void admission_review(struct admission *admission, int64_t now_ns)
{
    int fd;
    for (int i = 0;
         i < DISMISSED_AT_ONCE && new_connections_next(&admission->connections, now_ns, &fd); i++) {
        (void)shutdown(fd, SHUT_RDWR); /* a closed connection needs no shutdown */
        admission->warnings.silent += 1;
        admission->figures->silent += 1;
    }
    connection_warnings_tell(&admission->warnings, now_ns);
}
