/* SPDX-License-Identifier: MPL-2.0 */
/* postgres_door.h -- all that the journal asks of PostgreSQL: a connection, and statements that are
 * one transaction.
 *
 * The door of errbusd is libpq (postgres_libpq.c), and nothing else includes its header.  A build
 * without libpq has a door that opens for nobody (postgres_none.c).  Unit tests have one that
 * answers what they want to see answered. */
#ifndef JOURNAL_POSTGRES_DOOR_H
#define JOURNAL_POSTGRES_DOOR_H

#include "libbus/base/span.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DOOR_SQL_BYTES = 1024,
    DOOR_PARAMS_MAX = 6,
    DOOR_STATE_BYTES = 6, /* an SQLSTATE, with its NUL */
    DOOR_WHY_BYTES = 512,
    DOOR_CHECK_BYTES = 1024,
};
/* The server is not waited for any longer than this without a byte from it.  One that stands still
 * keeps its connections, and its kernel acknowledges what is sent. */
enum { DOOR_ANSWER_MS = 8000, DOOR_CONNECT_S = 3 };

enum door_verdict {
    DOOR_DONE,    /* committed, and on as many standbys as the server was told to wait for */
    DOOR_REFUSED, /* the server undid all of it; `state` and `why` say why */
    DOOR_DOUBT,   /* the connection ended, or the server warned: it is committed or it is not */
};

enum door_kind { DOOR_NUMBER, DOOR_TEXT, DOOR_BYTES };
struct door_param {
    enum door_kind kind;
    int64_t number;
    struct span bytes; /* of TEXT, with a NUL behind it; and of BYTES */
};

static inline struct door_param door_number(uint64_t number)
{
    return (struct door_param){.kind = DOOR_NUMBER, .number = (int64_t)number};
}

static inline struct door_param door_text(const char *text)
{
    return (struct door_param){.kind = DOOR_TEXT, .bytes = span_text(text)};
}

struct door_statement {
    char sql[DOOR_SQL_BYTES];
    struct door_param params[DOOR_PARAMS_MAX];
    unsigned count;
};

struct door_answer {
    enum door_verdict verdict;
    char state[DOOR_STATE_BYTES];
    char why[DOOR_WHY_BYTES];     /* a sentence, unless it is done */
    char check[DOOR_CHECK_BYTES]; /* what the check of the door found behind the commit */
    uint64_t changed; /* rows that the last statement changed, of those that return none */
    void *rows;       /* of the last statement that returns any, the door's; NULL: none */
};

struct door;
struct door_ops {
    /* conninfo: as libpq takes it.  false: why, of DOOR_WHY_BYTES, says the reason. */
    bool (*connect)(struct door *door, const char *conninfo, char *why);
    void (*disconnect)(struct door *door);
    /* Runs the statements in this order as one transaction, in one round trip.  The answer is to be
     * cleared. */
    void (*run)(struct door *door, const struct door_statement *statements, size_t count,
                struct door_answer *out);
    size_t (*rows)(const struct door_answer *answer);
    /* A field of a row, borrowed, with a NUL behind it; SPAN_NONE: it is null. */
    struct span (*field)(const struct door_answer *answer, size_t row, unsigned column);
    void (*clear)(struct door_answer *answer);
    /* Lets some time pass before the next attempt. */
    void (*rest)(struct door *door);
    void (*close)(struct door *door); /* disconnects; frees the door */
};
struct door {
    const struct door_ops *ops;
    const char *check; /* a query of one field, asked in each round trip behind its commit */
    unsigned hosts;    /* servers that the conninfo names, as far as they were counted */
    unsigned turn;     /* the first one that is tried by the next connect, modulo hosts */
    /* What the next run does once its statements are sent, while the server works; and no run
     * behind that.  NULL: nothing. */
    void (*meanwhile)(void *arg);
    void *meanwhile_arg;
    atomic_bool is_given_up; /* set by another thread: what waits for the server ends soon */
};

/* The door that this program has; NULL: no memory. */
struct door *door_new(void);

#endif
