/* SPDX-License-Identifier: MPL-2.0 */
/* await.c -- bus_await() and bus_gather(): waiting for given slots. */
#include "libbus/api/await_table.h"
#include "libbus/api/blocked.h"
#include "libbus/api/clock.h"
#include "libbus/api/error.h"
#include "libbus/api/error_wire.h"
#include "libbus/api/event_fd.h"
#include "libbus/api/fork.h"
#include "libbus/api/lane_wait.h"
#include "libbus/api/lock.h"
#include "libbus/api/model.h"
#include "libbus/api/msg.h"
#include "libbus/api/news.h"
#include "libbus/api/options.h"
#include "libbus/base/pattern.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Continues a wait that another call gave up, or begins one. */
static enum bus_err begin(struct bus *bus, const char *topic, uint64_t seq, bool is_value_wanted,
                          struct await **out_await)
{
    struct await *await = await_find(bus, topic, seq, is_value_wanted);
    if (await != NULL && !await->is_given_up) {
        *out_await = await;
        return BUS_OK;
    }
    free(await);
    await = calloc(1, sizeof *await);
    if (await == NULL)
        return BUS_ENOMEM;
    enum wire_code code = CODE_EFULL;
    while (code == CODE_EFULL && await_has_room(bus)) {
        code = session_await(bus->session, span_text(topic), seq, is_value_wanted, &await->want);
        if (code == CODE_EFULL && !await_drop_oldest(bus))
            break;
    }
    if (code != CODE_OK) {
        free(await);
        return (enum bus_err)code;
    }
    list_init(&await->link);
    await->seq = seq;
    await->is_value_wanted = is_value_wanted;
    memcpy(await->topic, topic, strlen(topic) + 1);
    *out_await = await;
    return BUS_OK;
}

static enum bus_err say(struct bus *bus, enum bus_err err, const char *topic,
                        struct bus_error **reterr)
{
    switch (err) {
    case BUS_OK: return err;
    case BUS_ENOMEM: return error_give(reterr, err, &error_no_memory);
    case BUS_ETIMEDOUT: return error_give(reterr, err, &error_timed_out);
    case BUS_EINVAL:
        return error_say(reterr, err, ERROR_TYPE_NAME,
                         "'%.250s' is not a topic: expected \"party/name\"", topic);
    case BUS_EFULL:
        return error_say(reterr, err, ERROR_TYPE_FULL,
                         "this bus awaits %d slots already, which is the limit", LIMIT_AWAITS);
    case BUS_ETOOBIG:
    case BUS_EPROTO:
    case BUS_ELOST:
    case BUS_EOVERRUN:
    case BUS_EFAILED:
    case BUS_ESETTLED:
    case BUS_EFENCED:
    case BUS_EDENIED:
    case BUS_ECLOSED:
    case BUS_EENDED: break;
    }
    return api_say_over(bus, err, reterr);
}

static enum bus_err say_beyond(uint64_t seq, struct bus_error **reterr)
{
    return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                     "slot number %" PRIu64 " is too large: it must be below INT64_MAX", seq);
}

/* ---- one ------------------------------------------------------------------------------------- */

/* Takes the answer out of await; the rest of it is freed. */
static enum bus_err answer(struct await *await, struct bus_msg **out_msg, struct bus_error **reterr)
{
    enum bus_err err = (enum bus_err)await->code;
    if (err == BUS_ENOMEM) {
        (void)error_give(reterr, err, &error_no_memory);
    } else if (err != BUS_OK) {
        (void)error_say(reterr, err, ERROR_TYPE_CLOSED, "%s", bus_strerror(err));
    } else if (await->item.kind != SESSION_ITEM_VALUE) {
        err = error_give(reterr, BUS_EFAILED, error_from_wire(await->item.value));
    } else if (out_msg != NULL) {
        *out_msg = msg_new(await->topic, &await->item);
        if (*out_msg == NULL)
            err = error_give(reterr, BUS_ENOMEM, &error_no_memory);
    }
    buffer_unref(&await->item.buffer);
    free(await);
    return err;
}

static bool await_wait(struct bus *bus, const struct await *await, struct blocked_call *blocked,
                       int64_t deadline_ns)
{
    const struct session_wait_place place = {.topic = span_text(await->topic), .seq = await->seq};
    blocked_begin(bus, blocked, &place);
    return lane_wait(bus, LINK_DATA, &bus->news, &bus->waiters, deadline_ns);
}

enum bus_err bus_await(struct bus *bus, const char *topic, uint64_t seq, int64_t timeout_ms,
                       struct bus_msg **out_msg, struct bus_error **reterr)
{
    struct await *await = NULL;
    struct blocked_call blocked = blocked_call(SESSION_WAIT_SLOTS, timeout_ms);
    if (bus == NULL || topic == NULL || !options_wait_is_valid(timeout_ms))
        return error_say(
            reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
            "bus_await() needs bus, topic and a timeout_ms of at least 0, or BUS_FOREVER");
    if (api_is_foreign(bus))
        return error_give(reterr, BUS_ECLOSED, &error_forked);
    if (!topic_is_valid(span_text(topic)))
        return say(bus, BUS_EINVAL, topic, reterr);
    if (seq >= INT64_MAX)
        return say_beyond(seq, reterr);
    int64_t deadline_ns = api_deadline_ns(timeout_ms);
    api_lock(bus);
    enum bus_err err = api_over(bus);
    if (err == BUS_OK)
        err = begin(bus, topic, seq, out_msg != NULL, &await);
    api_wake(bus);
    while (err == BUS_OK) {
        await_look(bus, await);
        if (await->is_answered && (await->code == CODE_OK || await->code == CODE_ENOMEM))
            break;
        if (await->is_answered) /* no answer will come: the session is over */
            api_tell(bus);
        else if (!await_wait(bus, await, &blocked, deadline_ns))
            err = BUS_ETIMEDOUT;
        if (err == BUS_OK)
            err = api_over(bus);
        if (err == BUS_OK && await->is_answered)
            err = (enum bus_err)await->code;
    }
    blocked_end_by(bus, &blocked, err);
    if (err == BUS_ETIMEDOUT)
        await_put_by(bus, await, false);
    else if (err != BUS_OK && await != NULL)
        await_drop(bus, await);
    (void)say(bus, err, topic, reterr);
    api_unlock_wake(bus);
    return err == BUS_OK ? answer(await, out_msg, reterr) : err;
}

/* ---- many ------------------------------------------------------------------------------------ */

struct gather {
    struct bus *bus;
    struct bus_want *wants;
    struct await **awaits; /* of each want; NULL: settled, or not begun */
    size_t count;
    size_t values_enough;
    size_t errors_max;
};

static bool is_settled(const struct bus_want *want)
{
    return want->msg != NULL || want->error != NULL;
}

/* Lock held. */
static enum bus_err begin_all(struct gather *gather)
{
    enum bus_err err = api_over(gather->bus);
    for (size_t i = 0; i < gather->count && err == BUS_OK; i++) {
        if (!is_settled(&gather->wants[i]))
            err = begin(gather->bus, gather->wants[i].topic, gather->wants[i].seq, true,
                        &gather->awaits[i]);
    }
    return err;
}

/* Lock held. */
static bool look_all(struct gather *gather)
{
    bool is_any_answered = false;
    for (size_t i = 0; i < gather->count; i++) {
        if (gather->awaits[i] == NULL)
            continue;
        await_look(gather->bus, gather->awaits[i]);
        is_any_answered |= gather->awaits[i]->is_answered;
    }
    return is_any_answered;
}

/* Without the lock.  Moves the answers into wants. */
static enum bus_err settle_all(struct gather *gather)
{
    enum bus_err err = BUS_OK;
    for (size_t i = 0; i < gather->count; i++) {
        struct await *await = gather->awaits[i];
        if (await == NULL || !await->is_answered)
            continue;
        gather->awaits[i] = NULL;
        enum bus_err one = answer(await, &gather->wants[i].msg, &gather->wants[i].error);
        if (one == BUS_OK || one == BUS_EFAILED)
            continue;
        bus_error_unref(&gather->wants[i].error); /* no outcome: the next call may ask again */
        err = one;
    }
    return err;
}

/* Whether the call is decided: then *out_err is its result, BUS_OK or BUS_EFAILED. */
static bool judge(const struct gather *gather, enum bus_err *out_err)
{
    size_t values = 0;
    size_t errors = 0;
    for (size_t i = 0; i < gather->count; i++) {
        values += gather->wants[i].msg != NULL;
        errors += gather->wants[i].msg == NULL && gather->wants[i].error != NULL;
    }
    *out_err = values < gather->values_enough && errors > gather->errors_max ? BUS_EFAILED : BUS_OK;
    return values >= gather->values_enough || errors > gather->errors_max ||
           values + errors == gather->count;
}

/* Lock held.  Keeps the unanswered waits for the next call. */
static void put_all_by(struct gather *gather, bool is_decided)
{
    for (size_t i = 0; i < gather->count; i++) {
        if (gather->awaits[i] != NULL)
            await_put_by(gather->bus, gather->awaits[i], is_decided);
    }
}

static enum bus_err run(struct gather *gather, int64_t timeout_ms)
{
    struct bus *bus = gather->bus;
    enum bus_err err = BUS_OK;
    int64_t deadline_ns = api_deadline_ns(timeout_ms);
    struct blocked_call blocked = blocked_call(SESSION_WAIT_SLOTS, timeout_ms);
    api_lock(bus);
    err = begin_all(gather);
    api_wake(bus);
    while (err == BUS_OK) {
        bool is_any_answered = look_all(gather);
        if (!is_any_answered) {
            blocked_begin(bus, &blocked, NULL);
            if (!lane_wait(bus, LINK_DATA, &bus->news, &bus->waiters, deadline_ns))
                err = BUS_ETIMEDOUT;
            else
                err = api_over(bus);
            continue;
        }
        enum bus_err decided = BUS_OK;
        api_unlock(bus);
        err = settle_all(gather);
        bool is_decided = judge(gather, &decided);
        api_lock(bus);
        if (is_decided) {
            err = decided;
            break;
        }
        if (err == BUS_OK)
            err = api_over(bus);
    }
    blocked_end_by(bus, &blocked, err);
    put_all_by(gather, err == BUS_OK || err == BUS_EFAILED);
    api_unlock_wake(bus);
    return err;
}

/* Makes one error, whose causes are all the errors that came. */
static enum bus_err say_failed(const struct gather *gather, struct bus_error **reterr)
{
    size_t errors = 0;
    for (size_t i = 0; i < gather->count; i++)
        errors += gather->wants[i].error != NULL;
    struct bus_error *error =
        error_new(ERROR_TYPE_GATHER, "%zu of %zu awaited slots failed, and %zu may", errors,
                  gather->count, gather->errors_max);
    for (size_t i = 0; i < gather->count && !error->is_static; i++) {
        if (gather->wants[i].error != NULL && !error_add_cause(error, gather->wants[i].error)) {
            bus_error_unref(&error);
            error = &error_no_memory;
        }
    }
    return error_give(reterr, BUS_EFAILED, error);
}

static enum bus_err check_wants(const struct bus_want *wants, size_t count,
                                struct bus_error **reterr)
{
    if ((wants == NULL && count > 0) || count > LIMIT_WANTS)
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "bus_gather() needs wants, at most %d", LIMIT_WANTS);
    for (size_t i = 0; i < count; i++) {
        if (!topic_is_valid(span_text(wants[i].topic)))
            return error_say(reterr, BUS_EINVAL, ERROR_TYPE_NAME,
                             "want %zu: '%.250s' is not a topic: expected \"party/name\"", i,
                             wants[i].topic != NULL ? wants[i].topic : "");
        if (wants[i].seq >= INT64_MAX)
            return say_beyond(wants[i].seq, reterr);
    }
    return BUS_OK;
}

enum bus_err bus_gather(struct bus *bus, struct bus_want *wants, size_t count, size_t values_enough,
                        size_t errors_max, int64_t timeout_ms, struct bus_error **reterr)
{
    struct gather gather = {.bus = bus,
                            .wants = wants,
                            .count = count,
                            .values_enough = values_enough,
                            .errors_max = errors_max};
    if (bus == NULL || !options_wait_is_valid(timeout_ms))
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "bus_gather() needs bus and a timeout_ms of at least 0, or BUS_FOREVER");
    if (api_is_foreign(bus))
        return error_give(reterr, BUS_ECLOSED, &error_forked);
    enum bus_err err = check_wants(wants, count, reterr);
    if (err != BUS_OK)
        return err;
    api_ref(bus); /* a handler may close it between two looks */
    if (!judge(&gather, &err)) {
        gather.awaits = calloc(count, sizeof(struct await *));
        err = gather.awaits != NULL ? run(&gather, timeout_ms) : BUS_ENOMEM;
        free(gather.awaits);
    }
    err = err == BUS_EFAILED ? say_failed(&gather, reterr) : say(bus, err, "", reterr);
    api_unref(bus);
    return err;
}

void bus_wants_free(struct bus_want *wants, size_t count)
{
    for (size_t i = 0; wants != NULL && i < count; i++) {
        bus_msg_free(&wants[i].msg);
        bus_error_unref(&wants[i].error);
    }
}

/* ---- without a wait -------------------------------------------------------------------------- */

int bus_answers_fd(const struct bus *bus)
{
    struct bus *own = (struct bus *)(uintptr_t)bus; /* made on demand, once */
    if (bus == NULL || api_is_foreign(bus))
        return -1;
    api_lock(own);
    if (own->answers_fd < 0) {
        own->answers_fd = api_event_fd();
        own->has_reader_fd = true;
        if (await_has_answer(own))
            api_signal_fd(own->answers_fd);
    }
    int fd = own->answers_fd;
    api_unlock(own);
    return fd;
}

void bus_unawait(struct bus *bus, const char *topic, uint64_t seq)
{
    if (bus == NULL || topic == NULL || api_is_foreign(bus))
        return;
    api_lock(bus);
    for (int is_value_wanted = 0; is_value_wanted <= 1 && bus->awaits != NULL; is_value_wanted++) {
        struct await *await = await_find(bus, topic, seq, is_value_wanted == 1);
        if (await != NULL)
            await_drop(bus, await);
    }
    api_unlock_wake(bus);
}
