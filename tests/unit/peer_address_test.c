/* SPDX-License-Identifier: MPL-2.0 */
/* peer_address_test.c -- one number for each host. */
#include "broker/io/peer_address.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <string.h>

static uint64_t number_of(const char *text)
{
    struct sockaddr_storage address;
    struct sockaddr_in ipv4 = {.sin_family = AF_INET};
    struct sockaddr_in6 ipv6 = {.sin6_family = AF_INET6};
    memset(&address, 0, sizeof address);
    if (inet_pton(AF_INET, text, &ipv4.sin_addr) == 1)
        memcpy(&address, &ipv4, sizeof ipv4);
    else if (inet_pton(AF_INET6, text, &ipv6.sin6_addr) == 1)
        memcpy(&address, &ipv6, sizeof ipv6);
    return peer_address_number(&address);
}

Test(peer_address, is_the_whole_of_ipv4_and_the_network_of_ipv6)
{
    cr_expect_neq(number_of("127.0.0.1"), number_of("127.0.0.2"));
    cr_expect_eq(number_of("127.0.0.1"), number_of("::ffff:127.0.0.1"));
    cr_expect_eq(number_of("2001:db8:1:2::1"), number_of("2001:db8:1:2:3:4:5:6"));
    cr_expect_neq(number_of("2001:db8:1:2::1"), number_of("2001:db8:1:3::1"));
    cr_expect_neq(number_of("::1"), 0);
    cr_expect_neq(number_of("0.0.0.0"), 0);
}

static void expect_text(const char *address, const char *expected)
{
    char text[PEER_ADDRESS_TEXT_BYTES];
    peer_address_write(number_of(address), text);
    cr_expect_str_eq(text, expected);
}

Test(peer_address, is_a_text_for_people)
{
    expect_text("127.0.0.2", "127.0.0.2");
    expect_text("255.255.255.255", "255.255.255.255");
    expect_text("0.0.0.0", "0.0.0.0");
    expect_text("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64");
    expect_text("::1", "::/64");
    expect_text("ffff:ffff:ffff:ffff::1", "ffff:ffff:ffff:ffff::/64");
}

/* As libzmq tells it. */
Test(peer_address, is_the_same_as_text)
{
    static const char *const texts[] = {"127.0.0.1", "10.0.0.9", "::1", "2001:db8:1:2:3:4:5:6",
                                        "::ffff:127.0.0.1"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        cr_expect_eq(peer_address_read(texts[i]), number_of(texts[i]), "%s", texts[i]);
    cr_expect_eq(peer_address_read("localhost:1000:1000:7"), 0);
    cr_expect_eq(peer_address_read(""), 0);
}

Test(peer_address, is_none_elsewhere)
{
    struct sockaddr_storage address = {.ss_family = AF_UNIX};
    cr_expect_eq(peer_address_number(&address), 0);
    cr_expect_eq(peer_address(-1), 0);
}
