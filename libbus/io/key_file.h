/* SPDX-License-Identifier: MPL-2.0 */
/* key_file.h -- files with a key of CURVE.
 *
 * A file has two lines, "public ebp_..." and "secret ebs_...", and comments.  It is written whole
 * or not at all, in the place of nothing that is there.  It is read only if it belongs to this
 * user, and nobody else can read or write it; or if it belongs to root, and at most its group can
 * read it.  A symbolic link is followed, and what it leads to is looked at.  All complaints end
 * without a full stop, and none repeats a secret. */
#ifndef IO_KEY_FILE_H
#define IO_KEY_FILE_H

#include "libbus/base/key_text.h"

#include <sys/stat.h>

enum { KEY_FILE_COMPLAINT_BYTES = 1024 };

struct key_pair {
    uint8_t public_key[KEY_BYTES];
    uint8_t secret_key[KEY_BYTES];
};

enum key_file_err {
    KEY_FILE_OK = 0,
    KEY_FILE_DENIED, /* the file, or the folder, does not allow it */
    KEY_FILE_WRONG,  /* it holds no key */
};

/* Draws a key and writes it; makes folders that are missing. */
enum key_file_err key_file_make(const char *path, struct key_pair *out_pair,
                                char complaint[KEY_FILE_COMPLAINT_BYTES]);
enum key_file_err key_file_read(const char *path, struct key_pair *out_pair,
                                char complaint[KEY_FILE_COMPLAINT_BYTES]);
/* Reads a secret key in any form (bus/access.h), and writes it in ours. */
enum key_file_err key_file_import(const char *path, const char *source, struct key_pair *out_pair,
                                  char complaint[KEY_FILE_COMPLAINT_BYTES]);
/* A whole small file.  false: errno says why; EFBIG: it is larger than room. */
bool key_file_load(int fd, char *text, size_t room, size_t *out_bytes);

/* Why a program of this user takes no secret from a file of this status; NULL: it does. */
const char *key_file_fault(const struct stat *status, uid_t user);

void key_pair_forget(struct key_pair *pair);

#endif
