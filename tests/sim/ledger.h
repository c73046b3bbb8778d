/* SPDX-License-Identifier: MPL-2.0 */
/* ledger.h -- the journal of a simulated broker: its facts, the bytes beside them, and a second
 * core that knows nothing but them. */
#ifndef SIM_LEDGER_H
#define SIM_LEDGER_H

#include "broker/io/core_port.h"
#include "tests/sim/tape.h"

struct ledger;

struct ledger *ledger_new(const struct core_options *options);
void ledger_free(struct ledger **ledger); /* NULL inside is a no-op */
void ledger_clear(struct ledger *ledger);

/* Takes the record over; payload: the broker's number of the bytes beside it, which stay where they
 * are as long as they are kept.  NULL, or what the second core says is wrong with it. */
const char *ledger_add(struct ledger *ledger, struct buffer **record, payload_id payload,
                       struct buffer *bytes);
uint32_t ledger_count(const struct ledger *ledger); /* records */
/* From now on its records are on a simulated disk, too (tape.h). */
void ledger_use_disk(struct ledger *ledger, uint64_t seed);
/* From now on its records are in this journal, which is lent, and which a broker before may have
 * written.  Whole steps from the end on may be missing, as in ledger_kill().  NULL, or what else is
 * wrong. */
const char *ledger_use_journal(struct ledger *ledger, struct journal *journal);
/* Of such a journal: how many records are in it, or on their way, how many ledger_write() brings
 * there, ... */
uint32_t ledger_written(const struct ledger *ledger);
uint32_t ledger_writable(const struct ledger *ledger);
/* ... and so many of them stay there. */
void ledger_note_synced(struct ledger *ledger, uint32_t count);
/* Writes something to sync that is no record. */
void ledger_probe(struct ledger *ledger);
/* What was added last belongs to one step: it is written as a whole. */
void ledger_end_step(struct ledger *ledger);
/* All steps so far are written; whether they survive the machine is open. */
void ledger_write(struct ledger *ledger);
/* The first count records are on the disk. */
void ledger_sync(struct ledger *ledger, uint32_t count);
/* Another broker begins with this journal; see tape_contend(). */
const char *ledger_contend(struct ledger *ledger, uint64_t seed);
/* The broker is killed, or its machine switched off: what was not on the disk may be lost, whole
 * steps from the end on; only before ledger_rebuild().  NULL, or what else is missing. */
const char *ledger_kill(struct ledger *ledger, enum tape_end end);
/* The journal is the copy that was made when it had so many records; without a disk, and with no
 * ledger_clear() since. */
void ledger_restore(struct ledger *ledger, uint32_t count);
/* NULL, or the first difference between a core and what its facts give. */
const char *ledger_check(struct ledger *ledger, const struct core *core);
/* All facts into a port that is new, and into a second core anew.  NULL, or what is wrong. */
const char *ledger_rebuild(struct ledger *ledger, struct core_port *port);

#endif
