/* SPDX-License-Identifier: MPL-2.0 */
/* ledger.h -- the journal of a simulated broker: its facts, the bytes beside them, and a second
 * core that knows nothing but them. */
#ifndef SIM_LEDGER_H
#define SIM_LEDGER_H

#include "broker/io/gate.h"

struct ledger;

struct ledger *ledger_new(const struct core_options *options);
void ledger_free(struct ledger **ledger); /* NULL inside is a no-op */
void ledger_clear(struct ledger *ledger);

/* Takes the record over; payload: the broker's number of the bytes beside it, which stay where they
 * are as long as they are kept.  NULL, or what the second core says is wrong with it. */
const char *ledger_add(struct ledger *ledger, struct buffer **record, payload_id payload,
                       struct buffer *bytes);
uint32_t ledger_count(const struct ledger *ledger); /* records */
/* Those behind the first count were never written; only before ledger_rebuild(). */
void ledger_lose(struct ledger *ledger, uint32_t count);
/* NULL, or the first difference between a core and what its facts give. */
const char *ledger_check(struct ledger *ledger, const struct core *core);
/* All facts into a gate that is new, and into a second core anew.  NULL, or what is wrong. */
const char *ledger_rebuild(struct ledger *ledger, struct gate *gate);

#endif
