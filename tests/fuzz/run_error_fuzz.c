/* SPDX-License-Identifier: MPL-2.0 */
/* run_error_fuzz.c -- foreign bytes as the error file of a program, and as the last that it said:
 * an error that has a type and a message, or a sentence about why it is none. */
#include "clients/run_error.h"
#include "libbus/base/must.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void read_file(const char *text, size_t bytes)
{
    struct run_error error = {.error = NULL};
    char problem[CLI_PROBLEM_BYTES_MAX] = "";
    if (run_error_of_file(text, bytes, &error, problem)) {
        must(error.error != NULL);
        must(bus_error_type(error.error)[0] != '\0');
        must(bus_error_message(error.error) != NULL);
        bus_error_unref(&error.error);
    } else {
        must(error.error == NULL);
        must(problem[0] != '\0' && memchr(problem, '\0', sizeof problem) != NULL);
    }
}

static void end_with(const char *tail, size_t bytes)
{
    struct run_end end = {.program = "train",
                          .wait_status = 0x0100,
                          .tail = tail,
                          .tail_bytes = bytes,
                          .said_bytes = bytes + 7};
    struct bus_error *error = run_error_of_end(&end);
    must(error != NULL && bus_error_message(error)[0] != '\0');
    bus_error_unref(&error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    read_file((const char *)data, bytes);
    end_with((const char *)data, bytes);
    return 0;
}
