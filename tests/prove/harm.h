/* SPDX-License-Identifier: MPL-2.0 */
/* harm.h -- what is done to the crew of a run, one thing at a time, and what must come of it. */
#ifndef TESTS_PROVE_HARM_H
#define TESTS_PROVE_HARM_H

#include "tests/prove/crew.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum harm_kind {
    HARM_KILL,        /* a party; it comes again when it is known to be lost */
    HARM_REPLACE,     /* a party is killed and comes again at once */
    HARM_FREEZE,      /* a party */
    HARM_BROKER_KILL, /* and started again over its journal */
    HARM_BROKER_FREEZE,
    HARM_DISK,    /* the broker's is full */
    HARM_RUBBISH, /* unknown clients talk rubbish to the broker */
    HARM_LINK,    /* all below are done to a party's cable: it is unplugged */
    HARM_DROP,    /* ... all frames vanish, and nobody is told */
    HARM_DEAF,    /* ... those to the party do */
    HARM_MUTE,    /* ... those from it do */
    HARM_RESET,   /* ... a middlebox resets its connections */
    HARM_ADDRESS, /* ... its host's address goes, and another one comes */
    HARM_LOSS,    /* ... 30 % vanish */
    HARM_DELAY,   /* ... they take 200 ms +- 100 each way */
    HARM_RATE,    /* ... 256 KiB a second pass */
    HARM_FLIP,    /* ... in 5 % a bit is turned over */
    HARM_KINDS,
};

struct harm {
    enum harm_kind kind;
    bool is_longer;        /* until the party is taken for lost */
    int64_t hold_ms;       /* ... else so long */
    struct victim *victim; /* NULL: the broker */

    /* What came of it; times since it began, -1: it did not. */
    int64_t held_ms;
    int64_t detected_ms;          /* the tap told that the party is lost, or the disk full */
    int64_t waited_ms[CREW_TOLD]; /* each was told of the end, and a pulse of all it waited for */
    int64_t
        slowest_ms[CREW_WAITERS]; /* what each who is not harmed waited for, the longest of it */
    int64_t recovered_ms; /* since its end: what the victim writes, or else all, flows again */
    double before, least; /* frames a second of all others: before, and in the worst half of one */
};

const char *harm_name(enum harm_kind kind);
bool harm_needs_links(enum harm_kind kind);
/* Of the broker, whose process is another one then, or stands still. */
bool harm_is_of_broker(enum harm_kind kind);
/* Whether there is a longer form, that the party does not survive. */
bool harm_may_be_longer(enum harm_kind kind);

/* Does it, waits until it is over and all flows again.  What must not be is in crew->words. */
void harm_do(struct crew *crew, struct harm *harm);

#endif
