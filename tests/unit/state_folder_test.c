/* SPDX-License-Identifier: MPL-2.0 */
/* state_folder_test.c -- where the journal is kept when nobody says where. */
#include "broker/io/state_folder.h"

#include <criterion/criterion.h>
#include <string.h>

#define NO_PLACE                                                                                   \
    "no directory for the journal: set $STATE_DIRECTORY, $XDG_STATE_HOME or $HOME to an absolute " \
    "path"

enum { PATH_BYTES = 512 };

Test(state_folder, takes_the_first_place_that_is_a_path_from_the_root)
{
    static const struct {
        struct state_places places;
        const char *path; /* NULL: there is none */
    } rows[] = {
        {{"/var/lib/errbus", "/x", "/h"}, "/var/lib/errbus/journal"},
        {{"/var/lib/a:/var/lib/b", "/x", "/h"}, "/var/lib/a/journal"},
        {{"", "/x", "/h"}, "/x/errbus/journal"},
        {{"lib", "/x", "/h"}, "/x/errbus/journal"},
        {{NULL, "/x:y", "/h"}, "/x:y/errbus/journal"},
        {{NULL, "state", "/h"}, "/h/.local/state/errbus/journal"},
        {{NULL, "", "/h"}, "/h/.local/state/errbus/journal"},
        {{NULL, NULL, "/h"}, "/h/.local/state/errbus/journal"},
        {{NULL, NULL, "h"}, NULL},
        {{NULL, NULL, ""}, NULL},
        {{"", "", NULL}, NULL},
        {{NULL, NULL, NULL}, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char path[PATH_BYTES] = "";
        char complaint[STATE_FOLDER_COMPLAINT_BYTES] = "";
        bool is_found = state_folder_journal(&rows[i].places, path, sizeof path, complaint);
        cr_expect_eq(is_found, rows[i].path != NULL, "row %zu", i);
        if (is_found)
            cr_expect_str_eq(path, rows[i].path, "row %zu: %s", i, path);
        else
            cr_expect_str_eq(complaint, NO_PLACE, "row %zu: %s", i, complaint);
    }
}

/* A path too long is not passed over for another place: it was meant. */
Test(state_folder, refuses_a_path_that_is_too_long)
{
    static const char below[] = "/journal";
    for (size_t bytes = PATH_BYTES - 1; bytes <= PATH_BYTES + 1; bytes++) {
        char service[PATH_BYTES + 2] = "/";
        char path[PATH_BYTES] = "";
        char complaint[STATE_FOLDER_COMPLAINT_BYTES] = "";
        struct state_places places = {.service = service, .home = "/h"};
        memset(service + 1, 'x', bytes - sizeof below - 1); /* bytes, with what is below and NUL */
        bool is_found = state_folder_journal(&places, path, sizeof path, complaint);
        cr_expect_eq(is_found, bytes <= PATH_BYTES, "%zu bytes", bytes);
        if (is_found)
            cr_expect_eq(strlen(path), bytes - 1);
        else
            cr_expect_str_eq(complaint,
                             "the directory in $STATE_DIRECTORY is too long for the path of the "
                             "journal");
    }
}

Test(state_folder, has_the_key_of_the_broker_beside_the_journal)
{
    const struct state_places service = {.service = "/var/lib/errbus"};
    const struct state_places home = {.home = "/h"};
    const struct state_places nowhere = {.home = ""};
    char path[PATH_BYTES] = "";
    char complaint[STATE_FOLDER_COMPLAINT_BYTES] = "";
    cr_assert(state_folder_key(&service, path, sizeof path, complaint));
    cr_expect_str_eq(path, "/var/lib/errbus/broker.key");
    cr_assert(state_folder_key(&home, path, sizeof path, complaint));
    cr_expect_str_eq(path, "/h/.local/state/errbus/broker.key");
    cr_assert_not(state_folder_key(&nowhere, path, sizeof path, complaint));
    cr_expect(strstr(complaint, "no directory for the broker's key") != NULL, "%s", complaint);
}
