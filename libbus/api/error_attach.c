/* SPDX-License-Identifier: MPL-2.0 */
/* error_attach.c -- adds data and files to an error object, as its attachments. */
#include "libbus/api/attachment_list.h"
#include "libbus/api/error.h"
#include "libbus/api/model.h"
#include "libbus/base/pattern.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static enum bus_err may_add(const struct bus_error *error, const char *name)
{
    if (error == NULL || !name_is_valid(span_text(name)))
        return BUS_EINVAL;
    return error_check_fresh(error);
}

enum bus_err bus_error_add_data(struct bus_error *error, const char *name, const void *data,
                                size_t bytes)
{
    enum bus_err err = may_add(error, name);
    if (err == BUS_OK && data == NULL && bytes > 0)
        err = BUS_EINVAL;
    struct error_attachment *attachment = NULL;
    if (err == BUS_OK)
        err = attachments_add(error, span_text(name), bytes, &attachment);
    if (err == BUS_OK && bytes > 0)
        memcpy(attachment->data, data, bytes);
    if (err == BUS_OK)
        attachments_list_again(error);
    return error_say_code(err, __func__);
}

enum bus_err bus_error_add_file(struct bus_error *error, const char *name, const char *path)
{
    enum bus_err err = may_add(error, name);
    if (err != BUS_OK || path == NULL)
        return error_say_code(BUS_EINVAL, __func__);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return error_say_code(BUS_EINVAL, __func__);
    struct error_attachment *attachment = NULL;
    err = attachments_add(error, span_text(name), 0, &attachment);
    if (err != BUS_OK) {
        close(fd);
        return error_say_code(err, __func__);
    }
    attachment->fd = fd;
    attachment->bytes = attachment_file_bytes(fd);
    attachments_list_again(error);
    return BUS_OK;
}

const char *bus_error_attachment_at(const struct bus_error *error, size_t index, int64_t *out_bytes)
{
    const struct error_attachment *at = error_or_none(error)->attachments;
    for (; at != NULL && index > 0; index--)
        at = at->next;
    if (at == NULL)
        return NULL;
    if (out_bytes != NULL)
        *out_bytes = at->bytes <= INT64_MAX ? (int64_t)at->bytes : -1;
    return at->name;
}
