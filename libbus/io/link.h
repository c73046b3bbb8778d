/* SPDX-License-Identifier: MPL-2.0 */
/* link.h -- the two connections of a client to its broker.
 *
 * There are two backends: over ZeroMQ (link_zmq.c) and inside one process (link_inproc.c, for race
 * tests).  CMake selects the file.  The link knows no protocol: it sends and receives parts.  Every
 * connect makes a fresh socket: what was queued in an old socket is never sent.
 *
 * One thread at a time uses a link, under the caller's lock.  There are two exceptions: while one
 * thread waits in link_wait(), another may use the link; and any thread may call link_wake().  A
 * thread that used the link during a link_wait() then calls link_is_readable(): its call may have
 * consumed the event that link_wait() waits for. */
#ifndef IO_LINK_H
#define IO_LINK_H

#include "libbus/base/buffer.h"
#include "libbus/base/span.h"
#include "libbus/io/key_file.h"

#include <stdbool.h>
#include <stdint.h>

struct link;

enum link_lane { LINK_CONTROL = 0, LINK_DATA = 1, LINK_LANE_COUNT = 2 };
/* A session tries fewer connections than this before the broker calls it lost.  The oldest one is
 * the one that the broker knows: closing it would begin the grace. */
enum { LINK_ASIDE_MAX = 8 };

enum link_err {
    LINK_OK = 0,
    LINK_AGAIN,     /* nothing there; or no room now: link_wait() tells when */
    LINK_DOWN,      /* no connection on this lane */
    LINK_ENDPOINT,  /* not an endpoint */
    LINK_RESOURCES, /* no memory or descriptors */
};

/* How a connection ended, as far as the transport tells. */
enum link_fault {
    LINK_FAULT_CLOSED,          /* it was made, and closed later */
    LINK_FAULT_REFUSED,         /* it could not be made */
    LINK_FAULT_UNRESOLVED,      /* the host has no address */
    LINK_FAULT_FOREIGN,         /* what accepted it closed before a handshake ended */
    LINK_FAULT_KEY_UNKNOWN,     /* the other side does not know our key */
    LINK_FAULT_KEY_WANTED,      /* it asks for a key, and we use none */
    LINK_FAULT_KEY_NEEDLESS,    /* it uses no keys, and we do */
    LINK_FAULT_KEY_OTHER,       /* it has another key than we were told */
    LINK_FAULT_HUNG_UP,         /* what accepted it closes when it hears the transport's protocol */
    LINK_FAULT_NO_ZEROMQ,       /* what accepted it speaks another protocol: for certain */
    LINK_FAULT_OTHER_MECHANISM, /* it asks for what we have not: a password, or Kerberos */
};

/* Starts the transport's own threads (all signals blocked). */
enum link_err link_open(struct link **out_link);
void link_close(struct link **link, int64_t linger_ms);

/* With keys: whoever answers must have the secret half of the server's key, and learns our own. */
struct link_keys {
    uint8_t server_key[KEY_BYTES];
    struct key_pair own;
};
/* Connections are made with these keys from now on; NULL: without keys.  They are copied. */
void link_use_keys(struct link *link, const struct link_keys *keys);

/* Closes the lane's connection, and begins to make another.  It does not wait: only an answer shows
 * that the other side is there. */
enum link_err link_connect(struct link *link, enum link_lane lane, const char *endpoint);
void link_disconnect(struct link *link, enum link_lane lane);
/* Puts the connections of both lanes aside.  They stay open and send what they were given, but are
 * neither read nor written any more.  Beyond LINK_ASIDE_MAX, the oldest are closed. */
void link_put_aside(struct link *link);
void link_close_aside(struct link *link);

/* Sends one part; never waits.  LINK_AGAIN: nothing was sent. */
enum link_err link_send(struct link *link, enum link_lane lane, struct span part);
/* The same by reference: the link takes a reference of its own and drops it when sent. */
enum link_err link_send_buffer(struct link *link, enum link_lane lane, struct buffer *part);

/* Takes the next message, never waits.  Control: one part, and *out_head NULL.  Data: the
 * delivery header, and the batch behind it.  Both are buffers given to the caller, data aligned to
 * 8 bytes.  Messages with another number of parts come with *out_part NULL: the other side broke
 * the protocol, or refuses the data connection in one part, which is *out_head.  LINK_RESOURCES:
 * the connection was given up, as link_wait() will say. */
enum link_err link_receive(struct link *link, enum link_lane lane, struct buffer **out_head,
                           struct buffer **out_part);

/* Waiting takes three calls.  The first and the last are made under the caller's lock.
 *
 * link_wait_begin(), after all other calls: whether there is something to do already.
 *
 * link_wait(): waits until a message may be received, a connection closed, there is room (if
 * wants_room), somebody called link_wake(), or timeout_ms passed (-1: no limit).
 *
 * link_wait_end(), even if link_wait() was left out: out_closed[lane] says that the lane's
 * connection closed or failed since the last call. */
bool link_wait_begin(struct link *link, const bool wants_room[LINK_LANE_COUNT]);
void link_wait(struct link *link, int64_t timeout_ms);
void link_wait_end(struct link *link, bool out_closed[LINK_LANE_COUNT]);
/* Whether link_wait_end() saw that the other side accepted this lane's connection. */
bool link_is_made(const struct link *link, enum link_lane lane);
/* Whether the other side accepted this lane's connection and then said nothing for a second, also
 * when it was asked on another connection.  link_wait_end() sees that; of data, if control is
 * greeted. */
bool link_is_silent(const struct link *link, enum link_lane lane);
/* Whether the other side of control's connection has shown that it speaks ZeroMQ. */
bool link_is_greeted(const struct link *link);
/* How the connection ended that link_wait_end() last reported on this lane. */
enum link_fault link_fault(const struct link *link, enum link_lane lane);
/* Whether something may be received now. */
bool link_is_readable(struct link *link, enum link_lane lane);

/* Lends a lane to a thread that is not in link_wait(), or takes it back.  link_wait() ignores a
 * lent lane, even if it waits already.  The other thread polls link_fd() for POLLIN, after a
 * link_receive() that found nothing or after link_wait_begin(); -1: there is no connection. */
void link_lend(struct link *link, enum link_lane lane, bool is_lent);
int link_fd(const struct link *link, enum link_lane lane);
/* Ends a link_wait() under way or the next one.  [any] [signal] */
void link_wake(struct link *link);

/* Copies data_endpoint to out.  The host '*' of a tcp endpoint becomes the host of
 * control_endpoint: with control at host h, port 1, the host '*' with port 2 becomes host h, port
 * 2.  false: no room. */
bool link_endpoint_resolve(const char *control_endpoint, const char *data_endpoint, char *out,
                           size_t room);

#endif
