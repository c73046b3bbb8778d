/* SPDX-License-Identifier: MPL-2.0 */
/* controls.c -- see controls.h. */
#include "libbus/session/controls.h"

#include "libbus/base/limits.h"
#include "libbus/base/must.h"

void controls_init(struct controls *controls, struct memory *memory)
{
    *controls = (struct controls){.memory = memory};
}

void controls_fini(struct controls *controls)
{
    while (controls->first != NULL) {
        struct control *control = controls->first;
        controls->first = control->next;
        control_free(controls->memory, &control);
    }
    controls_init(controls, controls->memory);
}

struct control *control_new(struct memory *memory, size_t room)
{
    struct control *control = memory_take(memory, sizeof *control + room);
    if (control != NULL)
        control->room = room;
    return control;
}

void control_free(struct memory *memory, struct control **control)
{
    if (*control != NULL)
        memory_give(memory, *control, sizeof **control + (*control)->room);
    *control = NULL;
}

void controls_append(struct controls *controls, struct control **control, uint64_t after_upload)
{
    struct control *added = *control;
    must(added->bytes > 0 && added->bytes <= added->room);
    *control = NULL;
    added->next = NULL;
    added->number = ++controls->last;
    added->after_upload = after_upload;
    if (controls->first == NULL)
        controls->first = added;
    else
        controls->newest->next = added;
    controls->newest = added;
    added->end = controls->end += added->bytes;
    if (controls->unsent == NULL)
        controls->unsent = added;
    if (controls->waiting == NULL)
        controls->waiting = added;
}

struct control *controls_next(const struct controls *controls)
{
    struct control *next = controls->unsent;
    bool is_much = next != NULL && next->number > controls->accepted + 1 &&
                   (next->number > controls->accepted + LIMIT_PARKED_OPS / 2 ||
                    next->end - controls->accepted_end > LIMIT_PARKED_BYTES / 4);
    return is_much ? NULL : next;
}

void controls_sent(struct controls *controls)
{
    struct control *sent = controls->unsent;
    if (controls->sent_ever < sent->number)
        controls->sent_ever = sent->number;
    controls->unsent = sent->next;
}

void controls_hurry(struct controls *controls)
{
    for (struct control *control = controls->first; control != NULL; control = control->next)
        control->after_upload = 0;
}

static void drop_done(struct controls *controls)
{
    while (controls->first != NULL && controls->first->number <= controls->accepted &&
           (!controls->first->is_question || controls->first->is_answered)) {
        struct control *control = controls->first;
        controls->first = control->next;
        if (controls->unsent == control)
            controls->unsent = control->next;
        control_free(controls->memory, &control);
    }
}

bool controls_accept(struct controls *controls, uint64_t number)
{
    if (number > controls->sent_ever)
        return false;
    if (controls->accepted < number)
        controls->accepted = number;
    for (; controls->waiting != NULL && controls->waiting->number <= controls->accepted;
         controls->waiting = controls->waiting->next)
        controls->accepted_end = controls->waiting->end;
    drop_done(controls);
    return true;
}

void controls_answer(struct controls *controls, uint64_t number)
{
    for (struct control *control = controls->first; control != NULL; control = control->next)
        if (control->number == number)
            control->is_answered = true;
    drop_done(controls);
}

void controls_rewind(struct controls *controls)
{
    controls->unsent = controls->first;
}
