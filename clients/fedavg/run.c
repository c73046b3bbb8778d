/* SPDX-License-Identifier: MPL-2.0 */
/* run.c -- which run of the job a party takes part in. */
#include "clients/fedavg/fedavg.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A party that was killed continues its run: the others may still be there.  If all of them have
 * ended, nobody waits for this party any more.  It leaves, and so has ended well in that run; then
 * it may begin the next one by joining again.  Once is enough: who is held back by others finds
 * them in the run, and works with them. */
int run_open(struct cli *cli, const struct bus_options *options)
{
    struct bus_run run;
    int result = cli_open(cli, options);
    if (result != CLI_OK || bus_run_get(cli->bus, &run) != BUS_OK || !run.is_continued) {
        return result;
    }
    printf("run %" PRIu32 " is over: leaves it for the next one\n", run.number);
    (void)cli_close(cli, CLI_FAILED); /* if this run was ended meanwhile, the next has begun */
    return cli_open(cli, options);
}

bool run_is_over(const struct cli *cli)
{
    struct bus_error *why = bus_failure(cli->bus);
    bool is_over = why != NULL && strcmp(bus_error_type(why), "errbus.attempt_over") == 0;
    if (is_over) {
        printf("%s\n", bus_error_message(why));
    }
    bus_error_unref(&why);
    return is_over;
}
