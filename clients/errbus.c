/* SPDX-License-Identifier: MPL-2.0 */
/* errbus.c -- the command line of Errbus: finds the subcommand and hands over to it. */
#include "clients/errbus.h"

#include "clients/cli.h"

#include <stdio.h>
#include <string.h>

static const struct subcommand {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} subcommands[] = {
    {"pub", pub_main, "publishes values, or errors in their place"},
    {"sub", sub_main, "prints values, and the errors that took their place"},
    {"tap", tap_main, "follows a job's control topic: who joined, failed, was lost, and why"},
    {"errors", errors_main, "lists what failed in a job so far, or shows the whole of one error"},
    {"verdict", verdict_main, "shows why a job failed: the root, and what followed from it"},
    {"job", job_main, "creates a job with members, shows it, ends it"},
    {"dead", dead_main, "shows what no worker of a group could do; gives it again, or drops it"},
    {"request", request_main, "asks a group, and prints the reply, or the error in its place"},
    {"status", status_main, "shows journal, jobs, parties, topics, subscriptions and groups"},
    {"run", run_main, "starts a program as a party, and tells the others how it ends"},
    {"worker", worker_main, "runs a command for each task of a group; its output is the reply"},
};
#define SUBCOMMAND_COUNT (sizeof subcommands / sizeof subcommands[0])

static void print_help(FILE *file)
{
    fprintf(file, "usage: errbus SUBCOMMAND [flags] [operands]\n"
                  "       errbus -h | --version\n\n");
    for (size_t i = 0; i < SUBCOMMAND_COUNT; i++) {
        fprintf(file, "  %-8s %s\n", subcommands[i].name, subcommands[i].summary);
    }
    fprintf(file, "\nerrbus SUBCOMMAND -h explains one of them; so does errbus-SUBCOMMAND(1).\n");
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
            return subcommands[i].run(argc - 1, argv + 1);
        }
    }
    fprintf(stderr, "errbus: there is no subcommand '%.100s' (errbus -h lists them)\n", argv[1]);
    return CLI_USAGE;
}
