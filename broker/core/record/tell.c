/* SPDX-License-Identifier: MPL-2.0 */
/* tell.c -- the control topic: events as they happen, the newest kept, taps that follow.
 *
 * A tap has a window, which follows its link; a tap that does not read is sent no more than that.
 * When it reads again, it is sent the events that it has not had, if they are few.  If it has
 * fallen too far behind, it is told which ids it missed, and goes on with the next event.  Nothing
 * waits for a tap. */
#include "broker/core/record/tell.h"

#include "broker/core/record/failure.h"
#include "broker/core/record/note.h"
#include "broker/core/record/text.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/event.h"
#include "broker/core/tables/storms.h"
#include "broker/core/tables/timers.h"
#include "libbus/base/must.h"

#include <string.h>

#define EVENT_ROOM_FIRST 64
/* Bytes that an event counts besides its texts and its error.  It is a constant, so that a replay
 * by another build comes to the same sum. */
#define EVENT_COST_BYTES 72

/* ---- the ring of events ---------------------------------------------------------------------- */

static struct job_event *event_at(const struct job *job, uint64_t id)
{
    return &job->events[id & (job->event_room - 1)];
}

static size_t texts_bytes(const struct job_event *event)
{
    return (size_t)event->name_bytes + event->party_bytes + event->topic_bytes + event->text_bytes +
           event->first_bytes + event->last_bytes;
}

static uint64_t event_weight(const struct job_event *event)
{
    return EVENT_COST_BYTES + texts_bytes(event) +
           (event->failure != NULL ? event->failure->byte_count : 0);
}

static void event_drop_oldest(struct core *core, struct job *job)
{
    struct job_event *event = event_at(job, job->event_first);
    job->event_bytes -= event_weight(event);
    event->text->next = core->unused_texts;
    core->unused_texts = event->text;
    failure_unref(core, event->failure);
    job->event_first += 1;
}

void tell_free_unused(struct core *core)
{
    while (core->unused_texts != NULL) {
        struct event_text *text = core->unused_texts;
        core->unused_texts = text->next;
        memory_give(core->memory, text, sizeof *text + text->bytes);
    }
}

static bool reserve_event(struct core *core, struct job *job)
{
    uint64_t count = job->event_next - job->event_first;
    if (count < job->event_room)
        return true;
    if (job->event_room == LIMIT_EVENTS) {
        event_drop_oldest(core, job);
        return true;
    }
    uint32_t room = job->event_room ? job->event_room * 2 : EVENT_ROOM_FIRST;
    struct job_event *events = memory_take(core->memory, room * sizeof *events);
    if (events == NULL)
        return false;
    for (uint64_t id = job->event_first; id < job->event_next; id++)
        events[id & (room - 1)] = *event_at(job, id);
    memory_give(core->memory, job->events, job->event_room * sizeof *events);
    job->events = events;
    job->event_room = room;
    return true;
}

/* One text behind the other; SPAN_NONE appends nothing. */
static char *append_text(char *at, struct span text)
{
    if (text.bytes > 0)
        memcpy(at, text.data, text.bytes);
    return at + text.bytes;
}

static bool keep_texts(struct core *core, struct job_event *event, const struct tell_event *what)
{
    event->name_bytes = (uint32_t)what->name.bytes;
    event->party_bytes = (uint32_t)what->party.bytes;
    event->topic_bytes = (uint32_t)what->topic.bytes;
    event->text_bytes = (uint32_t)what->text.bytes;
    event->first_bytes = (uint32_t)what->first_error.bytes;
    event->last_bytes = (uint32_t)what->last_error.bytes;
    size_t bytes = texts_bytes(event);
    event->text = memory_take(core->memory, sizeof *event->text + bytes);
    if (event->text == NULL)
        return false;
    event->text->bytes = bytes;
    char *at = append_text(event->text->at, what->name);
    at = append_text(at, what->party);
    at = append_text(at, what->topic);
    at = append_text(at, what->text);
    at = append_text(at, what->first_error);
    (void)append_text(at, what->last_error); /* the last */
    return true;
}

/* Serves the taps of this job at the end of the step. */
static void mark_told(struct core *core, struct job *job)
{
    if (!list_is_linked(&job->tell_link))
        list_push(&core->told, &job->tell_link);
}

/* A log line about this incarnation.  Principal and connection are those of the party's newest one:
 * of an older one they are not known any more. */
static struct effect_log *log_of_party(struct core *core, const struct party *party,
                                       uint32_t incarnation)
{
    bool is_newest = party->incarnation == incarnation;
    conn_id conn = is_newest && party->session != NULL ? party->session->control : 0;
    struct effect_log *log = effects_log(core->effects, conn);
    struct span principal = is_newest ? party->account->name : SPAN_NONE;
    log->incarnation = incarnation;
    must(principal.bytes < sizeof log->principal);
    if (principal.bytes > 0)
        memcpy(log->principal, principal.data, principal.bytes);
    return log;
}

/* Logs events about parties and connections; slots are too many for a log.  The effect borrows the
 * texts of the kept event, because the caller's texts may be gone when the effect is carried
 * out. */
static void log_event(struct core *core, const struct job *job, const struct tell *what)
{
    if (what->is_logged || (what->topic != NULL && what->party == NULL))
        return;
    if (span_equal(span_text(what->name), span_text(EVENT_SLOT_FAILED)))
        return;
    const struct job_event *kept = event_at(job, job->event_next - 1);
    size_t before = (size_t)kept->name_bytes + kept->party_bytes + kept->topic_bytes;
    struct effect_log *log = what->party != NULL
                                 ? log_of_party(core, what->party, what->incarnation)
                                 : effects_log(core->effects, 0);
    log->name = span_text(what->name);
    log->job = job->name;
    log->party = span_of(kept->text->at + kept->name_bytes, kept->party_bytes);
    log->count = what->count;
    log->text = span_of(kept->text->at + before, kept->text_bytes);
    log->error = what->failure != NULL ? failure_id(what->failure) : SPAN_NONE;
}

bool tell_keep(struct core *core, struct job *job, const struct tell_event *what)
{
    struct job_event event = {.id = what->id,
                              .at_ns = what->at_ns,
                              .broker_ns = what->broker_ns,
                              .incarnation = what->incarnation,
                              .seq = what->seq,
                              .count = what->count,
                              .is_late = what->is_late,
                              .step = core->steps,
                              .bytes_before = job->event_bytes_ever};
    if (!reserve_event(core, job) || !keep_texts(core, &event, what))
        return false;
    event.failure = failure_ref(what->failure);
    if (job->event_first == job->event_next)
        job->event_first = what->id;
    job->event_next = what->id + 1;
    *event_at(job, event.id) = event;
    job->event_bytes += event_weight(&event);
    job->event_bytes_ever += event_weight(&event);
    note_event(core, job, &event);
    while (job->event_bytes > LIMIT_EVENT_BYTES && job->event_first + 1 < job->event_next)
        event_drop_oldest(core, job);
    return true;
}

void tell(struct core *core, struct job *job, const struct tell *what)
{
    struct tell_event event = {
        .id = job->event_next,
        .at_ns = core->wall_ns,
        .broker_ns = core->now_ns,
        .name = span_text(what->name),
        .party = what->party != NULL ? what->party->name : SPAN_NONE,
        .topic = what->topic != NULL ? what->topic->name : SPAN_NONE,
        .text = span_text(what->text),
        .first_error = what->first != NULL ? failure_id(what->first) : SPAN_NONE,
        .last_error =
            what->first != NULL && what->failure != NULL ? failure_id(what->failure) : SPAN_NONE,
        .incarnation = what->incarnation,
        .seq = what->seq,
        .count = what->count,
        .failure = what->failure,
        .is_late = what->is_late};
    if (!tell_keep(core, job, &event))
        return; /* without memory an event is lost, but no slot's outcome is */
    mark_told(core, job);
    log_event(core, job, what);
}

/* ---- storms ---------------------------------------------------------------------------------- */

static void storm_hold(struct core *core, struct storm *storm, const struct tell *what)
{
    if (storm->held == 0) {
        storm->seq = what->seq;
        storm->first = what->failure != NULL ? failure_ref(what->failure)->id : 0;
    }
    uint32_t before = storm->last;
    storm->last = what->failure != NULL ? failure_ref(what->failure)->id : 0;
    failure_unref(core, pool_find(&core->failures, before));
    storm->held += what->count > 0 ? what->count : 1;
}

void tell_like(struct core *core, struct job *job, enum storm_event event, const struct tell *what)
{
    bool has_type = event == STORM_SLOT_FAILED && what->failure != NULL;
    struct storm_key key = {.event = event,
                            .party = what->party->id,
                            .incarnation = what->incarnation,
                            .topic = what->topic != NULL ? what->topic->id : 0,
                            .like = has_type ? failure_type(what->failure) : span_text(what->text)};
    struct storm *storm = storms_find(&job->storms, &key);
    if (storm != NULL && job->storms_timer.place == 0)
        timers_set(&core->timers, &job->storms_timer, core_clock(core) + LIMIT_STORM_MS * MS_NS);
    if (storm == NULL || storm_tells(storm, core->options.storm_told_max))
        tell(core, job, what);
    else
        storm_hold(core, storm, what);
}

/* One event for all that is held. */
static void tell_held(struct core *core, struct job *job, struct storm *storm)
{
    static const char *const names[STORM_EVENT_COUNT] = {EVENT_SLOT_FAILED, EVENT_REFUSED};
    struct failure *first = pool_find(&core->failures, storm->first);
    struct failure *last = pool_find(&core->failures, storm->last);
    struct party *party = pool_find(&core->parties, storm->party);
    struct text text;
    text_init(&text);
    if (party != NULL && party->incarnation != storm->incarnation)
        party = NULL; /* that incarnation is forgotten */
    if (storm->party == 0)
        text_add(&text, "of several parties or topics");
    else if (storm->event == STORM_REFUSED)
        text_add_span(&text, span_of(storm->like, storm->like_bytes));
    tell(core, job,
         &(struct tell){.name = names[storm->event],
                        .party = party,
                        .incarnation = storm->incarnation,
                        .topic = pool_find(&core->topics, storm->topic),
                        .seq = storm->seq,
                        .count = storm->held,
                        .text = text.data,
                        .failure = last,
                        .first = first != last ? first : NULL});
    failure_unref(core, first);
    failure_unref(core, last);
    storm->held = 0;
    storm->first = 0;
    storm->last = 0;
}

void tell_storms(struct core *core, struct job *job, const struct party *party)
{
    for (uint32_t i = 0; i < STORMS_ROOM; i++) {
        struct storm *storm = storms_at(&job->storms, i);
        bool is_over = storm != NULL && (party == NULL || storm->party == party->id);
        bool may_be_of = storm != NULL && storm->party == 0; /* of several, that one among them */
        if (!is_over && !may_be_of)
            continue;
        if (storm->held > 0)
            tell_held(core, job, storm);
        storm->is_used = !is_over;
    }
}

void tell_storms_again(struct core *core, struct job *job)
{
    bool is_any = false;
    for (uint32_t i = 0; i < STORMS_ROOM; i++) {
        struct storm *storm = storms_at(&job->storms, i);
        if (storm == NULL)
            continue;
        storm->is_used = storm->held > 0; /* quiet: it is over */
        is_any = is_any || storm->is_used;
        if (storm->held > 0)
            tell_held(core, job, storm);
    }
    if (is_any)
        timers_set(&core->timers, &job->storms_timer, core_clock(core) + LIMIT_STORM_MS * MS_NS);
}

static void forget_storms(struct core *core, struct job *job)
{
    for (uint32_t i = 0; i < STORMS_ROOM; i++) {
        const struct storm *storm = storms_at(&job->storms, i);
        if (storm == NULL)
            continue;
        failure_unref(core, pool_find(&core->failures, storm->first));
        failure_unref(core, pool_find(&core->failures, storm->last));
    }
    storms_fini(&job->storms);
}

/* ---- complaints ------------------------------------------------------------------------------ */

void complaints_init(struct complaints *complaints, struct job *job, struct party *party)
{
    complaints->job = job;
    complaints->party = party;
    complaints->timer.kind = TIMER_COMPLAINTS;
}

static void complain_to(struct core *core, struct job *job, const struct complaints *complaints)
{
    tell(core, job,
         &(struct tell){.name = EVENT_REFUSED,
                        .party = complaints->party,
                        .incarnation = complaints->incarnation,
                        .count = complaints->count,
                        .text = complaints->text.data});
}

/* Where there is an access file, a stranger writes into no job's history. */
static void log_complaints(struct core *core, const struct complaints *complaints)
{
    struct effect_log *log = effects_log(core->effects, complaints->conn);
    log->name = span_text(EVENT_REFUSED);
    log->count = complaints->count;
    log->text = span_of(complaints->text.data, complaints->text.bytes);
}

/* One event stands for all that came since the last one. */
static void complain(struct core *core, struct complaints *complaints)
{
    struct job *job = NULL;
    if (complaints->job != NULL)
        complain_to(core, complaints->job, complaints);
    else if (core->access != NULL)
        log_complaints(core, complaints);
    else
        while ((job = pool_next(&core->jobs, job != NULL ? job->id : 0)) != NULL)
            complain_to(core, job, complaints);
    complaints->count = 0;
    timers_set(&core->timers, &complaints->timer, core_clock(core) + complaints->period_ms * MS_NS);
}

void tell_complaint(struct core *core, struct complaints *complaints, conn_id conn,
                    uint32_t incarnation, const char *text)
{
    complaints->count += 1;
    complaints->conn = conn;
    complaints->incarnation = incarnation;
    text_init(&complaints->text);
    text_add(&complaints->text, text);
    if (complaints->timer.place > 0)
        return;
    complaints->period_ms = LIMIT_COMPLAINTS_MS_MIN;
    complain(core, complaints);
}

void tell_complaints(struct core *core, struct complaints *complaints)
{
    if (complaints->count == 0)
        return; /* it is over: the next one is told at once */
    complaints->period_ms *= 2;
    if (complaints->period_ms > LIMIT_COMPLAINTS_MS_MAX)
        complaints->period_ms = LIMIT_COMPLAINTS_MS_MAX;
    complain(core, complaints);
}

void tell_journal_to(struct core *core, struct job *job)
{
    static const char *const names[HEALTH_COUNT] = {EVENT_JOURNAL_WELL, EVENT_JOURNAL_FULL,
                                                    EVENT_JOURNAL_REFUSED};
    const struct journal_word *word = &core->journal;
    if (word->health != HEALTH_WELL || word->told != HEALTH_WELL)
        tell(core, job,
             &(struct tell){
                 .name = names[word->health], .text = word->text.data, .is_logged = true});
}

/* Tells all jobs the state of the journal, unless they know it.  Then nothing is told for a
 * while. */
static void tell_health(struct core *core)
{
    struct journal_word *word = &core->journal;
    struct job *job = NULL;
    while (word->health != word->told &&
           (job = pool_next(&core->jobs, job != NULL ? job->id : 0)) != NULL)
        tell_journal_to(core, job);
    word->told = word->health;
    word->has_changed = false;
    timers_set(&core->timers, &word->timer, core_clock(core) + word->period_ms * MS_NS);
}

void tell_journal(struct core *core, enum journal_health health, const char *text)
{
    struct journal_word *word = &core->journal;
    text_init(&word->text);
    text_add(&word->text, text);
    if (health == word->health)
        return;
    word->health = health;
    word->has_changed = true;
    if (word->timer.place > 0)
        return;
    word->period_ms = LIMIT_COMPLAINTS_MS_MIN;
    tell_health(core);
}

void tell_journal_again(struct core *core)
{
    struct journal_word *word = &core->journal;
    if (!word->has_changed)
        return; /* it has settled: the next change is told at once */
    word->period_ms *= 2;
    if (word->period_ms > LIMIT_COMPLAINTS_MS_MAX)
        word->period_ms = LIMIT_COMPLAINTS_MS_MAX;
    tell_health(core);
}

void tell_forget(struct core *core, struct job *job)
{
    forget_storms(core, job);
    while (job->event_first < job->event_next)
        event_drop_oldest(core, job);
    memory_give(core->memory, job->events, job->event_room * sizeof *job->events);
    job->events = NULL;
    job->event_room = 0;
}

/* ---- taps ------------------------------------------------------------------------------------ */

static void send_event(struct core *core, struct session *session, const struct job_event *event)
{
    struct msg_event *msg = &effects_msg(core->effects, session->control, MSG_EVENT)->as.event;
    msg->id = event->id;
    msg->at_ns = event->at_ns;
    const char *at = event->text->at;
    msg->name = span_of(at, event->name_bytes);
    at += event->name_bytes;
    msg->party = span_of(at, event->party_bytes);
    msg->incarnation = event->incarnation;
    at += event->party_bytes;
    msg->topic = span_of(at, event->topic_bytes);
    msg->seq = event->seq;
    msg->count = event->count;
    at += event->topic_bytes;
    msg->text = span_of(at, event->text_bytes);
    at += event->text_bytes;
    msg->first_error = span_of(at, event->first_bytes);
    at += event->first_bytes;
    msg->last_error = span_of(at, event->last_bytes);
    msg->error = failure_span(event->failure);
    msg->is_durable = event->step <= core->kept;
    msg->is_late = event->is_late;
}

/* A tap that reads history may be behind by any number of events.  A tap that follows wants the
 * present. */
static bool is_too_far_behind(const struct job *job, const struct session *session)
{
    if (!session->tap_is_live)
        return false;
    uint64_t next = session->tap_next > job->event_first ? session->tap_next : job->event_first;
    return job->event_next - session->tap_next > LIMIT_TAP_BEHIND ||
           job->event_bytes_ever - event_at(job, next)->bytes_before > LIMIT_TAP_BEHIND_BYTES;
}

/* The bytes of all events of the job before this one, as far as it is kept. */
static uint64_t bytes_before(const struct job *job, uint64_t id)
{
    if (id < job->event_first)
        id = job->event_first;
    return id < job->event_next ? event_at(job, id)->bytes_before : job->event_bytes_ever;
}

/* Its window begins anew there. */
static void tap_begin(struct session *session, uint64_t next_id)
{
    const struct job *job = session->job;
    session->tap_next = next_id;
    session->tap_taken = next_id - 1;
    session->tap_begin = job != NULL ? bytes_before(job, next_id) : 0;
    session->tap_taken_bytes = session->tap_begin;
    flow_window_restart(&session->tap_flow, 0);
    flow_window_set_trip(&session->tap_flow, session->trip_ns); /* it begins with its floor */
}

/* The tap skips the events before next_id, and gets the range of ids that it missed. */
static void skip_to(struct core *core, struct session *session, uint64_t next_id)
{
    struct msg *msg = effects_msg(core->effects, session->control, MSG_MISSED);
    msg->as.missed.first_id = session->tap_next;
    msg->as.missed.last_id = next_id - 1;
    core->counts.tap_missed += next_id - session->tap_next;
    tap_begin(session, next_id);
}

static bool tap_has_room(const struct session *session)
{
    const struct flow_window *flow = &session->tap_flow;
    uint64_t under_way = session->tap_next - session->tap_taken - 1;
    if (!flow->is_far)
        return under_way < session->tap_window && under_way < DEFAULT_TAP_WINDOW;
    uint64_t bytes = bytes_before(session->job, session->tap_next) - session->tap_taken_bytes;
    return under_way < session->tap_window && (under_way == 0 || bytes < flow_window_bytes(flow));
}

static void tap_send(struct core *core, struct session *session)
{
    const struct job_event *event = event_at(session->job, session->tap_next);
    uint64_t begin = event->bytes_before - session->tap_begin;
    uint64_t bytes = event_weight(event);
    send_event(core, session, event);
    flow_window_piece(&session->tap_flow, bytes);
    flow_window_sent(&session->tap_flow, begin, begin + bytes, core_clock(core));
    session->tap_next += 1;
}

static void pump_tap(struct core *core, struct session *session)
{
    struct job *job = session->job;
    if (session->control == 0 || session->tap_next == job->event_next || !tap_has_room(session)) {
        flow_window_stopped(&session->tap_flow, session->tap_next < job->event_next);
        return;
    }
    if (is_too_far_behind(job, session))
        skip_to(core, session, job->event_next);
    else if (session->tap_next < job->event_first)
        skip_to(core, session, job->event_first);
    while (session->tap_next < job->event_next && tap_has_room(session))
        tap_send(core, session);
    flow_window_stopped(&session->tap_flow, session->tap_next < job->event_next);
    if (session->tap_next == job->event_next)
        session->tap_is_live = true;
}

void tell_pump(struct core *core)
{
    LIST_EACH(told, &core->told) {
        struct job *job = LIST_OWNER(told, struct job, tell_link);
        list_remove(told);
        LIST_EACH(link, &job->taps)
            pump_tap(core, LIST_OWNER(link, struct session, tap_link));
    }
}

void tell_tap(struct core *core, struct session *session, const struct msg_tap *msg)
{
    struct job *job = session->job;
    uint64_t next = job != NULL ? job->event_next : 1;
    session->tap_window = msg->window > 0 ? msg->window : 1;
    uint64_t first = msg->from_id < next ? msg->from_id : next;
    if (msg->from_id <= 1) /* "the oldest kept" misses nothing */
        first = job != NULL ? job->event_first : 1;
    tap_begin(session, first);
    session->tap_is_live = session->tap_next == next;
    if (!list_is_linked(&session->tap_link))
        list_push(job != NULL ? &job->taps : &core->early_taps, &session->tap_link);
    if (job != NULL)
        mark_told(core, job);
}

const char *tell_taken(struct core *core, struct session *session, uint64_t id)
{
    if (id >= session->tap_next && session->tap_window > 0)
        return "a tap took what it was not sent";
    if (session->job == NULL)
        return NULL;
    if (id > session->tap_taken) {
        session->tap_taken = id;
        session->tap_taken_bytes = bytes_before(session->job, id + 1);
        flow_window_arrived(&session->tap_flow, session->tap_taken_bytes - session->tap_begin,
                            core_clock(core));
    }
    mark_told(core, session->job);
    return NULL;
}
