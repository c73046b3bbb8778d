/* SPDX-License-Identifier: MPL-2.0 */
/* speech.h -- well-formed messages out of foreign bytes, for fuzzing what lies behind the codec.
 *
 * A byte or a few become a field: mostly what a good peer would say there (the next number, the
 * token it was given), sometimes anything else.  So conversations come about that get somewhere,
 * with parts in them that no peer would say. */
#ifndef TESTS_FUZZ_SPEECH_H
#define TESTS_FUZZ_SPEECH_H

#include "libbus/wire/msg.h"

#include <stdbool.h>
#include <stdint.h>

/* The bytes that are left; behind their end come zeros. */
struct feed {
    const uint8_t *data;
    size_t left;
};
uint8_t feed_byte(struct feed *feed);
struct span feed_span(struct feed *feed, size_t bytes_max);

/* What a peer knows, and says where a field of that name is asked for. */
struct speaker {
    const char *job; /* NULL: "job" */
    const char *party;
    uint64_t number;     /* of its next numbered message */
    uint64_t token;      /* its session; 0: none yet */
    uint64_t connection; /* as WELCOME said */
    uint64_t topic;      /* the newest topic's number */
    uint64_t own_number; /* the first that it may give to a topic; 0: none */
    uint64_t seq;        /* a slot of it */
};

/* A message of this direction that the feed chooses. */
struct msg speech_msg(struct feed *feed, const struct speaker *speaker,
                      enum msg_direction direction);
/* The same of this type. */
struct msg speech_msg_of(struct feed *feed, const struct speaker *speaker, enum msg_type type);
bool speech_is_data(enum msg_type type); /* it travels on the data channel */

/* A batch of frames that the feed chooses, its first with this number; how many bytes. */
enum { SPEECH_BATCH_BYTES_MAX = 4096 };
size_t speech_batch(struct feed *feed, const struct speaker *speaker, uint64_t number,
                    uint8_t out[SPEECH_BATCH_BYTES_MAX], uint32_t *out_frames);

/* An encoded error, as a party would make it. */
struct span speech_error(void);

#endif
