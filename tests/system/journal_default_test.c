/* SPDX-License-Identifier: MPL-2.0 */
/* journal_default_test.c -- a broker that is not told where to keep its journal keeps one below the
 * place that the conventions name, and says so in words when it cannot. */
#include "tests/lib/expect.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REMEDY                                                                                     \
    "name another directory with --journal DIR, or keep everything in memory with --journal "      \
    "none\n"
enum { PATH_BYTES = FOLDER_PATH_BYTES_MAX + 64, WORDS_MAX = 16 };

static struct folder folder;
static char control[PATH_BYTES];
static char data[PATH_BYTES];

static void set_up(void)
{
    cr_assert(folder_make(&folder));
    snprintf(control, sizeof control, "ipc://%s/control", folder.path);
    snprintf(data, sizeof data, "ipc://%s/data", folder.path);
}

static void tear_down(void)
{
    stage_close();
    folder_fini(&folder);
}

TestSuite(journal_default, .init = set_up, .fini = tear_down, .timeout = 120);

/* What the places are set to: in the test's own folder, or empty, which is none. */
struct places {
    char service[PATH_BYTES];
    char state[PATH_BYTES];
    char home[PATH_BYTES];
};

static void set_place(char place[PATH_BYTES], const char *variable, const char *name)
{
    snprintf(place, PATH_BYTES, "%s=%s%s%s", variable, name != NULL ? folder.path : "",
             name != NULL ? "/" : "", name != NULL ? name : "");
}

/* NULL: empty. */
static struct places places_of(const char *service, const char *state, const char *home)
{
    struct places places;
    set_place(places.service, "STATE_DIRECTORY", service);
    set_place(places.state, "XDG_STATE_HOME", state);
    set_place(places.home, "HOME", home);
    return places;
}

/* prefix: what errbusd is run by, NULL at its end. */
static void start(struct process *process, const struct places *places, const char *const *prefix,
                  const char *const *more)
{
    const char *argv[WORDS_MAX] = {NULL};
    const char *const environment[] = {places->service, places->state, places->home, NULL};
    const char *const own[] = {"--control", control, "--data", data};
    char path[4096];
    size_t count = 0;
    for (size_t i = 0; prefix != NULL && prefix[i] != NULL; i++)
        argv[count++] = prefix[i];
    argv[count++] = process_path("errbusd", path, sizeof path);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        argv[count++] = own[i];
    for (size_t i = 0; more != NULL && more[i] != NULL; i++)
        argv[count++] = more[i];
    cr_assert(process_start(process, argv, environment));
}

static bool is_there(const char *name)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder.path, name);
    return access(path, F_OK) == 0;
}

/* journal: its directory, below the test's folder; or "none". */
static void start_stage(const struct places *places, const char *const *more, const char *journal)
{
    char expected[4 * PATH_BYTES];
    const char *line = NULL;
    bool is_kept = strcmp(journal, "none") != 0;
    start(&stage.process, places, NULL, more);
    cr_assert(process_line(&stage.process, SOON_MS, &line), "%s",
              process_complained(&stage.process));
    snprintf(expected, sizeof expected, "errbusd ready control=%s data=%s", control, data);
    cr_assert_str_eq(line, expected);
    cr_assert(!is_kept || is_there(journal));
    snprintf(stage.control, sizeof stage.control, "%s", control);
}

static void expect_refusal(const struct places *places, const char *const *prefix,
                           const char *complaint)
{
    static const char *const free_ports[] = {"--control", "tcp://127.0.0.1:*", "--data",
                                             "tcp://127.0.0.1:*", NULL};
    struct process process = {.pid = 0};
    start(&process, places, prefix, free_ports);
    cr_expect_eq(process_wait(&process, SOON_MS), 1);
    cr_expect_str_eq(process_complained(&process), complaint);
    cr_expect_str_empty(process_said(&process));
    process_fini(&process);
}

static unsigned mode_of(const char *name)
{
    char path[PATH_BYTES];
    struct stat status;
    snprintf(path, sizeof path, "%s/%s", folder.path, name);
    cr_assert_eq(stat(path, &status), 0, "there is no %s", path);
    return status.st_mode & 07777;
}

Test(journal_default, survives_a_kill_in_the_home_of_who_started_it)
{
    struct places places = places_of(NULL, NULL, "home");
    umask(0);
    start_stage(&places, NULL, "home/.local/state/errbus/journal");
    static const char *const made[] = {"home", "home/.local", "home/.local/state",
                                       "home/.local/state/errbus",
                                       "home/.local/state/errbus/journal"};
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++)
        cr_expect_eq(mode_of(made[i]), 0700, "%s: %o", made[i], mode_of(made[i]));
    cr_expect_eq(mode_of("home/.local/state/errbus/journal/00000000000000000000.journal"), 0600);
    struct bus *alice = must_open("alice");
    must_publish(alice, "w", "kept");
    must_flush(alice);
    process_signal(&stage.process, SIGKILL);
    cr_assert_eq(process_wait(&stage.process, SOON_MS), 128 + SIGKILL);
    stage_close();
    start_stage(&places, NULL, "home/.local/state/errbus/journal");
    struct bus *bob = must_open("bob");
    expect_awaited(bob, "alice/w", 0, "kept");
    must_close(&bob);
    must_close(&alice);
}

Test(journal_default, follows_the_service_then_the_user)
{
    struct places places = places_of("service", "state", "home");
    start_stage(&places, NULL, "service/journal");
    stage_close();
    places = places_of(NULL, "state", "home");
    start_stage(&places, NULL, "state/errbus/journal");
    cr_expect_not(is_there("home"));
}

Test(journal_default, is_shown_in_the_status)
{
    char expected[2 * PATH_BYTES];
    struct process status = {.pid = 0};
    struct places places = places_of("service", NULL, NULL);
    start_stage(&places, NULL, "service/journal");
    cr_assert(process_start(&status, (const char *const[]){"errbus", "status", "-s", control, NULL},
                            NULL));
    cr_expect_eq(process_wait(&status, SOON_MS), 0, "%s", process_complained(&status));
    snprintf(expected, sizeof expected, "\njournal %s/service/journal (folder): ", folder.path);
    cr_expect_not_null(strstr(process_said(&status), expected), "%s", process_said(&status));
    process_fini(&status);
}

static void expect_level(enum bus_durability level)
{
    struct bus *alice = must_open("alice");
    must_publish(alice, "w", "a value");
    must_flush(alice);
    cr_expect_eq(bus_durability(alice), level, "%d", (int)bus_durability(alice));
    must_close(&alice);
}

/* A journal that is synced beside its writer has a proof of how far. */
Test(journal_default, syncs_as_it_goes_unless_it_is_told_otherwise)
{
    struct places places = places_of("service", NULL, NULL);
    start_stage(&places, NULL, "service/journal");
    expect_level(BUS_DURABILITY_DISK);
    cr_expect(is_there("service/journal/proof"));
    stage_close();
    start_stage(&places, (const char *const[]){"--durability", "process", NULL}, "service/journal");
    expect_level(BUS_DURABILITY_PROCESS);
    cr_expect(is_there("service/journal/proof"));
    stage_close();
    start_stage(&places, (const char *const[]){"--durability", "shared", NULL}, "service/journal");
    expect_level(BUS_DURABILITY_SHARED);
    cr_expect(is_there("service/journal/proof"));
}

Test(journal_default, is_not_kept_where_it_is_not_wanted)
{
    struct places places = places_of("service", "state", "home");
    start_stage(&places, (const char *const[]){"--journal", "none", NULL}, "none");
    stage_close();
    start_stage(&places, (const char *const[]){"--durability", "memory", NULL}, "none");
    stage_close();
    char path[FOLDER_PATH_BYTES_MAX];
    cr_assert(folder_write(&folder, "cfg", "journal = none\n", path));
    start_stage(&places, (const char *const[]){"--config", path, NULL}, "none");
    cr_expect_not(is_there("service"));
    cr_expect_not(is_there("state"));
    cr_expect_not(is_there("home"));
}

Test(journal_default, says_what_to_do_where_there_is_no_place)
{
    struct places places = places_of(NULL, NULL, NULL);
    expect_refusal(&places, NULL,
                   "errbusd: no directory for the journal: set $STATE_DIRECTORY, $XDG_STATE_HOME "
                   "or $HOME to an absolute path; " REMEDY);
}

/* Root may do anything, so it is run without that right. */
Test(journal_default, says_what_to_do_without_rights)
{
    static const char *const weak[] = {"setpriv", "--bounding-set", "-dac_override", "--", NULL};
    char complaint[8 * PATH_BYTES];
    char home[PATH_BYTES];
    struct places places = places_of(NULL, NULL, "home");
    snprintf(home, sizeof home, "%s/home", folder.path);
    cr_assert_eq(mkdir(home, 0500), 0);
    snprintf(complaint, sizeof complaint,
             "errbusd: the directory '%s/.local/state/errbus/journal' cannot be made: Permission "
             "denied; " REMEDY,
             home);
    expect_refusal(&places, geteuid() == 0 ? weak : NULL, complaint);
}

Test(journal_default, is_one_brokers_at_a_time)
{
    char complaint[8 * PATH_BYTES];
    struct places places = places_of(NULL, "state", NULL);
    start_stage(&places, NULL, "state/errbus/journal");
    snprintf(complaint, sizeof complaint,
             "errbusd: another broker (process %ld) has the journal in '%s/state/errbus/journal': "
             "one directory, one broker; " REMEDY,
             (long)stage.process.pid, folder.path);
    expect_refusal(&places, NULL, complaint);
}
