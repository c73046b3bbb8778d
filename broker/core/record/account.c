/* SPDX-License-Identifier: MPL-2.0 */
/* account.c -- see account.h. */
#include "broker/core/record/account.h"

#include "broker/core/record/owned_span.h"
#include "broker/core/record/text.h"
#include "broker/core/tables/timers.h"

/* So long a writer may be ahead of its rate, after it wrote nothing. */
#define BURST_PART 4 /* of a second */

/* ---- limits ---------------------------------------------------------------------------------- */

static void read_limits(struct core *core, struct account *account)
{
    uint64_t rate = account->limits[ACCESS_RATE];
    uint32_t principal = core->access != NULL ? access_find(core->access, account->name) : 0;
    for (unsigned i = 0; i < ACCESS_QUOTA_COUNT; i++) {
        account->limits[i] = ACCESS_UNLIMITED;
        if (principal != 0)
            (void)access_limit(core->access, principal, (enum access_quota)i,
                               &account->limits[i]); /* the line is for people */
    }
    if (account->limits[ACCESS_RATE] != rate)
        token_bucket_init(&account->bucket, account->limits[ACCESS_RATE],
                          account->limits[ACCESS_RATE] / BURST_PART +
                              (account->limits[ACCESS_RATE] > 0),
                          core_clock(core));
}

void accounts_review(struct core *core)
{
    struct account *account = NULL;
    while ((account = pool_next(&core->accounts, account != NULL ? account->id : 0)) != NULL) {
        read_limits(core, account);
        if (!list_is_empty(&account->rate_waiters))
            timers_set(&core->timers, &account->rate_timer, core_clock(core));
    }
}

/* ---- accounts -------------------------------------------------------------------------------- */

static void account_init(struct account *account)
{
    for (unsigned i = 0; i < ACCESS_QUOTA_COUNT; i++)
        account->limits[i] = ACCESS_UNLIMITED;
    list_init(&account->parties);
    list_init(&account->rate_waiters);
    list_init(&account->to_trim);
    account->rate_timer.kind = TIMER_RATE;
}

void accounts_init(struct core *core)
{
    pool_init(&core->accounts, core->memory, sizeof(struct account), UINT32_MAX);
    name_map_init(&core->account_names, core->memory);
    account_init(&core->nobody);
}

void accounts_fini(struct core *core)
{
    pool_fini(&core->accounts);
    name_map_fini(&core->account_names);
}

static struct account *account_make(struct core *core, struct span name)
{
    struct account *account = pool_take(&core->accounts);
    if (account == NULL)
        return NULL;
    account_init(account);
    bool has_timer = timers_reserve(&core->timers);
    if (!has_timer || !span_keep(core, name, &account->name) ||
        !name_map_put(&core->account_names, account->name, account->id)) {
        if (has_timer)
            timers_unreserve(&core->timers, &account->rate_timer);
        span_drop(core, &account->name);
        pool_give(&core->accounts, account);
        return NULL;
    }
    read_limits(core, account);
    return account;
}

struct account *account_get(struct core *core, struct span name)
{
    uint32_t id;
    struct account *account = &core->nobody;
    if (name.bytes > 0)
        account = name_map_get(&core->account_names, name, &id) ? pool_find(&core->accounts, id)
                                                                : account_make(core, name);
    return account != NULL ? account_ref(account) : NULL;
}

struct account *account_ref(struct account *account)
{
    account->refs += 1;
    return account;
}

/* One that still counts something stays, so that a test finds the fault. */
void account_unref(struct core *core, struct account *account)
{
    bool is_empty = true;
    account->refs -= 1;
    for (unsigned i = 0; i < ACCESS_QUOTA_COUNT; i++)
        is_empty = is_empty && account->held[i] == 0;
    if (account->refs > 0 || account == &core->nobody || !is_empty)
        return;
    name_map_remove(&core->account_names, account->name);
    timers_unreserve(&core->timers, &account->rate_timer);
    span_drop(core, &account->name);
    pool_give(&core->accounts, account);
}

struct span account_speaker(const struct core *core)
{
    return core->access != NULL ? access_name(core->access, core->speaker) : SPAN_NONE;
}

/* ---- what is counted ------------------------------------------------------------------------- */

/* Subscriptions without a name belong to the session that reads. */
static uint64_t count_subs(const struct party *party)
{
    uint64_t count = 0;
    LIST_EACH(link, &party->durables)
        count += 1;
    if (party->session == NULL)
        return count;
    LIST_EACH(link, &party->session->subs)
        count += LIST_OWNER(link, struct sub, session_link)->name.bytes == 0;
    return count;
}

void account_leave_rate(struct core *core, struct topic *topic)
{
    core->rate_wait_count -= list_is_linked(&topic->rate_link);
    list_remove(&topic->rate_link);
}

void account_take_party(struct core *core, struct party *party, struct account *account)
{
    struct account *before = party->account;
    uint64_t bytes = 0;
    uint64_t topics = 0;
    uint64_t subs = count_subs(party);
    LIST_EACH(link, &party->topics) {
        struct topic *topic = LIST_OWNER(link, struct topic, party_link);
        bytes += topic->bytes;
        topics += topic->is_opened;
        account_leave_rate(core, topic); /* it waits in the other account if it must */
        if (list_is_linked(&topic->account_trim_link)) {
            list_remove(&topic->account_trim_link);
            list_push(&account->to_trim, &topic->account_trim_link);
        }
    }
    account_count(before, ACCESS_BYTES, -bytes);
    account_count(before, ACCESS_OPEN_SLOTS, -(uint64_t)party->open_count);
    account_count(before, ACCESS_TOPICS, -topics);
    account_count(before, ACCESS_SUBSCRIPTIONS, -subs);
    account_count(account, ACCESS_TOPICS, topics);
    account_count(account, ACCESS_SUBSCRIPTIONS, subs);
    account_count(account, ACCESS_BYTES, bytes);
    account_count(account, ACCESS_OPEN_SLOTS, party->open_count);
    list_remove(&party->account_link);
    list_push(&account->parties, &party->account_link);
    party->account = account;
    account_unref(core, before);
}

const char *account_refuse(struct core *core, const struct account *account,
                           enum access_quota quota)
{
    static const char *const things[ACCESS_QUOTA_COUNT] = {
        [ACCESS_CONNECTIONS] = " connections",     [ACCESS_JOBS] = " jobs",
        [ACCESS_OPEN_SLOTS] = " open slots",       [ACCESS_BYTES] = " bytes",
        [ACCESS_RATE] = " bytes a second",         [ACCESS_TOPICS] = " topics",
        [ACCESS_SUBSCRIPTIONS] = " subscriptions", [ACCESS_ATTACHMENTS] = " bytes of attachments",
    };
    struct text *text = &core->why_held;
    core->counts.quota_refused[quota] += 1;
    text_say(text, "", account->name);
    text_add(text, " may have ");
    text_add_number(text, account->limits[quota]);
    text_add(text, things[quota]);
    text_add(text, ", and has ");
    text_add_number(text, account->held[quota]);
    return text->data;
}
