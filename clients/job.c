/* SPDX-License-Identifier: MPL-2.0 */
/* job.c -- errbus job: creates a job with members, shows it, ends it, removes it. */
#include "clients/errbus.h"

#include "clients/cli.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* The values of the flags; -1: not given. */
struct wish {
    int64_t min;
    int64_t max;
    int64_t join_window_ms;
    int64_t join_timeout_ms;
    int64_t settle_ms;
    int64_t max_restarts;
    int64_t deadline_ms;
    const char *pending;
    const char *strategy;
    const char *disclosure;
    const char *auditor;
    const char *deadlock;
    const char *why;
};

/* The name of a value, as the library has it. */
static const char *pending_word(int value)
{
    return bus_pending_name((enum bus_pending)value);
}

static const char *deadlock_word(int value)
{
    return bus_deadlock_name((enum bus_deadlock)value);
}

static const char *strategy_word(int value)
{
    return bus_strategy_name((enum bus_strategy)value);
}

static const char *disclosure_word(int value)
{
    return value == 0 ? "any" : bus_disclosure_name((enum bus_disclosure)value);
}

/* The value with this name, of those up to last; -1: there is none. */
static int find_word(const char *(*word_of)(int value), int last, const char *word)
{
    int value = 0;
    while (value <= last && strcmp(word_of(value), word) != 0) {
        value++;
    }
    return value <= last ? value : -1;
}

/* ---- create ---------------------------------------------------------------------------------- */

static void set_number(int64_t wish, uint32_t *out_number)
{
    if (wish >= 0) {
        *out_number = wish <= UINT32_MAX ? (uint32_t)wish : UINT32_MAX; /* too many, both */
    }
}

/* CLI_OK, or the exit code after saying what is wrong. */
static int read_wish(const struct cli *cli, const struct wish *wish,
                     struct bus_job_options *options)
{
    bus_job_options_init(options);
    set_number(wish->min, &options->min);
    set_number(wish->max, &options->max);
    set_number(wish->max_restarts, &options->max_restarts);
    if (wish->join_window_ms >= 0) {
        options->join_window_ms = wish->join_window_ms;
    }
    if (wish->join_timeout_ms >= 0) {
        options->join_timeout_ms = wish->join_timeout_ms > 0 ? wish->join_timeout_ms : BUS_FOREVER;
    }
    if (wish->settle_ms >= 0) {
        options->settle_ms = wish->settle_ms;
    }
    if (wish->deadline_ms >= 0) {
        options->deadline_ms = wish->deadline_ms;
    }
    if (wish->pending != NULL) {
        options->pending = find_word(pending_word, BUS_PENDING_REPLACE, wish->pending);
    }
    if (wish->strategy != NULL) {
        options->strategy = find_word(strategy_word, BUS_STRATEGY_FIRST, wish->strategy);
    }
    if (wish->disclosure != NULL) {
        options->disclosure = find_word(disclosure_word, BUS_DISCLOSURE_NONE, wish->disclosure);
    }
    if (wish->deadlock != NULL) {
        options->deadlock = find_word(deadlock_word, BUS_DEADLOCK_FAIL, wish->deadlock);
    }
    options->auditor = wish->auditor; /* the library says what is wrong with it */
    if (options->deadlock < 0) {
        return cli_usage(cli, "--deadlock takes tell or fail, not '%.100s'", wish->deadlock);
    }
    if (options->disclosure < 0) {
        return cli_usage(cli, "--disclosure takes full, message, type, none or any, not '%.100s'",
                         wish->disclosure);
    }
    if (options->pending < 0) {
        return cli_usage(cli, "--pending takes deliver or replace, not '%.100s'", wish->pending);
    }
    if (options->strategy < 0) {
        return cli_usage(cli, "--strategy takes causal, earliest or first, not '%.100s'",
                         wish->strategy);
    }
    return CLI_OK;
}

static int check_ranges(const struct cli *cli, const struct wish *wish)
{
    const struct cli_range ranges[] = {
        {"min", wish->min, 1, CLI_PARTIES_MAX, false},
        {"max", wish->max, wish->min > 1 ? wish->min : 1, CLI_PARTIES_MAX, false},
        {"max-restarts", wish->max_restarts, 0, CLI_RESTARTS_MAX, false},
        {"join-window", wish->join_window_ms, 0, CLI_DAY_MS, true},
        {"join-timeout", wish->join_timeout_ms, 0, CLI_DAY_MS, true},
        {"settle-window", wish->settle_ms, 0, CLI_DAY_MS, true},
        {"deadline", wish->deadline_ms, 1, CLI_YEAR_MS, true},
    };
    return cli_check_ranges(cli, ranges, sizeof ranges / sizeof *ranges);
}

static int create(const struct cli *cli, const struct wish *wish)
{
    struct bus_job_options options;
    struct bus_admin *admin = NULL;
    struct bus_error *error = NULL;
    int result = check_ranges(cli, wish);
    if (result == CLI_OK) {
        result = read_wish(cli, wish, &options);
    }
    if (result == CLI_OK) {
        result = cli_admin_open(cli, &admin);
    }
    if (result != CLI_OK) {
        return result;
    }
    enum bus_err err = bus_admin_job_create(admin, NULL, &options, cli_open_ms(cli), &error);
    return cli_admin_done(cli, &admin, err, &error);
}

/* ---- show ------------------------------------------------------------------------------------ */

static void print_seconds(const char *name, int64_t period_ms)
{
    if (period_ms < 0) {
        printf(", no %s", name);
    } else {
        printf(", %s %" PRId64 ".%03" PRId64 " s", name, period_ms / 1000, period_ms % 1000);
    }
}

static void print_member(const struct bus_job_member *member)
{
    if (member->rank >= 0) {
        printf("  rank %" PRId64 ": %s/%" PRIu32 ", %s\n", member->rank, member->party,
               member->incarnation, bus_state_name(member->state));
    } else {
        printf("  waiting: %s/%" PRIu32 ", %s\n", member->party, member->incarnation,
               bus_state_name(member->state));
    }
}

static void print_job(const struct bus_job *job)
{
    const struct bus_job_info *info = bus_job_info(job);
    printf("job %s: %s, attempt %" PRIu32 ", ", info->name, bus_state_name(info->state),
           info->attempt);
    if (info->epoch > 0) {
        printf("epoch %" PRIu64 ", members: %" PRIu32 "\n", info->epoch, info->world_size);
    } else {
        printf("no members yet\n");
    }
    printf("  min %" PRIu32, info->min);
    if (info->max > 0) {
        printf(", max %" PRIu32, info->max);
    }
    printf(", restarts %" PRIu32, info->max_restarts);
    print_seconds("join window", info->join_window_ms);
    print_seconds("join timeout", info->join_timeout_ms);
    print_seconds("settle window", info->settle_ms);
    print_seconds("deadline", info->deadline_ms);
    printf(", pending %s, strategy %s", pending_word(info->pending), strategy_word(info->strategy));
    if (info->disclosure != 0) {
        printf(", disclosure %s", disclosure_word(info->disclosure));
    }
    if (info->deadlock != BUS_DEADLOCK_TELL) {
        printf(", deadlock %s", deadlock_word(info->deadlock));
    }
    putchar('\n');
    if (info->auditor[0] != '\0') {
        printf("  auditor %s\n", info->auditor);
    }
    for (size_t i = 0; i < info->member_count; i++) {
        print_member(bus_job_member_at(job, i));
    }
    if (info->error != NULL) {
        cli_print_error(stdout, "  why", info->error);
    }
}

static void print_json(const struct bus_job *job)
{
    const struct bus_job_info *info = bus_job_info(job);
    struct cli_json *line = cli_json_new();
    cli_json_text(line, "job", info->name);
    cli_json_text(line, "state", bus_state_name(info->state));
    cli_json_number(line, "attempt", info->attempt);
    cli_json_number(line, "epoch", (int64_t)info->epoch);
    cli_json_number(line, "world_size", info->world_size);
    cli_json_number(line, "min", info->min);
    cli_json_number(line, "max", info->max);
    cli_json_number(line, "max_restarts", info->max_restarts);
    cli_json_number(line, "join_window_ms", info->join_window_ms);
    if (info->join_timeout_ms >= 0) {
        cli_json_number(line, "join_timeout_ms", info->join_timeout_ms);
    } else {
        cli_json_null(line, "join_timeout_ms");
    }
    cli_json_number(line, "settle_ms", info->settle_ms);
    if (info->deadline_ms >= 0) {
        cli_json_number(line, "deadline_ms", info->deadline_ms);
    } else {
        cli_json_null(line, "deadline_ms");
    }
    cli_json_text(line, "pending", pending_word(info->pending));
    cli_json_text(line, "strategy", strategy_word(info->strategy));
    cli_json_text(line, "disclosure", disclosure_word(info->disclosure));
    cli_json_text(line, "deadlock", deadlock_word(info->deadlock));
    if (info->auditor[0] != '\0') {
        cli_json_text(line, "auditor", info->auditor);
    }
    struct cli_json *members = cli_json_array(line, "members");
    for (size_t i = 0; i < info->member_count; i++) {
        const struct bus_job_member *member = bus_job_member_at(job, i);
        struct cli_json *object = cli_json_append(members);
        cli_json_text(object, "party", member->party);
        cli_json_number(object, "incarnation", member->incarnation);
        cli_json_text(object, "state", bus_state_name(member->state));
        if (member->rank >= 0) {
            cli_json_number(object, "rank", member->rank);
        } else {
            cli_json_null(object, "rank");
        }
    }
    if (info->error != NULL) {
        cli_json_error(line, "error", info->error);
    }
    cli_json_print(&line, stdout);
}

static int show(const struct cli *cli)
{
    struct bus_job *job = NULL;
    struct bus_admin *admin = NULL;
    struct bus_error *error = NULL;
    int result = cli_admin_open(cli, &admin);
    if (result != CLI_OK) {
        return result;
    }
    enum bus_err err = bus_admin_job_get(admin, NULL, cli_open_ms(cli), &job, &error);
    result = cli_admin_done(cli, &admin, err, &error);
    if (result != CLI_OK) {
        return result;
    }
    if (cli->is_json) {
        print_json(job);
    } else {
        print_job(job);
    }
    bus_job_free(&job);
    (void)cli_flush_output(cli, &result); /* result says it */
    return result;
}

/* ---- cancel ---------------------------------------------------------------------------------- */

static int cancel(const struct cli *cli, const struct wish *wish)
{
    struct bus_admin *admin = NULL;
    struct bus_error *error = NULL;
    int result = cli_admin_open(cli, &admin);
    if (result != CLI_OK) {
        return result;
    }
    enum bus_err err = bus_admin_job_cancel(admin, NULL, wish->why, cli_open_ms(cli), &error);
    return cli_admin_done(cli, &admin, err, &error);
}

/* ---- forget ---------------------------------------------------------------------------------- */

static void print_forgotten(const struct cli *cli, const struct bus_job_forgotten *gone)
{
    if (cli->is_json) {
        struct cli_json *line = cli_json_new();
        cli_json_number(line, "parties", gone->parties);
        cli_json_number(line, "topics", gone->topics);
        cli_json_number(line, "slots", (int64_t)gone->slots);
        cli_json_number(line, "slots_bytes", (int64_t)gone->slots_bytes);
        cli_json_number(line, "names", gone->names);
        cli_json_number(line, "dead", gone->dead);
        cli_json_print(&line, stdout);
        return;
    }
    printf("forgotten: %" PRIu32 " part%s, %" PRIu32 " topic%s with %" PRIu64 " slot%s (%" PRIu64
           " byte%s), %" PRIu32 " durable name%s and group%s, %" PRIu32 " dead letter%s\n",
           gone->parties, gone->parties == 1 ? "y" : "ies", gone->topics, cli_plural(gone->topics),
           gone->slots, cli_plural(gone->slots), gone->slots_bytes, cli_plural(gone->slots_bytes),
           gone->names, cli_plural(gone->names), cli_plural(gone->names), gone->dead,
           cli_plural(gone->dead));
}

static int forget(const struct cli *cli)
{
    struct bus_job_forgotten gone;
    struct bus_admin *admin = NULL;
    struct bus_error *error = NULL;
    int result = cli_admin_open(cli, &admin);
    if (result != CLI_OK) {
        return result;
    }
    enum bus_err err = bus_admin_job_forget(admin, NULL, cli_open_ms(cli), &gone, &error);
    if (err == BUS_OK) {
        print_forgotten(cli, &gone);
    }
    return cli_admin_done(cli, &admin, err, &error);
}

/* Whether a job was named: commands that end a job need its name. */
static bool is_named(const struct cli *cli)
{
    const char *job = getenv("ERRBUS_JOB");
    return cli->job != NULL || (job != NULL && *job != '\0');
}

int job_main(int argc, char **argv)
{
    struct wish wish = {-1, -1, -1, -1, -1, -1, -1, NULL, NULL, NULL, NULL, NULL, NULL};
    const struct cli_flag flags[] = {
        {0, "min", CLI_NUMBER, &wish.min, "N", "parties that the job needs (1)"},
        {0, "max", CLI_NUMBER, &wish.max, "N",
         "parties that take part at a time; more wait (no limit)"},
        {0, "max-restarts", CLI_NUMBER, &wish.max_restarts, "N", "attempts after the first (0)"},
        {0, "join-window", CLI_SECONDS, &wish.join_window_ms, "SECONDS",
         "wait so long for more than --min, and for spares (30)"},
        {0, "join-timeout", CLI_SECONDS, &wish.join_timeout_ms, "SECONDS",
         "fail if --min are not there within this time; 0: never (600)"},
        {0, "settle-window", CLI_SECONDS, &wish.settle_ms, "SECONDS",
         "wait so long for reports before the verdict is final (2)"},
        {0, "deadline", CLI_SECONDS, &wish.deadline_ms, "SECONDS",
         "the job fails if it is not done within this time (none)"},
        {0, "pending", CLI_TEXT, &wish.pending, "WHAT",
         "committed values of a failed party: deliver or replace (deliver)"},
        {0, "strategy", CLI_TEXT, &wish.strategy, "NAME",
         "of the verdict: causal, earliest or first (causal)"},
        {0, "disclosure", CLI_TEXT, &wish.disclosure, "LEVEL",
         "of errors, at most: full, message, type, none, any (any)"},
        {0, "auditor", CLI_TEXT, &wish.auditor, "KEY",
         "seal stack traces and attachments to this public key, ebp_... (nobody)"},
        {0, "deadlock", CLI_TEXT, &wish.deadlock, "WHAT",
         "of parties that wait for each other: tell or fail (tell)"},
        {0, "why", CLI_TEXT, &wish.why, "TEXT", "with cancel: the reason, for people"},
    };
    struct cli cli = {.program = "errbus job",
                      .prints_lines = true,
                      .is_observer = true,
                      .operands = "create|show|cancel|forget [JOB]",
                      .summary =
                          "Creates a job with members, shows its state, cancels it, or removes "
                          "it with all its values."};
    int result = CLI_OK;
    if (!cli_start(&cli, argc, argv, flags, sizeof flags / sizeof flags[0], &result)) {
        return result;
    }
    const char *verb = cli.argc > 0 ? cli.argv[0] : "";
    if (cli.argc > 2) {
        return cli_usage(&cli, "unexpected operand '%.100s'", cli.argv[2]);
    }
    cli.job = cli.argc == 2 ? cli.argv[1] : cli.job;
    if (strcmp(verb, "create") == 0) {
        return create(&cli, &wish);
    }
    if (strcmp(verb, "show") == 0) {
        return show(&cli);
    }
    bool is_forget = strcmp(verb, "forget") == 0;
    if (!is_forget && strcmp(verb, "cancel") != 0) {
        return cli_usage(&cli, "expected create, show, cancel or forget, not '%.100s'", verb);
    }
    if (!is_named(&cli)) {
        return cli_usage(&cli, "%s which job? Name it: errbus job %s JOB", verb, verb);
    }
    return is_forget ? forget(&cli) : cancel(&cli, &wish);
}
