/* SPDX-License-Identifier: MPL-2.0 */
/* titles.h -- every message of schemas/messages.def by name and number, for tests of the wire. */
#ifndef TESTS_LIB_TITLES_H
#define TESTS_LIB_TITLES_H

#include "libbus/wire/msg.h"

static const struct title {
    unsigned number;
    const char *name;
    enum msg_lane lane;
    enum msg_direction direction;
} titles[] = {
#define MESSAGE(upper, name, number, lane, direction, what)                                        \
    {number, #name, MSG_LANE_##lane, MSG_##direction},
#include "schemas/messages.def"
};
enum { TITLES = sizeof titles / sizeof titles[0] };

#endif
