/* SPDX-License-Identifier: MPL-2.0 */
/* own_topics_test.c -- topics that are written, and the slots that are owed. */
#include "libbus/session/own_topics.h"

#include "libbus/base/limits.h"

#include "libbus/base/must.h"

#include <criterion/criterion.h>
#include <stdio.h>

static struct memory memory;
static struct own_topics own;

static void init(void)
{
    memory_heap_init(&memory, UINT64_MAX);
    own_topics_init(&own, &memory);
}

static void fini(void)
{
    own_topics_fini(&own);
    must(memory.bytes_used == 0);
}

TestSuite(own_topics, .init = init, .fini = fini);

static struct own_topic *open_topic(const char *name)
{
    struct own_topic *topic;
    cr_assert_eq(own_topics_open(&own, span_text(name), &topic), CODE_OK);
    return topic;
}

static size_t ask_count(void)
{
    size_t count = 0;
    LIST_EACH(link, &own.asks)
        count++;
    return count;
}

Test(own_topics, makes_each_once)
{
    char name[] = "alice/x";
    struct own_topic *x = open_topic(name);
    name[6] = 'y'; /* names are copied */
    struct own_topic *y = open_topic(name);
    cr_assert_neq(x, y);
    cr_assert_eq(open_topic("alice/x"), x);
    cr_assert_eq(own_topics_find(&own, x->id), x);
    cr_assert_null(own_topics_find(&own, 77));
    cr_assert_eq(ask_count(), 2);
}

Test(own_topics, knows_the_numbers_of_the_broker)
{
    struct own_topic *x = open_topic("alice/x");
    struct own_topic *y = open_topic("alice/y");
    cr_assert_eq(own_topics_number(&own, x, 5), CODE_OK);
    x->state = OWN_TOPIC_OPEN;
    cr_assert_eq(own_topics_number(&own, x, 5), CODE_OK);
    cr_assert_eq(own_topics_number(&own, x, 6), CODE_EPROTO);
    cr_assert_eq(own_topics_number(&own, y, 5), CODE_EPROTO);
    cr_assert_eq(own_topics_number(&own, y, 0), CODE_OK);
    cr_assert_eq(own_topics_by_number(&own, 5), x);
    cr_assert_eq(own_topics_by_number(&own, 0), y);
    cr_assert_null(own_topics_by_number(&own, 7));
}

Test(own_topics, asks_again_where_no_answer_came)
{
    struct own_topic *topics[4];
    static const enum own_topic_state states[] = {OWN_TOPIC_ASKED, OWN_TOPIC_OPEN,
                                                  OWN_TOPIC_REFUSED, OWN_TOPIC_OPEN};
    static const char *const names[] = {"a/1", "a/2", "a/3", "a/4"};
    for (int i = 0; i < 4; i++) {
        topics[i] = open_topic(names[i]);
        topics[i]->state = states[i];
        list_remove(&topics[i]->ask);
    }
    topics[3]->is_recount = true;
    own_topics_rewind(&own);
    own_topics_rewind(&own);
    cr_assert_eq(ask_count(), 2);
    cr_assert(list_is_linked(&topics[0]->ask));
    cr_assert(list_is_linked(&topics[3]->ask));
}

Test(own_topics, keeps_account_of_slots)
{
    struct own_topic *x = open_topic("alice/x");
    struct own_topic *y = open_topic("alice/y");
    for (uint64_t seq = 0; seq < 1000; seq++) {
        struct own_slot *slot = own_slot_new(&own, x, seq * 3);
        cr_assert_not_null(slot->spare);
        slot->held_bytes = 10;
        own.held_bytes += 10;
    }
    cr_assert_eq(own.slots.used, 1000);
    cr_assert_null(own_slot_find(&own, x, 1));
    cr_assert_null(own_slot_find(&own, y, 0));
    for (uint64_t seq = 0; seq < 1000; seq++) {
        struct own_slot *slot = own_slot_find(&own, x, seq * 3);
        cr_assert_eq(slot->seq, seq * 3);
        if (seq % 2 == 0)
            own_slot_free(&own, x, slot);
    }
    cr_assert_eq(own.held_bytes, 5000);
    cr_assert_eq(own.slots.used, 500);
}

Test(own_topics, is_bounded)
{
    char name[32];
    struct own_topic *topic;
    for (int i = 0; i < LIMIT_TOPICS; i++) {
        snprintf(name, sizeof name, "alice/%d", i);
        cr_assert_eq(own_topics_open(&own, span_text(name), &topic), CODE_OK);
    }
    cr_assert_eq(own_topics_open(&own, span_text("alice/more"), &topic), CODE_EFULL);
    cr_assert_eq(own_topics_open(&own, span_text("alice/7"), &topic), CODE_OK);
}

Test(own_topics, says_so_when_memory_is_short)
{
    struct own_topic *topic;
    memory.bytes_max = 0;
    cr_assert_eq(own_topics_open(&own, span_text("alice/x"), &topic), CODE_ENOMEM);
    memory.bytes_max = UINT64_MAX;
    topic = open_topic("alice/x");
    memory.bytes_max = memory.bytes_used;
    cr_assert_null(own_slot_new(&own, topic, 0));
    memory.bytes_max = UINT64_MAX;
    cr_assert_not_null(own_slot_new(&own, topic, 0));
}
