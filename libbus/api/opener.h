/* SPDX-License-Identifier: MPL-2.0 */
/* opener.h -- opens the pieces of an attachment that was sealed, in their order. */
#ifndef API_OPENER_H
#define API_OPENER_H

#include "libbus/io/seal.h"
#include "libbus/wire/sealed.h"

/* Not 0: no more is wanted; as bus_attachment_fn. */
typedef int opener_fn(const void *bytes, size_t count, void *arg);

struct opener {
    struct key_pair pair;
    struct sealed_piece next; /* where the next piece must be; is_last: there is none */
    const char *wrong;        /* what is wrong with a piece; NULL: nothing yet */
    bool is_enough;           /* whoever takes wants no more */
    opener_fn *take;
    void *arg;
    size_t bytes; /* of the box that is being collected */
    uint8_t box[LIMIT_ATTACHMENT_PIECE_BYTES];
    uint8_t plain[LIMIT_ATTACHMENT_PIECE_BYTES];
};

/* Takes bytes as they were fetched, in portions of any size.  false: no more is needed, as `wrong`
 * or `is_enough` says. */
bool opener_add(struct opener *opener, const void *bytes, size_t count);
/* All of it was fetched.  false: `wrong` says what is missing. */
bool opener_end(struct opener *opener);

#endif
