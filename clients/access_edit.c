/* SPDX-License-Identifier: MPL-2.0 */
/* access_edit.c -- see access_edit.h. */
#include "clients/access_edit.h"

#include <bus/access.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLANKS " \t\r"
#define FIRST_WORD 2 /* of the operands: what to do, the file, words */

struct edit {
    const struct cli *cli;
    const char *path;
    char place[PATH_MAX]; /* where a symbolic link leads */
    char fresh[PATH_MAX + 8];
    char *text; /* of the file; ends with NUL */
    mode_t mode;
    bool is_new; /* there is no file yet: mode is what the umask leaves of it */
};

static int complain(const struct edit *edit, const char *what, const char *path)
{
    fprintf(stderr, "%s: cannot %s '%.500s': %s\n", edit->cli->program, what, path,
            strerror(errno));
    return CLI_FAILED;
}

/* There is no such file.  Words that begin as a line do begin a file with it.  Otherwise the
 * operand is most likely no file: who names the party first is told so. */
static int begin_file(struct edit *edit, bool is_added)
{
    static const char *const begins[] = {"key", "uid", "group", "allow", "limit"};
    struct stat status;
    bool is_line = false;
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++) {
        is_line |= strcmp(edit->cli->argv[FIRST_WORD], begins[i]) == 0;
    }
    if (errno != ENOENT || lstat(edit->path, &status) == 0 || (is_line && !is_added)) {
        return complain(edit, "find the access file", edit->path);
    }
    if (!is_line) {
        return cli_usage(edit->cli,
                         "'%.100s' is no access file: the file comes first, then a line of it, as "
                         "in 'errbus access %s FILE key NAME KEY'",
                         edit->path, edit->cli->argv[0]);
    }
    snprintf(edit->place, sizeof edit->place, "%s", edit->path);
    snprintf(edit->fresh, sizeof edit->fresh, "%s.new", edit->path);
    edit->text = calloc(1, 1);
    edit->mode = 0666;
    edit->is_new = true;
    return edit->text != NULL ? CLI_OK : complain(edit, "make", edit->path);
}

/* CLI_OK, or the exit code after saying why. */
static int read_text(struct edit *edit, bool is_added)
{
    struct stat status;
    size_t bytes = 0;
    int result = CLI_FAILED;
    if (realpath(edit->path, edit->place) == NULL) {
        return begin_file(edit, is_added);
    }
    snprintf(edit->fresh, sizeof edit->fresh, "%s.new", edit->place);
    FILE *file = fopen(edit->place, "re");
    if (file == NULL || fstat(fileno(file), &status) != 0) {
        result = complain(edit, "read the access file", edit->path);
        goto done;
    }
    edit->mode = status.st_mode & 0777;
    edit->text = calloc(1, (size_t)status.st_size + 1);
    if (edit->text != NULL) {
        bytes = fread(edit->text, 1, (size_t)status.st_size, file);
    }
    result = edit->text != NULL && bytes == (size_t)status.st_size
                 ? CLI_OK
                 : complain(edit, "read the access file", edit->path);
done:
    if (file != NULL) {
        (void)fclose(file);
    }
    return result;
}

/* Whether the line has the words of the operands, and no others. */
static bool is_line(const struct edit *edit, const char *line, size_t bytes)
{
    const char *end = line + bytes;
    int word = FIRST_WORD;
    while (true) {
        line += strspn(line, BLANKS);
        if (line >= end) {
            return word == edit->cli->argc;
        }
        size_t word_bytes = strcspn(line, BLANKS "\n");
        if (word == edit->cli->argc || strlen(edit->cli->argv[word]) != word_bytes ||
            memcmp(edit->cli->argv[word], line, word_bytes) != 0) {
            return false;
        }
        line += word_bytes;
        word += 1;
    }
}

/* The first such line, with its end; NULL: there is none. */
static char *find_line(const struct edit *edit, size_t *out_bytes, unsigned *out_number)
{
    char *line = edit->text;
    for (*out_number = 1; *line != '\0'; *out_number += 1) {
        size_t bytes = strcspn(line, "\n");
        *out_bytes = bytes + (line[bytes] == '\n');
        if (is_line(edit, line, bytes)) {
            return line;
        }
        line += *out_bytes;
    }
    return NULL;
}

static void write_line(const struct edit *edit, FILE *file)
{
    size_t bytes = strlen(edit->text);
    if (bytes > 0 && edit->text[bytes - 1] != '\n') {
        fputc('\n', file);
    }
    for (int i = FIRST_WORD; i < edit->cli->argc; i++) {
        fprintf(file, "%s%s", i > FIRST_WORD ? " " : "", edit->cli->argv[i]);
    }
    fputc('\n', file);
}

/* Whether the new file is one that a broker takes. */
static int check(const struct edit *edit)
{
    struct bus_access *access = NULL;
    struct bus_error *error = NULL;
    int result = CLI_OK;
    if (bus_access_read(edit->fresh, &access, &error) != BUS_OK) {
        fprintf(stderr, "%s: '%.500s' %s; with the change: ", edit->cli->program, edit->path,
                edit->is_new ? "is not made" : "stays as it is");
        cli_print_text(stderr, bus_error_message(error), "");
        fputc('\n', stderr);
        result = CLI_FAILED;
    }
    bus_error_unref(&error);
    bus_access_free(&access);
    return result;
}

/* Puts text, and the line if it is added, in the place of the file. */
static int replace(const struct edit *edit, bool is_added)
{
    int result = CLI_OK;
    int fd = open(edit->fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, edit->mode);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (file == NULL) {
        return complain(edit, "make the new file", edit->fresh);
    }
    fputs(edit->text, file);
    if (is_added) {
        write_line(edit, file);
    }
    bool is_written =
        fflush(file) == 0 && (edit->is_new || fchmod(fd, edit->mode) == 0) && fsync(fd) == 0;
    if (!is_written) {
        result = complain(edit, "write", edit->fresh);
    }
    (void)fclose(file);
    if (result == CLI_OK) {
        result = check(edit);
    }
    if (result == CLI_OK && rename(edit->fresh, edit->place) != 0) {
        result = complain(edit, "replace", edit->path);
    }
    if (result != CLI_OK) {
        (void)unlink(edit->fresh);
    }
    return result;
}

static int begin(struct edit *edit, const struct cli *cli, bool is_added)
{
    if (cli->argc <= FIRST_WORD) {
        return cli_usage(cli, "%s needs a file and the words of a line", cli->argv[0]);
    }
    for (int i = FIRST_WORD; i < cli->argc; i++) {
        if (cli->argv[i][0] == '\0' || strpbrk(cli->argv[i], BLANKS "\n") != NULL) {
            return cli_usage(cli, "'%.100s' is no word: it is empty or has a blank", cli->argv[i]);
        }
    }
    edit->cli = cli;
    edit->path = cli->argv[1];
    return read_text(edit, is_added);
}

static int end(struct edit *edit, int result)
{
    if (result == CLI_OK && !edit->cli->is_json) {
        cli_print_text(stdout, edit->path, "");
        printf(edit->is_new ? ": made; 'errbusd --access FILE' starts a broker with it\n"
                            : ": changed; 'errbus access reload', or SIGHUP, has the broker take "
                              "it\n");
        (void)cli_flush_output(edit->cli, &result);
    }
    free(edit->text);
    return result;
}

int access_edit_add(const struct cli *cli)
{
    struct edit edit = {.cli = cli};
    size_t bytes;
    unsigned number;
    int result = begin(&edit, cli, true);
    if (result == CLI_OK && find_line(&edit, &bytes, &number) != NULL) {
        fprintf(stderr, "%s: '%.500s' has this line already: line %u\n", cli->program, edit.path,
                number);
        result = CLI_FAILED;
    }
    return end(&edit, result == CLI_OK ? replace(&edit, true) : result);
}

int access_edit_remove(const struct cli *cli)
{
    struct edit edit = {.cli = cli};
    size_t bytes = 0;
    unsigned number;
    int result = begin(&edit, cli, false);
    char *line = result == CLI_OK ? find_line(&edit, &bytes, &number) : NULL;
    if (line != NULL) {
        memmove(line, line + bytes, strlen(line + bytes) + 1);
        result = replace(&edit, false);
    } else if (result == CLI_OK) {
        fprintf(stderr, "%s: '%.500s' has no line of these words\n", cli->program, edit.path);
        result = CLI_FAILED;
    }
    return end(&edit, result);
}
