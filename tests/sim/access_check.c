/* SPDX-License-Identifier: MPL-2.0 */
/* access_check.c -- see access_check.h. */
#include "tests/sim/access_check.h"

#include "broker/core/model.h"

const char *access_check(const struct core *core, const struct access *access)
{
    const struct party *party = NULL;
    while ((party = pool_next(&core->parties, party != NULL ? party->id : 0)) != NULL) {
        uint32_t principal = access_find(access, party->name);
        if (party->incarnation == 0 ||
            access_may_be(access, principal, party->job->name, party->name) != 0)
            continue;
        if (party_is_live(party))
            return "is not lost";
        if (party->open_count > 0)
            return "owes slots";
    }
    return NULL;
}
