/* SPDX-License-Identifier: MPL-2.0 */
/* mqtt_peer.c -- mosquitto through libmosquitto, QoS 0: at most once, nothing is acknowledged. */
#include "bench/peer.h"
#include "bench/stream.h"
#include "tests/lib/folder.h"

#include <mosquitto.h>
#include <string.h>

#define KEEP_ALIVE_S 600
#define LOOP_MS 1000

struct client {
    struct mosquitto *mosquitto;
    struct tally *tally; /* of a reader, while it reads */
    const char *topic;
    size_t bytes;
    bool is_welcome; /* connected, or subscribed */
};

static void check(int result, const char *what)
{
    if (result != MOSQ_ERR_SUCCESS) {
        bench_die("libmosquitto: %s: %s", what, mosquitto_strerror(result));
    }
}

static void serve(const struct peer_work *work)
{
    char text[2 * FOLDER_PATH_BYTES_MAX + 256];
    char where[FOLDER_PATH_BYTES_MAX + 16];
    char path[FOLDER_PATH_BYTES_MAX];
    unsigned port = stream_free_port();
    if (work->is_ipc != 0) {
        snprintf(where, sizeof where, "0 %s/mqtt", work->folder);
    } else {
        snprintf(where, sizeof where, "%u 127.0.0.1", port);
    }
    /* It stays who it is, so that its socket can be in our folder. */
    snprintf(text, sizeof text,
             "listener %s\nallow_anonymous true\npersistence false\nmax_queued_messages 0\n"
             "max_queued_bytes 0\nset_tcp_nodelay true\nlog_dest stderr\nlog_type error\n"
             "user root\n",
             where);
    peer_write_file(work, "mosquitto.conf", text, path);
    if (work->is_ipc != 0) {
        peer_tell_endpoint("unix:%s/mqtt", work->folder);
    } else {
        peer_tell_endpoint("tcp:%u", port);
    }
    const char *const argv[] = {"mosquitto", "-c", path, NULL};
    peer_become_server(work, argv);
}

static void on_connect(struct mosquitto *mosquitto, void *context, int result)
{
    struct client *client = context;
    (void)mosquitto;
    check(result, "connect");
    client->is_welcome = true;
}

static void on_subscribe(struct mosquitto *mosquitto, void *context, int id, int count,
                         const int *granted)
{
    struct client *client = context;
    (void)mosquitto;
    (void)id;
    client->is_welcome = count == 1 && granted[0] == 0;
}

static void on_message(struct mosquitto *mosquitto, void *context,
                       const struct mosquitto_message *message)
{
    struct client *client = context;
    (void)mosquitto;
    if (client->tally != NULL && !tally_is_full(client->tally)) {
        tally_value(client->tally, message->payload, (size_t)message->payloadlen);
    }
}

static void await_welcome(struct client *client)
{
    client->is_welcome = false;
    while (!client->is_welcome) {
        check(mosquitto_loop(client->mosquitto, LOOP_MS, 1), "loop");
    }
}

static struct client *open_client(const struct peer_work *work)
{
    struct client *client = peer_allocate(sizeof *client);
    const char *path = stream_path(work->at);
    client->topic = work->topic;
    client->bytes = work->bytes;
    stream_await(work->at);
    check(mosquitto_lib_init(), "init");
    client->mosquitto = mosquitto_new(NULL, true, client);
    if (client->mosquitto == NULL) {
        bench_die("libmosquitto: no memory");
    }
    mosquitto_connect_callback_set(client->mosquitto, on_connect);
    mosquitto_subscribe_callback_set(client->mosquitto, on_subscribe);
    mosquitto_message_callback_set(client->mosquitto, on_message);
    check(mosquitto_int_option(client->mosquitto, MOSQ_OPT_TCP_NODELAY, 1), "no delay");
    check(mosquitto_connect(client->mosquitto, path != NULL ? path : "127.0.0.1",
                            (int)stream_port(work->at), KEEP_ALIVE_S),
          "connect");
    await_welcome(client);
    return client;
}

static void *open_writer(const struct peer_work *work)
{
    return open_client(work);
}

static void flush(void *context)
{
    struct client *client = context;
    while (mosquitto_want_write(client->mosquitto)) {
        check(mosquitto_loop(client->mosquitto, LOOP_MS, 1), "loop");
    }
}

static void send_values(void *context, const char *values, size_t count)
{
    struct client *client = context;
    for (size_t i = 0; i < count; i++) {
        check(mosquitto_publish(client->mosquitto, NULL, client->topic, (int)client->bytes,
                                values + i * client->bytes, 0, false),
              "publish");
        flush(client); /* the library's queue has no bound */
    }
}

static void *open_reader(const struct peer_work *work)
{
    struct client *client = open_client(work);
    bool is_all = strcmp(work->topic, PEER_ALL_TOPICS) == 0;
    check(mosquitto_subscribe(client->mosquitto, NULL, is_all ? "+" : work->topic, 0), "subscribe");
    await_welcome(client);
    return client;
}

static void read_all(void *context, struct tally *tally)
{
    struct client *client = context;
    client->tally = tally;
    while (!tally_is_full(tally)) {
        check(mosquitto_loop(client->mosquitto, LOOP_MS, 1), "loop");
    }
}

int main(int argc, char **argv)
{
    static const struct peer peer = {serve, open_writer, NULL,    send_values,
                                     flush, open_reader, read_all};
    return peer_main(&peer, argc, argv);
}
