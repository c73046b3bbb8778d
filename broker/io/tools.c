/* SPDX-License-Identifier: MPL-2.0 */
/* tools.c -- what errbusd does instead of being a broker; see tools.h. */
#include "broker/io/tools.h"

#include "broker/journal/journal.h"
#include "broker/journal/tool.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EXPLAIN_REPLICAS_MAX = 99 }; /* as of a broker (options.def) */
enum tool { TOOL_CHECK, TOOL_REPAIR, TOOL_EXPORT, TOOL_COUNT };
static const struct {
    const char *name;
    const char *what;
} tools[TOOL_COUNT] = {[TOOL_CHECK] = {"--check", "say whether a journal is whole, and end"},
                       [TOOL_REPAIR] = {"--repair", "cut out what is damaged, and end"},
                       [TOOL_EXPORT] = {"--export", "write a line of JSON a record, and end"}};

/* The last line is held back: it may say why the tool could do no more. */
struct lines {
    FILE *out;
    char held[JOURNAL_COMPLAINT_BYTES + 1024]; /* room for the longest line of tool.c */
};

static void print_line(void *arg, const char *line)
{
    struct lines *lines = arg;
    if (*lines->held != '\0')
        fprintf(lines->out, "%s\n", lines->held);
    snprintf(lines->held, sizeof lines->held, "%s", line);
}

static void print_last(const struct lines *lines, enum journal_err err)
{
    bool is_finding = err == JOURNAL_OK || err == JOURNAL_DAMAGED;
    if (*lines->held != '\0' && is_finding)
        fprintf(lines->out, "%s\n", lines->held);
    else if (*lines->held != '\0')
        fprintf(stderr, "errbusd: %s\n", lines->held);
}

/* What an export says goes to standard error, so its standard output has records alone. */
static enum journal_err run_tool(enum tool tool, const char *where)
{
    struct lines lines = {.out = tool == TOOL_EXPORT ? stderr : stdout};
    enum journal_err err = JOURNAL_OK;
    switch (tool) {
    case TOOL_CHECK: err = journal_check(where, print_line, &lines); break;
    case TOOL_REPAIR: err = journal_repair(where, print_line, &lines); break;
    case TOOL_EXPORT:
    case TOOL_COUNT: err = journal_export(where, stdout, print_line, &lines); break;
    }
    print_last(&lines, err);
    return err;
}

/* --explain-store CONNINFO [--replicas COUNT]. */
static int explain_store(int argc, char **argv)
{
    struct lines lines = {.out = stdout};
    unsigned long replicas = 1;
    char *end = "";
    bool is_given = argc == 5 && strcmp(argv[3], "--replicas") == 0;
    if (is_given)
        replicas = strtoul(argv[4], &end, 10);
    if ((argc != 3 && !is_given) || *end != '\0' || replicas > EXPLAIN_REPLICAS_MAX ||
        (is_given && !isdigit((unsigned char)argv[4][0]))) {
        fprintf(stderr,
                "errbusd: --explain-store takes a connection string, and --replicas with 0 to %d "
                "behind it\n",
                EXPLAIN_REPLICAS_MAX);
        return 2;
    }
    enum journal_err err = journal_explain_store(argv[2], (unsigned)replicas, print_line, &lines);
    fprintf(stdout, "%s\n", lines.held);
    return err == JOURNAL_OK && fflush(stdout) == 0 ? 0 : 1;
}

bool tools_run(int argc, char **argv, int *out_status)
{
    enum tool tool = TOOL_CHECK;
    while (argc > 1 && tool < TOOL_COUNT && strcmp(argv[1], tools[tool].name) != 0)
        tool++;
    if (argc == 2 && strcmp(argv[1], "--backup") == 0) {
        fprintf(stderr, "errbusd: --backup takes a directory, and options behind it\n");
        *out_status = 2;
        return true;
    }
    if (argc > 1 && strcmp(argv[1], "--explain-store") == 0) {
        *out_status = explain_store(argc, argv);
        return true;
    }
    if (argc < 2 || tool == TOOL_COUNT)
        return false;
    if (argc != 3) {
        fprintf(stderr, "errbusd: %s takes the directory of a journal and nothing else\n", argv[1]);
        *out_status = 2;
        return true;
    }
    enum journal_err err = run_tool(tool, argv[2]);
    if (fflush(stdout) != 0) {
        fprintf(stderr, "errbusd: cannot write to standard output\n");
        err = JOURNAL_IO;
    }
    *out_status = err == JOURNAL_OK ? 0 : 1;
    return true;
}

const char *tools_take_backup(int *argc, char ***argv)
{
    if (*argc < 3 || strcmp((*argv)[1], "--backup") != 0)
        return NULL;
    const char *to = (*argv)[2];
    (*argv)[2] = (*argv)[0];
    *argc -= 2;
    *argv += 2;
    return to;
}

int tools_back_up(const char *journal, const char *to)
{
    struct backup_done done;
    struct tm parts;
    char date[32] = "";
    char why[JOURNAL_COMPLAINT_BYTES] = "";
    if (journal_backup(journal, to, &done, why) != JOURNAL_OK) {
        fprintf(stderr, "errbusd: no backup was made: %s\n", why);
        return 1;
    }
    if (gmtime_r(&done.as_of.tv_sec, &parts) != NULL)
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
    printf("backed up '%s' in '%s' (records: %" PRIu64 ", files: %" PRIu64 "); whatever was "
           "acknowledged before %s.%06ldZ is in it\n",
           journal, to, done.records, done.segments, date, done.as_of.tv_nsec / 1000);
    if (fflush(stdout) == 0)
        return 0;
    fprintf(stderr, "errbusd: cannot write to standard output\n");
    return 1;
}

void tools_print_options(void)
{
    for (int tool = 0; tool < TOOL_COUNT; tool++) {
        char option[32];
        snprintf(option, sizeof option, "%s DIR", tools[tool].name);
        printf("  %-34s %s\n", option, tools[tool].what);
    }
    printf("\nCopy a journal, also while a broker writes it (options may follow that name it):\n"
           "  %-34s %s\n",
           "--backup DIR", "copy the journal to a new directory, and end");
    printf("\nLook at a database before a journal is kept in it:\n  %-34s %s\n",
           "--explain-store CONNINFO", "say what it has, for --replicas COUNT (1), and end");
}
