/* SPDX-License-Identifier: MPL-2.0 */
/* core_rights_test.c -- a broker with an access file: what each may do, that whoever may not is
 * answered alike and changes nothing, and that tokens count for their owner alone. */
#include "tests/unit/core_driver.h"

enum { ALICE = 1, BOB = 2, CAROL = 3, OPS = 4, EVE = 5, ROOT = 6, TWIN = 7 };
#define DATA(conn) ((conn) + 10)

/* carol reads alice/open and what she writes.  eve may take part in another job.  The twin may be
 * alice or bob, and has a key of its own. */
static const char rules[] = "uid alice 1\nuid bob 2\nuid carol 3\nuid ops 4\nuid eve 5\n"
                            "uid root 6\nuid twin 7\n"
                            "group all alice bob\n"
                            "allow all party in job\n"
                            "allow carol party reads alice/open in job\n"
                            "allow ops tap status in job\n"
                            "allow eve party in other\n"
                            "allow root admin\n"
                            "allow twin party as alice bob in job\n";
static struct memory access_memory;
static struct access *table;

static void use(const char *text)
{
    struct access_fault fault;
    access_free(&table);
    memory_heap_init(&access_memory, UINT64_MAX);
    table = access_read(&access_memory, span_text(text), &fault);
    cr_assert_not_null(table, "%u: %s", fault.line, fault.what);
    options.access = table;
}

static void belongs(conn_id conn, const char *name)
{
    speakers[conn] = access_find(table, span_text(name));
    cr_assert_neq(speakers[conn], 0, "%s", name);
}

static void begin(void)
{
    static const char *const names[] = {"", "alice", "bob", "carol", "ops", "eve", "root", "twin"};
    init();
    use(rules);
    restart();
    for (conn_id conn = ALICE; conn <= TWIN; conn++) {
        belongs(conn, names[conn]);
        belongs(DATA(conn), names[conn]);
    }
}

static struct access *older; /* that was in force before */

static void end(void)
{
    fini();
    access_free(&table);
    access_free(&older);
}

TestSuite(core_rights, .init = begin, .fini = end);

#define DENIED "refused 12 errbus.not_authorised\n"

/* ---- greetings ------------------------------------------------------------------------------- */

static void greet_as(conn_id conn, const char *job, const char *party, uint64_t token)
{
    struct msg msg = hello(conn, token);
    msg.as.hello.job = span_text(job);
    msg.as.hello.party = span_text(party);
    message(conn, msg);
}

Test(core_rights, lets_a_party_in_under_its_own_name_alone)
{
    greet_as(ALICE, "job", "alice", 0);
    EXPECT("1 < welcome incarnation 1\n");
    greet_as(BOB, "job", "alice", 0);
    EXPECT("2 < " DENIED "2 dropped\n");
    greet_as(BOB, "other", "bob", 0);
    EXPECT("2 < " DENIED "2 dropped\n");
    greet_as(EVE, "other", "eve", 0);
    EXPECT("5 < welcome incarnation 1\n");
    greet_as(OPS, "job", "ops", 0);
    EXPECT("4 < " DENIED "4 dropped\n");
    greet_as(ROOT, "job", "root", 0); /* an administrator is no party */
    EXPECT("6 < " DENIED "6 dropped\n");
    greet_as(41, "job", "alice", 0); /* nobody's connection */
    EXPECT("41 < " DENIED "41 dropped\n");
    observe(41, "job");
    EXPECT("41 < " DENIED "41 dropped\n");
}

Test(core_rights, knows_a_token_from_its_owner_alone)
{
    join(ALICE);
    uint64_t token = tokens[ALICE];
    greet_as(TWIN, "job", "alice", token);
    EXPECT("7 < refused 11 errbus.fenced\n7 dropped\n");
    greet_as(TWIN, "job", "alice", token + 1); /* as a token that there is not */
    EXPECT("7 < refused 11 errbus.fenced\n7 dropped\n");
    greet_as(BOB, "job", "alice", token);
    EXPECT("2 < " DENIED "2 dropped\n");
    closed(ALICE);
    forget();
    greet_as(21, "job", "alice", token); /* nobody */
    EXPECT("21 < " DENIED "21 dropped\n");
    belongs(21, "alice");
    greet_as(21, "job", "alice", token);
    EXPECT("21 < welcome incarnation 1, resumed\n");
}

Test(core_rights, knows_a_client_id_from_its_owner_alone)
{
    struct msg msg = hello(ALICE, 0);
    msg.as.hello.client = 77;
    msg.as.hello.dial = 1;
    message(ALICE, msg);
    EXPECT("1 < welcome incarnation 1\n");
    msg.as.hello.dial = 2;
    message(TWIN, msg);
    EXPECT("7 < refused 12 errbus.name_taken\n7 dropped\n");
    belongs(21, "alice");
    message(21, msg);
    EXPECT("1 dropped\n21 < welcome incarnation 1\n");
}

Test(core_rights, attaches_data_of_the_owner_alone)
{
    say_hello(ALICE);
    struct msg msg = {.type = MSG_ATTACH,
                      .as.attach = {.token = tokens[ALICE], .connection = ALICE}};
    forget();
    message(DATA(TWIN), msg);
    EXPECT("17 dropped\n");
    message(DATA(ALICE), msg);
    locate(ALICE, "host", 1);
    EXPECT("1 < attached\n");
}

Test(core_rights, knows_a_guard_from_its_owner_alone)
{
    struct msg msg = hello(ALICE, 0);
    msg.as.hello.role = 2;
    message(ALICE, msg);
    uint64_t guard = tokens[ALICE];
    forget();
    msg = hello(TWIN, 0);
    msg.as.hello.party = span_text("alice");
    msg.as.hello.guard = guard;
    message(TWIN, msg);
    EXPECT("7 < refused 11 errbus.fenced\n7 dropped\n");
    belongs(21, "alice");
    message(21, msg);
    EXPECT("21 < welcome incarnation 1\n");
}

/* ---- reading --------------------------------------------------------------------------------- */

Test(core_rights, sends_a_reader_what_it_may_read_and_nothing_else)
{
    join(ALICE);
    join(CAROL);
    subscribe(CAROL, 1, "alice/+", "", 0, 0);
    EXPECT("3 < subscribed 0\n3 < accepted 0 1\n");
    uint32_t open = open_topic(ALICE, "alice/open");
    uint32_t shut = open_topic(ALICE, "alice/shut");
    publish(ALICE, shut, 0, 1, 1);
    keep_lines("13 < ", "13 < ");
    EXPECT("");
    publish(ALICE, open, 0, 1, 2);
    keep_lines("13 < ", "13 < ");
    EXPECT("13 < sub 1 payload 2 x1\n");
    subscribe(CAROL, 2, "alice/#", "", 0, 0); /* topics that are there already */
    keep_lines("13 < ", "subscribed");
    EXPECT("3 < subscribed 0\n13 < sub 2 payload 2 x1\n");
}

Test(core_rights, refuses_a_pattern_that_can_match_nothing)
{
    join(CAROL);
    subscribe(CAROL, 1, "alice/shut", "", 0, 0);
    subscribe(CAROL, 2, "bob/#", "", 0, 0);
    share(CAROL, 3, "alice/+", "g", 1); /* any value may come: it must be allowed them all */
    keep_lines("subscribed", "subscribed");
    EXPECT("3 < subscribed 12\n3 < subscribed 12\n3 < subscribed 12\n");
    share(CAROL, 4, "alice/open", "g", 1);
    subscribe(CAROL, 5, "alice/open", "", 0, 0);
    keep_lines("subscribed", "subscribed");
    EXPECT("3 < subscribed 0\n3 < subscribed 0\n");
    message(CAROL, (struct msg){.type = MSG_SUB_ADD,
                                .as.sub_add = {.number = ++numbers[CAROL],
                                               .sub = 5,
                                               .pattern = span_text("alice/shut")}});
    keep_lines("subscribed", "subscribed");
    EXPECT("3 < subscribed 12\n");
}

Test(core_rights, answers_a_wait_alike_whether_there_is_such_a_slot)
{
    join(ALICE);
    join(CAROL);
    uint32_t shut = open_topic(ALICE, "alice/shut");
    publish(ALICE, shut, 0, 1, 1);
    forget();
    await_slot(CAROL, 1, "alice/shut", 0);
    EXPECT("13 < sub 0 error #0 (rejected of carol)\n");
    await_slot(CAROL, 2, "alice/none", 0);
    EXPECT("13 < sub 0 error #0 (rejected of carol)\n");
    cr_assert_str_eq(error_message, "this key may not do that here");
    await_slot(CAROL, 3, "dave/none", 0);
    EXPECT("13 < sub 0 error #0 (rejected of carol)\n");
}

Test(core_rights, lets_no_slot_need_one_that_its_writer_may_not_read)
{
    join(ALICE);
    join(CAROL);
    reserve(ALICE, open_topic(ALICE, "alice/shut"), 0);
    reserve(ALICE, open_topic(ALICE, "alice/open"), 0);
    uint32_t topic = open_topic(CAROL, "carol/a");
    reserve_after(CAROL, topic, 0, "alice/shut", 0);
    keep_lines("refusal", "refusal");
    EXPECT("3 < refusal #0 (rejected of carol)\n");
    reserve_after(CAROL, topic, 1, "alice/open", 0);
    keep_lines("refusal", "refusal");
    EXPECT("");
}

/* ---- questions ------------------------------------------------------------------------------- */

static struct msg question(enum msg_type type)
{
    struct span job = span_text("job");
    struct span id = span_text("job/bob/1/1");
    struct msg msg = {.type = type};
    switch (type) {
    case MSG_STATUS: msg.as.status.job = job; break;
    case MSG_VERDICT_ASK: msg.as.verdict_ask.job = job; break;
    case MSG_JOB_CREATE: msg.as.job_create = a_job(1, 0); break;
    case MSG_JOB_SHOW: msg.as.job_show.job = job; break;
    case MSG_JOB_CANCEL: msg.as.job_cancel.job = job; break;
    case MSG_JOB_FORGET: msg.as.job_forget.job = job; break;
    case MSG_DEAD: msg.as.dead = (struct msg_dead){.job = job, .group = span_text("g")}; break;
    case MSG_FETCH:
        msg.as.fetch = (struct msg_fetch){.job = job, .error = id, .name = span_text("stderr")};
        break;
    case MSG_BRING:
        msg.as.bring = (struct msg_bring){.job = job, .error = id, .name = span_text("stderr")};
        break;
    case MSG_ATTACHMENTS:
        msg.as.attachments = (struct msg_attachments){.job = job, .error = id};
        break;
    case MSG_WHY: msg.as.why.job = job; break;
    case MSG_WHO:
    case MSG_RELOAD: break;
    case MSG_WITHOUT:
        msg.as.without = (struct msg_without){.job = job, .party = span_text("bob")};
        break;
    case MSG_METRICS: break; /* about all jobs */
    default: cr_assert_fail("%s is no question", msg_name(type));
    }
    msg_id_set(&msg, 9);
    return msg;
}

/* An observer with a data connection, so that it may ask all of them but one. */
static void observe_as_courier(conn_id conn)
{
    observe(conn, "job");
    attach(conn, DATA(conn), tokens[conn]);
    forget();
}

static bool ask_and_see_denied(conn_id conn, enum msg_type type)
{
    char answer[64];
    message(conn, question(type));
    snprintf(answer, sizeof answer, "%u < done 12 errbus.not_authorised\n", conn);
    bool is_denied = strcmp(said, answer) == 0;
    cr_assert(is_denied || strstr(said, "authorised") == NULL, "%s: %s", msg_name(type), said);
    forget();
    return is_denied;
}

Test(core_rights, answers_each_question_that_is_not_allowed_alike_and_changes_nothing)
{
    static const enum msg_type questions[] = {
        MSG_STATUS, MSG_JOB_CREATE, MSG_JOB_SHOW,    MSG_JOB_CANCEL, MSG_DEAD,
        MSG_FETCH,  MSG_BRING,      MSG_ATTACHMENTS, MSG_WHY,        MSG_WITHOUT,
        MSG_WHO,    MSG_RELOAD,     MSG_METRICS,
    };
    struct core_dump before = {0}, after = {0};
    join(BOB);
    observe_as_courier(EVE);
    core_dump_take(&before, core);
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++)
        cr_assert(ask_and_see_denied(EVE, questions[i]), "%s", msg_name(questions[i]));
    core_dump_take(&after, core);
    cr_assert_null(core_dump_differ(&before, &after), "%s", core_dump_differ(&before, &after));
    observe(25, "job"); /* JOB_FORGET is an observer's */
    core_dump_fini(&before);
    core_dump_fini(&after);
}

/* A question of messages.def that rights.c does not know would end the broker. */
Test(core_rights, denies_each_question_that_there_is)
{
    unsigned asked = 0;
    for (unsigned number = 1; number < 64; number++) {
        const struct msg_kind *kind = msg_kind(number);
        if (kind == NULL || kind->direction != MSG_TO_BROKER || kind->id != MSG_REQUEST ||
            kind->as.to_broker.right <= MSG_TOPICS ||
            (kind->as.to_broker.speakers & MSG_BY_OBSERVER) == 0)
            continue;
        struct msg msg = {.type = (enum msg_type)number};
        msg_id_set(&msg, 9);
        observe(EVE, "job");
        forget();
        message(EVE, msg);
        cr_expect(strstr(said, "5 < done 12 errbus.not_authorised\n") == said ||
                      strstr(said, "5 < over 12\n") == said,
                  "%s: %s", kind->name, said);
        closed(EVE);
        asked += 1;
    }
    cr_expect_geq(asked, 8);
}

Test(core_rights, answers_what_is_allowed)
{
    join(BOB);
    observe_as_courier(OPS);
    cr_assert(!ask_and_see_denied(OPS, MSG_STATUS));
    cr_assert(!ask_and_see_denied(OPS, MSG_VERDICT_ASK));
    cr_assert(!ask_and_see_denied(OPS, MSG_JOB_SHOW));
    cr_assert(!ask_and_see_denied(OPS, MSG_FETCH));
    cr_assert(!ask_and_see_denied(OPS, MSG_ATTACHMENTS));
    cr_assert(!ask_and_see_denied(OPS, MSG_WHY));
    cr_assert(!ask_and_see_denied(OPS, MSG_WITHOUT));
    cr_assert(ask_and_see_denied(OPS, MSG_JOB_CANCEL));
    cr_assert(ask_and_see_denied(OPS, MSG_DEAD));
    cr_assert(ask_and_see_denied(OPS, MSG_BRING));
    cr_assert(ask_and_see_denied(OPS, MSG_WHO));
    cr_assert(ask_and_see_denied(OPS, MSG_RELOAD));
    observe_as_courier(ROOT);
    cr_assert(!ask_and_see_denied(ROOT, MSG_DEAD));
    cr_assert(!ask_and_see_denied(ROOT, MSG_JOB_CREATE));
    cr_assert(!ask_and_see_denied(ROOT, MSG_WHO));
    cr_assert(!ask_and_see_denied(ROOT, MSG_METRICS));
    cr_assert(ask_and_see_denied(ROOT, MSG_BRING)); /* an administrator is not bob */
}

Test(core_rights, lets_a_party_ask_about_its_own_job_and_bring_for_itself)
{
    join(BOB);
    cr_assert(!ask_and_see_denied(BOB, MSG_VERDICT_ASK));
    cr_assert(!ask_and_see_denied(BOB, MSG_JOB_SHOW));
    cr_assert(ask_and_see_denied(BOB, MSG_STATUS));
    cr_assert(ask_and_see_denied(BOB, MSG_JOB_CANCEL));
    join(CAROL);
    belongs(22, "bob");
    belongs(DATA(22), "bob");
    observe_as_courier(22);
    cr_assert(!ask_and_see_denied(22, MSG_BRING));
    cr_assert(!ask_and_see_denied(22, MSG_FETCH));
    belongs(23, "carol");
    belongs(DATA(23), "carol");
    observe_as_courier(23);
    cr_assert(ask_and_see_denied(23, MSG_BRING));
    cr_assert(ask_and_see_denied(23, MSG_FETCH)); /* she may not read all of the job */
}

Test(core_rights, ends_a_tap_that_is_not_allowed)
{
    observe(EVE, "job");
    tap_from(EVE, UINT64_MAX, 10);
    EXPECT("5 < over 12\n5 dropped\n");
    observe(25, "job");
    EXPECT("25 < " DENIED "25 dropped\n"); /* nobody */
    belongs(25, "eve");
    observe(25, "job");
    forget();
    message(25, question(MSG_VERDICT_ASK));
    EXPECT("25 < over 12\n25 dropped\n");
    observe(OPS, "job");
    tap_from(OPS, UINT64_MAX, 10);
    EXPECT("");
    join(BOB);
    tap_from(BOB, UINT64_MAX, 10);
    keep_lines("dropped", "over");
    EXPECT("2 dropped\n12 dropped\n");
}

/* ---- over restarts and owners ---------------------------------------------------------------- */

Test(core_rights, knows_the_owner_of_a_session_after_a_restart)
{
    join(ALICE);
    uint64_t token = tokens[ALICE];
    crash(10);
    greet_as(TWIN, "job", "alice", token);
    EXPECT("7 < refused 11 errbus.fenced\n7 dropped\n");
    greet_as(21, "job", "alice", token);
    EXPECT("21 < " DENIED "21 dropped\n");
    belongs(21, "alice");
    greet_as(21, "job", "alice", token);
    EXPECT("21 < welcome incarnation 1, resumed\n");
}

Test(core_rights, lets_nobody_go_on_with_a_session_from_before_the_access_file)
{
    options.access = NULL;
    restart();
    join(ALICE);
    uint64_t token = tokens[ALICE];
    options.access = table;
    crash(10);
    greet_as(ALICE, "job", "alice", token);
    EXPECT("1 < refused 11 errbus.fenced\n1 dropped\n");
}

Test(core_rights, ends_a_durable_name_with_its_owner)
{
    join(ALICE);
    join(BOB);
    uint32_t topic = open_topic(ALICE, "alice/a");
    subscribe(BOB, 1, "alice/a", "mine", 0, 0);
    leave(BOB, 0);
    belongs(22, "twin");
    belongs(32, "twin");
    join(22);
    publish(ALICE, topic, 0, 1, 1);
    forget();
    subscribe(22, 1, "alice/+", "mine", 0, 0); /* else another pattern would be refused */
    keep_lines("subscribed", "payload");
    EXPECT("22 < subscribed 0\n32 < sub 1 payload 1 x1\n");
}

Test(core_rights, ends_a_subscription_whose_reader_may_not_read_it_any_more)
{
    join(ALICE);
    join(CAROL);
    uint32_t topic = open_topic(ALICE, "alice/open");
    subscribe(CAROL, 1, "alice/open", "mine", 0, 0);
    use("uid alice 1\nuid carol 3\nallow alice party in job\nallow carol party reads bob/x in job");
    crash(10);
    belongs(ALICE, "alice");
    belongs(DATA(ALICE), "alice");
    belongs(CAROL, "carol");
    belongs(DATA(CAROL), "carol");
    reconnect(ALICE);
    reconnect(CAROL);
    forget();
    publish(ALICE, topic, 0, 1, 1);
    keep_lines("13 < ", "13 < ");
    EXPECT("");
    subscribe(CAROL, 2, "alice/open", "mine", 0, 0);
    keep_lines("subscribed", "subscribed");
    EXPECT("3 < subscribed 12\n");
}

/* ---- another table while everything runs ----------------------------------------------------- */

/* The table that is in force goes when the next test begins; the core looks at it once more. */
static void put_in_force(const char *text)
{
    struct access_fault fault;
    access_free(&older);
    older = table;
    table = access_read(&access_memory, span_text(text), &fault);
    cr_assert_not_null(table, "%u: %s", fault.line, fault.what);
    options.access = table;
    step((struct event){.type = EVENT_ACCESS, .as.access = table});
}

Test(core_rights, settles_what_a_revoked_party_owes_in_the_same_step)
{
    join(ALICE);
    join(BOB);
    uint32_t topic = open_topic(ALICE, "alice/a");
    subscribe(BOB, 1, "alice/a", "", 0, 0);
    publish(ALICE, topic, 0, 1, 1);
    reserve(ALICE, topic, 1);
    forget();
    put_in_force("uid bob 2\nallow bob party in job\n");
    keep_lines("1 < over", "12 < ");
    EXPECT("1 < over 12 (party_lost of alice)\n"
           "12 < sub 1 error #1 (party_lost of alice)\n"
           "12 < sub 1 end #1 (party_lost of alice)\n");
    cr_expect_str_eq(error_message, "party alice lost: access of alice was withdrawn");
    publish(ALICE, topic, 2, 1, 2);
    keep_lines("12 < ", "12 < ");
    EXPECT(""); /* nothing of hers is accepted any more */
    speakers[21] = 0;
    greet_as(21, "job", "alice", tokens[ALICE]);
    EXPECT("21 < " DENIED "21 dropped\n");
}

Test(core_rights, keeps_sessions_of_who_has_another_number_now)
{
    join(ALICE);
    join(BOB);
    observe(OPS, "job");
    tap_from(OPS, UINT64_MAX, 10);
    uint32_t topic = open_topic(ALICE, "alice/a");
    subscribe(BOB, 1, "alice/a", "", 0, 0);
    forget();
    put_in_force("uid ops 4\nuid new 9\nuid bob 2\nuid alice 1\n"
                 "allow alice party in job\nallow bob party in job\nallow ops tap in job\n");
    EXPECT("4 < access.reloaded /0 #0 x0\n");
    belongs(ALICE, "alice");
    publish(ALICE, topic, 0, 1, 1);
    keep_lines("12 < ", "12 < ");
    EXPECT("12 < sub 1 payload 1 x1\n");
    cr_assert(ask_and_see_denied(OPS, MSG_DEAD));
    cr_assert(!ask_and_see_denied(OPS, MSG_STATUS));
    belongs(21, "alice");
    closed(ALICE);
    greet_as(21, "job", "alice", tokens[ALICE]);
    keep_lines("welcome", "refused");
    EXPECT("21 < welcome incarnation 1, resumed\n");
}

Test(core_rights, ends_a_reader_that_may_not_read_on)
{
    join(ALICE);
    join(BOB);
    join(CAROL);
    subscribe(BOB, 1, "alice/shut", "", 0, 0);
    await_slot(CAROL, 1, "alice/open", 0);
    forget();
    put_in_force("uid alice 1\nuid bob 2\nuid carol 3\nallow alice party in job\n"
                 "allow bob party reads alice/open in job\n"
                 "allow carol party reads alice/open in job\n");
    keep_lines("over", "over");
    EXPECT("2 < over 12 (party_lost of bob)\n");
    put_in_force("uid alice 1\nuid bob 2\nuid carol 3\nallow alice party in job\n"
                 "allow carol party reads bob/open in job\n");
    keep_lines("over", "over");
    EXPECT("3 < over 12 (party_lost of carol)\n");
}

Test(core_rights, gives_a_reader_what_it_may_read_since)
{
    join(ALICE);
    join(CAROL);
    uint32_t open = open_topic(ALICE, "alice/open");
    uint32_t shut = open_topic(ALICE, "alice/shut");
    subscribe(CAROL, 1, "alice/#", "", 0, 0);
    publish(ALICE, open, 0, 1, 1);
    publish(ALICE, shut, 0, 1, 2);
    taken(CAROL, 1, 1);
    forget();
    put_in_force("uid alice 1\nuid carol 3\nallow alice party in job\n"
                 "allow carol party reads alice/# in job\n");
    keep_lines("13 < ", "over");
    EXPECT("13 < sub 1 payload 2 x1\n");
    publish(ALICE, shut, 1, 1, 3);
    keep_lines("13 < ", "13 < ");
    EXPECT("13 < sub 1 payload 3 x1\n");
}

Test(core_rights, gives_by_a_durable_name_what_may_be_read_when_it_is_opened)
{
    join(ALICE);
    join(BOB);
    uint32_t open = open_topic(ALICE, "alice/open");
    uint32_t shut = open_topic(ALICE, "alice/shut");
    subscribe(BOB, 1, "alice/#", "mine", 0, 0);
    message(BOB, (struct msg){.type = MSG_UNSUBSCRIBE,
                              .as.unsubscribe = {.number = ++numbers[BOB], .sub = 1}});
    publish(ALICE, shut, 0, 1, 1);
    publish(ALICE, open, 0, 1, 2);
    put_in_force("uid alice 1\nuid bob 2\nallow alice party in job\n"
                 "allow bob party reads alice/open in job\n");
    forget();
    subscribe(BOB, 2, "alice/#", "mine", 0, 0);
    keep_lines("12 < ", "subscribed");
    EXPECT("2 < subscribed 0\n12 < sub 2 payload 2 x1\n");
}

/* As broker/io/loop.c says it, once the journal is read. */
static void judge_again(void)
{
    step((struct event){.type = EVENT_ACCESS, .as.access = table});
}

Test(core_rights, ends_at_once_who_lost_access_while_the_broker_was_down)
{
    join(ALICE);
    join(BOB);
    uint32_t topic = open_topic(ALICE, "alice/a");
    reserve(ALICE, topic, 0);
    subscribe(BOB, 1, "alice/a", "", 0, 0);
    use("uid bob 2\nallow bob party in job\n");
    crash(10);
    belongs(BOB, "bob");
    belongs(DATA(BOB), "bob");
    judge_again();
    reconnect(BOB);
    keep_lines("12 < ", "12 < ");
    EXPECT("12 < sub 1 error #0 (party_lost of alice)\n"
           "12 < sub 1 end #1 (party_lost of alice)\n");
    cr_expect_str_eq(error_message, "party alice lost: access of alice was withdrawn");
}

Test(core_rights, gives_a_reader_what_it_may_read_since_a_restart)
{
    join(ALICE);
    join(CAROL);
    uint32_t shut = open_topic(ALICE, "alice/shut");
    subscribe(CAROL, 1, "alice/#", "", 0, 0);
    publish(ALICE, shut, 0, 1, 2);
    use("uid alice 1\nuid carol 3\nallow alice party in job\nallow carol party in job\n");
    crash(10);
    belongs(CAROL, "carol");
    belongs(DATA(CAROL), "carol");
    judge_again();
    reconnect(CAROL);
    keep_lines("13 < ", "13 < ");
    EXPECT("13 < sub 1 payload 2 x1\n");
}

Test(core_rights, ends_who_joined_before_there_was_an_access_file)
{
    options.access = NULL;
    restart();
    join(ALICE);
    join(BOB);
    reserve(ALICE, open_topic(ALICE, "alice/a"), 0);
    options.access = table;
    crash(10);
    judge_again();
    belongs(22, "bob");
    belongs(DATA(22), "bob");
    join(22);
    subscribe(22, 1, "alice/a", "", 0, 0);
    keep_lines("32 < ", "32 < ");
    EXPECT("32 < sub 1 error #0 (party_lost of alice)\n"
           "32 < sub 1 end #1 (party_lost of alice)\n");
    cr_expect_str_eq(error_message,
                     "party alice lost: it joined before the broker had an access file");
}

/* The answer to its wait lies behind a value that fills the window. */
Test(core_rights, keeps_a_reader_that_is_yet_to_be_told_that_its_wait_is_denied)
{
    join(ALICE);
    join(CAROL);
    uint32_t open = open_topic(ALICE, "alice/open");
    batch_bytes = 2 * (uint32_t)DEFAULT_SUB_WINDOW_BYTES;
    batch(ALICE, 5,
          (struct event_range){.kind = FRAME_VALUE,
                               .topic = open,
                               .value_bytes = (uint32_t)DEFAULT_SUB_WINDOW_BYTES});
    await_slot(CAROL, 1, "alice/open", 0);
    await_slot(CAROL, 2, "alice/shut", 0);
    await_slot(CAROL, 2, "alice/shut", 0); /* as on a new connection */
    forget();
    put_in_force(rules);
    keep_lines("over", "13 < ");
    EXPECT("");
    taken(CAROL, 0, DEFAULT_SUB_WINDOW_BYTES);
    EXPECT("13 < sub 0 error #0 (rejected of carol)\n");
}

Test(core_rights, ends_observers_that_may_not_look_on)
{
    observe(OPS, "job");
    tap_from(OPS, UINT64_MAX, 10);
    observe(ROOT, "");
    observe(EVE, "job");
    forget();
    put_in_force("uid ops 4\nuid root 6\nallow ops status in job\nallow root admin\n");
    EXPECT("4 < over 12\n4 dropped\n5 < over 12\n5 dropped\n");
}

static unsigned sent_to(conn_id conn, enum msg_type type)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < effects.count; i++)
        count += effects.items[i].type == EFFECT_SEND_MSG && effects.items[i].conn == conn &&
                 effects.msgs[effects.items[i].index].type == type;
    return count;
}

static void bring_pieces(conn_id conn, uint64_t count)
{
    static char bytes[LIMIT_ATTACHMENT_PIECE_BYTES];
    message(conn, (struct msg){.type = MSG_BRING,
                               .as.bring = {.request = 1,
                                            .job = span_text("job"),
                                            .error = span_text("job/alice/1/1"),
                                            .name = span_text("log")}});
    for (uint64_t i = 0; i < count; i++) {
        struct msg piece = {.type = MSG_PIECE,
                            .as.piece = {.request = 1,
                                         .offset = i * sizeof bytes,
                                         .is_last = i + 1 == count,
                                         .bytes = span_of(bytes, sizeof bytes)}};
        step((struct event){.type = EVENT_MESSAGE,
                            .conn = DATA(conn),
                            .payload = (payload_id)i + 1,
                            .as.msg = &piece});
    }
}

/* It is sent no more of an attachment, and asks again: then it is refused. */
Test(core_rights, lets_a_courier_ask_again_under_another_table)
{
    join(ALICE);
    belongs(22, "alice");
    belongs(DATA(22), "alice");
    observe_as_courier(22);
    bring_pieces(22, 3);
    observe_as_courier(OPS);
    struct msg fetch = {.type = MSG_FETCH,
                        .as.fetch = {.request = 1,
                                     .job = span_text("job"),
                                     .error = span_text("job/alice/1/1"),
                                     .name = span_text("log"),
                                     .window_bytes = 1}};
    message(OPS, fetch);
    cr_expect_eq(sent_to(DATA(OPS), MSG_FETCHED_PIECE), 1);
    put_in_force("uid alice 1\nuid ops 4\nallow alice party in job\nallow ops status in job\n");
    cr_expect_eq(sent_to(OPS, MSG_FETCHED), 1);
    message(OPS, (struct msg){.type = MSG_FETCH_TAKEN,
                              .as.fetch_taken.bytes = LIMIT_ATTACHMENT_PIECE_BYTES});
    cr_expect_eq(sent_to(DATA(OPS), MSG_FETCHED_PIECE), 0);
    forget();
    fetch.as.fetch.request = 2;
    message(OPS, fetch);
    EXPECT("4 < done 12 errbus.not_authorised\n");
}

/* An answer that takes several steps. */
static void begin_answer(const struct msg *question)
{
    message(OPS, *question);
    cr_assert_leq(core_deadline_ns(core), now_ns, "%s is whole", msg_name(question->type));
    forget();
}

static void end_answers(void)
{
    while (core_deadline_ns(core) <= now_ns)
        step((struct event){.type = EVENT_TICK});
}

/* The rest of it is not theirs any more. */
Test(core_rights, ends_an_answer_under_way_with_its_right, .timeout = 120)
{
    static const enum msg_type asked[] = {MSG_WHY, MSG_WITHOUT, MSG_METRICS};
    char name[64];
    put_in_force("uid alice 1\nuid ops 4\nallow alice party in job\nallow ops status in *\n");
    is_alone = true;
    belongs(ALICE, "alice");
    belongs(DATA(ALICE), "alice");
    belongs(OPS, "ops");
    join(ALICE);
    observe(OPS, "job");
    for (unsigned i = 0; i < 3 * LIMIT_ANSWER_STEP; i++) {
        snprintf(name, sizeof name, "alice/%u", i);
        await_slot(ALICE, i + 1, name, 0);
        forget();
    }
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        struct msg msg = question(asked[i]);
        if (asked[i] == MSG_WITHOUT)
            msg.as.without.party = span_text("alice");
        begin_answer(&msg);
        put_in_force("uid alice 1\nuid ops 4\nallow alice party in job\nallow ops job in *\n");
        end_answers();
        keep_lines("4 < ", "4 < ");
        EXPECT("4 < done 12 errbus.not_authorised\n");
        put_in_force("uid alice 1\nuid ops 4\nallow alice party in job\nallow ops status in *\n");
        begin_answer(&msg);
        put_in_force("uid alice 1\nuid ops 4\nallow alice party in job\nallow ops status in *\n");
        end_answers();
        cr_expect_null(strstr(said, "authorised"), "%s: another table with the right: %s",
                       msg_name(asked[i]), said);
        forget();
    }
}

Test(core_rights, ends_guard_and_program_together)
{
    struct msg msg = hello(ALICE, 0);
    msg.as.hello.role = 2;
    message(ALICE, msg);
    belongs(21, "alice");
    msg = hello(21, 0);
    msg.as.hello.guard = tokens[ALICE];
    message(21, msg);
    forget();
    put_in_force("uid bob 2\nallow bob party in job\n");
    keep_lines("over", "over");
    EXPECT("1 < over 12 (party_lost of alice)\n21 < over 11 (party_lost of alice)\n");
}
