/* SPDX-License-Identifier: MPL-2.0 */
/* crc32c_plain.c -- no instruction for the checksum; for all but x86-64, see CMakeLists.txt. */
#include "broker/journal/crc32c.h"
#include "libbus/base/must.h"

bool crc32c_has_processor(void)
{
    return false;
}

uint32_t crc32c_by_processor(uint32_t crc, const void *data, size_t bytes)
{
    (void)crc;
    (void)data;
    (void)bytes;
    must(!"this processor has no instruction for it");
    return 0;
}
