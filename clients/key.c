/* SPDX-License-Identifier: MPL-2.0 */
/* key.c -- errbus key: makes a key, prints its public half, takes over a key of ZeroMQ. */
#include "clients/errbus.h"

#include "clients/cli.h"

#include <bus/access.h>
#include <limits.h>
#include <string.h>

/* The file that --file names, or the usual one.  CLI_OK, or the exit code after saying why not. */
static int choose_path(const struct cli *cli, const char *given, char path[PATH_MAX])
{
    struct bus_error *error = NULL;
    enum bus_err err = BUS_OK;
    if (given == NULL) {
        err = bus_key_path(path, PATH_MAX, &error);
    } else if (strlen(given) < PATH_MAX) {
        memcpy(path, given, strlen(given) + 1);
    } else {
        return cli_usage(cli, "the path of the key is longer than %d bytes", PATH_MAX);
    }
    return err == BUS_OK ? CLI_OK : cli_report(cli, err, &error);
}

/* Prints the public half alone, so that a script may take it. */
static int print_public(const struct cli *cli, const char *path, const char *public_text,
                        const char *note)
{
    int result = CLI_OK;
    if (note != NULL) {
        fprintf(stderr, "%s: %s '%.500s'; send the line below to the operator of the broker\n",
                cli->program, note, path);
    }
    printf("%s\n", public_text);
    (void)cli_flush_output(cli, &result);
    return result;
}

static int run(const struct cli *cli, const char *given)
{
    char path[PATH_MAX];
    char public_text[BUS_KEY_TEXT_BYTES] = "";
    struct bus_error *error = NULL;
    enum bus_err err = BUS_OK;
    const char *verb = cli->argc > 0 ? cli->argv[0] : "";
    const char *note = NULL;
    bool is_import = strcmp(verb, "import") == 0;
    if (!is_import && strcmp(verb, "new") != 0 && strcmp(verb, "show") != 0) {
        return cli_usage(cli, "expected 'new', 'show' or 'import'");
    }
    if (cli->argc != (is_import ? 2 : 1)) {
        return cli_usage(cli,
                         is_import ? "import needs the file to take the key from"
                                   : "'%.10s' takes no operand",
                         verb);
    }
    int result = choose_path(cli, given, path);
    if (result != CLI_OK) {
        return result;
    }
    if (is_import) {
        err = bus_key_import(path, cli->argv[1], public_text, &error);
        note = "took the key over to";
    } else if (strcmp(verb, "new") == 0) {
        err = bus_key_new(path, public_text, &error);
        note = "made the key";
    } else {
        err = bus_key_show(path, public_text, &error);
    }
    if (err == BUS_OK) {
        return print_public(cli, path, public_text, note);
    }
    return cli_report(cli, err, &error);
}

int key_main(int argc, char **argv)
{
    const char *path = NULL;
    struct cli cli = {.program = "errbus key",
                      .operands = "new | show | import SOURCE",
                      .is_observer = true,
                      .summary = "Makes a key, prints the public half of one, or takes one over "
                                 "from a file of ZeroMQ."};
    const struct cli_flag flags[] = {
        {'f', "file", CLI_TEXT, &path, "FILE", "the key (ERRBUS_KEY, ~/.config/errbus/key)"},
    };
    int result = CLI_OK;
    if (!cli_start(&cli, argc, argv, flags, sizeof flags / sizeof flags[0], &result)) {
        return result;
    }
    return run(&cli, path);
}
