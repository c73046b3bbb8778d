/* SPDX-License-Identifier: MPL-2.0 */
/* end_wait.c -- ends the youngest wait of a cycle, so that its other members go on.
 *
 * The wait ends, and nothing else does: the slot stays open, the credit is as it was.  A later call
 * may wait for the same again. */
#include "broker/core/waits/end_wait.h"

#include "broker/core/lifecycle/barrier.h"
#include "broker/core/record/failure.h"
#include "broker/core/record/text.h"
#include "broker/core/streams/await.h"
#include "broker/core/tables/effect.h"

/* ---- the error ------------------------------------------------------------------------------- */

static const char *verb_of(enum wait_kind kind)
{
    switch (kind) {
    case WAIT_BARRIER: return " is at the barrier";
    case WAIT_CREDIT: return " has no credit to write ";
    case WAIT_READ: return " reads ";
    case WAIT_SLOT:
    case WAIT_UNPROMISED:
    case WAIT_REPLY:
    case WAIT_GROUP:
    case WAIT_UNSERVED: return " awaits ";
    case WAIT_BUSY:
    case WAIT_MISSING:
    case WAIT_ROOM:
    case WAIT_GATHER:
    case WAIT_OWED:
    case WAIT_NEEDED:
    case WAIT_MEMBERS:
    case WAIT_RATE: break; /* no party waits so in a cycle */
    }
    return " waits for ";
}

static struct failure *make_cause(struct core *core, const struct cycle *cycle,
                                  const struct wait_edge *edge)
{
    struct party *party = cycle_party(core, cycle->walk, edge->from);
    const struct party *other = cycle_party(core, cycle->walk, edge->to);
    struct topic *topic = pool_find(&core->topics, edge->topic);
    struct text text;
    text_init(&text);
    text_add_span(&text, party->name);
    text_add(&text, verb_of(edge->kind));
    if (topic != NULL) {
        text_add_span(&text, topic->name);
        text_add(&text, "#");
        text_add_number(&text, edge->seq);
    }
    if (other != NULL) {
        text_add(&text, ", and needs ");
        text_add_span(&text, other->name);
    }
    return failure_make(core,
                        &(struct failure_spec){.job = party->job,
                                               .party = party,
                                               .kind = ERROR_DEPENDENCY,
                                               .type = ERROR_TYPE_BLOCKED,
                                               .message = text.data,
                                               .topic = topic,
                                               .seq = edge->seq,
                                               .blame = other != NULL ? other->name : SPAN_NONE});
}

/* The other waits of its parties, as many as an error may have causes. */
static uint32_t make_causes(struct core *core, const struct cycle *cycle,
                            struct failure *causes[LIMIT_ERROR_CAUSES])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < cycle->walk->edge_count && count < LIMIT_ERROR_CAUSES; i++) {
        const struct wait_edge *edge = wait_edge_at(cycle->walk, i);
        if (edge != cycle->youngest && cycle_has_wait(core, cycle, edge) &&
            cycle_party(core, cycle->walk, edge->from) != NULL)
            causes[count++] = make_cause(core, cycle, edge);
    }
    return count;
}

static struct failure *make_error(struct core *core, const struct cycle *cycle, const char *text)
{
    struct party *party = cycle_party(core, cycle->walk, cycle->youngest->from);
    struct failure *causes[LIMIT_ERROR_CAUSES];
    uint32_t count = make_causes(core, cycle, causes);
    struct failure *failure = failure_make(
        core, &(struct failure_spec){.job = party->job,
                                     .party = party,
                                     .kind = ERROR_DEPENDENCY,
                                     .type = ERROR_TYPE_DEADLOCK,
                                     .message = text,
                                     .topic = pool_find(&core->topics, cycle->youngest->topic),
                                     .seq = cycle->youngest->seq,
                                     .causes = causes,
                                     .cause_count = count});
    while (count > 0)
        failure_unref(core, causes[--count]);
    return failure;
}

/* ---- the wait -------------------------------------------------------------------------------- */

/* The client's own call is blocked: only the client can end it. */
static void tell_client(struct core *core, const struct session *session, enum wait_over_kind kind,
                        const struct failure *failure)
{
    struct msg_wait_over *over =
        &effects_msg(core->effects, session->control, MSG_WAIT_OVER)->as.wait_over;
    over->number = session->blocked.number;
    over->kind = kind;
    over->error = failure_span(failure);
}

struct failure *end_wait(struct core *core, const struct cycle *cycle, const char *text)
{
    const struct wait_edge *edge = cycle->youngest;
    struct failure *failure = make_error(core, cycle, text);
    struct session *session = cycle_party(core, cycle->walk, edge->from)->session;
    switch (edge->kind) {
    case WAIT_BARRIER: barrier_fail(core, session, failure); break;
    case WAIT_CREDIT: tell_client(core, session, WAIT_OVER_ROOM, failure); break;
    case WAIT_READ: tell_client(core, session, WAIT_OVER_READS, failure); break;
    case WAIT_SLOT:
    case WAIT_UNPROMISED:
    case WAIT_REPLY:
    case WAIT_GROUP:
    case WAIT_UNSERVED: await_fail(core, session, edge->topic, edge->seq, failure); break;
    case WAIT_BUSY:
    case WAIT_MISSING:
    case WAIT_ROOM:
    case WAIT_GATHER:
    case WAIT_OWED:
    case WAIT_NEEDED:
    case WAIT_MEMBERS:
    case WAIT_RATE: break; /* no party waits so in a cycle */
    }
    return failure;
}
