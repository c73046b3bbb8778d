/* SPDX-License-Identifier: MPL-2.0 */
/* ask.c -- one question to a broker: an observer's session that asks once. */
#include "libbus/api/api_internal.h"

/* Who greets with a job brings it into being, and keeps it there: a question does not. */
#define NO_JOB ""

/* Lock. */
static enum bus_err collect(struct bus *bus, int64_t deadline_ns,
                            enum bus_err (*on_row)(struct bus *bus, const struct msg *row,
                                                   void *arg, struct bus_error **reterr),
                            void *arg, struct bus_error **reterr)
{
    struct msg row;
    for (;;) {
        while (session_answer_take(bus->session, &row)) {
            enum bus_err err = on_row(bus, &row, arg, reterr);
            if (err != BUS_OK || msg_is_end(&row))
                return err;
        }
        enum bus_err err = api_over(bus);
        if (err != BUS_OK)
            return api_say_over(bus, err, reterr);
        if (!api_wait(bus, &bus->news, &bus->waiters, deadline_ns))
            return error_say_static(reterr, BUS_ETIMEDOUT, &error_timed_out);
    }
}

enum bus_err ask_open(const struct endpoints *endpoints, int64_t deadline_ns,
                      struct bus **out_asker, struct bus_error **reterr)
{
    struct bus_options options;
    struct bus *bus = NULL;
    bus_options_init(&options);
    enum bus_err err = core_open(endpoints, &options, NO_JOB, "", &bus, reterr);
    if (err == BUS_OK)
        err = core_join(&bus, deadline_ns, reterr);
    if (err == BUS_OK)
        *out_asker = bus;
    return err;
}

enum bus_err ask_next(struct bus *asker, const struct msg *question, int64_t deadline_ns,
                      enum bus_err (*on_row)(struct bus *bus, const struct msg *row, void *arg,
                                             struct bus_error **reterr),
                      void *arg, struct bus_error **reterr)
{
    api_lock(asker);
    session_ask(asker->session, question);
    api_wake(asker);
    enum bus_err err = collect(asker, deadline_ns, on_row, arg, reterr);
    api_unlock(asker);
    return err;
}

void ask_close(struct bus **asker)
{
    (void)core_close(asker, BUS_POLL); /* an observer owes nothing */
}

enum bus_err ask_once(const char *endpoint, const struct msg *question, int64_t deadline_ns,
                      enum bus_err (*on_row)(struct bus *bus, const struct msg *row, void *arg,
                                             struct bus_error **reterr),
                      void *arg, struct bus_error **reterr)
{
    struct endpoints endpoints;
    struct bus *asker = NULL;
    enum bus_err err = endpoints_read(&endpoints, endpoint, reterr);
    if (err == BUS_OK)
        err = ask_open(&endpoints, deadline_ns, &asker, reterr);
    if (err != BUS_OK)
        return err;
    err = ask_next(asker, question, deadline_ns, on_row, arg, reterr);
    ask_close(&asker);
    return err;
}
