/* SPDX-License-Identifier: MPL-2.0 */
/* access_lines.c -- the access file, line by line, into a table; see access.h.
 *
 * A name may be used before the line that says whose it is.  So names are resolved when all lines
 * were read. */
#include "libbus/base/access_table.h"

#include "libbus/base/access_words.h"
#include "libbus/base/limits.h"
#include "libbus/base/pattern.h"
#include "libbus/base/utf8.h"

enum { ROOM_FIRST = 16 };

/* One file while it is read. */
struct reading {
    struct access *access;
    struct access_fault *fault;
    struct span rest; /* of the line */
    uint32_t line;
};

/* Bytes count by 1024, as in errbusd(8), and things by 1000. */
static const unsigned thousands[ACCESS_QUOTA_COUNT] = {
    [ACCESS_CONNECTIONS] = 1000,   [ACCESS_JOBS] = 1000,        [ACCESS_OPEN_SLOTS] = 1000,
    [ACCESS_BYTES] = 1024,         [ACCESS_RATE] = 1024,        [ACCESS_TOPICS] = 1000,
    [ACCESS_SUBSCRIPTIONS] = 1000, [ACCESS_ATTACHMENTS] = 1024,
};

/* ---- arrays ---------------------------------------------------------------------------------- */

/* A new item at the end, zeroed; NULL: no memory. */
static void *array_add(struct memory *memory, struct array *array)
{
    if (array->count == array->room) {
        uint32_t room = array->room > 0 ? 2 * array->room : ROOM_FIRST;
        void *items = memory_resize(memory, array->items, array->room * array->item_bytes,
                                    room * array->item_bytes);
        if (items == NULL)
            return NULL;
        array->items = items;
        array->room = room;
    }
    return (char *)array->items + array->count++ * array->item_bytes;
}

static void array_fini(struct memory *memory, struct array *array)
{
    memory_give(memory, array->items, array->room * array->item_bytes);
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* Returns false, for the caller to return. */
static bool complain(struct reading *reading, struct span word, const char *what)
{
    bool is_secret = word.bytes >= 4 && memcmp(word.data, "ebs_", 4) == 0;
    *reading->fault =
        (struct access_fault){.line = reading->line,
                              .word = is_secret ? span_text("ebs_...") : word, /* not repeated */
                              .what = what};
    return false;
}

static bool is_short_of_memory(struct reading *reading)
{
    *reading->fault = (struct access_fault){.line = 0, .what = "there is no memory for it"};
    return false;
}

/* ---- words ----------------------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The next word of the line; empty: there is none. */
static struct span next_word(struct reading *reading)
{
    const char *at = reading->rest.data;
    size_t left = reading->rest.bytes;
    while (left > 0 && is_blank(*at)) {
        at++;
        left--;
    }
    size_t bytes = 0;
    while (bytes < left && !is_blank(at[bytes]))
        bytes++;
    reading->rest = span_of(at + bytes, left - bytes);
    return span_of(at, bytes);
}

static bool has_word(const struct reading *reading)
{
    struct reading ahead = *reading;
    return next_word(&ahead).bytes > 0;
}

static bool word_is(struct span word, const char *text)
{
    return span_equal(word, span_text(text));
}

static bool expect_end(struct reading *reading)
{
    struct span word = next_word(reading);
    if (word.bytes == 0)
        return true;
    const char *text = word.data;
    return complain(reading, word,
                    text[0] == '#' ? "does not belong here: a comment has a line of its own"
                                   : "does not belong here: the line should have ended before");
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* The name that is the next word, as what it is by now.  false: it was complained. */
static bool read_name(struct reading *reading, uint32_t *out_index)
{
    struct access *access = reading->access;
    struct span word = next_word(reading);
    if (word.bytes == 0)
        return complain(reading, word, "a name is missing at the end of the line");
    if (!party_is_valid(word))
        return complain(reading, word,
                        "is not a name: expected at most 200 bytes of UTF-8 without '/', '+', '#'");
    if (name_map_get(&access->name_map, word, out_index))
        return true;
    if (!name_map_reserve(&access->name_map))
        return is_short_of_memory(reading);
    struct name *name = array_add(access->memory, &access->names);
    if (name == NULL)
        return is_short_of_memory(reading);
    name->text = word;
    name->line = reading->line;
    *out_index = access->names.count - 1;
    return name_map_put(&access->name_map, word, *out_index) || is_short_of_memory(reading);
}

/* The name is a principal, or a group, from now on. */
static bool settle_name(struct reading *reading, uint32_t index, enum name_kind kind)
{
    struct name *name = name_at(reading->access, index);
    if (name->kind != NAME_UNKNOWN && name->kind != kind)
        return complain(reading, name->text, "names a group and somebody with a key: rename one");
    if (name->kind == NAME_GROUP)
        return complain(reading, name->text, "is a group already: name all members in one line");
    name->kind = kind;
    return true;
}

/* "until DATE", or nothing. */
static bool read_until(struct reading *reading, int64_t *out_end_s)
{
    struct span word = next_word(reading);
    *out_end_s = INT64_MAX;
    if (word.bytes == 0)
        return true;
    if (!word_is(word, "until"))
        return complain(reading, word,
                        "does not belong here: expected 'until YYYY-MM-DD' or the "
                        "end of the line; a comment has a line of its own");
    word = next_word(reading);
    if (!word_is_date(word, out_end_s))
        return complain(reading, word, "is not a date: expected YYYY-MM-DD behind 'until'");
    return expect_end(reading);
}

static const char *key_complaint(enum key_fault fault)
{
    switch (fault) {
    case KEY_OK: break;
    case KEY_FOREIGN: return "is not a public key: expected ebp_..., as errbus key show prints it";
    case KEY_MISTYPED: return "is not a public key: a character of it is wrong or missing";
    case KEY_OTHER_KIND:
        return "is a secret key: it belongs to its owner alone, who should make a new one";
    }
    return NULL;
}

static bool add_credential(struct reading *reading, const struct credential *added)
{
    struct access *access = reading->access;
    const struct credential *other = access_credential_find(access, added);
    if (other != NULL)
        return complain(reading, name_at(access, other->name)->text,
                        added->is_key ? "has this key already: a key has one line"
                                      : "has this uid already: a uid has one line");
    struct credential *credential = array_add(access->memory, &access->credentials);
    if (credential == NULL || !id_map_reserve(&access->credential_map))
        return is_short_of_memory(reading);
    *credential = *added;
    uint64_t number = access_credential_number(added);
    uint32_t first;
    if (id_map_get(&access->credential_map, number, &first)) {
        credential->next = credential_at(access, first)->next;
        credential_at(access, first)->next = access->credentials.count;
        return true;
    }
    return id_map_put(&access->credential_map, number, access->credentials.count - 1);
}

/* "key NAME KEY [until DATE]" and "uid NAME UID [until DATE]". */
static bool read_credential(struct reading *reading, bool is_key)
{
    struct credential credential = {.is_key = is_key};
    if (!read_name(reading, &credential.name) ||
        !settle_name(reading, credential.name, NAME_PRINCIPAL))
        return false;
    struct span word = next_word(reading);
    uint64_t uid = 0;
    if (is_key) {
        enum key_fault fault = key_text_read(word, KEY_PUBLIC, credential.key);
        if (fault != KEY_OK)
            return complain(reading, word, key_complaint(fault));
    } else if (!word_is_number(word, UINT32_MAX - 1, &uid)) {
        return complain(reading, word, "is not a user id: expected a number, as 'id -u' prints it");
    }
    credential.uid = (uint32_t)uid;
    return read_until(reading, &credential.end_s) && add_credential(reading, &credential);
}

/* "group NAME MEMBER..." */
static bool read_group(struct reading *reading)
{
    struct access *access = reading->access;
    uint32_t index, member;
    if (!read_name(reading, &index) || !settle_name(reading, index, NAME_GROUP))
        return false;
    name_at(access, index)->member_first = access->members.count;
    do {
        if (!read_name(reading, &member))
            return false;
        struct member *place = array_add(access->memory, &access->members);
        if (place == NULL)
            return is_short_of_memory(reading);
        *place = (struct member){.name = member, .group = index};
    } while (has_word(reading));
    name_at(access, index)->member_count =
        access->members.count - name_at(access, index)->member_first;
    return true;
}

/* What the words of a rule are, from here to the next such word. */
enum part { PART_RIGHTS, PART_AS, PART_READS, PART_JOBS };

static bool starts_part(struct span word, enum part *part)
{
    static const char *const starts[] = {
        [PART_AS] = "as", [PART_READS] = "reads", [PART_JOBS] = "in"};
    for (unsigned i = PART_AS; i <= PART_JOBS; i++) {
        if (word_is(word, starts[i])) {
            *part = (enum part)i;
            return true;
        }
    }
    return false;
}

static bool add_right(struct reading *reading, struct rule *rule, struct span word)
{
    for (unsigned right = ACCESS_PARTY; right <= ACCESS_ADMIN; right *= 2) {
        if (word_is(word, access_right_name((enum access_right)right))) {
            rule->rights |= right;
            return true;
        }
    }
    return complain(reading, word, "is no right: expected party, tap, status, job, dead or admin");
}

static bool add_word(struct reading *reading, struct words *words, struct span word)
{
    struct access *access = reading->access;
    if (words->count == 0)
        words->first = access->words.count;
    struct span *place = array_add(access->memory, &access->words);
    if (place == NULL)
        return is_short_of_memory(reading);
    *place = word;
    words->count += 1;
    return true;
}

static bool add_to_part(struct reading *reading, struct rule *rule, enum part part,
                        struct span word)
{
    switch (part) {
    case PART_RIGHTS: return add_right(reading, rule, word);
    case PART_AS:
        if (!word_is_name_or_begin(word))
            return complain(reading, word, "is not a party's name, nor the begin of one and '*'");
        return add_word(reading, &rule->as, word);
    case PART_READS:
        if (!pattern_is_valid(word))
            return complain(reading, word, "is not a pattern of topics, as 'alice/grads' or '+/#'");
        return add_word(reading, &rule->reads, word);
    case PART_JOBS:
        if (!word_is_name_or_begin(word))
            return complain(reading, word, "is not a job's name, nor the begin of one and '*'");
        return add_word(reading, &rule->jobs, word);
    }
    return false;
}

static bool check_rule(struct reading *reading, const struct rule *rule)
{
    if (rule->rights == 0)
        return complain(reading, SPAN_NONE,
                        "a right is missing: party, tap, status, job, dead or admin");
    if ((rule->as.count > 0 || rule->reads.count > 0) && (rule->rights & ACCESS_PARTY) == 0)
        return complain(reading, SPAN_NONE,
                        "'as' and 'reads' say more about the right 'party', "
                        "which this line does not give");
    if (rule->jobs.count == 0 && rule->rights != ACCESS_ADMIN)
        return complain(reading, SPAN_NONE,
                        "the jobs are missing: 'in JOB', 'in BEGIN*', or 'in *' for all");
    if (rule->jobs.count > 0 && (rule->rights & ACCESS_ADMIN) != 0)
        return complain(reading, SPAN_NONE,
                        "'admin' holds in all jobs: give it a line of its own without 'in'");
    return true;
}

/* "allow NAME RIGHT... [as PARTY...] [reads PATTERN...] in JOB..." */
static bool read_rule(struct reading *reading)
{
    struct rule rule = {.line = reading->line};
    enum part part = PART_RIGHTS;
    bool is_empty = false; /* the part has no word yet */
    unsigned seen = 0;
    if (!read_name(reading, &rule.who))
        return false;
    for (struct span word = next_word(reading); word.bytes > 0; word = next_word(reading)) {
        bool is_start = starts_part(word, &part);
        if (is_start && (is_empty || (seen & 1U << part) != 0))
            return complain(reading, word, "comes too early, or twice");
        if (!is_start && !add_to_part(reading, &rule, part, word))
            return false;
        is_empty = is_start;
        seen |= is_start ? 1U << part : 0;
    }
    if (is_empty)
        return complain(reading, SPAN_NONE, "the line ends where a name or pattern is missing");
    if (!check_rule(reading, &rule))
        return false;
    struct rule *place = array_add(reading->access->memory, &reading->access->rules);
    if (place == NULL)
        return is_short_of_memory(reading);
    *place = rule;
    return true;
}

/* The next two words: what is limited, and to how much. */
static bool read_limit(struct reading *reading, struct limit *limit)
{
    struct access *access = reading->access;
    struct span word = next_word(reading);
    uint32_t known;
    unsigned quota = 0;
    while (quota < ACCESS_QUOTA_COUNT &&
           !word_is(word, access_quota_name((enum access_quota)quota)))
        quota += 1;
    if (quota == ACCESS_QUOTA_COUNT)
        return complain(reading, word,
                        "cannot be limited: expected connections, jobs, open-slots, bytes, rate, "
                        "topics, subscriptions or attachments");
    limit->quota = (enum access_quota)quota;
    uint64_t number = access_limit_number(limit->who, limit->quota);
    if (id_map_get(&access->limit_map, number, &known))
        return complain(reading, word, "is limited already for this name: keep one of the limits");
    word = next_word(reading);
    if (!word_is_amount(word, thousands[quota], &limit->amount))
        return complain(reading, word, "is no amount: expected a number, as 8, 10K, 200M or 4G");
    struct limit *place = array_add(access->memory, &access->limits);
    if (place == NULL)
        return is_short_of_memory(reading);
    *place = *limit;
    return id_map_put(&access->limit_map, number, access->limits.count - 1) ||
           is_short_of_memory(reading);
}

/* "limit NAME WHAT AMOUNT [WHAT AMOUNT...]" */
static bool read_limits(struct reading *reading)
{
    struct limit limit = {.line = reading->line};
    if (!read_name(reading, &limit.who))
        return false;
    do {
        if (!read_limit(reading, &limit))
            return false;
    } while (has_word(reading));
    return true;
}

static bool read_line(struct reading *reading)
{
    struct span word = next_word(reading);
    const char *text = word.data;
    if (word.bytes == 0 || text[0] == '#')
        return true;
    if (!utf8_is_valid(reading->rest))
        return complain(reading, SPAN_NONE, "the line is not UTF-8");
    if (word_is(word, "key") || word_is(word, "uid"))
        return read_credential(reading, word_is(word, "key"));
    if (word_is(word, "group"))
        return read_group(reading);
    if (word_is(word, "allow"))
        return read_rule(reading);
    if (word_is(word, "limit"))
        return read_limits(reading);
    return complain(reading, word, "begins no line: expected key, uid, group, allow or limit");
}

/* ---- the file -------------------------------------------------------------------------------- */

static bool check_members(struct reading *reading, const struct name *group)
{
    const struct access *access = reading->access;
    for (uint32_t i = 0; i < group->member_count; i++) {
        const struct name *name = name_at(access, member_at(access, group->member_first + i)->name);
        if (name->kind == NAME_GROUP)
            return complain(reading, name->text,
                            "is a group: groups have members with keys or uids alone");
    }
    return true;
}

/* Each name must be known, and each member of a group a principal. */
static bool check_names(struct reading *reading)
{
    const struct access *access = reading->access;
    for (uint32_t i = 0; i < access->names.count; i++) {
        const struct name *name = name_at(access, i);
        reading->line = name->line;
        if (name->kind == NAME_UNKNOWN)
            return complain(reading, name->text, "is nobody: no key, uid or group line has it");
        if (name->kind == NAME_GROUP && !check_members(reading, name))
            return false;
    }
    return true;
}

/* Puts a link at the end; next: that of the last one, if there is one. */
static void chain_add(struct chain *chain, uint32_t *next, uint32_t link)
{
    if (chain->first == 0)
        chain->first = link;
    else
        *next = link;
    chain->last = link;
}

/* Rules and memberships, to the names that they are about. */
static void chain_up(struct access *access)
{
    for (uint32_t i = 0; i < access->rules.count; i++) {
        struct chain *chain = &name_at(access, rule_at(access, i)->who)->rules;
        uint32_t last = chain->first != 0 ? chain->last - 1 : 0;
        chain_add(chain, &rule_at(access, last)->next, i + 1);
    }
    for (uint32_t i = 0; i < access->members.count; i++) {
        struct chain *chain = &name_at(access, member_at(access, i)->name)->memberships;
        uint32_t last = chain->first != 0 ? chain->last - 1 : 0;
        chain_add(chain, &member_at(access, last)->next, i + 1);
    }
}

static bool read_lines(struct reading *reading)
{
    struct access *access = reading->access;
    const char *at = access->text;
    size_t left = access->text_bytes;
    while (left > 0) {
        const char *end = memchr(at, '\n', left);
        size_t bytes = end != NULL ? (size_t)(end - at) : left;
        reading->line += 1;
        reading->rest = span_of(at, bytes);
        if (!read_line(reading))
            return false;
        bytes += end != NULL ? 1 : 0;
        at += bytes;
        left -= bytes;
    }
    return check_names(reading);
}

static void access_init(struct access *access, struct memory *memory)
{
    access->memory = memory;
    access->names.item_bytes = sizeof(struct name);
    access->credentials.item_bytes = sizeof(struct credential);
    access->rules.item_bytes = sizeof(struct rule);
    access->limits.item_bytes = sizeof(struct limit);
    access->members.item_bytes = sizeof(struct member);
    access->words.item_bytes = sizeof(struct span);
    name_map_init(&access->name_map, memory);
    id_map_init(&access->credential_map, memory);
    id_map_init(&access->limit_map, memory);
}

struct access *access_read(struct memory *memory, struct span text, struct access_fault *out_fault)
{
    struct access *access = memory_take(memory, sizeof *access);
    struct reading reading = {.access = access, .fault = out_fault};
    if (access == NULL) {
        is_short_of_memory(&reading);
        return NULL;
    }
    access_init(access, memory);
    bool is_read = true;
    if (text.bytes > LIMIT_ACCESS_BYTES)
        is_read = complain(&reading, SPAN_NONE, "the file is larger than 1 MiB");
    else if (text.bytes > 0 && (access->text = memory_take(memory, text.bytes)) == NULL)
        is_read = is_short_of_memory(&reading);
    if (is_read && text.bytes > 0) {
        memcpy(access->text, text.data, text.bytes);
        access->text_bytes = text.bytes;
        is_read = read_lines(&reading);
    }
    if (is_read) {
        chain_up(access);
        return access;
    }
    const char *word = out_fault->word.data; /* in our copy, which goes: told in the caller's */
    if (out_fault->word.bytes > 0 && access->text_bytes > 0 && word >= access->text &&
        word < access->text + access->text_bytes)
        out_fault->word.data = (const char *)text.data + (word - access->text);
    access_free(&access);
    return NULL;
}

void access_free(struct access **access)
{
    struct access *old = *access;
    *access = NULL;
    if (old == NULL)
        return;
    name_map_fini(&old->name_map);
    id_map_fini(&old->credential_map);
    id_map_fini(&old->limit_map);
    array_fini(old->memory, &old->names);
    array_fini(old->memory, &old->credentials);
    array_fini(old->memory, &old->rules);
    array_fini(old->memory, &old->limits);
    array_fini(old->memory, &old->members);
    array_fini(old->memory, &old->words);
    memory_give(old->memory, old->text, old->text_bytes);
    memory_give(old->memory, old, sizeof *old);
}
