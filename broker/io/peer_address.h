/* SPDX-License-Identifier: MPL-2.0 */
/* peer_address.h -- from which host a connection comes, as a number. */
#ifndef IO_PEER_ADDRESS_H
#define IO_PEER_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum { PEER_ADDRESS_TEXT_BYTES = 64 };

/* A number for each IPv4 address, and for each IPv6 network of 64 bits: a host has all addresses of
 * such a network.  0: not known, or no address of the internet. */
uint64_t peer_address_number(const struct sockaddr_storage *address);
/* Of an address as text. */
uint64_t peer_address_read(const char *text);
/* Of who is at the other end. */
uint64_t peer_address(int fd);

/* Whether the number is that of an IPv4 address, and which one. */
bool peer_address_is_ipv4(uint64_t number, uint32_t *out_address);
/* The first 64 bits of the IPv6 addresses that have this number. */
uint64_t peer_address_network(uint64_t number);
/* "192.0.2.1", or "2001:db8::/64". */
void peer_address_write(uint64_t number, char text[PEER_ADDRESS_TEXT_BYTES]);

#endif
