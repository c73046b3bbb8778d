/* SPDX-License-Identifier: MPL-2.0 */
/* error.c -- bus_error objects: counted, immutable once they were used, with all their causes.
 *
 * Causes are added before the first use as a cause, so there are no cycles and a root, once found,
 * stays.  What only the bus can know (id, party, time ...) is the identity: it is put in place
 * once, atomically, when the bus first sees the error. */
#include "libbus/api/error.h"

#include "libbus/api/attachment_list.h"
#include "libbus/api/clock.h"
#include "libbus/api/model.h"
#include "libbus/base/pattern.h"
#include "libbus/base/utf8.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_ON_STACK = 512 };

static char nothing[] = "";

#define STATIC_ERROR(name, error_type, text)                                                       \
    static char name##_type[] = error_type;                                                        \
    static char name##_message[] = text;                                                           \
    struct bus_error name = {.refs = 1,                                                            \
                             .is_used = true,                                                      \
                             .is_static = true,                                                    \
                             .kind = ERROR_LOCAL,                                                  \
                             .type = name##_type,                                                  \
                             .message = name##_message,                                            \
                             .stacktrace = nothing,                                                \
                             .retry_after_ms = -1,                                                 \
                             .exit_code = -1,                                                      \
                             .origin = ORIGIN_SYSTEM,                                              \
                             .root = &name}

/* The error that calls read when they are given NULL. */
struct bus_error error_none = {.refs = 1,
                               .is_used = true,
                               .is_static = true,
                               .type = nothing,
                               .message = nothing,
                               .stacktrace = nothing,
                               .retry_after_ms = -1,
                               .exit_code = -1,
                               .root = &error_none};

STATIC_ERROR(error_no_memory, "errbus.no_memory", "out of memory");
STATIC_ERROR(error_no_resources, "errbus.no_memory",
             "no file descriptor, thread or memory is left for a connection: allow more open files "
             "(ulimit -n), or close a bus that is not needed");
STATIC_ERROR(error_timed_out, "errbus.timed_out", "the call's timeout passed");
STATIC_ERROR(error_closed, "errbus.closed", "the bus was stopped or closed here");
STATIC_ERROR(error_forked, "errbus.forked",
             "this is a forked child: the bus belongs to the process that opened it");

/* ---- texts ----------------------------------------------------------------------------------- */

/* Bytes of the well-formed character at text, or 0. */
static size_t character_bytes(const char *text, size_t bytes)
{
    for (size_t length = 1; length <= 4 && length <= bytes; length++) {
        if (utf8_is_valid(span_of(text, length)))
            return *text != '\0' ? length : 0;
    }
    return 0;
}

static void mend(char *text, size_t bytes)
{
    if (utf8_is_valid(span_of(text, bytes)) && memchr(text, '\0', bytes) == NULL)
        return;
    for (size_t at = 0; at < bytes;) {
        size_t length = character_bytes(text + at, bytes - at);
        if (length == 0)
            text[at] = '?';
        at += length > 0 ? length : 1;
    }
}

char *error_text(struct span text, size_t bytes_max, bool *out_is_cut)
{
    if (text.bytes == 0)
        return nothing;
    char *out = malloc((text.bytes < bytes_max ? text.bytes : bytes_max) + 1);
    if (out == NULL)
        return NULL;
    size_t bytes = text.bytes;
    if (text.bytes <= bytes_max) {
        memcpy(out, text.data, text.bytes);
    } else {
        enum { MARK_ROOM = 48 };
        char mark[MARK_ROOM];
        size_t room = bytes_max > MARK_ROOM ? bytes_max - MARK_ROOM : 0;
        const char *from = text.data;
        size_t head = utf8_cut(from, room / 2);
        size_t tail = text.bytes - room / 2;
        while (tail < text.bytes && ((unsigned char)from[tail] & 0xc0) == 0x80)
            tail++;
        int mark_bytes = snprintf(mark, sizeof mark, " [... %zu bytes cut ...] ", tail - head);
        memcpy(out, from, head);
        size_t marked = (size_t)mark_bytes < bytes_max - head ? (size_t)mark_bytes : 0;
        memcpy(out + head, mark, marked);
        memcpy(out + head + marked, from + tail, text.bytes - tail);
        bytes = head + marked + text.bytes - tail;
        *out_is_cut = true;
    }
    mend(out, bytes);
    out[bytes] = '\0';
    return out;
}

static void text_free(char *text)
{
    if (text != nothing)
        free(text);
}

/* ---- creating and freeing an error ----------------------------------------------------------- */

struct bus_error *error_make(uint64_t kind, struct span type, struct span message)
{
    struct bus_error *error = calloc(1, sizeof *error);
    if (error == NULL)
        return NULL;
    atomic_init(&error->refs, 1);
    atomic_init(&error->is_used, false);
    atomic_init(&error->identity, NULL);
    bool is_type_cut = false;
    error->kind = kind;
    error->type = error_text(type, LIMIT_ERROR_TYPE_BYTES, &is_type_cut);
    error->message = error_text(message, LIMIT_ERROR_MESSAGE_BYTES, &error->is_cut);
    error->stacktrace = nothing;
    error->retry_after_ms = -1;
    error->exit_code = -1;
    error->root = error;
    error->made_ns = api_now_ns();
    error->made_wall_ns = api_wall_ns();
    if (error->type == NULL || error->message == NULL)
        bus_error_unref(&error);
    return error;
}

static void forget_blames(struct bus_error *error)
{
    while (error->blame_count > 0)
        text_free(error->blames[--error->blame_count]);
}

void error_identity_free(struct error_identity *identity)
{
    if (identity != NULL)
        free(identity->sealing);
    free(identity);
}

static void error_free(struct bus_error *error)
{
    text_free(error->type);
    text_free(error->message);
    text_free(error->stacktrace);
    forget_blames(error);
    error_identity_free(atomic_load_explicit(&error->identity, memory_order_acquire));
    free(error->causes);
    attachments_free(error->attachments);
    free(error->attached);
    free(error);
}

struct bus_error *bus_error_ref(const struct bus_error *error)
{
    struct bus_error *counted = (struct bus_error *)(uintptr_t)error; /* the count alone changes */
    if (counted != NULL && !counted->is_static)
        atomic_fetch_add_explicit(&counted->refs, 1, memory_order_relaxed);
    return counted;
}

static bool drops_last(struct bus_error *error)
{
    return error != NULL && !error->is_static &&
           atomic_fetch_sub_explicit(&error->refs, 1, memory_order_acq_rel) == 1;
}

/* Without recursion: a chain may be as long as memory allows. */
void bus_error_unref(struct bus_error **error)
{
    if (error == NULL)
        return;
    struct bus_error *dead = NULL;
    if (drops_last(*error)) {
        dead = *error;
        dead->next_dead = NULL;
    }
    *error = NULL;
    while (dead != NULL) {
        struct bus_error *now = dead;
        dead = now->next_dead;
        for (uint32_t i = 0; i < now->cause_count; i++) {
            if (drops_last(now->causes[i])) {
                now->causes[i]->next_dead = dead;
                dead = now->causes[i];
            }
        }
        error_free(now);
    }
}

/* ---- roots ----------------------------------------------------------------------------------- */

static bool is_victim(const struct bus_error *error)
{
    return error->kind == ERROR_TERMINATED || error->kind == ERROR_DEPENDENCY;
}

const struct error_identity *error_identity_of(const struct bus_error *error)
{
    static const struct error_identity unknown = {
        .id = "", .job = "", .party = "", .host = "", .claimed_by = ""};
    const struct error_identity *identity =
        error != NULL ? atomic_load_explicit(&error->identity, memory_order_acquire) : NULL;
    return identity != NULL ? identity : &unknown;
}

/* Whether a comes before b as the root of what both led to: no claim, no victim, then the earlier
 * by the broker's clock (unknown last), then party, then id.  Who claims may say any time. */
static bool is_rather_root(const struct bus_error *a, const struct bus_error *b)
{
    const struct error_identity *left = error_identity_of(a);
    const struct error_identity *right = error_identity_of(b);
    bool is_claim = left->claimed_by[0] != '\0';
    if (is_claim != (right->claimed_by[0] != '\0'))
        return !is_claim;
    if (is_victim(a) != is_victim(b))
        return !is_victim(a);
    if ((left->occurred_ns > 0) != (right->occurred_ns > 0))
        return left->occurred_ns > 0;
    if (left->occurred_ns != right->occurred_ns)
        return left->occurred_ns < right->occurred_ns;
    int order = strcmp(left->party, right->party);
    if (order == 0)
        order = strcmp(left->id, right->id);
    return order < 0;
}

bool error_add_cause(struct bus_error *error, const struct bus_error *cause)
{
    if (error->cause_count == error->cause_room) {
        uint32_t room = error->cause_room > 0 ? error->cause_room * 2 : 1;
        struct bus_error **causes = realloc(error->causes, room * sizeof *causes);
        if (causes == NULL)
            return false;
        error->causes = causes;
        error->cause_room = room;
    }
    struct bus_error *used = bus_error_ref(cause);
    if (!used->is_static)
        atomic_store_explicit(&used->is_used, true, memory_order_release);
    if (error->cause_count == 0 || is_rather_root(cause->root, error->root))
        error->root = cause->root;
    error->causes[error->cause_count++] = used;
    return true;
}

/* ---- saying what happened -------------------------------------------------------------------- */

static struct bus_error *make_formatted(uint64_t kind, const char *type, const char *format,
                                        va_list arguments)
{
    char small[MESSAGE_ON_STACK];
    va_list again;
    va_copy(again, arguments);
    int bytes = vsnprintf(small, sizeof small, format, arguments);
    struct bus_error *error = NULL;
    if (bytes >= 0 && (size_t)bytes < sizeof small) {
        error = error_make(kind, span_text(type), span_of(small, (size_t)bytes));
    } else if (bytes >= 0) {
        char *large = malloc((size_t)bytes + 1);
        if (large != NULL) {
            vsnprintf(large, (size_t)bytes + 1, format, again);
            error = error_make(kind, span_text(type), span_of(large, (size_t)bytes));
            free(large);
        }
    } else {
        error = error_make(kind, span_text(type), span_text(format)); /* not to be formatted */
    }
    va_end(again);
    return error != NULL ? error : &error_no_memory;
}

/* ---- the last error of a thread -------------------------------------------------------------- */

static pthread_key_t last_key;
static atomic_bool has_last_key; /* threads may go on while the process ends */

static void forget_last(void *value)
{
    struct bus_error *error = value;
    bus_error_unref(&error);
}

static void make_last_key(void)
{
    atomic_store(&has_last_key, pthread_key_create(&last_key, forget_last) == 0);
}

/* A thread that ends when the library is unloaded already must not call it. */
__attribute__((destructor)) static void drop_last_key(void)
{
    if (atomic_exchange(&has_last_key, false))
        (void)pthread_key_delete(last_key);
}

static bool can_keep_last(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, make_last_key);
    return atomic_load(&has_last_key);
}

/* Keeps error as the last one of this thread, and takes it over. */
static void keep_last(struct bus_error *error)
{
    bool can_keep = can_keep_last();
    struct bus_error *before = can_keep ? pthread_getspecific(last_key) : NULL;
    if (!can_keep || pthread_setspecific(last_key, error) != 0)
        bus_error_unref(&error);
    else
        bus_error_unref(&before);
}

struct bus_error *bus_last_error(void)
{
    return bus_error_ref(can_keep_last() ? pthread_getspecific(last_key) : NULL);
}

enum bus_err error_give(struct bus_error **reterr, enum bus_err err, struct bus_error *error)
{
    if (error == NULL)
        error = &error_no_memory;
    if (reterr != NULL)
        *reterr = error;
    else
        keep_last(error);
    return err;
}

enum bus_err error_say(struct bus_error **reterr, enum bus_err err, const char *type,
                       const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    struct bus_error *error = make_formatted(ERROR_LOCAL, type, format, arguments);
    va_end(arguments);
    if (!error->is_static)
        error->origin = ORIGIN_SYSTEM;
    return error_give(reterr, err, error);
}

static const char *type_of(enum bus_err err)
{
    switch (err) {
    case BUS_OK: break;
#define CODE(upper, number, type, what)                                                            \
    case BUS_##upper:                                                                              \
        return ERROR_TYPE_##type;
#include "schemas/errors.def"
#undef CODE
    }
    return ERROR_TYPE_ARGUMENT;
}

enum bus_err error_say_code(enum bus_err err, const char *call)
{
    switch (err) {
    case BUS_OK: return err;
    case BUS_ENOMEM: return error_give(NULL, err, &error_no_memory);
    case BUS_ETIMEDOUT: return error_give(NULL, err, &error_timed_out);
    case BUS_ECLOSED: return error_give(NULL, err, &error_closed);
    case BUS_EINVAL:
        return error_say(NULL, err, ERROR_TYPE_ARGUMENT,
                         "%s(): an argument is NULL or not allowed: see bus.h", call);
    case BUS_EFULL:
    case BUS_ETOOBIG:
    case BUS_EPROTO:
    case BUS_ELOST:
    case BUS_EOVERRUN:
    case BUS_EFAILED:
    case BUS_ESETTLED:
    case BUS_EFENCED:
    case BUS_EDENIED:
    case BUS_EENDED: break;
    }
    return error_say(NULL, err, type_of(err), "%s(): %s", call, bus_strerror(err));
}

struct bus_error *error_new(const char *type, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    struct bus_error *error = make_formatted(ERROR_APPLICATION, type, format, arguments);
    va_end(arguments);
    return error;
}

/* Moves a type of the library into the message: readers trust these types, so an application must
 * not give them. */
static void withhold_type(struct bus_error **error, const char *type)
{
    struct bus_error *without =
        error_new(ERROR_TYPE_RESERVED_TYPE, "%.200s: %s", type, (*error)->message);
    bus_error_unref(error);
    *error = without;
}

struct bus_error *bus_error_new(const char *type, const struct bus_error *cause, const char *format,
                                ...)
{
    static const char reserved[] = "errbus.";
    va_list arguments;
    va_start(arguments, format);
    struct bus_error *error =
        make_formatted(ERROR_APPLICATION, type != NULL && *type != '\0' ? type : ERROR_TYPE_UNTYPED,
                       format != NULL ? format : "", arguments);
    if (type != NULL && strncmp(type, reserved, sizeof reserved - 1) == 0 && !error->is_static)
        withhold_type(&error, type);
    va_end(arguments);
    if (cause != NULL && !error->is_static && !error_add_cause(error, cause)) {
        bus_error_unref(&error);
        error = &error_no_memory;
    }
    return error;
}

/* ---- changing a fresh one -------------------------------------------------------------------- */

/* BUS_OK: it may be changed. */
enum bus_err error_check_fresh(const struct bus_error *error)
{
    if (error == NULL)
        return BUS_EINVAL;
    if (error->is_static)
        return BUS_ENOMEM;
    return atomic_load_explicit(&error->is_used, memory_order_acquire) ? BUS_EINVAL : BUS_OK;
}

enum bus_err bus_error_add_cause(struct bus_error *error, const struct bus_error *cause)
{
    if (cause == NULL || error == cause)
        return error_say_code(BUS_EINVAL, __func__);
    enum bus_err err = error_check_fresh(error);
    if (err == BUS_OK && !error_add_cause(error, cause))
        err = BUS_ENOMEM;
    return error_say_code(err, __func__);
}

enum bus_err bus_error_set_recoverable(struct bus_error *error, int yes)
{
    enum bus_err err = error_check_fresh(error);
    if (err == BUS_OK)
        error->recoverable = yes != 0 ? RECOVERABLE_YES : RECOVERABLE_NO;
    return error_say_code(err, __func__);
}

enum bus_err bus_error_set_retry_after(struct bus_error *error, int64_t retry_after_ms)
{
    if (retry_after_ms < 0)
        return error_say_code(BUS_EINVAL, __func__);
    enum bus_err err = error_check_fresh(error);
    if (err == BUS_OK)
        error->retry_after_ms = retry_after_ms;
    return error_say_code(err, __func__);
}

enum bus_err bus_error_set_code(struct bus_error *error, int64_t code)
{
    enum bus_err err = error_check_fresh(error);
    if (err == BUS_OK)
        error->code = code;
    return error_say_code(err, __func__);
}

enum bus_err bus_error_set_stacktrace(struct bus_error *error, const char *text)
{
    enum bus_err err = error_check_fresh(error);
    if (err != BUS_OK)
        return error_say_code(err, __func__);
    bool is_cut = false;
    char *copy = error_text(span_text(text), LIMIT_ERROR_STACK_BYTES, &is_cut);
    if (copy == NULL)
        return error_say_code(BUS_ENOMEM, __func__);
    text_free(error->stacktrace);
    error->stacktrace = copy;
    error->is_stack_cut = is_cut;
    return BUS_OK;
}

static char *blame_text(struct span party)
{
    bool is_cut = false; /* no name is too long */
    return error_text(party, LIMIT_NAME_BYTES, &is_cut);
}

bool error_add_blame(struct bus_error *error, struct span party)
{
    char *copy = blame_text(party);
    if (copy != NULL)
        error->blames[error->blame_count++] = copy;
    return copy != NULL;
}

enum bus_err bus_error_set_blame(struct bus_error *error, const char *party)
{
    if (!party_is_valid(span_text(party)))
        return error_say_code(BUS_EINVAL, __func__);
    enum bus_err err = error_check_fresh(error);
    if (err != BUS_OK)
        return error_say_code(err, __func__);
    char *copy = blame_text(span_text(party)); /* party may be one of those that go */
    if (copy == NULL)
        return error_say_code(BUS_ENOMEM, __func__);
    forget_blames(error);
    error->blames[error->blame_count++] = copy;
    return BUS_OK;
}

static bool has_blame(const struct bus_error *error, const char *party)
{
    uint32_t i = 0;
    while (i < error->blame_count && strcmp(error->blames[i], party) != 0)
        i++;
    return i < error->blame_count;
}

enum bus_err bus_error_add_blame(struct bus_error *error, const char *party)
{
    if (!party_is_valid(span_text(party)))
        return error_say_code(BUS_EINVAL, __func__);
    enum bus_err err = error_check_fresh(error);
    if (err != BUS_OK || has_blame(error, party))
        return error_say_code(err, __func__);
    if (error->blame_count == LIMIT_ERROR_BLAMES)
        return error_say_code(BUS_EFULL, __func__);
    return error_say_code(error_add_blame(error, span_text(party)) ? BUS_OK : BUS_ENOMEM, __func__);
}

/* ---- reading --------------------------------------------------------------------------------- */

const char *bus_error_id(const struct bus_error *error)
{
    return error_identity_of(error)->id;
}

const char *bus_error_kind(const struct bus_error *error)
{
    if (error == NULL)
        return "";
    /* An error that left this process is not local any more: it is an application's failure. */
    bool has_left = atomic_load_explicit(&error->identity, memory_order_acquire) != NULL;
    return error_kind_name(error->kind == ERROR_LOCAL && has_left ? ERROR_APPLICATION
                                                                  : error->kind);
}

const char *bus_error_type(const struct bus_error *error)
{
    return error_or_none(error)->type;
}

const char *bus_error_message(const struct bus_error *error)
{
    return error_or_none(error)->message;
}

const char *bus_error_stacktrace(const struct bus_error *error)
{
    return error_or_none(error)->stacktrace;
}

const char *bus_error_claimed_by(const struct bus_error *error)
{
    return error_identity_of(error)->claimed_by;
}

const char *bus_error_party(const struct bus_error *error)
{
    return error_identity_of(error)->party;
}

const char *bus_error_host(const struct bus_error *error)
{
    return error_identity_of(error)->host;
}

int64_t bus_error_pid(const struct bus_error *error)
{
    return (int64_t)error_identity_of(error)->pid;
}

uint32_t bus_error_incarnation(const struct bus_error *error)
{
    return (uint32_t)error_identity_of(error)->incarnation;
}

const char *bus_error_blame(const struct bus_error *error)
{
    return error_or_none(error)->blame_count > 0 ? error->blames[0] : "";
}

const char *bus_error_blame_at(const struct bus_error *error, size_t index)
{
    return index < error_or_none(error)->blame_count ? error->blames[index] : NULL;
}

const char *bus_error_topic(const struct bus_error *error, uint64_t *out_seq)
{
    const struct error_identity *identity = error_identity_of(error);
    if (out_seq != NULL && identity->topic != NULL)
        *out_seq = identity->seq;
    return identity->topic;
}

int bus_error_recoverable(const struct bus_error *error)
{
    uint64_t recoverable = error_or_none(error)->recoverable;
    return recoverable == RECOVERABLE_YES ? 1 : recoverable == RECOVERABLE_NO ? 0 : -1;
}

int64_t bus_error_retry_after_ms(const struct bus_error *error)
{
    return error_or_none(error)->retry_after_ms;
}

int64_t bus_error_code(const struct bus_error *error)
{
    return error_or_none(error)->code;
}

int64_t bus_error_occurred_ns(const struct bus_error *error)
{
    const struct bus_error *read = error_or_none(error);
    const struct error_identity *identity =
        atomic_load_explicit(&read->identity, memory_order_acquire);
    return identity != NULL ? identity->wall_ns : read->made_wall_ns;
}

const struct bus_error *bus_error_cause(const struct bus_error *error)
{
    return bus_error_cause_at(error, 0);
}

const struct bus_error *bus_error_cause_at(const struct bus_error *error, size_t index)
{
    return index < error_or_none(error)->cause_count ? error->causes[index] : NULL;
}

const struct bus_error *bus_error_root(const struct bus_error *error)
{
    return error != NULL ? error->root : NULL;
}
