/* SPDX-License-Identifier: MPL-2.0 */
/* authors.c -- see authors.h.
 *
 * The chain is put together anew, from its end: in a chain, causes are later records.  First come
 * the broker's copies, each with all its causes; then the client's own records, which may lead to
 * copies.  No copy leads to a record of the client.  An error that two of them have in their chains
 * is there once. */
#include "broker/core/record/authors.h"

#include "broker/core/record/auditor.h"
#include "broker/core/record/failure.h"
#include "broker/core/record/rights.h"
#include "broker/core/record/text.h"
#include "libbus/wire/chain.h"
#include "libbus/wire/disclosure.h"

#include <string.h>

#define NOWHERE UINT32_MAX
/* Bytes of copies that are read for one error.  Beyond, causes are left out. */
#define COPIES_BYTES_MAX (LIMIT_ERROR_CAUSES * LIMIT_ERROR_BYTES)

/* ---- errors by id ---------------------------------------------------------------------------- */

bool authors_know(struct core *core, struct failure *failure)
{
    struct span id = failure_id(failure);
    uint32_t known;
    list_init(&failure->same_id);
    if (id.bytes == 0)
        return true;
    if (name_map_get(&core->failure_ids, id, &known)) {
        struct failure *first = pool_find(&core->failures, known);
        list_push(&first->same_id, &failure->same_id);
        return true;
    }
    return name_map_put(&core->failure_ids, id, failure->id);
}

/* The map borrows the id from the failure of its value. */
void authors_forget(struct core *core, struct failure *failure)
{
    struct span id = failure_id(failure);
    uint32_t known;
    bool is_first =
        id.bytes > 0 && name_map_get(&core->failure_ids, id, &known) && known == failure->id;
    if (is_first)
        name_map_remove(&core->failure_ids, id);
    if (is_first && !list_is_empty(&failure->same_id)) {
        struct failure *next = LIST_OWNER(failure->same_id.next, struct failure, same_id);
        bool is_put = name_map_put(&core->failure_ids, failure_id(next), next->id);
        must(is_put); /* one has just gone */
    }
    list_remove(&failure->same_id);
}

/* ---- ids ------------------------------------------------------------------------------------- */

/* Reads a number of up to ten digits, and steps behind it; false: there is none. */
static bool read_number(struct span *text, uint64_t *out_number)
{
    const char *digits = text->data;
    size_t bytes = 0;
    *out_number = 0;
    while (bytes < text->bytes && bytes < 19 && digits[bytes] >= '0' && digits[bytes] <= '9')
        *out_number = *out_number * 10 + (uint64_t)(digits[bytes++] - '0');
    *text = span_of(digits + bytes, text->bytes - bytes);
    return bytes > 0;
}

/* Whether a client of the author's may give this id, and of which incarnation it is. */
static bool read_own(const struct author *author, struct span id, uint64_t *out_incarnation)
{
    struct text prefix;
    uint64_t number;
    text_init(&prefix);
    text_add_span(&prefix, author->party->job->name);
    text_add(&prefix, "/");
    text_add_span(&prefix, author->party->name);
    text_add(&prefix, "/");
    if (id.bytes <= prefix.bytes || memcmp(id.data, prefix.data, prefix.bytes) != 0)
        return false;
    struct span rest = span_of((const char *)id.data + prefix.bytes, id.bytes - prefix.bytes);
    if (!read_number(&rest, out_incarnation) || *out_incarnation > author->incarnation ||
        rest.bytes == 0 || *(const char *)rest.data != '/')
        return false;
    rest = span_of((const char *)rest.data + 1, rest.bytes - 1);
    return read_number(&rest, &number) && rest.bytes == 0 && number % 2 == 1;
}

bool authors_is_own(const struct author *author, struct span id)
{
    uint64_t incarnation;
    return read_own(author, id, &incarnation);
}

/* ---- records --------------------------------------------------------------------------------- */

static bool is_a_clients_kind(uint64_t kind)
{
    return kind == ERROR_APPLICATION || kind == ERROR_DEPENDENCY || kind == ERROR_CANCELLED ||
           kind == ERROR_TERMINATED;
}

static void put_author(const struct author *author, uint64_t incarnation,
                       struct error_record *record)
{
    record->incarnation = incarnation;
    record->job = author->party->job->name;
    record->party = author->party->name;
    record->claimed_by = SPAN_NONE;
    if (!is_a_clients_kind(record->kind))
        record->kind = ERROR_APPLICATION;
}

void authors_sign(const struct author *author, struct error_record *head)
{
    put_author(author, author->incarnation, head);
    head->attempt = author->attempt;
}

/* The new chain grows downwards; what a copy is read into lies below it. */
struct joining {
    struct core *core;
    const struct author *author;
    struct error_record *items;
    uint32_t top;
    uint64_t bytes_left;
    uint32_t place[LIMIT_ERROR_RECORDS]; /* of each record of the client; or NOWHERE */
    bool is_placed[LIMIT_ERROR_RECORDS];
};

/* Where the error stands already, as the word of the same party. */
static uint32_t joined_find(const struct joining *joining, struct span id, struct span claimed_by)
{
    for (uint32_t i = joining->top; id.bytes > 0 && i < AUTHORS_ROOM; i++)
        if (span_equal(joining->items[i].id, id) &&
            span_equal(joining->items[i].claimed_by, claimed_by))
            return i;
    return NOWHERE;
}

static bool has_cause(const struct error_record *record, uint32_t cause)
{
    for (uint32_t i = 0; i < record->cause_count; i++)
        if (record->causes[i] == cause)
            return true;
    return false;
}

/* Puts the record before all others.  place: where its causes went. */
static uint32_t joined_put(struct joining *joining, const struct error_record *from,
                           const uint32_t *place)
{
    uint32_t at = --joining->top;
    struct error_record *record = &joining->items[at];
    *record = *from;
    record->cause_count = 0;
    for (uint32_t i = 0; i < from->cause_count; i++) {
        uint32_t cause = place[from->causes[i]];
        if (cause == NOWHERE)
            record->left_out += record->left_out < UINT32_MAX;
        else if (!has_cause(record, cause))
            record->causes[record->cause_count++] = cause;
    }
    return at;
}

/* Whoever asks by an id that it guessed learns nothing: it must be allowed to read where the error
 * was born, or know when that was. */
static bool may_know(const struct core *core, const struct party *party,
                     const struct error_record *copy, const struct error_record *told)
{
    if (core->access == NULL ||
        access_may_read_all(core->access, party->principal, party->job->name) != 0)
        return true;
    if (copy->topic.bytes > 0 && rights_may_read(core, party, copy->topic))
        return true;
    return copy->occurred_ns == told->occurred_ns && copy->wall_ns == told->wall_ns &&
           copy->uncertainty_ns == told->uncertainty_ns;
}

static bool is_known_here(const struct core *core, const struct failure *failure,
                          const struct error_record *head, const struct job *job)
{
    return failure_is_spare(core, failure) || span_equal(head->job, job->name);
}

/* Puts the broker's copy in the place of the record, with all that led to it. */
static void join_copy(struct joining *joining, uint32_t index, const struct error_record *told)
{
    struct error_record *copy = joining->items;
    uint32_t place[LIMIT_ERROR_RECORDS];
    uint32_t count = 0;
    uint32_t id;
    if (!name_map_get(&joining->core->failure_ids, told->id, &id))
        return;
    const struct failure *failure = pool_find(&joining->core->failures, id);
    joining->is_placed[index] = true;
    joining->place[index] = joined_find(joining, told->id, SPAN_NONE);
    if (joining->place[index] != NOWHERE || failure->byte_count > joining->bytes_left)
        return;
    enum wire_err err = error_decode(failure_span(failure), copy, LIMIT_ERROR_RECORDS, &count);
    must(err == WIRE_OK); /* it was encoded here */
    joining->bytes_left -= failure->byte_count;
    joining->is_placed[index] =
        is_known_here(joining->core, failure, copy, joining->author->party->job) &&
        may_know(joining->core, joining->author->party, copy, told);
    if (!joining->is_placed[index] || joining->top < 2 * LIMIT_ERROR_RECORDS + count)
        return; /* a claim; or there is no room for the copy beside all that the client said */
    for (uint32_t i = count; i-- > 0;) {
        place[i] = joined_find(joining, copy[i].id, copy[i].claimed_by);
        if (place[i] == NOWHERE)
            place[i] = joined_put(joining, &copy[i], place);
    }
    joining->place[index] = place[0];
}

/* Puts the client's own word there, or its claim. */
static void join_told(struct joining *joining, uint32_t index, struct error_record *told)
{
    const struct party *party = joining->author->party;
    uint64_t incarnation = joining->author->incarnation;
    bool is_own = told->id.bytes == 0 || read_own(joining->author, told->id, &incarnation);
    disclosure_apply(auditor_disclosure(party->job), told);
    if (is_own) {
        put_author(joining->author, incarnation, told);
    } else {
        told->claimed_by = party->name;
        told->attachments = SPAN_NONE;
    }
    uint32_t known = is_own ? NOWHERE : joined_find(joining, told->id, SPAN_NONE);
    if (known == NOWHERE)
        known = joined_find(joining, told->id, told->claimed_by);
    joining->place[index] = known != NOWHERE ? known : joined_put(joining, told, joining->place);
}

const struct error_record *authors_check(struct core *core, const struct author *author,
                                         uint32_t *count)
{
    struct error_record *told = core->scratch;
    struct joining joining = {.core = core,
                              .author = author,
                              .items = core->joined,
                              .top = AUTHORS_ROOM,
                              .bytes_left = COPIES_BYTES_MAX};
    if (*count == 1)
        return told;
    for (uint32_t i = 1; i < *count; i++)
        if (told[i].id.bytes > 0 && !authors_is_own(author, told[i].id))
            join_copy(&joining, i, &told[i]);
    for (uint32_t i = *count; i-- > 1;)
        if (!joining.is_placed[i])
            join_told(&joining, i, &told[i]);
    uint32_t head = joined_put(&joining, &told[0], joining.place);
    struct error_record *first = &joining.items[head];
    for (uint32_t i = head; i < AUTHORS_ROOM; i++)
        for (uint32_t k = 0; k < joining.items[i].cause_count; k++)
            joining.items[i].causes[k] -= head;
    *count = chain_trim(first, AUTHORS_ROOM - head);
    return first;
}
