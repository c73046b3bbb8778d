/* SPDX-License-Identifier: MPL-2.0 */
/* key_test.c -- errbus key and errbus access: files with keys, and what an access file allows. */
#include "tests/lib/expect.h"
#include "tests/lib/folder.h"

#include <criterion/criterion.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <linux/xattr.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define ARGUMENTS_MAX 16
#define TEXT_BYTES 1024
#define OTHER_USER 4242
#define OTHER_GROUP 4243
#define EDITORS 8
#define GROUPS_MAX 64
#define LIST_BYTES 44 /* of an access control list with five entries */

static struct folder folder;
static char key_path[FOLDER_PATH_BYTES_MAX * 2];

static void open_folder(void)
{
    cr_assert(folder_make(&folder));
    snprintf(key_path, sizeof key_path, "%s/sub/key", folder.path);
}

static void close_folder(void)
{
    folder_fini(&folder);
}

/* What this machine or user cannot do is tried where it can be: .ci/run runs as root.  Nobody calls
 * close_folder() for a test that is skipped. */
static void skip(const char *why)
{
    close_folder();
    cr_skip_test("%s", why);
}

TestSuite(key, .init = open_folder, .fini = close_folder, .timeout = 120);

/* Runs `errbus ...`; words end with NULL.  Returns the exit status. */
static int run(struct process *process, const char *subcommand, ...)
{
    const char *argv[ARGUMENTS_MAX] = {"errbus", subcommand};
    size_t count = 2;
    va_list args;
    va_start(args, subcommand);
    for (const char *word = va_arg(args, const char *); word != NULL && count + 1 < ARGUMENTS_MAX;
         word = va_arg(args, const char *))
        argv[count++] = word;
    va_end(args);
    cr_assert(process_start(process, argv, NULL));
    return process_wait(process, 3 * SOON_MS);
}

static void expect_said(struct process *process, const char *text)
{
    cr_assert_str_eq(process_said(process), text, "%s%s", process_said(process),
                     process_complained(process));
    process_fini(process);
}

/* It failed, and said this. */
static void expect_complaint(struct process *process, const char *text)
{
    cr_assert(strstr(process_complained(process), text) != NULL, "'%s' is not in: %s", text,
              process_complained(process));
    cr_assert_str_empty(process_said(process));
    process_fini(process);
}

static void read_text(const char *path, char text[TEXT_BYTES])
{
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "%s", path);
    size_t bytes = fread(text, 1, TEXT_BYTES - 1, file);
    text[bytes] = '\0';
    fclose(file);
}

static void write_text(const char *name, const char *text, mode_t mode, char *path)
{
    cr_assert(folder_write(&folder, name, text, path));
    cr_assert_eq(chmod(path, mode), 0);
}

/* ---- keys ------------------------------------------------------------------------------------ */

Test(key, is_made_once_and_for_its_owner_alone)
{
    struct process process;
    struct stat status;
    char made[TEXT_BYTES], file[TEXT_BYTES], again[TEXT_BYTES];
    umask(0);
    cr_assert_eq(run(&process, "key", "new", "-f", key_path, NULL), 0);
    snprintf(made, sizeof made, "%s", process_said(&process));
    cr_assert_eq(strlen(made), 61, "%s", made);
    cr_assert(strncmp(made, "ebp_", 4) == 0 && made[60] == '\n', "%s", made);
    process_fini(&process);
    cr_assert_eq(stat(key_path, &status), 0);
    cr_assert_eq(status.st_mode & 07777, 0600);
    read_text(key_path, file);

    cr_assert_eq(run(&process, "key", "show", "-f", key_path, NULL), 0);
    expect_said(&process, made);
    cr_assert_eq(run(&process, "key", "new", "-f", key_path, NULL), 6);
    expect_complaint(&process, "exists, and a key is not overwritten");
    read_text(key_path, again);
    cr_assert_str_eq(file, again);
}

Test(key, is_where_the_environment_says)
{
    struct process process;
    struct stat status;
    char path[FOLDER_PATH_BYTES_MAX * 2];
    setenv("XDG_CONFIG_HOME", folder.path, 1);
    unsetenv("ERRBUS_KEY");
    cr_assert_eq(run(&process, "key", "new", NULL), 0);
    process_fini(&process);
    snprintf(path, sizeof path, "%s/errbus/key", folder.path);
    cr_assert_eq(stat(path, &status), 0);
    setenv("ERRBUS_KEY", key_path, 1);
    cr_assert_eq(run(&process, "key", "show", NULL), 6);
    expect_complaint(&process, "'errbus key new' makes one");
    cr_assert_eq(run(&process, "key", "new", NULL), 0);
    process_fini(&process);
    cr_assert_eq(stat(key_path, &status), 0);
}

Test(key, is_refused_where_others_may_read_it)
{
    struct process process;
    cr_assert_eq(run(&process, "key", "new", "-f", key_path, NULL), 0);
    process_fini(&process);
    static const mode_t modes[] = {0660, 0604, 0620, 0602, 0610, 0601};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        cr_assert_eq(chmod(key_path, modes[i]), 0);
        cr_assert_eq(run(&process, "key", "show", "-f", key_path, NULL), 6);
        expect_complaint(&process, "others can read or write it");
    }
    cr_assert_eq(chmod(key_path, 0400), 0);
    cr_assert_eq(run(&process, "key", "show", "-f", key_path, NULL), 0);
    process_fini(&process);
    cr_assert_eq(chmod(key_path, 0440), 0); /* as a service manager gives a file of root */
    cr_assert_eq(run(&process, "key", "show", "-f", key_path, NULL), geteuid() == 0 ? 0 : 6);
    process_fini(&process);
}

Test(key, is_made_at_no_symbolic_link_and_read_through_one)
{
    struct process process;
    char made[TEXT_BYTES];
    char link_path[FOLDER_PATH_BYTES_MAX * 2];
    char target[FOLDER_PATH_BYTES_MAX * 2];
    snprintf(link_path, sizeof link_path, "%s/link", folder.path);
    snprintf(target, sizeof target, "%s/target", folder.path);
    cr_assert_eq(symlink(target, link_path), 0);
    cr_assert_eq(run(&process, "key", "new", "-f", link_path, NULL), 6);
    expect_complaint(&process, "exists, and a key is not overwritten");
    cr_assert_neq(access(target, F_OK), 0);
    cr_assert_eq(run(&process, "key", "show", "-f", link_path, NULL), 6);
    expect_complaint(&process, "'errbus key new' makes one");
    cr_assert_eq(run(&process, "key", "new", "-f", target, NULL), 0);
    snprintf(made, sizeof made, "%s", process_said(&process));
    process_fini(&process);
    cr_assert_eq(run(&process, "key", "show", "-f", link_path, NULL), 0);
    expect_said(&process, made);
    cr_assert_eq(chmod(target, 0604), 0); /* the mode of the link itself is 0777 */
    cr_assert_eq(run(&process, "key", "show", "-f", link_path, NULL), 6);
    expect_complaint(&process, "others can read or write it");
    cr_assert_eq(run(&process, "key", "show", "-f", folder.path, NULL), 6);
    expect_complaint(&process, "it is not a file");
}

/* The pair of RFC 26 (CurveZMQ), as the tests of libzmq have it. */
#define Z85_PUBLIC "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"
#define Z85_SECRET "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs"
#define OWN_PUBLIC "ebp_ac5yqry5mxrglgzqyvnfgiooxnnkwk3quomgixbg3srlf7fuh7crqyhm"

Test(key, is_taken_over_from_files_of_zeromq)
{
    struct process process;
    char source[FOLDER_PATH_BYTES_MAX], own[TEXT_BYTES];
    static const char *const forms[] = {
        "#   ****  Generated on ...\n\nmetadata\ncurve\n    public-key = \"" Z85_PUBLIC
        "\"\n    secret-key = \"" Z85_SECRET "\"\n",
        Z85_SECRET "\n",
        Z85_SECRET,
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        write_text("source", forms[i], 0600, source);
        cr_assert_eq(run(&process, "key", "import", "-f", key_path, source, NULL), 0);
        expect_said(&process, OWN_PUBLIC "\n");
        read_text(key_path, own);
        cr_assert_eq(unlink(key_path), 0);
    }
    write_text("source", own, 0600, source); /* our own form */
    cr_assert_eq(run(&process, "key", "import", "-f", key_path, source, NULL), 0);
    expect_said(&process, OWN_PUBLIC "\n");
}

Test(key, says_what_is_no_key_and_repeats_no_secret)
{
    struct process process;
    char source[FOLDER_PATH_BYTES_MAX];
    static const char *const forms[] = {"", "nothing", "secret ebs_abcdefg\n",
                                        "public-key = \"" Z85_PUBLIC "\"\n"};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        write_text("source", forms[i], 0600, source);
        cr_assert_eq(run(&process, "key", "import", "-f", key_path, source, NULL), 1);
        cr_assert(strstr(process_complained(&process), "abcdefg") == NULL);
        expect_complaint(&process, "holds no secret key");
        cr_assert_eq(run(&process, "key", "show", "-f", source, NULL), 1);
        cr_assert(strstr(process_complained(&process), "abcdefg") == NULL);
        expect_complaint(&process, "is no key of Errbus");
    }
    write_text("source", Z85_SECRET, 0644, source);
    cr_assert_eq(run(&process, "key", "import", "-f", key_path, source, NULL), 6);
    expect_complaint(&process, "others can read or write it");
    cr_assert_eq(run(&process, "key", "import", NULL), 2);
    expect_complaint(&process, "import needs the file");
    cr_assert_eq(run(&process, "key", "old", NULL), 2);
    expect_complaint(&process, "expected 'new', 'show' or 'import'");
}

/* ---- access files ---------------------------------------------------------------------------- */

static void write_access(char path[FOLDER_PATH_BYTES_MAX])
{
    write_text("access",
               "# a comment\n"
               "key bob " OWN_PUBLIC "\n"
               "uid ops 1000\n"
               "allow bob party as auditor reads aggregator/# in audit\n"
               "allow ops tap status in *\n"
               "limit bob jobs 4 rate 2K\n",
               0644, path);
}

Test(key, has_rights_that_access_explains)
{
    struct process process;
    char path[FOLDER_PATH_BYTES_MAX], expected[TEXT_BYTES];
    write_access(path);
    snprintf(expected, sizeof expected,
             "%s: well formed; names: 2, keys: 1, uids: 1, groups: 0, rules: 2, limits: 2\n", path);
    cr_assert_eq(run(&process, "access", "check", path, NULL), 0);
    expect_said(&process, expected);
    cr_assert_eq(run(&process, "access", "explain", "-j", "audit", "-p", "auditor", path, "bob",
                     "aggregator/model", "+/grads", NULL),
                 0);
    expect_said(&process, "bob in job audit, as party auditor\n"
                          "  party: yes, by line 4\n"
                          "  tap: no\n"
                          "  status: no\n"
                          "  job: no\n"
                          "  dead: no\n"
                          "  admin: no\n"
                          "  at most 4 jobs, by line 6\n"
                          "  at most 2048 bytes a second, by line 6\n"
                          "  read aggregator/model: yes, by line 4\n"
                          "  read +/grads: yes, by line 4\n");
    cr_assert_eq(run(&process, "access", "explain", "-j", "audit", "-p", "auditor", path, "bob",
                     "alice/grads", NULL),
                 6);
    cr_assert(strstr(process_said(&process), "  read alice/grads: no\n") != NULL);
    process_fini(&process);
    cr_assert_eq(run(&process, "access", "explain", "-j", "x", path, "ops", NULL), 0);
    cr_assert(strstr(process_said(&process), "  tap: yes, by line 5\n") != NULL);
    process_fini(&process);
}

Test(key, is_wrong_in_a_file_at_a_line)
{
    struct process process;
    char path[FOLDER_PATH_BYTES_MAX], expected[TEXT_BYTES];
    write_text("access", "uid ops 1000\n\nallow ops read in x\n", 0644, path);
    snprintf(expected, sizeof expected, "errbus access: %s:3: 'read' is no right: ", path);
    cr_assert_eq(run(&process, "access", "check", path, NULL), 1);
    expect_complaint(&process, expected);
    cr_assert_eq(run(&process, "access", "check", "/nowhere/access", NULL), 1);
    expect_complaint(&process, "cannot read the access file '/nowhere/access': No such file");
    write_access(path);
    cr_assert_eq(run(&process, "access", "explain", path, "carol", NULL), 1);
    expect_complaint(&process, "is called 'carol': no key or uid line has it");
    cr_assert_eq(run(&process, "access", "chekc", path, NULL), 2);
    expect_complaint(&process, "expected 'check', 'explain', 'add', 'remove', 'who' or 'reload'");
}

Test(key, adds_and_removes_lines_of_an_access_file)
{
    static const char text[] = "# staff\nuid ops 1000\nallow ops  tap in x";
    struct process process;
    char path[FOLDER_PATH_BYTES_MAX], link[FOLDER_PATH_BYTES_MAX + 8], found[TEXT_BYTES];
    struct stat status;
    write_text("access", text, 0640, path);
    snprintf(link, sizeof link, "%s.link", path);
    cr_assert_eq(symlink(path, link), 0);
    cr_assert_eq(run(&process, "access", "add", link, "uid", "eve", "7", NULL), 0);
    process_fini(&process);
    read_text(path, found);
    cr_expect_str_eq(found, "# staff\nuid ops 1000\nallow ops  tap in x\nuid eve 7\n");
    cr_assert_eq(stat(path, &status), 0);
    cr_expect_eq(status.st_mode & 0777, 0640);
    cr_assert_eq(run(&process, "access", "add", path, "uid", "eve", "7", NULL), 1);
    expect_complaint(&process, "has this line already: line 4");
    cr_assert_eq(run(&process, "access", "remove", path, "allow", "ops", "tap", "in", "x", NULL),
                 0);
    process_fini(&process);
    read_text(path, found);
    cr_expect_str_eq(found, "# staff\nuid ops 1000\nuid eve 7\n");
    cr_assert_eq(run(&process, "access", "remove", path, "uid", "eve", NULL), 1);
    expect_complaint(&process, "has no line of these words");
    cr_assert_eq(run(&process, "access", "add", path, "allow", "bob", "tap", "in", "x", NULL), 1);
    expect_complaint(&process, "stays as it is; with the change: ");
    cr_assert_eq(run(&process, "access", "add", path, "uid", "b ob", "7", NULL), 2);
    expect_complaint(&process, "'b ob' is no word");
    read_text(path, found);
    cr_expect_str_eq(found, "# staff\nuid ops 1000\nuid eve 7\n");
    snprintf(found, sizeof found, "%s.new", path);
    cr_expect_eq(access(found, F_OK), -1, "nothing is left behind");
}

/* A newcomer has no file yet, and may name the party before the file. */
Test(key, begins_an_access_file_with_its_first_line)
{
    struct process process;
    char path[FOLDER_PATH_BYTES_MAX + 8], found[TEXT_BYTES];
    struct stat status;
    snprintf(path, sizeof path, "%s/fresh", folder.path);
    cr_assert_eq(run(&process, "access", "add", "alice", "ebp_x", NULL), 2);
    expect_complaint(&process, "'alice' is no access file: the file comes first, then a line of "
                               "it, as in 'errbus access add FILE key NAME KEY'");
    cr_assert_eq(run(&process, "access", "remove", path, "uid", "eve", "7", NULL), 1);
    expect_complaint(&process, "cannot find the access file");
    cr_assert_eq(run(&process, "access", "add", path, "allow", "bob", "tap", "in", "x", NULL), 1);
    expect_complaint(&process, "fresh' is not made; with the change: ");
    cr_expect_eq(access(path, F_OK), -1);
    (void)umask(027);
    cr_assert_eq(run(&process, "access", "add", path, "uid", "eve", "7", NULL), 0);
    process_fini(&process);
    cr_assert_eq(run(&process, "access", "add", path, "allow", "eve", "tap", "in", "x", NULL), 0);
    process_fini(&process);
    read_text(path, found);
    cr_expect_str_eq(found, "uid eve 7\nallow eve tap in x\n");
    cr_assert_eq(stat(path, &status), 0);
    cr_expect_eq(status.st_mode & 0777, 0640);
    snprintf(found, sizeof found, "%s.new", path);
    cr_expect_eq(access(found, F_OK), -1, "nothing is left behind");
}

/* Another group that this user can give a file to; the own one: there is none. */
static gid_t other_group(void)
{
    gid_t groups[GROUPS_MAX];
    int count = getgroups(GROUPS_MAX, groups);
    if (geteuid() == 0)
        return OTHER_GROUP;
    for (int i = 0; i < count; i++)
        if (groups[i] != getegid())
            return groups[i];
    return getegid();
}

/* A broker may read its access file as the group of it alone. */
Test(key, leaves_an_access_file_to_whom_it_was)
{
    struct process process;
    char path[FOLDER_PATH_BYTES_MAX];
    struct stat before, status;
    write_text("access", "uid ops 1000\n", 0640, path);
    if (other_group() == getegid())
        skip("this user has one group");
    if (chown(path, geteuid() == 0 ? OTHER_USER : geteuid(), other_group()) != 0)
        skip("a file cannot be given away here");
    cr_assert_eq(chmod(path, 0640), 0);
    cr_assert_eq(stat(path, &before), 0);
    cr_assert_eq(run(&process, "access", "add", path, "uid", "eve", "7", NULL), 0, "%s",
                 process_complained(&process));
    process_fini(&process);
    cr_assert_eq(stat(path, &status), 0);
    cr_expect_neq(status.st_ino, before.st_ino);
    cr_expect_eq(status.st_uid, before.st_uid);
    cr_expect_eq(status.st_gid, before.st_gid);
    cr_expect_eq(status.st_mode, before.st_mode);
}

/* A list that lets one more user read: its mode is 0640. */
static void make_list(unsigned char list[LIST_BYTES])
{
    static const uint32_t nobody = (uint32_t)ACL_UNDEFINED_ID;
    static const struct {
        uint16_t tag, may;
        uint32_t id;
    } rows[] = {{ACL_USER_OBJ, ACL_READ | ACL_WRITE, nobody},
                {ACL_USER, ACL_READ, OTHER_USER},
                {ACL_GROUP_OBJ, 0, nobody},
                {ACL_MASK, ACL_READ, nobody},
                {ACL_OTHER, 0, nobody}};
    struct posix_acl_xattr_header head = {.a_version = htole32(POSIX_ACL_XATTR_VERSION)};
    memcpy(list, &head, sizeof head);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct posix_acl_xattr_entry entry = {htole16(rows[i].tag), htole16(rows[i].may),
                                              htole32(rows[i].id)};
        memcpy(list + sizeof head + i * sizeof entry, &entry, sizeof entry);
    }
}

Test(key, leaves_an_access_file_its_access_control_list)
{
    struct process process;
    char path[FOLDER_PATH_BYTES_MAX];
    unsigned char list[LIST_BYTES], found[LIST_BYTES + 1];
    struct stat status;
    write_text("access", "uid ops 1000\n", 0600, path);
    make_list(list);
    if (setxattr(path, XATTR_NAME_POSIX_ACL_ACCESS, list, sizeof list, 0) != 0)
        skip("a file has no access control list here");
    cr_assert_eq(run(&process, "access", "add", path, "uid", "eve", "7", NULL), 0);
    process_fini(&process);
    cr_assert_eq(stat(path, &status), 0);
    cr_expect_eq(status.st_mode & 0777, 0640);
    cr_expect_eq(getxattr(path, XATTR_NAME_POSIX_ACL_ACCESS, found, sizeof found), LIST_BYTES);
    cr_expect_arr_eq(found, list, LIST_BYTES);

    /* What the folder gives to new files is not for this one. */
    cr_assert_eq(removexattr(path, XATTR_NAME_POSIX_ACL_ACCESS), 0);
    cr_assert_eq(chmod(path, 0640), 0);
    cr_assert_eq(setxattr(folder.path, XATTR_NAME_POSIX_ACL_DEFAULT, list, sizeof list, 0), 0);
    cr_assert_eq(run(&process, "access", "add", path, "uid", "bob", "8", NULL), 0);
    process_fini(&process);
    cr_assert_eq(stat(path, &status), 0);
    cr_expect_eq(status.st_mode & 0777, 0640);
    cr_expect_eq(getxattr(path, XATTR_NAME_POSIX_ACL_ACCESS, found, sizeof found), -1);
    cr_expect_eq(errno, ENODATA);
}

Test(key, changes_no_access_file_that_it_cannot_leave_to_whom_it_was)
{
    struct process process;
    char path[FOLDER_PATH_BYTES_MAX], found[TEXT_BYTES], fresh[FOLDER_PATH_BYTES_MAX + 8];
    static const struct {
        uid_t user;
        gid_t group;
    } owners[] = {{OTHER_USER, OTHER_GROUP}, {OTHER_USER, 0}, {0, OTHER_GROUP}};
    if (geteuid() != 0 || prctl(PR_CAPBSET_DROP, CAP_CHOWN, 0, 0, 0) != 0)
        skip("no file of another user can be made here");
    write_text("access", "uid ops 1000\n", 0640, path);
    snprintf(fresh, sizeof fresh, "%s.new", path);
    for (size_t i = 0; i < sizeof owners / sizeof owners[0]; i++) {
        if (chown(path, owners[i].user, owners[i].group) != 0)
            skip("a file cannot be given away here");
        cr_expect_eq(run(&process, "access", "add", path, "uid", "eve", "7", NULL), 1);
        expect_complaint(&process, "stays as it is: it is of user ");
        read_text(path, found);
        cr_expect_str_eq(found, "uid ops 1000\n");
        cr_expect_eq(access(fresh, F_OK), -1, "nothing is left behind");
    }
    cr_assert_eq(chown(path, 0, 0), 0); /* its own: nothing need be given */
    cr_expect_eq(run(&process, "access", "add", path, "uid", "eve", "7", NULL), 0);
    process_fini(&process);
}

static bool is_there(void *path)
{
    return access(path, F_OK) == 0;
}

/* Otherwise a line could come between that is in no file then. */
Test(key, makes_the_new_access_file_before_it_reads_the_old_one)
{
    struct process first = {0}, second;
    char path[FOLDER_PATH_BYTES_MAX + 8], fresh[FOLDER_PATH_BYTES_MAX + 16];
    snprintf(path, sizeof path, "%s/access", folder.path);
    snprintf(fresh, sizeof fresh, "%s.new", path);
    cr_assert_eq(mkfifo(path, 0600), 0); /* it opens when somebody writes there */
    const char *const argv[] = {"errbus", "access", "add", path, "uid", "eve", "7", NULL};
    cr_assert(process_start(&first, argv, NULL));
    cr_assert(folder_await(folder.path, is_there, fresh, SOON_MS));
    cr_expect_eq(run(&second, "access", "add", path, "uid", "bob", "8", NULL), 1);
    cr_expect_not_null(strstr(process_complained(&second), fresh));
    expect_complaint(&second, "if none runs, remove '");
    cr_expect(is_there(fresh));
    int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    cr_assert_geq(fd, 0);
    cr_expect_eq(process_wait(&first, SOON_MS), 1);
    expect_complaint(&first, "access' is not a file");
    close(fd);
    cr_expect_not(is_there(fresh), "nothing is left behind");
}

/* Whether one of the first two arguments of a system call is this path. */
static bool names(pid_t pid, const struct __ptrace_syscall_info *call, const char *path)
{
    char text[FOLDER_PATH_BYTES_MAX + 8];
    for (int i = 0; i < 2; i++) {
        struct iovec ours = {text, strlen(path) + 1};
        struct iovec theirs = {(void *)(uintptr_t)call->entry.args[i], ours.iov_len};
        if (process_vm_readv(pid, &ours, 1, &theirs, 1, 0) == (ssize_t)ours.iov_len &&
            strcmp(text, path) == 0)
            return true;
    }
    return false;
}

/* Lets a process go that stands still, until it was told that there is nothing at path. */
static void run_until_missed(pid_t pid, const char *path)
{
    struct __ptrace_syscall_info call, entry = {0};
    int status, number = 0;
    kill(pid, SIGCONT);
    do {
        cr_assert_eq(ptrace(PTRACE_SYSCALL, pid, NULL, number), 0);
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        cr_assert(WIFSTOPPED(status), "it has ended, and never missed '%s'", path);
        bool is_call = WSTOPSIG(status) == (SIGTRAP | 0x80); /* see PTRACE_O_TRACESYSGOOD */
        number = is_call || status >> 16 != 0 ? 0 : WSTOPSIG(status);
        call.op = PTRACE_SYSCALL_INFO_NONE;
        if (is_call)
            cr_assert_geq(ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof call, &call), 0);
        if (call.op == PTRACE_SYSCALL_INFO_ENTRY)
            entry = call;
    } while (call.op != PTRACE_SYSCALL_INFO_EXIT || call.exit.rval != -ENOENT ||
             !names(pid, &entry, path));
}

/* Both find no file, and the other one has made it before this one looks again. */
Test(key, adds_a_line_to_a_file_that_was_made_meanwhile)
{
    struct process first = {0}, second;
    char path[FOLDER_PATH_BYTES_MAX + 8], program[FOLDER_PATH_BYTES_MAX], found[TEXT_BYTES];
    siginfo_t stopped;
    snprintf(path, sizeof path, "%s/fresh", folder.path);
    process_path("errbus", program, sizeof program);
    const char *const argv[] = {"/bin/sh", "-c",    "kill -STOP $$; exec \"$@\"",
                                "sh",      program, "access",
                                "add",     path,    "uid",
                                "eve",     "7",     NULL};
    cr_assert(process_start(&first, argv, NULL));
    cr_assert_eq(waitid(P_PID, (id_t)first.pid, &stopped, WSTOPPED), 0);
    if (ptrace(PTRACE_SEIZE, first.pid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) != 0) {
        process_fini(&first);
        skip("this machine lets nobody trace a process");
    }
    run_until_missed(first.pid, path);
    cr_assert_eq(run(&second, "access", "add", path, "uid", "bob", "8", NULL), 0);
    process_fini(&second);
    cr_assert_eq(ptrace(PTRACE_DETACH, first.pid, NULL, NULL), 0);
    cr_expect_eq(process_wait(&first, SOON_MS), 0, "%s", process_complained(&first));
    process_fini(&first);
    read_text(path, found);
    cr_expect_str_eq(found, "uid bob 8\nuid eve 7\n");
}

/* Who is told that it is done has done it. */
Test(key, keeps_each_line_that_several_add_at_once)
{
    struct process editors[EDITORS] = {0};
    char path[FOLDER_PATH_BYTES_MAX + 8], found[TEXT_BYTES], line[32];
    bool is_done[EDITORS];
    snprintf(path, sizeof path, "%s/fresh", folder.path);
    for (int i = 0; i < EDITORS; i++) {
        char name[16], uid[16];
        snprintf(name, sizeof name, "u%d", i);
        snprintf(uid, sizeof uid, "%d", i + 1);
        const char *const argv[] = {"errbus", "access", "add", path, "uid", name, uid, NULL};
        cr_assert(process_start(&editors[i], argv, NULL));
    }
    for (int i = 0; i < EDITORS; i++) {
        is_done[i] = process_wait(&editors[i], 3 * SOON_MS) == 0;
        if (!is_done[i])
            expect_complaint(&editors[i], "exists, so another 'errbus access' changes it");
        else
            process_fini(&editors[i]);
    }
    read_text(path, found);
    for (int i = 0; i < EDITORS; i++) {
        snprintf(line, sizeof line, "uid u%d %d\n", i, i + 1);
        cr_expect_eq(strstr(found, line) != NULL, is_done[i], "%sin:\n%s", line, found);
    }
}

Test(key, keeps_what_stands_behind_a_nul_byte)
{
    static const char text[] = "# a\0b\nuid ops 1000\nallow ops tap in x\n# \0";
    static const char added[] = "# a\0b\nuid ops 1000\nallow ops tap in x\n# \0\nuid eve 7\n";
    static const char removed[] = "# a\0b\nuid ops 1000\n# \0\nuid eve 7\n";
    struct process process;
    char path[FOLDER_PATH_BYTES_MAX], found[TEXT_BYTES] = "";
    write_text("access", "", 0600, path);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(text, 1, sizeof text - 1, file), sizeof text - 1);
    cr_assert_eq(fclose(file), 0);
    cr_assert_eq(run(&process, "access", "add", path, "uid", "eve", "7", NULL), 0, "%s",
                 process_complained(&process));
    process_fini(&process);
    read_text(path, found);
    cr_expect_arr_eq(found, added, sizeof added);
    cr_assert_eq(run(&process, "access", "remove", path, "allow", "ops", "tap", "in", "x", NULL),
                 0);
    process_fini(&process);
    read_text(path, found);
    cr_expect_arr_eq(found, removed, sizeof removed);
    cr_assert_eq(run(&process, "access", "add", path, "uid", "ops", "1000", NULL), 1);
    expect_complaint(&process, "has this line already: line 2");
}
