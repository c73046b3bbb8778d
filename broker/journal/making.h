/* SPDX-License-Identifier: MPL-2.0 */
/* making.h -- what every making of the journal has in common, and what it brings along. */
#ifndef JOURNAL_MAKING_H
#define JOURNAL_MAKING_H

#include "broker/journal/journal.h"

/* journal.c has looked at what any making would refuse: lease, position, kinds. */
struct journal_ops {
    enum journal_err (*append)(struct journal *journal, const struct journal_record *records,
                               size_t count, unsigned how, uint64_t *out_at);
    enum journal_err (*sync)(struct journal *journal);
    enum journal_err (*trim)(struct journal *journal, uint64_t below);
    void (*set_aside)(struct journal *journal, uint64_t bytes); /* NULL: nothing to set aside of */
    enum journal_err (*read)(struct journal *journal, uint64_t at, struct journal_found *out_found);
    enum journal_err (*fetch)(struct journal *journal, uint64_t at, void *out_body, size_t bytes);
    uint64_t (*first_end)(const struct journal *journal);
    uint64_t (*bytes)(const struct journal *journal);
    uint64_t (*room)(const struct journal *journal);
    void (*close)(struct journal *journal);
    /* NULL, both: there is nothing to flush. */
    enum journal_err (*flush_begin)(struct journal *journal, struct journal_flush **out_flush);
    enum journal_err (*flush_end)(struct journal *journal, struct journal_flush **flush);
};
struct journal {
    const struct journal_ops *ops;
    uint64_t id;
    uint64_t lease;
    uint64_t first;
    uint64_t next;
    uint64_t synced;
    uint64_t checkpoint; /* UINT64_MAX: none */
    uint64_t aside;
    char complaint[JOURNAL_COMPLAINT_BYTES];
};

/* What every making's flush begins with. */
struct journal_flush {
    void (*run)(struct journal_flush *flush);
};

enum journal_err none_open(struct journal **out_journal);

#endif
