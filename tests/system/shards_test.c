/* SPDX-License-Identifier: MPL-2.0 */
/* shards_test.c -- several shards in one PostgreSQL are one bus: each job is on one of them, and
 * whoever asks the wrong broker is sent to the right one. */
#include "tests/lib/expect.h"
#include "tests/lib/postgres.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    SHARDS = 3,
    PLACES = SHARDS + 1, /* one more for a spare */
    VALUES = 10,
    PATH_BYTES = POSTGRES_PATH_BYTES + 16,
    JOBS = 30,
    JOBS_LONG = 300,
    JOBS_OF_SHARD_MAX = JOBS_LONG / SHARDS,
    WINDOW_MS = 4000,
    WAIT_MAX_MS = 50, /* on a quiet machine */
    EACH_MS = 100,    /* from one value of a job to the next */
};

static struct postgres postgres;
static struct process brokers[PLACES];
static char controls[PLACES][PATH_BYTES];
static const char *linger; /* how long a job stays that nobody is in */

static void init(void)
{
    linger = "100ms";
    if (!postgres_is_installed())
        return;
    cr_assert(postgres_start(&postgres, 0), "%s", postgres.why);
    for (int place = 0; place < PLACES; place++)
        snprintf(controls[place], PATH_BYTES, "ipc://%s/control%d", postgres.folder.path, place);
}

static void fini(void)
{
    for (int place = 0; place < PLACES; place++)
        process_fini(&brokers[place]);
    postgres_fini(&postgres);
}

TestSuite(shards, .init = init, .fini = fini, .timeout = 300);

static void skip_without_server(void)
{
    if (postgres.count == 0)
        cr_skip_test(POSTGRES_MISSING);
}

static void wait_for(const char *sql)
{
    cr_assert(postgres_await(&postgres, 0, sql), "%s", postgres.why);
}

/* Each place is a machine: it has a cache of its own. */
static void start_broker(int place, int shard)
{
    char data[PATH_BYTES], cache[PATH_BYTES], number[16];
    char journal[POSTGRES_CONNINFO_BYTES + 16];
    snprintf(data, sizeof data, "ipc://%s/data%d", postgres.folder.path, place);
    snprintf(cache, sizeof cache, "%s/cache%d", postgres.folder.path, place);
    snprintf(journal, sizeof journal, "postgres:%s", postgres.conninfo);
    snprintf(number, sizeof number, "%d", shard);
    const char *const argv[] = {"errbusd", "--control", controls[place], "--data",     data,
                                "--cache", cache,       "--journal",     journal,      "--shard",
                                number,    "--linger",  linger,          "--replicas", "0",
                                NULL};
    process_fini(&brokers[place]);
    cr_assert(process_start(&brokers[place], argv, NULL));
}

static void must_serve(int place)
{
    const char *line = NULL;
    cr_assert(process_line(&brokers[place], SOON_MS, &line), "%s",
              process_complained(&brokers[place]));
}

static void start_shards(void)
{
    for (int place = 0; place < SHARDS; place++) {
        start_broker(place, place);
        must_serve(place);
    }
}

/* A party of job "jobN", by these brokers. */
static struct bus *join_by(const char *endpoints, int job, const char *party)
{
    char name[16];
    struct bus_options options = patient_options(party);
    snprintf(name, sizeof name, "job%d", job);
    options.job = name;
    return must_open_at(endpoints, &options);
}

static struct bus *join_at(int place, int job, const char *party)
{
    return join_by(controls[place], job, party);
}

static void expect_values(struct bus_sub *sub, int until)
{
    for (int i = 0; i < until; i++)
        expect_value(sub, "alice/w", (uint64_t)i, "%d", i);
}

static void expect_row(const char *sql, const char *expected)
{
    char answer[200] = "";
    cr_assert(postgres_query(&postgres, 0, sql, answer, sizeof answer), "%s", sql);
    cr_expect_str_eq(answer, expected, "%s", sql);
}

static void publish(struct bus *bus, int from, int count)
{
    for (int i = from; i < from + count; i++)
        must_publish(bus, "w", "%d", i);
    must_flush(bus);
}

Test(shards, have_a_job_each_that_any_broker_leads_to)
{
    skip_without_server();
    start_shards();
    struct bus *writers[SHARDS];
    for (int job = 0; job < SHARDS; job++) {
        writers[job] = join_at(job, job, "alice");
        publish(writers[job], 0, VALUES);
    }
    expect_row("SELECT string_agg(job || '=' || shard, ' ' ORDER BY job) FROM errbus_job",
               "job0=0 job1=1 job2=2");
    for (int job = 0; job < SHARDS; job++) {
        struct bus *bob = join_at((job + 1) % SHARDS, job, "bob");
        struct bus_sub *sub = must_subscribe(bob, "alice/w");
        expect_values(sub, VALUES);
        bus_sub_close(&sub);
        must_close(&bob);
        must_close(&writers[job]);
    }
}

/* No client knows the spare, and alice does not know the broker that she loses, either. */
Test(shards, go_on_where_a_spare_takes_over)
{
    skip_without_server();
    char both[2 * PATH_BYTES];
    start_shards();
    snprintf(both, sizeof both, "%s,%s", controls[1], controls[2]);
    struct bus *other = join_at(2, 2, "alice");
    struct bus *bob = join_by(both, 1, "bob");
    struct bus *alice = join_at(0, 1, "alice");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    publish(alice, 0, VALUES);
    start_broker(SHARDS, 1);
    process_signal(&brokers[1], SIGKILL);
    cr_assert_eq(process_wait(&brokers[1], SOON_MS), 128 + SIGKILL);
    for (int i = 0; i < VALUES; i++) {
        int64_t from_ms = test_now_ms();
        publish(other, i, 1);
        cr_expect_lt(test_now_ms() - from_ms, AT_ONCE_MS, "another shard waits");
    }
    must_serve(SHARDS);
    publish(alice, VALUES, VALUES);
    struct bus *carol = join_at(2, 1, "carol");
    struct bus_sub *late = must_subscribe(carol, "alice/w");
    expect_values(late, 2 * VALUES);
    expect_values(sub, 2 * VALUES);
    expect_row("SELECT control FROM errbus_endpoint WHERE shard = 1", controls[SHARDS]);
    bus_sub_close(&late);
    bus_sub_close(&sub);
    must_close(&carol);
    must_close(&alice);
    must_close(&bob);
    must_close(&other);
}

/* The command line, with these words behind its name: its exit status, and what it said. */
static int run_errbus(struct process *process, int place, const char *const *words)
{
    const char *argv[12] = {"errbus"};
    size_t count = 1;
    for (; words[count - 1] != NULL; count++)
        argv[count] = words[count - 1];
    argv[count++] = "--server";
    argv[count] = controls[place];
    cr_assert(process_start(process, argv, NULL));
    return process_wait(process, SOON_MS);
}

static unsigned count_of(const char *text, const char *what)
{
    unsigned count = 0;
    while ((text = strstr(text, what)) != NULL) {
        text += strlen(what);
        count++;
    }
    return count;
}

Test(shards, are_all_in_the_status_of_any_broker)
{
    skip_without_server();
    static const char *const all[] = {"status", NULL};
    static const char *const one[] = {"status", "--shard", "2", "--json", NULL};
    static const char *const none[] = {"status", "--shard", "7", NULL};
    static const char *const patient[] = {"status", "--wait", "6", NULL};
    struct process process = {0};
    struct bus *writers[SHARDS];
    start_shards();
    for (int job = 0; job < SHARDS; job++)
        writers[job] = join_at(job, job, "alice");
    cr_expect_eq(run_errbus(&process, 1, all), 0, "%s", process_complained(&process));
    for (int job = 0; job < SHARDS; job++) {
        char line[PATH_BYTES + 32];
        cr_assert_lt((size_t)snprintf(line, sizeof line, "shard %d at %s\n", job, controls[job]),
                     sizeof line);
        cr_expect_eq(count_of(process_said(&process), line), 1, "%s", process_said(&process));
        snprintf(line, sizeof line, "job job%d ", job);
        cr_expect_eq(count_of(process_said(&process), line), 1, "%s", process_said(&process));
    }
    process_fini(&process);
    cr_expect_eq(run_errbus(&process, 1, one), 0, "%s", process_complained(&process));
    cr_expect_eq(count_of(process_said(&process), "\"kind\":\"shard\""), 1);
    cr_expect_eq(count_of(process_said(&process), "\"shard\":2,"), 1);
    cr_expect_eq(count_of(process_said(&process), "\"name\":\"job2\""), 1);
    cr_expect_eq(count_of(process_said(&process), "job1"), 0);
    process_fini(&process);
    cr_expect_eq(run_errbus(&process, 1, none), 1);
    process_fini(&process);
    process_signal(&brokers[0], SIGKILL);
    cr_assert_eq(process_wait(&brokers[0], SOON_MS), 128 + SIGKILL);
    cr_expect_eq(run_errbus(&process, 1, all), 5, "%s", process_complained(&process));
    cr_expect_not_null(strstr(process_complained(&process), "shard 0: "), "%s",
                       process_complained(&process));
    cr_expect_eq(count_of(process_said(&process), "job job"), 2, "%s", process_said(&process));
    process_fini(&process);
    cr_expect_eq(run_errbus(&process, 1, patient), 5, "%s", process_complained(&process));
    cr_expect_eq(count_of(process_said(&process), "job job"), 2, "it waits for shard 0 alone");
    process_fini(&process);
    for (int job = 1; job < SHARDS; job++)
        must_close(&writers[job]);
    (void)bus_close(&writers[0], 0); /* its broker is gone */
}

/* One picture of all jobs, and then without the shard whose broker is gone. */
Test(shards, are_all_in_the_picture_of_top)
{
    skip_without_server();
    static const char *const top[] = {"top", "--once", "--every", "0.1", NULL};
    static const char *const json[] = {"top", "--once", "--every", "0.1", "--json", NULL};
    struct process process = {0};
    struct bus *writers[SHARDS];
    char line[PATH_BYTES + 64];
    start_shards();
    for (int job = 0; job < SHARDS; job++)
        writers[job] = join_at(job, job, "alice");
    cr_expect_eq(run_errbus(&process, 1, top), 0, "%s", process_complained(&process));
    for (int job = 0; job < SHARDS; job++) {
        cr_assert_lt(
            (size_t)snprintf(line, sizeof line, "shard %d at %s: broker ", job, controls[job]),
            sizeof line);
        cr_expect_eq(count_of(process_said(&process), line), 1, "%s", process_said(&process));
        snprintf(line, sizeof line, "job%d: alice ", job);
        cr_expect_eq(count_of(process_said(&process), line), 1, "%s", process_said(&process));
    }
    process_fini(&process);
    process_signal(&brokers[0], SIGKILL);
    cr_assert_eq(process_wait(&brokers[0], SOON_MS), 128 + SIGKILL);
    cr_expect_eq(run_errbus(&process, 1, json), 5, "%s", process_complained(&process));
    cr_expect_eq(count_of(process_said(&process), "\"silent\":\"out of reach\""), 1, "%s",
                 process_said(&process));
    cr_expect_eq(count_of(process_said(&process), "\"row\":\"job\""), 2, "%s",
                 process_said(&process));
    process_fini(&process);
    for (int job = 1; job < SHARDS; job++)
        must_close(&writers[job]);
    (void)bus_close(&writers[0], 0); /* its broker is gone */
}

/* The name of a job is known, whichever broker has it. */
Test(shards, know_the_jobs_of_each_other)
{
    skip_without_server();
    static const char *const why[] = {"why", "job0", NULL};
    static const char *const nobody[] = {"why", "job7", NULL};
    struct process process = {0};
    struct bus *writers[SHARDS];
    start_shards();
    for (int job = 0; job < SHARDS; job++)
        writers[job] = join_at(job, job, "alice");
    cr_expect_eq(run_errbus(&process, 1, why), 0, "%s", process_complained(&process));
    process_fini(&process);
    cr_expect_eq(run_errbus(&process, 1, nobody), 2);
    process_fini(&process);
    const char *const jobs[] = {"errbus",    "__complete", "status", "-s",
                                controls[1], "-j",         "",       NULL};
    cr_assert(process_start(&process, jobs, NULL));
    cr_expect_eq(process_wait(&process, SOON_MS), 0);
    cr_expect_str_eq(process_said(&process), "job0\tjob\njob1\tjob\njob2\tjob\n");
    process_fini(&process);
    const char *const parties[] = {"errbus", "__complete", "why",       "-s", controls[1],
                                   "-j",     "job0",       "--without", "",   NULL};
    cr_assert(process_start(&process, parties, NULL));
    cr_expect_eq(process_wait(&process, SOON_MS), 0);
    cr_expect_not_null(strstr(process_said(&process), "alice"), "%s", process_said(&process));
    process_fini(&process);
    for (int job = 0; job < SHARDS; job++)
        must_close(&writers[job]);
}

/* Whichever broker is asked, the one that has the job answers. */
Test(shards, lead_a_question_to_its_job)
{
    skip_without_server();
    linger = "60s"; /* nobody joins the job that is created */
    start_shards();
    struct bus *alice = join_at(0, 0, "alice");
    struct bus_admin_options options;
    struct bus_admin *admin = NULL;
    struct bus_status *status = NULL;
    struct bus_job *job = NULL;
    struct bus_report *report = NULL;
    struct bus_job_options terms;
    bus_admin_options_init(&options);
    bus_job_options_init(&terms);
    options.job = "job0";
    expect_code(bus_admin_open(controls[1], &options, SOON_MS, &admin, NULL), BUS_OK);
    expect_code(bus_admin_report_get(admin, NULL, 0, SOON_MS, &report, NULL), BUS_OK);
    cr_expect_eq(bus_report_summary(report)->outlook, BUS_OUTLOOK_GOES_ON);
    bus_report_free(&report);
    bus_admin_close(&admin);
    expect_code(bus_admin_open(controls[2], &options, SOON_MS, &admin, NULL), BUS_OK);
    expect_code(bus_admin_job_create(admin, "job2", &terms, SOON_MS, NULL), BUS_OK);
    expect_code(bus_admin_status_get(admin, "job0", SOON_MS, &status, NULL), BUS_OK);
    cr_expect_gt(bus_status_count(status), 1);
    bus_status_free(&status);
    expect_code(bus_admin_job_get(admin, "job2", SOON_MS, &job, NULL), BUS_OK);
    bus_job_free(&job);
    bus_admin_close(&admin);
    expect_row("SELECT string_agg(job || '=' || shard, ' ' ORDER BY job) FROM errbus_job",
               "job0=0 job2=2");
    must_close(&alice);
}

/* Afterwards it may be anywhere. */
Test(shards, lose_a_job_that_is_forgotten)
{
    skip_without_server();
    start_shards();
    struct bus *alice = join_at(0, 0, "alice");
    expect_row("SELECT shard FROM errbus_job", "0");
    must_close(&alice);
    wait_for("SELECT 1 WHERE NOT EXISTS (SELECT FROM errbus_job)");
    alice = join_at(2, 0, "alice");
    expect_row("SELECT shard FROM errbus_job", "2");
    must_close(&alice);
}

/* A tap that is there before its job has it come to its own broker. */
Test(shards, bring_a_job_to_those_who_watch_for_it)
{
    skip_without_server();
    start_shards();
    struct bus_tap_options options;
    struct bus_error *error = NULL;
    struct bus_tap *tap = NULL;
    bus_tap_options_init(&options);
    options.job = "job0";
    options.from_id = 1;
    expect_code_of(bus_tap_open(controls[2], &options, SOON_MS, &tap, &error), BUS_OK, &error);
    struct bus *alice = join_at(0, 0, "alice");
    (void)expect_event(tap, "party.joined", "alice");
    expect_row("SELECT shard FROM errbus_job", "2");
    must_close(&alice);
    bus_tap_close(&tap);
}

/* A question makes no job, so the job may still be anywhere. */
Test(shards, have_no_job_that_was_only_asked_for)
{
    skip_without_server();
    start_shards();
    struct bus_admin *admin = NULL;
    struct bus_job *job = NULL;
    struct bus_status *status = NULL;
    expect_code(bus_admin_open(controls[1], NULL, SOON_MS, &admin, NULL), BUS_OK);
    expect_code(bus_admin_job_get(admin, "job0", SOON_MS, &job, NULL), BUS_EINVAL);
    expect_code(bus_admin_status_get(admin, "job0", SOON_MS, &status, NULL), BUS_OK);
    bus_status_free(&status);
    expect_row("SELECT count(*) FROM errbus_job", "0");
    struct bus *alice = join_at(2, 0, "alice");
    expect_row("SELECT shard FROM errbus_job", "2");
    expect_code(bus_admin_job_get(admin, "job0", SOON_MS, &job, NULL), BUS_OK);
    bus_job_free(&job);
    bus_admin_close(&admin);
    must_close(&alice);
}

static int count_bytes(const void *bytes, size_t count, void *arg)
{
    size_t *sum = arg;
    (void)bytes;
    *sum += count;
    return 0;
}

Test(shards, lead_to_the_attachments_of_a_job)
{
    skip_without_server();
    start_shards();
    struct bus_options options = patient_options("alice");
    options.job = "job0";
    options.disclosure = BUS_DISCLOSURE_FULL;
    struct bus *alice = must_open_at(controls[0], &options);
    struct bus_slot *slot = must_reserve(alice, "w");
    struct bus_error *error = bus_error_new("app.broken", NULL, "what");
    expect_code(bus_error_add_data(error, "stderr", "said", 4), BUS_OK);
    bus_slot_fail(&slot, error);
    must_flush(alice);
    for (int place = 0; place < SHARDS; place++) {
        struct bus_admin *admin = NULL;
        struct bus_error *why = NULL;
        size_t bytes = 0;
        expect_code(bus_admin_open(controls[place], NULL, SOON_MS, &admin, NULL), BUS_OK);
        expect_code_of(bus_admin_attachment_fetch(admin, "job0", bus_error_id(error), "stderr",
                                                  SOON_MS, count_bytes, &bytes, &why),
                       BUS_OK, &why);
        cr_expect_eq(bytes, 4);
        bus_admin_close(&admin);
    }
    bus_error_unref(&error);
    must_close(&alice);
}

static void run_sql(const char *sql)
{
    char answer[200];
    (void)postgres_query(&postgres, 0, sql, answer, sizeof answer); /* it answers nothing */
}

/* New clients are told what to mend.  Those that are here go on. */
Test(shards, say_what_their_database_refuses)
{
    skip_without_server();
    struct bus *bus = NULL;
    struct bus_error *error = NULL;
    struct bus_options options = patient_options("bob");
    start_broker(0, 0);
    must_serve(0);
    struct bus *alice = join_at(0, 0, "alice");
    options.job = "job1";
    run_sql("ALTER TABLE errbus_job RENAME TO hidden");
    expect_code(bus_open(controls[0], &options, SOON_MS, &bus, &error), BUS_EFULL);
    cr_expect_str_eq(bus_error_type(error), "errbus.no_directory");
    cr_expect_not_null(strstr(bus_error_message(error), "is gone"), "%s", bus_error_message(error));
    bus_error_unref(&error);
    publish(alice, 0, VALUES);
    run_sql("ALTER TABLE hidden RENAME TO errbus_job");
    struct bus *bob = join_at(0, 1, "bob");
    must_close(&bob);
    must_close(&alice);
}

/* A database's words are cut where no character ends, in one of two lengths.  The broker lives. */
Test(shards, say_what_their_database_refuses_in_words_of_many_bytes)
{
    skip_without_server();
    static const char *const begins[] = {"", "x"};
    struct bus *bus = NULL;
    struct bus_error *error = NULL;
    struct bus_options options = patient_options("bob");
    char sql[256];
    start_broker(0, 0);
    must_serve(0);
    struct bus *alice = join_at(0, 0, "alice");
    options.job = "job1";
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++) {
        snprintf(sql, sizeof sql,
                 "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
                 " $$BEGIN RAISE insufficient_privilege USING MESSAGE ="
                 " '%s' || repeat('\xc3\xa4', 1000); END$$",
                 begins[i]);
        run_sql(sql);
        run_sql("CREATE OR REPLACE TRIGGER refuse BEFORE INSERT ON errbus_job"
                " EXECUTE FUNCTION refuse()");
        expect_code(bus_open(controls[0], &options, SOON_MS, &bus, &error), BUS_EFULL);
        cr_expect_str_eq(bus_error_type(error), "errbus.no_directory");
        cr_expect_not_null(strstr(bus_error_message(error), "\xc3\xa4\xc3\xa4"), "%s",
                           bus_error_message(error));
        bus_error_unref(&error);
    }
    publish(alice, 0, VALUES);
    must_close(&alice);
}

/* A broker that may not say where it is says so until it may, and serves what it has. */
Test(shards, begin_when_their_database_lets_them)
{
    skip_without_server();
    struct bus *bus = NULL;
    struct bus_error *error = NULL;
    struct bus_options options = patient_options("bob");
    const char *line = NULL;
    start_broker(0, 0);
    must_serve(0);
    struct bus *alice = join_at(0, 0, "alice");
    process_signal(&brokers[0], SIGKILL);
    cr_assert_eq(process_wait(&brokers[0], SOON_MS), 128 + SIGKILL);
    run_sql("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN RAISE insufficient_privilege; END'");
    run_sql("CREATE TRIGGER refuse BEFORE UPDATE ON errbus_endpoint EXECUTE FUNCTION refuse()");
    start_broker(0, 0);
    must_serve(0);
    do
        cr_assert(process_complaint(&brokers[0], SOON_MS, &line));
    while (strstr(line, "GRANT ") == NULL);
    publish(alice, 0, VALUES);
    options.job = "job1";
    expect_code(bus_open(controls[0], &options, SOON_MS, &bus, &error), BUS_EFULL);
    bus_error_unref(&error);
    run_sql("DROP TRIGGER refuse ON errbus_endpoint");
    struct bus *bob = join_at(0, 1, "bob");
    must_close(&bob);
    must_close(&alice);
}

/* Two shards have a job of one name, as journals from before the directory may.  Who comes new is
 * sent to the shard that the job is assigned to, whichever broker is asked.  Who is here stays. */
Test(shards, take_nobody_new_to_a_job_of_another_shard)
{
    skip_without_server();
    const char *line = NULL;
    start_broker(0, 0);
    must_serve(0);
    struct bus *alice = join_at(0, 0, "alice");
    publish(alice, 0, VALUES);
    process_signal(&brokers[0], SIGKILL);
    cr_assert_eq(process_wait(&brokers[0], SOON_MS), 128 + SIGKILL);
    run_sql("DELETE FROM errbus_job");
    start_broker(1, 1);
    must_serve(1);
    struct bus *carol = join_at(1, 0, "carol");
    must_publish(carol, "w", "hers");
    must_flush(carol);
    start_broker(0, 0);
    must_serve(0);
    struct bus *bob = join_at(0, 0, "bob");
    expect_awaited(bob, "carol/w", 0, "hers");
    expect_row("SELECT string_agg(job || '=' || shard, ' ') FROM errbus_job", "job0=1");
    do
        cr_assert(process_complaint(&brokers[0], SOON_MS, &line));
    while (strstr(line, "1 of the jobs of this journal (job0) are assigned to other shards") ==
           NULL);
    publish(alice, VALUES, VALUES);
    must_close(&bob);
    must_close(&carol);
    must_close(&alice);
}

/* What is installed as retire_shard.sql: of that shard nothing is left, and nobody asks for it. */
Test(shards, leave_the_database_when_they_are_retired)
{
    skip_without_server();
    static const char *const all[] = {"status", NULL};
    char sql[4096] = "SET errbus.shard = '2'; ";
    char answer[200];
    struct process process = {0};
    size_t used = strlen(sql);
    FILE *file = fopen(TEST_SOURCE_DIR "/broker/service/retire_shard.sql", "r");
    cr_assert_not_null(file);
    used += fread(sql + used, 1, sizeof sql - used - 1, file);
    fclose(file);
    sql[used] = '\0';
    start_shards();
    struct bus *alice = join_at(1, 1, "alice");
    struct bus *bob = join_at(2, 2, "bob");
    publish(bob, 0, VALUES);
    cr_expect_not(postgres_query(&postgres, 0, sql, answer, sizeof answer));
    expect_row("SELECT count(*) FROM errbus_shard WHERE shard = 2", "1"); /* its broker is there */
    process_signal(&brokers[2], SIGTERM);
    cr_assert_eq(process_wait(&brokers[2], SOON_MS), 0);
    cr_expect_eq(run_errbus(&process, 1, all), 5, "%s", process_complained(&process));
    process_fini(&process);
    run_sql(sql);
    expect_row("SELECT count(*) FROM errbus_shard WHERE shard = 2", "0");
    expect_row("SELECT count(*) FROM errbus_file WHERE shard = 2", "0");
    expect_row("SELECT count(*) FROM errbus_taken WHERE shard = 2", "0");
    expect_row("SELECT count(*) FROM pg_class WHERE relname LIKE 'errbus_piece_2_%'", "0");
    expect_row("SELECT string_agg(job || '=' || shard, ' ') FROM errbus_job", "job1=1");
    cr_expect_eq(run_errbus(&process, 1, all), 0, "%s", process_complained(&process));
    process_fini(&process);
    publish(alice, 0, VALUES);
    must_close(&alice);
    (void)bus_close(&bob, 0); /* its broker is gone */
}

/* ---- one of them alone ----------------------------------------------------------------------- */

/* A thread that publishes to all jobs of a shard, one after the other, each of them ten times a
 * second.  What is due at once is published at once, and may be in one commit.  Where the thread
 * falls behind, its values are late, and it catches up. */
struct shift {
    struct bus *buses[JOBS_OF_SHARD_MAX];
    int count;
    pthread_t thread;
    bool is_killed; /* its broker will be: an error is its end */
    atomic_bool is_over;
    atomic_llong accepted;
    atomic_llong from_ns;    /* the moment when its first value is due; 0: it has not begun */
    atomic_llong longest_ns; /* from the moment when a value was due until it was accepted */
    atomic_int failed;       /* with this code */
    sem_t has_begun;         /* each job has had a value accepted */
};

/* The values of the jobs follow each other at the same distance. */
static int64_t due_ns(const struct shift *shift, long long value)
{
    return atomic_load(&shift->from_ns) + (int64_t)value * EACH_MS * 1000000 / shift->count;
}

/* There is no event to wait for: this is the pace at which a job publishes. */
static void keep_pace(int64_t due_ns)
{
    int64_t early_ns = due_ns - test_now_ns();
    if (early_ns > 0)
        usleep((useconds_t)(early_ns / 1000) + 1);
}

static void see_accepted(struct shift *shift, long long value)
{
    int64_t wait_ns = test_now_ns() - due_ns(shift, value);
    if (wait_ns > atomic_load(&shift->longest_ns))
        atomic_store(&shift->longest_ns, wait_ns);
    atomic_store(&shift->accepted, value + 1);
    if (value + 1 == shift->count)
        sem_post(&shift->has_begun);
}

static void *work(void *arg)
{
    struct shift *shift = arg;
    enum bus_err err = BUS_OK;
    int64_t within_ms = shift->is_killed ? WINDOW_MS : SOON_MS;
    long long published = 0;
    atomic_store(&shift->from_ns, test_now_ns());
    while (err == BUS_OK && !atomic_load(&shift->is_over)) {
        long long accepted = published;
        keep_pace(due_ns(shift, published));
        int64_t now_ns = test_now_ns();
        for (; err == BUS_OK && due_ns(shift, published) <= now_ns &&
               published < accepted + shift->count;
             published++)
            err = bus_publish(shift->buses[published % shift->count], "w", "x", 1);
        for (; err == BUS_OK && accepted < published; accepted++) {
            err = bus_flush(shift->buses[accepted % shift->count], within_ms);
            if (err == BUS_OK)
                see_accepted(shift, accepted);
        }
    }
    atomic_store(&shift->failed, (int)err);
    return NULL;
}

static void start_shift(struct shift *shift, int place, int jobs)
{
    for (int job = place; job < jobs; job += SHARDS)
        shift->buses[shift->count++] = join_at(place, job, "alice");
    cr_assert_eq(sem_init(&shift->has_begun, 0, 0), 0);
    cr_assert_eq(pthread_create(&shift->thread, NULL, work, shift), 0);
}

/* From then on it only works. */
static void await_shift(struct shift *shift)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += SOON_MS / 1000;
    while (sem_timedwait(&shift->has_begun, &until) != 0)
        cr_assert_eq(errno, EINTR, "a shard accepts nothing");
}

static void end_shift(struct shift *shift)
{
    atomic_store(&shift->is_over, true);
    pthread_join(shift->thread, NULL);
    sem_destroy(&shift->has_begun);
    if (!shift->is_killed)
        cr_expect_eq(atomic_load(&shift->failed), BUS_OK);
    for (int i = 0; i < shift->count; i++) {
        if (shift->is_killed)
            (void)bus_close(&shift->buses[i], 0); /* nobody is there to hear it */
        else
            must_close(&shift->buses[i]);
    }
}

static void begin_window(struct shift *shift)
{
    atomic_store(&shift->longest_ns, 0);
}

/* The longest time that a value of this shard waited, in ms.  The next one may wait longer by
 * now. */
static double end_window(struct shift *shift)
{
    int64_t longest_ns = atomic_load(&shift->longest_ns);
    int64_t open_ns = test_now_ns() - due_ns(shift, atomic_load(&shift->accepted));
    return (double)(open_ns > longest_ns ? open_ns : longest_ns) / 1e6;
}

/* Of the jobs of all shards but the first, in a window that begins now. */
static double longest_wait_ms(struct shift *shifts, bool is_killing)
{
    double longest_ms = 0;
    for (int place = 1; place < SHARDS; place++)
        begin_window(&shifts[place]);
    if (is_killing)
        process_signal(&brokers[0], SIGKILL);
    usleep(WINDOW_MS * 1000);
    for (int place = 1; place < SHARDS; place++) {
        double wait_ms = end_window(&shifts[place]);
        longest_ms = wait_ms > longest_ms ? wait_ms : longest_ms;
    }
    return longest_ms;
}

/* A broker is killed while all work, and nobody has its shard.  TEST_LONG=1: 300 jobs. */
Test(shards, go_on_beside_one_that_nobody_has)
{
    static struct shift shifts[SHARDS] = {{.is_killed = true}};
    int jobs = is_asked("TEST_LONG") ? JOBS_LONG : JOBS;
    skip_without_server();
    start_shards();
    for (int place = 0; place < SHARDS; place++)
        start_shift(&shifts[place], place, jobs);
    for (int place = 0; place < SHARDS; place++)
        await_shift(&shifts[place]);
    double before_ms = longest_wait_ms(shifts, false);
    double beside_ms = longest_wait_ms(shifts, true);
    for (int place = 0; place < SHARDS; place++)
        end_shift(&shifts[place]);
    fprintf(stderr,
            "shards: %d jobs; longest wait of a value before %.1f ms, beside the killed broker "
            "%.1f ms\n",
            jobs, before_ms, beside_ms);
    /* A store that stands still by itself does so before, too. */
    cr_expect_lt(beside_ms, before_ms > WAIT_MAX_MS ? 10 * before_ms : 10 * WAIT_MAX_MS);
}
