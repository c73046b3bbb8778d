/* SPDX-License-Identifier: MPL-2.0 */
/* postgres_directory_test.c -- what the directory makes of the answers of a server. */
#include "broker/journal/directory.h"

#include "broker/journal/postgres_store.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS = 8 };

/* A server that greets as it must, and then gives this answer to each question. */
struct server {
    struct door door;
    enum door_verdict verdict;
    const char *state;
    const char *fields[FIELDS]; /* of one row; the first NULL: there is no row */
    const char *check;          /* NULL: the settings of the greeting */
    unsigned connects;
    bool is_away;
    bool waits_for_nobody; /* standbys do not confirm what was asked last */
    bool is_confirmed;     /* they do, even if nothing is changed */
};

static struct server server;
static struct directory *directory;
static const char *const greeting[FIELDS] = {"150005", "false", "on", "on", "", "0", "0", "on on "};

static bool server_connect(struct door *door, const char *conninfo, char *why)
{
    (void)door;
    cr_expect_str_eq(conninfo, "host=a");
    server.connects++;
    snprintf(why, DOOR_WHY_BYTES, "nobody is there");
    return !server.is_away;
}

static void server_run(struct door *door, const struct door_statement *statements, size_t count,
                       struct door_answer *out)
{
    (void)door;
    bool is_greeting = strstr(statements[0].sql, "client_min_messages") != NULL;
    cr_assert_gt(count, 0);
    server.is_confirmed = strcmp(statements[0].sql, STORE_CONFIRM) == 0;
    server.waits_for_nobody = strstr(statements[0].sql, "'local', true") != NULL;
    *out = (struct door_answer){.verdict = is_greeting ? DOOR_DONE : server.verdict};
    snprintf(out->why, sizeof out->why, "as the test wants");
    snprintf(out->state, sizeof out->state, "%s", server.state != NULL ? server.state : "");
    snprintf(out->check, sizeof out->check, "%s",
             server.check != NULL ? server.check : greeting[7]);
    out->rows = is_greeting ? (void *)(uintptr_t)greeting : server.fields;
}

static size_t server_rows(const struct door_answer *answer)
{
    return ((const char *const *)answer->rows)[0] != NULL;
}

static struct span server_field(const struct door_answer *answer, size_t row, unsigned column)
{
    cr_assert_eq(row, 0);
    return span_text(((const char *const *)answer->rows)[column]);
}

static void server_clear(struct door_answer *answer)
{
    answer->rows = NULL;
}

static void server_ignore(struct door *door)
{
    (void)door;
}

static void init(void)
{
    static const struct door_ops ops = {.connect = server_connect,
                                        .disconnect = server_ignore,
                                        .run = server_run,
                                        .rows = server_rows,
                                        .field = server_field,
                                        .clear = server_clear,
                                        .rest = server_ignore,
                                        .close = server_ignore};
    static const struct disk_shard shard = {.number = 4};
    static const struct directory_asker asker = {3, "a 1 x"};
    server = (struct server){.door = {.ops = &ops}};
    struct door *door = &server.door;
    directory = directory_open_door(&door, "host=a", &shard, &asker);
    cr_assert_not_null(directory);
}

static void fini(void)
{
    directory_close(&directory);
}

TestSuite(postgres_directory, .init = init, .fini = fini);

Test(postgres_directory, says_where_a_job_is)
{
    struct directory_place place;
    server.fields[0] = "7";
    server.fields[1] = "tcp://b:1";
    cr_assert_eq(directory_assign(directory, "train", &place), 0);
    cr_expect_eq(place.shard, 7);
    cr_expect_str_eq(place.endpoint, "tcp://b:1");
    server.fields[1] = NULL; /* its broker has not started yet */
    cr_assert_eq(directory_assign(directory, "train", &place), 0);
    cr_expect_str_eq(place.endpoint, "");
    server.fields[0] = NULL; /* it left just now */
    cr_expect_eq(directory_assign(directory, "train", &place), -EAGAIN);
    cr_expect_eq(server.connects, 1);
}

Test(postgres_directory, finds_that_another_broker_has_the_shard)
{
    struct directory_begun begun;
    server.fields[0] = "3";
    server.fields[1] = "2";
    server.fields[2] = "x, y";
    server.fields[3] = "z";
    server.fields[4] = "a 1 x";
    cr_assert_eq(directory_begin(directory, "tcp://a:1", "x/y/z", &begun), 0);
    cr_expect_eq(begun.others, 2);
    cr_expect_str_eq(begun.names, "x, y");
    cr_expect_str_eq(begun.ours, "z");
    free(begun.ours);
    server.fields[4] = "b 2 y"; /* a server that lacks the epoch gave it again */
    cr_expect_eq(directory_begin(directory, "tcp://a:1", "", &begun), -DISK_FENCED);
    server.fields[4] = "a 1 x";
    server.fields[0] = "4";
    cr_expect_eq(directory_begin(directory, "tcp://a:1", "", &begun), -DISK_FENCED);
}

/* A primary that was replaced, and does not know that yet.  Another server has our epoch. */
Test(postgres_directory, passes_over_a_server_that_lacks_its_epoch)
{
    struct directory_begun begun;
    static const char *const older[][2] = {{"2", "z 9 z"}, {"2", "a 1 x"}, {"0", NULL}};
    for (unsigned i = 0; i < sizeof older / sizeof older[0]; i++) {
        server.fields[0] = older[i][0];
        server.fields[4] = older[i][1];
        cr_expect_eq(directory_begin(directory, "tcp://a:1", "", &begun), -EAGAIN, "%u", i);
        cr_expect(server.is_confirmed);
        cr_expect_eq(server.connects, i + 1);
        cr_expect_eq(server.door.turn, i + 1);
        cr_expect_not_null(strstr(directory_why(directory), "lacks the epoch"), "%s",
                           directory_why(directory));
    }
    server.fields[0] = "3";
    server.fields[4] = "a 1 x";
    cr_expect_eq(directory_begin(directory, "tcp://a:1", "", &begun), 0);
    free(begun.ours);
}

/* A commit in doubt is made again by another connection. */
Test(postgres_directory, asks_again_what_is_in_doubt)
{
    struct directory_place place;
    server.fields[0] = "4";
    server.verdict = DOOR_DOUBT;
    cr_expect_eq(directory_assign(directory, "train", &place), -EAGAIN);
    cr_expect_str_eq(directory_why(directory), "as the test wants");
    server.is_away = true;
    cr_expect_eq(directory_assign(directory, "train", &place), -EAGAIN);
    cr_expect_not_null(strstr(directory_why(directory), "nobody is there"));
    server.is_away = false;
    server.verdict = DOOR_DONE;
    cr_expect_eq(directory_assign(directory, "train", &place), 0);
    cr_expect_eq(server.connects, 3);
}

/* A quorum that was set aside confirms nothing: the assignment may be gone with its node. */
Test(postgres_directory, looks_again_when_settings_change)
{
    struct directory_place place;
    server.fields[0] = "4";
    cr_assert_eq(directory_assign(directory, "train", &place), 0);
    server.check = "on on ANY 1 (a)";
    cr_expect_eq(directory_assign(directory, "train", &place), -EAGAIN);
    cr_expect_not_null(strstr(directory_why(directory), "settings were changed"), "%s",
                       directory_why(directory));
    cr_expect_eq(directory_leave(directory, "train"), -EAGAIN);
    server.check = NULL;
    cr_expect_eq(directory_assign(directory, "train", &place), 0);
    cr_expect_eq(server.connects, 3);
}

Test(postgres_directory, keeps_its_connection_when_it_is_refused)
{
    server.verdict = DOOR_REFUSED;
    server.state = "40001";
    cr_expect_eq(directory_leave(directory, "train"), -EAGAIN);
    server.verdict = DOOR_DONE;
    cr_expect_eq(directory_leave(directory, "train"), 0);
    cr_expect_eq(server.connects, 1);
}

/* The row of the shard is locked meanwhile, so the journal's commits would wait as long. */
Test(postgres_directory, waits_for_no_standby_when_a_job_leaves)
{
    struct directory_place place;
    cr_assert_eq(directory_leave(directory, "train"), 0);
    cr_expect(server.waits_for_nobody);
    server.fields[0] = "4";
    cr_assert_eq(directory_assign(directory, "train", &place), 0);
    cr_expect_not(server.waits_for_nobody);
}

/* A job that is nowhere would be here. */
Test(postgres_directory, looks_without_assigning)
{
    struct directory_place place;
    server.fields[0] = "7";
    server.fields[1] = "tcp://b:1";
    cr_assert_eq(directory_look(directory, "train", &place), 0);
    cr_expect_eq(place.shard, 7);
    cr_expect_str_eq(place.endpoint, "tcp://b:1");
    server.fields[0] = NULL;
    cr_assert_eq(directory_look(directory, "train", &place), 0);
    cr_expect_eq(place.shard, 4);
    cr_expect_str_eq(place.endpoint, "");
}

/* What passes is asked again; what somebody has to mend is not. */
Test(postgres_directory, tells_what_passes_from_what_is_to_be_mended)
{
    static const struct {
        const char *state;
        int result;
        const char *remedy;
    } cases[] = {{"25006", -EAGAIN, NULL},   {"40P01", -EAGAIN, NULL}, {"53100", -EAGAIN, NULL},
                 {"55P03", -EAGAIN, NULL},   {"57014", -EAGAIN, NULL}, {"42501", -EACCES, "GRANT"},
                 {"42P01", -EACCES, "gone"}, {"42703", -EACCES, NULL}};
    struct directory_place place;
    server.verdict = DOOR_REFUSED;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        server.state = cases[i].state;
        cr_expect_eq(directory_assign(directory, "train", &place), cases[i].result, "%s",
                     cases[i].state);
        if (cases[i].remedy != NULL)
            cr_expect_not_null(strstr(directory_why(directory), cases[i].remedy), "%s",
                               directory_why(directory));
    }
    cr_expect_eq(server.connects, 1, "its connection is good");
}

Test(postgres_directory, lists_as_many_as_there_is_room_for)
{
    struct directory_place places[1] = {{.shard = 9}};
    size_t count = 9;
    server.fields[0] = "5";
    server.fields[1] = "tcp://e:1";
    cr_assert_eq(directory_list(directory, places, 1, &count), 0);
    cr_expect_eq(count, 1);
    cr_expect_eq(places[0].shard, 5);
    cr_assert_eq(directory_list(directory, places, 0, &count), 0);
    cr_expect_eq(count, 0);
}

Test(postgres_directory, ends_when_it_is_given_up)
{
    struct directory_place place;
    directory_give_up(directory);
    cr_expect_eq(directory_assign(directory, "train", &place), -ECANCELED);
    cr_expect_eq(server.connects, 0);
}
