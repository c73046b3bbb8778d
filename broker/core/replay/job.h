/* SPDX-License-Identifier: MPL-2.0 */
/* job.h -- replays facts about jobs, their members, epochs, attempts and events. */
#ifndef CORE_REPLAY_JOB_H
#define CORE_REPLAY_JOB_H

#include "broker/core/model.h"

const char *replay_job_begun(struct core *core, const struct fact_job_begun *fact);
const char *replay_job_ended(struct core *core, const struct fact_job_ended *fact);
const char *replay_job_created(struct core *core, const struct fact_job_created *fact);
const char *replay_job_moved(struct core *core, const struct fact_job_moved *fact);
const char *replay_placed(struct core *core, const struct fact_placed *fact);
/* It waits already, by having joined; a snapshot tells in which order. */
const char *replay_queued(struct core *core, const struct fact_queued *fact);
const char *replay_epoch_begun(struct core *core, const struct fact_epoch_begun *fact);
const char *replay_met(struct core *core, const struct fact_met *fact);
const char *replay_run_named(struct core *core, const struct fact_run_named *fact);
const char *replay_attempt_begun(struct core *core, const struct fact_attempt_begun *fact);
const char *replay_event(struct core *core, const struct fact_event *fact);

#endif
