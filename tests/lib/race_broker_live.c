/* SPDX-License-Identifier: MPL-2.0 */
/* race_broker_live.c -- see race_broker.h: a process, and the real link, whose waits are counted.
 *
 * The linker leads link_wait() through here. */
#include "tests/lib/race_broker.h"

#include "libbus/base/must.h"
#include "libbus/io/link.h"
#include "tests/lib/broker.h"
#include "tests/lib/folder.h"

#include <bus/access.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PATH_BYTES = FOLDER_PATH_BYTES_MAX + 16, TEXT_BYTES = 256, WAITERS_MAX = 256 };

const bool race_is_live = true;

struct race_broker {
    struct folder folder;
    struct broker broker;
};

static void make_key(const struct folder *folder, const char *name, char path[PATH_BYTES],
                     char text[BUS_KEY_TEXT_BYTES])
{
    (void)snprintf(path, PATH_BYTES, "%s/%s", folder->path, name);
    must(bus_key_new(path, text, NULL) == BUS_OK);
}

static struct race_broker *_Atomic running; /* the last one */

/* A broker that ended by itself says why, or where ThreadSanitizer saw a race. */
static bool has_ended(struct race_broker *broker)
{
    if (process_wait(&broker->broker.process, 0) < 0)
        return false;
    (void)fputs(process_complained(&broker->broker.process), stderr);
    return true;
}

static void tell_end(void)
{
    struct race_broker *broker = atomic_exchange(&running, NULL);
    if (broker == NULL)
        return;
    (void)has_ended(broker);
    folder_fini(&broker->folder);
}

/* The parties of this process have one key, and may do everything. */
struct race_broker *race_broker_start(const char *name)
{
    char broker_key[PATH_BYTES], party_key[PATH_BYTES], access[FOLDER_PATH_BYTES_MAX];
    char broker_text[BUS_KEY_TEXT_BYTES], party_text[BUS_KEY_TEXT_BYTES];
    char text[TEXT_BYTES];
    struct race_broker *broker = calloc(1, sizeof *broker);
    must(broker != NULL && folder_make(&broker->folder));
    make_key(&broker->folder, "broker", broker_key, broker_text);
    make_key(&broker->folder, "party", party_key, party_text);
    (void)snprintf(text, sizeof text, "key all %s\nallow all party as * in *\nallow all admin\n",
                   party_text);
    must(folder_write(&broker->folder, "access", text, access));
    must(setenv("ERRBUS_KEY", party_key, 1) == 0);
    if (broker_start(&broker->broker,
                     (const char *const[]){"--access", access, "--key", broker_key, NULL})) {
        static atomic_bool is_told;
        atomic_store(&running, broker);
        must(atomic_exchange(&is_told, true) || atexit(tell_end) == 0);
        return broker;
    }
    (void)fprintf(stderr, "errbusd for %s is not ready: %s\n", name,
                  process_complained(&broker->broker.process));
    exit(1);
}

const char *race_broker_endpoint(const struct race_broker *broker)
{
    return broker->broker.control;
}

const char *race_broker_data_endpoint(const struct race_broker *broker)
{
    return broker->broker.data;
}

void race_broker_hold(struct race_broker *broker, bool is_held)
{
    process_signal(&broker->broker.process, is_held ? SIGSTOP : SIGCONT);
}

void race_broker_kill(struct race_broker **broker)
{
    struct race_broker *killed = *broker;
    *broker = NULL;
    if (killed == NULL)
        return;
    bool is_faulty = has_ended(killed);
    (void)atomic_compare_exchange_strong(&running, &(struct race_broker *){killed}, NULL);
    broker_fini(&killed->broker);
    folder_fini(&killed->folder);
    free(killed);
    if (is_faulty)
        exit(1);
}

/* ---- waits ----------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    long thread; /* 0: free */
    uint64_t waits;
} waiters[WAITERS_MAX];

uint64_t race_waits_of(long thread)
{
    uint64_t waits = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < WAITERS_MAX; i++)
        waits += waiters[i].thread == thread ? waiters[i].waits : 0;
    pthread_mutex_unlock(&lock);
    return waits;
}

void __real_link_wait(struct link *link, int64_t timeout_ms);
void __wrap_link_wait(struct link *link, int64_t timeout_ms);

void __wrap_link_wait(struct link *link, int64_t timeout_ms)
{
    size_t i = 0;
    pthread_mutex_lock(&lock);
    while (i < WAITERS_MAX && waiters[i].thread != 0 && waiters[i].thread != gettid())
        i++;
    if (i < WAITERS_MAX) {
        waiters[i].thread = gettid();
        waiters[i].waits += 1;
    }
    pthread_mutex_unlock(&lock);
    __real_link_wait(link, timeout_ms);
}
