/* SPDX-License-Identifier: MPL-2.0 */
/* disclosure.c -- removes what a level hides, field by field; see disclosure.h. */
#include "libbus/wire/disclosure.h"

static const char withheld[] = "withheld by its party";

void disclosure_apply(enum disclosure level, struct error_record *record)
{
    if (level >= DISCLOSURE_MESSAGE) {
        record->stacktrace = SPAN_NONE;
        if (record->sealed.bytes == 0) /* the names of sealed ones say nothing */
            record->attachments = SPAN_NONE;
    }
    if (level >= DISCLOSURE_TYPE) {
        record->message = span_of(withheld, sizeof withheld - 1);
        record->is_cut = 0;
        record->host = SPAN_NONE;
        record->pid = 0;
    }
    if (level >= DISCLOSURE_NONE) {
        record->type = span_text(ERROR_TYPE_WITHHELD);
        record->exit_code = -1;
        record->signal = 0;
        record->trace_id = SPAN_NONE;
    }
}

bool disclosure_spares(struct span id, struct span party)
{
    if (id.bytes == 0)
        return false;
    char last = ((const char *)id.data)[id.bytes - 1];
    bool is_even = last >= '0' && last <= '9' && (last - '0') % 2 == 0;
    return is_even || party.bytes == 0; /* about a job alone: each number */
}
