/* SPDX-License-Identifier: MPL-2.0 */
/* key_file_test.c -- whose file a key may be in, and how a new one is written. */
#include "libbus/io/key_file.h"

#include "tests/lib/folder.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { USER = 1000, OTHER = 1001 };

static const char *fault(uid_t owner, mode_t mode, uid_t user)
{
    struct stat status = {.st_uid = owner, .st_mode = S_IFREG | mode};
    return key_file_fault(&status, user);
}

/* Each bit decides alone, whatever the owner's own bits are. */
Test(key_file, is_of_its_user_alone_or_of_root_and_a_group_that_reads)
{
    for (mode_t bit = 1; bit <= 0400; bit <<= 1) {
        bool is_of_owner = bit >= 0100;
        cr_expect_eq(fault(USER, 0400 | bit, USER) == NULL, is_of_owner, "%03o", bit);
        for (int i = 0; i < 2; i++)
            cr_expect_eq(fault(0, 0400 | bit, i == 0 ? USER : 0) == NULL,
                         is_of_owner || bit == 0040, "%03o", bit);
    }
    cr_expect_null(fault(USER, 0600, USER));
    cr_expect_not_null(strstr(fault(USER, 0640, USER), "'chmod 600' it"));
    cr_expect_null(fault(0, 0640, USER));
    cr_expect_null(fault(0, 0440, USER)); /* a Secret of Kubernetes, a credential of systemd */
    cr_expect_not_null(strstr(fault(0, 0660, USER), "'chmod 640' it"));
    cr_expect_not_null(strstr(fault(0, 0644, USER), "'chmod 640' it"));
    cr_expect_not_null(fault(USER, 0644, USER));
}

Test(key_file, is_of_no_other_user_and_a_regular_file)
{
    cr_expect_str_eq(fault(OTHER, 0600, USER), "it belongs to another user");
    cr_expect_str_eq(fault(OTHER, 0600, 0), "it belongs to another user");
    struct stat status = {.st_uid = USER};
    static const mode_t kinds[] = {S_IFDIR, S_IFCHR, S_IFBLK, S_IFIFO, S_IFSOCK, S_IFLNK};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        status.st_mode = kinds[i] | 0600;
        cr_expect_str_eq(key_file_fault(&status, USER), "it is not a file");
    }
}

/* ---- making one ------------------------------------------------------------------------------ */

enum { PATH_BYTES = FOLDER_PATH_BYTES_MAX * 2, FOLDERS_MAX = 8 };

static struct folder folder;
static char key_path[PATH_BYTES];
static ino_t synced[FOLDERS_MAX]; /* folders, in this order */
static int synced_count;
static bool has_name; /* the key had its name at the last one */
static ino_t bad;     /* the folder that cannot be synced */
static int bad_errno;

/* In the place of that of the C library. */
int fsync(int fd)
{
    struct stat status;
    if (fstat(fd, &status) != 0 || !S_ISDIR(status.st_mode))
        return 0;
    if (status.st_ino == bad) {
        errno = bad_errno;
        return -1;
    }
    cr_assert_lt(synced_count, FOLDERS_MAX);
    synced[synced_count++] = status.st_ino;
    has_name = access(key_path, F_OK) == 0;
    return 0;
}

static ino_t number_of(const char *name)
{
    char path[PATH_BYTES];
    struct stat status;
    snprintf(path, sizeof path, "%s%s", folder.path, name);
    cr_assert_eq(stat(path, &status), 0);
    return status.st_ino;
}

static enum key_file_err make(char complaint[KEY_FILE_COMPLAINT_BYTES])
{
    struct key_pair pair;
    synced_count = 0;
    return key_file_make(key_path, &pair, complaint);
}

static void open_folder(void)
{
    cr_assert(folder_make(&folder));
    snprintf(key_path, sizeof key_path, "%s/a/b/key", folder.path);
}

static void close_folder(void)
{
    folder_fini(&folder);
}

TestSuite(key_file, .init = open_folder, .fini = close_folder);

Test(key_file, has_each_new_name_synced)
{
    char complaint[KEY_FILE_COMPLAINT_BYTES];
    cr_assert_eq(make(complaint), KEY_FILE_OK);
    cr_assert_eq(synced_count, 3);
    cr_expect_eq(synced[0], number_of(""));
    cr_expect_eq(synced[1], number_of("/a"));
    cr_expect_eq(synced[2], number_of("/a/b"));
    cr_expect(has_name);
    cr_assert_eq(chdir(folder.path), 0);
    snprintf(key_path, sizeof key_path, "key"); /* in the current folder */
    cr_assert_eq(make(complaint), KEY_FILE_OK);
    cr_assert_eq(synced_count, 1);
    cr_expect_eq(synced[0], number_of(""));
    cr_assert_eq(chdir("/"), 0);
}

/* In a container the next broker has the number of the one that was killed. */
Test(key_file, is_not_kept_from_its_name_by_what_a_killed_process_left)
{
    char complaint[KEY_FILE_COMPLAINT_BYTES], name[32], left[FOLDER_PATH_BYTES_MAX];
    snprintf(key_path, sizeof key_path, "%s/key", folder.path);
    snprintf(name, sizeof name, "key.%ld.new", (long)getpid());
    cr_assert(folder_write(&folder, name, "# half of a k", left));
    cr_assert_eq(make(complaint), KEY_FILE_OK, "%s", complaint);
    cr_assert_eq(unlink(left), 0);
    cr_assert_eq(unlink(key_path), 0);
    cr_expect_eq(rmdir(folder.path), 0, "something is left behind");
}

Test(key_file, is_not_there_if_its_name_cannot_be_synced)
{
    char complaint[KEY_FILE_COMPLAINT_BYTES];
    bad = number_of("");
    bad_errno = EIO;
    cr_expect_eq(make(complaint), KEY_FILE_DENIED);
    cr_expect_not_null(strstr(complaint, strerror(EIO)), "%s", complaint);
    bad = number_of("/a");
    cr_expect_eq(make(complaint), KEY_FILE_DENIED);
    bad = number_of("/a/b");
    cr_expect_eq(make(complaint), KEY_FILE_DENIED);
    cr_expect_not_null(strstr(complaint, strerror(EIO)), "%s", complaint);
    cr_expect_neq(access(key_path, F_OK), 0);
    bad_errno = EINVAL; /* a file system without this call */
    cr_expect_eq(make(complaint), KEY_FILE_OK);
}
