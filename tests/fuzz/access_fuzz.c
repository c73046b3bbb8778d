/* SPDX-License-Identifier: MPL-2.0 */
/* access_fuzz.c -- foreign bytes as an access file.  Either the fault is in a line of it, or the
 * rights agree with each other: who may read may take part, and a pattern that is allowed nothing
 * matches no topic that may be read. */
#include "libbus/base/access.h"
#include "libbus/base/limits.h"
#include "libbus/base/must.h"
#include "libbus/base/pattern.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const char *const jobs[] = {"fl-1", "x", "audit"};
static const char *const parties[] = {"alice", "bob", "auditor"};
static const char *const topics[] = {"alice/grads", "bob/sum", "aggregator/model/1"};
static const char *const patterns[] = {"#", "+/grads", "alice/#", "bob/+", "aggregator/+/1"};
#define COUNT(array) (sizeof array / sizeof array[0])

static void check_fault(struct span text, const struct access_fault *fault)
{
    const uint8_t *data = text.data;
    uint32_t lines = 1;
    for (size_t i = 0; i < text.bytes; i++)
        lines += data[i] == '\n';
    must(fault->line <= lines && fault->what != NULL);
    must(fault->word.bytes == 0 || fault->word.data != NULL);
}

static void check_topics(const struct access *access, uint32_t principal, struct span job,
                         struct span party)
{
    for (size_t i = 0; i < COUNT(topics); i++) {
        struct span topic = span_text(topics[i]);
        bool may_read = access_may_read(access, principal, job, party, topic) != 0;
        must(!may_read || access_may_be(access, principal, job, party) != 0);
        for (size_t j = 0; may_read && j < COUNT(patterns); j++)
            must(!pattern_matches(span_text(patterns[j]), topic) ||
                 access_may_match(access, principal, job, party, span_text(patterns[j])) != 0);
    }
}

/* Limits are amounts, or none. */
static void check_limits(const struct access *access, uint32_t principal)
{
    for (unsigned quota = 0; quota < ACCESS_QUOTA_COUNT; quota++) {
        uint64_t amount = 0;
        uint32_t line = access_limit(access, principal, (enum access_quota)quota, &amount);
        must((line == 0) == (amount == ACCESS_UNLIMITED));
    }
}

static void check_principal(const struct access *access, uint32_t principal)
{
    for (size_t i = 0; i < COUNT(jobs); i++) {
        struct span job = span_text(jobs[i]);
        for (size_t j = 0; j < COUNT(parties); j++) {
            struct span party = span_text(parties[j]);
            must(access_may_be(access, principal, job, party) == 0 ||
                 access_may(access, principal, ACCESS_PARTY, job) != 0);
            check_topics(access, principal, job, party);
        }
    }
    must(access_may(access, principal, ACCESS_ADMIN, SPAN_NONE) == 0 ||
         access_may(access, principal, ACCESS_DEAD, SPAN_NONE) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct memory memory;
    struct access_fault fault = {0};
    memory_heap_init(&memory, UINT64_MAX);
    struct access *access = access_read(&memory, span_of(data, bytes), &fault);
    if (access == NULL) {
        check_fault(span_of(data, bytes), &fault);
    } else {
        struct access_counts counts = access_counts(access);
        uint32_t all = counts.principals + counts.groups;
        for (uint32_t principal = 0; principal <= all && principal < 8; principal++) {
            check_principal(access, principal);
            check_limits(access, principal);
        }
    }
    access_free(&access);
    must(memory.bytes_used == 0);
    return 0;
}
