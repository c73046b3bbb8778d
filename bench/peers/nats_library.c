/* SPDX-License-Identifier: MPL-2.0 */
/* nats_library.c -- NATS through its C library (libnats), as its users meet it.  At a steady pace
 * each value is sent at once (natsOptions_SetSendAsap); else the library gathers.
 *
 * Mode "": NATS core, nothing is kept.  Mode "file": JetStream with storage in files; each value is
 * acknowledged to its writer once it is stored (which syncs nothing), many at a time. */
#include "bench/peer.h"
#include "bench/peers/nats_server.h"
#include "bench/stream.h"

#include <nats/nats.h>

#define WITHIN_MS 60000
#define UNACKNOWLEDGED_MAX 1024

struct client {
    natsConnection *connection;
    natsSubscription *subscription;
    jsCtx *stream; /* NULL: NATS core */
    const char *topic;
    size_t bytes;
    bool is_paced;
};

static void check(natsStatus status, const char *what)
{
    if (status != NATS_OK) {
        bench_die("libnats: %s: %s", what, natsStatus_GetText(status));
    }
}

static void open_stream(struct client *client)
{
    jsOptions options;
    check(jsOptions_Init(&options), "options");
    options.PublishAsync.MaxPending = UNACKNOWLEDGED_MAX;
    options.Wait = WITHIN_MS;
    check(natsConnection_JetStream(&client->stream, client->connection, &options), "jetstream");
}

static struct client *open_client(const struct peer_work *work)
{
    char url[64];
    natsOptions *options = NULL;
    struct client *client = peer_allocate(sizeof *client);
    client->topic = work->topic;
    client->bytes = work->bytes;
    client->is_paced = work->every_ns > 0;
    snprintf(url, sizeof url, "nats://127.0.0.1:%u", stream_port(work->at));
    stream_await(work->at);
    check(natsOptions_Create(&options), "options");
    check(natsOptions_SetURL(options, url), "url");
    check(natsOptions_SetSendAsap(options, client->is_paced), "send asap");
    check(natsConnection_Connect(&client->connection, options), "connect");
    natsOptions_Destroy(options);
    if (work->mode[0] != '\0') {
        open_stream(client);
    }
    return client;
}

/* ---- writing ----------------------------------------------------------------------------------*/

static void add_stream(struct client *client)
{
    jsStreamConfig config;
    const char *subjects[] = {client->topic};
    check(jsStreamConfig_Init(&config), "stream");
    config.Name = client->topic;
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    config.Storage = js_FileStorage;
    check(js_AddStream(NULL, client->stream, &config, NULL, NULL), "stream");
}

static void *open_writer(const struct peer_work *work)
{
    struct client *client = open_client(work);
    if (client->stream != NULL) {
        add_stream(client);
    }
    return client;
}

static void send_values(void *context, const char *values, size_t count)
{
    struct client *client = context;
    int bytes = (int)client->bytes;
    for (size_t i = 0; i < count; i++) {
        const char *value = values + i * client->bytes;
        check(client->stream != NULL
                  ? js_PublishAsync(client->stream, client->topic, value, bytes, NULL)
                  : natsConnection_Publish(client->connection, client->topic, value, bytes),
              "publish");
    }
}

static void flush(void *context)
{
    struct client *client = context;
    if (client->is_paced) {
        return; /* each was sent at once */
    }
    check(client->stream != NULL ? js_PublishAsyncComplete(client->stream, NULL)
                                 : natsConnection_FlushTimeout(client->connection, WITHIN_MS),
          "flush");
}

/* ---- reading ----------------------------------------------------------------------------------*/

static void subscribe_stream(struct client *client)
{
    jsSubOptions options;
    check(jsSubOptions_Init(&options), "options");
    options.Config.AckPolicy = js_AckNone;
    options.Config.DeliverPolicy = js_DeliverAll;
    check(js_SubscribeSync(&client->subscription, client->stream, client->topic, NULL, &options,
                           NULL),
          "subscribe");
}

static void *open_reader(const struct peer_work *work)
{
    struct client *client = open_client(work);
    if (client->stream != NULL) {
        subscribe_stream(client);
    } else {
        check(natsConnection_SubscribeSync(&client->subscription, client->connection, work->topic),
              "subscribe");
    }
    check(natsSubscription_SetPendingLimits(client->subscription, -1, -1), "limits");
    check(natsConnection_FlushTimeout(client->connection, WITHIN_MS), "flush");
    return client;
}

static void read_all(void *context, struct tally *tally)
{
    struct client *client = context;
    while (!tally_is_full(tally)) {
        natsMsg *msg = NULL;
        check(natsSubscription_NextMsg(&msg, client->subscription, WITHIN_MS), "next");
        tally_value(tally, natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg));
        natsMsg_Destroy(msg);
    }
}

int main(int argc, char **argv)
{
    static const struct peer peer = {nats_server, open_writer, NULL,    send_values,
                                     flush,       open_reader, read_all};
    return peer_main(&peer, argc, argv);
}
