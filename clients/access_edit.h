/* SPDX-License-Identifier: MPL-2.0 */
/* access_edit.h -- adds a line to an access file, or takes one out. */
#ifndef CLIENTS_ACCESS_EDIT_H
#define CLIENTS_ACCESS_EDIT_H

#include "clients/cli.h"

/* The operands are the file, then the words of the line.  The file is written anew beside itself,
 * read as the broker would, and takes the old one's place only if it is well formed: whoever reads
 * it meanwhile finds the one or the other.  A line that is added where no file is begins one.
 * CLI_OK, or the exit code after saying what is wrong. */
int access_edit_add(const struct cli *cli);
int access_edit_remove(const struct cli *cli);

#endif
