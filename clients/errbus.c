/* SPDX-License-Identifier: MPL-2.0 */
/* errbus.c -- the command line of Errbus: finds the subcommand and runs it. */
#include "clients/errbus.h"

#include "clients/cli.h"

#include <stdio.h>
#include <string.h>

static const struct subcommand {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} subcommands[] = {
#define SUBCOMMAND(name, summary) {#name, name##_main, summary},
#include "clients/subcommands.def"
#undef SUBCOMMAND
};
#define SUBCOMMAND_COUNT (sizeof subcommands / sizeof subcommands[0])

static void print_help(FILE *file)
{
    fprintf(file, "usage: errbus SUBCOMMAND [flags] [operands]\n"
                  "       errbus -h | --version\n\n");
    for (size_t i = 0; i < SUBCOMMAND_COUNT; i++) {
        fprintf(file, "  %-8s %s\n", subcommands[i].name, subcommands[i].summary);
    }
    fprintf(file,
            "\nFor one of them: errbus SUBCOMMAND -h, and the man page errbus-SUBCOMMAND(1).\n");
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return CLI_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("errbus %s\n", bus_version());
        return CLI_OK;
    }
    for (size_t i = 0; i < SUBCOMMAND_COUNT; i++) {
        if (strcmp(argv[1], subcommands[i].name) == 0) {
            return cli_end(subcommands[i].run(argc - 1, argv + 1));
        }
    }
    fprintf(stderr, "errbus: unknown subcommand '%.100s' (errbus -h lists them)\n", argv[1]);
    return CLI_USAGE;
}
