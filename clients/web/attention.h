/* SPDX-License-Identifier: MPL-2.0 */
/* attention.h -- which rows of a status come first, and which are left out of an answer. */
#ifndef CLIENTS_WEB_ATTENTION_H
#define CLIENTS_WEB_ATTENTION_H

#include <bus/admin.h>
#include <stdbool.h>
#include <stddef.h>

enum { ATTENTION_ROWS_MAX = 1000, ATTENTION_KINDS = BUS_STATUS_GROUP + 1 };

/* Sorts the rows by kind, and in each kind by what needs attention:
 *   jobs           those that are short, failing or failed, then the others
 *   parties        those in trouble, whose trouble is youngest; live ones, who owe longest; those
 *                  that ended well, or have come again since
 *   subscriptions  those that are furthest behind
 *   groups         those with dead letters, or with tasks and no member
 * Equal ones come by name.  Then keeps the first ATTENTION_ROWS_MAX of each kind, and says how many
 * are left out of each.  Returns how many are kept. */
size_t attention_choose(const struct bus_status_row **rows, size_t count,
                        size_t left_out[ATTENTION_KINDS]);

#endif
