/* SPDX-License-Identifier: MPL-2.0 */
/* zmq_proxy.c -- libzmq's own proxy between an XSUB and an XPUB socket, a message a value.  Nothing
 * is acknowledged, kept, or told of a failure.
 *
 * Nobody drops (ZMQ_XPUB_NODROP): a full queue holds back whoever fills it, as in Errbus. */
#include "bench/peer.h"
#include "bench/peers/zmq_socket.h"

#include <string.h>

#define QUEUE_BYTES ((size_t)8 * 1024 * 1024)
#define QUEUE_MIN 4
#define QUEUE_MAX 100000
#define SUBSCRIBED_WITHIN_MS 2000

struct client {
    void *socket;
    size_t bytes;
    char topic; /* the first byte of each message */
};

static void *open_socket(int type, size_t bytes)
{
    size_t queue = QUEUE_BYTES / (bytes > 0 ? bytes : 1);
    queue = queue < QUEUE_MIN ? QUEUE_MIN : queue > QUEUE_MAX ? QUEUE_MAX : queue;
    void *socket = zmq_socket_open(type, (int)queue);
    if (type == ZMQ_XPUB) {
        zmq_socket_set(socket, ZMQ_XPUB_NODROP, 1);
        zmq_socket_set(socket, ZMQ_XPUB_VERBOSE, 1);
    }
    return socket;
}

/* Where writers go, and where readers go. */
static void serve(const struct peer_work *work)
{
    char writers[ZMQ_ENDPOINT_BYTES];
    char readers[ZMQ_ENDPOINT_BYTES];
    void *in = open_socket(ZMQ_XSUB, work->bytes);
    void *out = open_socket(ZMQ_XPUB, work->bytes);
    zmq_socket_bind(in, work, "writers", writers);
    zmq_socket_bind(out, work, "readers", readers);
    peer_tell_endpoint("%s,%s", writers, readers);
    zmq_proxy(in, out, NULL);
}

static struct client *open_client(const struct peer_work *work, int type)
{
    char text[2 * ZMQ_ENDPOINT_BYTES];
    struct client *client = peer_allocate(sizeof *client);
    client->bytes = work->bytes;
    client->topic = work->topic[0];
    client->socket = open_socket(type, work->bytes);
    snprintf(text, sizeof text, "%s", work->at);
    char *comma = strchr(text, ',');
    if (comma == NULL) {
        bench_die("not two endpoints: %s", text);
    }
    *comma = '\0';
    zmq_socket_connect(client->socket, type == ZMQ_SUB ? comma + 1 : text);
    return client;
}

static void *open_writer(const struct peer_work *work)
{
    return open_client(work, ZMQ_XPUB);
}

/* Each subscription comes by as a message; those that were there before we connected, as one. */
static void await_readers(void *context, uint64_t count)
{
    struct client *client = context;
    zmq_socket_set(client->socket, ZMQ_RCVTIMEO, SUBSCRIBED_WITHIN_MS);
    for (uint64_t seen = 0; seen < count;) {
        char subscription[64] = "";
        int bytes = zmq_recv(client->socket, subscription, sizeof subscription, 0);
        if (bytes < 0 && seen == 0) {
            bench_die("no subscription: %s", zmq_strerror(zmq_errno()));
        }
        if (bytes < 0) {
            break;
        }
        seen += bytes == 1 || subscription[1] == client->topic ? 1 : 0; /* all, or ours */
    }
}

static void send_values(void *context, const char *values, size_t count)
{
    struct client *client = context;
    for (size_t i = 0; i < count; i++) {
        zmq_msg_t msg;
        if (zmq_msg_init_size(&msg, client->bytes + 1) != 0) {
            bench_die("no memory");
        }
        char *bytes = zmq_msg_data(&msg);
        bytes[0] = client->topic;
        memcpy(bytes + 1, values + i * client->bytes, client->bytes);
        if (zmq_msg_send(&msg, client->socket, 0) < 0) {
            bench_die("zmq_msg_send: %s", zmq_strerror(zmq_errno()));
        }
    }
}

static void flush(void *context)
{
    (void)context; /* libzmq sends by itself */
}

static void *open_reader(const struct peer_work *work)
{
    struct client *client = open_client(work, ZMQ_SUB);
    size_t prefix_bytes = strcmp(work->topic, PEER_ALL_TOPICS) == 0 ? 0 : 1;
    if (zmq_setsockopt(client->socket, ZMQ_SUBSCRIBE, work->topic, prefix_bytes) != 0) {
        bench_die("zmq subscribe: %s", zmq_strerror(zmq_errno()));
    }
    return client;
}

static void read_all(void *context, struct tally *tally)
{
    struct client *client = context;
    while (!tally_is_full(tally)) {
        zmq_msg_t msg;
        zmq_msg_init(&msg);
        if (zmq_msg_recv(&msg, client->socket, 0) < 1) {
            bench_die("zmq_msg_recv: %s", zmq_strerror(zmq_errno()));
        }
        tally_value(tally, (const char *)zmq_msg_data(&msg) + 1, zmq_msg_size(&msg) - 1);
        zmq_msg_close(&msg);
    }
}

int main(int argc, char **argv)
{
    static const struct peer peer = {serve, open_writer, await_readers, send_values,
                                     flush, open_reader, read_all};
    return peer_main(&peer, argc, argv);
}
