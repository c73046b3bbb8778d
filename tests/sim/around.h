/* SPDX-License-Identifier: MPL-2.0 */
/* around.h -- what the library asks the system for when it makes an error: its clocks, the name of
 * its host, and its process.  In a simulation they are what is said here. */
#ifndef SIM_AROUND_H
#define SIM_AROUND_H

#include <stdint.h>

enum { AROUND_HOST_BYTES = 24 };

/* Both clocks; host: shorter than AROUND_HOST_BYTES. */
void around_set(int64_t now_ns, const char *host);

#endif
