/* SPDX-License-Identifier: MPL-2.0 */
/* run.h -- one case from its beginning to its judgement. */
#ifndef TESTS_CUT_RUN_H
#define TESTS_CUT_RUN_H

#include "tests/cut/hosts.h"
#include "tests/cut/plan.h"

#include <stdbool.h>

/* The plan is complete, and there are hosts enough.  is_talkative: prints what everybody said, even
 * if all went well; if not, it is printed in any case. */
void run_plan(const struct hosts *hosts, const struct plan *plan, bool is_talkative,
              struct result *out_result);

#endif
