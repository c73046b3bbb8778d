/* SPDX-License-Identifier: MPL-2.0 */
/* oracle.c -- two hash tables: slots and their outcomes, values and their origin; see oracle.h. */
#include "tests/sim/oracle.h"

#include "libbus/base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TABLE_ROOM_MIN = 1024 };

struct fact {
    bool is_used;
    uint32_t topic;
    uint64_t seq;
    struct outcome outcome; /* NONE: only a refusal is known */
    bool is_seen;           /* by a receiver; otherwise its writer was told that it stands */
    int64_t seen_ns;        /* when first */
    bool is_doubtful;       /* its writer wants it back, and was not answered yet */
    bool is_refused;
    struct outcome refused; /* the newest that does not stand */
    const char *by;         /* who said so first */
};

struct origin {
    bool is_used;
    uint64_t mark;
    uint32_t record;
    uint32_t topic;
    uint64_t seq;
    int64_t said_ns;
};

struct edge {
    uint32_t record;
    uint32_t topic, need_topic;
    uint64_t seq, need_seq;
};

struct oracle {
    struct oracle_record records[ORACLE_RECORDS];
    uint32_t record_count;
    struct oracle_topic topics[ORACLE_TOPICS];
    uint32_t topic_count;
    struct fact *facts;
    uint32_t fact_count, fact_room;
    struct origin *origins;
    uint32_t origin_count, origin_room;
    struct edge *edges;
    uint32_t edge_count, edge_room;
    bool is_doubting;
    char text[2 * ORACLE_TEXT];
};

static uint64_t mixed(uint64_t word)
{
    word = (word ^ (word >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ (word >> 27)) * UINT64_C(0x94d049bb133111eb);
    return word ^ (word >> 31);
}

/* Eight bytes at a time: values may be large. */
static uint64_t hash_of(struct span span)
{
    uint64_t hash = mixed(span.bytes + 1);
    const uint8_t *byte = span.data;
    size_t at = 0;
    for (uint64_t word; at + 8 <= span.bytes; at += 8) {
        memcpy(&word, byte + at, 8);
        hash = mixed(hash ^ word) + 1;
    }
    for (; at < span.bytes; at++)
        hash = mixed(hash ^ byte[at]) + 1;
    return hash;
}

struct outcome outcome_of_value(struct span value)
{
    return (struct outcome){.kind = OUTCOME_VALUE, .mark = hash_of(value)};
}

struct outcome outcome_of_error(struct span error_id)
{
    return (struct outcome){.kind = OUTCOME_ERROR, .mark = hash_of(error_id)};
}

/* ---- the tables ------------------------------------------------------------------------------ */

/* An empty one with twice the room. */
static void *larger_table(size_t bytes, uint32_t *room)
{
    *room = *room > 0 ? *room * 2 : TABLE_ROOM_MIN;
    void *table = calloc(*room, bytes);
    must(table != NULL);
    return table;
}

static struct fact *fact_slot(struct fact *facts, uint32_t room, uint32_t topic, uint64_t seq)
{
    uint32_t at = (uint32_t)mixed(seq * 1000003 + topic) & (room - 1);
    while (facts[at].is_used && (facts[at].topic != topic || facts[at].seq != seq))
        at = (at + 1) & (room - 1);
    return &facts[at];
}

static void facts_grow(struct oracle *oracle)
{
    uint32_t room = oracle->fact_room;
    struct fact *facts = larger_table(sizeof *facts, &room);
    for (uint32_t i = 0; i < oracle->fact_room; i++)
        if (oracle->facts[i].is_used)
            *fact_slot(facts, room, oracle->facts[i].topic, oracle->facts[i].seq) =
                oracle->facts[i];
    free(oracle->facts);
    oracle->facts = facts;
    oracle->fact_room = room;
}

static struct fact *fact_get(struct oracle *oracle, uint32_t topic, uint64_t seq)
{
    if (oracle->fact_count * 2 >= oracle->fact_room)
        facts_grow(oracle);
    struct fact *fact = fact_slot(oracle->facts, oracle->fact_room, topic, seq);
    if (!fact->is_used) {
        *fact = (struct fact){.is_used = true, .topic = topic, .seq = seq};
        oracle->fact_count += 1;
    }
    return fact;
}

static struct origin *origin_slot(struct origin *origins, uint32_t room, uint64_t mark)
{
    uint32_t at = (uint32_t)mark & (room - 1);
    while (origins[at].is_used && origins[at].mark != mark)
        at = (at + 1) & (room - 1);
    return &origins[at];
}

static void origins_grow(struct oracle *oracle)
{
    uint32_t room = oracle->origin_room;
    struct origin *origins = larger_table(sizeof *origins, &room);
    for (uint32_t i = 0; i < oracle->origin_room; i++)
        if (oracle->origins[i].is_used)
            *origin_slot(origins, room, oracle->origins[i].mark) = oracle->origins[i];
    free(oracle->origins);
    oracle->origins = origins;
    oracle->origin_room = room;
}

/* ---- incarnations, topics -------------------------------------------------------------------- */

struct oracle *oracle_new(void)
{
    struct oracle *oracle = calloc(1, sizeof *oracle);
    must(oracle != NULL);
    facts_grow(oracle);
    origins_grow(oracle);
    return oracle;
}

void oracle_free(struct oracle **oracle)
{
    if (*oracle == NULL)
        return;
    free((*oracle)->facts);
    free((*oracle)->origins);
    free((*oracle)->edges);
    free(*oracle);
    *oracle = NULL;
}

void oracle_doubt(struct oracle *oracle)
{
    oracle->is_doubting = true;
}

bool oracle_is_doubting(const struct oracle *oracle)
{
    return oracle->is_doubting;
}

uint32_t oracle_record(struct oracle *oracle, uint32_t job, const char *party)
{
    must(oracle->record_count < ORACLE_RECORDS);
    struct oracle_record *record = &oracle->records[oracle->record_count];
    *record = (struct oracle_record){.job = job, .lost_ns = INT64_MAX, .ended_ns = INT64_MAX};
    must(strlen(party) < sizeof record->party);
    memcpy(record->party, party, strlen(party) + 1);
    return oracle->record_count++;
}

struct oracle_record *oracle_record_at(struct oracle *oracle, uint32_t record)
{
    return &oracle->records[record];
}

struct oracle_record *oracle_record_find(struct oracle *oracle, uint32_t job, struct span party,
                                         uint32_t incarnation)
{
    for (uint32_t i = 0; i < oracle->record_count; i++) {
        struct oracle_record *record = &oracle->records[i];
        if (record->job == job && record->incarnation == incarnation &&
            span_equal(span_text(record->party), party))
            return record;
    }
    return NULL;
}

void oracle_record_named(struct oracle *oracle, uint32_t index, uint32_t incarnation)
{
    struct oracle_record *record = &oracle->records[index];
    const struct oracle_record *known =
        oracle_record_find(oracle, record->job, span_text(record->party), incarnation);
    if (known != NULL) { /* it ended before it heard its number */
        record->lost_ns = known->lost_ns;
        record->ended_ns = known->ended_ns;
    }
    record->incarnation = incarnation;
}

const char *oracle_record_ended(struct oracle *oracle, uint32_t job, struct span party,
                                uint32_t incarnation, bool is_lost, int64_t now_ns)
{
    char name[32];
    struct oracle_record *record = oracle_record_find(oracle, job, party, incarnation);
    /* It fits: names are short here. */
    (void)snprintf(name, sizeof name, "%.*s", (int)party.bytes, (const char *)party.data);
    if (record == NULL) {
        record = &oracle->records[oracle_record(oracle, job, name)];
        record->incarnation = incarnation;
    }
    if (is_lost && record->ended_ns != INT64_MAX) {
        (void)snprintf(oracle->text, sizeof oracle->text, "%s %u is lost after it ended", name,
                       (unsigned)incarnation); /* fits */
        return oracle->text;
    }
    if (record->ended_ns == INT64_MAX)
        record->ended_ns = now_ns;
    if (is_lost)
        record->lost_ns = now_ns;
    return NULL;
}

void oracle_record_replaced(struct oracle *oracle, uint32_t job, struct span party,
                            uint32_t incarnation)
{
    struct oracle_record *record = oracle_record_find(oracle, job, party, incarnation);
    if (record != NULL)
        record->is_replaced = true;
}

static bool is_of_party(const struct oracle_record *record, const struct oracle_record *other)
{
    return record->job == other->job && strcmp(record->party, other->party) == 0;
}

/* No process of the party has learnt that it is this incarnation. */
static bool is_untold(const struct oracle *oracle, const struct oracle_record *record)
{
    for (uint32_t i = 0; i < oracle->record_count; i++) {
        const struct oracle_record *other = &oracle->records[i];
        if (other != record && is_of_party(record, other) &&
            other->incarnation == record->incarnation)
            return false;
    }
    return !record->is_process;
}

const char *oracle_check_replaced(struct oracle *oracle)
{
    for (uint32_t i = 0; i < oracle->record_count; i++) {
        const struct oracle_record *of = &oracle->records[i];
        uint32_t untold = 0;
        uint32_t unnamed = 0;
        for (uint32_t k = 0; k < oracle->record_count; k++) {
            const struct oracle_record *other = &oracle->records[k];
            if (!is_of_party(of, other))
                continue;
            untold += other->is_replaced && is_untold(oracle, other);
            unnamed += other->is_process && other->incarnation == 0;
        }
        if (untold > unnamed) {
            (void)snprintf(oracle->text, sizeof oracle->text,
                           "%u incarnations of %s were replaced that no process was told of, and "
                           "%u processes were told nothing",
                           untold, of->party, unnamed); /* fits */
            return oracle->text;
        }
    }
    return NULL;
}

uint32_t oracle_topic(struct oracle *oracle, uint32_t job, struct span name)
{
    for (uint32_t i = 0; i < oracle->topic_count; i++)
        if (oracle->topics[i].job == job && span_equal(span_text(oracle->topics[i].name), name))
            return i;
    must(oracle->topic_count < ORACLE_TOPICS);
    struct oracle_topic *topic = &oracle->topics[oracle->topic_count];
    *topic = (struct oracle_topic){.job = job, .accepted_said_ns = -1};
    must(name.bytes < sizeof topic->name);
    memcpy(topic->name, name.data, name.bytes);
    return oracle->topic_count++;
}

struct oracle_topic *oracle_topic_at(struct oracle *oracle, uint32_t topic)
{
    return &oracle->topics[topic];
}

uint32_t oracle_topic_count(const struct oracle *oracle)
{
    return oracle->topic_count;
}

/* ---- what is said and seen ------------------------------------------------------------------- */

void oracle_said(struct oracle *oracle, uint32_t record, uint32_t topic, uint64_t seq,
                 struct span value, int64_t now_ns)
{
    if (value.bytes < 8)
        return;
    if (oracle->origin_count * 2 >= oracle->origin_room)
        origins_grow(oracle);
    uint64_t mark = outcome_of_value(value).mark;
    struct origin *origin = origin_slot(oracle->origins, oracle->origin_room, mark);
    if (!origin->is_used)
        oracle->origin_count += 1;
    *origin = (struct origin){.is_used = true,
                              .mark = mark,
                              .record = record,
                              .topic = topic,
                              .seq = seq,
                              .said_ns = now_ns};
}

static const char *kind_name(enum outcome_kind kind)
{
    switch (kind) {
    case OUTCOME_NONE: return "nothing";
    case OUTCOME_VALUE: return "a value";
    case OUTCOME_ERROR: return "an error";
    case OUTCOME_SOME_VALUE: return "some value";
    }
    return "?";
}

static const char *complain(struct oracle *oracle, uint32_t topic, uint64_t seq, const char *what,
                            const char *by)
{
    (void)snprintf(oracle->text, sizeof oracle->text, "%s %llu: %s, says %s",
                   oracle->topics[topic].name, (unsigned long long)seq, what, by); /* may be cut */
    return oracle->text;
}

/* Whether two claims about one slot can both be true. */
static bool agrees(struct outcome a, struct outcome b)
{
    if (a.kind == OUTCOME_SOME_VALUE || b.kind == OUTCOME_SOME_VALUE)
        return a.kind != OUTCOME_ERROR && b.kind != OUTCOME_ERROR;
    bool is_stood_in_for = a.mark == OUTCOME_STAND_IN || b.mark == OUTCOME_STAND_IN;
    return a.kind == b.kind && (a.mark == b.mark || (a.kind == OUTCOME_ERROR && is_stood_in_for));
}

/* Whether one that does not stand is the one that does. */
static bool is_same(struct outcome refused, struct outcome outcome)
{
    bool is_stood_in_for = refused.mark == OUTCOME_STAND_IN || outcome.mark == OUTCOME_STAND_IN;
    return agrees(refused, outcome) && (refused.kind != OUTCOME_ERROR || !is_stood_in_for);
}

static const char *claim(struct oracle *oracle, uint32_t topic, uint64_t seq,
                         struct outcome outcome, const char *by)
{
    char what[ORACLE_TEXT];
    struct fact *fact = fact_get(oracle, topic, seq);
    if (fact->is_refused && outcome.kind != OUTCOME_SOME_VALUE && is_same(fact->refused, outcome))
        return complain(oracle, topic, seq, "stands although it was refused", by);
    if (fact->outcome.kind != OUTCOME_NONE && !agrees(fact->outcome, outcome)) {
        (void)snprintf(what, sizeof what, "%s (%llx), but %s (%llx) was seen by %s",
                       kind_name(outcome.kind), (unsigned long long)outcome.mark,
                       kind_name(fact->outcome.kind), (unsigned long long)fact->outcome.mark,
                       fact->by); /* may be cut */
        return complain(oracle, topic, seq, what, by);
    }
    if (fact->outcome.kind == OUTCOME_NONE || fact->outcome.kind == OUTCOME_SOME_VALUE) {
        fact->outcome = outcome;
        fact->by = by;
    }
    if (oracle->topics[topic].next_seq <= seq)
        oracle->topics[topic].next_seq = seq + 1;
    return NULL;
}

void oracle_needs(struct oracle *oracle, uint32_t record, uint32_t topic, uint64_t seq,
                  uint32_t need_topic, uint64_t need_seq)
{
    if (oracle->edge_count == oracle->edge_room) {
        oracle->edge_room = oracle->edge_room > 0 ? oracle->edge_room * 2 : 64;
        oracle->edges = realloc(oracle->edges, oracle->edge_room * sizeof *oracle->edges);
        must(oracle->edges != NULL);
    }
    oracle->edges[oracle->edge_count++] = (struct edge){.record = record,
                                                        .topic = topic,
                                                        .seq = seq,
                                                        .need_topic = need_topic,
                                                        .need_seq = need_seq};
}

/* The name of a topic in which somebody saw, before that time, that what this slot needs failed. */
static const char *failed_need(const struct oracle *oracle, uint32_t record, uint32_t topic,
                               uint64_t seq, int64_t before_ns)
{
    for (uint32_t i = 0; i < oracle->edge_count; i++) {
        const struct edge *edge = &oracle->edges[i];
        if (edge->record != record || edge->topic != topic || edge->seq != seq)
            continue;
        const struct fact *fact =
            fact_slot(oracle->facts, oracle->fact_room, edge->need_topic, edge->need_seq);
        if (fact->outcome.kind == OUTCOME_ERROR && fact->is_seen && fact->seen_ns < before_ns)
            return oracle->topics[edge->need_topic].name;
    }
    return NULL;
}

const char *oracle_failed_need(const struct oracle *oracle, uint32_t record, uint32_t topic,
                               uint64_t seq)
{
    return failed_need(oracle, record, topic, seq, INT64_MAX);
}

const char *oracle_fell(struct oracle *oracle, uint32_t topic, uint64_t seq, const char *by)
{
    for (uint32_t i = 0; i < oracle->edge_count; i++) {
        const struct edge *edge = &oracle->edges[i];
        if (edge->topic != topic || edge->seq != seq)
            continue;
        enum outcome_kind kind = oracle_known(oracle, edge->need_topic, edge->need_seq).kind;
        if (kind == OUTCOME_ERROR || kind == OUTCOME_NONE)
            return NULL;
    }
    return complain(oracle, topic, seq, "fell, and nothing that it needs did", by);
}

static const char *check_origin(struct oracle *oracle, uint32_t topic, uint64_t seq, uint64_t mark,
                                const char *by)
{
    struct origin *origin = origin_slot(oracle->origins, oracle->origin_room, mark);
    if (!origin->is_used)
        return NULL;
    const struct oracle_record *record = &oracle->records[origin->record];
    if (record->job != oracle->topics[topic].job % ORACLE_ATTEMPT)
        return complain(oracle, topic, seq, "a value of another job", by);
    if (origin->topic != topic || origin->seq != seq)
        return complain(oracle, topic, seq, "a value of another slot", by);
    if (origin->said_ns > record->lost_ns)
        return complain(oracle, topic, seq, "a value that a dead party wrote", by);
    if (failed_need(oracle, origin->record, topic, seq, origin->said_ns) != NULL)
        return complain(oracle, topic, seq, "a value, and what it needs had failed before", by);
    return NULL;
}

const char *oracle_seen(struct oracle *oracle, uint32_t topic, uint64_t seq, struct outcome outcome,
                        int64_t now_ns, const char *by)
{
    const char *wrong = NULL;
    if (outcome.kind == OUTCOME_VALUE)
        wrong = check_origin(oracle, topic, seq, outcome.mark, by);
    struct fact *fact = fact_get(oracle, topic, seq);
    if (!fact->is_seen)
        fact->seen_ns = now_ns;
    fact->is_seen = true;
    return wrong != NULL ? wrong : claim(oracle, topic, seq, outcome, by);
}

const char *oracle_accepted(struct oracle *oracle, uint32_t topic, uint64_t seq,
                            struct outcome outcome, const char *by)
{
    if (fact_get(oracle, topic, seq)->is_doubtful || oracle->is_doubting)
        return NULL;
    return claim(oracle, topic, seq, outcome, by);
}

void oracle_doubted(struct oracle *oracle, uint32_t topic, uint64_t seq)
{
    struct fact *fact = fact_get(oracle, topic, seq);
    fact->is_doubtful = true;
    if (!fact->is_seen)
        fact->outcome = (struct outcome){.kind = OUTCOME_NONE};
}

const char *oracle_retracted(struct oracle *oracle, uint32_t topic, uint64_t seq,
                             struct outcome error, struct outcome value, const char *by)
{
    const char *wrong = claim(oracle, topic, seq, error, by);
    if (wrong == NULL && value.kind == OUTCOME_VALUE)
        wrong = oracle_refused(oracle, topic, seq, value, by);
    return wrong;
}

const char *oracle_refused(struct oracle *oracle, uint32_t topic, uint64_t seq,
                           struct outcome outcome, const char *by)
{
    struct fact *fact = fact_get(oracle, topic, seq);
    if (fact->outcome.kind != OUTCOME_NONE && fact->outcome.kind != OUTCOME_SOME_VALUE &&
        is_same(fact->outcome, outcome))
        return complain(oracle, topic, seq, "is refused although it stands", by);
    fact->is_refused = true;
    fact->refused = outcome;
    return NULL;
}

struct outcome oracle_known(const struct oracle *oracle, uint32_t topic, uint64_t seq)
{
    return fact_slot(oracle->facts, oracle->fact_room, topic, seq)->outcome;
}

const struct oracle_record *oracle_origin(const struct oracle *oracle, struct outcome outcome)
{
    if (outcome.kind != OUTCOME_VALUE)
        return NULL;
    struct origin *origin = origin_slot(oracle->origins, oracle->origin_room, outcome.mark);
    return origin->is_used ? &oracle->records[origin->record] : NULL;
}
