/* SPDX-License-Identifier: MPL-2.0 */
/* attachment_list.h -- the attachments of an error object, as a list. */
#ifndef API_ATTACHMENT_LIST_H
#define API_ATTACHMENT_LIST_H

#include "libbus/api/model.h"

struct error_attachment {
    struct error_attachment *next;
    char name[LIMIT_NAME_BYTES + 1];
    bool is_elsewhere; /* it came over the wire: this process has none of its bytes */
    int fd;            /* -1: data */
    uint64_t bytes;    /* of data; of the file when it was opened; ERROR_BYTES_UNKNOWN */
    uint8_t data[];
};

void attachments_free(struct error_attachment *attachments);
/* Adds what the record of an error says of its attachments.  false: no memory. */
bool attachments_read(struct bus_error *error, struct span list);
/* Adds an attachment at the end, with room for data_bytes and no file.
 * Errors: BUS_EINVAL: the name is there already; BUS_EFULL; BUS_ENOMEM. */
enum bus_err attachments_add(struct bus_error *error, struct span name, size_t data_bytes,
                             struct error_attachment **out_attachment);
/* Writes error->attached again, which goes into the record of the error. */
void attachments_list_again(struct bus_error *error);
/* ERROR_BYTES_UNKNOWN for a pipe, or a file of the kernel. */
uint64_t attachment_file_bytes(int fd);

#endif
