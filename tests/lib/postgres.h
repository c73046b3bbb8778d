/* SPDX-License-Identifier: MPL-2.0 */
/* postgres.h -- a PostgreSQL of one's own: a primary and its standbys, in a folder that goes with
 * them.
 *
 * They listen on sockets in that folder alone.  As root they run as the user nobody, for the server
 * refuses root.  Each node follows whichever node takes writes, so a standby that is promoted is
 * followed by the others.  Nothing here knows Criterion: a function that fails leaves a sentence in
 * `why`. */
#ifndef TESTS_LIB_POSTGRES_H
#define TESTS_LIB_POSTGRES_H

#include "tests/lib/folder.h"
#include "tests/lib/process.h"

enum {
    POSTGRES_NODES_MAX = 3,
    POSTGRES_PATH_BYTES = FOLDER_PATH_BYTES_MAX + 16,
    POSTGRES_CONNINFO_BYTES = POSTGRES_NODES_MAX * POSTGRES_PATH_BYTES + 128,
    POSTGRES_WHY_BYTES = 512,
};

struct postgres_node {
    struct process server;             /* its pid is 0 while it is down */
    bool is_frozen;                    /* it answers nobody */
    bool has_tls;                      /* it listens at `address`, too */
    char data[POSTGRES_PATH_BYTES];    /* the cluster */
    char sockets[POSTGRES_PATH_BYTES]; /* the folder with its socket, and with its log */
};

struct postgres {
    struct folder folder; /* anybody may write to it; tests keep their sockets there, too */
    struct postgres_node nodes[POSTGRES_NODES_MAX];
    unsigned count;
    char conninfo[POSTGRES_CONNINFO_BYTES]; /* of whichever node takes writes */
    char upstream[POSTGRES_CONNINFO_BYTES]; /* how a node that starts reaches it, to follow it */
    char address[16];                       /* where a node with TLS listens; nobody else does */
    char why[POSTGRES_WHY_BYTES];
    void (*in_vain)(void *arg); /* each time that postgres_await() asked in vain; NULL: nothing */
    void *in_vain_arg;
};

/* Whether the programs are there.  A test without them skips itself, and says POSTGRES_MISSING.
 * Where ERRBUS_REQUIRE has the word postgresql, as it has in .ci/run, such a test fails instead. */
bool postgres_is_installed(void);
#define POSTGRES_MISSING "there is no PostgreSQL: install the package postgresql-15"

/* Starts node 0, and so many standbys.  With standbys a commit waits for one of them: node K has
 * the name nodeK, and synchronous_standby_names is 'ANY 1 (node0, node1, node2)'. */
bool postgres_start(struct postgres *postgres, unsigned standbys);
/* How whichever node takes writes is reached by sockets in FOLDER/PREFIX0 and so on. */
void postgres_name(const struct postgres *postgres, const char *prefix,
                   char out[POSTGRES_CONNINFO_BYTES]);
/* Takes one that did not start, too. */
void postgres_fini(struct postgres *postgres);

/* What a node answers: one field, or lines.  false: it failed, or there was no row. */
bool postgres_query(struct postgres *postgres, unsigned node, const char *sql, char *out,
                    size_t bytes);
/* Asks until there is a row. */
bool postgres_await(struct postgres *postgres, unsigned node, const char *sql);
/* Whether so many standbys confirm commits of this node, at last. */
bool postgres_await_standbys(struct postgres *postgres, unsigned node, unsigned count);
/* Sets synchronous_standby_names of a node that takes writes; it is in force on return. */
bool postgres_set_standbys(struct postgres *postgres, unsigned node, const char *names);
/* Cancels the wait of a commit for its standbys, once there is one.  The session *pid (0: none) is
 * passed over; on return *pid is the session whose wait was cancelled. */
bool postgres_cancel_commit(struct postgres *postgres, unsigned node, unsigned long *pid);

/* Makes NAME.key and NAME.pem in the folder: a certificate of the host 'localhost' that vouches for
 * itself. */
bool postgres_make_certificate(struct postgres *postgres, const char *name);
/* Starts a node anew with the certificate 'server', and with a port for TLS at `address`. */
bool postgres_serve_tls(struct postgres *postgres, unsigned node);

/* The System V segment of a node that runs; -1: it has none yet. */
int postgres_segment(const struct postgres *postgres, unsigned node);
/* SIGKILL to all processes of a node.  Its segment is removed. */
void postgres_kill(struct postgres *postgres, unsigned node);
/* Stops all processes of a node: it keeps its connections, and answers nothing.  And lets them go
 * on. */
void postgres_freeze(struct postgres *postgres, unsigned node);
void postgres_thaw(struct postgres *postgres, unsigned node);
/* Starts a node again that was killed; it answers on return. */
bool postgres_revive(struct postgres *postgres, unsigned node);
/* Makes a node a standby of the one that takes writes, with a new copy of it. */
bool postgres_join(struct postgres *postgres, unsigned node);
/* A standby takes writes on return. */
bool postgres_promote(struct postgres *postgres, unsigned node);
/* The node that takes writes; `count`: none does. */
unsigned postgres_primary(struct postgres *postgres);
/* The standby that is up and has received most; the one to promote.  Waits first until none
 * receives, which takes up to 5 s when the primary is frozen: one that still writes what had come
 * would get ahead of the one that is promoted, and could not follow it. */
bool postgres_foremost(struct postgres *postgres, unsigned *out);

#endif
