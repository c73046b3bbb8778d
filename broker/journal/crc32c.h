/* SPDX-License-Identifier: MPL-2.0 */
/* crc32c.h -- the checksum of the journal: CRC-32C (Castagnoli; RFC 3720, appendix B.4).
 *
 * Two implementations agree (tests/unit/crc32c_test.c): the processor's instruction, and a table.
 */
#ifndef JOURNAL_CRC32C_H
#define JOURNAL_CRC32C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Goes on from crc, which is 0 in the beginning; by the processor where it can. */
uint32_t crc32c(uint32_t crc, const void *data, size_t bytes);

uint32_t crc32c_by_table(uint32_t crc, const void *data, size_t bytes);
/* Where the processor has no such instruction crc32c_by_processor() must not be called. */
bool crc32c_has_processor(void);
uint32_t crc32c_by_processor(uint32_t crc, const void *data, size_t bytes);

#endif
