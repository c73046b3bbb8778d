/* SPDX-License-Identifier: MPL-2.0 */
/* zmq_relay.c -- the floor: what a broker over libzmq reaches that does nothing but hand on.
 * Values travel in batches of up to 128 KiB from DEALER to ROUTER, and from ROUTER to each DEALER
 * that reads the topic, by reference; readers give back credit.  malloc is tuned in all processes.
 *
 * Nothing is numbered, kept, or told of a failure; a reader without credit holds back everybody. */
#include "bench/peer.h"
#include "bench/peers/zmq_socket.h"

#include <malloc.h>
#include <string.h>

#define BATCH_BYTES ((size_t)128 * 1024)
#define QUEUE_BYTES ((size_t)8 * 1024 * 1024)
#define WINDOW_BYTES ((size_t)4 * 1024 * 1024) /* on the way to one reader */
#define READERS_MAX 64
#define ID_BYTES_MAX 255
#define TAKE_MAX 64 /* messages from one socket before the other has its turn */

/* A batch: its topic, then for each value its bytes (uint32_t) and itself. */
#define HEAD_BYTES sizeof(uint32_t)

/* What readers say and hear: a join, its answer, and credit with the bytes that were taken. */
enum word_kind { WORD_JOIN = 1, WORD_CREDIT };
struct word {
    uint32_t kind;
    uint32_t number; /* topic, or bytes */
};

static void tune_malloc(void)
{
    mallopt(M_MMAP_THRESHOLD, 32 * 1024 * 1024); /* the most it takes */
    mallopt(M_TRIM_THRESHOLD, 512 * 1024 * 1024);
}

static void *open_socket(int type, size_t value_bytes)
{
    size_t message = value_bytes > BATCH_BYTES ? value_bytes : BATCH_BYTES;
    size_t queue = QUEUE_BYTES / message;
    return zmq_socket_open(type, queue < 2 ? 2 : (int)queue);
}

static void check(bool is_done, const char *what)
{
    if (!is_done) {
        bench_die("%s: %s", what, zmq_strerror(zmq_errno()));
    }
}

/* ---- the relay --------------------------------------------------------------------------------*/

struct reader {
    uint32_t topic;
    size_t on_its_way;
    size_t id_bytes;
    char id[ID_BYTES_MAX];
};

struct relay {
    void *in;
    void *out;
    size_t window;
    struct reader readers[READERS_MAX];
    size_t reader_count;
};

static struct reader *reader_of(struct relay *relay, const char *id, size_t id_bytes)
{
    for (size_t i = 0; i < relay->reader_count; i++) {
        struct reader *reader = &relay->readers[i];
        if (reader->id_bytes == id_bytes && memcmp(reader->id, id, id_bytes) == 0) {
            return reader;
        }
    }
    check(relay->reader_count < READERS_MAX, "too many readers");
    struct reader *reader = &relay->readers[relay->reader_count++];
    reader->id_bytes = id_bytes;
    memcpy(reader->id, id, id_bytes);
    return reader;
}

/* False: there is no word. */
static bool take_word(struct relay *relay)
{
    char id[ID_BYTES_MAX];
    struct word word;
    int id_bytes = zmq_recv(relay->out, id, sizeof id, ZMQ_DONTWAIT);
    if (id_bytes < 0) {
        return false;
    }
    check(zmq_recv(relay->out, &word, sizeof word, 0) == sizeof word, "a reader's word");
    struct reader *reader = reader_of(relay, id, (size_t)id_bytes);
    if (word.kind == WORD_CREDIT) {
        reader->on_its_way -= word.number;
        return true;
    }
    reader->topic = word.number;
    check(zmq_send(relay->out, id, (size_t)id_bytes, ZMQ_SNDMORE) == id_bytes, "an answer");
    check(zmq_send(relay->out, &word, sizeof word, 0) == sizeof word, "an answer");
    return true;
}

/* A reader has room as long as less than its window is on its way, so one batch always fits. */
static bool has_room(const struct relay *relay)
{
    for (size_t i = 0; i < relay->reader_count; i++) {
        if (relay->readers[i].on_its_way >= relay->window) {
            return false;
        }
    }
    return true;
}

static void hand_on(struct relay *relay, zmq_msg_t *batch)
{
    uint32_t topic = 0;
    memcpy(&topic, zmq_msg_data(batch), sizeof topic);
    for (size_t i = 0; i < relay->reader_count; i++) {
        struct reader *reader = &relay->readers[i];
        zmq_msg_t copy;
        if (reader->topic != topic && reader->topic != (uint32_t)PEER_ALL_TOPICS[0]) {
            continue;
        }
        zmq_msg_init(&copy);
        check(zmq_msg_copy(&copy, batch) == 0, "copy");
        check(zmq_send(relay->out, reader->id, reader->id_bytes, ZMQ_SNDMORE) >= 0, "hand on");
        check(zmq_msg_send(&copy, relay->out, 0) >= 0, "hand on");
        reader->on_its_way += zmq_msg_size(batch);
    }
}

/* False: there is no batch. */
static bool take_batch(struct relay *relay)
{
    char id[ID_BYTES_MAX];
    zmq_msg_t batch;
    if (zmq_recv(relay->in, id, sizeof id, ZMQ_DONTWAIT) < 0) {
        return false;
    }
    zmq_msg_init(&batch);
    check(zmq_msg_recv(&batch, relay->in, 0) >= (int)HEAD_BYTES, "a batch");
    hand_on(relay, &batch);
    zmq_msg_close(&batch);
    return true;
}

/* Where writers go, and where readers go. */
static void serve(const struct peer_work *work)
{
    char writers[ZMQ_ENDPOINT_BYTES];
    char readers[ZMQ_ENDPOINT_BYTES];
    struct relay *relay = peer_allocate(sizeof *relay);
    tune_malloc();
    relay->in = open_socket(ZMQ_ROUTER, work->bytes);
    relay->out = zmq_socket_open(ZMQ_ROUTER, 0); /* credit is its bound */
    relay->window = WINDOW_BYTES > 2 * work->bytes ? WINDOW_BYTES : 2 * work->bytes;
    zmq_socket_bind(relay->in, work, "writers", writers);
    zmq_socket_bind(relay->out, work, "readers", readers);
    peer_tell_endpoint("%s,%s", writers, readers);
    for (;;) {
        bool is_open = has_room(relay);
        zmq_pollitem_t items[] = {{relay->out, 0, ZMQ_POLLIN, 0}, {relay->in, 0, ZMQ_POLLIN, 0}};
        zmq_poll(items, is_open ? 2 : 1, -1);
        for (int i = 0; i < TAKE_MAX && take_word(relay); i++) {
        }
        for (int i = 0; i < TAKE_MAX && has_room(relay) && take_batch(relay); i++) {
        }
    }
}

/* ---- its clients ------------------------------------------------------------------------------*/

struct client {
    void *socket;
    size_t bytes;
    uint32_t topic;
    char *batch;
    size_t held; /* bytes in batch */
    size_t room;
    size_t taken; /* bytes since credit was given back */
    size_t credit_every;
};

static struct client *open_client(const struct peer_work *work, bool is_reader)
{
    char text[2 * ZMQ_ENDPOINT_BYTES];
    struct client *client = peer_allocate(sizeof *client);
    tune_malloc();
    client->bytes = work->bytes;
    client->topic = (uint32_t)work->topic[0];
    client->room = HEAD_BYTES + BATCH_BYTES;
    client->batch = peer_allocate(client->room);
    client->held = HEAD_BYTES;
    memcpy(client->batch, &client->topic, sizeof client->topic);
    client->credit_every = WINDOW_BYTES / 4;
    client->socket = open_socket(ZMQ_DEALER, work->bytes);
    snprintf(text, sizeof text, "%s", work->at);
    char *comma = strchr(text, ',');
    check(comma != NULL, "two endpoints");
    *comma = '\0';
    zmq_socket_connect(client->socket, is_reader ? comma + 1 : text);
    return client;
}

static void *open_writer(const struct peer_work *work)
{
    return open_client(work, false);
}

static void flush(void *context)
{
    struct client *client = context;
    if (client->held > HEAD_BYTES) {
        check(zmq_send(client->socket, client->batch, client->held, 0) >= 0, "send");
        client->held = HEAD_BYTES;
    }
}

/* One that is too large for a batch with others. */
static void send_alone(struct client *client, const char *value)
{
    uint32_t bytes = (uint32_t)client->bytes;
    zmq_msg_t msg;
    check(zmq_msg_init_size(&msg, HEAD_BYTES + sizeof bytes + client->bytes) == 0, "memory");
    char *at = zmq_msg_data(&msg);
    memcpy(at, &client->topic, HEAD_BYTES);
    memcpy(at + HEAD_BYTES, &bytes, sizeof bytes);
    memcpy(at + HEAD_BYTES + sizeof bytes, value, client->bytes);
    check(zmq_msg_send(&msg, client->socket, 0) >= 0, "send");
}

static void send_values(void *context, const char *values, size_t count)
{
    struct client *client = context;
    uint32_t bytes = (uint32_t)client->bytes;
    for (size_t i = 0; i < count; i++) {
        const char *value = values + i * client->bytes;
        if (HEAD_BYTES + sizeof bytes + client->bytes > client->room / 2) {
            send_alone(client, value);
            continue;
        }
        if (client->held + sizeof bytes + client->bytes > client->room) {
            flush(client);
        }
        memcpy(client->batch + client->held, &bytes, sizeof bytes);
        memcpy(client->batch + client->held + sizeof bytes, value, client->bytes);
        client->held += sizeof bytes + client->bytes;
    }
}

static void *open_reader(const struct peer_work *work)
{
    struct client *client = open_client(work, true);
    struct word word = {WORD_JOIN, client->topic};
    check(zmq_send(client->socket, &word, sizeof word, 0) == sizeof word, "join");
    check(zmq_recv(client->socket, &word, sizeof word, 0) == sizeof word, "join");
    return client;
}

static void give_back(struct client *client, size_t bytes)
{
    client->taken += bytes;
    if (client->taken >= client->credit_every) {
        struct word word = {WORD_CREDIT, (uint32_t)client->taken};
        check(zmq_send(client->socket, &word, sizeof word, 0) == sizeof word, "credit");
        client->taken = 0;
    }
}

static void read_batch(const char *at, const char *end, struct tally *tally)
{
    at += HEAD_BYTES;
    while (at < end && !tally_is_full(tally)) {
        uint32_t bytes = 0;
        memcpy(&bytes, at, sizeof bytes);
        at += sizeof bytes;
        if (bytes > (size_t)(end - at)) {
            bench_die("a batch is cut off");
        }
        tally_value(tally, at, bytes);
        at += bytes;
    }
}

static void read_all(void *context, struct tally *tally)
{
    struct client *client = context;
    while (!tally_is_full(tally)) {
        zmq_msg_t msg;
        zmq_msg_init(&msg);
        check(zmq_msg_recv(&msg, client->socket, 0) >= 0, "receive");
        const char *bytes = zmq_msg_data(&msg);
        read_batch(bytes, bytes + zmq_msg_size(&msg), tally);
        give_back(client, zmq_msg_size(&msg));
        zmq_msg_close(&msg);
    }
}

int main(int argc, char **argv)
{
    static const struct peer peer = {serve, open_writer, NULL,    send_values,
                                     flush, open_reader, read_all};
    return peer_main(&peer, argc, argv);
}
