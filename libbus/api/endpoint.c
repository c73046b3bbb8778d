/* SPDX-License-Identifier: MPL-2.0 */
/* endpoint.c -- the list of endpoints under which a broker may be found, and how each one did. */
#include "libbus/api/endpoint.h"

#include "libbus/api/error.h"
#include "libbus/api/model.h"
#include "libbus/base/must.h"
#include "libbus/base/utf8.h"

#include <bus/access.h>

#include <limits.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char tcp[] = "tcp://";
static const char data_is[] = "data=";
static const char control_default[] = ":7370"; /* of BUS_SERVER_DEFAULT */
static const char data_default[] = "tcp://*:7371";
enum {
    IPC_PATH_BYTES = 107, /* unix(7): sun_path, without its NUL */
    PORT_DIGITS = 5,
    FAILURES_ENOUGH = 2,
    DATA_FAILURES_ENOUGH = 3,
    DESCRIBED_BYTES = LIMIT_ENDPOINT_BYTES + 128, /* a host, and words */
};

/* NULL: fine; otherwise what is wrong.  "tcp://host:port", "[...]" around a host with colons. */
static const char *tcp_fault(const char *address)
{
    const char *colon = strrchr(address, ':');
    if (colon == NULL || colon == address)
        return "expected a host and a port after tcp://";
    if (memchr(address, ':', (size_t)(colon - address)) != NULL && *address != '[')
        return "a host with colons needs brackets, as in tcp://[::1]:7370";
    char *end = NULL;
    long port = colon[1] >= '0' && colon[1] <= '9' ? strtol(colon + 1, &end, 10) : 0;
    if (end == NULL || *end != '\0' || port < 1 || port > 65535)
        return "the port must be 1 to 65535";
    return NULL;
}

static const char *endpoint_fault(const char *endpoint)
{
    static const char ipc[] = "ipc://";
    static const char inproc[] = "inproc://";
    if (!utf8_is_valid(span_text(endpoint)))
        return "it is not UTF-8";
    if (strncmp(endpoint, tcp, sizeof tcp - 1) == 0)
        return tcp_fault(endpoint + sizeof tcp - 1);
    if (strncmp(endpoint, ipc, sizeof ipc - 1) == 0) {
        size_t bytes = strlen(endpoint + sizeof ipc - 1);
        return bytes >= 1 && bytes <= IPC_PATH_BYTES
                   ? NULL
                   : "expected a path of 1 to 107 bytes after ipc://";
    }
    if (strncmp(endpoint, inproc, sizeof inproc - 1) == 0 && endpoint[sizeof inproc - 1] != '\0')
        return NULL;
    return "expected HOST:PORT, tcp://HOST:PORT or ipc://PATH";
}

/* Copies the next endpoint of a list, without blanks around it.  HOST:PORT becomes tcp://HOST:PORT.
 * false: it does not fit. */
static bool take_one(const char **list, char out[LIMIT_ENDPOINT_BYTES + 1])
{
    const char *from = *list + strspn(*list, " \t");
    size_t bytes = strcspn(from, ",");
    *list = from[bytes] == ',' ? from + bytes + 1 : NULL;
    while (bytes > 0 && (from[bytes - 1] == ' ' || from[bytes - 1] == '\t'))
        bytes--;
    bool is_short = memchr(from, ':', bytes) != NULL && memmem(from, bytes, "://", 3) == NULL;
    size_t begin = is_short ? sizeof tcp - 1 : 0;
    if (begin + bytes > LIMIT_ENDPOINT_BYTES)
        return false;
    memcpy(out, tcp, begin);
    memcpy(out + begin, from, bytes);
    out[begin + bytes] = '\0';
    return true;
}

/* Takes "ebp_...@" out of an endpoint of tcp.  false: what stands before the '@' is no key. */
static bool take_key(char *text, uint8_t key[KEY_BYTES], bool *out_has_key)
{
    char *begin = text + sizeof tcp - 1;
    char *at = strncmp(text, tcp, sizeof tcp - 1) == 0 ? strchr(begin, '@') : NULL;
    *out_has_key = at != NULL;
    if (at == NULL)
        return true;
    if (key_text_read(span_of(begin, (size_t)(at - begin)), KEY_PUBLIC, key) != KEY_OK)
        return false;
    memmove(begin, at + 1, strlen(at + 1) + 1);
    return true;
}

/* Copies the next endpoint of the list to text, and checks it. */
static enum bus_err read_one(const char **list, char *text, uint8_t key[KEY_BYTES],
                             bool *out_has_key, struct bus_error **reterr)
{
    if (!take_one(list, text))
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "an endpoint is longer than %d bytes", LIMIT_ENDPOINT_BYTES);
    if (!take_key(text, key, out_has_key))
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "'%s': what stands before the '@' is not the public key of a broker: "
                         "expected ebp_ and 56 characters, as errbusd prints it",
                         text);
    const char *fault = endpoint_fault(text);
    if (fault != NULL)
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT, "'%s' is not an endpoint: %s",
                         text, fault);
    return BUS_OK;
}

/* "data=ENDPOINT" or "data=PORT", of the endpoint before it. */
static enum bus_err read_data(struct endpoints *endpoints, const char **list,
                              struct bus_error **reterr)
{
    char *text = endpoints->count > 0 ? endpoints->data[endpoints->count - 1] : NULL;
    const char *value = *list + sizeof data_is - 1;
    size_t digits = strspn(value, "0123456789");
    char port[LIMIT_ENDPOINT_BYTES + 1];
    if (text == NULL || *text != '\0')
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "'%s': data= stands once behind an endpoint, as in HOST:PORT,data=PORT",
                         *list);
    *list = value;
    uint8_t key[KEY_BYTES]; /* data has the key of control */
    bool has_key;
    if (digits == 0 || digits > PORT_DIGITS || (value[digits] != ',' && value[digits] != '\0'))
        return read_one(list, text, key, &has_key, reterr);
    (void)snprintf(port, sizeof port, "tcp://*:%.*s", (int)digits, value);
    *list = value[digits] == ',' ? value + digits + 1 : NULL;
    const char *only = port;
    return read_one(&only, text, key, &has_key, reterr);
}

enum bus_err endpoints_read(struct endpoints *endpoints, const char *list,
                            struct bus_error **reterr)
{
    enum bus_err err = BUS_OK;
    memset(endpoints, 0, sizeof *endpoints);
    if (list == NULL) {
        list = getenv("ERRBUS_SERVER");
        if (list == NULL || *list == '\0')
            list = BUS_SERVER_DEFAULT;
    }
    while (list != NULL && err == BUS_OK) {
        list += strspn(list, " \t");
        if (strncmp(list, data_is, sizeof data_is - 1) == 0) {
            err = read_data(endpoints, &list, reterr);
        } else if (endpoints->count == LIMIT_ENDPOINTS) {
            err = error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT, "more than %d endpoints",
                            LIMIT_ENDPOINTS);
        } else {
            err = read_one(&list, endpoints->text[endpoints->count],
                           endpoints->server_keys[endpoints->count],
                           &endpoints->has_key[endpoints->count], reterr);
            endpoints->count += err == BUS_OK;
        }
    }
    endpoints->listed = endpoints->count;
    if (err == BUS_OK)
        endpoints->at = endpoints->count - 1; /* so that the next is the first */
    return err;
}

enum bus_err endpoints_use_key(struct endpoints *endpoints, const char *path,
                               struct bus_error **reterr)
{
    char place[PATH_MAX];
    char complaint[KEY_FILE_COMPLAINT_BYTES] = "";
    bool is_wanted = false;
    for (unsigned i = 0; i < endpoints->count; i++)
        is_wanted |= endpoints->has_key[i];
    if (!is_wanted)
        return BUS_OK;
    enum bus_err err = path == NULL ? bus_key_path(place, sizeof place, reterr) : BUS_OK;
    if (err != BUS_OK)
        return err;
    const char *chosen = path != NULL ? path : place;
    switch (key_file_read(chosen, &endpoints->own, complaint)) {
    case KEY_FILE_OK:
        (void)snprintf(endpoints->key_path, sizeof endpoints->key_path, "%s", chosen);
        return BUS_OK; /* a path that can be opened is not longer */
    case KEY_FILE_DENIED:
    case KEY_FILE_WRONG: break;
    }
    return error_say(reterr, BUS_EDENIED, ERROR_TYPE_NOT_AUTHORISED,
                     "the broker asks for a key: %s", complaint);
}

bool endpoints_renew_key(struct endpoints *endpoints)
{
    struct key_pair fresh;
    char complaint[KEY_FILE_COMPLAINT_BYTES] = "";
    if (*endpoints->key_path == '\0' ||
        key_file_read(endpoints->key_path, &fresh, complaint) != KEY_FILE_OK)
        return false;
    bool is_other = memcmp(&fresh, &endpoints->own, sizeof fresh) != 0;
    endpoints->own = fresh;
    key_pair_forget(&fresh);
    for (unsigned i = 0; is_other && i < endpoints->count; i++) {
        endpoints->notes[i] = ENDPOINT_UNTRIED;
        endpoints->failures[i] = 0;
    }
    return is_other;
}

bool endpoints_keys(const struct endpoints *endpoints, struct link_keys *out_keys)
{
    if (!endpoints->has_key[endpoints->at])
        return false;
    memcpy(out_keys->server_key, endpoints->server_keys[endpoints->at], KEY_BYTES);
    out_keys->own = endpoints->own;
    return true;
}

const char *endpoints_next(struct endpoints *endpoints)
{
    endpoints->at = (endpoints->at + 1) % endpoints->count;
    bool keeps_note = endpoints->notes[endpoints->at] == ENDPOINT_UNFIT ||
                      endpoints->notes[endpoints->at] == ENDPOINT_MUTE ||
                      endpoints->failures[endpoints->at] > 0; /* the next one may fail as well */
    if (!keeps_note)
        endpoints->notes[endpoints->at] = ENDPOINT_SILENT;
    return endpoints->text[endpoints->at];
}

const char *endpoints_again(struct endpoints *endpoints)
{
    endpoints->at = (endpoints->at + endpoints->count - 1) % endpoints->count;
    return endpoints_next(endpoints);
}

bool endpoints_go(struct endpoints *endpoints, const char *endpoint)
{
    bool has_key = endpoints->has_key[endpoints->at];
    bool is_tcp = strncmp(endpoint, tcp, sizeof tcp - 1) == 0;
    unsigned from = endpoints->at;
    unsigned to = 0;
    if (endpoint_fault(endpoint) != NULL || strlen(endpoint) > LIMIT_ENDPOINT_BYTES ||
        (has_key && !is_tcp))
        return false;
    while (to < endpoints->listed && strcmp(endpoints->text[to], endpoint) != 0)
        to++;
    endpoints->at = to > 0 ? to - 1 : endpoints->count - 1;
    if (to < endpoints->listed)
        return true;
    memcpy(endpoints->text[to], endpoint, strlen(endpoint) + 1);
    memmove(endpoints->server_keys[to], endpoints->server_keys[from], KEY_BYTES);
    endpoints->has_key[to] = has_key;
    endpoints->data[to][0] = '\0';
    endpoints->notes[to] = ENDPOINT_UNTRIED;
    endpoints->told[to] = 0;
    endpoints->is_known[to] = false;
    endpoints->failures[to] = 0;
    if (endpoints->data_at == to) {
        endpoints->data_note = ENDPOINT_UNTRIED;
        endpoints->data_told = 0;
    }
    endpoints->count = endpoints->listed + 1;
    return true;
}

void endpoints_spoke(struct endpoints *endpoints)
{
    endpoints->notes[endpoints->at] = ENDPOINT_SPOKE;
    endpoints->is_known[endpoints->at] = true;
    endpoints->failures[endpoints->at] = 0;
}

bool endpoints_mute(struct endpoints *endpoints)
{
    bool is_news = endpoints->notes[endpoints->at] != ENDPOINT_MUTE;
    endpoints->notes[endpoints->at] = ENDPOINT_MUTE;
    endpoints->failures[endpoints->at] = 0;
    return is_news;
}

void endpoints_greeted(struct endpoints *endpoints)
{
    endpoints->is_known[endpoints->at] = true;
    if (endpoints->notes[endpoints->at] == ENDPOINT_MUTE)
        endpoints->notes[endpoints->at] = ENDPOINT_SILENT;
}

void endpoints_met(struct endpoints *endpoints)
{
    for (unsigned i = 0; i < ENDPOINTS_ROOM; i++)
        endpoints->is_known[i] = true;
}

static enum endpoint_note note_of(enum link_fault fault)
{
    static const enum endpoint_note notes[] = {
        [LINK_FAULT_CLOSED] = ENDPOINT_CLOSED,
        [LINK_FAULT_REFUSED] = ENDPOINT_REFUSED,
        [LINK_FAULT_UNRESOLVED] = ENDPOINT_UNRESOLVED,
        [LINK_FAULT_FOREIGN] = ENDPOINT_FOREIGN,
        [LINK_FAULT_KEY_UNKNOWN] = ENDPOINT_KEY_UNKNOWN,
        [LINK_FAULT_KEY_WANTED] = ENDPOINT_KEY_WANTED,
        [LINK_FAULT_KEY_NEEDLESS] = ENDPOINT_KEY_NEEDLESS,
        [LINK_FAULT_KEY_OTHER] = ENDPOINT_KEY_OTHER,
        [LINK_FAULT_HUNG_UP] = ENDPOINT_HUNG_UP,
        [LINK_FAULT_NO_ZEROMQ] = ENDPOINT_NO_ZEROMQ,
        [LINK_FAULT_OTHER_MECHANISM] = ENDPOINT_OTHER_MECHANISM,
    };
    return notes[fault];
}

/* A broker that stops may close the data channel first.  So that is no failure of the data
 * channel. */
void endpoints_closed(struct endpoints *endpoints, enum link_fault fault)
{
    bool was_mute = endpoints->notes[endpoints->at] == ENDPOINT_MUTE;
    if (!was_mute || fault != LINK_FAULT_CLOSED) { /* else nothing was heard, as before */
        endpoints->notes[endpoints->at] = note_of(fault);
        endpoints->is_known[endpoints->at] = true;
    }
    if (fault == LINK_FAULT_CLOSED)
        endpoints->failures[endpoints->at] = 0;
    else
        endpoints->failures[endpoints->at] += 1;
    endpoints->data_failures = 0;
}

bool endpoints_data(struct endpoints *endpoints, const char *announced,
                    char out[LIMIT_ENDPOINT_BYTES + 1])
{
    const char *given = endpoints->data[endpoints->at];
    if (!link_endpoint_resolve(endpoints->text[endpoints->at], *given != '\0' ? given : announced,
                               out, LIMIT_ENDPOINT_BYTES + 1))
        return false;
    bool is_other = strcmp(endpoints->data_tried, out) != 0;
    if (is_other)
        endpoints->data_told = 0;
    memcpy(endpoints->data_tried, out, strlen(out) + 1);
    if (endpoints->data_failures == 0 && (is_other || endpoints->data_note != ENDPOINT_MUTE))
        endpoints->data_note = ENDPOINT_SILENT;
    endpoints->data_at = endpoints->at;
    return true;
}

bool endpoints_likely_data(const struct endpoints *endpoints, char out[LIMIT_ENDPOINT_BYTES + 1])
{
    const char *control = endpoints->text[endpoints->at];
    const char *given = endpoints->data[endpoints->at];
    const char *port = strrchr(control, ':');
    bool was_there = endpoints->data_note == ENDPOINT_SPOKE && endpoints->data_at == endpoints->at;
    if (*given == '\0' && was_there)
        given = endpoints->data_tried;
    bool is_default =
        strncmp(control, tcp, sizeof tcp - 1) == 0 && strcmp(port, control_default) == 0;
    if (*given == '\0' && is_default)
        given = data_default;
    return *given != '\0' && link_endpoint_resolve(control, given, out, LIMIT_ENDPOINT_BYTES + 1);
}

void endpoints_data_spoke(struct endpoints *endpoints)
{
    endpoints->data_note = ENDPOINT_SPOKE;
    endpoints->data_failures = 0;
}

void endpoints_data_closed(struct endpoints *endpoints, enum link_fault fault)
{
    endpoints->data_note = note_of(fault);
    endpoints->data_failures += 1;
}

bool endpoints_data_mute(struct endpoints *endpoints)
{
    bool is_news = endpoints->data_note != ENDPOINT_MUTE;
    endpoints->data_note = ENDPOINT_MUTE;
    return is_news;
}

bool endpoints_lack_data(const struct endpoints *endpoints)
{
    return endpoints->data_failures >= DATA_FAILURES_ENOUGH * endpoints->count;
}

bool endpoints_are_out_of_reach(const struct endpoints *endpoints)
{
    unsigned count = 0;
    for (unsigned i = 0; i < endpoints->count; i++)
        count += endpoints->failures[i] >= FAILURES_ENOUGH;
    return count == endpoints->count;
}

bool endpoints_are_silent(const struct endpoints *endpoints)
{
    for (unsigned i = 0; i < endpoints->count; i++)
        if (endpoints->notes[i] != ENDPOINT_MUTE || endpoints->is_known[i])
            return false;
    return true;
}

/* Whether it is in vain to try again, once it has happened often enough. */
static bool is_of_denied(enum endpoint_note note)
{
    return note >= ENDPOINT_KEY_UNKNOWN;
}

/* A handshake that failed once may have met the end of a broker.  That a key is not known, the
 * broker has said itself; and what speaks another protocol has said so. */
static unsigned failures_to_deny(enum endpoint_note note)
{
    bool is_sure = note == ENDPOINT_KEY_UNKNOWN || note == ENDPOINT_NO_ZEROMQ ||
                   note == ENDPOINT_OTHER_MECHANISM;
    return is_sure ? 1 : FAILURES_ENOUGH;
}

static bool is_denied(const struct endpoints *endpoints, unsigned at)
{
    enum endpoint_note note = endpoints->notes[at];
    return is_of_denied(note) && endpoints->failures[at] >= failures_to_deny(note);
}

bool endpoints_data_is_denied(const struct endpoints *endpoints)
{
    enum endpoint_note note = endpoints->data_note;
    return is_of_denied(note) &&
           endpoints->data_failures >= failures_to_deny(note) * endpoints->count;
}

bool endpoints_are_denied(const struct endpoints *endpoints)
{
    for (unsigned i = 0; i < endpoints->count; i++)
        if (!is_denied(endpoints, i))
            return false;
    return true;
}

bool endpoints_have_broker(const struct endpoints *endpoints)
{
    if (endpoints_data_is_denied(endpoints))
        return endpoints->data_note < ENDPOINT_HUNG_UP;
    for (unsigned i = 0; i < endpoints->count; i++)
        if (endpoints->notes[i] < ENDPOINT_HUNG_UP)
            return true;
    return false;
}

/* Says what is wrong with the keys at an endpoint, or that it is no broker's, and what to do. */
static void describe_denied(const struct endpoints *endpoints, unsigned at, char *text, size_t room)
{
    const char *endpoint = endpoints->text[at];
    char own[KEY_TEXT_BYTES + 1];
    char theirs[KEY_TEXT_BYTES + 1];
    key_text_write(endpoints->own.public_key, KEY_PUBLIC, own);
    key_text_write(endpoints->server_keys[at], KEY_PUBLIC, theirs);
    switch (endpoints->notes[at]) {
    case ENDPOINT_KEY_UNKNOWN:
        (void)snprintf(
            text, room,
            "%s: the broker does not know this key: send %s to its operator, who puts it "
            "into the access file",
            endpoint, own);
        break;
    case ENDPOINT_KEY_WANTED:
        (void)snprintf(text, room,
                       "%s: the broker asks for a key: make one with 'errbus key new', send it to "
                       "the operator, and write the broker's key before the host: tcp://ebp_...@%s",
                       endpoint, endpoint + sizeof tcp - 1);
        break;
    case ENDPOINT_KEY_NEEDLESS:
        (void)snprintf(text, room,
                       "%s: what listens there uses no keys, so it is not the broker whose key is "
                       "%s; if it is meant to be open, leave the key out of the endpoint",
                       endpoint, theirs);
        break;
    case ENDPOINT_KEY_OTHER:
        (void)snprintf(text, room,
                       "%s: the broker there has not the key %s: ask its operator for the right "
                       "one, which errbusd prints when it starts",
                       endpoint, theirs);
        break;
    case ENDPOINT_HUNG_UP:
        (void)snprintf(text, room,
                       "%s: what listens there hangs up when it hears ZeroMQ: see whether the port "
                       "is that of errbusd, or of another service",
                       endpoint);
        break;
    case ENDPOINT_NO_ZEROMQ:
        (void)snprintf(text, room,
                       "%s: what listens there does not speak ZeroMQ, so it is no broker: see "
                       "whether the port is that of errbusd, or of another service",
                       endpoint);
        break;
    case ENDPOINT_OTHER_MECHANISM:
        (void)snprintf(text, room,
                       "%s: what listens there speaks ZeroMQ, but asks for a password or for "
                       "Kerberos, which no errbusd does: see which program has this port",
                       endpoint);
        break;
    case ENDPOINT_UNTRIED:
    case ENDPOINT_SILENT:
    case ENDPOINT_MUTE:
    case ENDPOINT_CLOSED:
    case ENDPOINT_REFUSED:
    case ENDPOINT_UNRESOLVED:
    case ENDPOINT_FOREIGN:
    case ENDPOINT_SPOKE:
    case ENDPOINT_UNFIT: must(false); /* describe_one() has the words of these */
    }
}

static const char *words_of(enum endpoint_note note)
{
    switch (note) {
    case ENDPOINT_UNTRIED: return "not tried yet";
    case ENDPOINT_SILENT: return "no answer";
    case ENDPOINT_MUTE:
        return "what listens there accepts connections and says nothing: it is a broker that is "
               "stopped or overloaded, or no broker; see which program has this port";
    case ENDPOINT_CLOSED: return "the connection was closed before an answer came";
    case ENDPOINT_REFUSED: return "nothing listens there, or it is out of reach";
    case ENDPOINT_UNRESOLVED: return "does not resolve: no IPv4 address is known for this name";
    case ENDPOINT_FOREIGN:
        return "what listens there does not answer as errbusd does (is it another service, or a "
               "tunnel without its other end?)";
    case ENDPOINT_SPOKE: return "it answered, but has not admitted this party yet";
    case ENDPOINT_UNFIT: return "this process cannot use this endpoint";
    case ENDPOINT_KEY_UNKNOWN: return "what listens there does not know this key";
    case ENDPOINT_KEY_WANTED: return "what listens there asks for a key, and control has none";
    case ENDPOINT_KEY_NEEDLESS: return "what listens there uses no keys, and control does";
    case ENDPOINT_KEY_OTHER: return "what listens there has another key than control";
    case ENDPOINT_HUNG_UP: return "what listens there hangs up when it hears ZeroMQ";
    case ENDPOINT_NO_ZEROMQ: return "what listens there does not speak ZeroMQ";
    case ENDPOINT_OTHER_MECHANISM:
        return "what listens there speaks ZeroMQ, but asks for a password or for Kerberos";
    }
    must(false); /* the switch has them all */
    return NULL;
}

static void describe_one(const char *endpoint, enum endpoint_note note, char *text, size_t room)
{
    const char *host = endpoint + sizeof tcp - 1; /* of tcp, if it is to be resolved */
    if (note != ENDPOINT_UNRESOLVED)
        (void)snprintf(text, room, "%s: %s", endpoint, words_of(note));
    else
        (void)snprintf(text, room, "%s: %.*s %s", endpoint, (int)(strrchr(host, ':') - host), host,
                       words_of(note));
}

/* Describes one endpoint.  If control answered and data did not, the text names the data endpoint
 * that was tried, and says what to do. */
static size_t describe_at(const struct endpoints *endpoints, unsigned at, char *text, size_t room)
{
    const char *control = endpoints->text[at];
    bool lacks_data = at == endpoints->data_at && *endpoints->data_tried != '\0' &&
                      endpoints->data_note != ENDPOINT_SPOKE;
    char data[LIMIT_ENDPOINT_BYTES + DESCRIBED_BYTES];
    if (is_of_denied(endpoints->notes[at])) {
        describe_denied(endpoints, at, text, room);
    } else if (!lacks_data) {
        bool is_refused = endpoints->notes[at] == ENDPOINT_REFUSED;
        describe_one(control, endpoints->notes[at], data, sizeof data);
        (void)snprintf(text, room, "%s%s", data, is_refused ? " (is errbusd running?)" : "");
    } else {
        describe_one(endpoints->data_tried, endpoints->data_note, data, sizeof data);
        (void)snprintf(text, room,
                       "%s: the broker answered, but not its data channel at %s; forward that port "
                       "as well, or say where it is: %s,data=HOST:PORT",
                       control, data, control);
    }
    return strlen(text);
}

void endpoints_describe(const struct endpoints *endpoints, char *text, size_t room)
{
    size_t bytes = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < endpoints->count && bytes < room; i++) {
        if (i > 0) {
            (void)snprintf(text + bytes, room - bytes, "; ");
            bytes += strlen(text + bytes);
        }
        bytes += describe_at(endpoints, i, text + bytes, room - bytes);
    }
}

/* A broker that goes closes connections, too: that is worth no word before it happens again. */
static bool is_doubtful(const struct endpoints *endpoints, unsigned at)
{
    switch (endpoints->notes[at]) {
    case ENDPOINT_MUTE: return true;
    case ENDPOINT_FOREIGN: return endpoints->failures[at] >= FAILURES_ENOUGH;
    case ENDPOINT_UNTRIED:
    case ENDPOINT_SILENT:
    case ENDPOINT_CLOSED:
    case ENDPOINT_REFUSED:
    case ENDPOINT_UNRESOLVED:
    case ENDPOINT_SPOKE:
    case ENDPOINT_UNFIT: break;
    case ENDPOINT_KEY_UNKNOWN:
    case ENDPOINT_KEY_WANTED:
    case ENDPOINT_KEY_NEEDLESS:
    case ENDPOINT_KEY_OTHER:
    case ENDPOINT_HUNG_UP:
    case ENDPOINT_NO_ZEROMQ:
    case ENDPOINT_OTHER_MECHANISM: return is_denied(endpoints, at);
    }
    return false;
}

/* Whether the note is told now.  Notes of one endpoint may take turns: each is told once. */
static bool tells(uint32_t *told, enum endpoint_note note)
{
    uint32_t bit = UINT32_C(1) << note;
    bool is_new = (*told & bit) == 0;
    *told |= bit;
    return is_new;
}

bool endpoints_doubt(struct endpoints *endpoints, char *text, size_t room)
{
    for (unsigned i = 0; i < endpoints->count; i++) {
        bool is_of_data = i == endpoints->data_at && endpoints->data_note == ENDPOINT_MUTE &&
                          endpoints->notes[i] == ENDPOINT_SPOKE;
        bool is_told =
            (is_doubtful(endpoints, i) && tells(&endpoints->told[i], endpoints->notes[i])) ||
            (is_of_data && tells(&endpoints->data_told, endpoints->data_note));
        if (is_told)
            (void)describe_at(endpoints, i, text, room);
        if (is_told)
            return true;
    }
    return false;
}
