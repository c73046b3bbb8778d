/* SPDX-License-Identifier: MPL-2.0 */
/* greeting_race.c -- the library asks what listens where a handshake fails or does not end, while
 * other threads wake it, send, wait, stop and close.  What was dialled is another service, has
 * another key, or is behind a cable that is cut.  Nobody waits for ever, and a party whose cable is
 * mended goes on. */
#include "tests/lib/folder.h"
#include "tests/lib/race.h"
#include "tests/lib/relay.h"
#include "tests/lib/stranger.h"

#include <bus/access.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
    OPENERS = 9,
    USERS = 3,
    SERVER_BYTES = 512,
    /* Where nothing is said, a probe begins when a connection is a second old, and lasts half of
     * one. */
    PROBED_MS = 1500,
};

/* ---- who does not get in --------------------------------------------------------------------- */

struct opener {
    pthread_t thread;
    char party[16];
    char server[SERVER_BYTES];
    const char *key; /* NULL: that of the environment */
    int64_t timeout_ms;
};

static atomic_uint told; /* doubts */

static void note_doubt(const char *what, void *arg)
{
    (void)arg;
    check(*what != '\0');
    atomic_fetch_add(&told, 1);
}

/* It ends within its time, or because what listens there is no broker. */
static void *open_in_vain(void *arg)
{
    const struct opener *opener = arg;
    struct bus_options options;
    struct bus_error *error = NULL;
    struct bus *bus = NULL;
    race_options(&options, opener->party);
    options.key = opener->key;
    options.on_doubt = note_doubt;
    enum bus_err err = bus_open(opener->server, &options, opener->timeout_ms, &bus, &error);
    check(err == BUS_ETIMEDOUT || err == BUS_EDENIED || err == BUS_ELOST);
    check(bus == NULL && error != NULL);
    bus_error_unref(&error);
    return NULL;
}

/* The endpoint of control with that of the stranger: alone, with a key, or as that of data. */
static void name_server(char server[SERVER_BYTES], const char *control, const char *strange,
                        int form)
{
    const char *at = strchr(control, '@'); /* "tcp://KEY@HOST:PORT" */
    int key_bytes = (int)(at != NULL ? at - control + 1 : 0);
    int bytes;
    check(key_bytes > 0 && strncmp(strange, "tcp://", 6) == 0);
    if (form == 0)
        bytes = snprintf(server, SERVER_BYTES, "%s", strange);
    else if (form == 1)
        bytes = snprintf(server, SERVER_BYTES, "%.*s%s", key_bytes, control, strange + 6);
    else
        bytes = snprintf(server, SERVER_BYTES, "%s,data=%.*s%s", control, key_bytes, control,
                         strange + 6);
    check(bytes > 0 && bytes < SERVER_BYTES);
}

/* Some end before the first probe, some in it, some behind it. */
static void open_all_in_vain(const char *control, const struct stranger *stranger)
{
    static struct opener openers[OPENERS];
    for (int i = 0; i < OPENERS; i++) {
        (void)snprintf(openers[i].party, sizeof openers[i].party, "stray%d", i);
        openers[i].timeout_ms = PROBED_MS * (i + 1) / (OPENERS - 3);
        name_server(openers[i].server, control, stranger->endpoint, i % 3);
        check(pthread_create(&openers[i].thread, NULL, open_in_vain, &openers[i]) == 0);
    }
    for (int i = 0; i < OPENERS; i++)
        check(pthread_join(openers[i].thread, NULL) == 0);
}

/* Whoever waits for one that may be a broker is told what was found; so it was looked for. */
static void meet(const char *control, enum stranger_kind kind)
{
    bool may_be_broker = kind == STRANGER_SILENT || kind == STRANGER_CLOSES;
    struct stranger stranger;
    int tries = 0;
    check(stranger_start(&stranger, kind));
    atomic_store(&told, 0);
    do
        open_all_in_vain(control, &stranger);
    while (may_be_broker && atomic_load(&told) == 0 && ++tries < 10); /* on a busy machine */
    check(tries < 10);
    stranger_stop(&stranger);
}

/* Each of three wrong settings, by several threads at once. */
static void open_all_with_wrong_keys(const char *control, const struct folder *folder)
{
    static struct opener openers[OPENERS];
    char path[FOLDER_PATH_BYTES_MAX + 16];
    char other[BUS_KEY_TEXT_BYTES];
    const char *address = strchr(control, '@');
    check(address != NULL);
    (void)snprintf(path, sizeof path, "%s/unknown", folder->path);
    check_code(bus_key_new(path, other, NULL), BUS_OK);
    for (int i = 0; i < OPENERS; i++) {
        openers[i] = (struct opener){.party = "stray", .timeout_ms = SOON_MS};
        if (i % 3 == 0)
            (void)snprintf(openers[i].server, SERVER_BYTES, "tcp://%s", address + 1);
        else if (i % 3 == 1)
            (void)snprintf(openers[i].server, SERVER_BYTES, "tcp://%s%s", other, address);
        else
            (void)snprintf(openers[i].server, SERVER_BYTES, "%s", control);
        openers[i].key = i % 3 == 2 ? path : NULL;
        check(pthread_create(&openers[i].thread, NULL, open_in_vain, &openers[i]) == 0);
    }
    for (int i = 0; i < OPENERS; i++)
        check(pthread_join(openers[i].thread, NULL) == 0);
}

/* ---- who was in, and is cut off -------------------------------------------------------------- */

struct cut_off {
    struct bus *bus;
    struct bus_sub *sub;
};

/* Each of them goes on until the bus is stopped. */
static bool goes_on(enum bus_err err)
{
    if (err != BUS_ETIMEDOUT && err != BUS_ECLOSED)
        check_code(err, BUS_OK);
    return err != BUS_ECLOSED;
}

/* Wakes the library's thread, time and again. */
static void *send_on(void *arg)
{
    struct cut_off *cut_off = arg;
    do
        if (!goes_on(bus_publish(cut_off->bus, "w", "value", 5)))
            return NULL;
    while (goes_on(bus_flush(cut_off->bus, 20)));
    return NULL;
}

/* Has the data lane lent, whenever there is one. */
static void *wait_on(void *arg)
{
    struct cut_off *cut_off = arg;
    struct bus_msg *msg = NULL;
    while (goes_on(bus_sub_recv(cut_off->sub, 10, &msg, NULL)))
        bus_msg_free(&msg);
    return NULL;
}

static void *subscribe_on(void *arg)
{
    struct cut_off *cut_off = arg;
    enum bus_err err = BUS_OK;
    while (goes_on(err)) {
        struct bus_sub *sub = NULL;
        err = bus_sub_open(cut_off->bus, "there/other", NULL, &sub);
        if (err == BUS_OK)
            err = bus_flush(cut_off->bus, 30);
        bus_sub_close(&sub);
    }
    return NULL;
}

/* Each round has another party, as the last one of a name ends the one before.  In every other one
 * data alone goes over the cable: then threads use control while data is asked about. */
static void open_over(struct cut_off *cut_off, const struct relay *relay, const char *control,
                      int round)
{
    char server[SERVER_BYTES], party[32], topic[40];
    struct bus_options options;
    struct bus_error *error = NULL;
    int key_bytes = (int)(strchr(control, '@') - control + 1);
    const char *near = round % 2 == 0 ? relay->control_endpoint + 6 : control + key_bytes;
    (void)snprintf(server, sizeof server, "%.*s%s,data=%.*s%s", key_bytes, control, near, key_bytes,
                   control, relay->data_endpoint + 6);
    (void)snprintf(party, sizeof party, "here%d", round);
    (void)snprintf(topic, sizeof topic, "%s/w", party);
    race_options(&options, party);
    options.reconnect_grace_ms = SOON_MS;
    enum bus_err err = bus_open(server, &options, SOON_MS, &cut_off->bus, &error);
    check_code_of(err, BUS_OK, &error);
    check_code(bus_sub_open(cut_off->bus, topic, NULL, &cut_off->sub), BUS_OK);
    check_code(bus_flush(cut_off->bus, SOON_MS), BUS_OK);
}

/* Its connections are closed; new ones are as well, or nothing is said on them. */
static void cut_off_once(struct cut_off *cut_off, struct relay *relay, enum relay_state state)
{
    relay_set(relay, RELAY_CUT);
    relay_set(relay, state);
    check_code(bus_publish(cut_off->bus, "w", "value", 5), BUS_OK);
    check_code(bus_flush(cut_off->bus, PROBED_MS), BUS_ETIMEDOUT);
}

static void cut_and_mend(struct race_broker *broker, enum relay_state last, int round)
{
    static void *(*const users[USERS])(void *) = {send_on, wait_on, subscribe_on};
    pthread_t threads[USERS];
    struct relay relay;
    struct cut_off cut_off = {.bus = NULL};
    check(relay_open(&relay));
    check(relay_start(&relay, race_broker_endpoint(broker), race_broker_data_endpoint(broker)));
    open_over(&cut_off, &relay, race_broker_endpoint(broker), round);
    for (int i = 0; i < USERS; i++)
        check(pthread_create(&threads[i], NULL, users[i], &cut_off) == 0);
    static const enum relay_state states[] = {RELAY_CUT, RELAY_SILENT};
    for (int i = 0; i < 2; i++) {
        cut_off_once(&cut_off, &relay, states[i]);
        relay_set(&relay, RELAY_WHOLE);
        check_code(bus_flush(cut_off.bus, SOON_MS), BUS_OK);
    }
    cut_off_once(&cut_off, &relay, last); /* and it ends in the midst of that */
    bus_stop(cut_off.bus);
    for (int i = 0; i < USERS; i++)
        check(pthread_join(threads[i], NULL) == 0);
    bus_sub_close(&cut_off.sub);
    (void)bus_close(&cut_off.bus, BUS_POLL); /* there is no broker to answer */
    relay_fini(&relay);
}

int main(int argc, char **argv)
{
    int rounds = race_rounds(argc, argv, 40);
    struct folder folder;
    struct race_broker *broker = race_broker_start("greeting");
    check(folder_make(&folder));
    for (enum stranger_kind kind = 0; kind < STRANGER_COUNT; kind++)
        meet(race_broker_endpoint(broker), kind);
    open_all_with_wrong_keys(race_broker_endpoint(broker), &folder);
    for (int i = 0; i < rounds; i++)
        cut_and_mend(broker, i % 2 == 0 ? RELAY_SILENT : RELAY_CUT, i);
    race_broker_kill(&broker);
    folder_fini(&folder);
    printf("%d rounds\n", rounds);
    return 0;
}
