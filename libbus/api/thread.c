/* SPDX-License-Identifier: MPL-2.0 */
/* thread.c -- the library's thread.
 *
 * A turn receives what the link has, control first and only a few parts of data, and gives it to
 * the session.  Then it carries out what the session wants, and sends. A turn in which nothing
 * moved ends in link_wait(); before it, under the lock, the thread sets is_asleep.
 *
 * thread, courier and membership call each other in a circle: the thread of a party opens a
 * courier, which is a membership with a thread of its own. */
#include "libbus/api/thread.h"

#include "libbus/api/alone.h"
#include "libbus/api/clock.h"
#include "libbus/api/courier.h"
#include "libbus/api/link_turn.h"
#include "libbus/api/lock.h"
#include "libbus/api/model.h"
#include "libbus/api/news.h"
#include "libbus/api/sub_list.h"
#include "libbus/api/waiters.h"

#include <signal.h>

bool thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return false;
    bool is_started = pthread_create(thread, NULL, run, arg) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL); /* as it was: cannot fail */
    if (is_started)
        (void)pthread_setname_np(*thread, name); /* shown by debuggers */
    return is_started;
}

void *thread_main(void *arg)
{
    struct bus *bus = arg;
    struct turn *turn = bus->turn;
    alone_thread_begins();
    api_lock(bus);
    while (!bus->is_done) {
        api_unlock(bus);
        int64_t looked_ns = api_now_ns();
        turn_receive_control(bus->link, turn);
        turn_receive_data(bus->link, turn);
        api_lock(bus);
        int64_t now_ns = api_now_ns();
        api_see_time(bus, now_ns);
        bool has_moved = turn_take_in(bus, turn, now_ns);
        if (turn->is_link_closed && !has_moved) {
            turn->is_link_closed = false;
            session_link_closed(bus->session, now_ns);
        }
        sub_collect_all(bus);
        session_tick(bus->session, looked_ns); /* messages that came later were not received yet */
        if (session_wait_is_asked(bus->session))
            session_wait_answer(bus->session, alone_is(session_wait_count(bus->session)));
        has_moved |= turn_act(bus, now_ns);
        has_moved |= attach_turn(bus, now_ns);
        has_moved |= turn_send(bus, turn, now_ns);
        api_tell(bus);
        if (!has_moved && !bus->is_done)
            turn_sleep(bus, turn);
    }
    bus->is_disconnected = true;
    waiters_broadcast(bus, &bus->news);
    api_unlock(bus);
    api_unref(bus);
    alone_thread_ends();
    return NULL;
}
