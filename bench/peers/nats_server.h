/* SPDX-License-Identifier: MPL-2.0 */
/* nats_server.h -- a nats-server of one's own, for the programs that measure it.  Its bounds are
 * wide enough that it cuts off no reader that is a moment behind; a writer that is far ahead is
 * held back by it. */
#ifndef BENCH_PEERS_NATS_SERVER_H
#define BENCH_PEERS_NATS_SERVER_H

#include "bench/peer.h"
#include "bench/stream.h"
#include "tests/lib/folder.h"

/* mode "file": with JetStream, which stores in the folder. */
static inline void nats_server(const struct peer_work *work)
{
    char text[512];
    char path[FOLDER_PATH_BYTES_MAX];
    char store[FOLDER_PATH_BYTES_MAX + 64] = "";
    unsigned port = stream_free_port();
    if (work->mode[0] != '\0') {
        snprintf(store, sizeof store, "jetstream { store_dir: \"%s/store\" }\n", work->folder);
    }
    snprintf(text, sizeof text,
             "listen: \"127.0.0.1:%u\"\nmax_payload: 67108864\nmax_pending: 268435456\n"
             "write_deadline: \"60s\"\nping_interval: \"10m\"\n%s",
             port, store);
    peer_write_file(work, "nats.conf", text, path);
    peer_tell_endpoint("tcp:%u", port);
    const char *const argv[] = {"nats-server", "-c", path, NULL};
    peer_become_server(work, argv);
}

#endif
