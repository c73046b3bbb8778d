/* SPDX-License-Identifier: MPL-2.0 */
/* peer_address.c -- see peer_address.h. */
#include "broker/io/peer_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

/* Networks of IPv6 that nobody has: those of IPv4 addresses, and that of ::1. */
#define IPV4_NETWORK UINT64_C(0x0000ffff00000000)
#define LOOPBACK_NETWORK 1

static uint64_t ipv4_number(const void *bytes)
{
    uint32_t number;
    memcpy(&number, bytes, sizeof number);
    return IPV4_NETWORK | ntohl(number);
}

static uint64_t ipv6_number(const struct in6_addr *address)
{
    uint64_t number = 0;
    if (IN6_IS_ADDR_V4MAPPED(address))
        return ipv4_number(&address->s6_addr[12]);
    for (unsigned i = 0; i < sizeof number; i++)
        number = number << 8 | address->s6_addr[i];
    return number != 0 ? number : LOOPBACK_NETWORK;
}

uint64_t peer_address_number(const struct sockaddr_storage *address)
{
    struct sockaddr_in ipv4;
    struct sockaddr_in6 ipv6;
    if (address->ss_family == AF_INET) {
        memcpy(&ipv4, address, sizeof ipv4);
        return ipv4_number(&ipv4.sin_addr);
    }
    if (address->ss_family != AF_INET6)
        return 0;
    memcpy(&ipv6, address, sizeof ipv6);
    return ipv6_number(&ipv6.sin6_addr);
}

uint64_t peer_address_read(const char *text)
{
    struct in_addr ipv4;
    struct in6_addr ipv6;
    if (inet_pton(AF_INET, text, &ipv4) == 1)
        return ipv4_number(&ipv4);
    return inet_pton(AF_INET6, text, &ipv6) == 1 ? ipv6_number(&ipv6) : 0;
}

uint64_t peer_address(int fd)
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    memset(&address, 0, sizeof address);
    return getpeername(fd, (struct sockaddr *)&address, &bytes) == 0 ? peer_address_number(&address)
                                                                     : 0;
}

bool peer_address_is_ipv4(uint64_t number, uint32_t *out_address)
{
    if ((number & ~(uint64_t)UINT32_MAX) != IPV4_NETWORK)
        return false;
    *out_address = (uint32_t)number;
    return true;
}

uint64_t peer_address_network(uint64_t number)
{
    return number == LOOPBACK_NETWORK ? 0 : number;
}

void peer_address_write(uint64_t number, char text[PEER_ADDRESS_TEXT_BYTES])
{
    char address[INET6_ADDRSTRLEN] = "";
    struct in6_addr ipv6 = {.s6_addr = {0}};
    uint32_t ipv4 = 0;
    bool is_ipv4 = peer_address_is_ipv4(number, &ipv4);
    uint64_t network = peer_address_network(number);
    struct in_addr ipv4_bytes = {.s_addr = htonl(ipv4)};
    for (unsigned i = 0; i < sizeof network; i++)
        ipv6.s6_addr[i] = (uint8_t)(network >> (56 - 8 * i));
    (void)inet_ntop(is_ipv4 ? AF_INET : AF_INET6,
                    is_ipv4 ? (const void *)&ipv4_bytes : (const void *)&ipv6, address,
                    sizeof address); /* it fits */
    snprintf(text, PEER_ADDRESS_TEXT_BYTES, "%s%s", address, is_ipv4 ? "" : "/64");
}
