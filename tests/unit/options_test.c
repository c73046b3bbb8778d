/* SPDX-License-Identifier: MPL-2.0 */
/* options_test.c -- options that grow, names from the environment, limits at their edges. */
#include "libbus/api/model.h"
#include "libbus/api/options.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static char job[LIMIT_NAME_BYTES + 1];
static char party[LIMIT_NAME_BYTES + 1];

static enum bus_err check(const struct bus_options *options)
{
    struct bus_options known;
    struct bus_error *error = NULL;
    enum bus_err err = options_of_bus(options, &known, job, party, &error);
    cr_expect_eq(err != BUS_OK, error != NULL);
    if (error != NULL)
        cr_expect_gt(strlen(bus_error_message(error)), 10, "no sentence");
    bus_error_unref(&error);
    return err;
}

Test(options, have_the_defaults_that_the_header_names)
{
    struct bus_options options;
    bus_options_init(&options);
    cr_expect_eq(options.struct_bytes, sizeof options);
    cr_expect_eq(options.heartbeat_ms, 1000);
    cr_expect_eq(options.lost_after_ms, 10000);
    cr_expect_eq(options.reconnect_grace_ms, 1000);
    cr_expect_eq(options.broker_lost_ms, 30000);
    cr_expect_eq(options.outbox_bytes_max, 64u << 20);
    cr_expect_eq(options.inbox_bytes_max, 64u << 20);
    cr_expect_eq(options.send_timeout_ms, 30000);
    cr_expect_null(options.on_failure);
    cr_expect_eq(check(&options), BUS_OK);
    cr_expect_eq(check(NULL), BUS_OK);
}

Test(options, may_be_of_another_size)
{
    /* Of a newer library: more bytes, which must be zero; of an older one: fewer. */
    struct {
        struct bus_options known;
        uint64_t unknown;
    } newer;
    bus_options_init_sized(&newer.known, sizeof newer);
    cr_expect_eq(newer.known.struct_bytes, sizeof newer);
    cr_expect_eq(newer.unknown, 0);
    cr_expect_eq(check(&newer.known), BUS_OK);
    newer.unknown = 1;
    cr_expect_eq(check(&newer.known), BUS_EINVAL);

    struct bus_options older;
    memset(&older, 0xff, sizeof older);
    bus_options_init_sized(&older, offsetof(struct bus_options, failure_signal));
    cr_expect_eq(older.failure_signal, -1); /* untouched, and not looked at */
    cr_expect_eq(check(&older), BUS_OK);

    struct bus_options bare = {.struct_bytes = 0};
    cr_expect_eq(check(&bare), BUS_EINVAL);
}

Test(options, of_slots_subscriptions_and_taps_have_defaults)
{
    struct bus_slot_options slot;
    struct bus_sub_options sub;
    bus_slot_options_init(&slot);
    cr_expect_eq(slot.seq, BUS_NEXT);
    cr_expect_eq(slot.deadline_ms, BUS_FOREVER);
    cr_expect_eq(slot.value_bytes_max, 0);
    cr_expect_eq(slot.need_count, 0);
    bus_sub_options_init(&sub);
    cr_expect_null(sub.name);
    cr_expect_null(sub.group);
    cr_expect_eq(sub.from_seq, 0);
    cr_expect_eq(sub.overflow, BUS_OVERFLOW_BLOCK);
}

Test(options, hold_periods_to_their_limits)
{
    static const struct {
        size_t offset;
        int64_t least;
        int64_t most;
    } rows[] = {
        {offsetof(struct bus_options, heartbeat_ms), LIMIT_HEARTBEAT_MS_MIN, 3333},
        {offsetof(struct bus_options, lost_after_ms), 3000, LIMIT_PERIOD_MS_MAX},
        {offsetof(struct bus_options, reconnect_grace_ms), 0, LIMIT_PERIOD_MS_MAX},
        {offsetof(struct bus_options, broker_lost_ms), 1, LIMIT_PERIOD_MS_MAX},
        {offsetof(struct bus_options, send_timeout_ms), BUS_SLICE_LIMITED, INT64_MAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int side = 0; side < 6; side++) {
            struct bus_options options;
            int64_t value = side < 3 ? rows[i].least + side - 1 : rows[i].most;
            if (side >= 3 && rows[i].most < INT64_MAX)
                value += side - 4;
            bool is_inside = value >= rows[i].least && value <= rows[i].most;
            bus_options_init(&options);
            memcpy((char *)&options + rows[i].offset, &value, sizeof value);
            cr_expect_eq(check(&options), is_inside ? BUS_OK : BUS_EINVAL, "row %zu, %lld", i,
                         (long long)value);
        }
    }
    struct bus_options options;
    bus_options_init(&options);
    options.outbox_bytes_max = 0;
    cr_expect_eq(check(&options), BUS_EINVAL);
    bus_options_init(&options);
    options.inbox_bytes_max = 0;
    cr_expect_eq(check(&options), BUS_EINVAL);
    bus_options_init(&options);
    options.failure_signal = 10000;
    cr_expect_eq(check(&options), BUS_EINVAL);
}

Test(options, take_names_explicit_then_from_the_environment)
{
    struct bus_options options;
    bus_options_init(&options);
    unsetenv("ERRBUS_JOB");
    unsetenv("ERRBUS_PARTY");
    cr_assert_eq(check(&options), BUS_OK);
    cr_expect_str_eq(job, "default");
    cr_expect_not_null(strchr(party, '-'), "'%s' is no host and pid", party);
    setenv("ERRBUS_JOB", "from the environment", 1);
    setenv("ERRBUS_PARTY", "envy", 1);
    cr_assert_eq(check(&options), BUS_OK);
    cr_expect_str_eq(job, "from the environment");
    cr_expect_str_eq(party, "envy");
    options.job = "given";
    options.party = "alice";
    cr_assert_eq(check(&options), BUS_OK);
    cr_expect_str_eq(job, "given");
    cr_expect_str_eq(party, "alice");
}

/* The token in force, 0: none; UINT64_MAX: refused. */
static uint64_t token_of(const char *job_name, const char *party_name, const char *token,
                         bool is_guard)
{
    uint64_t number = 0;
    struct bus_error *error = NULL;
    struct bus_options options;
    bus_options_init(&options);
    options.job = job_name;
    options.party = party_name;
    options.token = token;
    options.is_guard = is_guard;
    enum bus_err err = options_token(&options, &number, &error);
    bus_error_unref(&error);
    return err == BUS_OK ? number : UINT64_MAX;
}

Test(options, take_the_token_of_the_environment_for_its_party_alone)
{
    setenv("ERRBUS_TOKEN", "00000000000000ff", 1);
    setenv("ERRBUS_PARTY", "alice", 1);
    unsetenv("ERRBUS_JOB");
    cr_expect_eq(token_of("default", "alice", NULL, false), 255);
    cr_expect_eq(token_of("default", "alice", "", false), 0);
    cr_expect_eq(token_of("default", "alice", NULL, true), 0, "a guard is another one");
    cr_expect_eq(token_of("default", "bob", NULL, false), 0);
    cr_expect_eq(token_of("other", "alice", NULL, false), 0);
    cr_expect_eq(token_of("other", "bob", "fedcba9876543210", false), UINT64_C(0xfedcba9876543210));
    cr_expect_eq(token_of("other", "bob", "fedcba9876543210", true), UINT64_MAX);
    cr_expect_eq(token_of("other", "bob", "fedcba987654321", false), UINT64_MAX);
    cr_expect_eq(token_of("other", "bob", "fedcba98765432100", false), UINT64_MAX);
    cr_expect_eq(token_of("other", "bob", "fedcba987654321G", false), UINT64_MAX);
    cr_expect_eq(token_of("other", "bob", "0000000000000000", false), UINT64_MAX);
}

Test(options, hold_names_to_their_limits)
{
    char name[LIMIT_NAME_BYTES + 2];
    struct bus_options options;
    for (size_t bytes = 0; bytes <= LIMIT_NAME_BYTES + 1; bytes++) {
        memset(name, 'n', bytes);
        name[bytes] = '\0';
        bool is_good = bytes >= 1 && bytes <= LIMIT_NAME_BYTES;
        bus_options_init(&options);
        options.party = name;
        cr_expect_eq(check(&options), is_good ? BUS_OK : BUS_EINVAL, "party of %zu", bytes);
        bus_options_init(&options);
        options.job = name;
        cr_expect_eq(check(&options), is_good ? BUS_OK : BUS_EINVAL, "job of %zu", bytes);
    }
    static const char *const bad[] = {"a/b", "+", "#", "a#", "tab\t", "\xff", "a\nb"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        bus_options_init(&options);
        options.party = bad[i];
        cr_expect_eq(check(&options), BUS_EINVAL, "party %s", bad[i]);
        bus_options_init(&options);
        options.job = bad[i];
        cr_expect_eq(check(&options), BUS_EINVAL, "job %s", bad[i]);
    }
}
