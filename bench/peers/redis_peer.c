/* SPDX-License-Identifier: MPL-2.0 */
/* redis_peer.c -- Redis through hiredis, commands in pipelines.  Mode "pubsub": PUBLISH, nothing is
 * kept; mode "stream": XADD and a blocking XREAD of whatever is there, all in memory. */
#include "bench/peer.h"
#include "bench/stream.h"
#include "tests/lib/folder.h"

#include <hiredis/hiredis.h>
#include <string.h>

#define PIPELINE_COMMANDS 512
#define PIPELINE_BYTES ((size_t)128 * 1024)
#define READ_COUNT "1000" /* entries a command */
#define POSITION_BYTES 64

struct client {
    redisContext *redis;
    const char *topic;
    size_t bytes;
    bool is_stream;
    size_t held;                   /* commands that were not sent yet */
    size_t unanswered;             /* of those sent */
    char position[POSITION_BYTES]; /* in the stream, of the last entry */
};

static void serve(const struct peer_work *work)
{
    char port[16];
    char path[FOLDER_PATH_BYTES_MAX + 16];
    snprintf(port, sizeof port, "%u", work->is_ipc != 0 ? 0 : stream_free_port());
    snprintf(path, sizeof path, "%s/redis", work->folder);
    if (work->is_ipc != 0) {
        peer_tell_endpoint("unix:%s", path);
    } else {
        peer_tell_endpoint("tcp:%s", port);
    }
    const char *const argv[] = {"redis-server",
                                "--port",
                                port,
                                "--bind",
                                "127.0.0.1",
                                "--unixsocket",
                                path,
                                "--dir",
                                work->folder,
                                "--save",
                                "",
                                "--appendonly",
                                "no",
                                "--client-output-buffer-limit",
                                "pubsub 0 0 0",
                                NULL};
    peer_become_server(work, argv);
}

static void check(struct client *client, bool is_done, const char *what)
{
    if (!is_done) {
        bench_die("hiredis: %s: %s", what, client->redis->errstr);
    }
}

static redisReply *next_reply(struct client *client)
{
    void *reply = NULL;
    check(client, redisGetReply(client->redis, &reply) == REDIS_OK, "reply");
    redisReply *answer = reply;
    if (answer->type == REDIS_REPLY_ERROR) {
        bench_die("redis-server: %s", answer->str);
    }
    return answer;
}

static struct client *open_client(const struct peer_work *work)
{
    struct client *client = peer_allocate(sizeof *client);
    const char *path = stream_path(work->at);
    client->topic = work->topic;
    client->bytes = work->bytes;
    client->is_stream = strcmp(work->mode, "stream") == 0;
    snprintf(client->position, sizeof client->position, "0-0");
    stream_await(work->at);
    client->redis = path != NULL ? redisConnectUnix(path)
                                 : redisConnect("127.0.0.1", (int)stream_port(work->at));
    if (client->redis == NULL || client->redis->err != 0) {
        bench_die("hiredis: connect: %s", client->redis != NULL ? client->redis->errstr : "?");
    }
    return client;
}

/* ---- writing ----------------------------------------------------------------------------------*/

static void *open_writer(const struct peer_work *work)
{
    return open_client(work);
}

/* Sends what is held back, and takes answers until at most so many are due. */
static void push(struct client *client, size_t unanswered_max)
{
    int is_done = 0;
    while (is_done == 0) {
        check(client, redisBufferWrite(client->redis, &is_done) == REDIS_OK, "write");
    }
    client->unanswered += client->held;
    client->held = 0;
    for (; client->unanswered > unanswered_max; client->unanswered--) {
        freeReplyObject(next_reply(client));
    }
}

static void hold(struct client *client, const char *value)
{
    const char *publish[] = {"PUBLISH", client->topic, value};
    const size_t publish_bytes[] = {7, strlen(client->topic), client->bytes};
    const char *add[] = {"XADD", client->topic, "*", "v", value};
    const size_t add_bytes[] = {4, strlen(client->topic), 1, 1, client->bytes};
    int result = client->is_stream
                     ? redisAppendCommandArgv(client->redis, 5, add, add_bytes)
                     : redisAppendCommandArgv(client->redis, 3, publish, publish_bytes);
    check(client, result == REDIS_OK, "append");
    client->held++;
}

static void send_values(void *context, const char *values, size_t count)
{
    struct client *client = context;
    for (size_t i = 0; i < count; i++) {
        hold(client, values + i * client->bytes);
        if (client->held >= PIPELINE_COMMANDS || client->held * client->bytes >= PIPELINE_BYTES) {
            push(client, client->held); /* one pipeline is answered while the next is sent */
        }
    }
}

static void flush(void *context)
{
    push(context, 0);
}

/* ---- reading ----------------------------------------------------------------------------------*/

static void *open_reader(const struct peer_work *work)
{
    struct client *client = open_client(work);
    if (!client->is_stream) {
        redisReply *reply = redisCommand(client->redis,
                                         strcmp(work->topic, PEER_ALL_TOPICS) == 0 ? "PSUBSCRIBE %s"
                                                                                   : "SUBSCRIBE %s",
                                         work->topic);
        check(client, reply != NULL && reply->type == REDIS_REPLY_ARRAY, "subscribe");
        freeReplyObject(reply);
    }
    return client;
}

static const redisReply *element(const redisReply *reply, size_t index)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements <= index) {
        bench_die("redis-server: not an answer that has %zu elements", index + 1);
    }
    return reply->element[index];
}

static void read_published(struct client *client, struct tally *tally)
{
    while (!tally_is_full(tally)) {
        redisReply *reply = next_reply(client);
        const redisReply *value = element(reply, reply->elements > 3 ? 3 : 2); /* the last */
        tally_value(tally, value->str, (size_t)value->len);
        freeReplyObject(reply);
    }
}

/* [[stream, [[id, [name, value]], ...]]] */
static void read_stream(struct client *client, struct tally *tally)
{
    while (!tally_is_full(tally)) {
        redisReply *reply =
            redisCommand(client->redis, "XREAD COUNT " READ_COUNT " BLOCK 0 STREAMS %s %s",
                         client->topic, client->position);
        check(client, reply != NULL, "read");
        const redisReply *entries = element(element(reply, 0), 1);
        for (size_t i = 0; i < entries->elements && !tally_is_full(tally); i++) {
            const redisReply *value = element(element(entries->element[i], 1), 1);
            tally_value(tally, value->str, (size_t)value->len);
            snprintf(client->position, sizeof client->position, "%s",
                     element(entries->element[i], 0)->str);
        }
        freeReplyObject(reply);
    }
}

static void read_all(void *context, struct tally *tally)
{
    struct client *client = context;
    if (client->is_stream) {
        read_stream(client, tally);
    } else {
        read_published(client, tally);
    }
}

int main(int argc, char **argv)
{
    static const struct peer peer = {serve, open_writer, NULL,    send_values,
                                     flush, open_reader, read_all};
    return peer_main(&peer, argc, argv);
}
