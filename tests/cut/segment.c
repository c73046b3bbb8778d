/* SPDX-License-Identifier: MPL-2.0 */
/* segment.c -- reads TCP segments, and forges resets. */
#include "tests/cut/segment.h"

#include <string.h>

enum { ETHERNET_BYTES = 14, IP_BYTES = 20, TCP_BYTES = 20, IP_TCP = 6 };

static uint32_t read_number(const uint8_t *at, size_t bytes)
{
    uint32_t number = 0;
    for (size_t i = 0; i < bytes; i++) {
        number = number << 8 | at[i];
    }
    return number;
}

static void write_number(uint8_t *at, size_t bytes, uint32_t number)
{
    for (size_t i = bytes; i > 0; i--) {
        at[i - 1] = (uint8_t)number;
        number >>= 8;
    }
}

bool segment_read(struct segment *segment, const uint8_t *frame, size_t bytes)
{
    const uint8_t *ip = frame + ETHERNET_BYTES;
    if (bytes < SEGMENT_RESET_BYTES || frame[12] != 0x08 || frame[13] != 0x00 || ip[0] >> 4 != 4 ||
        ip[9] != IP_TCP) {
        return false;
    }
    size_t ip_bytes = (size_t)(ip[0] & 15) * 4;
    size_t all_bytes = read_number(ip + 2, 2);
    if (ip_bytes < IP_BYTES || all_bytes > bytes - ETHERNET_BYTES ||
        all_bytes < ip_bytes + TCP_BYTES) {
        return false;
    }
    const uint8_t *tcp = ip + ip_bytes;
    size_t tcp_bytes = (size_t)(tcp[12] >> 4) * 4;
    if (tcp_bytes < TCP_BYTES || ip_bytes + tcp_bytes > all_bytes) {
        return false;
    }
    memcpy(segment->ethernet, frame, sizeof segment->ethernet);
    memcpy(segment->addresses, ip + 12, sizeof segment->addresses);
    memcpy(segment->ports, tcp, sizeof segment->ports);
    segment->seq = read_number(tcp + 4, 4);
    segment->ack = read_number(tcp + 8, 4);
    segment->flags = tcp[13];
    segment->bytes = (uint32_t)(all_bytes - ip_bytes - tcp_bytes) +
                     ((segment->flags & SEGMENT_SYN) != 0) + ((segment->flags & SEGMENT_FIN) != 0);
    return true;
}

bool segment_is_alike(const struct segment *one, const struct segment *other)
{
    return memcmp(one->addresses, other->addresses, sizeof one->addresses) == 0 &&
           memcmp(one->ports, other->ports, sizeof one->ports) == 0;
}

/* RFC 1071; sum goes on from an earlier one. */
static uint32_t add_words(uint32_t sum, const uint8_t *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 2) {
        sum += read_number(at + i, 2);
    }
    return sum;
}

static uint32_t fold(uint32_t sum)
{
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return ~sum & 0xffff;
}

void segment_reset(const struct segment *segment, uint8_t frame[SEGMENT_RESET_BYTES])
{
    uint8_t *ip = frame + ETHERNET_BYTES;
    uint8_t *tcp = ip + IP_BYTES;
    bool has_ack = (segment->flags & SEGMENT_ACK) != 0;
    memset(frame, 0, SEGMENT_RESET_BYTES);
    memcpy(frame, segment->ethernet + 6, 6);
    memcpy(frame + 6, segment->ethernet, 6);
    frame[12] = 0x08;
    ip[0] = 0x45;
    write_number(ip + 2, 2, IP_BYTES + TCP_BYTES);
    ip[8] = 64;
    ip[9] = IP_TCP;
    memcpy(ip + 12, segment->addresses + 4, 4);
    memcpy(ip + 16, segment->addresses, 4);
    write_number(ip + 10, 2, fold(add_words(0, ip, IP_BYTES)));

    memcpy(tcp, segment->ports + 2, 2);
    memcpy(tcp + 2, segment->ports, 2);
    write_number(tcp + 4, 4, has_ack ? segment->ack : 0);
    write_number(tcp + 8, 4, segment->seq + segment->bytes);
    tcp[12] = TCP_BYTES / 4 << 4;
    tcp[13] = SEGMENT_RST | SEGMENT_ACK;
    uint32_t sum = add_words(IP_TCP + TCP_BYTES, ip + 12, 8);
    write_number(tcp + 16, 2, fold(add_words(sum, tcp, TCP_BYTES)));
}
