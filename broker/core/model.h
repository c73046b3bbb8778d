/* SPDX-License-Identifier: MPL-2.0 */
/* model.h -- the structs of the core, without functions: one header a noun.
 *
 * Nothing points to what may go before it: owners take their dependants down first (job: parties,
 * topics, subs; session: subs, awaits, operations). */
#ifndef CORE_MODEL_H
#define CORE_MODEL_H

#include "broker/core/model/account.h"
#include "broker/core/model/attachment.h"
#include "broker/core/model/core.h"
#include "broker/core/model/failure.h"
#include "broker/core/model/group.h"
#include "broker/core/model/job.h"
#include "broker/core/model/open_slot.h"
#include "broker/core/model/party.h"
#include "broker/core/model/report.h"
#include "broker/core/model/session.h"
#include "broker/core/model/sub.h"
#include "broker/core/model/topic.h"
#include "broker/core/model/wait.h"
#include "libbus/base/must.h"

#endif
