/* SPDX-License-Identifier: MPL-2.0 */
/* postgres_harm_test.c -- two brokers of one shard over a real PostgreSQL with two standbys, and
 * parties at work, while one thing after the other is harmed: brokers are killed, stopped and
 * paused, the primary is killed, or stopped until another one is promoted, a standby is stopped,
 * commits are cancelled, and cables are cut, or carry nothing one way or both.
 *
 * By the diaries of the parties (tests/lib/diaries.h) nothing acknowledged is lost, nothing comes
 * twice, and all readers see one outcome.  A pulse publishes and flushes all the time, and another
 * party reads that in order.  Whoever knows the broker that was replaced, and no other, is never
 * told by it that a value was accepted.  Each wait ends, or the test does.
 *
 *   TEST_LONG=1        100 kills of a broker, and 30 of each of the others
 *   TORTURE_PART=N     an Nth of them
 *   TORTURE_ONLY=NAME  one of them alone, such as 'brokers killed'
 *   TORTURE_SEED=N     another course of events; it is told if the test fails */
#include "tests/lib/cable.h"
#include "tests/lib/diaries.h"
#include "tests/lib/shard.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    STANDBYS = 2,
    NODES = STANDBYS + 1,
    WRITERS = 3,
    READERS = 2,
    PARTIES = WRITERS + READERS,
    EXIT_OVER = 3,
    PULSE_MS = 5,
    SETTLED_MS = 3500, /* a spare that is connected for so long takes over at once */
    AN_END_MS = 300000,
    KILLS_MAX = 100,
};

enum harm {
    BROKER_KILLED,
    BROKER_STOPPED, /* until another one serves: then it is a zombie */
    BROKER_PAUSED,  /* for 1 to 20 s, and nobody knows whether it was replaced */
    PRIMARY_KILLED,
    PRIMARY_STOPPED, /* then it takes writes again, and does not know that it was replaced */
    COMMIT_CANCELLED,
    CLIENTS_CUT,
    STORE_CUT, /* from the broker that serves */
    STANDBYS_CUT,
    STANDBY_STOPPED, /* one of them: the other one confirms */
    HARMS,
};
static const char *const names[HARMS] = {
    "brokers killed",    "brokers stopped",   "brokers paused", "primaries killed",
    "primaries stopped", "commits cancelled", "clients cut",    "stores cut",
    "standbys cut",      "standbys stopped"};
/* Of the cables from each broker to the nodes, and of that between the nodes. */
static const char *const prefixes[] = {"a", "b", "u"};
static const unsigned counts_short[HARMS] = {3, 1, 1, 1, 1, 2, 1, 2, 1, 1};
static const unsigned counts_long[HARMS] = {KILLS_MAX, 30, 30, 30, 30, 30, 30, 30, 30, 30};

struct torturer {
    struct process process;
    char name[16];
    unsigned starts;
    bool is_writer;
    bool is_done;
};

/* A thread that publishes a number and flushes, over and over; and one that reads them. */
static struct pulse {
    struct bus *writer;
    struct bus *reader;
    pthread_t threads[2];
    bool is_started;
    atomic_bool is_over;
    atomic_bool is_still;      /* nothing is published any more */
    atomic_ullong begun_ns;    /* when the value was published that was acknowledged last ... */
    atomic_ullong answered_ns; /* ... and when that was */
    atomic_ullong count;       /* acknowledged */
    atomic_ullong read;
    atomic_int wrong; /* a code of the bus, or -1: not what was published */
} pulse;

static struct postgres postgres;
static struct shard shard;
static struct cable client_cable, standby_cable, store_cables[SHARD_PLACES];
static char stores[SHARD_PLACES][POSTGRES_CONNINFO_BYTES];
static char advertised[SHARD_PLACES][POSTGRES_PATH_BYTES + 16];
static char clients[2 * (POSTGRES_PATH_BYTES + 16)]; /* all brokers, by the cable of clients */
static struct torturer torturers[PARTIES];
static int64_t started_ms[SHARD_PLACES]; /* or connected to another primary */
static int serving;                      /* the place of the broker that has the shard */
static bool is_ending;
static uint64_t seed, dice;
static unsigned done[HARMS];
static unsigned over_count, zombie_count;
/* From a harm to the next acknowledgement. */
static struct times {
    double ms[KILLS_MAX];
    size_t count;
} waits[HARMS];

#define MUST(call) cr_assert(call, "seed %llu: %s", (unsigned long long)seed, postgres.why)

static uint64_t below(uint64_t count)
{
    dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (dice >> 33) % count;
}

/* ---- the parties ----------------------------------------------------------------------------- */

static void start_torturer(struct torturer *torturer)
{
    static const char *const environment[] = {"TORTURE_WAIT_MS=400", "TORTURE_PATIENCE_MS=120000",
                                              NULL};
    char incarnation[16], diary[POSTGRES_PATH_BYTES + 32], last[16];
    snprintf(incarnation, sizeof incarnation, "%u", torturer->starts++);
    snprintf(diary, sizeof diary, "%s/%s.diary", postgres.folder.path, torturer->name);
    snprintf(last, sizeof last, "%u", torturer->is_writer ? (unsigned)below(1000000) : WRITERS);
    const char *const argv[] = {"test_torturer",
                                clients,
                                torturer->is_writer ? "write" : "read",
                                torturer->name,
                                incarnation,
                                diary,
                                last,
                                NULL};
    cr_assert(process_start(&torturer->process, argv, environment), "test_torturer");
    if (is_ending && torturer->is_writer)
        process_say(&torturer->process, "\n", 1);
}

/* What the brokers said, and what each session of the store waits for. */
static void tell_state(void)
{
    char answer[4000] = "";
    unsigned primary = postgres_primary(&postgres);
    for (int place = 0; place < SHARD_PLACES; place++) {
        (void)process_wait(&shard.brokers[place], 0); /* reads what it said */
        fprintf(stderr, "broker %d, process %d: %s", place, (int)shard.brokers[place].pid,
                process_complained(&shard.brokers[place]));
    }
    if (primary < NODES &&
        postgres_query(&postgres, primary,
                       "SELECT string_agg(format('%s %s %s %s %s by %s: %s', pid, state,"
                       " wait_event_type, wait_event, now() - state_change, pg_blocking_pids(pid),"
                       " left(query, 80)), ' | ') FROM pg_stat_activity"
                       " WHERE application_name = 'errbusd'",
                       answer, sizeof answer))
        fprintf(stderr, "node%u: %s\n", primary, answer);
}

/* Whether it has come to its end; an incarnation that the bus declared over gets another one. */
static bool look_at(struct torturer *torturer)
{
    if (torturer->is_done)
        return true;
    int code = process_wait(&torturer->process, 0);
    if (code < 0)
        return false;
    bool is_well = code == EXIT_OVER || (code == 0 && is_ending);
    if (!is_well)
        tell_state();
    cr_assert(is_well, "seed %llu: %s ended with %d: %s", (unsigned long long)seed, torturer->name,
              code, process_complained(&torturer->process));
    process_fini(&torturer->process);
    torturer->is_done = code == 0;
    over_count += code != 0;
    if (code != 0)
        start_torturer(torturer);
    return torturer->is_done;
}

static void pass_ms(int64_t ms)
{
    (void)poll(NULL, 0, (int)ms);
    for (int i = 0; i < PARTIES; i++)
        (void)look_at(&torturers[i]);
    cr_assert_eq(atomic_load(&pulse.wrong), 0, "seed %llu: the pulse: %d", (unsigned long long)seed,
                 atomic_load(&pulse.wrong));
}

static void start_parties(void)
{
    for (int i = PARTIES - 1; i >= 0; i--) { /* readers first: they shall miss nothing */
        const char *line = NULL;
        torturers[i].is_writer = i < WRITERS;
        snprintf(torturers[i].name, sizeof torturers[i].name, "%c%d", i < WRITERS ? 'w' : 'r',
                 i < WRITERS ? i : i - WRITERS);
        start_torturer(&torturers[i]);
        cr_assert(process_line(&torturers[i].process, SOON_MS, &line), "%s is not ready: %s",
                  torturers[i].name, process_complained(&torturers[i].process));
    }
}

static void come_to_an_end(void)
{
    bool is_over = false;
    int64_t until_ms = test_now_ms() + AN_END_MS;
    is_ending = true;
    for (int i = 0; i < WRITERS; i++)
        process_say(&torturers[i].process, "\n", 1);
    while (!is_over) {
        is_over = true;
        for (int i = 0; i < PARTIES; i++) {
            bool is_done = look_at(&torturers[i]);
            is_over &= is_done;
            cr_assert(is_done || test_now_ms() < until_ms, "seed %llu: %s comes to no end",
                      (unsigned long long)seed, torturers[i].name);
        }
        (void)poll(NULL, 0, 20);
    }
}

/* ---- the pulse ------------------------------------------------------------------------------- */

static void *beat(void *arg)
{
    (void)arg;
    for (unsigned long long i = 0; !atomic_load(&pulse.is_over); i++) {
        int64_t begun_ns = test_now_ns();
        enum bus_err err = bus_publish(pulse.writer, "p", &i, sizeof i);
        if (err == BUS_OK)
            err = bus_flush(pulse.writer, AN_END_MS);
        if (err != BUS_OK) {
            atomic_store(&pulse.wrong, (int)err);
            break;
        }
        atomic_store(&pulse.answered_ns, (unsigned long long)test_now_ns());
        atomic_store(&pulse.begun_ns, (unsigned long long)begun_ns);
        atomic_store(&pulse.count, i + 1);
        (void)poll(NULL, 0, PULSE_MS);
    }
    atomic_store(&pulse.is_still, true);
    return NULL;
}

static void *hear(void *arg)
{
    struct bus_sub *sub = arg;
    for (unsigned long long i = 0;
         !atomic_load(&pulse.is_still) || i < atomic_load(&pulse.count);) {
        struct bus_msg *msg = NULL;
        unsigned long long number = 0;
        enum bus_err err = bus_sub_recv(sub, 100, &msg, NULL);
        if (err == BUS_ETIMEDOUT)
            continue;
        if (err == BUS_OK)
            memcpy(&number, bus_msg_value(msg, NULL), sizeof number);
        bus_msg_free(&msg);
        if (err != BUS_OK || number != i) {
            atomic_store(&pulse.wrong, err != BUS_OK ? (int)err : -1);
            break;
        }
        atomic_store(&pulse.read, ++i);
    }
    bus_sub_close(&sub);
    return NULL;
}

static struct bus *open_patient(const char *endpoint, const char *party)
{
    struct bus_options options = patient_options(party);
    options.broker_lost_ms = AN_END_MS;
    options.send_timeout_ms = AN_END_MS;
    return must_open_at(endpoint, &options);
}

static void start_pulse(void)
{
    pulse.writer = open_patient(shard.everywhere, "pulse");
    pulse.reader = open_patient(shard.everywhere, "listener");
    struct bus_sub *sub = must_subscribe(pulse.reader, "pulse/p");
    pulse.is_started = true;
    cr_assert_eq(pthread_create(&pulse.threads[0], NULL, beat, NULL), 0);
    cr_assert_eq(pthread_create(&pulse.threads[1], NULL, hear, sub), 0);
}

static void stop_pulse(void)
{
    atomic_store(&pulse.is_over, true);
    if (pulse.is_started)
        for (int i = 0; i < 2; i++)
            pthread_join(pulse.threads[i], NULL);
    pulse.is_started = false;
}

/* Waits for the acknowledgement of a value that was published from then on: when was it? */
static int64_t await_beat(int64_t since_ns)
{
    int64_t until_ms = test_now_ms() + AN_END_MS;
    while ((int64_t)atomic_load(&pulse.begun_ns) < since_ns) {
        cr_assert(test_now_ms() < until_ms, "seed %llu: nothing is acknowledged any more",
                  (unsigned long long)seed);
        pass_ms(1);
    }
    return (int64_t)atomic_load(&pulse.answered_ns);
}

static void time_beat(enum harm harm, int64_t since_ns)
{
    struct times *all = &waits[harm];
    double took_ms = (double)(await_beat(since_ns) - since_ns) / 1e6;
    if (all->count < KILLS_MAX)
        all->ms[all->count++] = took_ms;
}

/* ---- the brokers ----------------------------------------------------------------------------- */

/* By the process number in the row of the shard. */
static int place_that_serves(void)
{
    char answer[64];
    int64_t until_ms = test_now_ms() + AN_END_MS;
    for (;;) {
        cr_assert(test_now_ms() < until_ms, "seed %llu: no broker has the shard",
                  (unsigned long long)seed);
        unsigned primary = postgres_primary(&postgres);
        if (primary < NODES && postgres_query(&postgres, primary,
                                              "SELECT split_part(holder, ' ', 2) FROM errbus_shard",
                                              answer, sizeof answer))
            for (int place = 0; place < SHARD_PLACES; place++)
                if (shard.brokers[place].pid == (pid_t)strtol(answer, NULL, 10))
                    return place;
        pass_ms(20);
    }
}

static void start_spare(int place)
{
    shard_start(&shard, place);
    started_ms[place] = test_now_ms();
}

/* All goes on.  A broker that another one replaced ends with that word, and is started again. */
static void settle_down(int64_t since_ns)
{
    (void)await_beat(since_ns);
    int place = place_that_serves();
    if (place == serving)
        return;
    shard_must_end(&shard, serving, "another broker has taken over");
    start_spare(serving);
    serving = place;
}

/* A spare whose primary is killed while it starts ends with that word, and so does one that starts
 * before a standby is back.  Whoever looks after it starts it again. */
static void start_spare_again(int place)
{
    struct process *spare = &shard.brokers[place];
    if (process_wait(spare, 0) < 0)
        return;
    const char *why = process_complained(spare);
    cr_assert(strstr(why, "the journal in shard 0 of PostgreSQL: cannot ") != NULL ||
                  strstr(why, "too few synchronous standbys are connected") != NULL,
              "seed %llu: %s", (unsigned long long)seed, why);
    start_spare(place);
}

static void await_spare(int place)
{
    do {
        start_spare_again(place);
        pass_ms(20);
    } while (test_now_ms() - started_ms[place] < SETTLED_MS);
}

static void await_replacement(int place)
{
    int64_t until_ms = test_now_ms() + AN_END_MS;
    while (place_that_serves() == place) {
        cr_assert(test_now_ms() < until_ms, "seed %llu: no spare takes over",
                  (unsigned long long)seed);
        pass_ms(20);
    }
    shard_must_serve(&shard, 1 - place);
}

static void kill_broker(void)
{
    int place = place_that_serves();
    await_spare(1 - place);
    int64_t at_ns = test_now_ns();
    shard_kill(&shard, place);
    time_beat(BROKER_KILLED, at_ns);
    start_spare(place);
    serving = 1 - place;
}

/* A party that knows this broker alone. */
static struct bus *open_follower(int place)
{
    char party[32];
    snprintf(party, sizeof party, "follower%u", ++zombie_count);
    struct bus *follower = open_patient(shard.endpoints[place], party);
    must_publish(follower, "w", "before");
    must_flush(follower);
    return follower;
}

/* What was published to a broker that could not commit it any more. */
static void close_follower(struct bus **follower)
{
    enum bus_err err = bus_flush(*follower, 500);
    cr_assert_neq(err, BUS_OK, "seed %llu: a broker that was replaced accepted a value",
                  (unsigned long long)seed);
    (void)bus_close(follower, 0); /* it never hears of another broker */
}

static void stop_broker(void)
{
    int place = place_that_serves();
    await_spare(1 - place);
    struct bus *follower = open_follower(place);
    process_signal(&shard.brokers[place], SIGSTOP);
    int64_t at_ns = test_now_ns();
    must_publish(follower, "w", "behind");
    await_replacement(place);
    time_beat(BROKER_STOPPED, at_ns);
    process_signal(&shard.brokers[place], SIGCONT);
    shard_must_end(&shard, place, "another broker has taken over");
    close_follower(&follower);
}

/* It may go on as if nothing was, or have been replaced, or be about to be. */
static void pause_broker(void)
{
    int place = place_that_serves();
    await_spare(1 - place);
    process_signal(&shard.brokers[place], SIGSTOP);
    pass_ms(1000 + (int64_t)below(19000));
    process_signal(&shard.brokers[place], SIGCONT);
}

/* Closed, silent, or silent one way. */
static enum cable_state any_break(void)
{
    static const enum cable_state breaks[] = {CABLE_CUT, CABLE_SILENT, CABLE_UNHEARD,
                                              CABLE_UNANSWERED};
    return breaks[below(sizeof breaks / sizeof breaks[0])];
}

/* For a moment, or until another broker has taken over. */
static void cut_store(void)
{
    int place = place_that_serves();
    bool is_long = below(2) == 0;
    await_spare(1 - place);
    struct bus *follower = open_follower(place);
    cable_set(&store_cables[place], any_break());
    must_publish(follower, "w", "behind");
    if (is_long)
        await_replacement(place);
    else
        pass_ms(200 + (int64_t)below(3000));
    if (is_long)
        close_follower(&follower);
    cable_set(&store_cables[place], CABLE_WHOLE);
    if (is_long)
        shard_must_end(&shard, place, "another broker has taken over");
    else
        (void)bus_close(&follower, 0);
}

/* ---- the store ------------------------------------------------------------------------------- */

/* A socket that leads to no server is not there: libpq asks no other node when a connection was
 * made and then ended. */
static void show_node(unsigned node, size_t prefix, bool is_shown)
{
    for (size_t i = prefix; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        char path[2 * POSTGRES_PATH_BYTES], hidden[2 * POSTGRES_PATH_BYTES + 8];
        snprintf(path, sizeof path, "%s/%s%u/.s.PGSQL.5432", postgres.folder.path, prefixes[i],
                 node);
        snprintf(hidden, sizeof hidden, "%s.hidden", path);
        cr_assert_eq(is_shown ? rename(hidden, path) : rename(path, hidden), 0, "%s", path);
    }
}

static void rejoin(unsigned node, unsigned primary)
{
    MUST(postgres_join(&postgres, node));
    MUST(postgres_await_standbys(&postgres, primary, STANDBYS));
    for (int place = 0; place < SHARD_PLACES; place++)
        started_ms[place] = test_now_ms();
}

static void kill_primary(void)
{
    unsigned primary = postgres_primary(&postgres);
    cr_assert_lt(primary, NODES);
    postgres_kill(&postgres, primary); /* with commits under way */
    show_node(primary, 0, false);
    pass_ms((int64_t)below(500));
    unsigned foremost = 0;
    MUST(postgres_foremost(&postgres, &foremost));
    MUST(postgres_promote(&postgres, foremost));
    time_beat(PRIMARY_KILLED, test_now_ns());
    rejoin(primary, foremost);
    show_node(primary, 0, true);
}

/* All its processes keep their connections, and answer nothing.  A broker that connects anew finds
 * it in front of the one that was promoted, or behind it.  Standbys do not: one that connects to a
 * primary that stands still would wait for it as long as it does. */
static void stop_primary(void)
{
    char answer[64];
    unsigned primary = postgres_primary(&postgres);
    cr_assert_lt(primary, NODES);
    postgres_freeze(&postgres, primary);
    show_node(primary, SHARD_PLACES, false);
    pass_ms((int64_t)below(500));
    unsigned foremost = 0;
    MUST(postgres_foremost(&postgres, &foremost));
    MUST(postgres_promote(&postgres, foremost));
    MUST(postgres_await_standbys(&postgres, foremost, 1));
    time_beat(PRIMARY_STOPPED, test_now_ns());
    postgres_thaw(&postgres, primary);
    pass_ms((int64_t)below(500));
    (void)postgres_query(&postgres, foremost,
                         "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                         " WHERE application_name = 'errbusd'",
                         answer, sizeof answer);
    (void)await_beat(test_now_ns());
    rejoin(primary, foremost);
    show_node(primary, SHARD_PLACES, true);
}

/* A pulse has one value under way, which a standby may have had before. */
static void must_have_stood_still(unsigned long long before)
{
    cr_assert_leq(atomic_load(&pulse.count), before + 1, "seed %llu: accepted without a standby",
                  (unsigned long long)seed);
}

/* Its standbys are away meanwhile, so that it waits.  A session is ended, or its wait is. */
static void cancel_commit(void)
{
    char answer[64];
    unsigned primary = postgres_primary(&postgres);
    cable_set(&standby_cable, CABLE_SILENT);
    unsigned long long before = atomic_load(&pulse.count);
    for (uint64_t times = 2 + below(3); times > 0; times--) {
        unsigned long pid = 0;
        if (below(2) == 0)
            MUST(postgres_cancel_commit(&postgres, primary, &pid));
        else
            while (!postgres_query(&postgres, primary,
                                   "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                                   " WHERE wait_event = 'SyncRep'",
                                   answer, sizeof answer))
                pass_ms(20);
    }
    pass_ms(100 + (int64_t)below(1000));
    must_have_stood_still(before);
    cable_set(&standby_cable, CABLE_WHOLE);
}

static void cut_standbys(void)
{
    cable_set(&standby_cable, any_break());
    unsigned long long before = atomic_load(&pulse.count);
    pass_ms(200 + (int64_t)below(6000));
    must_have_stood_still(before);
    cable_set(&standby_cable, CABLE_WHOLE);
}

/* Commits go on meanwhile. */
static void stop_standby(void)
{
    unsigned primary = postgres_primary(&postgres);
    unsigned standby = (primary + 1 + (unsigned)below(STANDBYS)) % NODES;
    postgres_freeze(&postgres, standby);
    pass_ms((int64_t)below(6000));
    time_beat(STANDBY_STOPPED, test_now_ns());
    postgres_thaw(&postgres, standby);
}

static void cut_clients(void)
{
    cable_set(&client_cable, any_break());
    pass_ms(100 + (int64_t)below(4000)); /* some are taken for lost */
    cable_set(&client_cable, CABLE_WHOLE);
}

static void do_harm(enum harm harm)
{
    switch (harm) {
    case BROKER_KILLED: kill_broker(); break;
    case BROKER_STOPPED: stop_broker(); break;
    case BROKER_PAUSED: pause_broker(); break;
    case PRIMARY_KILLED: kill_primary(); break;
    case PRIMARY_STOPPED: stop_primary(); break;
    case COMMIT_CANCELLED: cancel_commit(); break;
    case CLIENTS_CUT: cut_clients(); break;
    case STORE_CUT: cut_store(); break;
    case STANDBYS_CUT: cut_standbys(); break;
    case STANDBY_STOPPED: stop_standby(); break;
    case HARMS: break;
    }
    done[harm]++;
    settle_down(test_now_ns());
}

/* ---- the test -------------------------------------------------------------------------------- */

static void lead(struct cable *cable, const char *near, const char *far, int number)
{
    char path[2 * POSTGRES_PATH_BYTES], target[2 * POSTGRES_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", postgres.folder.path, near);
    snprintf(target, sizeof target, "%s/%s%d", postgres.folder.path, far, number);
    cr_assert(cable_lead(cable, path, target), "%s", path);
}

/* One to each node, in folders of its own. */
static void lead_to_nodes(struct cable *cable, const char *prefix)
{
    cable_init(cable);
    for (int node = 0; node < NODES; node++) {
        char near[64], folder[2 * POSTGRES_PATH_BYTES], far[2 * POSTGRES_PATH_BYTES];
        snprintf(folder, sizeof folder, "%s/%s%d", postgres.folder.path, prefix, node);
        cr_assert(mkdir(folder, 0777) == 0 && chmod(folder, 0777) == 0, "%s", folder);
        snprintf(near, sizeof near, "%s%d/.s.PGSQL.5432", prefix, node);
        snprintf(folder, sizeof folder, "%s/%s", postgres.folder.path, near);
        snprintf(far, sizeof far, "%s/.s.PGSQL.5432", postgres.nodes[node].sockets);
        cr_assert(cable_lead(cable, folder, far), "%s", folder);
    }
    cr_assert(cable_start(cable));
}

/* Between all that a cable is to be cut between. */
static void lead_cables(void)
{
    cable_init(&client_cable);
    for (int place = 0; place < SHARD_PLACES; place++) {
        char near[16];
        snprintf(near, sizeof near, "c%d", place);
        lead(&client_cable, near, "control", place);
        snprintf(near, sizeof near, "d%d", place);
        lead(&client_cable, near, "data", place);
        snprintf(advertised[place], sizeof advertised[place], "ipc://%s/d%d", postgres.folder.path,
                 place);
        lead_to_nodes(&store_cables[place], prefixes[place]);
        postgres_name(&postgres, prefixes[place], stores[place]);
        shard.stores[place] = stores[place];
        shard.advertised[place] = advertised[place];
    }
    cr_assert(cable_start(&client_cable));
    snprintf(clients, sizeof clients, "ipc://%s/c0,ipc://%s/c1", postgres.folder.path,
             postgres.folder.path);
    lead_to_nodes(&standby_cable, prefixes[SHARD_PLACES]);
    postgres_name(&postgres, prefixes[SHARD_PLACES], postgres.upstream);
    for (unsigned node = 1; node < NODES; node++) {
        postgres_kill(&postgres, node);
        MUST(postgres_revive(&postgres, node));
    }
    MUST(postgres_await_standbys(&postgres, 0, STANDBYS));
}

static void init(void)
{
    const char *wanted = getenv("TORTURE_SEED");
    seed = wanted != NULL ? strtoull(wanted, NULL, 10) : (uint64_t)test_now_ns() % 1000000;
    dice = seed;
    if (!postgres_is_installed())
        return;
    MUST(postgres_start(&postgres, STANDBYS));
    shard_init(&shard, &postgres, "1");
    lead_cables();
}

static void fini(void)
{
    if (postgres.count == 0)
        return;
    for (int i = 0; i < PARTIES; i++)
        process_fini(&torturers[i].process);
    shard_fini(&shard);
    cable_fini(&client_cable);
    cable_fini(&standby_cable);
    for (int place = 0; place < SHARD_PLACES; place++)
        cable_fini(&store_cables[place]);
    postgres_fini(&postgres);
}

static void count_harms(unsigned *counts)
{
    const char *wanted = getenv("TORTURE_PART");
    unsigned part = wanted != NULL ? (unsigned)strtoul(wanted, NULL, 10) : 1;
    bool is_long = is_asked("TEST_LONG");
    const char *only = getenv("TORTURE_ONLY");
    for (int harm = 0; harm < HARMS; harm++) {
        bool is_left_out = only != NULL && strcmp(only, names[harm]) != 0;
        unsigned count = is_long ? (counts_long[harm] + part - 1) / part : counts_short[harm];
        counts[harm] = is_left_out ? 0 : count;
    }
}

/* One of those that are left, each as likely as any other. */
static bool choose(const unsigned *counts, enum harm *out_harm)
{
    unsigned left = 0;
    for (int harm = 0; harm < HARMS; harm++)
        left += counts[harm] - done[harm];
    if (left == 0)
        return false;
    unsigned chosen = (unsigned)below(left);
    int harm = 0;
    for (; chosen >= counts[harm] - done[harm]; harm++)
        chosen -= counts[harm] - done[harm];
    *out_harm = (enum harm)harm;
    return true;
}

static int compare(const void *one, const void *other)
{
    const double *a = one, *b = other;
    return (*a > *b) - (*a < *b);
}

static void tell_times(enum harm harm)
{
    struct times *all = &waits[harm];
    qsort(all->ms, all->count, sizeof *all->ms, compare);
    if (all->count > 0)
        fprintf(stderr,
                "postgres_harm: %s, to the next acknowledgement: p50 %.0f ms, p99 %.0f ms\n",
                names[harm], all->ms[all->count / 2], all->ms[all->count * 99 / 100]);
}

static void tell(const struct diaries_sums *sums)
{
    fprintf(stderr, "postgres_harm: seed %llu", (unsigned long long)seed);
    for (int harm = 0; harm < HARMS; harm++)
        fprintf(stderr, ", %u %s", done[harm], names[harm]);
    fprintf(stderr,
            "; %llu written and acknowledged, %llu promises, %llu outcomes, %llu failures of the "
            "bus's, %llu again, %u incarnations over, %llu pulses\n",
            (unsigned long long)sums->written, (unsigned long long)sums->promises,
            (unsigned long long)sums->outcomes, (unsigned long long)sums->failures,
            (unsigned long long)sums->again, over_count, atomic_load(&pulse.count));
    for (int harm = 0; harm < HARMS; harm++)
        tell_times((enum harm)harm);
}

Test(postgres_harm, loses_nothing_that_was_acknowledged, .init = init, .fini = fini,
     .timeout = 7200)
{
    char complaint[DIARIES_COMPLAINT_BYTES];
    struct diaries_sums sums;
    enum harm harm;
    unsigned counts[HARMS];
    count_harms(counts);
    if (postgres.count == 0)
        cr_skip_test(POSTGRES_MISSING);
    shard_start(&shard, 0);
    shard_must_serve(&shard, 0);
    start_spare(1);
    start_parties();
    start_pulse();
    while (choose(counts, &harm)) {
        pass_ms((int64_t)below(300));
        int64_t begun_ms = test_now_ms();
        do_harm(harm);
        cr_log_info("%s: %lld ms", names[harm], (long long)(test_now_ms() - begun_ms));
    }
    come_to_an_end();
    stop_pulse();
    cr_assert_eq(atomic_load(&pulse.wrong), 0);
    cr_assert_eq(atomic_load(&pulse.read), atomic_load(&pulse.count));
    must_close(&pulse.writer);
    must_close(&pulse.reader);
    cr_assert(diaries_check(postgres.folder.path, WRITERS, READERS, &sums, complaint),
              "seed %llu: %s", (unsigned long long)seed, complaint);
    cr_assert_gt(sums.written, 100);
    cr_assert_gt(sums.promises, 1);
    tell(&sums);
}
