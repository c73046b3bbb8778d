/* SPDX-License-Identifier: MPL-2.0 */
/* ping.c -- a sign of life of the broker, over one of its channels. */
#include "libbus/api/admin.h"
#include "libbus/api/clock.h"
#include "libbus/api/error.h"
#include "libbus/api/lock.h"
#include "libbus/api/model.h"

static void fill(struct bus_pong *pong, int64_t began_ns, uint64_t uptime_ms, uint64_t journal)
{
    *pong = (struct bus_pong){
        .trip_ns = api_now_ns() - began_ns,
        .uptime_ms = uptime_ms,
        .journal = journal < BUS_JOURNAL_UNKNOWN ? (int)journal : BUS_JOURNAL_UNKNOWN,
    };
}

/* ---- control --------------------------------------------------------------------------------- */

struct asked {
    int64_t began_ns;
    struct bus_pong pong;
};

static enum bus_err take_pong(struct bus *observer, const struct msg *row, void *arg,
                              struct bus_error **reterr)
{
    struct asked *asked = arg;
    (void)observer; /* the row is enough */
    if (row->type != MSG_PONG)
        return error_say(reterr, BUS_EPROTO, ERROR_TYPE_PROTOCOL,
                         "the broker's answer does not fit the question");
    fill(&asked->pong, asked->began_ns, row->as.pong.uptime_ms, row->as.pong.journal_state);
    return BUS_OK;
}

static enum bus_err ping_control(struct admin_call *call, struct bus_pong *out_pong,
                                 struct bus_error **reterr)
{
    struct bus *observer = NULL;
    const struct msg question = {.type = MSG_PING};
    enum bus_err err = admin_observer(call, &observer, reterr); /* opening it is not measured */
    if (err != BUS_OK)
        return err;
    admin_connection_done(call, observer, true);
    struct asked asked = {.began_ns = api_now_ns()};
    err = admin_ask(call, &question, take_pong, &asked, reterr);
    if (err == BUS_OK)
        *out_pong = asked.pong;
    return err;
}

/* ---- data ------------------------------------------------------------------------------------ */

static enum bus_err ping_data(struct admin_call *call, struct bus_pong *out_pong,
                              struct bus_error **reterr)
{
    struct bus *courier = NULL;
    struct msg_data_pong pong;
    enum bus_err err = admin_courier(call, &courier, reterr);
    if (err != BUS_OK)
        return err;
    int64_t began_ns = api_now_ns();
    enum wire_code code = CODE_ETIMEDOUT;
    session_ping_data(courier->session);
    api_wake(courier);
    while (err == BUS_OK && code != CODE_OK) {
        code = session_ponged_data(courier->session, &pong);
        if (code != CODE_OK)
            err = observer_wait(courier, call->deadline_ns, reterr);
    }
    if (err == BUS_OK)
        fill(out_pong, began_ns, pong.uptime_ms, pong.journal_state);
    admin_connection_done(call, courier, err == BUS_OK);
    return err;
}

enum bus_err bus_admin_ping(struct bus_admin *admin, enum bus_channel channel, int64_t timeout_ms,
                            struct bus_pong *out_pong, struct bus_error **reterr)
{
    struct admin_call call;
    if (out_pong == NULL || (channel != BUS_CHANNEL_CONTROL && channel != BUS_CHANNEL_DATA))
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "bus_admin_ping() needs a channel and out_pong");
    enum bus_err err = admin_begin(admin, NULL, timeout_ms, &call, reterr);
    if (err != BUS_OK)
        return err;
    err = channel == BUS_CHANNEL_DATA ? ping_data(&call, out_pong, reterr)
                                      : ping_control(&call, out_pong, reterr);
    admin_end(&call);
    return err;
}
