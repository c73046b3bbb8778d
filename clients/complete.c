/* SPDX-License-Identifier: MPL-2.0 */
/* complete.c -- what may stand at the end of a command line: subcommands, flags, and the names that
 * a broker knows.
 *
 * Flags come from the table that parses them, and operands from the line of usage.  So nothing here
 * knows a subcommand.  A name goes onto a command line as it is, and parties choose names: only
 * names that no shell changes are candidates. */
#include "clients/complete.h"

#include "clients/cli.h"
#include "clients/shards.h"

#include <bus/admin.h>
#include <stdlib.h>
#include <string.h>

#define BROKER_MS INT64_C(500) /* a key was pressed: nobody waits for longer */
#define FILES ":files"         /* the shell completes the name of a file */
#define PLAIN                                                                                      \
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ"                                                                   \
    "abcdefghijklmnopqrstuvwxyz"                                                                   \
    "0123456789._-/@%+,"
enum { OPERANDS_MAX = 64, TOKEN_BYTES_MAX = 64 };

/* A command line up to the word that is to be completed. */
struct line {
    struct cli_table takes;
    const char *current;
    const char *operands[OPERANDS_MAX]; /* before the current word */
    size_t operand_count;
    const struct cli_flag *waiting; /* the flag whose value the current word is; NULL: none */
    const char *server;
    const char *job;
    bool is_behind; /* behind "--" */
};

static void print_candidate(const struct line *line, const char *word, const char *help)
{
    if (strncmp(word, line->current, strlen(line->current)) == 0) {
        printf("%s\t%.*s\n", word, (int)strcspn(help, "\n"), help);
    }
}

/* ---- names of the broker --------------------------------------------------------------------- */

static bool is_plain(const char *name)
{
    return name[0] != '-' && name[0] != '\0' && name[strspn(name, PLAIN)] == '\0';
}

static int64_t left_ms(int64_t end_ms)
{
    int64_t now_ms = cli_now_ms();
    return end_ms > now_ms ? end_ms - now_ms : 0;
}

static void print_rows(const struct line *line, struct bus_admin *admin, const char *job,
                       enum bus_status_kind kind, const char *help, int64_t end_ms)
{
    struct bus_status *status = NULL;
    bool is_known = bus_admin_status_get(admin, job, left_ms(end_ms), &status, NULL) == BUS_OK;
    for (size_t i = 0; is_known && i < bus_status_count(status); i++) {
        const struct bus_status_row *row = bus_status_at(status, i);
        if (row->kind == kind && is_plain(row->name)) {
            print_candidate(line, row->name, help);
        }
    }
    bus_status_free(&status);
}

/* The jobs of all brokers that are one bus. */
static void print_jobs(const struct line *line, struct bus_admin *admin,
                       const struct bus_admin_options *options, const char *help, int64_t end_ms)
{
    struct shards *shards = shards_new(admin);
    bool is_known = shards != NULL && shards_look(shards, left_ms(end_ms), NULL) == BUS_OK;
    for (size_t i = 0; is_known && i < shards_count(shards); i++) {
        struct bus_admin *of_it = NULL;
        if (shards_open(shards, i, options, left_ms(end_ms), &of_it, NULL) == BUS_OK) {
            print_rows(line, of_it, BUS_JOB_ALL, BUS_STATUS_JOB, help, end_ms);
        }
    }
    shards_free(&shards);
}

/* Silent when there is no broker, or no answer in time. */
static void print_names(const struct line *line, enum bus_status_kind kind, const char *help)
{
    struct bus_admin_options options;
    struct bus_admin *admin = NULL;
    int64_t end_ms = cli_now_ms() + BROKER_MS;
    bus_admin_options_init(&options);
    if (bus_admin_open(line->server, &options, BROKER_MS, &admin, NULL) != BUS_OK) {
        return;
    }
    if (kind == BUS_STATUS_JOB) {
        print_jobs(line, admin, &options, help, end_ms);
    } else {
        const char *job = line->job != NULL && *line->job != '\0' ? line->job : NULL;
        print_rows(line, admin, job, kind, help, end_ms);
    }
    bus_admin_close(&admin);
}

/* What a word of the usage stands for. */
static void print_placeholder(const struct line *line, const char *word)
{
    static const struct {
        const char *word;
        enum bus_status_kind kind;
        const char *help;
    } names[] = {
        {"JOB", BUS_STATUS_JOB, "job"},         {"PARTY", BUS_STATUS_PARTY, "party"},
        {"TOPIC", BUS_STATUS_TOPIC, "topic"},   {"TOPIC...", BUS_STATUS_TOPIC, "topic"},
        {"PATTERN", BUS_STATUS_TOPIC, "topic"}, {"GROUP", BUS_STATUS_GROUP, "group"},
    };
    static const char *const files[] = {"FILE", "KEYFILE", "SOURCE", "DIR", "PATH"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(word, names[i].word) == 0) {
            print_names(line, names[i].kind, names[i].help);
        }
    }
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (strcmp(word, files[i]) == 0) {
            printf(FILES "\n");
        }
    }
}

/* ---- operands -------------------------------------------------------------------------------- */

/* Takes the next word of a usage, without its brackets.  false: there is none. */
static bool next_token(const char **at, char token[TOKEN_BYTES_MAX])
{
    const char *from = *at + strspn(*at, " []");
    size_t bytes = strcspn(from, " []");
    *at = from + bytes;
    snprintf(token, TOKEN_BYTES_MAX, "%.*s", (int)bytes, from);
    return bytes > 0;
}

static bool is_literal(const char *word)
{
    return word[0] >= 'a' && word[0] <= 'z';
}

/* Whether the operand can stand for the token, as "list", "GROUP" or "replay|drop". */
static bool fits(const char *token, const char *operand)
{
    size_t bytes = strlen(operand);
    for (const char *at = token; *at != '\0';) {
        size_t length = strcspn(at, "|");
        if (!is_literal(at) || (length == bytes && strncmp(at, operand, bytes) == 0)) {
            return true;
        }
        at += length + (at[length] == '|');
    }
    return false;
}

static void print_token(const struct line *line, const char *token)
{
    for (const char *at = token; *at != '\0';) {
        char word[TOKEN_BYTES_MAX];
        size_t length = strcspn(at, "|");
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        if (is_literal(word)) {
            print_candidate(line, word, "");
        } else {
            print_placeholder(line, word);
        }
        at += length + (at[length] == '|');
    }
}

/* One way to call the subcommand: "show GROUP NUMBER". */
static void print_way(const struct line *line, const char *way)
{
    char token[TOKEN_BYTES_MAX];
    for (size_t i = 0; next_token(&way, token); i++) {
        if (strcmp(token, "--") == 0) {
            return;
        }
        if (i == line->operand_count) {
            print_token(line, token);
            return;
        }
        if (!fits(token, line->operands[i])) {
            return;
        }
    }
}

static void print_operands(const struct line *line)
{
    char usage[1024];
    char *rest = usage;
    snprintf(usage, sizeof usage, "%s", line->takes.operands);
    while (rest != NULL) {
        char *end = strstr(rest, " | ");
        const char *way = rest;
        rest = end != NULL ? end + 3 : NULL;
        if (end != NULL) {
            *end = '\0';
        }
        print_way(line, way);
    }
}

/* ---- flags ----------------------------------------------------------------------------------- */

static void print_flags(const struct line *line)
{
    for (size_t i = 0; i < line->takes.flag_count; i++) {
        char word[TOKEN_BYTES_MAX];
        snprintf(word, sizeof word, "--%s", line->takes.flags[i].name);
        print_candidate(line, word, line->takes.flags[i].help);
    }
}

static void print_value(const struct line *line)
{
    const struct cli_flag *flag = line->waiting;
    if (strcmp(flag->name, "job") == 0) {
        print_placeholder(line, "JOB");
    } else if (strcmp(flag->name, "party") == 0) {
        print_placeholder(line, "PARTY");
    } else {
        print_placeholder(line, flag->value);
    }
}

/* The flag that this word is: "--job", or "-j". */
static const struct cli_flag *find_flag(const struct line *line, const char *word)
{
    for (size_t i = 0; i < line->takes.flag_count; i++) {
        const struct cli_flag *flag = &line->takes.flags[i];
        bool is_letter =
            word[0] == '-' && flag->letter != 0 && word[1] == flag->letter && word[2] == '\0';
        if (is_letter || (strncmp(word, "--", 2) == 0 && strcmp(word + 2, flag->name) == 0)) {
            return flag;
        }
    }
    return NULL;
}

static void take_value(struct line *line, const struct cli_flag *flag, const char *value)
{
    if (strcmp(flag->name, "server") == 0) {
        line->server = value;
    } else if (strcmp(flag->name, "job") == 0) {
        line->job = value;
    } else if (strcmp(flag->name, "key") == 0) {
        (void)setenv("ERRBUS_KEY", value, 1); /* as cli_start() does; without it nobody answers */
    }
}

/* Sorts the words before the current one. */
static void read_words(struct line *line, int count, char **words)
{
    for (int i = 0; i < count; i++) {
        const struct cli_flag *flag = find_flag(line, words[i]);
        if (line->waiting != NULL) {
            take_value(line, line->waiting, words[i]);
            line->waiting = NULL;
        } else if (strcmp(words[i], "--") == 0) {
            line->is_behind = true;
        } else if (flag != NULL) {
            line->waiting = flag->kind != CLI_YES ? flag : NULL;
        } else if (words[i][0] != '-' && line->operand_count < OPERANDS_MAX) {
            line->operands[line->operand_count++] = words[i];
        }
    }
}

/* ---- the line -------------------------------------------------------------------------------- */

int complete_print(const struct subcommand *subcommands, size_t count, int argc, char **argv)
{
    struct line line = {.current = argc > 0 ? argv[argc - 1] : ""};
    const struct subcommand *found = NULL;
    for (size_t i = 0; i < count; i++) {
        if (argc < 2) {
            print_candidate(&line, subcommands[i].name, subcommands[i].summary);
        } else if (strcmp(argv[0], subcommands[i].name) == 0) {
            found = &subcommands[i];
        }
    }
    if (found == NULL) {
        return CLI_OK;
    }
    char *words[] = {argv[0], NULL};
    cli_ask_table(&line.takes);
    (void)found->run(1, words); /* it only says what it takes */
    cli_ask_table(NULL);
    read_words(&line, argc - 2, argv + 1);
    if (line.is_behind) {
        printf(FILES "\n");
    } else if (line.waiting != NULL) {
        print_value(&line);
    } else if (line.current[0] == '-') {
        print_flags(&line);
    } else {
        print_operands(&line);
    }
    return CLI_OK;
}
