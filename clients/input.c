/* SPDX-License-Identifier: MPL-2.0 */
/* input.c -- see input.h. */
#include "clients/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES ((size_t)64 * 1024)

int input_read_more(struct input *input, const struct cli *cli, int fd, const char *name)
{
    if (input->capacity - input->count < READ_BYTES) {
        size_t capacity = 2 * input->capacity + READ_BYTES;
        char *bytes = realloc(input->bytes, capacity);
        if (bytes == NULL) {
            fprintf(stderr, "%s: no memory for %zu bytes of %.250s\n", cli->program, capacity,
                    name);
            return -1;
        }
        input->bytes = bytes;
        input->capacity = capacity;
    }
    ssize_t count = read(fd, input->bytes + input->count, READ_BYTES);
    if (count < 0 && errno != EINTR && errno != EAGAIN) {
        fprintf(stderr, "%s: %.250s: %s\n", cli->program, name, strerror(errno));
        return -1;
    }
    input->count += count > 0 ? (size_t)count : 0;
    return count == 0 ? 0 : 1;
}

bool input_read_all(struct input *input, const struct cli *cli, int *out_exit)
{
    int more = 1;
    while (more == 1) {
        switch (cli_wait(cli, STDIN_FILENO, cli_left_ms(cli))) {
        case CLI_WOKEN_READABLE:
            more = input_read_more(input, cli, STDIN_FILENO, "standard input");
            break;
        case CLI_WOKEN_STOP: *out_exit = CLI_OK; return false;
        case CLI_WOKEN_TIME: *out_exit = cli_report(cli, BUS_ETIMEDOUT, NULL); return false;
        case CLI_WOKEN_OVER: *out_exit = cli_report(cli, BUS_EFENCED, NULL); return false;
        }
    }
    *out_exit = CLI_FAILED;
    return more == 0;
}

bool input_read_file(struct input *input, const struct cli *cli, const char *path)
{
    int more = 1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        fprintf(stderr, "%s: %.250s: %s\n", cli->program, path, strerror(errno));
        return false;
    }
    while (more == 1) {
        more = input_read_more(input, cli, fd, path);
    }
    close(fd);
    return more == 0;
}

void input_fini(struct input *input)
{
    free(input->bytes);
    *input = (struct input){.bytes = NULL};
}
