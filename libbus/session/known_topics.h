/* SPDX-License-Identifier: MPL-2.0 */
/* known_topics.h -- topics that this client reads: names, and the broker's numbers for them.
 *
 * No entry is ever removed.  Numbers hold as long as the broker instance (PROTOCOL.md, "Greeting
 * and sessions").  Names are lent out as long as the session exists. */
#ifndef SESSION_KNOWN_TOPICS_H
#define SESSION_KNOWN_TOPICS_H

#include "libbus/base/map.h"
#include "libbus/base/memory.h"
#include "libbus/base/pool.h"
#include "libbus/base/span.h"
#include "libbus/wire/error.h"
#include "libbus/wire/frame.h"

#include <stdint.h>

struct known_topic {
    uint32_t id;     /* for the pool */
    uint32_t number; /* the broker's; 0: not known yet */
    struct span name;
    struct id_map wanted;       /* seq to want_slot.id; see wants.h */
    struct frame_origin origin; /* of the awaited slots that come next */
};

struct known_topics {
    struct memory *memory;
    struct pool pool;
    struct name_map by_name;
    struct id_map by_number;
};

void known_topics_init(struct known_topics *known, struct memory *memory);
void known_topics_fini(struct known_topics *known);
/* Errors: CODE_EFULL: LIMIT_TOPICS; CODE_ENOMEM. */
enum wire_code known_topics_open(struct known_topics *known, struct span name,
                                 struct known_topic **out_topic);
/* The broker gives a number, not 0, to a name.  Errors: CODE_EFULL, CODE_ENOMEM; CODE_EPROTO: no
 * name, or the number has another. */
enum wire_code known_topics_number(struct known_topics *known, uint32_t number, struct span name);
/* NULL: an unknown number. */
struct known_topic *known_topics_find(const struct known_topics *known, uint32_t number);

#endif
