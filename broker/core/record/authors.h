/* SPDX-License-Identifier: MPL-2.0 */
/* authors.h -- whose word each record of a client's error is.
 *
 * A client sends its error with the chain of its causes.  Most of them are errors of others, which
 * it was told before.  The broker believes a client about its own errors alone:
 *   - a record with an id of its party is the word of the client
 *   - an error that the broker still has stands there as the broker has it, with its own causes
 *   - any other record is a claim: claimed_by has the name of the party that sent it
 * A claim is shown as one, and nothing is decided by it. */
#ifndef CORE_RECORD_AUTHORS_H
#define CORE_RECORD_AUTHORS_H

#include "broker/core/model.h"

struct author {
    const struct party *party;
    uint32_t incarnation;
    uint32_t attempt;
};

enum { AUTHORS_ROOM = 5 * LIMIT_ERROR_RECORDS }; /* records of core->joined */

/* Whether a client may give this id: job/party/incarnation/n of an incarnation up to its own.  Odd
 * numbers are the client's, even ones the broker's. */
bool authors_is_own(const struct author *author, struct span id);
/* Makes the first of the records the word of the client. */
void authors_sign(const struct author *author, struct error_record *head);
/* Settles the authors of the causes of the error in core->scratch, whose head is signed.  Returns
 * the first of *count records, which point to the same texts as before and to texts of errors that
 * the broker has.  They stand until the next call. */
const struct error_record *authors_check(struct core *core, const struct author *author,
                                         uint32_t *count);

/* The index of errors by id; failure.c calls these.  false: no memory. */
bool authors_know(struct core *core, struct failure *failure);
void authors_forget(struct core *core, struct failure *failure);

#endif
