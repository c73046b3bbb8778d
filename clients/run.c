/* SPDX-License-Identifier: MPL-2.0 */
/* run.c -- errbus run: starts a program as a party, or several copies as several parties, and
 * reports how each of them ended. */
#include "clients/run.h"

#include "clients/errbus.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define GRACE_DEFAULT_MS 10000
#define ENDPOINT_DEFAULT "tcp://127.0.0.1:7370" /* as the library has it */
#define HOST_BYTES_MAX 100

/* ---- what is asked for ------------------------------------------------------------------------*/

/* Cuts argv at the first "--".  The words behind it are the program's. */
static int split(int argc, char **argv, char *const **out_command)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            *out_command = argv + i + 1;
            return i;
        }
    }
    *out_command = argv + argc;
    return argc;
}

static bool is_level(const char *word)
{
    return strcmp(word, "full") == 0 || strcmp(word, "message") == 0 || strcmp(word, "type") == 0 ||
           strcmp(word, "none") == 0;
}

/* What does not go together, as CLI_USAGE; or CLI_OK. */
static int check(const struct run *run)
{
    const struct cli *cli = &run->cli;
    if (cli->argc > 0 || run->command[0] == NULL) {
        return cli_usage(cli, "expected a program after --: errbus run [flags] -- PROGRAM ARGS...");
    }
    const struct cli_range ranges[] = {
        {"nproc", run->copies, 1, RUN_COPIES_MAX, false},
        {"master-port", run->master_port, 0, UINT16_MAX, false},
        {"min", run->min, 1, CLI_PARTIES_MAX, false},
        {"max", run->max, run->min > 1 ? run->min : 1, CLI_PARTIES_MAX, false},
        {"max-restarts", run->max_restarts, 0, CLI_RESTARTS_MAX, false},
        {"join-window", run->join_window_ms, 0, CLI_DAY_MS, true},
        {"join-timeout", run->join_timeout_ms, 0, CLI_DAY_MS, true},
    };
    if (cli_check_ranges(cli, ranges, sizeof ranges / sizeof *ranges) != CLI_OK) {
        return CLI_USAGE;
    }
    if (run->disclosure != NULL && !is_level(run->disclosure)) {
        return cli_usage(cli, "--disclosure takes full, message, type or none, not '%.100s'",
                         run->disclosure);
    }
    if (run->log_folder != NULL && strlen(run->log_folder) > RUN_PATH_BYTES_MAX / 2) {
        return cli_usage(cli, "--log-dir takes a path of at most %d bytes", RUN_PATH_BYTES_MAX / 2);
    }
    return CLI_OK;
}

static const char *chosen(const char *given, const char *variable, const char *otherwise)
{
    const char *value = given != NULL ? given : getenv(variable);
    return value != NULL && *value != '\0' ? value : otherwise;
}

/* Makes the name that the library gives a party without one. */
static void make_party(char out[BUS_NAME_BYTES_MAX + 1])
{
    char host[HOST_BYTES_MAX] = "";
    if (gethostname(host, sizeof host - 1) != 0 || *host == '\0') {
        memcpy(host, "host", sizeof "host");
    }
    for (char *at = host; *at != '\0'; at++) {
        if (*at <= ' ' || *at == 0x7f || strchr("/+#", *at) != NULL) {
            *at = '-';
        }
    }
    (void)snprintf(out, BUS_NAME_BYTES_MAX + 1, "%s-%ld", host, (long)getpid());
}

/* NAME, or NAME-0, NAME-1 ... if there are several. */
static int name_members(struct run *run)
{
    char made[BUS_NAME_BYTES_MAX + 1];
    make_party(made);
    const char *name = chosen(run->cli.party, "ERRBUS_PARTY", made);
    for (unsigned i = 0; i < run->copies; i++) {
        struct run_member *member = &run->members[i];
        int bytes = run->copies == 1
                        ? snprintf(member->party, sizeof member->party, "%s", name)
                        : snprintf(member->party, sizeof member->party, "%s-%u", name, i);
        if (bytes < 0 || (size_t)bytes >= sizeof member->party) {
            return cli_usage(
                &run->cli, "the party's name '%.200s...' is too long: it has at most %d bytes%s",
                name, BUS_NAME_BYTES_MAX, run->copies > 1 ? " with the number of a copy" : "");
        }
        (void)snprintf(member->prefix, sizeof member->prefix, "%s: ", member->party);
        member->index = i;
        member->run = run;
    }
    return CLI_OK;
}

/* A port that is free at the moment, for MASTER_PORT; 0: none is. */
static int64_t find_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t bytes = sizeof address;
    int64_t port = 0;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof address) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &bytes) == 0) {
        port = ntohs(address.sin_port);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return port;
}

/* Fills in what programs are told and the user left open. */
static void fill_in(struct run *run)
{
    int64_t port = 0;
    const char *text = getenv("MASTER_PORT");
    run->server = chosen(run->cli.server, "ERRBUS_SERVER", ENDPOINT_DEFAULT);
    run->job = chosen(run->cli.job, "ERRBUS_JOB", "default");
    run->master_address = chosen(run->master_address, "MASTER_ADDR", "127.0.0.1");
    if (run->master_port == 0 && text != NULL && cli_number_read(text, &port)) {
        run->master_port = port;
    }
    if (run->master_port == 0) {
        run->master_port = find_port();
    }
    run->world_size = (unsigned)run->copies;
    run->attempt = 1;
}

/* ---- files ------------------------------------------------------------------------------------*/

static int complain(const struct run *run, const char *what, const char *path, int reason)
{
    fprintf(stderr, "%s: %s %s: %s\n", run->cli.program, what, path, strerror(reason));
    return CLI_FAILED;
}

/* Makes the folder's path absolute: programs get paths in it, and may change their directory
 * first. */
static int make_whole(struct run *run)
{
    char *path = realpath(run->folder, NULL);
    size_t bytes = path != NULL ? strlen(path) : 0;
    int reason = path == NULL ? errno : bytes > RUN_PATH_BYTES_MAX / 2 ? ENAMETOOLONG : 0;
    if (reason == 0) {
        memcpy(run->folder, path, bytes + 1);
    }
    free(path);
    return reason == 0 ? CLI_OK : complain(run, "cannot use", run->folder, reason);
}

/* Names a folder that mkdtemp() may make.  0, or why there cannot be one. */
static int name_own_folder(const char *temporary, char out[RUN_PATH_BYTES_MAX])
{
    int bytes = snprintf(out, RUN_PATH_BYTES_MAX, "%s/errbus-run-XXXXXX", temporary);
    if (bytes < 0 || bytes > RUN_PATH_BYTES_MAX / 2) {
        return ENAMETOOLONG;
    }
    return access(temporary, W_OK | X_OK) == 0 ? 0 : errno;
}

static const char *temporary_folder(void)
{
    return chosen(NULL, "TMPDIR", "/tmp");
}

/* Makes the folder that --log-dir names.  Without it, a folder of its own can be made later. */
static int prepare_folder(struct run *run)
{
    if (run->log_folder == NULL) {
        char name[RUN_PATH_BYTES_MAX];
        int reason = name_own_folder(temporary_folder(), name);
        return reason == 0 ? CLI_OK
                           : complain(run, "cannot make a folder in", temporary_folder(), reason);
    }
    (void)snprintf(run->folder, sizeof run->folder, "%s", run->log_folder);
    if (mkdir(run->folder, 0777) != 0 && errno != EEXIST) {
        return complain(run, "cannot make", run->folder, errno);
    }
    return make_whole(run);
}

/* Once it has joined: whoever is ended before that leaves no empty folder behind. */
static int make_own_folder(struct run *run)
{
    int reason = name_own_folder(temporary_folder(), run->folder);
    if (reason == 0 && mkdtemp(run->folder) == NULL) {
        reason = errno;
    }
    if (reason != 0) {
        return complain(run, "cannot make a folder in", temporary_folder(), reason);
    }
    int result = make_whole(run);
    if (result == CLI_OK) {
        run_note(run, "output is kept in %s", run->folder);
    }
    return result;
}

/* FOLDER/PARTY/ATTEMPT; a party's name has no '/', but may be "..". */
static int make_files(struct run *run, struct run_member *member)
{
    char folder[RUN_PATH_BYTES_MAX];
    member->is_reported = false;
    member->is_unneeded = false;
    member->has_told = false;
    member->place_errno = 0;
    member->rank = member->index; /* unless the job says otherwise */
    run_child_init(&member->child);
    int bytes = snprintf(folder, sizeof folder, "%s/%s%s", run->folder,
                         member->party[0] == '.' ? "_" : "", member->party);
    if (bytes < 0 || (size_t)bytes + 16 > sizeof folder) {
        return complain(run, "cannot make", run->folder, ENAMETOOLONG);
    }
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        return complain(run, "cannot make", folder, errno);
    }
    (void)snprintf(folder + bytes, sizeof folder - (size_t)bytes, "/%u", run->attempt);
    int reason = run_child_make_files(&member->child, folder);
    return reason == 0 ? CLI_OK : complain(run, "cannot make files in", folder, reason);
}

/* ---- signals ----------------------------------------------------------------------------------*/

/* Makes signals readable.  Signals that were ignored when we started (nohup) stay ignored.  False:
 * no descriptor. */
static bool catch_signals(struct run *run)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigset_t caught;
    sigemptyset(&caught);
    sigaddset(&caught, SIGCHLD);
    (void)sigaction(SIGCHLD, &action, NULL); /* an ignored SIGCHLD loses ends */
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (sigaction(numbers[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN) {
            sigaddset(&caught, numbers[i]);
        }
    }
    (void)sigprocmask(SIG_BLOCK, &caught, &run->mask_before);
    run->signal_fd = signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK);
    return run->signal_fd >= 0;
}

static void release_signals(struct run *run)
{
    (void)sigprocmask(SIG_SETMASK, &run->mask_before, NULL);
    (void)close(run->signal_fd);
}

/* ---- the run ----------------------------------------------------------------------------------*/

static int open_all(struct run *run)
{
    run->core.status = 0;
    run->is_overtaken = false;
    int result = run_join_together(run);
    if (result == CLI_OK && run->folder[0] == '\0') {
        result = make_own_folder(run);
    }
    for (unsigned i = 0; i < run->copies && result == CLI_OK; i++) {
        result = make_files(run, &run->members[i]);
    }
    return result;
}

static int run_attempt(struct run *run)
{
    int result = open_all(run);
    if (result != CLI_OK) {
        goto done;
    }
    if (!catch_signals(run)) {
        result = complain(run, "no descriptor for", "signals", errno);
        goto done;
    }
    run_core_init(&run->core,
                  &(struct run_rules){.copies = (unsigned)run->copies,
                                      .grace_ms = run->grace_ms,
                                      .stall_ms = run->stall_ms,
                                      .until_ms = run->cli.wait_ms < 0
                                                      ? RUN_NEVER
                                                      : run->cli.started_ms + run->cli.wait_ms});
    run_loop(run);
    result = run->code;
    release_signals(run); /* from here on a signal ends us at once */
done:
    return run_leave_together(run, result);
}

/* Whether there may be another attempt, to mend this end, or because others failed. */
static bool may_go_on(const struct run *run, int code)
{
    return run->tap != NULL && run->attempt <= run->restarts_max &&
           (code == CLI_OK || code == CLI_FAILED || code == CLI_REMOTE || code == CLI_PARTY_LOST ||
            code == CLI_DENIED);
}

/* The copies came before a party that begins the next run: see broker/design/runs.md.  They have
 * run for less than a minute, and are started again in that run, unless one of them failed by
 * itself or somebody wants us to end. */
static int run_until_joined(struct run *run)
{
    int result = run_attempt(run);
    while (run->is_overtaken && result == CLI_REMOTE && run->core.asked == 0) {
        run_note(run, "starts %s again, in the next run of the job", run->command[0]);
        result = run_attempt(run);
    }
    return result;
}

static int run_attempts(struct run *run)
{
    int result = run_until_joined(run);
    run_screen_finish(run); /* the job may take long */
    while (may_go_on(run, result) && run_job_has_next(run, &result)) {
        run_note(run, "attempt %u of the job", run->attempt);
        run->world_size = (unsigned)run->copies;
        result = run_attempt(run);
        run_screen_finish(run);
    }
    if (result == CLI_FAILED && run->core.status != 0 && !run->is_own_status) {
        return run->core.status;
    }
    return result == RUN_UNNEEDED ? CLI_OK : result;
}

static int run_all(struct run *run)
{
    int result = name_members(run);
    if (result != CLI_OK) {
        return result;
    }
    fill_in(run);
    result = prepare_folder(run);
    if (result != CLI_OK) {
        return result;
    }
    if (!run_warden_start(&run->warden)) {
        return complain(run, "cannot start", "the warden", errno);
    }
    result = run_job_prepare(run);
    if (result == CLI_OK) {
        result = run_attempts(run);
    }
    run_job_finish(run);
    run_screen_finish(run);
    run_warden_stop(&run->warden);
    return result;
}

/* These are read here and in PROGRAM.  They are names that are well formed. */
static void export_choices(const struct run *run)
{
    const char *const choices[][2] = {{"ERRBUS_DISCLOSURE", run->disclosure},
                                      {"ERRBUS_AUDITOR", run->auditor},
                                      {"ERRBUS_RUN", run->run}};
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        if (choices[i][1] != NULL) {
            (void)setenv(choices[i][0], choices[i][1], 1);
        }
    }
}

int run_main(int argc, char **argv)
{
    char *const *command;
    int result = CLI_FAILED;
    struct run *run = calloc(1, sizeof *run);
    if (run == NULL) {
        fprintf(stderr, "errbus run: no memory\n");
        return CLI_FAILED;
    }
    run->cli = (struct cli){
        .program = "errbus run",
        .operands = "-- PROGRAM [ARGUMENT...]",
        .summary = "Starts PROGRAM as a party of the job, and tells the other parties how it ends.",
        .exits = ",\n             7 a party was lost, else that of PROGRAM, 128+N if signal N "
                 "ended it"};
    run->copies = 1;
    run->min = run->max = run->max_restarts = run->join_window_ms = run->join_timeout_ms = -1;
    run->grace_ms = GRACE_DEFAULT_MS;
    const struct cli_flag flags[] = {
        {'n', "nproc", CLI_NUMBER, &run->copies, "N",
         "start N copies, as parties NAME-0, NAME-1 ..., at most 128 (1)"},
        {0, "min", CLI_NUMBER, &run->min, "N",
         "create the job: it needs N parties (the copies here)"},
        {0, "max", CLI_NUMBER, &run->max, "N",
         "create the job: N parties take part (the copies here, or no limit if --min is more)"},
        {0, "max-restarts", CLI_NUMBER, &run->max_restarts, "N",
         "create the job: attempts after the first (0)"},
        {0, "join-window", CLI_SECONDS, &run->join_window_ms, "SECONDS",
         "create the job: wait so long for more parties (30 with --min or --max)"},
        {0, "join-timeout", CLI_SECONDS, &run->join_timeout_ms, "SECONDS",
         "create the job: fail if --min are not there in this time; 0: never (600)"},
        {0, "grace", CLI_SECONDS, &run->grace_ms, "SECONDS", "time from SIGTERM to SIGKILL (10)"},
        {0, "stall", CLI_SECONDS, &run->stall_ms, "SECONDS",
         "fail a program without output or progress for this time (never)"},
        {0, "disclosure", CLI_TEXT, &run->disclosure, "LEVEL",
         "what others see of errors: full, message, type or none (message)"},
        {0, "auditor", CLI_TEXT, &run->auditor, "KEY",
         "seal stack traces and standard error to this public key (ERRBUS_AUDITOR)"},
        {0, "run", CLI_TEXT, &run->run, "ID",
         "the run of the job that PROGRAM is part of (ERRBUS_RUN)"},
        {0, "log-dir", CLI_TEXT, &run->log_folder, "DIR",
         "keep the output in this directory (a new one in TMPDIR)"},
        {0, "own-status", CLI_YES, &run->is_own_status, NULL,
         "end with 1 when a program failed, not with its own status"},
        {0, "plain", CLI_YES, &run->is_plain, NULL,
         "show output without the party's name before each line"},
        {0, "master-addr", CLI_TEXT, &run->master_address, "HOST",
         "MASTER_ADDR of the programs (127.0.0.1)"},
        {0, "master-port", CLI_NUMBER, &run->master_port, "PORT",
         "MASTER_PORT of the programs (a free port)"},
    };
    argc = split(argc, argv, &command);
    run->command = command;
    if (cli_start(&run->cli, argc, argv, flags, sizeof flags / sizeof flags[0], &result)) {
        result = check(run);
        if (result == CLI_OK) {
            export_choices(run);
        }
        run->members = result == CLI_OK ? calloc((size_t)run->copies, sizeof *run->members) : NULL;
        if (run->members != NULL) {
            run->screens[RUN_STDOUT].fd = STDOUT_FILENO;
            run->screens[RUN_STDERR].fd = STDERR_FILENO;
            run_output_init(&run->notes, run->notes_waiting);
            result = run_all(run);
        } else if (result == CLI_OK) {
            fprintf(stderr, "errbus run: no memory\n");
            result = CLI_FAILED;
        }
    }
    free(run->members);
    free(run);
    return result;
}
