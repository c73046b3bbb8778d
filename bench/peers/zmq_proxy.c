/* SPDX-License-Identifier: MPL-2.0 */
/* zmq_proxy.c -- what Errbus is measured against: a plain XSUB/XPUB proxy of libzmq, with a
 * publisher and subscribers that do the same work.  Nothing is acknowledged, kept, or told of a
 * failure.
 *
 * Nobody drops (ZMQ_XPUB_NODROP): a full queue holds back whoever fills it, as in Errbus. */
#include "bench/harness.h"

#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define QUEUE_BYTES ((size_t)64 * 1024 * 1024)
#define QUEUE_MIN 16
#define QUEUE_MAX 100000
#define SUBSCRIBED_WITHIN_MS 2000

static void set(void *socket, int option, int value)
{
    if (zmq_setsockopt(socket, option, &value, sizeof value) != 0) {
        bench_die("zmq option %d: %s", option, zmq_strerror(zmq_errno()));
    }
}

static void *open_socket(void *context, int type, size_t bytes)
{
    void *socket = zmq_socket(context, type);
    size_t queue = QUEUE_BYTES / bytes;
    queue = queue < QUEUE_MIN ? QUEUE_MIN : queue > QUEUE_MAX ? QUEUE_MAX : queue;
    if (socket == NULL) {
        bench_die("zmq_socket: %s", zmq_strerror(zmq_errno()));
    }
    set(socket, ZMQ_SNDHWM, (int)queue);
    set(socket, ZMQ_RCVHWM, (int)queue);
    if (type == ZMQ_XPUB) {
        set(socket, ZMQ_XPUB_NODROP, 1);
        set(socket, ZMQ_XPUB_VERBOSE, 1);
    }
    return socket;
}

static void bind_and_tell(void *socket, char separator)
{
    char endpoint[128];
    size_t bytes = sizeof endpoint;
    if (zmq_bind(socket, "tcp://127.0.0.1:*") != 0 ||
        zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, endpoint, &bytes) != 0) {
        bench_die("zmq_bind: %s", zmq_strerror(zmq_errno()));
    }
    printf("%s%c", endpoint, separator);
}

static void connect_to(void *socket, const char *endpoint)
{
    if (zmq_connect(socket, endpoint) != 0) {
        bench_die("zmq_connect: %s", zmq_strerror(zmq_errno()));
    }
}

/* proxy BYTES: says "ready", then its two endpoints in one line; ends by being killed. */
static int proxy(void *context, char **words)
{
    size_t bytes = strtoul(words[0], NULL, 10);
    void *in = open_socket(context, ZMQ_XSUB, bytes);
    void *out = open_socket(context, ZMQ_XPUB, bytes);
    role_ready();
    bind_and_tell(in, ' ');
    bind_and_tell(out, '\n');
    fflush(stdout);
    zmq_proxy(in, out, NULL);
    return 0;
}

/* Each subscription comes by as a message; those that were there before we connected, as one. */
static void wait_for_readers(void *socket, size_t count)
{
    char subscription[64];
    set(socket, ZMQ_RCVTIMEO, SUBSCRIBED_WITHIN_MS);
    for (size_t i = 0; i < count; i++) {
        if (zmq_recv(socket, subscription, sizeof subscription, 0) < 1 && i == 0) {
            bench_die("no subscription: %s", zmq_strerror(zmq_errno()));
        }
    }
}

static void send_value(void *socket, const void *value, size_t bytes)
{
    if (zmq_send(socket, value, bytes, 0) != (int)bytes) {
        bench_die("zmq_send: %s", zmq_strerror(zmq_errno()));
    }
}

/* publish ENDPOINT BYTES COUNT READERS */
static int publish(void *context, char **words)
{
    size_t bytes = strtoul(words[1], NULL, 10);
    uint64_t count = strtoull(words[2], NULL, 10);
    void *socket = open_socket(context, ZMQ_XPUB, bytes);
    void *value = calloc(1, bytes);
    connect_to(socket, words[0]);
    role_ready();
    role_wait_go();
    wait_for_readers(socket, strtoul(words[3], NULL, 10));
    for (uint64_t i = 0; value != NULL && i < count; i++) {
        send_value(socket, value, bytes);
    }
    role_say_done(0);
    role_wait_go();
    free(value);
    return 0;
}

/* pace ENDPOINT BYTES COUNT EVERY_NS: values that say when they were sent */
static int pace(void *context, char **words)
{
    size_t bytes = strtoul(words[1], NULL, 10);
    uint64_t count = strtoull(words[2], NULL, 10);
    int64_t every_ns = strtoll(words[3], NULL, 10);
    void *socket = open_socket(context, ZMQ_XPUB, bytes);
    char *value = calloc(1, bytes);
    connect_to(socket, words[0]);
    role_ready();
    role_wait_go();
    wait_for_readers(socket, 1);
    int64_t at_ns = test_now_ns();
    for (uint64_t i = 0; value != NULL && i < count; i++) {
        bench_sleep_until(at_ns += every_ns);
        int64_t now_ns = test_now_ns();
        memcpy(value, &now_ns, sizeof now_ns);
        send_value(socket, value, bytes);
    }
    role_say_done(0);
    role_wait_go();
    free(value);
    return 0;
}

static void *open_reader(void *context, const char *endpoint, size_t bytes)
{
    void *socket = open_socket(context, ZMQ_SUB, bytes);
    connect_to(socket, endpoint);
    if (zmq_setsockopt(socket, ZMQ_SUBSCRIBE, "", 0) != 0) {
        bench_die("zmq subscribe: %s", zmq_strerror(zmq_errno()));
    }
    return socket;
}

static void receive_value(void *socket, size_t bytes, int64_t *out_sent_ns)
{
    zmq_msg_t msg;
    zmq_msg_init(&msg);
    if (zmq_msg_recv(&msg, socket, 0) != (int)bytes) {
        bench_die("not what was sent: %s", zmq_strerror(zmq_errno()));
    }
    memcpy(out_sent_ns, zmq_msg_data(&msg), sizeof *out_sent_ns);
    zmq_msg_close(&msg);
}

/* subscribe ENDPOINT BYTES COUNT */
static int subscribe(void *context, char **words)
{
    size_t bytes = strtoul(words[1], NULL, 10);
    uint64_t count = strtoull(words[2], NULL, 10);
    void *socket = open_reader(context, words[0], bytes);
    int64_t start_ns = 0;
    int64_t sent_ns = 0;
    role_ready();
    for (uint64_t i = 0; i < count; i++) {
        receive_value(socket, bytes, &sent_ns);
        if (i == count / 10) {
            start_ns = test_now_ns();
        }
    }
    role_say_done(test_now_ns() - start_ns);
    role_wait_go();
    return 0;
}

/* time ENDPOINT BYTES COUNT: how long each was on its way; the first tenth warms up */
static int time_values(void *context, char **words)
{
    struct samples samples = {.count = 0};
    size_t bytes = strtoul(words[1], NULL, 10);
    uint64_t count = strtoull(words[2], NULL, 10);
    void *socket = open_reader(context, words[0], bytes);
    role_ready();
    for (uint64_t i = 0; i < count; i++) {
        int64_t sent_ns = 0;
        receive_value(socket, bytes, &sent_ns);
        if (i >= count / 10) {
            samples_add(&samples, test_now_ns() - sent_ns);
        }
    }
    role_say_done((int64_t)samples.count);
    samples_say(&samples);
    role_wait_go();
    samples_fini(&samples);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int words;
        int (*run)(void *context, char **words);
    } roles[] = {{"proxy", 1, proxy},
                 {"publish", 4, publish},
                 {"pace", 4, pace},
                 {"subscribe", 3, subscribe},
                 {"time", 3, time_values}};
    void *context = zmq_ctx_new();
    for (size_t i = 0; argc > 1 && i < sizeof roles / sizeof roles[0]; i++) {
        if (strcmp(argv[1], roles[i].name) == 0 && argc == roles[i].words + 2) {
            return roles[i].run(context, argv + 2); /* the context ends with the process */
        }
    }
    fprintf(stderr, "usage: zmq_proxy ROLE ..., started by the questions\n");
    return 2;
}
