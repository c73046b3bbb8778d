/* SPDX-License-Identifier: MPL-2.0 */
/* journal_codec.h -- what was decided, as records of the journal, and back.
 *
 * Two kinds of records: a payload, which is a batch as it came, and the facts of one step, one
 * behind the other.  A fact may speak of bytes in a payload: in that of the record before, when the
 * batch came with this step, or, in a checkpoint, in one that has stood in the journal before.  A
 * payload of which no fact speaks was written anew, so that what lies around its old place can go:
 * the next checkpoint knows its new one.
 *
 *   facts    any number of: u8 tag, u32 bytes, [u64 position of the payload, u32 its bytes], fact
 *   tag      0: no payload; 1: the newest payload before this record; 2: the one at the position
 *
 * Numbers are big-endian. */
#ifndef IO_JOURNAL_CODEC_H
#define IO_JOURNAL_CODEC_H

#include "broker/core/tables/effect.h"
#include "broker/io/payload.h"
#include "broker/io/journal_thread.h"

#include <stdbool.h>
#include <stdint.h>

/* SNAPSHOT: facts of a checkpoint, which count only where it is whole and a replay begins with
 * it. */
enum journal_codec_kind {
    JOURNAL_CODEC_PAYLOAD = 1,
    JOURNAL_CODEC_FACTS = 2,
    JOURNAL_CODEC_SNAPSHOT = 3
};

/* Facts among the effects from *at on as a step for the journal thread, with the payload that is
 * new; *at moves behind them.  All of them, or, of a checkpoint, which may be told in pieces,
 * about so many bytes.  NULL: there are none.  Without memory the process ends, as in effect.h:
 * what is decided must be kept. */
struct journal_step *journal_codec_step(const struct effects *effects,
                                        struct payload_table *payloads, uint32_t *at,
                                        size_t bytes_max);

/* What the facts among the effects take in the journal, at most. */
uint64_t journal_codec_bytes(const struct effects *effects);

/* A step that writes a payload anew; NULL: it cannot be read back. */
struct journal_step *journal_codec_move(struct payload_table *payloads, payload_id payload);

/* Reading a record of facts. */
enum journal_codec_tag {
    JOURNAL_CODEC_NO_PAYLOAD = 0,
    JOURNAL_CODEC_NEWEST_PAYLOAD = 1,
    JOURNAL_CODEC_PAYLOAD_AT = 2,
    /* It is on its way into the journal, so its position is not known yet. */
    JOURNAL_CODEC_PAYLOAD_BEHIND = 3
};
struct journal_codec_reader {
    struct span left;
};
struct journal_codec_entry {
    enum journal_codec_tag tag;
    uint64_t payload_at; /* PAYLOAD_AT */
    uint32_t payload_bytes;
    uint32_t behind; /* PAYLOAD_BEHIND: so many records of payloads came since; 0: the newest */
    struct span fact;
};
/* WIRE_EMPTY: no more.  Errors: WIRE_TRUNCATED, WIRE_RANGE. */
enum wire_err journal_codec_next(struct journal_codec_reader *reader,
                                 struct journal_codec_entry *out_entry);

#endif
