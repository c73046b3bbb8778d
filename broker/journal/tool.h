/* SPDX-License-Identifier: MPL-2.0 */
/* tool.h -- looks at a journal that no broker has open, mends it, and writes out what it holds:
 * errbusd --check, --repair, --export; and errbusd --backup.
 *
 * Each but the backup takes the journal's lock, so that no broker changes it meanwhile, and reports
 * in sentences, one at a time, without a newline. */
#ifndef JOURNAL_TOOL_H
#define JOURNAL_TOOL_H

#include "broker/journal/backup.h"
#include "broker/journal/disk.h"
#include "broker/journal/journal.h"

#include <stdio.h>

/* Changes nothing.  JOURNAL_OK: a broker would start with it.  JOURNAL_DAMAGED: it would not. */
enum journal_err journal_check(const char *where, void (*report)(void *arg, const char *line),
                               void *arg);
/* Cuts out what is damaged, after it has saved it in files beside (lost-FROM-UNTIL, or the file's
 * own name with aside- before it), and says what is lost.  What is left keeps its positions; in
 * place of what is lost a reader meets JOURNAL_KIND_LOST.  May be done again after a crash.
 * JOURNAL_OK: a broker will start with it. */
enum journal_err journal_repair(const char *where, void (*report)(void *arg, const char *line),
                                void *arg);
/* One line of JSON a record, with its body as hexadecimal digits, and one for each thing that is
 * wrong.  JOURNAL_DAMAGED: all that can be read was written, and not all can be. */
enum journal_err journal_export(const char *where, FILE *out,
                                void (*report)(void *arg, const char *line), void *arg);

/* Copies a journal that a broker may be writing; it takes no lock of it (backup.h).  to: a
 * directory that is empty or not there.  complaint has JOURNAL_COMPLAINT_BYTES. */
enum journal_err journal_backup(const char *from, const char *to, struct backup_done *out_done,
                                char *complaint);

/* Says what a server has of what a journal in it needs, where so many standbys must confirm each
 * commit.  JOURNAL_OK: a broker would start with it. */
enum journal_err journal_explain_store(const char *where, unsigned replicas,
                                       void (*report)(void *arg, const char *line), void *arg);

/* The same on any disk, which they take over. */
enum journal_err tool_check(struct disk **disk, void (*report)(void *arg, const char *line),
                            void *arg);
enum journal_err tool_repair(struct disk **disk, void (*report)(void *arg, const char *line),
                             void *arg);
enum journal_err tool_export(struct disk **disk, FILE *out,
                             void (*report)(void *arg, const char *line), void *arg);

#endif
