/* SPDX-License-Identifier: MPL-2.0 */
/* core_attacks_test.c -- a list of attacks on bob, each made in each role that there is.
 *
 * Each is made twice: where bob is there, with all that it is about, and where he never was.  The
 * attacker is answered alike, so it learns nothing; nobody else is told anything; the tables of the
 * core are as before; and bob's next value is delivered. */
#include "broker/core/record/rights.h"
#include "tests/unit/core_driver.h"

#include <string.h>

enum { ALICE = 1, BOB = 2, CAROL = 3, EVE = 5, GUARD = 6 };
#define DATA(conn) ((conn) + 10)

/* carol takes part in the job and reads alice/open there.  eve takes part in another job. */
static const char rules[] = "uid alice 1\nuid bob 2\nuid carol 3\nuid eve 5\n"
                            "group all alice bob\n"
                            "allow all party in job\n"
                            "allow carol party reads alice/open in job\n"
                            "allow eve party in other\n";
static struct memory access_memory;
static struct access *table;
static struct core_dump before, after; /* an attack */

static void belongs(conn_id conn, const char *name)
{
    speakers[conn] = speakers[DATA(conn)] = access_find(table, span_text(name));
    cr_assert_neq(speakers[conn], 0, "%s", name);
}

static void begin(void)
{
    struct access_fault fault;
    init();
    memory_heap_init(&access_memory, UINT64_MAX);
    table = access_read(&access_memory, span_text(rules), &fault);
    cr_assert_not_null(table, "%u: %s", fault.line, fault.what);
    options.access = table;
    belongs(ALICE, "alice");
    belongs(BOB, "bob");
    belongs(CAROL, "carol");
    belongs(EVE, "eve");
    belongs(GUARD, "bob");
}

static void end(void)
{
    fini();
    core_dump_fini(&before);
    core_dump_fini(&after);
    access_free(&table);
}

TestSuite(core_attacks, .init = begin, .fini = end, .timeout = 120);

/* ---- what is attacked ------------------------------------------------------------------------ */

/* What an attacker may have found out: as it is where bob is. */
static struct {
    uint64_t token, guard, client;
    uint32_t topic; /* bob/secret */
} known;
static uint64_t bobs_next;

/* An error with an attachment, as bob's first one. */
static struct span bobs_error(void)
{
    static const struct error_attached attached = {.name = {"stderr", 6}, .bytes = 10};
    uint8_t list[ERROR_ATTACHED_BYTES_MAX];
    struct error_record record;
    size_t bytes;
    error_record_init(&record);
    record.id = span_text("job/bob/1/1");
    record.message = span_text("the patient's name");
    record.attachments = span_of(list, error_attached_write(&attached, 1, list));
    cr_assert_eq(error_encode(&record, 1, error_bytes, sizeof error_bytes, &bytes), WIRE_OK);
    return span_of(error_bytes, bytes);
}

/* bob has a guard, a slot with a value, one that failed and one that is open. */
static void bob_comes(void)
{
    struct msg msg = hello(GUARD, 0);
    msg.as.hello.role = 2;
    msg.as.hello.party = span_text("bob");
    message(GUARD, msg);
    msg = hello(BOB, 0);
    msg.as.hello.guard = tokens[GUARD];
    msg.as.hello.client = 77;
    msg.as.hello.dial = 1;
    message(BOB, msg);
    attach(BOB, DATA(BOB), tokens[BOB]);
    numbers[BOB] = frames[BOB] = 0;
    known.token = tokens[BOB];
    known.guard = tokens[GUARD];
    known.client = 77;
    known.topic = open_topic(BOB, "bob/secret");
    publish(BOB, known.topic, 0, 1, 1);
    reserve(BOB, known.topic, 1);
    message(BOB, (struct msg){.type = MSG_FAIL,
                              .as.fail = {.number = ++numbers[BOB],
                                          .after = frames[BOB],
                                          .topic = known.topic,
                                          .seq = 1,
                                          .error = bobs_error()}});
    bobs_next = 2;
}

static void open_world(bool is_bob_there)
{
    restart();
    join(ALICE);
    subscribe(ALICE, 1, "bob/#", "", 0, 0);
    (void)open_topic(ALICE, "alice/open");
    (void)open_topic(ALICE, "alice/shut");
    if (is_bob_there)
        bob_comes();
    forget();
}

/* ---- roles ----------------------------------------------------------------------------------- */

static void be_party(conn_id conn)
{
    join(conn);
}

static void be_reader(conn_id conn)
{
    join(conn);
    subscribe(conn, 1, "alice/open", "", 0, 0);
}

static void be_observer(conn_id conn)
{
    observe(conn, "job");
}

static void be_courier(conn_id conn)
{
    observe(conn, "job");
    attach(conn, DATA(conn), tokens[conn]);
}

static void be_guard(conn_id conn)
{
    struct msg msg = hello(conn, 0);
    msg.as.hello.role = 2;
    message(conn, msg);
}

static void be_party_elsewhere(conn_id conn)
{
    job_name = "other";
    join(conn);
    job_name = "job";
}

static void be_nobody_yet(conn_id conn)
{
    (void)conn;
}

static const struct role {
    const char *name;
    void (*take)(conn_id conn);
    conn_id conn;
    bool is_new; /* it has no session yet, so it greets */
} roles[] = {
    {"party", be_party, CAROL, false},
    {"reader", be_reader, CAROL, false},
    {"guard", be_guard, CAROL, false},
    {"party of another job", be_party_elsewhere, EVE, false},
    {"observer", be_observer, EVE, false},
    {"courier", be_courier, EVE, false},
    {"newcomer", be_nobody_yet, CAROL, true},
    {"newcomer without a right", be_nobody_yet, EVE, true},
};

/* ---- attacks --------------------------------------------------------------------------------- */

static void greet(conn_id conn, uint64_t role, const char *party, uint64_t token)
{
    struct msg msg = hello(conn, token);
    msg.as.hello.role = role;
    msg.as.hello.party = span_text(party);
    message(conn, msg);
}

static void as_bob(conn_id conn)
{
    greet(conn, 0, "bob", 0);
}

static void with_bobs_token(conn_id conn)
{
    greet(conn, 0, "bob", known.token);
}

static void with_bobs_token_as_observer(conn_id conn)
{
    greet(conn, 1, "", known.token);
}

static void as_bobs_guard(conn_id conn)
{
    greet(conn, 2, "bob", 0);
}

static void with_the_token_of_bobs_guard(conn_id conn)
{
    greet(conn, 2, "bob", known.guard);
}

static void as_guarded_by_bobs_guard(conn_id conn)
{
    struct msg msg = hello(conn, 0);
    msg.as.hello.party = span_text("bob");
    msg.as.hello.guard = known.guard;
    message(conn, msg);
}

static void with_bobs_client_id(conn_id conn)
{
    struct msg msg = hello(conn, 0);
    msg.as.hello.party = span_text("bob");
    msg.as.hello.client = known.client;
    msg.as.hello.dial = 2;
    message(conn, msg);
}

static void as_a_name_of_the_broker(conn_id conn)
{
    greet(conn, 0, "_groups", 0);
}

static void attaches_bobs_data(conn_id conn)
{
    message(conn, (struct msg){.type = MSG_ATTACH,
                               .as.attach = {.token = known.token, .connection = BOB}});
}

#define QUESTION(does, upper, lower, ...)                                                          \
    static void does(conn_id conn)                                                                 \
    {                                                                                              \
        struct msg msg = {.type = MSG_##upper, .as.lower = {__VA_ARGS__}};                         \
        msg_id_set(&msg, 9);                                                                       \
        message(conn, msg);                                                                        \
    }
#define ITS_JOB .job = {"job", 3}
#define ITS_ERROR ITS_JOB, .error = {"job/bob/1/1", 11}
#define ITS_STDERR ITS_ERROR, .name = {"stderr", 6}
QUESTION(asks_for_status, STATUS, status, ITS_JOB)
QUESTION(asks_who_waits, WHY, why, ITS_JOB)
QUESTION(asks_what_if_bob_ended, WITHOUT, without, ITS_JOB, .party = {"bob", 3})
QUESTION(asks_who_is_connected, WHO, who, 0)
QUESTION(has_the_access_file_read, RELOAD, reload, 0)
QUESTION(asks_for_metrics, METRICS, metrics, 0)
QUESTION(cancels_the_job, JOB_CANCEL, job_cancel, ITS_JOB)
QUESTION(forgets_the_job, JOB_FORGET, job_forget, ITS_JOB)
QUESTION(lists_dead_letters, DEAD, dead, ITS_JOB, .group = {"g", 1})
QUESTION(replays_a_dead_letter, DEAD, dead, ITS_JOB, .group = {"g", 1}, .how = 1)
QUESTION(drops_a_dead_letter, DEAD, dead, ITS_JOB, .group = {"g", 1}, .how = 2)
QUESTION(fetches_an_attachment, FETCH, fetch, ITS_STDERR)
QUESTION(brings_an_attachment, BRING, bring, ITS_STDERR)
QUESTION(lists_attachments, ATTACHMENTS, attachments, ITS_ERROR)
QUESTION(asks_where_the_shards_are, SHARDS, shards, 0)

static void creates_the_job(conn_id conn)
{
    struct msg msg = {.type = MSG_JOB_CREATE, .as.job_create = a_job(1, 0)};
    msg_id_set(&msg, 9);
    message(conn, msg);
}

static void taps_the_job(conn_id conn)
{
    message(conn, (struct msg){.type = MSG_TAP, .as.tap = {.from_id = 1, .window = 100}});
}

static void reads_bobs_topic(conn_id conn)
{
    subscribe(conn, 7, "bob/secret", "", 0, 0);
}

static void reads_all_of_bob(conn_id conn)
{
    subscribe(conn, 7, "bob/#", "", 0, 0);
}

static void shares_bobs_topic(conn_id conn)
{
    share(conn, 7, "bob/secret", "g", 1);
}

static void reads_bobs_topic_by_a_durable_name(conn_id conn)
{
    subscribe(conn, 7, "bob/secret", "mine", 0, 0);
}

static void adds_bobs_topic(conn_id conn)
{
    message(conn, (struct msg){.type = MSG_SUB_ADD,
                               .as.sub_add = {.number = ++numbers[conn],
                                              .sub = 1,
                                              .pattern = span_text("bob/secret")}});
}

static void waits_for_a_value_of_bob(conn_id conn)
{
    await_slot(conn, 1, "bob/secret", 0);
}

static void waits_for_an_error_of_bob(conn_id conn)
{
    await_slot(conn, 1, "bob/secret", 1);
}

static void writes_bobs_topic(conn_id conn)
{
    message(conn, (struct msg){.type = MSG_TOPIC_OPEN,
                               .as.topic_open = {.request = 9, .topic = span_text("bob/secret")}});
}

static void fails_a_slot_of_bob(conn_id conn)
{
    message(conn, (struct msg){.type = MSG_FAIL,
                               .as.fail = {.number = ++numbers[conn],
                                           .topic = known.topic,
                                           .seq = 0,
                                           .error = an_error("")}});
}

static void retracts_a_value_of_bob(conn_id conn)
{
    message(conn, (struct msg){.type = MSG_RETRACT,
                               .as.retract = {.number = ++numbers[conn],
                                              .topic = known.topic,
                                              .seq = 0,
                                              .error = an_error("")}});
}

static void settles_a_task_of_bob(conn_id conn)
{
    message(conn, (struct msg){.type = MSG_TASK,
                               .as.task = {.number = ++numbers[conn],
                                           .sub = 1,
                                           .topic = known.topic,
                                           .delivery = 1,
                                           .how = TASK_DONE}});
}

static void acknowledges_for_bob(conn_id conn)
{
    message(conn, (struct msg){.type = MSG_ACK,
                               .as.ack = {.sub = 1, .topic = known.topic, .next_seq = 1}});
}

static const struct attack {
    const char *name;
    void (*make)(conn_id conn);
    bool is_greeting;
    bool is_ignored; /* there is no answer that says no */
} attacks[] = {
    {"greets as bob", as_bob, true, false},
    {"greets with bob's token", with_bobs_token, true, false},
    {"observes with bob's token", with_bobs_token_as_observer, true, true},
    {"greets as bob's guard", as_bobs_guard, true, false},
    {"greets with the token of bob's guard", with_the_token_of_bobs_guard, true, false},
    {"greets as who bob's guard guards", as_guarded_by_bobs_guard, true, false},
    {"greets with bob's client id", with_bobs_client_id, true, false},
    {"greets as a name of the broker", as_a_name_of_the_broker, true, false},
    {"attaches bob's data", attaches_bobs_data, true, false},
    {"asks for status", asks_for_status, false, false},
    {"asks who waits", asks_who_waits, false, false},
    {"asks what if bob ended", asks_what_if_bob_ended, false, false},
    {"asks who is connected", asks_who_is_connected, false, false},
    {"has the access file read", has_the_access_file_read, false, false},
    {"asks for metrics", asks_for_metrics, false, false},
    {"creates the job", creates_the_job, false, false},
    {"cancels the job", cancels_the_job, false, false},
    {"forgets the job", forgets_the_job, false, false},
    {"lists dead letters", lists_dead_letters, false, false},
    {"replays a dead letter", replays_a_dead_letter, false, false},
    {"drops a dead letter", drops_a_dead_letter, false, false},
    {"fetches an attachment", fetches_an_attachment, false, false},
    {"brings an attachment", brings_an_attachment, false, false},
    {"lists attachments", lists_attachments, false, false},
    {"asks where the shards are", asks_where_the_shards_are, false, true}, /* all may know */
    {"taps the job", taps_the_job, false, false},
    {"reads bob's topic", reads_bobs_topic, false, false},
    {"reads all of bob", reads_all_of_bob, false, false},
    {"shares bob's topic", shares_bobs_topic, false, false},
    {"reads by a durable name", reads_bobs_topic_by_a_durable_name, false, false},
    {"adds bob's topic", adds_bobs_topic, false, false},
    {"waits for a value", waits_for_a_value_of_bob, false, false},
    {"waits for an error", waits_for_an_error_of_bob, false, false},
    {"writes bob's topic", writes_bobs_topic, false, false},
    {"fails a slot of bob", fails_a_slot_of_bob, false, false},
    {"retracts a value of bob", retracts_a_value_of_bob, false, false},
    {"settles a task of bob", settles_a_task_of_bob, false, true},
    {"acknowledges for bob", acknowledges_for_bob, false, true},
};
enum { ATTACKS = sizeof attacks / sizeof attacks[0], ROLES = sizeof roles / sizeof roles[0] };

/* ---- what follows ---------------------------------------------------------------------------- */

static char answer[2048];
static unsigned denials; /* answers that say errbus.not_authorised */

static void take_role(const struct role *role)
{
    numbers[role->conn] = frames[role->conn] = 0;
    role->take(role->conn);
    forget();
}

/* What an answer says to people, and where it sends them. */
struct words {
    struct span type, text, endpoint;
};

/* Those of an error that is encoded in a message. */
static struct words words_of_error(struct span error)
{
    struct error_record record;
    uint32_t count = 0;
    bool is_there =
        error.bytes > 0 && error_decode(error, &record, 1, &count) == WIRE_OK && count > 0;
    return is_there ? (struct words){.type = record.type, .text = record.message}
                    : (struct words){.text = SPAN_NONE};
}

static struct words words_of(const struct msg *msg)
{
    if (msg->type == MSG_REFUSED)
        return (struct words){msg->as.refused.type, msg->as.refused.message,
                              msg->as.refused.endpoint};
    if (msg->type == MSG_JOB_DONE)
        return (struct words){msg->as.job_done.type, msg->as.job_done.message,
                              msg->as.job_done.endpoint};
    if (msg->type == MSG_SUBSCRIBED)
        return words_of_error(msg->as.subscribed.error);
    if (msg->type == MSG_TOPIC_OPENED)
        return words_of_error(msg->as.topic_opened.error);
    return (struct words){.text = SPAN_NONE};
}

/* `said` has none of them.  All that are denied are told the same, and are sent nowhere. */
static void add_words(struct words words)
{
    if (span_equal(words.type, span_text(ERROR_TYPE_NOT_AUTHORISED))) {
        cr_assert(span_equal(words.text, span_text(RIGHTS_DENIED_TEXT)), "'%.*s'",
                  (int)words.text.bytes, (const char *)words.text.data);
        cr_assert_eq(words.endpoint.bytes, 0);
        denials += 1;
    }
    snprintf(answer + strlen(answer), sizeof answer - strlen(answer), "%.*s at '%.*s'\n",
             (int)words.text.bytes, (const char *)words.text.data, (int)words.endpoint.bytes,
             (const char *)words.endpoint.data);
}

/* All that anybody is told. */
static void attack(const struct role *role, const struct attack *what)
{
    what->make(role->conn);
    cr_assert_lt(said_bytes, sizeof answer);
    memcpy(answer, said, said_bytes);
    answer[said_bytes] = '\0';
    for (uint32_t i = 0; i < effects.msg_count; i++)
        add_words(words_of(&effects.msgs[i]));
    for (uint32_t i = 0; i < effects.frame_count; i++) {
        const struct frame *frame = &effects.frames[i].frame;
        if ((frame->flags & FRAME_KIND_MASK) == FRAME_ERROR) /* that of a wait */
            add_words(words_of_error(frame->value));
        if ((frame->flags & FRAME_KIND_MASK) == FRAME_TOPIC) /* `said` leaves these out */
            snprintf(answer + strlen(answer), sizeof answer - strlen(answer),
                     "topic %u of incarnation %llu up to %llu\n", frame->topic,
                     (unsigned long long)frame->reply_to, (unsigned long long)frame->seq);
    }
    forget();
}

static bool has(const char *line, size_t bytes, const char *word)
{
    return memmem(line, bytes, word, strlen(word)) != NULL;
}

/* Keeps the lines of the tables that have to do with bob or alice.  Whoever takes part in the job
 * is in its line, and what it does wrong is in its history. */
static void take_others(struct core_dump *dump, bool is_in_the_job)
{
    size_t bytes_kept = 0;
    core_dump_take(dump, core);
    for (size_t at = 0; at < dump->bytes;) {
        char *line = dump->text + at;
        const char *end = memchr(line, '\n', dump->bytes - at);
        size_t bytes = end != NULL ? (size_t)(end + 1 - line) : dump->bytes - at;
        bool is_of_others = has(line, bytes, "bob") || has(line, bytes, "alice");
        bool is_of_all = strncmp(line, "job job", 7) == 0 || has(line, bytes, "event refused");
        at += bytes;
        if (!is_of_others || (is_in_the_job && is_of_all))
            continue;
        memmove(dump->text + bytes_kept, line, bytes);
        bytes_kept += bytes;
    }
    dump->bytes = bytes_kept;
    dump->text[bytes_kept] = '\0';
}

static bool is_in_the_job(const struct role *role)
{
    return role->conn == CAROL && !role->is_new;
}

static void expect_same_tables(const char *name, const struct role *role)
{
    take_others(&after, is_in_the_job(role));
    const char *changed = core_dump_differ(&before, &after);
    cr_assert_null(changed, "%s as %s: %s", name, role->name, changed);
}

static void expect_nothing_has_changed(const char *name, const struct role *role)
{
    expect_same_tables(name, role);
    publish(BOB, known.topic, bobs_next, 1, 3);
    cr_assert_not_null(strstr(said, "11 < sub 1 payload 3 x1"), "%s as %s: %s", name, role->name,
                       said);
    forget();
}

/* Whether the attacker is refused; else it may be that what it did has no answer. */
static bool is_refused(void)
{
    static const char *const refusals[] = {" 12", "dropped", "refused 11 errbus.fenced", "rejected",
                                           "refusal"};
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
        if (strstr(answer, refusals[i]) != NULL)
            return true;
    return false;
}

Test(core_attacks, are_answered_alike_and_change_nothing)
{
    static char with_bob[sizeof answer];
    unsigned made = 0;
    for (unsigned i = 0; i < ATTACKS; i++) {
        for (unsigned k = 0; k < ROLES; k++) {
            const struct role *role = &roles[k];
            const char *name = attacks[i].name;
            if (attacks[i].is_greeting != role->is_new)
                continue;
            open_world(true);
            take_role(role);
            take_others(&before, is_in_the_job(role));
            cr_assert(has(before.text, before.bytes, "bob/secret"));
            attack(role, &attacks[i]);
            memcpy(with_bob, answer, sizeof answer);
            cr_assert(is_refused() || attacks[i].is_ignored, "%s as %s: '%s'", name, role->name,
                      answer);
            cr_assert_null(strstr(answer, "patient"));
            expect_nothing_has_changed(name, role);
            open_world(false);
            take_role(role);
            take_others(&before, is_in_the_job(role));
            attack(role, &attacks[i]);
            cr_assert_str_eq(answer, with_bob, "%s as %s", name, role->name);
            expect_same_tables(name, role); /* nothing is made for who never was */
            made += 1;
        }
    }
    cr_expect_geq(made, 100, "%u", made);
    cr_expect_geq(denials, 100, "%u", denials);
}
