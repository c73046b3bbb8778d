/* SPDX-License-Identifier: MPL-2.0 */
/* crowd.c -- see crowd.h. */
#include "tests/lib/crowd.h"

#include <criterion/criterion.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <zmq.h>

enum { ANSWER_BYTES = 2048, WELCOME = 64 };

struct bytes {
    uint8_t at[CROWD_GREETING_BYTES];
    size_t count;
    bool is_full;
};

static void put(struct bytes *bytes, const void *data, size_t count)
{
    bytes->is_full |= count > sizeof bytes->at - bytes->count;
    if (bytes->is_full)
        return;
    memcpy(bytes->at + bytes->count, data, count);
    bytes->count += count;
}

static void put_text(struct bytes *bytes, const char *text)
{
    put(bytes, (uint8_t[]){0xd9, (uint8_t)strlen(text)}, 2);
    put(bytes, text, strlen(text));
}

static void put_number(struct bytes *bytes, uint32_t number)
{
    put(bytes,
        (uint8_t[]){0xce, (uint8_t)(number >> 24), (uint8_t)(number >> 16), (uint8_t)(number >> 8),
                    (uint8_t)number},
        5);
}

void crowd_make_key(const struct folder *folder, const char *name, struct crowd_pair *out_pair)
{
    struct crowd_pair pair;
    char source[FOLDER_PATH_BYTES_MAX];
    cr_assert_eq(zmq_curve_keypair(pair.public_key, pair.secret_key), 0);
    cr_assert(folder_write(folder, "z85", pair.secret_key, source));
    cr_assert_eq(chmod(source, 0600), 0);
    snprintf(pair.file, sizeof pair.file, "%s/%.32s.key", folder->path, name);
    cr_assert_eq(bus_key_import(pair.file, source, pair.text, NULL), BUS_OK);
    *out_pair = pair;
}

void *crowd_dial(void *context, const char *endpoint, const struct crowd_keys *keys)
{
    int linger_ms = 0;
    void *socket = zmq_socket(context, ZMQ_DEALER);
    if (socket == NULL)
        return NULL;
    zmq_setsockopt(socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    if (keys != NULL) {
        zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, keys->broker, CROWD_KEY_BYTES);
        zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, keys->own, CROWD_KEY_BYTES);
        zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, keys->own_secret, CROWD_KEY_BYTES);
    }
    (void)zmq_connect(socket, endpoint); /* or nothing is sent */
    return socket;
}

/* [1, major, minor, version, credentials, job, party, role, token, heartbeat_ms, lost_after_ms,
 * grace_ms]: the row HELLO of messages.def */
bool crowd_greet(void *socket, const char *party, uint32_t heartbeat_ms)
{
    struct bytes bytes = {.count = 0};
    put(&bytes, (uint8_t[]){0x9c, 1, 1, 0}, 4);
    put_text(&bytes, "crowd");
    put(&bytes, (uint8_t[]){0xc4, 0}, 2);
    put_text(&bytes, "default");
    put_text(&bytes, party);
    put(&bytes, (uint8_t[]){0, 0}, 2);
    put_number(&bytes, heartbeat_ms);
    put_number(&bytes, 100 * heartbeat_ms);
    put_number(&bytes, heartbeat_ms);
    return !bytes.is_full &&
           zmq_send(socket, bytes.at, bytes.count, ZMQ_DONTWAIT) == (int)bytes.count;
}

bool crowd_is_welcome(void *socket, int64_t timeout_ms)
{
    uint8_t answer[ANSWER_BYTES];
    zmq_pollitem_t item = {.socket = socket, .events = ZMQ_POLLIN};
    if (zmq_poll(&item, 1, (long)timeout_ms) != 1)
        return false;
    int count = zmq_recv(socket, answer, sizeof answer, ZMQ_DONTWAIT);
    return count > 4 && (answer[0] == 0xdc ? answer[3] : answer[1]) == WELCOME;
}

/* [5, sent_ns, trip_ns, broker_ns]: the row BEAT of messages.def */
bool crowd_beat(void *socket)
{
    static const uint8_t beat[] = {0x94, 5, 0, 0, 0};
    return zmq_send(socket, beat, sizeof beat, ZMQ_DONTWAIT) == (int)sizeof beat;
}
