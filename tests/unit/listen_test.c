/* SPDX-License-Identifier: MPL-2.0 */
/* listen_test.c -- where errbus web listens, which hosts are meant, and tokens. */
#include "clients/web/listen.h"

#include <criterion/criterion.h>
#include <netinet/in.h>

static struct listen_address must_read(const char *text)
{
    struct listen_address address;
    const char *fault = listen_read(text, &address);
    cr_assert_null(fault, "%s: %s", text, fault);
    return address;
}

Test(listen, knows_addresses_that_only_this_machine_reaches)
{
    cr_expect(must_read("127.0.0.1:7372").is_loopback);
    cr_expect(must_read("127.1.2.3:0").is_loopback);
    cr_expect(must_read("[::1]:7372").is_loopback);
    cr_expect(must_read("7372").is_loopback);
    cr_expect(!must_read("0.0.0.0:7372").is_loopback);
    cr_expect(!must_read("[::]:7372").is_loopback);
    cr_expect(!must_read("192.0.2.1:7372").is_loopback);
}

Test(listen, refuses_what_is_no_address)
{
    static const char *const wrong[] = {"", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:x", ":"};
    struct listen_address address;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        cr_expect_not_null(listen_read(wrong[i], &address), "%s", wrong[i]);
}

Test(listen, knows_its_own_names)
{
    const struct listen_address address = must_read("127.0.0.1:7372");
    static const char *const own[] = {
        "localhost", "LocalHost:7372", "127.0.0.1",       "127.0.0.1:7372",
        "[::1]",     "[::1]:80",       "metrics.example", "metrics.example:443"};
    static const char *const foreign[] = {
        "",           "evil.example",         "localhost.evil.example",
        "localhost:", "localhost:7372x",      "127.0.0.10",
        "::1",        "metrics.example.evil", "metrics.example@evil"};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        cr_expect(listen_is_meant(&address, "metrics.example", own[i]), "%s", own[i]);
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        cr_expect(!listen_is_meant(&address, "metrics.example", foreign[i]), "%s", foreign[i]);
    cr_expect(!listen_is_meant(&address, "metrics.example", NULL));
    cr_expect(!listen_is_meant(&address, NULL, "metrics.example"));
}

Test(listen, takes_one_token)
{
    cr_expect(listen_is_authorized("0123456789abcdef", "Bearer 0123456789abcdef"));
    cr_expect(listen_is_authorized("0123456789abcdef", "bearer 0123456789abcdef"));
    cr_expect(!listen_is_authorized("0123456789abcdef", "Bearer 0123456789abcdeg"));
    cr_expect(!listen_is_authorized("0123456789abcdef", "Bearer 0123456789abcde"));
    cr_expect(!listen_is_authorized("0123456789abcdef", "Bearer 0123456789abcdef0"));
    cr_expect(!listen_is_authorized("0123456789abcdef", "Bearer "));
    cr_expect(!listen_is_authorized("0123456789abcdef", "Basic 0123456789abcdef"));
    cr_expect(!listen_is_authorized("0123456789abcdef", "0123456789abcdef"));
    cr_expect(!listen_is_authorized("0123456789abcdef", NULL));
}

Test(listen, takes_tokens_that_a_header_and_a_cookie_take)
{
    static const char *const bad[] = {"", "a b", "a;b", "a,b", "a\"b", "a\tb", "\xc3\xbc", "a\\b"};
    cr_expect(listen_is_plain_token("azAZ09-._~+/="));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_expect_not(listen_is_plain_token(bad[i]), "'%s'", bad[i]);
    }
}

Test(listen, compares_whole_tokens)
{
    static const char *const bad[] = {"", "secre", "secrets", "Secret", "xsecret"};
    cr_expect(listen_is_token("secret", "secret"));
    cr_expect_not(listen_is_token("secret", NULL));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_expect_not(listen_is_token("secret", bad[i]), "'%s'", bad[i]);
    }
}
