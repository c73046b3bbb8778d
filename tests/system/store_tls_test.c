/* SPDX-License-Identifier: MPL-2.0 */
/* store_tls_test.c -- a journal in a PostgreSQL that is reached by TLS.  All that libpq needs for
 * that is in the connection string.  The server has a certificate that vouches for itself. */
#include "tests/lib/shard.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct postgres postgres;
static struct shard shard;
static char conninfo[2 * POSTGRES_CONNINFO_BYTES];

static void init(void)
{
    if (postgres_is_installed())
        cr_assert(postgres_start(&postgres, 0) && postgres_make_certificate(&postgres, "server") &&
                      postgres_make_certificate(&postgres, "other") &&
                      postgres_serve_tls(&postgres, 0),
                  "%s", postgres.why);
    shard_init(&shard, &postgres, "0");
}

static void fini(void)
{
    shard_fini(&shard);
    postgres_fini(&postgres);
}

TestSuite(store_tls, .init = init, .fini = fini, .timeout = 300);

/* The host has the name `host`, and who is trusted is in the file NAME.pem. */
static void name_store(const char *host, const char *name)
{
    if (postgres.count == 0) /* no server was there to be started: ./quickstart test installs it */
        cr_skip_test(POSTGRES_MISSING);
    snprintf(conninfo, sizeof conninfo,
             "host=%s hostaddr=%s user=postgres dbname=postgres sslmode=verify-full"
             " sslrootcert=%s/%s.pem",
             host, postgres.address, postgres.folder.path, name);
    shard.stores[0] = conninfo;
}

/* The journal and the directory have a connection each. */
Test(store_tls, reaches_a_server_that_is_trusted)
{
    char answer[64];
    name_store("localhost", "server");
    struct bus *alice = shard_begin(&shard);
    cr_expect(postgres_query(&postgres, 0,
                             "SELECT count(*) FROM pg_stat_activity JOIN pg_stat_ssl USING (pid)"
                             " WHERE application_name = 'errbusd' AND ssl",
                             answer, sizeof answer));
    cr_expect_str_eq(answer, "2");
    shard_kill(&shard, 0);
    shard_start(&shard, 0);
    shard_must_serve(&shard, 0);
    shard_publish(alice, SHARD_VALUES);
    shard_must_have(&shard, 2 * SHARD_VALUES);
    must_close(&alice);
}

Test(store_tls, refuses_a_server_that_nobody_vouches_for)
{
    name_store("localhost", "other");
    shard_start(&shard, 0);
    shard_must_end(&shard, 0, "SSL error: certificate verify failed");
    cr_expect_not_null(
        strstr(process_complained(&shard.brokers[0]), "cannot connect to the server: "), "%s",
        process_complained(&shard.brokers[0]));
}

Test(store_tls, refuses_a_server_of_another_name)
{
    name_store("store.example", "server");
    shard_start(&shard, 0);
    shard_must_end(&shard, 0,
                   "server certificate for \"localhost\" does not match host name"
                   " \"store.example\"");
}

Test(store_tls, refuses_where_nobody_is_trusted)
{
    name_store("localhost", "nobody");
    shard_start(&shard, 0);
    shard_must_end(&shard, 0, "nobody.pem\" does not exist");
}
