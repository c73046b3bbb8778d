/* SPDX-License-Identifier: MPL-2.0 */
/* cli.c -- flags, opening and closing, signals, messages and exit codes of the programs. */
#include "clients/cli.h"

#include "clients/nearest.h"
#include "clients/text_table.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LETTERS_BYTES_MAX (2 * CLI_FLAGS_MAX + 2) /* ':' first, two a flag, and the NUL */
#define SECONDS_MAX INT64_C(1000000000)           /* thirty years, and no overflow in nanoseconds */

/* ---- flags ------------------------------------------------------------------------------------*/

const char *cli_plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

bool cli_number_read(const char *text, int64_t *out_number)
{
    char *end = NULL;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0) {
        return false;
    }
    *out_number = number;
    return true;
}

/* Reads digits, perhaps with a point and further digits.  It cuts what is finer than a
 * millisecond. */
bool cli_seconds_read(const char *text, int64_t *out_ms)
{
    int64_t seconds = 0;
    int64_t ms = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9' && seconds <= SECONDS_MAX; at++) {
        seconds = seconds * 10 + (*at - '0');
    }
    size_t digits = (size_t)(at - text);
    if (*at == '.') {
        int64_t weight = 100;
        for (at++; *at >= '0' && *at <= '9'; at++, digits++, weight /= 10) {
            ms += weight * (*at - '0');
        }
    }
    if (*at != '\0' || digits == 0 || seconds > SECONDS_MAX) {
        return false;
    }
    *out_ms = seconds * 1000 + ms;
    return true;
}

bool cli_event_id_read(const char *text, uint64_t *out_id)
{
    int64_t id = 1;
    bool is_now = strcmp(text, "now") == 0;
    if (!is_now && strcmp(text, "oldest") != 0 && !cli_number_read(text, &id)) {
        return false;
    }
    *out_id = is_now ? BUS_TAP_NOW : (uint64_t)id;
    return true;
}

static bool set_flag(const struct cli_flag *flag, char *text, char *problem)
{
    switch (flag->kind) {
    case CLI_YES: *(bool *)flag->out = true; return true;
    case CLI_TEXT: *(const char **)flag->out = text; return true;
    case CLI_NUMBER:
        if (cli_number_read(text, flag->out)) {
            return true;
        }
        snprintf(problem, CLI_PROBLEM_BYTES_MAX,
                 "--%s takes a whole number of at least 0, not '%.100s'", flag->name, text);
        return false;
    case CLI_SECONDS:
        if (cli_seconds_read(text, flag->out)) {
            return true;
        }
        snprintf(problem, CLI_PROBLEM_BYTES_MAX, "--%s takes a number of seconds, not '%.100s'",
                 flag->name, text);
        return false;
    }
    return false;
}

static const struct cli_flag *find_letter(const struct cli_flag *flags, size_t count, int letter)
{
    for (size_t i = 0; i < count; i++) {
        if (flags[i].letter != 0 && flags[i].letter == letter) {
            return &flags[i];
        }
    }
    return NULL;
}

/* Makes the two tables that getopt_long() needs. */
static void make_getopt_tables(const struct cli_flag *flags, size_t count, struct option *longs,
                               char *letters)
{
    *letters++ = ':';
    for (size_t i = 0; i < count; i++) {
        int has_value = flags[i].kind == CLI_YES ? no_argument : required_argument;
        longs[i] = (struct option){flags[i].name, has_value, NULL, 0};
        if (flags[i].letter != 0) {
            *letters++ = (char)flags[i].letter;
            if (has_value == required_argument) {
                *letters++ = ':';
            }
        }
    }
    longs[count] = (struct option){NULL, 0, NULL, 0};
    *letters = '\0';
}

/* Says that a long flag is unknown, and names the flag that is nearest to it. */
static void describe_unknown(const struct cli_flag *flags, size_t count, const char *word,
                             char *problem)
{
    const char *names[CLI_FLAGS_MAX];
    char name[NEAREST_BYTES_MAX + 2];
    for (size_t i = 0; i < count; i++) {
        names[i] = flags[i].name;
    }
    const char *bare = word + strspn(word, "-");
    snprintf(name, sizeof name, "%.*s", (int)strcspn(bare, "="), bare);
    const char *meant = nearest_word(name, names, count);
    if (meant != NULL && strcmp(meant, name) == 0) {
        snprintf(problem, CLI_PROBLEM_BYTES_MAX, "--%s takes no value, as '%.100s' has", meant,
                 word);
    } else {
        snprintf(problem, CLI_PROBLEM_BYTES_MAX, "unknown flag '%.100s'%s%s%s", word,
                 meant != NULL ? "; did you mean --" : "", meant != NULL ? meant : "",
                 meant != NULL ? "?" : "");
    }
}

bool cli_flags_read(const struct cli_flag *flags, size_t count, int argc, char **argv,
                    int *out_operands_at, char problem[CLI_PROBLEM_BYTES_MAX])
{
    struct option longs[CLI_FLAGS_MAX + 1];
    char letters[LETTERS_BYTES_MAX];
    if (count > CLI_FLAGS_MAX) {
        snprintf(problem, CLI_PROBLEM_BYTES_MAX, "more than %d flags", CLI_FLAGS_MAX);
        return false;
    }
    make_getopt_tables(flags, count, longs, letters);

    opterr = 0;
    optind = 0; /* glibc: starts a new scan */
    for (;;) {
        int at = -1;
        int letter = getopt_long(argc, argv, letters, longs, &at);
        if (letter == -1) {
            break;
        }
        if (letter == ':') {
            snprintf(problem, CLI_PROBLEM_BYTES_MAX, "'%.100s' needs a value", argv[optind - 1]);
            return false;
        }
        if (letter == '?') {
            /* optopt is an unknown letter; 0, or a letter of ours, if the whole word is unknown. */
            if (find_letter(flags, count, optopt) == NULL && optopt != 0) {
                snprintf(problem, CLI_PROBLEM_BYTES_MAX, "unknown flag '-%c'", optopt);
            } else {
                describe_unknown(flags, count, argv[optind - 1], problem);
            }
            return false;
        }
        const struct cli_flag *flag = letter == 0 ? &flags[at] : find_letter(flags, count, letter);
        if (flag == NULL || !set_flag(flag, optarg, problem)) {
            return false;
        }
    }
    *out_operands_at = optind;
    return true;
}

/* ---- starting ---------------------------------------------------------------------------------*/

int64_t cli_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Opens /dev/null in place of each standard stream that is closed.  Otherwise the next socket would
 * get its number, and code that means the stream would use the socket.  /dev/null is opened in the
 * wrong direction, so that using it is still an error. */
static void hold_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) == -1) {
            (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY); /* the lowest: fd */
        }
    }
}

static void ignore_sigpipe(void)
{
    struct sigaction action = {.sa_handler = SIG_IGN};
    sigemptyset(&action.sa_mask);
    sigaction(SIGPIPE, &action, NULL);
}

static void print_flag(const struct cli_flag *flag)
{
    char name[64];
    snprintf(name, sizeof name, "--%s%s%s", flag->name, flag->value != NULL ? " " : "",
             flag->value != NULL ? flag->value : "");
    if (flag->letter != 0) {
        printf("  -%c, %-24s %s\n", flag->letter, name, flag->help);
    } else {
        printf("      %-24s %s\n", name, flag->help);
    }
}

static void print_help(const struct cli *cli, const struct cli_flag *flags, size_t count)
{
    printf("usage: %s [flags]%s%s\n%s\n\n", cli->program, cli->operands[0] != '\0' ? " " : "",
           cli->operands, cli->summary);
    for (size_t i = 0; i < count; i++) {
        print_flag(&flags[i]);
    }
    printf(
        "\nexit status: 0 success, 1 own failure, 2 wrong usage, 3 a remote error was received,\n"
        "             4 timeout, 5 broker lost, 6 denied or fenced%s\n",
        cli->exits != NULL ? cli->exits : "");
}

int cli_usage(const struct cli *cli, const char *format, ...)
{
    va_list args;
    fprintf(stderr, "%s: ", cli->program);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, " (see -h)\n");
    return CLI_USAGE;
}

int cli_check_ranges(const struct cli *cli, const struct cli_range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct cli_range *range = &ranges[i];
        double unit = range->is_seconds ? 1000 : 1;
        if (range->value >= 0 && (range->value < range->least || range->value > range->most)) {
            return cli_usage(cli, "--%s takes %.9g to %.9g%s, not %.12g", range->flag,
                             (double)range->least / unit, (double)range->most / unit,
                             range->is_seconds ? " seconds" : "", (double)range->value / unit);
        }
    }
    return CLI_OK;
}

static struct cli_table *asked_table; /* NULL: programs start */

void cli_ask_table(struct cli_table *table)
{
    asked_table = table;
}

bool cli_start(struct cli *cli, int argc, char **argv, const struct cli_flag *own, size_t own_count,
               int *out_exit)
{
    static char error_lines[16384];
    bool wants_help = false;
    /* One write for each line: the lines of processes that share a terminal do not mix. */
    (void)setvbuf(stderr, error_lines, _IOLBF, sizeof error_lines);
    const struct cli_flag common[] = {
        {'s', "server", CLI_TEXT, &cli->server, "ENDPOINT",
         "the broker's control endpoint (ERRBUS_SERVER)"},
        {'j', "job", CLI_TEXT, &cli->job, "NAME", "the job (ERRBUS_JOB)"},
        {'p', "party", CLI_TEXT, &cli->party, "NAME",
         cli->is_observer ? "accepted, without effect"
                          : "the party that this process is (ERRBUS_PARTY)"},
        {'k', "key", CLI_TEXT, &cli->key, "FILE",
         "its key, for a broker that asks for one (ERRBUS_KEY)"},
        {'W', "wait", CLI_SECONDS, &cli->wait_ms, "SECONDS",
         "end after this time, a fraction is allowed (no limit)"},
        {'h', "help", CLI_YES, &wants_help, NULL, "print this help and end"},
        {'C', "count", CLI_NUMBER, &cli->count, "N",
         cli->count_help != NULL ? cli->count_help : "accepted, without effect"},
        {0, "json", CLI_YES, &cli->is_json, NULL, "print each line as a JSON object"},
    };
    const size_t common_count = sizeof common / sizeof common[0] - (cli->prints_lines ? 0 : 2);
    struct cli_flag flags[CLI_FLAGS_MAX];
    char problem[CLI_PROBLEM_BYTES_MAX] = "";
    int operands_at = 0;

    cli->count = -1;
    cli->wait_ms = BUS_FOREVER;
    cli->started_ms = cli_now_ms();
    hold_streams();
    ignore_sigpipe();
    if (own_count > CLI_FLAGS_MAX - common_count) {
        *out_exit = cli_usage(cli, "more than %d flags", CLI_FLAGS_MAX);
        return false;
    }
    if (own_count > 0) {
        memcpy(flags, own, own_count * sizeof *own);
    }
    memcpy(flags + own_count, common, common_count * sizeof *common);
    if (asked_table != NULL) {
        asked_table->flag_count = own_count + common_count;
        asked_table->operands = cli->operands;
        memcpy(asked_table->flags, flags, asked_table->flag_count * sizeof *flags);
        *out_exit = CLI_OK;
        return false;
    }

    if (!cli_flags_read(flags, own_count + common_count, argc, argv, &operands_at, problem)) {
        *out_exit = cli_usage(cli, "%s", problem);
        return false;
    }
    if (cli->key != NULL && cli->key[0] == '\0') {
        *out_exit = cli_usage(cli, "--key needs the path of a file");
        return false;
    }
    if (cli->key != NULL) {
        (void)setenv("ERRBUS_KEY", cli->key, 1); /* for each connection, and for what it starts */
    }
    cli->argc = argc - operands_at;
    cli->argv = argv + operands_at;
    if (wants_help) {
        print_help(cli, flags, own_count + common_count);
        *out_exit = CLI_OK;
        return false;
    }
    return true;
}

bool cli_has_party(const struct cli *cli)
{
    const char *value = getenv("ERRBUS_PARTY");
    return cli->party != NULL || (value != NULL && value[0] != '\0');
}

void cli_default_party(struct cli *cli, const char *party)
{
    if (!cli_has_party(cli)) {
        cli->party = party;
    }
}

int64_t cli_left_ms(const struct cli *cli)
{
    if (cli->wait_ms < 0) {
        return BUS_FOREVER;
    }
    int64_t left_ms = cli->started_ms + cli->wait_ms - cli_now_ms();
    return left_ms > 0 ? left_ms : 0;
}

int64_t cli_left_within(const struct cli *cli, int64_t bound_ms)
{
    int64_t left_ms = cli_left_ms(cli);
    return left_ms < 0 || left_ms > bound_ms ? bound_ms : left_ms;
}

/* ---- signals ----------------------------------------------------------------------------------*/

static _Atomic(struct bus *) watched_bus;
static _Atomic(struct bus_tap *) watched_tap;
static atomic_int signals_seen;
static atomic_int signal_first;      /* the number of the first of them */
static atomic_int signals_heard = 1; /* after so many signals the bus is stopped */
static int stop_pipe[2] = {-1, -1};

static void on_signal(int number)
{
    int errno_before = errno;
    int heard = atomic_load(&signals_heard);
    int seen = atomic_fetch_add(&signals_seen, 1) + 1;
    if (seen == 1) {
        atomic_store(&signal_first, number);
    }
    if (seen > heard) {
        _exit(128 + number); /* one more signal: end at once */
    }
    struct bus *bus = atomic_load(&watched_bus);
    if (bus != NULL && seen == heard) {
        bus_stop(bus);
    }
    struct bus_tap *tap = atomic_load(&watched_tap);
    if (tap != NULL && seen == heard) {
        bus_tap_stop(tap);
    }
    /* If the pipe is full, the waiting thread is woken already.  If it is closed, nobody waits. */
    ssize_t written = write(stop_pipe[1], "", 1);
    (void)written;
    errno = errno_before;
}

bool cli_is_stopped(void)
{
    return atomic_load(&signals_seen) != 0;
}

/* Ends by the signal itself, not by a status.  So a shell ends its loop, and a service manager sees
 * the end that it asked for. */
int cli_end(int result)
{
    int number = atomic_load(&signal_first);
    if (number == 0) {
        return result;
    }
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigemptyset(&action.sa_mask);
    (void)fflush(NULL); /* nobody is left to whom a failure could be told */
    (void)sigaction(number, &action, NULL);
    (void)raise(number);
    return 128 + number;
}

void cli_take_time(void)
{
    atomic_store(&signals_heard, 2);
}

int cli_signal_count(void)
{
    return atomic_load(&signals_seen);
}

int cli_stop_fd(void)
{
    return stop_pipe[0];
}

void cli_watch(struct bus *bus, struct bus_tap *tap)
{
    atomic_store(&watched_bus, bus);
    atomic_store(&watched_tap, tap);
    if (stop_pipe[0] < 0 && pipe2(stop_pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
        perror("errbus: pipe");
        exit(CLI_FAILED);
    }
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

enum cli_woken cli_wait(const struct cli *cli, int fd, int64_t timeout_ms)
{
    struct pollfd fds[] = {
        {.fd = stop_pipe[0], .events = POLLIN},
        {.fd = cli->bus != NULL ? bus_failure_fd(cli->bus) : -1, .events = POLLIN},
        {.fd = fd, .events = POLLIN},
    };
    int64_t until_ms = timeout_ms < 0 ? -1 : cli_now_ms() + timeout_ms;
    for (;;) {
        int64_t left_ms = until_ms < 0 ? -1 : until_ms - cli_now_ms();
        if (until_ms >= 0 && left_ms < 0) {
            left_ms = 0;
        }
        int ready = poll(fds, 3, left_ms > INT32_MAX ? INT32_MAX : (int)left_ms);
        if (fds[0].revents != 0 && ready > 0) {
            return CLI_WOKEN_STOP;
        }
        if (fds[1].revents != 0 && ready > 0) {
            return CLI_WOKEN_OVER;
        }
        if (fds[2].revents != 0 && ready > 0) {
            return CLI_WOKEN_READABLE;
        }
        if (ready == 0 && until_ms >= 0 && cli_now_ms() >= until_ms) {
            return CLI_WOKEN_TIME;
        }
    }
}

/* ---- opening, closing, reporting --------------------------------------------------------------*/

void cli_bus_options(const struct cli *cli, struct bus_options *options)
{
    bus_options_init(options);
    options->job = cli->job;
    options->party = cli->party;
    options->send_timeout_ms = cli_left_ms(cli);
    options->broker_lost_ms = CLI_LOST_MS;
    options->run_rule = cli->run_rule;
    options->on_doubt = cli_tell_doubt;
    options->on_doubt_arg = cli_doubt_arg(cli);
}

int64_t cli_open_ms(const struct cli *cli)
{
    int64_t left_ms = cli_left_ms(cli);
    return left_ms < 0 ? CLI_LOST_MS : left_ms;
}

/* The broker knows the key, and no party was named: an access file has none of the name that it
 * then gets. */
static bool lacks_party(const struct cli *cli, enum bus_err err, const struct bus_error *error)
{
    return err == BUS_EDENIED && !cli_has_party(cli) && bus_error_party(error)[0] != '\0' &&
           strcmp(bus_error_type(error), "errbus.not_authorised") == 0;
}

int cli_open(struct cli *cli, const struct bus_options *options)
{
    struct bus_options defaults;
    struct bus_error *error = NULL;
    if (options == NULL) {
        cli_bus_options(cli, &defaults);
        options = &defaults;
    }
    cli_waiting_begin(cli);
    enum bus_err err = bus_open(cli->server, options, cli_open_ms(cli), &cli->bus, &error);
    cli_waiting_end();
    if (err != BUS_OK) {
        bool is_nameless = lacks_party(cli, err, error);
        int result = cli_report(cli, err == BUS_ETIMEDOUT ? BUS_ELOST : err, &error);
        if (is_nameless) {
            fprintf(stderr,
                    "%s: no party was named: name one that the access file allows, with -p or "
                    "ERRBUS_PARTY\n",
                    cli->program);
        }
        return result;
    }
    cli->is_broker_known = true;
    cli_watch(cli->bus, NULL);
    return CLI_OK;
}

void cli_admin_options(const struct cli *cli, struct bus_admin_options *options)
{
    bus_admin_options_init(options);
    options->job = cli->job;
    options->is_patient = !cli->is_observer || cli->wait_ms >= 0;
    options->on_doubt = cli_tell_doubt;
    options->on_doubt_arg = cli_doubt_arg(cli);
}

int cli_admin_open(const struct cli *cli, struct bus_admin **out_admin)
{
    struct bus_admin_options options;
    struct bus_error *error = NULL;
    cli_admin_options(cli, &options);
    cli_waiting_begin(cli);
    enum bus_err err = bus_admin_open(cli->server, &options, cli_open_ms(cli), out_admin, &error);
    cli_waiting_end();
    return cli_report(cli, err == BUS_ETIMEDOUT ? BUS_ELOST : err, &error);
}

int cli_find_job(const struct cli *cli, struct bus_admin *admin)
{
    struct bus_job *job = NULL;
    struct bus_error *error = NULL;
    const char *name = getenv("ERRBUS_JOB");
    if (cli->job == NULL && (name == NULL || *name == '\0')) {
        return CLI_OK;
    }
    enum bus_err err = bus_admin_job_get(admin, NULL, cli_open_ms(cli), &job, &error);
    bus_job_free(&job);
    return cli_report(cli, err == BUS_ETIMEDOUT ? BUS_ELOST : err, &error);
}

int cli_admin_done(const struct cli *cli, struct bus_admin **admin, enum bus_err err,
                   struct bus_error **error)
{
    bus_admin_close(admin);
    return cli_report(cli, err == BUS_ETIMEDOUT ? BUS_ELOST : err, error);
}

void cli_answered(struct cli *cli)
{
    cli->answered_ms = cli_now_ms();
}

bool cli_is_only_over(const struct cli *cli, int64_t bound_ms)
{
    return cli->answered_ms > 0 && cli_left_ms(cli) == 0 &&
           cli_now_ms() - cli->answered_ms < bound_ms;
}

enum bus_err cli_unanswered(const struct cli *cli, enum bus_err err)
{
    return err == BUS_ETIMEDOUT && !cli_is_only_over(cli, CLI_LOST_MS) ? BUS_ELOST : err;
}

bool cli_pause(const struct cli *cli, int64_t pause_ms)
{
    return cli_wait(cli, -1, cli_left_within(cli, pause_ms)) == CLI_WOKEN_TIME &&
           cli_left_ms(cli) != 0;
}

bool cli_pause_or_end(const struct cli *cli, int64_t pause_ms, int *out_exit)
{
    if (cli_pause(cli, pause_ms)) {
        return true;
    }
    if (cli_left_ms(cli) == 0 && !cli_is_stopped() && *out_exit == CLI_OK) {
        *out_exit = cli_report(cli, BUS_ETIMEDOUT, NULL);
    }
    return false;
}

int cli_close(struct cli *cli, int result)
{
    cli_watch(NULL, NULL);
    cli_notices_end();
    enum bus_err err = bus_close(&cli->bus, CLI_CLOSE_MS);
    if (err == BUS_OK || err == BUS_ECLOSED || result != CLI_OK) {
        return result;
    }
    return cli_report(cli, err, NULL);
}

bool cli_is_anothers(const struct cli *cli, const char *topic)
{
    const char *party = bus_party(cli->bus);
    const char *slash = strchr(topic, '/');
    bool is_topic = topic[0] != '/' && topic[0] != '\0' && topic[strlen(topic) - 1] != '/' &&
                    strstr(topic, "//") == NULL && strpbrk(topic, "+#") == NULL;
    bool is_anothers =
        is_topic && slash != NULL &&
        ((size_t)(slash - topic) != strlen(party) || strncmp(topic, party, strlen(party)) != 0);
    if (is_anothers) {
        fprintf(stderr,
                "%s: topic '%.250s' belongs to another party: this is party %s, which may write "
                "%s/... only\n",
                cli->program, topic, party, party);
    }
    return is_anothers;
}

bool cli_is_name(const char *text, size_t bytes_max)
{
    size_t bytes = strlen(text);
    for (const char *at = text; *at != '\0'; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7f || strchr("/+#", *at) != NULL) {
            return false;
        }
    }
    return bytes > 0 && bytes <= bytes_max;
}

bool cli_is_pattern(const struct cli *cli, const char *pattern)
{
    bool is_pattern = strchr(pattern, '/') != NULL || strcmp(pattern, "#") == 0;
    if (!is_pattern) {
        (void)cli_usage(cli, "topics are PARTY/NAME; did you mean '+/%.200s'?", pattern);
    }
    return is_pattern;
}

int cli_exit_of(enum bus_err err)
{
    switch (err) {
    case BUS_OK:
    case BUS_EOVERRUN:
    case BUS_EENDED: return CLI_OK;
    case BUS_EINVAL: return CLI_USAGE;
    case BUS_ETIMEDOUT: return CLI_TIMEDOUT;
    case BUS_ELOST: return CLI_LOST;
    case BUS_EFAILED: return CLI_REMOTE;
    case BUS_EFENCED:
    case BUS_EDENIED: return CLI_DENIED;
    case BUS_ENOMEM:
    case BUS_EFULL:
    case BUS_ETOOBIG:
    case BUS_EPROTO:
    case BUS_ESETTLED:
    case BUS_ECLOSED: break;
    }
    return CLI_FAILED;
}

void cli_print_text(FILE *file, const char *text, const char *kept)
{
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        bool is_c1 = at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0; /* U+0080 to U+009F */
        if (is_c1)
            fprintf(file, "\\u%04x", *++at);
        else if ((*at >= 0x20 && *at != 0x7f) || strchr(kept, *at) != NULL)
            putc(*at, file);
        else if (*at == '\n')
            fputs("\\n", file);
        else
            fprintf(file, "\\x%02x", *at);
    }
}

static void print_line(FILE *file, const char *line, size_t bytes)
{
    char *copy = strndup(line, bytes);
    cli_print_text(file, copy != NULL ? copy : "?", "\t");
    free(copy);
}

/* Where the last line begins that has more than blanks; out_bytes: without blanks at its end. */
static const char *last_line(const char *message, size_t *out_bytes)
{
    size_t end = strlen(message);
    while (end > 0 && strchr(" \t\r\n", message[end - 1]) != NULL) {
        end--;
    }
    size_t from = end;
    while (from > 0 && message[from - 1] != '\n') {
        from--;
    }
    *out_bytes = end - from;
    return message + from;
}

void cli_print_last_line(FILE *file, const char *message)
{
    size_t bytes;
    const char *line = last_line(message, &bytes);
    print_line(file, line, bytes);
}

void cli_print_other_lines(FILE *file, const char *message, int indent)
{
    size_t bytes;
    const char *last = last_line(message, &bytes);
    for (const char *line = message; line < last; line += bytes + 1) {
        bytes = strcspn(line, "\n");
        if (bytes > 0) {
            fprintf(file, "%*s", indent, "");
            print_line(file, line, bytes);
            fputc('\n', file);
        }
    }
}

void cli_print_error(FILE *file, const char *program, const struct bus_error *error)
{
    size_t bytes = bus_error_describe(error, NULL, 0) + 1;
    char *text = malloc(bytes);
    if (text != NULL) {
        bus_error_describe(error, text, bytes);
    }
    const char *said = text != NULL ? text : bus_error_message(error);
    size_t length = strlen(said);
    fprintf(file, "%s: ", program);
    text_print_wrapped(file, said, strlen(program) + 2, text_stream_columns(file));
    fputs(length > 0 && said[length - 1] == '\n' ? "" : "\n", file);
    free(text);
}

/* Whether the library keeps an error for this code: a call of this thread returned it. */
static bool is_said_by_call(enum bus_err err)
{
    return err == BUS_EINVAL || err == BUS_EFULL || err == BUS_ETOOBIG || err == BUS_EDENIED ||
           err == BUS_ESETTLED || err == BUS_EENDED;
}

/* Whoever waited for a lost broker, and met nothing but silence. */
static bool is_silence(enum bus_err err, const struct bus_error *why)
{
    return err == BUS_ELOST && why != NULL &&
           strcmp(bus_error_type(why), "errbus.no_greeting") == 0;
}

int cli_report(const struct cli *cli, enum bus_err err, struct bus_error **error)
{
    int result = cli_exit_of(err);
    struct bus_error *why = NULL;
    if (error != NULL) {
        why = *error;
        *error = NULL;
    } else if (err != BUS_OK && cli->bus != NULL) {
        why = bus_failure(cli->bus); /* the call gave no error */
        if (why == NULL && is_said_by_call(err))
            why = bus_last_error();
    }
    if (is_silence(err, why) && !cli->is_broker_known)
        result = CLI_DENIED;
    if (err == BUS_ECLOSED && cli_is_stopped()) {
        result = CLI_OK;
    } else if (err == BUS_ETIMEDOUT && cli->wait_ms >= 0) {
        fprintf(stderr, "%s: timed out: --wait %g passed\n", cli->program,
                (double)cli->wait_ms / 1000);
    } else if (err != BUS_OK && why != NULL) {
        cli_print_error(stderr, cli->program, why);
    } else if (err != BUS_OK) {
        fprintf(stderr, "%s: %s\n", cli->program, bus_strerror(err));
    }
    bus_error_unref(&why);
    return result;
}

bool cli_flush_output(const struct cli *cli, int *out_exit)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) {
        return true;
    }
    *out_exit = CLI_OK;
    if (errno != EPIPE) {
        fprintf(stderr, "%s: standard output: %s\n", cli->program, strerror(errno));
        *out_exit = CLI_FAILED;
    }
    return false;
}

void cli_time_text(int64_t at_ns, char text[CLI_TIME_BYTES_MAX])
{
    int64_t ns = at_ns % 1000000000;
    time_t seconds = (time_t)(at_ns / 1000000000);
    if (ns < 0) {
        ns += 1000000000;
        seconds--;
    }
    struct tm utc;
    char day[32] = "?";
    if (gmtime_r(&seconds, &utc) != NULL) {
        strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &utc);
    }
    snprintf(text, CLI_TIME_BYTES_MAX, "%s.%09lldZ", day, (long long)ns);
}
