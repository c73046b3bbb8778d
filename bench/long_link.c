/* SPDX-License-Identifier: MPL-2.0 */
/* long_link.c -- a long link before what listens on this machine; see long_link.h. */
#include "bench/long_link.h"

#include <ctype.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READY_WITHIN_MS 10000
#define PORTS_BYTES 128

/* The next ":PORT" of endpoints: its digits, or NULL. */
static const char *next_port(const char *at)
{
    while ((at = strchr(at, ':')) != NULL) {
        at++;
        if (isdigit((unsigned char)*at)) {
            return at;
        }
    }
    return NULL;
}

static void add(char *text, size_t room, const char *more, size_t bytes)
{
    size_t used = strlen(text);
    snprintf(text + used, room - used, "%.*s", (int)bytes, more);
}

/* The ports of endpoints, with commas between. */
static void list_ports(const char *at, char ports[PORTS_BYTES])
{
    ports[0] = '\0';
    for (const char *port = next_port(at); port != NULL; port = next_port(port)) {
        add(ports, PORTS_BYTES, ",", ports[0] != '\0');
        add(ports, PORTS_BYTES, port, strspn(port, "0123456789"));
    }
}

/* Puts those of the relay in their place, in the same order. */
static void replace_ports(const char *at, const char *ports, char replaced[LONG_LINK_AT_BYTES])
{
    replaced[0] = '\0';
    for (const char *port = next_port(at); port != NULL; port = next_port(at)) {
        size_t bytes = strcspn(ports, ",");
        add(replaced, LONG_LINK_AT_BYTES, at, (size_t)(port - at));
        add(replaced, LONG_LINK_AT_BYTES, ports, bytes);
        at = port + strspn(port, "0123456789");
        ports += bytes + (ports[bytes] == ',');
    }
    add(replaced, LONG_LINK_AT_BYTES, at, strlen(at));
}

bool long_link_start_with(struct long_link *link, const char *at, uint64_t rate, int64_t delay_us,
                          const char *word, const char *other)
{
    char ports[PORTS_BYTES];
    char to[PORTS_BYTES + 8];
    char rate_text[48];
    char delay_text[48];
    const char *line = NULL;
    memset(link, 0, sizeof *link);
    list_ports(at, ports);
    snprintf(to, sizeof to, "to=%s", ports);
    snprintf(rate_text, sizeof rate_text, "rate=%llu", (unsigned long long)rate);
    snprintf(delay_text, sizeof delay_text, "delay_us=%lld", (long long)delay_us);
    const char *const words[] = {"link_relay", to, rate_text, delay_text, word, other, NULL};
    if (!process_start(&link->relay, words, NULL) ||
        !process_line(&link->relay, READY_WITHIN_MS, &line) ||
        !process_line(&link->relay, READY_WITHIN_MS, &line)) {
        return false;
    }
    replace_ports(at, line, link->at);
    return true;
}

bool long_link_start(struct long_link *link, const char *at, uint64_t rate, int64_t delay_us)
{
    return long_link_start_with(link, at, rate, delay_us, NULL, NULL);
}

bool long_link_carried(struct long_link *link, uint64_t (*out)[2], size_t ports)
{
    const char *line = NULL;
    int used = 0;
    process_signal(&link->relay, SIGUSR1);
    if (!process_line(&link->relay, READY_WITHIN_MS, &line) ||
        sscanf(line, "carried%n", &used) != 0 || used == 0) {
        return false;
    }
    for (size_t i = 0; i < ports; i++) {
        line += used;
        if (sscanf(line, " %" SCNu64 " %" SCNu64 "%n", &out[i][0], &out[i][1], &used) != 2) {
            return false;
        }
    }
    return true;
}

void long_link_fini(struct long_link *link)
{
    process_fini(&link->relay);
}
