/* SPDX-License-Identifier: MPL-2.0 */
/* loop.h -- the broker's one thread: two sockets, their monitors, signals, the port.
 *
 * Everything is asked without waiting, and only when nothing had anything to say does the thread
 * sleep in poll().  In a round: monitors, then all of control, then a little of data, so that
 * control never waits for more than a few batches. */
#ifndef IO_LOOP_H
#define IO_LOOP_H

#include "broker/io/config.h"
#include "broker/io/endpoint.h"
#include "broker/io/persistence.h"
#include "broker/io/service_manager.h"
#include "libbus/base/key_text.h"

#include <stdbool.h>

struct loop;

enum { LOOP_COMPLAINT_BYTES = ENDPOINT_COMPLAINT_BYTES + JOURNAL_COMPLAINT_BYTES };

/* Opens and binds: whoever comes waits for loop_begin().  The manager stays the caller's, until the
 * loop is closed.  NULL: complaint is one clear sentence. */
struct loop *loop_open(const struct config *config, struct service_manager *manager,
                       char complaint[LOOP_COMPLAINT_BYTES]);

/* Replays the journal, if there is one, and takes it over; the options' strings are the loop's to
 * set.  SIGTERM and SIGINT must be blocked: the loop reads them.  false: complaint is one clear
 * sentence, and the journal is still the caller's. */
bool loop_begin(struct loop *loop, const struct config *config, const char *version,
                struct journal **journal, enum durability durability,
                char complaint[LOOP_COMPLAINT_BYTES]);

/* What the journal brought back, until the loop runs. */
struct loop_restored {
    uint64_t steps; /* 0: the journal was new, or there is none */
    uint32_t jobs;
    uint32_t parties; /* that may come back */
    uint32_t values;
    uint64_t bytes;  /* of the values */
    bool is_key_new; /* it did not bring back the broker's key, which was made at this start */
};
struct loop_restored loop_restored(const struct loop *loop);
/* The endpoints that were really bound. */
const char *loop_control_endpoint(const struct loop *loop);
const char *loop_data_endpoint(const struct loop *loop);
/* The public key of the broker, as text; "": it has none, and everybody may come. */
void loop_public_key(const struct loop *loop, char text[KEY_TEXT_BYTES + 1]);

/* Why a broker ended. */
enum loop_end {
    LOOP_STOPPED, /* a signal said so, and the parties were told, within a bound */
    LOOP_BROKEN,  /* it could not go on */
    LOOP_FORGOT,  /* its store lacks what it had confirmed: nobody may start it again over that */
};
/* The log says why, too. */
enum loop_end loop_run(struct loop *loop);

/* Sends what is on its way, within a bound, and closes.  A second signal ends all at once. */
void loop_close(struct loop **loop);

#endif
