/* SPDX-License-Identifier: MPL-2.0 */
/* peer_address.h -- from which host a connection comes, as a number. */
#ifndef IO_PEER_ADDRESS_H
#define IO_PEER_ADDRESS_H

#include <stdint.h>
#include <sys/socket.h>

/* A number for each IPv4 address, and for each IPv6 network of 64 bits: a host has all addresses of
 * such a network.  0: not known, or no address of the internet. */
uint64_t peer_address_number(const struct sockaddr_storage *address);
/* Of who is at the other end. */
uint64_t peer_address(int fd);

#endif
