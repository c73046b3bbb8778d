/* SPDX-License-Identifier: MPL-2.0 */
/* crowd.h -- many parties with one key or none, each a raw socket of ZeroMQ on the control channel:
 * a thousand parties of the library would be thousands of threads. */
#ifndef TESTS_LIB_CROWD_H
#define TESTS_LIB_CROWD_H

#include "tests/lib/folder.h"

#include <bus/access.h>
#include <stdbool.h>
#include <stdint.h>

enum { CROWD_KEY_BYTES = 41, CROWD_GREETING_BYTES = 256 }; /* a key in Z85, with its end */

/* As libzmq has them. */
struct crowd_keys {
    char broker[CROWD_KEY_BYTES]; /* its public one */
    char own[CROWD_KEY_BYTES];
    char own_secret[CROWD_KEY_BYTES];
};

struct crowd_pair {
    char public_key[CROWD_KEY_BYTES];
    char secret_key[CROWD_KEY_BYTES];
    char text[BUS_KEY_TEXT_BYTES]; /* the public one, as an access file has it */
    char file[FOLDER_PATH_BYTES_MAX + 64];
};

/* A new key, in a file of this name in the folder; fails the test if there is none. */
void crowd_make_key(const struct folder *folder, const char *name, struct crowd_pair *out_pair);
/* A socket that connects; NULL: there is none.  keys NULL: to a broker that asks for none.  It
 * asserts nothing, so threads may call it. */
void *crowd_dial(void *context, const char *endpoint, const struct crowd_keys *keys);
/* Greets as this party of the job `default`; whether it could be said. */
bool crowd_greet(void *socket, const char *party, uint32_t heartbeat_ms);
/* Waits for the answer; whether the party is welcome. */
bool crowd_is_welcome(void *socket, int64_t timeout_ms);
/* A sign of life. */
bool crowd_beat(void *socket);

#endif
