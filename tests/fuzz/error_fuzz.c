/* SPDX-License-Identifier: MPL-2.0 */
/* error_fuzz.c -- foreign bytes as an error object: causes come later than what they caused, and
 * what is taken can be said again. */
#include "libbus/base/must.h"
#include "libbus/wire/error.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct error_record records[LIMIT_ERROR_RECORDS];
    static uint8_t again[LIMIT_ERROR_BYTES];
    uint32_t count = 0;
    size_t again_bytes = 0;
    if (error_decode((struct span){data, bytes}, records, LIMIT_ERROR_RECORDS, &count) != WIRE_OK)
        return 0;
    must(count > 0 && count <= LIMIT_ERROR_RECORDS);
    for (uint32_t i = 0; i < count; i++) {
        must(records[i].cause_count <= LIMIT_ERROR_CAUSES);
        for (uint32_t k = 0; k < records[i].cause_count; k++)
            must(records[i].causes[k] > i && records[i].causes[k] < count);
    }
    if (bytes <= LIMIT_ERROR_BYTES)
        must(error_encode(records, count, again, sizeof again, &again_bytes) == WIRE_OK);
    return 0;
}
