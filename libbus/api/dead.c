/* SPDX-License-Identifier: MPL-2.0 */
/* dead.c -- dead letters of groups from outside: listed, shown, given again, dropped. */
#include "libbus/api/admin.h"
#include "libbus/api/clock.h"
#include "libbus/api/error.h"
#include "libbus/api/error_wire.h"
#include "libbus/api/grow.h"
#include "libbus/api/model.h"
#include "libbus/base/flow_window.h"
#include "libbus/base/limits.h"
#include "libbus/base/pattern.h"

#include <bus/dead.h>
#include <stdlib.h>
#include <string.h>

enum { HOW_LIST = 0, HOW_SHOW = 1, HOW_REPLAY = 2, HOW_DROP = 3 }; /* DEAD.how */

/* A letter and its texts, in one block. */
struct letter {
    struct bus_letter public;
    char texts[];
};

struct bus_dead {
    struct letter **letters;
    size_t count;
    size_t room;
    struct bus_error *error;
    unsigned char *value;  /* value_bytes of the one letter that is shown */
    uint64_t value_count;  /* of them, here */
    uint64_t done;         /* letters that DEAD_END speaks of */
    uint64_t window_bytes; /* of the value, that the next question asks for */
    int64_t least_ns;      /* the quickest answer */
};

void bus_dead_free(struct bus_dead **dead)
{
    if (dead == NULL || *dead == NULL)
        return;
    for (size_t i = 0; i < (*dead)->count; i++)
        free((*dead)->letters[i]);
    free((*dead)->letters);
    free((*dead)->value);
    bus_error_unref(&(*dead)->error);
    free(*dead);
    *dead = NULL;
}

/* ---- what is answered ------------------------------------------------------------------------ */

static bool dead_has_room(struct bus_dead *dead)
{
    struct letter **letters =
        api_grow(dead->letters, dead->count, &dead->room, sizeof(struct letter *));
    if (letters != NULL)
        dead->letters = letters;
    return letters != NULL;
}

static bool add_letter(struct bus_dead *dead, const struct msg_dead_row *row)
{
    struct letter *letter =
        dead_has_room(dead)
            ? malloc(sizeof *letter + row->topic.bytes + row->type.bytes + row->message.bytes + 3)
            : NULL;
    if (letter == NULL)
        return false;
    char *at = letter->texts;
    letter->public = (struct bus_letter){
        .number = row->number,
        .topic = api_place(&at, row->topic),
        .seq = row->seq,
        .deliveries = (unsigned)row->deliveries,
        .at_ns = row->at_ns,
        .value_bytes = row->value_bytes,
        .is_replayed = row->is_replayed != 0,
        .attempt = (uint32_t)row->attempt,
    };
    letter->public.type = api_place(&at, row->type);
    letter->public.message = api_place(&at, row->message);
    dead->letters[dead->count++] = letter;
    if (row->error.bytes > 0)
        dead->error = error_from_wire(row->error);
    return true;
}

static bool add_value(struct bus_dead *dead, const struct msg_dead_value *piece)
{
    if (piece->total > LIMIT_VALUE_BYTES || piece->offset != dead->value_count ||
        piece->value.bytes > piece->total - piece->offset)
        return false;
    if (dead->value == NULL)
        dead->value = malloc(piece->total > 0 ? (size_t)piece->total : 1);
    if (dead->value == NULL)
        return false;
    if (piece->value.bytes > 0)
        memcpy(dead->value + dead->value_count, piece->value.data, piece->value.bytes);
    dead->value_count += piece->value.bytes;
    return true;
}

static enum bus_err dead_end_say(struct bus_dead *dead, const struct msg_dead_end *end,
                                 struct bus_error **reterr)
{
    dead->done = end->count;
    if (end->code == CODE_OK)
        return BUS_OK;
    (void)error_give(reterr, BUS_EINVAL, error_make(ERROR_REJECTED, end->type, end->message));
    return (enum bus_err)end->code;
}

static enum bus_err dead_take_row(struct bus *bus, const struct msg *row, void *arg,
                                  struct bus_error **reterr)
{
    struct bus_dead *dead = arg;
    (void)bus; /* the row says it all */
    if (row->type == MSG_DEAD_END)
        return dead_end_say(dead, &row->as.dead_end, reterr);
    bool is_more = dead->value_count > 0; /* the letter itself was told before */
    bool is_kept = false;
    if (row->type == MSG_DEAD_VALUE)
        is_kept = add_value(dead, &row->as.dead_value);
    else if (row->type == MSG_DEAD_ROW)
        is_kept = is_more || add_letter(dead, &row->as.dead_row);
    return is_kept ? BUS_OK : error_give(reterr, BUS_ENOMEM, &error_no_memory);
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* Begins a call about a group, with an answer that is still empty. */
static enum bus_err dead_begin(struct bus_admin *admin, const char *job, const char *group,
                               int64_t timeout_ms, struct admin_call *out_call,
                               struct bus_dead **out_dead, struct bus_error **reterr)
{
    struct span name = span_text(group);
    if (!party_is_valid(name) || name.bytes > LIMIT_GROUP_NAME_BYTES)
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "a group's name has 1 to 180 bytes without '/'");
    enum bus_err err = admin_begin(admin, job, timeout_ms, out_call, reterr);
    if (err != BUS_OK)
        return err;
    *out_dead = calloc(1, sizeof **out_dead);
    if (*out_dead != NULL)
        return BUS_OK;
    admin_end(out_call);
    return error_give(reterr, BUS_ENOMEM, &error_no_memory);
}

/* Ends it: the answer is the caller's, or freed. */
static enum bus_err dead_end(struct admin_call *call, enum bus_err err, struct bus_dead **dead,
                             struct bus_dead **out_dead)
{
    admin_end(call);
    if (err == BUS_OK)
        *out_dead = *dead;
    else
        bus_dead_free(dead);
    return err;
}

static enum bus_err dead_ask(struct admin_call *call, struct bus_dead *dead, const char *group,
                             unsigned how, uint64_t number, struct bus_error **reterr)
{
    const struct msg question = {.type = MSG_DEAD,
                                 .as.dead = {.job = span_text(call->job),
                                             .group = span_text(group),
                                             .how = how,
                                             .number = number,
                                             .offset = dead->value_count,
                                             .window_bytes = dead->window_bytes}};
    return admin_ask(call, &question, dead_take_row, dead, reterr);
}

/* Asks for the next bytes of the value: for more of them where the link is long. */
static enum bus_err dead_ask_value(struct admin_call *call, struct bus_dead *dead,
                                   const char *group, uint64_t number, struct bus_error **reterr)
{
    int64_t asked_ns = api_now_ns();
    enum bus_err err = dead_ask(call, dead, group, HOW_SHOW, number, reterr);
    int64_t took_ns = api_now_ns() - asked_ns;
    if (dead->least_ns == 0 || took_ns < dead->least_ns)
        dead->least_ns = took_ns;
    uint64_t bytes = flow_question_bytes(dead->window_bytes, took_ns, dead->least_ns);
    if (bytes >= LIMIT_DEAD_PIECE_BYTES && bytes <= LIMIT_DEAD_WINDOW_BYTES)
        dead->window_bytes = bytes;
    return err;
}

enum bus_err bus_admin_dead_list(struct bus_admin *admin, const char *job, const char *group,
                                 int64_t timeout_ms, struct bus_dead **out_dead,
                                 struct bus_error **reterr)
{
    struct admin_call call;
    struct bus_dead *dead = NULL;
    if (out_dead == NULL)
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "bus_admin_dead_list() needs out_dead");
    enum bus_err err = dead_begin(admin, job, group, timeout_ms, &call, &dead, reterr);
    if (err != BUS_OK)
        return err;
    err = dead_ask(&call, dead, group, HOW_LIST, 0, reterr);
    return dead_end(&call, err, &dead, out_dead);
}

enum bus_err bus_admin_dead_show(struct bus_admin *admin, const char *job, const char *group,
                                 uint64_t number, int64_t timeout_ms, struct bus_dead **out_dead,
                                 struct bus_error **reterr)
{
    struct admin_call call;
    struct bus_dead *dead = NULL;
    bool is_whole = false;
    if (out_dead == NULL)
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "bus_admin_dead_show() needs out_dead");
    enum bus_err err = dead_begin(admin, job, group, timeout_ms, &call, &dead, reterr);
    if (err != BUS_OK)
        return err;
    dead->window_bytes = LIMIT_DEAD_PIECE_BYTES;
    while (err == BUS_OK && !is_whole) {
        uint64_t before = dead->value_count;
        err = dead_ask_value(&call, dead, group, number, reterr);
        is_whole = dead->count == 0 || dead->value_count == before ||
                   dead->value_count == dead->letters[0]->public.value_bytes;
    }
    return dead_end(&call, err, &dead, out_dead);
}

static enum bus_err dead_act(struct bus_admin *admin, const char *job, const char *group,
                             unsigned how, uint64_t number, int64_t timeout_ms, uint64_t *out_count,
                             struct bus_error **reterr)
{
    struct admin_call call;
    struct bus_dead *dead = NULL;
    enum bus_err err = dead_begin(admin, job, group, timeout_ms, &call, &dead, reterr);
    if (err != BUS_OK)
        return err;
    err = dead_ask(&call, dead, group, how, number, reterr);
    if (err == BUS_OK && out_count != NULL)
        *out_count = dead->done;
    admin_end(&call);
    bus_dead_free(&dead);
    return err;
}

enum bus_err bus_admin_dead_replay(struct bus_admin *admin, const char *job, const char *group,
                                   uint64_t number, int64_t timeout_ms, uint64_t *out_count,
                                   struct bus_error **reterr)
{
    return dead_act(admin, job, group, HOW_REPLAY, number, timeout_ms, out_count, reterr);
}

enum bus_err bus_admin_dead_drop(struct bus_admin *admin, const char *job, const char *group,
                                 uint64_t number, int64_t timeout_ms, uint64_t *out_count,
                                 struct bus_error **reterr)
{
    return dead_act(admin, job, group, HOW_DROP, number, timeout_ms, out_count, reterr);
}

/* ---- looking --------------------------------------------------------------------------------- */

size_t bus_dead_count(const struct bus_dead *dead)
{
    return dead != NULL ? dead->count : 0;
}

const struct bus_letter *bus_dead_at(const struct bus_dead *dead, size_t index)
{
    return dead != NULL && index < dead->count ? &dead->letters[index]->public : NULL;
}

const struct bus_error *bus_dead_error(const struct bus_dead *dead)
{
    return dead != NULL ? dead->error : NULL;
}

const void *bus_dead_value(const struct bus_dead *dead, size_t *out_bytes)
{
    if (out_bytes != NULL)
        *out_bytes = dead != NULL ? (size_t)dead->value_count : 0;
    return dead != NULL && dead->value != NULL ? (const void *)dead->value : "";
}
