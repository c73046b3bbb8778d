/* SPDX-License-Identifier: MPL-2.0 */
/* fact.c -- the facts of schemas/facts.def as descriptors, and their walkers; see fact.h. */
#include "libbus/wire/fact.h"

#include "libbus/base/must.h"
#include "libbus/wire/field.h"
#include "libbus/wire/msg.h"

/* ---- the table as data ----------------------------------------------------------------------- */
#define FACT(upper, name, number, weight, of, what) static const struct field fields_##name[] = {
#define FIELD_U64(owner, member, largest, what) FIELD_ROW_U64(fact_##owner, member, largest),
#define FIELD_I64(owner, member, smallest, what) FIELD_ROW_I64(fact_##owner, member, smallest),
#define FIELD_STR(owner, member, least, most, what)                                                \
    FIELD_ROW_STR(fact_##owner, member, least, most),
#define FIELD_BIN(owner, member, least, most, what)                                                \
    FIELD_ROW_BIN(fact_##owner, member, least, most),
#define FACT_END(upper, name)                                                                      \
    FIELDS_END                                                                                     \
    }                                                                                              \
    ;
#include "schemas/facts.def"

struct kind {
    const char *name; /* NULL: no fact has this number */
    bool is_essential;
    const struct field *fields;
    uint32_t field_count;
};

#define ESSENTIAL true
#define ORDINARY false
static const struct kind kinds[FACT_TYPE_COUNT] = {
#define FACT(upper, title, number, weight, of, what)                                               \
    [number] = {.name = #title,                                                                    \
                .is_essential = weight,                                                            \
                .fields = fields_##title,                                                          \
                .field_count = FIELDS_COUNT(fields_##title)},
#include "schemas/facts.def"
};
#undef ESSENTIAL
#undef ORDINARY

static const struct kind *kind_find(uint64_t number)
{
    if (number >= FACT_TYPE_COUNT || kinds[number].name == NULL)
        return NULL;
    return &kinds[number];
}

const char *fact_name(enum fact_type type)
{
    const struct kind *kind = kind_find((uint64_t)type);
    return kind != NULL ? kind->name : NULL;
}

bool fact_is_essential(enum fact_type type)
{
    const struct kind *kind = kind_find((uint64_t)type);
    must(kind != NULL);
    return kind->is_essential;
}

enum wire_err fact_encode(const struct fact *fact, uint8_t *out, size_t room, size_t *out_bytes)
{
    const struct kind *kind = kind_find((uint64_t)fact->type);
    must(kind != NULL);
    return fields_encode((uint32_t)fact->type, kind->fields, kind->field_count, &fact->as, out,
                         room, out_bytes);
}

enum wire_err fact_decode(struct span record, struct fact *out_fact)
{
    if (record.bytes > LIMIT_FACT_BYTES)
        return WIRE_TOO_BIG;
    enum wire_err err = wire_walk(record);
    if (err != WIRE_OK)
        return err;
    unsigned number = wire_number(record);
    if (number == MSG_NONE)
        return WIRE_FORMAT;
    const struct kind *kind = kind_find(number);
    if (kind == NULL)
        return WIRE_UNKNOWN;
    struct fact fact = {.type = (enum fact_type)number};
    err = fields_decode(record, kind->fields, kind->field_count, &fact.as);
    if (err == WIRE_OK)
        *out_fact = fact;
    return err;
}
