/* SPDX-License-Identifier: MPL-2.0 */
/* format.h -- the bytes of the journal: segments and records, format 1.
 *
 * A journal is a sequence of bytes, its records one behind the other; a position is a place in it.
 * It lies in segments, files that each begin with a head and are named by their first position, so
 * that a position tells file and place, and no index is needed.  All numbers are little endian.
 *
 * Head of a segment, FORMAT_SEGMENT_BYTES:
 *     0  "errbusJ\n"
 *     8  format            u32
 *    12  crc32c            u32   of the whole head, with this field 0
 *    16  journal           u64   random, the same in all segments of one journal
 *    24  first position    u64
 *    32  trimmed           u64   what lies below was given up when the segment was made
 *    40  journal, again    u64   so that a head with one flaw still tells whose records follow
 *    48  bytes             u64   of the file, all of which it had before it got its name; and
 *                                FORMAT_REUSED, if what stands behind its end may be anything
 *    56  unsynced          u64   how far before its first position the journal was on the disk when
 *                                it was made; 0: the segment was on the disk before its name
 *
 * Record, FORMAT_RECORD_BYTES and the body, filled up with zeros to a multiple of 8:
 *     0  crc of the head   u32   of journal, position, and what follows in the head
 *     4  crc of the body   u32   of the body with its filling
 *     8  bytes             u32   of the body
 *    12  kind              u16   0 is none; from FORMAT_KIND_OWN on: the journal's own
 *    14  marks             u16   FORMAT_MARK_...
 *    16  batch             u32   of one attempt to append; a later one is greater, modulo 2^32
 *    20  unsynced          u32   how far before this record the journal was on the disk when it was
 *                                written, in units of 8
 *
 * What each field is for: the position in the crc keeps a record of a reused block, or one that was
 * moved, from passing; the journal in it one of another journal.  A batch is whole when its last
 * record says so.  Its number tells what is left of an attempt that failed from what came after.
 * `unsynced` tells a torn tail from damage: a record that says of an earlier place "this was on the
 * disk" stands behind damage; otherwise what is missing was never promised. */
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
#define FORMAT_KIND_TRIM 0xff01      /* body: u64, what lies below is given up */
#define FORMAT_KIND_SEAL 0xff02      /* the last record of its segment: another one follows */
#define FORMAT_KIND_LAZY_SEAL 0xff03 /* the same, when nothing said that it is on the disk */

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
/* SEGMENT_NEWER: out_head->version alone is told.  SEGMENT_BAD: whatever stands there is told. */
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

/* A body with its filling; a record with its head. */
static inline uint64_t format_filled(uint64_t body_bytes)
{
    return (body_bytes + FORMAT_ALIGN - 1) / FORMAT_ALIGN * FORMAT_ALIGN;
}
static inline uint64_t format_record(uint64_t body_bytes)
{
    return FORMAT_RECORD_BYTES + format_filled(body_bytes);
}
/* Of a body that lies without its filling. */
uint32_t format_body_crc(const void *body, size_t bytes);

/* True: batch number b may follow a. */
static inline bool format_batch_follows(uint32_t a, uint32_t b)
{
    return b - a < UINT32_C(0x80000000);
}

void format_put64(uint8_t *out, uint64_t number);
uint64_t format_get64(const uint8_t *bytes);

#endif
