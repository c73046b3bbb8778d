/* SPDX-License-Identifier: MPL-2.0 */
/* why_test.c -- who waits for whom, with a real broker: one who is stuck, and cycles. */
#include "tests/lib/expect.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

TestSuite(why, .init = stage_open, .fini = stage_close, .timeout = 120);

enum { OTHERS = 4 };

static const char *const others[OTHERS] = {"alice", "bob", "dave", "erin"};

static struct bus_why *must_ask(void)
{
    struct bus_why *why = NULL;
    expect_code(bus_why_get(stage_admin(), NULL, NULL, 0, SOON_MS, &why, NULL), BUS_OK);
    return why;
}

/* Asks until so many parties wait for the first root, and gives that answer; NULL: never. */
static struct bus_why *ask_until(size_t waiters)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    for (int64_t i = 0; i < SOON_MS / 20; i++) {
        struct bus_why *why = must_ask();
        const struct bus_why_node *first = bus_why_node_at(why, 0);
        if ((first == NULL && waiters == 0) || (first != NULL && first->waiters == waiters))
            return why;
        bus_why_free(&why);
        (void)nanosleep(&pause, NULL);
    }
    return NULL;
}

/* What `errbus why` says, kept until the next call; words may be NULL. */
static const char *errbus_why(int code, const char *first, const char *second, const char *third)
{
    static struct process process;
    const char *argv[] = {"errbus", "why", "-s", stage.control, first, second, third, NULL};
    process_fini(&process);
    cr_assert(process_start(&process, argv, NULL));
    int got = process_wait(&process, SOON_MS);
    cr_assert_eq(got, code, "ended with %d, not %d: %s", got, code, process_complained(&process));
    return code == 0 ? process_said(&process) : process_complained(&process);
}

static void expect_within(const char *text, const char *part)
{
    cr_expect_not_null(strstr(text, part), "not '%s' in: %s", part, text);
}

/* Four parties wait, directly or not, for carol, who owes a slot. */
struct scene {
    struct bus *carol;
    struct bus_slot *slot;
    struct bus *buses[OTHERS];
    struct bus_slot *slots[OTHERS];
    struct waiter waiters[OTHERS];
};

static void scene_open(struct scene *scene)
{
    scene->carol = must_open("carol");
    scene->slot = must_reserve(scene->carol, "x");
    bus_progress_at(scene->carol, 3600000, "round 3, batch 17");
    must_flush(scene->carol);
    for (int i = 0; i < OTHERS; i++) {
        scene->buses[i] = must_open(others[i]);
        scene->slots[i] = must_reserve(scene->buses[i], "x");
        must_flush(scene->buses[i]);
    }
    for (int i = 0; i < OTHERS; i++) {
        scene->waiters[i] = (struct waiter){.bus = scene->buses[i],
                                            .topic = i == 2 ? "alice/x" : "carol/x",
                                            .timeout_ms = 4 * SOON_MS};
        waiter_start(&scene->waiters[i]);
    }
}

static void scene_close(struct scene *scene)
{
    for (int i = 0; i < OTHERS; i++) {
        waiter_join(&scene->waiters[i]);
        cr_expect_eq(scene->waiters[i].err, BUS_OK, "%s", others[i]);
        waiter_fini(&scene->waiters[i]);
        must_close(&scene->buses[i]);
    }
    must_close(&scene->carol);
}

Test(why, names_the_one_that_five_wait_for_and_nobody_once_it_moves)
{
    struct scene scene = {0};
    scene_open(&scene);
    struct bus_why *why = ask_until(OTHERS);
    cr_assert_not_null(why, "never did all four wait for carol");
    const struct bus_why_node *root = bus_why_node_at(why, 0);
    cr_expect_str_eq(root->name, "carol");
    cr_expect(root->is_root);
    cr_expect_str_eq(root->where, "round 3, batch 17");
    cr_expect_eq(root->open, 1);
    cr_expect_null(bus_why_waiter_at(why, 0, OTHERS));
    cr_expect_str_eq(bus_why_waiter_at(why, 0, OTHERS - 1)->name, "dave", "the farthest is last");
    bus_why_free(&why);
    const char *said = errbus_why(0, NULL, NULL, NULL);
    expect_within(said, "alice, bob and 2 others wait, directly or not, for carol: since ");
    expect_within(said, "at 'round 3, batch 17'; owes 1 slot\n");
    expect_within(said, "  bob waits for carol: carol/x#0, since ");
    expect_within(errbus_why(0, "dave", NULL, NULL), "  dave waits for alice: alice/x#0, since ");
    expect_within(errbus_why(0, "dave/x", "0", NULL), "  dave/x#0 is owed by dave, since ");
    expect_within(errbus_why(0, "carol/x", "7", NULL),
                  "carol/x#7 is not promised yet\n  only carol can promise it\n");
    expect_within(errbus_why(0, "default", NULL, NULL), "for carol: since ");
    expect_within(errbus_why(0, "--json", NULL, NULL),
                  "{\"row\":\"node\",\"node\":\"carol\",\"kind\":\"party\",\"name\":\"carol\","
                  "\"root\":true,\"cycle\":null,\"waiters\":4,");
    said = errbus_why(0, "--without", "carol", NULL);
    expect_within(said, "without carol:\n  carol/x#0 would fail\n");
    expect_within(said, "  bob would get the error, 1 time\n");
    expect_within(said, "  the job would go on: it needs no number of parties\n");
    expect_within(errbus_why(0, "--without=carol", "--json", NULL),
                  "{\"row\":\"owed\",\"name\":\"carol/x\",\"seq\":0,\"count\":1}\n");
    expect_within(errbus_why(2, "--without", "nobody", NULL), "errbus.no_party");
    expect_within(errbus_why(0, "--dot", NULL, NULL), "  n0 [label=\"carol\", style=bold];\n");
    must_commit(&scene.slot, "moves");
    for (int i = 0; i < OTHERS; i++) /* alice is no root meanwhile: she commits first */
        must_commit(&scene.slots[i], "goes on");
    why = ask_until(0);
    cr_expect_not_null(why, "somebody still waits");
    bus_why_free(&why);
    cr_expect_str_eq(errbus_why(0, NULL, NULL, NULL), "nobody waits\n");
    scene_close(&scene);
}

Test(why, says_what_is_wrong_with_the_call)
{
    struct bus *alice = must_open("alice");
    expect_within(errbus_why(2, "nobody", NULL, NULL), "is neither a party of this job nor a job");
    expect_within(errbus_why(2, "a", "b", "c"), "unexpected operand 'c'");
    expect_within(errbus_why(2, "alice/x", "y", NULL), "the number of a slot is a whole number");
    expect_within(errbus_why(2, "--dot", "--json", NULL), "--dot and --json exclude each other");
    expect_within(errbus_why(2, "bob/x", "0", NULL), "errbus.not_open");
    expect_within(errbus_why(2, "-j", "other", NULL), "errbus.no_job");
    expect_within(errbus_why(0, "alice", NULL, NULL), "alice waits for nobody, and nobody waits");
    must_close(&alice);
}

Test(why, tells_of_a_deadlock_once_and_of_none_without)
{
    struct waiter waiters[3] = {0};
    static const char *const awaited[3] = {"bob/y", "alice/y", "alice/y"};
    struct bus *buses[3];
    struct bus_tap *tap = must_tap("default", BUS_TAP_NOW);
    for (int i = 0; i < 3; i++) {
        buses[i] = must_open(others[i]);
        waiters[i] =
            (struct waiter){.bus = buses[i], .topic = awaited[i], .timeout_ms = 4 * SOON_MS};
        waiter_start(&waiters[i]);
    }
    const struct bus_event *event = expect_event(tap, "job.deadlock", NULL);
    cr_expect_eq(bus_event_count(event), 2);
    expect_within(bus_event_text(event), "each waits for the next"); /* calls with timeouts */
    const char *said = errbus_why(0, NULL, NULL, NULL);
    expect_within(said, "alice -> bob -> alice: none can go on\n  dave waits for them\n");
    must_publish(buses[0], "y", "breaks it");
    must_publish(buses[1], "y", "too");
    for (int i = 0; i < 3; i++) {
        waiter_join(&waiters[i]);
        cr_expect_eq(waiters[i].err, BUS_OK);
        waiter_fini(&waiters[i]);
    }
    for (int i = 0; i < 3; i++)
        must_close(&buses[i]);
    cr_expect_eq(count_events_until(tap, "job.deadlock", "party.left"), 0);
    bus_tap_close(&tap);
}

/* Reads lines of the picture that is printed again until one has this part. */
static void expect_line(struct process *process, const char *part)
{
    const char *line = "";
    while (strstr(line, part) == NULL)
        cr_assert(process_line(process, SOON_MS, &line), "no line with '%s' came: %s%s", part,
                  process_said(process), process_complained(process));
}

Test(why, watches_until_a_signal_comes)
{
    struct process watch = {0};
    const char *const argv[] = {"errbus", "why", "-s", stage.control, "--watch", NULL};
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct waiter waiter = {.bus = alice, .topic = "bob/x", .timeout_ms = 4 * SOON_MS};
    cr_assert(process_start(&watch, argv, NULL));
    expect_line(&watch, "nobody waits");
    waiter_start(&waiter);
    expect_line(&watch, "alice waits for bob: since ");
    must_publish(bob, "x", "moves");
    expect_line(&watch, "nobody waits");
    process_signal(&watch, SIGTERM);
    cr_expect_eq(process_wait(&watch, SOON_MS), 128 + SIGTERM);
    process_fini(&watch);
    waiter_join(&waiter);
    cr_expect_eq(waiter.err, BUS_OK);
    waiter_fini(&waiter);
    must_close(&alice);
    must_close(&bob);
}

Test(why, counts_its_pictures)
{
    struct bus *alice = must_open("alice");
    cr_expect_str_eq(errbus_why(0, "--count", "2", NULL), "nobody waits\n\nnobody waits\n");
    must_close(&alice);
}

/* ---- a job of two ---------------------------------------------------------------------------- */

static void *wait_at_barrier(void *arg)
{
    struct bus_error *error = NULL;
    expect_code(bus_barrier(arg, 1, BUS_FOREVER, &error), BUS_OK);
    return NULL;
}

/* Asks until somebody is waited for that long, and that is the name of the root. */
static void ask_until_since(uint64_t since_ms, const char *name)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    for (int64_t i = 0; i < SOON_MS / 20; i++) {
        struct bus_why *why = must_ask();
        const struct bus_why_node *first = bus_why_node_at(why, 0);
        bool is_it = first != NULL && strcmp(first->name, name) == 0 && first->since_ms >= since_ms;
        bus_why_free(&why);
        if (is_it)
            return;
        (void)nanosleep(&pause, NULL);
    }
    cr_assert_fail("nobody waits so long for %s", name);
}

Test(why, says_since_when_a_barrier_waits_and_which_job_has_not_begun)
{
    struct bus_job_options options;
    struct bus_membership membership;
    pthread_t thread;
    bus_job_options_init(&options);
    options.min = options.max = 2;
    expect_code(bus_admin_job_create(stage_admin(), NULL, &options, SOON_MS, NULL), BUS_OK);
    struct bus *alice = must_open("alice");
    ask_until_since(100, "default");
    expect_within(errbus_why(0, NULL, NULL, NULL), "alice waits for 1 more party of job default: ");
    expect_within(errbus_why(0, "--without", "alice", NULL),
                  ", and needs 2: it would wait for more");
    struct bus *bob = must_open("bob");
    expect_code(bus_membership_wait(alice, 0, SOON_MS, &membership, NULL), BUS_OK);
    cr_assert_eq(pthread_create(&thread, NULL, wait_at_barrier, alice), 0);
    ask_until_since(100, "bob");
    const char *said = errbus_why(0, NULL, NULL, NULL);
    expect_within(said, "alice waits for bob: since ");
    cr_expect_null(strstr(said, "since 0.0 s"), "%s", said);
    expect_within(said, "  the barrier waits for bob: not there, since ");
    (void)wait_at_barrier(bob);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    must_close(&alice);
    must_close(&bob);
}

/* ---- what dot(1) reads ----------------------------------------------------------------------- */

static void skip_blanks(const char **at)
{
    *at += strspn(*at, " \n");
}

static bool take_mark(const char **at, const char *mark)
{
    skip_blanks(at);
    if (strncmp(*at, mark, strlen(mark)) != 0)
        return false;
    *at += strlen(mark);
    return true;
}

/* A word, or a text in quotes, in which a backslash stands before a quote or another one. */
static bool take_id(const char **at, char *id, size_t room)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz_0123456789";
    size_t bytes = 0;
    bool is_quoted = take_mark(at, "\"");
    while (bytes + 1 < room && **at != '\0') {
        if (is_quoted ? **at == '"' : strchr(letters, **at) == NULL)
            break;
        if (is_quoted && **at == '\\' && *++*at != '"' && **at != '\\')
            return false;
        id[bytes++] = *(*at)++;
    }
    id[bytes] = '\0';
    return is_quoted ? take_mark(at, "\"") : bytes > 0;
}

/* [label="text", style=bold]: the label. */
static bool take_attributes(const char **at, char *label, size_t room)
{
    char name[32], value[32];
    bool is_good = take_mark(at, "[") && take_id(at, name, sizeof name) &&
                   strcmp(name, "label") == 0 && take_mark(at, "=") && take_id(at, label, room);
    while (is_good && take_mark(at, ","))
        is_good = take_id(at, name, sizeof name) && take_mark(at, "=") &&
                  take_id(at, value, sizeof value);
    return is_good && take_mark(at, "]");
}

/* "n0 [...];" or "n0 -> n1 [...];" */
static bool take_statement(const char **at, bool *out_is_edge, char *label, size_t room)
{
    char from[32], to[32];
    if (!take_id(at, from, sizeof from))
        return false;
    *out_is_edge = take_mark(at, "->");
    return (!*out_is_edge || take_id(at, to, sizeof to)) && take_attributes(at, label, room) &&
           take_mark(at, ";");
}

Test(why, prints_a_graph_that_dot_reads)
{
    static const char *const names[2] = {"al\"i\\ce", "b\\N\""};
    struct bus *buses[2] = {must_open(names[0]), must_open(names[1])};
    struct waiter waiter = {.bus = buses[0], .topic = "b\\N\"/x", .timeout_ms = 4 * SOON_MS};
    waiter_start(&waiter);
    struct bus_why *why = ask_until(1);
    cr_assert_not_null(why);
    bus_why_free(&why);
    const char *said = errbus_why(0, "--dot", NULL, NULL);
    const char *at = said;
    char label[64];
    unsigned nodes = 0, edges = 0;
    bool is_edge, is_named[2] = {false, false};
    cr_assert(take_mark(&at, "digraph why {"), "%s", said);
    while (!take_mark(&at, "}")) {
        cr_assert(take_statement(&at, &is_edge, label, sizeof label), "no statement at '%s' of: %s",
                  at, said);
        nodes += !is_edge;
        edges += is_edge;
        for (int i = 0; i < 2; i++)
            is_named[i] |= strcmp(label, names[i]) == 0;
    }
    skip_blanks(&at);
    cr_expect_str_eq(at, "");
    cr_expect(nodes == 2 && edges == 1 && is_named[0] && is_named[1], "%s", said);
    must_publish(buses[1], "x", "v");
    waiter_join(&waiter);
    waiter_fini(&waiter);
    must_close(&buses[0]);
    must_close(&buses[1]);
}
