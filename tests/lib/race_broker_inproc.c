/* SPDX-License-Identifier: MPL-2.0 */
/* race_broker_inproc.c -- see race_broker.h: the port over the server side of the in-process
 * link. */
#include "tests/lib/race_broker.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "broker/io/core_port.h"
#include "libbus/base/memory.h"
#include "libbus/base/must.h"
#include "libbus/io/link_inproc.h"

#define NS_PER_S INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)
#define MEMORY_MAX (UINT64_C(1) << 32)

const bool race_is_live = false;

struct race_broker {
    char endpoint[96];
    char data_endpoint[96];
    struct inproc *server;
    struct memory memory;
    struct core_port *port;
    pthread_t thread;
    pthread_mutex_t turn; /* taken by the thread while it does anything, and by who holds it */
    atomic_bool is_done;
    uint64_t dice;
};

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* Tokens need not be secret here, but different: an odd step goes through all numbers. */
static struct core_port_now now_of(struct race_broker *broker)
{
    broker->dice += UINT64_C(0x9e3779b97f4a7c15);
    return (struct core_port_now){.now_ns = clock_ns(CLOCK_MONOTONIC),
                                  .wall_ns = clock_ns(CLOCK_REALTIME),
                                  .random = broker->dice | 1};
}

static void send_all(struct race_broker *broker)
{
    struct core_port_out out;
    while (core_port_out(broker->port, &out)) {
        struct buffer *head = NULL;
        switch (out.kind) {
        case CORE_PORT_NOTHING: break;
        case CORE_PORT_CONTROL: inproc_send(broker->server, out.conn, NULL, &out.part); break;
        case CORE_PORT_DATA:
            head = buffer_copy(span_of(out.head, sizeof out.head));
            must(head != NULL);
            inproc_send(broker->server, out.conn, &head, &out.part);
            break;
        case CORE_PORT_DROP: inproc_drop(broker->server, out.conn); break;
        case CORE_PORT_RELOAD: /* it has no access file, as the core has said */
        case CORE_PORT_LOG: break;
        case CORE_PORT_FACT: buffer_unref(&out.part); break; /* nobody asked for them */
        }
    }
}

static void let_in(struct race_broker *broker, struct inproc_in *in)
{
    struct core_port_now now = now_of(broker);
    if (in->event == INPROC_CLOSED)
        core_port_closed(broker->port, now, in->conn);
    else if (in->lane == LINK_CONTROL)
        core_port_control_in(broker->port, now, in->conn, buffer_span(in->part));
    else
        core_port_data_in(broker->port, now, in->conn, &in->part);
    send_all(broker);
    buffer_unref(&in->part);
}

static void *run(void *arg)
{
    struct race_broker *broker = arg;
    struct inproc_in in;
    while (!atomic_load(&broker->is_done)) {
        pthread_mutex_lock(&broker->turn);
        while (!atomic_load(&broker->is_done) &&
               inproc_receive(broker->server, &in) != INPROC_NOTHING)
            let_in(broker, &in);
        struct core_port_now now = now_of(broker);
        if (core_port_deadline_ns(broker->port) <= now.now_ns) {
            core_port_tick(broker->port, now);
            send_all(broker);
        }
        int64_t deadline_ns = core_port_deadline_ns(broker->port);
        int64_t left_ns = deadline_ns - clock_ns(CLOCK_MONOTONIC);
        int64_t left_ms = left_ns <= 0 ? 0 : left_ns / NS_PER_MS + 1;
        pthread_mutex_unlock(&broker->turn);
        inproc_wait(broker->server, deadline_ns == INT64_MAX ? -1 : left_ms);
    }
    return NULL;
}

struct race_broker *race_broker_start(const char *name)
{
    struct core_options options;
    struct race_broker *broker = calloc(1, sizeof *broker);
    must(broker != NULL);
    (void)snprintf(broker->endpoint, sizeof broker->endpoint, "inproc://%s/control", name);
    (void)snprintf(broker->data_endpoint, sizeof broker->data_endpoint, "inproc://%s/data", name);
    atomic_init(&broker->is_done, false);
    broker->dice = (uint64_t)clock_ns(CLOCK_REALTIME);
    memory_heap_init(&broker->memory, MEMORY_MAX);
    core_options_init(&options);
    options.broker = now_of(broker).random;
    options.data_endpoint = broker->data_endpoint;
    broker->port = core_port_new(&broker->memory, &options, now_of(broker).now_ns);
    must(broker->port != NULL);
    must(inproc_open(name, &broker->server) == LINK_OK);
    must(pthread_mutex_init(&broker->turn, NULL) == 0);
    must(pthread_create(&broker->thread, NULL, run, broker) == 0);
    return broker;
}

const char *race_broker_endpoint(const struct race_broker *broker)
{
    return broker->endpoint;
}

const char *race_broker_data_endpoint(const struct race_broker *broker)
{
    return broker->data_endpoint;
}

void race_broker_hold(struct race_broker *broker, bool is_held)
{
    must((is_held ? pthread_mutex_lock : pthread_mutex_unlock)(&broker->turn) == 0);
}

void race_broker_kill(struct race_broker **broker)
{
    struct race_broker *killed = *broker;
    *broker = NULL;
    if (killed == NULL)
        return;
    atomic_store(&killed->is_done, true);
    inproc_wake(killed->server);
    pthread_join(killed->thread, NULL);
    inproc_close(&killed->server);
    core_port_free(&killed->port);
    pthread_mutex_destroy(&killed->turn);
    free(killed);
}

uint64_t race_waits_of(long thread)
{
    return inproc_waits_of(thread);
}
