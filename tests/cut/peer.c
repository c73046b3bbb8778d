/* SPDX-License-Identifier: MPL-2.0 */
/* peer.c -- a party that says what came, what did not, and whether anything came twice.
 *
 *   cut_peer ENDPOINT PARTY HEARTBEAT_MS LOST_AFTER_MS GRACE_MS BYTES WRITER OTHER...
 *
 * All parties promise "done" 0 and publish numbers to "count" until they have seen the one large
 * value, WRITER's "large" 0, of BYTES; then they keep "done", read each other's numbers to their
 * end, and wait for each other's "done".  What is said about OTHER is a line "OTHER ...".  Exit
 * codes are those of errbus: 0, 1 (anything wrong with what came), 3 (an error came in a place of
 * another's), 5 (broker lost), 6 (fenced). */
#include <bus/bus.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OTHERS_MAX 16
#define PACE_MS 20 /* between two numbers */
#define OPEN_MS 60000
#define CLOSE_MS 30000
#define BROKER_LOST_MS 15000
#define LAST_NUMBER UINT64_MAX /* nothing comes behind it */

enum exit_code { EXIT_GOOD, EXIT_WRONG, EXIT_USAGE, EXIT_REMOTE, EXIT_LOST = 5, EXIT_FENCED };

struct other {
    const char *name;
    char done_topic[BUS_NAME_BYTES_MAX + 1];
    uint64_t next; /* number expected of it */
    bool is_counted;
    bool is_done;
};

struct peer {
    struct bus *bus;
    struct bus_sub *sub;
    struct bus_slot *done;
    const char *party;
    const char *writer;
    char large_topic[BUS_NAME_BYTES_MAX + 1];
    size_t large_bytes;
    bool has_large;
    uint64_t sent;   /* numbers */
    int64_t next_ms; /* when the next one is due */
    struct other others[OTHERS_MAX];
    size_t other_count;
    bool was_error;
    bool is_wrong;
};

static unsigned char pattern_at(size_t at)
{
    return (unsigned char)((at * UINT64_C(2654435761)) >> 13);
}

/* ---- one thing at a time: BUS_OK, or why this party is over -----------------------------------*/

static enum bus_err open_peer(struct peer *peer, char **argv)
{
    struct bus_options options;
    struct bus_error *error = NULL;
    bus_options_init(&options);
    options.party = peer->party;
    options.heartbeat_ms = strtoll(argv[3], NULL, 10);
    options.lost_after_ms = strtoll(argv[4], NULL, 10);
    options.reconnect_grace_ms = strtoll(argv[5], NULL, 10);
    options.broker_lost_ms = BROKER_LOST_MS;
    enum bus_err err = bus_open(argv[1], &options, OPEN_MS, &peer->bus, &error);
    if (err != BUS_OK) {
        fprintf(stderr, "%s: %s\n", peer->party, bus_error_message(error));
    }
    bus_error_unref(&error);
    return err;
}

static enum bus_err begin(struct peer *peer)
{
    char topic[BUS_NAME_BYTES_MAX + 1];
    enum bus_err err = bus_slot_reserve(peer->bus, "done", BUS_FOREVER, &peer->done);
    for (size_t i = 0; err == BUS_OK && i < peer->other_count; i++) {
        snprintf(topic, sizeof topic, "%s/count", peer->others[i].name);
        err = i == 0 ? bus_sub_open(peer->bus, topic, NULL, &peer->sub)
                     : bus_sub_add(peer->sub, topic);
    }
    if (err == BUS_OK) {
        err = bus_flush(peer->bus, OPEN_MS);
    }
    printf("%s\n", peer->party == peer->writer ? "ready to send" : "ready to receive");
    return err;
}

static enum bus_err send_large(struct peer *peer)
{
    struct bus_slot *slot = NULL;
    unsigned char *value = malloc(peer->large_bytes);
    if (value == NULL) {
        return BUS_ENOMEM;
    }
    for (size_t i = 0; i < peer->large_bytes; i++) {
        value[i] = pattern_at(i);
    }
    enum bus_err err = bus_slot_reserve(peer->bus, "large", BUS_FOREVER, &slot);
    err = err == BUS_OK ? bus_slot_commit(&slot, value, peer->large_bytes) : err;
    bus_slot_fail(&slot, NULL); /* a no-op, unless the commit did not take it over */
    free(value);
    return err;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* If it is time for one. */
static enum bus_err send_number(struct peer *peer)
{
    if (now_ms() < peer->next_ms) {
        return BUS_OK;
    }
    peer->next_ms = now_ms() + PACE_MS;
    uint64_t number = peer->sent++;
    return bus_publish(peer->bus, "count", &number, sizeof number);
}

static void say_error(struct peer *peer, const char *name, const char *what,
                      const struct bus_error *error)
{
    peer->was_error = true;
    printf("%s %s %s %s\n", name, what, bus_error_kind(error), bus_error_type(error));
}

static bool is_large_whole(const struct peer *peer, const struct bus_msg *msg)
{
    size_t bytes = 0;
    const unsigned char *value = bus_msg_value(msg, &bytes);
    bool is_whole = bytes == peer->large_bytes;
    for (size_t i = 0; is_whole && i < bytes; i++) {
        is_whole = value[i] == pattern_at(i);
    }
    return is_whole;
}

/* Looks for the large value, or, being its writer, for its acceptance. */
static enum bus_err look_for_large(struct peer *peer)
{
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    bool is_ours = peer->party == peer->writer;
    enum bus_err err =
        bus_await(peer->bus, peer->large_topic, 0, BUS_POLL, is_ours ? NULL : &msg, &error);
    bool is_over = err == BUS_OK || err == BUS_EFAILED;
    if (err == BUS_EFAILED) {
        say_error(peer, peer->writer, "large", error);
    } else if (err == BUS_OK) {
        bool is_whole = is_ours || is_large_whole(peer, msg);
        peer->is_wrong |= !is_whole;
        printf("%s large %s\n", peer->writer, is_whole ? "whole" : "WRONG");
    }
    peer->has_large |= is_over;
    bus_msg_free(&msg);
    bus_error_unref(&error);
    return is_over || err == BUS_ETIMEDOUT ? BUS_OK : err;
}

static struct other *find_other(struct peer *peer, const char *topic)
{
    for (size_t i = 0; topic != NULL && i < peer->other_count; i++) {
        size_t bytes = strlen(peer->others[i].name);
        if (strncmp(topic, peer->others[i].name, bytes) == 0 &&
            (topic[bytes] == '/' || topic[bytes] == '\0')) {
            return &peer->others[i];
        }
    }
    return NULL;
}

static void take_number(struct peer *peer, struct other *other, const struct bus_msg *msg)
{
    size_t bytes = 0;
    uint64_t number = 0;
    memcpy(&number, bus_msg_value(msg, &bytes), sizeof number);
    bool is_last = number == LAST_NUMBER;
    if (bus_msg_seq(msg) != other->next || (!is_last && number != other->next)) {
        bool is_late = bus_msg_seq(msg) < other->next;
        printf("%s count %s: %" PRIu64 " at %" PRIu64 ", not %" PRIu64 "\n", other->name,
               is_late ? "TWICE" : "LOST", number, bus_msg_seq(msg), other->next);
        peer->is_wrong = true;
    }
    other->next = bus_msg_seq(msg) + 1;
    if (is_last) {
        printf("%s count whole %" PRIu64 "\n", other->name, other->next);
        other->is_counted = true;
    }
}

/* Waits for the next number of the others, for the pace at most. */
static enum bus_err look_for_number(struct peer *peer)
{
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    enum bus_err err = bus_sub_recv(peer->sub, PACE_MS, &msg, &error);
    struct other *other = find_other(peer, bus_sub_slot(peer->sub, NULL));
    if (err == BUS_OK && other != NULL) {
        take_number(peer, other, msg);
    } else if (err == BUS_EFAILED && other != NULL) {
        say_error(peer, other->name, "count", error);
        other->is_counted = true;
    } else if (err == BUS_EOVERRUN) {
        printf("%s count LOST: a gap\n", other != NULL ? other->name : "?");
        peer->is_wrong = true;
    }
    bool is_good = err == BUS_OK || err == BUS_EFAILED || err == BUS_EENDED ||
                   err == BUS_ETIMEDOUT || err == BUS_EOVERRUN;
    bus_msg_free(&msg);
    bus_error_unref(&error);
    return is_good ? BUS_OK : err;
}

static enum bus_err look_for_done(struct peer *peer)
{
    enum bus_err err = BUS_OK;
    for (size_t i = 0; err == BUS_OK && i < peer->other_count; i++) {
        struct other *other = &peer->others[i];
        struct bus_msg *msg = NULL;
        struct bus_error *error = NULL;
        if (other->is_done) {
            continue;
        }
        err = bus_await(peer->bus, other->done_topic, 0, BUS_POLL, &msg, &error);
        other->is_done = err == BUS_OK || err == BUS_EFAILED;
        if (err == BUS_OK) {
            printf("%s done\n", other->name);
        } else if (err == BUS_EFAILED) {
            say_error(peer, other->name, "done", error);
        }
        err = other->is_done || err == BUS_ETIMEDOUT ? BUS_OK : err;
        bus_msg_free(&msg);
        bus_error_unref(&error);
    }
    return err;
}

/* ---- all of it --------------------------------------------------------------------------------*/

static bool is_all_seen(const struct peer *peer)
{
    bool is_seen = true;
    for (size_t i = 0; i < peer->other_count; i++) {
        is_seen = is_seen && peer->others[i].is_done && peer->others[i].is_counted;
    }
    return is_seen;
}

/* Hands over what is owed, once the large value is out of the way. */
static enum bus_err keep_promises(struct peer *peer)
{
    static const uint64_t last = LAST_NUMBER;
    enum bus_err err = bus_publish(peer->bus, "count", &last, sizeof last);
    err = err == BUS_OK ? bus_slot_commit(&peer->done, "done", 4) : err;
    return err;
}

static enum bus_err run(struct peer *peer)
{
    enum bus_err err = begin(peer);
    bool is_kept = false;
    if (err == BUS_OK && peer->party == peer->writer) {
        err = send_large(peer);
        printf("sending\n");
    }
    while (err == BUS_OK && !(is_kept && is_all_seen(peer))) {
        err = look_for_number(peer);
        err = err == BUS_OK ? look_for_done(peer) : err;
        err = err == BUS_OK && !peer->has_large ? look_for_large(peer) : err;
        if (err == BUS_OK && !is_kept) {
            err = peer->has_large ? keep_promises(peer) : send_number(peer);
            is_kept = peer->has_large;
        }
    }
    return err == BUS_OK ? bus_complete(peer->bus, CLOSE_MS) : err;
}

static int end(struct peer *peer, enum bus_err err)
{
    struct bus_error *failure = peer->bus != NULL ? bus_failure(peer->bus) : NULL;
    printf("over: %s%s%s\n", bus_strerror(err), failure != NULL ? ": " : "",
           failure != NULL ? bus_error_message(failure) : "");
    bus_error_unref(&failure);
    bus_slot_fail(&peer->done, NULL);
    bus_sub_close(&peer->sub);
    enum bus_err closed = peer->bus != NULL ? bus_close(&peer->bus, CLOSE_MS) : BUS_OK;
    err = err == BUS_OK ? closed : err;
    switch (err) {
    case BUS_OK: return peer->is_wrong ? EXIT_WRONG : peer->was_error ? EXIT_REMOTE : EXIT_GOOD;
    case BUS_EFENCED: return EXIT_FENCED;
    case BUS_ELOST: return EXIT_LOST;
    default: return EXIT_WRONG;
    }
}

int main(int argc, char **argv)
{
    struct peer peer = {.bus = NULL};
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 9 || argc - 8 > OTHERS_MAX) {
        fprintf(stderr, "usage: cut_peer ENDPOINT PARTY HEARTBEAT_MS LOST_AFTER_MS GRACE_MS BYTES "
                        "WRITER OTHER...\n");
        return EXIT_USAGE;
    }
    peer.party = argv[2];
    peer.writer = strcmp(argv[7], argv[2]) == 0 ? argv[2] : argv[7];
    peer.large_bytes = (size_t)strtoull(argv[6], NULL, 10);
    snprintf(peer.large_topic, sizeof peer.large_topic, "%s/large", peer.writer);
    for (int i = 8; i < argc; i++) {
        struct other *other = &peer.others[peer.other_count++];
        other->name = argv[i];
        snprintf(other->done_topic, sizeof other->done_topic, "%s/done", argv[i]);
    }
    enum bus_err err = open_peer(&peer, argv);
    return end(&peer, err == BUS_OK ? run(&peer) : err);
}
