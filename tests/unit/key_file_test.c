/* SPDX-License-Identifier: MPL-2.0 */
/* key_file_test.c -- whose file a key may be in. */
#include "libbus/io/key_file.h"

#include <criterion/criterion.h>
#include <string.h>

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
