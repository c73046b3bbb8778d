/* SPDX-License-Identifier: MPL-2.0 */
/* descriptors.h -- how many file descriptors the broker may have, and what that is enough for. */
#ifndef IO_DESCRIPTORS_H
#define IO_DESCRIPTORS_H

#include <stdbool.h>
#include <stdint.h>

/* libzmq aborts when its own threads find no descriptors, so this checks that some are left. */
bool descriptors_are_enough(void);
/* How many connections the descriptors are enough for.  Of few descriptors, they get half. */
uint32_t descriptors_for_connections(void);

#endif
