/* SPDX-License-Identifier: MPL-2.0 */
/* access.c -- who is who by an access file, and who may do what; see access.h. */
#include "libbus/base/access.h"

#include "libbus/base/access_table.h"
#include "libbus/base/access_words.h"
#include "libbus/base/pattern.h"

static const char *const right_names[] = {"party", "tap", "status", "job", "dead", "admin"};
enum { RIGHT_COUNT = sizeof right_names / sizeof right_names[0] };

static const char *const quota_names[ACCESS_QUOTA_COUNT] = {
    [ACCESS_CONNECTIONS] = "connections",
    [ACCESS_JOBS] = "jobs",
    [ACCESS_OPEN_SLOTS] = "open-slots",
    [ACCESS_BYTES] = "bytes",
    [ACCESS_RATE] = "rate",
    [ACCESS_TOPICS] = "topics",
    [ACCESS_SUBSCRIPTIONS] = "subscriptions",
    [ACCESS_ATTACHMENTS] = "attachments",
};

const char *access_right_name(enum access_right right)
{
    for (unsigned i = 0; i < RIGHT_COUNT; i++)
        if (right == 1U << i)
            return right_names[i];
    return "";
}

const char *access_quota_name(enum access_quota quota)
{
    return quota_names[quota];
}

struct access_counts access_counts(const struct access *access)
{
    struct access_counts counts = {.rules = access->rules.count, .limits = access->limits.count};
    for (uint32_t i = 0; i < access->names.count; i++) {
        counts.principals += name_at(access, i)->kind == NAME_PRINCIPAL;
        counts.groups += name_at(access, i)->kind == NAME_GROUP;
    }
    for (uint32_t i = 0; i < access->credentials.count; i++) {
        counts.keys += credential_at(access, i)->is_key;
        counts.uids += !credential_at(access, i)->is_key;
    }
    return counts;
}

/* ---- who ------------------------------------------------------------------------------------- */

uint32_t access_find(const struct access *access, struct span name)
{
    uint32_t index;
    bool is_there = name_map_get(&access->name_map, name, &index) &&
                    name_at(access, index)->kind == NAME_PRINCIPAL;
    return is_there ? index + 1 : 0;
}

struct span access_name(const struct access *access, uint32_t principal)
{
    return principal > 0 && principal <= access->names.count ? name_at(access, principal - 1)->text
                                                             : SPAN_NONE;
}

const struct credential *access_credential_find(const struct access *access,
                                                const struct credential *like)
{
    uint32_t at;
    if (!id_map_get(&access->credential_map, access_credential_number(like), &at))
        return NULL;
    for (uint32_t link = at + 1; link != 0;) {
        const struct credential *credential = credential_at(access, link - 1);
        if (credential->is_key == like->is_key && credential->uid == like->uid &&
            memcmp(credential->key, like->key, KEY_BYTES) == 0)
            return credential;
        link = credential->next;
    }
    return NULL;
}

static const struct credential *find_key(const struct access *access, const uint8_t key[KEY_BYTES])
{
    struct credential like = {.is_key = true};
    memcpy(like.key, key, KEY_BYTES);
    return access_credential_find(access, &like);
}

static const struct credential *find_uid(const struct access *access, uint32_t uid)
{
    return access_credential_find(access, &(struct credential){.uid = uid});
}

static uint32_t owner_of(const struct credential *credential, int64_t now_s)
{
    return credential != NULL && now_s < credential->end_s ? credential->name + 1 : 0;
}

uint32_t access_by_key(const struct access *access, const uint8_t key[KEY_BYTES], int64_t now_s)
{
    return owner_of(find_key(access, key), now_s);
}

uint32_t access_by_uid(const struct access *access, uint32_t uid, int64_t now_s)
{
    return owner_of(find_uid(access, uid), now_s);
}

int64_t access_key_end_s(const struct access *access, const uint8_t key[KEY_BYTES])
{
    const struct credential *credential = find_key(access, key);
    return credential != NULL ? credential->end_s : INT64_MAX;
}

int64_t access_uid_end_s(const struct access *access, uint32_t uid)
{
    const struct credential *credential = find_uid(access, uid);
    return credential != NULL ? credential->end_s : INT64_MAX;
}

bool access_ending(const struct access *access, int64_t from_s, int64_t to_s, uint32_t *at,
                   struct access_end *out_end)
{
    while (*at < access->credentials.count) {
        const struct credential *credential = credential_at(access, (*at)++);
        if (credential->end_s <= from_s || credential->end_s > to_s)
            continue;
        *out_end = (struct access_end){.name = name_at(access, credential->name)->text,
                                       .is_key = credential->is_key,
                                       .uid = credential->uid,
                                       .end_s = credential->end_s};
        memcpy(out_end->key, credential->key, KEY_BYTES);
        return true;
    }
    return false;
}

int64_t access_next_end_s(const struct access *access, int64_t now_s)
{
    int64_t next_s = INT64_MAX;
    for (uint32_t i = 0; i < access->credentials.count; i++) {
        int64_t end_s = credential_at(access, i)->end_s;
        if (end_s > now_s && end_s < next_s)
            next_s = end_s;
    }
    return next_s;
}

/* ---- may ------------------------------------------------------------------------------------- */

/* The rules that name a principal, and those of its groups. */
struct own_rules {
    const struct access *access;
    uint32_t rule;       /* 1 + index of the next; 0: no more of this name */
    uint32_t membership; /* 1 + index of the next; 0: no more */
};

static struct own_rules own_rules(const struct access *access, uint32_t principal)
{
    struct own_rules rules = {.access = access};
    if (principal == 0 || principal > access->names.count)
        return rules;
    rules.rule = name_at(access, principal - 1)->rules.first;
    rules.membership = name_at(access, principal - 1)->memberships.first;
    return rules;
}

/* NULL: no more. */
static const struct rule *next_rule(struct own_rules *rules)
{
    while (rules->rule == 0 && rules->membership != 0) {
        const struct member *member = member_at(rules->access, rules->membership - 1);
        rules->rule = name_at(rules->access, member->group)->rules.first;
        rules->membership = member->next;
    }
    if (rules->rule == 0)
        return NULL;
    const struct rule *rule = rule_at(rules->access, rules->rule - 1);
    rules->rule = rule->next;
    return rule;
}

/* The rules of a name come in order, and those of the next name behind them. */
static uint32_t first_line(uint32_t line, uint32_t other)
{
    return line == 0 || other < line ? other : line;
}

static bool any_matches(const struct access *access, struct words words, struct span name)
{
    for (uint32_t i = 0; i < words.count; i++)
        if (word_matches_name(word_at(access, words.first + i), name))
            return true;
    return false;
}

/* job empty: only a rule for all jobs. */
static bool rule_is_for(const struct access *access, const struct rule *rule,
                        enum access_right right, struct span job)
{
    if ((rule->rights & ACCESS_ADMIN) != 0 && right != ACCESS_PARTY)
        return true;
    return (rule->rights & (unsigned)right) != 0 && any_matches(access, rule->jobs, job);
}

static bool rule_lets_be(const struct access *access, const struct rule *rule, uint32_t principal,
                         struct span job, struct span party)
{
    if (!rule_is_for(access, rule, ACCESS_PARTY, job))
        return false;
    return rule->as.count > 0 ? any_matches(access, rule->as, party)
                              : span_equal(access_name(access, principal), party);
}

uint32_t access_may(const struct access *access, uint32_t principal, enum access_right right,
                    struct span job)
{
    struct own_rules rules = own_rules(access, principal);
    const struct rule *rule;
    uint32_t line = 0;
    while ((rule = next_rule(&rules)) != NULL)
        if (rule_is_for(access, rule, right, job))
            line = first_line(line, rule->line);
    return line;
}

uint32_t access_may_be(const struct access *access, uint32_t principal, struct span job,
                       struct span party)
{
    struct own_rules rules = own_rules(access, principal);
    const struct rule *rule;
    uint32_t line = 0;
    while ((rule = next_rule(&rules)) != NULL)
        if (rule_lets_be(access, rule, principal, job, party))
            line = first_line(line, rule->line);
    return line;
}

/* What a rule lets a party read: all, or what one of its patterns has in common with this one. */
static bool rule_lets_read(const struct access *access, const struct rule *rule,
                           struct span pattern)
{
    for (uint32_t i = 0; i < rule->reads.count; i++)
        if (pattern_meets(word_at(access, rule->reads.first + i), pattern))
            return true;
    return rule->reads.count == 0;
}

/* Whether a pattern may match a topic of this party. */
static bool is_own(struct span pattern, struct span party)
{
    struct span writer;
    return !pattern_names_party(pattern, &writer) || span_equal(writer, party);
}

uint32_t access_may_match(const struct access *access, uint32_t principal, struct span job,
                          struct span party, struct span pattern)
{
    struct own_rules rules = own_rules(access, principal);
    const struct rule *rule;
    uint32_t line = 0;
    while ((rule = next_rule(&rules)) != NULL)
        if (rule_lets_be(access, rule, principal, job, party) &&
            (is_own(pattern, party) || rule_lets_read(access, rule, pattern)))
            line = first_line(line, rule->line);
    return line;
}

/* A topic is a pattern that matches itself alone. */
uint32_t access_may_read(const struct access *access, uint32_t principal, struct span job,
                         struct span party, struct span topic)
{
    return access_may_match(access, principal, job, party, topic);
}

/* Whether it lets a party read all topics that the pattern matches. */
static bool rule_covers(const struct access *access, const struct rule *rule, struct span party,
                        struct span pattern)
{
    struct span writer;
    if (rule->reads.count == 0 ||
        (pattern_names_party(pattern, &writer) && span_equal(writer, party)))
        return true;
    for (uint32_t i = 0; i < rule->reads.count; i++)
        if (pattern_covers(word_at(access, rule->reads.first + i), pattern))
            return true;
    return false;
}

uint32_t access_may_cover(const struct access *access, uint32_t principal, struct span job,
                          struct span party, struct span pattern)
{
    struct own_rules rules = own_rules(access, principal);
    const struct rule *rule;
    uint32_t line = 0;
    while ((rule = next_rule(&rules)) != NULL)
        if (rule_lets_be(access, rule, principal, job, party) &&
            rule_covers(access, rule, party, pattern))
            line = first_line(line, rule->line);
    return line;
}

uint32_t access_may_read_all(const struct access *access, uint32_t principal, struct span job)
{
    struct own_rules rules = own_rules(access, principal);
    const struct rule *rule;
    uint32_t line = 0;
    while ((rule = next_rule(&rules)) != NULL)
        if (rule->reads.count == 0 && rule_is_for(access, rule, ACCESS_PARTY, job))
            line = first_line(line, rule->line);
    return line;
}

/* ---- how much -------------------------------------------------------------------------------- */

/* The limit of one name; NULL: it has none. */
static const struct limit *find_limit(const struct access *access, uint32_t who,
                                      enum access_quota quota)
{
    uint32_t at;
    return id_map_get(&access->limit_map, access_limit_number(who, quota), &at)
               ? limit_at(access, at)
               : NULL;
}

/* The smaller one; of two that are alike, that of the first line. */
static bool limit_is_before(const struct limit *limit, const struct limit *other)
{
    return limit->amount != other->amount ? limit->amount < other->amount
                                          : limit->line < other->line;
}

uint32_t access_limit(const struct access *access, uint32_t principal, enum access_quota quota,
                      uint64_t *out_amount)
{
    *out_amount = ACCESS_UNLIMITED;
    if (principal == 0 || principal > access->names.count)
        return 0;
    const struct limit *least = find_limit(access, principal - 1, quota);
    uint32_t link = least != NULL ? 0 : name_at(access, principal - 1)->memberships.first;
    while (link != 0) {
        const struct member *member = member_at(access, link - 1);
        const struct limit *limit = find_limit(access, member->group, quota);
        if (limit != NULL && (least == NULL || limit_is_before(limit, least)))
            least = limit;
        link = member->next;
    }
    if (least == NULL)
        return 0;
    *out_amount = least->amount;
    return least->line;
}
