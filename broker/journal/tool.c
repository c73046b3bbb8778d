/* SPDX-License-Identifier: MPL-2.0 */
/* tool.c -- checks a journal and writes out what it holds; see tool.h. */
#include "broker/journal/tool.h"

#include "broker/journal/layout.h"
#include "broker/journal/survey.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#define LINE_BYTES (JOURNAL_COMPLAINT_BYTES + SURVEY_TEXT_BYTES)

struct teller {
    void (*report)(void *arg, const char *line);
    void *arg;
};

static void tool_tell(const struct teller *teller, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void tool_tell(const struct teller *teller, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    teller->report(teller->arg, line);
}

static enum journal_err tool_lock(struct disk *disk, const struct teller *teller)
{
    struct disk_owner owner = {.lease = 0};
    int result = disk->ops->lock(disk, true, &owner);
    if (result == -EWOULDBLOCK)
        tool_tell(teller, "a broker (process %" PRId64 ") has the journal in '%s': stop it first",
                  owner.pid, disk->name);
    else if (result < 0)
        tool_tell(teller, "'%s/lock' cannot be read: %s", disk->name, strerror(-result));
    return journal_err_of(result);
}

/* Locks the journal and surveys it; reports why it cannot. */
static enum journal_err tool_look(struct disk *disk, const struct teller *teller,
                                  struct survey *survey,
                                  void (*visit)(void *arg, const struct scan_record *record),
                                  void *arg)
{
    enum journal_err err = tool_lock(disk, teller);
    if (err != JOURNAL_OK)
        return err;
    err = survey_take(survey, disk, visit, arg);
    if (err != JOURNAL_OK) {
        tool_tell(teller, "%s", survey->complaint);
    } else if (survey->count == 0 && survey->finding_count == 0) {
        tool_tell(teller, "there is no journal in '%s'", disk->name);
        err = JOURNAL_MISSING;
    }
    return err;
}

/* ---- checking -------------------------------------------------------------------------------- */

static void tell_survey(const struct teller *teller, const struct survey *survey)
{
    char name[FORMAT_NAME_BYTES];
    char text[SURVEY_TEXT_BYTES];
    uint64_t records = 0;
    for (size_t i = 0; i < survey->count; i++) {
        const struct surveyed *segment = &survey->segments[i];
        segment_name_write(segment->first, name);
        tool_tell(teller, "%s: %" PRIu64 " records, positions %" PRIu64 " to %" PRIu64 "%s", name,
                  segment->records, segment->first, segment->end,
                  segment->is_sealed ? ", sealed" : "");
        records += segment->records;
    }
    for (size_t i = 0; i < survey->finding_count; i++) {
        const struct finding *finding = &survey->findings[i];
        bool is_mended = survey_is_harmless(finding);
        survey_describe(survey, finding, text);
        tool_tell(teller, "%s%s", text, is_mended ? " (the next start of errbusd removes it)" : "");
    }
    tool_tell(teller, "the journal in '%s' is %s: %" PRIu64 " records, including its internal ones",
              survey->disk->name, survey_damage(survey) == NULL ? "whole" : "damaged", records);
}

enum journal_err tool_check(struct disk **disk, void (*report)(void *arg, const char *line),
                            void *arg)
{
    struct teller teller = {report, arg};
    struct survey survey = {.count = 0};
    enum journal_err err = tool_look(*disk, &teller, &survey, NULL, NULL);
    if (err == JOURNAL_OK) {
        tell_survey(&teller, &survey);
        err = survey_damage(&survey) == NULL ? JOURNAL_OK : JOURNAL_DAMAGED;
    }
    survey_fini(&survey);
    disk_close(disk);
    return err;
}

/* ---- writing out ----------------------------------------------------------------------------- */

static void export_record(void *arg, const struct scan_record *record)
{
    static const char digits[] = "0123456789abcdef";
    FILE *out = arg;
    const uint8_t *body = record->body.data;
    const struct record_head *head = &record->head;
    bool is_begin = (head->marks & FORMAT_MARK_CHECKPOINT_BEGIN) != 0;
    bool is_end = (head->marks & FORMAT_MARK_CHECKPOINT_END) != 0;
    fprintf(out,
            "{\"position\":%" PRIu64 ",\"kind\":%u,\"bytes\":%" PRIu32
            ",\"crc\":true,\"batch\":%" PRIu32 ",\"synced\":%" PRIu64 "%s%s,\"body\":\"",
            record->at, head->kind, head->bytes, head->batch, head->synced,
            is_begin ? ",\"checkpoint_begin\":true" : "", is_end ? ",\"checkpoint_end\":true" : "");
    for (size_t i = 0; i < record->body.bytes; i++) {
        putc(digits[body[i] >> 4], out);
        putc(digits[body[i] & 15], out);
    }
    fputs("\"}\n", out);
}

static void export_text(FILE *out, const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\')
            putc('\\', out);
        if ((unsigned char)*at < 0x20)
            fprintf(out, "\\u%04x", (unsigned)(unsigned char)*at);
        else
            putc(*at, out);
    }
}

static void export_finding(FILE *out, const struct survey *survey, const struct finding *finding)
{
    char text[SURVEY_TEXT_BYTES];
    survey_describe(survey, finding, text);
    fprintf(out, "{\"position\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"crc\":false,\"why\":\"",
            finding->from, finding->until - finding->from);
    export_text(out, text);
    fputs("\"}\n", out);
}

enum journal_err tool_export(struct disk **disk, FILE *out,
                             void (*report)(void *arg, const char *line), void *arg)
{
    struct teller teller = {report, arg};
    struct survey survey = {.count = 0};
    enum journal_err err = tool_look(*disk, &teller, &survey, export_record, out);
    if (err == JOURNAL_OK) {
        for (size_t i = 0; i < survey.finding_count; i++)
            export_finding(out, &survey, &survey.findings[i]);
        err = survey_damage(&survey) == NULL ? JOURNAL_OK : JOURNAL_DAMAGED;
    }
    if (fflush(out) != 0 || ferror(out)) {
        tool_tell(&teller, "the export cannot be written: %s", strerror(errno));
        err = JOURNAL_IO;
    }
    survey_fini(&survey);
    disk_close(disk);
    return err;
}

/* ---- by name --------------------------------------------------------------------------------- */

static enum journal_err open_named(const char *where, struct disk **out_disk,
                                   const struct teller *teller)
{
    char complaint[DISK_COMPLAINT_BYTES];
    int result = disk_open(where, false, out_disk, complaint);
    if (result < 0)
        tool_tell(teller, "%s", complaint);
    return journal_err_of(result);
}

enum journal_err journal_check(const char *where, void (*report)(void *arg, const char *line),
                               void *arg)
{
    struct disk *disk = NULL;
    enum journal_err err = open_named(where, &disk, &(struct teller){report, arg});
    return err == JOURNAL_OK ? tool_check(&disk, report, arg) : err;
}

enum journal_err journal_repair(const char *where, void (*report)(void *arg, const char *line),
                                void *arg)
{
    struct disk *disk = NULL;
    enum journal_err err = open_named(where, &disk, &(struct teller){report, arg});
    return err == JOURNAL_OK ? tool_repair(&disk, report, arg) : err;
}

enum journal_err journal_backup(const char *from, const char *to, struct backup_done *out_done,
                                char *complaint)
{
    struct disk *source = NULL;
    struct disk *target = NULL;
    int result = disk_open(from, false, &source, complaint);
    if (result == 0)
        result = disk_open(to, true, &target, complaint);
    if (result == 0)
        return backup_take(&source, &target, out_done, complaint);
    disk_close(&source);
    return journal_err_of(result);
}

enum journal_err journal_export(const char *where, FILE *out,
                                void (*report)(void *arg, const char *line), void *arg)
{
    struct disk *disk = NULL;
    enum journal_err err = open_named(where, &disk, &(struct teller){report, arg});
    return err == JOURNAL_OK ? tool_export(&disk, out, report, arg) : err;
}
