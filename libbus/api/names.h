/* SPDX-License-Identifier: MPL-2.0 */
/* names.h -- words of the wire as values of the public enums.  A word that this version does not
 * know is the enum's UNKNOWN. */
#ifndef API_NAMES_H
#define API_NAMES_H

#include "libbus/base/span.h"

#include <bus/report.h>

enum bus_state names_state(struct span word);
enum bus_report_reason names_reason(struct span word);
enum bus_strategy names_strategy(struct span word);

#endif
