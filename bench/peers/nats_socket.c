/* SPDX-License-Identifier: MPL-2.0 */
/* nats_socket.c -- NATS core over a bare socket: the protocol of docs.nats.io ("Client Protocol")
 * written by hand, many values in one write.  What NATS reaches without the cost of a library. */
#include "bench/peer.h"
#include "bench/peers/nats_server.h"
#include "bench/stream.h"

#include <stdlib.h>
#include <string.h>

#define CONNECT                                                                                    \
    "CONNECT {\"verbose\":false,\"pedantic\":false,\"echo\":false,\"lang\":\"c\","                 \
    "\"version\":\"1\"}\r\n"

struct client {
    struct outlet outlet;
    struct inlet inlet;
    char head[64]; /* of each value that is sent */
    size_t head_bytes;
    size_t bytes;
};

static void say(struct client *client, const char *text)
{
    outlet_add(&client->outlet, text, strlen(text));
}

/* All that was said before is in force when the server answers. */
static void await_pong(struct client *client)
{
    const char *line = NULL;
    size_t bytes = 0;
    say(client, "PING\r\n");
    outlet_flush(&client->outlet);
    do {
        line = inlet_line(&client->inlet, &bytes);
        if (bytes >= 4 && strncmp(line, "-ERR", 4) == 0) {
            bench_die("nats-server: %.*s", (int)bytes, line);
        }
    } while (bytes != 4 || strncmp(line, "PONG", 4) != 0);
}

static struct client *open_client(const struct peer_work *work)
{
    struct client *client = peer_allocate(sizeof *client);
    int fd = stream_connect(work->at);
    outlet_init(&client->outlet, fd);
    inlet_init(&client->inlet, fd, work->bytes + 256);
    client->bytes = work->bytes;
    client->head_bytes = (size_t)snprintf(client->head, sizeof client->head, "PUB %s %zu\r\n",
                                          work->topic, client->bytes);
    say(client, CONNECT);
    await_pong(client);
    return client;
}

static void *open_writer(const struct peer_work *work)
{
    return open_client(work);
}

static void send_values(void *context, const char *values, size_t count)
{
    struct client *client = context;
    for (size_t i = 0; i < count; i++) {
        outlet_add(&client->outlet, client->head, client->head_bytes);
        outlet_add(&client->outlet, values + i * client->bytes, client->bytes);
        outlet_add(&client->outlet, "\r\n", 2);
    }
}

static void flush(void *context)
{
    struct client *client = context;
    outlet_flush(&client->outlet);
}

static void *open_reader(const struct peer_work *work)
{
    char text[64];
    struct client *client = open_client(work);
    snprintf(text, sizeof text, "SUB %s 1\r\n", work->topic);
    say(client, text);
    await_pong(client);
    return client;
}

/* "MSG v 1 256": the bytes of the value that follows. */
static size_t announced(const char *line, size_t bytes)
{
    size_t number = 0;
    size_t ten = 1;
    for (size_t i = bytes; i > 0 && line[i - 1] >= '0' && line[i - 1] <= '9'; i--) {
        number += ten * (size_t)(line[i - 1] - '0');
        ten *= 10;
    }
    return number;
}

static void read_all(void *context, struct tally *tally)
{
    struct client *client = context;
    while (!tally_is_full(tally)) {
        size_t bytes = 0;
        const char *line = inlet_line(&client->inlet, &bytes);
        if (bytes > 4 && memcmp(line, "MSG ", 4) == 0) {
            size_t value_bytes = announced(line, bytes);
            tally_value(tally, inlet_need(&client->inlet, value_bytes + 2), value_bytes);
            inlet_take(&client->inlet, value_bytes + 2);
        } else if (bytes == 4 && memcmp(line, "PING", 4) == 0) {
            say(client, "PONG\r\n");
            outlet_flush(&client->outlet);
        } else {
            bench_die("nats-server: %.*s", (int)bytes, line);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct peer peer = {nats_server, open_writer, NULL,    send_values,
                                     flush,       open_reader, read_all};
    return peer_main(&peer, argc, argv);
}
