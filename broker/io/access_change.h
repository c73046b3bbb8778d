/* SPDX-License-Identifier: MPL-2.0 */
/* access_change.h -- what becomes of connections when another access table comes into force.
 *
 * The core hears of the table first, and lets those go that were revoked.  Then each connection is
 * looked at.  Whoever was revoked hears why on the control channel, which is cut after a second;
 * the data channel is cut at once, so values that wait there stay there.  A connection whose key
 * has no line any more is cut.  Its session stays, so the client may come back with another key.
 * Who asked for the change is answered first, and is cut after a second like those who were
 * revoked. */
#ifndef IO_ACCESS_CHANGE_H
#define IO_ACCESS_CHANGE_H

#include "broker/io/authentication.h"
#include "broker/io/peers.h"

struct access_change {
    const struct access *before; /* the table that was in force; it may be the same */
    int64_t cut_ns;              /* when the revoked are cut; INT64_MAX: there are none */
    uint32_t at;                 /* the next place in peers */
    bool is_asked;               /* a client wants the file to be read again */
};

/* The client at this connection wants the file to be read again; it was. */
void access_change_ask(struct access_change *change, struct peers *peers, conn_id conn);
void access_change_done(struct access_change *change, struct peers *peers);

/* Before the core hears of the table. */
void access_change_begin(struct access_change *change, struct peers *peers,
                         const struct access *before);
/* Behind it: the next connection that was cut and whose session stays, for the core to hear that it
 * is closed; NULL: no more. */
struct peer *access_change_next(struct access_change *change, struct peers *peers,
                                const struct authentication *authentication, int64_t now_ns);
/* Cuts the control connections of those who were revoked.  The monitors were emptied before. */
void access_change_cut(struct access_change *change, struct peers *peers);

#endif
