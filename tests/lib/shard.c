/* SPDX-License-Identifier: MPL-2.0 */
/* shard.c -- the brokers of one shard; see shard.h. */
#include "tests/lib/shard.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

void shard_init(struct shard *shard, const struct postgres *postgres, const char *replicas)
{
    *shard = (struct shard){.postgres = postgres, .replicas = replicas};
    for (int place = 0; place < SHARD_PLACES; place++)
        snprintf(shard->endpoints[place], sizeof shard->endpoints[place], "ipc://%s/control%d",
                 postgres->folder.path, place);
    snprintf(shard->everywhere, sizeof shard->everywhere, "%s,%s", shard->endpoints[0],
             shard->endpoints[1]);
}

void shard_fini(struct shard *shard)
{
    for (int place = 0; place < SHARD_PLACES; place++)
        process_fini(&shard->brokers[place]);
}

void shard_open(struct shard *shard, struct postgres *postgres)
{
    if (postgres_is_installed())
        cr_assert(postgres_start(postgres, 0), "%s", postgres->why);
    shard_init(shard, postgres, "0");
}

void shard_close(struct shard *shard, struct postgres *postgres)
{
    shard_fini(shard);
    postgres_fini(postgres);
}

void shard_skip_without_server(const struct shard *shard)
{
    if (shard->postgres->count == 0)
        cr_skip_test(POSTGRES_MISSING);
}

void shard_start(struct shard *shard, int place)
{
    const char *folder = shard->postgres->folder.path;
    char data[POSTGRES_PATH_BYTES + 16], cache[POSTGRES_PATH_BYTES];
    char journal[POSTGRES_CONNINFO_BYTES + 16];
    snprintf(data, sizeof data, "ipc://%s/data%d", folder, place);
    snprintf(cache, sizeof cache, "%s/cache%d", folder, place);
    const char *store = shard->stores[place];
    const char *advertised = shard->advertised[place];
    snprintf(journal, sizeof journal, "postgres:%s",
             store != NULL ? store : shard->postgres->conninfo);
    const char *const argv[] = {shard->program != NULL ? shard->program : "errbusd",
                                "--control",
                                shard->endpoints[place],
                                "--data",
                                data,
                                "--cache",
                                cache,
                                "--journal",
                                journal,
                                "--replicas",
                                shard->replicas,
                                advertised != NULL ? "--advertise" : NULL,
                                advertised,
                                NULL};
    process_fini(&shard->brokers[place]);
    cr_assert(process_start(&shard->brokers[place], argv, shard->environment));
}

void shard_must_serve(struct shard *shard, int place)
{
    const char *line = NULL;
    cr_assert(process_line(&shard->brokers[place], SOON_MS, &line), "%s",
              process_complained(&shard->brokers[place]));
}

void shard_must_say(struct shard *shard, int place, const char *text)
{
    const char *line = NULL;
    do
        cr_assert(process_complaint(&shard->brokers[place], SOON_MS, &line),
                  "'%s' was not said, but: %s", text, process_complained(&shard->brokers[place]));
    while (strstr(line, text) == NULL);
}

void shard_start_spare(struct shard *shard, int place)
{
    shard_start(shard, place);
    shard_must_say(shard, place, "another broker has the shard");
}

void shard_kill(struct shard *shard, int place)
{
    process_signal(&shard->brokers[place], SIGKILL);
    cr_assert_eq(process_wait(&shard->brokers[place], SOON_MS), 128 + SIGKILL);
}

static void must_end(struct shard *shard, int place, int status, const char *text)
{
    cr_expect_eq(process_wait(&shard->brokers[place], SOON_MS), status);
    cr_expect_not_null(strstr(process_complained(&shard->brokers[place]), text), "%s",
                       process_complained(&shard->brokers[place]));
}

void shard_must_end(struct shard *shard, int place, const char *text)
{
    must_end(shard, place, 1, text);
}

void shard_must_end_by_forgetting(struct shard *shard, int place, const char *text)
{
    must_end(shard, place, 3, text);
}

struct bus *shard_begin(struct shard *shard)
{
    struct bus_options options = patient_options("alice");
    shard_start(shard, 0);
    shard_must_serve(shard, 0);
    struct bus *alice = must_open_at(shard->everywhere, &options);
    shard_publish(alice, 0);
    return alice;
}

void shard_publish(struct bus *alice, int from)
{
    for (int i = from; i < from + SHARD_VALUES; i++)
        must_publish(alice, "w", "%d", i);
    must_flush(alice);
}

void shard_must_have(struct shard *shard, int until)
{
    struct bus_options options = patient_options("bob");
    struct bus *bob = must_open_at(shard->everywhere, &options);
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    for (int i = 0; i < until; i++)
        expect_value(sub, "alice/w", (uint64_t)i, "%d", i);
    expect_nothing(bob, sub);
    bus_sub_close(&sub);
    must_close(&bob);
}
