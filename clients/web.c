/* SPDX-License-Identifier: MPL-2.0 */
/* web.c -- errbus web: becomes the program errbus-web, which lies beside this one.  So errbus
 * itself is not linked with a library for HTTP. */
#include "clients/errbus.h"

#include "clients/web_flags.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROGRAM "errbus-web"

int web_main(int argc, char **argv)
{
    struct cli cli;
    struct web_flags flags;
    char path[PATH_MAX];
    int result = CLI_OK;
    char **words = calloc((size_t)argc + 1, sizeof *words); /* cli_start() puts argv in order */
    if (words == NULL) {
        fprintf(stderr, "errbus web: out of memory\n");
        return CLI_FAILED;
    }
    memcpy(words, argv, (size_t)argc * sizeof *words);
    if (web_flags_read(&cli, &flags, argc, argv, &result)) {
        ssize_t bytes = readlink("/proc/self/exe", path, sizeof path - sizeof PROGRAM - 1);
        path[bytes > 0 ? bytes : 0] = '\0';
        char *slash = strrchr(path, '/');
        char *name = slash != NULL ? slash + 1 : path;
        memcpy(name, PROGRAM, sizeof PROGRAM);
        (void)execv(path, words); /* it returns only if it failed */
        fprintf(stderr, "errbus web: cannot start %s: %s%s\n", path, strerror(errno),
                errno == ENOENT ? "; this build had no libmicrohttpd: install the package "
                                  "libmicrohttpd-dev, and build again"
                                : "");
        result = CLI_FAILED;
    }
    free(words);
    return result;
}
