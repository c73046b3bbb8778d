/* SPDX-License-Identifier: MPL-2.0 */
/* complete.h -- candidates for the last word of a command line. */
#ifndef CLIENTS_COMPLETE_H
#define CLIENTS_COMPLETE_H

#include "clients/errbus.h"

#include <stddef.h>

/* Prints the candidates for the last of these words, which may be empty, a line each: the
 * candidate, a tab, and a few words.  The words before it stand behind "errbus".  The line :files
 * asks the shell for names of files. */
int complete_print(const struct subcommand *subcommands, size_t count, int argc, char **argv);

#endif
