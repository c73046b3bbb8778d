/* SPDX-License-Identifier: MPL-2.0 */
/* zmtp.c -- greeting, handshake and frames out of foreign bytes; see zmtp.h. */
#include "tests/fuzz/zmtp.h"

#include "libbus/base/must.h"

#include <string.h>

enum {
    USUAL = 240, /* bytes below ask for what a good peer would say */
    GREETING_BYTES = 64,
    MECHANISM_AT = 12,
    MECHANISM_BYTES = 20,
    FLAG_MORE = 1,
    FLAG_LONG = 2,
    FLAG_COMMAND = 4,
    COMMAND_BODY_MAX = 600,
    FRAMES_MAX = 8,
};

struct speech {
    uint8_t *out;
    size_t count;
};

static void put(struct speech *speech, const void *bytes, size_t count)
{
    must(speech->count + count <= ZMTP_BYTES_MAX);
    if (count > 0)
        memcpy(speech->out + speech->count, bytes, count);
    speech->count += count;
}

static void put_byte(struct speech *speech, uint8_t byte)
{
    put(speech, &byte, 1);
}

static void put_number(struct speech *speech, uint64_t number, int bytes)
{
    while (bytes-- > 0)
        put_byte(speech, (uint8_t)(number >> 8 * bytes));
}

/* ---- greeting -------------------------------------------------------------------------------- */

static void greet(struct speech *speech, struct feed *feed)
{
    static const char *const mechanisms[] = {"NULL", "PLAIN", "CURVE", "GSSAPI",
                                             "AAAAAAAAAAAAAAAAAAAA"};
    uint8_t bytes[GREETING_BYTES] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0, 'N', 'U', 'L', 'L'};
    uint8_t how = feed_byte(feed);
    if (how == 255) { /* ZMTP 1.0: an identity of no bytes */
        put(speech, "\1", 2);
        return;
    }
    if (how >= USUAL) {
        const char *mechanism = mechanisms[how % 5];
        bytes[10] = feed_byte(feed) & 7; /* the version */
        bytes[11] = feed_byte(feed) & 3;
        memset(bytes + MECHANISM_AT, 0, MECHANISM_BYTES);
        memcpy(bytes + MECHANISM_AT, mechanism, strlen(mechanism));
        bytes[MECHANISM_AT + MECHANISM_BYTES] = feed_byte(feed); /* whether it is the server */
    }
    put(speech, bytes, sizeof bytes);
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* Its length as it is; or a lie about it, or flags that nobody has. */
static void put_frame(struct speech *speech, struct feed *feed, uint8_t flags, const void *bytes,
                      size_t count)
{
    static const uint64_t lies[] = {0,          1,         255,        65536,
                                    UINT32_MAX, INT64_MAX, 1ULL << 63, UINT64_MAX};
    uint8_t how = feed_byte(feed);
    uint64_t told = how >= USUAL + 6 ? lies[how & 7] : count;
    bool is_long = told > 255 || how == USUAL;
    if (how > USUAL && how < USUAL + 6)
        flags ^= (uint8_t)(feed_byte(feed) & 0xff);
    put_byte(speech, (uint8_t)(flags | (is_long ? FLAG_LONG : 0)));
    put_number(speech, told, is_long ? 8 : 1);
    put(speech, bytes, count);
}

static void put_command(struct speech *speech, struct feed *feed, const char *name,
                        const void *body, size_t count)
{
    uint8_t bytes[1 + 16 + COMMAND_BODY_MAX];
    uint8_t how = feed_byte(feed);
    size_t length = strlen(name);
    must(length <= 16 && count <= COMMAND_BODY_MAX);
    bytes[0] = how < USUAL ? (uint8_t)length : how; /* else its name is longer than all of it */
    memcpy(bytes + 1, name, length);
    if (count > 0)
        memcpy(bytes + 1 + length, body, count);
    put_frame(speech, feed, FLAG_COMMAND, bytes, 1 + length + count);
}

/* ---- handshakes ------------------------------------------------------------------------------ */

static size_t put_property(uint8_t *at, const char *name, const void *value, uint32_t told,
                           size_t count)
{
    size_t length = strlen(name);
    at[0] = (uint8_t)length;
    memcpy(at + 1, name, length);
    for (int i = 0; i < 4; i++)
        at[1 + length + (size_t)i] = (uint8_t)(told >> 8 * (3 - i));
    if (count > 0)
        memcpy(at + 5 + length, value, count);
    return 5 + length + count;
}

static void put_ready(struct speech *speech, struct feed *feed, const char *name)
{
    static const char *const types[] = {"ROUTER", "REQ", "SUB", "STREAM", "", "Dealer", "XPUB"};
    uint8_t body[COMMAND_BODY_MAX];
    uint8_t how = feed_byte(feed);
    const char *type = how < USUAL ? "DEALER" : types[how % 7];
    size_t length = strlen(type);
    size_t count = put_property(body, "Socket-Type", type, (uint32_t)length, length);
    how = feed_byte(feed);
    if (how >= USUAL) { /* an identity: of its own, of a length that is not so, or of zeros */
        uint8_t identity[256] = {0};
        size_t bytes = how;
        memset(identity, how % 2 == 0 ? 0 : 'i', sizeof identity);
        uint32_t told = how % 5 == 4 ? UINT32_MAX - how : (uint32_t)bytes;
        count += put_property(body + count, how % 3 == 2 ? "Resource" : "Identity", identity, told,
                              bytes);
    }
    put_command(speech, feed, name, body, count);
}

/* As if there were keys (rfc.zeromq.org/spec/26) or passwords (24). */
static void put_foreign_handshake(struct speech *speech, struct feed *feed)
{
    uint8_t body[COMMAND_BODY_MAX] = {1, 0};
    switch (feed_byte(feed) % 6) {
    case 0: put_command(speech, feed, "HELLO", "\5admin\10password", 15); break;
    case 1: put_command(speech, feed, "HELLO", "\377admin", 6); break; /* a name of 255 bytes */
    case 2: put_command(speech, feed, "HELLO", body, 194); break;      /* CURVE's */
    case 3: put_command(speech, feed, "INITIATE", body, 8 + 96 + 256); break;
    case 4: put_command(speech, feed, "WELCOME", body, 160); break; /* which is the server's */
    default: put_command(speech, feed, "ERROR", "\3bad", 4); break;
    }
}

static void shake_hands(struct speech *speech, struct feed *feed)
{
    uint8_t how = feed_byte(feed);
    if (how == 255)
        return;
    if (how >= 244) {
        put_foreign_handshake(speech, feed);
        how = feed_byte(feed);
    }
    put_ready(speech, feed, how < USUAL ? "READY" : how % 2 == 0 ? "INITIATE" : "READYREADY");
}

/* ---- what comes behind ----------------------------------------------------------------------- */

static void put_any_command(struct speech *speech, struct feed *feed)
{
    uint8_t body[COMMAND_BODY_MAX];
    uint8_t how = feed_byte(feed);
    size_t count = how % 2 == 0 ? how % 32 : (size_t)how * 2;
    memset(body, how, sizeof body);
    switch (feed_byte(feed) % 8) {
    case 0: put_command(speech, feed, "PING", body, count); break; /* its context is too long */
    case 1: put_command(speech, feed, "PING", "\0\012beat", 6); break;
    case 2: put_command(speech, feed, "PONG", body, count); break;
    case 3: put_command(speech, feed, "SUBSCRIBE", body, count); break;
    case 4: put_command(speech, feed, "CANCEL", body, count); break;
    case 5: put_ready(speech, feed, "READY"); break; /* once more */
    case 6: put_frame(speech, feed, FLAG_COMMAND, "", 0); break;
    default: put_foreign_handshake(speech, feed); break;
    }
}

size_t zmtp_speech(struct feed *feed, struct span payload, uint8_t out[ZMTP_BYTES_MAX])
{
    struct speech speech = {.out = out};
    must(payload.bytes <= ZMTP_PAYLOAD_MAX);
    greet(&speech, feed);
    shake_hands(&speech, feed);
    if (feed_byte(feed) < USUAL)
        put_frame(&speech, feed, 0, payload.data, payload.bytes);
    /* Half of them are silent from then on. */
    size_t left = feed_byte(feed);
    for (left = left < 128 ? 0 : left % FRAMES_MAX + 1; left > 0; left--) {
        uint8_t how = feed_byte(feed);
        if (how < 90) {
            put_frame(&speech, feed, 0, payload.data, payload.bytes);
        } else if (how < 120) { /* a message of many parts */
            put_frame(&speech, feed, FLAG_MORE, payload.data, payload.bytes);
        } else if (how < 190) {
            struct span rubbish = feed_span(feed, how & 31);
            put_frame(&speech, feed, how % 2 == 0 ? 0 : FLAG_MORE, rubbish.data, rubbish.bytes);
        } else {
            put_any_command(&speech, feed);
        }
    }
    return speech.count;
}
