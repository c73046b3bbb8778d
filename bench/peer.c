/* SPDX-License-Identifier: MPL-2.0 */
/* peer.c -- the roles in which every system under measure does the same work; see peer.h. */
#include "bench/peer.h"

#include "tests/lib/folder.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TELL_EVERY 8192 /* values */

void *peer_allocate(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (memory == NULL) {
        bench_die("no memory");
    }
    return memory;
}

/* ---- what a reader counts -------------------------------------------------------------------- */

void tally_init(struct tally *tally, const struct peer_work *work)
{
    *tally = (struct tally){.bytes = work->bytes,
                            .end = work->count > 0 ? work->count : UINT64_MAX,
                            .next_tell = work->is_told != 0 ? TELL_EVERY : UINT64_MAX,
                            .told_every_ns = (int64_t)work->told_ns,
                            .samples_end = work->samples > 0 ? work->samples : UINT64_MAX,
                            .beside_bytes = work->beside};
}

static void tell(struct tally *tally)
{
    printf("at %llu %lld\n", (unsigned long long)tally->count, (long long)test_now_ns());
    fflush(stdout);
    tally->next_tell = tally->count + TELL_EVERY;
}

static void take_sample(struct tally *tally, int64_t ns)
{
    if (tally->told_every_ns == 0) {
        samples_add(&tally->samples, ns);
        return;
    }
    printf("sample %lld\n", (long long)ns);
    fflush(stdout);
}

static void tell_by_time(struct tally *tally)
{
    int64_t now_ns = test_now_ns();
    if (now_ns >= tally->told_at_ns + tally->told_every_ns) {
        tally->told_at_ns = now_ns;
        tell(tally);
    }
}

void tally_value(struct tally *tally, const void *value, size_t bytes)
{
    struct peer_stamp stamp = {.number = UINT64_MAX};
    bool is_beside = bytes == tally->beside_bytes;
    uint64_t due = is_beside ? tally->beside_count : tally->count;
    if (bytes >= sizeof stamp) {
        memcpy(&stamp, value, sizeof stamp);
    }
    if ((bytes != tally->bytes && !is_beside) || stamp.number != due) {
        bench_die("not what was sent: %zu bytes, number %llu where %llu was due", bytes,
                  (unsigned long long)stamp.number, (unsigned long long)due);
    }
    if (stamp.sent_ns != 0) {
        take_sample(tally, test_now_ns() - stamp.sent_ns);
    }
    tally->beside_count += is_beside ? 1 : 0;
    tally->count += is_beside ? 0 : 1;
    if (tally->count >= tally->next_tell) {
        tell(tally);
    }
    if (tally->told_every_ns > 0) {
        tell_by_time(tally);
    }
}

bool tally_is_full(const struct tally *tally)
{
    return tally->count >= tally->end || tally->samples.count >= tally->samples_end;
}

void tally_fini(struct tally *tally)
{
    samples_fini(&tally->samples);
}

/* ---- serving --------------------------------------------------------------------------------- */

void peer_tell_endpoint(const char *format, ...)
{
    va_list args;
    role_ready();
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

void peer_become_server(const struct peer_work *work, const char *const *argv)
{
    char path[FOLDER_PATH_BYTES_MAX + 8];
    snprintf(path, sizeof path, "%s/log", work->folder);
    int log = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (log < 0 || dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0) {
        bench_die("%s cannot be written", path);
    }
    execv(work->server, (char *const *)(uintptr_t)argv);
    bench_die("%s cannot be started", work->server);
}

void peer_write_file(const struct peer_work *work, const char *name, const char *text, char *path)
{
    struct folder folder;
    snprintf(folder.path, sizeof folder.path, "%s", work->folder);
    if (!folder_write(&folder, name, text, path)) {
        bench_die("%s cannot be written in %s", name, work->folder);
    }
}

/* ---- writing and reading ----------------------------------------------------------------------*/

struct source {
    const struct peer *peer;
    const struct peer_work *work;
    void *writer;
    char *values;
    uint64_t sent;
    int64_t tenth_ns;    /* when a tenth had been sent */
    int64_t stamp_at_ns; /* when the next is timed */
};

static void put_stamp(struct source *source, size_t index, int64_t sent_ns)
{
    struct peer_stamp stamp = {.number = source->sent + index, .sent_ns = sent_ns};
    memcpy(source->values + index * source->work->bytes, &stamp, sizeof stamp);
}

static void send_paced(struct source *source)
{
    int64_t at_ns = test_now_ns();
    while (source->work->count == 0 || source->sent < source->work->count) {
        bench_sleep_until(at_ns += (int64_t)source->work->every_ns);
        put_stamp(source, 0, test_now_ns());
        source->peer->send(source->writer, source->values, 1);
        source->peer->flush(source->writer);
        source->sent++;
    }
}

/* 0, or now if one that is timed is due. */
static int64_t stamp_due(struct source *source)
{
    if (source->work->stamp_ns == 0) {
        return 0;
    }
    int64_t now_ns = test_now_ns();
    if (now_ns < source->stamp_at_ns) {
        return 0;
    }
    source->stamp_at_ns = now_ns + (int64_t)source->work->stamp_ns;
    return now_ns;
}

static void send_all(struct source *source)
{
    uint64_t count = source->work->count > 0 ? source->work->count : UINT64_MAX;
    while (source->sent < count) {
        uint64_t left = count - source->sent;
        size_t group = left < source->work->group ? (size_t)left : source->work->group;
        int64_t stamp_ns = stamp_due(source);
        for (size_t i = 0; i < group; i++) {
            put_stamp(source, i, i + 1 == group ? stamp_ns : 0);
        }
        source->peer->send(source->writer, source->values, group);
        source->sent += group;
        if (source->tenth_ns == 0 && source->sent >= count / 10) {
            source->tenth_ns = test_now_ns();
        }
    }
}

static int write_values(const struct peer *peer, struct peer_work *work)
{
    work->group = work->group > 0 && work->every_ns == 0 ? work->group : 1;
    struct source source = {.peer = peer,
                            .work = work,
                            .writer = peer->open_writer(work),
                            .values = peer_allocate(work->bytes * work->group)};
    role_ready();
    role_wait_go();
    if (peer->await_readers != NULL) {
        peer->await_readers(source.writer, work->readers);
    }
    if (work->every_ns > 0) {
        send_paced(&source);
    } else {
        send_all(&source);
    }
    peer->flush(source.writer);
    role_say_done(source.tenth_ns);
    role_wait_go();
    free(source.values);
    return 0;
}

static int read_values(const struct peer *peer, const struct peer_work *work)
{
    struct tally tally;
    tally_init(&tally, work);
    void *reader = peer->open_reader(work);
    role_ready();
    peer->read(reader, &tally);
    printf("read %lld %zu\n", (long long)test_now_ns(), tally.samples.count);
    samples_say(&tally.samples);
    role_wait_go();
    tally_fini(&tally);
    return 0;
}

/* ---- the words --------------------------------------------------------------------------------*/

static bool take_word(struct peer_work *work, const char *word)
{
    const struct {
        const char *name;
        const char **text;
        uint64_t *number;
    } names[] = {{"at", &work->at, NULL},
                 {"mode", &work->mode, NULL},
                 {"folder", &work->folder, NULL},
                 {"server", &work->server, NULL},
                 {"topic", &work->topic, NULL},
                 {"ipc", NULL, &work->is_ipc},
                 {"bytes", NULL, &work->bytes},
                 {"count", NULL, &work->count},
                 {"group", NULL, &work->group},
                 {"readers", NULL, &work->readers},
                 {"every_ns", NULL, &work->every_ns},
                 {"stamp_ns", NULL, &work->stamp_ns},
                 {"samples", NULL, &work->samples},
                 {"beside", NULL, &work->beside},
                 {"told", NULL, &work->is_told},
                 {"told_ns", NULL, &work->told_ns}};
    size_t bytes = strcspn(word, "=");
    for (size_t i = 0; word[bytes] == '=' && i < sizeof names / sizeof names[0]; i++) {
        if (strlen(names[i].name) != bytes || strncmp(names[i].name, word, bytes) != 0) {
            continue;
        }
        if (names[i].text != NULL) {
            *names[i].text = word + bytes + 1;
        } else {
            *names[i].number = strtoull(word + bytes + 1, NULL, 10);
        }
        return true;
    }
    return false;
}

int peer_main(const struct peer *peer, int argc, char **argv)
{
    struct peer_work work = {.at = "", .mode = "", .folder = "", .server = "", .topic = "v"};
    const char *role = argc > 1 ? argv[1] : "";
    for (int i = 2; i < argc; i++) {
        if (!take_word(&work, argv[i])) {
            bench_die("%s: not a word for a role: %s", argv[0], argv[i]);
        }
    }
    if (strcmp(role, "serve") == 0) {
        peer->serve(&work);
        return 0;
    }
    bool is_writer = strcmp(role, "write") == 0;
    if ((!is_writer && strcmp(role, "read") != 0) || work.bytes < PEER_BYTES_MIN) {
        fprintf(stderr, "usage: %s serve|write|read NAME=VALUE..., started by the questions\n",
                argv[0]);
        return 2;
    }
    return is_writer ? write_values(peer, &work) : read_values(peer, &work);
}
