/* SPDX-License-Identifier: MPL-2.0 */
/* timers.c -- a binary heap. */
#include "broker/core/tables/timers.h"

#include "libbus/base/must.h"

void timers_init(struct timers *timers, struct memory *memory)
{
    *timers = (struct timers){.memory = memory};
}

void timers_fini(struct timers *timers)
{
    memory_give(timers->memory, timers->heap, timers->room * sizeof *timers->heap);
    timers_init(timers, timers->memory);
}

bool timers_reserve(struct timers *timers)
{
    if (timers->owners == timers->room) {
        uint32_t room = timers->room ? timers->room * 2 : 64;
        struct timer **heap = memory_resize(timers->memory, timers->heap,
                                            timers->room * sizeof *heap, room * sizeof *heap);
        if (heap == NULL)
            return false;
        timers->heap = heap;
        timers->room = room;
    }
    timers->owners += 1;
    return true;
}

static bool is_before(const struct timer *a, const struct timer *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->order < b->order;
}

static void place(struct timers *timers, uint32_t index, struct timer *timer)
{
    timers->heap[index] = timer;
    timer->place = index + 1;
}

static void sift_up(struct timers *timers, uint32_t index, struct timer *timer)
{
    while (index > 0 && is_before(timer, timers->heap[(index - 1) / 2])) {
        place(timers, index, timers->heap[(index - 1) / 2]);
        index = (index - 1) / 2;
    }
    place(timers, index, timer);
}

static void sift_down(struct timers *timers, uint32_t index, struct timer *timer)
{
    for (;;) {
        uint32_t child = index * 2 + 1;
        if (child >= timers->count)
            break;
        if (child + 1 < timers->count && is_before(timers->heap[child + 1], timers->heap[child]))
            child += 1;
        if (!is_before(timers->heap[child], timer))
            break;
        place(timers, index, timers->heap[child]);
        index = child;
    }
    place(timers, index, timer);
}

void timers_clear(struct timers *timers, struct timer *timer)
{
    if (timer->place == 0)
        return;
    uint32_t index = timer->place - 1;
    timer->place = 0;
    timers->count -= 1;
    if (index == timers->count)
        return;
    struct timer *last = timers->heap[timers->count];
    if (index > 0 && is_before(last, timers->heap[(index - 1) / 2]))
        sift_up(timers, index, last);
    else
        sift_down(timers, index, last);
}

void timers_set(struct timers *timers, struct timer *timer, int64_t due_ns)
{
    timers_clear(timers, timer);
    must(timers->count < timers->room);
    timer->due_ns = due_ns;
    timer->order = ++timers->order;
    timers->count += 1;
    sift_up(timers, timers->count - 1, timer);
}

void timers_unreserve(struct timers *timers, struct timer *timer)
{
    timers_clear(timers, timer);
    must(timers->owners > 0);
    timers->owners -= 1;
}

int64_t timers_due_ns(const struct timers *timers)
{
    return timers->count > 0 ? timers->heap[0]->due_ns : INT64_MAX;
}

struct timer *timers_pop(struct timers *timers, int64_t now_ns)
{
    if (timers->count == 0 || timers->heap[0]->due_ns > now_ns)
        return NULL;
    struct timer *timer = timers->heap[0];
    timers_clear(timers, timer);
    return timer;
}
