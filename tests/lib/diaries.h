/* SPDX-License-Identifier: MPL-2.0 */
/* diaries.h -- what the parties of the torture test wrote down (party/torturer.c), held against
 * what the bus promises:
 *
 * - what was acknowledged is received by every reader, at one place, in the order it was written;
 * - a place has one outcome, the same for all readers and in all their processes;
 * - each process of a reader goes on behind what the process before received, without a gap, or
 *   with what that process had not acknowledged;
 * - nothing is received that was not written, and nothing at two places;
 * - every promise that the bus knew of has an end: its own outcome, or an error of the bus's if its
 *   writer was gone. */
#ifndef TESTS_LIB_DIARIES_H
#define TESTS_LIB_DIARIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DIARIES_TOPICS = 2, DIARIES_WRITERS_MAX = 8, DIARIES_COMPLAINT_BYTES = 1024 };

struct diaries_sums { /* so that a run that did nothing is seen */
    uint64_t written; /* and acknowledged */
    uint64_t promises;
    uint64_t outcomes;
    uint64_t failures; /* that the bus made */
    uint64_t again;    /* received twice, as they may */
};

/* FOLDER/w0.diary ... and r0.diary ...; false: a sentence says what is wrong. */
bool diaries_check(const char *folder, unsigned writers, unsigned readers,
                   struct diaries_sums *out_sums, char complaint[DIARIES_COMPLAINT_BYTES]);

#endif
