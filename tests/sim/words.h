/* SPDX-License-Identifier: MPL-2.0 */
/* words.h -- errors as an application makes them, with secrets in every place there is for one,
 * brought onto the wire by the library itself: what it lets out is what is looked at.
 *
 * What must remain of an error, whoever passes it on, follows from its id and that of its first
 * cause; so whoever is told it can see whether it did.  The same holds for what a party has sealed:
 * whoever is told opens it, as the auditor would. */
#ifndef SIM_WORDS_H
#define SIM_WORDS_H

#include "libbus/session/session.h"
#include "libbus/wire/sealed.h"
#include "tests/sim/secret.h"

#include <stdbool.h>
#include <stdint.h>

struct words {
    struct session *session;
    const char *job;
    const char *party;
    struct secret_owner owner;
    int64_t now_ns;    /* of the party's clock */
    uint64_t lot;      /* any number: what kind of error it is */
    struct span cause; /* an error that was received; empty: none */
    const char *topic; /* NULL: the party fails */
    uint64_t seq;
};

/* Borrowed until the next call. */
struct words_said {
    struct span error;
    struct span id;
    struct span attached_to; /* the id of the error whose output is to be brought; empty: none */
    char name[SEALED_NAME_BYTES];
    struct span output;
};

void words_say(const struct words *words, struct words_said *out_said);
/* Its client is one that never heard of a job's level. */
void words_forget_job(struct session *session);
/* NULL: all that must remain of what was said so did; otherwise a sentence. */
const char *words_judge(struct span error);
/* How many traces words_judge() has opened so far, and found to be whole. */
uint64_t words_opened(void);

#endif
