/* SPDX-License-Identifier: MPL-2.0 */
/* unknown_keys.c -- see unknown_keys.h. */
#include "bench/unknown_keys.h"

#include "bench/harness.h"

bool unknown_keys_are_there(void)
{
    return BENCH_HAS_SODIUM;
}

#if BENCH_HAS_SODIUM

#include "libbus/base/key_text.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    KEPT = 200,
    GREETING_BYTES = 64,
    HELLO_BYTES = 202,
    WELCOME_BYTES = 170, /* its head of two bytes as well */
    WELCOME_BODY_BYTES = 168,
    COOKIE_BYTES = 96,
    VOUCH_BYTES = 80,
    NONCE_BYTES = 24,
    SHORT_NONCE_BYTES = 8,
    LONG_NONCE_BYTES = 16,
    METADATA_BYTES = 22,
    SECRETS_BYTES = 32 + LONG_NONCE_BYTES + VOUCH_BYTES + METADATA_BYTES,
    INITIATE_BODY_BYTES = 9 + COOKIE_BYTES + SHORT_NONCE_BYTES + 16 + SECRETS_BYTES,
    HEARD_BYTES = GREETING_BYTES + WELCOME_BYTES,
};

struct dial {
    int fd; /* -1: none */
    bool is_complete;
    size_t count;
    uint8_t heard[HEARD_BYTES];
};

/* One short key serves all connections: the broker keeps nothing of it from one to the next. */
struct flooder {
    struct sockaddr_in from;
    struct sockaddr_in to;
    uint8_t server[32];
    uint8_t own[32];
    uint8_t own_secret[32];
    uint8_t brief[32];
    uint8_t brief_secret[32];
    uint8_t with_server[32]; /* the brief key and the broker's */
    uint8_t words[GREETING_BYTES + HELLO_BYTES];
    struct dial dials[KEPT];
    int epoll_fd;
    struct unknown_keys_told *told;
};

static void name_nonce(uint8_t nonce[NONCE_BYTES], const char *prefix, const uint8_t *rest)
{
    size_t bytes = strlen(prefix);
    memcpy(nonce, prefix, bytes);
    memcpy(nonce + bytes, rest, NONCE_BYTES - bytes);
}

static void make_words(struct flooder *flooder)
{
    static const uint8_t signature[] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1};
    static const uint8_t command[] = {4, HELLO_BYTES - 2, 5, 'H', 'E', 'L', 'L', 'O', 1, 0};
    static const uint8_t zeros[64];
    uint8_t nonce[NONCE_BYTES];
    uint8_t *hello = flooder->words + GREETING_BYTES;
    uint8_t *brief = hello + sizeof command + 72;
    uint8_t *number = brief + 32;
    memcpy(flooder->words, signature, sizeof signature);
    memcpy(flooder->words + sizeof signature, "CURVE", 5);
    memcpy(hello, command, sizeof command);
    memcpy(brief, flooder->brief, 32);
    number[SHORT_NONCE_BYTES - 1] = 1;
    name_nonce(nonce, "CurveZMQHELLO---", number);
    if (crypto_box_easy_afternm(number + SHORT_NONCE_BYTES, zeros, sizeof zeros, nonce,
                                flooder->with_server) != 0)
        bench_die("no HELLO can be made");
}

static void begin(struct flooder *flooder, const char *endpoint, const char *from)
{
    const char *port = strrchr(endpoint, ':');
    const char *key = endpoint + strlen("tcp://");
    const char *end = strchr(endpoint, '@');
    if (sodium_init() < 0 || port == NULL || end == NULL ||
        key_text_read(span_of(key, (size_t)(end - key)), KEY_PUBLIC, flooder->server) != KEY_OK)
        bench_die("no broker with a key at %s", endpoint);
    flooder->from.sin_family = flooder->to.sin_family = AF_INET;
    flooder->to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    flooder->to.sin_port = htons((uint16_t)strtoul(port + 1, NULL, 10));
    if (inet_pton(AF_INET, from, &flooder->from.sin_addr) != 1 ||
        crypto_box_keypair(flooder->own, flooder->own_secret) != 0 ||
        crypto_box_keypair(flooder->brief, flooder->brief_secret) != 0 ||
        crypto_box_beforenm(flooder->with_server, flooder->server, flooder->brief_secret) != 0)
        bench_die("no keys can be made");
    make_words(flooder);
    for (size_t i = 0; i < KEPT; i++)
        flooder->dials[i].fd = -1;
    flooder->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (flooder->epoll_fd < 0)
        bench_die("no descriptor for epoll");
}

static void hang_up(struct dial *dial)
{
    if (dial->fd >= 0)
        close(dial->fd);
    dial->fd = -1;
}

static void dial_once(struct flooder *flooder, struct dial *dial)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = dial};
    hang_up(dial);
    *dial = (struct dial){.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
    if (dial->fd < 0)
        return;
    flooder->told->dialled++;
    /* Within one machine a connection stands at once, or is refused. */
    if (bind(dial->fd, (const struct sockaddr *)&flooder->from, sizeof flooder->from) != 0 ||
        (connect(dial->fd, (const struct sockaddr *)&flooder->to, sizeof flooder->to), 0) ||
        send(dial->fd, flooder->words, sizeof flooder->words, MSG_NOSIGNAL) < 0 ||
        epoll_ctl(flooder->epoll_fd, EPOLL_CTL_ADD, dial->fd, &event) != 0)
        hang_up(dial);
}

/* The box in which the key says that it is that of this connection. */
static bool vouch(const struct flooder *flooder, const uint8_t *brief_server, uint8_t *out_secrets)
{
    uint8_t nonce[NONCE_BYTES];
    uint8_t said[64];
    uint8_t *number = out_secrets + 32;
    memcpy(out_secrets, flooder->own, 32);
    randombytes_buf(number, LONG_NONCE_BYTES);
    name_nonce(nonce, "VOUCH---", number);
    memcpy(said, flooder->brief, 32);
    memcpy(said + 32, flooder->server, 32);
    return crypto_box_easy(number + LONG_NONCE_BYTES, said, sizeof said, nonce, brief_server,
                           flooder->own_secret) == 0;
}

static bool say_initiate(const struct flooder *flooder, int fd, const uint8_t *brief_server,
                         const uint8_t *cookie)
{
    static const uint8_t metadata[METADATA_BYTES] = "\13Socket-Type\0\0\0\6DEALER"; /* no NUL */
    uint8_t bytes[9 + INITIATE_BODY_BYTES] = {
        6, 0, 0, 0, 0, 0, 0, INITIATE_BODY_BYTES >> 8, INITIATE_BODY_BYTES & 0xff};
    uint8_t secrets[SECRETS_BYTES];
    uint8_t nonce[NONCE_BYTES];
    uint8_t *at = bytes + 9;
    memcpy(at, "\10INITIATE", 9);
    memcpy(at + 9, cookie, COOKIE_BYTES);
    uint8_t *number = at + 9 + COOKIE_BYTES;
    number[SHORT_NONCE_BYTES - 1] = 2;
    name_nonce(nonce, "CurveZMQINITIATE", number);
    memcpy(secrets + SECRETS_BYTES - METADATA_BYTES, metadata, METADATA_BYTES);
    return vouch(flooder, brief_server, secrets) &&
           crypto_box_easy(number + SHORT_NONCE_BYTES, secrets, sizeof secrets, nonce, brief_server,
                           flooder->brief_secret) == 0 &&
           send(fd, bytes, sizeof bytes, MSG_NOSIGNAL) == (ssize_t)sizeof bytes;
}

/* Answers WELCOME; false: it is none. */
static bool answer(const struct flooder *flooder, int fd, const uint8_t welcome[WELCOME_BYTES])
{
    static const uint8_t head[] = {4, WELCOME_BODY_BYTES, 7, 'W', 'E', 'L', 'C', 'O', 'M', 'E'};
    uint8_t nonce[NONCE_BYTES];
    uint8_t opened[32 + COOKIE_BYTES];
    const uint8_t *number = welcome + sizeof head;
    name_nonce(nonce, "WELCOME-", number);
    return memcmp(welcome, head, sizeof head) == 0 &&
           crypto_box_open_easy_afternm(opened, number + LONG_NONCE_BYTES, sizeof opened + 16,
                                        nonce, flooder->with_server) == 0 &&
           say_initiate(flooder, fd, opened, opened + 32);
}

static void hear_end(struct flooder *flooder, struct dial *dial)
{
    uint8_t bytes[64];
    ssize_t count = recv(dial->fd, bytes, sizeof bytes, 0);
    flooder->told->refused += count > 7 && memcmp(bytes + 2, "\5ERROR", 6) == 0;
    hang_up(dial);
}

static void hear(struct flooder *flooder, struct dial *dial)
{
    if (dial->fd < 0)
        return; /* it was closed meanwhile */
    if (dial->is_complete) {
        hear_end(flooder, dial);
        return;
    }
    ssize_t count = recv(dial->fd, dial->heard + dial->count, HEARD_BYTES - dial->count, 0);
    if (count <= 0) {
        hang_up(dial);
        return;
    }
    dial->count += (size_t)count;
    if (dial->count < HEARD_BYTES)
        return;
    if (!answer(flooder, dial->fd, dial->heard + GREETING_BYTES))
        bench_die("the broker's WELCOME is none");
    dial->is_complete = true;
    flooder->told->complete++;
}

/* Until then; false: there is something on standard input. */
static bool hear_all(struct flooder *flooder, int64_t until_ns)
{
    struct pollfd items[] = {{.fd = flooder->epoll_fd, .events = POLLIN},
                             {.fd = STDIN_FILENO, .events = POLLIN}};
    for (int64_t left_ns = until_ns - test_now_ns(); left_ns > 0;
         left_ns = until_ns - test_now_ns()) {
        struct timespec left = {.tv_nsec = left_ns};
        struct epoll_event events[KEPT];
        if (ppoll(items, 2, &left, NULL) <= 0)
            continue;
        int count = epoll_wait(flooder->epoll_fd, events, KEPT, 0);
        for (int i = 0; i < count; i++)
            hear(flooder, events[i].data.ptr);
        if (items[1].revents != 0)
            return false;
    }
    return true;
}

void unknown_keys_flood(const char *endpoint, const char *from, int64_t every_ns,
                        struct unknown_keys_told *out_told)
{
    static struct flooder flooder;
    *out_told = (struct unknown_keys_told){.dialled = 0};
    flooder.told = out_told;
    begin(&flooder, endpoint, from);
    int64_t at_ns = test_now_ns();
    for (size_t i = 0; hear_all(&flooder, at_ns += every_ns); i = (i + 1) % KEPT)
        dial_once(&flooder, &flooder.dials[i]);
    for (size_t i = 0; i < KEPT; i++)
        hang_up(&flooder.dials[i]);
    close(flooder.epoll_fd);
}

#else

void unknown_keys_flood(const char *endpoint, const char *from, int64_t every_ns,
                        struct unknown_keys_told *out_told)
{
    (void)from;
    (void)every_ns;
    (void)out_told;
    bench_die("no libsodium to speak to %s with", endpoint);
}

#endif
