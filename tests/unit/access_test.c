/* SPDX-License-Identifier: MPL-2.0 */
/* access_test.c -- the access file: what each line means, who may do what by which line, and what
 * is said of each wrong line. */
#include "libbus/base/access.h"

#include "libbus/base/limits.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Keys of 32 equal bytes: 1, 2, 3. */
static const char alice_key[] = "ebp_aaaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqdmmb";
static const char alice_new_key[] = "ebp_aabaeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqcaibafnsa";
static const char bob_key[] = "ebp_aabqgaydambqgaydambqgaydambqgaydambqgaydambqgaydambqhnh7";

static struct memory memory;

static void init(void)
{
    memory_heap_init(&memory, UINT64_MAX);
}

TestSuite(access, .init = init);

static struct access *read_text(const char *text)
{
    struct access_fault fault = {0};
    struct access *access = access_read(&memory, span_text(text), &fault);
    cr_assert_not_null(access, "line %u: '%.*s' %s", fault.line, (int)fault.word.bytes,
                       (const char *)fault.word.data, fault.what);
    return access;
}

/* The file of all tests below: lines 1 to 14. */
static struct access *read_example(void)
{
    char text[2048];
    snprintf(text, sizeof text,
             "# who\n"
             "key   alice  %s until 2027-06-30\n"
             "  key alice  %s  \r\n"
             "key   bob    %s\n"
             "uid   ops    1000\n"
             "uid   root   0 until 2024-02-29\n"
             "group silos  alice bob\t\n"
             "\n"
             "allow silos  party in fl-* other\n"
             "allow bob    party as auditor bob-* reads aggregator/# +/sum in audit\n"
             "allow ops    tap status in *\n"
             "allow ops    job dead in fl-1\n"
             "allow root   admin\n"
             "allow alice  tap in fl-1",
             alice_key, alice_new_key, bob_key);
    return read_text(text);
}

static void key_of(uint8_t byte, uint8_t key[KEY_BYTES])
{
    memset(key, byte, KEY_BYTES);
}

static uint32_t who(const struct access *access, const char *name)
{
    uint32_t principal = access_find(access, span_text(name));
    cr_assert_neq(principal, 0, "%s", name);
    cr_assert(span_equal(access_name(access, principal), span_text(name)));
    return principal;
}

Test(access, counts_what_it_read)
{
    struct access *access = read_example();
    struct access_counts counts = access_counts(access);
    cr_assert_eq(counts.principals, 4);
    cr_assert_eq(counts.keys, 3);
    cr_assert_eq(counts.uids, 2);
    cr_assert_eq(counts.groups, 1);
    cr_assert_eq(counts.rules, 6);
    access_free(&access);
    cr_assert_eq(memory.bytes_used, 0);
}

Test(access, knows_whose_a_key_is_until_its_last_day_is_over)
{
    struct access *access = read_example();
    uint8_t key[KEY_BYTES];
    int64_t end_s = 1814400000; /* 2027-07-01, by date -d */
    key_of(1, key);
    cr_assert_eq(access_by_key(access, key, 0), who(access, "alice"));
    cr_assert_eq(access_by_key(access, key, end_s - 1), who(access, "alice"));
    cr_assert_eq(access_by_key(access, key, end_s), 0);
    key_of(2, key);
    cr_assert_eq(access_by_key(access, key, INT64_MAX - 1), who(access, "alice"));
    key_of(3, key);
    cr_assert_eq(access_by_key(access, key, 0), who(access, "bob"));
    key_of(4, key);
    cr_assert_eq(access_by_key(access, key, 0), 0);
    cr_assert_eq(access_by_uid(access, 1000, 0), who(access, "ops"));
    cr_assert_eq(access_by_uid(access, 1001, 0), 0);
    cr_assert_eq(access_by_uid(access, 0, 1709251200 - 1), who(access, "root"));
    cr_assert_eq(access_by_uid(access, 0, 1709251200), 0); /* 2024-03-01 */
    cr_assert_eq(access_next_end_s(access, 0), 1709251200);
    cr_assert_eq(access_next_end_s(access, 1709251200), end_s);
    cr_assert_eq(access_next_end_s(access, end_s), INT64_MAX);
    cr_assert_eq(access_find(access, span_text("silos")), 0); /* a group is nobody */
    cr_assert_eq(access_find(access, span_text("carol")), 0);
    access_free(&access);
}

Test(access, allows_by_the_first_line_that_says_so)
{
    struct access *access = read_example();
    static const struct {
        const char *name;
        enum access_right right;
        const char *job;
        uint32_t line;
    } cases[] = {
        {"alice", ACCESS_PARTY, "fl-1", 9},   {"alice", ACCESS_PARTY, "fl-", 9},
        {"alice", ACCESS_PARTY, "fl", 0},     {"alice", ACCESS_PARTY, "other", 9},
        {"alice", ACCESS_PARTY, "other1", 0}, {"alice", ACCESS_TAP, "fl-1", 14},
        {"alice", ACCESS_TAP, "fl-2", 0},     {"alice", ACCESS_STATUS, "fl-1", 0},
        {"bob", ACCESS_PARTY, "audit", 10},   {"bob", ACCESS_TAP, "fl-1", 0},
        {"ops", ACCESS_TAP, "any", 11},       {"ops", ACCESS_TAP, "", 11},
        {"ops", ACCESS_JOB, "fl-1", 12},      {"ops", ACCESS_JOB, "fl-2", 0},
        {"ops", ACCESS_JOB, "", 0},           {"ops", ACCESS_DEAD, "fl-1", 12},
        {"ops", ACCESS_PARTY, "fl-1", 0},     {"ops", ACCESS_ADMIN, "", 0},
        {"root", ACCESS_ADMIN, "", 13},       {"root", ACCESS_TAP, "fl-1", 13},
        {"root", ACCESS_JOB, "", 13},         {"root", ACCESS_PARTY, "fl-1", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t principal = who(access, cases[i].name);
        cr_assert_eq(access_may(access, principal, cases[i].right, span_text(cases[i].job)),
                     cases[i].line, "%s %s in '%s'", cases[i].name,
                     access_right_name(cases[i].right), cases[i].job);
    }
    for (unsigned right = ACCESS_PARTY; right <= ACCESS_ADMIN; right *= 2)
        cr_assert_eq(access_may(access, 0, (enum access_right)right, span_text("fl-1")), 0);
    access_free(&access);
}

Test(access, lets_somebody_be_who_the_line_names_or_itself)
{
    struct access *access = read_example();
    static const struct {
        const char *name, *job, *party;
        uint32_t line;
    } cases[] = {
        {"alice", "fl-1", "alice", 9}, {"alice", "fl-1", "bob", 0}, {"bob", "audit", "auditor", 10},
        {"bob", "audit", "bob-7", 10}, {"bob", "audit", "bob", 0},  {"bob", "fl-1", "bob", 9},
        {"ops", "fl-1", "ops", 0},     {"root", "fl-1", "root", 0}, {"alice", "audit", "alice", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_assert_eq(access_may_be(access, who(access, cases[i].name), span_text(cases[i].job),
                                   span_text(cases[i].party)),
                     cases[i].line, "%s as %s", cases[i].name, cases[i].party);
    cr_assert_eq(access_may_be(access, 0, span_text("fl-1"), span_text("alice")), 0);
    access_free(&access);
}

Test(access, lets_a_party_read_what_the_line_names_and_its_own)
{
    struct access *access = read_example();
    static const struct {
        const char *name, *job, *party, *topic;
        uint32_t line;
    } cases[] = {
        {"alice", "fl-1", "alice", "bob/grads", 9},
        {"alice", "fl-1", "bob", "bob/grads", 0},
        {"bob", "audit", "auditor", "aggregator/model", 10},
        {"bob", "audit", "auditor", "alice/sum", 10},
        {"bob", "audit", "auditor", "alice/grads", 0},
        {"bob", "audit", "auditor", "auditor/notes", 10},
        {"bob", "audit", "bob-1", "auditor/notes", 0},
        {"root", "audit", "auditor", "aggregator/model", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_assert_eq(access_may_read(access, who(access, cases[i].name), span_text(cases[i].job),
                                     span_text(cases[i].party), span_text(cases[i].topic)),
                     cases[i].line, "%s as %s: %s", cases[i].name, cases[i].party, cases[i].topic);
    uint32_t bob = who(access, "bob");
    struct span job = span_text("audit");
    struct span auditor = span_text("auditor");
    cr_assert_eq(access_may_match(access, bob, job, auditor, span_text("alice/+")), 10);
    cr_assert_eq(access_may_match(access, bob, job, auditor, span_text("alice/+/x")), 0);
    cr_assert_eq(access_may_match(access, bob, job, auditor, span_text("alice/#")), 10);
    cr_assert_eq(access_may_match(access, bob, job, auditor, span_text("#")), 10);
    access_free(&access);
}

Test(access, allows_nothing_when_it_is_empty)
{
    struct access *access = read_text("");
    uint8_t key[KEY_BYTES] = {0};
    cr_assert_eq(access_by_key(access, key, 0), 0);
    cr_assert_eq(access_by_uid(access, 0, 0), 0);
    cr_assert_eq(access_may(access, 1, ACCESS_ADMIN, SPAN_NONE), 0);
    access_free(&access);
}

/* ---- wrong lines ----------------------------------------------------------------------------- */

static const struct {
    const char *text; /* %s is a key */
    uint32_t line;
    const char *word, *what;
} faults[] = {
    {"\nalow bob admin", 2, "alow", "begins no line"},
    {"key bob", 1, "", "is not a public key: expected"},
    {"key bob ebp_abc", 1, "ebp_abc", "a character of it is wrong"},
    {"key bob ebs_abc", 1, "ebs_...", "is a secret key"},
    {"key bob 1000", 1, "1000", "is not a public key"},
    {"key", 1, "", "a name is missing"},
    {"key a/b %s", 1, "a/b", "is not a name"},
    {"key bob %s # hospital", 1, "#", "a comment has a line of its own"},
    {"key bob %s until tomorrow", 1, "tomorrow", "is not a date"},
    {"key bob %s until 2026-02-29", 1, "2026-02-29", "is not a date"},
    {"key bob %s until 2100-02-29", 1, "2100-02-29", "is not a date"},
    {"key bob %s until 2026-13-01", 1, "2026-13-01", "is not a date"},
    {"key bob %s until 2026-01-00", 1, "2026-01-00", "is not a date"},
    {"key bob %s until", 1, "", "is not a date"},
    {"key bob %s until 2026-01-01 x", 1, "x", "should have ended"},
    {"key bob %s\nkey bob %s", 2, "bob", "has this key already"},
    {"key bob %s\nkey carol %s", 2, "bob", "has this key already"},
    {"uid bob 7\nuid carol 7", 2, "bob", "has this uid already"},
    {"uid bob -1", 1, "-1", "is not a user id"},
    {"uid bob 4294967295", 1, "4294967295", "is not a user id"},
    {"uid bob 1\ngroup bob bob", 2, "bob", "names a group and somebody"},
    {"group g", 1, "", "a name is missing"},
    {"uid bob 1\ngroup g bob\ngroup g bob", 3, "g", "is a group already"},
    {"group g bob", 1, "bob", "is nobody"},
    {"uid bob 1\ngroup g bob\ngroup h g", 3, "g", "groups have members"},
    {"allow bob admin", 1, "bob", "is nobody"},
    {"uid bob 1\nallow bob", 2, "", "a right is missing"},
    {"uid bob 1\nallow bob read in x", 2, "read", "is no right"},
    {"uid bob 1\nallow bob tap", 2, "", "the jobs are missing"},
    {"uid bob 1\nallow bob admin in x", 2, "", "'admin' holds in all jobs"},
    {"uid bob 1\nallow bob tap in", 2, "", "the line ends where"},
    {"uid bob 1\nallow bob tap in x in y", 2, "in", "comes too early, or twice"},
    {"uid bob 1\nallow bob party as in x", 2, "in", "comes too early, or twice"},
    {"uid bob 1\nallow bob tap as x in y", 2, "", "'as' and 'reads' say more"},
    {"uid bob 1\nallow bob party as a/b in y", 2, "a/b", "is not a party's name"},
    {"uid bob 1\nallow bob party reads a in y", 2, "a", "is not a pattern"},
    {"uid bob 1\nallow bob party reads a/# in y*z", 2, NULL, NULL},
    {"uid bob 1\nallow bob party in a/b", 2, "a/b", "is not a job's name"},
    {"uid bob 1\nallow bob party in x # all", 2, "#", "is not a job's name"},
    {"uid bob \xff", 1, "", "the line is not UTF-8"},
    {"limit bob jobs 4", 1, "bob", "is nobody"},
    {"uid bob 1\nlimit", 2, "", "a name is missing"},
    {"uid bob 1\nlimit bob", 2, "", "cannot be limited: expected"},
    {"uid bob 1\nlimit bob slots 4", 2, "slots", "cannot be limited: expected"},
    {"uid bob 1\nlimit bob jobs", 2, "", "is no amount"},
    {"uid bob 1\nlimit bob jobs 4 rate", 2, "", "is no amount"},
    {"uid bob 1\nlimit bob jobs -1", 2, "-1", "is no amount"},
    {"uid bob 1\nlimit bob jobs K", 2, "K", "is no amount"},
    {"uid bob 1\nlimit bob jobs 4T", 2, "4T", "is no amount"},
    {"uid bob 1\nlimit bob bytes 72057594037927937", 2, "72057594037927937", "is no amount"},
    {"uid bob 1\nlimit bob bytes 67108865G", 2, "67108865G", "is no amount"},
    {"uid bob 1\nlimit bob jobs 4 jobs 4", 2, "jobs", "is limited already"},
    {"uid bob 1\nlimit bob jobs 4\nlimit bob rate 1 jobs 5", 3, "jobs", "is limited already"},
};

Test(access, says_what_is_wrong_and_where)
{
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        char text[512];
        struct access_fault fault = {0};
        snprintf(text, sizeof text, "%s", faults[i].text);
        char *format = strstr(text, "%s");
        if (format != NULL) {
            const char *first = faults[i].text;
            const char *cut = strstr(first, "%s");
            const char *second = strstr(cut + 2, "%s");
            if (second != NULL)
                snprintf(text, sizeof text, "%.*s%s%.*s%s%s", (int)(cut - first), first, bob_key,
                         (int)(second - cut - 2), cut + 2, bob_key, second + 2);
            else
                snprintf(text, sizeof text, "%.*s%s%s", (int)(cut - first), first, bob_key,
                         cut + 2);
        }
        struct access *access = access_read(&memory, span_text(text), &fault);
        if (faults[i].what == NULL) { /* a '*' within a name is a letter */
            cr_assert_not_null(access, "%s", text);
            access_free(&access);
            continue;
        }
        cr_assert_null(access, "%s", text);
        cr_assert_eq(fault.line, faults[i].line, "%s: line %u", text, fault.line);
        cr_assert(span_equal(fault.word, span_text(faults[i].word)), "%s: '%.*s'", text,
                  (int)fault.word.bytes, (const char *)fault.word.data);
        cr_assert(strstr(fault.what, faults[i].what) != NULL, "%s: %s", text, fault.what);
        cr_assert_eq(memory.bytes_used, 0);
    }
}

Test(access, limits_by_the_line_of_a_name_and_else_by_the_smallest_of_its_groups)
{
    struct access *access =
        read_text("limit silos jobs 4 rate 200M bytes 4g\n"
                  "limit both jobs 3 open-slots 10k connections 72057594037927936\n"
                  "limit bob jobs 7 rate 1k bytes 67108864G\n"
                  "uid alice 1\nuid bob 2\nuid carol 3\n"
                  "group silos alice bob\ngroup both bob alice\n");
    static const struct {
        const char *name;
        enum access_quota quota;
        uint64_t amount;
        uint32_t line;
    } cases[] = {
        {"alice", ACCESS_JOBS, 3, 2},
        {"alice", ACCESS_RATE, 200 * 1024 * 1024, 1},
        {"alice", ACCESS_BYTES, UINT64_C(4) * 1024 * 1024 * 1024, 1},
        {"alice", ACCESS_OPEN_SLOTS, 10000, 2},
        {"alice", ACCESS_CONNECTIONS, UINT64_C(1) << 56, 2},
        {"bob", ACCESS_JOBS, 7, 3},
        {"bob", ACCESS_RATE, 1024, 3},
        {"bob", ACCESS_BYTES, UINT64_C(1) << 56, 3},
        {"bob", ACCESS_OPEN_SLOTS, 10000, 2},
        {"carol", ACCESS_JOBS, ACCESS_UNLIMITED, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t amount = 0;
        uint32_t line = access_limit(access, who(access, cases[i].name), cases[i].quota, &amount);
        cr_assert_eq(line, cases[i].line, "%s %s: line %u", cases[i].name,
                     access_quota_name(cases[i].quota), line);
        cr_assert_eq(amount, cases[i].amount, "%s %s", cases[i].name,
                     access_quota_name(cases[i].quota));
    }
    uint64_t amount = 0;
    cr_assert_eq(access_limit(access, 0, ACCESS_JOBS, &amount), 0);
    cr_assert_eq(amount, ACCESS_UNLIMITED);
    cr_assert_eq(access_counts(access).limits, 9);
    access_free(&access);
}

Test(access, takes_a_file_of_1_mib_and_no_more)
{
    struct access_fault fault = {0};
    char *text = malloc(LIMIT_ACCESS_BYTES + 1);
    memset(text, '\n', LIMIT_ACCESS_BYTES + 1);
    for (size_t bytes = LIMIT_ACCESS_BYTES - 1; bytes <= LIMIT_ACCESS_BYTES; bytes++) {
        struct access *access = access_read(&memory, span_of(text, bytes), &fault);
        cr_assert_not_null(access);
        access_free(&access);
    }
    cr_assert_null(access_read(&memory, span_of(text, LIMIT_ACCESS_BYTES + 1), &fault));
    cr_assert_str_eq(fault.what, "the file is larger than 1 MiB");
    free(text);
}

/* ---- as many lines as there may be ----------------------------------------------------------- */

/* A file that is full.  The processor time that it takes is bounded by 2 s: it takes some 50 ms,
 * and 10 s or more where each line is compared with all others. */
static struct {
    char *text;
    size_t bytes;
    struct timespec began;
} full;

#define CPU_MS_MAX 2000

static void full_begin(void)
{
    full.text = malloc(LIMIT_ACCESS_BYTES);
    full.bytes = 0;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &full.began); /* there is this clock */
}

/* false: it does not fit any more. */
__attribute__((format(printf, 1, 2))) static bool full_add(const char *format, ...)
{
    char line[100];
    va_list args;
    va_start(args, format);
    size_t bytes = (size_t)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (bytes > LIMIT_ACCESS_BYTES - full.bytes)
        return false;
    memcpy(full.text + full.bytes, line, bytes);
    full.bytes += bytes;
    return true;
}

static struct access *full_read(void)
{
    struct access_fault fault;
    struct access *access = access_read(&memory, span_of(full.text, full.bytes), &fault);
    cr_assert_not_null(access, "%u: %s", fault.line, fault.what);
    free(full.text);
    return access;
}

static void full_end(struct access *access)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now); /* there is this clock */
    int64_t ms =
        (now.tv_sec - full.began.tv_sec) * 1000 + (now.tv_nsec - full.began.tv_nsec) / 1000000;
    cr_expect_lt(ms, CPU_MS_MAX, "%lld ms", (long long)ms);
    access_free(&access);
}

Test(access, reads_as_many_names_as_fit)
{
    unsigned count = 0;
    full_begin();
    while (full_add("uid %x %u\n", count, count))
        count++;
    struct access *access = full_read();
    for (unsigned i = 0; i < count; i++)
        cr_assert_eq(access_by_uid(access, i, 0), i + 1);
    cr_assert_eq(access_by_uid(access, count, 0), 0);
    cr_expect_gt(count, 60000, "%u", count);
    full_end(access);
}

Test(access, reads_as_many_limits_as_fit)
{
    uint64_t amount = 0;
    unsigned count = 0;
    full_begin();
    while (full_add("uid %x %u\nlimit %x jobs 1\n", count, count, count))
        count++;
    struct access *access = full_read();
    for (unsigned i = 0; i < count; i++)
        cr_assert_eq(access_limit(access, i + 1, ACCESS_JOBS, &amount), 2 * i + 2);
    cr_expect_gt(count, 25000, "%u", count);
    full_end(access);
}

/* Each is asked about, as when another table comes into force. */
Test(access, finds_the_line_for_each_of_as_many_as_fit)
{
    unsigned count = 0, members = 0, most = 20000;
    full_begin();
    (void)full_add("group g"); /* there is room */
    for (; members < most; members++)
        (void)full_add(" %x", members);
    (void)full_add("\nallow g party in j\n");
    for (unsigned i = 0; i < most; i++)
        (void)full_add("uid %x %u\n", i, i);
    while (count < most && full_add("allow %x tap in j\n", count))
        count++;
    struct access *access = full_read();
    struct span job = span_text("j");
    for (unsigned i = 0; i < members; i++) {
        uint32_t principal = access_by_uid(access, i, 0);
        uint32_t line = i < count ? 3 + most + i : 0;
        cr_assert_eq(access_may_be(access, principal, job, access_name(access, principal)), 2);
        cr_assert_eq(access_may(access, principal, ACCESS_TAP, job), line, "%u", i);
    }
    cr_expect_eq(count, most);
    full_end(access);
}

/* Two keys that are alike in their first 8 bytes. */
Test(access, tells_keys_apart_that_begin_alike)
{
    uint8_t keys[3][KEY_BYTES] = {{1}, {1}, {1}};
    char text[3 * (KEY_TEXT_BYTES + 16)] = "";
    keys[1][KEY_BYTES - 1] = 1;
    keys[2][KEY_BYTES - 1] = 2;
    for (size_t i = 0; i < 3; i++) {
        char key[KEY_TEXT_BYTES + 1];
        key_text_write(keys[i], KEY_PUBLIC, key);
        snprintf(text + strlen(text), sizeof text - strlen(text), "key k%zu %s\n", i, key);
    }
    struct access *access = read_text(text);
    for (size_t i = 0; i < 3; i++) {
        char name[] = {'k', (char)('0' + i), '\0'};
        cr_assert_eq(access_by_key(access, keys[i], 0), who(access, name), "%zu", i);
    }
    keys[0][KEY_BYTES - 1] = 3;
    cr_assert_eq(access_by_key(access, keys[0], 0), 0);
    cr_assert_eq(access_by_uid(access, 1, 0), 0); /* the map takes it for the same number */
    access_free(&access);
}

static void *(*real_resize)(struct memory *memory, void *block, size_t old_bytes, size_t new_bytes);
static uint64_t calls_left;

static void *failing_resize(struct memory *of, void *block, size_t old_bytes, size_t new_bytes)
{
    if (new_bytes > old_bytes && calls_left-- == 0)
        return NULL;
    return real_resize(of, block, old_bytes, new_bytes);
}

Test(access, says_when_there_is_no_memory)
{
    static const char text[] = "uid a 1\ngroup g a\nallow g party reads b/c in x\nlimit g jobs 1";
    real_resize = memory.resize;
    memory.resize = failing_resize;
    uint64_t failed = 0;
    for (bool is_read = false; !is_read; failed += !is_read) {
        struct access_fault fault = {.line = 77};
        calls_left = failed;
        struct access *access = access_read(&memory, span_text(text), &fault);
        is_read = access != NULL;
        cr_assert(is_read || fault.line == 0, "call %lu", (unsigned long)failed);
        access_free(&access);
        cr_assert_eq(memory.bytes_used, 0);
    }
    cr_assert_geq(failed, 8); /* table, text, names, map, credentials, members, words, rules,
                               * limits */
}
