/* SPDX-License-Identifier: MPL-2.0 */
/* like_errors_test.c -- parties that fail slot after slot: whoever reads them has each of their
 * errors, who watches is told of them all and is not flooded, and who looks back finds each.
 * TEST_LARGE=1: 1,000,000 of them. */
#include "tests/lib/expect.h"
#include "tests/lib/process.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(like_errors, .init = stage_open, .fini = stage_close, .timeout = 590);

enum { AT_A_TIME = 1000, READERS = 2, KEPT_EVERY = 1000, ID_ROOM = 64 };

static uint64_t all;

/* ---- who reads ------------------------------------------------------------------------------- */

struct reader {
    struct bus *bus;
    struct bus_sub *sub;
    pthread_t thread;
    uint64_t in_place;     /* errors that stood where they were due, each its own */
    char (*ids)[ID_ROOM];  /* of each thousandth slot's error */
    char last_id[ID_ROOM]; /* no two in a row are the same */
    const char *party;
};

/* The message of each is the number of its slot: errors that differ in that alone are alike. */
static bool is_of_slot(const struct reader *reader, const struct bus_error *error, uint64_t seq)
{
    return strtoull(bus_error_message(error), NULL, 10) == seq &&
           strcmp(bus_error_party(error), reader->party) == 0 &&
           strcmp(bus_error_type(error), "app.disk_full") == 0 &&
           strcmp(bus_error_id(error), reader->last_id) != 0;
}

static void *read_all(void *arg)
{
    struct reader *reader = arg;
    bool is_fine = true;
    while (is_fine && reader->in_place < all) {
        struct bus_msg *msg = NULL;
        struct bus_error *error = NULL;
        uint64_t seq = UINT64_MAX;
        enum bus_err err = bus_sub_recv(reader->sub, SOON_MS, &msg, &error);
        (void)bus_sub_slot(reader->sub, &seq);
        is_fine = err == BUS_EFAILED && seq == reader->in_place && is_of_slot(reader, error, seq);
        if (is_fine) {
            snprintf(reader->last_id, ID_ROOM, "%s", bus_error_id(error));
            if (seq % KEPT_EVERY == 0)
                memcpy(reader->ids[seq / KEPT_EVERY], reader->last_id, ID_ROOM);
            reader->in_place += 1;
        }
        bus_error_unref(&error);
        bus_msg_free(&msg);
    }
    return NULL;
}

static void reader_begin(struct reader *reader, const char *name, const char *party)
{
    char topic[64];
    snprintf(topic, sizeof topic, "%s/grads", party);
    *reader = (struct reader){.bus = must_open(name), .party = party};
    reader->sub = must_subscribe(reader->bus, topic);
    reader->ids = calloc(all / KEPT_EVERY + 1, sizeof *reader->ids);
    cr_assert_not_null(reader->ids);
    cr_assert_eq(pthread_create(&reader->thread, NULL, read_all, reader), 0);
}

static void reader_end(struct reader *reader)
{
    free(reader->ids);
    bus_sub_close(&reader->sub);
    must_close(&reader->bus);
}

/* ---- who fails ------------------------------------------------------------------------------- */

static void fail_slots(struct bus *bus, uint64_t from_seq, uint64_t count)
{
    struct bus_slot *slots[AT_A_TIME];
    char number[24];
    cr_assert_leq(count, AT_A_TIME);
    for (uint64_t i = 0; i < count; i++)
        slots[i] = must_reserve(bus, "grads");
    for (uint64_t i = 0; i < count; i++) {
        snprintf(number, sizeof number, "%llu", (unsigned long long)(from_seq + i));
        fail_slot(&slots[i], "app.disk_full", number);
    }
    must_flush(bus);
}

/* ---- who watches ----------------------------------------------------------------------------- */

struct told {
    uint64_t slots;
    uint32_t events;
    uint32_t storms; /* ... that stand for several errors */
    char first[ID_ROOM];
    char last[ID_ROOM]; /* of the first such */
};

/* Adds what the next events tell, up to so many farewells. */
static void listen(struct bus_tap *tap, uint32_t farewells, struct told *told)
{
    while (farewells > 0) {
        const struct bus_event *event = NULL;
        struct bus_error *error = NULL;
        expect_code_of(bus_tap_next(tap, SOON_MS, &event, &error), BUS_OK, &error);
        farewells -= strcmp(bus_event_name(event), "party.left") == 0;
        if (strcmp(bus_event_name(event), "slot.failed") != 0)
            continue;
        bool is_storm = *bus_event_first_error(event) != '\0';
        told->events += 1;
        told->slots += bus_event_count(event);
        told->storms += is_storm;
        cr_expect_str_eq(bus_error_type(bus_event_error(event)), "app.disk_full");
        if (!is_storm)
            continue;
        cr_expect_str_eq(bus_event_last_error(event), bus_error_id(bus_event_error(event)));
        if (told->storms > 1)
            continue;
        snprintf(told->first, ID_ROOM, "%s", bus_event_first_error(event));
        snprintf(told->last, ID_ROOM, "%s", bus_event_last_error(event));
    }
}

/* The program that people watch with: how many slots its lines tell of. */
static uint64_t count_in_lines(struct process *tap, uint32_t *out_lines)
{
    uint64_t slots = 0;
    const char *line = NULL;
    bool is_alike = false;
    *out_lines = 0;
    while (process_line(tap, SOON_MS, &line) && strstr(line, "party.left") == NULL) {
        const char *count = strstr(line, " (");
        if (strstr(line, "slot.failed") == NULL)
            continue;
        cr_assert_not_null(count, "%s", line);
        slots += strtoull(count + 2, NULL, 10);
        *out_lines += 1;
        if (strstr(line, " alike, default/alice/1/") != NULL && !is_alike) {
            is_alike = true;
            cr_expect_not_null(strstr(line, " alice/1 alice/grads "), "%s", line);
            cr_expect_not_null(strstr(line, " to default/alice/1/"), "%s", line);
            cr_expect_not_null(strstr(line, "): application: app.disk_full: "), "%s", line);
        }
    }
    cr_expect(is_alike, "no line says how many were alike");
    return slots;
}

/* ---- who looks back -------------------------------------------------------------------------- */

static void expect_show(const char *id, int code, const char *text)
{
    const char *const argv[] = {"errbus", "errors", "show", id, "-s", stage.control, NULL};
    struct process show;
    cr_assert(process_start(&show, argv, NULL));
    cr_expect_eq(process_wait(&show, SOON_MS), code, "%s", process_complained(&show));
    const char *said = code == 0 ? process_said(&show) : process_complained(&show);
    cr_expect_not_null(strstr(said, text), "%s: %s", id, said);
    process_fini(&show);
}

static void expect_found(const struct told *told, const struct reader *reader)
{
    char text[200];
    snprintf(text, sizeof text, " alike, %s to %s)", told->first, told->last);
    expect_show(told->last, 0, text);
    expect_show(told->last, 0, "type          app.disk_full\n");
    snprintf(text, sizeof text, " from %s to %s, the one that is kept\n", told->first, told->last);
    expect_show(told->first, 1, text);
    expect_show(reader->ids[0], 0, "type          app.disk_full\n"); /* told by itself */
    for (uint64_t i = 1; i < all / KEPT_EVERY; i += all / KEPT_EVERY / 5)
        expect_show(reader->ids[i], 1, "was told with others that are alike, by event ");
    expect_show("default/alice/1/999999999", 1, "no error 'default/alice/1/999999999'");
}

/* ---- tests ----------------------------------------------------------------------------------- */

Test(like_errors, flood_no_tap_and_lose_no_settlement)
{
    static const char *const names[READERS] = {"bob", "carol"};
    struct reader readers[READERS];
    struct process watching;
    struct told told = {0};
    uint32_t lines = 0;
    const char *line = NULL;
    all = is_asked("TEST_LARGE") ? 1000000 : 100000;
    const char *const argv[] = {"errbus", "tap", "--text",      "--since",
                                "oldest", "-s",  stage.control, NULL};
    struct bus *alice = must_open("alice");
    struct bus_tap *tap = must_tap("default", BUS_TAP_NOW);
    cr_assert(process_start(&watching, argv, NULL));
    for (int i = 0; i < READERS; i++)
        reader_begin(&readers[i], names[i], "alice");
    struct bus *late = must_open("late");
    do {
        cr_assert(process_line(&watching, SOON_MS, &line));
    } while (strstr(line, " late/1") == NULL);
    for (uint64_t done = 0; done < all; done += AT_A_TIME)
        fail_slots(alice, done, AT_A_TIME);
    for (int i = 0; i < READERS; i++) {
        cr_assert_eq(pthread_join(readers[i].thread, NULL), 0);
        cr_expect_eq(readers[i].in_place, all, "%s", names[i]);
    }
    must_close(&alice);
    listen(tap, 1, &told);
    cr_expect_eq(told.slots, all);
    cr_expect_gt(told.storms, 0);
    cr_expect_lt(told.events, all / 100);
    cr_expect_eq(count_in_lines(&watching, &lines), all);
    cr_expect_eq(lines, told.events);
    process_signal(&watching, SIGTERM);
    cr_expect_eq(process_wait(&watching, SOON_MS), 128 + SIGTERM);
    process_fini(&watching);
    expect_found(&told, &readers[0]);
    for (int i = 0; i < READERS; i++)
        reader_end(&readers[i]);
    must_close(&late);
    bus_tap_close(&tap);
}

/* More parties than are told apart: what is told is bounded, and nothing is left out of the counts;
 * who reads one of them has its errors and no others. */
Test(like_errors, of_many_parties_are_bounded_together)
{
    enum { PARTIES = 100, EACH = 200, TOLD = 64 }; /* LIMIT_STORM_TOLD */
    struct bus *parties[PARTIES];
    struct reader reader;
    struct told told = {0};
    char name[16];
    all = EACH;
    struct bus_tap *tap = must_tap("default", BUS_TAP_NOW);
    for (int i = 0; i < PARTIES; i++) {
        snprintf(name, sizeof name, "p%d", i);
        parties[i] = must_open(name);
    }
    for (int i = 0; i < PARTIES; i += 2) {
        if (i == PARTIES - 2)
            reader_begin(&reader, "reader", "p99"); /* it has no place of its own */
        fail_slots(parties[i], 0, EACH);
        fail_slots(parties[i + 1], 0, EACH);
        /* Behind all events of these slots.  So the tap never has more to read than its window. */
        struct bus *marker = must_open("marker");
        must_close(&marker);
        listen(tap, 1, &told);
    }
    cr_assert_eq(pthread_join(reader.thread, NULL), 0);
    cr_expect_eq(reader.in_place, EACH);
    for (int i = 0; i < PARTIES; i++)
        must_close(&parties[i]);
    listen(tap, PARTIES, &told);
    cr_expect_eq(told.slots, PARTIES * EACH);
    cr_expect_leq(told.events, PARTIES * TOLD + TOLD + told.storms);
    cr_expect_gt(told.storms, 0);
    reader_end(&reader);
    bus_tap_close(&tap);
}
