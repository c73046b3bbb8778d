/* SPDX-License-Identifier: MPL-2.0 */
/* link_turn.c -- one turn over the link: receive, give to the session, carry out what it wants,
 * send; and what threads of the application do in its place while the library's thread sleeps.
 *
 * Who owns the link: the library's thread, from when it has the lock after link_wait() until it
 * sets is_asleep; then the holder of the lock.  So no other thread touches the link while the
 * library's thread is awake and uses it without the lock.  Nobody needs to: it looks at everything
 * again before it sleeps.  A thread that used the link meanwhile calls leave_link() at the end: its
 * calls may have cleared the sign of something that came. */
#include "libbus/api/link_turn.h"
#include "libbus/session/session_connection.h"

#include "libbus/api/attach_bring.h"
#include "libbus/api/clock.h"
#include "libbus/api/endpoint.h"
#include "libbus/api/error.h"
#include "libbus/api/lock.h"
#include "libbus/api/model.h"
#include "libbus/api/news.h"
#include "libbus/api/waiters.h"

#include <stdlib.h>
#include <string.h>

#define NS_PER_MS INT64_C(1000000)

enum { SEND_PER_TURN = 4 }; /* parts of data; control is sent whole */

struct turn *thread_turn_new(void)
{
    return calloc(1, sizeof(struct turn));
}

void turn_receive_control(struct link *link, struct turn *turn)
{
    struct buffer *head = NULL;
    struct buffer *part = NULL;
    turn->control_count = 0;
    while (turn->control_count < CONTROL_PER_TURN &&
           link_receive(link, LINK_CONTROL, &head, &part) == LINK_OK) {
        buffer_unref(&head);
        turn->is_control_broken |= part == NULL;
        turn->control[turn->control_count] = part;
        turn->control_count += part != NULL;
        part = NULL;
    }
    turn->is_unread[LINK_CONTROL] = turn->control_count == CONTROL_PER_TURN;
}

void turn_receive_data(struct link *link, struct turn *turn)
{
    struct buffer *head = NULL;
    struct buffer *part = NULL;
    turn->data_count = 0;
    while (turn->data_count < DATA_PER_TURN &&
           link_receive(link, LINK_DATA, &head, &part) == LINK_OK) {
        if (head != NULL && part == NULL && turn->refusal == NULL) {
            turn->refusal = head;
            head = NULL;
            continue;
        }
        if (head == NULL || part == NULL) {
            turn->is_data_broken = true;
            buffer_unref(&head);
            buffer_unref(&part);
            continue;
        }
        turn->heads[turn->data_count] = head;
        turn->parts[turn->data_count] = part;
        turn->data_count++;
        head = part = NULL;
    }
    turn->is_unread[LINK_DATA] = turn->data_count == DATA_PER_TURN;
}

/* Lock held.  Whether there was anything. */
bool turn_take_in(struct bus *bus, struct turn *turn, int64_t now_ns)
{
    for (unsigned i = 0; i < turn->control_count; i++) {
        session_control_in(bus->session, now_ns, buffer_span(turn->control[i]));
        buffer_unref(&turn->control[i]);
    }
    for (unsigned i = 0; i < turn->data_count; i++) {
        session_data_in(bus->session, now_ns, buffer_span(turn->heads[i]), &turn->parts[i]);
        buffer_unref(&turn->parts[i]);
        buffer_unref(&turn->heads[i]);
    }
    if (turn->refusal != NULL)
        session_data_refused_in(bus->session, now_ns, buffer_span(turn->refusal));
    buffer_unref(&turn->refusal);
    /* The link received a wrong number of parts.  An empty part breaks the protocol in the same
     * way. */
    if (turn->is_control_broken || turn->is_data_broken)
        session_control_in(bus->session, now_ns, SPAN_NONE);
    turn->is_control_broken = turn->is_data_broken = false;
    if (turn->control_count > 0)
        endpoints_spoke(&bus->endpoints);
    if (bus->endpoints.data_note != ENDPOINT_SPOKE && session_state(bus->session) == SESSION_UP)
        endpoints_data_spoke(&bus->endpoints);
    return turn->control_count + turn->data_count > 0;
}

static void close_link(struct bus *bus)
{
    link_close_aside(bus->link);
    link_disconnect(bus->link, LINK_CONTROL);
    link_disconnect(bus->link, LINK_DATA);
    waiters_reconnected(bus);
}

static bool has_data(const struct bus *bus)
{
    return bus->is_courier || (*bus->party != '\0' && !bus->options.is_guard);
}

/* Data is dialled beside control where it is likely to be: over a long link this spares the round
 * trips of a second connection.  WELCOME says where it is. */
static void connect_data_early(struct bus *bus)
{
    char *endpoint = bus->turn->early_data;
    bool is_dialled = has_data(bus) && endpoints_likely_data(&bus->endpoints, endpoint) &&
                      link_connect(bus->link, LINK_DATA, endpoint) == LINK_OK;
    if (!is_dialled)
        *endpoint = '\0';
}

/* Both channels of a broker have its key. */
static void use_keys(struct bus *bus)
{
    struct link_keys keys;
    bool has_keys = endpoints_keys(&bus->endpoints, &keys);
    link_use_keys(bus->link, has_keys ? &keys : NULL);
    explicit_bzero(&keys, sizeof keys);
}

/* The next endpoint: the one that the broker named, the same again, or the next of the list. */
static const char *next_endpoint(struct bus *bus)
{
    char elsewhere[LIMIT_ENDPOINT_BYTES + 1];
    session_elsewhere(bus->session, elsewhere);
    bool is_good = *elsewhere == '\0' || endpoints_go(&bus->endpoints, elsewhere);
    if (!is_good && bus->unfit == NULL)
        (void)error_say(&bus->unfit, BUS_EINVAL, ERROR_TYPE_ELSEWHERE,
                        "the broker says that the job is at '%s', which is no endpoint that this "
                        "client may use: correct --advertise-control of the broker there",
                        elsewhere);
    if (!is_good)
        waiters_broadcast(bus, &bus->news);
    bool is_again = *elsewhere == '\0' && session_dials_again(bus->session);
    return is_again ? endpoints_again(&bus->endpoints) : endpoints_next(&bus->endpoints);
}

static void connect_control(struct bus *bus, int64_t now_ns)
{
    const char *endpoint = next_endpoint(bus);
    bus->turn->is_link_closed = false;
    session_dialled(bus->session, span_text(endpoint));
    if (session_keeps_link(bus->session))
        link_put_aside(bus->link);
    else
        close_link(bus);
    use_keys(bus);
    enum link_err err = link_connect(bus->link, LINK_CONTROL, endpoint);
    if (err == LINK_OK)
        connect_data_early(bus);
    waiters_reconnected(bus);
    if (err == LINK_ENDPOINT) {
        bus->endpoints.notes[bus->endpoints.at] = ENDPOINT_UNFIT;
        if (bus->unfit == NULL)
            (void)error_say(&bus->unfit, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                            "'%s' is not an endpoint that this process can use", endpoint);
        waiters_broadcast(bus, &bus->news);
    }
    if (err != LINK_OK)
        session_link_closed(bus->session, now_ns);
}

static void connect_data(struct bus *bus, int64_t now_ns)
{
    char endpoint[LIMIT_ENDPOINT_BYTES + 1];
    link_close_aside(bus->link); /* the broker knows this connection, and ignores the others */
    bool is_known = endpoints_data(&bus->endpoints, session_data_endpoint(bus->session), endpoint);
    bool is_dialled = is_known && strcmp(endpoint, bus->turn->early_data) == 0;
    *bus->turn->early_data = '\0';
    if (!is_known || (!is_dialled && link_connect(bus->link, LINK_DATA, endpoint) != LINK_OK))
        session_link_closed(bus->session, now_ns);
    waiters_reconnected(bus);
}

/* Lock held.  Whether there was anything to do. */
bool turn_act(struct bus *bus, int64_t now_ns)
{
    bool has_acted = false;
    for (;;) {
        switch (session_action(bus->session)) {
        case SESSION_NOTHING: return has_acted;
        case SESSION_CONNECT_CONTROL: connect_control(bus, now_ns); break;
        case SESSION_CONNECT_DATA: connect_data(bus, now_ns); break;
        case SESSION_DISCONNECT:
            close_link(bus);
            bus->is_disconnected = true;
            waiters_broadcast(bus, &bus->news);
            break;
        }
        has_acted = true;
    }
}

/* Lock held.  Whether anything was sent. */
bool turn_send(struct bus *bus, struct turn *turn, int64_t now_ns)
{
    size_t bytes = 0;
    unsigned sent = 0;
    struct buffer *part = NULL;
    memset(turn->wants_room, 0, sizeof turn->wants_room);
    while (session_control_out(bus->session, now_ns, turn->message, &bytes)) {
        enum link_err err = link_send(bus->link, LINK_CONTROL, span_of(turn->message, bytes));
        turn->is_unread[LINK_CONTROL] = true;
        turn->wants_room[LINK_CONTROL] = err == LINK_AGAIN;
        if (err != LINK_OK)
            break;
        session_control_sent(bus->session);
        sent++;
    }
    for (unsigned i = 0; i < SEND_PER_TURN; i++) {
        part = session_data_out(bus->session, now_ns);
        if (part == NULL)
            break;
        enum link_err err = link_send_buffer(bus->link, LINK_DATA, part);
        turn->is_unread[LINK_DATA] = true;
        turn->wants_room[LINK_DATA] = err == LINK_AGAIN;
        if (err != LINK_OK)
            break;
        session_data_sent(bus->session);
        sent++;
    }
    atomic_store_explicit(&bus->is_data_due, session_data_is_due(bus->session),
                          memory_order_relaxed);
    return sent > 0;
}

/* Whether this was the data connection that nobody asked for yet: WELCOME may name another. */
static bool drop_early_data(struct bus *bus)
{
    bool is_early = *bus->turn->early_data != '\0';
    if (is_early)
        link_disconnect(bus->link, LINK_DATA);
    *bus->turn->early_data = '\0';
    return is_early;
}

/* Whoever had a session, and whose key is refused now, has lost access.  To try again does not
 * help, unless the file has another key by now. */
static void control_closed(struct bus *bus, enum link_fault fault)
{
    bool was_welcome = session_token(bus->session) != 0;
    endpoints_closed(&bus->endpoints, fault);
    bool is_refused = fault == LINK_FAULT_KEY_UNKNOWN && endpoints_are_denied(&bus->endpoints);
    if (was_welcome && is_refused && !endpoints_renew_key(&bus->endpoints))
        session_denied(bus->session, span_text("the broker does not know this key any more"));
}

/* Lock held, but not while the thread sleeps. */
void turn_sleep(struct bus *bus, struct turn *turn)
{
    bool closed[LINK_LANE_COUNT] = {false};
    int64_t left_ms = api_left_ms(session_deadline_ns(bus->session));
    if (left_ms > bus->options.heartbeat_ms || left_ms < 0)
        left_ms = bus->options.heartbeat_ms; /* freed messages are acknowledged within a beat */
    left_ms = attach_sleep_ms(bus, left_ms);
    bus->is_left = waiters_may_leave_data(bus);
    if (bus->is_left && left_ms > API_LEAVE_MS)
        left_ms = API_LEAVE_MS;
    bool is_polled = bus->pollers[LINK_DATA].cond != NULL;
    link_lend(bus->link, LINK_DATA, is_polled || bus->is_left);
    link_lend(bus->link, LINK_CONTROL, bus->pollers[LINK_CONTROL].cond != NULL);
    if (link_wait_begin(bus->link, turn->wants_room))
        left_ms = 0;
    turn->sleep_end_ns = api_deadline_ns(left_ms) - NS_PER_MS; /* left_ms was rounded up */
    bus->is_asleep = true;
    bus->stamp_uses = 0; /* a publisher then reads the clock again */
    api_unlock(bus);
    link_wait(bus->link, left_ms);
    api_lock(bus);
    bus->is_asleep = false;
    link_wait_end(bus->link, closed);
    if (link_is_made(bus->link, LINK_CONTROL))
        session_link_made(bus->session);
    if (link_is_greeted(bus->link))
        endpoints_greeted(&bus->endpoints);
    else if (link_is_silent(bus->link, LINK_CONTROL) && endpoints_mute(&bus->endpoints))
        waiters_broadcast(bus, &bus->news); /* the same */
    if (session_state(bus->session) == SESSION_GREETED && link_is_silent(bus->link, LINK_DATA) &&
        endpoints_data_mute(&bus->endpoints))
        waiters_broadcast(bus, &bus->news); /* the same */
    if (closed[LINK_DATA] && drop_early_data(bus))
        closed[LINK_DATA] = false;
    if (closed[LINK_CONTROL]) {
        control_closed(bus, link_fault(bus->link, LINK_CONTROL));
    } else if (closed[LINK_DATA] && session_state(bus->session) == SESSION_GREETED) {
        endpoints_data_closed(&bus->endpoints, link_fault(bus->link, LINK_DATA));
    }
    if (closed[LINK_CONTROL] || closed[LINK_DATA]) {
        waiters_broadcast(bus, &bus->news); /* membership_join() looks at it */
    }
    turn->is_link_closed |= closed[LINK_CONTROL] || closed[LINK_DATA];
}

/* ---- while it sleeps ------------------------------------------------------------------------- */

static bool has_unread(struct bus *bus, struct turn *turn, enum link_lane lane)
{
    turn->is_unread[lane] = turn->is_unread[lane] && link_is_readable(bus->link, lane);
    return turn->is_unread[lane];
}

/* Lock held.  Behind each use of the link by another thread. */
static void leave_link(struct bus *bus, struct turn *turn)
{
    bool is_due = turn->wants_room[LINK_CONTROL] || turn->wants_room[LINK_DATA] ||
                  session_has_action(bus->session) || session_data_is_due(bus->session) ||
                  session_deadline_ns(bus->session) < turn->sleep_end_ns ||
                  bus->attach_jobs != NULL || has_unread(bus, turn, LINK_CONTROL);
    if (is_due || has_unread(bus, turn, LINK_DATA))
        api_wake(bus);
}

void thread_say(struct bus *bus)
{
    if (!bus->is_asleep)
        return;
    if (session_is_uploading(bus->session)) {
        api_wake(bus);
        return;
    }
    turn_send(bus, bus->turn, api_now_ns());
    leave_link(bus, bus->turn);
}

void thread_unlock_say(struct bus *bus)
{
    thread_say(bus);
    api_unlock(bus);
}

void thread_take(struct bus *bus, enum link_lane lane)
{
    struct turn *turn = bus->turn;
    int64_t now_ns = api_now_ns();
    turn->control_count = turn->data_count = 0;
    if (lane == LINK_CONTROL)
        turn_receive_control(bus->link, turn);
    else
        turn_receive_data(bus->link, turn);
    (void)turn_take_in(bus, turn, now_ns);
    turn_send(bus, turn, now_ns);
    api_tell(bus);
    leave_link(bus, turn);
}

bool thread_look_for_data(struct bus *bus)
{
    if (!bus->is_asleep || bus->session == NULL || !link_is_readable(bus->link, LINK_DATA))
        return false;
    thread_take(bus, LINK_DATA);
    return true;
}
