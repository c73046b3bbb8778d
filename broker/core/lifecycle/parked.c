/* SPDX-License-Identifier: MPL-2.0 */
/* parked.c -- control messages that wait for the data that was sent before them.
 *
 * Control and data travel on two lanes, so either may overtake the other.  A message that settles
 * something carries the number of the data that was sent before it.  The message is parked until
 * that data is here.  Later messages of the party are parked behind it, so they keep their order.
 * The event about it is told at once. */
#include "broker/core/lifecycle/parked.h"

#include "broker/core/groups/group.h"
#include "broker/core/groups/subscription.h"
#include "broker/core/lifecycle/ending.h"
#include "broker/core/lifecycle/guard.h"
#include "broker/core/lifecycle/judgement.h"
#include "broker/core/lifecycle/membership.h"
#include "broker/core/record/failure.h"
#include "broker/core/record/note.h"
#include "broker/core/record/tell.h"
#include "broker/core/settling/refusal.h"
#include "broker/core/settling/settle.h"
#include "broker/core/streams/number.h"
#include "broker/core/streams/sub.h"
#include "broker/core/streams/topic.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/job.h"
#include "broker/core/tables/party.h"
#include "broker/core/tables/slot_table.h"
#include "libbus/base/must.h"

/* An error of so many bytes is kept whole, also where there is no room. */
#define SHORT_ERROR_BYTES 1024

/* ---- what a parked message does when its time has come --------------------------------------- */

static struct slot_entry *find_entry(struct topic *topic, uint64_t seq, uint32_t *out_index)
{
    return slot_table_find(&topic->slots, seq, out_index) ? slot_table_at(&topic->slots, *out_index)
                                                          : NULL;
}

static bool is_same_failure(struct core *core, const struct slot_entry *entry,
                            const struct failure *failure)
{
    return entry->state == SLOT_ERROR &&
           span_equal(failure_id(pool_find(&core->failures, entry->ref)), failure_id(failure));
}

static struct failure *outcome_failure(struct core *core, const struct slot_entry *entry)
{
    return entry != NULL && entry->state == SLOT_ERROR ? pool_find(&core->failures, entry->ref)
                                                       : NULL;
}

static const char unopened_text[] = "the broker could not open the topic of the slot";

/* The topic of FAIL or RETRACT.  NULL: it could not be opened when it was said, nor since. */
static struct topic *topic_to_settle(const struct core *core, const struct parked *op)
{
    return (op->topic & NUMBER_OWN_BIT) != 0 ? topic_numbered(core, op->topic)
                                             : pool_find(&core->topics, op->topic);
}

static void do_fail(struct core *core, struct session *session, const struct parked *op)
{
    struct topic *topic = topic_to_settle(core, op);
    uint32_t index;
    if (topic == NULL) {
        refusal_of_numbers(core, session, op->topic, op->seq, 1, ERROR_TYPE_NOT_OPEN,
                           unopened_text);
        return;
    }
    struct slot_entry *entry = find_entry(topic, op->seq, &index);
    if (entry != NULL && entry->state == SLOT_OPEN && topic->is_replies) {
        refusal_of_slots(core, session, topic, op->seq, 1, ERROR_TYPE_LEASE_OVER,
                         "whoever the request is leased to settles it", NULL);
        return;
    }
    if (entry != NULL && entry->state == SLOT_OPEN) {
        if (!op->is_told)
            settle_tell(core, topic, op->seq, op->failure);
        settle_open_failed(core, pool_find(&core->open_slots, entry->ref), op->failure);
        return;
    }
    if (entry != NULL && is_same_failure(core, entry, op->failure))
        return; /* said twice */
    refusal_of_slots(
        core, session, topic, op->seq, 1, entry != NULL ? ERROR_TYPE_TOO_LATE : ERROR_TYPE_NOT_OPEN,
        entry != NULL ? "the slot was settled before" : "no slot of this number is open",
        outcome_failure(core, entry));
}

/* Whether this question was answered with yes before. */
static bool was_granted(const struct session *session, uint64_t number)
{
    return session->granted != NULL && session->granted[number % GRANTED_KEPT] == number;
}

bool parked_remember_granted(struct core *core, struct session *session, uint64_t number)
{
    if (session->granted == NULL)
        session->granted = memory_take(core->memory, GRANTED_KEPT * sizeof *session->granted);
    if (session->granted == NULL)
        return false;
    if (!was_granted(session, number)) {
        session->granted[number % GRANTED_KEPT] = number;
        note_granted(core, session, number);
    }
    return true;
}

static void result_answer(struct core *core, struct session *session, uint64_t number,
                          enum wire_code code, const char *type, const char *message,
                          struct topic *topic, uint64_t seq, struct failure *cause)
{
    if (code == CODE_OK && !session->is_guard)
        (void)parked_remember_granted(core, session, number); /* or it is worked out anew */
    if (session->control == 0)
        return; /* the client asks again after the reconnect */
    struct failure *failure = NULL;
    if (code != CODE_OK)
        failure = failure_make(core, &(struct failure_spec){.job = session->job,
                                                            .party = session->party,
                                                            .kind = ERROR_REJECTED,
                                                            .type = type,
                                                            .message = message,
                                                            .topic = topic,
                                                            .seq = seq,
                                                            .cause = cause});
    struct msg *msg = effects_msg(core->effects, session->control, MSG_RESULT);
    msg->as.result.number = number;
    msg->as.result.code = code;
    msg->as.result.error = failure_span(failure);
    failure_unref(core, failure);
}

static void do_retract(struct core *core, struct session *session, const struct parked *op)
{
    struct topic *topic = topic_to_settle(core, op);
    uint32_t index;
    if (topic == NULL) {
        result_answer(core, session, op->number, CODE_ESETTLED, ERROR_TYPE_NOT_OPEN, unopened_text,
                      NULL, 0, NULL);
        return;
    }
    struct slot_entry *entry = find_entry(topic, op->seq, &index);
    if (entry == NULL) {
        result_answer(core, session, op->number, CODE_ESETTLED, ERROR_TYPE_NOT_OPEN,
                      op->seq < topic->slots.next_seq ? "the slot is older than what is kept"
                                                      : "no slot of this number was reserved",
                      topic, op->seq, NULL);
    } else if (entry->state == SLOT_OPEN) {
        if (!op->is_told)
            settle_tell(core, topic, op->seq, op->failure);
        settle_open_failed(core, pool_find(&core->open_slots, entry->ref), op->failure);
        result_answer(core, session, op->number, CODE_OK, "", "", NULL, 0, NULL);
    } else if (is_same_failure(core, entry, op->failure)) {
        result_answer(core, session, op->number, CODE_OK, "", "", NULL, 0, NULL);
    } else if (slot_entry_may_move(entry, SLOT_ERROR) && slot_table_reserve(&topic->slots, 2)) {
        settle_tell(core, topic, op->seq, op->failure);
        settle_replace(core, topic, op->seq, op->failure);
        result_answer(core, session, op->number, CODE_OK, "", "", NULL, 0, NULL);
    } else {
        result_answer(core, session, op->number, CODE_ESETTLED,
                      entry->is_sealed ? ERROR_TYPE_SEALED : ERROR_TYPE_TOO_LATE,
                      entry->is_sealed ? "a subscriber was sent the outcome before"
                                       : "the slot was settled before",
                      topic, op->seq, outcome_failure(core, entry));
    }
}

static void do_complete(struct core *core, struct session *session, const struct parked *op)
{
    if (session->is_guard && session->party->session != NULL)
        guard_end_program(core, session->party, CODE_EFENCED);
    if (session->party->open_count > 0) {
        result_answer(core, session, op->number, CODE_EINVAL, ERROR_TYPE_ARGUMENT,
                      "a party that owes slots cannot complete", NULL, 0, NULL);
        return;
    }
    session_completed(core, session);
    result_answer(core, session, op->number, CODE_OK, "", "", NULL, 0, NULL);
}

/* The party was told that its job is over, and leaves. */
static void do_leave_ending(struct core *core, struct session *session)
{
    struct failure *failure = job_ending(core, session->job);
    session_end_party(core, session, PARTY_IS_TERMINATED, failure, CODE_ECLOSED);
    failure_unref(core, failure);
}

static void do_leave(struct core *core, struct session *session)
{
    struct party *party = session->party;
    struct failure *failure = NULL;
    if (!session->is_guard && party->guard != NULL) {
        guard_end_program(core, party, CODE_ECLOSED);
        return;
    }
    if (session->job->state == JOB_FAILING && party_is_live(party)) {
        do_leave_ending(core, session);
        return;
    }
    if (party->open_count > 0 || (session->is_guard && party->session != NULL))
        failure = party_left_failure(core, party);
    session_end_party(core, session, PARTY_LEAVES, failure, CODE_ECLOSED);
    failure_unref(core, failure);
}

/* Whether the session is still there afterwards. */
static bool execute(struct core *core, struct session *session, const struct parked *op)
{
    switch (op->type) {
    case PARKED_FAIL: do_fail(core, session, op); return true;
    case PARKED_RETRACT: do_retract(core, session, op); return true;
    case PARKED_COMPLETE: do_complete(core, session, op); return true;
    case PARKED_ACK: sub_ack(core, session, op); return true;
    case PARKED_TASK: group_settle(core, session, op); return true;
    case PARKED_UNSUBSCRIBE: sub_close(core, session, op->sub, op->how != 0); return true;
    case PARKED_LEAVE: do_leave(core, session); return false;
    case PARKED_FAIL_PARTY:
        session_end_party(core, session, PARTY_FAILS, op->failure, CODE_ECLOSED);
        return false;
    }
    must(!"a message that does not wait");
    return true;
}

/* ---- parking a message ----------------------------------------------------------------------- */

static uint64_t parked_bytes(const struct parked *op)
{
    return op->failure != NULL ? op->failure->byte_count : 0;
}

static void parked_free(struct core *core, struct session *session, struct parked *op)
{
    list_remove(&op->link);
    session->parked_count -= 1;
    session->parked_bytes -= parked_bytes(op);
    core->parked_bytes -= parked_bytes(op);
    failure_unref(core, op->failure);
    memory_give(core->memory, op, sizeof *op);
}

void parked_free_all(struct core *core, struct session *session)
{
    LIST_EACH(link, &session->parked)
        parked_free(core, session, LIST_OWNER(link, struct parked, link));
}

bool parked_add(struct core *core, struct session *session, const struct parked *op)
{
    struct parked *waiting = session->parked_count < LIMIT_PARKED_OPS
                                 ? memory_take(core->memory, sizeof *waiting)
                                 : NULL;
    if (waiting == NULL)
        return false;
    *waiting = *op;
    list_push(&session->parked, &waiting->link);
    session->parked_count += 1;
    session->parked_bytes += parked_bytes(op);
    core->parked_bytes += parked_bytes(op);
    return true;
}

/* parked_add() does not ask this: a replay takes what was parked under other options. */
static bool may_park(const struct core *core, const struct session *session,
                     const struct parked *op)
{
    uint64_t bytes_max = core->options.parked_bytes_max;
    return session->parked_bytes + parked_bytes(op) <= bytes_max &&
           core->parked_bytes + parked_bytes(op) <= LIMIT_PARKED_SHARES * bytes_max;
}

void parked_passed(struct core *core, struct session *session, uint64_t number)
{
    LIST_EACH(link, &session->parked)
        if (LIST_OWNER(link, struct parked, link)->number <= number)
            parked_free(core, session, LIST_OWNER(link, struct parked, link));
}

/* Takes out the first and executes it; whether the session is still there. */
static bool execute_first(struct core *core, struct session *session)
{
    struct parked *op = LIST_OWNER(session->parked.next, struct parked, link);
    struct parked copy = *op;
    copy.failure = failure_ref(op->failure);
    parked_free(core, session, op);
    bool is_there = execute(core, session, &copy);
    failure_unref(core, copy.failure);
    return is_there;
}

void parked_execute(struct core *core, struct session *session)
{
    while (!list_is_empty(&session->parked)) {
        const struct parked *op = LIST_OWNER(session->parked.next, struct parked, link);
        if (op->after > session->data_number)
            return;
        core_mark_dirty(core, session);
        if (!execute_first(core, session))
            return;
    }
}

/* The session ends.  An acknowledgement, or the end of a task, does not count if data that was
 * sent before it is lost: its results may be in that data.  UNSUBSCRIBE does nothing for a
 * subscription that ends with its session. */
static bool is_void_at_end(const struct session *session, const struct parked *op)
{
    if (op->type == PARKED_UNSUBSCRIBE && op->how == 0)
        return true;
    return (op->type == PARKED_ACK || op->type == PARKED_TASK) && op->after > session->data_number;
}

bool parked_is_type(uint64_t type)
{
    switch ((enum parked_type)type) {
    case PARKED_COMPLETE:
    case PARKED_LEAVE:
    case PARKED_FAIL_PARTY:
    case PARKED_FAIL:
    case PARKED_RETRACT:
    case PARKED_UNSUBSCRIBE:
    case PARKED_ACK:
    case PARKED_TASK: return true;
    }
    return false;
}

bool parked_end(struct core *core, struct session *session)
{
    while (!list_is_empty(&session->parked)) {
        struct parked *op = LIST_OWNER(session->parked.next, struct parked, link);
        core_mark_dirty(core, session); /* it may complete, and stay */
        if (is_void_at_end(session, op))
            parked_free(core, session, op);
        else if (!execute_first(core, session))
            return true;
    }
    return false;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Tells the event of a message that is parked, before the message takes effect. */
static void tell_ahead(struct core *core, struct session *session, struct parked *op)
{
    struct party *party = session->party;
    struct topic *topic = pool_find(&core->topics, op->topic);
    op->is_told = true;
    if (op->type == PARKED_FAIL && topic != NULL)
        settle_tell(core, topic, op->seq, op->failure);
    else
        op->is_told = false;
    if (op->type == PARKED_FAIL_PARTY &&
        party_next(party->state, PARTY_SAYS_FAILED, &party->state)) {
        bool is_late = judge_error(core, session->job, party, op->failure);
        tell(core, session->job,
             &(struct tell){.name = EVENT_PARTY_FAILED,
                            .party = party,
                            .incarnation = party->incarnation,
                            .count = party->open_count,
                            .failure = op->failure,
                            .is_late = is_late});
    }
}

static void read_order(struct parked *op, uint64_t number, uint64_t after)
{
    op->number = number;
    op->after = after;
}

static void read_slot(const struct core *core, struct parked *op, uint64_t number, uint64_t seq)
{
    op->topic = topic_id_of(core, (uint32_t)number);
    op->seq = seq;
}

static void read_task(const struct core *core, const struct msg_task *msg, struct parked *op)
{
    read_order(op, msg->number, msg->after);
    read_slot(core, op, msg->topic, msg->seq);
    op->sub = (uint32_t)msg->sub;
    op->delivery = (uint32_t)msg->delivery;
    op->how = (uint32_t)msg->how;
    op->retry_after_ms =
        msg->retry_after_ms < LIMIT_PERIOD_MS_MAX ? msg->retry_after_ms : LIMIT_PERIOD_MS_MAX;
}

/* Reads the message except its error. false: it names a topic that is not this party's. */
static bool read_op(struct core *core, struct session *session, enum parked_type type,
                    const struct msg *msg, struct parked *op, struct span *out_error)
{
    *out_error = SPAN_NONE;
    *op = (struct parked){.type = type};
    switch (type) {
    case PARKED_FAIL:
        read_order(op, msg->as.fail.number, msg->as.fail.after);
        read_slot(core, op, msg->as.fail.topic, msg->as.fail.seq);
        *out_error = msg->as.fail.error;
        break;
    case PARKED_RETRACT:
        read_order(op, msg->as.retract.number, msg->as.retract.after);
        read_slot(core, op, msg->as.retract.topic, msg->as.retract.seq);
        *out_error = msg->as.retract.error;
        break;
    case PARKED_COMPLETE: read_order(op, msg->as.complete.number, msg->as.complete.after); break;
    case PARKED_LEAVE: read_order(op, msg->as.leave.number, msg->as.leave.after); break;
    case PARKED_FAIL_PARTY:
        read_order(op, msg->as.fail_party.number, msg->as.fail_party.after);
        *out_error = msg->as.fail_party.error;
        break;
    case PARKED_ACK:
        read_order(op, msg->as.ack.number, msg->as.ack.after);
        read_slot(core, op, msg->as.ack.topic, msg->as.ack.next_seq);
        op->sub = (uint32_t)msg->as.ack.sub;
        op->durable = sub_durable(core, session, op->sub);
        return true;
    case PARKED_UNSUBSCRIBE:
        op->number = msg->as.unsubscribe.number;
        op->sub = (uint32_t)msg->as.unsubscribe.sub;
        op->how = (uint32_t)msg->as.unsubscribe.is_drop;
        return true;
    case PARKED_TASK:
        read_task(core, &msg->as.task, op);
        *out_error = msg->as.task.error;
        return true;
    }
    const struct topic *topic = pool_find(&core->topics, op->topic);
    if (session->is_guard && op->after > 0)
        return false; /* it has no data of its own */
    if (type != PARKED_FAIL && type != PARKED_RETRACT)
        return true;
    return topic != NULL ? topic->writer == session->party
                         : number_is_own(session->party, op->topic); /* it could not be opened */
}

/* Where there is no room, a short error takes the place of a long one: a slot fails in any case. */
static bool is_too_long(struct core *core, const struct topic *topic, const struct failure *failure)
{
    uint64_t bytes = failure->byte_count;
    return topic != NULL && bytes > SHORT_ERROR_BYTES &&
           (!job_has_room(core, topic->job, bytes) || !topic_writer_has_room(core, topic, bytes));
}

/* Takes the error of the message, if there is one.  Returns whether it can be read. */
static bool take_error(struct core *core, struct session *session, struct parked *op,
                       struct span error)
{
    bool is_readable = true;
    struct topic *topic = pool_find(&core->topics, op->topic);
    if (error.bytes > 0)
        op->failure = failure_take(core, session, error, topic, op->seq, &is_readable);
    if (op->failure != NULL && is_too_long(core, topic, op->failure))
        op->failure = failure_shorten(core, op->failure);
    return is_readable;
}

/* Whether the message must wait for others.  A member leaves its group after its messages about
 * its tasks; otherwise those tasks would go to other members.  No other UNSUBSCRIBE waits. */
static bool must_wait_for_turn(const struct session *session, const struct parked *op)
{
    if (op->type == PARKED_ACK && op->number == 0)
        return false; /* only the lag that status shows depends on it */
    if (op->type != PARKED_UNSUBSCRIBE)
        return op->after > session->data_number || !list_is_empty(&session->parked);
    for (struct list *link = session->parked.next; link != &session->parked; link = link->next) {
        const struct parked *before = LIST_OWNER(link, struct parked, link);
        if (before->type == PARKED_TASK && before->sub == op->sub)
            return true;
    }
    return false;
}

const char *parked_take(struct core *core, struct session *session, enum parked_type type,
                        const struct msg *msg)
{
    struct parked op;
    struct span error;
    if (!read_op(core, session, type, msg, &op, &error))
        return "this message is not for a party to say here";
    bool is_again = op.number != 0 && op.number <= session->control_seen;
    bool is_asking = op.type == PARKED_RETRACT || op.type == PARKED_COMPLETE;
    bool is_parked = is_again && op.number > session_control_number(session);
    if (is_again && (is_parked || !is_asking || was_granted(session, op.number))) {
        if (is_asking && !is_parked)
            result_answer(core, session, op.number, CODE_OK, "", "", NULL, 0, NULL);
        return NULL;
    }
    /* An error that cannot be read was refused when the message came the first time. */
    bool is_refused = !take_error(core, session, &op, error) && !is_again;
    if (op.number > session->control_seen)
        session->control_seen = op.number;
    /* An answered question that comes again was in force before what is parked now. */
    bool must_wait = !is_again && must_wait_for_turn(session, &op);
    if (!must_wait) {
        if (is_refused)
            failure_refuse(core, session, op.failure);
        (void)execute(core, session, &op);
        failure_unref(core, op.failure);
    } else if (may_park(core, session, &op) && parked_add(core, session, &op)) {
        struct parked *waiting = LIST_OWNER(session->parked.prev, struct parked, link);
        if (is_refused)
            failure_refuse(core, session, op.failure);
        tell_ahead(core, session, waiting);
        note_parked(core, session, waiting);
    } else {
        session->control_seen -= 1; /* it comes again */
        failure_unref(core, op.failure);
        return "too many settlements wait for their data";
    }
    return NULL;
}
