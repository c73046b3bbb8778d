/* SPDX-License-Identifier: MPL-2.0 */
/* authentication.c -- see authentication.h. */
#include "broker/io/authentication.h"

#include "broker/io/failpoint.h"
#include "broker/io/log.h"
#include "broker/io/new_connections.h"
#include "broker/io/peer_address.h"
#include "libbus/base/limits.h"
#include "libbus/base/utf8.h"
#include "libbus/io/part.h"
#include "libbus/io/ready.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

/* ZMQ_ZAP_ENFORCE_DOMAIN is a DRAFT name in the headers of libzmq 4.3, and in force in Debian's
 * build.  Whether this libzmq knows it is read back. */
#define ENFORCE_DOMAIN 93

#define NS_PER_S UINT64_C(1000000000)

enum {
    PARTS_MAX = 12, /* of a request; ZAP has 8, and a part for each credential */
    ANSWERS_AT_ONCE = 64,
    USER_ID_BYTES = 160,
    NONCE_RAW_BYTES = 16,
};
/* The parts of a request (ZeroMQ RFC 27), behind the id of its connection. */
enum {
    PART_ROUTE,
    PART_EMPTY,
    PART_VERSION,
    PART_REQUEST,
    PART_DOMAIN,
    PART_ADDRESS,
    PART_IDENTITY,
    PART_MECHANISM,
    PART_CREDENTIALS,
};
static const char zap_address[] = "inproc://zeromq.zap.01";
static const char domain_keys[] = "errbus-keys"; /* of sockets that ask for a key */
static const char domain_uids[] = "errbus-uids"; /* ... that know the uid of their peer */

static int64_t now_s(void)
{
    struct timespec now;
    return clock_gettime(CLOCK_REALTIME, &now) == 0 ? (int64_t)now.tv_sec : INT64_MAX;
}

/* ---- files ----------------------------------------------------------------------------------- */

static bool say_fault(const char *path, const struct access_fault *fault,
                      char complaint[AUTHENTICATION_COMPLAINT_BYTES])
{
    bool has_word = fault->word.bytes > 0;
    int bytes = fault->word.bytes < LIMIT_NAME_BYTES ? (int)fault->word.bytes : LIMIT_NAME_BYTES;
    snprintf(complaint, AUTHENTICATION_COMPLAINT_BYTES, "%.500s:%u: %s%.*s%s%s", path, fault->line,
             has_word ? "'" : "", bytes, has_word ? (const char *)fault->word.data : "",
             has_word ? "' " : "", fault->what);
    return false;
}

/* What the child may do, as lines behind those of the file; how many bytes. */
static size_t add_rules(const struct web_child *child, char *text)
{
    if (child == NULL)
        return 0;
    return (size_t)snprintf(text, WEB_CHILD_RULES_BYTES + 1, "\n%s", child->rules);
}

static bool read_access(struct authentication *authentication, const char *path,
                        struct access **out_access, char complaint[AUTHENTICATION_COMPLAINT_BYTES])
{
    struct access_fault fault = {0};
    size_t bytes = 0;
    char *text = malloc(LIMIT_ACCESS_BYTES + WEB_CHILD_RULES_BYTES + 2);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool is_read =
        text != NULL && fd >= 0 && key_file_load(fd, text, LIMIT_ACCESS_BYTES + 1, &bytes);
    if (!is_read) {
        snprintf(complaint, AUTHENTICATION_COMPLAINT_BYTES,
                 "cannot read the access file '%.500s': %s%s", path, strerror(errno),
                 errno == ENOENT ? "; 'errbus access add FILE key NAME KEY' begins one" : "");
    } else {
        bytes += add_rules(authentication->child, text + bytes);
        struct access *made = access_read(&authentication->memory, span_of(text, bytes), &fault);
        if (made != NULL)
            *out_access = made;
        else
            is_read = say_fault(path, &fault, complaint);
    }
    if (fd >= 0)
        close(fd);
    free(text);
    return is_read;
}

bool authentication_check(const char *access_path, char complaint[AUTHENTICATION_COMPLAINT_BYTES])
{
    struct authentication unopened = {.fd = -1};
    memory_heap_init(&unopened.memory, UINT64_MAX);
    bool is_read = read_access(&unopened, access_path, &unopened.access, complaint);
    authentication_fini(&unopened);
    return is_read;
}

/* The key is made at the first start. */
static bool read_key(struct authentication *authentication, const char *path,
                     char complaint[AUTHENTICATION_COMPLAINT_BYTES])
{
    char why[KEY_FILE_COMPLAINT_BYTES] = "";
    bool is_there = access(path, F_OK) == 0;
    enum key_file_err err = is_there ? key_file_read(path, &authentication->key, why)
                                     : key_file_make(path, &authentication->key, why);
    if (err != KEY_FILE_OK)
        snprintf(complaint, AUTHENTICATION_COMPLAINT_BYTES, "%s", why);
    else if (!is_there)
        log_line(LOG_INFO, "made the broker's key %.500s", path);
    authentication->is_key_new = !is_there;
    return err == KEY_FILE_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool draw_nonce(char nonce[AUTHENTICATION_NONCE_BYTES])
{
    uint8_t raw[NONCE_RAW_BYTES];
    if (getrandom(raw, sizeof raw, 0) != (ssize_t)sizeof raw)
        return false;
    for (size_t i = 0; i < sizeof raw; i++)
        snprintf(nonce + 2 * i, 3, "%02x", raw[i]);
    return true;
}

bool authentication_open(struct authentication *authentication, void *context,
                         const char *access_path, const char *key_path,
                         const struct web_child *child,
                         char complaint[AUTHENTICATION_COMPLAINT_BYTES])
{
    *authentication = (struct authentication){.fd = -1};
    memory_heap_init(&authentication->memory, UINT64_MAX);
    if (*access_path == '\0')
        return true;
    authentication->access_path = access_path;
    authentication->child = child;
    if (!read_access(authentication, access_path, &authentication->access, complaint) ||
        !read_key(authentication, key_path, complaint))
        return false;
    (void)prctl(PR_SET_DUMPABLE, 0); /* the key is in this memory: no core has it, no debugger */
    authentication->socket = zmq_socket(context, ZMQ_ROUTER);
    int linger_ms = 0;
    bool is_bound =
        authentication->socket != NULL && draw_nonce(authentication->nonce) &&
        zmq_setsockopt(authentication->socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms) == 0 &&
        (failpoint_number("NO_ZAP", 0) != 0 || zmq_bind(authentication->socket, zap_address) == 0);
    if (!is_bound) {
        snprintf(complaint, AUTHENTICATION_COMPLAINT_BYTES, "cannot ask for keys: %s",
                 zmq_strerror(errno));
        return false;
    }
    authentication->fd = ready_fd(authentication->socket);
    authentication->read_s = now_s();
    return true;
}

/* It becomes an event, which is UTF-8; a path need not be. */
static void make_utf8(char *text)
{
    bool is_valid = utf8_is_valid(span_text(text));
    for (; !is_valid && *text != '\0'; text++)
        if ((unsigned char)*text >= 0x80)
            *text = '?';
}

struct access *authentication_reload(struct authentication *authentication,
                                     char complaint[AUTHENTICATION_COMPLAINT_BYTES])
{
    struct access *before = authentication->access;
    struct access *made = NULL;
    if (authentication->socket == NULL) {
        log_line(LOG_WARNING, "SIGHUP: there is no access file to read again");
        return NULL;
    }
    if (!read_access(authentication, authentication->access_path, &made, complaint)) {
        size_t bytes = strlen(complaint);
        snprintf(complaint + bytes, AUTHENTICATION_COMPLAINT_BYTES - bytes,
                 "; what was allowed before stays allowed");
        authentication->is_outdated = true;
        make_utf8(complaint);
        return NULL;
    }
    log_line(LOG_INFO, "access: %.500s is in force", authentication->access_path);
    authentication->access = made;
    authentication->is_outdated = false;
    authentication->read_s = now_s();
    return before;
}

void authentication_tell(const struct authentication *authentication, struct metric_figures *out)
{
    if (authentication->socket == NULL)
        return;
    out->samples[SAMPLE_ACCESS_VALID] = !authentication->is_outdated;
    out->samples[SAMPLE_ACCESS_RELOAD] = (uint64_t)authentication->read_s * NS_PER_S;
}

void authentication_stop(struct authentication *authentication)
{
    if (authentication->socket != NULL)
        zmq_close(authentication->socket);
    authentication->socket = NULL;
}

void authentication_fini(struct authentication *authentication)
{
    access_free(&authentication->access);
    key_pair_forget(&authentication->key);
}

static bool set_number(void *socket, int option, int value)
{
    int is = 0;
    size_t bytes = sizeof is;
    return zmq_setsockopt(socket, option, &value, sizeof value) == 0 &&
           zmq_getsockopt(socket, option, &is, &bytes) == 0 && is == value;
}

bool authentication_guard(const struct authentication *authentication, void *socket,
                          const char *endpoint)
{
    if (authentication->socket == NULL)
        return true;
    bool has_keys = strncmp(endpoint, "ipc://", 6) != 0;
    const char *domain = has_keys ? domain_keys : domain_uids;
    return zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, domain, strlen(domain)) == 0 &&
           set_number(socket, ENFORCE_DOMAIN, 1) &&
           (!has_keys || (set_number(socket, ZMQ_CURVE_SERVER, 1) &&
                          zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY,
                                         authentication->key.secret_key, KEY_BYTES) == 0));
}

bool authentication_open_channel(const struct authentication *authentication,
                                 struct channel *channel, void *context, enum lane lane,
                                 const char *endpoint,
                                 char complaint[AUTHENTICATION_COMPLAINT_BYTES])
{
    if (!channel_open(channel, context, lane)) {
        snprintf(complaint, AUTHENTICATION_COMPLAINT_BYTES, "cannot open the %s channel: %s",
                 channel_name(lane), zmq_strerror(errno));
        return false;
    }
    char fault[ENDPOINT_COMPLAINT_BYTES] = AUTHENTICATION_LACKS;
    bool is_open = authentication_guard(authentication, channel->socket, endpoint) &&
                   channel_bind(channel, endpoint, fault);
    if (!is_open)
        snprintf(complaint, AUTHENTICATION_COMPLAINT_BYTES, "%s channel: %.1000s",
                 channel_name(lane), fault);
    return is_open;
}

/* ---- answering ------------------------------------------------------------------------------- */

struct request {
    zmq_msg_t parts[PARTS_MAX];
    unsigned count;
};

static struct span part_of(struct request *request, unsigned at)
{
    return span_of(zmq_msg_data(&request->parts[at]), zmq_msg_size(&request->parts[at]));
}

static bool part_is(struct request *request, unsigned at, const char *text)
{
    return span_equal(part_of(request, at), span_text(text));
}

/* false: nothing was asked. */
static bool receive_request(void *socket, struct request *request)
{
    bool more = true;
    zmq_msg_t other;
    zmq_msg_init(&other);
    for (request->count = 0; more; request->count++) {
        bool is_kept = request->count < PARTS_MAX;
        zmq_msg_t *part = is_kept ? &request->parts[request->count] : &other;
        if (is_kept)
            zmq_msg_init(part);
        if (!part_receive(socket, part)) {
            if (is_kept)
                zmq_msg_close(part);
            break;
        }
        more = zmq_msg_more(part);
        if (!is_kept)
            request->count -= 1; /* too long: no request of ZAP */
    }
    zmq_msg_close(&other);
    return request->count > 0;
}

/* The address of a peer by ipc is "localhost:UID:GID:PID": the kernel says so, not the peer. */
static bool read_uid(struct span address, uint32_t *out_uid, uint32_t *out_pid)
{
    char text[64];
    unsigned uid, gid, pid;
    int end = 0;
    if (address.bytes >= sizeof text)
        return false;
    memcpy(text, address.data, address.bytes);
    text[address.bytes] = '\0';
    if (sscanf(text, "localhost:%u:%u:%u%n", &uid, &gid, &pid, &end) != 3 || text[end] != '\0')
        return false;
    *out_uid = uid;
    *out_pid = pid;
    return true;
}

/* The User-Id of whoever asks, as text; false: nobody that the access file knows. */
static bool identify(const struct authentication *authentication, struct request *request,
                     char user_id[USER_ID_BYTES])
{
    char key[KEY_TEXT_BYTES + 1];
    const struct web_child *child = authentication->child;
    uint32_t uid, pid;
    if (request->count <= PART_MECHANISM || !part_is(request, PART_VERSION, "1.0"))
        return false;
    bool has_key = part_is(request, PART_DOMAIN, domain_keys) &&
                   part_is(request, PART_MECHANISM, "CURVE") &&
                   request->count == PART_CREDENTIALS + 1 &&
                   part_of(request, PART_CREDENTIALS).bytes == KEY_BYTES;
    bool has_uid = part_is(request, PART_DOMAIN, domain_uids) &&
                   part_is(request, PART_MECHANISM, "NULL") &&
                   read_uid(part_of(request, PART_ADDRESS), &uid, &pid);
    if (has_key) {
        const uint8_t *bytes = part_of(request, PART_CREDENTIALS).data;
        key_text_write(bytes, KEY_PUBLIC, key);
        snprintf(user_id, USER_ID_BYTES, "%s:%s", authentication->nonce, key);
    } else if (has_uid && child != NULL && child->pid != 0 && pid == (uint32_t)child->pid) {
        snprintf(user_id, USER_ID_BYTES, "%s:%s", authentication->nonce, child->key);
    } else if (has_uid) {
        snprintf(user_id, USER_ID_BYTES, "%s:uid:%u", authentication->nonce, uid);
    }
    return (has_key || has_uid) && authentication_principal(authentication, user_id) != 0;
}

static void send_answer(void *socket, struct request *request, bool is_known, const char *user_id)
{
    const char *texts[] = {is_known ? "200" : "400", is_known ? "OK" : "unknown",
                           is_known ? user_id : "", ""};
    for (unsigned i = PART_ROUTE; i <= PART_REQUEST; i++)
        if (zmq_msg_send(&request->parts[i], socket, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0)
            return; /* whoever asked is gone */
    for (unsigned i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        bool is_last = i + 1 == sizeof texts / sizeof texts[0];
        (void)zmq_send(socket, texts[i], strlen(texts[i]),
                       ZMQ_DONTWAIT | (is_last ? 0 : ZMQ_SNDMORE)); /* the same */
    }
}

bool authentication_is_asked(const struct authentication *authentication)
{
    return authentication->socket != NULL && ready_has(authentication->socket, ZMQ_POLLIN);
}

static void tell_proved(struct request *request, struct new_connections *connections)
{
    struct span address = part_of(request, PART_ADDRESS);
    struct timespec now;
    char text[64];
    if (address.bytes >= sizeof text || clock_gettime(CLOCK_MONOTONIC, &now) != 0)
        return;
    memcpy(text, address.data, address.bytes);
    text[address.bytes] = '\0';
    new_connections_proved(connections, peer_address_read(text),
                           (int64_t)now.tv_sec * (int64_t)NS_PER_S + now.tv_nsec);
}

void authentication_answer(struct authentication *authentication,
                           struct new_connections *connections)
{
    for (int i = 0; i < ANSWERS_AT_ONCE && authentication_is_asked(authentication); i++) {
        struct request request;
        char user_id[USER_ID_BYTES] = "";
        if (!receive_request(authentication->socket, &request))
            return;
        bool is_known = identify(authentication, &request, user_id);
        if (request.count > PART_REQUEST)
            send_answer(authentication->socket, &request, is_known, user_id);
        if (is_known)
            tell_proved(&request, connections);
        *(is_known ? &authentication->accepted : &authentication->refused) += 1;
        for (unsigned j = 0; j < request.count; j++)
            zmq_msg_close(&request.parts[j]);
    }
}

struct identity authentication_identify(const struct authentication *authentication,
                                        const char *user_id)
{
    size_t nonce_bytes = AUTHENTICATION_NONCE_BYTES - 1;
    struct identity identity = {.has_key = false};
    unsigned uid;
    int end = 0;
    if (user_id == NULL || strncmp(user_id, authentication->nonce, nonce_bytes) != 0 ||
        user_id[nonce_bytes] != ':')
        return identity;
    const char *who = user_id + nonce_bytes + 1;
    identity.has_key = key_text_read(span_text(who), KEY_PUBLIC, identity.key) == KEY_OK;
    identity.has_uid =
        !identity.has_key && sscanf(who, "uid:%u%n", &uid, &end) == 1 && who[end] == '\0';
    if (identity.has_uid)
        identity.uid = uid;
    return identity;
}

uint32_t authentication_find(const struct authentication *authentication,
                             const struct identity *identity)
{
    if (identity->has_key)
        return access_by_key(authentication->access, identity->key, now_s());
    return identity->has_uid ? access_by_uid(authentication->access, identity->uid, now_s()) : 0;
}

uint32_t authentication_principal(const struct authentication *authentication, const char *user_id)
{
    struct identity identity = authentication_identify(authentication, user_id);
    return authentication_find(authentication, &identity);
}

int64_t authentication_next_end_s(const struct authentication *authentication)
{
    return access_next_end_s(authentication->access, now_s());
}

bool authentication_has_ended(const struct authentication *authentication, int64_t end_s)
{
    return authentication->socket != NULL && now_s() >= end_s;
}

int64_t authentication_end_s(const struct authentication *authentication,
                             const struct identity *identity)
{
    if (authentication->socket == NULL)
        return INT64_MAX;
    if (identity->has_key)
        return access_key_end_s(authentication->access, identity->key);
    return identity->has_uid ? access_uid_end_s(authentication->access, identity->uid) : INT64_MAX;
}

/* ---- keys that end soon ---------------------------------------------------------------------- */

void authentication_ends_begin(struct authentication *authentication, const struct access *before,
                               struct authentication_ends *ends)
{
    *ends = (struct authentication_ends){
        .before = before, .now_s = now_s(), .told_s = authentication->ends_told_s};
    authentication->ends_told_s = ends->now_s + LIMIT_EXPIRING_S;
}

static bool was_told(const struct authentication_ends *ends, const struct access_end *end)
{
    int64_t before_s = end->is_key ? access_key_end_s(ends->before, end->key)
                                   : access_uid_end_s(ends->before, end->uid);
    return end->end_s <= ends->told_s && before_s == end->end_s;
}

static void write_end(const struct access_end *end, char text[AUTHENTICATION_COMPLAINT_BYTES])
{
    char what[KEY_TEXT_BYTES + 1];
    char day[16] = "";
    struct tm parts;
    time_t last_s = (time_t)(end->end_s - 1);
    if (end->is_key)
        key_text_write(end->key, KEY_PUBLIC, what);
    else
        snprintf(what, sizeof what, "%u", end->uid);
    if (gmtime_r(&last_s, &parts) != NULL)
        strftime(day, sizeof day, "%Y-%m-%d", &parts);
    snprintf(text, AUTHENTICATION_COMPLAINT_BYTES, "the %s %s of %.*s ends with the day %s (UTC)",
             end->is_key ? "key" : "uid", what, (int)end->name.bytes, (const char *)end->name.data,
             day);
}

bool authentication_ends_next(const struct authentication *authentication,
                              struct authentication_ends *ends,
                              char text[AUTHENTICATION_COMPLAINT_BYTES])
{
    struct access_end end;
    uint32_t others = 0;
    while (access_ending(authentication->access, ends->now_s, authentication->ends_told_s,
                         &ends->at, &end)) {
        if (was_told(ends, &end))
            continue;
        if (ends->count < LIMIT_EXPIRING_TOLD) {
            ends->count += 1;
            write_end(&end, text);
            return true;
        }
        others += 1;
    }
    if (others > 0)
        snprintf(text, AUTHENTICATION_COMPLAINT_BYTES,
                 "%u further keys and uids end within %d days", others,
                 (int)(LIMIT_EXPIRING_S / 86400));
    return others > 0;
}

int64_t authentication_next_warning_s(const struct authentication *authentication)
{
    int64_t end_s = access_next_end_s(authentication->access, authentication->ends_told_s);
    return end_s != INT64_MAX ? end_s - LIMIT_EXPIRING_S : end_s;
}
