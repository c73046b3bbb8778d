/* SPDX-License-Identifier: MPL-2.0 */
/* channel.c -- one of the broker's two channels; see channel.h. */
#include "broker/io/channel.h"

#include "broker/io/received.h"
#include "libbus/base/must.h"
#include "libbus/io/ready.h"
#include "libbus/wire/frame.h"

#include <errno.h>
#include <stdio.h>

enum {
    DATA_RECEIVE_QUEUE = 64, /* parts of one connection: some MiB, then TCP holds it back */
    CONTROL_RECEIVE_QUEUE = 1024,
    BACKLOG = 1024,
    HANDSHAKE_MS = 5000, /* then libzmq closes a connection that has not greeted as it must */
    LINGER_MS = 800,     /* for what is still in the queues; with STOP_MS of loop.c under 2 s */
};

const char *channel_name(enum lane lane)
{
    return lane == LANE_CONTROL ? "control" : "data";
}

static bool channel_set_number(void *socket, int option, int value)
{
    return zmq_setsockopt(socket, option, &value, sizeof value) == 0;
}

/* MAXMSGSIZE lets through what is somewhat too large, so that its sender can be named; beyond it
 * libzmq closes the connection. */
static bool set_options(const struct channel *channel)
{
    void *socket = channel->socket;
    bool is_data = channel->lane == LANE_DATA;
    uint64_t affinity = UINT64_C(1) << channel->lane;
    int64_t part_bytes_max = 2 * (int64_t)(is_data ? LIMIT_PART_BYTES : LIMIT_CONTROL_BYTES);
    return zmq_setsockopt(socket, ZMQ_AFFINITY, &affinity, sizeof affinity) == 0 &&
           zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &part_bytes_max, sizeof part_bytes_max) == 0 &&
           channel_set_number(socket, ZMQ_ROUTER_MANDATORY, 1) &&
           channel_set_number(socket, ZMQ_SNDHWM, is_data ? 0 : LIMIT_CONTROL_QUEUE) &&
           channel_set_number(socket, ZMQ_RCVHWM,
                              is_data ? DATA_RECEIVE_QUEUE : CONTROL_RECEIVE_QUEUE) &&
           channel_set_number(socket, ZMQ_BACKLOG, BACKLOG) &&
           channel_set_number(socket, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS) &&
           channel_set_number(socket, ZMQ_LINGER, LINGER_MS);
}

/* What the loop wants to know of connections; see drain_monitor() and figures.c. */
#define MONITORED                                                                                  \
    (ZMQ_EVENT_LISTENING | ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_ACCEPT_FAILED | ZMQ_EVENT_DISCONNECTED | \
     ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |                        \
     ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)

bool channel_open(struct channel *channel, void *context, enum lane lane)
{
    static const char *const monitor_names[] = {"inproc://monitor-control",
                                                "inproc://monitor-data"};
    channel->lane = lane;
    channel->socket = zmq_socket(context, ZMQ_ROUTER);
    channel->monitor = zmq_socket(context, ZMQ_PAIR);
    if (channel->socket == NULL || channel->monitor == NULL || !set_options(channel) ||
        zmq_socket_monitor(channel->socket, monitor_names[lane], MONITORED) != 0 ||
        !channel_set_number(channel->monitor, ZMQ_LINGER, 0) ||
        !channel_set_number(channel->monitor, ZMQ_RCVHWM, 0) ||
        zmq_connect(channel->monitor, monitor_names[lane]) != 0)
        return false;
    channel->fd = ready_fd(channel->socket);
    channel->monitor_fd = ready_fd(channel->monitor);
    return true;
}

bool channel_bind(struct channel *channel, const char *endpoint,
                  char complaint[ENDPOINT_COMPLAINT_BYTES])
{
    snprintf(channel->asked, sizeof channel->asked, "%s", endpoint);
    if (endpoint_bind(channel->socket, endpoint, channel->endpoint, complaint))
        return true;
    channel->endpoint[0] = '\0';
    return false;
}

/* zmq_unbind() would close all connections that came in by the endpoint: it is left alone. */
void channel_remove_endpoint(struct channel *channel)
{
    if (channel->endpoint[0] != '\0')
        endpoint_remove(channel->asked);
    channel->endpoint[0] = '\0';
}

void channel_close(struct channel *channel)
{
    if (channel->socket != NULL) {
        zmq_socket_monitor(channel->socket, NULL, 0);
        zmq_close(channel->socket);
    }
    if (channel->monitor != NULL)
        zmq_close(channel->monitor);
}

static int send_msg(void *socket, zmq_msg_t *msg, int flags)
{
    int sent;
    do {
        sent = zmq_msg_send(msg, socket, flags | ZMQ_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    return sent;
}

static int send_bytes(void *socket, const void *bytes, size_t count)
{
    int sent;
    do {
        sent = zmq_send(socket, bytes, count, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    return sent;
}

int channel_address(struct channel *channel, uint32_t routing)
{
    uint8_t id[RECEIVED_ROUTING_BYTES] = {0, (uint8_t)(routing >> 24), (uint8_t)(routing >> 16),
                                          (uint8_t)(routing >> 8), (uint8_t)routing};
    return send_bytes(channel->socket, id, sizeof id) >= 0 ? 0 : errno;
}

/* ROUTER takes the rest of a message whose address it took. */
void channel_send(struct channel *channel, const uint8_t *head, zmq_msg_t *part)
{
    if (channel->lane == LANE_DATA && head != NULL)
        must(send_bytes(channel->socket, head, DELIVERY_HEADER_BYTES) >= 0);
    must(send_msg(channel->socket, part, 0) >= 0);
}
