/* SPDX-License-Identifier: MPL-2.0 */
/* knock.h -- false handshakes with CURVE: they cost nothing to make, and a broker with keys has to
 * compute a shared key to find that out. */
#ifndef TESTS_LIB_KNOCK_H
#define TESTS_LIB_KNOCK_H

#include <stdbool.h>

/* Begins a connection from this IPv4 address of the machine, and says all that it has to say.
 * endpoint: ends with the port of a broker at 127.0.0.1.  out_is_let_in, may be NULL: it stands.
 * Within one machine it does so at once, or it is refused.  Returns the descriptor; -1: there is no
 * room now. */
int knock(const char *endpoint, const char *from, bool *out_is_let_in);

/* Whether the kernel drops connections for a broker of this user (listen_filter.h).  One that has
 * no room for more filters of users denies it to all but root. */
bool knock_can_be_filtered(void);

#endif
