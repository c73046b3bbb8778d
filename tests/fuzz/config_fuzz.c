/* SPDX-License-Identifier: MPL-2.0 */
/* config_fuzz.c -- foreign bytes as a configuration file, and as one key and its value: taken, or
 * refused in words; and what was taken is within its bounds. */
#include "broker/io/config.h"
#include "libbus/base/must.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check_bounds(const struct config *config)
{
    must(memchr(config->control, '\0', sizeof config->control) != NULL);
    must(memchr(config->advertise, '\0', sizeof config->advertise) != NULL);
    must(config->control[0] != '\0' && config->data[0] != '\0');
    must(config->core.parties_max >= 1 && config->core.parties_max <= LIMIT_PARTIES);
    must(config->core.topics_max >= 1 && config->core.topics_max <= LIMIT_TOPICS);
    must(config->core.value_bytes_max >= 1 && config->core.value_bytes_max <= LIMIT_VALUE_BYTES);
    must(config->core.linger_ms >= 0 && config->core.linger_ms <= LIMIT_PERIOD_MS_MAX);
    must(config->core.resume_ms >= 0 && config->core.resume_ms <= LIMIT_PERIOD_MS_MAX);
}

static void check_complaint(bool is_taken, const char complaint[CONFIG_COMPLAINT_BYTES])
{
    must(memchr(complaint, '\0', CONFIG_COMPLAINT_BYTES) != NULL);
    must(is_taken || complaint[0] != '\0');
}

static void read_as_file(const uint8_t *data, size_t bytes)
{
    static struct config config;
    char complaint[CONFIG_COMPLAINT_BYTES] = "";
    char path[64];
    int fd = memfd_create("config", MFD_CLOEXEC);
    must(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    config_init(&config);
    check_complaint(config_read_file(&config, path, complaint), complaint);
    check_bounds(&config);
    close(fd);
}

/* The first line is the key. */
static void set_one(const uint8_t *data, size_t bytes)
{
    static struct config config;
    char complaint[CONFIG_COMPLAINT_BYTES] = "";
    char text[1024];
    if (bytes >= sizeof text || memchr(data, '\0', bytes) != NULL)
        return;
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    char *value = strchr(text, '=');
    if (value == NULL)
        return;
    *value++ = '\0';
    config_init(&config);
    check_complaint(config_set(&config, text, value, complaint), complaint);
    check_bounds(&config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    read_as_file(data, bytes);
    set_one(data, bytes);
    return 0;
}
