/* SPDX-License-Identifier: MPL-2.0 */
/* around.h -- what the library asks the system for when it makes an error: its clocks, the name of
 * its host, its process, and sealed boxes.  In a simulation they are what is said here.
 *
 * A box of the simulation depends on nothing but what is in it and its key.  So a seed does the
 * same again, and builds without libsodium seal, too.  What is in a box cannot be seen in it. */
#ifndef SIM_AROUND_H
#define SIM_AROUND_H

#include "libbus/io/key_file.h"

#include <stdint.h>

enum { AROUND_HOST_BYTES = 24 };

/* Both clocks; host: shorter than AROUND_HOST_BYTES. */
void around_set(int64_t now_ns, const char *host);
/* The auditor of all parties that seal. */
const struct key_pair *around_auditor(void);

#endif
