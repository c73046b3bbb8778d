/* SPDX-License-Identifier: MPL-2.0 */
/* tools.h -- the tools of errbusd: --check, --repair, --export, --backup. */
#ifndef IO_TOOLS_H
#define IO_TOOLS_H

#include <stdbool.h>

/* False: the first word is no tool's, or that of a backup with a directory behind it.  Otherwise it
 * is done, and told on standard output.  out_status is how the process ends: 0, 1 damaged or not
 * done, 2 wrong use. */
bool tools_run(int argc, char **argv, int *out_status);

/* errbusd --backup DIR [OPTION...], where the options say which journal is meant.  Takes the first
 * two words out of the command line.  NULL: they are not there. */
const char *tools_take_backup(int *argc, char ***argv);
/* Copies the journal, and tells on standard output.  Returns how the process ends: 0 or 1. */
int tools_back_up(const char *journal, const char *to);

/* The lines of --help about them. */
void tools_print_options(void);

#endif
