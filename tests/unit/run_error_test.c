/* SPDX-License-Identifier: MPL-2.0 */
/* run_error_test.c -- ends of programs are named exactly, error files read in both their forms. */
#include "clients/run_error.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define CORE 0x80 /* of a wait status */
#define EXITED(status) W_EXITCODE((status), 0)
#define KILLED(number) W_EXITCODE(0, (number))

/* ---- ends -------------------------------------------------------------------------------------*/

struct end_case {
    struct run_end end;
    const char *type, *message;
    int64_t code;
    int recoverable;
};

static const struct end_case end_cases[] = {
    {{.wait_status = EXITED(1)}, RUN_TYPE_EXIT, "job exited with status 1", 1, -1},
    {{.wait_status = EXITED(3)}, RUN_TYPE_EXIT, "job exited with status 3", 3, -1},
    {{.wait_status = EXITED(128)}, RUN_TYPE_EXIT, "job exited with status 128", 128, -1},
    {{.wait_status = EXITED(139)},
     RUN_TYPE_EXIT,
     "job exited with status 139, a shell's way to say SIGSEGV",
     139,
     -1},
    {{.wait_status = EXITED(192)},
     RUN_TYPE_EXIT,
     "job exited with status 192, a shell's way to say SIGRTMIN+30",
     192,
     -1},
    {{.wait_status = EXITED(193)}, RUN_TYPE_EXIT, "job exited with status 193", 193, -1},
    {{.wait_status = EXITED(255)}, RUN_TYPE_EXIT, "job exited with status 255", 255, -1},
    {{.wait_status = KILLED(SIGKILL)}, RUN_TYPE_SIGNAL, "job was killed by SIGKILL", -9, -1},
    {{.wait_status = KILLED(SIGSEGV) | CORE},
     RUN_TYPE_SIGNAL,
     "job was killed by SIGSEGV, core dumped",
     -11,
     -1},
    {{.wait_status = KILLED(SIGABRT)}, RUN_TYPE_SIGNAL, "job was killed by SIGABRT", -6, -1},
    {{.wait_status = KILLED(SIGKILL), .is_out_of_memory = true},
     RUN_TYPE_MEMORY,
     "job was killed by SIGKILL: out of memory",
     -9,
     -1},
    {{.wait_status = EXITED(137), .is_out_of_memory = true},
     RUN_TYPE_MEMORY,
     "job exited with status 137, a shell's way to say SIGKILL: out of memory",
     137,
     -1},
    {{.wait_status = KILLED(SIGTERM), .is_out_of_memory = true},
     RUN_TYPE_SIGNAL,
     "job was killed by SIGTERM",
     -15,
     -1},
    {{.wait_status = EXITED(1), .is_out_of_memory = true},
     RUN_TYPE_EXIT,
     "job exited with status 1",
     1,
     -1},
    {{.start_errno = ENOENT},
     RUN_TYPE_START,
     "job could not be started: No such file or directory",
     127,
     0},
    {{.start_errno = EACCES},
     RUN_TYPE_START,
     "job could not be started: Permission denied",
     126,
     0},
    {{.start_errno = ENOEXEC},
     RUN_TYPE_START,
     "job could not be started: Exec format error",
     126,
     0},
    {{.start_errno = EAGAIN},
     RUN_TYPE_START,
     "job could not be started: Resource temporarily unavailable",
     126,
     1},
    {{.start_errno = ENOMEM},
     RUN_TYPE_START,
     "job could not be started: Cannot allocate memory",
     126,
     1},
    {{.wait_status = EXITED(2), .problem = "it is empty"},
     RUN_TYPE_EXIT,
     "job exited with status 2; its error file could not be used: it is empty",
     2,
     -1},
};

Test(run_error, names_every_end)
{
    for (size_t i = 0; i < COUNT(end_cases); i++) {
        struct run_end end = end_cases[i].end;
        end.program = "job";
        struct bus_error *error = run_error_of_end(&end);
        cr_assert_not_null(error);
        cr_expect_str_eq(bus_error_type(error), end_cases[i].type);
        cr_expect_str_eq(bus_error_message(error), end_cases[i].message);
        cr_expect_eq(bus_error_code(error), end_cases[i].code, "case %zu", i);
        bool has_ended = end.start_errno == 0;
        int number = has_ended && WIFSIGNALED(end.wait_status) ? WTERMSIG(end.wait_status) : 0;
        int status = has_ended && number == 0 ? WEXITSTATUS(end.wait_status) : -1;
        cr_expect_eq(bus_error_signal(error), number, "case %zu", i);
        cr_expect_eq(bus_error_exit_code(error), status, "case %zu", i);
        cr_expect_eq(bus_error_recoverable(error), end_cases[i].recoverable, "case %zu", i);
        bus_error_unref(&error);
    }
}

/* A death by a signal is dated to when the program was last seen to run, and others to now. */
Test(run_error, dates_a_death_by_a_signal)
{
    static const struct {
        int wait_status;
        int64_t ran_ns;
        bool is_dated;
    } cases[] = {{KILLED(SIGKILL), 5, true},  {KILLED(SIGSEGV), 5, true},
                 {KILLED(SIGKILL), 0, false}, {KILLED(SIGKILL), 9, false},
                 {KILLED(SIGABRT), 5, false}, {KILLED(SIGPIPE), 5, false},
                 {EXITED(1), 5, false}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct run_end end = {.program = "job",
                              .wait_status = cases[i].wait_status,
                              .ran_ns = cases[i].ran_ns,
                              .ended_ns = 8};
        struct bus_error *error = run_error_of_end(&end);
        cr_expect_eq(bus_error_occurred_ns(error) == cases[i].ran_ns, cases[i].is_dated, "case %zu",
                     i);
        bus_error_unref(&error);
    }
}

Test(run_error, is_none_of_a_good_end)
{
    struct run_end end = {.program = "job", .wait_status = EXITED(0)};
    cr_expect(run_error_is_good(&end));
    cr_expect_null(run_error_of_end(&end));
    end.start_errno = ENOENT;
    cr_expect_not(run_error_is_good(&end), "what did not start did not exit either");
}

Test(run_error, names_signals)
{
    char text[RUN_SIGNAL_BYTES_MAX];
    static const struct {
        int number;
        const char *name;
    } cases[] = {{1, "SIGHUP"},     {6, "SIGABRT"},     {7, "SIGBUS"},       {9, "SIGKILL"},
                 {11, "SIGSEGV"},   {13, "SIGPIPE"},    {15, "SIGTERM"},     {31, "SIGSYS"},
                 {32, "signal 32"}, {34, "SIGRTMIN+0"}, {64, "SIGRTMIN+30"}, {65, "signal 65"},
                 {0, "signal 0"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        run_error_signal_name(cases[i].number, text);
        cr_expect_str_eq(text, cases[i].name);
    }
}

static const char *message_with(const struct run_end *end)
{
    static char message[8192];
    struct bus_error *error = run_error_of_end(end);
    (void)snprintf(message, sizeof message, "%s", bus_error_message(error));
    bus_error_unref(&error);
    return message;
}

Test(run_error, shows_what_the_program_said_last)
{
    struct run_end end = {.program = "job",
                          .wait_status = EXITED(1),
                          .tail = "no\0\x1b[1m\tdisk\n",
                          .tail_bytes = 13,
                          .said_bytes = 13};
    cr_expect_str_eq(message_with(&end), "job exited with status 1: no??[1m\tdisk");
    end.said_bytes = 100000000;
    cr_expect_str_eq(message_with(&end), "the last 13 of 100000000 bytes of its standard error\n"
                                         "job exited with status 1: no??[1m\tdisk");
    end.tail = NULL;
    end.tail_bytes = 0;
    end.said_bytes = 0;
    cr_expect_str_eq(message_with(&end), "job exited with status 1");
}

/* Says text, all of it, and ends with 1. */
static struct bus_error *error_saying(const char *text)
{
    struct run_end end = {.program = "job",
                          .wait_status = EXITED(1),
                          .tail = text,
                          .tail_bytes = strlen(text),
                          .said_bytes = strlen(text)};
    return run_error_of_end(&end);
}

#define TRACE                                                                                      \
    "Traceback (most recent call last):\n  File \"a.py\", line 7, in f\n    secret()\nE: bad\n"

Test(run_error, has_a_trace_as_its_stacktrace_and_the_last_line_of_it_as_its_message)
{
    static const struct {
        const char *said, *message, *stacktrace;
    } cases[] = {
        {"epoch 1\n" TRACE "\n", "job exited with status 1: E: bad", TRACE},
        {TRACE "closing\n",
         "its standard error after the trace:\n  closing\njob exited with status 1: E: bad", TRACE},
        {"Exception in thread \"main\" E: a\n\tat M.m(M.java:1)\nCaused by: F: b\n"
         "\tat M.m(M.java:2)\n",
         "job exited with status 1: E: a, caused by F: b",
         "Exception in thread \"main\" E: a\n\tat M.m(M.java:1)\nCaused by: F: b\n"
         "\tat M.m(M.java:2)\n"},
        {"no room\n  File \"a.py\", line 7, in f\n    secret()\n",
         "job exited with status 1: its standard error ends with a trace that has no beginning",
         "  File \"a.py\", line 7, in f\n    secret()\n"},
        {"no room\n    #0 0x77 in main a.c:7\n",
         "its standard error, without lines of a trace\njob exited with status 1: no room",
         "no room\n    #0 0x77 in main a.c:7\n"},
        {"no room\n", "job exited with status 1: no room", ""},
        {"a\n\n b\n  c \n \n",
         "its standard error before that:\n  a\n   b\njob exited with status 1: c", ""},
        {" \n\n", "job exited with status 1", ""},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct bus_error *error = error_saying(cases[i].said);
        cr_expect_str_eq(bus_error_message(error), cases[i].message);
        cr_expect_str_eq(bus_error_stacktrace(error), cases[i].stacktrace);
        bus_error_unref(&error);
    }
}

/* Of what was cut, the first line is half a line: of a source line, perhaps. */
Test(run_error, leaves_out_a_line_without_its_beginning)
{
    struct run_end end = {.program = "job",
                          .wait_status = EXITED(1),
                          .tail = "ret()\nno room here\n",
                          .tail_bytes = 19,
                          .said_bytes = 20};
    cr_expect_str_eq(message_with(&end), "the last 13 of 20 bytes of its standard error\n"
                                         "job exited with status 1: no room here");
}

/* The last line of the message, of bytes of 'x' with mark at a place.  out_cut: how many bytes the
 * message says that it shows; 0: it says nothing. */
static const char *tail_of(size_t bytes, size_t mark_at, const char *mark, size_t *out_cut)
{
    static char text[2 * RUN_TAIL_BYTES_MAX];
    memset(text, 'x', sizeof text);
    memcpy(text + mark_at, mark, strlen(mark));
    struct run_end end = {.program = "job",
                          .wait_status = EXITED(1),
                          .tail = text,
                          .tail_bytes = bytes,
                          .said_bytes = bytes};
    const char *message = message_with(&end);
    const char *tail = strstr(message, "job exited with status 1: ");
    cr_assert_not_null(tail);
    *out_cut = 0;
    (void)sscanf(message, "the last %zu of", out_cut);
    return tail + strlen("job exited with status 1: ");
}

Test(run_error, cuts_the_tail_at_its_limit_before_a_line_or_a_character)
{
    enum { MOST = RUN_TAIL_BYTES_MAX };
    static const struct {
        size_t bytes, mark_at;
        const char *mark;
        size_t last, cut;
    } cases[] = {
        {MOST, 0, "x", MOST, 0},
        {MOST + 1, 0, "x", MOST, MOST},
        {MOST - 2, 5, "\n", MOST - 8, 0},        /* the newline takes three: an indent follows it */
        {MOST - 1, 5, "\n", MOST - 7, MOST - 7}, /* the line that was cut goes too ... */
        {MOST + 1, MOST / 2, "\n", MOST / 2, MOST / 2},
        {MOST + 1, MOST / 2 + 2, "\n", MOST / 2 - 2, MOST - 2}, /* ... but not more than half */
        {MOST + 1, 0, "\xf0\x9f\x98\x80", MOST - 3, MOST - 3},  /* three bytes of a character */
        {MOST + 2, 0, "\xf0\x9f\x98\x80", MOST - 2, MOST - 2},
        {MOST + 4, 4, "\xf0\x9f\x98\x80", MOST, MOST},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t cut;
        const char *tail = tail_of(cases[i].bytes, cases[i].mark_at, cases[i].mark, &cut);
        cr_expect_eq(strlen(tail), cases[i].last, "case %zu: %zu", i, strlen(tail));
        cr_expect_eq(cut, cases[i].cut, "case %zu: %zu", i, cut);
    }
}

/* Each line costs its indent, and the sentence at the end is not cut. */
Test(run_error, has_room_for_many_short_lines)
{
    static char said[RUN_SEEN_BYTES_MAX];
    for (size_t i = 0; i < sizeof said; i++)
        said[i] = i % 2 == 0 ? 'a' : '\n';
    struct run_end end = {.program = "job",
                          .wait_status = EXITED(1),
                          .tail = said,
                          .tail_bytes = sizeof said,
                          .said_bytes = sizeof said};
    const char *message = message_with(&end);
    const char *last = strrchr(message, '\n');
    cr_expect_leq(strlen(message), 4096);
    cr_expect_eq(strstr(message, "the last 1498 of 32768 bytes of its standard error:\n  a\n  a\n"),
                 message, "%.80s", message);
    cr_assert_not_null(last);
    cr_expect_str_eq(last, "\njob exited with status 1: a");
}

Test(run_error, stays_within_a_message_whatever_is_put_in)
{
    static char said[RUN_SEEN_BYTES_MAX];
    char program[1000], problem[CLI_PROBLEM_BYTES_MAX], tail[RUN_TAIL_BYTES_MAX];
    memset(program, 'p', sizeof program);
    memset(problem, 'q', sizeof problem);
    memset(tail, 't', sizeof tail);
    program[sizeof program - 1] = problem[sizeof problem - 1] = '\0';
    struct run_end end = {.program = program,
                          .wait_status = KILLED(SIGSEGV) | CORE,
                          .tail = tail,
                          .tail_bytes = sizeof tail,
                          .said_bytes = UINT64_MAX,
                          .problem = problem};
    const char *message = message_with(&end);
    cr_expect_leq(strlen(message), 4096);
    cr_expect_not_null(strstr(message, "pp... was killed by SIGSEGV, core dumped; its error file"));
    cr_expect_not_null(strstr(message, problem));
    cr_expect_not_null(strstr(message, "the last 3000 of 18446744073709551615 bytes"));
    cr_expect_eq(strspn(strstr(message, ": ttt") + 2, "t"), sizeof tail);

    /* A long line says what happened, and much is said behind it. */
    memset(said, 't', sizeof said);
    memcpy(said, "Exception in thread \"m\" ", 24);
    memcpy(said + 5000, "\n\tat a(\nCaused by: ", 19);
    memcpy(said + 10000, "\n\tat a(\n", 8);
    end.tail = said;
    end.tail_bytes = sizeof said;
    end.said_bytes = sizeof said;
    message = message_with(&end);
    cr_expect_leq(strlen(message), 4096);
    cr_expect_not_null(strstr(message, ": ttt"));
    cr_expect_not_null(strstr(message, ", caused by ttt"));
    cr_expect_not_null(
        strstr(message, "the last 2000 of 32768 bytes of its standard error after the trace:"));
    cr_expect_null(strstr(message, "cut ..."), "%s", message);
}

/* ---- our form ---------------------------------------------------------------------------------*/

static struct run_error read_good(const char *text)
{
    struct run_error error = {0};
    char problem[CLI_PROBLEM_BYTES_MAX] = "";
    cr_assert(run_error_of_file(text, strlen(text), &error, problem), "%.100s: %s", text, problem);
    cr_assert_not_null(error.error);
    return error;
}

static void expect_bad(const char *text, const char *why)
{
    struct run_error error = {.occurred_ns = 7};
    char problem[CLI_PROBLEM_BYTES_MAX] = "";
    cr_expect_not(run_error_of_file(text, strlen(text), &error, problem), "%.100s", text);
    cr_expect_not_null(strstr(problem, why), "'%s' is not in '%s'", why, problem);
    cr_expect_null(error.error);
    cr_expect_eq(error.occurred_ns, 7);
}

Test(run_error, reads_all_of_our_form)
{
    struct run_error error =
        read_good("{\"type\": \"app.disk_full\", \"message\": \"no room on \\u00e9\", "
                  "\"stacktrace\": \"at write()\\nat main()\", \"code\": -28, "
                  "\"recoverable\": true, \"retry_after_ms\": 500, \"blame\": \"alice\", "
                  "\"occurred_at\": \"2026-11-21T06:16:24.5Z\", \"id\": \"ignored\", "
                  "\"causes\": [{\"type\": \"app.one\", \"message\": \"1\", \"cause\": "
                  "{\"type\": \"app.deep\", \"message\": \"\", \"recoverable\": false}}, "
                  "{\"type\": \"app.two\", \"message\": \"2\"}]}");
    struct bus_error *top = error.error;
    cr_expect_str_eq(bus_error_type(top), "app.disk_full");
    cr_expect_str_eq(bus_error_message(top), "no room on \xc3\xa9");
    cr_expect_str_eq(bus_error_stacktrace(top), "at write()\nat main()");
    cr_expect_eq(bus_error_code(top), -28);
    cr_expect_eq(bus_error_recoverable(top), 1);
    cr_expect_eq(bus_error_retry_after_ms(top), 500);
    cr_expect_str_eq(bus_error_blame(top), "alice");
    cr_expect_eq(error.occurred_ns, INT64_C(1795241784500000000));
    const struct bus_error *one = bus_error_cause(top);
    cr_expect_str_eq(bus_error_type(one), "app.one");
    cr_expect_eq(bus_error_recoverable(one), -1);
    cr_expect_str_eq(bus_error_type(bus_error_cause(one)), "app.deep");
    cr_expect_eq(bus_error_recoverable(bus_error_cause(one)), 0);
    cr_expect_str_eq(bus_error_type(bus_error_cause_at(top, 1)), "app.two");
    cr_expect_null(bus_error_cause_at(top, 2));
    bus_error_unref(&top);
}

Test(run_error, reads_the_least_of_our_form)
{
    struct run_error error = read_good("{\"type\":\"t\",\"message\":\"\",\"code\":null,"
                                       "\"recoverable\":null,\"cause\":null,\"causes\":null,"
                                       "\"occurred_at\":null,\"blame\":null}");
    cr_expect_str_eq(bus_error_type(error.error), "t");
    cr_expect_str_eq(bus_error_message(error.error), "");
    cr_expect_eq(bus_error_code(error.error), 0);
    cr_expect_eq(bus_error_recoverable(error.error), -1);
    cr_expect_eq(bus_error_retry_after_ms(error.error), -1);
    cr_expect_null(bus_error_cause(error.error));
    cr_expect_eq(error.occurred_ns, 0);
    bus_error_unref(&error.error);
}

/* What errbus prints of an error is an error file. */
Test(run_error, reads_what_is_printed)
{
    struct bus_error *root = bus_error_new("app.root", NULL, "disk \"full\"");
    cr_assert_eq(bus_error_set_blame(root, "carol"), BUS_OK);
    struct bus_error *top = bus_error_new("app.top", root, "no\nround");
    cr_assert_eq(bus_error_set_code(top, 28), BUS_OK);
    cr_assert_eq(bus_error_set_recoverable(top, 0), BUS_OK);
    cr_assert_eq(bus_error_add_blame(top, "alice"), BUS_OK);
    cr_assert_eq(bus_error_add_blame(top, "bob"), BUS_OK);
    char *line = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&line, &bytes);
    cr_assert_not_null(file);
    struct cli_json *object = cli_json_new();
    cli_json_error(object, "error", top);
    cr_assert(cli_json_print(&object, file));
    cr_assert_eq(fclose(file), 0);
    /* {"error":{...}} */
    line[strlen(line) - 2] = '\0';
    struct run_error error = read_good(line + strlen("{\"error\":"));
    cr_expect_str_eq(bus_error_type(error.error), "app.top");
    cr_expect_str_eq(bus_error_message(error.error), "no\nround");
    cr_expect_str_eq(bus_error_blame_at(error.error, 0), "alice");
    cr_expect_str_eq(bus_error_blame_at(error.error, 1), "bob");
    cr_expect_null(bus_error_blame_at(error.error, 2));
    cr_expect_str_eq(bus_error_blame(bus_error_cause(error.error)), "carol");
    cr_expect_eq(bus_error_code(error.error), 28);
    cr_expect_eq(bus_error_recoverable(error.error), 0);
    cr_expect_str_eq(bus_error_message(bus_error_cause(error.error)), "disk \"full\"");
    bus_error_unref(&error.error);
    bus_error_unref(&top);
    bus_error_unref(&root);
    free(line);
}

Test(run_error, reads_times)
{
    static const struct {
        const char *text;
        int64_t ns; /* -1: refused */
    } cases[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1970-01-01T00:00:00.000000001Z", 1},
        {"1970-01-01t00:00:01z", 1000000000},
        {"1970-01-01 00:00:01Z", 1000000000},
        {"2026-11-21T06:16:24Z", INT64_C(1795241784000000000)},
        {"2026-11-21T06:16:24.123456789Z", INT64_C(1795241784123456789)},
        {"2026-11-21T06:16:24.1234567899Z", INT64_C(1795241784123456789)},
        {"2026-11-21T07:46:24+01:30", INT64_C(1795241784000000000)},
        {"2026-11-20T22:16:24-08:00", INT64_C(1795241784000000000)},
        {"2024-02-29T00:00:00Z", INT64_C(1709164800000000000)},
        {"2016-12-31T23:59:60Z", INT64_C(1483228800000000000)},
        {"2026-02-29T00:00:00Z", -1},
        {"2026-04-31T00:00:00Z", -1},
        {"2026-13-01T00:00:00Z", -1},
        {"2026-00-01T00:00:00Z", -1},
        {"2026-01-00T00:00:00Z", -1},
        {"2026-01-01T24:00:00Z", -1},
        {"2026-01-01T00:60:00Z", -1},
        {"2026-01-01T00:00:61Z", -1},
        {"2026-01-01T00:00:00", -1},
        {"2026-01-01T00:00:00.Z", -1},
        {"2026-01-01T00:00:00+24:00", -1},
        {"2026-01-01T00:00:00+0100", -1},
        {"2026-01-01T00:00:00Zx", -1},
        {"2026-01-01", -1},
        {"2026-1-1T00:00:00Z", -1},
        {"1969-12-31T23:59:59Z", -1},
        {"1970-01-01T00:00:00+00:01", -1},
        {"9999-12-31T23:59:59Z", -1},
        {"yesterday", -1},
        {"", -1},
    };
    char text[200];
    for (size_t i = 0; i < COUNT(cases); i++) {
        (void)snprintf(text, sizeof text,
                       "{\"type\":\"t\",\"message\":\"\",\"occurred_at\":\"%s\"}", cases[i].text);
        if (cases[i].ns < 0) {
            expect_bad(text, "occurred_at");
            continue;
        }
        struct run_error error = read_good(text);
        cr_expect_eq(error.occurred_ns, cases[i].ns, "%s: %" PRId64, cases[i].text,
                     error.occurred_ns);
        bus_error_unref(&error.error);
    }
}

Test(run_error, refuses_what_is_not_well_formed_and_says_why)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "empty"},
        {"{", "line 1"},
        {"[]", "no JSON object"},
        {"7", "line 1"},
        {"{\"type\":\"t\",\"message\":\"\\ud800\"}", "line 1"},
        {"{\"type\":\"t\",\"message\":\"\\u0000\"}", "line 1"},
        {"{\"type\":\"t\",\"message\":\"\xff\"}", "line 1"},
        {"{\"type\":\"t\",\"message\":\"m\"} x", "line 1"},
        {"{}", "\"message\""},
        {"{\"type\":\"t\"}", "\"message\" is not a string"},
        {"{\"type\":\"t\",\"message\":{}}", "\"message\" is not a string"},
        {"{\"type\":\"\",\"message\":\"\"}", "\"type\""},
        {"{\"type\":7,\"message\":\"\"}", "\"type\""},
        {"{\"type\":\"t\",\"message\":\"\",\"stacktrace\":[]}", "\"stacktrace\" is not a string"},
        {"{\"type\":\"t\",\"message\":\"\",\"blame\":\"a/b\"}", "\"blame\" is not well formed"},
        {"{\"type\":\"t\",\"message\":\"\",\"blame\":{}}", "\"blame\" is not a string"},
        {"{\"type\":\"t\",\"message\":\"\",\"code\":\"28\"}", "\"code\" is not a whole number"},
        {"{\"type\":\"t\",\"message\":\"\",\"code\":1.5}", "\"code\" is not a whole number"},
        {"{\"type\":\"t\",\"message\":\"\",\"retry_after_ms\":-1}", "\"retry_after_ms\" is out of"},
        {"{\"type\":\"t\",\"message\":\"\",\"recoverable\":1}", "\"recoverable\" is neither"},
        {"{\"type\":\"t\",\"message\":\"\",\"occurred_at\":1}", "\"occurred_at\" is not a time"},
        {"{\"type\":\"t\",\"message\":\"\",\"cause\":\"c\"}", "\"cause\" is not an object"},
        {"{\"type\":\"t\",\"message\":\"\",\"cause\":{}}", "\"type\""},
        {"{\"type\":\"t\",\"message\":\"\",\"causes\":{}}", "\"causes\" is not an array"},
        {"{\"type\":\"t\",\"message\":\"\",\"causes\":[7]}", "\"causes\" is not an object"},
        {"{\"type\":\"t\",\"message\":\"\",\"causes\":[{\"type\":\"t\",\"message\":\"\"},{}]}",
         "\"type\""},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        expect_bad(cases[i].text, cases[i].why);
    }
}

/* count objects {"type":"t","message":"","cause": ... in each other. */
static const char *nested(int count)
{
    static char text[4096];
    size_t at = 0;
    for (int i = 0; i < count; i++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%s{\"type\":\"t%d\",\"message\":\"\"",
                               i > 0 ? ",\"cause\":" : "", i);
    }
    memset(text + at, '}', (size_t)count);
    text[at + (size_t)count] = '\0';
    return text;
}

static const char *with_causes(int count)
{
    static char text[4096];
    size_t at =
        (size_t)snprintf(text, sizeof text, "{\"type\":\"t\",\"message\":\"\",\"causes\":[");
    for (int i = 0; i < count; i++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%s{\"type\":\"c%d\",\"message\":\"\"}",
                               i > 0 ? "," : "", i);
    }
    (void)snprintf(text + at, sizeof text - at, "]}");
    return text;
}

Test(run_error, holds_causes_to_their_limits)
{
    for (int count = 0; count <= RUN_CAUSES_MAX + 1; count++) {
        if (count > RUN_CAUSES_MAX) {
            expect_bad(with_causes(count), "more than 16");
            break;
        }
        struct run_error error = read_good(with_causes(count));
        cr_expect_eq(bus_error_cause_at(error.error, (size_t)count), NULL);
        cr_expect(count == 0 || bus_error_cause_at(error.error, (size_t)count - 1) != NULL);
        bus_error_unref(&error.error);
    }
    for (int depth = RUN_CAUSES_DEPTH_MAX - 1; depth <= RUN_CAUSES_DEPTH_MAX; depth++) {
        char last[16];
        (void)snprintf(last, sizeof last, "t%d", depth);
        struct run_error error = read_good(nested(depth + 1));
        cr_expect_str_eq(bus_error_type(bus_error_root(error.error)), last);
        bus_error_unref(&error.error);
    }
    expect_bad(nested(RUN_CAUSES_DEPTH_MAX + 2), "deeper than 16");
}

static const char *with_blames(int count)
{
    static char text[1000];
    size_t at = (size_t)snprintf(text, sizeof text,
                                 "{\"type\":\"t\",\"message\":\"\",\"blame\":"
                                 "\"nobody\",\"blames\":[");
    for (int i = 0; i < count; i++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%s\"p%d\"", i > 0 ? "," : "", i);
    }
    (void)snprintf(text + at, sizeof text - at, "]}");
    return text;
}

Test(run_error, reads_all_who_are_blamed)
{
    for (int count = 0; count <= 16; count++) {
        struct run_error error = read_good(with_blames(count));
        cr_expect_str_eq(bus_error_blame(error.error), count > 0 ? "p0" : "");
        cr_expect_null(bus_error_blame_at(error.error, (size_t)count));
        cr_expect(count == 0 || bus_error_blame_at(error.error, (size_t)count - 1) != NULL);
        bus_error_unref(&error.error);
    }
    expect_bad(with_blames(17), "more than 16");
    expect_bad("{\"type\":\"t\",\"message\":\"\",\"blames\":\"bob\"}", "not an array");
    expect_bad("{\"type\":\"t\",\"message\":\"\",\"blames\":[7]}", "not a string");
    expect_bad("{\"type\":\"t\",\"message\":\"\",\"blames\":[\"a/b\"]}", "not a party");
}

Test(run_error, holds_type_and_file_to_their_limits)
{
    char text[400], type[BUS_NAME_BYTES_MAX + 2];
    for (size_t bytes = BUS_NAME_BYTES_MAX - 1; bytes <= BUS_NAME_BYTES_MAX + 1; bytes++) {
        memset(type, 't', bytes);
        type[bytes] = '\0';
        (void)snprintf(text, sizeof text, "{\"type\":\"%s\",\"message\":\"\"}", type);
        if (bytes > BUS_NAME_BYTES_MAX) {
            expect_bad(text, "\"type\"");
            continue;
        }
        struct run_error error = read_good(text);
        cr_expect_str_eq(bus_error_type(error.error), type);
        bus_error_unref(&error.error);
    }
    static char file[RUN_FILE_BYTES_MAX + 2];
    static const char good[] = "{\"type\":\"t\",\"message\":\"\"}";
    for (size_t bytes = RUN_FILE_BYTES_MAX - 1; bytes <= RUN_FILE_BYTES_MAX + 1; bytes++) {
        memset(file, ' ', bytes);
        memcpy(file + bytes - (sizeof good - 1), good, sizeof good);
        struct run_error error = read_good(file);
        bus_error_unref(&error.error);
    }
}

/* A file that breaks off within a write says what it has said by then. */
Test(run_error, saves_what_there_is_of_a_file_that_breaks_off)
{
    static const struct {
        const char *text, *type, *message;
        int64_t code;
    } cases[] = {
        {"{\"type\":\"app.full\",\"code\":28,\"message\":\"no ro", "app.full",
         "no ro (its error file breaks off)", 28},
        {"{\"type\":\"app.full\",\"message\":\"no room\",\"code\":2", "app.full",
         "no room (its error file breaks off)", 0},
        {"{\"type\":\"app.full\",\"code\":28,", "app.full", "its error file breaks off", 28},
        {"{\"message\":\"E: no ro", "E", "E: no ro (its error file breaks off)", 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct run_error error = read_good(cases[i].text);
        cr_expect_str_eq(bus_error_type(error.error), cases[i].type, "case %zu", i);
        cr_expect_str_eq(bus_error_message(error.error), cases[i].message, "case %zu", i);
        cr_expect_eq(bus_error_code(error.error), cases[i].code, "case %zu", i);
        bus_error_unref(&error.error);
    }
}

/* ---- when it occurred -------------------------------------------------------------------------*/

Test(run_error, occurred_when_its_file_says_or_else_when_that_was_written)
{
    enum { S = 1000000000 };
    /* The program ran from 100 s to 200 s. */
    static const struct {
        int64_t own_ns, written_ns, at_ns;
        uint64_t uncertainty_ns, left_ns;
    } cases[] = {
        {INT64_C(150) * S, INT64_C(160) * S, INT64_C(150) * S, 0, 0},
        {0, INT64_C(160) * S, INT64_C(160) * S, 0, 0},
        {INT64_C(100) * S, INT64_C(160) * S, INT64_C(100) * S, 0, 0},
        {INT64_C(99) * S, INT64_C(160) * S, INT64_C(160) * S, 0, 0},  /* before it began */
        {INT64_C(170) * S, INT64_C(160) * S, INT64_C(160) * S, 0, 0}, /* written before it was */
        {INT64_C(201) * S, INT64_C(160) * S, INT64_C(160) * S, 0, 0}, /* to come */
        {1, INT64_C(160) * S, INT64_C(160) * S, 0, 0},
        {0, INT64_C(50) * S, 0, 0, 0},  /* a copy of another run's */
        {0, INT64_C(300) * S, 0, 0, 0}, /* a clock of another host */
        {1, 1, 0, 0, 0},
        {INT64_C(150) * S, INT64_C(50) * S, INT64_C(150) * S, 0, 0},
        /* Whole seconds: within the second, and before the file was written. */
        {INT64_C(150) * S, INT64_C(150) * S + 7, INT64_C(150) * S + 7, S, 7},
        {INT64_C(150) * S, INT64_C(160) * S, INT64_C(151) * S, S, S},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct run_error error = {.error = bus_error_new("t", NULL, "m"),
                                  .occurred_ns = cases[i].own_ns,
                                  .uncertainty_ns = cases[i].uncertainty_ns};
        run_error_date(&error, &(struct run_times){.began_ns = INT64_C(100) * S,
                                                   .written_ns = cases[i].written_ns,
                                                   .now_ns = INT64_C(200) * S});
        cr_expect_eq(error.occurred_ns, cases[i].at_ns, "case %zu: %" PRId64, i, error.occurred_ns);
        cr_expect_eq(error.uncertainty_ns, cases[i].left_ns, "case %zu", i);
        if (cases[i].at_ns > 0) {
            cr_expect_eq(bus_error_occurred_ns(error.error), cases[i].at_ns, "case %zu", i);
        }
        bus_error_unref(&error.error);
    }
}

/* ---- the elastic launcher's form --------------------------------------------------------------*/

Test(run_error, reads_what_the_elastic_launcher_defines)
{
    static const struct {
        const char *text, *type, *message, *stack;
        int64_t code, seconds;
    } cases[] = {
        {"{\"message\": {\"message\": \"RuntimeError: CUDA out of memory\", \"extraInfo\": "
         "{\"py_callstack\": \"Traceback (most recent call last):\\n  File \\\"train.py\\\"\\n\", "
         "\"timestamp\": \"1795241784\"}}}",
         "RuntimeError", "RuntimeError: CUDA out of memory",
         "Traceback (most recent call last):\n  File \"train.py\"\n", 0, 1795241784},
        {"{\"message\": {\"message\": \"torch.OutOfMemoryError: x\", \"errorCode\": 139, "
         "\"extraInfo\": {\"timestamp\": 1795241784}}}",
         "torch.OutOfMemoryError", "torch.OutOfMemoryError: x", "", 139, 1795241784},
        {"{\"message\": {\"message\": \"KeyError: 'a'\"}}", "KeyError", "KeyError: 'a'", "", 0, 0},
        {"{\"message\": {\"message\": \"AssertionError: \"}}", "AssertionError",
         "AssertionError: ", "", 0, 0},
        {"{\"message\": {\"message\": \"SystemExit:\"}}", "SystemExit", "SystemExit:", "", 0, 0},
        {"{\"message\": \"it just stopped\", \"timestamp\": 1795241784}", "errbus.untyped",
         "it just stopped", "", 0, 1795241784},
        {"{\"message\": \"http://x: no\", \"timestamp\": \"1795241784\"}", "errbus.untyped",
         "http://x: no", "", 0, 1795241784},
        {"{\"message\": \"3D: no\"}", "errbus.untyped", "3D: no", "", 0, 0},
        {"{\"message\": \": no\"}", "errbus.untyped", ": no", "", 0, 0},
        {"{\"message\": \"<NONE>\"}", "errbus.untyped", "<NONE>", "", 0, 0},
        {"{\"message\": \"\"}", "errbus.untyped", "", "", 0, 0},
        /* Stamps that mean nothing are unknown, and spoil nothing. */
        {"{\"message\": \"m\", \"timestamp\": \"soon\"}", "errbus.untyped", "m", "", 0, 0},
        {"{\"message\": \"m\", \"timestamp\": -1}", "errbus.untyped", "m", "", 0, 0},
        {"{\"message\": \"m\", \"timestamp\": 0}", "errbus.untyped", "m", "", 0, 0},
        {"{\"message\": \"m\", \"timestamp\": 1.5}", "errbus.untyped", "m", "", 0, 0},
        {"{\"message\": \"m\", \"timestamp\": {}}", "errbus.untyped", "m", "", 0, 0},
        {"{\"message\": \"m\", \"timestamp\": 9223372036854775807}", "errbus.untyped", "m", "", 0,
         0},
        {"{\"message\": \"m\", \"timestamp\": 9223372035}", "errbus.untyped", "m", "", 0,
         9223372035},
        {"{\"message\": \"m\", \"timestamp\": 9223372036}", "errbus.untyped", "m", "", 0, 0},
        {"{\"message\": {\"message\": \"m\", \"extraInfo\": 7}}", "errbus.untyped", "m", "", 0, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct run_error error = read_good(cases[i].text);
        cr_expect_str_eq(bus_error_type(error.error), cases[i].type);
        cr_expect_str_eq(bus_error_message(error.error), cases[i].message);
        cr_expect_str_eq(bus_error_stacktrace(error.error), cases[i].stack);
        cr_expect_eq(bus_error_code(error.error), cases[i].code, "case %zu", i);
        cr_expect_eq(bus_error_recoverable(error.error), -1);
        cr_expect_eq(error.occurred_ns, cases[i].seconds * 1000000000, "case %zu", i);
        bus_error_unref(&error.error);
    }
}

Test(run_error, refuses_what_the_elastic_launcher_does_not_define)
{
    static const char *const texts[] = {
        "{\"message\": {}}",
        "{\"message\": {\"message\": {}}}",
        "{\"message\": {\"message\": null}}",
        "{\"message\": null}",
        "{\"message\": []}",
        "{\"message\": 7}",
        "{\"msg\": \"x\"}",
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        expect_bad(texts[i], "\"message\" is missing, or has neither");
    }
}

Test(run_error, takes_the_name_of_an_exception_up_to_its_limit)
{
    char text[400], type[BUS_NAME_BYTES_MAX + 2];
    for (size_t bytes = BUS_NAME_BYTES_MAX - 1; bytes <= BUS_NAME_BYTES_MAX + 1; bytes++) {
        memset(type, 'E', bytes);
        type[bytes] = '\0';
        (void)snprintf(text, sizeof text, "{\"message\":\"%s: x\"}", type);
        struct run_error error = read_good(text);
        cr_expect_str_eq(bus_error_type(error.error),
                         bytes > BUS_NAME_BYTES_MAX ? "errbus.untyped" : type);
        bus_error_unref(&error.error);
    }
}
