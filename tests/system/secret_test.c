/* SPDX-License-Identifier: MPL-2.0 */
/* secret_test.c -- secret keys are in their files and nowhere else: not in the journal, log, core,
 * status, errors, command line or environment of a broker, in none of their forms. */
#include "tests/lib/expect.h"
#include "tests/lib/folder.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#define PATH_BYTES 256
#define TEXT_BYTES 4096
#define Z85_BYTES 41

enum { KEY_BYTES_RAW = 32, BROKER = 0, ALICE = 1, PEOPLE = 2, OTHER_GROUP = 65534 };

/* A key in all its forms, and the file that may have it. */
struct secret {
    char path[PATH_BYTES];
    char public_text[BUS_KEY_TEXT_BYTES];
    char z85[Z85_BYTES];
    uint8_t raw[KEY_BYTES_RAW];
    char text[64]; /* as our file has it, without "ebs_" */
};

static struct folder folder;
static struct secret secrets[PEOPLE];
static char access_path[FOLDER_PATH_BYTES_MAX];

static void read_text(struct secret *secret)
{
    char line[TEXT_BYTES], word[64] = "";
    FILE *file = fopen(secret->path, "re");
    cr_assert_not_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "secret ebs_%63s", word) == 1)
            break;
    (void)fclose(file); /* it was only read */
    cr_assert_geq(strlen(word), 50);
    snprintf(secret->text, sizeof secret->text, "%s", word);
}

static void make_secret(struct secret *secret, const char *name)
{
    char source[FOLDER_PATH_BYTES_MAX], public_z85[Z85_BYTES];
    cr_assert_eq(zmq_curve_keypair(public_z85, secret->z85), 0);
    cr_assert_not_null(zmq_z85_decode(secret->raw, secret->z85));
    cr_assert(folder_write(&folder, "z85", secret->z85, source));
    cr_assert_eq(chmod(source, 0600), 0);
    snprintf(secret->path, sizeof secret->path, "%s/%s.key", folder.path, name);
    expect_code(bus_key_import(secret->path, source, secret->public_text, NULL), BUS_OK);
    cr_assert_eq(unlink(source), 0);
    read_text(secret);
}

static void make_files(void)
{
    char text[TEXT_BYTES];
    cr_assert(folder_make(&folder));
    make_secret(&secrets[BROKER], "broker");
    make_secret(&secrets[ALICE], "alice");
    snprintf(text, sizeof text, "key alice %s\nallow alice party tap status job in *\n",
             secrets[ALICE].public_text);
    cr_assert(folder_write(&folder, "access", text, access_path));
    cr_assert_eq(setenv("ERRBUS_KEY", secrets[ALICE].path, 1), 0);
}

static void close_all(void)
{
    stage_close();
    unsetenv("ERRBUS_KEY");
    folder_fini(&folder);
}

TestSuite(secret, .init = make_files, .fini = close_all, .timeout = 120);

/* ---- looking --------------------------------------------------------------------------------- */

static void expect_absent(const char *where, const void *bytes, size_t count)
{
    for (int i = 0; i < PEOPLE; i++) {
        const struct secret *secret = &secrets[i];
        cr_expect_null(memmem(bytes, count, secret->raw, sizeof secret->raw), "raw in %s", where);
        cr_expect_null(memmem(bytes, count, secret->z85, Z85_BYTES - 1), "Z85 in %s", where);
        cr_expect_null(memmem(bytes, count, secret->text, strlen(secret->text)), "text in %s",
                       where);
    }
}

/* Returns how many bytes were looked at. */
static size_t look_at_file(const char *path)
{
    static char bytes[64 * 1024 * 1024];
    size_t count = 0;
    ssize_t more = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    while (count < sizeof bytes && (more = read(fd, bytes + count, sizeof bytes - count)) > 0)
        count += (size_t)more;
    close(fd);
    expect_absent(path, bytes, count);
    return count;
}

static size_t look_at_folder(const char *path)
{
    char name[2 * PATH_BYTES];
    size_t count = 0;
    DIR *entries = opendir(path);
    cr_assert_not_null(entries, "%s", path);
    for (const struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        count += entry->d_type == DT_REG ? look_at_file(name) : 0;
    }
    (void)closedir(entries);
    return count;
}

static void look_at_output(const char *const *arguments)
{
    struct process process;
    const char *argv[12] = {"errbus"};
    for (int i = 0; arguments[i] != NULL; i++)
        argv[i + 1] = arguments[i];
    cr_assert(process_start(&process, argv, NULL));
    (void)process_wait(&process, SOON_MS); /* whatever it says */
    cr_expect_gt(strlen(process_said(&process)) + strlen(process_complained(&process)), 0);
    expect_absent(arguments[0], process_said(&process), strlen(process_said(&process)));
    expect_absent(arguments[0], process_complained(&process), strlen(process_complained(&process)));
    process_fini(&process);
}

static void look_at_process(void)
{
    static const char *const files[] = {"cmdline", "environ"};
    char path[PATH_BYTES];
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", (int)stage.process.pid, files[i]);
        (void)look_at_file(path); /* may not be read: then nobody sees it */
    }
}

Test(secret, is_nowhere_but_in_its_file)
{
    char journal[PATH_BYTES];
    snprintf(journal, sizeof journal, "%s/journal", folder.path);
    stage_open_with((const char *const[]){"--access", access_path, "--key", secrets[BROKER].path,
                                          "--journal", journal, "--verbose", NULL});
    struct bus *alice = must_open("alice");
    must_publish(alice, "w", "value");
    struct bus_slot *slot = must_reserve(alice, "w");
    fail_slot(&slot, "app.broken", "it broke");
    must_flush(alice);
    look_at_output((const char *const[]){"status", "-s", stage.control, "--json", NULL});
    look_at_output((const char *const[]){"errors", "-s", stage.control, "--json", NULL});
    look_at_output((const char *const[]){"key", "show", NULL});
    look_at_output((const char *const[]){"access", "check", secrets[ALICE].path, NULL});
    look_at_output((const char *const[]){"sub", "-s", stage.control, "alice", NULL});
    look_at_process();
    must_close(&alice);
    cr_expect_gt(look_at_folder(journal), 0);
    expect_absent("log", process_complained(&stage.process),
                  strlen(process_complained(&stage.process)));
    expect_absent("ready line", process_said(&stage.process), strlen(process_said(&stage.process)));
}

/* ---- cores ----------------------------------------------------------------------------------- */

/* In another process: becomes a broker in the folder.  Its cores may be of any size. */
static void become_broker(int told, const char *const *more)
{
    char program[PATH_BYTES];
    struct rlimit any = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    const char *argv[16] = {process_path("errbusd", program, sizeof program),
                            "--control",
                            "tcp://127.0.0.1:*",
                            "--data",
                            "tcp://127.0.0.1:*",
                            "--journal",
                            "none"};
    for (int i = 0; more[i] != NULL; i++)
        argv[7 + i] = more[i];
    (void)setrlimit(RLIMIT_CORE, &any); /* or there is no core */
    if (geteuid() == 0 && setgid(OTHER_GROUP) != 0)
        _exit(1); /* what belongs to root is to be told from what belongs to this process */
    if (dup2(told, STDOUT_FILENO) < 0 || chdir(folder.path) != 0)
        _exit(1);
    execv(argv[0], (char *const *)(void *)argv);
    _exit(1);
}

/* Whether the memory of a process belongs to root rather than to itself: proc(5) says so of one
 * that leaves no core and lets nobody look. */
static bool is_shut(pid_t pid)
{
    char path[64];
    struct stat found;
    snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    cr_assert_eq(stat(path, &found), 0, "%s", path);
    return found.st_uid == 0 && found.st_gid == 0;
}

struct fate {
    bool is_shut;
    bool has_core;
};

/* Of a broker that is aborted. */
static struct fate fate_of(const char *const *more)
{
    int told[2], status = 0;
    char byte;
    cr_assert_eq(pipe2(told, O_CLOEXEC), 0);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0)
        become_broker(told[1], more);
    close(told[1]);
    cr_assert_eq(read(told[0], &byte, 1), 1, "the broker is not ready");
    struct fate fate = {.is_shut = is_shut(child)};
    cr_assert_eq(kill(child, SIGABRT), 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    close(told[0]);
    cr_assert(WIFSIGNALED(status));
    fate.has_core = WCOREDUMP(status);
    return fate;
}

static struct fate fate_with_key(void)
{
    return fate_of(
        (const char *const[]){"--access", access_path, "--key", secrets[BROKER].path, NULL});
}

/* It says something only where another broker leaves one. */
Test(secret, is_in_no_core_of_a_broker)
{
    if (!fate_of((const char *const[]){NULL}).has_core)
        cr_skip_test("no process leaves a core here: see /proc/sys/kernel/core_pattern");
    cr_expect_not(fate_with_key().has_core);
}

/* The same, as the kernel tells it of a broker that runs: this needs no core. */
Test(secret, is_in_memory_that_nobody_may_look_into)
{
    if (fate_of((const char *const[]){NULL}).is_shut)
        cr_skip_test("the memory of each process is root's here");
    cr_expect(fate_with_key().is_shut);
}
