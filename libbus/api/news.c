/* SPDX-License-Identifier: MPL-2.0 */
/* news.c -- news of the session: who is woken, and how the end of the party is noted. */
#include "libbus/api/news.h"

#include "libbus/api/await_table.h"
#include "libbus/api/error.h"
#include "libbus/api/error_wire.h"
#include "libbus/api/event_fd.h"
#include "libbus/api/model.h"
#include "libbus/api/sub_list.h"
#include "libbus/api/waiters.h"

#include <stdlib.h>

/* ---- over ------------------------------------------------------------------------------------ */

enum bus_err api_say_over(const struct bus *bus, enum bus_err err, struct bus_error **reterr)
{
    if (bus->failure != NULL && err == bus->end)
        return error_give(reterr, err, bus_error_ref(bus->failure));
    if (err == BUS_ECLOSED)
        return error_give(reterr, err, &error_closed);
    return error_say(reterr, err, ERROR_TYPE_CLOSED, "%s", bus_strerror(err));
}

/* Notes the party's end, once.  Lock held. */
static void note_end(struct bus *bus)
{
    struct buffer *why = NULL;
    enum wire_code code = session_end(bus->session, &why);
    if (bus->end != BUS_OK || code == CODE_OK) {
        buffer_unref(&why);
        return;
    }
    bus->end = (enum bus_err)code;
    if (why != NULL && why->bytes > 0)
        bus->failure = error_from_wire(buffer_span(why));
    else if (code != CODE_ECLOSED)
        (void)error_say(&bus->failure, bus->end, ERROR_TYPE_FENCED, "%s", bus_strerror(bus->end));
    buffer_unref(&why);
    if (bus->failure != NULL) {
        api_signal_fd(bus->failure_fd);
        pthread_cond_broadcast(&bus->handler_news);
    }
    api_tell_all(bus);
}

void api_tell_all(struct bus *bus)
{
    waiters_broadcast(bus, &bus->news);
    sub_tell_all(bus);
    api_signal_fd(bus->room_fd);
    api_signal_fd(bus->tap_fd);
    api_signal_fd(bus->notice_fd);
    api_signal_fd(bus->answers_fd);
}

/* A bus_stop() may have come from a signal handler, which can only set the flag. */
static void tell_stop(struct bus *bus)
{
    if (bus->is_stop_told || !atomic_load_explicit(&bus->is_stopped, memory_order_acquire))
        return;
    bus->is_stop_told = true;
    api_tell_all(bus);
}

/* Takes the results that nobody waits for any more, so that the session does not keep them. */
static void forget_results(struct bus *bus)
{
    for (uint32_t i = bus->forgotten_count; i-- > 0;) {
        if (session_result(bus->session, bus->forgotten[i], NULL) != CODE_ETIMEDOUT)
            bus->forgotten[i] = bus->forgotten[--bus->forgotten_count];
    }
}

void api_forget_result(struct bus *bus, uint64_t number)
{
    if (bus->forgotten_count == bus->forgotten_room) {
        uint32_t room = bus->forgotten_room > 0 ? bus->forgotten_room * 2 : 8;
        uint64_t *grown = realloc(bus->forgotten, room * sizeof *grown);
        if (grown == NULL)
            return; /* it stays with the session until that is freed */
        bus->forgotten = grown;
        bus->forgotten_room = room;
    }
    bus->forgotten[bus->forgotten_count++] = number;
}

void api_tell(struct bus *bus)
{
    struct session_news news = session_news(bus->session);
    tell_stop(bus);
    if (news.is_state)
        note_end(bus);
    if (news.is_want)
        await_collect(bus);
    if (news.is_result && bus->forgotten_count > 0)
        forget_results(bus);
    if ((news.is_accepted || news.is_credit) && bus->is_room_wanted) {
        bus->is_room_wanted = false;
        api_signal_fd(bus->room_fd);
    }
    if (news.is_tap)
        api_signal_fd(bus->tap_fd);
    if (news.is_notice)
        api_signal_fd(bus->notice_fd);
    if (bus->waiters > 0 &&
        (news.is_state || news.is_accepted || news.is_credit || news.is_result || news.is_want ||
         news.is_tap || news.is_status || news.is_notice))
        waiters_broadcast(bus, &bus->news);
    if (news.is_sub)
        sub_tell(bus);
}
