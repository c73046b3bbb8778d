/* SPDX-License-Identifier: MPL-2.0 */
/* fetch.c -- see fetch.h. */
#include "tests/lib/fetch.h"

#include "tests/lib/expect.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER_BYTES = 4 * 1024 * 1024, REQUEST_BYTES = 4096, PATH_BYTES = 512 };

static char answer[ANSWER_BYTES]; /* the last one */

void fetch_needs_web(void)
{
    char errbus[PATH_BYTES];
    char program[sizeof errbus + sizeof "-web"];
    process_path("errbus", errbus, sizeof errbus);
    snprintf(program, sizeof program, "%s-web", errbus);
    if (access(program, X_OK) != 0)
        cr_skip_test("errbus-web is not built here (Debian's package libmicrohttpd-dev)");
}

unsigned fetch_start_web(struct process *web, const char *control, const char *first,
                         const char *second)
{
    unsigned port = 0;
    const char *line = NULL;
    const char *const argv[] = {"errbus",      "web", "-s",   control, "-l",
                                "127.0.0.1:0", first, second, NULL};
    cr_assert(process_start(web, argv, NULL));
    cr_assert(process_line(web, SOON_MS, &line), "%s", process_complained(web));
    cr_assert_eq(sscanf(line, "errbus web: ready: http://127.0.0.1:%u", &port), 1, "%s", line);
    return port;
}

int fetch_connect(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_geq(fd, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

unsigned fetch_rest(int fd)
{
    size_t bytes = 0;
    unsigned status = 0;
    struct pollfd item = {.fd = fd, .events = POLLIN};
    for (;;) {
        cr_assert_eq(poll(&item, 1, (int)SOON_MS), 1, "no answer");
        ssize_t got = recv(fd, answer + bytes, sizeof answer - bytes - 1, 0);
        if (got <= 0)
            break;
        bytes += (size_t)got;
    }
    answer[bytes] = '\0';
    close(fd);
    return sscanf(answer, "HTTP/1.1 %u", &status) == 1 ? status : 0;
}

unsigned fetch_raw(unsigned port, const char *request, size_t bytes)
{
    int fd = fetch_connect(port);
    (void)!send(fd, request, bytes, MSG_NOSIGNAL); /* it may be closed before all is sent */
    return fetch_rest(fd);
}

unsigned fetch_with(unsigned port, const char *method, const char *path, const char *headers)
{
    char text[REQUEST_BYTES];
    int bytes = snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nConnection: close\r\n%s\r\n", method,
                         path, headers);
    cr_assert_lt(bytes, REQUEST_BYTES);
    return fetch_raw(port, text, (size_t)bytes);
}

unsigned fetch(unsigned port, const char *path)
{
    return fetch_with(port, "GET", path, "Host: localhost\r\n");
}

const char *fetch_answer(void)
{
    return answer;
}

const char *fetch_body(void)
{
    const char *end = strstr(answer, "\r\n\r\n");
    return end != NULL ? end + 4 : "";
}

void fetch_expect_header(const char *line)
{
    const char *end = strstr(answer, "\r\n\r\n");
    const char *at = strstr(answer, line);
    cr_expect(at != NULL && at < end, "not '%s' in: %.600s", line, answer);
}

void fetch_expect_in_body(const char *text)
{
    cr_expect_not_null(strstr(fetch_body(), text), "not '%s' in: %s", text, fetch_body());
}
