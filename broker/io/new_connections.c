/* SPDX-License-Identifier: MPL-2.0 */
/* new_connections.c -- see new_connections.h. */
#include "broker/io/new_connections.h"

#include "libbus/base/limits.h"

enum { ROOM_FIRST = 128 };

enum stranger_state {
    STRANGER_NONE = 0, /* no connection has this descriptor, or none that is known */
    STRANGER_WAITING,  /* in the list */
    STRANGER_SPEAKS,   /* a peer */
    STRANGER_LEAVING,  /* let go */
};

void strangers_init(struct strangers *strangers, struct memory *memory, uint32_t open_max,
                    int64_t wait_ns)
{
    *strangers = (struct strangers){.memory = memory, .open_max = open_max, .wait_ns = wait_ns};
}

void strangers_fini(struct strangers *strangers)
{
    memory_give(strangers->memory, strangers->items, strangers->room * sizeof *strangers->items);
    strangers_init(strangers, strangers->memory, 0, 0);
}

/* NULL: no descriptor, or no memory. */
static struct stranger *entry_of(struct strangers *strangers, enum lane lane, int fd)
{
    if (fd < 0 || fd > INT32_MAX / LANE_COUNT / 2)
        return NULL;
    uint32_t place = (uint32_t)fd * LANE_COUNT + (uint32_t)lane;
    if (place >= strangers->room) {
        uint32_t room = strangers->room > 0 ? strangers->room : ROOM_FIRST;
        while (room <= place)
            room *= 2;
        size_t size = sizeof *strangers->items;
        struct stranger *items =
            memory_resize(strangers->memory, strangers->items, strangers->room * size, room * size);
        if (items == NULL)
            return NULL;
        strangers->items = items;
        strangers->room = room;
    }
    return &strangers->items[place];
}

/* ---- the list -------------------------------------------------------------------------------- */

static void wait_push(struct strangers *strangers, struct stranger *entry, int64_t now_ns)
{
    uint32_t at = (uint32_t)(entry - strangers->items) + 1;
    entry->state = STRANGER_WAITING;
    entry->since_ns = now_ns;
    entry->prev = strangers->last;
    entry->next = 0;
    if (strangers->last != 0)
        strangers->items[strangers->last - 1].next = at;
    else
        strangers->first = at;
    strangers->last = at;
    strangers->waiting += 1;
}

static void wait_take(struct strangers *strangers, struct stranger *entry)
{
    if (entry->prev != 0)
        strangers->items[entry->prev - 1].next = entry->next;
    else
        strangers->first = entry->next;
    if (entry->next != 0)
        strangers->items[entry->next - 1].prev = entry->prev;
    else
        strangers->last = entry->prev;
    strangers->waiting -= 1;
}

/* ---- what becomes of a connection ------------------------------------------------------------ */

static void leave(struct strangers *strangers, struct stranger *entry)
{
    if (entry->state == STRANGER_NONE)
        return;
    if (entry->state == STRANGER_WAITING)
        wait_take(strangers, entry);
    strangers->leaving -= entry->state == STRANGER_LEAVING;
    strangers->open -= 1;
    entry->state = STRANGER_NONE;
}

void strangers_came(struct strangers *strangers, enum lane lane, int fd, int64_t now_ns)
{
    struct stranger *entry = entry_of(strangers, lane, fd);
    if (entry == NULL)
        return;
    leave(strangers, entry); /* who had this descriptor before is gone */
    strangers->open += 1;
    wait_push(strangers, entry, now_ns);
}

void strangers_spoke(struct strangers *strangers, enum lane lane, int fd)
{
    struct stranger *entry = entry_of(strangers, lane, fd);
    if (entry == NULL || entry->state != STRANGER_WAITING)
        return;
    wait_take(strangers, entry);
    entry->state = STRANGER_SPEAKS;
}

void strangers_forgotten(struct strangers *strangers, enum lane lane, int fd, int64_t now_ns)
{
    struct stranger *entry = entry_of(strangers, lane, fd);
    if (entry != NULL && entry->state == STRANGER_SPEAKS)
        wait_push(strangers, entry, now_ns);
}

void strangers_left(struct strangers *strangers, enum lane lane, int fd)
{
    struct stranger *entry = entry_of(strangers, lane, fd);
    if (entry != NULL)
        leave(strangers, entry);
}

/* ---- who goes -------------------------------------------------------------------------------- */

static bool are_too_many(const struct strangers *strangers)
{
    return strangers->waiting > LIMIT_STRANGERS ||
           strangers->open - strangers->leaving > strangers->open_max;
}

int64_t strangers_due_ns(const struct strangers *strangers)
{
    if (strangers->first == 0)
        return INT64_MAX;
    int64_t since_ns = strangers->items[strangers->first - 1].since_ns;
    return are_too_many(strangers) ? since_ns : since_ns + strangers->wait_ns;
}

bool strangers_next(struct strangers *strangers, int64_t now_ns, int *out_fd)
{
    if (strangers_due_ns(strangers) > now_ns)
        return false;
    struct stranger *entry = &strangers->items[strangers->first - 1];
    *out_fd = (int)((strangers->first - 1) / LANE_COUNT);
    wait_take(strangers, entry);
    entry->state = STRANGER_LEAVING;
    strangers->leaving += 1;
    return true;
}
