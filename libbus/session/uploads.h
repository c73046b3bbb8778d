/* SPDX-License-Identifier: MPL-2.0 */
/* uploads.h -- values that travel in chunks (PROTOCOL.md, "Writing").
 *
 * The session cuts a chunk when the link asks for one, so a value of 2 GiB needs no second copy.
 * Uploads of different topics take turns; those of one topic follow each other.  Each has less than
 * window_bytes under way before its next chunk.  The broker may hold one back.  It stays until the
 * broker has accepted all. */
#ifndef SESSION_UPLOADS_H
#define SESSION_UPLOADS_H

#include "libbus/base/buffer.h"
#include "libbus/base/list.h"
#include "libbus/base/memory.h"

#include <stdbool.h>
#include <stdint.h>

struct upload {
    struct list link;
    uint64_t ordinal; /* counts from 1 in each session */
    uint64_t after;   /* number of the frame that reserved its slot */
    uint32_t topic;   /* the broker's number */
    uint64_t seq;
    uint32_t attempt;
    int64_t stamp_ns;
    struct buffer *value;
    size_t piece_bytes; /* of a chunk, at most LIMIT_CHUNK_BYTES */
    uint64_t sent;      /* bytes, on this connection or accepted */
    uint64_t accepted;
    uint64_t limit; /* no chunk begins there, or behind it */
};

struct uploads {
    struct memory *memory;
    struct list items;     /* by ordinal */
    struct upload *turn;   /* whose turn it is; NULL: the first */
    uint64_t last;         /* ordinal given last */
    uint64_t bytes;        /* of all values here */
    uint64_t under_way;    /* of these, sent and not accepted */
    uint64_t unsent;       /* ... not sent */
    uint64_t accepted;     /* of all values that ever were here */
    uint64_t all_bytes;    /* of all, sent and not accepted, when the next chunk goes */
    uint64_t window_bytes; /* of each, sent and not accepted, when its next chunk goes */
};

void uploads_init(struct uploads *uploads, struct memory *memory);
void uploads_fini(struct uploads *uploads);

/* Copies upload, and takes *value over (sets it to NULL). false: no memory, and nothing changed. */
bool uploads_add(struct uploads *uploads, const struct upload *upload, struct buffer **value);
/* Gives up the upload of this slot, if there is one. */
void uploads_drop(struct uploads *uploads, uint32_t topic, uint64_t seq);
/* Takes back the newest ones, down to this ordinal. */
void uploads_back(struct uploads *uploads, uint64_t last);

/* The next upload that may send a chunk, given which frames were sent; NULL: none. */
struct upload *uploads_next(struct uploads *uploads, uint64_t frames_sent);
/* The size of the part with the next chunk; and writing that part. */
size_t upload_part_bytes(const struct upload *upload);
void upload_part_write(const struct upload *upload, uint8_t *out);
/* The chunk was sent: the next upload has its turn. */
void uploads_sent(struct uploads *uploads, struct upload *upload);

enum uploads_verdict {
    UPLOADS_UNKNOWN, /* no such upload here */
    UPLOADS_GOES_ON,
    UPLOADS_DONE,   /* all of it; it is gone */
    UPLOADS_BROKEN, /* more than there is */
};
enum uploads_verdict uploads_accept(struct uploads *uploads, uint32_t topic, uint64_t seq,
                                    uint64_t bytes);
/* Of the value so many bytes may be sent until more is told; 0: all of them. */
void uploads_limit(struct uploads *uploads, uint32_t topic, uint64_t seq, uint64_t limit);
/* A new connection: from the beginning, unless uploads_accept() says otherwise. */
void uploads_rewind(struct uploads *uploads);
/* Accepted bytes of the values here that belong to this topic of the broker. */
uint64_t uploads_accepted_of(const struct uploads *uploads, uint32_t topic);
/* What is not yet sent of values of this topic. */
uint64_t uploads_unsent_of(const struct uploads *uploads, uint32_t topic);
/* Whether all up to this ordinal are done. */
bool uploads_reached(const struct uploads *uploads, uint64_t ordinal);

#endif
