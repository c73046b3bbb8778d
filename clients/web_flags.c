/* SPDX-License-Identifier: MPL-2.0 */
/* web_flags.c -- see web_flags.h. */
#include "clients/web_flags.h"

bool web_flags_read(struct cli *cli, struct web_flags *out, int argc, char **argv, int *out_exit)
{
    *cli = (struct cli){.program = "errbus web",
                        .is_observer = true,
                        .operands = "",
                        .summary = "Serves a live page of a broker over HTTP, and its metrics and "
                                   "health: /metrics, /healthz and /readyz."};
    *out = (struct web_flags){.listen = WEB_LISTEN_DEFAULT};
    const struct cli_flag flags[] = {
        {'l', "listen", CLI_TEXT, &out->listen, "HOST:PORT",
         "listen there (" WEB_LISTEN_DEFAULT ")"},
        {0, "host", CLI_TEXT, &out->host, "NAME", "requests may name this host, too"},
        {0, "token", CLI_TEXT, &out->token_path, "FILE", "requests must have the token in it"},
        {0, "until-eof", CLI_YES, &out->is_until_eof, NULL, "end when standard input ends"},
    };
    if (!cli_start(cli, argc, argv, flags, sizeof flags / sizeof flags[0], out_exit)) {
        return false;
    }
    if (cli->argc != 0) {
        *out_exit = cli_usage(cli, "unexpected operand '%.100s'", cli->argv[0]);
        return false;
    }
    return true;
}
