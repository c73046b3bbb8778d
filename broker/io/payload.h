/* SPDX-License-Identifier: MPL-2.0 */
/* payload.h -- the received parts that the core wants kept: numbered, counted, freed exactly once.
 *
 * The core names a payload by its id and says by effects how many references it has on it.  A
 * payload whose count reaches zero is freed by payload_table_sweep(), which is called once all
 * effects of a step are carried out: until then sends of the same step may still need its bytes.
 * Ids start at 1 and are used again after that.  A key is never used again: it names a payload to
 * who may speak of it when it is gone already, as the journal's thread does.
 *
 * With a store, memory holds so many bytes and no more: beyond them what has been in memory longest
 * goes, and is read back when it is sent.  What is not in the journal yet counts, and stays. */
#ifndef IO_PAYLOAD_H
#define IO_PAYLOAD_H

#include "broker/core/tables/event.h"
#include "libbus/base/buffer.h"
#include "libbus/base/memory.h"

#include <stdbool.h>
#include <stdint.h>

#define PAYLOAD_NOWHERE UINT64_MAX

struct payload {
    uint32_t bytes;        /* 0: a free place */
    uint32_t serial;       /* how often the place was used */
    struct buffer *buffer; /* NULL: in the journal only */
    uint64_t at;           /* position in the journal, or PAYLOAD_NOWHERE */
    uint32_t refs;
    uint32_t before;   /* in memory and in the journal: the id of the next older one, or 0 */
    uint32_t behind;   /* ... of the next newer one */
    uint32_t next;     /* free: the next free place; unreferenced: the next to be swept; 0: none */
    uint32_t given_as; /* its number among those given to the journal */
    bool is_given;     /* it is on its way into the journal, or there */
    bool is_moving;    /* it is written anew; `at` is the old place until it has the new one */
    bool is_doomed;    /* among those to be swept, unless retained again until then */
};

/* Where payloads are that are not in memory. */
struct payload_store {
    /* The body of this size at this position; false: it cannot be had. */
    bool (*fetch)(void *arg, uint64_t at, void *out_body, size_t bytes);
    void *arg;
    uint64_t memory_bytes; /* held in memory all the same */
};

struct payload_table {
    struct memory *memory;
    struct payload *items; /* id - 1 is the place */
    uint32_t room;
    uint32_t used;   /* places ever used */
    uint32_t free;   /* id of the first free place, or 0 */
    uint32_t doomed; /* id of the first to be swept, or 0 */
    uint32_t count;
    uint32_t logged_count; /* of these, in the journal */
    uint32_t moving_count; /* of these, being written anew */
    uint32_t given_count;  /* records given to the journal so far, modulo 2^32 */
    uint64_t bytes;
    struct payload_store store; /* fetch NULL: there is none */
    uint64_t memory_used;       /* bytes in memory */
    uint32_t memory_count;      /* of payloads there */
    uint32_t oldest;            /* in memory and in the journal: the id of the first to go, or 0 */
    uint32_t newest;            /* ... of the last */
};

void payload_table_init(struct payload_table *table, struct memory *memory);
void payload_table_fini(struct payload_table *table); /* drops whatever is left */
/* What is in the journal need not be in memory any more. */
void payload_table_use_store(struct payload_table *table, const struct payload_store *store);

/* Takes the buffer over, with one reference; false: no memory, and the buffer stays as it was. */
bool payload_add(struct payload_table *table, struct buffer **buffer, payload_id *out_id);
/* One that is in the store only. */
bool payload_add_stored(struct payload_table *table, uint64_t at, uint32_t bytes,
                        payload_id *out_id);
uint64_t payload_key(const struct payload_table *table, payload_id id);
/* It goes into the journal now; false: it did before. */
bool payload_give(struct payload_table *table, payload_id id);
/* Another record of it goes into the journal now. */
void payload_give_anew(struct payload_table *table, payload_id id);
/* How many records of payloads were given to the journal since this one, which was, too. */
uint32_t payload_behind(const struct payload_table *table, payload_id id);
/* Its position in the journal, or PAYLOAD_NOWHERE. */
uint64_t payload_at(const struct payload_table *table, payload_id id);
uint32_t payload_bytes(const struct payload_table *table, payload_id id);
/* The lowest position of any; UINT64_MAX: none is in the journal. */
uint64_t payload_oldest(const struct payload_table *table);
/* Below which place payloads are to be written anew: the oldest ones, of bytes_max at most.  They
 * are where the journal holds little that is wanted: from the oldest payload up to some place
 * before `end`, that is no more than a fourth (PAYLOAD_SPARSE).  The oldest ones themselves may lie
 * close together, as those do that were written anew before.  0: there are none. */
enum { PAYLOAD_SPARSE = 4 };
uint64_t payload_sparse_below(const struct payload_table *table, uint64_t end, uint64_t bytes_max);
/* Bytes of all payloads below `end`; out_next: the lowest position of any other, or UINT64_MAX. */
uint64_t payload_bytes_below(const struct payload_table *table, uint64_t end, uint64_t *out_next);
/* The next payload from place *at on whose position is below that, which is written anew now; *at
 * moves behind it.  0: no more. */
payload_id payload_move(struct payload_table *table, uint32_t *at, uint64_t below);
/* What has this key is in the journal now, or has moved to there; nothing, if it is gone. */
void payload_logged(struct payload_table *table, uint64_t key, uint64_t at);
void payload_retain(struct payload_table *table, payload_id id, uint32_t refs);
void payload_release(struct payload_table *table, payload_id id, uint32_t refs);
/* The bytes of a payload, borrowed; NULL: they are not in memory. */
struct buffer *payload_buffer(const struct payload_table *table, payload_id id);
/* The same, read back if need be; good until the next one is fetched or logged.  NULL: they cannot
 * be read. */
struct buffer *payload_fetch(struct payload_table *table, payload_id id);
/* Frees what has no reference left. */
void payload_table_sweep(struct payload_table *table);

#endif
