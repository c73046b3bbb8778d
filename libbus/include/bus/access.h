/* SPDX-License-Identifier: MPL-2.0 */
/* access.h -- keys, and access files: who may do what in which job.
 *
 * Most of these calls read and write files, and speak with no broker.  bus_who_get() and
 * bus_access_reload() ask one.  The conventions of bus/bus.h and bus/admin.h hold here too. */
#ifndef BUS_ACCESS_H
#define BUS_ACCESS_H

#include <bus/admin.h>
#include <bus/bus.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- bus_key: files with a key ----------------------------------------------------------------*/

/* A key is a pair.  The secret half stays in a file that its owner alone may read.  The public half
 * is a text, ebp_ and 56 characters, which may be shown to anybody. */
#define BUS_KEY_TEXT_BYTES 61 /* the text of a public key, with its NUL */

/* Makes a key and writes it to a new file, with mode 0600.  Folders that are missing are made, with
 * mode 0700.  public_text has room for BUS_KEY_TEXT_BYTES.  Errors: BUS_EDENIED: the file exists,
 * or cannot be written.  [any] */
BUS_API BUS_MUST_USE enum bus_err bus_key_new(const char *path, char *public_text,
                                              struct bus_error **reterr);
/* Reads the public half of a key.  The file belongs to this user, with mode 0600 or less, or to
 * root, with 0640 or less; a symbolic link is followed.  Errors: BUS_EDENIED: it cannot be read, is
 * not a file, belongs to another user, or others may read or write it; BUS_EPROTO: it holds no key.
 * [any] */
BUS_API BUS_MUST_USE enum bus_err bus_key_show(const char *path, char *public_text,
                                               struct bus_error **reterr);
/* Copies a secret key of another form to a new file of ours, as bus_key_new() would make it.  The
 * file `source` is a certificate of CZMQ or PyZMQ with a secret key, or it has the secret key as
 * text, in the Z85 form of ZeroMQ or in ours.  Errors: as of the two calls above.  [any] */
BUS_API BUS_MUST_USE enum bus_err bus_key_import(const char *path, const char *source,
                                                 char *public_text, struct bus_error **reterr);
/* Writes the place of the key that is used where no other is named: $ERRBUS_KEY, else
 * $XDG_CONFIG_HOME/errbus/key, else ~/.config/errbus/key.  Errors: BUS_EDENIED: there is no home
 * directory; BUS_ETOOBIG: the path does not fit in place_bytes.  [any] */
BUS_API BUS_MUST_USE enum bus_err bus_key_path(char *place, size_t place_bytes,
                                               struct bus_error **reterr);

/* ---- bus_access: what an access file says -----------------------------------------------------*/

struct bus_access; /* an access file as it was read; errbus-access(1) has its format */

/* A right that a line of the file gives. */
enum bus_right {
    BUS_RIGHT_PARTY = 1,  /* to take part in a job */
    BUS_RIGHT_TAP = 2,    /* to follow events, and to read errors and attachments */
    BUS_RIGHT_STATUS = 4, /* to ask for status, verdicts and waits */
    BUS_RIGHT_JOB = 8,    /* to create, cancel and forget a job */
    BUS_RIGHT_DEAD = 16,  /* to list, repeat and drop dead letters */
    BUS_RIGHT_ADMIN = 32, /* all of these but party, in all jobs */
};
/* The word in the file.  Never NULL; static.  [any] [signal] */
BUS_API const char *bus_right_name(enum bus_right right);

/* What a line of the file may limit: what somebody has in all, over all connections and jobs. */
enum bus_limit {
    BUS_LIMIT_CONNECTIONS = 0, /* clients that are connected, or that may come back */
    BUS_LIMIT_JOBS = 1,        /* jobs that they began */
    BUS_LIMIT_OPEN_SLOTS = 2,
    BUS_LIMIT_BYTES = 3, /* of values that the broker keeps */
    BUS_LIMIT_RATE = 4,  /* bytes that they write in a second */
    BUS_LIMIT_TOPICS = 5,
    BUS_LIMIT_SUBSCRIPTIONS = 6, /* durable ones, too, that nobody reads now */
    BUS_LIMIT_ATTACHMENTS = 7,   /* bytes of attachments that the broker keeps */
};
/* The word in the file.  Never NULL; static.  [any] [signal] */
BUS_API const char *bus_limit_name(enum bus_limit limit);

/* Reads the file.  Errors: BUS_EDENIED: it cannot be read; BUS_EPROTO: a line is wrong, and the
 * message begins with the path and the number of the line.  [any] */
BUS_API BUS_MUST_USE enum bus_err bus_access_read(const char *path, struct bus_access **out_access,
                                                  struct bus_error **reterr);
BUS_API void bus_access_free(struct bus_access **access); /* [one] */

struct bus_access_summary {
    uint32_t names; /* of those who have a key or a uid */
    uint32_t keys;
    uint32_t uids;
    uint32_t groups;
    uint32_t rules;
    uint32_t limits;
};
/* What the file has.  [any] */
BUS_API const struct bus_access_summary *bus_access_summary(const struct bus_access *access);
/* Whether somebody of this name has a key or a uid: 1 or 0.  [any] */
BUS_API int bus_access_has(const struct bus_access *access, const char *name);

/* These return the number of the first line that allows it.  0: no line does.  */

/* One right in a job.  job "": in all jobs.  [any] */
BUS_API uint32_t bus_access_may(const struct bus_access *access, const char *name,
                                enum bus_right right, const char *job);
/* To be this party.  [any] */
BUS_API uint32_t bus_access_may_be(const struct bus_access *access, const char *name,
                                   const char *job, const char *party);
/* As this party, to read the topic, or some topic that a pattern matches.  [any] */
BUS_API uint32_t bus_access_may_read(const struct bus_access *access, const char *name,
                                     const char *job, const char *party, const char *topic);
/* How much somebody may have.  Returns the number of the line that limits it, and writes the amount
 * to out_amount.  0: no line does, and UINT64_MAX is written.  [any] */
BUS_API uint32_t bus_access_limit(const struct bus_access *access, const char *name,
                                  enum bus_limit limit, uint64_t *out_amount);

/* ---- bus_who: who is connected, and another access file ---------------------------------------*/

/* Where the broker has an access file, both calls need the right admin. */

struct bus_who; /* a snapshot: who is connected to a broker, or may come back */

enum bus_role {
    BUS_ROLE_PARTY = 0,
    BUS_ROLE_OBSERVER = 1, /* it asks, or follows events */
    BUS_ROLE_GUARD = 2,    /* of a party: errbus-run(1) */
    BUS_ROLE_UNKNOWN = 3,
};
/* "party", "observer", "guard".  Never NULL; static.  [any] [signal] */
BUS_API const char *bus_role_name(enum bus_role role);

/* One client. */
struct bus_who_row {
    const char *name;      /* in the access file; "": the broker has none */
    const char *job;       /* "": of no job */
    const char *party;     /* "": an observer */
    uint32_t incarnation;  /* of the party */
    enum bus_role role;    /* what it is in the job */
    uint32_t connections;  /* 0: it may come back; 1: without data; 2: all that it needs */
    uint64_t connected_ms; /* time since it connected; 0: it is not connected */
    const char *identity;  /* its public key, or "uid 1000" by ipc; "": neither is known */
    const char *address;   /* of its host; "": by ipc, or it is not connected */
    int64_t until_s;       /* when its key or uid ends, in seconds since 1970; 0: it does not */
};
/* Asks for all clients.  They are in the order of names, jobs and parties.  A client that comes or
 * goes during the call may be missing.  Errors: BUS_EDENIED; as of every call on a handle.
 * [any] */
BUS_API BUS_MUST_USE enum bus_err bus_who_get(struct bus_admin *admin, int64_t timeout_ms,
                                              struct bus_who **out_who, struct bus_error **reterr);
BUS_API size_t bus_who_count(const struct bus_who *who); /* of its rows [any] */
/* One of its rows, from 0 on; NULL: there is none.  [any] */
BUS_API const struct bus_who_row *bus_who_at(const struct bus_who *who, size_t index);
BUS_API void bus_who_free(struct bus_who **who); /* [one] */

/* Has the broker read its access file again, as SIGHUP does.  out_revoked may be NULL; it is how
 * many parties lost their access.  Errors: BUS_EPROTO: the file cannot be read or a line of it is
 * wrong (type errbus.access_file, the message begins with the path and the number of the line), and
 * what was in force stays; BUS_EINVAL: the broker has no access file; BUS_EDENIED; as of every call
 * on a handle.  [any] */
BUS_API BUS_MUST_USE enum bus_err bus_access_reload(struct bus_admin *admin, int64_t timeout_ms,
                                                    uint32_t *out_revoked,
                                                    struct bus_error **reterr);

#ifdef __cplusplus
}
#endif

#endif
