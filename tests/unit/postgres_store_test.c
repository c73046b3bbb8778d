/* SPDX-License-Identifier: MPL-2.0 */
/* postgres_store_test.c -- the commits of a shard's holder, through a door that answers as the test
 * wants: with doubts, warnings, refusals, and the row of another holder. */
#include "broker/journal/postgres_store.h"

#include "libbus/base/must.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { ANSWERS_MAX = 16, FIELDS_MAX = 8 };
/* The settings of the server, as they were looked at, and others. */
#define TERMS "on on "
#define OTHER_TERMS "on on ANY 1 (a)"

/* What the door answers to the next call of run. */
struct scripted {
    enum door_verdict verdict;
    const char *state;
    const char *fields[FIELDS_MAX]; /* of one row; the first NULL: there is no row */
    const char *check;              /* NULL: the settings that were looked at */
};

struct script {
    struct door door;
    struct scripted answers[ANSWERS_MAX];
    size_t count;
    size_t at;
    unsigned commits; /* calls whose last statement is a fence */
    unsigned unfit;   /* of them, under settings that are not those of the last greeting */
    unsigned looks;   /* calls that ask for the row */
    unsigned connects;
    unsigned rests;
    unsigned rests_max;              /* then it is given up */
    char away[DISK_COMPLAINT_BYTES]; /* what was told in the last rest */
    unsigned ours;                   /* statements that change the row of our holder alone */
    unsigned ends;                   /* statements that end the session before */
    unsigned lonely_looks;           /* that a server without a quorum would answer */
};

static struct script script;
static struct store store;

static bool script_connect(struct door *door, const char *conninfo, char *why)
{
    (void)door;
    (void)conninfo;
    (void)why;
    script.connects++;
    return true;
}

static void script_disconnect(struct door *door)
{
    (void)door;
}

static bool has_text(const struct door_statement *statement, const char *text)
{
    bool is_there = false;
    for (unsigned i = 0; i < statement->count; i++)
        is_there |= span_equal(statement->params[i].bytes, span_text(text));
    return is_there;
}

static void script_run(struct door *door, const struct door_statement *statements, size_t count,
                       struct door_answer *out)
{
    (void)door;
    *out = (struct door_answer){.verdict = DOOR_DONE};
    const struct door_statement *last = &statements[count - 1];
    if (strstr(last->sql, "ELSE 1 / (seq - seq) END") != NULL) {
        script.commits++;
        script.unfit += strstr(last->sql, STORE_TERMS " = $5") == NULL ||
                        !span_equal(last->params[4].bytes, span_text(store.found.terms));
    }
    if (strstr(statements[count - 1].sql, "SELECT epoch::text, seq::text") != NULL) {
        script.looks++;
        script.lonely_looks += strcmp(statements[0].sql, STORE_CONFIRM) != 0;
    }
    for (size_t i = 0; i < count; i++)
        script.ends += strstr(statements[i].sql, "pg_terminate_backend") != NULL;
    for (size_t i = 0; i < count; i++)
        script.ours += strstr(statements[i].sql, "UPDATE errbus_shard") != NULL &&
                       strstr(statements[i].sql, "AND holder = $") != NULL &&
                       has_text(&statements[i], store.holder);
    cr_assert_lt(script.at, script.count, "nothing more was expected: %s",
                 statements[count - 1].sql);
    struct scripted *answer = &script.answers[script.at++];
    out->verdict = answer->verdict;
    snprintf(out->state, sizeof out->state, "%s", answer->state != NULL ? answer->state : "");
    snprintf(out->why, sizeof out->why, "%s", "as the test wants");
    snprintf(out->check, sizeof out->check, "%s",
             answer->check != NULL ? answer->check : store.found.terms);
    out->changed = answer->fields[0] != NULL;
    out->rows = answer;
}

static size_t script_rows(const struct door_answer *answer)
{
    const struct scripted *scripted = answer->rows;
    return scripted->fields[0] != NULL;
}

static struct span script_field(const struct door_answer *answer, size_t row, unsigned column)
{
    const struct scripted *scripted = answer->rows;
    cr_assert_lt(row, script_rows(answer));
    return span_text(scripted->fields[column]);
}

static void script_clear(struct door_answer *answer)
{
    answer->rows = NULL;
}

static void script_rest(struct door *door)
{
    store_away(&store, script.away);
    if (++script.rests == script.rests_max)
        atomic_store(&door->is_given_up, true);
}

static void script_close(struct door *door)
{
    (void)door;
}

static const struct door_ops script_ops = {.connect = script_connect,
                                           .disconnect = script_disconnect,
                                           .run = script_run,
                                           .rows = script_rows,
                                           .field = script_field,
                                           .clear = script_clear,
                                           .rest = script_rest,
                                           .close = script_close};

/* A holder with epoch 3, whose last commit had number 7. */
static void begin(void)
{
    script = (struct script){.door = {.ops = &script_ops}};
    struct door *door = &script.door;
    cr_assert_eq(store_init(&store, &door, "", 5, 0), 0);
    store.epoch = 3;
    store.seq = 7;
    store.is_connected = true;
    snprintf(store.found.terms, sizeof store.found.terms, "%s", TERMS);
}

static void end(void)
{
    must(script.at == script.count); /* all was asked */
    must(script.unfit == 0);
    store_fini(&store);
}

TestSuite(postgres_store, .init = begin, .fini = end);

static void expect_run(enum door_verdict verdict, const char *state)
{
    script.answers[script.count++] =
        (struct scripted){.verdict = verdict, .state = state, .fields = {TERMS}};
}

static void expect_row_of(const char *holder, const char *epoch, const char *seq)
{
    script.answers[script.count++] =
        (struct scripted){.verdict = DOOR_DONE, .fields = {epoch, seq, TERMS, holder}};
}

static void expect_row(const char *epoch, const char *seq)
{
    expect_row_of(store.holder, epoch, seq);
}

/* What a server says when it is connected to: its settings. */
static void expect_greeting(void)
{
    script.answers[script.count++] = (struct scripted){
        .verdict = DOOR_DONE, .fields = {"150020", "false", "on", "on", "", "0", "0", TERMS}};
}

/* A doubt, and so many looks that are in doubt themselves. */
static void expect_doubts(int count)
{
    expect_run(DOOR_DOUBT, NULL);
    for (int i = 0; i < count; i++) {
        expect_greeting();
        expect_run(DOOR_DOUBT, NULL);
    }
}

static int commit(void)
{
    struct store_change change;
    store_change_init(&change);
    store_change_write(&change, &store, 9, 64, span_of("x", 1));
    int result = store_commit(&store, &change);
    store_change_fini(&change);
    return result;
}

Test(postgres_store, counts_a_commit_that_is_confirmed)
{
    expect_run(DOOR_DONE, NULL);
    cr_expect_eq(commit(), 0);
    cr_expect_eq(store.seq, 8);
    cr_expect_eq(script.looks, 0);
}

/* A lost connection, and a warning: both times the row says that it is there. */
Test(postgres_store, commits_once_when_a_doubt_ends_well)
{
    expect_run(DOOR_DOUBT, NULL);
    expect_greeting();
    expect_row("3", "8");
    cr_expect_eq(commit(), 0);
    cr_expect_eq(store.seq, 8);
    cr_expect_eq(script.commits, 1);
    cr_expect_eq(script.looks, 1);
}

Test(postgres_store, commits_again_what_is_not_there)
{
    expect_run(DOOR_DOUBT, NULL);
    expect_greeting();
    expect_row("3", "7");
    expect_run(DOOR_DONE, NULL);
    cr_expect_eq(commit(), 0);
    cr_expect_eq(store.seq, 8);
    cr_expect_eq(script.commits, 2);
}

/* What is looked at is in doubt, too, as long as no quorum has it. */
Test(postgres_store, looks_until_the_answer_is_confirmed)
{
    expect_doubts(3);
    expect_greeting();
    expect_row("3", "8");
    cr_expect_eq(commit(), 0);
    cr_expect_eq(script.commits, 1);
    cr_expect_eq(script.rests, 3);
}

Test(postgres_store, is_fenced_by_a_later_epoch)
{
    expect_run(DOOR_REFUSED, "22012");
    expect_row("4", "8");
    cr_expect_eq(commit(), -DISK_FENCED);
    cr_expect_eq(commit(), -DISK_FENCED, "and asks nobody any more");
    cr_expect_eq(store_keep(&store), -DISK_FENCED);
    cr_expect_eq(store.seq, 7);
}

/* A server that lacks what was confirmed let the next holder in.  By now it may have more. */
Test(postgres_store, learns_from_the_next_epoch_that_the_store_forgot)
{
    static const struct {
        const char *taken;  /* the number of the commit that took the next epoch */
        const char *holder; /* of our epoch */
        const char *why;    /* NULL: fenced, and nothing else */
    } rows[] = {{"8", NULL, NULL},
                {"9", NULL, NULL}, /* a commit in doubt was there */
                {NULL, NULL, NULL},
                {"7", NULL, "it has 6 commits of 7"},
                {"3", NULL, "it has 2 commits of 7"},
                {"12", "another", "forgot that this broker has the shard"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *holder = rows[i].holder != NULL ? rows[i].holder : store.holder;
        script.count = script.at = 0;
        store.is_fenced = false;
        script.answers[script.count++] = (struct scripted){
            .verdict = DOOR_DONE, .fields = {"4", "40", TERMS, "next", rows[i].taken, holder}};
        cr_expect_eq(store_keep(&store), rows[i].why == NULL ? -DISK_FENCED : -DISK_FORGOT, "%zu",
                     i);
        if (rows[i].why != NULL)
            cr_expect_not_null(strstr(store.why, rows[i].why), "%s", store.why);
    }
}

/* It drops the tables of files that it removed, so a commit to one cannot be carried out. */
Test(postgres_store, is_fenced_where_the_next_holder_dropped_a_table)
{
    expect_run(DOOR_REFUSED, "42P01");
    expect_row("4", "8");
    cr_expect_eq(commit(), -DISK_FENCED);
}

/* An older epoch, fewer commits, or no row: a server that lacks what was confirmed. */
Test(postgres_store, ends_when_the_store_forgot)
{
    static const char *const rows[][2] = {{"2", "7"}, {"3", "6"}, {NULL, NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        expect_run(DOOR_REFUSED, "22012");
        expect_row(rows[i][0], rows[i][1]);
        cr_expect_eq(commit(), -DISK_FORGOT, "%zu", i);
        cr_expect_not_null(strstr(store.why, "the store forgot"), "%s", store.why);
    }
}

/* The row is gone, so the commit changed none, and is nobody's. */
Test(postgres_store, ends_when_a_commit_finds_no_row)
{
    script.answers[script.count++] = (struct scripted){.verdict = DOOR_DONE};
    expect_greeting();
    expect_row(NULL, NULL);
    cr_expect_eq(commit(), -DISK_FORGOT);
    cr_expect_not_null(strstr(store.why, "the store forgot"), "%s", store.why);
    cr_expect_eq(store.seq, 7);
}

/* A server that lacks our epoch was promoted, and gave that number to somebody else, or to somebody
 * who gave the shard up.  What is there under it is not ours, however many commits that are. */
Test(postgres_store, ends_when_its_epoch_is_of_another_holder)
{
    static const char *const holders[] = {"another", NULL};
    for (size_t i = 0; i < sizeof holders / sizeof holders[0]; i++)
        for (const char *seq = "6789"; *seq != '\0'; seq++) {
            const char number[] = {*seq, '\0'};
            script.count = script.at = 0;
            expect_run(DOOR_DOUBT, NULL);
            expect_greeting();
            expect_row_of(holders[i], "3", number);
            cr_expect_eq(commit(), -DISK_FORGOT, "%s", number);
            cr_expect_not_null(strstr(store.why, "the store forgot"), "%s", store.why);
            cr_expect_eq(store.seq, 7);
        }
}

/* A commit more than was ever sent is nobody's that is known. */
Test(postgres_store, takes_no_commit_for_its_own_that_it_never_made)
{
    expect_run(DOOR_DOUBT, NULL);
    expect_greeting();
    expect_row("3", "9");
    cr_expect_eq(commit(), -DISK_FORGOT);
    cr_expect_not_null(strstr(store.why, "the store forgot"), "%s", store.why);
}

/* What the server is asked to change is ours, by its holder, too. */
Test(postgres_store, names_its_holder_in_all_that_it_changes)
{
    expect_run(DOOR_DONE, NULL);
    cr_expect_eq(commit(), 0);
    expect_row("3", "8");
    cr_expect_eq(store_keep(&store), 0);
    expect_run(DOOR_DONE, NULL);
    store_release(&store);
    cr_expect_eq(script.ours, 3);
}

/* What may pass is tried again; a statement that the server cannot carry out is the end. */
Test(postgres_store, tells_refusals_apart)
{
    static const char *const passing[] = {"53100", "57014", "40001", "55P03", "25006", "XX000"};
    static const char *const final[] = {"42P01", "42501", "23505", "22001"};
    for (size_t i = 0; i < sizeof passing / sizeof passing[0]; i++) {
        char seq[8];
        script.count = script.at = 0;
        snprintf(seq, sizeof seq, "%d", (int)store.seq);
        expect_run(DOOR_REFUSED, passing[i]);
        expect_row("3", seq);
        expect_run(DOOR_DONE, NULL);
        cr_expect_eq(commit(), 0, "%s", passing[i]);
    }
    for (size_t i = 0; i < sizeof final / sizeof final[0]; i++) {
        script.count = script.at = 0;
        char seq[8];
        snprintf(seq, sizeof seq, "%d", (int)store.seq);
        expect_run(DOOR_REFUSED, final[i]);
        expect_row("3", seq);
        cr_expect_eq(commit(), -EIO, "%s", final[i]);
        cr_expect_not_null(strstr(store.why, "start errbusd again"), "%s", store.why);
    }
}

/* Its first copy came through late, so the second one meets the rows of the first. */
Test(postgres_store, takes_a_commit_that_is_there_for_no_refusal)
{
    expect_run(DOOR_DOUBT, NULL);
    expect_greeting();
    expect_row("3", "7");
    expect_run(DOOR_REFUSED, "23505");
    expect_row("3", "8");
    cr_expect_eq(commit(), 0);
    cr_expect_eq(store.seq, 8);
    cr_expect_eq(script.commits, 2);
}

/* It may hold locks that the same commit would wait for, once it is made again. */
Test(postgres_store, ends_the_session_before_with_the_first_look_of_each)
{
    expect_doubts(1);
    expect_greeting();
    expect_row("3", "7");
    expect_run(DOOR_DONE, NULL);
    cr_expect_eq(commit(), 0);
    cr_expect_eq(script.ends, 2);
    expect_row("3", "8");
    cr_expect_eq(store_keep(&store), 0);
    cr_expect_eq(script.ends, 2);
}

/* A primary that was replaced, and is cut off, answers by itself what changes nothing there. */
Test(postgres_store, looks_at_nothing_that_no_quorum_confirms)
{
    expect_row("3", "7");
    cr_expect_eq(store_keep(&store), 0);
    expect_run(DOOR_DOUBT, NULL);
    expect_greeting();
    expect_row("3", "8");
    cr_expect_eq(commit(), 0);
    cr_expect_eq(script.looks, 2);
    cr_expect_eq(script.lonely_looks, 0);
}

Test(postgres_store, stops_waiting_when_it_is_given_up)
{
    script.rests_max = 2;
    expect_doubts(2);
    cr_expect_eq(commit(), -ECANCELED);
    cr_expect_eq(store.seq, 7);
}

/* ---- settings that change -------------------------------------------------------------------- */

/* A server with a standby that must confirm, and one that waits for nobody any more. */
static void expect_strict_greeting(void)
{
    script.answers[script.count++] = (struct scripted){
        .verdict = DOOR_DONE,
        .fields = {"150020", "false", "on", "on", "ANY 1 (a)", "1", "0", OTHER_TERMS}};
}

static void expect_row_under(const char *terms, const char *seq)
{
    script.answers[script.count++] =
        (struct scripted){.verdict = DOOR_DONE, .fields = {"3", seq, terms, store.holder}};
}

static void expect_away(const char *text)
{
    char why[DISK_COMPLAINT_BYTES];
    store_away(&store, why);
    if (text[0] == '\0')
        cr_expect_str_eq(why, "");
    else
        cr_expect_not_null(strstr(why, text), "%s", why);
}

/* The server undid it, for nobody had looked at these settings.  It is made again under them. */
Test(postgres_store, commits_again_what_was_undone_for_other_settings)
{
    expect_run(DOOR_REFUSED, "22012");
    expect_row_under(OTHER_TERMS, "7");
    expect_strict_greeting();
    expect_row_under(OTHER_TERMS, "7");
    expect_run(DOOR_DONE, NULL);
    cr_expect_eq(commit(), 0);
    cr_expect_eq(store.seq, 8);
    cr_expect_eq(script.commits, 2);
    cr_expect_eq(script.connects, 1);
    expect_away("");
}

/* They were others when it was made, and are as before when the server is looked at. */
Test(postgres_store, says_why_a_commit_is_tried_again_under_the_same_settings)
{
    expect_run(DOOR_REFUSED, "22012");
    expect_row("3", "7");
    expect_run(DOOR_DONE, NULL);
    cr_expect_eq(commit(), 0);
    cr_expect_eq(script.rests, 1);
    cr_expect_not_null(strstr(script.away, "other settings for a moment"), "%s", script.away);
    expect_away("");
}

/* The row can be looked at, and each commit is refused: no room, or no time.  It waits for long.
 * Whoever asks is told what for, until a commit succeeds. */
Test(postgres_store, says_why_commits_are_refused_in_passing)
{
    for (int i = 0; i < 2; i++) {
        expect_run(DOOR_REFUSED, "53100");
        expect_row("3", "7");
    }
    expect_run(DOOR_DONE, NULL);
    cr_expect_eq(commit(), 0);
    cr_expect_eq(script.rests, 2);
    cr_expect_not_null(strstr(script.away, "as the test wants (SQLSTATE 53100)"), "%s",
                       script.away);
    expect_away("");
}

/* Its wait was ended when the quorum was set aside: it was made before that, and is on one copy. */
Test(postgres_store, looks_again_after_a_commit_behind_which_settings_changed)
{
    script.answers[script.count++] =
        (struct scripted){.verdict = DOOR_DONE, .fields = {TERMS}, .check = OTHER_TERMS};
    expect_strict_greeting();
    expect_row_under(OTHER_TERMS, "8");
    cr_expect_eq(commit(), 0);
    cr_expect_eq(store.seq, 8);
    cr_expect_eq(script.commits, 1);
    cr_expect_eq(script.connects, 1);
}

/* A look is no better than a commit. */
Test(postgres_store, looks_again_when_settings_change_behind_a_look)
{
    script.answers[script.count++] = (struct scripted){
        .verdict = DOOR_DONE, .fields = {"3", "7", TERMS, store.holder}, .check = OTHER_TERMS};
    expect_strict_greeting();
    expect_row_under(OTHER_TERMS, "7");
    cr_expect_eq(store_keep(&store), 0);
    cr_expect_eq(script.looks, 2);
}

/* The holder says that it is there, and finds that nobody confirms commits any more. */
Test(postgres_store, is_away_while_the_quorum_is_not_in_force)
{
    store.replicas = 1;
    snprintf(store.found.terms, sizeof store.found.terms, "%s", OTHER_TERMS);
    script.rests_max = 3;
    expect_row_under(TERMS, "7");
    expect_greeting();
    expect_greeting();
    cr_expect_eq(store_keep(&store), -ECANCELED);
    cr_expect_eq(script.looks, 1, "no server that promises too little is asked");
    cr_expect_not(store.is_connected);
    expect_away("set it to 'ANY 1 (NAME, NAME)'");
    atomic_store(&script.door.is_given_up, false);
    expect_strict_greeting();
    expect_row_under(OTHER_TERMS, "7");
    cr_expect_eq(store_keep(&store), 0);
    expect_away("");
}

/* Of three servers two are of no use, and the next attempt begins with the one behind them. */
Test(postgres_store, tries_each_server_of_the_list)
{
    store.replicas = 1;
    script.door.hosts = 3;
    expect_greeting();
    expect_greeting();
    expect_strict_greeting();
    cr_expect(store_connect(&store));
    cr_expect_eq(script.door.turn, 2);
    for (int i = 0; i < 3; i++)
        expect_greeting();
    cr_expect_not(store_connect(&store));
    cr_expect_eq(script.connects, 6);
}

/* Held by another, in doubt, and free. */
Test(postgres_store, takes_what_is_free)
{
    expect_row(NULL, NULL);
    cr_expect_eq(store_take(&store), -EWOULDBLOCK);
    expect_run(DOOR_DOUBT, NULL);
    cr_expect_eq(store_take(&store), -EWOULDBLOCK);
    cr_expect_not(store.is_connected);
    expect_greeting();
    expect_row("5", "12");
    cr_expect_eq(store_take(&store), 0);
    cr_expect_eq(store.epoch, 5);
    cr_expect_eq(store.seq, 12);
}

Test(postgres_store, reads_how_many_standbys_confirm)
{
    static const struct {
        const char *setting;
        unsigned count;
    } rows[] = {{"", 0},
                {" ", 0},
                {"a", 1},
                {"a, b", 1},
                {"ANY 1 (a, b)", 1},
                {"any 2 (a,b,c)", 2},
                {"FIRST 3 (*)", 3},
                {"2 (a, b)", 2},
                {"*", 1},
                {"2a, b", 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect_eq(store_quorum(rows[i].setting), rows[i].count, "%s", rows[i].setting);
}

/* Each setting alone, and the number of standbys at n - 1 and n. */
Test(postgres_store, refuses_a_server_that_may_lose_commits)
{
    static const struct {
        struct scripted settings;
        unsigned replicas;
        const char *why; /* NULL: it is taken */
    } rows[] = {
        {{DOOR_DONE, NULL, {"150020", "true", "on", "on", "", "0", "0"}, NULL}, 0, "is a standby"},
        {{DOOR_DONE, NULL, {"150020", "false", "off", "on", "", "0", "0"}, NULL},
         0,
         "fsync is off"},
        {{DOOR_DONE, NULL, {"150020", "false", "on", "off", "", "0", "0"}, NULL},
         0,
         "full_page_writes"},
        {{DOOR_DONE, NULL, {"150020", "false", "on", "on", "ANY 1 (a)", "1", "0"}, NULL},
         2,
         "too few"},
        {{DOOR_DONE, NULL, {"150020", "false", "on", "on", "ANY 2 (a, b)", "1", "0"}, NULL},
         2,
         "start"},
        {{DOOR_DONE, NULL, {"150020", "false", "on", "on", "ANY 1 (a)", "0", "1"}, NULL},
         1,
         "GRANT"},
        {{DOOR_DONE, NULL, {"150020", "false", "on", "on", "ANY 2 (a, b)", "2", "0"}, NULL},
         2,
         NULL},
        {{DOOR_DONE, NULL, {"150020", "false", "on", "on", "", "0", "0"}, NULL}, 0, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        store.replicas = rows[i].replicas;
        script.answers[script.count++] = rows[i].settings;
        cr_expect_eq(store_connect(&store), rows[i].why == NULL, "%zu", i);
        cr_expect_eq(store.is_connected, rows[i].why == NULL, "%zu", i);
        if (rows[i].why != NULL)
            cr_expect_not_null(strstr(store.why, rows[i].why), "%s", store.why);
    }
}
