/* SPDX-License-Identifier: MPL-2.0 */
/* input.h -- bytes that are read from standard input or from a file, in one piece of memory. */
#ifndef CLIENTS_INPUT_H
#define CLIENTS_INPUT_H

#include "clients/cli.h"

#include <stdbool.h>
#include <stddef.h>

/* Zeroed it is empty. */
struct input {
    char *bytes;
    size_t count;
    size_t capacity;
};

/* Reads what is there.  1: something came, 0: the end, -1: an error, which is said; name is what
 * the error calls the input. */
int input_read_more(struct input *input, const struct cli *cli, int fd, const char *name);

/* Reads standard input to its end, as long as --wait and signals let it, and the bus goes on.
 * False: *out_exit says how to end, and why is printed. */
bool input_read_all(struct input *input, const struct cli *cli, int *out_exit);

/* Reads a whole file.  False: why not is printed. */
bool input_read_file(struct input *input, const struct cli *cli, const char *path);

void input_fini(struct input *input);

#endif
