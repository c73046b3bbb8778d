/* SPDX-License-Identifier: MPL-2.0 */
/* hosts.c -- makes network namespaces, and veth pairs between them and a wire. */
#include "tests/cut/hosts.h"

#include "tests/lib/process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define SPACE_OF_THREAD "/proc/thread-self/ns/net"
#define LINES_BYTES_MAX 4096
#define IP_WITHIN_MS 60000

/* ---- namespaces -------------------------------------------------------------------------------*/

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ssize_t written = fd >= 0 ? write(fd, text, strlen(text)) : -1;
    if (fd >= 0) {
        close(fd);
    }
    return written == (ssize_t)strlen(text);
}

/* Root of a namespace of users, in which the only user is the one that we are. */
static bool become_root_inside(void)
{
    char map[64];
    unsigned user = (unsigned)geteuid();
    unsigned group = (unsigned)getegid();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        return false;
    }
    (void)write_file("/proc/self/setgroups", "deny"); /* needed since 3.19, not there before */
    snprintf(map, sizeof map, "0 %u 1", user);
    bool is_mapped = write_file("/proc/self/uid_map", map);
    snprintf(map, sizeof map, "0 %u 1", group);
    return is_mapped && write_file("/proc/self/gid_map", map);
}

static bool leave_the_machine(char problem[HOSTS_PROBLEM_BYTES_MAX])
{
    bool is_apart = unshare(CLONE_NEWNET) == 0 || become_root_inside();
    if (!is_apart) {
        snprintf(problem, HOSTS_PROBLEM_BYTES_MAX,
                 "network namespaces are not allowed here, neither to this user nor in a namespace "
                 "of users: %s",
                 strerror(errno));
    }
    return is_apart;
}

static bool make_spaces(struct hosts *hosts)
{
    bool is_good = true;
    hosts->own = open(SPACE_OF_THREAD, O_RDONLY | O_CLOEXEC);
    for (size_t i = 0; is_good && i < hosts->count; i++) {
        is_good = unshare(CLONE_NEWNET) == 0;
        hosts->spaces[i] = is_good ? open(SPACE_OF_THREAD, O_RDONLY | O_CLOEXEC) : -1;
        is_good = hosts->spaces[i] >= 0;
    }
    hosts_leave(hosts);
    return is_good && hosts->own >= 0;
}

bool hosts_enter(const struct hosts *hosts, size_t host)
{
    return setns(hosts->spaces[host], CLONE_NEWNET) == 0;
}

void hosts_leave(const struct hosts *hosts)
{
    (void)setns(hosts->own, CLONE_NEWNET); /* where we were before, we may be again */
}

/* ---- links ------------------------------------------------------------------------------------*/

void host_address(size_t host, bool is_moved, char address[HOST_ADDRESS_BYTES_MAX])
{
    snprintf(address, HOST_ADDRESS_BYTES_MAX, "10.7.%d.%zu", is_moved ? 1 : 0, host + 1);
}

bool hosts_ip(const struct hosts *hosts, size_t host, const char *lines)
{
    static const char *const argv[] = {"ip", "-batch", "-", NULL};
    struct process ip;
    bool is_there = host == hosts->count || hosts_enter(hosts, host);
    bool is_done = is_there && process_start(&ip, argv, NULL);
    hosts_leave(hosts);
    if (!is_done) {
        return false;
    }
    process_say(&ip, lines, strlen(lines));
    process_say_end(&ip);
    is_done = process_wait(&ip, IP_WITHIN_MS) == 0;
    if (!is_done) {
        fprintf(stderr, "ip -batch: %s%s", process_said(&ip), process_complained(&ip));
    }
    process_fini(&ip);
    return is_done;
}

static bool make_links(const struct hosts *hosts)
{
    char lines[LINES_BYTES_MAX];
    char address[HOST_ADDRESS_BYTES_MAX];
    bool is_good = true;
    for (size_t i = 0; is_good && i < hosts->count; i++) {
        snprintf(lines, sizeof lines,
                 "link add name port%zu type veth peer name eth0 address 02:00:00:00:00:%02zx "
                 "netns /proc/%d/fd/%d\n"
                 "link set dev port%zu addrgenmode none up\n",
                 i, i, (int)getpid(), hosts->spaces[i], i);
        is_good = hosts_ip(hosts, hosts->count, lines);
        host_address(i, false, address);
        snprintf(lines, sizeof lines,
                 "link set dev lo up\n"
                 "link set dev eth0 addrgenmode none up\n"
                 "address add %s/16 dev eth0\n",
                 address);
        is_good = is_good && hosts_ip(hosts, i, lines);
    }
    return is_good;
}

/* Frames leave a veth as large as memory allows and without checksums, unless it is told that there
 * is nobody at the other end to make up for that. */
static bool send_plain_frames(const struct hosts *hosts, size_t host)
{
    struct ethtool_value value = {.cmd = ETHTOOL_STXCSUM, .data = 0};
    struct ifreq request = {.ifr_name = "eth0", .ifr_data = (void *)&value};
    int fd = hosts_enter(hosts, host) ? socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
    hosts_leave(hosts);
    bool is_done = fd >= 0 && ioctl(fd, SIOCETHTOOL, &request) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return is_done;
}

static int open_port(size_t host)
{
    char name[32];
    int yes = 1;
    int room = 4 * 1024 * 1024;
    snprintf(name, sizeof name, "port%zu", host);
    struct sockaddr_ll address = {.sll_family = AF_PACKET,
                                  .sll_protocol = htons(ETH_P_ALL),
                                  .sll_ifindex = (int)if_nametoindex(name)};
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    bool is_good = fd >= 0 && address.sll_ifindex != 0 &&
                   setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof yes) == 0 &&
                   (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) == 0 ||
                    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room) == 0) &&
                   bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    if (!is_good && fd >= 0) {
        close(fd);
    }
    return is_good ? fd : -1;
}

static bool plug_in(struct hosts *hosts)
{
    bool is_good = true;
    for (size_t i = 0; is_good && i < hosts->count; i++) {
        hosts->sockets[i] = send_plain_frames(hosts, i) ? open_port(i) : -1;
        is_good = hosts->sockets[i] >= 0;
    }
    return is_good;
}

/* ---- public -----------------------------------------------------------------------------------*/

bool hosts_open(struct hosts *hosts, size_t count, char problem[HOSTS_PROBLEM_BYTES_MAX])
{
    *hosts = (struct hosts){.count = count, .own = -1};
    for (size_t i = 0; i < WIRE_PORTS_MAX; i++) {
        hosts->spaces[i] = hosts->sockets[i] = -1;
    }
    if (!leave_the_machine(problem)) {
        return false;
    }
    const char *what = NULL;
    if (!make_spaces(hosts)) {
        what = "network namespaces cannot be made";
    } else if (!make_links(hosts)) {
        what = "veth pairs cannot be made with ip(8), of the package iproute2";
    } else if (!plug_in(hosts)) {
        what = "raw packet sockets are not to be had";
    } else if ((hosts->wire = wire_open(hosts->sockets, count, 1)) == NULL) {
        what = "there is no memory or thread for the wire";
    }
    if (what != NULL) {
        snprintf(problem, HOSTS_PROBLEM_BYTES_MAX, "%s: %s", what, strerror(errno));
        hosts_close(hosts);
    }
    return what == NULL;
}

void hosts_close(struct hosts *hosts)
{
    if (hosts->count == 0) {
        return;
    }
    wire_close(&hosts->wire);
    for (size_t i = 0; i < WIRE_PORTS_MAX; i++) {
        if (hosts->spaces[i] >= 0) {
            close(hosts->spaces[i]);
        }
        if (hosts->sockets[i] >= 0) {
            close(hosts->sockets[i]);
        }
    }
    if (hosts->own >= 0) {
        close(hosts->own);
    }
    *hosts = (struct hosts){.count = 0};
}
