/* SPDX-License-Identifier: MPL-2.0 */
/* errbus_peer.c -- Errbus itself in the roles of its peers.  Its modes:
 *
 *   many            bus_publish_many() and bus_sub_recv_many(); otherwise one call for each value.
 *   process, disk, shared   the broker has a journal, with that durability.
 *   curve           all that is sent is encrypted; curve_many: the same as many.
 *   short           the broker makes a writer wait once readers have not taken 2 MiB of a topic. */
#include "bench/curve.h"
#include "bench/peer.h"
#include "tests/lib/broker.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GROUP_MAX 1024
#define TOPIC_BYTES 64

struct client {
    struct bus *bus;
    struct bus_sub *sub;
    const char *topic;
    size_t bytes;
    bool is_many;
    bool is_paced;
};

static bool is_curve(const struct peer_work *work)
{
    return strncmp(work->mode, "curve", strlen("curve")) == 0;
}

/* The broker is a child of this process, and goes with it. */
static void serve(const struct peer_work *work)
{
    const char *more[12] = {NULL};
    size_t count = 0;
    struct broker broker;
    char control[BROKER_ENDPOINT_BYTES_MAX];
    char data[BROKER_ENDPOINT_BYTES_MAX];
    char journal[BROKER_ENDPOINT_BYTES_MAX];
    snprintf(control, sizeof control, "ipc://%s/control", work->folder);
    snprintf(data, sizeof data, "ipc://%s/data", work->folder);
    snprintf(journal, sizeof journal, "%s/journal", work->folder);
    if (work->is_ipc != 0) {
        more[count++] = "--control";
        more[count++] = control;
        more[count++] = "--data";
        more[count++] = data;
    }
    if (strcmp(work->mode, "process") == 0 || strcmp(work->mode, "disk") == 0 ||
        strcmp(work->mode, "shared") == 0) {
        more[count++] = "--journal";
        more[count++] = journal;
        more[count++] = "--durability";
        more[count++] = work->mode;
    }
    if (is_curve(work)) {
        count = curve_words(work->folder, more, count);
    }
    if (strcmp(work->mode, "short") == 0) {
        more[count++] = "--topic-window";
        more[count++] = "2M";
    }
    if (strcmp(work->mode, "spin") == 0) {
        more[count++] = "--spin";
    }
    if (!broker_start(&broker, more)) {
        bench_die("errbusd is not ready: %s", process_complained(&broker.process));
    }
    peer_tell_endpoint("%s", broker.control);
    role_wait_go();
    broker_fini(&broker);
}

static struct client *open_client(const struct peer_work *work, const char *party)
{
    struct client *client = peer_allocate(sizeof *client);
    client->topic = work->topic;
    client->bytes = work->bytes;
    client->is_many = strcmp(work->mode, "many") == 0 || strcmp(work->mode, "curve_many") == 0;
    client->is_paced = work->every_ns > 0;
    if (is_curve(work)) {
        curve_use(work->folder);
    }
    client->bus = bench_open(work->at, party);
    return client;
}

static void *open_writer(const struct peer_work *work)
{
    char party[TOPIC_BYTES];
    snprintf(party, sizeof party, "writer_%s", work->topic);
    return open_client(work, party);
}

static void send_values(void *context, const char *values, size_t count)
{
    struct client *client = context;
    if (client->is_many && count > 1) {
        struct bus_value together[GROUP_MAX];
        if (count > GROUP_MAX) {
            bench_die("%zu values are too many for one call", count);
        }
        for (size_t i = 0; i < count; i++) {
            together[i] = (struct bus_value){values + i * client->bytes, client->bytes};
        }
        bench_check(bus_publish_many(client->bus, client->topic, together, count), "publish");
        return;
    }
    for (size_t i = 0; i < count; i++) {
        bench_check(
            bus_publish(client->bus, client->topic, values + i * client->bytes, client->bytes),
            "publish");
    }
}

static void flush(void *context)
{
    struct client *client = context;
    if (!client->is_paced) {
        bench_check(bus_flush(client->bus, BUS_FOREVER), "flush");
    }
}

static void *open_reader(const struct peer_work *work)
{
    char text[TOPIC_BYTES];
    snprintf(text, sizeof text, "reader_%ld", (long)getpid());
    struct client *client = open_client(work, text);
    bool is_all = strcmp(work->topic, PEER_ALL_TOPICS) == 0;
    snprintf(text, sizeof text, "writer_%s/%s", work->topic, work->topic);
    client->sub = bench_subscribe(client->bus, is_all ? "+/+" : text);
    return client;
}

static void tally_many(struct tally *tally, const struct bus_msg *msg)
{
    size_t bytes = 0;
    size_t stride = 0;
    const char *value = bus_msg_value(msg, &bytes);
    size_t count = bus_msg_count(msg, &stride);
    for (size_t i = 0; i < count && !tally_is_full(tally); i++) {
        tally_value(tally, value + i * stride, bytes);
    }
}

static void read_many(struct client *client, struct tally *tally)
{
    while (!tally_is_full(tally)) {
        struct bus_msg *msg = NULL;
        bench_check(bus_sub_recv_many(client->sub, 60000, &msg, NULL), "receive");
        tally_many(tally, msg);
        bus_msg_free(&msg);
    }
}

static void read_all(void *context, struct tally *tally)
{
    struct client *client = context;
    if (client->is_many) {
        read_many(client, tally);
        return;
    }
    while (!tally_is_full(tally)) {
        struct bus_msg *msg = NULL;
        size_t bytes = 0;
        bench_check(bus_sub_recv(client->sub, 60000, &msg, NULL), "receive");
        const void *value = bus_msg_value(msg, &bytes);
        tally_value(tally, value, bytes);
        bus_msg_free(&msg);
    }
}

int main(int argc, char **argv)
{
    static const struct peer peer = {serve, open_writer, NULL,    send_values,
                                     flush, open_reader, read_all};
    return peer_main(&peer, argc, argv);
}
