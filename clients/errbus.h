/* SPDX-License-Identifier: MPL-2.0 */
/* errbus.h -- the subcommands: name_main() of each returns the exit status of the process. */
#ifndef CLIENTS_ERRBUS_H
#define CLIENTS_ERRBUS_H

struct subcommand {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
};

#define SUBCOMMAND(name, summary) int name##_main(int argc, char **argv);
#include "clients/subcommands.def"
#undef SUBCOMMAND

#endif
