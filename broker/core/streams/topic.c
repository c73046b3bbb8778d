/* SPDX-License-Identifier: MPL-2.0 */
/* topic.c -- a topic: which slots are kept, for which readers, and how much its writer may add.
 *
 * Two floors divide the slots that are kept.  Every subscription that holds writers back has
 * received all slots below taken_floor; the writer's window bounds the bytes from there on.  Below
 * done_floor no subscription needs a slot any more: durable ones have acknowledged it, others have
 * received it.  Such slots are kept for late subscribers, up to topic_keep_bytes.  The newest slot
 * is kept as long as the job has room.  An entry counts as below a floor when it ends there or
 * before.
 *
 * A subscription with overflow = gap may lose slots.  Slots that only such subscriptions still need
 * are kept up to the window; then the oldest are dropped, and before them the older ones that are
 * kept for late subscribers.  Open slots are never dropped.  When the
 * job is full, a topic keeps only the slots that some subscription needs and may not lose. */
#include "broker/core/streams/topic.h"

#include "broker/core/record/account.h"
#include "broker/core/record/count.h"
#include "broker/core/record/failure.h"
#include "broker/core/record/note.h"
#include "broker/core/record/owned_span.h"
#include "broker/core/record/tell.h"
#include "broker/core/record/text.h"
#include "broker/core/streams/await.h"
#include "broker/core/streams/lead.h"
#include "broker/core/streams/lease.h"
#include "broker/core/streams/names.h"
#include "broker/core/streams/number.h"
#include "broker/core/streams/open_slot.h"
#include "broker/core/streams/passing.h"
#include "broker/core/streams/rate.h"
#include "broker/core/streams/reply.h"
#include "broker/core/streams/sub.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/needs.h"
#include "broker/core/tables/slot_table.h"
#include "libbus/base/pattern.h"

/* Credit that is granted at once: enough for a round trip of 3 ms at the full rate of 2.4 GB/s on
 * loopback. */
#define GRANT_BYTES (UINT64_C(8) * 1024 * 1024)
#define GRANT_STEP_BYTES (UINT64_C(1024) * 1024)
/* More is granted when it is such a part of the window.  Over a link the window has an eighth more
 * than a round trip needs, and what is not yet granted must be less. */
enum { GRANT_SHARE = 4, GRANT_SHARE_FAR = 16 };
/* Topics that lose something for one value when the job is full. */
#define PRESSURE_TOPICS_MAX 64

/* ---- creating a topic ------------------------------------------------------------------------ */

struct topic *topic_make(struct core *core, uint32_t id, struct party *writer, struct span name)
{
    struct job *job = writer->job;
    struct topic *topic = core_take(&core->topics, id);
    if (topic == NULL)
        return NULL;
    if (!span_keep(core, name, &topic->name) ||
        !name_map_put(&job->topics, topic->name, topic->id)) {
        span_drop(core, &topic->name);
        pool_give(&core->topics, topic);
        return NULL;
    }
    topic->number = topic->id;
    topic->job = job;
    topic->writer = writer;
    slot_table_init(&topic->slots, core->memory);
    list_init(&topic->requests);
    id_map_init(&topic->request_ids, core->memory);
    topic->is_replies = name_is_replies(name);
    list_init(&topic->routes);
    list_init(&topic->room_link);
    list_init(&topic->trim_link);
    list_init(&topic->account_trim_link);
    list_init(&topic->rate_link);
    lead_init(core, topic);
    list_push(&job->topic_list, &topic->job_link);
    list_push(&writer->topics, &topic->party_link);
    party_update_bare(writer);
    note_topic_known(core, topic);
    return topic;
}

static struct topic *topic_new(struct core *core, struct party *writer, struct span name)
{
    struct topic *topic = topic_make(core, 0, writer, name);
    if (topic == NULL)
        return NULL;
    LIST_EACH(link, &topic->job->sub_list) {
        struct sub *sub = LIST_OWNER(link, struct sub, job_link);
        if (sub_wants(sub, topic->name) && !sub_follow(core, sub, topic)) {
            note_topic_forgotten(core, topic);
            topic_free(core, topic);
            party_update_bare(writer);
            return NULL;
        }
    }
    return topic;
}

struct topic *topic_get(struct core *core, struct job *job, struct span name, enum wire_code *out)
{
    uint32_t id;
    if (name_map_get(&job->topics, name, &id))
        return pool_find(&core->topics, id);
    *out = CODE_EINVAL;
    if (!topic_is_valid(name))
        return NULL;
    *out = CODE_EFULL;
    struct party *writer = party_get(core, job, topic_party(name));
    return writer != NULL ? topic_new(core, writer, name) : NULL;
}

static void pop(struct core *core, struct topic *topic)
{
    struct slot_entry *entry = slot_table_at(&topic->slots, 0);
    uint64_t weight = topic_weight(core, entry);
    topic->bytes -= weight;
    topic->job->bytes -= weight;
    account_count(topic->writer->account, ACCESS_BYTES, -weight);
    if (slot_entry_end(entry) <= topic->done_floor) {
        topic->done_bytes -= weight;
        topic->done_slots -= entry->count;
    }
    if (slot_entry_end(entry) > topic->taken_floor)
        topic->untaken_bytes -= weight;
    if (topic->request_ids.count > 0)
        reply_forget(core, topic, entry);
    if (entry->state == SLOT_ERROR)
        entry_drop_error(core, topic, entry);
    entry_unref(core, entry);
    slot_table_pop(&topic->slots);
}

/* Called when the core is freed.  Before that, a topic goes only when all its slots are settled. */
static void drop_open(struct core *core, struct open_slot *open)
{
    if (open_slot_is_reply(open))
        reply_unlink(core, open);
    open_slot_forget(core, open);
}

static void drop_falling(struct core *core, struct topic *topic)
{
    if (topic->falling_count == 0)
        return;
    LIST_EACH(link, &core->falling) {
        struct need_head *head = LIST_OWNER(link, struct need_head, link);
        if (head->key.topic != topic->id)
            continue;
        failure_unref(core, pool_find(&core->failures, head->root));
        needs_release(&core->needs, head);
    }
    topic->falling_count = 0;
}

static void drop_slots(struct core *core, struct topic *topic)
{
    drop_falling(core, topic);
    while (topic->slots.count > 0) {
        const struct slot_entry *entry = slot_table_at(&topic->slots, 0);
        struct open_slot *open =
            entry->state == SLOT_OPEN ? pool_find(&core->open_slots, entry->ref) : NULL;
        pop(core, topic);
        if (open != NULL)
            drop_open(core, open);
    }
    slot_table_fini(&topic->slots);
    id_map_fini(&topic->request_ids);
}

static void leave_to_trim(struct topic *topic)
{
    list_remove(&topic->trim_link);
    list_remove(&topic->account_trim_link);
}

void topic_mark_opened(struct topic *topic, bool is_opened)
{
    if (is_opened != topic->is_opened)
        account_count(topic->writer->account, ACCESS_TOPICS, is_opened ? 1 : (uint64_t)-1);
    topic->is_opened = is_opened;
}

void topic_restart(struct core *core, struct topic *topic)
{
    if (topic->letters != NULL) {
        group_restart(core, topic->letters); /* which may grant credit */
        return;
    }
    list_remove(&topic->room_link);
    leave_to_trim(topic);
    account_leave_rate(core, topic);
    lead_forget(topic);
    lead_init(core, topic);
    LIST_EACH(link, &topic->routes)
        route_restart(core, LIST_OWNER(link, struct route, topic_link), topic->slots.next_seq);
    drop_slots(core, topic);
    topic->mark_count = 0;
    topic->begin_seq = 0;
    topic_mark_opened(topic, false);
    number_take_back(topic);
    topic->credit_used = 0;
    topic->credit_limit = 0;
    topic->needed_limit = 0;
    topic->rate_paid = 0;
    topic->taken_floor = 0;
    topic->done_floor = 0;
    topic->done_slots = 0;
    topic_hold_back(topic, false);
    topic->is_slow_told = false;
}

/* Called when its job goes.  No session is left to send anything to. */
void topic_free(struct core *core, struct topic *topic)
{
    LIST_EACH(link, &topic->routes)
        route_free(core, LIST_OWNER(link, struct route, topic_link));
    struct await *await = NULL;
    while ((await = await_unpromised(topic)) != NULL)
        await_free(core, await);
    drop_slots(core, topic);
    topic_mark_opened(topic, false);
    number_take_back(topic);
    name_map_remove(&topic->job->topics, topic->name);
    list_remove(&topic->job_link);
    list_remove(&topic->room_link);
    leave_to_trim(topic);
    account_leave_rate(core, topic);
    topic_hold_back(topic, false);
    lead_forget(topic);
    list_remove(&topic->party_link);
    if (topic->letters != NULL && topic->letters->dead == topic)
        topic->letters->dead = NULL;
    if (topic->letters != NULL && topic->letters->why == topic)
        topic->letters->why = NULL;
    span_drop(core, &topic->name);
    pool_give(&core->topics, topic);
}

/* ---- floors and trimming --------------------------------------------------------------------- */

/* Bytes and slots of the entries that end in (low, high]. */
static void sum_between(const struct core *core, const struct topic *topic, uint64_t low,
                        uint64_t high, uint64_t *out_bytes, uint64_t *out_slots)
{
    uint32_t index = 0;
    *out_bytes = 0;
    *out_slots = 0;
    if (low >= topic->slots.next_seq)
        return;
    (void)slot_table_find(&topic->slots, low, &index); /* a number below the oldest entry: begins at
                                                        * the oldest */
    for (; index < topic->slots.count; index++) {
        const struct slot_entry *entry = slot_table_at(&topic->slots, index);
        if (slot_entry_end(entry) > high)
            return;
        *out_bytes += topic_weight(core, entry);
        *out_slots += entry->count;
    }
}

void topic_recount(struct core *core, struct topic *topic)
{
    uint64_t slots;
    sum_between(core, topic, 0, topic->done_floor, &topic->done_bytes, &topic->done_slots);
    sum_between(core, topic, topic->taken_floor, UINT64_MAX, &topic->untaken_bytes, &slots);
}

/* A request is kept while its reply slot is open. */
static uint64_t request_floor(const struct topic *topic)
{
    if (list_is_empty(&topic->requests))
        return UINT64_MAX;
    return LIST_OWNER(topic->requests.next, struct slot_terms, request_link)->request_seq;
}

static void move_floors(struct core *core, struct topic *topic)
{
    uint64_t taken = topic->slots.next_seq;
    uint64_t done = topic->slots.next_seq;
    uint64_t sent = topic->slots.next_seq;
    uint64_t bytes, slots;
    uint64_t passed = 0;
    LIST_EACH(link, &topic->routes) {
        struct route *route = LIST_OWNER(link, struct route, topic_link);
        bool is_holding = sub_holds(route->sub);
        if (is_holding && route->taken_seq < taken)
            taken = route->taken_seq;
        if (is_holding && route->next_seq < sent && !sub_is_place(route->sub))
            sent = route->next_seq; /* values of a group wait for its members, and not for the
                                     * link */
        if (route_floor(route) < done)
            done = route_floor(route);
    }
    if (request_floor(topic) < done)
        done = request_floor(topic);
    if (taken > topic->taken_floor)
        lead_taken(topic);
    if (topic->lead.state != LEAD_GRANT)
        lead_look(core, topic, sent);
    if (taken > topic->taken_floor) {
        sum_between(core, topic, topic->taken_floor, taken, &bytes, &slots);
        topic->untaken_bytes -= bytes;
        passed = bytes;
    } else if (taken < topic->taken_floor) {
        sum_between(core, topic, taken, topic->taken_floor, &bytes, &slots);
        topic->untaken_bytes += bytes;
    }
    if (done > topic->done_floor) {
        sum_between(core, topic, topic->done_floor, done, &bytes, &slots);
        topic->done_bytes += bytes;
        topic->done_slots += slots;
    } else if (done < topic->done_floor) {
        sum_between(core, topic, done, topic->done_floor, &bytes, &slots);
        topic->done_bytes -= bytes;
        topic->done_slots -= slots;
    }
    topic->taken_floor = taken;
    topic->done_floor = done;
    if (passed > 0)
        lead_took(core, topic, passed);
}

/* Slots from here on are kept: a subscription that holds writers back needs them. */
static uint64_t held_floor(const struct topic *topic)
{
    uint64_t floor = topic->slots.next_seq;
    if (request_floor(topic) < floor)
        floor = request_floor(topic);
    LIST_EACH(link, &topic->routes) {
        const struct route *route = LIST_OWNER(link, struct route, topic_link);
        if (sub_holds(route->sub) && route_floor(route) < floor)
            floor = route_floor(route);
    }
    return floor;
}

struct keep {
    uint64_t done_bytes; /* limit for slots below done_floor */
    uint64_t done_slots;
    uint64_t lossy_bytes; /* limit for slots from done_floor on, if nobody holds the first */
    uint32_t entries;     /* newest entries that are kept in any case */
};

static bool may_go(const struct core *core, const struct topic *topic,
                   const struct slot_entry *entry, const struct keep *keep)
{
    if (entry->state == SLOT_OPEN || topic->falling_count > 0)
        return false;
    if (topic->letters != NULL && slot_entry_end(entry) > letter_floor(topic))
        return false;
    bool is_done = slot_entry_end(entry) <= topic->done_floor;
    if (is_done && (topic->done_bytes > keep->done_bytes || topic->done_slots > keep->done_slots ||
                    passing_is_cut(core, entry)))
        return true;
    if (topic->bytes - topic->done_bytes <= keep->lossy_bytes)
        return false;
    uint64_t held = held_floor(topic);
    return is_done ? held > topic->done_floor : slot_entry_end(entry) <= held;
}

static void trim(struct core *core, struct topic *topic, const struct keep *keep)
{
    uint32_t before = topic->slots.count;
    while (topic->slots.count > 0) {
        const struct slot_entry *oldest = slot_table_at(&topic->slots, 0);
        if (topic->slots.count <= keep->entries && !passing_is_cut(core, oldest))
            break; /* what is cut is of no use to who comes late */
        if (!may_go(core, topic, oldest, keep))
            break;
        pop(core, topic);
    }
    if (topic->slots.count < before)
        note_trimmed(core, topic);
}

void topic_cut(struct core *core, struct topic *topic, uint64_t seq)
{
    while (topic->slots.count > 0 && slot_entry_end(slot_table_at(&topic->slots, 0)) <= seq &&
           slot_table_at(&topic->slots, 0)->state != SLOT_OPEN)
        pop(core, topic);
    if (topic->slots.count == 0 && topic->slots.next_seq < seq)
        topic->slots.next_seq = seq; /* a snapshot does not have the entries before it */
}

/* Something of it may go.  Then it is in the lists of those that are looked at when there is no
 * room: however many idle topics there are, they are not in the way. */
static void mark_to_trim(const struct core *core, struct topic *topic)
{
    if (list_is_linked(&topic->trim_link) || topic->slots.count == 0)
        return;
    const struct slot_entry *oldest = slot_table_at(&topic->slots, 0);
    if (slot_entry_end(oldest) > topic->taken_floor || /* the usual reason, looked at first */
        !may_go(core, topic, oldest, &(struct keep){0}))
        return;
    list_push(&topic->job->to_trim, &topic->trim_link);
    list_remove(&topic->account_trim_link);
    list_push(&topic->writer->account->to_trim, &topic->account_trim_link);
}

/* Trims one of those; whether something of it went.  It is not among them any more. */
static bool trim_marked(struct core *core, struct topic *topic)
{
    uint32_t before = topic->slots.count;
    leave_to_trim(topic);
    trim(core, topic, &(struct keep){0});
    return topic->slots.count < before;
}

bool job_has_room(struct core *core, struct job *job, uint64_t bytes)
{
    int trimmed = 0;
    while (job->bytes + bytes > core->options.job_bytes_max && !list_is_empty(&job->to_trim) &&
           trimmed < PRESSURE_TOPICS_MAX)
        trimmed += trim_marked(core, LIST_OWNER(job->to_trim.next, struct topic, trim_link));
    return job->bytes + bytes <= core->options.job_bytes_max;
}

bool topic_writer_has_room(struct core *core, const struct topic *topic, uint64_t bytes)
{
    struct account *account = topic->writer->account;
    int trimmed = 0;
    while (!account_has_room(account, ACCESS_BYTES, bytes) && !list_is_empty(&account->to_trim) &&
           trimmed < PRESSURE_TOPICS_MAX)
        trimmed +=
            trim_marked(core, LIST_OWNER(account->to_trim.next, struct topic, account_trim_link));
    return account_has_room(account, ACCESS_BYTES, bytes);
}

/* Room in one topic is room in its job, for which writers of other topics may wait. */
static void feed(struct core *core, struct job *job)
{
    if (job->bytes >= job->room_waiters_bytes)
        return;
    job->room_waiters_bytes = job->bytes;
    LIST_EACH(link, &job->room_waiters)
        topic_grant(core, LIST_OWNER(link, struct topic, room_link), false);
}

void topic_update(struct core *core, struct topic *topic)
{
    if (core->is_replaying)
        return; /* later facts tell what followed */
    uint64_t done_before = topic->done_floor;
    move_floors(core, topic);
    if (topic->passing != NULL)
        passing_update(core, topic);
    if (topic->done_floor > done_before)
        topic_seek_room(core, topic->job);
    trim(core, topic,
         &(struct keep){.done_bytes = core->options.topic_keep_bytes,
                        .done_slots = core->options.topic_keep_slots,
                        .lossy_bytes = lead_whole(core, topic),
                        .entries = 1});
    mark_to_trim(core, topic);
    topic_grant(core, topic, false);
    feed(core, topic->job);
}

/* ---- credit ---------------------------------------------------------------------------------- */

static void tell_held_back(struct core *core, struct topic *topic)
{
    const struct route *slowest = NULL;
    LIST_EACH(link, &topic->routes) {
        const struct route *route = LIST_OWNER(link, struct route, topic_link);
        if (sub_holds(route->sub) && (slowest == NULL || route->taken_seq < slowest->taken_seq))
            slowest = route;
    }
    if (slowest == NULL)
        return; /* the job is full, and no reader is slow */
    struct text text;
    text_init(&text);
    text_add(&text, sub_is_place(slowest->sub) ? "the group " : "");
    text_add_span(&text,
                  sub_is_place(slowest->sub) ? slowest->sub->name : slowest->sub->party->name);
    text_add(&text, " holds the writer of ");
    text_add_span(&text, topic->name);
    text_add(&text, " back: ");
    text_add_number(&text, topic->untaken_bytes);
    text_add(&text, " bytes are not taken");
    tell(core, topic->job,
         &(struct tell){.name = EVENT_CONSUMER_SLOW,
                        .party = slowest->sub->party,
                        .incarnation = slowest->sub->party->incarnation,
                        .topic = topic,
                        .seq = slowest->taken_seq,
                        .count = topic->slots.next_seq - slowest->taken_seq,
                        .text = text.data});
}

static void mark_waits_for_room(struct topic *topic, bool is_waiting)
{
    struct job *job = topic->job;
    if (!is_waiting)
        list_remove(&topic->room_link);
    else if (!list_is_linked(&topic->room_link))
        list_push(&job->room_waiters, &topic->room_link);
    if (is_waiting && job->room_waiters_bytes < job->bytes)
        job->room_waiters_bytes = job->bytes;
}

/* A full job whose writer has no credit.  job_has_room() trims other topics for a value that comes;
 * without credit none comes.  So topic_relieve() trims them. */
static void mark_tight(struct core *core, const struct topic *topic, uint64_t job_left)
{
    bool is_full = job_left < JOB_SHARE || !lead_set_fits(topic, job_left);
    bool is_held = topic->untaken_bytes == 0 && topic_is_stopped(topic);
    if (is_full && is_held && !list_is_linked(&topic->job->tight_link))
        list_push(&core->tight, &topic->job->tight_link);
}

void topic_seek_room(struct core *core, struct job *job)
{
    if (!list_is_empty(&job->room_waiters) && !list_is_linked(&job->tight_link))
        list_push(&core->tight, &job->tight_link);
}

/* Whether there is more to be done for this job. */
static bool relieve(struct core *core, struct job *job)
{
    bool is_done = job_has_room(core, job, core->options.job_bytes_max / JOB_SHARE);
    feed(core, job);
    list_remove(&job->tight_link); /* feed() may have put it back; there is no more room until
                                    * something changes */
    return !is_done && !list_is_empty(&job->to_trim);
}

void topic_relieve(struct core *core)
{
    struct list rest;
    list_init(&rest);
    LIST_EACH(link, &core->tight) {
        list_remove(link);
        if (relieve(core, LIST_OWNER(link, struct job, tight_link)))
            list_push(&rest, link);
    }
    LIST_EACH(link, &rest) {
        list_remove(link);
        list_push(&core->tight, link);
        core->has_more = true;
    }
}

/* Half of the window or more is not received: tells once which reader is slow. */
static void look_who_is_slow(struct core *core, struct topic *topic)
{
    if (!topic->is_held_back) {
        topic_hold_back(topic, true);
        topic->held_back_ns = core_clock(core);
    }
    if (!topic->is_slow_told && lead_is_slow(core, topic)) {
        topic->is_slow_told = true;
        tell_held_back(core, topic);
    }
}

/* Each batch wakes threads of each reader.  So batches are larger with more readers.  For a single
 * reader they are small, so that a value behind them waits less. */
static uint64_t batch_bytes(const struct topic *topic)
{
    uint64_t bytes = 0;
    LIST_EACH(link, &topic->routes)
        if ((bytes += DEFAULT_BATCH_BYTES) >= LIMIT_BATCH_BYTES)
            break;
    return bytes > 0 ? bytes : DEFAULT_BATCH_BYTES;
}

void topic_grant(struct core *core, struct topic *topic, bool is_forced)
{
    uint64_t job_left = topic->job->bytes < core->options.job_bytes_max
                            ? core->options.job_bytes_max - topic->job->bytes
                            : 0;
    uint64_t whole = lead_window(core, topic);
    uint64_t window = whole;
    if (job_left / JOB_SHARE < window)
        window = job_left / JOB_SHARE;
    uint64_t room = topic->untaken_bytes < window ? window - topic->untaken_bytes : 0;
    uint64_t ahead = whole > GRANT_BYTES ? whole : GRANT_BYTES;
    uint64_t wanted = lead_wanted(topic, room < ahead ? room : ahead, job_left);
    uint64_t target = rate_target(core, topic, wanted);
    uint64_t share = window / (lead_is_far(topic) ? GRANT_SHARE_FAR : GRANT_SHARE);
    uint64_t step = share < GRANT_STEP_BYTES ? share : GRANT_STEP_BYTES;
    bool is_stopped = topic_is_stopped(topic);
    if (topic->untaken_bytes < window / 2) {
        topic_hold_back(topic, false);
        topic->is_slow_told = false;
    } else if (room == 0 && topic->is_opened &&
               (topic->passing != NULL ? passing_is_held(topic) : is_stopped))
        look_who_is_slow(core, topic);
    bool is_due =
        target > topic->credit_limit && (is_stopped || target - topic->credit_limit >= step);
    if (is_due) {
        if (room > 0)
            lead_granted(core, topic, room);
        rate_pay(topic, target);
        topic->credit_limit = target;
        note_credit(core, topic);
    }
    rate_wait(core, topic, wanted);
    mark_tight(core, topic, job_left);
    mark_waits_for_room(topic, topic_is_stopped(topic) && window < whole);
    if (topic_is_stopped(topic) || list_is_linked(&topic->lead.waits_link))
        lead_wait(core, topic);
    struct session *session = topic->writer->session;
    if ((is_due || is_forced) && topic->is_opened && session != NULL && session->control != 0) {
        struct msg *msg = effects_msg(core->effects, session->control, MSG_CREDIT);
        msg->as.credit.topic = topic->number;
        msg->as.credit.limit_bytes = topic->credit_limit;
        msg->as.credit.batch_bytes = lead_batch_bytes(topic, batch_bytes(topic));
    }
}

/* Which slots earlier incarnations of the writer have left. */
static void say_earlier(const struct topic *topic, struct msg_topic_opened *msg)
{
    msg->first_seq = topic_share_at(topic, topic->slots.next_seq).first_seq;
    if (msg->first_seq == 0)
        return;
    struct topic_share last = topic_share_at(topic, msg->first_seq - 1);
    msg->earlier = last.incarnation;
    msg->earlier_seq = last.first_seq;
    msg->ended_ns = last.ended_ns;
}

static void answer_open(struct core *core, struct session *session,
                        const struct msg_topic_open *asked, const struct topic *topic,
                        enum wire_code code, const char *type, const char *text)
{
    struct failure *failure = failure_of_answer(core, session, code, type, text);
    struct msg_topic_opened *msg =
        &effects_msg(core->effects, session->control, MSG_TOPIC_OPENED)->as.topic_opened;
    msg->request = asked->request;
    msg->code = code;
    msg->error = failure_span(failure);
    if (topic != NULL) {
        msg->topic = topic->number;
        msg->next_seq = topic->slots.next_seq;
        msg->used_bytes = topic->credit_used;
        msg->limit_bytes = topic->credit_limit;
        say_earlier(topic, msg);
    }
    failure_unref(core, failure);
}

/* Only topics that their writer opened are counted: others may wait for any name. */
static bool may_open(const struct session *session, struct span name)
{
    uint32_t id;
    return name_map_get(&session->job->topics, name, &id) ||
           account_has_room(session->party->account, ACCESS_TOPICS, 1);
}

/* The writer may write at once.  That much credit was promised to it with the number. */
static void grant_own(struct core *core, struct topic *topic)
{
    if (topic->credit_limit >= LIMIT_OWN_CREDIT_BYTES)
        return;
    topic->credit_limit = LIMIT_OWN_CREDIT_BYTES;
    note_credit(core, topic);
}

/* Opens the topic for its writer.  number: that the writer gives it, or 0.  NULL: it cannot; then
 * asked says why, by a code, a type of error and a sentence. */
struct opening {
    enum wire_code code;
    const char *type;
    const char *text;
};
static struct topic *open_new(struct core *core, struct session *session, struct span name,
                              uint32_t number, struct opening *why)
{
    enum wire_code code = CODE_OK;
    struct topic *topic =
        may_open(session, name) ? topic_get(core, session->job, name, &code) : NULL;
    bool is_new = topic == NULL || !topic->is_opened;
    if (is_new && !account_has_room(session->party->account, ACCESS_TOPICS, 1)) {
        *why = (struct opening){CODE_EFULL, ERROR_TYPE_QUOTA,
                                account_refuse(core, session->party->account, ACCESS_TOPICS)};
        return NULL;
    }
    if (topic == NULL) {
        bool is_name = code == CODE_EINVAL;
        *why = (struct opening){code, is_name ? ERROR_TYPE_NAME : ERROR_TYPE_FULL,
                                is_name ? "the topic's name is not well formed"
                                        : "the broker has no room for another topic"};
        return NULL;
    }
    topic->lead.writer_ns = 0; /* it may be on another link now */
    lead_measure(core, topic);
    topic_grant(core, topic, false); /* TOPIC_OPENED tells the writer of it */
    if (is_new) {
        if (number != 0)
            number_give(topic, number);
        topic_mark_opened(topic, true);
        note_topic_opened(core, topic);
    }
    if (number != 0)
        grant_own(core, topic);
    return topic;
}

/* ... number is the same for each of its frames and messages, and so is the answer. */
static struct topic *open_named(struct core *core, struct session *session, struct span name,
                                uint32_t number, struct opening *why)
{
    if (number != 0 && number_is_refused(session->party, number)) {
        *why = (struct opening){CODE_EFULL, ERROR_TYPE_FULL,
                                "the broker had no room for the topic when it was named first"};
        return NULL;
    }
    struct topic *topic = open_new(core, session, name, number, why);
    if (topic == NULL && number != 0)
        number_refuse(session->party, number);
    return topic;
}

const char *topic_number_complaint(const struct core *core, const struct session *session,
                                   struct span name, uint32_t number)
{
    uint32_t id;
    if (!number_is_own(session->party, number) || !topic_is_valid(name) ||
        !span_equal(topic_party(name), session->party->name))
        return "a topic that this party may not number";
    const struct topic *known = topic_numbered(core, number);
    const struct topic *topic =
        name_map_get(&session->job->topics, name, &id) ? pool_find(&core->topics, id) : NULL;
    bool is_same = known == NULL ? topic == NULL || !topic->is_opened : known == topic;
    return is_same ? NULL : "a topic with two numbers, or two topics with one";
}

void topic_name(struct core *core, struct session *session, struct span name, uint32_t number)
{
    struct opening why;
    if (topic_number_complaint(core, session, name, number) == NULL)
        (void)open_named(core, session, name, number, &why); /* or what is in it is refused */
}

const char *topic_open(struct core *core, struct session *session, const struct msg_topic_open *msg)
{
    struct opening why;
    if (topic_is_valid(msg->topic) && !span_equal(topic_party(msg->topic), session->party->name)) {
        answer_open(core, session, msg, NULL, CODE_EDENIED, ERROR_TYPE_NOT_YOURS,
                    "a topic is written by the party that its first level names");
        return NULL;
    }
    const char *complaint = msg->own_number != 0 ? topic_number_complaint(core, session, msg->topic,
                                                                          (uint32_t)msg->own_number)
                                                 : NULL;
    if (complaint != NULL)
        return complaint;
    struct topic *topic = open_named(core, session, msg->topic, (uint32_t)msg->own_number, &why);
    if (topic != NULL)
        lead_need(core, topic, msg->needed_bytes);
    if (topic != NULL)
        answer_open(core, session, msg, topic, CODE_OK, "", "");
    else
        answer_open(core, session, msg, NULL, why.code, why.type, why.text);
    return NULL;
}

/* ---- what is new ----------------------------------------------------------------------------- */

void topic_news(struct core *core, struct topic *topic, uint64_t first_seq, uint64_t end_seq)
{
    LIST_EACH(link, &topic->routes) {
        struct route *route = LIST_OWNER(link, struct route, topic_link);
        if (route->next_seq < end_seq && end_seq > first_seq)
            route_ready(core, route);
    }
}

bool topic_append_failed(struct core *core, struct topic *topic, uint64_t first_seq, uint64_t count,
                         struct failure *failure)
{
    if (!slot_table_reserve(&topic->slots, 1))
        return false;
    struct slot_entry *entry =
        slot_table_append(&topic->slots, (struct slot_entry){.first_seq = first_seq,
                                                             .count = (uint32_t)count,
                                                             .state = SLOT_ERROR,
                                                             .ref = failure_ref(failure)->id});
    entry_set_error(core, entry, failure);
    topic_account(topic, entry, 0, topic_weight(core, entry));
    note_appended(core, topic, entry);
    count_settled(core, topic->job, COUNT_ERROR, (uint32_t)count);
    await_promised(core, topic);
    topic_news(core, topic, first_seq, first_seq + count);
    return true;
}

void topic_begin(struct core *core, struct topic *topic, uint64_t seq)
{
    topic->slots.next_seq = seq;
    topic->begin_seq = seq;
    note_topic_begun(core, topic);
    LIST_EACH(link, &topic->routes) {
        struct route *route = LIST_OWNER(link, struct route, topic_link);
        if (route->next_seq < seq) {
            route->next_seq = seq;
            route->taken_seq = seq;
            route->acked_seq = seq;
        }
    }
}

void topic_mark_end(struct core *core, struct topic *topic, const struct end_mark *mark)
{
    if (topic->mark_count == END_MARKS) {
        for (uint32_t i = 1; i < END_MARKS; i++)
            topic->marks[i - 1] = topic->marks[i];
        topic->mark_count -= 1;
        LIST_EACH(link, &topic->routes) /* a route that waits at the forgotten mark goes on to the
                                         * next */
            route_ready(core, LIST_OWNER(link, struct route, topic_link));
    }
    topic->marks[topic->mark_count++] = *mark;
    note_end_marked(core, topic, mark);
}

uint64_t topic_end_of(const struct topic *topic, uint32_t incarnation)
{
    for (uint32_t i = 0; i < topic->mark_count; i++)
        if (topic->marks[i].incarnation == incarnation)
            return topic->marks[i].seq;
    /* An end so old that its mark is forgotten stands at the oldest mark that is kept. */
    bool is_forgotten = topic->mark_count == END_MARKS && topic->marks[0].incarnation > incarnation;
    return is_forgotten ? topic->marks[0].seq : 0;
}

struct topic_share topic_share_at(const struct topic *topic, uint64_t seq)
{
    struct topic_share share = {.first_seq = 0};
    for (uint32_t i = 0; i < topic->mark_count; i++) {
        const struct end_mark *mark = &topic->marks[i];
        if (seq < mark->seq) {
            bool is_forgotten = i == 0 && topic->mark_count == END_MARKS;
            share.incarnation = is_forgotten ? 0 : mark->incarnation;
            share.end_seq = mark->seq;
            share.ended_ns = mark->at_ns;
            return share;
        }
        share.first_seq = mark->seq;
    }
    share.incarnation = topic->writer->incarnation;
    share.end_seq = UINT64_MAX;
    return share;
}

void topic_keep(struct core *core, struct topic *topic, const struct slot_entry *values)
{
    struct slot_entry *entry = slot_table_append(&topic->slots, *values);
    uint64_t bytes = topic_weight(core, entry);
    entry_ref(core, entry);
    topic->credit_used += bytes;
    topic_account(topic, entry, 0, bytes);
    note_appended(core, topic, entry);
    if (topic->letters == NULL) /* the value of a letter was counted where it was written */
        count_settled(core, topic->job, COUNT_VALUE, values->count);
    await_promised(core, topic);
    topic_news(core, topic, values->first_seq, slot_entry_end(values));
}
