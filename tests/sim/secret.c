/* SPDX-License-Identifier: MPL-2.0 */
/* secret.c -- a mark, what it is, and three levels as digits; see secret.h. */
#include "tests/sim/secret.h"

#include "libbus/base/must.h"

#include <stdio.h>
#include <string.h>

#define MARK "~sEcReT"
enum { MARK_BYTES = sizeof MARK - 1 };
enum { CLIENT_IS_OLD = 1, CLIENT_SEALS = 2 }; /* the third digit */

static const struct {
    char letter;
    const char *name;
    enum disclosure until; /* the first level at which it must not be seen */
} kinds[SECRET_COUNT] = {
    [SECRET_TYPE] = {'T', "a type", DISCLOSURE_NONE},
    [SECRET_TRACE_ID] = {'I', "a trace id", DISCLOSURE_NONE},
    [SECRET_MESSAGE] = {'M', "a message", DISCLOSURE_TYPE},
    [SECRET_HOST] = {'H', "a host", DISCLOSURE_TYPE},
    [SECRET_WHERE] = {'W', "where a party is", DISCLOSURE_TYPE},
    [SECRET_STACKTRACE] = {'S', "a stacktrace", DISCLOSURE_MESSAGE},
    [SECRET_NAME] = {'N', "the name of an attachment", DISCLOSURE_MESSAGE},
    [SECRET_OUTPUT] = {'O', "an attachment", DISCLOSURE_MESSAGE},
};

void secret_write(enum secret secret, const struct secret_owner *owner, char out[SECRET_BYTES + 1])
{
    int client = owner->is_sealing ? CLIENT_SEALS : owner->is_old ? CLIENT_IS_OLD : 0;
    int bytes = snprintf(out, SECRET_BYTES + 1, "%s%c%d%d%d-", MARK, kinds[secret].letter,
                         (int)owner->own % 10, (int)owner->of_job % 10, client);
    must(bytes == SECRET_BYTES);
}

static const char *judge(const char *found, enum secret_place place)
{
    static char text[160];
    enum secret secret = 0;
    while (secret < SECRET_COUNT && kinds[secret].letter != found[0])
        secret++;
    if (secret == SECRET_COUNT)
        return "a secret of no kind";
    enum disclosure own = (enum disclosure)(found[1] - '0');
    enum disclosure of_job = (enum disclosure)(found[2] - '0');
    bool is_unknown = place == SECRET_FROM_PARTY && found[3] == '0' + CLIENT_IS_OLD;
    enum disclosure level = is_unknown ? own : disclosure_stricter(own, of_job);
    if (found[3] == '0' + CLIENT_SEALS) /* a trace is sealed at each level */
        level = disclosure_stricter(level, DISCLOSURE_MESSAGE);
    if (level < kinds[secret].until)
        return NULL;
    (void)snprintf(text, sizeof text,
                   "%s of a party at level %d, in a job at level %d, is in what %s",
                   kinds[secret].name, (int)own, (int)of_job,
                   place == SECRET_FROM_PARTY ? "it says" : "the broker says"); /* fits */
    return text;
}

const char *secret_leak(struct span bytes, enum secret_place place)
{
    const char *at = bytes.data;
    const char *end = at + bytes.bytes;
    const char *wrong = NULL;
    while (wrong == NULL && end - at >= SECRET_BYTES) {
        const char *found = memmem(at, (size_t)(end - at), MARK, MARK_BYTES);
        if (found == NULL || end - found < SECRET_BYTES)
            break;
        wrong = judge(found + MARK_BYTES, place);
        at = found + SECRET_BYTES;
    }
    return wrong;
}
