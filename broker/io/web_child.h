/* SPDX-License-Identifier: MPL-2.0 */
/* web_child.h -- errbus-web as a child of the broker (errbusd --web).
 *
 * So the address space of the broker has no HTTP.  The child is a client as any other: with an
 * access file it has a key of its own, drawn at each start of the broker and handed over in
 * memory, and the rights of WEB_CHILD_RULES.  Its standard input is a pipe from the broker: the
 * child ends when that pipe ends, so also with a broker that was killed.  What it writes is in the
 * log of the broker.  A child that dies is started again, after a pause that doubles up to
 * PAUSE_MAX_MS.  One that says by its exit status that it was started wrongly is not. */
#ifndef IO_WEB_CHILD_H
#define IO_WEB_CHILD_H

#include "broker/io/child_lines.h"
#include "libbus/base/key_text.h"
#include "libbus/base/limits.h"

#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { WEB_CHILD_COMPLAINT_BYTES = 1024, WEB_CHILD_RULES_BYTES = 256, WEB_CHILD_STREAMS = 2 };

/* Its name in the access table, which a line of the access file may give more rights. */
#define WEB_CHILD_NAME "errbus-web"

struct web_child {
    const char *address;    /* HOST:PORT; "": there is no child.  Borrowed, as the next one */
    const char *token_path; /* "": none */
    char program[PATH_MAX];
    char server[LIMIT_ENDPOINT_BYTES + KEY_TEXT_BYTES + 2]; /* where it finds the broker */
    char rules[WEB_CHILD_RULES_BYTES]; /* lines of an access file: who it is, and what it may do */
    char key[KEY_TEXT_BYTES + 1];      /* its public key; "": none */
    int key_fd;                        /* both halves as a file; -1: none */
    pid_t pid;                         /* 0: it does not run */
    int input;                         /* our end of its standard input; -1: none */
    struct child_lines said[WEB_CHILD_STREAMS]; /* its standard output, and standard error */
    int64_t started_ns;
    int64_t due_ns; /* when it is started next; INT64_MAX: never */
    int64_t pause_ns;
};

/* An address that other machines can reach needs a token.  false: complaint says so. */
bool web_child_may_listen(const char *address, const char *token_path,
                          char complaint[WEB_CHILD_COMPLAINT_BYTES]);
/* Finds the program, and draws a key if the broker asks for keys.  false: complaint says why. */
bool web_child_open(struct web_child *child, const char *address, const char *token_path,
                    bool has_keys, char complaint[WEB_CHILD_COMPLAINT_BYTES]);
/* The broker is ready at this endpoint; broker_key: its public key as text, or "". */
void web_child_begin(struct web_child *child, const char *control, const char *broker_key,
                     int64_t now_ns);
/* Starts it if it is time. */
void web_child_start(struct web_child *child, int64_t now_ns);
/* What to poll for; then, by what was found, writes what it said to the log. */
void web_child_watch(const struct web_child *child, struct pollfd items[WEB_CHILD_STREAMS]);
void web_child_hear(struct web_child *child, const struct pollfd items[WEB_CHILD_STREAMS]);
/* After SIGCHLD: notes that it has ended, if it has. */
void web_child_reap(struct web_child *child, int64_t now_ns);
/* Lets it end, and starts it no more. */
void web_child_end(struct web_child *child);
/* The same, and waits for that a moment.  Takes a zeroed struct, too. */
void web_child_close(struct web_child *child);

#endif
