/* SPDX-License-Identifier: MPL-2.0 */
/* who.h -- what the answer to "who is connected?" and the log have of a connection: its key,
 * address and end. */
#ifndef IO_WHO_H
#define IO_WHO_H

#include "broker/io/authentication.h"
#include "broker/io/core_port.h"
#include "broker/io/event_warnings.h"
#include "broker/io/peers.h"
#include "libbus/wire/msg.h"

struct who {
    struct peers *peers;
    const struct authentication *authentication;
    struct event_warnings warnings;
    char identity[KEY_TEXT_BYTES + 1]; /* of the last row; until the next one */
};

/* Both are borrowed. */
void who_init(struct who *who, struct peers *peers, const struct authentication *authentication);

/* arg: a struct who.  Fills in what the core does not know of row->connection. */
void who_describe(void *arg, struct msg_who_row *row);

/* Writes a CORE_PORT_LOG to the log, with the address of its connection.  A warning that is one too
 * many is written as a detail. */
void who_log(struct who *who, const struct core_port_out *out);
/* Writes how many of them were too many, if it is time, or if the broker ends. */
void who_log_sums(struct who *who, bool is_end);
/* Writes that nobody in the access file has this connection. */
void who_log_stranger(struct who *who, const struct peer *peer, const char *channel);

#endif
