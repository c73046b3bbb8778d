/* SPDX-License-Identifier: MPL-2.0 */
/* buffer_heap.c -- reference-counted bytes on the heap of the C library. */
#include "libbus/base/buffer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { HEADER_BYTES = (sizeof(struct buffer) + 15) / 16 * 16, PAGE_BYTES = 4096 };

/* What has so many bytes is used again: a large page.  From here on the GNU C library gives memory
 * back to the system again and again, and a round of models of 4 or 16 MiB takes 1.7 times as long
 * with new pages each time (bench/README.md). */
#define REUSED_BYTES_MIN ((size_t)2 * 1024 * 1024)

/* For the pages of a block.  The C library's own header before it, and what is behind, stay as they
 * are; so does our header. */
static void advise(void *block, size_t bytes, int advice)
{
    size_t skipped = PAGE_BYTES - (uintptr_t)block % PAGE_BYTES;
    if (skipped < HEADER_BYTES)
        skipped += PAGE_BYTES;
    size_t whole = (bytes - skipped) / PAGE_BYTES * PAGE_BYTES;
    (void)madvise((uint8_t *)block + skipped, whole, advice); /* or not: it is as good */
}

/* ---- large blocks that were given back ------------------------------------------------------- */

/* Who reads models round after round needs the same blocks again.  New ones come from the system
 * full of zeros, which takes as long as to copy the value.  So the last ones are kept.  The system
 * takes their pages when it is short of memory (MADV_FREE), and zeros are there then.
 *
 * A thread takes a block out of its place before it looks at it.  So no lock is needed, and a place
 * may be empty for a moment: then a new block is made, or one is freed. */
enum { KEPT_MAX = 32 }; /* a round has as many models, as a rule */
#define KEPT_BYTES_MAX ((size_t)4 << 30)
/* A kept block is used for what needs three quarters of it or more. */
#define FIT_SHARE 4

static _Atomic(struct buffer *) kept[KEPT_MAX];
static atomic_uint kept_next;    /* the place of the next one */
static atomic_size_t kept_bytes; /* room of them all */

static struct buffer *take_out(size_t place)
{
    struct buffer *buffer = atomic_exchange(&kept[place], NULL);
    if (buffer != NULL)
        atomic_fetch_sub(&kept_bytes, buffer->room);
    return buffer;
}

/* Whatever was in the place is freed. */
static void put_in(size_t place, struct buffer *buffer)
{
    atomic_fetch_add(&kept_bytes, buffer->room);
    struct buffer *old = atomic_exchange(&kept[place], buffer);
    if (old == NULL)
        return;
    atomic_fetch_sub(&kept_bytes, old->room);
    free(old);
}

static struct buffer *take_kept(size_t room)
{
    for (size_t place = 0; place < KEPT_MAX; place++) {
        struct buffer *buffer = take_out(place);
        if (buffer == NULL)
            continue;
        if (buffer->room >= room && buffer->room - room <= buffer->room / FIT_SHARE)
            return buffer;
        put_in(place, buffer);
    }
    return NULL;
}

static void large_release(struct buffer *buffer)
{
    if (atomic_load(&kept_bytes) + buffer->room > KEPT_BYTES_MAX) {
        free(buffer);
        return;
    }
    advise(buffer, HEADER_BYTES + buffer->room, MADV_FREE);
    put_in(atomic_fetch_add(&kept_next, 1) % KEPT_MAX, buffer);
}

static void heap_release(struct buffer *buffer)
{
    free(buffer);
}

/* In large pages, where the system has them: a page fault for each 4 KiB was a third of the time
 * that a value of 64 MiB takes, at its writer and at its reader (bench/README.md). */
static struct buffer *new_large(size_t room)
{
    struct buffer *buffer = take_kept(room);
    if (buffer != NULL)
        return buffer;
    buffer = malloc(HEADER_BYTES + room);
    if (buffer != NULL) {
        advise(buffer, HEADER_BYTES + room, MADV_HUGEPAGE);
        buffer->room = room;
    }
    return buffer;
}

struct buffer *buffer_new(size_t room)
{
    if (room > SIZE_MAX - HEADER_BYTES)
        return NULL;
    bool is_large = room >= REUSED_BYTES_MIN;
    struct buffer *buffer = is_large ? new_large(room) : malloc(HEADER_BYTES + room);
    if (buffer == NULL)
        return NULL;
    atomic_init(&buffer->refs, 1);
    buffer->data = (uint8_t *)buffer + HEADER_BYTES;
    buffer->bytes = 0;
    buffer->room = is_large ? buffer->room : room;
    buffer->release = is_large ? large_release : heap_release;
    buffer->owner = NULL;
    return buffer;
}
