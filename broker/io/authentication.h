/* SPDX-License-Identifier: MPL-2.0 */
/* authentication.h -- whose connection it is: the answers to ZAP, in the broker's own loop.
 *
 * libzmq asks, by ZAP (ZeroMQ RFC 27), for each handshake on a socket with a ZAP domain.  It asks a
 * socket at a fixed inproc address of the same context; if nobody has bound that address, libzmq
 * 4.3.4 lets everybody in.  So the address is bound before the endpoints, and the option is set
 * that refuses a connection where nobody answers.
 *
 * The answer gives the connection a User-Id, which libzmq attaches to each of its parts.  A peer
 * can claim a User-Id in its own greeting.  So ours begins with a number that no peer knows, and
 * has the key or the uid itself: that is looked up in the table in force when the first part is
 * read. */
#ifndef IO_AUTHENTICATION_H
#define IO_AUTHENTICATION_H

#include "broker/io/channel.h"
#include "broker/io/identity.h"
#include "broker/io/web_child.h"
#include "libbus/base/access.h"
#include "libbus/io/key_file.h"
#include "libbus/wire/metric.h"

#include <stdbool.h>
#include <stdint.h>

enum { AUTHENTICATION_COMPLAINT_BYTES = 1536, AUTHENTICATION_NONCE_BYTES = 33 };

struct new_connections;

struct authentication {
    struct memory memory;
    void *socket;                  /* NULL: there is no access file, and everybody may come */
    int fd;                        /* of socket, to be polled */
    const char *access_path;       /* of the caller; stays */
    const struct web_child *child; /* the same */
    struct access *access;
    struct key_pair key;                    /* of the broker */
    bool is_key_new;                        /* it was made at this start */
    char nonce[AUTHENTICATION_NONCE_BYTES]; /* of this start, as text */
    uint64_t accepted, refused;             /* handshakes so far */
    int64_t ends_told_s;                    /* keys that end up to then were told */
    int64_t read_s;   /* when the table in force was read, on the wall clock */
    bool is_outdated; /* the file could not be read since then */
};

/* Reads the access file alone.  false: complaint says what is wrong with it, and where. */
bool authentication_check(const char *access_path, char complaint[AUTHENTICATION_COMPLAINT_BYTES]);
/* Reads the access file, and the key, which is made if there is none; binds the address.
 * access_path empty: there is no access file.  child: has rules of its own, or NULL; borrowed.
 * false: complaint says why. */
bool authentication_open(struct authentication *authentication, void *context,
                         const char *access_path, const char *key_path,
                         const struct web_child *child,
                         char complaint[AUTHENTICATION_COMPLAINT_BYTES]);
/* Closes the socket, after the endpoints. */
void authentication_stop(struct authentication *authentication);
/* Frees the table, when nobody asks it any more, and forgets the key. */
void authentication_fini(struct authentication *authentication);

/* What may be missing. */
#define AUTHENTICATION_LACKS                                                                       \
    "this libzmq cannot ask for keys: it lacks CURVE, or the option ZAP_ENFORCE_DOMAIN"
/* Prepares a socket before it is bound to this endpoint.  false: this libzmq cannot. */
bool authentication_guard(const struct authentication *authentication, void *socket,
                          const char *endpoint);
/* Opens a channel, guards it, and listens at this endpoint.  false: complaint is one clear
 * sentence. */
bool authentication_open_channel(const struct authentication *authentication,
                                 struct channel *channel, void *context, enum lane lane,
                                 const char *endpoint,
                                 char complaint[AUTHENTICATION_COMPLAINT_BYTES]);
/* Whether somebody waits for an answer. */
bool authentication_is_asked(const struct authentication *authentication);
/* Answers what was asked, so many at once that the loop does not stand still.  Tells connections
 * of each handshake with a key of the access file. */
void authentication_answer(struct authentication *authentication,
                           struct new_connections *connections);
/* Reads the access file again, and logs its success.  Returns the table before, which the caller
 * frees when nobody uses it any more.  NULL: that one stays in force, and complaint says why, in
 * UTF-8; or there is no file, which was logged. */
struct access *authentication_reload(struct authentication *authentication,
                                     char complaint[AUTHENTICATION_COMPLAINT_BYTES]);
/* The keys and uids that end within LIMIT_EXPIRING_S and that nobody was told of, a sentence with
 * each call.  before: the table that was in force before, perhaps the same; of what it has, people
 * were told. */
struct authentication_ends {
    const struct access *before;
    int64_t now_s, told_s;
    uint32_t at, count;
};
void authentication_ends_begin(struct authentication *authentication, const struct access *before,
                               struct authentication_ends *ends);
bool authentication_ends_next(const struct authentication *authentication,
                              struct authentication_ends *ends,
                              char text[AUTHENTICATION_COMPLAINT_BYTES]);
/* When the next one is to be told of. */
int64_t authentication_next_warning_s(const struct authentication *authentication);
/* When the next key or uid of the table ends, by the clock of the wall, in seconds; and whether
 * such a time has come. */
int64_t authentication_next_end_s(const struct authentication *authentication);
int64_t authentication_end_s(const struct authentication *authentication,
                             const struct identity *identity); /* INT64_MAX: never */
bool authentication_has_ended(const struct authentication *authentication, int64_t end_s);
/* The access file, for METRICS. */
void authentication_tell(const struct authentication *authentication, struct metric_figures *out);
/* What a peer has proved, by the User-Id of its part (NULL: it has none). */
struct identity authentication_identify(const struct authentication *authentication,
                                        const char *user_id);
/* Who that is, in the table in force; 0: nobody. */
uint32_t authentication_find(const struct authentication *authentication,
                             const struct identity *identity);
/* Both: whose connection a part came from, by its User-Id (NULL: it has none): a principal of the
 * table in force; 0: nobody's. */
uint32_t authentication_principal(const struct authentication *authentication, const char *user_id);

#endif
