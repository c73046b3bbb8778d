/* SPDX-License-Identifier: MPL-2.0 */
/* zmq_socket.h -- sockets of libzmq for the programs that measure it; all end the program where
 * they fail. */
#ifndef BENCH_PEERS_ZMQ_SOCKET_H
#define BENCH_PEERS_ZMQ_SOCKET_H

#include "bench/peer.h"

#include <zmq.h>

#define ZMQ_ENDPOINT_BYTES 256

static inline void zmq_socket_set(void *socket, int option, int value)
{
    if (zmq_setsockopt(socket, option, &value, sizeof value) != 0) {
        bench_die("zmq option %d: %s", option, zmq_strerror(zmq_errno()));
    }
}

/* queue: messages in each direction, 0: no bound.  The context goes with the process. */
static inline void *zmq_socket_open(int type, int queue)
{
    static void *context;
    context = context != NULL ? context : zmq_ctx_new();
    void *socket = zmq_socket(context, type);
    if (socket == NULL) {
        bench_die("zmq_socket: %s", zmq_strerror(zmq_errno()));
    }
    zmq_socket_set(socket, ZMQ_SNDHWM, queue);
    zmq_socket_set(socket, ZMQ_RCVHWM, queue);
    return socket;
}

/* On a free port, or under this name in the folder; endpoint has room for ZMQ_ENDPOINT_BYTES. */
static inline void zmq_socket_bind(void *socket, const struct peer_work *work, const char *name,
                                   char *endpoint)
{
    size_t bytes = ZMQ_ENDPOINT_BYTES;
    snprintf(endpoint, bytes, "tcp://127.0.0.1:*");
    if (work->is_ipc != 0) {
        snprintf(endpoint, bytes, "ipc://%s/%s", work->folder, name);
    }
    if (zmq_bind(socket, endpoint) != 0 ||
        zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, endpoint, &bytes) != 0) {
        bench_die("zmq_bind: %s", zmq_strerror(zmq_errno()));
    }
}

static inline void zmq_socket_connect(void *socket, const char *endpoint)
{
    if (zmq_connect(socket, endpoint) != 0) {
        bench_die("zmq_connect: %s", zmq_strerror(zmq_errno()));
    }
}

#endif
