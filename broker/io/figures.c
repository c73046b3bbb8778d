/* SPDX-License-Identifier: MPL-2.0 */
/* figures.c -- see figures.h. */
#include "broker/io/figures.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

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

/* Since version 6.2 Linux tells their number as the size of the folder, and before that 0.  To list
 * a folder of ten thousand descriptors would take the loop too long.  So the connections are added
 * to what was open at the start; then only files of the journal are missed. */
static uint64_t open_fds(const struct figures *figures, uint32_t connections)
{
    struct stat status;
    if (stat("/proc/self/fd", &status) == 0 && status.st_size > 0)
        return (uint64_t)status.st_size;
    return figures->own_fds + connections;
}

void figures_begin(struct figures *figures, int64_t wall_ns)
{
    int lowest = open("/dev/null", O_RDONLY | O_CLOEXEC); /* all below are open */
    figures->start_wall_ns = wall_ns;
    if (lowest < 0)
        return;
    figures->own_fds = (uint64_t)lowest;
    close(lowest);
}

static void tell_process(uint64_t samples[SAMPLE_COUNT])
{
    struct rlimit limit;
    uint64_t cpu_ns = figures_cpu_ns();
    if (cpu_ns > 0)
        samples[SAMPLE_PROCESS_CPU] = cpu_ns;
    samples[SAMPLE_PROCESS_MEMORY] = resident_bytes();
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        samples[SAMPLE_PROCESS_FDS_MAX] = limit.rlim_cur;
}

void figures_see_event(struct figures *figures, unsigned type)
{
    static const struct {
        unsigned type;
        enum handshake handshake;
    } ends[] = {
        {ZMQ_EVENT_HANDSHAKE_SUCCEEDED, HANDSHAKE_OK},
        {ZMQ_EVENT_HANDSHAKE_FAILED_AUTH, HANDSHAKE_UNKNOWN_KEY},
        {ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL, HANDSHAKE_PROTOCOL},
        {ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL, HANDSHAKE_UNFINISHED},
    };
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        figures->handshakes[ends[i].handshake] += ends[i].type == type;
}

void figures_tell(const struct figures *figures, uint32_t connections, struct metric_figures *out)
{
    uint64_t *samples = out->samples;
    for (int i = 0; i < SAMPLE_COUNT; i++)
        samples[i] = METRIC_NOT_KNOWN;
    tell_process(samples);
    samples[SAMPLE_PROCESS_FDS] = open_fds(figures, connections);
    samples[SAMPLE_START_TIME] = (uint64_t)figures->start_wall_ns;
    samples[SAMPLE_NEW_CONNECTIONS_SILENT] = figures->silent;
    samples[SAMPLE_NEW_CONNECTIONS_REFUSED] = figures->refused;
    samples[SAMPLE_HANDSHAKES_OK] = figures->handshakes[HANDSHAKE_OK];
    samples[SAMPLE_HANDSHAKES_UNKNOWN_KEY] = figures->handshakes[HANDSHAKE_UNKNOWN_KEY];
    samples[SAMPLE_HANDSHAKES_PROTOCOL] = figures->handshakes[HANDSHAKE_PROTOCOL];
    samples[SAMPLE_HANDSHAKES_UNFINISHED] = figures->handshakes[HANDSHAKE_UNFINISHED];
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

uint64_t figures_cpu_ns(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return 0;
    return (uint64_t)(ns_of(&usage.ru_utime) + ns_of(&usage.ru_stime));
}
