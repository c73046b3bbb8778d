/* SPDX-License-Identifier: MPL-2.0 */
/* error.h -- the error object on the wire: a failure and all its causes, flat.
 *
 * The error is a msgpack array of records.  Record 0 is the error itself.  The causes of a record
 * are indices of later records.  So the chain has no depth and no cycles, and a cause that two
 * records share is there once.  A chain longer than LIMIT_ERROR_RECORDS, or larger than
 * LIMIT_ERROR_BYTES, keeps its head and its roots.  The record before the gap holds the number of
 * records left out.
 *
 * A record is an array of the fields of struct error_record in their order.  A list in it is an
 * array.  Empty lists at the end are left out, and so are an empty claimed_by and sealed. */
#ifndef WIRE_ERROR_H
#define WIRE_ERROR_H

#include "libbus/base/limits.h"
#include "libbus/base/span.h"
#include "libbus/wire/frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum error_kind {
#define KIND(upper, name, number, what) ERROR_##upper = number,
#include "schemas/errors.def"
#undef KIND
    ERROR_KIND_COUNT,
};
#define TYPE(upper, text, what)                                                                    \
    static const char ERROR_TYPE_##upper[] __attribute__((unused)) = text;
#include "schemas/errors.def"
#undef TYPE
enum wire_code {
    CODE_OK = 0,
#define CODE(upper, number, type, what) CODE_##upper = number,
#include "schemas/errors.def"
#undef CODE
};
/* Whether the wire's code is a known error, not CODE_OK. */
static inline bool code_is_error(uint64_t code)
{
    return code > CODE_OK && code <= CODE_EENDED;
}
#define EVENT(upper, text, what) static const char EVENT_##upper[] __attribute__((unused)) = text;
#include "schemas/errors.def"
#undef EVENT

enum error_recoverable { RECOVERABLE_UNKNOWN = 0, RECOVERABLE_YES = 1, RECOVERABLE_NO = 2 };
enum error_origin { ORIGIN_USER = 0, ORIGIN_SYSTEM = 1 };

struct error_record {
    struct span id; /* job/party/incarnation/n; empty: not yet seen by the bus */
    struct span job;
    uint64_t attempt;
    struct span party; /* whose failure it is */
    uint64_t incarnation;
    uint64_t kind; /* enum error_kind */
    struct span type;
    struct span message;
    struct span stacktrace;
    int64_t code;
    uint64_t recoverable;   /* enum error_recoverable */
    int64_t retry_after_ms; /* -1: unknown */
    uint64_t origin;        /* enum error_origin */
    int64_t occurred_ns;    /* broker's monotonic clock; 0: unknown */
    uint64_t uncertainty_ns;
    int64_t wall_ns; /* the party's wall clock, for people; 0: unknown */
    struct span host;
    uint64_t pid;
    int64_t exit_code; /* -1: none */
    uint64_t signal;   /* 0: none */
    struct span topic; /* the slot it was born in; empty: none */
    uint64_t seq;
    struct span blames;   /* the first party it suspects; empty: none */
    struct span trace_id; /* W3C, 16 bytes or empty */
    uint64_t left_out;    /* causes below this record that were left out */
    uint64_t is_cut;      /* 1: message or stacktrace was cut in the middle */
    uint32_t cause_count;
    uint32_t causes[LIMIT_ERROR_CAUSES]; /* indices of later records */
    uint32_t more_blame_count;
    struct span more_blames[LIMIT_ERROR_BLAMES - 1]; /* parties it suspects, too; none is empty */
    struct span attachments; /* for error_attached_next(); empty: it has none */
    struct span claimed_by;  /* the party that says so, and the broker cannot tell; empty: nobody */
    struct span sealed; /* what its auditor alone reads (libbus/wire/sealed.h); empty: nothing */
};

/* How an attachment fares.  Numbers are on the wire. */
enum attachment_state {
    ATTACHMENT_COMING = 0, /* it is being brought */
    ATTACHMENT_AWAY = 1,   /* who brings it is not there, but may come back */
    ATTACHMENT_WHOLE = 2,
    ATTACHMENT_CUT = 3,     /* who brought it is gone */
    ATTACHMENT_FULL = 4,    /* its job keeps no more */
    ATTACHMENT_DROPPED = 5, /* newer ones needed its room */
    ATTACHMENT_STATE_COUNT,
};

/* What belongs to an error and is brought beside it. */
struct error_attached {
    struct span name;
    uint64_t bytes; /* as far as was known when the error was told; ERROR_BYTES_UNKNOWN */
};
#define ERROR_BYTES_UNKNOWN UINT64_MAX

/* Writes a list for error_record.attachments: count is at most LIMIT_ERROR_ATTACHMENTS, names are
 * well formed, room is ERROR_ATTACHED_BYTES_MAX.  Returns its bytes; 0: there are none. */
enum { ERROR_ATTACHED_BYTES_MAX = 3 + LIMIT_ERROR_ATTACHMENTS * (LIMIT_NAME_BYTES + 3 + 9) };
size_t error_attached_write(const struct error_attached *attached, uint32_t count, uint8_t *out);
/* Takes the next one from the list of a record that was decoded or written here, and leaves the
 * rest in *list; false: there is none. */
bool error_attached_next(struct span *list, struct error_attached *out_attached);
/* Whether a list from elsewhere is one, and nothing stands behind it. */
bool error_attached_is_valid(struct span list);

/* A record with everything unknown or empty. */
void error_record_init(struct error_record *record);

/* Writes the chain.  What has no room in LIMIT_ERROR_RECORDS records, in LIMIT_ERROR_BYTES or in
 * room bytes is left out: the head stays, then its foremost root, other roots, what is next to the
 * head; who lost causes is linked to theirs, and its left_out says how many.  Messages and
 * stacktraces beyond their limits are cut in the middle, is_cut says so.  At most LIMIT_ERROR_GIVEN
 * records.  Errors: WIRE_FULL: the head alone has no room (LIMIT_ERROR_BYTES always do);
 * WIRE_RANGE: another field beyond its limit, a cause that is not a later record or is there twice,
 * more_blames without blames; WIRE_UTF8. */
enum wire_err error_encode(const struct error_record *records, uint32_t count, uint8_t *out,
                           size_t room, size_t *out_bytes);

/* Checks the whole chain and reads its first room records; out_count is how many those are.  So a
 * cause may be an index beyond them if room is less than LIMIT_ERROR_RECORDS.  Spans borrow from
 * bytes; a field missing at the end is as error_record_init() has it.
 * Errors: those of wire_walk(); WIRE_FORMAT, WIRE_UTF8; WIRE_RANGE: a field or a number of records
 * beyond its limit, a cause that is not a later record or is there twice, more_blames without
 * blames. */
enum wire_err error_decode(struct span bytes, struct error_record *records, uint32_t room,
                           uint32_t *out_count);

const char *error_kind_name(uint64_t kind); /* never NULL: "application" for one not known */
bool error_kind_find(struct span name, enum error_kind *out_kind);

#endif
