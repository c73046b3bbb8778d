/* SPDX-License-Identifier: MPL-2.0 */
/* run.h -- the runs of a job that nobody created: when one is over, and who begins the next. */
#ifndef CORE_LIFECYCLE_RUN_H
#define CORE_LIFECYCLE_RUN_H

#include "broker/core/model.h"
#include "broker/core/record/text.h"

enum run_choice {
    RUN_SAME,   /* the party joins the run that is under way */
    RUN_BEGINS, /* the next run begins with it */
    RUN_IS_HELD /* it asks for another run, and this one is not over */
};

/* Whether the party asks for another run, and others than itself hold this one: out_why says who.
 * Its last incarnation, which may still have a session, holds nothing. */
bool run_is_held(const struct party *party, const struct msg_hello *hello, struct text *out_why);
/* What follows when this party joins.  RUN_IS_HELD: out_why says who or what holds the run. */
enum run_choice run_choose(struct core *core, const struct party *party,
                           const struct msg_hello *hello, struct text *out_why);
/* The run that the party is about to join gets its name, or is noted as continued. */
void run_join(struct core *core, struct party *party, const struct msg_hello *hello);
/* The next run begins because this party joins: who is still there learns that the last is over. */
void run_begin(struct core *core, struct party *party, const struct msg_hello *hello);
/* Whether a job that was cancelled may have another run: its parties are gone, and nobody of them
 * can come late any more. */
bool run_is_free_again(const struct core *core, const struct job *job);
/* An incarnation of the party begins: it is part of this run. */
void run_take_part(struct party *party, uint32_t incarnation);
/* The names of the parties that have a session, as many as a sentence bears. */
void run_add_parties(const struct job *job, struct text *text);
/* For replay, too.  false: no memory. */
bool run_set_name(struct core *core, struct job *job, struct span name);

#endif
