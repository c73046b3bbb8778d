/* SPDX-License-Identifier: MPL-2.0 */
/* run_test.c -- errbus run: a program that knows nothing of the bus is a party, and its end is told
 * as it was. */
#include "tests/lib/revival.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS_MAX 32
/* From the end of a program to its error at a receiver: ten times the 5 ms that are promised, and
 * kept by the better half of some, however busy the machine is. */
#define TOLD_NS INT64_C(50000000)
#define TOLD_COUNT 7
#define CROWD 128 /* copies: as many as there may be */

/* Of the running test. */
static struct folder folder;
static struct process run;
static struct bus_tap *tap; /* from its beginning on */

static void open_all(void)
{
    /* Whoever started the tests in the background ignores it, and so would errbus run. */
    struct sigaction heeded = {.sa_handler = SIG_DFL};
    cr_assert_eq(sigaction(SIGINT, &heeded, NULL), 0);
    stage_open();
    tap = must_tap("default", BUS_TAP_NOW);
    cr_assert(folder_make(&folder));
}

static void close_all(void)
{
    process_fini(&run);
    bus_tap_close(&tap);
    folder_fini(&folder);
    stage_close();
}

TestSuite(run, .init = open_all, .fini = close_all, .timeout = 240);

/* `errbus run -s CONTROL --log-dir FOLDER ...`; words end with NULL. */
static void start(struct process *process, ...)
{
    const char *argv[WORDS_MAX] = {"errbus", "run", "-s", stage.control, "--log-dir", folder.path};
    size_t count = 6;
    va_list args;
    va_start(args, process);
    for (const char *word = va_arg(args, const char *); word != NULL && count + 1 < WORDS_MAX;
         word = va_arg(args, const char *)) {
        argv[count++] = word;
    }
    va_end(args);
    cr_assert(process_start(process, argv, NULL));
}

/* alice is a shell with this script. */
static void start_script(struct process *process, const char *script)
{
    start(process, "-p", "alice", "--", "sh", "-c", script, NULL);
}

static void expect_exit(struct process *process, int code)
{
    int got = process_wait(process, 3 * SOON_MS);
    cr_assert_eq(got, code, "ended with %d, not %d: %s%s", got, code, process_said(process),
                 process_complained(process));
}

static void expect_line(struct process *process, const char *text)
{
    const char *line = NULL;
    cr_assert(process_line(process, SOON_MS, &line), "no line, where '%s' was due: %s", text,
              process_complained(process));
    cr_assert_str_eq(line, text);
}

static void expect_complaint(struct process *process, const char *text)
{
    cr_assert_not_null(strstr(process_complained(process), text), "not '%s' in: %s", text,
                       process_complained(process));
}

/* The next failure of a party on the tap: its error, borrowed until the next event. */
static const struct bus_error *expect_failure(const char *party)
{
    return bus_event_error(expect_event(tap, "party.failed", party));
}

/* A process number that the program says on a line "alice: PID". */
static pid_t expect_pid(struct process *process)
{
    const char *line = NULL;
    cr_assert(process_line(process, SOON_MS, &line), "%s", process_complained(process));
    pid_t pid = (pid_t)strtol(strrchr(line, ' ') + 1, NULL, 10);
    cr_assert_gt(pid, 1, "no process number: %s", line);
    return pid;
}

/* Gone, or dead and merely not reaped by whoever has inherited it. */
static void expect_gone(pid_t pid)
{
    struct pollfd item = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
    if (item.fd < 0) {
        cr_assert_eq(errno, ESRCH, "%s", strerror(errno));
        return;
    }
    int count = poll(&item, 1, SOON_MS);
    close(item.fd);
    cr_assert_eq(count, 1, "process %ld is still there", (long)pid);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static const struct end {
    const char *script;
    const char *type;
    const char *message;
    int64_t code;
} ends[] = {
    {"exit 3", "run.exit_status", "sh exited with status 3", 3},
    {"echo oh no >&2; exit 1", "run.exit_status", "sh exited with status 1: oh no", 1},
    {"ulimit -c 0; kill -SEGV $$", "run.signal", "sh was killed by SIGSEGV", -SIGSEGV},
    {"ulimit -c 0; kill -ABRT $$", "run.signal", "sh was killed by SIGABRT", -SIGABRT},
    {"kill -KILL $$", "run.signal", "sh was killed by SIGKILL", -SIGKILL},
};

Test(run, names_the_end_of_a_program_exactly)
{
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        start_script(&run, ends[i].script);
        expect_exit(&run, (int)(ends[i].code < 0 ? 128 - ends[i].code : ends[i].code));
        const struct bus_error *error = expect_failure("alice");
        cr_assert_str_eq(bus_error_type(error), ends[i].type);
        cr_assert_str_eq(bus_error_message(error), ends[i].message);
        cr_assert_eq(bus_error_code(error), ends[i].code);
        expect_complaint(&run, ends[i].type);
        process_fini(&run);
    }
}

Test(run, ends_with_a_status_of_its_own_if_it_is_told_to)
{
    start(&run, "-p", "alice", "--own-status", "--", "sh", "-c", "exit 3", NULL);
    expect_exit(&run, 1);
}

/* What the program wrote is shown once, as it came. */
Test(run, does_not_repeat_what_the_program_wrote)
{
    start_script(&run, "echo oh no >&2; echo dear >&2; exit 1");
    expect_exit(&run, 1);
    const char *shown = process_complained(&run);
    expect_complaint(&run, "alice: oh no\nalice: dear\n");
    expect_complaint(&run,
                     "errbus run: alice: application run.exit_status: sh exited with status 1: "
                     "dear (default/alice/1/1)\n");
    cr_assert_null(strstr(strstr(shown, "oh no") + 1, "oh no"), "%s", shown);
}

/* What a shell says to end by SIGSEGV where cores may be as large as they like. */
static void make_crash(char *script, size_t bytes)
{
    snprintf(script, bytes, "cd '%s' && ulimit -c unlimited && kill -SEGV $$", folder.path);
}

/* Whether this machine dumps a core at that: a hard limit, the kernel's core_pattern or a program
 * behind it may forbid it. */
static bool dumps_core(const char *script)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", script, (char *)NULL);
        _exit(127);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) && WCOREDUMP(status);
}

Test(run, says_whether_a_core_was_dumped)
{
    char script[PATH_MAX + 64];
    make_crash(script, sizeof script);
    bool is_dumped = dumps_core(script);
    start_script(&run, script);
    expect_exit(&run, 139);
    const struct bus_error *error = expect_failure("alice");
    cr_assert_eq(bus_error_signal(error), SIGSEGV);
    cr_assert_str_eq(bus_error_message(error), is_dumped ? "sh was killed by SIGSEGV, core dumped"
                                                         : "sh was killed by SIGSEGV");
    if (!is_dumped) {
        cr_log_warn("no core is dumped on this machine: core_pattern, or a limit");
    }
}

/* ---- a control group of our own, where we may make one ---- */

static char group[PATH_MAX]; /* "": there is none */

static bool write_group(const char *name, const char *text)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", group, name);
    FILE *file = fopen(path, "w");
    bool is_written = file != NULL && fputs(text, file) >= 0;
    return file != NULL && fclose(file) == 0 && is_written;
}

/* Below the one that we are in, which accounts for memory in the first version's way. */
static bool make_group(void)
{
    char line[PATH_MAX];
    FILE *file = fopen("/proc/self/cgroup", "r");
    group[0] = '\0';
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *path = strstr(line, ":memory:");
        if (path != NULL) {
            snprintf(group, sizeof group, "/sys/fs/cgroup/memory%.*s/errbus-test-%ld",
                     (int)strcspn(path + 8, "\n"), path + 8, (long)getpid());
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    if (group[0] == '\0' || mkdir(group, 0777) != 0) {
        group[0] = '\0';
        return false;
    }
    return write_group("memory.limit_in_bytes", "67108864");
}

static void remove_group(void)
{
    if (group[0] != '\0') {
        rmdir(group);
    }
    group[0] = '\0';
}

Test(run, says_what_was_killed_for_want_of_memory, .fini = remove_group)
{
    char path[PATH_MAX];
    char script[3 * PATH_MAX];
    if (!make_group()) {
        cr_skip_test("no control group for memory, or it is not ours to make one");
    }
    snprintf(script, sizeof script,
             "echo $$ > %s/cgroup.procs && exec %s run -s %s --log-dir %s -p alice -- tail "
             "/dev/zero",
             group, process_path("errbus", path, sizeof path), stage.control, folder.path);
    cr_assert(process_start(&run, (const char *[]){"/bin/sh", "-c", script, NULL}, NULL));
    expect_exit(&run, 137);
    const struct bus_error *error = expect_failure("alice");
    cr_assert_str_eq(bus_error_type(error), "run.out_of_memory");
    cr_assert_str_eq(bus_error_message(error), "tail was killed by SIGKILL: out of memory");
}

Test(run, says_what_could_not_be_started)
{
    char path[FOLDER_PATH_BYTES_MAX];
    cr_assert(folder_write(&folder, "plain", "no program\n", path));
    start(&run, "-p", "alice", "--", path, NULL);
    expect_exit(&run, 126);
    process_fini(&run);
    const struct bus_error *error = expect_failure("alice");
    cr_assert_str_eq(bus_error_type(error), "run.not_started");
    cr_assert_not_null(strstr(bus_error_message(error), "Permission denied"));
    cr_assert_eq(bus_error_code(error), 126);
    cr_assert_eq(bus_error_recoverable(error), 0);

    /* A folder of the path that this user may not read would be another reason. */
    cr_assert_eq(setenv("PATH", "/usr/bin:/bin", 1), 0);
    start(&run, "-p", "alice", "--", "errbus-no-such-program", "x", NULL);
    expect_exit(&run, 127);
    error = expect_failure("alice");
    cr_assert_str_eq(bus_error_message(error),
                     "errbus-no-such-program could not be started: No such file or directory");
    cr_assert_eq(bus_error_code(error), 127);
}

Test(run, completes_a_party_whose_program_exits_with_0)
{
    start_script(&run, "echo fine; echo well >&2");
    expect_exit(&run, 0);
    cr_assert_str_eq(process_said(&run), "alice: fine\n");
    cr_assert_str_eq(process_complained(&run), "alice: well\n");
    expect_event(tap, "party.completed", "alice");
}

static int compare_times(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

Test(run, tells_the_end_at_once)
{
    int64_t told_ns[TOLD_COUNT];
    struct bus *bus = must_open("bob");
    for (size_t i = 0; i < TOLD_COUNT; i++) {
        struct bus_sub *sub = must_subscribe(bus, "alice/+");
        start_script(&run, "echo $$; exec sleep 600");
        pid_t pid = expect_pid(&run);
        int64_t killed_ns = test_now_ns();
        cr_assert_eq(kill(pid, SIGKILL), 0);
        expect_end(sub, "application");
        told_ns[i] = test_now_ns() - killed_ns;
        expect_exit(&run, 137);
        process_fini(&run);
        bus_sub_drop(&sub);
    }
    qsort(told_ns, TOLD_COUNT, sizeof *told_ns, compare_times);
    cr_assert_lt(told_ns[TOLD_COUNT / 2], TOLD_NS, "%" PRId64 " ns", told_ns[TOLD_COUNT / 2]);
    must_close(&bus);
}

Test(run, tells_an_end_while_others_are_started)
{
    static const char script[] = "case $LOCAL_RANK in 0) exit 3;; 127) date +%s%N;; esac";
    char crowd[8];
    snprintf(crowd, sizeof crowd, "%d", CROWD);
    start(&run, "-p", "w", "-n", crowd, "--", "sh", "-c", script, NULL);
    expect_exit(&run, 3);
    const char *last = strstr(process_said(&run), "w-127: ");
    cr_assert_not_null(last, "%s", process_said(&run));
    int64_t failed_ns = bus_event_at_ns(expect_event(tap, "party.failed", "w-0"));
    cr_assert_lt(failed_ns, strtoll(last + strlen("w-127: "), NULL, 10));
}

/* ---- output ---------------------------------------------------------------------------------- */

static int64_t size_of(const char *name)
{
    char path[PATH_MAX];
    struct stat about;
    snprintf(path, sizeof path, "%s/%s", folder.path, name);
    cr_assert_eq(stat(path, &about), 0, "%s: %s", path, strerror(errno));
    return about.st_size;
}

/* The most memory that a process has had, in KiB. */
static int64_t peak_kib(pid_t pid)
{
    char path[64];
    char line[256];
    int64_t kib = -1;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        (void)sscanf(line, "VmHWM: %" SCNd64, &kib);
    }
    fclose(file);
    return kib;
}

Test(run, keeps_100_mb_of_standard_error_and_shows_its_end)
{
    static const char script[] =
        "yes 'a line of standard error, fifty bytes with its end' | head -c 100000000 >&2;"
        "echo the last words >&2; echo done; sleep 600 & wait $!; exit 3";
    start(&run, "-p", "alice", "--grace", "0.1", "--", "sh", "-c", script, NULL);
    expect_line(&run, "alice: done");
    cr_assert_lt(peak_kib(run.pid), 64 * 1024);
    process_signal(&run, SIGUSR1); /* the shell has no handler for it: that ends it */
    expect_exit(&run, 128 + SIGUSR1);
    const struct bus_error *error = expect_failure("alice");
    const char *message = bus_error_message(error);
    const char *last = strstr(message, "\nsh was killed by SIGUSR1: ");
    cr_assert(last != NULL && strstr(last, "the last words") != NULL, "%s", message);
    cr_assert_not_null(strstr(message, " of 100000015 bytes of its standard error:\n  a line"),
                       "%s", message);
    cr_assert_eq(size_of("alice/1/stderr"), 100000015);
    cr_assert_eq(size_of("alice/1/stdout"), 5);
    size_t shown = strlen(process_complained(&run));
    cr_assert_geq(shown, 100000015 + 100000000 / 51 * strlen("alice: "), "%zu bytes: %.200s", shown,
                  process_complained(&run) + shown - 200);
}

Test(run, tells_the_end_though_nobody_reads_the_output)
{
    start_script(&run, "yes | head -c 120000; exit 3");
    const struct bus_error *error = expect_failure("alice");
    cr_assert_eq(bus_error_code(error), 3);
    expect_exit(&run, 3);
    cr_assert_eq(size_of("alice/1/stdout"), 120000);
    cr_assert_eq(strlen(process_said(&run)), 120000 / 2 * strlen("alice: y\n"));
}

Test(run, shows_bytes_as_they_are_if_asked)
{
    start(&run, "-p", "alice", "--plain", "--", "printf", "a\\nb", NULL);
    expect_exit(&run, 0);
    cr_assert_str_eq(process_said(&run), "a\nb");
}

Test(run, gives_a_single_copy_its_input)
{
    start(&run, "-p", "alice", "--plain", "--", "cat", NULL);
    cr_assert(process_say(&run, "hello", 5));
    process_say_end(&run);
    expect_exit(&run, 0);
    cr_assert_str_eq(process_said(&run), "hello");
}

Test(run, keeps_output_in_a_folder_that_it_names)
{
    char path[PATH_MAX];
    char variable[PATH_MAX + 16];
    snprintf(variable, sizeof variable, "TMPDIR=%s", folder.path);
    cr_assert(process_start(&run,
                            (const char *[]){"errbus", "run", "-s", stage.control, "-p", "alice",
                                             "--", "echo", "kept", NULL},
                            (const char *[]){variable, NULL}));
    expect_exit(&run, 0);
    const char *named = strstr(process_complained(&run), folder.path);
    cr_assert_not_null(named, "%s", process_complained(&run));
    snprintf(path, sizeof path, "%.*s/alice/1/stdout", (int)strcspn(named, "\n"), named);
    cr_assert_eq(access(path, R_OK), 0, "%s", path);
}

/* What it says of a TMPDIR.  It does not even wait for a broker: if it joined first, the job would
 * lose a party. */
static void expect_no_output_kept(const char *temporary, const char *why)
{
    char nobody[PATH_MAX + 16];
    char variable[PATH_MAX];
    snprintf(nobody, sizeof nobody, "ipc://%s/nobody", folder.path);
    snprintf(variable, sizeof variable, "TMPDIR=%s", temporary);
    cr_assert(process_start(
        &run,
        (const char *[]){"errbus", "run", "-s", nobody, "-p", "alice", "--", "echo", "kept", NULL},
        (const char *[]){variable, NULL}));
    expect_exit(&run, 1);
    const char *said = process_complained(&run);
    cr_expect_not_null(strstr(said, "cannot make a folder in /nowhere"), "%s", said);
    cr_expect_not_null(strstr(said, why), "%s", said);
    cr_expect_str_eq(process_said(&run), "");
    process_fini(&run);
}

/* The path of its own folder, with "/errbus-run-XXXXXX", has 2048 bytes at most. */
enum { TMPDIR_BYTES_MAX = 2048 - 18 };

Test(run, says_at_once_that_it_can_keep_no_output)
{
    char path[PATH_MAX] = "/nowhere";
    expect_no_output_kept(path, ": No such file");
    for (size_t i = strlen(path); i < TMPDIR_BYTES_MAX; i++)
        path[i] = i % 2 == 0 ? '/' : 'x';
    expect_no_output_kept(path, ": No such file");
    path[TMPDIR_BYTES_MAX] = 'x';
    expect_no_output_kept(path, ": File name too long");
}

/* Its file is on a disk that is full. */
Test(run, says_what_it_could_not_keep)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/alice", folder.path);
    cr_assert_eq(mkdir(path, 0777), 0);
    snprintf(path, sizeof path, "%s/alice/1", folder.path);
    cr_assert_eq(mkdir(path, 0777), 0);
    snprintf(path, sizeof path, "%s/alice/1/stderr", folder.path);
    cr_assert_eq(symlink("/dev/full", path), 0);
    start_script(&run, "echo lost >&2; exit 3");
    expect_exit(&run, 3);
    expect_complaint(&run, "stderr is not complete: 5 bytes are missing: No space left on device");
    cr_assert_str_eq(bus_error_message(expect_failure("alice")), "sh exited with status 3: lost");
}

/* ---- several --------------------------------------------------------------------------------- */

Test(run, starts_copies_that_know_who_they_are)
{
    static const char script[] =
        "echo $ERRBUS_PARTY $ERRBUS_RANK $ERRBUS_LOCAL_RANK $ERRBUS_WORLD_SIZE $ERRBUS_ATTEMPT "
        "$ERRBUS_JOB $RANK $LOCAL_RANK $WORLD_SIZE $MASTER_ADDR:$MASTER_PORT "
        "$TORCHELASTIC_RESTART_COUNT; test \"$ERRBUS_SERVER\" && test \"$ERRBUS_ERROR_FILE\" "
        "&& test \"$TORCHELASTIC_ERROR_FILE\"";
    start(&run, "-p", "w", "-j", "numbers", "-n", "3", "--master-port", "29500", "--", "sh", "-c",
          script, NULL);
    expect_exit(&run, 0);
    for (int i = 0; i < 3; i++) {
        char line[128];
        snprintf(line, sizeof line, "w-%d: w-%d %d %d 3 1 numbers %d %d 3 127.0.0.1:29500 0\n", i,
                 i, i, i, i, i);
        cr_assert_not_null(strstr(process_said(&run), line), "not '%s' in %s", line,
                           process_said(&run));
    }
}

Test(run, lets_the_others_go_on_when_one_fails)
{
    start(&run, "-p", "w", "-n", "2", "--", "sh", "-c", "read x; exit $((4 * ERRBUS_RANK))", NULL);
    expect_exit(&run, 4);
    cr_assert_eq(bus_error_code(expect_failure("w-1")), 4);
    bus_tap_close(&tap);
    tap = must_tap("default", 1);
    expect_event(tap, "party.completed", "w-0");
}

/* ---- error files ----------------------------------------------------------------------------- */

Test(run, takes_an_error_file_for_the_error)
{
    static const char script[] =
        "echo '{\"type\": \"app.disk_full\", \"message\": \"no room for the model\", "
        "\"code\": 28, \"recoverable\": true, \"blame\": \"bob\"}' > $ERRBUS_ERROR_FILE; exit 9";
    start_script(&run, script);
    expect_exit(&run, 9);
    const struct bus_error *error = expect_failure("alice");
    cr_assert_str_eq(bus_error_type(error), "app.disk_full");
    cr_assert_str_eq(bus_error_message(error), "no room for the model");
    cr_assert_str_eq(bus_error_blame(error), "bob");
    cr_assert_eq(bus_error_code(error), 28);
    cr_assert_eq(bus_error_recoverable(error), 1);
    process_fini(&run);

    start_script(&run, "echo '{\"type\": 5}' > $ERRBUS_ERROR_FILE; exit 9");
    expect_exit(&run, 9);
    error = expect_failure("alice");
    cr_assert_str_eq(bus_error_message(error),
                     "sh exited with status 9; its error file could not be used: \"type\" is not a "
                     "string of 1 to 200 bytes");
}

/* Of a file of any size, texts are cut and facts are kept: what is not recoverable is not tried
 * again. */
Test(run, keeps_the_facts_of_an_error_file_of_any_size)
{
    static const int mib[] = {1, 2, 100};
    for (size_t i = 0; i < sizeof mib / sizeof *mib; i++) {
        char script[512];
        snprintf(script, sizeof script,
                 "{ printf '{\"type\": \"app.big\", \"message\": \"begin '; "
                 "head -c %dM /dev/zero | tr '\\0' x; printf '\\\\nend\", \"code\": 7, "
                 "\"recoverable\": false}'; } > $ERRBUS_ERROR_FILE; exit 9",
                 mib[i]);
        start_script(&run, script);
        expect_exit(&run, 9);
        const struct bus_error *error = expect_failure("alice");
        cr_assert_str_eq(bus_error_type(error), "app.big");
        cr_assert_eq(strncmp(bus_error_message(error), "begin xxx", 9), 0);
        cr_assert_not_null(strstr(bus_error_message(error), "\nend"));
        cr_assert(bus_error_is_cut(error));
        cr_assert_eq(bus_error_code(error), 7);
        cr_assert_eq(bus_error_recoverable(error), 0);
        process_fini(&run);
    }
}

Test(run, says_what_is_no_error_file)
{
    static const struct {
        const char *script, *problem;
    } cases[] = {
        {"mkfifo $ERRBUS_ERROR_FILE; exit 9", "it is not a regular file"},
        {"head -c 100000 /dev/urandom > $ERRBUS_ERROR_FILE; exit 9", "could not be used"},
        {"head -c 3000000 /dev/zero > $ERRBUS_ERROR_FILE; exit 9", "could not be used"},
        {"echo Segmentation fault > $ERRBUS_ERROR_FILE; exit 9", "could not be used"},
        {"mkdir $ERRBUS_ERROR_FILE; exit 9", "it is not a regular file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        start_script(&run, cases[i].script);
        expect_exit(&run, 9);
        const struct bus_error *error = expect_failure("alice");
        cr_assert_str_eq(bus_error_type(error), "run.exit_status");
        cr_assert_not_null(strstr(bus_error_message(error), cases[i].problem), "%s",
                           bus_error_message(error));
        process_fini(&run);
    }
}

/* Its folder was named from where we are, and the program has gone elsewhere. */
Test(run, finds_the_error_file_of_a_program_that_moved)
{
    cr_assert_eq(chdir(folder.path), 0);
    cr_assert(process_start(
        &run,
        (const char *[]){"errbus", "run", "-s", stage.control, "--log-dir", "here", "-p", "alice",
                         "--", "sh", "-c",
                         "cd / && echo '{\"type\": \"app.moved\", \"message\": \"away\"}' > "
                         "$ERRBUS_ERROR_FILE; exit 9",
                         NULL},
        NULL));
    expect_exit(&run, 9);
    cr_assert_str_eq(bus_error_type(expect_failure("alice")), "app.moved");
}

/* What a worker decorated with torch.distributed.elastic's record() leaves behind, by the standard
 * library alone; it failed an hour before it ended. */
static const char worker[] =
    "import json, os, sys, time, traceback\n"
    "def main():\n"
    "    raise ValueError('gradient is NaN at step 7')\n"
    "try:\n"
    "    main()\n"
    "except Exception as failure:\n"
    "    text = {'message': {'message': f'{type(failure).__name__}: {failure}', 'errorCode': 7,\n"
    "        'extraInfo': {'py_callstack': traceback.format_exc(),\n"
    "                      'timestamp': str(int(time.time()) - 3600)}}}\n"
    "    with open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w') as file:\n"
    "        json.dump(text, file)\n"
    "    sys.exit(1)\n";

Test(run, takes_the_error_file_of_an_elastic_worker)
{
    char path[FOLDER_PATH_BYTES_MAX];
    if (access("/usr/bin/python3", X_OK) != 0) {
        cr_skip_test("python3 is not installed");
    }
    cr_assert(folder_write(&folder, "worker.py", worker, path));
    start(&run, "-p", "alice", "--disclosure", "full", "--", "python3", path, NULL);
    expect_exit(&run, 1);
    const struct bus_error *error = expect_failure("alice");
    cr_assert_str_eq(bus_error_type(error), "ValueError");
    cr_assert_str_eq(bus_error_message(error), "ValueError: gradient is NaN at step 7");
    cr_assert_not_null(strstr(bus_error_stacktrace(error), "in main"), "%s",
                       bus_error_stacktrace(error));
    cr_assert_eq(bus_error_code(error), 7);
    int64_t occurred_ns = bus_error_occurred_ns(error);
    int64_t ago_ms =
        (bus_event_at_ns(expect_event(tap, "verdict.final", NULL)) - occurred_ns) / 1000000;
    /* By its own time it was an hour ago, before the program began: the file's time counts. */
    cr_assert(ago_ms >= 0 && ago_ms < SOON_MS, "%" PRId64, ago_ms);
}

/* ---- programs that speak for themselves ------------------------------------------------------ */

/* The script finds errbus where this test does. */
static void start_speaking(struct process *process, const char *script)
{
    char path[PATH_MAX];
    char whole[2 * PATH_MAX];
    snprintf(whole, sizeof whole, "errbus=%s; %s", process_path("errbus", path, sizeof path),
             script);
    start_script(process, whole);
}

Test(run, lets_its_program_speak_for_the_party)
{
    struct bus *bus = must_open("bob");
    struct bus_sub *sub = must_subscribe(bus, "alice/w");
    start_speaking(&run, "set -e; $errbus pub w one; $errbus pub w two; $errbus sub -C 1 alice/w;"
                         "$errbus pub w --fail app.broken:oops");
    expect_value(sub, "alice/w", 0, "one");
    expect_value(sub, "alice/w", 1, "two");
    expect_failed(sub, "alice/w", 2, "application");
    expect_end(sub, NULL);
    expect_exit(&run, 0);
    cr_assert_str_eq(process_said(&run), "alice: one\n");
    bus_sub_close(&sub);
    must_close(&bus);
}

/* A party as tests/lib/party has it, in a shell that goes on when it has ended. */
static void start_party(const char *then)
{
    char path[PATH_MAX];
    char script[2 * PATH_MAX];
    snprintf(script, sizeof script, "%s %s alice; %s",
             process_path("test_party", path, sizeof path), stage.control, then);
    start(&run, "-p", "alice", "--plain", "--", "sh", "-c", script, NULL);
    expect_line(&run, "= OK");
}

static void command(const char *line, const char *answer)
{
    cr_assert(process_say(&run, line, strlen(line)));
    expect_line(&run, answer);
}

/* Its program owes a slot, and ends without a word, as the script goes on. */
static void start_owing(const char *then)
{
    start_party(then);
    command("reserve w 1\n", "= OK");
    command("flush 20000\n", "= OK");
    process_say_end(&run);
}

Test(run, fails_what_its_program_promised_with_how_it_ended)
{
    struct bus *bus = must_open("bob");
    struct bus_sub *sub = must_subscribe(bus, "alice/w");
    start_owing("exit 5");
    struct bus_error *error = expect_error(sub, "alice/w", 0, "application");
    cr_assert_str_eq(bus_error_message(error), "sh exited with status 5");
    bus_error_unref(&error);
    expect_end(sub, "application");
    expect_exit(&run, 5);
    bus_sub_close(&sub);
    must_close(&bus);
}

Test(run, fails_what_its_program_left_open_and_completes)
{
    struct bus *bus = must_open("bob");
    struct bus_sub *sub = must_subscribe(bus, "alice/w");
    start_owing("exit 0");
    expect_failed(sub, "alice/w", 0, "party_left");
    expect_end(sub, NULL);
    expect_exit(&run, 0);
    bus_sub_close(&sub);
    must_close(&bus);
}

Test(run, stops_when_its_program_has_failed_the_party)
{
    start_party("sleep 600");
    cr_assert(process_say(&run, "fail_party app.broken oops\n", 27));
    cr_assert_str_eq(bus_error_type(expect_failure("alice")), "app.broken");
    expect_exit(&run, 1);
    expect_complaint(&run, "app.broken");
}

/* ---- stopping -------------------------------------------------------------------------------- */

Test(run, passes_a_signal_on_and_leaves)
{
    struct bus *bus = must_open("bob");
    start_script(&run, "trap 'echo caught; exit 0' INT; echo ready; sleep 600 & wait");
    expect_line(&run, "alice: ready");
    process_signal(&run, SIGINT);
    expect_line(&run, "alice: caught");
    expect_exit(&run, 128 + SIGINT);
    expect_event(tap, "party.left", "alice");
    must_publish(bus, "w", "the job goes on");
    must_flush(bus);
    must_close(&bus);
}

Test(run, ends_at_once_when_asked_twice)
{
    start_script(&run, "trap 'echo no' TERM; sleep 600 & echo $!; while :; do wait; done");
    pid_t pid = expect_pid(&run);
    process_signal(&run, SIGTERM);
    expect_line(&run, "alice: no");
    process_signal(&run, SIGTERM);
    expect_exit(&run, 128 + SIGTERM);
    expect_gone(pid);
}

Test(run, kills_what_does_not_heed_sigterm)
{
    start(&run, "-p", "alice", "--grace", "0.2", "--", "sh", "-c",
          "trap '' TERM; sleep 600 & echo $!; wait; sleep 600", NULL);
    pid_t pid = expect_pid(&run);
    process_signal(&run, SIGTERM);
    expect_exit(&run, 128 + SIGTERM);
    expect_gone(pid);
}

Test(run, leaves_nothing_of_a_process_group_behind)
{
    start(&run, "-p", "alice", "--grace", "0.2", "--", "sh", "-c",
          "trap '' TERM; sleep 600 & echo $!; exit 0", NULL);
    pid_t pid = expect_pid(&run);
    expect_exit(&run, 0);
    expect_gone(pid);
}

Test(run, leaves_no_orphan_when_it_is_killed_and_is_noticed)
{
    start_script(&run, "trap '' HUP TERM; sleep 600 & echo $!; echo $$; wait; sleep 600");
    pid_t grandchild = expect_pid(&run);
    pid_t child = expect_pid(&run);
    process_signal(&run, SIGKILL);
    expect_exit(&run, 128 + SIGKILL);
    expect_gone(child);
    expect_gone(grandchild);
    expect_event(tap, "party.lost", "alice");
}

/* The process of this name that this one has started; 0: there is none. */
static pid_t find_child(pid_t parent, const char *name)
{
    char path[64];
    char comm[32];
    long pid = 0;
    pid_t found = 0;
    snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", (long)parent, (long)parent);
    FILE *file = fopen(path, "r");
    while (file != NULL && found == 0 && fscanf(file, "%ld", &pid) == 1) {
        snprintf(path, sizeof path, "/proc/%ld/comm", pid);
        FILE *about = fopen(path, "r");
        bool is_read = about != NULL && fgets(comm, sizeof comm, about) != NULL;
        if (is_read && strncmp(comm, name, strlen(name)) == 0) {
            found = (pid_t)pid;
        }
        if (about != NULL) {
            fclose(about);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return found;
}

/* The kernel sees to the program itself. */
Test(run, leaves_no_program_behind_even_without_its_warden)
{
    start_script(&run, "trap '' HUP TERM; echo $$; read x");
    pid_t child = expect_pid(&run);
    pid_t warden = find_child(run.pid, "errbus"); /* or it has given itself its name already */
    cr_assert_gt(warden, 1);
    cr_assert_eq(kill(warden, SIGKILL), 0);
    expect_gone(warden);
    process_signal(&run, SIGKILL);
    expect_exit(&run, 128 + SIGKILL);
    expect_gone(child);
}

Test(run, fails_what_says_nothing_for_too_long)
{
    start(&run, "-p", "alice", "--stall", "1", "--", "sh", "-c",
          "echo step 2; echo step 3; sleep 600", NULL);
    expect_exit(&run, 1);
    const struct bus_error *error = expect_failure("alice");
    cr_assert_str_eq(bus_error_kind(error), "stalled");
    cr_assert_str_eq(bus_error_message(error), "alice beats, but made no progress within 1000 ms; "
                                               "it last was at: output: step 3");
    expect_complaint(&run, "errbus run: alice is stopped: alice: stalled errbus.stalled");
}

/* It could not heed SIGTERM, and would have to wait for SIGKILL. */
Test(run, lets_a_suspended_program_end)
{
    start(&run, "-p", "alice", "--stall", "1", "--grace", "600", "--", "sh", "-c",
          "trap 'echo bye; exit 0' TERM; echo in; kill -STOP $$; sleep 600 & wait", NULL);
    expect_line(&run, "alice: in");
    cr_assert_str_eq(bus_error_kind(expect_failure("alice")), "stalled");
    expect_line(&run, "alice: bye");
    expect_exit(&run, 1);
}

/* What it says to the bus counts like what it writes. */
Test(run, takes_progress_for_a_sign_that_it_moves)
{
    char path[PATH_MAX];
    char script[2 * PATH_MAX];
    snprintf(script, sizeof script, "exec %s %s alice > /dev/null",
             process_path("test_party", path, sizeof path), stage.control);
    start(&run, "-p", "alice", "--stall", "2", "--", "sh", "-c", script, NULL);
    cr_assert(process_say(&run, "progress 600000 step_7\n", 23));
    const struct bus_error *error = expect_failure("alice");
    cr_assert_str_eq(bus_error_message(error),
                     "alice beats, but made no progress within 2000 ms; it last was at: step_7");
    expect_exit(&run, 1);
}

Test(run, ends_when_its_time_is_over)
{
    static const char *const waits[] = {"0.5", "2", "8", "30"};
    int code = 5; /* its time was over before it had reached the broker: it gets more */
    for (size_t i = 0; i < sizeof waits / sizeof waits[0] && code == 5; i++) {
        if (i > 0)
            process_fini(&run);
        start(&run, "-p", "alice", "--wait", waits[i], "--", "sleep", "600", NULL);
        code = process_wait(&run, 3 * SOON_MS);
    }
    cr_assert_eq(code, 4, "ended with %d: %s", code, process_complained(&run));
    cr_assert_str_eq(bus_error_type(expect_failure("alice")), "run.timed_out");
}

Test(run, stops_its_program_when_the_broker_is_lost)
{
    start(&run, "-p", "alice", "--", "sh", "-c", "echo $$; exec sleep 600", NULL);
    pid_t pid = expect_pid(&run);
    process_signal(&stage.process, SIGKILL);
    expect_exit(&run, 5);
    expect_gone(pid);
}

/* ---- jobs with members ----------------------------------------------------------------------- */

/* Rank 1 fails as the file says, in the attempts before the third; the others wait for it. */
static const char flaky[] =
    "echo rank $ERRBUS_RANK of $ERRBUS_WORLD_SIZE in $ERRBUS_ATTEMPT;"
    "test $TORCHELASTIC_RESTART_COUNT = $((ERRBUS_ATTEMPT - 1)) || exit 99;"
    "test $ERRBUS_ATTEMPT -lt 3 || exit 0; test $ERRBUS_RANK = 1 || exec sleep 600;"
    "echo \"{\\\"type\\\": \\\"app.flaky\\\", \\\"message\\\": \\\"no luck in $ERRBUS_ATTEMPT\\\","
    " \\\"recoverable\\\": $FLAKY}\" > $ERRBUS_ERROR_FILE; exit 1";

static void start_flaky(struct process *process, const char *recoverable, const char *restarts)
{
    char variable[32];
    snprintf(variable, sizeof variable, "FLAKY=%s", recoverable);
    cr_assert(
        process_start(process,
                      (const char *[]){"errbus", "run", "-s", stage.control, "--log-dir",
                                       folder.path, "-j", "flaky", "-p", "w", "-n", "2",
                                       "--max-restarts", restarts, "--", "sh", "-c", flaky, NULL},
                      (const char *[]){variable, NULL}));
}

static size_t count_failures(struct bus_tap *story)
{
    size_t count = 0;
    const struct bus_event *event = NULL;
    while (bus_tap_next(story, AT_ONCE_MS, &event, NULL) == BUS_OK) {
        count += strcmp(bus_event_name(event), "party.failed") == 0;
    }
    return count;
}

Test(run, tries_again_what_may_pass)
{
    start_flaky(&run, "true", "2");
    expect_exit(&run, 0);
    for (int attempt = 1; attempt <= 3; attempt++) {
        char line[64];
        snprintf(line, sizeof line, "w-1: rank 1 of 2 in %d\n", attempt);
        cr_assert_not_null(strstr(process_said(&run), line), "%s", process_said(&run));
    }
    cr_assert_eq(size_of("w-1/3/stdout"), strlen("rank 1 of 2 in 3\n"));
    struct bus_tap *story = must_tap("flaky", 1);
    cr_assert_eq(count_failures(story), 2);
    bus_tap_close(&story);
}

/* Rank 0 is done before rank 1 fails, and is needed again. */
Test(run, starts_again_what_was_done_before_another_failed)
{
    static const char script[] =
        "echo $ERRBUS_RANK in $ERRBUS_ATTEMPT; test $ERRBUS_RANK = 1 || exit 0;"
        "test $ERRBUS_ATTEMPT = 2 && exit 0;"
        "echo '{\"type\": \"app.flaky\", \"message\": \"\", \"recoverable\": true}' "
        "> $ERRBUS_ERROR_FILE; exit 1";
    start(&run, "-j", "again", "-p", "w", "-n", "2", "--max-restarts", "1", "--", "sh", "-c",
          script, NULL);
    expect_exit(&run, 0);
    cr_assert_not_null(strstr(process_said(&run), "w-0: 0 in 2\n"), "%s", process_said(&run));
    cr_assert_not_null(strstr(process_said(&run), "w-1: 1 in 2\n"), "%s", process_said(&run));
}

Test(run, waits_for_the_others_and_tells_how_they_end)
{
    struct process alice;
    struct process bob;
    start(&alice, "-j", "pair", "-p", "alice", "--min", "2", "--max", "2", "--max-restarts", "1",
          "--join-window", "0", "--", "echo", "done", NULL);
    start(&bob, "-j", "pair", "-p", "bob", "--min", "2", "--max", "2", "--max-restarts", "1",
          "--join-window", "0", "--", "sh", "-c",
          "read x; echo '{\"type\": \"app.bad\", \"message\": \"\", \"recoverable\": false}' "
          "> $ERRBUS_ERROR_FILE; exit 1",
          NULL);
    expect_line(&alice, "alice: done");
    process_say_end(&bob);
    expect_exit(&bob, 1);
    expect_exit(&alice, 3);
    process_fini(&alice);
    process_fini(&bob);
}

Test(run, gives_up_when_no_restart_is_left)
{
    start_flaky(&run, "true", "1");
    expect_exit(&run, 1);
    cr_assert_not_null(strstr(process_said(&run), "w-1: rank 1 of 2 in 2\n"));
    cr_assert_null(strstr(process_said(&run), "in 3"));
}

Test(run, does_not_try_again_what_will_not_pass)
{
    start_flaky(&run, "false", "2");
    expect_exit(&run, 1);
    cr_assert_null(strstr(process_said(&run), "in 2\n"), "%s", process_said(&run));
    expect_complaint(&run, "w-0 is stopped: w-1: application app.flaky: no luck in 1");
}

static void start_member(struct process *process, const char *party, const char *script)
{
    start(process, "-j", "pair", "-p", party, "--min", "2", "--max", "2", "--join-window", "0",
          "--", "sh", "-c", script, NULL);
}

/* Its party is in the job, wherever it has its place. */
static void expect_joined(const char *party)
{
    struct bus_tap *story = must_tap("pair", 1);
    expect_event(story, "party.joined", party);
    bus_tap_close(&story);
}

Test(run, tells_what_it_was_stopped_for)
{
    struct process alice;
    struct process bob;
    start_member(&alice, "alice", "echo $ERRBUS_WORLD_SIZE $$; exec sleep 600");
    start_member(&bob, "bob", "echo $ERRBUS_WORLD_SIZE; exec sleep 600");
    (void)expect_pid(&alice);
    expect_line(&bob, "bob: 2");
    process_signal(&alice, SIGKILL);
    expect_exit(&bob, 7); /* a party was lost */
    expect_complaint(&bob, "party_lost");
    process_fini(&alice);
    process_fini(&bob);
}

#define WRITES_ITS_ERROR                                                                           \
    "echo '{\"type\": \"app.disk_full\", \"message\": \"no room\"}' > $ERRBUS_ERROR_FILE; echo "   \
    "told; "

/* alice fails first, and takes her time to end; bob fails of it, and ends at once. */
static void fail_slowly(bool is_created, const char *script, int status)
{
    struct process alice;
    struct process bob;
    const char *job = is_created ? "pair" : "free";
    if (is_created) {
        start_member(&alice, "alice", script);
        start_member(&bob, "bob", "read x; exit 3");
    } else {
        start(&alice, "-j", job, "-p", "alice", "--", "sh", "-c", script, NULL);
        start(&bob, "-j", job, "-p", "bob", "--", "sh", "-c", "read x; exit 3", NULL);
    }
    expect_line(&alice, "alice: told");
    process_say_end(&bob);
    (void)process_wait(&bob, SOON_MS);
    process_say_end(&alice);
    expect_exit(&alice, status);
    expect_complaint(&alice, "app.disk_full: no room");
    struct bus_tap *story = must_tap(job, 1);
    const struct bus_error *root = bus_event_error(expect_event(story, "verdict.final", "alice"));
    cr_assert_str_eq(bus_error_type(root), "app.disk_full");
    bus_tap_close(&story);
    process_fini(&alice);
    process_fini(&bob);
}

Test(run, tells_the_error_file_of_a_program_that_it_stops)
{
    fail_slowly(true, WRITES_ITS_ERROR "exec sleep 600", 1);
}

Test(run, dates_an_error_file_to_when_it_was_written)
{
    fail_slowly(false, WRITES_ITS_ERROR "read x; exit 9", 9);
}

/* The kernel closes what a process has open before its parent hears of its end.  Here the parent is
 * stopped meanwhile: who noticed the end first, and says so in its error file, is not its cause. */
Test(run, dates_a_death_to_when_the_program_was_last_seen_to_run)
{
    char script[3 * PATH_MAX];
    char noticed[PATH_MAX];
    snprintf(noticed, sizeof noticed, "%s/noticed", folder.path);
    snprintf(script, sizeof script,
             "cd %s; if [ $LOCAL_RANK = 1 ]; then mkfifo pipe; echo $PPID >ready; read x <pipe; "
             "echo '{\"message\": \"my peer is gone\"}' >$ERRBUS_ERROR_FILE; >noticed; exit 1; fi; "
             "until [ -s ready ]; do sleep 0.01; done; exec 9>pipe; echo pid $$; exec sleep 600",
             folder.path);
    start(&run, "-j", "two", "-p", "w", "-n", "2", "--", "sh", "-c", script, NULL);
    const char *line = NULL;
    cr_assert(process_line(&run, SOON_MS, &line), "%s", process_complained(&run));
    cr_assert_not_null(strstr(line, "pid "), "%s", line);
    int victim = (int)strtol(strstr(line, "pid ") + 4, NULL, 10);
    cr_assert_gt(victim, 1);
    process_signal(&run, SIGSTOP);
    (void)kill(victim, SIGKILL);
    int64_t until_ms = test_now_ms() + SOON_MS;
    while (access(noticed, F_OK) != 0 && test_now_ms() < until_ms)
        (void)poll(NULL, 0, 10);
    process_signal(&run, SIGCONT);
    expect_exit(&run, 128 + SIGKILL);
    struct bus_tap *story = must_tap("two", 1);
    const struct bus_error *root = bus_event_error(expect_event(story, "verdict.final", "w-0"));
    cr_assert_str_eq(bus_error_type(root), "run.signal");
    bus_tap_close(&story);
}

/* What a program writes because it is asked to end is no cause of it. */
Test(run, ignores_an_error_file_that_follows_from_being_stopped)
{
    start_script(&run, "trap '"
                       "echo {} > $ERRBUS_ERROR_FILE; exit 1"
                       "' TERM; echo on; sleep 600 & wait");
    expect_line(&run, "alice: on");
    process_signal(&run, SIGTERM);
    expect_exit(&run, 128 + SIGTERM);
    (void)expect_event(tap, "party.left", "alice");
    process_fini(&run);

    start_script(&run, WRITES_ITS_ERROR "exec sleep 600");
    expect_line(&run, "alice: told");
    process_signal(&run, SIGTERM);
    expect_exit(&run, 128 + SIGTERM);
    cr_assert_str_eq(bus_error_type(expect_failure("alice")), "app.disk_full");
}

/* Whoever waits sees what for, and not for ever. */
Test(run, says_for_whom_it_waits_and_ends)
{
    start(&run, "-j", "pair", "-p", "alice", "--min", "2", "--join-timeout", "10", "--", "true",
          NULL);
    expect_exit(&run, 3);
    expect_complaint(&run, "alice: waiting for ");
    expect_complaint(&run, " s: 1 of 2 parties are there: alice\n");
    expect_complaint(&run, "is stopped: 1 of 2 parties joined within the join timeout of "
                           "10000 ms: alice");
}

/* The job may go on with others until its join window is over, and errbus run says so. */
Test(run, says_what_keeps_it_when_its_programs_have_ended)
{
    static const char script[] =
        "echo '{\"type\": \"app.bad\", \"message\": \"\", \"recoverable\": false}' "
        "> $ERRBUS_ERROR_FILE; exit 1";
    start(&run, "-j", "alone", "-p", "alice", "--min", "1", "--max-restarts", "1", "--max", "1",
          "--join-window", "600", "--", "sh", "-c", script, NULL);
    const char *line = "";
    while (strstr(line, "unless others join within its join window of 600 s") == NULL) {
        cr_assert(process_complaint(&run, SOON_MS, &line), "%s", process_complained(&run));
    }
    cr_expect_not_null(strstr(line, " s: the job needs 1 party, and too few are left"), "%s", line);
    cr_assert_eq(kill(run.pid, SIGTERM), 0);
    expect_exit(&run, 143);
}

/* All who are to come are started here, so the join window is open for nobody. */
Test(run, does_not_wait_for_more_than_it_starts)
{
    int64_t begin_ms = test_now_ms();
    start(&run, "-j", "four", "-p", "w", "-n", "4", "--min", "4", "--", "true", NULL);
    expect_exit(&run, 0);
    cr_expect_lt(test_now_ms() - begin_ms, SOON_MS);
}

Test(run, tells_an_error_of_another_from_a_loss)
{
    struct process alice;
    struct process bob;
    struct bus_job_options options;
    bus_job_options_init(&options);
    options.min = 2;
    options.max = 2;
    options.join_window_ms = 0;
    options.settle_ms = 600000; /* only then can the job be created anew */
    expect_code(bus_admin_job_create(stage_admin(), "pair", &options, SOON_MS, NULL), BUS_OK);
    start(&alice, "-j", "pair", "-p", "alice", "--", "sh", "-c", "exit 3", NULL);
    start(&bob, "-j", "pair", "-p", "bob", "--", "sleep", "600", NULL);
    expect_exit(&alice, 3);
    expect_exit(&bob, 3);
    expect_complaint(&bob, "bob is stopped: alice: application run.exit_status");
    struct bus_tap *story = must_tap("pair", 1);
    expect_event(story, "job.failed", NULL); /* before, it is not over, and only fails */
    bus_tap_close(&story);
    struct process late;
    start_member(&late, "carol", "echo started");
    expect_exit(&late, 6);
    expect_complaint(&late, "errbus.job_over");
    cr_assert_str_eq(process_said(&late), "");
    process_fini(&alice);
    process_fini(&bob);
    process_fini(&late);
}

/* What is not started says nothing that could be kept. */
Test(run, keeps_no_folder_for_a_party_that_is_refused)
{
    struct process process;
    struct bus *alice = must_open("alice");
    const char *const argv[] = {"errbus", "run", "-s",   stage.control, "-p",
                                "alice",  "--",  "true", NULL};
    cr_assert_eq(setenv("TMPDIR", folder.path, 1), 0);
    cr_assert(process_start(&process, argv, NULL));
    expect_exit(&process, 6);
    expect_complaint(&process, "errbus.name_taken");
    cr_expect_null(strstr(process_complained(&process), "is kept in"), "%s",
                   process_complained(&process));
    cr_expect_eq(rmdir(folder.path), 0, "%s", strerror(errno));
    cr_assert_eq(mkdir(folder.path, 0700), 0);
    must_close(&alice);
    process_fini(&process);
}

Test(run, starts_a_spare_in_the_place_of_who_is_lost)
{
    struct process alice;
    struct process bob;
    struct process carol;
    start_member(&alice, "alice", "echo in; exec sleep 600");
    expect_joined("alice");
    start_member(&bob, "bob", "echo rank $RANK; cat");
    expect_line(&bob, "bob: rank 1");
    expect_line(&alice, "alice: in");
    start_member(&carol, "carol", "echo rank $RANK of $WORLD_SIZE");
    expect_joined("carol");
    process_signal(&alice, SIGKILL);
    expect_line(&carol, "carol: rank 0 of 2");
    process_say_end(&bob);
    expect_exit(&bob, 0);
    expect_exit(&carol, 0);
    process_fini(&alice);
    process_fini(&bob);
    process_fini(&carol);
}

Test(run, lets_a_spare_go_when_the_job_completes_without_it)
{
    struct process alice;
    struct process bob;
    struct process carol;
    start_member(&alice, "alice", "echo in; cat");
    start_member(&bob, "bob", "echo in; cat");
    expect_line(&alice, "alice: in");
    expect_line(&bob, "bob: in");
    start_member(&carol, "carol", "echo started");
    expect_joined("carol");
    process_say_end(&alice);
    process_say_end(&bob);
    expect_exit(&alice, 0);
    expect_exit(&bob, 0);
    expect_exit(&carol, 0);
    cr_assert_str_eq(process_said(&carol), "");
    expect_complaint(&carol, "(terminated errbus.job_over");
    process_fini(&alice);
    process_fini(&bob);
    process_fini(&carol);
}

/* The worked example, with an aggregator and three silos, the second of which fails at first. */
static void learn(const char *recoverable, struct process *aggregator, struct process *silos)
{
    static const char data[] = TEST_SOURCE_DIR "/clients/fedavg/breast_cancer.csv";
    char path[PATH_MAX];
    char script[3 * PATH_MAX];
    process_path("fedavg", path, sizeof path);
    snprintf(script, sizeof script,
             "test $ERRBUS_PARTY$ERRBUS_ATTEMPT = silo-11 && echo '{\"type\": \"app.flaky\", "
             "\"message\": \"no disk\", \"recoverable\": %s}' > $ERRBUS_ERROR_FILE && exit 1; "
             "exec %s silo --data %s --shard $((LOCAL_RANK + 1))/3",
             recoverable, path, data);
    start(silos, "-j", "learn", "-p", "silo", "-n", "3", "--min", "4", "--max", "4",
          "--max-restarts", "1", "--join-window", "0", "--", "sh", "-c", script, NULL);
    start(aggregator, "-j", "learn", "-p", "aggregator", "--min", "4", "--max", "4",
          "--max-restarts", "1", "--join-window", "0", "--plain", "--", path, "aggregator",
          "--data", data, "--rounds", "3", "silo-0", "silo-1", "silo-2", NULL);
}

Test(run, learns_in_the_second_attempt)
{
    struct process aggregator;
    struct process silos;
    learn("true", &aggregator, &silos);
    expect_exit(&aggregator, 0);
    expect_exit(&silos, 0);
    cr_assert_not_null(strstr(process_said(&aggregator), "round 2: 3 of 3 silos"), "%s",
                       process_said(&aggregator));
    expect_complaint(&aggregator, "attempt 2 of the job");
    process_fini(&aggregator);
    process_fini(&silos);
}

Test(run, does_not_learn_where_it_cannot)
{
    struct process aggregator;
    struct process silos;
    learn("false", &aggregator, &silos);
    expect_exit(&silos, 1);
    cr_assert_gt(process_wait(&aggregator, 3 * SOON_MS), 0);
    cr_assert_null(strstr(process_complained(&aggregator), "attempt 2"));
    cr_assert_null(strstr(process_complained(&silos), "attempt 2"));
    expect_complaint(&silos, "app.flaky: no disk");
    process_fini(&aggregator);
    process_fini(&silos);
}

/* ---- a broker that comes back ---------------------------------------------------------------- */

Test(run, goes_on_with_its_program_when_the_broker_comes_back)
{
    stage_close();
    revival_open();
    revival_start("process", NULL);
    start_party("exit 0");
    command("publish w 1 one\n", "= OK");
    command("flush 20000\n", "= OK");
    revival_kill();
    revival_start("process", NULL);
    command("publish w 1 two\n", "= OK");
    command("flush 20000\n", "= OK");
    process_say_end(&run);
    expect_exit(&run, 0);
    struct bus *bus = must_open("bob");
    expect_awaited(bus, "alice/w", 0, "one-0");
    expect_awaited(bus, "alice/w", 1, "two-0");
    must_close(&bus);
    revival_close();
}

/* ---- wrong calls ----------------------------------------------------------------------------- */

Test(run, says_how_it_is_called)
{
    start(&run, "sh", "-c", "exit 0", NULL);
    expect_exit(&run, 2);
    process_fini(&run);
    start(&run, "--", NULL);
    expect_exit(&run, 2);
    expect_complaint(&run, "expected a program after --");
    process_fini(&run);
    start(&run, "-n", "129", "--", "true", NULL);
    expect_exit(&run, 2);
    expect_complaint(&run, "--nproc takes 1 to 128, not 129");
    process_fini(&run);
    start(&run, "-n", "0", "--", "true", NULL);
    expect_exit(&run, 2);
    process_fini(&run);
    start(&run, "-p", "a/b", "--", "true", NULL);
    expect_exit(&run, 2);
    expect_complaint(&run, "is not a party's name");
}
