/* SPDX-License-Identifier: MPL-2.0 */
/* core_swap_test.c -- access tables that are swapped at any step of any conversation.
 *
 * Parties write, read and wait at random, come, go and come back, and tables are drawn at random.
 * Held to after each step, by the table in force at that step:
 *   - nobody is sent a frame of a topic that it may not read
 *   - nothing is taken from a party that may not take part
 *   - whoever is revoked is told so in the step of the swap, and no slot of it is open behind it */
#include "broker/core/model.h"
#include "tests/lib/draw.h"
#include "tests/unit/core_driver.h"

#include <string.h>

enum { PARTIES = 4, TOPICS = 2, STEPS = 300, SEEDS = 40 };
enum { OF_PARTY = 100000, OF_TOPIC = 10000 }; /* a payload says whose it is */
#define DATA(conn) ((conn) + 10)

static struct memory access_memory;
static struct access *table, *older;
static uint64_t state;
static struct {
    bool is_there;           /* it has a session */
    uint32_t topics[TOPICS]; /* numbers of the broker; 0: not open in this incarnation */
    uint64_t next[TOPICS];
    bool is_open[TOPICS]; /* the newest slot */
    uint32_t subs, wants;
} parties[PARTIES + 1];
static uint64_t swaps, revoked, delivered, denied;

static void end(void)
{
    fini();
    access_free(&table);
    access_free(&older);
}

TestSuite(core_swap, .init = init, .fini = end, .timeout = 300);

static const char *topic_name(conn_id conn, uint32_t i)
{
    static char name[32];
    snprintf(name, sizeof name, "%s/%u", name_of(conn), i);
    return name;
}

/* Each has its line, or not; may read all, some, or take part under its name without reading. */
static void draw_table(void)
{
    char text[2048];
    struct access_fault fault;
    int at = 0;
    for (conn_id conn = 1; conn <= PARTIES; conn++)
        at += snprintf(text + at, sizeof text - (size_t)at, "uid %s %u\n", name_of(conn), conn);
    for (conn_id conn = 1; conn <= PARTIES; conn++) {
        uint32_t what = draw_below(&state, 8);
        if (what == 0)
            continue;
        at += snprintf(text + at, sizeof text - (size_t)at, "allow %s party", name_of(conn));
        if (what < 5)
            at += snprintf(text + at, sizeof text - (size_t)at, " reads %s/0", name_of(conn));
        for (conn_id other = 1; what < 5 && other <= PARTIES; other++)
            if (draw_below(&state, 3) > 0)
                at += snprintf(text + at, sizeof text - (size_t)at, " %s/%s", name_of(other),
                               draw_below(&state, 2) ? "0" : "#");
        at += snprintf(text + at, sizeof text - (size_t)at, " in job\n");
    }
    access_free(&older);
    older = table;
    table = access_read(&access_memory, span_text(text), &fault);
    cr_assert_not_null(table, "%u: %s in %s", fault.line, fault.what, text);
    options.access = table;
}

static uint32_t principal_of(conn_id conn)
{
    return access_find(table, span_text(name_of(conn)));
}

static bool may_be(conn_id conn)
{
    return access_may_be(table, principal_of(conn), span_text("job"), span_text(name_of(conn)));
}

/* ---- what is held to ------------------------------------------------------------------------- */

static void expect_may_read(conn_id reader, conn_id writer, uint32_t i)
{
    const char *name = name_of(reader);
    delivered += 1;
    cr_assert(access_may_read(table, principal_of(reader), span_text("job"), span_text(name),
                              span_text(topic_name(writer, i))),
              "%s was sent a frame of %s: %s", name, topic_name(writer, i), said);
}

/* That it may not wait for a slot. */
static bool is_denial(const struct effect_frame *made)
{
    struct error_record record;
    uint32_t count = 0;
    return (made->frame.flags & FRAME_KIND_MASK) == FRAME_ERROR &&
           error_decode(made->frame.value, &record, 1, &count) == WIRE_OK &&
           span_equal(record.type, span_text(ERROR_TYPE_NOT_AUTHORISED));
}

/* The topic of this number of the broker. */
static void expect_frame(conn_id reader, uint32_t sub, const struct effect_frame *made)
{
    const struct topic *topic = pool_find(&core->topics, made->frame.topic);
    bool is_name = sub == 0 && (made->frame.flags & FRAME_KIND_MASK) == FRAME_TOPIC;
    if (topic == NULL || is_name || is_denial(made))
        return; /* the name of a topic that it waited for is its own word */
    for (conn_id writer = 1; writer <= PARTIES; writer++)
        for (uint32_t i = 0; i < TOPICS; i++)
            if (span_equal(topic->name, span_text(topic_name(writer, i))))
                expect_may_read(reader, writer, i);
}

/* All that the last step sent. */
static void look(void)
{
    for (uint32_t i = 0; i < effects.count; i++) {
        const struct effect *effect = &effects.items[i];
        conn_id reader = effect->conn - 10;
        if (effect->type == EFFECT_SEND_RANGE || effect->type == EFFECT_SEND_PART)
            expect_may_read(reader, effect->payload / OF_PARTY,
                            effect->payload % OF_PARTY / OF_TOPIC);
        if (effect->type == EFFECT_SEND_FRAME)
            expect_frame(reader, effect->sub, &effects.frames[effect->index]);
    }
    for (conn_id conn = 1; conn <= PARTIES; conn++) {
        char over[32];
        snprintf(over, sizeof over, "%u < over", conn);
        if (strstr(said, over) != NULL)
            parties[conn].is_there = false;
    }
}

static uint32_t open_slots_of(conn_id conn)
{
    uint32_t count = 0;
    struct open_slot *slot = NULL;
    while ((slot = pool_next(&core->open_slots, slot != NULL ? slot->id : 0)) != NULL)
        count += span_equal(slot->topic->writer->name, span_text(name_of(conn)));
    return count;
}

/* ---- what happens ---------------------------------------------------------------------------- */

static void swap(void)
{
    bool was_there[PARTIES + 1];
    for (conn_id conn = 1; conn <= PARTIES; conn++)
        was_there[conn] = parties[conn].is_there;
    draw_table();
    for (conn_id conn = 1; conn <= PARTIES; conn++)
        speakers[conn] = speakers[DATA(conn)] = principal_of(conn);
    forget();
    if (shadow != NULL)
        shadow->access = table; /* it follows by facts alone, and none tells of a table */
    step((struct event){.type = EVENT_ACCESS, .as.access = table});
    look();
    swaps += 1;
    for (conn_id conn = 1; conn <= PARTIES; conn++) {
        cr_assert(may_be(conn) || !parties[conn].is_there, "%s goes on", name_of(conn));
        if (!was_there[conn] || parties[conn].is_there)
            continue;
        revoked += 1;
        cr_assert_eq(open_slots_of(conn), 0, "%s owes a slot", name_of(conn));
    }
}

static void come(conn_id conn)
{
    bool may = may_be(conn);
    say_hello(conn);
    look();
    parties[conn].is_there = strstr(said, "welcome") != NULL;
    cr_assert_eq(parties[conn].is_there, may, "%s: %s", name_of(conn), said);
    denied += !may;
    forget();
    if (!may)
        return;
    attach(conn, DATA(conn), tokens[conn]);
    look();
    numbers[conn] = frames[conn] = 0;
    memset(parties[conn].topics, 0, sizeof parties[conn].topics);
    memset(parties[conn].is_open, 0, sizeof parties[conn].is_open);
    parties[conn].subs = parties[conn].wants = 0;
}

static void write_slot(conn_id conn, uint32_t i)
{
    uint32_t payload = (uint32_t)(conn * OF_PARTY + i * OF_TOPIC + parties[conn].next[i]);
    if (parties[conn].topics[i] == 0)
        parties[conn].topics[i] = open_topic(conn, topic_name(conn, i));
    uint32_t topic = parties[conn].topics[i];
    if (parties[conn].is_open[i]) {
        fail(conn, topic, parties[conn].next[i] - 1, frames[conn]);
        parties[conn].is_open[i] = false;
    } else if (draw_below(&state, 3) == 0) {
        reserve(conn, topic, parties[conn].next[i]++);
        parties[conn].is_open[i] = true;
    } else {
        publish(conn, topic, parties[conn].next[i]++, 1, payload);
    }
    look();
}

static void read_something(conn_id conn)
{
    conn_id other = 1 + draw_below(&state, PARTIES);
    uint32_t i = draw_below(&state, TOPICS);
    char pattern[32];
    if (draw_below(&state, 2) == 0) {
        await_slot(conn, ++parties[conn].wants, topic_name(other, i), draw_below(&state, 30));
    } else {
        snprintf(pattern, sizeof pattern, draw_below(&state, 2) ? "%s/#" : "%s/1", name_of(other));
        subscribe(conn, ++parties[conn].subs, pattern, "", 0, 0);
    }
    look();
}

/* What comes on a connection that the broker has let go. */
static void speak_after_the_end(conn_id conn)
{
    char dropped[32];
    if (parties[conn].topics[0] == 0)
        return;
    forget();
    publish(conn, parties[conn].topics[0], parties[conn].next[0], 1, 1);
    snprintf(dropped, sizeof dropped, "%u dropped\n", DATA(conn));
    cr_assert(said_bytes == 0 || strcmp(said, dropped) == 0, "%s is heard: %s", name_of(conn),
              said);
}

static void act(void)
{
    conn_id conn = 1 + draw_below(&state, PARTIES);
    uint32_t what = draw_below(&state, 20);
    forget();
    if (what == 0)
        swap();
    else if (!parties[conn].is_there && what < 4)
        speak_after_the_end(conn);
    else if (!parties[conn].is_there)
        come(conn);
    else if (what < 6)
        read_something(conn);
    else
        write_slot(conn, draw_below(&state, TOPICS));
}

Test(core_swap, sends_and_takes_by_the_table_of_that_step)
{
    memory_heap_init(&access_memory, UINT64_MAX);
    batch_bytes = 64;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        state = seed;
        memset(parties, 0, sizeof parties);
        draw_table();
        restart();
        for (conn_id conn = 1; conn <= PARTIES; conn++)
            speakers[conn] = speakers[DATA(conn)] = principal_of(conn);
        for (uint32_t i = 0; i < STEPS; i++)
            act();
    }
    cr_expect_gt(swaps, SEEDS, "%llu", (unsigned long long)swaps);
    cr_expect_gt(revoked, SEEDS, "%llu", (unsigned long long)revoked);
    cr_expect_gt(denied, SEEDS, "%llu", (unsigned long long)denied);
    cr_expect_gt(delivered, SEEDS * 50, "%llu", (unsigned long long)delivered);
}
