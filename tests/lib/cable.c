/* SPDX-License-Identifier: MPL-2.0 */
/* cable.c -- a thread that carries bytes between sockets of this machine; see cable.h. */
#include "tests/lib/cable.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define FLOW_BYTES ((size_t)256 * 1024)
enum { BACKLOG = 64, ITEMS_MAX = 1 + CABLE_ENDS_MAX + 2 * CABLE_PAIRS_MAX };

static bool make_address(struct sockaddr_un *address, const char *path)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int bytes = snprintf(address->sun_path, sizeof address->sun_path, "%s", path);
    return bytes > 0 && (size_t)bytes < sizeof address->sun_path;
}

void cable_init(struct cable *cable)
{
    memset(cable, 0, sizeof *cable);
    for (size_t i = 0; i < CABLE_PAIRS_MAX; i++)
        cable->pairs[i].near = cable->pairs[i].far = -1;
    cable->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

bool cable_lead(struct cable *cable, const char *path, const char *target)
{
    struct sockaddr_un address;
    struct cable_end *end = &cable->ends[cable->count];
    if (cable->count == CABLE_ENDS_MAX || !make_address(&address, path))
        return false;
    end->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (end->listener < 0)
        return false;
    cable->count++;
    int bytes = snprintf(end->target, sizeof end->target, "%s", target);
    return bytes > 0 && (size_t)bytes < sizeof end->target &&
           bind(end->listener, (struct sockaddr *)&address, sizeof address) == 0 &&
           chmod(path, 0777) == 0 && listen(end->listener, BACKLOG) == 0;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

static void close_pair(struct cable_pair *pair)
{
    if (pair->near >= 0) {
        close(pair->near);
        close(pair->far);
        free(pair->out.bytes);
        free(pair->back.bytes);
    }
    *pair = (struct cable_pair){.near = -1, .far = -1};
}

static void open_pair(struct cable *cable, const struct cable_end *end)
{
    struct sockaddr_un address;
    struct cable_pair *pair = cable->pairs;
    int near = accept4(end->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (near < 0)
        return;
    while (pair < cable->pairs + CABLE_PAIRS_MAX && pair->near >= 0)
        pair++;
    int far = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool is_up = far >= 0 && pair < cable->pairs + CABLE_PAIRS_MAX &&
                 atomic_load(&cable->state) != CABLE_CUT && make_address(&address, end->target) &&
                 connect(far, (struct sockaddr *)&address, sizeof address) == 0;
    if (!is_up) {
        close(near);
        if (far >= 0)
            close(far);
        return;
    }
    *pair = (struct cable_pair){.near = near, .far = far};
    pair->out.bytes = malloc(FLOW_BYTES);
    pair->back.bytes = malloc(FLOW_BYTES);
    if (pair->out.bytes == NULL || pair->back.bytes == NULL)
        abort();
}

/* false: this way is over. */
static bool carry(struct cable_flow *flow, int from, int to, bool has_more)
{
    if (has_more && flow->count == 0) {
        ssize_t got = recv(from, flow->bytes, FLOW_BYTES, 0);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        flow->count = got > 0 ? (size_t)got : 0;
        flow->sent = 0;
    }
    if (flow->count == 0)
        return true;
    ssize_t sent = send(to, flow->bytes + flow->sent, flow->count - flow->sent, MSG_NOSIGNAL);
    if (sent < 0)
        return errno == EAGAIN || errno == EINTR;
    flow->sent += (size_t)sent;
    if (flow->sent == flow->count)
        flow->count = 0;
    return true;
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Which ways carry nothing. */
struct silence {
    bool is_out;
    bool is_back;
};

static struct silence silence_of(int state)
{
    return (struct silence){.is_out = state == CABLE_SILENT || state == CABLE_UNHEARD,
                            .is_back = state == CABLE_SILENT || state == CABLE_UNANSWERED};
}

/* in, out: NULL where that way carries nothing. */
static short wanted(const struct cable_flow *in, const struct cable_flow *out)
{
    return (short)((in != NULL && in->count == 0 ? POLLIN : 0) |
                   (out != NULL && out->count > 0 ? POLLOUT : 0));
}

/* An end that hung up is told of whatever was asked.  While nothing can be done about it, because
 * the other end takes nothing, it is not looked at. */
static struct pollfd item_of(int fd, short events)
{
    return (struct pollfd){.fd = events != 0 ? fd : -1, .events = events};
}

/* Where nothing passes, nothing is waited for. */
static size_t list_items(const struct cable *cable, struct silence silence, struct pollfd *items)
{
    size_t count = 0;
    items[count++] = (struct pollfd){.fd = cable->wake, .events = POLLIN};
    for (size_t i = 0; i < cable->count; i++)
        items[count++] = (struct pollfd){.fd = cable->ends[i].listener, .events = POLLIN};
    for (size_t i = 0; i < CABLE_PAIRS_MAX; i++) {
        const struct cable_pair *pair = &cable->pairs[i];
        const struct cable_flow *out = silence.is_out ? NULL : &pair->out;
        const struct cable_flow *back = silence.is_back ? NULL : &pair->back;
        items[count++] = item_of(pair->near, wanted(out, back));
        items[count++] = item_of(pair->far, wanted(back, out));
    }
    return count;
}

static void serve_pairs(struct cable *cable, struct silence silence, const struct pollfd *items)
{
    for (size_t i = 0; i < CABLE_PAIRS_MAX; i++) {
        struct cable_pair *pair = &cable->pairs[i];
        short near = items[2 * i].revents;
        short far = items[2 * i + 1].revents;
        if (pair->near < 0 || (near | far) == 0)
            continue;
        bool has_out = silence.is_out ||
                       carry(&pair->out, pair->near, pair->far, (near & (POLLIN | POLLHUP)) != 0);
        bool has_back = silence.is_back ||
                        carry(&pair->back, pair->far, pair->near, (far & (POLLIN | POLLHUP)) != 0);
        if (!has_out || !has_back || ((near | far) & POLLERR) != 0)
            close_pair(pair);
    }
}

static void *run(void *arg)
{
    struct cable *cable = arg;
    while (!atomic_load(&cable->is_over)) {
        struct pollfd items[ITEMS_MAX];
        uint64_t woken;
        int state = atomic_load(&cable->state);
        if (state == CABLE_CUT)
            for (size_t i = 0; i < CABLE_PAIRS_MAX; i++)
                close_pair(&cable->pairs[i]);
        atomic_store(&cable->seen, state);
        struct silence silence = silence_of(state);
        size_t count = list_items(cable, silence, items);
        if (poll(items, count, -1) < 0)
            continue;
        (void)!read(cable->wake, &woken, sizeof woken); /* or nobody has woken us */
        serve_pairs(cable, silence, items + 1 + cable->count);
        for (size_t i = 0; i < cable->count; i++)
            if (items[1 + i].revents != 0)
                open_pair(cable, &cable->ends[i]);
    }
    return NULL;
}

static void wake(struct cable *cable)
{
    uint64_t one = 1;
    (void)!write(cable->wake, &one, sizeof one); /* it is counted up, or is awake already */
}

bool cable_start(struct cable *cable)
{
    cable->has_thread = cable->wake >= 0 && pthread_create(&cable->thread, NULL, run, cable) == 0;
    return cable->has_thread;
}

void cable_set(struct cable *cable, enum cable_state state)
{
    atomic_store(&cable->state, state);
    wake(cable);
    while (atomic_load(&cable->seen) != (int)state)
        (void)poll(NULL, 0, 1);
}

void cable_fini(struct cable *cable)
{
    atomic_store(&cable->is_over, true);
    if (cable->has_thread) {
        wake(cable);
        pthread_join(cable->thread, NULL);
    }
    for (size_t i = 0; i < CABLE_PAIRS_MAX; i++)
        close_pair(&cable->pairs[i]);
    for (size_t i = 0; i < cable->count; i++)
        close(cable->ends[i].listener);
    if (cable->wake >= 0)
        close(cable->wake);
}
