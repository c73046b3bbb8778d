/* SPDX-License-Identifier: MPL-2.0 */
/* question.h -- what a request below /api/ asks for. */
#ifndef CLIENTS_WEB_QUESTION_H
#define CLIENTS_WEB_QUESTION_H

#include <bus/bus.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum question_kind {
    QUESTION_STATUS,     /* /api/status: the broker and its jobs; or, with a job, what is in it */
    QUESTION_WHY,        /* /api/why: who waits for whom in a job */
    QUESTION_VERDICT,    /* /api/verdict: why a job failed */
    QUESTION_EVENTS,     /* /api/events: the history of a job */
    QUESTION_ERROR,      /* /api/error: one error of it, whole */
    QUESTION_ATTACHMENT, /* /api/attachment: bytes of one attachment */
    QUESTION_STREAM,     /* /api/stream: events as they happen */
    QUESTION_KINDS,
};

enum { QUESTION_ID_BYTES_MAX = 2 * BUS_NAME_BYTES_MAX + 50 }; /* JOB/PARTY/INCARNATION/N */

/* Two questions are the same if all members are; members without use are zero. */
struct question {
    enum question_kind kind;
    uint64_t from; /* EVENTS, STREAM: the first event wanted; 0: the newest that fit */
    char job[BUS_NAME_BYTES_MAX + 1];
    char id[QUESTION_ID_BYTES_MAX + 1]; /* ERROR, ATTACHMENT: of the error */
    char name[BUS_NAME_BYTES_MAX + 1];  /* ATTACHMENT */
};

/* An argument of the request, as it was sent; NULL: it has none of this name. */
typedef const char *question_argument_fn(void *arg, const char *name);

enum question_fault {
    QUESTION_OK,
    QUESTION_NO_PATH, /* there is no such path */
    QUESTION_MALFORMED,
};
/* path is compared as it was sent.  out_why, of a question that is malformed: a line for people;
 * static. */
enum question_fault question_read(const char *path, question_argument_fn *argument, void *arg,
                                  struct question *out, const char **out_why);

bool question_is_same(const struct question *left, const struct question *right);

/* Decodes %XX.  false: an escape is not whole, stands for NUL, or the text does not fit. */
bool question_decode(const char *text, char *out, size_t room);
/* A whole number, and nothing else. */
bool question_number(const char *text, uint64_t *out);

#endif
