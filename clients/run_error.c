/* SPDX-License-Identifier: MPL-2.0 */
/* run_error.c -- error files and wait statuses become errors; the forms are in run_error.h. */
#include "clients/run_error.h"

#include "clients/run_json.h"
#include "clients/run_trace.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#define SECOND_NS INT64_C(1000000000)
#define FILE_TICK_NS INT64_C(20000000)
#define EPOCH_SECONDS_MAX (INT64_MAX / SECOND_NS - 1)
#define SHELL_SIGNAL_BASE 128 /* what a shell adds to the number of a signal (POSIX, 2.8.2) */

enum {
    PROGRAM_BYTES_MAX = 200,  /* of its name, inline */
    SENTENCE_BYTES_MAX = 900, /* of all that stands before the tail */
    WHAT_BYTES_MAX = 500,     /* of the line of a trace that says what happened, inline */
    PART_BYTES_MAX = 80,      /* of how much of what was said is shown */
    TORN_BYTES_MAX = 3000,    /* of the message of an error file that breaks off */
    REST_BYTES_MAX = 2000,    /* of what was said after a trace, inline */
    HEADING_BYTES_MAX = 200,  /* of the sentence about those lines */
};

#define INDENT "  " /* before each line that was said */

/* ---- signals ----------------------------------------------------------------------------------*/

void run_error_signal_name(int number, char text[RUN_SIGNAL_BYTES_MAX])
{
    static const struct {
        int number;
        const char *name;
    } names[] = {
        {SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},       {SIGQUIT, "SIGQUIT"}, {SIGILL, "SIGILL"},
        {SIGTRAP, "SIGTRAP"}, {SIGABRT, "SIGABRT"},     {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
        {SIGKILL, "SIGKILL"}, {SIGUSR1, "SIGUSR1"},     {SIGSEGV, "SIGSEGV"}, {SIGUSR2, "SIGUSR2"},
        {SIGPIPE, "SIGPIPE"}, {SIGALRM, "SIGALRM"},     {SIGTERM, "SIGTERM"}, {SIGCHLD, "SIGCHLD"},
        {SIGCONT, "SIGCONT"}, {SIGSTOP, "SIGSTOP"},     {SIGTSTP, "SIGTSTP"}, {SIGTTIN, "SIGTTIN"},
        {SIGTTOU, "SIGTTOU"}, {SIGURG, "SIGURG"},       {SIGXCPU, "SIGXCPU"}, {SIGXFSZ, "SIGXFSZ"},
        {SIGPROF, "SIGPROF"}, {SIGVTALRM, "SIGVTALRM"}, {SIGSYS, "SIGSYS"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].number == number) {
            (void)snprintf(text, RUN_SIGNAL_BYTES_MAX, "%s", names[i].name);
            return;
        }
    }
    if (number >= SIGRTMIN && number <= SIGRTMAX) {
        (void)snprintf(text, RUN_SIGNAL_BYTES_MAX, "SIGRTMIN+%d", number - SIGRTMIN);
    } else {
        (void)snprintf(text, RUN_SIGNAL_BYTES_MAX, "signal %d", number);
    }
}

/* ---- ends -------------------------------------------------------------------------------------*/

/* The type and the other fields that follow from an end. */
struct judgement {
    const char *type;
    int64_t code;
    int recoverable; /* 1, 0, -1 unknown */
    char text[SENTENCE_BYTES_MAX];
};

bool run_error_is_good(const struct run_end *end)
{
    return end->start_errno == 0 && WIFEXITED(end->wait_status) &&
           WEXITSTATUS(end->wait_status) == 0;
}

/* Whether the program died for want of memory.  The kernel kills by SIGKILL, and a shell between us
 * and the program turns that into status 137. */
static bool is_memory(const struct run_end *end)
{
    bool is_killed = WIFSIGNALED(end->wait_status) && WTERMSIG(end->wait_status) == SIGKILL;
    bool is_told =
        WIFEXITED(end->wait_status) && WEXITSTATUS(end->wait_status) == SHELL_SIGNAL_BASE + SIGKILL;
    return end->is_out_of_memory && (is_killed || is_told);
}

/* Whether a later start may succeed: a lack of something may pass, a file that cannot be run may
 * not. */
static bool is_passing(int start_errno)
{
    return start_errno == EAGAIN || start_errno == ENOMEM || start_errno == EMFILE ||
           start_errno == ENFILE || start_errno == ETXTBSY;
}

static void judge_start(const struct run_end *end, const char *program, struct judgement *judgement)
{
    judgement->type = RUN_TYPE_START;
    judgement->code = end->start_errno == ENOENT ? 127 : 126;
    judgement->recoverable = is_passing(end->start_errno) ? 1 : 0;
    (void)snprintf(judgement->text, sizeof judgement->text, "%s could not be started: %s", program,
                   strerror(end->start_errno));
}

static void judge_signal(const struct run_end *end, const char *program,
                         struct judgement *judgement)
{
    char name[RUN_SIGNAL_BYTES_MAX];
    run_error_signal_name(WTERMSIG(end->wait_status), name);
    judgement->type = is_memory(end) ? RUN_TYPE_MEMORY : RUN_TYPE_SIGNAL;
    judgement->code = -WTERMSIG(end->wait_status);
    (void)snprintf(judgement->text, sizeof judgement->text, "%s was killed by %s%s%s", program,
                   name, WCOREDUMP(end->wait_status) ? ", core dumped" : "",
                   is_memory(end) ? ": out of memory" : "");
}

static void judge_exit(const struct run_end *end, const char *program, struct judgement *judgement)
{
    int status = WEXITSTATUS(end->wait_status);
    char name[RUN_SIGNAL_BYTES_MAX] = "";
    if (status > SHELL_SIGNAL_BASE && status <= SHELL_SIGNAL_BASE + SIGRTMAX) {
        run_error_signal_name(status - SHELL_SIGNAL_BASE, name);
    }
    judgement->type = is_memory(end) ? RUN_TYPE_MEMORY : RUN_TYPE_EXIT;
    judgement->code = status;
    (void)snprintf(judgement->text, sizeof judgement->text, "%s exited with status %d%s%s%s",
                   program, status, *name != '\0' ? ", a shell's way to say " : "", name,
                   is_memory(end) ? ": out of memory" : "");
}

static void judge(const struct run_end *end, struct judgement *judgement)
{
    char program[PROGRAM_BYTES_MAX + 4];
    size_t bytes = strlen(end->program);
    (void)snprintf(program, sizeof program, "%.*s%s", PROGRAM_BYTES_MAX, end->program,
                   bytes > PROGRAM_BYTES_MAX ? "..." : "");
    *judgement = (struct judgement){.recoverable = -1};
    if (end->start_errno != 0) {
        judge_start(end, program, judgement);
    } else if (WIFSIGNALED(end->wait_status)) {
        judge_signal(end, program, judgement);
    } else {
        judge_exit(end, program, judgement);
    }
    if (end->problem != NULL) {
        size_t at = strlen(judgement->text);
        (void)snprintf(judgement->text + at, sizeof judgement->text - at,
                       "; its error file could not be used: %s", end->problem);
    }
}

/* ---- what the program said last ---------------------------------------------------------------*/

/* The end of its standard error as text.  A byte that is no text becomes '?': it would end the
 * text. */
struct said {
    char text[RUN_SEEN_BYTES_MAX + 1];
    size_t bytes;
    struct run_trace trace;
    char rest[RUN_SEEN_BYTES_MAX + 1]; /* the text behind the trace, without lines of a trace */
    size_t rest_bytes;
    bool is_stripped; /* lines of a trace were removed */
    bool is_cut;      /* its beginning is missing */
};

static void copy_text(const char *from, size_t bytes, char *text)
{
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = (unsigned char)from[i];
        bool is_text = (byte >= ' ' && byte != 0x7f) || byte == '\n' || byte == '\t';
        text[i] = is_text ? from[i] : '?';
    }
    text[bytes] = '\0';
}

/* Where the end of text begins that has room in a message, where each line is indented. */
static size_t fitting_end(const char *text, size_t bytes, size_t most)
{
    size_t from = bytes;
    for (size_t room = most; from > 0; from--) {
        size_t cost = text[from - 1] == '\n' ? 1 + strlen(INDENT) : 1;
        if (cost > room) {
            break;
        }
        room -= cost;
    }
    return from;
}

/* How many bytes to cut at the front, so that the rest has room in a message.  The rest begins with
 * a whole character; and with a whole line, if that loses at most half. */
static size_t cut_front(const char *text, size_t bytes, size_t most)
{
    size_t skip = fitting_end(text, bytes, most);
    if (skip == 0) {
        return 0;
    }
    const char *newline = memchr(text + skip, '\n', (bytes - skip) / 2);
    if (newline != NULL) {
        return (size_t)(newline - text) + 1;
    }
    for (int i = 0; i < 3 && ((unsigned char)text[skip] & 0xc0) == 0x80; i++) {
        skip += 1;
    }
    return skip;
}

static bool is_blank(const char *text)
{
    return text[strspn(text, " \t\n")] == '\0';
}

static void read_said(const struct run_end *end, struct said *said)
{
    size_t bytes = end->tail != NULL ? end->tail_bytes : 0;
    size_t skip = bytes > RUN_SEEN_BYTES_MAX ? bytes - RUN_SEEN_BYTES_MAX : 0;
    bool is_begun = end->said_bytes > bytes - skip; /* then its first line is not whole */
    const char *newline =
        is_begun && bytes > 0 ? memchr(end->tail + skip, '\n', (bytes - skip) / 2) : NULL;
    skip = newline != NULL ? (size_t)(newline - end->tail) + 1 : skip;
    said->bytes = bytes - skip;
    copy_text(bytes > 0 ? end->tail + skip : "", said->bytes, said->text);
    run_trace_find(said->text, said->bytes, is_begun, &said->trace);
    size_t behind = said->bytes - said->trace.end;
    size_t left = run_trace_strip(said->text + said->trace.end, behind, said->rest);
    said->rest[left] = '\0';
    said->is_stripped = left < behind;
    size_t most = said->trace.end > 0 ? REST_BYTES_MAX : RUN_TAIL_BYTES_MAX;
    size_t cut = cut_front(said->rest, left, most);
    said->rest_bytes = left - cut;
    said->is_cut = cut > 0 || (said->trace.end == 0 && end->said_bytes > said->bytes);
    memmove(said->rest, said->rest + cut, said->rest_bytes + 1);
    if (is_blank(said->rest)) {
        said->rest[0] = '\0';
        said->rest_bytes = 0;
    }
}

/* Appends ": ValueError: no data", the line of the trace that says what happened. */
static void put_what(const struct said *said, char *text, size_t room)
{
    const struct run_part *what = &said->trace.what;
    const struct run_part *cause = &said->trace.cause;
    if (said->trace.end > 0 && what->bytes == 0) {
        (void)snprintf(text, room, ": its standard error ends with a trace that has no beginning");
        return;
    }
    int what_bytes = what->bytes < WHAT_BYTES_MAX ? (int)what->bytes : WHAT_BYTES_MAX;
    int cause_bytes = cause->bytes < WHAT_BYTES_MAX ? (int)cause->bytes : WHAT_BYTES_MAX;
    (void)snprintf(text, room, "%s%.*s%s%.*s", what_bytes > 0 ? ": " : "", what_bytes,
                   said->text + what->at, cause_bytes > 0 ? ", caused by " : "", cause_bytes,
                   said->text + cause->at);
}

/* Takes the last line off the text, with all blanks around it.  out_before: the lines before it. */
static const char *take_last_line(char *text, const char **out_before)
{
    size_t end = strlen(text);
    while (end > 0 && strchr(" \t\n", text[end - 1]) != NULL) {
        end--;
    }
    text[end] = '\0';
    char *newline = strrchr(text, '\n');
    const char *line = newline != NULL ? newline + 1 : text;
    *out_before = newline != NULL ? text : "";
    if (newline != NULL) {
        *newline = '\0';
    }
    return line + strspn(line, " \t");
}

/* Each line of text that is not blank, indented. */
static void put_lines(const char *text, char *out, size_t room)
{
    size_t count = 0;
    out[0] = '\0';
    while (*text != '\0' && count < room) {
        size_t bytes = strcspn(text, "\n");
        if (strspn(text, " \t") < bytes) {
            count += (size_t)snprintf(out + count, room - count, INDENT "%.*s\n", (int)bytes, text);
        }
        text += bytes + (text[bytes] == '\n');
    }
}

/* What the lines are that the message has beside its last one; empty: there are none. */
static void put_heading(const struct run_end *end, const struct said *said, bool has_lines,
                        char text[HEADING_BYTES_MAX])
{
    bool has_trace = said->trace.end > 0;
    const char *when = "";
    char part[PART_BYTES_MAX] = "";
    text[0] = '\0';
    if (!has_lines && !said->is_cut && !said->is_stripped) {
        return;
    }
    if (said->is_cut) {
        (void)snprintf(part, sizeof part, "the last %zu of %" PRIu64 " bytes of ", said->rest_bytes,
                       end->said_bytes);
    }
    if (has_trace) {
        when = " after the trace";
    } else if (has_lines && !said->is_cut) {
        when = " before that";
    }
    (void)snprintf(text, HEADING_BYTES_MAX, "%sits standard error%s%s%s\n", part, when,
                   said->is_stripped ? ", without lines of a trace" : "", has_lines ? ":" : "");
}

/* Makes the message.  As in a stack trace, its last line says what happened: the sentence, and the
 * line of a trace or the last line that the program wrote.  Before it stands what else the program
 * wrote. */
static struct bus_error *make_error(const struct run_end *end, const struct judgement *judgement,
                                    struct said *said)
{
    char what[2 * WHAT_BYTES_MAX + 32] = "";
    char heading[HEADING_BYTES_MAX];
    char lines[RUN_TAIL_BYTES_MAX + 8];
    put_what(said, what, sizeof what);
    if (said->rest_bytes == 0) {
        return bus_error_new(judgement->type, NULL, "%s%s", judgement->text, what);
    }
    const char *before = said->rest;
    const char *last = *what == '\0' ? take_last_line(said->rest, &before) : "";
    put_lines(before, lines, sizeof lines);
    put_heading(end, said, lines[0] != '\0', heading);
    return bus_error_new(judgement->type, NULL, "%s%s%s%s%s", heading, lines, judgement->text,
                         *last != '\0' ? ": " : what, last);
}

static void set_trace(const struct said *said, struct bus_error *error)
{
    char text[RUN_SEEN_BYTES_MAX + 1];
    struct run_part part = said->trace.whole;
    if (said->trace.end == 0 && said->is_stripped) {
        part = (struct run_part){.bytes = said->bytes}; /* its form is not known */
    }
    if (part.bytes > 0) {
        memcpy(text, said->text + part.at, part.bytes);
        text[part.bytes] = '\0';
        (void)bus_error_set_stacktrace(error, text); /* without memory there is none */
    }
}

/* Dates the end to when the program was last seen to run (run_error.h says why). */
static void date_signal(const struct run_end *end, struct bus_error *error)
{
    int number = WTERMSIG(end->wait_status);
    bool may_follow_from_others = number == SIGABRT || number == SIGPIPE;
    if (!may_follow_from_others && end->ran_ns > 0 && end->ended_ns >= end->ran_ns) {
        uint64_t uncertainty_ns = (uint64_t)(end->ended_ns - end->ran_ns);
        (void)bus_error_set_occurred(error, end->ran_ns, uncertainty_ns);
    }
}

struct bus_error *run_error_of_end(const struct run_end *end)
{
    struct said said;
    struct judgement judgement;
    if (run_error_is_good(end)) {
        return NULL;
    }
    judge(end, &judgement);
    read_said(end, &said);
    struct bus_error *error = make_error(end, &judgement, &said);
    /* Refused by the static error of no memory alone, which then says enough. */
    (void)bus_error_set_code(error, judgement.code);
    set_trace(&said, error);
    if (end->start_errno == 0 && WIFSIGNALED(end->wait_status)) {
        (void)bus_error_set_signal(error, WTERMSIG(end->wait_status));
        date_signal(end, error);
    } else if (end->start_errno == 0) {
        (void)bus_error_set_exit_code(error, WEXITSTATUS(end->wait_status));
    }
    if (judgement.recoverable >= 0) {
        (void)bus_error_set_recoverable(error, judgement.recoverable);
    }
    return error;
}

/* ---- times ------------------------------------------------------------------------------------*/

/* Reads a field of count digits. */
static bool read_digits(const char **at, int count, int least, int most, int *out_number)
{
    int number = 0;
    for (int i = 0; i < count; i++) {
        char digit = (*at)[i];
        if (digit < '0' || digit > '9') {
            return false;
        }
        number = number * 10 + (digit - '0');
    }
    *at += count;
    *out_number = number;
    return number >= least && number <= most;
}

static bool read_char(const char **at, const char *any)
{
    if (**at == '\0' || strchr(any, **at) == NULL) {
        return false;
    }
    *at += 1;
    return true;
}

/* Reads a point and digits.  Digits behind the ninth are less than a nanosecond. */
static bool read_fraction(const char **at, int64_t *out_ns)
{
    int64_t unit = SECOND_NS / 10;
    *out_ns = 0;
    if (**at != '.') {
        return true;
    }
    *at += 1;
    const char *first = *at;
    for (; **at >= '0' && **at <= '9'; *at += 1, unit /= 10) {
        *out_ns += (**at - '0') * unit;
    }
    return *at > first;
}

/* Reads "Z", or the offset from UTC: +hh:mm. */
static bool read_zone(const char **at, int64_t *out_seconds)
{
    int hours = 0;
    int minutes = 0;
    *out_seconds = 0;
    if (read_char(at, "Zz")) {
        return true;
    }
    int64_t sign = **at == '-' ? -1 : 1;
    if (!read_char(at, "+-") || !read_digits(at, 2, 0, 23, &hours) || !read_char(at, ":") ||
        !read_digits(at, 2, 0, 59, &minutes)) {
        return false;
    }
    *out_seconds = sign * (hours * INT64_C(3600) + minutes * INT64_C(60));
    return true;
}

/* Midnight of a day that exists, in seconds since the epoch. */
static bool read_day(const char **at, int64_t *out_seconds)
{
    int year;
    int month;
    int day;
    if (!read_digits(at, 4, 1970, 9999, &year) || !read_char(at, "-") ||
        !read_digits(at, 2, 1, 12, &month) || !read_char(at, "-") ||
        !read_digits(at, 2, 1, 31, &day)) {
        return false;
    }
    struct tm tm = {.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day};
    *out_seconds = timegm(&tm);
    return tm.tm_mday == day;
}

/* RFC 3339, section 5.6; up to where nanoseconds in 64 bits reach, in 2262. */
static bool read_time(const char *text, int64_t *out_ns)
{
    int64_t seconds;
    int64_t fraction_ns;
    int64_t zone_seconds;
    int hour;
    int minute;
    int second;
    if (!read_day(&text, &seconds) || !read_char(&text, "Tt ") ||
        !read_digits(&text, 2, 0, 23, &hour) || !read_char(&text, ":") ||
        !read_digits(&text, 2, 0, 59, &minute) || !read_char(&text, ":") ||
        !read_digits(&text, 2, 0, 60, &second) || !read_fraction(&text, &fraction_ns) ||
        !read_zone(&text, &zone_seconds) || *text != '\0') {
        return false;
    }
    seconds += hour * INT64_C(3600) + minute * INT64_C(60) + second - zone_seconds;
    if (seconds < 0 || seconds > EPOCH_SECONDS_MAX) {
        return false;
    }
    *out_ns = seconds * SECOND_NS + fraction_ns;
    return true;
}

/* ---- our form ---------------------------------------------------------------------------------*/

static bool complain(char problem[CLI_PROBLEM_BYTES_MAX], const char *key, const char *what)
{
    (void)snprintf(problem, CLI_PROBLEM_BYTES_MAX, "\"%s\" %s", key, what);
    return false;
}

/* Sets a text, if the object has this member.  False: it has another kind, or may not be set. */
static bool set_text(const struct cli_json *object, const char *key, struct bus_error *error,
                     enum bus_err (*set)(struct bus_error *error, const char *text),
                     char problem[CLI_PROBLEM_BYTES_MAX])
{
    const char *text = cli_json_find_text(object, key);
    if (!cli_json_has(object, key)) {
        return true;
    }
    if (text == NULL) {
        return complain(problem, key, "is not a string");
    }
    return set(error, text) != BUS_EINVAL || complain(problem, key, "is not well formed");
}

static bool set_number(const struct cli_json *object, const char *key, struct bus_error *error,
                       enum bus_err (*set)(struct bus_error *error, int64_t number),
                       char problem[CLI_PROBLEM_BYTES_MAX])
{
    int64_t number = 0;
    if (!cli_json_has(object, key)) {
        return true;
    }
    if (!cli_json_find_number(object, key, &number)) {
        return complain(problem, key, "is not a whole number");
    }
    return set(error, number) != BUS_EINVAL || complain(problem, key, "is out of range");
}

static bool set_recoverable(const struct cli_json *object, struct bus_error *error,
                            char problem[CLI_PROBLEM_BYTES_MAX])
{
    bool yes = false;
    if (!cli_json_has(object, "recoverable")) {
        return true;
    }
    if (!cli_json_find_bool(object, "recoverable", &yes)) {
        return complain(problem, "recoverable", "is neither true nor false");
    }
    (void)bus_error_set_recoverable(error, yes); /* refused by the error of no memory alone */
    return true;
}

/* The causes of an error that is made, each with a reference. */
struct causes {
    struct bus_error *errors[RUN_CAUSES_MAX];
    size_t count;
};

static bool make_own(const struct cli_json *object, int depth, struct bus_error **out_error,
                     char problem[CLI_PROBLEM_BYTES_MAX]);

static bool make_cause(const struct cli_json *object, const char *key, int depth,
                       struct causes *causes, char problem[CLI_PROBLEM_BYTES_MAX])
{
    if (object == NULL) {
        return complain(problem, key, "is not an object");
    }
    if (depth == RUN_CAUSES_DEPTH_MAX) {
        return complain(problem, key, "goes deeper than 16 causes");
    }
    if (!make_own(object, depth + 1, &causes->errors[causes->count], problem)) {
        return false;
    }
    causes->count += 1;
    return true;
}

static bool make_causes(const struct cli_json *object, int depth, struct causes *causes,
                        char problem[CLI_PROBLEM_BYTES_MAX])
{
    if (!cli_json_has(object, "causes")) {
        return !cli_json_has(object, "cause") ||
               make_cause(cli_json_find_object(object, "cause"), "cause", depth, causes, problem);
    }
    const struct cli_json *array = cli_json_find_array(object, "causes");
    if (array == NULL) {
        return complain(problem, "causes", "is not an array");
    }
    if (cli_json_count(array) > RUN_CAUSES_MAX) {
        return complain(problem, "causes", "has more than 16");
    }
    for (size_t i = 0; i < cli_json_count(array); i++) {
        if (!make_cause(cli_json_object_at(array, i), "causes", depth, causes, problem)) {
            return false;
        }
    }
    return true;
}

static bool add_blame(struct bus_error *error, const char *party,
                      char problem[CLI_PROBLEM_BYTES_MAX])
{
    if (party == NULL) {
        return complain(problem, "blames", "has an item that is not a string");
    }
    enum bus_err err = bus_error_add_blame(error, party);
    if (err == BUS_EFULL) {
        return complain(problem, "blames", "has more than 16");
    }
    return err != BUS_EINVAL || complain(problem, "blames", "has an item that is not a party");
}

/* Adds "blame", or all "blames". */
static bool add_blames(const struct cli_json *object, struct bus_error *error,
                       char problem[CLI_PROBLEM_BYTES_MAX])
{
    if (!cli_json_has(object, "blames")) {
        return set_text(object, "blame", error, bus_error_set_blame, problem);
    }
    const struct cli_json *array = cli_json_find_array(object, "blames");
    if (array == NULL) {
        return complain(problem, "blames", "is not an array");
    }
    for (size_t i = 0; i < cli_json_count(array); i++) {
        if (!add_blame(error, cli_json_text_at(array, i), problem)) {
            return false;
        }
    }
    return true;
}

static bool fill_own(const struct cli_json *object, struct bus_error *error,
                     char problem[CLI_PROBLEM_BYTES_MAX])
{
    return set_text(object, "stacktrace", error, bus_error_set_stacktrace, problem) &&
           add_blames(object, error, problem) &&
           set_number(object, "code", error, bus_error_set_code, problem) &&
           set_number(object, "retry_after_ms", error, bus_error_set_retry_after, problem) &&
           set_recoverable(object, error, problem);
}

/* depth: how many causes it stands below. */
static bool make_own(const struct cli_json *object, int depth, struct bus_error **out_error,
                     char problem[CLI_PROBLEM_BYTES_MAX])
{
    bool is_made = false;
    struct causes causes = {.count = 0};
    struct bus_error *error = NULL;
    const char *type = cli_json_find_text(object, "type");
    const char *message = cli_json_find_text(object, "message");
    if (type == NULL || *type == '\0' || strlen(type) > BUS_NAME_BYTES_MAX) {
        is_made = complain(problem, "type", "is not a string of 1 to 200 bytes");
        goto done;
    }
    if (message == NULL) {
        is_made = complain(problem, "message", "is not a string");
        goto done;
    }
    if (!make_causes(object, depth, &causes, problem)) {
        goto done;
    }
    error = bus_error_new(type, causes.count > 0 ? causes.errors[0] : NULL, "%s", message);
    for (size_t i = 1; i < causes.count; i++) {
        (void)bus_error_add_cause(error, causes.errors[i]); /* the count is within the limit */
    }
    is_made = fill_own(object, error, problem);
done:
    for (size_t i = 0; i < causes.count; i++) {
        bus_error_unref(&causes.errors[i]);
    }
    if (is_made) {
        *out_error = error;
    } else {
        bus_error_unref(&error);
    }
    return is_made;
}

static bool read_own(const struct cli_json *object, struct run_error *out_error,
                     char problem[CLI_PROBLEM_BYTES_MAX])
{
    struct run_error own = {0};
    if (cli_json_has(object, "occurred_at")) {
        const char *text = cli_json_find_text(object, "occurred_at");
        if (text == NULL || !read_time(text, &own.occurred_ns)) {
            return complain(problem, "occurred_at", "is not a time as in RFC 3339");
        }
    }
    if (!make_own(object, 0, &own.error, problem)) {
        return false;
    }
    *out_error = own;
    return true;
}

/* ---- the elastic launcher's form --------------------------------------------------------------*/

/* Reads seconds since the epoch, as text or number.  Any other value, or an absurd time, is
 * unknown. */
static int64_t launcher_time(const struct cli_json *object)
{
    int64_t seconds = 0;
    const char *text = cli_json_find_text(object, "timestamp");
    if (text != NULL) {
        (void)cli_number_read(text, &seconds); /* else it stays 0 */
    } else {
        (void)cli_json_find_number(object, "timestamp", &seconds); /* else it stays 0 */
    }
    return seconds > 0 && seconds <= EPOCH_SECONDS_MAX ? seconds * SECOND_NS : 0;
}

/* Reads the name of an exception before ": "; false: there is none. */
static bool exception_type(const char *message, char type[BUS_NAME_BYTES_MAX + 1])
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    static const char further[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_.0123456789";
    size_t bytes = strspn(message, further);
    if (bytes > BUS_NAME_BYTES_MAX || strspn(message, letters) == 0 || message[bytes] != ':' ||
        (message[bytes + 1] != ' ' && message[bytes + 1] != '\0')) {
        return false;
    }
    memcpy(type, message, bytes);
    type[bytes] = '\0';
    return true;
}

static bool read_launcher(const struct cli_json *object, struct run_error *out_error,
                          char problem[CLI_PROBLEM_BYTES_MAX])
{
    char type[BUS_NAME_BYTES_MAX + 1];
    int64_t code = 0;
    const char *stack = NULL;
    const char *message = cli_json_find_text(object, "message");
    struct run_error error = {0};
    if (message != NULL) {
        error.occurred_ns = launcher_time(object);
    } else {
        const struct cli_json *body = cli_json_find_object(object, "message");
        const struct cli_json *extra = cli_json_find_object(body, "extraInfo");
        message = cli_json_find_text(body, "message");
        stack = cli_json_find_text(extra, "py_callstack");
        error.occurred_ns = launcher_time(extra);
        (void)cli_json_find_number(body, "errorCode", &code); /* else it stays 0: none */
    }
    if (message == NULL) {
        return complain(problem, "message", "is missing, or has neither of the two forms");
    }
    error.error = bus_error_new(exception_type(message, type) ? type : NULL, NULL, "%s", message);
    /* Refused by the static error of no memory alone, which then says enough. */
    (void)bus_error_set_code(error.error, code);
    if (stack != NULL) {
        (void)bus_error_set_stacktrace(error.error, stack);
    }
    error.uncertainty_ns = error.occurred_ns > 0 ? SECOND_NS : 0; /* somewhere in that second */
    *out_error = error;
    return true;
}

/* Whether the program ran at this time.  A file system may count time in steps of some
 * milliseconds. */
static bool is_while_running(int64_t at_ns, uint64_t uncertainty_ns, const struct run_times *times)
{
    int64_t slack_ns = FILE_TICK_NS + (int64_t)uncertainty_ns;
    return at_ns >= times->began_ns - slack_ns && at_ns <= times->now_ns;
}

void run_error_date(struct run_error *error, const struct run_times *times)
{
    int64_t at_ns = error->occurred_ns;
    int64_t written_ns = times->written_ns;
    uint64_t uncertainty_ns = error->uncertainty_ns;
    bool is_written = is_while_running(written_ns, 0, times);
    bool is_own = at_ns > 0 && is_while_running(at_ns, uncertainty_ns, times);
    if (is_own && is_written && at_ns > written_ns + FILE_TICK_NS) {
        is_own = false; /* it is later than the file */
    }
    if (is_own && uncertainty_ns > 0) { /* the second in which it occurred */
        bool is_same = is_written && written_ns < at_ns + (int64_t)uncertainty_ns;
        int64_t end_ns = is_same ? written_ns : at_ns + (int64_t)uncertainty_ns;
        uncertainty_ns = end_ns > at_ns ? (uint64_t)(end_ns - at_ns) : 0;
        at_ns = end_ns;
    }
    if (!is_own) {
        at_ns = is_written ? written_ns : 0;
        uncertainty_ns = 0;
    }
    if (at_ns > 0) { /* refused by the static error of no memory alone */
        (void)bus_error_set_occurred(error->error, at_ns, uncertainty_ns);
    }
    error->occurred_ns = at_ns;
    error->uncertainty_ns = uncertainty_ns;
}

/* Completes an error whose file broke off: it has at least its type or its message. */
static void complete(struct cli_json *object)
{
    static const char torn[] = "its error file breaks off";
    char text[TORN_BYTES_MAX];
    const char *message = cli_json_find_text(object, "message");
    if (message == NULL && (cli_json_has(object, "message") || !cli_json_has(object, "type"))) {
        return; /* the launcher's form, or none */
    }
    (void)snprintf(text, sizeof text, "%.*s%s%s%s", TORN_BYTES_MAX - 64,
                   message != NULL ? message : "", message != NULL ? " (" : "", torn,
                   message != NULL ? ")" : "");
    cli_json_text(object, "message", text);
}

bool run_error_of_json(const char *text, size_t bytes, bool is_torn, struct run_error *out_error,
                       char problem[CLI_PROBLEM_BYTES_MAX])
{
    struct cli_json *object = cli_json_read(text, bytes, problem);
    if (object == NULL) {
        return false;
    }
    if (is_torn) {
        complete(object);
    }
    bool is_own = cli_json_has(object, "type");
    bool is_read =
        is_own ? read_own(object, out_error, problem) : read_launcher(object, out_error, problem);
    cli_json_free(&object);
    return is_read;
}

/* Makes an error of what can be saved of the file.  False: nothing can, and problem stays. */
static bool save(const char *text, size_t bytes, struct run_error *out_error)
{
    char other[CLI_PROBLEM_BYTES_MAX];
    bool is_torn = false;
    size_t left = 0;
    struct run_json *json = run_json_new();
    if (json == NULL) {
        return false;
    }
    (void)run_json_feed(json, text, bytes); /* without room the text counts as torn */
    const char *saved = run_json_finish(json, &left, &is_torn);
    bool is_saved = is_torn && run_error_of_json(saved, left, true, out_error, other);
    run_json_free(&json);
    return is_saved;
}

bool run_error_of_file(const char *text, size_t bytes, struct run_error *out_error,
                       char problem[CLI_PROBLEM_BYTES_MAX])
{
    if (bytes == 0) {
        (void)snprintf(problem, CLI_PROBLEM_BYTES_MAX, "it is empty");
        return false;
    }
    return run_error_of_json(text, bytes, false, out_error, problem) ||
           save(text, bytes, out_error);
}
