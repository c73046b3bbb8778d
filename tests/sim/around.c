/* SPDX-License-Identifier: MPL-2.0 */
/* around.c -- the linker puts these functions in the place of others (tests/CMakeLists.txt): the
 * product knows nothing of it. */
#include "tests/sim/around.h"

#include "libbus/io/seal.h"
#include "tests/lib/fnv.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WALL_NS INT64_C(1700000000000000000)
enum { PROCESS = 4711 };

int64_t __wrap_api_now_ns(void);
int64_t __wrap_api_wall_ns(void);
int __wrap_gethostname(char *out, size_t room);
pid_t __wrap_getpid(void);
bool __wrap_seal_is_there(void);
void __wrap_seal_draw(uint8_t *out, size_t bytes);
bool __wrap_seal_close(const uint8_t key[KEY_BYTES], struct span plain, uint8_t *out);
bool __wrap_seal_open(const struct key_pair *pair, struct span box, uint8_t *out);

static int64_t clock_ns;
static char host_name[AROUND_HOST_BYTES];

void around_set(int64_t now_ns, const char *host)
{
    clock_ns = now_ns;
    (void)snprintf(host_name, sizeof host_name, "%s", host); /* it is short enough */
}

int64_t __wrap_api_now_ns(void)
{
    return clock_ns;
}

int64_t __wrap_api_wall_ns(void)
{
    return WALL_NS + clock_ns;
}

int __wrap_gethostname(char *out, size_t room)
{
    (void)snprintf(out, room, "%s", host_name); /* there is room for any name */
    return 0;
}

pid_t __wrap_getpid(void)
{
    return PROCESS;
}

/* ---- sealed boxes ---------------------------------------------------------------------------- */

const struct key_pair *around_auditor(void)
{
    static const struct key_pair auditor = {.public_key = "the auditor of the simulation..",
                                            .secret_key = "what the auditor alone knows..."};
    return &auditor;
}

bool __wrap_seal_is_there(void)
{
    return true;
}

void __wrap_seal_draw(uint8_t *out, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)(fnv(fnv(FNV_BEGIN, &clock_ns, sizeof clock_ns), &i, sizeof i) >> 32);
}

/* From one to the other, and back.  No byte stays as it is. */
static void mix(uint64_t sum, const uint8_t *from, size_t bytes, uint8_t *out)
{
    for (size_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)(from[i] ^ (0x80 | (uint8_t)(fnv(sum, &i, sizeof i) >> 32)));
}

static uint64_t sum_of(const uint8_t key[KEY_BYTES], const uint8_t *plain, size_t bytes)
{
    return fnv(fnv(FNV_BEGIN, key, KEY_BYTES), plain, bytes);
}

bool __wrap_seal_close(const uint8_t key[KEY_BYTES], struct span plain, uint8_t *out)
{
    uint64_t sum = sum_of(key, plain.data, plain.bytes);
    memset(out, 0, SEAL_BOX_BYTES);
    memcpy(out, &sum, sizeof sum);
    mix(sum, plain.data, plain.bytes, out + SEAL_BOX_BYTES);
    return true;
}

bool __wrap_seal_open(const struct key_pair *pair, struct span box, uint8_t *out)
{
    uint64_t sum;
    const uint8_t *bytes = box.data;
    if (box.bytes < SEAL_BOX_BYTES)
        return false;
    memcpy(&sum, bytes, sizeof sum);
    mix(sum, bytes + SEAL_BOX_BYTES, box.bytes - SEAL_BOX_BYTES, out);
    return sum == sum_of(pair->public_key, out, box.bytes - SEAL_BOX_BYTES);
}
