/* SPDX-License-Identifier: MPL-2.0 */
/* who.c -- see who.h. */
#include "broker/core/step/who.h"

#include "broker/core/tables/effect.h"

enum { ROLE_PARTY, ROLE_OBSERVER, ROLE_GUARD };

static void add_session(struct core *core, conn_id to, const struct msg_who *asked,
                        const struct session *session)
{
    struct msg_who_row *row = &effects_msg(core->effects, to, MSG_WHO_ROW)->as.who_row;
    const struct party *party = session->party;
    row->request = asked->request;
    row->name = session->account->name;
    row->job = session->job != NULL ? session->job->name : session->job_name;
    row->role = party == NULL && session->late == NULL ? ROLE_OBSERVER
                : session->is_guard                    ? ROLE_GUARD
                                                       : ROLE_PARTY;
    if (party != NULL) {
        row->party = party->name;
        row->incarnation = session->incarnation;
    } else if (session->late != NULL) {
        row->party = session->late->party;
        row->incarnation = session->late->incarnation;
    }
    row->connection = session->control;
    row->connections = (session->control != 0 ? 1u : 0u) + (session->data != 0 ? 1u : 0u);
    if (session->control != 0)
        row->connected_ms = (uint64_t)((core_clock(core) - session->greeted_ns) / MS_NS);
}

/* A session keeps its number: one that is there from the first answer to the last is in one of
 * them. */
void tell_who(struct core *core, struct session *session, const struct msg_who *msg)
{
    uint32_t at = (uint32_t)msg->after;
    uint32_t rows = 0;
    const struct session *next;
    while ((next = pool_next(&core->sessions, at)) != NULL && rows++ < LIMIT_WHO_ROWS) {
        add_session(core, session->control, msg, next);
        at = next->id;
    }
    struct msg_who_end *end =
        &effects_msg(core->effects, session->control, MSG_WHO_END)->as.who_end;
    end->request = msg->request;
    end->next = next != NULL ? at : 0;
}
