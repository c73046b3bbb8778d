/* SPDX-License-Identifier: MPL-2.0 */
/* worker.c -- a member of a group as a process of its own, for tests that kill it.
 *
 *   test_worker ENDPOINT PARTY GROUP PATTERN CREDIT
 *
 * What it does with a task is what the task says:
 *
 *   hold ...    keeps it, and says "holds NUMBER"
 *   reject ...  gives it back at once        never ...  for ever
 *   fail ...    fails the request            silent ... is done with it and says nothing
 *   else        answers "did " and the task; of what is no request it is done
 *
 * It says "ready" when it is in the group.  It goes on until it is killed. */
#include <bus/bus.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SOON_MS 20000
#define HELD_MAX 1024
#define TEXT_BYTES_MAX 256

static struct bus_msg *held[HELD_MAX];
static size_t held_count;

static void die(const char *what, enum bus_err err, const struct bus_error *error)
{
    fprintf(stderr, "%s: %s: %s\n", what, bus_strerror(err),
            error != NULL ? bus_error_message(error) : "");
    exit(1);
}

static bool begins(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

static void answer(struct bus_msg **msg, const char *text)
{
    char reply[TEXT_BYTES_MAX + 8];
    if (!bus_msg_is_request(*msg)) {
        bus_msg_free(msg);
        return;
    }
    int bytes = snprintf(reply, sizeof reply, "did %s", text);
    enum bus_err err = bus_msg_reply(msg, reply, (size_t)bytes);
    if (err != BUS_OK && err != BUS_ESETTLED)
        die("bus_msg_reply", err, NULL);
}

static void work(struct bus_msg **msg)
{
    char text[TEXT_BYTES_MAX];
    size_t bytes;
    const void *value = bus_msg_value(*msg, &bytes);
    snprintf(text, sizeof text, "%.*s", (int)bytes,
             (const char *)value); /* tests have short ones */
    struct bus_error *error = bus_error_new("app.cannot", NULL, "cannot do '%s'", text);
    if (begins(text, "hold")) {
        printf("holds %" PRIu64 "\n", bus_msg_seq(*msg));
        fflush(stdout);
        held[held_count++ % HELD_MAX] = *msg;
        *msg = NULL;
    } else if (begins(text, "reject"))
        bus_msg_reject(msg, error, 0);
    else if (begins(text, "never"))
        bus_msg_reject(msg, error, BUS_FOREVER);
    else if (begins(text, "fail"))
        bus_msg_fail(msg, error);
    else if (begins(text, "silent"))
        bus_msg_free(msg);
    else
        answer(msg, text);
    bus_error_unref(&error);
}

int main(int count, char **words)
{
    struct bus *bus = NULL;
    struct bus_sub *sub = NULL;
    struct bus_error *error = NULL;
    struct bus_options options;
    struct bus_sub_options shared;
    if (count != 6)
        return 2;
    bus_options_init(&options);
    options.party = words[2];
    options.heartbeat_ms = 200;
    options.lost_after_ms = 20000;
    options.reconnect_grace_ms = 100;
    enum bus_err err = bus_open(words[1], &options, SOON_MS, &bus, &error);
    if (err != BUS_OK)
        die("bus_open", err, error);
    bus_sub_options_init(&shared);
    shared.group = words[3];
    shared.credit = (int)strtol(words[5], NULL, 10);
    err = bus_sub_open(bus, words[4], &shared, &sub);
    if (err == BUS_OK)
        err = bus_flush(bus, SOON_MS);
    if (err != BUS_OK)
        die("bus_sub_open", err, NULL);
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        struct bus_msg *msg = NULL;
        err = bus_sub_recv(sub, BUS_FOREVER, &msg, &error);
        if (err != BUS_OK)
            die("bus_sub_recv", err, error);
        work(&msg);
    }
}
