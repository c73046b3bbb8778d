/* SPDX-License-Identifier: MPL-2.0 */
/* slot.c -- slots: reserved, committed, failed and retracted. */
#include "libbus/api/clock.h"
#include "libbus/api/error.h"
#include "libbus/api/error_wire.h"
#include "libbus/api/fork.h"
#include "libbus/api/link_turn.h"
#include "libbus/api/lock.h"
#include "libbus/api/model.h"
#include "libbus/api/news.h"
#include "libbus/api/options.h"
#include "libbus/api/owned.h"
#include "libbus/api/party.h"
#include "libbus/api/publish.h"
#include "libbus/base/pattern.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct bus_slot {
    struct bus *bus;
    uint32_t topic; /* the session's number */
    uint64_t seq;
    char name[LIMIT_NAME_BYTES + 1]; /* the whole topic, where an error is born */
};

static void slot_free(struct bus_slot **slot)
{
    api_unref((*slot)->bus);
    free(*slot);
    *slot = NULL;
}

/* ---- promising ------------------------------------------------------------------------------- */

/* Lock held. */
static enum bus_err reserve(struct bus *bus, const char *topic,
                            const struct session_reservation *promise, struct bus_slot *slot)
{
    struct publish_patience patience = {0};
    enum bus_err err = api_over(bus);
    if (err == BUS_OK)
        err = publish_topic(bus, topic, &slot->topic);
    while (err == BUS_OK) {
        enum wire_code code =
            session_reserve_with(bus->session, api_stamp_ns(bus), slot->topic, promise, &slot->seq);
        if (code != CODE_ETIMEDOUT)
            return (enum bus_err)code;
        err = publish_wait(bus, slot->topic, &patience);
    }
    return err;
}

/* "alice/1, which ended at ..." */
#define EARLIER_BYTES_MAX (LIMIT_NAME_BYTES + API_TIME_BYTES_MAX + 64)
static void print_earlier(const struct bus *bus, const struct session_earlier *earlier,
                          uint64_t seq, char text[EARLIER_BYTES_MAX])
{
    char time[API_TIME_BYTES_MAX];
    if (earlier->incarnation == 0 || seq < earlier->first_seq)
        (void)snprintf(text, EARLIER_BYTES_MAX, "an earlier incarnation of %s", bus->party);
    else if (earlier->ended_ns == 0)
        (void)snprintf(text, EARLIER_BYTES_MAX, "%s/%" PRIu32, bus->party, earlier->incarnation);
    else
        (void)snprintf(text, EARLIER_BYTES_MAX, "%s/%" PRIu32 ", which ended at %s", bus->party,
                       earlier->incarnation, api_time_text(earlier->ended_ns, time));
}

/* Who reserved the number, and what to do.  Lock held. */
static enum bus_err say_reserved_before(struct bus *bus, uint32_t topic, uint64_t seq,
                                        const char *name, struct bus_error **reterr)
{
    struct session_earlier earlier;
    char who[EARLIER_BYTES_MAX];
    char anew[2 * LIMIT_NAME_BYTES] = "";
    bool is_created = session_job_is_created(bus->session);
    uint64_t next_seq = session_next_seq(bus->session, topic, &earlier);
    if (seq >= earlier.end_seq)
        return error_say(reterr, BUS_ESETTLED, ERROR_TYPE_TOO_LATE,
                         "number %" PRIu64 " of '%s' was reserved before by this incarnation, "
                         "%s/%" PRIu32 ": the next free number is %" PRIu64,
                         seq, name, bus->party, session_incarnation(bus->session), next_seq);
    print_earlier(bus, &earlier, seq, who);
    if (!is_created)
        (void)snprintf(anew, sizeof anew,
                       "; to begin a new run, end all parties of the job, and run 'errbus job "
                       "forget %s' or set ERRBUS_RUN",
                       bus->job);
    return error_say(reterr, BUS_ESETTLED, ERROR_TYPE_TOO_LATE,
                     "number %" PRIu64 " of '%s' was reserved before, in %s %" PRIu32
                     " of job '%s' "
                     "by %s; the same %s goes on, and its next free number is %" PRIu64 "%s",
                     seq, name, is_created ? "attempt" : "run", session_attempt(bus->session),
                     bus->job, who, is_created ? "attempt" : "run", next_seq, anew);
}

static enum bus_err say_not_reserved(struct bus *bus, enum bus_err err, const char *topic,
                                     const struct bus_slot_options *options,
                                     const struct bus_slot *slot, struct bus_error **reterr)
{
    char whole[LIMIT_NAME_BYTES + 1];
    if (err == BUS_ESETTLED)
        return say_reserved_before(bus, slot->topic, (uint64_t)options->seq, topic, reterr);
    if (err == BUS_EINVAL && publish_whole_name(bus, topic, whole) == BUS_OK)
        return error_say(reterr, err, ERROR_TYPE_CYCLE,
                         "a slot of '%s' may only need slots that were promised before it", topic);
    return publish_say(bus, err, topic, options->value_bytes_max, reterr);
}

static enum bus_err check_options(const struct bus_slot_options *given,
                                  struct bus_slot_options *options, struct bus_error **reterr)
{
    if (given != NULL && !options_take(options, sizeof *options, given, given->struct_bytes))
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "the options are not initialised, or were made for a newer library");
    if (options->seq < BUS_NEXT || options->seq == INT64_MAX)
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "seq is %" PRId64 ": it must be BUS_NEXT, or at least 0 and below "
                         "INT64_MAX",
                         options->seq);
    if (options->deadline_ms != BUS_FOREVER &&
        (options->deadline_ms <= 0 || options->deadline_ms > LIMIT_PERIOD_MS_MAX))
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "deadline_ms is %" PRId64 ": it must be BUS_FOREVER or from 1 to %" PRId64,
                         options->deadline_ms, LIMIT_PERIOD_MS_MAX);
    if (options->need_count > LIMIT_SLOT_NEEDS ||
        (options->need_count > 0 && options->needs == NULL))
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "need_count is %zu: it must be from 0 to %d, and needs must hold as many",
                         options->need_count, LIMIT_SLOT_NEEDS);
    return BUS_OK;
}

/* The needs as the session takes them; NULL: none, or *err says why not. */
static struct frame_need *needs_of(const struct bus_slot_options *options, enum bus_err *err,
                                   struct bus_error **reterr)
{
    struct frame_need *needs =
        options->need_count > 0 ? calloc(options->need_count, sizeof *needs) : NULL;
    if (needs == NULL && options->need_count > 0)
        *err = error_give(reterr, BUS_ENOMEM, &error_no_memory);
    for (size_t i = 0; needs != NULL && i < options->need_count; i++) {
        const char *topic = options->needs[i].topic;
        needs[i] = (struct frame_need){.topic = span_text(topic), .seq = options->needs[i].seq};
        if (topic_is_valid(needs[i].topic))
            continue;
        *err = error_say(reterr, BUS_EINVAL, ERROR_TYPE_NAME, "needs[%zu]: '%.250s' is not a topic",
                         i, topic != NULL ? topic : "");
        free(needs);
        needs = NULL;
    }
    return needs;
}

static enum bus_err promise(struct bus *bus, const char *topic,
                            const struct bus_slot_options *options, const struct frame_need *needs,
                            struct bus_slot **out_slot, struct bus_error **reterr)
{
    const struct session_reservation asked = {.seq = options->seq,
                                              .deadline_ms = options->deadline_ms,
                                              .value_bytes_max = options->value_bytes_max,
                                              .needs = needs,
                                              .need_count = options->need_count};
    struct bus_slot *slot = calloc(1, sizeof *slot);
    if (slot == NULL)
        return error_give(reterr, BUS_ENOMEM, &error_no_memory);
    api_lock(bus);
    enum bus_err err = reserve(bus, topic, &asked, slot);
    if (err == BUS_OK) {
        (void)publish_whole_name(bus, topic, slot->name); /* the session just accepted it */
        slot->bus = bus;
        api_ref(bus);
        *out_slot = slot;
    } else {
        (void)say_not_reserved(bus, err, topic, options, slot, reterr);
        free(slot);
    }
    thread_unlock_say(bus);
    return err;
}

enum bus_err bus_slot_reserve_with(struct bus *bus, const char *topic,
                                   const struct bus_slot_options *options,
                                   struct bus_slot **out_slot, struct bus_error **reterr)
{
    struct bus_slot_options known;
    bus_slot_options_init(&known);
    if (bus == NULL || topic == NULL || out_slot == NULL)
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "bus_slot_reserve() needs bus, topic and out_slot");
    if (api_is_foreign(bus))
        return error_give(reterr, BUS_ECLOSED, &error_forked);
    enum bus_err err = check_options(options, &known, reterr);
    struct frame_need *needs = err == BUS_OK ? needs_of(&known, &err, reterr) : NULL;
    if (err == BUS_OK)
        err = promise(bus, topic, &known, needs, out_slot, reterr);
    free(needs);
    return err;
}

enum bus_err bus_slot_reserve(struct bus *bus, const char *topic, int64_t deadline_ms,
                              struct bus_slot **out_slot)
{
    struct bus_slot_options options;
    bus_slot_options_init(&options);
    options.deadline_ms = deadline_ms;
    return bus_slot_reserve_with(bus, topic, &options, out_slot, NULL);
}

uint64_t bus_slot_seq(const struct bus_slot *slot)
{
    return slot != NULL ? slot->seq : 0;
}

int bus_slot_is_settled(const struct bus_slot *slot)
{
    if (slot == NULL)
        return 0;
    struct bus *bus = slot->bus;
    if (api_is_foreign(bus))
        return 1;
    api_lock(bus);
    bool is_settled =
        api_ended(bus) != BUS_OK || session_is_settled(bus->session, slot->topic, slot->seq);
    api_unlock_wake(bus);
    return is_settled;
}

/* ---- settling -------------------------------------------------------------------------------- */

/* Whether another try can help: then the slot stays with the caller. */
static bool is_kept_after(enum bus_err err)
{
    return err == BUS_EINVAL || err == BUS_ENOMEM || err == BUS_ETIMEDOUT || err == BUS_EFULL ||
           err == BUS_ETOOBIG;
}

/* Lock held. */
static enum bus_err say_not_committed(struct bus *bus, enum bus_err err,
                                      const struct bus_slot *slot, size_t value_bytes)
{
    if (err == BUS_ESETTLED)
        return error_say(NULL, err, ERROR_TYPE_TOO_LATE,
                         "slot %" PRIu64 " of '%s' was settled before: its first outcome stands",
                         slot->seq, slot->name);
    if (err == BUS_ETOOBIG)
        return error_say(NULL, err, ERROR_TYPE_TOO_BIG,
                         "a value of %zu bytes is larger than slot %" PRIu64 " of '%s' may hold",
                         value_bytes, slot->seq, slot->name);
    return publish_say(bus, err, slot->name, value_bytes, NULL);
}

/* Commits value or owned; the other is empty. */
static enum bus_err commit(struct bus_slot **slot, struct span value, struct buffer **owned)
{
    struct bus_slot *kept = *slot;
    struct bus *bus = kept->bus;
    struct publish_patience patience = {0};
    api_lock(bus);
    enum bus_err err = api_ended(bus);
    while (err == BUS_OK) {
        enum wire_code code = owned != NULL ? session_commit_owned(bus->session, api_stamp_ns(bus),
                                                                   kept->topic, kept->seq, owned)
                                            : session_commit(bus->session, api_stamp_ns(bus),
                                                             kept->topic, kept->seq, value);
        if (code != CODE_ETIMEDOUT) {
            err = (enum bus_err)code;
            break;
        }
        /* Slots may be settled after bus_stop() too, but then nothing waits. */
        err = publish_wait(bus, kept->topic, &patience);
        if (err == BUS_ECLOSED && api_ended(bus) == BUS_OK)
            err = BUS_EFULL;
    }
    (void)say_not_committed(bus, err, kept,
                            owned != NULL && *owned != NULL ? (*owned)->bytes : value.bytes);
    thread_unlock_say(bus);
    if (!is_kept_after(err))
        slot_free(slot);
    return err;
}

enum bus_err bus_slot_commit(struct bus_slot **slot, const void *value, size_t value_bytes)
{
    if (slot == NULL || *slot == NULL || (value == NULL && value_bytes > 0))
        return error_say_code(BUS_EINVAL, __func__);
    if (api_is_foreign((*slot)->bus)) {
        *slot = NULL;
        return error_give(NULL, BUS_ECLOSED, &error_forked);
    }
    if (value_bytes <= API_COPY_BYTES || value_bytes > LIMIT_VALUE_BYTES) /* refused in there */
        return commit(slot, span_of(value, value_bytes), NULL);
    struct buffer *copy = buffer_copy(span_of(value, value_bytes));
    if (copy == NULL)
        return error_say_code(BUS_ENOMEM, __func__);
    enum bus_err err = commit(slot, SPAN_NONE, &copy);
    buffer_unref(&copy);
    return err;
}

enum bus_err bus_slot_commit_owned(struct bus_slot **slot, void *value, size_t value_bytes,
                                   void (*free_fn)(void *value, void *arg), void *arg)
{
    if (slot == NULL || *slot == NULL || free_fn == NULL || (value == NULL && value_bytes > 0))
        return error_say_code(BUS_EINVAL, __func__);
    if (api_is_foreign((*slot)->bus)) {
        *slot = NULL;
        free_fn(value, arg);
        return error_give(NULL, BUS_ECLOSED, &error_forked);
    }
    struct buffer *owned = owned_new(value, value_bytes, free_fn, arg);
    if (owned == NULL)
        return error_say_code(BUS_ENOMEM, __func__);
    enum bus_err err = commit(slot, SPAN_NONE, &owned);
    if (owned != NULL && is_kept_after(err))
        owned_discard(&owned);
    buffer_unref(&owned);
    return err;
}

void bus_slot_fail(struct bus_slot **slot, const struct bus_error *error)
{
    if (slot == NULL || *slot == NULL)
        return;
    struct bus_slot *failing = *slot;
    struct bus *bus = failing->bus;
    if (api_is_foreign(bus)) {
        *slot = NULL;
        return;
    }
    api_lock(bus);
    if (api_ended(bus) == BUS_OK) {
        struct span encoded =
            error_to_wire(bus, error, ERROR_TYPE_ABANDONED, failing->name, failing->seq);
        session_fail(bus->session, api_stamp_ns(bus), failing->topic, failing->seq, encoded);
    }
    thread_unlock_say(bus);
    slot_free(slot);
}

/* Sends RETRACT once the number of the topic is known.  The slot may be of an earlier incarnation.
 * Lock held. */
static enum bus_err retract(struct bus *bus, const char *whole, uint64_t seq,
                            const struct bus_error *error, int64_t deadline_ns,
                            uint64_t *out_request)
{
    uint32_t topic = 0;
    enum bus_err err = publish_topic(bus, whole, &topic);
    while (err == BUS_OK) {
        struct span encoded = error_to_wire(bus, error, ERROR_TYPE_ABANDONED, whole, seq);
        enum wire_code code = session_retract(bus->session, topic, seq, encoded, out_request);
        if (code != CODE_ETIMEDOUT)
            return (enum bus_err)code;
        api_wake(bus); /* asks for the topic's number */
        if (!api_wait(bus, &bus->news, &bus->waiters, deadline_ns))
            return BUS_ETIMEDOUT;
        err = api_over(bus);
    }
    return err;
}

/* Lock held. */
static enum bus_err say_not_retracted(struct bus *bus, enum bus_err err, const char *topic,
                                      uint64_t seq)
{
    if (err == BUS_ETIMEDOUT)
        return error_give(NULL, err, &error_timed_out);
    if (err == BUS_ESETTLED)
        return error_say(NULL, err, ERROR_TYPE_TOO_LATE,
                         "slot %" PRIu64 " of '%.250s' cannot be taken back: a subscriber has its "
                         "outcome, that is an error already, or nobody promised the slot",
                         seq, topic);
    return publish_say(bus, err, topic, 0, NULL);
}

enum bus_err bus_retract(struct bus *bus, const char *topic, uint64_t seq,
                         const struct bus_error *error, int64_t timeout_ms)
{
    char whole[LIMIT_NAME_BYTES + 1];
    uint64_t request = 0;
    if (bus == NULL || topic == NULL || !options_time_is_valid(timeout_ms))
        return error_say_code(BUS_EINVAL, __func__);
    if (api_is_foreign(bus))
        return error_give(NULL, BUS_ECLOSED, &error_forked);
    int64_t deadline_ns = api_deadline_ns(timeout_ms);
    api_lock(bus);
    enum bus_err err = api_over(bus);
    if (err == BUS_OK)
        err = publish_whole_name(bus, topic, whole);
    if (err == BUS_OK)
        err = retract(bus, whole, seq, error, deadline_ns, &request);
    if (err == BUS_OK)
        err = party_wait_result(bus, request, deadline_ns);
    (void)say_not_retracted(bus, err, topic, seq);
    api_unlock_wake(bus);
    return err;
}
