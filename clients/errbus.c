/* SPDX-License-Identifier: MPL-2.0 */
/* errbus.c -- the command line of Errbus: finds the subcommand and runs it. */
#include "clients/errbus.h"

#include "clients/cli.h"
#include "clients/complete.h"
#include "clients/nearest.h"

#include <stdio.h>
#include <string.h>

static const struct subcommand subcommands[] = {
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
        fprintf(file, "  %-10s %s\n", subcommands[i].name, subcommands[i].summary);
    }
    fprintf(file,
            "\nFor one of them: errbus help SUBCOMMAND, and the man page errbus-SUBCOMMAND(1).\n");
}

static const struct subcommand *find(const char *name)
{
    for (size_t i = 0; i < SUBCOMMAND_COUNT; i++) {
        if (strcmp(name, subcommands[i].name) == 0) {
            return &subcommands[i];
        }
    }
    return NULL;
}

static int complain(const char *name)
{
    const char *names[SUBCOMMAND_COUNT];
    for (size_t i = 0; i < SUBCOMMAND_COUNT; i++) {
        names[i] = subcommands[i].name;
    }
    const char *meant = nearest_word(name, names, SUBCOMMAND_COUNT);
    fprintf(stderr, "errbus: unknown %s '%.100s'%s%s%s%s (errbus -h lists them)\n",
            name[0] == '-' ? "flag" : "subcommand", name,
            name[0] == '-' ? "; flags stand behind the SUBCOMMAND" : "",
            meant != NULL ? "; did you mean '" : "", meant != NULL ? meant : "",
            meant != NULL ? "'?" : "");
    return CLI_USAGE;
}

/* errbus help SUBCOMMAND: what its -h prints. */
static int help(char *name)
{
    char *words[] = {name, (char[]){"-h"}, NULL};
    const struct subcommand *found = find(name);
    return found != NULL ? found->run(2, words) : complain(name);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return CLI_USAGE;
    }
    if (argc > 2 && strcmp(argv[1], "help") == 0) {
        return help(argv[2]);
    }
    if (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return CLI_OK;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        printf("errbus %s\n", bus_version());
        return CLI_OK;
    }
    if (strcmp(argv[1], "__complete") == 0) { /* for the lines of errbus completion */
        return complete_print(subcommands, SUBCOMMAND_COUNT, argc - 2, argv + 2);
    }
    const struct subcommand *found = find(argv[1]);
    if (found != NULL) {
        return cli_end(found->run(argc - 1, argv + 1));
    }
    return complain(argv[1]);
}
