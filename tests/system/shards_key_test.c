/* SPDX-License-Identifier: MPL-2.0 */
/* shards_key_test.c -- shards over TCP whose brokers have one key: whoever is led to another broker
 * expects that key there. */
#include "tests/lib/expect.h"
#include "tests/lib/postgres.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARDS = 2, TEXT_BYTES = 1024, PATH_BYTES = POSTGRES_PATH_BYTES + 16 };
enum { ALICE, BOB, EVE, PEOPLE };
static const char *const names[PEOPLE] = {"alice", "bob", "eve"};

static struct postgres postgres;
static struct folder folder;
static struct broker brokers[SHARDS];
static char key_paths[PEOPLE][PATH_BYTES];
static char keys[PEOPLE][BUS_KEY_TEXT_BYTES];

/* All brokers have this access file and this key; eve has no line. */
static void start_brokers(void)
{
    char text[TEXT_BYTES], access_path[FOLDER_PATH_BYTES_MAX], key[PATH_BYTES];
    char journal[POSTGRES_CONNINFO_BYTES + 16], cache[PATH_BYTES], number[16];
    snprintf(text, sizeof text,
             "key alice %s\nkey bob %s\n"
             "group all alice bob\n"
             "allow all party status in default\n",
             keys[ALICE], keys[BOB]);
    cr_assert(folder_write(&folder, "access", text, access_path));
    snprintf(key, sizeof key, "%s/broker.key", folder.path);
    snprintf(journal, sizeof journal, "postgres:%s", postgres.conninfo);
    for (int shard = 0; shard < SHARDS; shard++) {
        snprintf(cache, sizeof cache, "%s/cache%d", folder.path, shard);
        snprintf(number, sizeof number, "%d", shard);
        cr_assert(broker_start(&brokers[shard],
                               (const char *const[]){"--journal", journal, "--cache", cache,
                                                     "--shard", number, "--replicas", "0",
                                                     "--access", access_path, "--key", key, NULL}),
                  "%s", process_complained(&brokers[shard].process));
    }
}

static void init(void)
{
    if (!postgres_is_installed())
        return;
    unsetenv("ERRBUS_KEY");
    cr_assert(postgres_start(&postgres, 0), "%s", postgres.why);
    cr_assert(folder_make(&folder));
    for (int i = 0; i < PEOPLE; i++) {
        snprintf(key_paths[i], sizeof key_paths[i], "%s/%s.key", folder.path, names[i]);
        expect_code(bus_key_new(key_paths[i], keys[i], NULL), BUS_OK);
    }
    start_brokers();
}

static void fini(void)
{
    if (postgres.count == 0)
        return;
    for (int shard = 0; shard < SHARDS; shard++)
        broker_fini(&brokers[shard]);
    postgres_fini(&postgres);
    folder_fini(&folder);
}

TestSuite(shards_key, .init = init, .fini = fini, .timeout = 300);

static void skip_without_server(void)
{
    if (postgres.count == 0)
        cr_skip_test(POSTGRES_MISSING);
}

static enum bus_err open_as(int who, int shard, struct bus **out_bus)
{
    struct bus_options options = patient_options(names[who]);
    options.key = key_paths[who];
    return bus_open(brokers[shard].control, &options, SOON_MS, out_bus, NULL);
}

Test(shards_key, lead_clients_to_a_broker_of_the_same_key)
{
    skip_without_server();
    struct bus *alice = NULL, *bob = NULL;
    char row[64] = "";
    cr_assert(strncmp(brokers[0].control, "tcp://ebp_", 10) == 0, "%s", brokers[0].control);
    expect_code(open_as(ALICE, 0, &alice), BUS_OK);
    must_publish(alice, "w", "value");
    must_flush(alice);
    expect_code(open_as(BOB, 1, &bob), BUS_OK);
    expect_awaited(bob, "alice/w", 0, "value");
    cr_assert(postgres_query(&postgres, 0, "SELECT shard FROM errbus_job", row, sizeof row));
    cr_expect_str_eq(row, "0");
    must_close(&bob);
    must_close(&alice);
}

/* No key, no question to the directory. */
Test(shards_key, lead_no_stranger)
{
    skip_without_server();
    struct bus *eve = NULL;
    char row[64] = "";
    expect_code(open_as(EVE, 1, &eve), BUS_EDENIED);
    cr_assert(postgres_query(&postgres, 0, "SELECT count(*) FROM errbus_job", row, sizeof row));
    cr_expect_str_eq(row, "0");
}

/* What the broker tells of the others can be used as it is. */
Test(shards_key, tell_the_key_with_the_endpoints)
{
    skip_without_server();
    struct bus_admin_options options;
    struct bus_admin *admin = NULL;
    struct bus_shards *shards = NULL;
    struct bus *alice = NULL;
    bus_admin_options_init(&options);
    options.key = key_paths[BOB];
    expect_code(bus_admin_open(brokers[1].control, &options, SOON_MS, &admin, NULL), BUS_OK);
    expect_code(bus_shards_get(admin, SOON_MS, &shards, NULL), BUS_OK);
    cr_assert_eq(bus_shards_count(shards), SHARDS);
    for (size_t i = 0; i < SHARDS; i++)
        cr_expect_str_eq(bus_shards_at(shards, i)->endpoint, brokers[i].control);
    bus_shards_free(&shards);
    bus_admin_close(&admin);
    expect_code(open_as(ALICE, 0, &alice), BUS_OK);
    must_close(&alice);
}
