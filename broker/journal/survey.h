/* SPDX-License-Identifier: MPL-2.0 */
/* survey.h -- looks at all that lies in the directory of a journal, and says what is wrong with it.
 *
 * Nothing is changed and nothing is taken on trust: opening, checking, repairing and exporting all
 * begin with a survey.  The rules by which it judges:
 *
 * - Segments follow each other without a gap: each but the last ends with a seal, and the next one
 *   begins right behind it.  A seal is written when the next segment is on the disk already, so a
 *   seal at the very end means that a file is gone.
 * - The oldest segment is the one that the newest trim left.
 * - In the last segment, what follows the last whole batch is a torn tail, unless something valid
 *   behind it says that this place was on the disk before: then it is damage.
 * - A file is never shorter than it was made; if the last one is, what stood there is gone.
 * - A last segment without records behind one without a seal is a change of segments that a crash
 *   interrupted; the one before it is the last. */
#ifndef JOURNAL_SURVEY_H
#define JOURNAL_SURVEY_H

#include "broker/journal/disk.h"
#include "broker/journal/journal.h"
#include "broker/journal/scan.h"

#define SURVEY_FINDINGS_MAX 65536
#define SURVEY_TEXT_BYTES 512

enum finding_kind {
    FINDING_TORN,    /* a tail that was never promised: can be cut */
    FINDING_ROLL,    /* an interrupted change of segments: the new one can go */
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
    uint64_t records; /* FINDING_TORN: whole ones within it */
    bool has_head;    /* FINDING_DAMAGE: the head is valid, the body is not */
    uint16_t kind_lost;
    uint32_t bytes_lost;
    uint32_t batch; /* of the record before it */
};

struct surveyed {
    uint64_t first;
    uint64_t end;     /* behind its last whole batch, its seal included */
    uint64_t bytes;   /* of the file */
    uint64_t made;    /* ... when it was made; 0: its head does not tell */
    uint64_t records; /* valid ones */
    uint64_t trimmed; /* as its head says */
    bool is_sealed;
    bool has_head; /* a valid one */
};

struct survey {
    struct disk *disk;
    struct surveyed *segments; /* in order; none that is foreign or FINDING_ROLL */
    size_t count;
    size_t room;
    struct finding *findings;
    size_t finding_count;
    size_t finding_room;
    uint64_t journal;    /* its random number */
    uint64_t trimmed;    /* what lies below is given up */
    uint64_t checkpoint; /* the newest whole one; UINT64_MAX: none */
    uint64_t synced;     /* all below is known to be on the disk */
    uint32_t batch;      /* the greatest that was seen */
    bool has_journal;    /* `journal` is known */
    char complaint[JOURNAL_COMPLAINT_BYTES];
    /* during the survey */
    struct scan scan;
    uint64_t begun; /* a checkpoint that is not whole yet */
    void (*visit)(void *arg, const struct scan_record *record);
    void *arg;
};

/* visit: NULL, or told of each valid record.  JOURNAL_OK: see the findings.  Errors, with a
 * complaint: JOURNAL_FORMAT, IO, MEMORY, LIMIT (more findings than can be listed). */
enum journal_err survey_take(struct survey *survey, struct disk *disk,
                             void (*visit)(void *arg, const struct scan_record *record), void *arg);
void survey_fini(struct survey *survey);

/* The first finding that cannot be mended by going on; NULL: there is none. */
const struct finding *survey_damage(const struct survey *survey);
/* What, where and how much, as part of a sentence; text has SURVEY_TEXT_BYTES. */
void survey_describe(const struct survey *survey, const struct finding *finding, char *text);

#endif
