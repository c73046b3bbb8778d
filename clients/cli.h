/* SPDX-License-Identifier: MPL-2.0 */
/* cli.h -- what the subcommands of errbus, and the example, have in common.
 *
 * Flags: each program has one table of them; parsing and the text of -h follow it.
 * Leaving: SIGINT and SIGTERM stop the bus, which ends every wait; a second one ends the process.
 * JSON: built and printed by the cli_json_ calls, so that one file alone knows the JSON library.
 */
#ifndef CLIENTS_CLI_H
#define CLIENTS_CLI_H

#include <bus/admin.h>
#include <bus/bus.h>
#include <bus/tap.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What a program ends with; the same in every man page. */
enum cli_exit {
    CLI_OK = 0,         /* fine */
    CLI_FAILED = 1,     /* own failure */
    CLI_USAGE = 2,      /* called in a wrong way */
    CLI_REMOTE = 3,     /* a remote error was received */
    CLI_TIMEDOUT = 4,   /* --wait is over */
    CLI_LOST = 5,       /* the broker is lost, or was not there */
    CLI_DENIED = 6,     /* denied or fenced */
    CLI_PARTY_LOST = 7, /* the job failed because a party was lost */
};

#define CLI_FLAGS_MAX 32          /* of one program, the common ones included */
#define CLI_PROBLEM_BYTES_MAX 512 /* of the sentence about a wrong call */
/* A broker out of reach for so long is lost.  More than lost_after_ms, so that a process that was
 * stopped for that long learns that it is fenced. */
#define CLI_LOST_MS INT64_C(15000)
#define CLI_CLOSE_MS INT64_C(5000) /* how long closing may take without --wait */

/* ---- flags ------------------------------------------------------------------------------------*/

enum cli_kind {
    CLI_YES,     /* takes no value; bool * */
    CLI_TEXT,    /* const char ** */
    CLI_NUMBER,  /* a whole number, 0 or more; int64_t * */
    CLI_SECONDS, /* 0 or more, also a fraction; kept as milliseconds; int64_t * */
};

struct cli_flag {
    int letter;         /* of the short form; 0: none */
    const char *name;   /* of the long form */
    enum cli_kind kind; /* what it takes */
    void *out;          /* where it goes */
    const char *value;  /* what it takes, as -h calls it; NULL for CLI_YES */
    const char *help;   /* a few words */
};

/* Reads argv, and stores each value where its flag says.  argv is put in order: the operands come
 * last, from *out_operands_at on.  False: problem says what is wrong. */
bool cli_flags_read(const struct cli_flag *flags, size_t count, int argc, char **argv,
                    int *out_operands_at, char problem[CLI_PROBLEM_BYTES_MAX]);

/* The end of a noun behind this number: "s", or nothing. */
const char *cli_plural(uint64_t count);

/* Read the value of one flag from its text. */
bool cli_number_read(const char *text, int64_t *out_number);
bool cli_seconds_read(const char *text, int64_t *out_ms);
/* The event that a tap begins with: its id, "oldest" (1), or "now" (BUS_TAP_NOW). */
bool cli_event_id_read(const char *text, uint64_t *out_id);

/* ---- a program --------------------------------------------------------------------------------*/

struct cli {
    const char *program;    /* "errbus pub": what its messages begin with */
    const char *operands;   /* "TOPIC [VALUE]", for -h */
    const char *summary;    /* one sentence, for -h */
    const char *exits;      /* further exit statuses, for -h; NULL: none */
    bool prints_lines;      /* takes --count and --json too */
    const char *count_help; /* what --count does, for -h; NULL: nothing */
    bool is_observer;       /* joins no job: --party has no effect */
    bool is_broker_known;   /* a broker was met, or is meant to be there: silence is its own */
    const char *server;     /* NULL: the environment's, then the library's default */
    const char *job;        /* the same */
    const char *party;      /* the same */
    const char *key;        /* path of its key; in the environment from cli_start() on */
    int run_rule;           /* enum bus_run_rule: of a program that is started again, 0 */
    int64_t count;          /* -1: no limit */
    int64_t wait_ms;        /* BUS_FOREVER: no limit */
    bool is_json;
    int64_t started_ms;  /* since when --wait counts */
    int64_t answered_ms; /* of a question that is repeated: its last answer; 0: none yet */
    int argc;            /* the operands */
    char **argv;
    struct bus *bus; /* while one is open */
};

/* Reads the common flags and the program's own.  Ignores SIGPIPE: a write notices that nobody reads
 * any more.  True: go on.  False: the reason is printed, and *out_exit is the exit code. */
bool cli_start(struct cli *cli, int argc, char **argv, const struct cli_flag *own, size_t own_count,
               int *out_exit);

/* What a program takes. */
struct cli_table {
    struct cli_flag flags[CLI_FLAGS_MAX];
    size_t flag_count;
    const char *operands;
};
/* From now on cli_start() only fills in *table, and returns false with CLI_OK.  NULL: it starts
 * programs again. */
void cli_ask_table(struct cli_table *table);

/* Whether a flag or the environment names the party. */
bool cli_has_party(const struct cli *cli);

/* The party's name where neither flag nor environment gives one. */
void cli_default_party(struct cli *cli, const char *party);

/* Prints "PROGRAM: what is wrong" and returns CLI_USAGE. */
int cli_usage(const struct cli *cli, const char *format, ...) BUS_PRINTF(2, 3);

/* The range of a flag that takes a number or seconds. */
struct cli_range {
    const char *flag;
    int64_t value; /* below 0: not given */
    int64_t least; /* seconds in milliseconds, as they are kept */
    int64_t most;
    bool is_seconds;
};
#define CLI_DAY_MS INT64_C(86400000)
#define CLI_YEAR_MS (365 * CLI_DAY_MS)
#define CLI_PARTIES_MAX 16384 /* of one job; PROTOCOL.md, "Limits" */
#define CLI_RESTARTS_MAX 1000 /* of one job; the same */
/* CLI_OK, or CLI_USAGE after saying which flag is outside its range. */
int cli_check_ranges(const struct cli *cli, const struct cli_range *ranges, size_t count);

/* What is left of --wait; BUS_FOREVER without one. */
int64_t cli_left_ms(const struct cli *cli);
/* The same, and bound_ms at most. */
int64_t cli_left_within(const struct cli *cli, int64_t bound_ms);

int64_t cli_now_ms(void); /* monotonic */

/* Fills in options: server, job, party, and how long calls wait for room, as --wait says.  The
 * program may change them further. */
void cli_bus_options(const struct cli *cli, struct bus_options *options);

/* How long opening may take, by --wait or, without one, CLI_LOST_MS. */
int64_t cli_open_ms(const struct cli *cli);

/* Stand around a call that may wait for a broker.  After a second, one line on standard error says
 * so. */
void cli_waiting_begin(const struct cli *cli);
void cli_waiting_end(void);
/* For on_doubt of options: one line on standard error says it. */
void cli_tell_doubt(const char *what, void *arg);
/* What it takes to do so. */
void *cli_doubt_arg(const struct cli *cli);

/* Opens cli->bus, and has signals stop it from then on.  CLI_OK, or the exit code after saying why:
 * a broker that does not answer in time is lost.  options NULL: those of cli_bus_options(). */
int cli_open(struct cli *cli, const struct bus_options *options);

/* For a program that waits for others: prints the notices of cli->bus on standard error, as they
 * come, until cli_close().  If it has a guard, the guard gets them too, and prints them. */
void cli_notices_begin(const struct cli *cli);
void cli_notices_end(void);
/* One of them, in one line. */
void cli_print_notice(FILE *file, const char *program, const struct bus_error *notice);

/* A program that repeats its question: the broker answered just now. */
void cli_answered(struct cli *cli);
/* Whether --wait is over and nothing else is wrong: the broker answered, and that was less than
 * bound_ms ago. */
bool cli_is_only_over(const struct cli *cli, int64_t bound_ms);
/* What it means that a question failed with err.  A broker that does not answer in time is lost,
 * unless it was out of reach for less than CLI_LOST_MS when --wait ended. */
enum bus_err cli_unanswered(const struct cli *cli, enum bus_err err);
/* Waits until the question is repeated.  False: a signal asks for the end, or --wait is over. */
bool cli_pause(const struct cli *cli, int64_t pause_ms);
/* The same for a program that ends with CLI_TIMEDOUT then: it says so.  *out_exit stays as it is
 * where something else went wrong before. */
bool cli_pause_or_end(const struct cli *cli, int64_t pause_ms, int *out_exit);

/* Opens an administrative handle for the program's job.  A question without --wait fails at once
 * when no broker is in reach; everything else waits.  CLI_OK, or the exit code after saying why: a
 * broker that does not answer in time is lost. */
int cli_admin_open(const struct cli *cli, struct bus_admin **out_admin);
/* What it opens the handle with. */
void cli_admin_options(const struct cli *cli, struct bus_admin_options *options);
/* Whether the job that the user named is there: CLI_OK, also if no job was named, or the exit code
 * after saying why not. */
int cli_find_job(const struct cli *cli, struct bus_admin *admin);
/* Closes the handle, and returns CLI_OK, or the exit code after saying what went wrong.  *error (or
 * NULL) is taken over. */
int cli_admin_done(const struct cli *cli, struct bus_admin **admin, enum bus_err err,
                   struct bus_error **error);

/* From now on SIGINT and SIGTERM stop this bus or this tap, whichever is not NULL.  Both NULL: they
 * stop nothing; call it so before the bus or tap is closed. */
void cli_watch(struct bus *bus, struct bus_tap *tap);

/* Closes cli->bus and returns result, or the reason why closing it went wrong if that is CLI_OK. */
int cli_close(struct cli *cli, int result);

/* Whether topic begins with another party's name; then this call says so.  The library would read
 * it as a name below our own party, and write to a topic that nobody meant. */
bool cli_is_anothers(const struct cli *cli, const char *topic);

/* Whether text may name a party, a durable subscription or, with less bytes, a group. */
bool cli_is_name(const char *text, size_t bytes_max);

/* Whether pattern has a '/' or is "#".  Any other pattern matches no topic; then this call says
 * so. */
bool cli_is_pattern(const struct cli *cli, const char *pattern);

/* The exit code that goes with err. */
int cli_exit_of(enum bus_err err);

/* Says what happened, takes *error (or NULL) over, and returns the exit code.  After a signal it
 * does not mention BUS_ECLOSED: the signal asked for that.  Where nothing but silence was met, and
 * no broker is known, it is CLI_DENIED: nothing has shown that a broker is there. */
int cli_report(const struct cli *cli, enum bus_err err, struct bus_error **error);

/* Prints text of other programs.  Control characters could control the terminal: they are written
 * as \n, \x1b, \u009b, except those in kept. */
void cli_print_text(FILE *file, const char *text, const char *kept);

/* A message on one line: its last line, which says what happened, as in a stack trace. */
void cli_print_last_line(FILE *file, const char *message);
/* Its other lines, each on a line of its own behind so many blanks. */
void cli_print_other_lines(FILE *file, const char *message, int indent);

/* Prints the whole error for people after "PROGRAM: ", one line for each cause. */
void cli_print_error(FILE *file, const char *program, const struct bus_error *error);

/* Flushes stdout.  False: nobody reads it any more (CLI_OK, without a message), or it cannot be
 * written (CLI_FAILED, with a message). */
bool cli_flush_output(const struct cli *cli, int *out_exit);

enum cli_woken {
    CLI_WOKEN_READABLE, /* fd */
    CLI_WOKEN_TIME,     /* timeout_ms is over */
    CLI_WOKEN_STOP,     /* a signal told us to leave */
    CLI_WOKEN_OVER,     /* this party is over: bus_failure() */
};
/* Waits for fd (-1: none), a signal, or the end of cli->bus. */
enum cli_woken cli_wait(const struct cli *cli, int fd, int64_t timeout_ms);

bool cli_is_stopped(void); /* a signal told us to leave */
/* The last call of a program, when everything is closed.  If a signal told the program to leave,
 * ends it by that signal.  Otherwise returns result. */
int cli_end(int result);

/* From now on the first signal only makes cli_stop_fd() readable, so that work under way can end.
 * The second signal stops the bus, and the third ends the process. */
void cli_take_time(void);
int cli_signal_count(void); /* how many signals told us to leave */
int cli_stop_fd(void);      /* readable from the first of them on */

/* RFC 3339, in UTC, nine digits; text has room for CLI_TIME_BYTES_MAX. */
#define CLI_TIME_BYTES_MAX 48
void cli_time_text(int64_t at_ns, char text[CLI_TIME_BYTES_MAX]);

/* ---- JSON -------------------------------------------------------------------------------------*/

struct cli_json; /* an object or an array; each call also takes NULL (no memory) */

struct cli_json *cli_json_new(void); /* an empty object */
void cli_json_text(struct cli_json *object, const char *key, const char *text); /* NULL: null */
void cli_json_number(struct cli_json *object, const char *key, int64_t number);
void cli_json_null(struct cli_json *object, const char *key);
void cli_json_bool(struct cli_json *object, const char *key, bool yes);
void cli_json_time(struct cli_json *object, const char *key, int64_t at_ns); /* 0: null */
/* A value that is UTF-8 becomes a string.  Any other becomes base64, with "encoding":"base64"
 * beside it. */
void cli_json_value(struct cli_json *object, const char *key, const void *value, size_t bytes);
/* Another object within it; borrowed. */
struct cli_json *cli_json_object(struct cli_json *object, const char *key);
/* An error with its cause, the causes if there are more, and the root; the caller's. */
struct cli_json *cli_json_of_error(const struct bus_error *error);
/* The same, as a member. */
void cli_json_error(struct cli_json *object, const char *key, const struct bus_error *error);
struct cli_json *cli_json_array(struct cli_json *object, const char *key); /* borrowed */
struct cli_json *cli_json_append(struct cli_json *array); /* an object at its end; borrowed */
/* One line; frees *object.  False: it could not be built or written. */
bool cli_json_print(struct cli_json **object, FILE *file);

/* A line that is written member by member, and never kept: answers have thousands of them.  It has
 * the text that the calls above give. */
struct cli_line {
    FILE *out;
    bool has_members;
};

struct cli_line cli_line_begin(FILE *out);
void cli_line_text(struct cli_line *line, const char *key, const char *text);
void cli_line_number(struct cli_line *line, const char *key, int64_t number);
void cli_line_end(struct cli_line *line);

/* Reads a JSON object.  NULL: bytes are none; problem says why. */
struct cli_json *cli_json_read(const char *text, size_t bytes, char problem[CLI_PROBLEM_BYTES_MAX]);
void cli_json_free(struct cli_json **object);
/* The member of this key; an array or object is borrowed.  NULL or false: there is none of that
 * kind. */
const char *cli_json_find_text(const struct cli_json *object, const char *key);
bool cli_json_find_number(const struct cli_json *object, const char *key, int64_t *out_number);
bool cli_json_find_bool(const struct cli_json *object, const char *key, bool *out_yes);
struct cli_json *cli_json_find_object(const struct cli_json *object, const char *key);
struct cli_json *cli_json_find_array(const struct cli_json *object, const char *key);
bool cli_json_has(const struct cli_json *object, const char *key); /* something but null */
/* NULL: the array is shorter, or the element is no object. */
struct cli_json *cli_json_object_at(const struct cli_json *array, size_t index);
const char *cli_json_text_at(const struct cli_json *array, size_t index); /* the same of text */
size_t cli_json_count(const struct cli_json *array);

/* The length of base64 of bytes, without the NUL; text has room for it and the NUL. */
size_t cli_base64_bytes(size_t bytes);
void cli_base64(const void *value, size_t bytes, char *text);

#endif
