/* SPDX-License-Identifier: MPL-2.0 */
/* attachment_list.c -- the attachments of an error object, as a list. */
#include "libbus/api/attachment_list.h"

#include "libbus/api/model.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void attachments_free(struct error_attachment *attachments)
{
    while (attachments != NULL) {
        struct error_attachment *now = attachments;
        attachments = now->next;
        if (now->fd >= 0)
            close(now->fd);
        free(now);
    }
}

/* Encodes the list again, as the error's record has it. */
void attachments_list_again(struct bus_error *error)
{
    struct error_attached list[LIMIT_ERROR_ATTACHMENTS];
    uint32_t count = 0;
    for (const struct error_attachment *at = error->attachments; at != NULL; at = at->next)
        list[count++] = (struct error_attached){.name = span_text(at->name), .bytes = at->bytes};
    if (count > 0)
        error->attached->bytes = error_attached_write(list, count, error->attached->data);
}

/* Appends an attachment with data_bytes of room behind it. */
enum bus_err attachments_add(struct bus_error *error, struct span name, size_t data_bytes,
                             struct error_attachment **out_attachment)
{
    unsigned count = 0;
    struct error_attachment **end = &error->attachments;
    for (; *end != NULL; end = &(*end)->next, count++)
        if (span_equal(span_text((*end)->name), name))
            return BUS_EINVAL;
    if (count == LIMIT_ERROR_ATTACHMENTS)
        return BUS_EFULL;
    if (error->attached == NULL)
        error->attached = calloc(1, sizeof *error->attached);
    struct error_attachment *attachment = malloc(sizeof *attachment + data_bytes);
    if (error->attached == NULL || attachment == NULL) {
        free(attachment);
        return BUS_ENOMEM;
    }
    *attachment = (struct error_attachment){.fd = -1, .bytes = data_bytes};
    memcpy(attachment->name, name.data, name.bytes);
    attachment->name[name.bytes] = '\0';
    *end = attachment;
    *out_attachment = attachment;
    return BUS_OK;
}

/* The size of a file.  Nobody knows the size of a pipe, or of a file of the kernel. */
uint64_t attachment_file_bytes(int fd)
{
    struct stat stat;
    return fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode) && stat.st_size > 0
               ? (uint64_t)stat.st_size
               : ERROR_BYTES_UNKNOWN;
}

bool attachments_read(struct bus_error *error, struct span list)
{
    struct error_attached attached;
    struct error_attachment *attachment = NULL;
    while (error_attached_next(&list, &attached)) {
        enum bus_err err = attachments_add(error, attached.name, 0, &attachment);
        if (err == BUS_ENOMEM)
            return false;
        if (err != BUS_OK)
            continue; /* it is in the list already */
        attachment->is_elsewhere = true;
        attachment->bytes = attached.bytes;
    }
    attachments_list_again(error);
    return true;
}
