/* SPDX-License-Identifier: MPL-2.0 */
/* outside.c -- a program of somebody else: valid C11 and C++17, built against the installed tree.
 * It prints the version of the library that runs, and fails if it is not the header's. */
#include <linux/input.h>
#include <signal.h>

#include <bus/admin.h>
#include <bus/bus.h>
#include <bus/tap.h>

#include <stdio.h>
#include <string.h>

/* Names that the library uses inside too; they do not meet, however it is linked. */
#ifdef __cplusplus
extern "C" {
#endif
int must_fail(void);
int memory_take(void);
int session_init(void);
#ifdef __cplusplus
}
#endif
int must_fail(void)
{
    return BUS_USB;
}
int memory_take(void)
{
    return must_fail();
}
int session_init(void)
{
    return memory_take();
}

int main(void)
{
    char expected[32];
    int reason = BUS_ADRALN;
    (void)snprintf(expected, sizeof expected, "%d.%d.%d", BUS_VERSION_MAJOR, BUS_VERSION_MINOR,
                   BUS_VERSION_PATCH);
    (void)printf("%s\n", bus_version());
    if (strcmp(expected, bus_version()) != 0)
        return 1;
    if (session_init() != BUS_USB || reason != BUS_ADRALN)
        return 1;
    return bus_strerror(BUS_EFAILED)[0] == '\0';
}
