/* SPDX-License-Identifier: MPL-2.0 */
/* access_table.h -- what an access file becomes: access_lines.c fills it, access.c looks it up.
 *
 * A file may have tens of thousands of lines, and each may name a group of as many.  So no line is
 * compared with all others: what is looked up is in a map, and what belongs to a name is in a chain
 * that begins at the name.  Chains are in the order of the lines, and end with 0. */
#ifndef BASE_ACCESS_TABLE_H
#define BASE_ACCESS_TABLE_H

#include "libbus/base/access.h"
#include "libbus/base/map.h"

#include <string.h>

struct chain {
    uint32_t first, last;
};

enum name_kind { NAME_UNKNOWN, NAME_PRINCIPAL, NAME_GROUP };

struct name {
    struct span text;
    enum name_kind kind;
    uint32_t line;         /* that used it first */
    uint32_t member_first; /* of a group: index in members */
    uint32_t member_count;
    struct chain rules;       /* that name it: 1 + index */
    struct chain memberships; /* of a principal, one for each group with it: 1 + index in members */
};
/* A name in the line of a group. */
struct member {
    uint32_t name;  /* index */
    uint32_t group; /* index of its name */
    uint32_t next;
};
/* A key or a uid of a principal. */
struct credential {
    uint8_t key[KEY_BYTES];
    int64_t end_s; /* it is over then */
    uint32_t uid;
    uint32_t name; /* index */
    uint32_t next; /* 1 + index of the next one that the map takes for the same */
    bool is_key;
};
struct words {
    uint32_t first;
    uint32_t count;
};
struct rule {
    uint32_t line;
    uint32_t who; /* index of a name */
    uint32_t next;
    unsigned rights; /* a sum */
    struct words as, reads, jobs;
};

/* One pair of a limit line. */
struct limit {
    uint32_t line;
    uint32_t who; /* index of a name */
    enum access_quota quota;
    uint64_t amount;
};

struct array {
    void *items;
    size_t item_bytes;
    uint32_t room;
    uint32_t count;
};

struct access {
    struct memory *memory;
    char *text; /* the names and words are parts of it */
    size_t text_bytes;
    struct array names, credentials, rules, limits, members, words;
    struct name_map name_map;     /* name: its index */
    struct id_map credential_map; /* access_credential_number(): index of the first */
    struct id_map limit_map;      /* access_limit_number(): index */
};

/* Keys are random: 8 bytes of them tell nearly all apart. */
static inline uint64_t access_credential_number(const struct credential *credential)
{
    uint64_t number = credential->uid;
    if (credential->is_key)
        memcpy(&number, credential->key, sizeof number);
    return number;
}

static inline uint64_t access_limit_number(uint32_t who, enum access_quota quota)
{
    return (uint64_t)who * ACCESS_QUOTA_COUNT + quota;
}

static inline struct name *name_at(const struct access *access, uint32_t index)
{
    return (struct name *)access->names.items + index;
}

static inline struct credential *credential_at(const struct access *access, uint32_t index)
{
    return (struct credential *)access->credentials.items + index;
}

static inline struct rule *rule_at(const struct access *access, uint32_t index)
{
    return (struct rule *)access->rules.items + index;
}

static inline const struct limit *limit_at(const struct access *access, uint32_t index)
{
    return (const struct limit *)access->limits.items + index;
}

static inline struct member *member_at(const struct access *access, uint32_t index)
{
    return (struct member *)access->members.items + index;
}

static inline struct span word_at(const struct access *access, uint32_t index)
{
    return ((const struct span *)access->words.items)[index];
}

/* One of this kind, key and uid; NULL: there is none. */
const struct credential *access_credential_find(const struct access *access,
                                                const struct credential *like);

#endif
