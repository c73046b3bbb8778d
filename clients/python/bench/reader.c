/* SPDX-License-Identifier: MPL-2.0 */
/* reader.c -- reads as the readers of costs.py do, in C: reader ENDPOINT COUNT [error].  It prints
 * "ready", and then the seconds and the CPU seconds from the first outcome to the last one. */
#include <bus/bus.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

static double wall_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double cpu_s(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static int die(const char *what)
{
    fprintf(stderr, "reader: %s\n", what);
    return 1;
}

int main(int argc, char **argv)
{
    struct bus *bus = NULL;
    struct bus_sub *sub = NULL;
    struct bus_error *error = NULL;
    struct bus_options options;
    bus_options_init(&options);
    options.party = "reader";
    if (argc < 3 || bus_open(argv[1], &options, 20000, &bus, &error) != BUS_OK)
        return die("cannot open the bus");
    if (bus_sub_open(bus, "writer/w", NULL, &sub) != BUS_OK || bus_flush(bus, 20000) != BUS_OK)
        return die("cannot subscribe");
    printf("ready\n");
    fflush(stdout);
    long count = strtol(argv[2], NULL, 10);
    enum bus_err wanted = argc > 3 ? BUS_EFAILED : BUS_OK;
    double since_s = 0, since_cpu_s = 0;
    size_t seen = 0;
    for (long i = 0; i < count; i++) {
        struct bus_msg *msg = NULL;
        if (bus_sub_recv(sub, 60000, &msg, &error) != wanted)
            return die("another outcome came");
        size_t bytes = 0;
        if (msg != NULL)
            seen += ((const unsigned char *)bus_msg_value(msg, &bytes))[0];
        else
            seen += (unsigned char)bus_error_message(error)[0];
        bus_msg_free(&msg);
        bus_error_unref(&error);
        if (i == 0) {
            since_s = wall_s();
            since_cpu_s = cpu_s();
        }
    }
    printf("%.6f %.6f %zu\n", wall_s() - since_s, cpu_s() - since_cpu_s, seen);
    bus_sub_close(&sub);
    return bus_close(&bus, 5000) != BUS_OK;
}
