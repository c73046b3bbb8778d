/* SPDX-License-Identifier: MPL-2.0 */
/* access_news.c -- see access_news.h. */
#include "broker/core/record/access_news.h"

#include "broker/core/record/tell.h"
#include "broker/core/record/text.h"
#include "broker/core/tables/effect.h"

#define NO_FILE_TEXT "the broker was started without an access file, so there is none to read again"

static struct msg_reloaded *answer(struct core *core, const struct session *session,
                                   enum wire_code code, const char *type, const char *message)
{
    struct msg_reloaded *msg =
        &effects_msg(core->effects, session->control, MSG_RELOADED)->as.reloaded;
    msg->request = session->reload_request;
    msg->code = code;
    msg->type = span_text(type);
    msg->message = span_text(message);
    return msg;
}

void access_news_asked(struct core *core, struct session *session, const struct msg_reload *msg)
{
    session->reload_request = msg->request;
    session->has_reload = core->access != NULL;
    if (session->has_reload)
        effects_reload(core->effects, session->control);
    else
        answer(core, session, CODE_EINVAL, ERROR_TYPE_ARGUMENT, NO_FILE_TEXT);
}

/* The next session that waits for an answer; NULL: no more.  One that has no connection asks again
 * when it comes back. */
static struct session *next_asker(struct core *core, uint32_t *at)
{
    struct session *session;
    while ((session = pool_next(&core->sessions, *at)) != NULL) {
        bool is_asker = session->has_reload && session->control != 0;
        *at = session->id;
        session->has_reload = false;
        if (is_asker)
            return session;
    }
    return NULL;
}

static void tell_all(struct core *core, const char *name, const char *text, uint32_t count)
{
    struct job *job = NULL;
    while ((job = pool_next(&core->jobs, job != NULL ? job->id : 0)) != NULL)
        tell(core, job,
             &(struct tell){.name = name, .text = text, .count = count, .is_logged = true});
}

/* "keys 3, before 2"; of what has changed alone. */
static void add_count(struct text *text, const char *what, uint32_t count, uint32_t before)
{
    if (count == before)
        return;
    text_add(text, text->bytes > 0 ? "; " : "");
    text_add(text, what);
    text_add_number(text, count);
    text_add(text, ", before ");
    text_add_number(text, before);
}

void access_news_reloaded(struct core *core, const struct access *before,
                          const struct access *access, uint32_t revoked)
{
    struct access_counts was = access_counts(before);
    struct access_counts is = access_counts(access);
    struct session *session;
    uint32_t at = 0;
    while ((session = next_asker(core, &at)) != NULL)
        answer(core, session, CODE_OK, "", "")->revoked = revoked;
    struct text text;
    text_init(&text);
    add_count(&text, "names ", is.principals, was.principals);
    add_count(&text, "keys ", is.keys, was.keys);
    add_count(&text, "uids ", is.uids, was.uids);
    add_count(&text, "groups ", is.groups, was.groups);
    add_count(&text, "rules ", is.rules, was.rules);
    add_count(&text, "limits ", is.limits, was.limits);
    tell_all(core, EVENT_ACCESS_RELOADED,
             text.bytes > 0 ? text.data : "as many names, keys, uids, groups, rules and limits",
             revoked);
}

void access_news_word(struct core *core, enum access_word word, const char *text)
{
    struct session *session;
    uint32_t at = 0;
    bool is_refused = word == ACCESS_IS_REFUSED;
    while (is_refused && (session = next_asker(core, &at)) != NULL)
        answer(core, session, CODE_EPROTO, ERROR_TYPE_ACCESS_FILE, text);
    tell_all(core, is_refused ? EVENT_ACCESS_REFUSED : EVENT_ACCESS_EXPIRING, text, 0);
}
