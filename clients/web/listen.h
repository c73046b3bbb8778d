/* SPDX-License-Identifier: MPL-2.0 */
/* listen.h -- where errbus web listens, and which requests are meant for it. */
#ifndef CLIENTS_WEB_LISTEN_H
#define CLIENTS_WEB_LISTEN_H

#include <stdbool.h>
#include <sys/socket.h>

enum { LISTEN_HOST_BYTES = 256 };

struct listen_address {
    struct sockaddr_storage address;
    char host[LISTEN_HOST_BYTES]; /* as it was given, without brackets */
    bool is_loopback;             /* only programs on this machine reach it */
};

/* Reads "HOST:PORT", "[IPv6]:PORT" or "PORT".  NULL: done; otherwise what is wrong. */
const char *listen_read(const char *text, struct listen_address *out);

/* Whether the header Host names this listener: the host it was given, this machine, or `also`,
 * which may be NULL.  A page of another site that had its name point here sends the name of that
 * site. */
bool listen_is_meant(const struct listen_address *address, const char *also, const char *host);

/* Whether a token has only characters that the header Authorization and a cookie take as they are:
 * RFC 6750, section 2.1. */
bool listen_is_plain_token(const char *token);
/* Whether `given`, which may be NULL, is this token.  Takes as long, whatever is wrong with it. */
bool listen_is_token(const char *token, const char *given);
/* Whether the header Authorization has this token. */
bool listen_is_authorized(const char *token, const char *authorization);

#endif
