/* SPDX-License-Identifier: MPL-2.0 */
/* pulse.c -- a party that nobody harms: it feels what is done to the others.
 *
 *   prove_pulse ENDPOINT PARTY OTHER NAME...
 *
 * PARTY and OTHER are the two pulses of a job.  Each publishes the time to "beat" fifty times a
 * second, promises numbers of "work" of which every fifth fails, waits for those of the other, now
 * and then gathers both and takes something back, and reads all that the parties NAME... write.
 * Ends when a line comes in.  Says
 *
 *   ready            it takes part
 *   C INDEX COUNT    so many frames of that NAME, from 0, came in the last tenth of a second
 *   W MS             so long the slowest beat took that came in the last tenth of a second
 *   L MEDIAN MOST    microseconds that beats took in the last second
 *   N NAME KIND      it was told that NAME ended: what of, or "left"
 *   E NAME KIND      an error of the bus's own came in the place of a slot of NAME
 *   X WORDS          what must not be; exit code 1 */
#include <bus/bus.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS INT64_C(60000)
#define BEHIND_MS INT64_C(5)
#define BEAT_US INT64_C(20000)
#define COUNT_US INT64_C(100000)
#define SECOND_US INT64_C(1000000)
enum {
    NAMES_MAX = 16,
    BEATS_MAX = 512,
    TEXT_BYTES = 256,
    WORKS_EVERY = 5,
    RARELY = 20,
    CATCH_UP = 8, /* numbers a turn */
    EXIT_WRONG = 1
};

struct pulse {
    struct bus *bus;
    struct bus_sub *sub;
    const char *party;
    char own_beat[TEXT_BYTES], other_beat[TEXT_BYTES], own_work[TEXT_BYTES], other_work[TEXT_BYTES];
    uint64_t promised; /* numbers of our own "work", settled */
    uint64_t awaited;  /* the number of the other's that is waited for */
    bool is_alone;     /* the other has left */
    char **names;
    uint64_t frames[NAMES_MAX];  /* of each */
    int64_t beats_us[BEATS_MAX]; /* of this second */
    size_t beat_count;
    int64_t slowest_us; /* of this tenth of it */
};

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static _Noreturn void give_up(const struct pulse *pulse, const char *what, enum bus_err err,
                              const struct bus_error *error)
{
    char text[2048] = "";
    if (error != NULL) {
        bus_error_describe(error, text, sizeof text);
        text[strcspn(text, "\n")] = '\0';
    }
    printf("X %s: %s: %s %s\n", pulse->party, what, bus_strerror(err), text);
    fflush(stdout);
    _exit(EXIT_WRONG);
}

static void must_be_fine(const struct pulse *pulse, const char *what, enum bus_err err)
{
    if (err != BUS_OK) {
        struct bus_error *failure = bus_failure(pulse->bus);
        give_up(pulse, what, err, failure);
    }
}

/* ---- writing ----------------------------------------------------------------------------------*/

static void beat(struct pulse *pulse)
{
    int64_t at_us = now_us();
    must_be_fine(pulse, "publish", bus_publish(pulse->bus, "beat", &at_us, sizeof at_us));
}

static bool is_to_fail(uint64_t number)
{
    return number % WORKS_EVERY == WORKS_EVERY - 1;
}

static void work(struct pulse *pulse)
{
    struct bus_slot *slot = NULL;
    uint64_t number = pulse->promised++;
    must_be_fine(pulse, "reserve", bus_slot_reserve(pulse->bus, "work", BUS_FOREVER, &slot));
    if (is_to_fail(number)) {
        struct bus_error *error = bus_error_new("pulse.failed", NULL, "%" PRIu64, number);
        bus_slot_fail(&slot, error);
        bus_error_unref(&error);
    } else {
        must_be_fine(pulse, "commit", bus_slot_commit(&slot, &number, sizeof number));
    }
}

/* ---- waiting ----------------------------------------------------------------------------------*/

static void check_work(struct pulse *pulse, enum bus_err err, const struct bus_msg *msg,
                       const struct bus_error *error)
{
    size_t bytes = 0;
    uint64_t number = UINT64_MAX;
    const void *value = msg != NULL ? bus_msg_value(msg, &bytes) : NULL;
    if (bytes == sizeof number) {
        memcpy(&number, value, sizeof number);
    }
    if (err == BUS_EFAILED && strcmp(bus_error_kind(error), "party_left") == 0) {
        pulse->is_alone = true; /* the other was told to end, and so shall we be */
        return;
    }
    bool is_failed = err == BUS_EFAILED && strcmp(bus_error_type(error), "pulse.failed") == 0;
    bool is_right =
        is_to_fail(pulse->awaited) ? is_failed : err == BUS_OK && number == pulse->awaited;
    if (!is_right) {
        give_up(pulse, "another outcome than was given", err, error);
    }
}

/* What the other promised, one number after the other.  True: the next one has come. */
static bool wait_for_one(struct pulse *pulse)
{
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    enum bus_err err = BUS_ETIMEDOUT;
    /* Both promise at one pace: whoever has promised more than came from the other is behind. */
    bool is_behind = pulse->promised > pulse->awaited + CATCH_UP;
    if (!pulse->is_alone) {
        err = bus_await(pulse->bus, pulse->other_work, pulse->awaited,
                        is_behind ? BEHIND_MS : BUS_POLL, &msg, &error);
    }
    if (err != BUS_ETIMEDOUT) {
        check_work(pulse, err, msg, error);
        pulse->awaited++;
        bus_msg_free(&msg);
    }
    bus_error_unref(&error);
    return err != BUS_ETIMEDOUT;
}

static void wait_for_work(struct pulse *pulse)
{
    int count = 0;
    while (count < CATCH_UP && wait_for_one(pulse)) {
        count++;
    }
}

/* Some numbers back, of both: what is given once stays. */
static void gather(struct pulse *pulse)
{
    enum { BACK = 8 };
    if (pulse->is_alone || pulse->promised <= BACK || pulse->awaited <= BACK) {
        return;
    }
    struct bus_want wants[2] = {{.topic = pulse->own_work, .seq = pulse->promised - BACK},
                                {.topic = pulse->other_work, .seq = pulse->awaited - BACK}};
    struct bus_error *error = NULL;
    enum bus_err err = bus_gather(pulse->bus, wants, 2, 2, 2, PATIENCE_MS, &error);
    if (err != BUS_OK) {
        give_up(pulse, "gather", err, error);
    }
    for (size_t i = 0; i < 2; i++) {
        bool is_error = wants[i].error != NULL;
        if (is_error != is_to_fail(wants[i].seq) || is_error == (wants[i].msg != NULL)) {
            give_up(pulse, "gathered another outcome than was given", err, wants[i].error);
        }
    }
    bus_wants_free(wants, 2);
    bus_error_unref(&error);
}

/* Unless somebody was sent it, which nobody asked for. */
static void take_back(struct pulse *pulse)
{
    static const char value[] = "not so";
    struct bus_slot *slot = NULL;
    must_be_fine(pulse, "reserve", bus_slot_reserve(pulse->bus, "undone", BUS_FOREVER, &slot));
    uint64_t seq = bus_slot_seq(slot);
    must_be_fine(pulse, "commit", bus_slot_commit(&slot, value, sizeof value));
    must_be_fine(pulse, "retract", bus_retract(pulse->bus, "undone", seq, NULL, PATIENCE_MS));
}

/* ---- reading ----------------------------------------------------------------------------------*/

static void count_frame(struct pulse *pulse, const char *topic)
{
    size_t length = strcspn(topic, "/");
    for (size_t i = 0; pulse->names[i] != NULL; i++) {
        bool is_it = strncmp(pulse->names[i], topic, length) == 0 && pulse->names[i][length] == 0;
        pulse->frames[i] += is_it;
    }
}

static void hear_value(struct pulse *pulse, const char *topic, const struct bus_msg *msg)
{
    size_t bytes = 0;
    int64_t sent_us = 0;
    const void *value = bus_msg_value(msg, &bytes);
    bool is_beat = strcmp(topic, pulse->own_beat) == 0 || strcmp(topic, pulse->other_beat) == 0;
    if (!is_beat) {
        count_frame(pulse, topic);
    } else if (bytes == sizeof sent_us && pulse->beat_count < BEATS_MAX) {
        memcpy(&sent_us, value, sizeof sent_us);
        int64_t took_us = now_us() - sent_us;
        pulse->beats_us[pulse->beat_count++] = took_us;
        pulse->slowest_us = took_us > pulse->slowest_us ? took_us : pulse->slowest_us;
    }
}

static void hear_error(struct pulse *pulse, const char *topic, const struct bus_error *error)
{
    const char *kind = error != NULL ? bus_error_kind(error) : "left";
    int length = (int)strcspn(topic, "/");
    bool is_end = topic[length] == '\0';
    if (!is_end) {
        count_frame(pulse, topic);
    }
    if (is_end || strcmp(kind, "application") != 0) {
        printf("%c %.*s %s\n", is_end ? 'N' : 'E', length, topic, kind);
        fflush(stdout);
    }
}

/* Until that time, or nothing is there any more. */
static void read_until(struct pulse *pulse, int64_t until_us)
{
    for (int64_t left_us = 1; left_us > 0;) {
        struct bus_msg *msg = NULL;
        struct bus_error *error = NULL;
        left_us = until_us - now_us();
        enum bus_err err =
            bus_sub_recv(pulse->sub, left_us > 0 ? (left_us + 999) / 1000 : 0, &msg, &error);
        const char *topic = bus_sub_slot(pulse->sub, NULL);
        if (err == BUS_OK) {
            hear_value(pulse, topic, msg);
            bus_msg_free(&msg);
        } else if (err == BUS_EFAILED || err == BUS_EENDED) {
            hear_error(pulse, topic, error);
        } else if (err != BUS_ETIMEDOUT) {
            give_up(pulse, "receive", err, error);
        } else {
            left_us = 0;
        }
        bus_error_unref(&error);
    }
}

/* ---- telling ----------------------------------------------------------------------------------*/

static void tell_count(struct pulse *pulse)
{
    for (size_t i = 0; pulse->names[i] != NULL; i++) {
        if (pulse->frames[i] > 0) {
            printf("C %zu %" PRIu64 "\n", i, pulse->frames[i]);
        }
        pulse->frames[i] = 0;
    }
    if (pulse->slowest_us > 0) {
        printf("W %" PRId64 "\n", pulse->slowest_us / 1000);
    }
    pulse->slowest_us = 0;
    fflush(stdout);
}

static int compare(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static void tell_beats(struct pulse *pulse)
{
    if (pulse->beat_count > 0) {
        qsort(pulse->beats_us, pulse->beat_count, sizeof pulse->beats_us[0], compare);
        printf("L %" PRId64 " %" PRId64 "\n", pulse->beats_us[pulse->beat_count / 2],
               pulse->beats_us[pulse->beat_count - 1]);
        fflush(stdout);
    }
    pulse->beat_count = 0;
}

/* ---- the party --------------------------------------------------------------------------------*/

static void open_pulse(struct pulse *pulse, const char *endpoint)
{
    struct bus_options options;
    struct bus_error *error = NULL;
    char pattern[TEXT_BYTES];
    bus_options_init(&options);
    options.party = pulse->party;
    options.heartbeat_ms = 200;
    options.lost_after_ms = PATIENCE_MS;
    options.reconnect_grace_ms = PATIENCE_MS;
    options.broker_lost_ms = PATIENCE_MS;
    options.send_timeout_ms = PATIENCE_MS;
    enum bus_err err = bus_open(endpoint, &options, PATIENCE_MS, &pulse->bus, &error);
    if (err != BUS_OK) {
        give_up(pulse, "open", err, error);
    }
    must_be_fine(pulse, "subscribe", bus_sub_open(pulse->bus, pulse->own_beat, NULL, &pulse->sub));
    must_be_fine(pulse, "subscribe", bus_sub_add(pulse->sub, pulse->other_beat));
    for (char **name = pulse->names; *name != NULL; name++) {
        snprintf(pattern, sizeof pattern, "%s/#", *name);
        must_be_fine(pulse, "subscribe", bus_sub_add(pulse->sub, pattern));
    }
    must_be_fine(pulse, "flush", bus_flush(pulse->bus, PATIENCE_MS));
    printf("ready\n");
    fflush(stdout);
}

static bool is_told_to_end(void)
{
    struct pollfd item = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&item, 1, 0) > 0;
}

static void live(struct pulse *pulse)
{
    uint64_t turn = 0;
    int64_t count_us = now_us() + COUNT_US;
    int64_t second_us = now_us() + SECOND_US;
    for (int64_t next_us = now_us(); !is_told_to_end(); next_us += BEAT_US) {
        next_us = next_us < now_us() - SECOND_US ? now_us() : next_us; /* after a standstill */
        beat(pulse);
        if (turn++ % 2 == 0) { /* so that who waits catches up */
            work(pulse);
        }
        wait_for_work(pulse);
        if (turn % RARELY == 0) {
            gather(pulse);
            take_back(pulse);
        }
        read_until(pulse, next_us + BEAT_US);
        if (now_us() >= count_us) {
            tell_count(pulse);
            count_us = now_us() + COUNT_US;
        }
        if (now_us() >= second_us) {
            tell_beats(pulse);
            second_us = now_us() + SECOND_US;
        }
    }
}

int main(int argc, char **argv)
{
    static struct pulse pulse;
    if (argc < 4 || argc > 4 + NAMES_MAX) {
        fprintf(stderr, "usage: see the head of tests/prove/pulse.c\n");
        return 2;
    }
    pulse.party = argv[2];
    snprintf(pulse.own_beat, TEXT_BYTES, "%s/beat", argv[2]);
    snprintf(pulse.other_beat, TEXT_BYTES, "%s/beat", argv[3]);
    snprintf(pulse.own_work, TEXT_BYTES, "%s/work", argv[2]);
    snprintf(pulse.other_work, TEXT_BYTES, "%s/work", argv[3]);
    pulse.names = argv + 4;
    open_pulse(&pulse, argv[1]);
    live(&pulse);
    bus_sub_close(&pulse.sub);
    enum bus_err err = bus_close(&pulse.bus, PATIENCE_MS);
    if (err != BUS_OK && err != BUS_ESETTLED) {
        give_up(&pulse, "close", err, NULL);
    }
    return 0;
}
