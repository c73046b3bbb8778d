/* SPDX-License-Identifier: MPL-2.0 */
/* guard.c -- a party with a guard: two processes speak for one incarnation.
 *
 * The session of the guard begins and ends the incarnation.  The program that it guards may have a
 * session beside it, which writes and reads as that of any party.  Programs may follow each other,
 * one at a time.  When a program leaves, the slots that it owes fail, and the incarnation goes on.
 * When a program is lost, or fails the party, the incarnation ends.  The guard also ends it, by a
 * message or when it is lost.
 *
 * A message of the guard has no data before it, and is not a fact by itself.  An end that is told
 * twice is one end.  A guard sends its promise of progress again on each connection; messages of
 * the guard and of the program keep it. */
#include "broker/core/lifecycle/guard.h"

#include "broker/core/lifecycle/ending.h"
#include "broker/core/record/failure.h"
#include "broker/core/record/note.h"
#include "broker/core/record/tell.h"
#include "broker/core/record/text.h"
#include "broker/core/settling/settle.h"

void guard_begin_program(struct core *core, struct party *party, struct session *session)
{
    party->session = session;
    party->program_count += 1;
    session->party = party;
    session->incarnation = party->incarnation;
    note_program_joined(core, party);
}

void guard_end_program(struct core *core, struct party *party, enum wire_code code)
{
    bool is_owing = party->open_count > 0;
    struct failure *failure =
        is_owing || code != CODE_ECLOSED ? party_left_failure(core, party) : NULL;
    if (is_owing)
        tell(core, party->job,
             &(struct tell){.name = EVENT_SLOT_FAILED,
                            .party = party,
                            .incarnation = party->incarnation,
                            .count = party->open_count,
                            .failure = failure});
    LIST_EACH(link, &party->open_slots)
        settle_open_failed(core, LIST_OWNER(link, struct open_slot, party_link), failure);
    session_dismiss(core, party->session, code, failure);
    failure_unref(core, failure);
}

struct failure *party_left_failure(struct core *core, struct party *party)
{
    struct text text;
    text_init(&text);
    text_add_span(&text, party->name);
    text_add(&text, party->open_count > 0 ? " left and owed " : " left");
    if (party->open_count > 0)
        text_add_number(&text, party->open_count);
    if (party->open_count > 0)
        text_add(&text, party->open_count == 1 ? " slot" : " slots");
    return failure_make(core, &(struct failure_spec){.job = party->job,
                                                     .party = party,
                                                     .kind = ERROR_PARTY_LEFT,
                                                     .type = ERROR_TYPE_LEFT,
                                                     .message = text.data});
}
