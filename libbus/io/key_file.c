/* SPDX-License-Identifier: MPL-2.0 */
/* key_file.c -- see key_file.h. */
#include "libbus/io/key_file.h"

#include "libbus/base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

enum {
    Z85_BYTES = 40, /* of a key */
    TEXT_BYTES = 512,
    SUFFIX_BYTES = 32, /* of the name under which a file is written */
};

void key_pair_forget(struct key_pair *pair)
{
    explicit_bzero(pair, sizeof *pair);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* false: this libzmq has no CURVE. */
static bool draw(struct key_pair *out_pair)
{
    char public_text[Z85_BYTES + 1];
    char secret_text[Z85_BYTES + 1];
    bool is_drawn = zmq_curve_keypair(public_text, secret_text) == 0 &&
                    zmq_z85_decode(out_pair->public_key, public_text) != NULL &&
                    zmq_z85_decode(out_pair->secret_key, secret_text) != NULL;
    explicit_bzero(secret_text, sizeof secret_text);
    return is_drawn;
}

/* The public half follows from the secret one. */
static bool complete(struct key_pair *pair)
{
    char public_text[Z85_BYTES + 1];
    char secret_text[Z85_BYTES + 1];
    bool is_complete = zmq_z85_encode(secret_text, pair->secret_key, KEY_BYTES) != NULL &&
                       zmq_curve_public(public_text, secret_text) == 0 &&
                       zmq_z85_decode(pair->public_key, public_text) != NULL;
    explicit_bzero(secret_text, sizeof secret_text);
    return is_complete;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A new name is lost in a power failure until its folder is synced.  Some folders cannot be: those
 * that this user may not read, and those of file systems that have no such call. */
static bool sync_folder_of(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        snprintf(folder, sizeof folder, ".");
    else
        snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == EACCES;
    bool is_synced = fsync(fd) == 0 || errno == EINVAL;
    int cause = errno;
    close(fd);
    errno = cause;
    return is_synced;
}

/* false: one was made, and cannot be synced. */
static bool make_folders(const char *path)
{
    char folder[PATH_MAX];
    if (strlen(path) >= sizeof folder)
        return true; /* open() says so */
    for (const char *at = strchr(path + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
        memcpy(folder, path, (size_t)(at - path));
        folder[at - path] = '\0';
        bool is_made = mkdir(folder, 0700) == 0; /* else it is there, or open() says why not */
        if (is_made && !sync_folder_of(folder))
            return false;
    }
    return true;
}

static bool write_text(int fd, const char *text)
{
    size_t bytes = strlen(text);
    for (size_t at = 0; at < bytes;) {
        ssize_t count = write(fd, text + at, bytes - at);
        if (count < 0 && errno != EINTR)
            return false;
        at += count > 0 ? (size_t)count : 0;
    }
    return fsync(fd) == 0;
}

static enum key_file_err cannot_write(const char *path, char complaint[KEY_FILE_COMPLAINT_BYTES])
{
    if (errno == EEXIST)
        snprintf(complaint, KEY_FILE_COMPLAINT_BYTES,
                 "'%.500s' exists, and a key is not overwritten: name another file, or remove it",
                 path);
    else
        snprintf(complaint, KEY_FILE_COMPLAINT_BYTES, "cannot write the key '%.500s': %s", path,
                 strerror(errno));
    return KEY_FILE_DENIED;
}

/* The file gets its name when it is whole.  link() fails if something has that name, also a
 * symbolic link to nothing. */
static enum key_file_err write_file(const char *path, const char *text,
                                    char complaint[KEY_FILE_COMPLAINT_BYTES])
{
    char unfinished[PATH_MAX + SUFFIX_BYTES];
    snprintf(unfinished, sizeof unfinished, "%s.new.XXXXXX", path);
    int fd = make_folders(path) ? mkostemp(unfinished, O_CLOEXEC) : -1; /* with mode 0600 */
    if (fd < 0)
        return cannot_write(path, complaint);
    bool is_written = write_text(fd, text);
    int cause = errno;
    if (close(fd) != 0 && is_written) {
        is_written = false;
        cause = errno;
    }
    if (is_written && link(unfinished, path) != 0) {
        is_written = false;
        cause = errno;
    }
    (void)unlink(unfinished);
    if (is_written && !sync_folder_of(path)) {
        is_written = false;
        cause = errno;
        (void)unlink(path);
    }
    errno = cause;
    return is_written ? KEY_FILE_OK : cannot_write(path, complaint);
}

static enum key_file_err save(const char *path, const struct key_pair *pair,
                              char complaint[KEY_FILE_COMPLAINT_BYTES])
{
    char public_text[KEY_TEXT_BYTES + 1];
    char secret_text[KEY_TEXT_BYTES + 1];
    char text[TEXT_BYTES];
    key_text_write(pair->public_key, KEY_PUBLIC, public_text);
    key_text_write(pair->secret_key, KEY_SECRET, secret_text);
    snprintf(text, sizeof text,
             "# A key of Errbus.  Whoever has the secret can act as its owner.\n"
             "public %s\n"
             "secret %s\n",
             public_text, secret_text);
    enum key_file_err err = write_file(path, text, complaint);
    explicit_bzero(secret_text, sizeof secret_text);
    explicit_bzero(text, sizeof text);
    return err;
}

enum key_file_err key_file_make(const char *path, struct key_pair *out_pair,
                                char complaint[KEY_FILE_COMPLAINT_BYTES])
{
    if (!draw(out_pair)) {
        snprintf(complaint, KEY_FILE_COMPLAINT_BYTES,
                 "this libzmq has no CURVE, so there are no keys");
        return KEY_FILE_DENIED;
    }
    return save(path, out_pair, complaint);
}

/* ---- reading --------------------------------------------------------------------------------- */

bool key_file_load(int fd, char *text, size_t room, size_t *out_bytes)
{
    size_t bytes = 0;
    for (;;) {
        ssize_t count = read(fd, text + bytes, room - bytes);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return false;
        if (count == 0)
            break;
        bytes += (size_t)count;
        if (bytes == room) {
            errno = EFBIG;
            return false;
        }
    }
    *out_bytes = bytes;
    return true;
}

/* The rule of PostgreSQL for its keys.  A service manager that hands a file of root to another user
 * shows group bits: the group of a pod in Kubernetes, the mask of an ACL below systemd. */
const char *key_file_fault(const struct stat *status, uid_t user)
{
    if (!S_ISREG(status->st_mode))
        return "it is not a file";
    if (status->st_uid != user && status->st_uid != 0)
        return "it belongs to another user";
    if (status->st_uid == 0 && (status->st_mode & (S_IWGRP | S_IXGRP | S_IRWXO)) != 0)
        return "others can read or write it, or its group can write it: a secret that others may "
               "know is none; make a new key, or 'chmod 640' it if nobody had the time to look";
    if (status->st_uid != 0 && (status->st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return "others can read or write it: a secret that others may know is none; make a new "
               "key, or 'chmod 600' it if nobody had the time to look";
    return NULL;
}

/* Opens a file that holds a secret, and reads it.  text has room for LIMIT_KEY_FILE_BYTES.
 * Kubernetes shows each file of a Secret as a symbolic link.  A link is followed: what is opened is
 * what is looked at, so whoever placed the link chose between files that pass by themselves. */
static enum key_file_err load_secret(const char *path, char *text, size_t *out_bytes,
                                     char complaint[KEY_FILE_COMPLAINT_BYTES])
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        snprintf(complaint, KEY_FILE_COMPLAINT_BYTES, "cannot read the key '%.500s': %s%s", path,
                 strerror(errno), errno == ENOENT ? "; 'errbus key new' makes one" : "");
        return KEY_FILE_DENIED;
    }
    const char *reason =
        fstat(fd, &status) == 0 ? key_file_fault(&status, geteuid()) : strerror(errno);
    if (reason == NULL && !key_file_load(fd, text, LIMIT_KEY_FILE_BYTES, out_bytes))
        reason = errno == EFBIG ? "it is too large for a key" : strerror(errno);
    close(fd);
    if (reason == NULL)
        return KEY_FILE_OK;
    snprintf(complaint, KEY_FILE_COMPLAINT_BYTES, "cannot use the key '%.500s': %s", path, reason);
    return KEY_FILE_DENIED;
}

/* The word behind `name` at the start of a line; empty: there is none. */
static struct span find_word(struct span text, const char *name)
{
    const char *at = text.data;
    const char *end = at + text.bytes;
    size_t name_bytes = strlen(name);
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        if (line_end == NULL)
            line_end = end;
        at += strspn(at, " \t");
        if ((size_t)(line_end - at) > name_bytes && memcmp(at, name, name_bytes) == 0) {
            const char *word = at + name_bytes;
            word += strspn(word, " \t=\"");
            size_t bytes = strcspn(word, " \t\r\n\"");
            if (word < line_end)
                return span_of(word, bytes);
        }
        at = line_end + 1;
    }
    return SPAN_NONE;
}

static bool is_z85(struct span word, uint8_t key[KEY_BYTES])
{
    char text[Z85_BYTES + 1];
    if (word.bytes != Z85_BYTES)
        return false;
    memcpy(text, word.data, Z85_BYTES);
    text[Z85_BYTES] = '\0';
    bool is_key = zmq_z85_decode(key, text) != NULL;
    explicit_bzero(text, sizeof text);
    return is_key;
}

static bool read_secret(struct span word, uint8_t key[KEY_BYTES])
{
    return key_text_read(word, KEY_SECRET, key) == KEY_OK || is_z85(word, key);
}

/* A word with blanks around it. */
static struct span trimmed(const char *text)
{
    text += strspn(text, " \t\r\n");
    return span_of(text, strcspn(text, " \t\r\n"));
}

enum key_file_err key_file_read(const char *path, struct key_pair *out_pair,
                                char complaint[KEY_FILE_COMPLAINT_BYTES])
{
    char text[LIMIT_KEY_FILE_BYTES + 1];
    size_t bytes = 0;
    enum key_file_err err = load_secret(path, text, &bytes, complaint);
    if (err == KEY_FILE_OK) {
        text[bytes] = '\0';
        struct span word = find_word(span_of(text, strlen(text)), "secret");
        if (key_text_read(word, KEY_SECRET, out_pair->secret_key) != KEY_OK ||
            !complete(out_pair)) {
            err = KEY_FILE_WRONG;
            snprintf(complaint, KEY_FILE_COMPLAINT_BYTES,
                     "'%.500s' is no key of Errbus: it has no line 'secret ebs_...'; 'errbus key "
                     "import' takes keys of ZeroMQ",
                     path);
        }
    }
    explicit_bzero(text, sizeof text);
    return err;
}

enum key_file_err key_file_import(const char *path, const char *source, struct key_pair *out_pair,
                                  char complaint[KEY_FILE_COMPLAINT_BYTES])
{
    char text[LIMIT_KEY_FILE_BYTES + 1];
    size_t bytes = 0;
    enum key_file_err err = load_secret(source, text, &bytes, complaint);
    if (err == KEY_FILE_OK) {
        text[bytes] = '\0';
        struct span whole = span_of(text, strlen(text));
        bool is_read = read_secret(find_word(whole, "secret-key"), out_pair->secret_key) ||
                       read_secret(find_word(whole, "secret"), out_pair->secret_key) ||
                       read_secret(trimmed(text), out_pair->secret_key);
        if (is_read && complete(out_pair)) {
            err = save(path, out_pair, complaint);
        } else {
            err = KEY_FILE_WRONG;
            snprintf(complaint, KEY_FILE_COMPLAINT_BYTES,
                     "'%.500s' holds no secret key: expected 'secret-key = \"...\"', 'secret "
                     "ebs_...', or a key alone",
                     source);
        }
    }
    explicit_bzero(text, sizeof text);
    return err;
}
