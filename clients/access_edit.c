/* SPDX-License-Identifier: MPL-2.0 */
/* access_edit.c -- see access_edit.h. */
#include "clients/access_edit.h"

#include <bus/access.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/xattr.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define BLANKS " \t\r"
#define FIRST_WORD 2    /* of the operands: what to do, the file, words */
#define LIST_BYTES 4096 /* of an access control list: 511 entries */

struct edit {
    const struct cli *cli;
    const char *path;
    char place[PATH_MAX];     /* where a symbolic link leads */
    char fresh[PATH_MAX + 8]; /* the new file: whoever makes it edits, until it is gone */
    FILE *file;               /* at fresh; NULL: it is not made */
    char *text;               /* of the file; ends with NUL, and may have others */
    size_t bytes;
    bool is_new; /* there is no file yet: the mode is what the umask leaves */
};

static int complain(const struct edit *edit, const char *what, const char *path)
{
    fprintf(stderr, "%s: cannot %s '%.500s': %s\n", edit->cli->program, what, path,
            strerror(errno));
    return CLI_FAILED;
}

/* There was no such file.  Words that begin as a line do begin a file with it.  Otherwise the
 * operand is most likely no file: who names the party first is told so.  What is there by now,
 * another 'errbus access' made meanwhile; a symbolic link leads nowhere. */
static int begin_file(struct edit *edit, bool is_added)
{
    static const char *const begins[] = {"key", "uid", "group", "allow", "limit"};
    struct stat status;
    bool is_line = false;
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++) {
        is_line |= strcmp(edit->cli->argv[FIRST_WORD], begins[i]) == 0;
    }
    bool is_link = errno == ENOENT && lstat(edit->path, &status) == 0 && S_ISLNK(status.st_mode);
    if (errno != ENOENT || is_link || (is_line && !is_added)) {
        return complain(edit, "find the access file", edit->path);
    }
    if (!is_line) {
        return cli_usage(edit->cli,
                         "'%.100s' is no access file: the file comes first, then a line of it, as "
                         "in 'errbus access %s FILE key NAME KEY'",
                         edit->path, edit->cli->argv[0]);
    }
    snprintf(edit->place, sizeof edit->place, "%s", edit->path);
    edit->is_new = true;
    return CLI_OK;
}

/* Two that read before either writes would lose a line of the first one.  So the new file is made
 * before the old one is read. */
static int make_fresh(struct edit *edit)
{
    snprintf(edit->fresh, sizeof edit->fresh, "%s.new", edit->place);
    int fd = open(edit->fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                  edit->is_new ? 0666 : 0600);
    edit->file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (edit->file != NULL) {
        return CLI_OK;
    }
    if (fd < 0 && errno == EEXIST) {
        fprintf(stderr,
                "%s: cannot change '%.500s': '%.500s' exists, so another 'errbus access' changes "
                "it, or one was killed; if none runs, remove '%.500s'\n",
                edit->cli->program, edit->path, edit->fresh, edit->fresh);
        return CLI_FAILED;
    }
    int result = complain(edit, "make the new file", edit->fresh);
    if (fd >= 0) {
        close(fd);
        (void)unlink(edit->fresh);
    }
    return result;
}

/* An access control list names more users and groups than the mode does.  A folder may have given
 * the new file one. */
static bool copy_list(int from, int to)
{
    static const char name[] = XATTR_NAME_POSIX_ACL_ACCESS;
    char list[LIST_BYTES];
    ssize_t bytes = fgetxattr(from, name, list, sizeof list);
    if (bytes >= 0) {
        return fsetxattr(to, name, list, (size_t)bytes, 0) == 0;
    }
    if (errno == ENODATA) {
        return fremovexattr(to, name) == 0 || errno == ENODATA;
    }
    return errno == EOPNOTSUPP;
}

/* The new file is for whom the old one was, before anything is in it.  A broker may read it as the
 * group alone. */
static int take_over(const struct edit *edit, int old_fd, const struct stat *old)
{
    struct stat status;
    int fd = fileno(edit->file);
    if (fstat(fd, &status) != 0) {
        return complain(edit, "look at", edit->fresh);
    }
    bool is_other = status.st_uid != old->st_uid || status.st_gid != old->st_gid;
    if (is_other && fchown(fd, old->st_uid, old->st_gid) != 0) {
        fprintf(stderr,
                "%s: '%.500s' stays as it is: it is of user %u and group %u, and this user cannot "
                "give the new file to them: %s\n",
                edit->cli->program, edit->path, (unsigned)old->st_uid, (unsigned)old->st_gid,
                strerror(errno));
        return CLI_FAILED;
    }
    return copy_list(old_fd, fd) && fchmod(fd, old->st_mode & 0777) == 0
               ? CLI_OK
               : complain(edit, "set the mode of", edit->fresh);
}

static int load(struct edit *edit, FILE *file, const struct stat *status)
{
    if (!S_ISREG(status->st_mode)) {
        fprintf(stderr, "%s: '%.500s' is not a file\n", edit->cli->program, edit->path);
        return CLI_FAILED;
    }
    edit->bytes = (size_t)status->st_size;
    edit->text = calloc(1, edit->bytes + 1);
    if (edit->text == NULL || fread(edit->text, 1, edit->bytes, file) != edit->bytes) {
        return complain(edit, "read the access file", edit->path);
    }
    return take_over(edit, fileno(file), status);
}

/* CLI_OK, or the exit code after saying why. */
static int read_text(struct edit *edit)
{
    struct stat status;
    int result = CLI_FAILED;
    FILE *file = fopen(edit->place, "re");
    if (file == NULL && errno == ENOENT && edit->is_new) {
        edit->text = calloc(1, 1);
        return edit->text != NULL ? CLI_OK : complain(edit, "make", edit->path);
    }
    edit->is_new = false; /* or somebody has made it meanwhile */
    if (file == NULL || fstat(fileno(file), &status) != 0) {
        result = complain(edit, "read the access file", edit->path);
    } else {
        result = load(edit, file, &status);
    }
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
    char *end = edit->text + edit->bytes;
    *out_number = 1;
    for (char *line = edit->text; line < end; line += *out_bytes) {
        char *newline = memchr(line, '\n', (size_t)(end - line));
        size_t bytes = (size_t)((newline != NULL ? newline : end) - line);
        *out_bytes = bytes + (newline != NULL);
        if (is_line(edit, line, bytes)) {
            return line;
        }
        *out_number += 1;
    }
    return NULL;
}

static void write_line(const struct edit *edit)
{
    if (edit->bytes > 0 && edit->text[edit->bytes - 1] != '\n') {
        fputc('\n', edit->file);
    }
    for (int i = FIRST_WORD; i < edit->cli->argc; i++) {
        fprintf(edit->file, "%s%s", i > FIRST_WORD ? " " : "", edit->cli->argv[i]);
    }
    fputc('\n', edit->file);
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
static int replace(struct edit *edit, bool is_added)
{
    int result = CLI_OK;
    fwrite(edit->text, 1, edit->bytes, edit->file);
    if (is_added) {
        write_line(edit);
    }
    if (ferror(edit->file) || fflush(edit->file) != 0 || fsync(fileno(edit->file)) != 0) {
        result = complain(edit, "write", edit->fresh);
    }
    if (result == CLI_OK) {
        result = check(edit);
    }
    if (result == CLI_OK && rename(edit->fresh, edit->place) != 0) {
        result = complain(edit, "replace", edit->path);
    }
    if (result == CLI_OK) {
        (void)fclose(edit->file);
        edit->file = NULL;
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
    int result = realpath(edit->path, edit->place) != NULL ? CLI_OK : begin_file(edit, is_added);
    if (result == CLI_OK) {
        result = make_fresh(edit);
    }
    return result == CLI_OK ? read_text(edit) : result;
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
    if (edit->file != NULL) {
        (void)fclose(edit->file);
        (void)unlink(edit->fresh);
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
        edit.bytes -= bytes;
        memmove(line, line + bytes, edit.bytes - (size_t)(line - edit.text));
        result = replace(&edit, false);
    } else if (result == CLI_OK) {
        fprintf(stderr, "%s: '%.500s' has no line of these words\n", cli->program, edit.path);
        result = CLI_FAILED;
    }
    return end(&edit, result);
}
