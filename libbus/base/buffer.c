/* SPDX-License-Identifier: MPL-2.0 */
/* buffer.c -- reference-counted bytes of any origin; see buffer.h. */
#include "libbus/base/buffer.h"

#include <string.h>

struct buffer *buffer_copy(struct span bytes)
{
    struct buffer *buffer = buffer_new(bytes.bytes);
    if (buffer == NULL)
        return NULL;
    if (bytes.bytes > 0)
        memcpy(buffer->data, bytes.data, bytes.bytes);
    buffer->bytes = bytes.bytes;
    return buffer;
}
