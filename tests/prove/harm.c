/* SPDX-License-Identifier: MPL-2.0 */
/* harm.c -- faults, each with its beginning, its end and its judgement; see harm.h. */
#include "tests/prove/harm.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BEFORE_MS INT64_C(2000) /* frames are counted so long before */
#define WINDOW_MS INT64_C(500)  /* ... and so long after, until they are as many again: */
#define RECOVERED_SHARE 0.5
#define WORST_MS INT64_C(500)
/* What may be added to a bound of the bus, for a machine that has other things to do. */
#define SLACK_MS INT64_C(15000)
#define RECOVERY_MS INT64_C(60000)
enum { CONNECTIONS = 16, RUBBISH_BYTES = 4000 };

static const struct {
    const char *name;
    bool needs_links;
    bool may_be_longer;
    bool is_closed; /* the broker sees connections close */
} kinds[HARM_KINDS] = {
    [HARM_KILL] = {"a party is killed", false, true, true},
    [HARM_REPLACE] = {"a party is killed and comes again", false, false, true},
    [HARM_FREEZE] = {"a party is frozen", false, true, false},
    [HARM_BROKER_KILL] = {"the broker is killed", false, false, false},
    [HARM_BROKER_FREEZE] = {"the broker is frozen", false, false, false},
    [HARM_DISK] = {"the disk is full", false, false, false},
    [HARM_RUBBISH] = {"unknown clients talk rubbish", false, false, false},
    [HARM_LINK] = {"a cable is unplugged", true, true, false},
    [HARM_DROP] = {"all frames vanish", true, true, false},
    [HARM_DEAF] = {"frames to a party vanish", true, true, false},
    [HARM_MUTE] = {"frames from a party vanish", true, true, false},
    [HARM_RESET] = {"connections are reset", true, true, true},
    [HARM_ADDRESS] = {"an address changes", true, true, false},
    [HARM_LOSS] = {"30 % of the frames vanish", true, false, false},
    [HARM_DELAY] = {"frames take 200 ms +- 100", true, false, false},
    [HARM_RATE] = {"256 KiB a second pass", true, false, false},
    [HARM_FLIP] = {"bits flip in 5 % of the frames", true, false, false},
};

const char *harm_name(enum harm_kind kind)
{
    return kinds[kind].name;
}

bool harm_needs_links(enum harm_kind kind)
{
    return kinds[kind].needs_links;
}

bool harm_is_of_broker(enum harm_kind kind)
{
    return kind == HARM_BROKER_KILL || kind == HARM_BROKER_FREEZE || kind == HARM_DISK;
}

bool harm_may_be_longer(enum harm_kind kind)
{
    return kinds[kind].may_be_longer;
}

/* ---- unknown clients ------------------------------------------------------------------------ */

static int dial(const char *endpoint)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in remote = {.sin_family = AF_INET};
    char address[64];
    unsigned port = 0;
    int fd = -1;
    if (sscanf(endpoint, "ipc://%107s", local.sun_path) == 1) {
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, (struct sockaddr *)&local, sizeof local) == 0) {
            return fd;
        }
    } else if (sscanf(endpoint, "tcp://%63[^:]:%u", address, &port) == 2 &&
               inet_pton(AF_INET, address, &remote.sin_addr) == 1) {
        remote.sin_port = htons((uint16_t)port);
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, (struct sockaddr *)&remote, sizeof remote) == 0) {
            return fd;
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    return -1;
}

/* Half of them greet as ZMTP 3 does (rfc.zeromq.org/spec/23), so that what follows is looked at. */
static void talk_rubbish(struct crew *crew)
{
    static const char greeting[64] = "\xff\0\0\0\0\0\0\0\0\x7f\3\0NULL";
    static const char ready[] = "\x04\x1a\5READY\13Socket-Type\0\0\0\6DEALER";
    char rubbish[RUBBISH_BYTES];
    int fds[CONNECTIONS];
    if (crew->has_links && !hosts_enter(&crew->hosts, 0)) {
        return;
    }
    for (int i = 0; i < CONNECTIONS; i++) {
        fds[i] = dial(i % 4 < 2 ? crew->control : crew->data);
        for (size_t at = 0; at < sizeof rubbish; at++) {
            rubbish[at] = (char)random();
        }
        if (fds[i] >= 0 && i % 2 == 0) {
            (void)send(fds[i], greeting, sizeof greeting, MSG_NOSIGNAL);
            (void)send(fds[i], ready, sizeof ready - 1, MSG_NOSIGNAL);
            rubbish[0] = 0; /* a short frame ... */
            rubbish[1] = (char)(1 + random() % 250);
        }
        if (fds[i] >= 0) {
            (void)send(fds[i], rubbish, sizeof rubbish, MSG_NOSIGNAL); /* it may hang up */
        }
    }
    if (crew->has_links) {
        hosts_leave(&crew->hosts);
    }
    crew_listen(crew, WINDOW_MS);
    for (int i = 0; i < CONNECTIONS; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
}

/* ---- cables -----------------------------------------------------------------------------------*/

static void set_both(struct crew *crew, const struct victim *victim, const struct wire_fault *from,
                     const struct wire_fault *to)
{
    wire_set(crew->hosts.wire, victim->host, WIRE_FROM_HOST, from);
    wire_set(crew->hosts.wire, victim->host, WIRE_TO_HOST, to);
}

static void plug(struct crew *crew, const struct victim *victim, const char *state)
{
    char lines[64];
    snprintf(lines, sizeof lines, "link set dev eth0 %s\n", state);
    if (!hosts_ip(&crew->hosts, victim->host, lines)) {
        crew_blame(crew, "ip(8) does not set a link %s", state);
    }
}

static void change_address(struct crew *crew, struct victim *victim, const char *what)
{
    char address[HOST_ADDRESS_BYTES_MAX];
    char lines[96];
    host_address(victim->host, victim->has_moved, address);
    snprintf(lines, sizeof lines, "address %s %s/16 dev eth0\n", what, address);
    if (!hosts_ip(&crew->hosts, victim->host, lines)) {
        crew_blame(crew, "ip(8) does not %s an address", what);
    }
}

static void cut(struct crew *crew, const struct harm *harm)
{
    static const struct wire_fault whole;
    static const struct wire_fault none = {.drop_share = WIRE_SHARE_ALL};
    static const struct wire_fault slow[HARM_KINDS] = {
        [HARM_RESET] = {.is_resetting = true},
        [HARM_LOSS] = {.drop_share = 300},
        [HARM_DELAY] = {.delay_ms = 200, .jitter_ms = 100},
        [HARM_RATE] = {.rate_bytes = (int64_t)256 * 1024},
        [HARM_FLIP] = {.flip_share = 50},
    };
    switch (harm->kind) {
    case HARM_LINK: plug(crew, harm->victim, "down"); break;
    case HARM_DROP: set_both(crew, harm->victim, &none, &none); break;
    case HARM_DEAF: set_both(crew, harm->victim, &whole, &none); break;
    case HARM_MUTE: set_both(crew, harm->victim, &none, &whole); break;
    case HARM_ADDRESS: change_address(crew, harm->victim, "del"); break;
    default: set_both(crew, harm->victim, &slow[harm->kind], &slow[harm->kind]); break;
    }
}

static void mend(struct crew *crew, const struct harm *harm)
{
    static const struct wire_fault whole;
    set_both(crew, harm->victim, &whole, &whole);
    if (harm->kind == HARM_LINK) {
        plug(crew, harm->victim, "up");
    } else if (harm->kind == HARM_ADDRESS) {
        harm->victim->has_moved = !harm->victim->has_moved;
        change_address(crew, harm->victim, "add");
    }
}

/* ---- the disk ---------------------------------------------------------------------------------*/

static void fill(struct crew *crew)
{
    if (!volume_fill(&crew->volume)) {
        crew_blame(crew, "the volume cannot be filled");
    }
}

/* Until the broker has met it, and told so. */
static void fill_disk(struct crew *crew)
{
    int64_t begin_ms = test_now_ms();
    crew_kill_broker(crew);
    (void)crew_start_small_broker(crew); /* it blames */
    while (crew_is_well(crew) && crew->full_ms < begin_ms) {
        fill(crew); /* what was let go, too */
        crew_listen(crew, 0);
        if (test_now_ms() > begin_ms + RECOVERY_MS) {
            crew_blame(crew, "nobody was told that the disk is full");
        }
    }
}

static void clear_disk(struct crew *crew)
{
    if (!volume_clear(&crew->volume)) {
        crew_blame(crew, "the volume cannot be cleared");
    }
}

/* ---- beginning and end ------------------------------------------------------------------------*/

static void begin(struct crew *crew, const struct harm *harm)
{
    switch (harm->kind) {
    case HARM_KILL:
    case HARM_REPLACE: crew_kill_victim(harm->victim); break;
    case HARM_FREEZE: process_signal(&harm->victim->process, SIGSTOP); break;
    case HARM_BROKER_KILL: crew_kill_broker(crew); break;
    case HARM_BROKER_FREEZE: process_signal(&crew->broker, SIGSTOP); break;
    case HARM_DISK: fill_disk(crew); break;
    case HARM_RUBBISH: talk_rubbish(crew); break;
    default: cut(crew, harm); break;
    }
}

static void end(struct crew *crew, const struct harm *harm)
{
    switch (harm->kind) {
    case HARM_KILL:
    case HARM_REPLACE: crew_start_victim(crew, harm->victim); break;
    case HARM_FREEZE: process_signal(&harm->victim->process, SIGCONT); break;
    case HARM_BROKER_KILL: (void)crew_start_broker(crew); break; /* it blames */
    case HARM_BROKER_FREEZE: process_signal(&crew->broker, SIGCONT); break;
    case HARM_DISK: clear_disk(crew); break;
    case HARM_RUBBISH: break;
    default: mend(crew, harm); break;
    }
}

/* ---- what comes of it -------------------------------------------------------------------------*/

static int64_t bound_ms(const struct harm *harm)
{
    return kinds[harm->kind].is_closed ? CREW_GRACE_MS : CREW_LOST_AFTER_MS;
}

/* Known to the tap, and to both pulses. */
static bool is_detected(const struct harm *harm, int64_t begin_ms)
{
    bool is_known = harm->victim->lost_ms >= begin_ms;
    for (size_t i = 0; i < CREW_PULSES; i++) {
        is_known = is_known && harm->victim->told_ms[i] >= begin_ms;
    }
    return is_known;
}

static void hold(struct crew *crew, struct harm *harm, int64_t begin_ms)
{
    bool is_full = harm->kind == HARM_DISK; /* which took its time to come about */
    int64_t until_ms = (is_full ? test_now_ms() : begin_ms) +
                       (harm->is_longer ? bound_ms(harm) + SLACK_MS : harm->hold_ms);
    while (crew_is_well(crew) && test_now_ms() < until_ms &&
           !(harm->is_longer && is_detected(harm, begin_ms))) {
        if (is_full) {
            fill(crew);
        }
        crew_listen(crew, 0);
    }
    harm->held_ms = test_now_ms() - begin_ms;
}

static void take_times(const struct crew *crew, struct harm *harm, int64_t begin_ms)
{
    const struct victim *victim = harm->victim;
    bool was_full = harm->kind == HARM_DISK && crew->full_ms >= begin_ms;
    harm->detected_ms = was_full ? crew->full_ms - begin_ms : -1;
    for (size_t i = 0; i < CREW_TOLD; i++) {
        harm->waited_ms[i] = -1;
    }
    memcpy(harm->slowest_ms, crew->slowest_ms, sizeof harm->slowest_ms);
    if (victim == NULL) {
        return;
    }
    harm->detected_ms = victim->lost_ms >= begin_ms ? victim->lost_ms - begin_ms : -1;
    for (size_t i = 0; i < CREW_TOLD && harm->detected_ms >= 0; i++) {
        int64_t told_ms = victim->told_ms[i];
        int64_t error_ms = i < CREW_PULSES ? victim->error_ms[i] : 0;
        int64_t last_ms = told_ms > error_ms ? told_ms : error_ms;
        harm->waited_ms[i] = last_ms >= begin_ms ? last_ms - begin_ms : -1;
    }
}

static void judge_detection(struct crew *crew, const struct harm *harm)
{
    const char *name = harm->victim != NULL ? harm->victim->name : "";
    int64_t bound = bound_ms(harm);
    /* The last sign of life may be a beat old when it begins, and a grace begins at once. */
    bool is_early = harm->victim != NULL && harm->detected_ms >= 0 &&
                    harm->detected_ms < bound / 2 && harm->kind != HARM_REPLACE;
    if (harm->is_longer && harm->detected_ms < 0) {
        crew_blame(crew, "%s: nobody was told that %s is lost", harm_name(harm->kind), name);
    } else if (is_early) {
        crew_blame(crew, "%s: %s was lost after %lld ms, and had %lld", harm_name(harm->kind), name,
                   (long long)harm->detected_ms, (long long)bound);
    }
    for (size_t i = 0; harm->is_longer && i < CREW_PULSES; i++) {
        if (harm->waited_ms[i] < 0 || harm->waited_ms[i] > bound + SLACK_MS) {
            crew_blame(crew, "%s: %s was told after %lld ms that %s is lost", harm_name(harm->kind),
                       crew->pulses[i].name, (long long)harm->waited_ms[i], name);
        }
    }
}

static bool all_run(const struct crew *crew)
{
    bool do_run = crew->has_broker;
    for (size_t i = 0; i < CREW_VICTIMS; i++) {
        do_run = do_run && crew->victims[i].is_running;
    }
    return do_run;
}

/* What the victim writes. */
static unsigned own_lane(const struct crew *crew, const struct harm *harm)
{
    bool is_heard = harm->victim != NULL && harm->victim->role != VICTIM_READS;
    return is_heard ? 1u << (harm->victim - crew->victims) : METER_ALL;
}

static unsigned other_lanes(const struct crew *crew, const struct harm *harm)
{
    unsigned own = own_lane(crew, harm);
    return own == METER_ALL ? METER_ALL : ~own;
}

/* own: frames a second that it wrote before. */
static void await_recovery(struct crew *crew, struct harm *harm, double own)
{
    int64_t end_ms = test_now_ms();
    bool is_back = false;
    while (crew_is_well(crew) && !is_back && test_now_ms() < end_ms + RECOVERY_MS) {
        int64_t now_ms = test_now_ms();
        crew_listen(crew, 20);
        double rate = meter_rate(crew->meter, own_lane(crew, harm), now_ms - WINDOW_MS, now_ms);
        is_back = all_run(crew) && now_ms >= end_ms + WINDOW_MS && rate >= RECOVERED_SHARE * own;
    }
    /* It had recovered when the window began. */
    harm->recovered_ms = is_back ? test_now_ms() - end_ms - WINDOW_MS : -1;
    harm->recovered_ms = is_back && harm->recovered_ms < 0 ? 0 : harm->recovered_ms;
    if (!is_back) {
        crew_blame(crew, "%s: values do not flow as before, a minute later", harm_name(harm->kind));
    }
}

/* To a broker as everybody has it. */
static void change_back(struct crew *crew, const struct harm *harm)
{
    struct harm change = {.kind = HARM_BROKER_KILL};
    if (crew_is_well(crew)) {
        crew_kill_broker(crew);
        (void)crew_start_broker(crew); /* it blames */
        await_recovery(crew, &change, harm->before);
    }
}

static void take_dip(struct crew *crew, struct harm *harm, int64_t begin_ms)
{
    int64_t now_ms = test_now_ms();
    harm->least = harm->before;
    for (int64_t at = begin_ms; at + WORST_MS <= now_ms; at += WORST_MS / 2) {
        double rate = meter_rate(crew->meter, other_lanes(crew, harm), at, at + WORST_MS);
        harm->least = rate < harm->least ? rate : harm->least;
    }
}

void harm_do(struct crew *crew, struct harm *harm)
{
    crew_listen(crew, BEFORE_MS);
    int64_t begin_ms = test_now_ms();
    harm->before = meter_rate(crew->meter, other_lanes(crew, harm), begin_ms - BEFORE_MS, begin_ms);
    double own = meter_rate(crew->meter, own_lane(crew, harm), begin_ms - BEFORE_MS, begin_ms);
    harm->recovered_ms = -1;
    memset(crew->slowest_ms, 0, sizeof crew->slowest_ms);
    begin(crew, harm);
    hold(crew, harm, begin_ms);
    end(crew, harm);
    await_recovery(crew, harm, own);
    take_dip(crew, harm, begin_ms);
    take_times(crew, harm, begin_ms);
    judge_detection(crew, harm);
    if (harm->kind == HARM_DISK) {
        change_back(crew, harm);
    }
}
