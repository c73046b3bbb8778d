/* SPDX-License-Identifier: MPL-2.0 */
/* link_relay.c -- a long link on one machine, without privileges: carries TCP connections on, each
 * way through a delay line of its own (delay_line.h), with its own rate, delay, jitter and stalls.
 *
 *   link_relay to=PORT,PORT... [listen=PORT,PORT...] [rate=BITS_A_SECOND] [delay_us=N]
 *              [jitter_us=N] [queue_us=N] [stall_every_ms=N stall_ms=N]
 *              [late_percent=N late_us=N]
 *
 * It listens on as many ports of the loopback as it carries to, on free ones if none are named.  It
 * says "ready" and then its ports, with commas between, and works until it is killed.  At SIGUSR1
 * it says how many bytes it carried: "carried", and of each port those to the port and those from
 * it.
 *
 * A connection is made as over a link: what its client says first waits for one round trip, and
 * the server has the connection half of one later.  The end of a stream, or a reset, is
 * passed on behind the bytes before it. */
#include "bench/delay_line.h"
#include "bench/harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORTS_MAX 16
#define EVENTS 64
#define RATE INT64_C(1000000000)
#define QUEUE_US 4000
#define SOCKET_BYTES 131072 /* what the kernel may hold before the link, about */
#define WAKE_NS 50000       /* it does not wake more often for the time alone */
#define NS_PER_S INT64_C(1000000000)

enum { NEAR, FAR, ENDS };

struct end {
    int fd; /* -1: not yet, or no more */
    bool can_read;
    bool can_write;
    bool is_broken; /* bytes for it are dropped: nobody reads them */
};

/* A connection: lines[NEAR] carries what comes in at the near end, to the far end. */
struct pair {
    struct end ends[ENDS];
    struct delay_line lines[ENDS];
    bool is_told[ENDS]; /* the end of the line was passed on */
    int64_t connect_ns; /* DELAY_LINE_NEVER: it was connected */
    size_t listener;
};

struct relay {
    struct link_shape shape;
    unsigned targets[PORTS_MAX];
    unsigned ports[PORTS_MAX]; /* 0: a free one */
    int listeners[PORTS_MAX];
    size_t listener_count;
    uint64_t carried[PORTS_MAX][ENDS]; /* to the port, and from it */
    struct pair **pairs;
    size_t pair_count;
    size_t pair_room;
    uint64_t accepted;
    int64_t start_ns;
    int epoll;
};

/* Since its start, so that stalls begin with it. */
static int64_t now(const struct relay *relay)
{
    return test_now_ns() - relay->start_ns;
}

static void watch(const struct relay *relay, int fd, uint32_t events, void *what)
{
    struct epoll_event event = {.events = events, .data.ptr = what};
    if (epoll_ctl(relay->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        bench_die("a socket cannot be watched: %s", strerror(errno));
    }
}

static struct sockaddr_in loopback(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static void be_prompt(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* What the kernel holds before the link is bounded: on a slow link it would be seconds of bytes. */
static void bound_queue(int fd)
{
    int bytes = SOCKET_BYTES;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

/* ---- connections ------------------------------------------------------------------------------*/

static void pair_free(struct pair *pair)
{
    for (int i = 0; i < ENDS; i++) {
        if (pair->ends[i].fd >= 0) {
            close(pair->ends[i].fd);
        }
        delay_line_fini(&pair->lines[i]);
    }
    free(pair);
}

static void pair_add(struct relay *relay, struct pair *pair)
{
    if (relay->pair_count == relay->pair_room) {
        relay->pair_room = relay->pair_room == 0 ? 16 : 2 * relay->pair_room;
        relay->pairs = realloc(relay->pairs, relay->pair_room * sizeof *relay->pairs);
        if (relay->pairs == NULL) {
            bench_die("no memory");
        }
    }
    relay->pairs[relay->pair_count++] = pair;
}

static void welcome(struct relay *relay, size_t listener)
{
    int fd = accept4(relay->listeners[listener], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        return;
    }
    struct pair *pair = calloc(1, sizeof *pair);
    int64_t at_ns = now(relay);
    int64_t delay_ns = relay->shape.delay_ns;
    relay->accepted++;
    if (pair == NULL ||
        !delay_line_init(&pair->lines[NEAR], &relay->shape, 2 * relay->accepted,
                         at_ns + 2 * delay_ns) ||
        !delay_line_init(&pair->lines[FAR], &relay->shape, 3 * relay->accepted, at_ns)) {
        bench_die("no memory");
    }
    be_prompt(fd);
    pair->ends[NEAR] = (struct end){.fd = fd, .can_read = true, .can_write = true};
    pair->ends[FAR] = (struct end){.fd = -1};
    pair->connect_ns = at_ns + 3 * delay_ns;
    pair->listener = listener;
    pair_add(relay, pair);
    watch(relay, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, &pair->ends[NEAR]);
}

/* Whether somebody listens there is known later.  If nobody does, the far end ends at once. */
static void pair_connect(struct relay *relay, struct pair *pair)
{
    struct sockaddr_in address = loopback(relay->targets[pair->listener]);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        bench_die("no socket: %s", strerror(errno));
    }
    pair->connect_ns = DELAY_LINE_NEVER;
    pair->ends[FAR] = (struct end){.fd = fd};
    bound_queue(fd);
    be_prompt(fd);
    (void)!connect(fd, (struct sockaddr *)&address, sizeof address);
    watch(relay, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, &pair->ends[FAR]);
}

/* ---- carrying ---------------------------------------------------------------------------------*/

static void fill(struct end *from, struct delay_line *line, int64_t now_ns)
{
    struct iovec pieces[2];
    int count = 0;
    while (from->can_read && delay_line_room(line, now_ns, pieces, &count) > 0) {
        ssize_t bytes = readv(from->fd, pieces, count);
        if (bytes > 0) {
            delay_line_put(line, now_ns, (size_t)bytes);
        } else if (bytes < 0 && errno == EAGAIN) {
            from->can_read = false;
        } else if (bytes == 0 || errno != EINTR) {
            from->can_read = false;
            delay_line_end(line, now_ns);
        }
    }
}

static void drain(struct delay_line *line, struct end *to, int64_t now_ns, uint64_t *carried)
{
    struct iovec pieces[2];
    int count = 0;
    size_t due = 0;
    while ((to->can_write || to->is_broken) &&
           (due = delay_line_due(line, now_ns, pieces, &count)) > 0) {
        struct msghdr message = {.msg_iov = pieces, .msg_iovlen = (size_t)count};
        ssize_t bytes =
            to->is_broken ? (ssize_t)due : sendmsg(to->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (bytes > 0) {
            delay_line_take(line, (size_t)bytes);
            *carried += (uint64_t)bytes;
        } else if (errno == EAGAIN) {
            to->can_write = false;
        } else if (errno != EINTR) {
            to->is_broken = true;
        }
    }
}

/* False: both ways are over. */
static bool carry(struct relay *relay, struct pair *pair, int64_t now_ns)
{
    if (pair->connect_ns <= now_ns) {
        pair_connect(relay, pair);
    }
    for (int i = 0; i < ENDS; i++) {
        struct end *to = &pair->ends[ENDS - 1 - i];
        fill(&pair->ends[i], &pair->lines[i], now_ns);
        drain(&pair->lines[i], to, now_ns, &relay->carried[pair->listener][i]);
        if (!pair->is_told[i] && to->fd >= 0 && delay_line_is_over(&pair->lines[i], now_ns)) {
            shutdown(to->fd, SHUT_WR);
            pair->is_told[i] = true;
        }
    }
    return !pair->is_told[NEAR] || !pair->is_told[FAR];
}

/* When there is something to do for it although no descriptor is ready. */
static int64_t pair_next(const struct pair *pair)
{
    int64_t next_ns = pair->connect_ns;
    for (int i = 0; i < ENDS; i++) {
        const struct end *to = &pair->ends[ENDS - 1 - i];
        int64_t room_ns =
            pair->ends[i].can_read ? delay_line_next_room(&pair->lines[i]) : DELAY_LINE_NEVER;
        int64_t due_ns = (to->can_write || to->is_broken) && !pair->is_told[i]
                             ? delay_line_next_due(&pair->lines[i])
                             : DELAY_LINE_NEVER;
        next_ns = room_ns < next_ns ? room_ns : next_ns;
        next_ns = due_ns < next_ns ? due_ns : next_ns;
    }
    return next_ns;
}

/* Until when there is nothing to do. */
static int64_t carry_all(struct relay *relay)
{
    int64_t next_ns = DELAY_LINE_NEVER;
    for (size_t i = 0; i < relay->pair_count;) {
        struct pair *pair = relay->pairs[i];
        if (!carry(relay, pair, now(relay))) {
            pair_free(pair);
            relay->pairs[i] = relay->pairs[--relay->pair_count];
            continue;
        }
        int64_t pair_ns = pair_next(pair);
        next_ns = pair_ns < next_ns ? pair_ns : next_ns;
        i++;
    }
    return next_ns;
}

static void take_event(struct relay *relay, const struct epoll_event *event)
{
    struct end *end = event->data.ptr;
    for (size_t i = 0; i < relay->listener_count; i++) {
        if (event->data.ptr == &relay->listeners[i]) {
            welcome(relay, i);
            return;
        }
    }
    end->can_read |= (event->events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    end->can_write |= (event->events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;
}

static volatile sig_atomic_t is_asked;

static void ask(int number)
{
    (void)number;
    is_asked = 1;
}

static void tell_carried(const struct relay *relay)
{
    is_asked = 0;
    printf("carried");
    for (size_t i = 0; i < relay->listener_count; i++) {
        printf(" %" PRIu64 " %" PRIu64, relay->carried[i][NEAR], relay->carried[i][FAR]);
    }
    putchar('\n');
    fflush(stdout);
}

static void run(struct relay *relay)
{
    struct epoll_event events[EVENTS];
    sigset_t none;
    sigemptyset(&none);
    for (;;) {
        if (is_asked) {
            tell_carried(relay);
        }
        int64_t next_ns = carry_all(relay);
        int64_t wait_ns = next_ns == DELAY_LINE_NEVER ? 0 : next_ns - now(relay);
        wait_ns = wait_ns < WAKE_NS ? WAKE_NS : wait_ns;
        struct timespec wait = {.tv_sec = wait_ns / NS_PER_S, .tv_nsec = wait_ns % NS_PER_S};
        int count = epoll_pwait2(relay->epoll, events, EVENTS,
                                 next_ns == DELAY_LINE_NEVER ? NULL : &wait, &none);
        for (int i = 0; i < count; i++) {
            take_event(relay, &events[i]);
        }
    }
}

/* ---- the beginning ----------------------------------------------------------------------------*/

static void listen_on(struct relay *relay, size_t index)
{
    struct sockaddr_in address = loopback(relay->ports[index]);
    socklen_t bytes = sizeof address;
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        bench_die("no socket: %s", strerror(errno));
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bound_queue(fd);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, SOMAXCONN) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &bytes) != 0) {
        bench_die("port %u: %s", relay->ports[index], strerror(errno));
    }
    relay->listeners[index] = fd;
    relay->ports[index] = ntohs(address.sin_port);
    watch(relay, fd, EPOLLIN, &relay->listeners[index]);
}

static void tell_ports(const struct relay *relay)
{
    role_ready();
    for (size_t i = 0; i < relay->listener_count; i++) {
        printf("%s%u", i > 0 ? "," : "", relay->ports[i]);
    }
    putchar('\n');
    fflush(stdout);
}

/* The signal comes while it waits for events, and at no other time. */
static void listen_for_questions(void)
{
    struct sigaction action = {.sa_handler = ask};
    sigset_t asked;
    sigemptyset(&asked);
    sigaddset(&asked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &asked, NULL);
    sigaction(SIGUSR1, &action, NULL);
}

/* "5555,5556"; how many they are. */
static size_t read_ports(const char *text, unsigned ports[PORTS_MAX])
{
    size_t count = 0;
    while (count < PORTS_MAX && *text != '\0') {
        char *end = NULL;
        ports[count++] = (unsigned)strtoul(text, &end, 10);
        text = *end == ',' ? end + 1 : "";
    }
    return count;
}

static bool take_word(struct relay *relay, const char *word)
{
    struct link_shape *shape = &relay->shape;
    const struct {
        const char *name;
        int64_t *ns;
        int64_t unit_ns;
    } times[] = {{"delay_us=", &shape->delay_ns, 1000},
                 {"jitter_us=", &shape->jitter_ns, 1000},
                 {"queue_us=", &shape->queue_ns, 1000},
                 {"late_us=", &shape->late_ns, 1000},
                 {"stall_every_ms=", &shape->stall_every_ns, 1000000},
                 {"stall_ms=", &shape->stall_ns, 1000000}};
    size_t bytes = strcspn(word, "=") + 1;
    const char *value = word[bytes - 1] == '=' ? word + bytes : "";
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        if (strncmp(word, times[i].name, bytes) == 0) {
            *times[i].ns = strtoll(value, NULL, 10) * times[i].unit_ns;
            return *times[i].ns >= 0;
        }
    }
    if (strncmp(word, "to=", bytes) == 0) {
        relay->listener_count = read_ports(value, relay->targets);
    } else if (strncmp(word, "listen=", bytes) == 0) {
        read_ports(value, relay->ports);
    } else if (strncmp(word, "rate=", bytes) == 0) {
        shape->rate = strtoull(value, NULL, 10);
    } else if (strncmp(word, "late_percent=", bytes) == 0) {
        shape->late_percent = strtoull(value, NULL, 10);
    } else {
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct relay relay = {.shape = {.rate = RATE, .queue_ns = QUEUE_US * INT64_C(1000)}};
    bool is_known = argc > 1;
    for (int i = 1; is_known && i < argc; i++) {
        is_known = take_word(&relay, argv[i]);
    }
    if (!is_known || relay.listener_count == 0 || relay.shape.rate == 0) {
        fprintf(stderr,
                "usage: %s to=PORT,... [listen=PORT,...] [rate=BITS_A_SECOND] [delay_us=N]\n",
                argv[0]);
        return 2;
    }
    prctl(PR_SET_TIMERSLACK, 1UL);
    listen_for_questions();
    relay.start_ns = test_now_ns();
    relay.epoll = epoll_create1(EPOLL_CLOEXEC);
    for (size_t i = 0; i < relay.listener_count; i++) {
        listen_on(&relay, i);
    }
    tell_ports(&relay);
    run(&relay);
    return 0;
}
