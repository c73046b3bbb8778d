/* SPDX-License-Identifier: MPL-2.0 */
/* durable_name_test.c -- durable names that nobody reads: what is kept for them is bounded. */
#include "broker/core/model.h"
#include "broker/core/tables/event.h"
#include "tests/unit/core_driver.h"

TestSuite(durable_name, .init = init, .fini = fini);

static uint32_t count(const struct list *list)
{
    uint32_t count = 0;
    LIST_EACH(link, list)
        count += 1;
    return count;
}

static void unsubscribe(conn_id conn, uint32_t sub)
{
    message(conn, (struct msg){.type = MSG_UNSUBSCRIBE,
                               .as.unsubscribe = {.number = ++numbers[conn], .sub = sub}});
}

/* Alice comes, publishes a value and is lost, so many times.  The last time she stays. */
static void live_often(uint32_t count_of_lives)
{
    for (uint32_t i = 0; i < count_of_lives; i++) {
        join(1);
        publish(1, open_topic(1, "alice/a"), i, 1, 5 + i);
        if (i + 1 == count_of_lives)
            return;
        closed(1);
        pass_ms(1000);
        beat(2);
    }
}

/* At n-1, n, n+1 ends of the limit, and at many. */
Test(durable_name, is_kept_so_many_ends_of_a_party)
{
    static const uint32_t ends[] = {LIMIT_PARTY_ENDS - 1, LIMIT_PARTY_ENDS, LIMIT_PARTY_ENDS + 1,
                                    3 * LIMIT_PARTY_ENDS};
    for (unsigned i = 0; i < sizeof ends / sizeof *ends; i++) {
        memset(numbers, 0, sizeof numbers);
        memset(frames, 0, sizeof frames);
        restart();
        join(2);
        subscribe(2, 1, "alice/#", "keep", 0, 0);
        unsubscribe(2, 1);
        live_often(ends[i] + 1);
        const struct sub *sub = pool_next(&core->subs, 0);
        uint32_t most = ends[i] < LIMIT_PARTY_ENDS ? ends[i] : LIMIT_PARTY_ENDS;
        cr_expect_eq(count(&sub->endings), most, "%u", (unsigned)ends[i]);
        compact();
    }
}

Test(durable_name, is_told_the_oldest_ends_as_one)
{
    join(2);
    subscribe(2, 1, "alice/#", "keep", 0, 0);
    unsubscribe(2, 1);
    live_often(LIMIT_PARTY_ENDS + 3);
    compact();
    crash(100);
    resume(2, tokens[2], 0);
    forget();
    subscribe(2, 2, "alice/#", "keep", 0, 0);
    cr_expect_not_null(strstr(said, "12 < sub 2 payload 5 x1\n12 < sub 2 payload 6 x1\n"
                                    "12 < sub 2 payload 7 x1\n"
                                    "12 < sub 2 end #3 (party_lost of alice) since #1\n"
                                    "12 < sub 2 payload 8 x1\n"
                                    "12 < sub 2 end #4 (party_lost of alice)\n"),
                       "%s", said);
}

static bool is_opened(uint32_t i)
{
    char name[16];
    (void)snprintf(name, sizeof name, "x%u", (unsigned)i);
    forget();
    subscribe(1, 1 + i, "bob/a", name, 0, 0);
    bool is_refused = strstr(said, "subscribed 0") == NULL;
    unsubscribe(1, 1 + i);
    return !is_refused;
}

/* A party may not have more of them than subscriptions, whether it reads them or not. */
Test(durable_name, is_one_of_so_many_of_a_party)
{
    is_alone = true; /* there is too much to compare after every step */
    join(1);
    for (uint32_t i = 0; i < LIMIT_SUBS; i++)
        cr_assert(is_opened(i), "%u: %s", (unsigned)i, said);
    cr_expect_not(is_opened(LIMIT_SUBS), "%s", said);
    cr_expect(is_opened(7), "one that it has: %s", said);
    const struct party *party = ((struct sub *)pool_next(&core->subs, 0))->party;
    cr_expect_eq(count(&party->durables), LIMIT_SUBS);
}
