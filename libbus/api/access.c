/* SPDX-License-Identifier: MPL-2.0 */
/* access.c -- access files, as the public calls have them. */
#include "libbus/base/access.h"

#include "libbus/api/error.h"
#include "libbus/api/model.h"
#include "libbus/base/limits.h"
#include "libbus/base/pattern.h"
#include "libbus/io/key_file.h"

#include <bus/access.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert((int)BUS_RIGHT_PARTY == ACCESS_PARTY && (int)BUS_RIGHT_ADMIN == ACCESS_ADMIN,
               "rights are numbered alike");
_Static_assert((int)BUS_LIMIT_CONNECTIONS == ACCESS_CONNECTIONS &&
                   (int)BUS_LIMIT_ATTACHMENTS == ACCESS_ATTACHMENTS &&
                   ACCESS_ATTACHMENTS + 1 == ACCESS_QUOTA_COUNT,
               "limits are numbered alike");

struct bus_access {
    struct memory memory;
    struct access *access;
    struct bus_access_summary summary;
};

const char *bus_right_name(enum bus_right right)
{
    return access_right_name((enum access_right)right);
}

static bool is_limit(enum bus_limit limit)
{
    return (unsigned)limit < ACCESS_QUOTA_COUNT;
}

const char *bus_limit_name(enum bus_limit limit)
{
    return is_limit(limit) ? access_quota_name((enum access_quota)limit) : "";
}

static enum bus_err say_no_memory(struct bus_error **reterr)
{
    return error_give(reterr, BUS_ENOMEM, &error_no_memory);
}

/* "PATH:LINE: 'WORD' is no right: ..." */
static enum bus_err say_fault(const char *path, const struct access_fault *fault,
                              struct bus_error **reterr)
{
    if (fault->line == 0)
        return say_no_memory(reterr);
    bool has_word = fault->word.bytes > 0;
    int bytes = fault->word.bytes < LIMIT_NAME_BYTES ? (int)fault->word.bytes : LIMIT_NAME_BYTES;
    return error_say(reterr, BUS_EPROTO, ERROR_TYPE_ARGUMENT, "%.500s:%u: %s%.*s%s%s", path,
                     fault->line, has_word ? "'" : "", bytes, (const char *)fault->word.data,
                     has_word ? "' " : "", fault->what);
}

/* text has room for one byte more than a file may have. */
static enum bus_err load(const char *path, char *text, size_t *out_bytes, struct bus_error **reterr)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool is_read = fd >= 0 && key_file_load(fd, text, LIMIT_ACCESS_BYTES + 1, out_bytes);
    int cause = errno;
    if (fd >= 0)
        close(fd);
    if (is_read)
        return BUS_OK;
    return error_say(reterr, BUS_EDENIED, ERROR_TYPE_NOT_AUTHORISED,
                     "cannot read the access file '%.500s': %s", path,
                     cause == EFBIG ? "it is larger than 1 MiB" : strerror(cause));
}

enum bus_err bus_access_read(const char *path, struct bus_access **out_access,
                             struct bus_error **reterr)
{
    size_t bytes = 0;
    struct access_fault fault = {0};
    if (path == NULL || out_access == NULL)
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "bus_access_read() needs path and out_access");
    struct bus_access *access = calloc(1, sizeof *access);
    char *text = malloc(LIMIT_ACCESS_BYTES + 1);
    enum bus_err err =
        access != NULL && text != NULL ? load(path, text, &bytes, reterr) : say_no_memory(reterr);
    if (err == BUS_OK) {
        memory_heap_init(&access->memory, UINT64_MAX);
        access->access = access_read(&access->memory, span_of(text, bytes), &fault);
        if (access->access == NULL)
            err = say_fault(path, &fault, reterr);
    }
    free(text);
    if (err != BUS_OK) {
        free(access);
        return err;
    }
    struct access_counts counts = access_counts(access->access);
    access->summary = (struct bus_access_summary){.names = counts.principals,
                                                  .keys = counts.keys,
                                                  .uids = counts.uids,
                                                  .groups = counts.groups,
                                                  .rules = counts.rules,
                                                  .limits = counts.limits};
    *out_access = access;
    return BUS_OK;
}

void bus_access_free(struct bus_access **access)
{
    if (access == NULL || *access == NULL)
        return;
    access_free(&(*access)->access);
    free(*access);
    *access = NULL;
}

const struct bus_access_summary *bus_access_summary(const struct bus_access *access)
{
    static const struct bus_access_summary nothing = {0};
    return access != NULL ? &access->summary : &nothing;
}

static uint32_t find(const struct bus_access *access, const char *name)
{
    return access != NULL && name != NULL ? access_find(access->access, span_text(name)) : 0;
}

int bus_access_has(const struct bus_access *access, const char *name)
{
    return find(access, name) != 0;
}

uint32_t bus_access_may(const struct bus_access *access, const char *name, enum bus_right right,
                        const char *job)
{
    uint32_t principal = find(access, name);
    if (principal == 0 || job == NULL)
        return 0;
    return access_may(access->access, principal, (enum access_right)right, span_text(job));
}

uint32_t bus_access_may_be(const struct bus_access *access, const char *name, const char *job,
                           const char *party)
{
    uint32_t principal = find(access, name);
    if (principal == 0 || job == NULL || party == NULL)
        return 0;
    return access_may_be(access->access, principal, span_text(job), span_text(party));
}

uint32_t bus_access_may_read(const struct bus_access *access, const char *name, const char *job,
                             const char *party, const char *topic)
{
    uint32_t principal = find(access, name);
    if (principal == 0 || job == NULL || party == NULL || topic == NULL ||
        !pattern_is_valid(span_text(topic)))
        return 0;
    return access_may_match(access->access, principal, span_text(job), span_text(party),
                            span_text(topic));
}

uint32_t bus_access_limit(const struct bus_access *access, const char *name, enum bus_limit limit,
                          uint64_t *out_amount)
{
    uint64_t amount = ACCESS_UNLIMITED;
    uint32_t principal = find(access, name);
    uint32_t line = 0;
    if (principal != 0 && is_limit(limit))
        line = access_limit(access->access, principal, (enum access_quota)limit, &amount);
    if (out_amount != NULL)
        *out_amount = amount;
    return line;
}
