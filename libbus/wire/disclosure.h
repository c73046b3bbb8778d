/* SPDX-License-Identifier: MPL-2.0 */
/* disclosure.h -- how much of its errors a party lets others see.
 *
 * Every level keeps, over every hop of a chain: id, job, attempt, party, incarnation, kind, code,
 * recoverability and retry-after, origin, stamps, the slot, causes and blames.  Each level hides
 * what the level before hides, and more.  Hidden fields are in no byte that leaves the process.
 *
 *   full       hides nothing
 *   message    hides the stacktrace, attachments and their names; what is sealed stays
 *   type       hides the message, and where the party runs (host, pid)
 *   none       hides the type, how the process ended (exit code, signal), and the trace id */
#ifndef WIRE_DISCLOSURE_H
#define WIRE_DISCLOSURE_H

#include "libbus/wire/error.h"

/* Numbers are on the wire; a larger one is stricter. */
enum disclosure {
    DISCLOSURE_UNSAID = 0, /* of a job: it asks for nothing */
    DISCLOSURE_FULL = 1,
    DISCLOSURE_MESSAGE = 2,
    DISCLOSURE_TYPE = 3,
    DISCLOSURE_NONE = 4,
};

static inline enum disclosure disclosure_stricter(enum disclosure a, enum disclosure b)
{
    return a > b ? a : b;
}
/* What of the record must not be seen goes. */
void disclosure_apply(enum disclosure level, struct error_record *record);
/* Whether the bus made the error, of a loss, a deadline and the like: nothing in it is a party's.
 * The number in its id tells: a party's own are odd, the broker's about one even. */
bool disclosure_spares(struct span id, struct span party);

#endif
