/* SPDX-License-Identifier: MPL-2.0 */
/* attached.h -- the attachments of an error, as it lists them and as the broker has them. */
#ifndef CLIENTS_ATTACHED_H
#define CLIENTS_ATTACHED_H

#include "clients/cli.h"

/* Asks the broker for those of this error, if it lists any, and prints a line for each. */
void attached_print(const struct cli *cli, const struct bus_error *error);
/* The same as members of the error's object, in place of what it lists. */
void attached_json(const struct cli *cli, const struct bus_error *error, struct cli_json *object);

#endif
