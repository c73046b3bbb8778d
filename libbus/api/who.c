/* SPDX-License-Identifier: MPL-2.0 */
/* who.c -- who is connected to a broker, and another access file for it. */
#include "libbus/api/admin.h"
#include "libbus/api/error.h"
#include "libbus/api/grow.h"
#include "libbus/api/model.h"

#include <bus/access.h>

#include <stdlib.h>
#include <string.h>

/* A row and its texts, in one block. */
struct row {
    struct bus_who_row public;
    char texts[];
};

struct bus_who {
    struct row **rows;
    size_t count, room;
    uint32_t next; /* for the next question; 0: there is none */
};

const char *bus_role_name(enum bus_role role)
{
    static const char *const names[] = {"party", "observer", "guard"};
    return (unsigned)role < BUS_ROLE_UNKNOWN ? names[role] : "unknown";
}

static bool add_who_row(struct bus_who *who, const struct msg_who_row *from)
{
    struct row **rows = api_grow(who->rows, who->count, &who->room, sizeof(struct row *));
    if (rows == NULL)
        return false;
    who->rows = rows;
    struct row *row = malloc(sizeof *row + from->name.bytes + from->job.bytes + from->party.bytes +
                             from->identity.bytes + from->address.bytes + 5);
    if (row == NULL)
        return false;
    char *at = row->texts;
    row->public = (struct bus_who_row){
        .name = api_place(&at, from->name),
        .incarnation = (uint32_t)from->incarnation,
        .role = from->role < BUS_ROLE_UNKNOWN ? (enum bus_role)from->role : BUS_ROLE_UNKNOWN,
        .connections = (uint32_t)from->connections,
        .connected_ms = from->connected_ms,
        .until_s = from->until_s,
    };
    row->public.job = api_place(&at, from->job);
    row->public.party = api_place(&at, from->party);
    row->public.identity = api_place(&at, from->identity);
    row->public.address = api_place(&at, from->address);
    who->rows[who->count++] = row;
    return true;
}

static int who_row_compare(const void *left, const void *right)
{
    const struct bus_who_row *a = &(*(struct row *const *)left)->public;
    const struct bus_who_row *b = &(*(struct row *const *)right)->public;
    int order = strcmp(a->name, b->name);
    if (order == 0)
        order = strcmp(a->job, b->job);
    if (order == 0)
        order = strcmp(a->party, b->party);
    if (order == 0)
        order = (int)a->role - (int)b->role;
    return order != 0 ? order : strcmp(a->address, b->address);
}

static enum bus_err who_take_row(struct bus *bus, const struct msg *row, void *arg,
                                 struct bus_error **reterr)
{
    struct bus_who *who = arg;
    (void)bus; /* the row says it all */
    if (row->type == MSG_WHO_END) {
        who->next = (uint32_t)row->as.who_end.next;
        return BUS_OK;
    }
    return add_who_row(who, &row->as.who_row) ? BUS_OK
                                              : error_give(reterr, BUS_ENOMEM, &error_no_memory);
}

/* Each answer has some of the rows, so that none takes the broker long. */
enum bus_err bus_who_get(struct bus_admin *admin, int64_t timeout_ms, struct bus_who **out_who,
                         struct bus_error **reterr)
{
    struct admin_call call;
    if (out_who == NULL)
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT, "bus_who_get() needs out_who");
    enum bus_err err = admin_begin(admin, NULL, timeout_ms, &call, reterr);
    if (err != BUS_OK)
        return err;
    struct bus_who *who = calloc(1, sizeof *who);
    if (who == NULL) {
        err = error_give(reterr, BUS_ENOMEM, &error_no_memory);
        goto done;
    }
    do {
        const struct msg question = {.type = MSG_WHO, .as.who = {.after = who->next}};
        err = admin_ask(&call, &question, who_take_row, who, reterr);
    } while (err == BUS_OK && who->next != 0);
    if (err == BUS_OK && who->count > 0)
        qsort(who->rows, who->count, sizeof(struct row *), who_row_compare);
    if (err == BUS_OK)
        *out_who = who;
    else
        bus_who_free(&who);
done:
    admin_end(&call);
    return err;
}

size_t bus_who_count(const struct bus_who *who)
{
    return who != NULL ? who->count : 0;
}

const struct bus_who_row *bus_who_at(const struct bus_who *who, size_t index)
{
    return who != NULL && index < who->count ? &who->rows[index]->public : NULL;
}

void bus_who_free(struct bus_who **who)
{
    if (who == NULL || *who == NULL)
        return;
    for (size_t i = 0; i < (*who)->count; i++)
        free((*who)->rows[i]);
    free((*who)->rows);
    free(*who);
    *who = NULL;
}

/* ---- another access file --------------------------------------------------------------------- */

static enum bus_err take_reloaded(struct bus *bus, const struct msg *row, void *arg,
                                  struct bus_error **reterr)
{
    const struct msg_reloaded *reloaded = &row->as.reloaded;
    (void)bus; /* the answer says it all */
    if (reloaded->code != CODE_OK) {
        (void)error_give(reterr, BUS_EPROTO,
                         error_make(ERROR_REJECTED, reloaded->type, reloaded->message));
        return reloaded->code == CODE_EINVAL ? BUS_EINVAL : BUS_EPROTO;
    }
    *(uint32_t *)arg = (uint32_t)reloaded->revoked;
    return BUS_OK;
}

enum bus_err bus_access_reload(struct bus_admin *admin, int64_t timeout_ms, uint32_t *out_revoked,
                               struct bus_error **reterr)
{
    struct admin_call call;
    uint32_t revoked = 0;
    enum bus_err err = admin_begin(admin, NULL, timeout_ms, &call, reterr);
    if (err != BUS_OK)
        return err;
    err = admin_ask(&call, &(struct msg){.type = MSG_RELOAD}, take_reloaded, &revoked, reterr);
    if (err == BUS_OK && out_revoked != NULL)
        *out_revoked = revoked;
    admin_end(&call);
    return err;
}
