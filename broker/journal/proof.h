/* SPDX-License-Identifier: MPL-2.0 */
/* proof.h -- a file beside the segments that says what of them is on the disk for certain.
 *
 * Segments that are left unsynced for a while say little about each other.  So whenever they have
 * been synced, this is written: all between two positions is on the disk, and nothing before the
 * first is needed any more.  It is on the disk before anything is done that relies on it.  Two
 * places take turns, so that one is whole whenever the machine stops.  Where there is no proof,
 * what the records say holds alone.
 *
 * A place, PROOF_BYTES at the beginning of a sector of 512 B:
 *     0  "errbusP\n"
 *     8  format   u32   1
 *    12  crc32c   u32   of the whole place, with this field 0
 *    16  journal  u64   its random number
 *    24  number   u64   of the proof: the greater one of two counts
 *    32  trimmed  u64   what lies below is given up
 *    40  synced   u64   all from there to here is on the disk */
#ifndef JOURNAL_PROOF_H
#define JOURNAL_PROOF_H

#include "broker/journal/disk.h"

#define PROOF_NAME "proof"
#define PROOF_BYTES 48

struct proof {
    uint64_t journal;
    uint64_t number; /* 0: there is none */
    uint64_t trimmed;
    uint64_t synced;
};

/* The newest one; none, if neither place has one.  0, or a negative errno. */
int proof_load(struct disk *disk, struct proof *out_proof);
/* A handle for proof_store(), or a negative errno.  A file that is made has room for both places,
 * and is not on the disk yet. */
int proof_open(struct disk *disk);
/* Writes it into the place whose turn it is, and syncs. */
int proof_store(struct disk *disk, int file, const struct proof *proof);

#endif
