/* SPDX-License-Identifier: MPL-2.0 */
/* play.c -- a main for fuzz targets where libFuzzer is not: every file of the corpora once, and
 * then so many mutants of them, the same ones in every run.
 *
 *   play MUTANTS FOLDER...
 *
 * It finds far less than libFuzzer, for nothing guides it; but it needs no other compiler, so every
 * run of the tests can do it.  With PLAY_FROM=NUMBER it begins with another mutant.  When one ends
 * the process, its number is said; with PLAY_ONLY=NUMBER it is played alone, for a debugger. */
#include "libbus/base/must.h"

#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES_MAX = 1024, BYTES_MAX = 4096, PATH_BYTES = 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static struct file {
    uint8_t *data;
    size_t bytes;
    char path[PATH_BYTES];
} files[FILES_MAX];
static size_t file_count;
static char playing[PATH_BYTES + 64];

static void tell(int number)
{
    ssize_t written = write(STDERR_FILENO, playing, strlen(playing));
    (void)written; /* there is nobody else to tell */
    raise(number); /* its usual effect: see SA_RESETHAND */
}

/* Sorted, so that mutants are the same wherever the tree lies. */
static int compare(const void *a, const void *b)
{
    return strcmp(((const struct file *)a)->path, ((const struct file *)b)->path);
}

static void take_file(const char *folder, const char *name)
{
    must(file_count < FILES_MAX);
    struct file *file = &files[file_count];
    struct stat status;
    snprintf(file->path, sizeof file->path, "%s/%s", folder, name);
    if (stat(file->path, &status) != 0 || !S_ISREG(status.st_mode))
        return;
    FILE *stream = fopen(file->path, "rb");
    must(stream != NULL);
    file->data = malloc(BYTES_MAX);
    must(file->data != NULL);
    file->bytes = fread(file->data, 1, BYTES_MAX, stream);
    (void)fclose(stream); /* it was only read */
    file_count += 1;
}

static void take_folder(const char *path)
{
    struct dirent *entry;
    DIR *folder = opendir(path);
    must(folder != NULL);
    while ((entry = readdir(folder)) != NULL)
        take_file(path, entry->d_name);
    closedir(folder);
}

/* ---- mutants --------------------------------------------------------------------------------- */

/* splitmix64. */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static size_t draw_below(uint64_t *state, size_t below)
{
    return below > 0 ? (size_t)(draw(state) % below) : 0;
}

/* Puts count bytes of other in place of cut bytes at `at`. */
static size_t splice(uint8_t *data, size_t bytes, size_t at, size_t cut, const uint8_t *other,
                     size_t count)
{
    if (count > BYTES_MAX - (bytes - cut))
        count = BYTES_MAX - (bytes - cut);
    memmove(data + at + count, data + at + cut, bytes - at - cut);
    if (count > 0)
        memcpy(data + at, other, count);
    return bytes - cut + count;
}

static size_t mutate(uint8_t *data, size_t bytes, uint64_t *state)
{
    static const uint8_t odd[] = {0, 1, 0x7f, 0x80, 0xff, '\n', '/', '"', '{', '='};
    const struct file *other = &files[draw_below(state, file_count)];
    uint8_t noise[32];
    size_t at = draw_below(state, bytes);
    size_t from = draw_below(state, other->bytes);
    switch (draw_below(state, 6)) {
    case 0:
        if (bytes > 0)
            data[at] ^= (uint8_t)(1U << draw_below(state, 8));
        return bytes;
    case 1:
        if (bytes > 0)
            data[at] = odd[draw_below(state, sizeof odd)];
        return bytes;
    case 2: return splice(data, bytes, at, draw_below(state, bytes - at), NULL, 0);
    case 3:
        return splice(data, bytes, at, 0, other->data + from,
                      draw_below(state, other->bytes - from + 1));
    case 4:
        if (bytes > 0)
            data[at] = (uint8_t)draw(state);
        return bytes;
    default:
        for (size_t i = 0; i < sizeof noise; i++)
            noise[i] = (uint8_t)draw(state);
        return splice(data, bytes, at, 0, noise, draw_below(state, sizeof noise));
    }
}

/* A copy with no room behind it, so that whoever reads beyond it is caught. */
static void play(const uint8_t *data, size_t bytes)
{
    uint8_t *copy = malloc(bytes > 0 ? bytes : 1);
    must(copy != NULL);
    if (bytes > 0)
        memcpy(copy, data, bytes);
    (void)LLVMFuzzerTestOneInput(copy, bytes);
    free(copy);
}

static void play_mutant(uint64_t number)
{
    static uint8_t data[BYTES_MAX];
    uint64_t state = number;
    const struct file *file = &files[draw_below(&state, file_count)];
    size_t bytes = file->bytes;
    snprintf(playing, sizeof playing, "play: mutant %llu, of %s\n", (unsigned long long)number,
             file->path);
    memcpy(data, file->data, bytes);
    for (size_t i = draw_below(&state, 8) + 1; i > 0; i--)
        bytes = mutate(data, bytes, &state);
    play(data, bytes);
}

int main(int argc, char **argv)
{
    const char *only = getenv("PLAY_ONLY");
    const char *from = getenv("PLAY_FROM");
    uint64_t first = from != NULL ? strtoull(from, NULL, 10) : 0;
    must(argc > 2);
    uint64_t mutants = strtoull(argv[1], NULL, 10);
    for (int i = 2; i < argc; i++)
        take_folder(argv[i]);
    must(file_count > 0);
    qsort(files, file_count, sizeof files[0], compare);
    struct sigaction action = {.sa_handler = tell, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGABRT, &action, NULL);
    sigaction(SIGSEGV, &action, NULL);
    for (size_t i = 0; i < file_count && only == NULL; i++) {
        snprintf(playing, sizeof playing, "play: %.1000s\n", files[i].path);
        play(files[i].data, files[i].bytes);
    }
    for (uint64_t i = 0; i < mutants && only == NULL; i++)
        play_mutant(first + i);
    if (only != NULL)
        play_mutant(strtoull(only, NULL, 10));
    for (size_t i = 0; i < file_count; i++)
        free(files[i].data);
    printf("%zu files, %llu mutants\n", file_count, (unsigned long long)mutants);
    return 0;
}
