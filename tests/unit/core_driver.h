/* SPDX-License-Identifier: MPL-2.0 */
/* core_driver.h -- for tests: the broker's core in conversations, read as transcripts: what is put
 * in by hand, and line by line what comes out.
 *
 * Connections are numbered as people: control 1 and data 11 are alice's, 2 and 12 bob's, and so on.
 * A line is "conn < what".
 *
 * Beside the core stands a second one, which is told nothing but the facts: after every step both
 * must have the same state (broker/design/facts.md). */
#ifndef TESTS_UNIT_CORE_DRIVER_H
#define TESTS_UNIT_CORE_DRIVER_H

#include "broker/core/core.h"
#include "broker/core/tables/verdict.h"
#include "libbus/wire/error.h"
#include "tests/lib/core_census.h"
#include "tests/lib/core_dump.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS INT64_C(1000000)

static struct memory memory;
static struct core *core;
static struct core_options options;
static struct memory effects_memory; /* apart: effects cannot fail, the core's memory may */
static struct effects effects;
static int64_t now_ns;
static int64_t wall_ahead_ns; /* of the clock for people */
static uint64_t dice;
static char said[1 << 20];
static size_t said_bytes;
static char logged[400];             /* the last line of the log */
enum { CONNS_MAX = 96 };             /* numbers of connections that tests choose are below */
static uint32_t speakers[CONNS_MAX]; /* whose connection it is, in options.access */
static uint64_t tokens[CONNS_MAX];
static uint64_t numbers[CONNS_MAX];    /* of control messages */
static uint64_t frames[CONNS_MAX];     /* of data */
static uint32_t topic_number;          /* of the last TOPIC_OPENED */
static uint64_t event_next;            /* as the last WELCOME said */
static struct msg_welcome welcomed;    /* the last WELCOME */
static uint64_t event_bytes;           /* texts and error of the last event told */
static int64_t references;             /* on payloads */
static uint64_t steps;                 /* so far */
static uint64_t kept;                  /* ... whose facts are said to be in the journal */
static uint64_t outlook;               /* of the newest VERDICT */
static uint64_t data_bytes[CONNS_MAX]; /* sent to this client, as its last ECHO said */
static uint64_t durability;            /* as the last WELCOME, ACCEPTED or CHUNKED said */
static bool is_alone;                  /* there is too much to compare after every step */
static const char *job_name = "job";
static uint32_t attempt = 1; /* that frames are of */

/* What was told as facts. */
static char error_message[512]; /* of the error that was said last */
static uint32_t error_causes;   /* of the same */
static struct record {
    uint8_t *bytes;
    uint32_t count;
    payload_id payload;
} * journal;
static uint32_t journal_count, journal_room;
static bool was_told[FACT_TYPE_COUNT];
static struct core_moment clocks_seen; /* in the facts that the last crash() read */
static int64_t reading_ms;             /* it takes a broker so long to read its journal */
static struct memory shadow_memory;
static struct core *shadow;
static struct effects shadow_effects;
static struct core_dump is, should;

static bool is_ending; /* in fini: no assertion of Criterion's counts there */

/* Fails the test.  Criterion looks away once the test itself is over: then only an abort tells. */
static inline void fail_test(const char *format, ...)
{
    char text[1500];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list); /* may be cut */
    va_end(list);
    if (!is_ending)
        cr_assert_fail("%s", text);
    (void)fprintf(stderr, "at the end of the test: %s\n", text);
    abort();
}

static inline void say(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    said_bytes += (size_t)vsnprintf(said + said_bytes, sizeof said - said_bytes, format, list);
    va_end(list);
}

static inline void say_error(struct span bytes)
{
    struct error_record records[LIMIT_ERROR_RECORDS];
    uint32_t count;
    if (bytes.bytes == 0)
        return;
    cr_assert_eq(error_decode(bytes, records, LIMIT_ERROR_RECORDS, &count), WIRE_OK);
    say(" (%s of %.*s)", error_kind_name(records[0].kind), (int)records[0].party.bytes,
        (const char *)records[0].party.data);
    error_causes = records[0].cause_count;
    snprintf(error_message, sizeof error_message, "%.*s", (int)records[0].message.bytes,
             (const char *)records[0].message.data);
}

/* Who waits for whom: edges are said by the names of the nodes that came before them. */
enum { WHY_NAMES_MAX = 64 };
static char why_names[WHY_NAMES_MAX][64];

static inline void say_why_node(conn_id conn, const struct msg_why_node *node)
{
    static const char *const kinds[] = {"party",    "barrier", "group", "job", "reader",
                                        "requests", "room",    "slot",  "rate"};
    char *name = why_names[node->node % WHY_NAMES_MAX];
    bool is_numbered = node->kind == 7;
    (void)snprintf(name, sizeof why_names[0], "%.*s", (int)node->name.bytes,
                   (const char *)node->name.data); /* short in tests */
    if (node->kind != 0)
        (void)snprintf(name, sizeof why_names[0], is_numbered ? "%s %.*s#%d" : "%s %.*s",
                       kinds[node->kind], (int)node->name.bytes, (const char *)node->name.data,
                       (int)node->seq);
    say("%u < %s: %.*s", conn, name, (int)node->state.bytes, (const char *)node->state.data);
    if (node->open > 0)
        say(" owes %u", (unsigned)node->open);
    if (node->where.bytes > 0)
        say(" at '%.*s'", (int)node->where.bytes, (const char *)node->where.data);
    if (node->kind != 0 && !is_numbered)
        say(" x%u", (unsigned)node->count);
}

static inline void say_why_edge(conn_id conn, const struct msg_why_edge *edge)
{
    static const char *const kinds[] = {
        "slot",   "unpromised", "reply",  "group", "busy", "unserved", "barrier", "missing",
        "credit", "room",       "gather", "read",  "owed", "needed",   "members", "rate"};
    say("%u < %s -> %s: %s x%u %.*s#%u since %u ms%s", conn, why_names[edge->from % WHY_NAMES_MAX],
        why_names[edge->to % WHY_NAMES_MAX], kinds[edge->kind], (unsigned)edge->count,
        (int)edge->topic.bytes, (const char *)edge->topic.data, (unsigned)edge->seq,
        (unsigned)edge->since_ms, edge->is_said ? ", blocked" : "");
}

/* What would follow from a loss. */
static struct msg_without_end without_told;

static inline void say_without_row(conn_id conn, const struct msg_without_row *row)
{
    static const char *const kinds[] = {"owed",   "needs", "reply", "replaced", "party", "group",
                                        "reader", "again", "dead",  "empty",    "unread"};
    say("%u < %s %.*s#%u x%u", conn, kinds[row->kind], (int)row->name.bytes,
        (const char *)row->name.data, (unsigned)row->seq, (unsigned)row->count);
}

static inline void say_without_end(conn_id conn, const struct msg_without_end *end)
{
    static const char *const outlooks[] = {"goes on", "completes", "waits", "fails"};
    without_told = *end;
    say("%u < without %u %.*s", conn, (unsigned)end->code, (int)end->type.bytes,
        (const char *)end->type.data);
    if (end->code == CODE_OK)
        say("%s, %u of %u", outlooks[end->outlook], (unsigned)end->present, (unsigned)end->min);
}

static inline void say_access_msg(conn_id conn, const struct msg *msg)
{
    switch (msg->type) {
    case MSG_WHO_ROW:
        say("%u < who %.*s: %.*s/%.*s/%u, role %u, %u connections, %u, %u ms", conn,
            (int)msg->as.who_row.name.bytes, (const char *)msg->as.who_row.name.data,
            (int)msg->as.who_row.job.bytes, (const char *)msg->as.who_row.job.data,
            (int)msg->as.who_row.party.bytes, (const char *)msg->as.who_row.party.data,
            (unsigned)msg->as.who_row.incarnation, (unsigned)msg->as.who_row.role,
            (unsigned)msg->as.who_row.connections, (unsigned)msg->as.who_row.connection,
            (unsigned)msg->as.who_row.connected_ms);
        break;
    case MSG_WHO_END: say("%u < who, next %u", conn, (unsigned)msg->as.who_end.next); break;
    case MSG_RELOADED:
        say("%u < reloaded %u %.*s, revoked %u", conn, (unsigned)msg->as.reloaded.code,
            (int)msg->as.reloaded.type.bytes, (const char *)msg->as.reloaded.type.data,
            (unsigned)msg->as.reloaded.revoked);
        break;
    default: say("%u < %s", conn, msg_name(msg->type)); break;
    }
}

static inline void say_job_msg(conn_id conn, const struct msg *msg)
{
    switch (msg->type) {
    case MSG_MEMBERSHIP:
        say("%u < epoch %u: rank %u of %u, attempt %u", conn, (unsigned)msg->as.membership.epoch,
            (unsigned)msg->as.membership.rank, (unsigned)msg->as.membership.world_size,
            (unsigned)msg->as.membership.attempt);
        break;
    case MSG_JOB_DONE:
        say("%u < done %u %.*s", conn, (unsigned)msg->as.job_done.code,
            (int)msg->as.job_done.type.bytes, (const char *)msg->as.job_done.type.data);
        break;
    case MSG_TASK_OVER:
        say("%u < over: sub %u task %u#%llu, delivery %u", conn, (unsigned)msg->as.task_over.sub,
            (unsigned)msg->as.task_over.topic, (unsigned long long)msg->as.task_over.seq,
            (unsigned)msg->as.task_over.delivery);
        say_error(msg->as.task_over.error);
        break;
    case MSG_DEAD_ROW:
        say("%u < letter %llu: %.*s#%llu x%u, %u bytes%s: %.*s", conn,
            (unsigned long long)msg->as.dead_row.number, (int)msg->as.dead_row.topic.bytes,
            (const char *)msg->as.dead_row.topic.data, (unsigned long long)msg->as.dead_row.seq,
            (unsigned)msg->as.dead_row.deliveries, (unsigned)msg->as.dead_row.value_bytes,
            msg->as.dead_row.is_replayed ? ", again" : "", (int)msg->as.dead_row.type.bytes,
            (const char *)msg->as.dead_row.type.data);
        say_error(msg->as.dead_row.error);
        break;
    case MSG_DEAD_END:
        say("%u < letters %u %.*s x%u", conn, (unsigned)msg->as.dead_end.code,
            (int)msg->as.dead_end.type.bytes, (const char *)msg->as.dead_end.type.data,
            (unsigned)msg->as.dead_end.count);
        break;
    case MSG_BARRIER_DONE:
        say("%u < barrier %u/%u: %u %.*s", conn, (unsigned)msg->as.barrier_done.epoch,
            (unsigned)msg->as.barrier_done.round, (unsigned)msg->as.barrier_done.code,
            (int)msg->as.barrier_done.type.bytes, (const char *)msg->as.barrier_done.type.data);
        say_error(msg->as.barrier_done.error);
        break;
    case MSG_WAIT_OVER:
        say("%u < wait over: %s of word %u", conn, msg->as.wait_over.kind == 0 ? "room" : "reads",
            (unsigned)msg->as.wait_over.number);
        say_error(msg->as.wait_over.error);
        break;
    case MSG_ECHO:
        data_bytes[conn] = msg->as.echo.data_bytes;
        say("%u < echo", conn);
        break;
    case MSG_WHY_NODE: say_why_node(conn, &msg->as.why_node); break;
    case MSG_WHY_EDGE: say_why_edge(conn, &msg->as.why_edge); break;
    case MSG_WHY_END:
        say("%u < why %u %.*s", conn, (unsigned)msg->as.why_end.code,
            (int)msg->as.why_end.type.bytes, (const char *)msg->as.why_end.type.data);
        break;
    case MSG_WITHOUT_ROW: say_without_row(conn, &msg->as.without_row); break;
    case MSG_WITHOUT_END: say_without_end(conn, &msg->as.without_end); break;
    case MSG_JOB_MEMBER:
        say("%u < member %d %.*s/%u %.*s", conn, (int)msg->as.job_member.rank,
            (int)msg->as.job_member.party.bytes, (const char *)msg->as.job_member.party.data,
            (unsigned)msg->as.job_member.incarnation, (int)msg->as.job_member.state.bytes,
            (const char *)msg->as.job_member.state.data);
        break;
    case MSG_JOB_SHOWN:
        say("%u < %.*s, attempt %u, epoch %u of %u", conn, (int)msg->as.job_shown.state.bytes,
            (const char *)msg->as.job_shown.state.data, (unsigned)msg->as.job_shown.attempt,
            (unsigned)msg->as.job_shown.epoch, (unsigned)msg->as.job_shown.world_size);
        say_error(msg->as.job_shown.error);
        break;
    default: say_access_msg(conn, msg); break;
    }
}

static char event_text[512]; /* of the event that was told last */

static inline void say_event(conn_id conn, const struct msg_event *event)
{
    say("%u < %.*s %.*s/%u %.*s#%llu x%llu", conn, (int)event->name.bytes,
        (const char *)event->name.data, (int)event->party.bytes, (const char *)event->party.data,
        (unsigned)event->incarnation, (int)event->topic.bytes, (const char *)event->topic.data,
        (unsigned long long)event->seq, (unsigned long long)event->count);
    say_error(event->error);
    if (event->first_error.bytes > 0)
        say(" %.*s .. %.*s", (int)event->first_error.bytes, (const char *)event->first_error.data,
            (int)event->last_error.bytes, (const char *)event->last_error.data);
    say(event->is_durable ? ", durable" : "");
    say(event->is_late ? ", late" : "");
    snprintf(event_text, sizeof event_text, "%.*s", (int)event->text.bytes,
             (const char *)event->text.data);
    event_bytes = event->name.bytes + event->party.bytes + event->topic.bytes + event->text.bytes +
                  event->error.bytes;
}

static inline void say_msg(conn_id conn, const struct msg *msg)
{
    switch (msg->type) {
    case MSG_EVENT: say_event(conn, &msg->as.event); break;
    case MSG_MISSED:
        say("%u < missed %llu..%llu", conn, (unsigned long long)msg->as.missed.first_id,
            (unsigned long long)msg->as.missed.last_id);
        break;
    case MSG_WELCOME:
        if (conn < CONNS_MAX) /* others are not spoken for again */
            tokens[conn] = msg->as.welcome.token;
        event_next = msg->as.welcome.event_next;
        welcomed = msg->as.welcome;
        durability = msg->as.welcome.durability;
        say("%u < welcome incarnation %u%s", conn, (unsigned)msg->as.welcome.incarnation,
            msg->as.welcome.is_resumed ? ", resumed" : "");
        break;
    case MSG_REFUSED:
        say("%u < refused %u %.*s", conn, (unsigned)msg->as.refused.code,
            (int)msg->as.refused.type.bytes, (const char *)msg->as.refused.type.data);
        break;
    case MSG_TOPIC_OPENED:
        topic_number = (uint32_t)msg->as.topic_opened.topic;
        say("%u < opened %u next %llu", conn, (unsigned)msg->as.topic_opened.code,
            (unsigned long long)msg->as.topic_opened.next_seq);
        break;
    case MSG_ACCEPTED:
        durability = msg->as.accepted.durability;
        say("%u < accepted %llu %llu", conn, (unsigned long long)msg->as.accepted.data_number,
            (unsigned long long)msg->as.accepted.control_number);
        break;
    case MSG_REFUSAL:
        say("%u < refusal #%llu", conn, (unsigned long long)msg->as.refusal.seq);
        if (msg->as.refusal.count > 0)
            say(" x%u", (unsigned)msg->as.refusal.count);
        say_error(msg->as.refusal.error);
        break;
    case MSG_NOTICE:
        say("%u < notice about %.*s", conn, (int)msg->as.notice.about.bytes,
            (const char *)msg->as.notice.about.data);
        say_error(msg->as.notice.error);
        break;
    case MSG_RESULT: say("%u < result %u", conn, (unsigned)msg->as.result.code); break;
    case MSG_OVER:
        say("%u < over %u", conn, (unsigned)msg->as.over.code);
        say_error(msg->as.over.error);
        break;
    case MSG_SUBSCRIBED: say("%u < subscribed %u", conn, (unsigned)msg->as.subscribed.code); break;
    case MSG_VERDICT:
        outlook = msg->as.verdict.outlook;
        say("%u < verdict %u", conn, (unsigned)msg->as.verdict.state);
        say_error(msg->as.verdict.error);
        say(" x%u%s", (unsigned)msg->as.verdict.victims, msg->as.verdict.is_over ? ", over" : "");
        break;
    case MSG_VERDICT_ROW:
        say("%u < row %u %s %.*s/%u", conn, (unsigned)msg->as.verdict_row.row,
            verdict_role_name((enum verdict_role)msg->as.verdict_row.role),
            (int)msg->as.verdict_row.party.bytes, (const char *)msg->as.verdict_row.party.data,
            (unsigned)msg->as.verdict_row.incarnation);
        if (msg->as.verdict_row.role == VERDICT_VICTIM)
            say(" by %s of row %u",
                msg->as.verdict_row.link == VERDICT_LINK_CAUSE ? "cause" : "blame",
                (unsigned)msg->as.verdict_row.next);
        break;
    case MSG_CHUNKED:
        durability = msg->as.chunked.durability;
        say("%u < chunked %llu", conn, (unsigned long long)msg->as.chunked.bytes);
        if (msg->as.chunked.limit_bytes > 0)
            say(" of %llu", (unsigned long long)msg->as.chunked.limit_bytes);
        break;
    default: say_job_msg(conn, msg); break;
    }
    say("\n");
}

static inline void say_frame(const struct effect *effect, const struct effect_frame *made)
{
    static const char *const names[] = {"value", "commit", "reserve", "chunk",
                                        "error", "topic",  "gap",     "end"};
    unsigned kind = made->frame.flags & FRAME_KIND_MASK;
    if (kind == FRAME_TOPIC)
        return; /* names add nothing here */
    say("%u < sub %u %s #%llu", effect->conn, effect->sub, names[kind],
        (unsigned long long)made->frame.seq);
    if (kind == FRAME_GAP)
        say(" x%llu%s", (unsigned long long)made->gap.count,
            made->gap.reason == GAP_ATTEMPT    ? " of the past"
            : made->gap.reason == GAP_NOT_KEPT ? " not kept"
                                               : "");
    else
        say_error(made->frame.value);
    if (made->frame.reply_to != FRAME_NO_REPLY)
        say(" since #%llu", (unsigned long long)made->frame.reply_to);
    say("\n");
}

static inline void say_task(const struct effect *effect)
{
    const struct frame *head = &effects.frames[effect->index].frame;
    say("%u < sub %u task %u#%llu, delivery %u, payload %u", effect->conn, effect->sub, head->topic,
        (unsigned long long)head->seq, head->delivery, effect->payload);
    if (effect->skip > 0)
        say(" skip %u", effect->skip);
    if (head->reply_to != FRAME_NO_REPLY)
        say(", reply to #%llu", (unsigned long long)head->reply_to);
    say("\n");
}

/* For the operator, as it stands when the step is over. */
static inline void keep_log(const struct effect_log *event)
{
    (void)snprintf(logged, sizeof logged, "%.*s: %.*s", (int)event->name.bytes,
                   (const char *)event->name.data, (int)event->text.bytes,
                   event->text.bytes > 0 ? (const char *)event->text.data : ""); /* may be cut */
}

/* ---- facts ----------------------------------------------------------------------------------- */

static inline void shadow_begin(void)
{
    memory_heap_init(&shadow_memory, UINT64_MAX);
    effects_init(&shadow_effects, &shadow_memory);
    shadow = core_new(&shadow_memory, &options, 0);
    cr_assert_not_null(shadow);
}

static inline void shadow_end(void)
{
    core_free(&shadow);
    effects_fini(&shadow_effects);
    if (shadow_memory.bytes_used != 0)
        fail_test("a core that only replays does not give all memory back");
}

static inline void shadow_tell(struct span record, payload_id payload)
{
    effects_clear(&shadow_effects);
    const char *refused = core_replay(shadow, record, payload, &shadow_effects);
    struct fact fact;
    if (fact_decode(record, &fact) != WIRE_OK)
        fail_test("a fact cannot be decoded");
    if (refused != NULL)
        fail_test("%s: %s", fact_name(fact.type), refused);
    was_told[fact.type] = true;
}

static inline void journal_keep(struct span record, payload_id payload)
{
    if (journal_count == journal_room) {
        journal_room = journal_room > 0 ? journal_room * 2 : 256;
        journal = realloc(journal, journal_room * sizeof *journal);
        cr_assert_not_null(journal);
    }
    uint8_t *bytes = malloc(record.bytes);
    cr_assert_not_null(bytes);
    memcpy(bytes, record.data, record.bytes);
    journal[journal_count++] = (struct record){bytes, (uint32_t)record.bytes, payload};
}

static inline void journal_forget(void)
{
    for (uint32_t i = 0; i < journal_count; i++)
        free(journal[i].bytes);
    journal_count = 0;
}

static inline void note_facts(void)
{
    for (uint32_t i = 0; i < effects.count; i++) {
        const struct effect *effect = &effects.items[i];
        if (effect->type != EFFECT_FACT)
            continue;
        struct span record = effects_record(&effects, effect);
        journal_keep(record, effect->payload);
        shadow_tell(record, effect->payload);
    }
}

static inline void expect_same(void)
{
    core_dump_take(&is, core);
    core_dump_take(&should, shadow);
    const char *difference = core_dump_differ(&is, &should);
    if (difference != NULL)
        fail_test("live | replayed: %s", difference);
    const char *wrong = core_census_miscounted(core);
    wrong = wrong != NULL ? wrong : core_census_miscounted(shadow);
    if (wrong != NULL)
        fail_test("account %s", wrong);
}

static unsigned sent_whole; /* ranges and parts of what one step let in and settled */

static inline void step(struct event event)
{
    event.now_ns = now_ns;
    event.wall_ns = now_ns + wall_ahead_ns;
    event.kept = kept;
    steps += 1;
    event.random = ++dice * UINT64_C(0x9e3779b97f4a7c15);
    effects_clear(&effects);
    core_step(core, &event, &effects);
    for (uint32_t i = 0; i < effects.count; i++) {
        const struct effect *effect = &effects.items[i];
        bool is_stored = effect->type == EFFECT_SEND_RANGE || effect->type == EFFECT_SEND_PART;
        sent_whole += is_stored && effect->is_whole;
        switch (effect->type) {
        case EFFECT_SEND_MSG: say_msg(effect->conn, &effects.msgs[effect->index]); break;
        case EFFECT_SEND_FRAME: say_frame(effect, &effects.frames[effect->index]); break;
        case EFFECT_SEND_RANGE:
            say("%u < sub %u payload %u x%u\n", effect->conn, effect->sub, effect->payload,
                effect->count);
            break;
        case EFFECT_SEND_PART:
            say("%u < sub %u payload %u part %u x%u\n", effect->conn, effect->sub, effect->payload,
                effect->skip, effect->count);
            break;
        case EFFECT_SEND_TASK: say_task(effect); break;
        case EFFECT_RETAIN: references += effect->count; break;
        case EFFECT_RELEASE: references -= effect->count; break;
        case EFFECT_DROP: say("%u dropped\n", effect->conn); break;
        case EFFECT_RELOAD: say("%u wants another table\n", effect->conn); break;
        case EFFECT_LOG: keep_log(&effects.logs[effect->index]); break;
        case EFFECT_FACT: break;
        }
    }
    if (is_alone)
        return;
    note_facts();
    expect_same();
}

static inline void message(conn_id conn, struct msg msg)
{
    step((struct event){.type = EVENT_MESSAGE,
                        .conn = conn,
                        .principal = conn < CONNS_MAX ? speakers[conn] : 0,
                        .as.msg = &msg});
}

/* Everything said since the last look, which must be exactly this. */
#define EXPECT(text)                                                                               \
    do {                                                                                           \
        cr_expect_str_eq(said, text);                                                              \
        forget();                                                                                  \
    } while (0)

/* ... with values in it. */
#define EXPECT_OF(...)                                                                             \
    do {                                                                                           \
        char expected[600];                                                                        \
        cr_assert_lt(snprintf(expected, sizeof expected, __VA_ARGS__), (int)sizeof expected);      \
        EXPECT(expected);                                                                          \
    } while (0)

static inline void forget(void)
{
    said_bytes = 0;
    said[0] = '\0';
}

/* Of what was said, only the lines with one of these words are kept. */
static inline void keep_lines(const char *with, const char *or_with)
{
    static char lines[sizeof said];
    char *rest = NULL;
    memcpy(lines, said, said_bytes + 1);
    forget();
    for (char *line = strtok_r(lines, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest))
        if (strstr(line, with) != NULL || strstr(line, or_with) != NULL)
            say("%s\n", line);
}

static inline void pass_ms(int64_t ms)
{
    int64_t until_ns = now_ns + ms * MS;
    while (core_deadline_ns(core) <= until_ns) {
        if (core_deadline_ns(core) > now_ns)
            now_ns = core_deadline_ns(core);
        step((struct event){.type = EVENT_TICK});
    }
    now_ns = until_ns;
}

static inline void init(void)
{
    is_ending = false;
    memory_heap_init(&memory, UINT64_MAX);
    core_options_init(&options);
    options.linger_ms = 1000;
    options.has_facts = true;
    memory_heap_init(&effects_memory, UINT64_MAX);
    effects_init(&effects, &effects_memory);
    now_ns = 1000 * MS;
    core = core_new(&memory, &options, now_ns);
    cr_assert_not_null(core);
    shadow_begin();
}

/* Once all jobs and sessions are gone, nothing of them is left. */
static inline void take_census(void)
{
    const char *left = core_census_left(core);
    if (left != NULL)
        fail_test("the core still has %s", left);
    left = is_alone ? NULL : core_census_left(shadow);
    if (left != NULL)
        fail_test("the core that replays still has %s", left);
    if (references != 0)
        fail_test("%lld references on payloads are left", (long long)references);
}

static inline void fini(void)
{
    is_ending = true;
    pass_ms(2 * LIMIT_PERIOD_MS_MAX); /* sessions that are left fall silent, jobs linger out */
    step((struct event){.type = EVENT_TICK}); /* frees failures that nobody refers to any more */
    take_census();
    core_free(&core);
    effects_fini(&effects);
    if (memory.bytes_used + effects_memory.bytes_used != 0)
        fail_test("memory is not given back");
    shadow_end();
    journal_forget();
    free(journal);
    journal = NULL;
    journal_room = 0;
    core_dump_fini(&is);
    core_dump_fini(&should);
}

static inline void restart(void)
{
    core_free(&core);
    core = core_new(&memory, &options, now_ns);
    references = 0; /* the old one's went with it */
    shadow_end();
    shadow_begin();
    journal_forget();
}

/* ---- people ---------------------------------------------------------------------------------- */

static inline const char *name_of(conn_id conn)
{
    static const char *const names[10] = {"",     "alice", "bob",   "carol", "dave",
                                          "erin", "frank", "grace", "heidi", "ivan"};
    return names[conn % 10];
}

static inline const char *host_of(conn_id conn)
{
    static const char *const hosts[] = {"", "node-1", "node-2"};
    return hosts[conn % 3];
}

static inline struct msg hello(conn_id conn, uint64_t token)
{
    return (struct msg){.type = MSG_HELLO,
                        .as.hello = {.major = PROTOCOL_MAJOR,
                                     .job = span_text(job_name),
                                     .party = span_text(name_of(conn)),
                                     .token = token,
                                     .broker = options.broker,
                                     .heartbeat_ms = 1000,
                                     .lost_after_ms = 10000,
                                     .grace_ms = 1000}};
}

static inline void say_hello(conn_id conn)
{
    message(conn, hello(conn, 0));
}

/* ... as one whom the broker knows by the token of its last WELCOME. */
static inline void say_hello_again(conn_id conn)
{
    message(conn, hello(conn, tokens[conn]));
}

static inline void locate(conn_id conn, const char *host, uint64_t pid)
{
    message(conn,
            (struct msg){.type = MSG_READY, .as.ready = {.host = span_text(host), .pid = pid}});
}

/* The work of its process is a part of this trace. */
static inline void trace(conn_id conn, struct span trace_id)
{
    message(conn, (struct msg){.type = MSG_READY, .as.ready = {.trace_id = trace_id}});
}

static inline void attach(conn_id conn, conn_id data, uint64_t token)
{
    message(data,
            (struct msg){.type = MSG_ATTACH, .as.attach = {.token = token, .connection = conn}});
    locate(conn, host_of(conn), 100 + conn);
}

static uint64_t link_trip_ns; /* as BEAT says; 0: the link is short */

static inline void join(conn_id conn)
{
    say_hello(conn);
    attach(conn, conn + 10, tokens[conn]);
    if (link_trip_ns > 0)
        message(conn, (struct msg){.type = MSG_BEAT, .as.beat.trip_ns = link_trip_ns});
    numbers[conn] = 0;
    frames[conn] = 0;
    forget();
}

/* All up to this one. */
static inline void join_all(conn_id last)
{
    for (conn_id conn = 1; conn <= last; conn++)
        join(conn);
}

/* job: "" for an observer of none. */
static inline void observe(conn_id conn, const char *job)
{
    struct msg msg = hello(conn, 0);
    msg.as.hello.role = 1;
    msg.as.hello.party = SPAN_NONE;
    msg.as.hello.job = span_text(job);
    message(conn, msg);
}

/* Events from this one on. */
static inline void tap_from(conn_id conn, uint64_t from_id, uint64_t window)
{
    forget();
    message(conn, (struct msg){.type = MSG_TAP, .as.tap = {.from_id = from_id, .window = window}});
}

static inline void tap(conn_id conn)
{
    observe(conn, job_name);
    tap_from(conn, UINT64_MAX, 1000);
    forget();
}

/* An observer of no job. */
static inline void ask_from(conn_id conn)
{
    observe(conn, "");
    forget();
}

static inline void beat(conn_id conn)
{
    message(conn, (struct msg){.type = MSG_BEAT});
}

/* These connections beat whenever so much time has passed.  The list ends with 0. */
static inline void beat_on(unsigned times, int64_t each_ms, const conn_id *conns)
{
    for (unsigned i = 0; i < times; i++) {
        pass_ms(each_ms);
        for (const conn_id *conn = conns; *conn != 0; conn++)
            beat(*conn);
    }
}

/* How many things the broker has refused, as its status says; conn is an observer. */
static inline uint64_t count_refused(conn_id conn)
{
    message(conn, (struct msg){.type = MSG_STATUS, .as.status.request = 1});
    forget();
    for (uint32_t i = 0; i < effects.msg_count; i++)
        if (effects.msgs[i].type == MSG_STATUS_END)
            return effects.msgs[i].as.status_end.refused;
    return UINT64_MAX;
}

static inline struct msg_job_create a_job(uint64_t min, uint64_t max)
{
    return (struct msg_job_create){.request = 1,
                                   .job = span_text(job_name),
                                   .min = min,
                                   .max = max,
                                   .join_window_ms = 3000,
                                   .join_timeout_ms = -1,
                                   .settle_ms = 0,
                                   .deadline_ms = -1};
}

static inline void create_job(conn_id conn, struct msg_job_create job)
{
    message(conn, (struct msg){.type = MSG_JOB_CREATE, .as.job_create = job});
}

/* Its parties must be there within a second. */
static inline struct msg_job_create a_job_with_timeout(uint64_t min, uint64_t max)
{
    struct msg_job_create job = a_job(min, max);
    job.join_timeout_ms = 1000;
    return job;
}

/* The first loss ends an attempt, and so many more are made. */
static inline struct msg_job_create a_strict_job(uint64_t parties, uint64_t restarts,
                                                 int64_t settle_ms)
{
    struct msg_job_create job = a_job(parties, parties);
    job.join_window_ms = 0;
    job.max_restarts = restarts;
    job.settle_ms = settle_ms;
    return job;
}

/* erin (5) creates it, and asks for all else of the job. */
static inline void make_job(struct msg_job_create job)
{
    ask_from(5);
    create_job(5, job);
    forget();
}

static inline void ask_verdict(conn_id conn, uint64_t is_waiting)
{
    message(conn,
            (struct msg){.type = MSG_VERDICT_ASK,
                         .as.verdict_ask = {
                             .request = 7, .job = span_text(job_name), .is_waiting = is_waiting}});
}

static inline void show_job(conn_id conn)
{
    message(conn, (struct msg){.type = MSG_JOB_SHOW,
                               .as.job_show = {.request = 2, .job = span_text(job_name)}});
}

static inline void cancel_job(conn_id conn)
{
    message(conn, (struct msg){.type = MSG_JOB_CANCEL,
                               .as.job_cancel = {.request = 3, .job = span_text(job_name)}});
}

static inline void barrier(conn_id conn, uint64_t epoch, uint64_t round, uint64_t is_there)
{
    message(conn, (struct msg){.type = MSG_BARRIER, .as.barrier = {epoch, round, is_there, 0}});
}

static inline uint32_t open_topic(conn_id conn, const char *name)
{
    message(conn, (struct msg){.type = MSG_TOPIC_OPEN,
                               .as.topic_open = {.request = 1, .topic = span_text(name)}});
    forget();
    return topic_number;
}

static uint64_t reply_to = FRAME_NO_REPLY; /* of what is sent */
static uint32_t batch_bytes = 4096;

static inline void batch(conn_id conn, payload_id payload, struct event_range range)
{
    range.value_bytes = range.value_bytes ? range.value_bytes : 16;
    range.offset = BATCH_HEADER_BYTES;
    range.count = range.count ? range.count : 1;
    range.attempt = attempt;
    range.reply_to = reply_to;
    if (range.kind == FRAME_RESERVE && range.deadline_ms == 0)
        range.deadline_ms = -1;
    step((struct event){.type = EVENT_DATA,
                        .conn = conn + 10,
                        .as.data = {.number = range.kind == FRAME_CHUNK ? 0 : frames[conn] + 1,
                                    .payload = payload,
                                    .payload_bytes = batch_bytes,
                                    .ranges = &range,
                                    .range_count = 1}});
    if (range.kind != FRAME_CHUNK)
        frames[conn] += range.count;
}

static inline void publish(conn_id conn, uint32_t topic, uint64_t seq, uint32_t count,
                           payload_id payload)
{
    batch(conn, payload,
          (struct event_range){.kind = FRAME_VALUE, .topic = topic, .seq = seq, .count = count});
}

static inline void reserve(conn_id conn, uint32_t topic, uint64_t seq)
{
    batch(conn, 99, (struct event_range){.kind = FRAME_RESERVE, .topic = topic, .seq = seq});
}

static inline void promise(conn_id conn, uint32_t topic, uint64_t seq, int64_t deadline_ms)
{
    batch(conn, 99,
          (struct event_range){
              .kind = FRAME_RESERVE, .topic = topic, .seq = seq, .deadline_ms = deadline_ms});
}

/* One that needs count others. */
static inline void reserve_needing(conn_id conn, uint32_t topic, uint64_t seq,
                                   const struct frame_need *needs, uint32_t count)
{
    size_t room = FRAME_RESERVE_BYTES_MAX + (size_t)count * FRAME_NEED_BYTES_MAX;
    uint8_t *bytes = malloc(room);
    struct frame_reserve reserve = {.deadline_ms = -1, .need_count = count};
    size_t size = frame_promise_encode(bytes, room, &reserve, needs);
    cr_assert_eq(frame_reserve_decode(span_of(bytes, size), &reserve), WIRE_OK);
    batch(conn, 99,
          (struct event_range){.kind = FRAME_RESERVE,
                               .topic = topic,
                               .seq = seq,
                               .need_count = reserve.need_count,
                               .needs = reserve.needs});
    free(bytes);
}

static inline void reserve_after(conn_id conn, uint32_t topic, uint64_t seq, const char *needed,
                                 uint64_t needed_seq)
{
    reserve_needing(conn, topic, seq, &(struct frame_need){span_text(needed), needed_seq}, 1);
}

static inline void commit(conn_id conn, uint32_t topic, uint64_t seq, payload_id payload)
{
    batch(conn, payload, (struct event_range){.kind = FRAME_COMMIT, .topic = topic, .seq = seq});
}

static inline void chunk(conn_id conn, uint32_t topic, uint64_t seq, uint64_t total,
                         uint64_t offset, uint32_t bytes, payload_id payload)
{
    batch(conn, payload,
          (struct event_range){.kind = FRAME_CHUNK,
                               .topic = topic,
                               .seq = seq,
                               .value_bytes = bytes + FRAME_CHUNK_PREFIX_BYTES,
                               .chunk_total = total,
                               .chunk_offset = offset,
                               .chunk_bytes = bytes});
}

static uint8_t error_bytes[LIMIT_ERROR_BYTES];

static inline struct span an_error(const char *id)
{
    struct error_record record;
    size_t bytes;
    error_record_init(&record);
    record.id = span_text(id);
    record.type = span_text("app.broken");
    record.message = span_text("it broke");
    cr_assert_eq(error_encode(&record, 1, error_bytes, sizeof error_bytes, &bytes), WIRE_OK);
    return span_of(error_bytes, bytes);
}

static inline void fail(conn_id conn, uint32_t topic, uint64_t seq, uint64_t after)
{
    message(conn, (struct msg){.type = MSG_FAIL,
                               .as.fail = {.number = ++numbers[conn],
                                           .after = after,
                                           .topic = topic,
                                           .seq = seq,
                                           .error = an_error("")}});
}

static inline void retract(conn_id conn, uint32_t topic, uint64_t seq)
{
    message(conn, (struct msg){.type = MSG_RETRACT,
                               .as.retract = {.number = ++numbers[conn],
                                              .after = frames[conn],
                                              .topic = topic,
                                              .seq = seq,
                                              .error = an_error("")}});
}

static inline void subscribe_as(conn_id conn, struct msg_subscribe what)
{
    what.number = ++numbers[conn];
    message(conn, (struct msg){.type = MSG_SUBSCRIBE, .as.subscribe = what});
}

static inline void subscribe(conn_id conn, uint32_t sub, const char *pattern, const char *durable,
                             int64_t from_seq, uint64_t overflow)
{
    subscribe_as(conn, (struct msg_subscribe){.sub = sub,
                                              .pattern = span_text(pattern),
                                              .name = span_text(durable),
                                              .from_seq = from_seq,
                                              .overflow = overflow,
                                              .keep_ms = 5000,
                                              .window_bytes = 512 * 1024});
}

static inline uint32_t open_by_alice(void)
{
    join(1);
    return open_topic(1, "alice/a");
}

/* Alice and bob join, and she opens a topic that he reads. */
static inline uint32_t open_for_bob(void)
{
    join(1);
    join(2);
    subscribe(2, 1, "alice/a", "", 0, 0);
    return open_topic(1, "alice/a");
}

static inline void taken(conn_id conn, uint32_t sub, uint64_t bytes)
{
    message(conn, (struct msg){.type = MSG_TAKEN, .as.taken = {.sub = sub, .bytes = bytes}});
}

/* It counts when the broker has so many frames of this party. */
static inline void ack_after(conn_id conn, uint64_t after, uint32_t sub, uint32_t topic,
                             uint64_t next_seq)
{
    message(conn, (struct msg){.type = MSG_ACK,
                               .as.ack = {.number = ++numbers[conn],
                                          .after = after,
                                          .sub = sub,
                                          .topic = topic,
                                          .next_seq = next_seq}});
}

static inline void ack(conn_id conn, uint32_t sub, uint32_t topic, uint64_t next_seq)
{
    ack_after(conn, 0, sub, topic, next_seq);
}

/* A member of a group. */
static inline void share(conn_id conn, uint32_t sub, const char *pattern, const char *group,
                         uint64_t credit)
{
    subscribe_as(conn, (struct msg_subscribe){.sub = sub,
                                              .pattern = span_text(pattern),
                                              .group = span_text(group),
                                              .window_bytes = 512 * 1024,
                                              .credit = credit});
}

/* A member is given nothing more. */
static inline void drain(conn_id conn, uint32_t sub)
{
    message(conn, (struct msg){
                      .type = MSG_UNSUBSCRIBE,
                      .as.unsubscribe = {.number = ++numbers[conn], .sub = sub, .is_drained = 1}});
}

enum { TASK_DONE = 0, TASK_RETURNED = 1, TASK_REJECTED = 2, TASK_FAILED = 3 };

/* What becomes of a task; error: an id, or NULL. */
static inline void settle(conn_id conn, uint32_t topic, uint64_t seq, unsigned delivery,
                          unsigned how, int64_t retry_after_ms, const char *error)
{
    message(conn, (struct msg){.type = MSG_TASK,
                               .as.task = {.number = ++numbers[conn],
                                           .after = frames[conn],
                                           .sub = 1,
                                           .topic = topic,
                                           .seq = seq,
                                           .delivery = delivery,
                                           .how = how,
                                           .retry_after_ms = retry_after_ms,
                                           .error = error != NULL ? an_error(error) : SPAN_NONE}});
}

static inline void done(conn_id conn, uint32_t topic, uint64_t seq, unsigned delivery)
{
    settle(conn, topic, seq, delivery, TASK_DONE, 0, NULL);
}

static inline void ask_letters(conn_id conn, const char *group, unsigned how, uint64_t number)
{
    message(conn, (struct msg){.type = MSG_DEAD,
                               .as.dead = {.request = 9,
                                           .job = span_text(job_name),
                                           .group = span_text(group),
                                           .how = how,
                                           .number = number}});
}

static inline void await_slot(conn_id conn, uint64_t want, const char *topic, uint64_t seq)
{
    message(conn, (struct msg){.type = MSG_AWAIT,
                               .as.await = {.want = want,
                                            .topic = span_text(topic),
                                            .seq = seq,
                                            .is_value_wanted = 1}});
}

static inline void leave(conn_id conn, uint64_t after)
{
    message(conn, (struct msg){.type = MSG_LEAVE,
                               .as.leave = {.number = ++numbers[conn], .after = after}});
}

static inline void complete(conn_id conn)
{
    message(conn, (struct msg){.type = MSG_COMPLETE, .as.complete = {.number = ++numbers[conn]}});
}

static inline void break_down_with(conn_id conn, uint64_t after, struct span error)
{
    message(conn, (struct msg){.type = MSG_FAIL_PARTY,
                               .as.fail_party = {
                                   .number = ++numbers[conn], .after = after, .error = error}});
}

static inline void break_down_after(conn_id conn, uint64_t after)
{
    break_down_with(conn, after, an_error(""));
}

static inline void break_down(conn_id conn)
{
    break_down_after(conn, 0);
}

static inline void closed(conn_id conn)
{
    step((struct event){.type = EVENT_CLOSED, .conn = conn});
}

/* ---- facts, used -------------------------------------------------------------------------- */

/* As when the process is gone: what it knew is in the journal, and nothing else is. */
static inline void crash(int64_t away_ms)
{
    core_free(&core);
    now_ns += away_ms * MS;
    references = 0;
    core = core_new(&memory, &options, now_ns);
    effects_clear(&effects);
    for (uint32_t i = 0; i < journal_count; i++) {
        const char *refused = core_replay(core, span_of(journal[i].bytes, journal[i].count),
                                          journal[i].payload, &effects);
        cr_assert_null(refused, "%s", refused);
    }
    clocks_seen = core_seen(core);
    now_ns += reading_ms * MS;
    struct event now = {.now_ns = now_ns, .wall_ns = now_ns};
    uint32_t before = effects.count;
    core_resume(core, &now, &effects);
    for (uint32_t i = 0; i < effects.count; i++) {
        if (effects.items[i].type == EFFECT_RETAIN)
            references += effects.items[i].count;
        else if (effects.items[i].type == EFFECT_RELEASE)
            references -= effects.items[i].count;
        else
            cr_assert(i >= before && effects.items[i].type == EFFECT_FACT,
                      "there is nobody to tell anything yet");
    }
    note_facts();
    expect_same();
    forget();
}

/* All that was told so far becomes a snapshot: it must give the same state. */
static inline void compact(void)
{
    effects_clear(&effects);
    core_snapshot(core, &effects);
    shadow_end();
    shadow_begin();
    journal_forget();
    note_facts();
    expect_same();
}

static inline void resume(conn_id conn, uint64_t token, uint64_t refusal_number)
{
    struct msg msg = hello(conn, token);
    msg.as.hello.refusal_number = refusal_number;
    message(conn, msg);
    attach(conn, conn + 10, token);
}

/* Its data connection is cut, and stands again. */
static inline void reconnect(conn_id conn)
{
    closed(conn + 10);
    resume(conn, tokens[conn], 0);
}

#endif
