/* SPDX-License-Identifier: MPL-2.0 */
/* received.h -- a message as a ROUTER gives it: the id of its connection, and its first part. */
#ifndef IO_RECEIVED_H
#define IO_RECEIVED_H

#include <stdbool.h>
#include <stdint.h>
#include <zmq.h>

struct received {
    bool is_numbered; /* the connection has an id that ROUTER gave it */
    uint32_t routing;
    uint32_t part_count;
    zmq_msg_t part; /* the first */
};
enum { RECEIVED_ROUTING_BYTES = 5 }; /* a zero, and the number ROUTER gave the connection */

/* false: nothing to read.  Otherwise received->part is the caller's to close. */
bool received_read(void *socket, struct received *received);

/* Before a ROUTER is made.  It counts the ids it gives from a number that libzmq takes from rand(),
 * which is the same in every process unless somebody seeds it; and libzmq aborts when a client has
 * chosen the very id that is next.  So the number must not be known: srandom() seeds rand() too, in
 * this C library. */
void received_hide_ids(unsigned seed);

#endif
