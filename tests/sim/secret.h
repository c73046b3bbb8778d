/* SPDX-License-Identifier: MPL-2.0 */
/* secret.h -- texts that must not be seen: each says where in an error it was planted and how far
 * it may go, so whoever finds one in any bytes knows whether it may be there. */
#ifndef SIM_SECRET_H
#define SIM_SECRET_H

#include "libbus/base/span.h"
#include "libbus/wire/disclosure.h"

#include <stdbool.h>

enum secret {
    SECRET_TYPE,
    SECRET_TRACE_ID,
    SECRET_MESSAGE,
    SECRET_HOST,
    SECRET_WHERE, /* a party is, as it says when it moves */
    SECRET_STACKTRACE,
    SECRET_NAME, /* of an attachment */
    SECRET_OUTPUT,
    SECRET_COUNT,
};

/* Whose it is. */
struct secret_owner {
    enum disclosure own;    /* level, as the party chose it */
    enum disclosure of_job; /* UNSAID: the job asks for nothing */
    bool is_old;            /* its client knows nothing of what the job asks for */
    bool is_sealing;        /* it seals to an auditor what others do not see */
};

enum secret_place { SECRET_FROM_PARTY, SECRET_FROM_BROKER };

enum { SECRET_BYTES = 12, SECRET_TRACE_BYTES = 16 };
void secret_write(enum secret secret, const struct secret_owner *owner, char out[SECRET_BYTES + 1]);
/* NULL: what is in these bytes may be seen there; otherwise a sentence, until the next call. */
const char *secret_leak(struct span bytes, enum secret_place place);

#endif
