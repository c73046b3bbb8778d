/* SPDX-License-Identifier: MPL-2.0 */
/* knock.c -- see knock.h. */
#include "tests/lib/knock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { GREETING_BYTES = 64, HELLO_BYTES = 202, HELLO_BODY_BYTES = 200, BOX_BYTES = 80 };

/* The greeting of a client with CURVE, and a HELLO whose box no key made
 * (rfc.zeromq.org/spec/26). */
static void fill_words(uint8_t bytes[GREETING_BYTES + HELLO_BYTES])
{
    static const uint8_t signature[] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1};
    static const uint8_t command[] = {4, HELLO_BODY_BYTES, 5, 'H', 'E', 'L', 'L', 'O', 1, 0};
    memset(bytes, 0, GREETING_BYTES + HELLO_BYTES);
    memcpy(bytes, signature, sizeof signature);
    memcpy(bytes + sizeof signature, "CURVE", 5);
    memcpy(bytes + GREETING_BYTES, command, sizeof command);
    memset(bytes + GREETING_BYTES + HELLO_BYTES - BOX_BYTES, 0x5a, BOX_BYTES);
}

int knock(const char *endpoint, const char *from, bool *out_is_let_in)
{
    uint8_t bytes[GREETING_BYTES + HELLO_BYTES];
    struct sockaddr_in source = {.sin_family = AF_INET};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const char *port = strrchr(endpoint, ':');
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (port == NULL || inet_pton(AF_INET, from, &source.sin_addr) != 1 ||
        bind(fd, (const struct sockaddr *)&source, sizeof source) != 0) {
        close(fd);
        return -1;
    }
    fill_words(bytes);
    to.sin_port = htons((uint16_t)strtoul(port + 1, NULL, 10));
    (void)connect(fd, (const struct sockaddr *)&to, sizeof to); /* send() says whether it stands */
    bool is_let_in = send(fd, bytes, sizeof bytes, MSG_NOSIGNAL) == (ssize_t)sizeof bytes;
    if (out_is_let_in != NULL)
        *out_is_let_in = is_let_in;
    return fd;
}

bool knock_can_be_filtered(void)
{
    struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, UINT32_MAX);
    const struct sock_fprog program = {.len = 1, .filter = &all};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_done = setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
    bool is_denied = !is_done && errno == EPERM && geteuid() != 0;
    if (fd >= 0)
        close(fd);
    return !is_denied;
}
