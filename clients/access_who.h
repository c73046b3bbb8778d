/* SPDX-License-Identifier: MPL-2.0 */
/* access_who.h -- who is connected to a broker, and another access file for it. */
#ifndef CLIENTS_ACCESS_WHO_H
#define CLIENTS_ACCESS_WHO_H

#include "clients/cli.h"

/* Both ask the broker and print its answer.  They return the exit status of the program. */
int access_who(const struct cli *cli);
int access_reload(const struct cli *cli);

#endif
