/* SPDX-License-Identifier: MPL-2.0 */
/* answers.h -- what a broker answers, as lines of JSON: those that `errbus --json` prints. */
#ifndef CLIENTS_WEB_ANSWERS_H
#define CLIENTS_WEB_ANSWERS_H

#include "clients/web/history.h"
#include "clients/web/question.h"

#include <bus/admin.h>
#include <bus/tap.h>
#include <stdio.h>

enum {
    ANSWERS_EVENTS_MAX = 1000,
    ANSWERS_TEXT_BYTES_MAX = 400, /* of a text in a brief line */
};

/* STATUS, WHY and VERDICT.  shards: those of the bus, for STATUS; NULL: not known.  Where it fails,
 * out has a line for people, or *reterr says why. */
enum bus_err answers_ask(FILE *out, struct bus_admin *admin, const struct question *question,
                         const struct bus_shards *shards, int64_t timeout_ms,
                         struct bus_error **reterr);

/* At most ANSWERS_EVENTS_MAX events from this id on; 0: the newest ones. */
void answers_events(FILE *out, const struct history *history, uint64_t from);

/* One error of the history, whole, with what the broker has of its attachments: as
 * `errbus errors ID --json` prints it, with the event as `errbus tap --json` does.  false: no event
 * in the history tells of it. */
bool answers_error(FILE *out, struct bus_admin *admin, const struct history *history,
                   const struct question *question, int64_t timeout_ms);

/* An event in a line of bounded length: of its error the id, kind, type, party, root and the begin
 * of the message. */
void answers_brief(FILE *out, const struct bus_event *event);

#endif
