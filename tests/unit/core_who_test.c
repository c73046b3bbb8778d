/* SPDX-License-Identifier: MPL-2.0 */
/* core_who_test.c -- who is connected; and what operators are told of another access file. */
#include "tests/unit/core_driver.h"

enum { ALICE = 1, BOB = 2, ROOT = 6, OPS = 7 };

static const char rules[] = "uid alice 1\nuid bob 2\nuid root 6\nuid ops 7\n"
                            "allow alice party in job\nallow bob party in job\n"
                            "allow root admin\nallow ops tap in job\n";
static struct memory access_memory;
static struct access *table, *older;

static struct access *read_rules(const char *text)
{
    struct access_fault fault;
    struct access *made = access_read(&access_memory, span_text(text), &fault);
    cr_assert_not_null(made, "%u: %s", fault.line, fault.what);
    return made;
}

static void belongs(conn_id conn, const char *name)
{
    speakers[conn] = speakers[conn + 10] = access_find(table, span_text(name));
    cr_assert_neq(speakers[conn], 0, "%s", name);
}

static void begin(void)
{
    init();
    memory_heap_init(&access_memory, UINT64_MAX);
    table = read_rules(rules);
    options.access = table;
    restart();
    belongs(ALICE, "alice");
    belongs(BOB, "bob");
    belongs(ROOT, "root");
    belongs(OPS, "ops");
}

static void end(void)
{
    fini();
    access_free(&table);
    access_free(&older);
}

TestSuite(core_who, .init = begin, .fini = end, .timeout = 120);

static void ask_who(conn_id conn, uint64_t after)
{
    forget();
    message(conn, (struct msg){.type = MSG_WHO, .as.who = {.request = 3, .after = after}});
}

static void ask_reload(conn_id conn)
{
    message(conn, (struct msg){.type = MSG_RELOAD, .as.reload = {.request = 4}});
}

static void put_in_force(const char *text)
{
    access_free(&older);
    older = table;
    table = read_rules(text);
    options.access = table;
    step((struct event){.type = EVENT_ACCESS, .as.access = table});
}

static void complain(enum access_word word, const char *text)
{
    step((struct event){.type = EVENT_ACCESS_WORD, .as.access_word = {.word = word, .text = text}});
}

/* ---- who ------------------------------------------------------------------------------------- */

Test(core_who, lists_each_session_with_its_name_and_connections)
{
    struct msg guard = hello(21, 0);
    join(ALICE);
    guard.as.hello.role = 2;
    guard.as.hello.party = span_text("bob");
    belongs(21, "bob");
    message(21, guard);
    observe(ROOT, "");
    pass_ms(70);
    ask_who(ROOT, 0);
    EXPECT("6 < who alice: job/alice/1, role 0, 2 connections, 1, 70 ms\n"
           "6 < who bob: job/bob/1, role 2, 1 connections, 21, 70 ms\n"
           "6 < who root: //0, role 1, 1 connections, 6, 70 ms\n"
           "6 < who, next 0\n");
    closed(ALICE);
    ask_who(ROOT, 0);
    keep_lines("alice", "alice");
    EXPECT("6 < who alice: job/alice/1, role 0, 0 connections, 0, 0 ms\n");
    say_hello_again(ALICE);
    pass_ms(5);
    ask_who(ROOT, 0);
    keep_lines("alice", "alice");
    EXPECT("6 < who alice: job/alice/1, role 0, 1 connections, 1, 5 ms\n");
}

Test(core_who, lists_everybody_where_there_is_no_access_file)
{
    options.access = NULL;
    restart();
    memset(speakers, 0, sizeof speakers);
    join(ALICE);
    observe(ROOT, "");
    ask_who(ROOT, 0);
    EXPECT("6 < who : job/alice/1, role 0, 2 connections, 1, 0 ms\n"
           "6 < who : //0, role 1, 1 connections, 6, 0 ms\n"
           "6 < who, next 0\n");
    options.access = table;
}

/* Of three answers each session is in one, also of those that others left between them. */
Test(core_who, lists_many_in_several_answers)
{
    enum { OBSERVERS = 2 * LIMIT_WHO_ROWS + 10 };
    unsigned rows = 0, answers = 0;
    uint64_t after = 0;
    is_alone = true;
    observe(ROOT, "");
    for (conn_id conn = 1000; conn < 1000 + OBSERVERS; conn++)
        step((struct event){.type = EVENT_MESSAGE,
                            .conn = conn,
                            .principal = access_find(table, span_text("ops")),
                            .as.msg = &(struct msg){.type = MSG_HELLO,
                                                    .as.hello = {.major = 1,
                                                                 .job = span_text("job"),
                                                                 .role = 1,
                                                                 .heartbeat_ms = 1000,
                                                                 .lost_after_ms = 10000}}});
    do {
        ask_who(ROOT, after);
        unsigned here = 0;
        for (uint32_t i = 0; i < effects.count; i++) {
            const struct msg *msg = &effects.msgs[effects.items[i].index];
            here += effects.items[i].type == EFFECT_SEND_MSG && msg->type == MSG_WHO_ROW;
            if (effects.items[i].type == EFFECT_SEND_MSG && msg->type == MSG_WHO_END)
                after = msg->as.who_end.next;
        }
        cr_assert_leq(here, LIMIT_WHO_ROWS);
        rows += here;
        answers += 1;
        cr_assert_leq(answers, 3);
    } while (after != 0);
    cr_expect_eq(rows, OBSERVERS + 1);
    cr_expect_eq(answers, 3);
    forget();
    for (conn_id conn = 1000; conn < 1000 + OBSERVERS; conn++)
        closed(conn);
    is_alone = false;
}

Test(core_who, lists_nobody_behind_the_last_number)
{
    observe(ROOT, "");
    ask_who(ROOT, UINT32_MAX);
    EXPECT("6 < who, next 0\n");
    ask_who(ROOT, UINT32_MAX - 1);
    EXPECT("6 < who, next 0\n");
}

/* ---- another file ---------------------------------------------------------------------------- */

Test(core_who, answers_who_asked_for_another_file_before_anybody_is_revoked)
{
    join(ALICE);
    observe(ROOT, "");
    forget();
    ask_reload(ROOT);
    EXPECT("6 wants another table\n");
    put_in_force("uid bob 2\nallow bob party in job\n");
    keep_lines("6 ", "1 < over");
    EXPECT("6 < reloaded 0 , revoked 1\n"
           "1 < over 12 (party_lost of alice)\n"
           "6 < over 12\n6 dropped\n");
    put_in_force("uid bob 2\nallow bob party in job\n"); /* nobody asked for this one */
    EXPECT("");
}

Test(core_who, answers_all_who_asked_with_the_fault_of_the_file)
{
    observe(ROOT, "");
    belongs(26, "root");
    observe(26, "");
    ask_reload(ROOT);
    ask_reload(26);
    forget();
    complain(ACCESS_IS_REFUSED, "access:2: 'x' is no right");
    EXPECT("6 < reloaded 6 errbus.access_file, revoked 0\n"
           "26 < reloaded 6 errbus.access_file, revoked 0\n");
    complain(ACCESS_IS_REFUSED, "again");
    EXPECT("");
}

Test(core_who, does_not_answer_a_connection_that_is_gone)
{
    observe(ROOT, "");
    ask_reload(ROOT);
    closed(ROOT);
    forget();
    put_in_force(rules);
    EXPECT("");
}

Test(core_who, says_that_there_is_no_file)
{
    options.access = NULL;
    restart();
    memset(speakers, 0, sizeof speakers);
    observe(ROOT, "");
    forget();
    ask_reload(ROOT);
    EXPECT("6 < reloaded 1 errbus.argument, revoked 0\n");
    options.access = table;
}

Test(core_who, tells_taps_once_of_each_change)
{
    join(ALICE);
    join(BOB);
    observe(OPS, "job");
    tap_from(OPS, UINT64_MAX, 100);
    forget();
    put_in_force("uid bob 2\nuid root 6\nuid ops 7\nuid carl 8\nuid carla 9\n"
                 "allow bob party in job\nallow root admin\nallow ops tap in job\n");
    keep_lines("access.", "access.");
    EXPECT("7 < access.reloaded /0 #0 x1\n");
    put_in_force("uid bob 2\nuid ops 7\nallow bob party in job\nallow ops tap in job\n");
    EXPECT("7 < access.reloaded /0 #0 x0\n");
    cr_expect_str_eq(event_text, "names 2, before 5; uids 2, before 5; rules 2, before 3");
    step((struct event){.type = EVENT_ACCESS, .as.access = table}); /* a key has ended */
    EXPECT("");
    complain(ACCESS_IS_REFUSED, "access:7: 'x' begins no line");
    EXPECT("7 < access.refused /0 #0 x0\n");
    cr_expect_str_eq(event_text, "access:7: 'x' begins no line");
    complain(ACCESS_IS_EXPIRING, "the uid 7 of ops ends");
    EXPECT("7 < access.expiring /0 #0 x0\n");
    cr_expect_str_eq(event_text, "the uid 7 of ops ends");
}
