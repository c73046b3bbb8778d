/* SPDX-License-Identifier: MPL-2.0 */
/* web_flags.h -- the flags of errbus web, which two programs read: errbus, and errbus-web, which
 * alone is linked with libmicrohttpd. */
#ifndef CLIENTS_WEB_FLAGS_H
#define CLIENTS_WEB_FLAGS_H

#include "clients/cli.h"

#define WEB_LISTEN_DEFAULT "127.0.0.1:7372"

struct web_flags {
    const char *listen;
    const char *host;       /* NULL: none */
    const char *token_path; /* NULL: none */
    bool is_until_eof;      /* it ends when standard input ends */
};

/* As cli_start().  Operands are refused. */
bool web_flags_read(struct cli *cli, struct web_flags *flags, int argc, char **argv, int *out_exit);

#endif
