/* SPDX-License-Identifier: MPL-2.0 */
/* proof.c -- what is on the disk for certain; see proof.h. */
#include "broker/journal/proof.h"

#include "broker/journal/crc32c.h"
#include "broker/journal/format.h"

#include <errno.h>
#include <string.h>

enum { PLACE_BYTES = 512, PLACE_COUNT = 2, VERSION = 1 };

static const char magic[8] = "errbusP\n";

static void write_crc(uint8_t *bytes, uint32_t crc)
{
    for (int i = 0; i < 4; i++)
        bytes[12 + i] = (uint8_t)(crc >> (8 * i));
}

static void proof_encode(const struct proof *proof, uint8_t *out)
{
    memset(out, 0, PROOF_BYTES);
    memcpy(out, magic, sizeof magic);
    format_put64(out + 8, VERSION);
    format_put64(out + 16, proof->journal);
    format_put64(out + 24, proof->number);
    format_put64(out + 32, proof->trimmed);
    format_put64(out + 40, proof->synced);
    write_crc(out, crc32c(0, out, PROOF_BYTES));
}

/* False: there is no proof in these bytes. */
static bool decode(const uint8_t *bytes, struct proof *out_proof)
{
    uint8_t again[PROOF_BYTES];
    *out_proof = (struct proof){.journal = format_get64(bytes + 16),
                                .number = format_get64(bytes + 24),
                                .trimmed = format_get64(bytes + 32),
                                .synced = format_get64(bytes + 40)};
    proof_encode(out_proof, again);
    return memcmp(bytes, again, PROOF_BYTES) == 0 && out_proof->trimmed <= out_proof->synced;
}

int proof_load(struct disk *disk, struct proof *out_proof)
{
    int64_t got = 0;
    *out_proof = (struct proof){.number = 0};
    int file = disk->ops->open(disk, PROOF_NAME, DISK_READ);
    if (file < 0)
        return file == -ENOENT ? 0 : file;
    for (uint64_t i = 0; got >= 0 && i < PLACE_COUNT; i++) {
        uint8_t bytes[PROOF_BYTES];
        struct proof proof;
        got = disk_read_at(disk, file, bytes, sizeof bytes, i * PLACE_BYTES);
        if (got == PROOF_BYTES && decode(bytes, &proof) && proof.number > out_proof->number)
            *out_proof = proof;
    }
    disk->ops->shut(disk, file);
    return got < 0 ? (int)got : 0;
}

int proof_open(struct disk *disk)
{
    int file = disk->ops->open(disk, PROOF_NAME, DISK_WRITE);
    if (file != -ENOENT)
        return file;
    file = disk->ops->open(disk, PROOF_NAME, DISK_MAKE);
    int result = file < 0 ? file : disk->ops->reserve(disk, file, PLACE_COUNT * PLACE_BYTES);
    if (result < 0 && file >= 0) {
        disk->ops->shut(disk, file);
        (void)disk->ops->unlink(disk, PROOF_NAME); /* empty as it is, it says nothing */
    }
    return result < 0 ? result : file;
}

int proof_store(struct disk *disk, int file, const struct proof *proof)
{
    uint8_t bytes[PROOF_BYTES];
    struct iovec piece = {bytes, sizeof bytes};
    proof_encode(proof, bytes);
    int result = disk_write_all(disk, file, &piece, 1, proof->number % PLACE_COUNT * PLACE_BYTES);
    return result == 0 ? disk->ops->sync(disk, file) : result;
}
