/* SPDX-License-Identifier: MPL-2.0 */
/* access_check.c -- see access_check.h. */
#include "tests/sim/access_check.h"

#include "broker/core/model.h"
#include "libbus/base/must.h"
#include "libbus/wire/error.h"
#include "libbus/wire/frame.h"

#include <stdio.h>

/* As broker/core/streams/pump.c numbers parties. */
#define PARTY_NUMBER_BIT UINT32_C(0x80000000)

void access_check_use(struct access_check *check, const struct access *access, int64_t now_ns)
{
    must(check->table_count < ACCESS_CHECK_TABLES);
    check->tables[check->table_count].access = access;
    check->tables[check->table_count++].from_ns = now_ns;
}

static const struct access *in_force(const struct access_check *check)
{
    return check->table_count > 0 ? check->tables[check->table_count - 1].access : NULL;
}

static const char *wrong(struct access_check *check, struct span party, const char *what,
                         struct span name)
{
    (void)snprintf(check->text, sizeof check->text, "%.*s %s%.*s", (int)party.bytes,
                   (const char *)party.data, what, (int)name.bytes,
                   name.bytes > 0 ? (const char *)name.data : ""); /* may be cut */
    return check->text;
}

/* ---- who is heard ---------------------------------------------------------------------------- */

void access_check_restart(struct access_check *check)
{
    for (uint32_t i = 0; i < ACCESS_CHECK_PARTIES; i++)
        check->outs[i].party = 0;
}

/* So many slots it ever promised; fewer, if topics of an earlier attempt went. */
static uint64_t slots_of(const struct party *party)
{
    uint64_t slots = 0;
    LIST_EACH(link, &party->topics)
        slots += LIST_OWNER(link, struct topic, party_link)->slots.next_seq;
    return slots;
}

/* Its place, or a free one. */
static uint32_t out_of(const struct access_check *check, const struct party *party)
{
    uint32_t unused = ACCESS_CHECK_PARTIES;
    for (uint32_t i = 0; i < ACCESS_CHECK_PARTIES; i++) {
        if (check->outs[i].party == party->id)
            return i;
        if (check->outs[i].party == 0)
            unused = i;
    }
    must(unused < ACCESS_CHECK_PARTIES);
    return unused;
}

static const char *look_at(struct access_check *check, const struct party *party)
{
    uint32_t at = out_of(check, party);
    uint64_t slots = slots_of(party);
    bool is_known = check->outs[at].party == party->id;
    if (party_is_live(party))
        return wrong(check, party->name, "has no access and is not lost", SPAN_NONE);
    if (party->open_count > 0)
        return wrong(check, party->name, "has no access and owes slots", SPAN_NONE);
    if (is_known && party->incarnation != check->outs[at].incarnation)
        return wrong(check, party->name, "has no access and came back", SPAN_NONE);
    if (is_known && slots > check->outs[at].slots)
        return wrong(check, party->name, "has no access and was heard", SPAN_NONE);
    check->outs[at].party = party->id;
    check->outs[at].incarnation = party->incarnation;
    check->outs[at].slots = slots;
    return NULL;
}

const char *access_check_step(struct access_check *check, const struct core *core)
{
    const struct access *access = in_force(check);
    const struct party *party = NULL;
    while (access != NULL &&
           (party = pool_next(&core->parties, party != NULL ? party->id : 0)) != NULL) {
        uint32_t principal = access_find(access, party->name);
        bool may = access_may_be(access, principal, party->job->name, party->name) != 0;
        const char *text = may || party->incarnation == 0 ? NULL : look_at(check, party);
        if (text != NULL)
            return text;
        uint32_t at = out_of(check, party);
        if (may)
            check->outs[at].party = 0;
    }
    return NULL;
}

/* ---- who is sent what ------------------------------------------------------------------------ */

/* That a wait is denied, or that there is no room for it; or what stands in for these where memory
 * is short. */
static bool is_denial(const struct frame *frame)
{
    struct error_record record;
    uint32_t count = 0;
    return (frame->flags & FRAME_KIND_MASK) == FRAME_ERROR &&
           error_decode(frame->value, &record, 1, &count) == WIRE_OK && count > 0 &&
           (span_equal(record.type, span_text(ERROR_TYPE_NOT_AUTHORISED)) ||
            span_equal(record.type, span_text(ERROR_TYPE_FULL)) ||
            span_equal(record.type, span_text(ERROR_TYPE_NO_MEMORY)));
}

/* The topic that clients know by this number, or NULL. */
static const struct topic *topic_of_number(const struct core *core, uint32_t number)
{
    const struct topic *topic = NULL;
    while ((topic = pool_next(&core->topics, topic != NULL ? topic->id : 0)) != NULL)
        if (topic->number == number)
            break;
    return topic;
}

/* The topic that a frame is about; empty: none, or it is gone with this step. */
static struct span topic_of(const struct core *core, const struct frame *frame)
{
    if ((frame->topic & PARTY_NUMBER_BIT) != 0)
        return SPAN_NONE; /* a party, whose end is told */
    if ((frame->flags & FRAME_KIND_MASK) == FRAME_TOPIC)
        return frame->value;
    const struct topic *topic = topic_of_number(core, frame->topic);
    return topic != NULL ? topic->name : SPAN_NONE;
}

/* The name of the topic that the reply to a task goes to: who does the task is told it. */
static bool is_place_of_reply(const struct core *core, const struct frame *frame)
{
    const struct topic *topic = topic_of_number(core, frame->topic);
    bool is_name = (frame->flags & FRAME_KIND_MASK) == FRAME_TOPIC;
    return is_name && topic != NULL && topic->is_replies;
}

/* The subscription with this number of the client's, or NULL. */
static const struct sub *sub_of(const struct core *core, struct span job, struct span party,
                                uint32_t number)
{
    const struct sub *sub = NULL;
    while ((sub = pool_next(&core->subs, sub != NULL ? sub->id : 0)) != NULL)
        if (sub->session != NULL && sub->number == number && span_equal(sub->job->name, job) &&
            span_equal(sub->party->name, party))
            return sub;
    return NULL;
}

/* Whether the frame is of a letter that a member is given again by its own group: a letter of an
 * earlier attempt is named by the slot in which the group keeps it. */
static bool is_letter_of_group(const struct core *core, const struct sub *sub,
                               const struct frame *frame)
{
    const struct topic *topic = topic_of_number(core, frame->topic);
    return topic != NULL && topic->letters != NULL && sub != NULL && sub_is_member(sub) &&
           sub->group == topic->letters;
}

const char *access_check_part(struct access_check *check, const struct core *core, struct span job,
                              struct span party, uint32_t sub_number, struct span part)
{
    const struct access *access = in_force(check);
    const struct sub *sub = sub_of(core, job, party, sub_number);
    struct batch_reader reader;
    struct frame frame;
    if (access == NULL || wire_number(part) != BATCH_NUMBER)
        return NULL;
    uint32_t principal = access_find(access, party);
    enum wire_err err = batch_reader_init(&reader, part);
    if (access_may_be(access, principal, job, party) == 0)
        return wrong(check, party, "is sent frames, and has no access", SPAN_NONE);
    while (err == WIRE_OK && (err = batch_reader_next(&reader, &frame)) == WIRE_OK) {
        bool is_name = (frame.flags & FRAME_KIND_MASK) == FRAME_TOPIC;
        if (frame.topic == 0 && !is_name && !is_denial(&frame))
            return wrong(check, party, "is sent a frame of no topic", SPAN_NONE);
        if (frame.topic == 0)
            continue; /* a wait is denied: its name is the party's own word */
        struct span topic = topic_of(core, &frame);
        if (topic.bytes > 0 && !is_place_of_reply(core, &frame) &&
            !is_letter_of_group(core, sub, &frame) &&
            access_may_read(access, principal, job, party, topic) == 0)
            return wrong(check, party, "may not read and is sent ", topic);
    }
    return NULL;
}

bool access_check_covers(const struct access_check *check, int64_t since_ns, struct span job,
                         struct span party, struct span pattern)
{
    for (uint32_t i = 0; i < check->table_count; i++) {
        const struct access *access = check->tables[i].access;
        bool is_later = i + 1 < check->table_count && check->tables[i + 1].from_ns < since_ns;
        if (!is_later &&
            access_may_cover(access, access_find(access, party), job, party, pattern) == 0)
            return false;
    }
    return true;
}
