/* SPDX-License-Identifier: MPL-2.0 */
/* takeover_test.c -- two places for a broker, and one journal on a volume that each of them may
 * lose (tests/lib/disk/disk_volume.h).  The volume is taken away under load: the broker ends, the
 * other place has the next one, which knows what was synced.  Clients know both places.
 *
 *   ERRBUS_TAKEOVERS=N   so many takeovers instead of four */
#include "tests/lib/expect.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    TAKEOVERS = 4,
    PLACES = 2,
    BATCH = 20,
    PROGRESS = 3 * BATCH, /* values accepted between two takeovers */
    VALUE_BYTES = 4096,
    ENDS_MS = 2000, /* on a quiet machine */
    ENDS_FACTOR = 10,
    PATH_BYTES = FOLDER_PATH_BYTES_MAX + 32,
};

static struct folder folder;
static struct process brokers[PLACES];
static char servers[2 * PATH_BYTES]; /* both places, for clients */
static char gone[PATH_BYTES];        /* the file that takes the volume away */

static void init(void)
{
    cr_assert(folder_make(&folder));
    snprintf(servers, sizeof servers, "ipc://%s/control0,ipc://%s/control1", folder.path,
             folder.path);
    snprintf(gone, sizeof gone, "%s/journal.gone", folder.path);
}

static void fini(void)
{
    for (int place = 0; place < PLACES; place++)
        process_fini(&brokers[place]);
    folder_fini(&folder);
}

TestSuite(takeover, .init = init, .fini = fini, .timeout = 600);

/* ---- brokers --------------------------------------------------------------------------------- */

static void start_broker(int place)
{
    char control[PATH_BYTES], data[PATH_BYTES], journal[PATH_BYTES];
    const char *line = NULL;
    snprintf(control, sizeof control, "ipc://%s/control%d", folder.path, place);
    snprintf(data, sizeof data, "ipc://%s/data%d", folder.path, place);
    snprintf(journal, sizeof journal, "volume:%s/journal", folder.path);
    const char *const argv[] = {"errbusd_failpoints", "--control", control,        "--data", data,
                                "--journal",          journal,     "--durability", "shared", NULL};
    process_fini(&brokers[place]);
    cr_assert(process_start(&brokers[place], argv, NULL));
    cr_assert(process_line(&brokers[place], SOON_MS, &line), "%s",
              process_complained(&brokers[place]));
}

/* The volume refuses everything to the broker there; how long it takes that broker to end. */
static int64_t lose_volume(int place)
{
    FILE *file = fopen(gone, "w");
    cr_assert_not_null(file);
    fclose(file);
    int64_t from_ms = test_now_ms();
    int code = process_wait(&brokers[place], SOON_MS);
    int64_t took_ms = test_now_ms() - from_ms;
    const char *said = process_complained(&brokers[place]);
    cr_assert_eq(code, 1, "it ended with %d: %s", code, said);
    cr_expect_not_null(strstr(said, "the journal cannot be written any more: "), "%s", said);
    cr_expect_not_null(strstr(said, "Input/output error"), "%s", said);
    cr_assert_eq(unlink(gone), 0);
    return took_ms;
}

/* ---- parties --------------------------------------------------------------------------------- */

/* What the threads of the parties do, until all is done. */
struct load {
    struct bus *alice;
    struct bus_sub *sub;
    atomic_ulong accepted; /* values that alice was told are kept */
    atomic_bool is_enough;
    atomic_bool is_wrong;
    char complaint[200]; /* once is_wrong */
};

static bool check(struct load *load, bool is_fine, const char *what, unsigned long number)
{
    if (is_fine || atomic_load(&load->is_wrong))
        return is_fine;
    snprintf(load->complaint, sizeof load->complaint, "%s at %lu", what, number);
    atomic_store(&load->is_wrong, true);
    return false;
}

/* Each seventh slot is an error. */
static bool is_error(unsigned long number)
{
    return number % 7 == 3;
}

static void fill(char *value, unsigned long number)
{
    memset(value, 'a' + (int)(number % 26), VALUE_BYTES);
    snprintf(value, VALUE_BYTES, "%lu", number);
}

static bool write_one(struct bus *alice, unsigned long number)
{
    char value[VALUE_BYTES];
    struct bus_slot *slot = NULL;
    fill(value, number);
    if (!is_error(number))
        return bus_publish(alice, "w", value, sizeof value) == BUS_OK;
    if (bus_slot_reserve(alice, "w", BUS_FOREVER, &slot) != BUS_OK)
        return false;
    struct bus_error *error = bus_error_new("test.failed", NULL, "%lu", number);
    bus_slot_fail(&slot, error);
    bus_error_unref(&error);
    return true;
}

static void *write_all(void *arg)
{
    struct load *load = arg;
    unsigned long number = 0;
    while (!atomic_load(&load->is_enough) && !atomic_load(&load->is_wrong)) {
        for (int i = 0; i < BATCH; i++, number++)
            check(load, write_one(load->alice, number), "a value was refused", number);
        if (check(load, bus_flush(load->alice, SOON_MS) == BUS_OK, "no flush", number))
            atomic_store(&load->accepted, number);
    }
    check(load, bus_publish(load->alice, "w", "end", 3) == BUS_OK, "no end", number);
    return NULL;
}

static bool is_right(unsigned long number, enum bus_err err, struct bus_msg *msg,
                     struct bus_error *error)
{
    char value[VALUE_BYTES], text[24];
    size_t bytes = 0;
    if (is_error(number)) {
        snprintf(text, sizeof text, "%lu", number);
        return err == BUS_EFAILED && strcmp(bus_error_message(error), text) == 0;
    }
    fill(value, number);
    const void *got = err == BUS_OK ? bus_msg_value(msg, &bytes) : NULL;
    return got != NULL && bytes == sizeof value && memcmp(got, value, bytes) == 0;
}

/* The value behind all others. */
static bool is_end(struct bus_msg *msg)
{
    size_t bytes = 0;
    const void *value = msg != NULL ? bus_msg_value(msg, &bytes) : NULL;
    return bytes == 3 && memcmp(value, "end", bytes) == 0;
}

/* Until the end: each once and in its place. */
static void *read_all(void *arg)
{
    struct load *load = arg;
    bool is_over = false;
    for (unsigned long number = 0; !is_over && !atomic_load(&load->is_wrong); number++) {
        struct bus_msg *msg = NULL;
        struct bus_error *error = NULL;
        uint64_t seq = UINT64_MAX;
        enum bus_err err = bus_sub_recv(load->sub, SOON_MS, &msg, &error);
        (void)bus_sub_slot(load->sub, &seq); /* stays as it is where nothing came */
        check(load, seq == number, "another slot", number);
        is_over = is_end(msg);
        if (is_over)
            check(load, number == atomic_load(&load->accepted), "the end", number);
        else
            check(load, is_right(number, err, msg, error), "not what was written", number);
        bus_msg_free(&msg);
        bus_error_unref(&error);
    }
    return NULL;
}

static void wait_for_progress(struct load *load)
{
    unsigned long until = atomic_load(&load->accepted) + PROGRESS;
    int64_t end_ms = test_now_ms() + SOON_MS;
    while (atomic_load(&load->accepted) < until && !atomic_load(&load->is_wrong)) {
        cr_assert_lt(test_now_ms(), end_ms, "nothing is accepted any more");
        usleep(1000);
    }
    cr_assert_not(atomic_load(&load->is_wrong), "%s", load->complaint);
}

/* ---- takeovers ------------------------------------------------------------------------------- */

static int takeovers(void)
{
    const char *asked = getenv("ERRBUS_TAKEOVERS");
    return asked != NULL ? (int)strtol(asked, NULL, 10) : TAKEOVERS;
}

Test(takeover, loses_nothing_that_was_accepted)
{
    struct load load = {.complaint = ""};
    struct bus_options options = patient_options("alice");
    pthread_t writer, reader;
    int64_t longest_ms = 0;
    start_broker(0);
    load.alice = must_open_at(servers, &options);
    options.party = "bob";
    struct bus *bob = must_open_at(servers, &options);
    load.sub = must_subscribe(bob, "alice/w");
    cr_assert_eq(pthread_create(&writer, NULL, write_all, &load), 0);
    cr_assert_eq(pthread_create(&reader, NULL, read_all, &load), 0);
    for (int i = 0; i < takeovers(); i++) {
        wait_for_progress(&load);
        int64_t took_ms = lose_volume(i % PLACES);
        longest_ms = took_ms > longest_ms ? took_ms : longest_ms;
        cr_expect_leq(took_ms, ENDS_FACTOR * ENDS_MS, "takeover %d", i);
        start_broker((i + 1) % PLACES);
    }
    wait_for_progress(&load);
    atomic_store(&load.is_enough, true);
    pthread_join(writer, NULL);
    pthread_join(reader, NULL);
    cr_assert_not(atomic_load(&load.is_wrong), "%s", load.complaint);
    fprintf(stderr, "takeover: %d volumes were lost; the slowest broker ended after %lld ms\n",
            takeovers(), (long long)longest_ms);
    bus_sub_close(&load.sub);
    must_close(&bob);
    must_close(&load.alice);
}
