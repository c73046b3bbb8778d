/* SPDX-License-Identifier: MPL-2.0 */
/* who.c -- see who.h. */
#include "broker/io/who.h"

#include "broker/io/clock.h"
#include "broker/io/log.h"

#include <stdio.h>
#include <string.h>

/* libzmq calls a peer by ipc "localhost:UID:GID:PID". */
static const char by_ipc[] = "localhost:";

void who_init(struct who *who, struct peers *peers, const struct authentication *authentication)
{
    *who = (struct who){.peers = peers, .authentication = authentication};
    event_warnings_init(&who->warnings, clock_monotonic_ns());
}

static bool is_by_ipc(const struct peer *peer)
{
    return strncmp(peer->address, by_ipc, sizeof by_ipc - 1) == 0;
}

static void write_identity(struct who *who, const struct peer *peer)
{
    unsigned uid;
    who->identity[0] = '\0';
    if (peer->identity.has_key)
        key_text_write(peer->identity.key, KEY_PUBLIC, who->identity);
    else if (is_by_ipc(peer) && sscanf(peer->address + sizeof by_ipc - 1, "%u", &uid) == 1)
        snprintf(who->identity, sizeof who->identity, "uid %u", uid);
}

void who_describe(void *arg, struct msg_who_row *row)
{
    struct who *who = arg;
    const struct peer *peer = peers_by_conn(who->peers, (conn_id)row->connection);
    if (peer == NULL)
        return;
    write_identity(who, peer);
    row->identity = span_text(who->identity);
    if (!is_by_ipc(peer))
        row->address = span_text(peer->address);
    int64_t end_s = authentication_end_s(who->authentication, &peer->identity);
    row->until_s = end_s != INT64_MAX ? end_s : 0;
}

/* "127.0.0.1", or "uid 1000" of a peer by ipc. */
static struct span place_of(struct who *who, const struct peer *peer)
{
    if (!is_by_ipc(peer))
        return span_text(peer->address);
    write_identity(who, peer);
    return span_text(who->identity);
}

void who_log(struct who *who, const struct core_port_out *out)
{
    struct log_event event = out->event;
    const struct peer *peer = out->conn != 0 ? peers_by_conn(who->peers, out->conn) : NULL;
    if (peer != NULL)
        event.peer = place_of(who, peer);
    bool is_warning = out->is_warning && event_warnings_take(&who->warnings, event.name, out->text,
                                                             clock_monotonic_ns());
    log_event(is_warning ? LOG_WARNING : LOG_DETAIL, &event, out->text);
}

void who_log_sums(struct who *who, bool is_end)
{
    char text[EVENT_WARNINGS_TEXT_BYTES];
    const char *name = NULL;
    while ((name = event_warnings_next(&who->warnings, clock_monotonic_ns(), is_end, text)) != NULL)
        log_event(LOG_WARNING, &(struct log_event){.name = span_text(name)}, text);
}

void who_log_stranger(struct who *who, const struct peer *peer, const char *channel)
{
    char line[192];
    struct span place = place_of(who, peer);
    snprintf(line, sizeof line,
             "%s channel: closed a connection that nobody in the access file has: from %.*s",
             channel, (int)place.bytes, (const char *)place.data);
    log_event(LOG_WARNING, &(struct log_event){.peer = place}, line);
}
