/* SPDX-License-Identifier: MPL-2.0 */
/* tell.h -- the control topic: events, storms of like events, complaints, taps. */
#ifndef CORE_RECORD_TELL_H
#define CORE_RECORD_TELL_H

#include "broker/core/model.h"

struct tell {
    const char *name;
    struct party *party;
    uint32_t incarnation;
    struct topic *topic;
    uint64_t seq;
    uint64_t count;
    const char *text;
    struct failure *failure;
    struct failure *first; /* where it stands for several errors: the first of them, or NULL */
    bool is_late;          /* it came when the final verdict had been said */
    bool is_logged;        /* io has said so already */
};
void tell(struct core *core, struct job *job, const struct tell *what);
/* The same, unless there were many like it: then later, together with others. */
void tell_like(struct core *core, struct job *job, enum storm_event event, const struct tell *what);
/* What is held is told now: of this party, which is about to be over; NULL: all. */
void tell_storms(struct core *core, struct job *job, const struct party *party);
void tell_storms_again(struct core *core, struct job *job); /* its time has come */
struct tell_event {
    uint64_t id;
    int64_t at_ns, broker_ns;
    struct span name, party, topic, text, first_error, last_error; /* copied */
    uint32_t incarnation;
    uint64_t seq;
    uint64_t count;
    struct failure *failure;
    bool is_late;
};
/* The newest of the job's events; older ones go when there are too many.  false: no memory. */
bool tell_keep(struct core *core, struct job *job, const struct tell_event *what);
void complaints_init(struct complaints *complaints, struct job *job, struct party *party);
/* The protocol was broken: those who watch the job, or all jobs, learn of it; at once if it is the
 * first time, else with a count when its time has come. */
void tell_complaint(struct core *core, struct complaints *complaints, conn_id conn,
                    uint32_t incarnation, const char *text);
void tell_complaints(struct core *core, struct complaints *complaints); /* its time has come */
/* A tap of a job that does not exist yet waits for it. */
void tell_tap(struct core *core, struct session *session, const struct msg_tap *msg);
/* A complaint about the message, or NULL. */
const char *tell_taken(struct core *core, struct session *session, uint64_t id);
void tell_pump(
    struct core *core); /* at the end of a step: events that are evicted in it are not sent */
/* The journal's state is this one now. */
void tell_journal(struct core *core, enum journal_health health, const char *text);
void tell_journal_again(struct core *core); /* its time has come */
/* A job that begins learns what the others were told. */
void tell_journal_to(struct core *core, struct job *job);
void tell_forget(struct core *core, struct job *job);
void tell_free_unused(struct core *core); /* texts of events that the last step pushed out */

#endif
