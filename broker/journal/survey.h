/* SPDX-License-Identifier: MPL-2.0 */
/* survey.h -- looks at all that lies in the directory of a journal, and says what is wrong with it.
 *
 * Nothing is changed and nothing is taken on trust: opening, checking, repairing and exporting all
 * begin with a survey.  The rules by which it judges:
 *
 * - Segments follow each other without a gap: each but the last ends with a seal, and the next one
 *   begins right behind it.  A seal is written when the next segment is on the disk already, so a
 *   seal at the very end means that a file is gone.  A lazy seal says nothing of the kind.
 * - The oldest segment is the one that the newest trim left.
 * - What follows the last whole batch is a torn tail, unless anything valid says that this place
 *   was on the disk: a record or the head of a segment behind it, or the proof.  Then it is damage.
 *   Segments that were left unsynced tear anywhere: a hole, a file without a head, one that is
 *   missing.  All that lies behind the first such place goes with it.
 * - Behind the end of a file that was another segment before stands what is left of that: it is no
 *   tail if zeros come first, and no record there is valid.
 * - A file is never shorter than it was made; if the last one is, what stood there is gone, unless
 *   it was never said to be on the disk.
 * - A last segment without records behind one without a seal is a change of segments that a crash
 *   interrupted; the one before it is the last. */
#ifndef JOURNAL_SURVEY_H
#define JOURNAL_SURVEY_H

#include "broker/journal/disk.h"
#include "broker/journal/journal.h"
#include "broker/journal/proof.h"
#include "broker/journal/scan.h"

#define SURVEY_FINDINGS_MAX 65536
#define SURVEY_TEXT_BYTES 512

enum finding_kind {
    FINDING_TORN,    /* a tail that was never promised: can be cut */
    FINDING_ROLL,    /* an interrupted change of segments: the new one can go */
    FINDING_BEHIND,  /* a segment behind a torn tail: goes with it */
    FINDING_GONE,    /* a segment that was given up: can go */
    FINDING_DAMAGE,  /* no valid record there */
    FINDING_MISSING, /* no file has these positions */
    FINDING_SHORT,   /* the last file has not the bytes that it was made with */
    FINDING_LAST,    /* the file that the seal promised is not there */
    FINDING_HEAD,    /* a segment whose head is not valid */
    FINDING_FOREIGN, /* a segment of another journal */
};
struct finding {
    enum finding_kind kind;
    uint64_t segment; /* its first position: its name */
    uint64_t from;    /* positions; FINDING_SHORT: offsets */
    uint64_t until;
    uint64_t records; /* FINDING_TORN: whole ones within it, and in the segments behind it */
    uint64_t behind;  /* FINDING_TORN: bytes in the segments behind it */
    bool has_head;    /* FINDING_DAMAGE: the head is valid, the body is not */
    uint16_t kind_lost;
    uint32_t bytes_lost;
    uint32_t batch; /* of the record before it */
};

struct surveyed {
    uint64_t first;
    uint64_t end;      /* behind its last whole batch, its seal included */
    uint64_t bytes;    /* of the file */
    uint64_t made;     /* ... when it was made; 0: its head does not tell */
    uint64_t records;  /* valid ones */
    uint64_t trimmed;  /* as its head says */
    uint64_t synced;   /* ... up to which position all was on the disk */
    uint64_t unsealed; /* as end, before its last record was read */
    bool is_sealed;
    bool is_lazy;  /* ... and nothing said that the next one is on the disk */
    bool has_head; /* a valid one */
    bool is_reused;
};

struct survey {
    struct disk *disk;
    struct surveyed *segments; /* in order; none that is foreign or FINDING_ROLL */
    size_t count;
    size_t room;
    struct finding *findings;
    size_t finding_count;
    size_t finding_room;
    uint64_t journal;     /* its random number */
    uint64_t trimmed;     /* what lies below is given up */
    uint64_t given_up;    /* the same, and it is known to be on the disk that it is */
    uint64_t checkpoint;  /* the newest whole one; UINT64_MAX: none */
    uint64_t synced;      /* all below is known to be on the disk */
    uint32_t batch;       /* the greatest that was seen */
    unsigned kept;        /* a bit for each file that is kept to be used again (layout.h) */
    uint64_t stale_until; /* so far what the last segment's file was before stands behind its end */
    bool has_journal;     /* `journal` is known */
    char complaint[JOURNAL_COMPLAINT_BYTES];
    /* during the survey */
    struct scan scan;
    struct proof proof;
    uint64_t claimed; /* the furthest position of which anything says: this was on the disk */
    bool has_claimed; /* all segments behind were looked at for that */
    bool is_torn;     /* nothing behind what was surveyed counts */
    uint64_t begun;   /* a checkpoint that is not whole yet */
    void (*visit)(void *arg, const struct scan_record *record);
    void *arg;
};

/* visit: NULL, or told of each valid record.  JOURNAL_OK: see the findings.  Errors, with a
 * complaint: JOURNAL_FORMAT, IO, MEMORY, LIMIT (more findings than can be listed). */
enum journal_err survey_take(struct survey *survey, struct disk *disk,
                             void (*visit)(void *arg, const struct scan_record *record), void *arg);
void survey_fini(struct survey *survey);

/* Whether it is mended by opening the journal. */
bool survey_is_harmless(const struct finding *finding);
/* The first finding that cannot be mended by going on; NULL: there is none. */
const struct finding *survey_damage(const struct survey *survey);
/* What, where and how much, as part of a sentence; text has SURVEY_TEXT_BYTES. */
void survey_describe(const struct survey *survey, const struct finding *finding, char *text);

#endif
