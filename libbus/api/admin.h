/* SPDX-License-Identifier: MPL-2.0 */
/* admin.h -- one administrative handle, and one call on it.
 *
 * The handle keeps up to two connections.  The observer asks questions.  The courier fetches
 * attachments.  Each is opened by the first call that needs it, and kept for the calls after it.
 * A call whose question stays without a complete answer drops its connection: so no answer and no
 * repeated question of that call can reach a later one.
 *
 * Calls take turns.  The call whose turn it is owns both connections; the lock guards the turn. */
#ifndef API_ADMIN_H
#define API_ADMIN_H

#include "libbus/api/model.h"

#include <bus/report.h>

struct bus_admin {
    struct endpoints endpoints;
    struct bus_options options;     /* the defaults; a job's name and a party's do not count */
    char job[LIMIT_NAME_BYTES + 1]; /* of a call that names none */
    unsigned fork_generation;
    struct bus *observer; /* this and the courier: NULL: not opened yet, or dropped */
    struct bus *courier;
    pthread_mutex_t lock; /* of the three below */
    pthread_cond_t turn_over;
    pthread_t turn_owner;
    bool is_turn;
};

/* One call, which has its turn. */
struct admin_call {
    struct bus_admin *admin;
    int64_t deadline_ns;
    char job[LIMIT_NAME_BYTES + 1];           /* that it is about */
    char elsewhere[LIMIT_ENDPOINT_BYTES + 1]; /* where the broker says that the job is */
    bool is_led;                              /* it went there */
};

/* Checks the arguments that all calls have, and waits for the turn.  job NULL: the handle's.
 * Errors: BUS_EINVAL; BUS_ETIMEDOUT: other calls had the turn; BUS_ECLOSED: a forked child. */
enum bus_err admin_begin(struct bus_admin *admin, const char *job, int64_t timeout_ms,
                         struct admin_call *out_call, struct bus_error **reterr);
void admin_end(struct admin_call *call);

/* Goes to the broker that has the job of the call, if another one has.  true: it went there. */
bool admin_follow(struct admin_call *call);

/* Asks one question over the observer, and gives each row of the answer to on_row, with the lock of
 * bus.  Where another broker has the job, that one is asked.  on_row returns another code than
 * BUS_OK when it wants no more rows.  What the question borrows is not used after the call. */
enum bus_err admin_ask(struct admin_call *call, const struct msg *question,
                       enum bus_err (*on_row)(struct bus *bus, const struct msg *row, void *arg,
                                              struct bus_error **reterr),
                       void *arg, struct bus_error **reterr);

/* For calls that admin_ask() does not serve.  Opens the connection if none is kept, and locks it
 * until admin_connection_done(), which keeps it only if the answer was complete. */
enum bus_err admin_observer(struct admin_call *call, struct bus **out_bus,
                            struct bus_error **reterr);
enum bus_err admin_courier(struct admin_call *call, struct bus **out_bus,
                           struct bus_error **reterr);
void admin_connection_done(struct admin_call *call, struct bus *bus, bool is_answered);

/* Waits for news of an observer or a courier, with its lock.  Another code than BUS_OK: the bound
 * has passed, or the connection has ended.  If the broker is then out of reach, reterr names it. */
enum bus_err observer_wait(struct bus *bus, int64_t deadline_ns, struct bus_error **reterr);

#endif
