/* SPDX-License-Identifier: MPL-2.0 */
/* durability.c -- see durability.h. */
#include "broker/io/durability.h"

#include <string.h>

struct level {
    const char *name;
    bool syncs;
    enum durability_wait waits[CORE_PORT_SAYING_COUNT];
};

static const struct level levels[DURABILITY_COUNT] = {
    [DURABILITY_MEMORY] = {"memory", false, {WAIT_FOR_NOTHING}},
    [DURABILITY_PROCESS] = {"process",
                            false,
                            {[CORE_PORT_OUTCOME] = WAIT_FOR_LOG,
                             [CORE_PORT_ANSWER] = WAIT_FOR_LOG,
                             [CORE_PORT_WELCOME] = WAIT_FOR_LOG}},
    [DURABILITY_DISK] = {"disk",
                         true,
                         {[CORE_PORT_OUTCOME] = WAIT_FOR_LOG,
                          [CORE_PORT_ANSWER] = WAIT_FOR_DISK,
                          [CORE_PORT_WELCOME] = WAIT_FOR_DISK}},
    [DURABILITY_SHARED] = {"shared",
                           true,
                           {[CORE_PORT_OUTCOME] = WAIT_FOR_DISK,
                            [CORE_PORT_ANSWER] = WAIT_FOR_DISK,
                            [CORE_PORT_WELCOME] = WAIT_FOR_NEXT_SYNC,
                            [CORE_PORT_CONCLUSION] = WAIT_FOR_NEXT_SYNC}},
};

enum durability_wait durability_wait(enum durability durability, enum core_port_saying saying)
{
    return levels[durability].waits[saying];
}

bool durability_syncs(enum durability durability)
{
    return levels[durability].syncs;
}

void durability_tell(enum durability durability, struct core_options *options)
{
    options->durability = (uint8_t)durability;
    options->holds_outcomes = levels[durability].waits[CORE_PORT_OUTCOME] == WAIT_FOR_DISK;
}

const char *durability_name(enum durability durability)
{
    return levels[durability].name;
}

enum durability durability_named(const char *name)
{
    enum durability level = DURABILITY_MEMORY;
    while (level < DURABILITY_COUNT && strcmp(levels[level].name, name) != 0)
        level++;
    return level;
}
