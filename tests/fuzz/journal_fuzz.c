/* SPDX-License-Identifier: MPL-2.0 */
/* journal_fuzz.c -- foreign bytes as the files of a journal: whatever they are, it opens or
 * refuses; what it opens stays as it is; what was repaired opens.
 *
 * The first byte says how the rest is taken: whether checksums are made to fit, since chance does
 * not find them, and where a second file begins. */
#include "broker/journal/crc32c.h"
#include "broker/journal/layout.h"
#include "broker/journal/format.h"
#include "broker/journal/tool.h"
#include "libbus/base/must.h"
#include "tests/lib/sim_disk.h"

#include <string.h>

#define FILE_BYTES 4096
#define ID UINT64_C(77)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Makes the checksums of heads and bodies fit, as far as lengths lead. */
static void mend_sums(uint8_t *file, uint64_t first)
{
    uint64_t offset = FORMAT_SEGMENT_BYTES;
    while (offset + FORMAT_RECORD_BYTES <= FILE_BYTES) {
        uint8_t *at = file + offset;
        uint8_t place[16];
        uint32_t length = (uint32_t)at[8] | (uint32_t)at[9] << 8;
        uint64_t filled = format_filled(length);
        if (filled > FILE_BYTES - offset - FORMAT_RECORD_BYTES)
            return;
        at[10] = 0;
        at[11] = 0;
        uint32_t body_crc = crc32c(0, at + FORMAT_RECORD_BYTES, filled);
        memcpy(at + 4, &body_crc, 4);
        format_put64(place, ID);
        format_put64(place + 8, first + offset - FORMAT_SEGMENT_BYTES);
        uint32_t head_crc = crc32c(crc32c(0, place, 16), at + 4, FORMAT_RECORD_BYTES - 4);
        memcpy(at, &head_crc, 4);
        offset += FORMAT_RECORD_BYTES + filled;
    }
}

static void put_segment(struct sim_disk *sim, uint64_t first, const uint8_t *data, size_t bytes,
                        uint8_t how)
{
    uint8_t file[FILE_BYTES] = {0};
    char name[FORMAT_NAME_BYTES];
    struct segment_head head = {
        .version = FORMAT_VERSION, .journal = ID, .first = first, .bytes = FILE_BYTES};
    size_t room = FILE_BYTES - FORMAT_SEGMENT_BYTES;
    memcpy(file + FORMAT_SEGMENT_BYTES, data, bytes < room ? bytes : room);
    if ((how & 1) != 0)
        segment_head_write(&head, file);
    else
        memcpy(file, data, bytes < FORMAT_SEGMENT_BYTES ? bytes : FORMAT_SEGMENT_BYTES);
    if ((how & 2) != 0)
        mend_sums(file, first);
    segment_name_write(first, name);
    sim_disk_put(sim, name, file, FILE_BYTES);
}

static bool open_and_count(struct sim_disk *sim, struct journal_opened *opened, uint64_t *out_count)
{
    struct journal *journal = NULL;
    struct journal_options options = {.segment_bytes = FILE_BYTES};
    struct disk *disk = sim_disk_open(sim);
    char complaint[JOURNAL_COMPLAINT_BYTES] = "";
    if (journal_open_disk(&disk, &options, &journal, opened, complaint) != JOURNAL_OK) {
        must(complaint[0] != '\0');
        return false;
    }
    struct journal_found found = {.next = journal_first(journal)};
    enum journal_err err = JOURNAL_OK;
    *out_count = 0;
    while ((err = journal_read(journal, found.next, &found)) == JOURNAL_OK)
        ++*out_count;
    must(err == JOURNAL_END);
    journal_close(&journal);
    return true;
}

static void hear(void *arg, const char *line)
{
    (void)arg;
    must(line[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct journal_opened opened;
    uint64_t count = 0;
    uint64_t again = 0;
    if (bytes < 2)
        return 0;
    struct sim_disk *sim = sim_disk_new(1);
    uint8_t how = data[0];
    size_t first = (how & 4) != 0 ? (bytes - 1) / 2 : bytes - 1;
    put_segment(sim, 0, data + 1, first, how);
    if ((how & 4) != 0)
        put_segment(sim, format_filled(first), data + 1 + first, bytes - 1 - first, how >> 3);
    struct disk *disk = sim_disk_open(sim);
    enum journal_err err = tool_check(&disk, hear, NULL);
    bool is_open = open_and_count(sim, &opened, &count);
    must(is_open == (err == JOURNAL_OK));
    if (is_open) {
        /* What was cut may leave an empty file, and with that gone there may be more to cut. */
        must(open_and_count(sim, &opened, &again) && again == count);
        must(open_and_count(sim, &opened, &again) && again == count && opened.cut_bytes == 0);
    }
    disk = sim_disk_open(sim);
    if (tool_repair(&disk, hear, NULL) == JOURNAL_OK) {
        disk = sim_disk_open(sim);
        err = tool_check(&disk, hear, NULL);
        must(err == JOURNAL_OK || err == JOURNAL_MISSING); /* all of it may be moved aside */
        must(open_and_count(sim, &opened, &again) == (err == JOURNAL_OK));
    }
    sim_disk_free(&sim);
    return 0;
}
