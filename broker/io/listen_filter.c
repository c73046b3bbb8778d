/* SPDX-License-Identifier: MPL-2.0 */
/* listen_filter.c -- see listen_filter.h.
 *
 * The program, in the kernel's language for filters:
 *
 *      is it a packet of IPv6?  Go to the second half
 *      for each refused IPv4 address: if the packet comes from it, drop the packet
 *      take the packet
 *      for each refused network of IPv6: if the packet comes from it, drop the packet
 *      take the packet */
#include "broker/io/listen_filter.h"

#include "broker/io/peer_address.h"
#include "libbus/base/must.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <stddef.h>
#include <sys/socket.h>

/* Where the source is in the head of a packet. */
enum { IPV4_SOURCE = 12, IPV6_SOURCE = 8 };

#define DROPPED 0
#define TAKEN UINT32_MAX /* with all of its bytes */

enum {
    ADDRESS_STEPS_MAX = 5, /* of one address */
    OTHER_STEPS = 6,
    STEPS_MAX = LIMIT_REFUSED_ADDRESSES * ADDRESS_STEPS_MAX + OTHER_STEPS,
};

struct program {
    struct sock_filter steps[STEPS_MAX];
    unsigned short count;
};

static void add_step(struct program *program, struct sock_filter step)
{
    must(program->count < STEPS_MAX);
    program->steps[program->count++] = step;
}

/* Loads four bytes of the head of the packet. */
static void add_load(struct program *program, unsigned at)
{
    add_step(program,
             (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)SKF_NET_OFF + at));
}

/* If it is not what was loaded, so many steps are left out. */
static void add_test(struct program *program, uint32_t wanted, uint8_t left_out)
{
    add_step(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, wanted, 0, left_out));
}

static void add_end(struct program *program, uint32_t fate)
{
    add_step(program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, fate));
}

static void add_ipv4(struct program *program, const struct refused_addresses *refused)
{
    uint32_t address;
    add_load(program, IPV4_SOURCE);
    for (uint32_t i = 0; i < refused->count; i++) {
        if (!peer_address_is_ipv4(refused->items[i], &address))
            continue;
        add_test(program, address, 1);
        add_end(program, DROPPED);
    }
    add_end(program, TAKEN);
}

static void add_ipv6(struct program *program, const struct refused_addresses *refused)
{
    uint32_t address;
    for (uint32_t i = 0; i < refused->count; i++) {
        uint64_t network = peer_address_network(refused->items[i]);
        if (peer_address_is_ipv4(refused->items[i], &address))
            continue;
        add_load(program, IPV6_SOURCE);
        add_test(program, (uint32_t)(network >> 32), 3);
        add_load(program, IPV6_SOURCE + 4);
        add_test(program, (uint32_t)network, 1);
        add_end(program, DROPPED);
    }
    add_end(program, TAKEN);
}

bool listen_filter_set(int fd, const struct refused_addresses *refused)
{
    struct program program = {.count = 0};
    int none = 0;
    if (refused->count == 0)
        return setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof none) == 0 ||
               errno == ENOENT;
    add_step(&program, (struct sock_filter)BPF_STMT(BPF_LD | BPF_H | BPF_ABS,
                                                    (uint32_t)(SKF_AD_OFF + SKF_AD_PROTOCOL)));
    add_test(&program, ETH_P_IPV6, 1);
    unsigned short jump = program.count;
    add_step(&program, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0));
    add_ipv4(&program, refused);
    program.steps[jump].k = (uint32_t)(program.count - jump - 1);
    add_ipv6(&program, refused);
    struct sock_fprog whole = {.len = program.count, .filter = program.steps};
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &whole, sizeof whole) == 0;
}
