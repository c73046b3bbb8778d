/* SPDX-License-Identifier: MPL-2.0 */
/* greeting.c -- how sessions begin, or go on over another connection.
 *
 * Promise 5 rests on two functions here.  resume() looks a token up in core->tokens; a session that
 * ended is not there any more, so nothing that its client says is understood.  join() gives each
 * new session of a party a new incarnation. */
#include "broker/core/lifecycle/greeting.h"

#include "broker/core/groups/subscription.h"
#include "broker/core/lifecycle/barrier.h"
#include "broker/core/lifecycle/ending.h"
#include "broker/core/lifecycle/guard.h"
#include "broker/core/lifecycle/job.h"
#include "broker/core/lifecycle/judgement.h"
#include "broker/core/lifecycle/liveness.h"
#include "broker/core/lifecycle/membership.h"
#include "broker/core/lifecycle/run.h"
#include "broker/core/lifecycle/session.h"
#include "broker/core/lifecycle/witness.h"
#include "broker/core/record/accept.h"
#include "broker/core/record/account.h"
#include "broker/core/record/auditor.h"
#include "broker/core/record/courier.h"
#include "broker/core/record/failure.h"
#include "broker/core/record/note.h"
#include "broker/core/record/owned_span.h"
#include "broker/core/record/rights.h"
#include "broker/core/record/text.h"
#include "broker/core/settling/refusal.h"
#include "broker/core/settling/upload.h"
#include "broker/core/streams/lease.h"
#include "broker/core/streams/names.h"
#include "broker/core/streams/notice.h"
#include "broker/core/streams/number.h"
#include "broker/core/streams/sub.h"
#include "broker/core/streams/topic.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/job.h"
#include "broker/core/tables/party.h"
#include "broker/core/tables/roster.h"
#include "broker/core/tables/slot_table.h"
#include "libbus/base/pattern.h"
#include "libbus/wire/disclosure.h"

enum { HELLO_PARTY = 0, HELLO_OBSERVER = 1, HELLO_GUARD = 2 }; /* HELLO.role */

/* Programs of one incarnation number their errors apart: each has so many bits for itself. */
enum { PROGRAM_ERROR_BITS = 32 };

static void refuse(struct core *core, conn_id conn, enum wire_code code, const char *type,
                   const char *message)
{
    struct msg *msg = effects_msg(core->effects, conn, MSG_REFUSED);
    msg->as.refused.code = code;
    msg->as.refused.type = span_text(type);
    msg->as.refused.message = span_text(message);
    effects_drop(core->effects, conn);
}

/* One sentence for whatever is not allowed: it tells nothing about what there is. */
static void deny(struct core *core, conn_id conn)
{
    refuse(core, conn, CODE_EDENIED, ERROR_TYPE_NOT_AUTHORISED, RIGHTS_DENIED_TEXT);
}

static struct session *session_new(struct core *core, struct job *job,
                                   const struct msg_hello *hello, conn_id conn)
{
    return session_make(core, job,
                        &(struct session_terms){.token = session_free_token(core),
                                                .principal = core->speaker,
                                                .owner = account_speaker(core),
                                                .conn = conn,
                                                .dial = (uint32_t)hello->dial,
                                                .heartbeat_ms = hello->heartbeat_ms,
                                                .lost_after_ms = hello->lost_after_ms,
                                                .grace_ms = hello->grace_ms,
                                                .is_guard = hello->role == HELLO_GUARD});
}

/* Whether the speaker may have one connection more; party: the sessions that it has end then.  If
 * not, it is told so.  Without memory for its account it has none, and is told later. */
static bool may_connect(struct core *core, conn_id conn, const struct party *party)
{
    struct account *account = account_get(core, account_speaker(core));
    if (account == NULL)
        return true;
    uint64_t ended = 0;
    if (party != NULL && party->session != NULL)
        ended += party->session->account == account;
    if (party != NULL && party->guard != NULL)
        ended += party->guard->account == account;
    bool has_room = account_has_room(account, ACCESS_CONNECTIONS, 1 - ended);
    if (!has_room)
        refuse(core, conn, CODE_EFULL, ERROR_TYPE_QUOTA,
               account_refuse(core, account, ACCESS_CONNECTIONS));
    account_unref(core, account);
    return has_room;
}

static void welcome(struct core *core, struct session *session, const struct msg_hello *hello,
                    bool is_resumed)
{
    struct msg_welcome *msg =
        &effects_msg(core->effects, session->control, MSG_WELCOME)->as.welcome;
    msg->major = PROTOCOL_MAJOR;
    msg->minor = hello->minor <= PROTOCOL_MINOR ? hello->minor : PROTOCOL_MINOR;
    msg->broker = core->options.broker;
    msg->token = session->token;
    msg->incarnation = session->incarnation;
    msg->attempt = session->job != NULL ? session->job->attempt : 0;
    msg->is_resumed = is_resumed;
    msg->data_number = session->data_number;
    msg->data_endpoint = span_text(core->options.data_endpoint);
    msg->value_bytes_max = core->options.value_bytes_max;
    msg->broker_ns = core->now_ns;
    msg->connection = session->control;
    msg->event_next = session->job != NULL          ? session->job->event_next
                      : session->job_name.bytes > 0 ? 1
                                                    : 0;
    msg->durability = core->options.durability;
    msg->disclosure = session->job != NULL ? session->job->spec.disclosure : 0;
    if (session->party != NULL)
        msg->auditor = auditor_of(session->job);
    msg->is_created = session->job != NULL && session->job->state != JOB_FREE;
    msg->is_continued = session->job != NULL && session->job->is_continued;
    msg->rest_ns = msg->is_continued ? session->job->rest_ns : 0;
    if (session->party != NULL)
        msg->run_incarnations = session->incarnation - session->party->first + 1;
    if (session->party != NULL && !session->is_guard)
        msg->errors_from = (uint64_t)session->party->program_count << PROGRAM_ERROR_BITS;
    if (session->party != NULL && !session->is_guard && !is_resumed)
        number_forget_refused(session->party);
    msg->own_numbers = number_first(core, session);
    msg->patience_ms = (uint64_t)core->options.patience_ms;
    session->is_unjudged = session->trip_ns > 0; /* it was long, and is mostly long again */
    session->trip_ns = 0;
    session_arm(core, session);
}

/* A sentence about what is wrong with the greeting, or NULL. */
static const char *hello_complaint(const struct msg_hello *hello)
{
    bool is_jobless = hello->role == HELLO_OBSERVER && hello->job.bytes == 0;
    if (!is_jobless && !party_is_valid(hello->job))
        return "the job's name is not well formed";
    if (hello->role != HELLO_OBSERVER &&
        (!party_is_valid(hello->party) || span_equal(hello->party, span_text(GROUPS_PARTY))))
        return "the party's name is not well formed";
    if (hello->heartbeat_ms < LIMIT_HEARTBEAT_MS_MIN)
        return "the heartbeat is shorter than 10 ms";
    if (hello->lost_after_ms < 3 * hello->heartbeat_ms)
        return "lost_after_ms is less than three heartbeats";
    if (hello->auditor.bytes != 0 && hello->auditor.bytes != KEY_BYTES)
        return "the auditor is not a public key";
    return NULL;
}

void session_begin(struct core *core, struct party *party, struct session *session,
                   uint32_t incarnation)
{
    party_keep_end(core, party);
    party->incarnation = incarnation;
    run_take_part(party, incarnation);
    party->job->live_count += 1;
    party->job->follower_count += party->run_rule == RUN_FOLLOW;
    party->joined_ns = core->is_replaying ? 0 : core->now_ns;
    party->ended_ns = 0;
    party->error_count = 0;
    party->error_limit = 0;
    party->program_count = 0;
    party->program_client = 0;
    *(session->is_guard ? &party->guard : &party->session) = session;
    session->party = party;
    session->incarnation = incarnation;
    party->state = PARTY_SCHEDULING; /* the incarnation before is over, or never was */
    party_update_bare(party);
    if (session->is_guard)
        note_guard_joined(core, party);
    else
        note_party_joined(core, party);
    job_joined(core, party);
}

/* The session that began this incarnation, or NULL. */
static struct session *first_session(const struct party *party)
{
    return party->guard != NULL ? party->guard : party->session;
}

/* The session goes on on this connection. */
static void go_on(struct core *core, conn_id conn, struct session *session,
                  const struct msg_hello *hello)
{
    if (hello->dial > 0 && hello->dial <= session->dial) {
        effects_drop(core->effects, conn); /* it came late: the client is on another by now */
        return;
    }
    session->dial = (uint32_t)hello->dial;
    *(session == first_session(session->party) ? &session->party->dial
                                               : &session->party->program_dial) = session->dial;
    session_drop_conn(core, &session->control);
    session_drop_conn(core, &session->data);
    const char *forgotten = witness_hello(core, session, hello);
    if (forgotten != NULL) {
        refuse(core, conn, CODE_ELOST, ERROR_TYPE_FORGOTTEN, forgotten);
        return;
    }
    barrier_forget(session);
    courier_gone(core, session);
    if (!id_map_put(&core->conns, conn, session->id)) {
        session->closed_ns = core_clock(core);
        session_arm(core, session);
        refuse(core, conn, CODE_EFULL, ERROR_TYPE_FULL, "the broker is short of memory");
        return;
    }
    session->control = conn;
    session->greeted_ns = core_clock(core);
    session->has_reload = false; /* it asks again */
    session->is_ready = false;
    session->await_sent = 0;
    session->await_taken = 0;
    session->await_round = (struct sync_round){.step = 0};
    flow_window_restart(&session->await_flow, 0);
    session->await_topic = 0;
    session->data_told = 0;
    session->control_told = 0;
    accept_drop(session); /* WELCOME says it */
    sub_review(core, session->party);
    LIST_EACH(link, &session->subs)
        sub_rewind(core, LIST_OWNER(link, struct sub, session_link));
    sub_pass_done(core, session);
    session_hear(core, session);
    welcome(core, session, hello, hello->token != 0);
    judge_tell_again(core, session);
    refusals_tell_again(core, session, hello->refusal_number);
}

static const char *taken_text(struct core *core, const struct party *party)
{
    struct text *text = &core->why_held;
    text_say(text, "another process is party ", party->name);
    text_add(text, " of job ");
    text_add_span(text, party->job->name);
    text_add(text, " already: end that process, or give this one another name");
    return text->data;
}

/* The party belongs to the speaker.  What it had subscribed to under a durable name is over, if it
 * was another's before.  false: no memory. */
static bool take_party(struct core *core, struct party *party)
{
    bool is_anothers = party->account->name.bytes > 0 && !rights_is_same(core, party->principal);
    if (is_anothers && core->access != NULL)
        LIST_EACH(link, &party->durables)
            sub_end(core, LIST_OWNER(link, struct sub, durable_link));
    if (!rights_take_party(core, party))
        return false;
    sub_review(core, party);
    return true;
}

/* A new incarnation of this party, or why not. */
static void join(struct core *core, conn_id conn, const struct msg_hello *hello, struct job *job)
{
    const char *type;
    struct party *party = party_get(core, job, hello->party);
    if (party == NULL || !roster_reserve(&job->roster)) {
        refuse(core, conn, CODE_EFULL, ERROR_TYPE_FULL, "this job has no room for another party");
        return;
    }
    bool is_known = hello->client != 0 && hello->client == party->client &&
                    rights_is_same(core, party->principal);
    if (is_known && first_session(party) != NULL) {
        go_on(core, conn, first_session(party), hello);
        return;
    }
    if (is_known && hello->dial <= party->dial) {
        effects_drop(core->effects, conn); /* it came late, and what it asked for has been */
        return;
    }
    const char *refusal = run_is_free_again(core, job) ? NULL : job_refusal(job, party, &type);
    if (refusal == NULL)
        refusal = auditor_refusal(core, job, hello, &type);
    if (refusal != NULL) {
        refuse(core, conn, CODE_EDENIED, type, refusal);
        return;
    }
    if ((party->session != NULL && party->session->control != 0) ||
        (party->guard != NULL && party->guard->control != 0)) {
        refuse(core, conn, CODE_EDENIED, ERROR_TYPE_NAME_TAKEN, taken_text(core, party));
        return;
    }
    if (run_is_held(party, hello, &core->why_held)) { /* before its last incarnation is lost */
        refuse(core, conn, CODE_EDENIED, ERROR_TYPE_RUN_UNDER_WAY, core->why_held.data);
        return;
    }
    if (!may_connect(core, conn, party))
        return;
    while (party_any_session(party) != NULL)
        session_lose(core, party_any_session(party), ERROR_TYPE_REPLACED,
                     "a fresh party of the same name came, and its connection was gone");
    enum run_choice choice = run_choose(core, party, hello, &core->why_held);
    if (choice == RUN_IS_HELD) {
        refuse(core, conn, CODE_EDENIED, ERROR_TYPE_RUN_UNDER_WAY, core->why_held.data);
        return;
    }
    struct session *session = take_party(core, party) ? session_new(core, job, hello, conn) : NULL;
    if (session == NULL) {
        refuse(core, conn, CODE_EFULL, ERROR_TYPE_FULL,
               "the broker has no room for another session");
        return;
    }
    if (choice == RUN_BEGINS)
        run_begin(core, party, hello);
    else
        run_join(core, party, hello);
    judge_joined(core, job);
    party->run_rule = (uint8_t)hello->run_rule;
    party->client = hello->client; /* before it is noted */
    party->dial = session->dial;
    session_begin(core, party, session, party->incarnation + 1);
    party_tell(core, party, EVENT_PARTY_JOINED, "", 0, NULL);
    welcome(core, session, hello, false);
}

/* The party that this guard's token is for, or NULL: it is over. */
static struct party *guarded(struct core *core, const struct msg_hello *hello)
{
    uint32_t id;
    const struct session *guard =
        id_map_get(&core->tokens, hello->guard, &id) ? pool_find(&core->sessions, id) : NULL;
    if (guard == NULL || !rights_is_same(core, guard->principal) || !guard->is_guard ||
        !party_is_live(guard->party) || !span_equal(guard->party->name, hello->party) ||
        !span_equal(guard->job->name, hello->job))
        return NULL;
    return guard->party;
}

/* Another process speaks for the incarnation of a guard: one at a time. */
static void speak(struct core *core, conn_id conn, const struct msg_hello *hello)
{
    struct party *party = guarded(core, hello);
    if (party == NULL) {
        refuse(core, conn, CODE_EFENCED, ERROR_TYPE_FENCED,
               "the incarnation that the token is for is over");
        return;
    }
    bool is_known = hello->client != 0 && hello->client == party->program_client;
    if (is_known && party->session != NULL) {
        go_on(core, conn, party->session, hello);
        return;
    }
    if (is_known && hello->dial <= party->program_dial) {
        effects_drop(core->effects, conn); /* as in join() */
        return;
    }
    if (party->session != NULL) {
        refuse(core, conn, CODE_EDENIED, ERROR_TYPE_NAME_TAKEN, taken_text(core, party));
        return;
    }
    const char *type;
    const char *refusal = auditor_refusal(core, party->job, hello, &type);
    if (refusal != NULL) {
        refuse(core, conn, CODE_EDENIED, type, refusal);
        return;
    }
    if (!may_connect(core, conn, NULL))
        return;
    struct session *session = session_new(core, party->job, hello, conn);
    if (session == NULL) {
        refuse(core, conn, CODE_EFULL, ERROR_TYPE_FULL,
               "the broker has no room for another session");
        return;
    }
    party->program_client = hello->client; /* before it is noted */
    party->program_dial = session->dial;
    guard_begin_program(core, party, session);
    welcome(core, session, hello, false);
}

/* Its job is at a later attempt than the one that gave the token.  false: it is not. */
static bool refuse_older(struct core *core, conn_id conn, const struct msg_hello *hello)
{
    uint32_t id;
    const struct job *job =
        name_map_get(&core->job_names, hello->job, &id) ? pool_find(&core->jobs, id) : NULL;
    if (job == NULL || hello->attempt == 0 || hello->attempt >= job->attempt)
        return false;
    if (hello->attempt == job->cancelled)
        refuse(core, conn, CODE_EFENCED, ERROR_TYPE_JOB_CANCELLED, "the job was cancelled");
    else
        refuse(core, conn, CODE_EFENCED, ERROR_TYPE_ATTEMPT_OVER,
               "the attempt of the job that it was part of is over");
    return true;
}

static void resume(struct core *core, conn_id conn, const struct msg_hello *hello)
{
    uint32_t id;
    struct session *session =
        id_map_get(&core->tokens, hello->token, &id) ? pool_find(&core->sessions, id) : NULL;
    if (session != NULL && !rights_is_same(core, session->principal))
        session = NULL; /* another's token is as good as none */
    if (session == NULL && hello->broker != 0 && hello->broker != core->options.broker) {
        refuse(core, conn, CODE_ELOST, ERROR_TYPE_SESSION,
               "this is another broker than the one that gave the session");
        return;
    }
    if (session == NULL || session->party == NULL ||
        session->is_guard != (hello->role == HELLO_GUARD) ||
        !span_equal(session->party->name, hello->party) ||
        !span_equal(session->job->name, hello->job)) {
        const char *forgotten = session == NULL ? witness_recall(core, hello) : NULL;
        if (forgotten != NULL)
            refuse(core, conn, CODE_ELOST, ERROR_TYPE_FORGOTTEN, forgotten);
        else if (!refuse_older(core, conn, hello))
            refuse(core, conn, CODE_EFENCED, ERROR_TYPE_FENCED,
                   "this incarnation is over: it was lost, failed or left");
        return;
    }
    go_on(core, conn, session, hello);
}

/* An observer makes no job.  It keeps the name of a job that does not exist yet.  One that may not
 * observe the job is an observer of none. */
static void observe(struct core *core, conn_id conn, const struct msg_hello *hello)
{
    struct span wished = rights_may_observe(core, hello->job) ? hello->job : SPAN_NONE;
    struct job *job = job_known(core, wished);
    struct span name = SPAN_NONE;
    if (core->access != NULL && core->speaker == 0) {
        deny(core, conn);
        return;
    }
    if (!may_connect(core, conn, NULL))
        return;
    bool is_kept = job != NULL || span_keep(core, wished, &name);
    struct session *observer = is_kept ? session_new(core, job, hello, conn) : NULL;
    if (observer == NULL) {
        span_drop(core, &name);
        refuse(core, conn, CODE_EFULL, ERROR_TYPE_FULL,
               "the broker has no room for another session");
        return;
    }
    observer->job_name = name;
    welcome(core, observer, hello, false);
}

/* The broker is stopping.  A client that got BYE tries again at once.  If it were welcomed, it
 * would take the end of the broker for a crash. */
static void send_away(struct core *core, conn_id conn)
{
    effects_msg(core->effects, conn, MSG_BYE)->as.bye.message = span_text(STOPS_TEXT);
    effects_drop(core->effects, conn);
}

void session_hello(struct core *core, conn_id conn, const struct msg_hello *hello)
{
    const char *complaint = hello_complaint(hello);
    if (core->is_stopping) {
        send_away(core, conn);
        return;
    }
    if (hello->major != PROTOCOL_MAJOR) {
        refuse(core, conn, CODE_EPROTO, ERROR_TYPE_VERSION,
               hello->major < PROTOCOL_MAJOR
                   ? "the client speaks an older major version than the broker's 1: upgrade it"
                   : "the client speaks a newer major version than the broker's 1: upgrade the "
                     "broker");
        return;
    }
    if (complaint != NULL) {
        refuse(core, conn, CODE_EINVAL, ERROR_TYPE_NAME, complaint);
        return;
    }
    if (hello->role != HELLO_OBSERVER && !rights_may_be(core, hello->job, hello->party)) {
        deny(core, conn);
        return;
    }
    if (hello->role != HELLO_OBSERVER && hello->token != 0) {
        resume(core, conn, hello);
        return;
    }
    if (hello->role == HELLO_PARTY && hello->guard != 0) {
        speak(core, conn, hello);
        return;
    }
    if (hello->role == HELLO_OBSERVER) {
        observe(core, conn, hello);
        return;
    }
    struct job_refusal refusal;
    struct job *job = job_get(core, hello->job, &refusal);
    if (job == NULL) {
        refuse(core, conn, CODE_EFULL, refusal.type, refusal.message);
        return;
    }
    join(core, conn, hello, job);
    if (!job_drop_unused(core, job))
        session_take_taps(core, job);
}

/* Both channels stand: frames flow, and what may be lost with the last connection is sent again. */
static void attached(struct core *core, struct session *session)
{
    if ((session->data == 0 && !session->is_guard) || !session->is_ready)
        return;
    session->returned_ns = INT64_MIN;
    effects_msg(core->effects, session->control, MSG_ATTACHED);
    job_greet(core, session);
    notice_tell_again(core, session);
    if (session->is_guard)
        return; /* it neither writes nor reads */
    LIST_EACH(link, &session->party->topics) {
        struct topic *topic = LIST_OWNER(link, struct topic, party_link);
        if (topic->is_opened)
            topic_grant(core, topic, true);
    }
    uploads_tell_again(core, session);
    LIST_EACH(link, &session->subs)
        sub_ready(core, LIST_OWNER(link, struct sub, session_link));
    core_mark_pump(core, session);
    core_mark_dirty(core, session);
}

/* The data channel may be far behind the control channel.  So an ATTACH may come late: its client
 * may have given up both connections, and may be back on others. */
const char *session_attach(struct core *core, conn_id conn, const struct msg_attach *msg)
{
    uint32_t id;
    struct session *session =
        id_map_get(&core->tokens, msg->token, &id) ? pool_find(&core->sessions, id) : NULL;
    if (session == NULL || session->is_guard || session->late != NULL ||
        !rights_is_same(core, session->principal))
        return "ATTACH to no session";
    if (session->control == 0 || msg->connection != session->control) {
        effects_drop(core->effects, conn);
        return NULL;
    }
    if (!id_map_put(&core->conns, conn, session->id))
        return "the broker is short of memory";
    session_drop_conn(core, &session->data);
    session->data = conn;
    session->data_sent = session->data_said = session->data_marked = 0;
    session->data_marked_step = 0;
    session_hear(core, session);
    if (session->party != NULL)
        attached(core, session);
    else
        effects_msg(core->effects, session->control, MSG_ATTACHED);
    return NULL;
}

/* ---- both channels stand --------------------------------------------------------------------- */

/* Where to go on with the value of a slot.  The reader says how many bytes of it it has.  If that
 * is more than there are, or can be, the value begins anew. */
static uint64_t chunk_offset(const struct core *core, const struct topic *topic, uint64_t seq,
                             uint64_t offset)
{
    uint32_t index;
    if (!slot_table_find(&topic->slots, seq, &index))
        return 0;
    const struct slot_entry *entry = slot_table_at(&topic->slots, index);
    const struct chunks *chunks = NULL;
    if (entry->state == SLOT_OPEN)
        chunks = ((struct open_slot *)pool_find(&core->open_slots, entry->ref))->chunks;
    else if (entry->state == SLOT_CHUNKED)
        chunks = pool_find(&core->chunk_sets, entry->ref);
    bool is_here = chunks != NULL && offset <= chunks->bytes && offset < chunks->total;
    return is_here ? offset : 0;
}

void session_position(struct core *core, struct session *session, const struct msg_position *msg)
{
    struct sub *sub = sub_find(core, session, (uint32_t)msg->sub);
    if (sub == NULL)
        return; /* closed meanwhile: its UNSUBSCRIBE came on the last connection */
    if (sub_is_member(sub)) {
        lease_has(core, sub, msg);
        return;
    }
    uint32_t id;
    struct topic *topic = topic_numbered(core, (uint32_t)msg->topic);
    if (topic == NULL || !id_map_get(&sub->route_ids, topic->id, &id) ||
        witness_position(core, session, topic, msg->next_seq))
        return; /* it does not follow the topic, or the session is over */
    struct route *route = pool_find(&core->routes, id);
    if (msg->next_seq > topic->slots.next_seq || msg->next_seq < route->next_seq)
        return;
    route->next_seq = msg->next_seq;
    route->chunk_offset = chunk_offset(core, topic, msg->next_seq, msg->chunk_offset);
    route->taken_offset = route->chunk_offset;
    /* The last TAKEN may be lost, and is not sent again.  The inbox of the reader holds at most a
     * window, so what it received counts as taken. */
    if (route->taken_seq < msg->next_seq) {
        route->taken_seq = msg->next_seq;
        topic_update(core, topic);
    } else if (topic->passing != NULL) {
        topic_update(core, topic);
    }
    route_ready(core, route);
}

void session_locate(struct core *core, struct session *session, struct span host, uint64_t pid,
                    struct span trace_id)
{
    span_drop(core, &session->host);
    span_drop(core, &session->trace_id);
    (void)span_keep(core, host, &session->host); /* or it is not known */
    (void)span_keep(core, trace_id, &session->trace_id);
    session->pid = pid;
    note_located(core, session);
}

/* A client says on each connection where it runs, and for which trace; after the first the broker
 * knows it.  What the job discloses to nobody is not kept. */
static void hear_place(struct core *core, struct session *session, const struct msg_ready *msg)
{
    enum disclosure level = session->job->spec.disclosure;
    struct span host = level < DISCLOSURE_TYPE ? msg->host : SPAN_NONE;
    uint64_t pid = level < DISCLOSURE_TYPE ? msg->pid : 0;
    struct span trace_id = level < DISCLOSURE_NONE ? msg->trace_id : SPAN_NONE;
    bool is_said = host.bytes > 0 || pid != 0 || trace_id.bytes > 0;
    bool is_known = span_equal(host, session->host) && pid == session->pid &&
                    span_equal(trace_id, session->trace_id);
    if (is_said && !is_known)
        session_locate(core, session, host, pid, trace_id);
}

const char *session_ready(struct core *core, struct session *session, const struct msg_ready *msg)
{
    if (msg->trace_id.bytes != 0 && msg->trace_id.bytes != LIMIT_TRACE_ID_BYTES)
        return "a trace id of another length";
    session->is_ready = true;
    if (session->party != NULL)
        hear_place(core, session, msg);
    if (session->party != NULL)
        attached(core, session);
    else
        effects_msg(core->effects, session->control, MSG_ATTACHED);
    return NULL;
}
