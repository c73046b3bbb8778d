/* SPDX-License-Identifier: MPL-2.0 */
/* listen.c -- see listen.h. */
#include "clients/web/listen.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool is_loopback(const struct sockaddr_storage *address)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    if (address->ss_family == AF_INET) {
        return ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    return address->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

/* The part of "HOST:PORT" before the last colon, without brackets; its port.  false: too long. */
static bool split(const char *text, char host[LISTEN_HOST_BYTES], const char **out_port)
{
    const char *colon = strrchr(text, ':');
    const char *from = text;
    size_t bytes = colon != NULL ? (size_t)(colon - text) : 0;
    if (bytes >= 2 && text[0] == '[' && text[bytes - 1] == ']') {
        from += 1;
        bytes -= 2;
    }
    if (bytes >= LISTEN_HOST_BYTES) {
        return false;
    }
    memcpy(host, from, bytes);
    host[bytes] = '\0';
    *out_port = colon != NULL ? colon + 1 : text;
    return true;
}

const char *listen_read(const char *text, struct listen_address *out)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    const char *port = NULL;
    memset(out, 0, sizeof *out);
    if (!split(text, out->host, &port) || *port == '\0') {
        return "it is not HOST:PORT";
    }
    if (out->host[0] == '\0') {
        snprintf(out->host, sizeof out->host, "127.0.0.1");
    }
    int fault = getaddrinfo(out->host, port, &hints, &found);
    if (fault != 0) {
        return gai_strerror(fault);
    }
    memcpy(&out->address, found->ai_addr, found->ai_addrlen);
    out->is_loopback = is_loopback(&out->address);
    freeaddrinfo(found);
    return NULL;
}

static bool is_digits(const char *text)
{
    return *text != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* Whether `host`, with a port or without, is this name. */
static bool is_host(const char *host, const char *name)
{
    size_t bytes = strlen(name);
    bool is_bracketed = strchr(name, ':') != NULL;
    if (is_bracketed && *host++ != '[') {
        return false;
    }
    if (strncasecmp(host, name, bytes) != 0) {
        return false;
    }
    const char *rest = host + bytes;
    if (is_bracketed && *rest++ != ']') {
        return false;
    }
    return *rest == '\0' || (*rest == ':' && is_digits(rest + 1));
}

bool listen_is_meant(const struct listen_address *address, const char *also, const char *host)
{
    const char *const names[] = {"localhost", "127.0.0.1", "::1", address->host, also};
    for (size_t i = 0; host != NULL && i < sizeof names / sizeof names[0]; i++) {
        if (names[i] != NULL && is_host(host, names[i])) {
            return true;
        }
    }
    return false;
}

bool listen_is_plain_token(const char *token)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+/=";
    return token[0] != '\0' && token[strspn(token, plain)] == '\0';
}

bool listen_is_token(const char *token, const char *given)
{
    unsigned different = 0;
    if (given == NULL) {
        return false;
    }
    size_t bytes = strlen(token);
    size_t given_bytes = strlen(given);
    different |= given_bytes != bytes;
    for (size_t i = 0; i < bytes; i++) {
        different |= (unsigned char)token[i] ^ (unsigned char)(i < given_bytes ? given[i] : 0);
    }
    return different == 0;
}

bool listen_is_authorized(const char *token, const char *authorization)
{
    static const char scheme[] = "Bearer ";
    return authorization != NULL && strncasecmp(authorization, scheme, sizeof scheme - 1) == 0 &&
           listen_is_token(token, authorization + sizeof scheme - 1);
}
