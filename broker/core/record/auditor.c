/* SPDX-License-Identifier: MPL-2.0 */
/* auditor.c -- see auditor.h.
 *
 * The broker passes the key on, and does not vouch for it: a client that was told the key by its
 * auditor checks what the broker says (libbus/session/session_greeting.c).  What is refused here
 * is refused early, with words that help. */
#include "broker/core/record/auditor.h"

#include "broker/core/record/text.h"

struct span auditor_of(const struct job *job)
{
    return job_spec_has_auditor(&job->spec) ? span_of(job->spec.auditor, KEY_BYTES) : SPAN_NONE;
}

static void add_key(struct text *text, const void *key)
{
    char key_text[KEY_TEXT_BYTES + 1];
    key_text_write(key, KEY_PUBLIC, key_text);
    text_add(text, key_text);
}

const char *auditor_refusal(struct core *core, const struct job *job, const struct msg_hello *hello,
                            const char **out_type)
{
    struct text *text = &core->why_held;
    struct span auditor = auditor_of(job);
    if (auditor.bytes == 0)
        return NULL;
    if (hello->can_seal == 0) {
        *out_type = ERROR_TYPE_CANNOT_SEAL;
        text_say(text, "traces of job ", job->name);
        text_add(text, " are sealed to an auditor, and this client was built without libsodium: "
                       "install libsodium-dev and build it again");
        return text->data;
    }
    if (hello->auditor.bytes == 0 || span_equal(hello->auditor, auditor))
        return NULL;
    *out_type = ERROR_TYPE_OTHER_AUDITOR;
    text_say(text, "the auditor of job ", job->name);
    text_add(text, " is ");
    add_key(text, auditor.data);
    text_add(text, ", and this party seals to ");
    add_key(text, hello->auditor.data);
    text_add(text, ": ask the auditor which key is theirs");
    return text->data;
}

enum disclosure auditor_disclosure(const struct job *job)
{
    enum disclosure level = (enum disclosure)job->spec.disclosure;
    return job_spec_has_auditor(&job->spec) ? disclosure_stricter(level, DISCLOSURE_MESSAGE)
                                            : level;
}
