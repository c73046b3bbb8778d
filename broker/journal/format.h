/* SPDX-License-Identifier: MPL-2.0 */
/* format.h -- the bytes of the journal: segments and records, format 1.
 *
 * A journal is a sequence of bytes, with its records one behind the other.  A position is a place
 * in this sequence.  Segments hold the sequence: files that begin with a head, each named by its
 * first position.  So a position tells file and place without an index.  Numbers are little endian.
 *
 * Head of a segment, FORMAT_SEGMENT_BYTES:
 *     0  "errbusJ\n"
 *     8  format            u32
 *    12  crc32c            u32   of the whole head, with this field 0
 *    16  journal           u64   random, the same in all segments of one journal
 *    24  first position    u64
 *    32  trimmed           u64   when the segment was made, records below had been given up
 *    40  journal, again    u64   a head with one damaged field still tells whose records follow
 *    48  bytes             u64   of the file, which had its full size before it got its name; with
 *                                FORMAT_REUSED, if old bytes may stand behind the last record
 *    56  unsynced          u64   bytes before the first position that were not yet on the disk when
 *                                the segment was made; 0: the segment was on the disk before its
 *                                name
 *
 * Record, FORMAT_RECORD_BYTES and the body, filled up with zeros to a multiple of 8:
 *     0  crc of the head   u32   of journal, position, and what follows in the head
 *     4  crc of the body   u32   of the body with its filling
 *     8  bytes             u32   of the body
 *    12  kind              u16   0 is none; from FORMAT_KIND_OWN on: the journal's own
 *    14  marks             u16   FORMAT_MARK_...
 *    16  batch             u32   number of the attempt to append; it grows, modulo 2^32
 *    20  unsynced          u32   bytes before this record that were not yet on the disk when the
 *                                record was written, in units of 8
 *
 * The crc covers the position, so a record in a reused or moved block does not pass.  It covers the
 * number of the journal, so a record of another journal does not pass.
 *
 * A batch is whole when its last record says so.  The batch number tells the rest of a failed
 * attempt from the attempt that followed.
 *
 * `unsynced` tells damage from a tail that a crash left half written.  If a later record says that
 * the missing place was on the disk, the place is damaged.  Otherwise nobody was promised it. */
#ifndef JOURNAL_FORMAT_H
#define JOURNAL_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FORMAT_VERSION 1
#define FORMAT_SEGMENT_BYTES 64
#define FORMAT_RECORD_BYTES 24
#define FORMAT_ALIGN 8
#define FORMAT_POSITION_MAX (UINT64_MAX / 4) /* no file begins beyond */
#define FORMAT_REUSED (UINT64_C(1) << 63)
#define FORMAT_SEGMENT_SUFFIX ".journal"
#define FORMAT_NAME_BYTES 32 /* room for the name of a file, with its NUL */

#define FORMAT_MARK_BATCH_END 1 /* with this record its batch is whole */
#define FORMAT_MARK_CHECKPOINT_BEGIN 2
#define FORMAT_MARK_CHECKPOINT_END 4

#define FORMAT_KIND_OWN 0xff00       /* and above */
#define FORMAT_KIND_LOST 0xff00      /* what stood here is lost; written by a repair */
#define FORMAT_KIND_TRIM 0xff01      /* body: u64, a position; records below are given up */
#define FORMAT_KIND_SEAL 0xff02      /* the last record of its segment: another one follows */
#define FORMAT_KIND_LAZY_SEAL 0xff03 /* the same, of a segment that may not be on the disk */

struct segment_head {
    uint32_t version;
    uint64_t journal;
    uint64_t first;
    uint64_t trimmed;
    uint64_t bytes;
    uint64_t synced; /* position up to which all was on the disk when it was made */
    bool is_reused;  /* the file was another segment before */
};
enum segment_verdict { SEGMENT_GOOD, SEGMENT_BAD, SEGMENT_NEWER };
void segment_head_write(const struct segment_head *head, uint8_t *out);
/* SEGMENT_NEWER: only out_head->version is set.  SEGMENT_BAD: the fields are what stands there. */
enum segment_verdict segment_head_read(const uint8_t *bytes, struct segment_head *out_head);

/* 20 digits and the suffix. */
void segment_name_write(uint64_t first, char *out_name);
bool segment_name_read(const char *name, uint64_t *out_first);

struct record_head {
    uint32_t body_crc;
    uint32_t bytes;
    uint16_t kind;
    uint16_t marks;
    uint32_t batch;
    uint64_t synced; /* position up to which all was on the disk */
};
void record_head_write(const struct record_head *head, uint64_t journal, uint64_t at, uint8_t *out);
/* False: no head of this journal belongs here. */
bool record_head_read(const uint8_t *bytes, uint64_t journal, uint64_t at,
                      struct record_head *out_head);

/* Bytes of a body with its filling, and of a whole record. */
static inline uint64_t format_filled(uint64_t body_bytes)
{
    return (body_bytes + FORMAT_ALIGN - 1) / FORMAT_ALIGN * FORMAT_ALIGN;
}
static inline uint64_t format_record(uint64_t body_bytes)
{
    return FORMAT_RECORD_BYTES + format_filled(body_bytes);
}
/* The crc of a body with its filling; body has none. */
uint32_t format_body_crc(const void *body, size_t bytes);

/* True: batch number b may follow a. */
static inline bool format_batch_follows(uint32_t a, uint32_t b)
{
    return b - a < UINT32_C(0x80000000);
}

void format_put64(uint8_t *out, uint64_t number);
uint64_t format_get64(const uint8_t *bytes);

#endif
