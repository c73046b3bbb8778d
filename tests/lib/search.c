/* SPDX-License-Identifier: MPL-2.0 */
/* search.c -- see search.h. */
#include "tests/lib/search.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { OVERLAP_BYTES = 256, PIECE_BYTES = 1 << 16 };
#define SHADOW_BYTES                                                                               \
    ((off_t)1 << 30) /* no program of the tests has a mapping of its own like that */

/* Bytes that come one after the other; a secret may lie across two pieces. */
struct search {
    const char *secret;
    size_t kept;
    bool is_found;
    char bytes[OVERLAP_BYTES + PIECE_BYTES];
};

/* The next count bytes stand behind those that were kept. */
static void search_more(struct search *search, size_t count)
{
    size_t all = search->kept + count;
    search->is_found = search->is_found ||
                       memmem(search->bytes, all, search->secret, strlen(search->secret)) != NULL;
    search->kept = all < OVERLAP_BYTES ? all : OVERLAP_BYTES;
    memmove(search->bytes, search->bytes + all - search->kept, search->kept);
}

static bool file_holds(const char *path, const char *secret)
{
    static struct search search;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    search = (struct search){.secret = secret};
    for (size_t got;
         !search.is_found && (got = fread(search.bytes + search.kept, 1, PIECE_BYTES, file)) > 0;)
        search_more(&search, got);
    (void)fclose(file); /* it was only read */
    return search.is_found;
}

unsigned folder_holds(const char *folder_path, const char *secret)
{
    unsigned found = 0;
    DIR *entries = opendir(folder_path);
    const struct dirent *entry;
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", folder_path, entry->d_name);
        if (entry->d_type == DT_REG && file_holds(path, secret))
            found++;
    }
    if (entries != NULL)
        closedir(entries);
    return found;
}

/* One mapping; false: nothing of it can be read. */
static void search_mapping(int memory, off_t from, off_t to, struct search *search)
{
    search->kept = 0;
    while (from < to && !search->is_found) {
        size_t most = to - from < PIECE_BYTES ? (size_t)(to - from) : PIECE_BYTES;
        ssize_t got = pread(memory, search->bytes + search->kept, most, from);
        if (got <= 0)
            return; /* not there, as that of the kernel */
        search_more(search, (size_t)got);
        from += got;
    }
}

/* The address sanitizer reserves 16 TiB for its shadow and marks them as "not dumped" (dd).  No
 * bytes of the program are in them, and to read them takes hours.  A small mapping with that mark
 * is read: a program may keep its keys in one. */
static bool is_shadow(const char *flags, off_t bytes)
{
    return bytes > SHADOW_BYTES && strstr(flags, " dd") != NULL;
}

/* smaps has a line of addresses for each mapping, lines of figures, and at last one of flags. */
static void search_mappings(int memory, FILE *maps, struct search *search)
{
    char line[PATH_MAX + 128];
    unsigned long from = 0;
    unsigned long to = 0;
    char may[5] = ""; /* what is only reserved holds nothing, and is large */
    while (!search->is_found && fgets(line, sizeof line, maps) != NULL) {
        unsigned long begin;
        unsigned long end;
        char rights[5];
        if (sscanf(line, "%lx-%lx %4s", &begin, &end, rights) == 3) {
            from = begin;
            to = end;
            memcpy(may, rights, sizeof may);
        } else if (strncmp(line, "VmFlags:", 8) == 0 && *may == 'r' &&
                   !is_shadow(line, (off_t)(to - from))) {
            search_mapping(memory, (off_t)from, (off_t)to, search);
        }
    }
}

int memory_holds(pid_t pid, const char *secret)
{
    static struct search search;
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/mem", (long)pid);
    int memory = open(path, O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof path, "/proc/%ld/smaps", (long)pid);
    FILE *maps = fopen(path, "re");
    search = (struct search){.secret = secret};
    if (memory >= 0 && maps != NULL)
        search_mappings(memory, maps, &search);
    if (maps != NULL)
        (void)fclose(maps); /* it was only read */
    if (memory >= 0)
        close(memory);
    return memory < 0 || maps == NULL ? -1 : search.is_found;
}
