/* SPDX-License-Identifier: MPL-2.0 */
/* fedavg.c -- the worked example: one program, two roles. */
#include "clients/cli.h"
#include "clients/fedavg/fedavg.h"

#include <stdio.h>
#include <string.h>

static void print_help(FILE *file)
{
    fprintf(file, "usage: fedavg aggregator [flags] SILO...\n"
                  "       fedavg silo --shard K/N [flags]\n"
                  "       fedavg -h | --version\n"
                  "\n"
                  "Federated averaging over Errbus. Each silo trains a model on its own rows.\n"
                  "The aggregator averages their models. fedavg aggregator -h and fedavg silo -h\n"
                  "list the flags.\n");
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0) {
        print_help(stdout);
        return CLI_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("fedavg %s\n", bus_version());
        return CLI_OK;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* so that lines of several roles interleave */
    if (strcmp(argv[1], "aggregator") == 0) {
        return cli_end(aggregator_main(argc - 1, argv + 1));
    }
    if (strcmp(argv[1], "silo") == 0) {
        return cli_end(silo_main(argc - 1, argv + 1));
    }
    fprintf(stderr, "fedavg: unknown role '%.100s' (fedavg -h lists them)\n", argv[1]);
    return CLI_USAGE;
}
