/* SPDX-License-Identifier: MPL-2.0 */
/* journal_disk_test.c -- the broker and its disk: acknowledgements come behind a sync, and errors
 * do not.  A disk that is full holds values back and nothing else, one that fails ends the broker
 * in words. */
#include "tests/lib/fetch.h"
#include "tests/lib/revival.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ANSWERS = 50, VALUE_BYTES = 16000, THREE_SEGMENTS_MIB = 60, NINE_SEGMENTS_MIB = 150 };

static char traced[FOLDER_PATH_BYTES_MAX + 16];

static void set_up(void)
{
    revival_open();
    snprintf(traced, sizeof traced, "%s/traced", revival.folder.path);
}

static void tear_down(void)
{
    char volume[FOLDER_PATH_BYTES_MAX + 16];
    stage_close();
    snprintf(volume, sizeof volume, "%s/volume", revival.folder.path);
    (void)umount2(volume, MNT_DETACH); /* if there is one */
    folder_fini(&revival.folder);
}

TestSuite(journal_disk, .init = set_up, .fini = tear_down, .timeout = 300);

static struct bus *open_quiet(const char *party)
{
    struct bus_options options;
    bus_options_init(&options);
    options.party = party;
    options.heartbeat_ms = 60000; /* so that all that is sent is an answer */
    options.lost_after_ms = 600000;
    options.outbox_bytes_max = (size_t)1024 * 1024;
    options.send_timeout_ms = 1000;
    return must_open_with(&options);
}

/* The next line on standard error with this in it. */
static void expect_complaint(const char *words)
{
    const char *line = "";
    do {
        cr_assert(process_complaint(&stage.process, SOON_MS, &line), "it does not say '%s': %s",
                  words, process_complained(&stage.process));
    } while (strstr(line, words) == NULL);
}

/* ---- traced -----------------------------------------------------------------------------------*/

/* errbusd is our child, who traces it is not.  more: one more option of strace, or NULL. */
static void start_traced(const char *more)
{
    char path[512];
    const char *line = NULL;
    process_path("errbusd", path, sizeof path);
    const char *argv[28] = {
        "strace", "-D",    "-f", "-o",
        traced,   "-xx", /* bytes as \xHH */
        "-s",     "65536", "-e", "trace=pwrite64,pwritev,pwritev2,msync,sendto,sendmsg"};
    size_t count = 10;
    if (more != NULL) {
        argv[count++] = "-e";
        argv[count++] = more;
    }
    const char *const rest[] = {path,         "--control", revival.control, "--data",
                                revival.data, "--journal", revival.journal, "--durability",
                                "disk",       NULL};
    memcpy(argv + count, rest, sizeof rest);
    /* The leak sanitizer, where it is built in, ends what is traced. */
    const char *const environment[] = {"LSAN_OPTIONS=detect_leaks=0", NULL};
    cr_assert(process_start(&stage.process, argv, environment));
    if (!process_line(&stage.process, SOON_MS, &line)) {
        int code = process_wait(&stage.process, 0);
        const char *said = process_complained(&stage.process);
        if (code == 127 || strstr(said, "ptrace") != NULL)
            cr_skip_test("strace is not installed, or may not trace: %s", said);
        cr_assert_fail("errbusd is not ready under strace: %s", said);
    }
    snprintf(stage.control, sizeof stage.control, "%s", revival.control);
}

/* What the calls were about, by their bytes. */
struct order {
    uint64_t written, syncing, synced; /* the last value of which this is so */
    uint64_t first;                    /* number of the frame that was acknowledged before these */
    uint64_t acknowledged;             /* of the last one that was */
    uint64_t early;                    /* of the first one that was before its value was synced */
};

static const char value_text[] = "value number ";

/* All strings of a line, one behind the other; how many bytes. */
static size_t read_bytes(const char *line, uint8_t *bytes, size_t room)
{
    size_t count = 0;
    unsigned byte;
    for (const char *at = line; count < room && (at = strstr(at, "\\x")) != NULL; at += 2)
        if (sscanf(at + 2, "%2x", &byte) == 1)
            bytes[count++] = (uint8_t)byte;
    return count;
}

/* The value with the largest number among these bytes, or 0. */
static uint64_t find_value(const uint8_t *bytes, size_t count)
{
    const uint8_t *end = bytes + count;
    const uint8_t *at = bytes;
    uint64_t largest = 0;
    while ((at = memmem(at, (size_t)(end - at), value_text, strlen(value_text))) != NULL) {
        uint64_t number = 0;
        for (at += strlen(value_text); at < end && *at >= '0' && *at <= '9'; at++)
            number = number * 10 + (uint64_t)(*at - '0');
        largest = number > largest ? number : largest;
    }
    return largest;
}

/* The number of the last accepted frame, as ACCEPTED has it; 0: it is another message. */
static uint64_t read_accepted(const uint8_t *message, size_t bytes)
{
    static const uint8_t head[] = {0x94, 71}; /* an array of four: ACCEPTED, the number, ... */
    if (bytes < 4 || memcmp(message, head, sizeof head) != 0)
        return 0;
    return message[2] == 0xcc ? message[3] : message[2]; /* two widths of msgpack */
}

/* Frames of ZMTP: flags, which are 0 for a short message of one part, a length, and the message. */
static void read_answers(struct order *order, const uint8_t *bytes, size_t count)
{
    for (size_t at = 0; at + 2 <= count && bytes[at] == 0; at += 2 + (size_t)bytes[at + 1]) {
        size_t length = bytes[at + 1];
        uint64_t number = at + 2 + length <= count ? read_accepted(bytes + at + 2, length) : 0;
        if (number == 0)
            continue;
        order->acknowledged = number;
        if (order->written == 0)
            order->first = number;
        else if (order->early == 0 && number > order->first + order->synced)
            order->early = number;
    }
}

/* One thread writes.  What it wrote before a sync began is synced when that has ended.  The thread
 * of libzmq may send an answer at any time after that, while more is being written. */
static void read_call(struct order *order, const char *line)
{
    static uint8_t bytes[1 << 17];
    bool is_sync = strstr(line, "msync") != NULL;
    if (is_sync && strstr(line, "sync(") != NULL)
        order->syncing = order->written;
    if (is_sync && strstr(line, "= 0") != NULL)
        order->synced = order->syncing;
    size_t count = is_sync ? 0 : read_bytes(line, bytes, sizeof bytes);
    uint64_t value = find_value(bytes, count);
    if (strstr(line, "pwrite") != NULL && value > order->written)
        order->written = value;
    if (strstr(line, "sendto(") != NULL || strstr(line, "sendmsg(") != NULL)
        read_answers(order, bytes, count);
}

/* Who traces it may end a little later than errbusd did. */
static struct order read_trace(void)
{
    struct order order;
    int64_t until_ms = test_now_ms() + SOON_MS;
    bool is_whole = false;
    char *line = NULL;
    size_t room = 0;
    while (!is_whole && test_now_ms() < until_ms) {
        FILE *file = fopen(traced, "re");
        cr_assert_not_null(file);
        order = (struct order){0};
        while (getline(&line, &room, file) > 0) {
            read_call(&order, line);
            is_whole |= strstr(line, "+++ killed by SIGKILL") != NULL;
        }
        fclose(file);
    }
    free(line);
    cr_assert(is_whole, "the trace has no end");
    return order;
}

/* Each value is a frame of its own. */
Test(journal_disk, is_synced_before_anything_is_acknowledged)
{
    start_traced(NULL);
    struct bus *alice = open_quiet("alice");
    must_publish(alice, "w", "the first");
    must_flush(alice);
    for (int i = 1; i <= ANSWERS; i++) {
        must_publish(alice, "w", "%s%d", value_text, i);
        must_flush(alice);
    }
    process_signal(&stage.process, SIGKILL);
    cr_assert_eq(process_wait(&stage.process, SOON_MS), 128 + SIGKILL);
    struct order order = read_trace();
    cr_expect_gt(order.first, 0);
    cr_expect_eq(order.acknowledged, order.first + ANSWERS);
    cr_expect_eq(order.synced, ANSWERS);
    cr_expect_eq(order.early, 0, "frame %llu was acknowledged before its value was synced",
                 (unsigned long long)order.early);
    (void)bus_close(&alice, BUS_POLL); /* nobody is there to hear of it */
}

/* All that was acknowledged before is there when it is started again. */
Test(journal_disk, ends_the_broker_in_words_when_a_sync_fails)
{
    start_traced("inject=msync:error=EIO:when=40+");
    struct bus *alice = open_quiet("alice");
    uint64_t acknowledged = 0;
    do {
        must_publish(alice, "w", "%llu", (unsigned long long)acknowledged);
    } while (bus_flush(alice, AT_ONCE_MS) == BUS_OK && ++acknowledged < 1000);
    cr_assert_lt(acknowledged, 1000);
    cr_assert_gt(acknowledged, 5);
    cr_assert_eq(process_wait(&stage.process, SOON_MS), 1);
    cr_assert_not_null(
        strstr(process_complained(&stage.process), "the journal cannot be written any more"), "%s",
        process_complained(&stage.process));
    broker_fini(&stage);
    revival_start("disk", NULL);
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    for (uint64_t i = 0; i < acknowledged; i++) {
        expect_value(sub, "alice/w", i, "%llu", (unsigned long long)i);
    }
    bus_sub_close(&sub);
    must_close(&bob);
    must_close(&alice);
}

/* ---- slow -------------------------------------------------------------------------------------*/

/* It is in the log at once, and that is all that its reader waits for. */
Test(journal_disk, raises_an_error_while_values_of_another_topic_are_synced)
{
    enum { SYNC_MS = 2000 };
    static char value[200000];
    static const char *const environment[] = {"ERRBUS_SLOW=sync:2000", NULL};
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    cr_assert(revival_start_failing("disk", environment, NULL), "%s",
              process_complained(&stage.process));
    struct bus *alice = open_quiet("alice");
    struct bus *bob = open_quiet("bob");
    struct bus *dora = open_quiet("dora");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    struct bus_sub *bulk = must_subscribe(bob, "dora/w");
    struct bus_slot *slot = must_reserve(alice, "w");
    must_flush(alice);
    memset(value, 'x', sizeof value - 1);
    must_publish(dora, "w", "%s", value);
    expect_value(bulk, "dora/w", 0, "%s", value); /* it is in the log, and its sync begins */
    fail_slot(&slot, "test.failed", "meanwhile");
    expect_code(bus_sub_recv(sub, SYNC_MS / 2, &msg, &error), BUS_EFAILED);
    bus_error_unref(&error);
    must_flush(dora);
    bus_sub_close(&bulk);
    bus_sub_close(&sub);
    must_close(&dora);
    must_close(&bob);
    must_close(&alice);
}

/* ---- refused ----------------------------------------------------------------------------------*/

/* Taps learn what the log says. */
static void expect_told(struct bus_tap *tap, const char *name, const char *words)
{
    const struct bus_event *event = expect_event(tap, name, NULL);
    cr_expect_eq(strncmp(bus_event_text(event), words, strlen(words)), 0, "%s",
                 bus_event_text(event));
    cr_expect_eq(bus_event_count(event), 0);
    cr_expect_eq(bus_event_is_durable(event), 0, "it waits for nothing");
}

/* Nothing is acknowledged before it is written, and then all of it. */
static void expect_patience(const char *fault, const char *sentence)
{
    enum { COUNT = 60 };
    start_traced(fault);
    struct bus *alice = open_quiet("alice");
    struct bus *bob = open_quiet("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    for (int i = 0; i < COUNT; i++) {
        must_publish(alice, "w", "%d", i);
        must_flush(alice);
    }
    expect_complaint(sentence);
    expect_complaint("it can be written again");
    expect_told(tap, "journal.refused", "nothing is accepted until the journal can be written: ");
    expect_told(tap, "journal.well", "it can be written again: values are accepted again");
    bus_tap_close(&tap);
    for (int i = 0; i < COUNT; i++) {
        expect_value(sub, "alice/w", (uint64_t)i, "%d", i);
    }
    bus_sub_close(&sub);
    must_close(&bob);
    must_close(&alice);
}

Test(journal_disk, is_tried_again_when_a_write_fails)
{
    expect_patience("inject=pwritev:error=EIO:when=40..47",
                    "nothing is accepted until the journal can be written");
}

Test(journal_disk, is_tried_again_while_it_can_be_read_only)
{
    expect_patience("inject=pwritev:error=EROFS:when=40..47", "Read-only file system");
}

/* ---- full -------------------------------------------------------------------------------------*/

/* A small file system that is seen by us and our children alone. */
static void mount_volume(int mib)
{
    char volume[FOLDER_PATH_BYTES_MAX + 16];
    char size[32];
    snprintf(size, sizeof size, "size=%dm", mib);
    snprintf(volume, sizeof volume, "%s/volume", revival.folder.path);
    cr_assert_eq(mkdir(volume, 0700), 0);
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("errbus-test", volume, "tmpfs", 0, size) != 0) {
        const char *why = strerror(errno);
        tear_down(); /* which is not called for a test that is skipped */
        cr_skip_test("no file system may be mounted here: %s", why);
    }
    snprintf(revival.journal, sizeof revival.journal, "%s/volume/journal", revival.folder.path);
}

static void start_small(void)
{
    static const char *const wide[] = {"--topic-window", "256M", /* more than a volume holds */
                                       "--topic-keep", "4M", NULL};
    static const char *const environment[] = {"ERRBUS_NUMBER_SEGMENT_BYTES=16777216", NULL};
    cr_assert(revival_start_failing("disk", environment, wide), "%s",
              process_complained(&stage.process));
}

static void fill_volume(const char *path)
{
    static const char zeros[4096];
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    cr_assert_geq(fd, 0);
    while (write(fd, zeros, sizeof zeros) > 0)
        continue;
    cr_assert_eq(errno, ENOSPC);
    close(fd);
}

/* In a status, with a sentence where something is wrong. */
static void expect_journal(enum bus_journal_state state)
{
    struct bus_status *status = NULL;
    struct bus_error *error = NULL;
    struct bus_admin *admin = NULL;
    expect_code_of(bus_admin_open(revival.control, NULL, SOON_MS, &admin, &error), BUS_OK, &error);
    expect_code_of(bus_admin_status_get(admin, BUS_JOB_ALL, SOON_MS, &status, &error), BUS_OK,
                   &error);
    bus_admin_close(&admin);
    const struct bus_status_journal *told = bus_status_journal(status);
    cr_expect_eq(told->state, state);
    cr_expect_str_eq(told->directory, revival.journal);
    cr_expect_eq(told->reason[0] == '\0', state == BUS_JOURNAL_WELL, "'%s'", told->reason);
    cr_expect_geq(told->bytes, 256 * 1024, "the first segment");
    bus_status_free(&status);
}

static void expect_large(struct bus_sub *sub, uint64_t seq)
{
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    size_t bytes = 0;
    enum bus_err err = bus_sub_recv(sub, SOON_MS, &msg, &error);
    expect_code_of(err, BUS_OK, &error);
    cr_assert_eq(bus_msg_seq(msg), seq);
    (void)bus_msg_value(msg, &bytes);
    cr_assert_eq(bytes, VALUE_BYTES);
    bus_msg_free(&msg);
}

static bool has_complained(const char *words)
{
    const char *line = "";
    while (process_complaint(&stage.process, BUS_POLL, &line))
        if (strstr(line, words) != NULL)
            return true;
    return false;
}

/* Publishes until the volume is full, and one more, which is not let in; how many were taken over.
 * A call that gives up says nothing of the volume: the broker may just be slow. */
static uint64_t publish_until_full(struct bus *bus)
{
    static const char value[VALUE_BYTES];
    uint64_t count = 0;
    while (!has_complained("no values are accepted until the disk has room"))
        count += bus_publish(bus, "w", value, sizeof value) == BUS_OK;
    count += bus_publish(bus, "w", value, sizeof value) == BUS_OK;
    return count;
}

/* `errbus ping` with this flag (NULL: none) ends with this status, and says these words. */
static void expect_ping(const char *flag, int status, const char *words)
{
    struct process process = {0};
    const char *const argv[] = {"errbus", "ping", "-s", revival.control, "-W", "20", flag, NULL};
    cr_assert(process_start(&process, argv, NULL));
    cr_expect_eq(process_wait(&process, SOON_MS), status, "%s", process_complained(&process));
    cr_expect(strstr(process_said(&process), words) != NULL ||
                  strstr(process_complained(&process), words) != NULL,
              "no '%s' in: %s%s", words, process_said(&process), process_complained(&process));
    process_fini(&process);
}

static void expect_readiness(unsigned port, unsigned status, const char *words)
{
    int64_t until_ms = test_now_ms() + SOON_MS;
    while (fetch(port, "/readyz") != status) /* an answer is a second old at most */
        cr_assert_lt(test_now_ms(), until_ms, "no %u: %s", status, fetch_answer());
    fetch_expect_in_body(words);
}

Test(journal_disk, that_is_refused_is_not_ready)
{
    struct process web = {0};
    fetch_needs_web();
    start_traced("inject=pwritev:error=EIO:when=40+");
    unsigned port = fetch_start_web(&web, revival.control, NULL, NULL);
    struct bus *alice = open_quiet("alice");
    expect_readiness(port, 200, "ready\n");
    int count = 0;
    do /* a write for each, until it fails */
        must_publish(alice, "w", "%d", count);
    while (bus_flush(alice, AT_ONCE_MS) == BUS_OK && ++count < 1000);
    expect_complaint("nothing is accepted until the journal can be written");
    expect_readiness(port, 503, "not ready: the journal cannot be written now");
    process_fini(&web);
    (void)bus_close(&alice, BUS_POLL); /* what it wrote waits */
}

Test(journal_disk, that_is_full_is_not_ready)
{
    char ballast[FOLDER_PATH_BYTES_MAX + 32];
    struct process web = {0};
    fetch_needs_web();
    mount_volume(THREE_SEGMENTS_MIB);
    start_small();
    unsigned port = fetch_start_web(&web, revival.control, NULL, NULL);
    struct bus *alice = open_quiet("alice");
    expect_ping("--ready", 0, "");
    expect_readiness(port, 200, "ready\n");
    snprintf(ballast, sizeof ballast, "%s/volume/ballast", revival.folder.path);
    fill_volume(ballast);
    (void)publish_until_full(alice); /* how many does not matter here */
    expect_ping("--ready", 1, "values wait until its disk has room");
    expect_ping(NULL, 0, "");
    expect_readiness(port, 503, "not ready: the journal's disk is full");
    cr_assert_eq(unlink(ballast), 0);
    expect_complaint("it can be written again");
    expect_ping("--ready", 0, "");
    expect_readiness(port, 200, "ready\n");
    process_fini(&web);
    must_close(&alice);
}

Test(journal_disk, that_is_full_holds_values_back_and_settles_failures)
{
    char ballast[FOLDER_PATH_BYTES_MAX + 32];
    mount_volume(THREE_SEGMENTS_MIB);
    start_small();
    struct bus *alice = open_quiet("alice");
    struct bus *bob = open_quiet("bob");
    struct bus *dora = open_quiet("dora");
    struct bus_sub *sub = must_subscribe(bob, "dora/w");
    struct bus_sub *held = must_subscribe(bob, "alice/w");
    struct bus_slot *slot = must_reserve(dora, "w");
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    must_publish(dora, "w", "before");
    must_flush(dora);
    snprintf(ballast, sizeof ballast, "%s/volume/ballast", revival.folder.path);
    fill_volume(ballast);
    uint64_t count = publish_until_full(alice);
    expect_code(bus_flush(alice, 100), BUS_ETIMEDOUT);
    expect_journal(BUS_JOURNAL_FULL);
    expect_told(tap, "journal.full", "no values are accepted until the disk has room: ");
    fail_slot(&slot, "test.failed", "on a full disk");
    expect_failed(sub, "dora/w", 0, "application");
    expect_value(sub, "dora/w", 1, "before");
    struct bus *carol = open_quiet("carol"); /* who comes now may read, too */
    struct bus_sub *late = must_subscribe(carol, "dora/w");
    expect_failed(late, "dora/w", 0, "application");
    expect_value(late, "dora/w", 1, "before");
    cr_assert_eq(unlink(ballast), 0);
    expect_complaint("it can be written again");
    expect_journal(BUS_JOURNAL_WELL);
    expect_told(tap, "journal.well", "it can be written again: values are accepted again");
    must_flush(alice);
    for (uint64_t i = 0; i < count; i++)
        expect_large(held, i);
    bus_tap_close(&tap);
    bus_sub_close(&late);
    bus_sub_close(&held);
    bus_sub_close(&sub);
    must_close(&dora);
    must_close(&carol);
    must_close(&bob);
    must_close(&alice);
}

static struct bus_sub *subscribe_durably(struct bus *bus, const char *pattern)
{
    struct bus_sub_options options;
    bus_sub_options_init(&options);
    options.name = "reader";
    return must_subscribe_with(bus, pattern, &options);
}

/* More than the volume holds passes through it. */
static void expect_flow(struct bus *writer, struct bus_sub *sub, uint64_t from)
{
    static const char value[VALUE_BYTES];
    for (uint64_t i = from; i < from + 5000; i++) {
        expect_code(bus_publish(writer, "w", value, sizeof value), BUS_OK);
        expect_large(sub, i);
    }
}

/* What fills the volume are values alone: read and acknowledged, they make room for more.  A value
 * that nobody takes is no obstacle: it is written anew elsewhere. */
static void expect_room_from_reader(size_t left_bytes)
{
    char *behind = malloc(left_bytes + 1);
    cr_assert_not_null(behind);
    memset(behind, 'b', left_bytes);
    behind[left_bytes] = '\0';
    mount_volume(THREE_SEGMENTS_MIB);
    start_small();
    struct bus *alice = open_quiet("alice");
    struct bus *bob = open_quiet("bob");
    struct bus *dora = open_quiet("dora");
    struct bus_sub *left = subscribe_durably(dora, "alice/left");
    must_publish(alice, "left", "%s", behind);
    must_flush(alice);
    struct bus_sub *sub = subscribe_durably(bob, "alice/w");
    uint64_t count = publish_until_full(alice);
    for (uint64_t i = 0; i < count; i++)
        expect_large(sub, i);
    expect_complaint("it can be written again");
    must_flush(alice);
    expect_flow(alice, sub, count);
    expect_value(left, "alice/left", 0, "%s", behind);
    must_flush(bob);
    bus_sub_close(&left);
    bus_sub_close(&sub);
    must_close(&dora);
    must_close(&bob);
    must_close(&alice);
    free(behind);
}

Test(journal_disk, that_is_full_gets_room_from_who_reads)
{
    expect_room_from_reader(6);
}

/* The first file of a journal has 256 KiB.  So this value is most of it, and little of what goes
 * when it is written anew. */
Test(journal_disk, that_is_full_gets_room_behind_a_file_that_is_mostly_wanted)
{
    expect_room_from_reader((size_t)200 * 1024);
}

Test(journal_disk, that_can_be_read_only_is_refused_at_the_start)
{
    char path[512];
    char volume[FOLDER_PATH_BYTES_MAX + 16];
    mount_volume(THREE_SEGMENTS_MIB);
    start_small();
    process_signal(&stage.process, SIGTERM);
    cr_assert_eq(process_wait(&stage.process, SOON_MS), 0);
    broker_fini(&stage);
    snprintf(volume, sizeof volume, "%s/volume", revival.folder.path);
    cr_assert_eq(mount(NULL, volume, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
    process_path("errbusd", path, sizeof path);
    const char *const argv[] = {path,         "--control", revival.control, "--data",
                                revival.data, "--journal", revival.journal, NULL};
    cr_assert(process_start(&stage.process, argv, NULL));
    cr_assert_eq(process_wait(&stage.process, SOON_MS), 1);
    cr_assert_not_null(strstr(process_complained(&stage.process), "Read-only file system"), "%s",
                       process_complained(&stage.process));
}

/* ---- more than can be parked ------------------------------------------------------------------*/

enum { PUSHERS = 4, PUSHED = 320, PUSHED_BYTES = 64 * 1024 }; /* 20 MiB each, 80 in all */
/* More would not fit the credit of one. */
static const char *const topics[] = {"w0", "w1", "w2", "w3"};

static struct bus *open_pusher(int index)
{
    char name[16];
    struct bus_options options;
    snprintf(name, sizeof name, "p%d", index);
    bus_options_init(&options);
    options.party = name;
    options.heartbeat_ms = 200;    /* it tries again and again, */
    options.broker_lost_ms = 8000; /* with pauses that double up to this */
    options.lost_after_ms = 20000;
    options.send_timeout_ms = SOON_MS;
    options.disclosure = BUS_DISCLOSURE_FULL; /* its errors are long */
    return must_open_with(&options);
}

/* However much waits for room, whoever comes is let in, can read, and is heard; and all of it goes
 * in then, though it could not all be parked. */
Test(journal_disk, that_is_full_lets_parties_in_whatever_waits_for_room)
{
    static const char value[PUSHED_BYTES];
    struct bus *pushers[PUSHERS];
    char ballast[FOLDER_PATH_BYTES_MAX + 32];
    mount_volume(NINE_SEGMENTS_MIB);
    start_small();
    struct bus *dora = open_quiet("dora");
    struct bus_slot *slot = must_reserve(dora, "w");
    must_flush(dora);
    for (int i = 0; i < PUSHERS; i++)
        pushers[i] = open_pusher(i);
    snprintf(ballast, sizeof ballast, "%s/volume/ballast", revival.folder.path);
    fill_volume(ballast);
    for (int k = 0; k < PUSHED; k++)
        for (int i = 0; i < PUSHERS; i++)
            expect_code(bus_publish(pushers[i], topics[k % 4], value, sizeof value), BUS_OK);
    expect_complaint("no values are accepted until the disk has room");
    for (int i = 0; i < PUSHERS; i++) /* long enough to try again */
        expect_code(bus_flush(pushers[i], 300), BUS_ETIMEDOUT);
    struct bus *carol = open_quiet("carol");
    struct bus_sub *sub = must_subscribe(carol, "dora/w");
    fail_slot(&slot, "test.failed", "on a full disk");
    expect_failed(sub, "dora/w", 0, "application");
    cr_assert_eq(unlink(ballast), 0);
    expect_complaint("it can be written again");
    for (int i = 0; i < PUSHERS; i++) {
        must_flush(pushers[i]);
        must_close(&pushers[i]);
    }
    bus_sub_close(&sub);
    must_close(&carol);
    must_close(&dora);
}

/* ---- more bad news than there is room for -----------------------------------------------------*/

enum { FAILURES = 1000 }; /* of 16 KiB and more: all that is set aside at first */

static void fail_at_length(struct bus_slot **slot)
{
    char text[20000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    struct bus_error *error = bus_error_new("test.failed", NULL, "at length");
    bus_error_set_stacktrace(error, text);
    bus_slot_fail(slot, error);
    bus_error_unref(&error);
}

/* What is set aside is not used up by errors at any length: room is left for who reads to make
 * more, and then the rest of them settle. */
Test(journal_disk, that_is_full_keeps_a_way_out_however_much_fails)
{
    static struct bus_slot *slots[FAILURES];
    mount_volume(NINE_SEGMENTS_MIB);
    start_small();
    struct bus *alice = open_quiet("alice");
    struct bus *bob = must_open("bob"); /* who is not quiet: each beat brings acknowledgements */
    struct bus *dora = open_pusher(0);
    struct bus *erin = open_quiet("erin");
    struct bus_sub *failures = must_subscribe(erin, "p0/w");
    for (int i = 0; i < FAILURES; i++)
        slots[i] = must_reserve(dora, "w");
    must_flush(dora);
    struct bus_sub *sub = subscribe_durably(bob, "alice/w");
    uint64_t count = publish_until_full(alice);
    for (int i = 0; i < FAILURES; i++)
        fail_at_length(&slots[i]);
    expect_complaint("the reserve is nearly used up");
    for (uint64_t i = 0; i < count; i++)
        expect_large(sub, i);
    expect_complaint("it can be written again");
    for (uint64_t i = 0; i < FAILURES; i++)
        expect_failed(failures, "p0/w", i, "application");
    must_flush(dora);
    bus_sub_close(&failures);
    bus_sub_close(&sub);
    must_close(&erin);
    must_close(&dora);
    must_close(&bob);
    must_close(&alice);
}
