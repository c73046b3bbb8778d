/* SPDX-License-Identifier: MPL-2.0 */
/* access.c -- errbus access: looks into an access file, changes it, and asks a broker about it. */
#include "clients/errbus.h"

#include "clients/access_edit.h"
#include "clients/access_who.h"
#include "clients/cli.h"

#include <bus/access.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct question {
    struct cli cli;
    struct bus_access *access;
    const char *name;
    const char *job;
    const char *party; /* the name's own, if no other was given */
};

/* CLI_OK, or the exit code after saying what is wrong. */
static int read_file(struct question *question, const char *path)
{
    struct bus_error *error = NULL;
    if (bus_access_read(path, &question->access, &error) == BUS_OK) {
        return CLI_OK;
    }
    fprintf(stderr, "%s: ", question->cli.program);
    cli_print_text(stderr, bus_error_message(error), "");
    fputc('\n', stderr);
    bus_error_unref(&error);
    return CLI_FAILED;
}

/* ---- check ------------------------------------------------------------------------------------*/

static int check(struct question *question)
{
    const struct bus_access_summary *summary = bus_access_summary(question->access);
    int result = CLI_OK;
    if (question->cli.is_json) {
        struct cli_json *line = cli_json_new();
        cli_json_text(line, "file", question->cli.argv[1]);
        cli_json_number(line, "names", summary->names);
        cli_json_number(line, "keys", summary->keys);
        cli_json_number(line, "uids", summary->uids);
        cli_json_number(line, "groups", summary->groups);
        cli_json_number(line, "rules", summary->rules);
        cli_json_number(line, "limits", summary->limits);
        (void)cli_json_print(&line, stdout);
    } else {
        cli_print_text(stdout, question->cli.argv[1], "");
        printf(": well formed; names: %" PRIu32 ", keys: %" PRIu32 ", uids: %" PRIu32
               ", groups: %" PRIu32 ", rules: %" PRIu32 ", limits: %" PRIu32 "\n",
               summary->names, summary->keys, summary->uids, summary->groups, summary->rules,
               summary->limits);
    }
    (void)cli_flush_output(&question->cli, &result);
    return result;
}

/* ---- explain ----------------------------------------------------------------------------------*/

/* One line: whether it is allowed, and by which line of the file. */
static void print_answer(const struct question *question, const char *what, const char *topic,
                         uint32_t line)
{
    if (question->cli.is_json) {
        struct cli_json *object = cli_json_new();
        cli_json_text(object, "name", question->name);
        cli_json_text(object, "job", question->job);
        cli_json_text(object, "party", question->party);
        cli_json_text(object, "what", what);
        cli_json_text(object, "topic", topic);
        cli_json_bool(object, "allowed", line != 0);
        cli_json_number(object, "line", line);
        (void)cli_json_print(&object, stdout);
        return;
    }
    printf("  %s%s", what, topic != NULL ? " " : "");
    cli_print_text(stdout, topic != NULL ? topic : "", "");
    if (line != 0) {
        printf(": yes, by line %" PRIu32 "\n", line);
    } else {
        printf(": no\n");
    }
}

static void explain_rights(const struct question *question)
{
    print_answer(
        question, bus_right_name(BUS_RIGHT_PARTY), NULL,
        bus_access_may_be(question->access, question->name, question->job, question->party));
    for (int right = BUS_RIGHT_TAP; right <= BUS_RIGHT_ADMIN; right *= 2) {
        print_answer(
            question, bus_right_name((enum bus_right)right), NULL,
            bus_access_may(question->access, question->name, (enum bus_right)right, question->job));
    }
}

/* One line: how much they may have in all, and by which line of the file. */
static void print_limit(const struct question *question, enum bus_limit limit)
{
    uint64_t amount = 0;
    uint32_t line = bus_access_limit(question->access, question->name, limit, &amount);
    if (question->cli.is_json) {
        struct cli_json *object = cli_json_new();
        cli_json_text(object, "name", question->name);
        cli_json_text(object, "limit", bus_limit_name(limit));
        if (line != 0) {
            cli_json_number(object, "amount", (int64_t)amount); /* at most 2^56 */
        }
        cli_json_number(object, "line", line);
        (void)cli_json_print(&object, stdout);
    } else if (line != 0) {
        printf("  at most %" PRIu64 " %s, by line %" PRIu32 "\n", amount,
               limit == BUS_LIMIT_RATE          ? "bytes a second"
               : limit == BUS_LIMIT_ATTACHMENTS ? "bytes of attachments"
                                                : bus_limit_name(limit),
               line);
    }
}

static int explain(struct question *question)
{
    const struct cli *cli = &question->cli;
    int result = CLI_OK;
    if (!bus_access_has(question->access, question->name)) {
        fprintf(stderr, "%s: nobody in '%.500s' is called '%.250s': no key or uid line has it\n",
                cli->program, cli->argv[1], question->name);
        return CLI_FAILED;
    }
    if (!cli->is_json) {
        cli_print_text(stdout, question->name, "");
        printf(" in job ");
        cli_print_text(stdout, question->job, "");
        printf(", as party ");
        cli_print_text(stdout, question->party, "");
        printf("\n");
    }
    explain_rights(question);
    for (int limit = BUS_LIMIT_CONNECTIONS; limit <= BUS_LIMIT_ATTACHMENTS; limit++) {
        print_limit(question, (enum bus_limit)limit);
    }
    for (int i = 3; i < cli->argc; i++) {
        uint32_t line = bus_access_may_read(question->access, question->name, question->job,
                                            question->party, cli->argv[i]);
        print_answer(question, "read", cli->argv[i], line);
        result = line == 0 ? CLI_DENIED : result;
    }
    int flushed = CLI_OK;
    return cli_flush_output(cli, &flushed) ? result : flushed;
}

/* ---- the program ------------------------------------------------------------------------------*/

static const char *first_of(const char *flag, const char *variable, const char *otherwise)
{
    const char *value = flag != NULL ? flag : getenv(variable);
    return value != NULL && *value != '\0' ? value : otherwise;
}

static int ask_explain(struct question *question)
{
    const struct cli *cli = &question->cli;
    if (cli->argc < 3) {
        return cli_usage(cli, "explain needs a file and a name");
    }
    question->name = cli->argv[2];
    question->job = first_of(cli->job, "ERRBUS_JOB", "default");
    question->party = cli->party != NULL ? cli->party : question->name;
    for (int i = 3; i < cli->argc; i++) {
        if (!cli_is_pattern(cli, cli->argv[i])) {
            return CLI_USAGE;
        }
    }
    int result = read_file(question, cli->argv[1]);
    return result == CLI_OK ? explain(question) : result;
}

static int ask_check(struct question *question)
{
    if (question->cli.argc != 2) {
        return cli_usage(&question->cli, "check needs a file and nothing else");
    }
    int result = read_file(question, question->cli.argv[1]);
    return result == CLI_OK ? check(question) : result;
}

int access_main(int argc, char **argv)
{
    struct question question = {
        .cli = {.program = "errbus access",
                .operands =
                    "check FILE | explain FILE NAME [TOPIC...] | add FILE WORD... | remove FILE "
                    "WORD... | who | reload",
                .summary = "Looks into an access file: whether it is well formed, or what somebody "
                           "may do in a job. Adds or removes a line. Asks a broker who is "
                           "connected, or has it read its file again.",
                .prints_lines = true,
                .exits = ",\n             1 the file cannot be read or a line is wrong, 6 a topic "
                         "may not be read"}};
    int result = CLI_OK;
    if (!cli_start(&question.cli, argc, argv, NULL, 0, &result)) {
        return result;
    }
    if (question.cli.argc > 0 && strcmp(question.cli.argv[0], "check") == 0) {
        result = ask_check(&question);
    } else if (question.cli.argc > 0 && strcmp(question.cli.argv[0], "explain") == 0) {
        result = ask_explain(&question);
    } else if (question.cli.argc > 0 && strcmp(question.cli.argv[0], "add") == 0) {
        result = access_edit_add(&question.cli);
    } else if (question.cli.argc > 0 && strcmp(question.cli.argv[0], "remove") == 0) {
        result = access_edit_remove(&question.cli);
    } else if (question.cli.argc > 0 && strcmp(question.cli.argv[0], "who") == 0) {
        result = access_who(&question.cli);
    } else if (question.cli.argc > 0 && strcmp(question.cli.argv[0], "reload") == 0) {
        result = access_reload(&question.cli);
    } else {
        result = cli_usage(&question.cli,
                           "expected 'check', 'explain', 'add', 'remove', 'who' or 'reload'");
    }
    bus_access_free(&question.access);
    return result;
}
