/* SPDX-License-Identifier: MPL-2.0 */
/* figures.c -- see figures.h. */
#include "broker/io/figures.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define NS_PER_US INT64_C(1000)
#define NS_PER_S INT64_C(1000000000)

static int64_t ns_of(const struct timeval *time)
{
    return time->tv_sec * NS_PER_S + time->tv_usec * NS_PER_US;
}

/* The second number in /proc/self/statm counts pages. */
static uint64_t resident_bytes(void)
{
    char text[128];
    unsigned long long pages = 0;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t bytes = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    if (bytes <= 0)
        return METRIC_NOT_KNOWN;
    text[bytes] = '\0';
    const char *second = strchr(text, ' ');
    if (second == NULL)
        return METRIC_NOT_KNOWN;
    pages = strtoull(second, NULL, 10);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void tell_process(uint64_t samples[SAMPLE_COUNT])
{
    struct rusage usage;
    struct rlimit limit;
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        samples[SAMPLE_PROCESS_CPU] = (uint64_t)(ns_of(&usage.ru_utime) + ns_of(&usage.ru_stime));
    samples[SAMPLE_PROCESS_MEMORY] = resident_bytes();
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        samples[SAMPLE_PROCESS_FDS_MAX] = limit.rlim_cur;
}

void figures_tell(const struct figures *figures, struct metric_figures *out)
{
    uint64_t *samples = out->samples;
    for (int i = 0; i < SAMPLE_COUNT; i++)
        samples[i] = METRIC_NOT_KNOWN;
    tell_process(samples);
    samples[SAMPLE_START_TIME] = (uint64_t)figures->start_wall_ns;
    samples[SAMPLE_NEW_CONNECTIONS_SILENT] = figures->silent;
    samples[SAMPLE_NEW_CONNECTIONS_REFUSED] = figures->refused;
    samples[SAMPLE_MESSAGES_CONTROL_IN] = figures->messages_in[LANE_CONTROL];
    samples[SAMPLE_MESSAGES_CONTROL_OUT] = figures->messages_out[LANE_CONTROL];
    samples[SAMPLE_MESSAGES_DATA_IN] = figures->messages_in[LANE_DATA];
    samples[SAMPLE_MESSAGES_DATA_OUT] = figures->messages_out[LANE_DATA];
    samples[SAMPLE_BYTES_CONTROL_IN] = figures->bytes_in[LANE_CONTROL];
    samples[SAMPLE_BYTES_CONTROL_OUT] = figures->bytes_out[LANE_CONTROL];
    samples[SAMPLE_BYTES_DATA_IN] = figures->bytes_in[LANE_DATA];
    samples[SAMPLE_BYTES_DATA_OUT] = figures->bytes_out[LANE_DATA];
    out->step = figures->step;
    out->error_delivery = figures->error_delivery;
    out->journal_write = (struct histogram){0};
}
