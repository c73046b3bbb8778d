/* SPDX-License-Identifier: MPL-2.0 */
/* access_change.c -- see access_change.h. */
#include "broker/io/access_change.h"

#include <sys/socket.h>

/* For whoever lost access to hear why. */
#define REVOKED_NS INT64_C(1000000000)

void access_change_ask(struct access_change *change, struct peers *peers, conn_id conn)
{
    struct peer *peer = peers_by_conn(peers, conn);
    if (peer != NULL)
        peer->is_asking = true;
    change->is_asked = true;
}

void access_change_done(struct access_change *change, struct peers *peers)
{
    for (uint32_t i = 0; i < peers->used; i++)
        peers->items[i].is_asking = false;
    change->is_asked = false;
}

void access_change_begin(struct access_change *change, struct peers *peers,
                         const struct access *before)
{
    change->before = before;
    change->at = 0;
    for (uint32_t i = 0; i < peers->used; i++)
        peers->items[i].was_forgotten = peers->items[i].is_forgotten;
}

static void cut_off(struct peer *peer)
{
    if (!peer->is_closing && peer->fd >= 0)
        (void)shutdown(peer->fd, SHUT_RDWR); /* a closed connection needs no shutdown */
}

/* Whether the connection belongs to who it did. */
static bool is_still_known(struct peer *peer, const struct authentication *authentication,
                           const struct access *before)
{
    uint32_t principal = authentication_find(authentication, &peer->identity);
    bool is_same = principal != 0 && span_equal(access_name(authentication->access, principal),
                                                access_name(before, peer->principal));
    peer->principal = principal;
    return is_same;
}

struct peer *access_change_next(struct access_change *change, struct peers *peers,
                                const struct authentication *authentication, int64_t now_ns)
{
    while (change->at < peers->used) {
        struct peer *peer = &peers->items[change->at++];
        if (peer->conn == 0)
            continue;
        bool is_let_go = peer->is_forgotten && !peer->was_forgotten;
        if (is_let_go && peer->lane == LANE_CONTROL) {
            peer->is_revoked = true;
            change->cut_ns = now_ns + REVOKED_NS;
        } else if (is_let_go) {
            cut_off(peer);
        }
        if (peer->is_forgotten || is_still_known(peer, authentication, change->before))
            continue;
        peer->is_forgotten = true;
        if (peer->is_asking) {
            peer->is_revoked = true;
            change->cut_ns = now_ns + REVOKED_NS;
        } else {
            cut_off(peer);
        }
        return peer;
    }
    return NULL;
}

void access_change_cut(struct access_change *change, struct peers *peers)
{
    for (uint32_t i = 0; i < peers->used; i++)
        if (peers->items[i].conn != 0 && peers->items[i].is_revoked)
            cut_off(&peers->items[i]);
    change->cut_ns = INT64_MAX;
}
