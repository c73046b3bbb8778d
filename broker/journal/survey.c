/* SPDX-License-Identifier: MPL-2.0 */
/* survey.c -- looks at all that lies in the directory of a journal; see survey.h. */
#include "broker/journal/survey.h"

#include "broker/journal/layout.h"
#include "libbus/base/limits.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lists ----------------------------------------------------------------------------------- */

/* Makes room for one more item. */
static bool survey_grow(void **items, size_t item_bytes, size_t count, size_t *room)
{
    if (count < *room)
        return true;
    size_t new_room = *room == 0 ? 16 : 2 * *room;
    void *grown = realloc(*items, new_room * item_bytes);
    if (grown == NULL)
        return false;
    *items = grown;
    *room = new_room;
    return true;
}

static enum journal_err survey_refuse(struct survey *survey, enum journal_err err, const char *why)
{
    snprintf(survey->complaint, sizeof survey->complaint, "the journal in '%.1000s': %s",
             survey->disk->name, why);
    return err;
}

static enum journal_err refuse_file(struct survey *survey, uint64_t first, int err)
{
    char name[FORMAT_NAME_BYTES];
    segment_name_write(first, name);
    snprintf(survey->complaint, sizeof survey->complaint, "'%.1000s/%s' cannot be read: %s",
             survey->disk->name, name, strerror(-err));
    return JOURNAL_IO;
}

static enum journal_err survey_find(struct survey *survey, struct finding finding)
{
    finding.batch = survey->batch;
    if (survey->finding_count == SURVEY_FINDINGS_MAX)
        return survey_refuse(survey, JOURNAL_LIMIT,
                             "it is damaged in more places than can be listed");
    void *findings = survey->findings;
    if (!survey_grow(&findings, sizeof finding, survey->finding_count, &survey->finding_room))
        return survey_refuse(survey, JOURNAL_MEMORY, journal_strerror(JOURNAL_MEMORY));
    survey->findings = findings;
    survey->findings[survey->finding_count++] = finding;
    return JOURNAL_OK;
}

static enum journal_err find_file(struct survey *survey, enum finding_kind kind, uint64_t first)
{
    return survey_find(
        survey, (struct finding){.kind = kind, .segment = first, .from = first, .until = first});
}

static void drop_segment(struct survey *survey, size_t index)
{
    survey->count--;
    memmove(survey->segments + index, survey->segments + index + 1,
            (survey->count - index) * sizeof *survey->segments);
}

/* ---- which segments there are ---------------------------------------------------------------- */

struct listing {
    struct survey *survey;
    enum journal_err err;
};

static void list_name(void *arg, const char *name)
{
    struct listing *listing = arg;
    struct survey *survey = listing->survey;
    uint64_t first = 0;
    for (unsigned i = 0; i < LAYOUT_KEPT_MAX; i++) {
        char kept[FORMAT_NAME_BYTES];
        layout_kept_name(i, kept);
        survey->kept |= strcmp(name, kept) == 0 ? 1u << i : 0;
    }
    if (listing->err != JOURNAL_OK || !segment_name_read(name, &first))
        return;
    void *segments = survey->segments;
    if (survey->count == LIMIT_JOURNAL_SEGMENTS)
        listing->err =
            survey_refuse(survey, JOURNAL_LIMIT, "it has more files than a journal can have");
    else if (!survey_grow(&segments, sizeof *survey->segments, survey->count, &survey->room))
        listing->err = survey_refuse(survey, JOURNAL_MEMORY, journal_strerror(JOURNAL_MEMORY));
    else
        survey->segments = segments;
    if (listing->err == JOURNAL_OK)
        survey->segments[survey->count++] = (struct surveyed){.first = first, .end = first};
}

static int compare_segments(const void *left, const void *right)
{
    uint64_t a = ((const struct surveyed *)left)->first;
    uint64_t b = ((const struct surveyed *)right)->first;
    return (a > b) - (a < b);
}

static int survey_open_segment(struct survey *survey, uint64_t first)
{
    char name[FORMAT_NAME_BYTES];
    segment_name_write(first, name);
    return survey->disk->ops->open(survey->disk, name, DISK_READ);
}

/* The head is damaged.  It has the id of the journal twice: one may fit the first record. */
static void guess_journal(struct survey *survey, const uint8_t *bytes, uint64_t first)
{
    struct record_head head;
    for (size_t at = 16; at <= 40 && !survey->has_journal; at += 24) {
        survey->journal = format_get64(bytes + at);
        survey->has_journal =
            record_head_read(bytes + FORMAT_SEGMENT_BYTES, survey->journal, first, &head);
    }
}

/* Reads the head of a segment.  out_is_foreign: it is of another journal. */
static enum journal_err read_head(struct survey *survey, struct surveyed *segment, bool is_guess,
                                  bool *out_is_foreign)
{
    uint8_t bytes[FORMAT_SEGMENT_BYTES + FORMAT_RECORD_BYTES] = {0};
    struct segment_head head = {.version = 0};
    enum journal_err err = JOURNAL_OK;
    int64_t result = survey_open_segment(survey, segment->first);
    int file = (int)result;
    if (result >= 0)
        result = disk_read_at(survey->disk, file, bytes, sizeof bytes, 0);
    if (result >= 0)
        result = survey->disk->ops->size(survey->disk, file);
    if (file >= 0)
        survey->disk->ops->shut(survey->disk, file);
    if (result < 0)
        return refuse_file(survey, segment->first, (int)result);
    segment->bytes = (uint64_t)result;
    enum segment_verdict verdict = segment_head_read(bytes, &head);
    segment->has_head = verdict == SEGMENT_GOOD && head.first == segment->first;
    segment->trimmed = segment->has_head ? head.trimmed : 0;
    segment->synced = segment->has_head ? head.synced : 0;
    segment->made = segment->has_head ? head.bytes : 0;
    segment->is_reused = segment->has_head && head.is_reused;
    *out_is_foreign = segment->has_head && survey->has_journal && head.journal != survey->journal;
    if (verdict == SEGMENT_NEWER) {
        char why[160];
        snprintf(why, sizeof why,
                 "a newer errbusd wrote it, in format %" PRIu32
                 ", and this version reads formats up to %d: start the newer version",
                 head.version, FORMAT_VERSION);
        err = survey_refuse(survey, JOURNAL_FORMAT, why);
    } else if (segment->has_head && !survey->has_journal) {
        survey->journal = head.journal;
        survey->has_journal = true;
    } else if (is_guess) {
        guess_journal(survey, bytes, segment->first);
    }
    return err;
}

static enum journal_err read_heads(struct survey *survey)
{
    enum journal_err err = JOURNAL_OK;
    bool is_foreign = false;
    for (size_t i = 0; err == JOURNAL_OK && i < survey->count; i++)
        err = read_head(survey, &survey->segments[i], false, &is_foreign);
    for (size_t i = 0; err == JOURNAL_OK && !survey->has_journal && i < survey->count; i++)
        err = read_head(survey, &survey->segments[i], true, &is_foreign);
    for (size_t i = 0; err == JOURNAL_OK && i < survey->count;) {
        err = read_head(survey, &survey->segments[i], false, &is_foreign);
        if (err == JOURNAL_OK && is_foreign)
            err = find_file(survey, FINDING_FOREIGN, survey->segments[i].first);
        if (is_foreign)
            drop_segment(survey, i);
        else
            i++;
    }
    return err;
}

static enum journal_err read_proof(struct survey *survey)
{
    int result = proof_load(survey->disk, &survey->proof);
    if (result < 0)
        return survey_refuse(survey, JOURNAL_IO, strerror(-result));
    if (survey->has_journal && survey->proof.journal != survey->journal)
        survey->proof = (struct proof){.number = 0}; /* of a journal that was here before */
    if (survey->proof.number > 0)
        survey->journal = survey->proof.journal;
    survey->has_journal = survey->has_journal || survey->proof.number > 0;
    survey->trimmed = survey->proof.trimmed;
    survey->claimed = survey->synced = survey->proof.synced;
    return JOURNAL_OK;
}

/* No segment at all: there was no journal yet, or somebody took it away. */
static enum journal_err judge_none(struct survey *survey)
{
    struct finding finding = {.kind = FINDING_MISSING,
                              .segment = survey->proof.trimmed,
                              .from = survey->proof.trimmed,
                              .until = survey->proof.synced};
    return survey->proof.number > 0 ? survey_find(survey, finding) : JOURNAL_OK;
}

/* What was given up does not count, whatever there is of it: nothing of it need be on the disk. */
static enum journal_err drop_given_up(struct survey *survey)
{
    enum journal_err err = JOURNAL_OK;
    size_t begin = 0;
    for (size_t i = 0; i < survey->count; i++)
        if (survey->segments[i].trimmed > survey->trimmed)
            survey->trimmed = survey->segments[i].trimmed;
    survey->given_up = survey->trimmed;
    while (begin < survey->count && survey->segments[begin].first < survey->trimmed)
        begin++;
    /* If no segment begins there, one is missing, and the judgement of the first one says so. */
    if (begin == survey->count || survey->segments[begin].first != survey->trimmed)
        return JOURNAL_OK;
    for (; err == JOURNAL_OK && begin > 0; begin--) {
        err = find_file(survey, FINDING_GONE, survey->segments[0].first);
        drop_segment(survey, 0);
    }
    return err;
}

/* ---- what stands in a segment ---------------------------------------------------------------- */

static enum journal_err scan_failed(struct survey *survey, const struct surveyed *segment,
                                    enum scan_verdict verdict)
{
    if (verdict == SCAN_MEMORY)
        return survey_refuse(survey, JOURNAL_MEMORY, journal_strerror(JOURNAL_MEMORY));
    return refuse_file(survey, segment->first, survey->scan.err);
}

static void account(struct survey *survey, struct surveyed *segment,
                    const struct scan_record *record, uint64_t *unfinished)
{
    const struct record_head *head = &record->head;
    segment->records++;
    (*unfinished)++;
    survey->synced = head->synced > survey->synced ? head->synced : survey->synced;
    survey->batch = head->batch;
    segment->unsealed = segment->end; /* a seal is a batch of its own: behind the one before it */
    if ((head->marks & FORMAT_MARK_CHECKPOINT_BEGIN) != 0)
        survey->begun = record->at;
    if ((head->marks & FORMAT_MARK_CHECKPOINT_END) != 0 && survey->begun != UINT64_MAX) {
        survey->checkpoint = survey->begun;
        survey->begun = UINT64_MAX;
    }
    if (head->kind == FORMAT_KIND_TRIM && record->body.bytes == 8) {
        uint64_t trimmed = format_get64(record->body.data);
        survey->trimmed = trimmed > survey->trimmed ? trimmed : survey->trimmed;
    }
    if ((head->marks & FORMAT_MARK_BATCH_END) != 0) {
        segment->end = record->next;
        *unfinished = 0;
    }
    segment->is_lazy = head->kind == FORMAT_KIND_LAZY_SEAL;
    segment->is_sealed = head->kind == FORMAT_KIND_SEAL || segment->is_lazy;
    if (survey->visit != NULL)
        survey->visit(survey->arg, record);
}

/* Looks at a segment, from one position on, for what it says about others: records that are valid,
 * heads alone. */
static enum journal_err survey_look_behind(struct survey *survey, const struct surveyed *segment,
                                           uint64_t from, struct scan_behind *out_behind)
{
    struct scan scan;
    enum scan_verdict verdict = SCAN_IO;
    uint64_t there =
        segment->bytes > FORMAT_SEGMENT_BYTES ? segment->bytes - FORMAT_SEGMENT_BYTES : 0;
    scan_init(&scan, survey->disk);
    int file = survey_open_segment(survey, segment->first);
    scan.err = file;
    if (file >= 0) {
        scan_start(&scan, file, survey->journal, segment->first, from, segment->first + there);
        verdict = scan_behind(&scan, out_behind);
        survey->disk->ops->shut(survey->disk, file);
    }
    scan_fini(&scan);
    if (verdict == SCAN_MEMORY)
        return survey_refuse(survey, JOURNAL_MEMORY, journal_strerror(JOURNAL_MEMORY));
    return verdict == SCAN_STOP ? JOURNAL_OK : refuse_file(survey, segment->first, scan.err);
}

static void claim(struct survey *survey, uint64_t synced)
{
    survey->claimed = synced > survey->claimed ? synced : survey->claimed;
}

/* Whether anything says that what stood at a position was on the disk.  Segments from `from` on are
 * looked at for that, once: what they say holds for all places before them.  Without a proof no
 * segment was left unsynced: that there is one behind this place is enough. */
static enum journal_err is_promised(struct survey *survey, size_t from, uint64_t at, bool *out_is)
{
    enum journal_err err = JOURNAL_OK;
    claim(survey, survey->synced);
    if (from < survey->count && survey->proof.number == 0) {
        *out_is = true;
        return JOURNAL_OK;
    }
    for (size_t i = from; !survey->has_claimed && i < survey->count; i++)
        claim(survey, survey->segments[i].synced);
    for (size_t i = from;
         err == JOURNAL_OK && survey->claimed <= at && !survey->has_claimed && i < survey->count;
         i++) {
        struct scan_behind behind = {.heads = 0};
        err = survey_look_behind(survey, &survey->segments[i], survey->segments[i].first, &behind);
        claim(survey, behind.synced);
    }
    survey->has_claimed = survey->has_claimed || survey->claimed <= at;
    *out_is = survey->claimed > at;
    return err;
}

/* Nothing from this segment on was ever promised: it goes with the torn tail before it. */
static enum journal_err drop_behind(struct survey *survey, size_t index, struct finding *torn)
{
    enum journal_err err = JOURNAL_OK;
    survey->is_torn = true;
    for (size_t i = index; err == JOURNAL_OK && i < survey->count; i++) {
        const struct surveyed *segment = &survey->segments[i];
        struct scan_behind behind = {.heads = 0};
        err = survey_look_behind(survey, segment, segment->first, &behind);
        if (err == JOURNAL_OK && behind.heads > 0)
            torn->behind += behind.filled - segment->first;
        torn->records += behind.heads;
        if (err == JOURNAL_OK)
            err = find_file(survey, FINDING_BEHIND, segment->first);
    }
    survey->count = index < survey->count ? index : survey->count;
    torn->kind = FINDING_TORN;
    bool is_any = torn->until > torn->from || torn->behind > 0;
    return err == JOURNAL_OK && is_any ? survey_find(survey, *torn) : err;
}

/* The scan stopped: at the end of what there is, in a torn tail, or at damage, behind which it then
 * goes on.  until: where the segment ends if it is not the last, else UINT64_MAX. */
static enum journal_err judge_stop(struct survey *survey, size_t index, uint64_t until,
                                   uint64_t unfinished, bool *out_is_end)
{
    struct scan *scan = &survey->scan;
    struct surveyed *segment = &survey->segments[index];
    struct scan_behind behind;
    struct record_head head = {.kind = 0};
    struct finding finding = {.segment = segment->first};
    bool is_there = false;
    bool has_head = scan_head_here(scan, &head);
    enum scan_verdict verdict = scan_behind(scan, &behind);
    if (verdict != SCAN_STOP)
        return scan_failed(survey, segment, verdict);
    claim(survey, behind.synced);
    enum journal_err err = is_promised(survey, index + 1, scan->at, &is_there);
    if (err != JOURNAL_OK)
        return err;
    if (!is_there) {
        *out_is_end = true;
        finding.from = segment->end;
        finding.until = format_filled(behind.filled);
        finding.records = unfinished + behind.heads - has_head;
        if (segment->is_reused && behind.is_blank && behind.heads == 0 && unfinished == 0) {
            survey->stale_until = finding.until;
            finding.until = finding.from;
        }
        return drop_behind(survey, index + 1, &finding);
    }
    finding.kind = FINDING_DAMAGE;
    finding.from = scan->at;
    if (unfinished > 0 && scan->at >= scan->limit)
        finding.from = segment->end; /* a batch goes on in no other segment: its end is missing */
    finding.until = behind.next != UINT64_MAX       ? behind.next
                    : until != UINT64_MAX           ? until
                    : survey->claimed < scan->limit ? survey->claimed
                                                    : scan->limit;
    finding.has_head = has_head && finding.from + format_record(head.bytes) == finding.until;
    finding.kind_lost = head.kind;
    finding.bytes_lost = head.bytes;
    *out_is_end = finding.until >= scan->limit;
    segment->end = finding.until;
    if (!*out_is_end)
        scan_move(scan, finding.until, scan->limit);
    return finding.until > finding.from ? survey_find(survey, finding) : JOURNAL_OK;
}

/* until: where the segment must end; UINT64_MAX: it is the last. */
static enum journal_err survey_segment(struct survey *survey, size_t index, uint64_t until)
{
    struct surveyed *segment = &survey->segments[index];
    struct scan_record record;
    enum journal_err err = JOURNAL_OK;
    uint64_t unfinished = 0;
    bool is_end = false;
    uint64_t there =
        segment->bytes > FORMAT_SEGMENT_BYTES ? segment->bytes - FORMAT_SEGMENT_BYTES : 0;
    uint64_t limit = until < segment->first + there ? until : segment->first + there;
    int file = survey_open_segment(survey, segment->first);
    if (file < 0)
        return refuse_file(survey, segment->first, file);
    survey->synced = segment->synced > survey->synced ? segment->synced : survey->synced;
    scan_start(&survey->scan, file, survey->journal, segment->first, segment->first, limit);
    while (err == JOURNAL_OK && !is_end && !segment->is_sealed) {
        enum scan_verdict verdict = scan_next(&survey->scan, &record);
        if (verdict == SCAN_RECORD) {
            account(survey, segment, &record, &unfinished);
        } else if (verdict == SCAN_STOP) {
            /* What ends right where the next begins is whole, seal or not. */
            is_end = segment->end == until;
            if (!is_end)
                err = judge_stop(survey, index, until, unfinished, &is_end);
            unfinished = 0;
        } else {
            err = scan_failed(survey, segment, verdict);
        }
    }
    survey->disk->ops->shut(survey->disk, file);
    return err;
}

/* ---- how segments fit together --------------------------------------------------------------- */

/* True: a seal stands right before a position, at the end of this segment. */
static bool has_seal_before(struct survey *survey, const struct surveyed *segment, uint64_t at)
{
    uint8_t bytes[FORMAT_RECORD_BYTES];
    struct record_head head = {.kind = 0};
    if (at < segment->first + FORMAT_RECORD_BYTES)
        return false;
    at -= FORMAT_RECORD_BYTES;
    int file = survey_open_segment(survey, segment->first);
    if (file < 0)
        return false;
    int64_t got = disk_read_at(survey->disk, file, bytes, sizeof bytes,
                               FORMAT_SEGMENT_BYTES + at - segment->first);
    survey->disk->ops->shut(survey->disk, file);
    return got == sizeof bytes && record_head_read(bytes, survey->journal, at, &head) &&
           (head.kind == FORMAT_KIND_SEAL || head.kind == FORMAT_KIND_LAZY_SEAL);
}

/* Drops the last segment if a crash came before the one before it was sealed. */
static enum journal_err drop_unfinished_roll(struct survey *survey)
{
    struct scan_record record;
    struct scan_behind behind = {.heads = 0};
    const struct surveyed *last = &survey->segments[survey->count - 1];
    if (survey->count < 2 || !last->has_head || has_seal_before(survey, last - 1, last->first))
        return JOURNAL_OK;
    int file = survey_open_segment(survey, last->first);
    if (file < 0)
        return refuse_file(survey, last->first, file);
    uint64_t there = last->bytes > FORMAT_SEGMENT_BYTES ? last->bytes - FORMAT_SEGMENT_BYTES : 0;
    scan_start(&survey->scan, file, survey->journal, last->first, last->first, last->first + there);
    enum scan_verdict verdict = scan_next(&survey->scan, &record);
    if (verdict == SCAN_STOP)
        verdict = scan_behind(&survey->scan, &behind);
    survey->disk->ops->shut(survey->disk, file);
    if (verdict != SCAN_STOP || behind.heads > 0)
        return verdict == SCAN_RECORD || verdict == SCAN_STOP ? JOURNAL_OK
                                                              : scan_failed(survey, last, verdict);
    survey->count--;
    return find_file(survey, FINDING_ROLL, last->first);
}

/* A segment whose head is not valid: damage, or a file of which little got to the disk. */
static enum journal_err judge_head(struct survey *survey, size_t index)
{
    const struct surveyed *segment = &survey->segments[index];
    bool is_there = true;
    enum journal_err err = JOURNAL_OK;
    if (index > 0 && segment[-1].is_lazy)
        err = is_promised(survey, index, segment->first, &is_there);
    if (err != JOURNAL_OK || is_there)
        return err == JOURNAL_OK ? find_file(survey, FINDING_HEAD, segment->first) : err;
    struct finding torn = {
        .segment = segment[-1].first, .from = segment->first, .until = segment->first};
    return drop_behind(survey, index, &torn);
}

/* The segment ends before the next one begins: a file is missing, or never got to the disk. */
static enum journal_err judge_gap(struct survey *survey, size_t index, uint64_t until)
{
    const struct surveyed *segment = &survey->segments[index];
    struct finding finding = {
        .kind = FINDING_MISSING, .segment = segment->first, .from = segment->end, .until = until};
    bool is_there = true;
    enum journal_err err = JOURNAL_OK;
    if (segment->is_lazy)
        err = is_promised(survey, index + 1, segment->end, &is_there);
    if (err != JOURNAL_OK || is_there)
        return err == JOURNAL_OK ? survey_find(survey, finding) : err;
    finding.until = segment->end;
    return drop_behind(survey, index + 1, &finding);
}

/* The last segment: whether one is missing behind it, or some of it. */
static enum journal_err judge_last(struct survey *survey)
{
    struct surveyed *last = &survey->segments[survey->count - 1];
    struct finding finding = {
        .kind = FINDING_LAST, .segment = last->first, .from = last->end, .until = last->end};
    struct scan_behind behind = {.filled = last->end};
    uint64_t there = last->first + last->bytes - FORMAT_SEGMENT_BYTES;
    enum journal_err err =
        last->is_lazy ? survey_look_behind(survey, last, last->end, &behind) : JOURNAL_OK;
    if (err != JOURNAL_OK)
        return err;
    bool is_short =
        last->bytes < last->made && (last->synced == last->first || survey->claimed > there ||
                                     last->bytes < FORMAT_SEGMENT_BYTES);
    claim(survey, survey->synced);
    claim(survey, behind.synced);
    if (is_short)
        return survey_find(survey, (struct finding){.kind = FINDING_SHORT,
                                                    .segment = last->first,
                                                    .from = last->bytes,
                                                    .until = last->made});
    if (survey->claimed > last->end || (last->is_sealed && !last->is_lazy)) {
        err = survey_find(survey, finding);
    } else if (last->is_sealed) {
        /* It promised a segment that was never said to be there: it goes on where it was sealed,
         * and nothing that stands behind may pass for what is to come. */
        last->end = last->unsealed;
        last->is_sealed = false;
        finding = (struct finding){.kind = FINDING_TORN,
                                   .segment = last->first,
                                   .from = last->unsealed,
                                   .until = finding.from,
                                   .records = behind.heads};
        if (behind.heads > 0)
            finding.until = format_filled(behind.filled);
        err = survey_find(survey, finding);
    }
    return err;
}

static enum journal_err survey_segments(struct survey *survey)
{
    enum journal_err err = JOURNAL_OK;
    for (size_t i = 0; err == JOURNAL_OK && i < survey->count && !survey->is_torn; i++) {
        struct surveyed *segment = &survey->segments[i];
        bool is_last = i + 1 == survey->count;
        uint64_t until = is_last ? UINT64_MAX : segment[1].first;
        survey->trimmed = segment->trimmed > survey->trimmed ? segment->trimmed : survey->trimmed;
        if (!segment->has_head)
            err = judge_head(survey, i);
        if (err == JOURNAL_OK && i < survey->count)
            err = survey_segment(survey, i, until);
        if (err == JOURNAL_OK && i + 1 < survey->count && segment->end < until)
            err = judge_gap(survey, i, until);
    }
    return err == JOURNAL_OK && survey->count > 0 ? judge_last(survey) : err;
}

static enum journal_err survey_all(struct survey *survey)
{
    enum journal_err err = read_heads(survey);
    if (err == JOURNAL_OK)
        err = read_proof(survey);
    if (err == JOURNAL_OK)
        err = drop_given_up(survey);
    if (err != JOURNAL_OK || survey->count == 0)
        return err == JOURNAL_OK ? judge_none(survey) : err;
    err = drop_unfinished_roll(survey);
    if (err == JOURNAL_OK)
        err = survey_segments(survey);
    if (err == JOURNAL_OK && survey->segments[0].first > survey->trimmed)
        err = survey_find(survey, (struct finding){.kind = FINDING_MISSING,
                                                   .segment = survey->segments[0].first,
                                                   .from = survey->trimmed,
                                                   .until = survey->segments[0].first});
    return err;
}

enum journal_err survey_take(struct survey *survey, struct disk *disk,
                             void (*visit)(void *arg, const struct scan_record *record), void *arg)
{
    struct listing listing = {.survey = survey, .err = JOURNAL_OK};
    *survey = (struct survey){
        .disk = disk, .visit = visit, .arg = arg, .checkpoint = UINT64_MAX, .begun = UINT64_MAX};
    scan_init(&survey->scan, disk);
    int result = disk->ops->list(disk, list_name, &listing);
    if (listing.err != JOURNAL_OK)
        return listing.err;
    if (result < 0)
        return survey_refuse(survey, JOURNAL_IO, strerror(-result));
    if (survey->count > 0)
        qsort(survey->segments, survey->count, sizeof *survey->segments, compare_segments);
    return survey_all(survey);
}

void survey_fini(struct survey *survey)
{
    scan_fini(&survey->scan);
    free(survey->segments);
    free(survey->findings);
    survey->segments = NULL;
    survey->findings = NULL;
}

/* ---- telling --------------------------------------------------------------------------------- */

bool survey_is_harmless(const struct finding *finding)
{
    return finding->kind == FINDING_TORN || finding->kind == FINDING_ROLL ||
           finding->kind == FINDING_BEHIND || finding->kind == FINDING_GONE;
}

const struct finding *survey_damage(const struct survey *survey)
{
    for (size_t i = 0; i < survey->finding_count; i++)
        if (!survey_is_harmless(&survey->findings[i]))
            return &survey->findings[i];
    return NULL;
}

static void describe_torn(const char *file, const struct finding *finding, char *text)
{
    char more[96] = "";
    if (finding->behind > 0)
        snprintf(more, sizeof more, " and %" PRIu64 " B in later files", finding->behind);
    snprintf(text, SURVEY_TEXT_BYTES,
             "'%s' has a torn tail: %" PRIu64 " B from position %" PRIu64 " (offset %" PRIu64
             ")%s, with %" PRIu64 " whole records, which were not yet confirmed as on the disk",
             file, finding->until - finding->from, finding->from,
             FORMAT_SEGMENT_BYTES + finding->from - finding->segment, more, finding->records);
}

static void describe_damage(const char *file, const struct finding *finding, char *text)
{
    char what[96] = "";
    if (finding->has_head)
        snprintf(what, sizeof what, ", the body of one record of kind %u with %" PRIu32 " B",
                 finding->kind_lost, finding->bytes_lost);
    snprintf(text, SURVEY_TEXT_BYTES,
             "'%s' is damaged at position %" PRIu64 " (offset %" PRIu64 "), %" PRIu64 " B%s", file,
             finding->from, FORMAT_SEGMENT_BYTES + finding->from - finding->segment,
             finding->until - finding->from, what);
}

void survey_describe(const struct survey *survey, const struct finding *finding, char *text)
{
    char file[FORMAT_NAME_BYTES + 256];
    char name[FORMAT_NAME_BYTES];
    segment_name_write(finding->segment, name);
    snprintf(file, sizeof file, "%.250s/%s", survey->disk->name, name);
    switch (finding->kind) {
    case FINDING_TORN: describe_torn(file, finding, text); break;
    case FINDING_ROLL:
        snprintf(text, SURVEY_TEXT_BYTES, "'%s' was created and not used yet", file);
        break;
    case FINDING_BEHIND:
        snprintf(text, SURVEY_TEXT_BYTES, "'%s' follows a file with a torn tail", file);
        break;
    case FINDING_GONE:
        snprintf(text, SURVEY_TEXT_BYTES, "'%s' is not needed any more and was not removed yet",
                 file);
        break;
    case FINDING_DAMAGE: describe_damage(file, finding, text); break;
    case FINDING_MISSING:
        snprintf(text, SURVEY_TEXT_BYTES,
                 "next to '%s' a file is missing: none has positions %" PRIu64 " to %" PRIu64, file,
                 finding->from, finding->until);
        break;
    case FINDING_SHORT:
        snprintf(text, SURVEY_TEXT_BYTES,
                 "'%s' ends at offset %" PRIu64 ", but was created with %" PRIu64
                 " B: the rest is lost",
                 file, finding->from, finding->until);
        break;
    case FINDING_LAST:
        snprintf(text, SURVEY_TEXT_BYTES,
                 "after '%s' a file is missing: none begins at position %" PRIu64
                 ", where the newest records were",
                 file, finding->from);
        break;
    case FINDING_HEAD:
        snprintf(text, SURVEY_TEXT_BYTES, "'%s' is damaged in its head (offset 0)", file);
        break;
    case FINDING_FOREIGN:
        snprintf(text, SURVEY_TEXT_BYTES, "'%s' belongs to another journal", file);
        break;
    }
}
