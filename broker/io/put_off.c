/* SPDX-License-Identifier: MPL-2.0 */
/* put_off.c -- see put_off.h. */
#include "broker/io/put_off.h"

#include "broker/io/admission.h"
#include "broker/io/core_port.h"
#include "broker/io/log.h"

static void tell_first(const struct persistence *persistence)
{
    if (persistence_is_full(persistence))
        log_line(LOG_WARNING, "journal: the disk is full and the reserve is nearly used up: only "
                              "acknowledgements are accepted until the disk has room");
    else
        log_line(LOG_WARNING, "journal: more waits for the disk than the reserve could take: only "
                              "acknowledgements are accepted until the disk has caught up");
}

bool put_off_message(struct put_off *put_off, const struct persistence *persistence,
                     struct peer *peer, struct span part)
{
    bool is_short = persistence_is_short(persistence);
    if (!is_short && !peer->is_put_off)
        return false;
    enum msg_weight weight = core_port_weigh(part);
    peer->is_put_off = peer->is_put_off || weight == MSG_HEAVY;
    if (peer->is_put_off && !put_off->has_any) {
        put_off->has_any = true;
        tell_first(persistence);
    }
    return peer->is_put_off && weight != MSG_LIGHT;
}

bool put_off_is_over(const struct put_off *put_off, const struct persistence *persistence)
{
    return put_off->has_any && !persistence_is_short(persistence);
}

void put_off_end(struct put_off *put_off, struct peers *peers)
{
    put_off->has_any = false;
    for (uint32_t i = 0; i < peers->used; i++) {
        struct peer *peer = &peers->items[i];
        if (peer->conn == 0 || !peer->is_put_off)
            continue;
        peer->is_mute = true;
        if (!peer->is_closing) /* else its descriptor may be another's by now */
            admission_cut(peer->fd);
    }
}
