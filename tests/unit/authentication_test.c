/* SPDX-License-Identifier: MPL-2.0 */
/* authentication_test.c -- whose connection it is, by a User-Id that only the broker can have
 * given. */
#include "broker/io/authentication.h"

#include "tests/lib/folder.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

static struct folder folder;
static void *context;
static struct authentication subject;
static char key_path[FOLDER_PATH_BYTES_MAX + 16];

static bool open_with(const char *text)
{
    char path[FOLDER_PATH_BYTES_MAX];
    char complaint[AUTHENTICATION_COMPLAINT_BYTES] = "";
    snprintf(key_path, sizeof key_path, "%s/broker.key", folder.path);
    cr_assert(folder_write(&folder, "access", text, path));
    bool is_open = authentication_open(&subject, context, path, key_path, NULL, complaint);
    cr_assert(is_open || complaint[0] != '\0');
    return is_open;
}

static void set_up(void)
{
    cr_assert(folder_make(&folder));
    context = zmq_ctx_new();
}

static void tear_down(void)
{
    authentication_stop(&subject);
    authentication_fini(&subject);
    zmq_ctx_term(context);
    folder_fini(&folder);
}

TestSuite(authentication, .init = set_up, .fini = tear_down);

static uint32_t who(const char *format, const char *nonce, const char *text)
{
    char user_id[256];
    snprintf(user_id, sizeof user_id, format, nonce, text);
    return authentication_principal(&subject, user_id);
}

Test(authentication, believes_a_user_id_of_its_own_alone)
{
    char text[256];
    char key[KEY_TEXT_BYTES + 1];
    uint8_t bytes[KEY_BYTES] = {7};
    key_text_write(bytes, KEY_PUBLIC, key);
    snprintf(text, sizeof text, "key alice %s\nkey bob %s until 2001-01-01\nuid ops 1000\n", key,
             "ebp_ad777777777777777777777777777777777777777777777777776n4k");
    cr_assert(open_with(text));
    uint32_t alice = access_find(subject.access, span_text("alice"));
    uint32_t ops = access_find(subject.access, span_text("ops"));
    cr_assert(alice != 0 && ops != 0);
    cr_expect_eq(who("%s:%s", subject.nonce, key), alice);
    cr_expect_eq(who("%s:%s", subject.nonce, "uid:1000"), ops);
    cr_expect_eq(authentication_principal(&subject, NULL), 0);
    cr_expect_eq(who("%s%s", "", "alice"), 0);
    cr_expect_eq(who("%s%s", "", key), 0);
    cr_expect_eq(who("%s:%s", "00000000000000000000000000000000", key), 0);
    cr_expect_eq(who("%s%s", subject.nonce, key), 0);
    cr_expect_eq(who("%s:%s", subject.nonce, ""), 0);
    cr_expect_eq(who("%s:%s", subject.nonce, "alice"), 0);
    cr_expect_eq(who("%s:%s", subject.nonce, "uid:1001"), 0);
    cr_expect_eq(who("%s:%s", subject.nonce, "uid:1000x"), 0);
    cr_expect_eq(
        who("%s:%s", subject.nonce, "ebp_ad777777777777777777777777777777777777777777777777776n4k"),
        0); /* its time is over */
}

Test(authentication, draws_another_number_at_each_start)
{
    char before[AUTHENTICATION_NONCE_BYTES];
    uint8_t key[KEY_BYTES];
    cr_assert(open_with("uid ops 1000\n"));
    cr_assert_eq(strlen(subject.nonce), AUTHENTICATION_NONCE_BYTES - 1);
    cr_expect(subject.is_key_new);
    memcpy(before, subject.nonce, sizeof before);
    memcpy(key, subject.key.public_key, sizeof key);
    authentication_stop(&subject);
    authentication_fini(&subject);
    zmq_ctx_term(context); /* libzmq gives the address back later than the call returns */
    context = zmq_ctx_new();
    cr_assert(open_with("uid ops 1000\n"));
    cr_expect_str_neq(subject.nonce, before);
    cr_expect_arr_eq(subject.key.public_key, key, KEY_BYTES); /* the key was kept */
    cr_expect_not(subject.is_key_new);
}

Test(authentication, asks_nobody_without_an_access_file)
{
    char complaint[AUTHENTICATION_COMPLAINT_BYTES] = "";
    cr_assert(authentication_open(&subject, context, "", "", NULL, complaint));
    cr_expect_null(subject.socket);
    cr_expect_null(subject.access);
    cr_expect_not(authentication_is_asked(&subject));
}

Test(authentication, is_not_open_with_a_wrong_file)
{
    cr_expect_not(open_with("uid ops\n"));
}
