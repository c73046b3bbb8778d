/* SPDX-License-Identifier: MPL-2.0 */
/* fetch.h -- requests of HTTP/1.1 to a port of this machine, and their answers byte for byte.  Each
 * fails the test that calls it when no answer comes. */
#ifndef TESTS_LIB_FETCH_H
#define TESTS_LIB_FETCH_H

#include "tests/lib/process.h"

#include <stddef.h>

/* Skips the running test where this build has no errbus-web. */
void fetch_needs_web(void);
/* Starts `errbus web` for the broker at this endpoint, with two words more (NULL: none).  Its port,
 * which is a free one. */
unsigned fetch_start_web(struct process *web, const char *control, const char *first,
                         const char *second);

/* A connection that says nothing yet. */
int fetch_connect(unsigned port);
/* Reads until the other side closes, and closes; the status, or 0: there was no answer. */
unsigned fetch_rest(int fd);
/* These bytes, whatever they are. */
unsigned fetch_raw(unsigned port, const char *request, size_t bytes);
/* headers: lines with their ends, or "". */
unsigned fetch_with(unsigned port, const char *method, const char *path, const char *headers);
/* GET, for localhost. */
unsigned fetch(unsigned port, const char *path);

/* Of the last answer: all of it; what is behind its headers. */
const char *fetch_answer(void);
const char *fetch_body(void);
/* That answer has this header; line: with its end. */
void fetch_expect_header(const char *line);
void fetch_expect_in_body(const char *text);

#endif
