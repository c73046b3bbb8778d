/* SPDX-License-Identifier: MPL-2.0 */
/* relay.c -- a thread that carries bytes between pairs of sockets, as long as it is let. */
#include "tests/lib/relay.h"

#include "tests/lib/process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define FLOW_BYTES ((size_t)256 * 1024)
#define BACKLOG 32
/* ZMTP 3.0: a greeting of 64 bytes, and READY of a ROUTER, 43: with them a connection stands, and
 * nothing has been said. */
#define HANDSHAKE_BYTES ((size_t)64 + 43)

static struct sockaddr_in loopback(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static int listen_somewhere(char endpoint[RELAY_ENDPOINT_BYTES_MAX])
{
    struct sockaddr_in address = loopback(0);
    socklen_t bytes = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, bytes) != 0 || listen(fd, BACKLOG) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &bytes) != 0) {
        return -1;
    }
    snprintf(endpoint, RELAY_ENDPOINT_BYTES_MAX, "tcp://127.0.0.1:%u", ntohs(address.sin_port));
    return fd;
}

bool relay_open(struct relay *relay)
{
    memset(relay, 0, sizeof *relay);
    for (size_t i = 0; i < RELAY_PAIRS_MAX; i++) {
        relay->pairs[i].near = relay->pairs[i].far = -1;
    }
    relay->wake[0] = relay->wake[1] = -1;
    relay->full = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    relay->listeners[0] = listen_somewhere(relay->control_endpoint);
    relay->listeners[1] = listen_somewhere(relay->data_endpoint);
    return relay->full >= 0 && relay->listeners[0] >= 0 && relay->listeners[1] >= 0 &&
           pipe2(relay->wake, O_CLOEXEC | O_NONBLOCK) == 0;
}

/* ---- pairs ------------------------------------------------------------------------------------*/

/* By its name a file is of control or of data. */
static void record_begin(struct relay *relay, bool is_data, struct relay_flow *flow)
{
    char path[512];
    if (relay->record_folder == NULL) {
        return;
    }
    int bytes = snprintf(path, sizeof path, "%s/%s%u", relay->record_folder,
                         is_data ? "data" : "control", relay->recorded++);
    flow->record = bytes > 0 && (size_t)bytes < sizeof path ? fopen(path, "w") : NULL;
    if (flow->record == NULL) {
        abort();
    }
}

static void record_end(struct relay_flow *flow)
{
    if (flow->record != NULL) {
        fclose(flow->record);
    }
}

static void pair_close(struct relay_pair *pair)
{
    if (pair->near >= 0) {
        close(pair->near);
        close(pair->far);
        free(pair->out.bytes);
        free(pair->back.bytes);
        record_end(&pair->out);
        record_end(&pair->back);
    }
    *pair = (struct relay_pair){.near = -1, .far = -1};
}

static void pair_open(struct relay *relay, size_t listener)
{
    struct sockaddr_in address = loopback(atomic_load(&relay->targets[listener]));
    struct relay_pair *pair = relay->pairs;
    int yes = 1;
    int near = accept4(relay->listeners[listener], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (near < 0) {
        return;
    }
    while (pair < relay->pairs + RELAY_PAIRS_MAX && pair->near >= 0) {
        pair++;
    }
    int far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_up = far >= 0 && pair < relay->pairs + RELAY_PAIRS_MAX &&
                 atomic_load(&relay->state) != RELAY_CUT &&
                 connect(far, (struct sockaddr *)&address, sizeof address) == 0;
    if (!is_up) {
        close(near);
        if (far >= 0) {
            close(far);
        }
        return;
    }
    fcntl(far, F_SETFL, O_NONBLOCK);
    setsockopt(near, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(far, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    pair->near = near;
    pair->far = far;
    pair->is_data = listener == 1;
    atomic_fetch_add(&relay->dials[listener], 1);
    pair->out.bytes = malloc(FLOW_BYTES);
    pair->back.bytes = malloc(FLOW_BYTES);
    if (pair->out.bytes == NULL || pair->back.bytes == NULL) {
        abort();
    }
    record_begin(relay, pair->is_data, &pair->out);
    record_begin(relay, pair->is_data, &pair->back);
}

/* Bytes that may be read of this way. */
static size_t allowance(struct relay *relay, const struct relay_pair *pair, enum relay_way way)
{
    uint64_t left = atomic_load(&relay->limits[way]) - atomic_load(&relay->carried[way]);
    if (pair->is_data)
        return left < FLOW_BYTES ? (size_t)left : FLOW_BYTES;
    if (way == RELAY_OUT || atomic_load(&relay->state) != RELAY_LATE)
        return FLOW_BYTES;
    return pair->said < HANDSHAKE_BYTES ? HANDSHAKE_BYTES - pair->said : 0;
}

/* Whether it is still to be seen that something waits on the way back of this connection. */
static bool may_hold(struct relay *relay, const struct relay_pair *pair)
{
    return !pair->is_data && atomic_load(&relay->state) == RELAY_LATE &&
           !atomic_load(&relay->is_held) && allowance(relay, pair, RELAY_BACK) == 0;
}

/* False: one of the two ends is gone. */
static bool flow(struct relay_flow *flow, int from, int to, size_t bytes_max, size_t *out_bytes)
{
    if (flow->count == 0 && bytes_max > 0) {
        ssize_t count = read(from, flow->bytes, bytes_max);
        if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) {
            return false;
        }
        flow->count = count > 0 ? (size_t)count : 0;
        flow->sent = 0;
        if (flow->record != NULL &&
            fwrite(flow->bytes, 1, flow->count, flow->record) < flow->count) {
            abort();
        }
        *out_bytes = flow->count;
    }
    if (flow->count > 0) {
        ssize_t count = send(to, flow->bytes + flow->sent, flow->count - flow->sent, MSG_NOSIGNAL);
        if (count < 0 && errno != EAGAIN && errno != EINTR) {
            return false;
        }
        flow->sent += count > 0 ? (size_t)count : 0;
        flow->count = flow->sent == flow->count ? 0 : flow->count;
    }
    return true;
}

static bool swallow(struct relay_flow *flow, int from)
{
    ssize_t count = read(from, flow->bytes, FLOW_BYTES);
    flow->count = 0; /* what was on its way does not arrive either */
    return count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
}

/* ---- the thread -------------------------------------------------------------------------------*/

static short wanted(const struct relay_flow *in, bool may_read, const struct relay_flow *out)
{
    return (short)((in->count == 0 && may_read ? POLLIN : 0) | (out->count > 0 ? POLLOUT : 0));
}

static size_t fill(struct relay *relay, struct pollfd *fds)
{
    size_t count = 0;
    bool is_silent = atomic_load(&relay->state) == RELAY_SILENT;
    fds[count++] = (struct pollfd){.fd = relay->wake[0], .events = POLLIN};
    fds[count++] = (struct pollfd){.fd = is_silent ? -1 : relay->listeners[0], .events = POLLIN};
    fds[count++] = (struct pollfd){.fd = is_silent ? -1 : relay->listeners[1], .events = POLLIN};
    for (const struct relay_pair *pair = relay->pairs;
         !is_silent && pair < relay->pairs + RELAY_PAIRS_MAX; pair++) {
        if (pair->near < 0)
            continue;
        bool may_go_out = allowance(relay, pair, RELAY_OUT) > 0;
        bool may_come_back = allowance(relay, pair, RELAY_BACK) > 0 || may_hold(relay, pair);
        fds[count++] = (struct pollfd){.fd = pair->near,
                                       .events = wanted(&pair->out, may_go_out, &pair->back)};
        fds[count++] = (struct pollfd){.fd = pair->far,
                                       .events = wanted(&pair->back, may_come_back, &pair->out)};
    }
    return count;
}

static void deafen(struct relay *relay)
{
    for (size_t i = 0; i < RELAY_PAIRS_MAX; i++) {
        relay->pairs[i].is_deaf |= relay->pairs[i].near >= 0 && relay->pairs[i].is_data;
    }
}

static bool is_at_limit(struct relay *relay, enum relay_way way)
{
    return relay_carried(relay, way) >= atomic_load(&relay->limits[way]);
}

static void count(struct relay *relay, enum relay_way way, size_t bytes)
{
    const uint64_t one = 1;
    atomic_fetch_add(&relay->carried[way], bytes);
    if (bytes > 0 && is_at_limit(relay, way))
        (void)!write(relay->full, &one, sizeof one); /* full means that it is readable already */
}

static void see_held(struct relay *relay, const struct relay_pair *pair)
{
    const uint64_t one = 1;
    char byte;
    if (recv(pair->far, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 1)
        return;
    atomic_store(&relay->is_held, true);
    (void)!write(relay->full, &one, sizeof one); /* as in count() */
}

static bool carry_way(struct relay *relay, struct relay_pair *pair, enum relay_way way)
{
    size_t bytes = 0;
    size_t most = allowance(relay, pair, way);
    bool is_up = way == RELAY_OUT ? flow(&pair->out, pair->near, pair->far, most, &bytes)
                                  : flow(&pair->back, pair->far, pair->near, most, &bytes);
    if (pair->is_data)
        count(relay, way, bytes);
    pair->said += way == RELAY_BACK ? bytes : 0;
    return is_up;
}

/* False: one of the two ends is gone. */
static bool carry_pair(struct relay *relay, struct relay_pair *pair)
{
    bool is_up = carry_way(relay, pair, RELAY_OUT);
    if (pair->is_deaf) {
        return is_up && swallow(&pair->back, pair->far);
    }
    if (may_hold(relay, pair))
        see_held(relay, pair);
    return is_up && carry_way(relay, pair, RELAY_BACK);
}

static void carry(struct relay *relay)
{
    for (struct relay_pair *pair = relay->pairs; pair < relay->pairs + RELAY_PAIRS_MAX; pair++) {
        if (pair->near >= 0 && !carry_pair(relay, pair)) {
            pair_close(pair);
        }
    }
}

static void *run(void *arg)
{
    struct relay *relay = arg;
    struct pollfd fds[3 + 2 * RELAY_PAIRS_MAX];
    char drained[16];
    while (!atomic_load(&relay->is_over)) {
        poll(fds, fill(relay, fds), -1);
        while (read(relay->wake[0], drained, sizeof drained) > 0) {
        }
        int state = atomic_load(&relay->state);
        for (size_t i = 0; i < RELAY_PAIRS_MAX && state == RELAY_CUT; i++) {
            pair_close(&relay->pairs[i]);
        }
        if (state == RELAY_DEAF && atomic_load(&relay->seen) != RELAY_DEAF) {
            deafen(relay);
        }
        atomic_store(&relay->seen, state);
        if (state != RELAY_SILENT) {
            pair_open(relay, 0);
            pair_open(relay, 1);
            carry(relay);
        }
    }
    return NULL;
}

static uint16_t port_of(const char *endpoint)
{
    const char *colon = strrchr(endpoint, ':');
    return colon != NULL ? (uint16_t)strtoul(colon + 1, NULL, 10) : 0;
}

void relay_retarget(struct relay *relay, const char *control_endpoint, const char *data_endpoint)
{
    atomic_store(&relay->targets[0], port_of(control_endpoint));
    atomic_store(&relay->targets[1], port_of(data_endpoint));
}

uint64_t relay_carried(struct relay *relay, enum relay_way way)
{
    return atomic_load(&relay->carried[way]);
}

unsigned relay_dials(struct relay *relay)
{
    return atomic_load(&relay->dials[0]);
}

unsigned relay_data_dials(struct relay *relay)
{
    return atomic_load(&relay->dials[1]);
}

/* Until something may be so by now.  false: not in this time. */
static bool await_change(struct relay *relay, int64_t until_ms)
{
    struct pollfd item = {.fd = relay->full, .events = POLLIN};
    int64_t left_ms = until_ms - test_now_ms();
    uint64_t times;
    if (left_ms <= 0 || poll(&item, 1, (int)left_ms) < 0)
        return false;
    (void)!read(relay->full, &times, sizeof times); /* of something else, too: looked at anew */
    return true;
}

bool relay_await_limit(struct relay *relay, enum relay_way way, int64_t wait_ms)
{
    int64_t until_ms = test_now_ms() + wait_ms;
    while (!is_at_limit(relay, way))
        if (!await_change(relay, until_ms))
            return false;
    return true;
}

bool relay_await_held(struct relay *relay, int64_t wait_ms)
{
    int64_t until_ms = test_now_ms() + wait_ms;
    while (!atomic_load(&relay->is_held))
        if (!await_change(relay, until_ms))
            return false;
    return true;
}

static void wake(struct relay *relay)
{
    ssize_t written = write(relay->wake[1], "", 1);
    (void)written; /* full: it will wake in any case */
}

void relay_limit(struct relay *relay, enum relay_way way, uint64_t bytes)
{
    atomic_store(&relay->limits[way], relay_carried(relay, way) + bytes);
    wake(relay);
}

bool relay_start(struct relay *relay, const char *control_endpoint, const char *data_endpoint)
{
    relay_retarget(relay, control_endpoint, data_endpoint);
    for (int way = 0; way < RELAY_WAY_COUNT; way++)
        atomic_store(&relay->limits[way], UINT64_MAX);
    relay->has_thread = pthread_create(&relay->thread, NULL, run, relay) == 0;
    return relay->has_thread;
}

void relay_set(struct relay *relay, enum relay_state state)
{
    atomic_store(&relay->is_held, false);
    atomic_store(&relay->state, state);
    while (atomic_load(&relay->seen) != (int)state) {
        wake(relay);
        sched_yield();
    }
}

void relay_fini(struct relay *relay)
{
    if (relay->has_thread) {
        atomic_store(&relay->is_over, true);
        wake(relay);
        pthread_join(relay->thread, NULL);
        for (size_t i = 0; i < RELAY_PAIRS_MAX; i++) {
            pair_close(&relay->pairs[i]);
        }
    }
    for (size_t i = 0; i < 2 && relay->control_endpoint[0] != '\0'; i++) {
        close(relay->listeners[i]);
        close(relay->wake[i]);
    }
    if (relay->control_endpoint[0] != '\0')
        close(relay->full);
    memset(relay, 0, sizeof *relay);
}
