/* SPDX-License-Identifier: MPL-2.0 */
/* verdict_test.c -- one root, whoever reports first: rules, cases, limits, a plain reference. */
#include "broker/core/tables/verdict.h"

#include "tests/unit/verdict_reference.h"

#include "libbus/base/must.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SECOND INT64_C(1000000000)
#define HOUR (3600 * SECOND)
#define DAY (24 * (uint64_t)HOUR)
#define LOOK (LIMIT_VERDICT_LOOK_MS * INT64_C(1000000))
#define COUNT(array) ((uint32_t)(sizeof(array) / sizeof *(array)))
#define TEXT(text)                                                                                 \
    {                                                                                              \
        (text), sizeof(text) - 1                                                                   \
    }
#define CAUSE(text) .causes = (const struct span[]){TEXT(text)}, .cause_count = 1
#define BLAME(text) .blames = (const struct verdict_blame[]){{TEXT(text), 0}}, .blame_count = 1

#define ERROR(name, of, ...)                                                                       \
    {                                                                                              \
        .id = TEXT(name), .party = TEXT(of), __VA_ARGS__                                           \
    }
#define ADD(name, of, ...) add((struct verdict_error)ERROR(name, of, __VA_ARGS__))

enum { APPLICATION = 0, PARTY_LOST = 1, DEPENDENCY = 4, CANCELLED = 7, TERMINATED = 8 };

static struct memory memory;
static struct verdict verdict;
static struct verdict_options options = {
    .consequence_kinds = 1 << DEPENDENCY | 1 << TERMINATED,
    .settle_ns = 2 * SECOND,
    .settle_ns_max = 11 * SECOND,
};
static uint64_t random_state = 1;

static void init(void)
{
    memory_heap_init(&memory, UINT64_MAX);
    verdict_init(&verdict, &memory, &options);
}

static void fini(void)
{
    verdict_fini(&verdict);
    must(memory.bytes_used == 0);
}

TestSuite(verdict, .init = init, .fini = fini);

static void again(void)
{
    verdict_fini(&verdict);
    cr_assert_eq(memory.bytes_used, 0);
    verdict_init(&verdict, &memory, &options);
}

/* splitmix64 */
static uint64_t draw(void)
{
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint32_t below(uint32_t count)
{
    return (uint32_t)(draw() % count);
}

static enum verdict_err add(struct verdict_error error)
{
    return verdict_add(&verdict, 1000 * SECOND, &error);
}

static const struct verdict_row *root_of(const struct verdict_result *result)
{
    cr_assert_neq(result->root, VERDICT_NONE);
    return &result->rows[result->root];
}

static const struct verdict_row *find_row(const struct verdict_result *result, const char *id)
{
    for (uint32_t i = 0; i < result->row_count; i++)
        if (span_equal(result->rows[i].error->id, span_text(id)))
            return &result->rows[i];
    cr_assert_fail("no row %s", id);
    return NULL;
}

static const struct verdict_result *weigh(void)
{
    return verdict_weigh(&verdict, 1000 * SECOND);
}

static void expect_root(const char *id)
{
    struct span root = root_of(weigh())->error->id;
    cr_expect(span_equal(root, span_text(id)), "root is %.*s, not %s", (int)root.bytes,
              (const char *)root.data, id);
}

/* All that a result says, as text.  Grows with what is written. */
struct dump {
    char *text;
    size_t bytes;
};

static struct dump dump_result(const struct verdict_result *result)
{
    struct dump dump = {0};
    FILE *file = open_memstream(&dump.text, &dump.bytes);
    cr_assert_not_null(file);
    fprintf(file, "%u %u %s %" PRIu64 " %d %u %u %u %u %u %u %d %d\n", result->root, result->rival,
            verdict_reason_name(result->reason), result->apart_ns, result->is_rival_folded,
            result->candidate_count, result->close_count, result->victim_count, result->apart_count,
            result->farthest, result->unknown_count, result->is_complete, result->is_final);
    for (uint32_t i = 0; i < result->row_count; i++) {
        const struct verdict_row *row = &result->rows[i];
        const struct verdict_error *error = row->error;
        fprintf(file,
                "%.*s %.*s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64
                " %d %s %d %u %u %u\n",
                (int)error->id.bytes, (const char *)error->id.data, (int)error->party.bytes,
                (const char *)error->party.data, error->incarnation, error->kind,
                error->recoverable, error->origin, error->code, row->stamp_ns, error->is_fatal,
                verdict_role_name(row->role), row->link, row->next, row->steps, row->unknown_count);
    }
    fclose(file);
    return dump;
}

static void expect_same(struct dump *first, const struct verdict_result *result)
{
    struct dump dump = dump_result(result);
    if (first->text == NULL) {
        *first = dump;
        return;
    }
    cr_assert_eq(dump.bytes, first->bytes);
    cr_assert_eq(memcmp(dump.text, first->text, dump.bytes), 0, "%s\n-- not --\n%s", dump.text,
                 first->text);
    free(dump.text);
}

static void shuffle(uint32_t *order, uint32_t count)
{
    for (uint32_t i = count; i > 1; i--) {
        uint32_t k = below(i);
        uint32_t other = order[i - 1];
        order[i - 1] = order[k];
        order[k] = other;
    }
}

/* ---- who wins ---------------------------------------------------------------------------------*/

Test(verdict, is_none_without_errors)
{
    const struct verdict_result *result = weigh();
    cr_expect_eq(result->root, VERDICT_NONE);
    cr_expect_eq(result->reason, VERDICT_NO_ROOT);
    cr_expect_eq(result->row_count, 0);
    cr_expect(result->is_complete);
}

Test(verdict, takes_the_earliest_of_100_99_100_with_its_party_code_and_recoverability)
{
    options.strategy = VERDICT_EARLIEST;
    static const struct verdict_error errors[] = {
        ERROR("j/alice/1/1", "alice", .is_fatal = true, .occurred_ns = 100, .code = 1,
              .recoverable = 2),
        ERROR("j/bob/1/1", "bob", .is_fatal = true, .occurred_ns = 99, .code = 7, .recoverable = 1),
        ERROR("j/carol/1/1", "carol", .is_fatal = true, .occurred_ns = 100, .code = 3,
              .recoverable = 2),
    };
    static const uint8_t orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                        {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    struct dump first = {0};
    for (uint32_t i = 0; i < COUNT(orders); i++) {
        again();
        for (uint32_t k = 0; k < 3; k++)
            cr_assert_eq(add(errors[orders[i][k]]), VERDICT_OK);
        const struct verdict_row *root = root_of(weigh());
        cr_expect(span_equal(root->error->party, span_text("bob")));
        cr_expect_eq(root->error->code, 7);
        cr_expect_eq(root->error->recoverable, 1);
        cr_expect_eq(verdict.result.reason, VERDICT_STAMP);
        cr_expect_eq(verdict.result.apart_ns, 1);
        expect_same(&first, &verdict.result);
    }
    free(first.text);
}

/* bob and carol speak before the broker knows of alice; their clocks are off by skew_ns. */
static void killed_with_blamers(int64_t skew_ns)
{
    again();
    int64_t died_ns = 500 * SECOND;
    ADD("j/bob/1/1", "bob", .incarnation = 1, .is_fatal = true,
        .occurred_ns = died_ns + 3 + skew_ns, BLAME("alice"));
    ADD("j/carol/1/1", "carol", .incarnation = 1, .is_fatal = true,
        .occurred_ns = died_ns + 2 + skew_ns, BLAME("alice"));
    ADD("j/alice/1/2", "alice", .incarnation = 1, .kind = PARTY_LOST, .is_fatal = true,
        .occurred_ns = died_ns + 900);
    expect_root("j/alice/1/2");
    cr_expect_eq(verdict.result.reason, VERDICT_ALONE);
    cr_expect_eq(verdict.result.victim_count, 2);
    cr_expect_eq(verdict.result.apart_count, 0);
    const struct verdict_row *bob = find_row(&verdict.result, "j/bob/1/1");
    cr_expect_eq(bob->role, VERDICT_VICTIM);
    cr_expect_eq(bob->next, verdict.result.root);
    cr_expect_eq(bob->link, VERDICT_LINK_BLAME);
}

Test(verdict, is_the_loss_that_others_blame_whatever_their_clocks)
{
    static const int64_t skews[] = {0, HOUR, -HOUR, -500 * SECOND, INT64_MAX / 2, INT64_MIN / 2};
    for (uint32_t i = 0; i < COUNT(skews); i++)
        killed_with_blamers(skews[i]);
}

Test(verdict, ends_mutual_blame_in_the_earlier_of_the_two)
{
    for (int64_t bob_ns = 99; bob_ns <= 101; bob_ns += 2) {
        again();
        ADD("a", "alice", .incarnation = 1, .is_fatal = true, .occurred_ns = 100, BLAME("bob"));
        ADD("b", "bob", .incarnation = 1, .is_fatal = true, .occurred_ns = bob_ns, BLAME("alice"));
        expect_root(bob_ns < 100 ? "b" : "a");
        cr_expect(verdict.result.is_rival_folded);
        cr_expect_eq(verdict.result.reason, VERDICT_STAMP);
        cr_expect_eq(verdict.result.victim_count, 1);
    }
}

Test(verdict, prefers_what_a_ring_of_blame_leads_to)
{
    ADD("a", "alice", .incarnation = 1, .is_fatal = true, .occurred_ns = 1, BLAME("bob"));
    ADD("b", "bob", .incarnation = 1, .is_fatal = true, .occurred_ns = 2,
        .blames = (const struct verdict_blame[]){{TEXT("alice"), 0}, {TEXT("carol"), 0}},
        .blame_count = 2);
    ADD("c", "carol", .incarnation = 1, .is_fatal = true, .occurred_ns = 3);
    expect_root("c");
    cr_expect_eq(verdict.result.victim_count, 2);
    const struct verdict_row *a = find_row(&verdict.result, "a");
    cr_expect_eq(a->steps, 4, "two blames of two steps");
    cr_expect(&verdict.result.rows[a->next] == find_row(&verdict.result, "b"));
    cr_expect(&verdict.result.rows[verdict.result.farthest] == a);
}

/* One failure at 500 s; 63 that follow from it in several ways, some with clocks that are off. */
static struct verdict_error consequence(uint32_t index)
{
    static char ids[64][32], parties[64][16], causes[64][32];
    static struct span links[64];
    static struct verdict_blame blames[64];
    uint32_t cause = index / 3;
    (void)snprintf(ids[index], sizeof *ids, "j/p%u/1/1", index);
    (void)snprintf(parties[index], sizeof *parties, "p%u", index);
    (void)snprintf(causes[index], sizeof *causes, "j/p%u/1/1", cause);
    struct verdict_error error = {.id = span_text(ids[index]),
                                  .party = span_text(parties[index]),
                                  .incarnation = 1,
                                  .is_fatal = true,
                                  .occurred_ns = 500 * SECOND + index,
                                  .uncertainty_ns = 1000};
    if (index == 0)
        return error;
    error.occurred_ns += index % 5 == 0 ? -HOUR / 10 : index % 5 == 1 ? HOUR : 0;
    error.kind = index % 7 == 0 ? TERMINATED : index % 7 == 1 ? DEPENDENCY : APPLICATION;
    if (index % 7 == 0)
        return error; /* told to stop: it knows no cause */
    if (index % 2 == 0) {
        links[index] = span_text(causes[index]);
        error.causes = &links[index];
        error.cause_count = 1;
    } else {
        blames[index].party = span_text(strchr(causes[index], 'p'));
        blames[index].party.bytes -= 4; /* /1/1 */
        error.blames = &blames[index];
        error.blame_count = 1;
    }
    return error;
}

Test(verdict, is_one_for_64_parties_in_a_thousand_orders)
{
    struct verdict_error errors[64];
    uint32_t order[64];
    struct dump first = {0};
    for (uint32_t i = 0; i < 64; i++) {
        order[i] = i;
        errors[i] = consequence(i);
    }
    for (int round = 0; round < 1000; round++) {
        again();
        shuffle(order, 64);
        for (uint32_t i = 0; i < 64; i++)
            cr_assert_eq(add(errors[order[i]]), VERDICT_OK);
        expect_same(&first, weigh());
    }
    expect_root("j/p0/1/1");
    cr_expect_eq(verdict.result.row_count, 64);
    free(first.text);
}

Test(verdict, has_no_consequence_for_a_root_while_anything_else_is_there)
{
    static const uint64_t kinds[] = {TERMINATED, DEPENDENCY};
    for (uint32_t i = 0; i < COUNT(kinds); i++)
        for (int strategy = 0; strategy < VERDICT_STRATEGY_COUNT; strategy++) {
            options.strategy = (enum verdict_strategy)strategy;
            again();
            ADD("told", "alice", .kind = kinds[i], .is_fatal = true, .occurred_ns = 1);
            expect_root("told");
            ADD("real", "bob", .is_fatal = true);
            expect_root("real");
            cr_expect_eq(verdict.result.reason, VERDICT_ALONE);
            cr_expect_eq(find_row(&verdict.result, "told")->role, VERDICT_APART);
        }
}

Test(verdict, takes_the_error_before_a_chain_that_ends_in_a_consequence)
{
    ADD("a", "alice", .is_fatal = true, .occurred_ns = 50, CAUSE("b"));
    ADD("b", "bob", .is_fatal = true, .occurred_ns = 60, CAUSE("c"));
    ADD("c", "carol", .kind = DEPENDENCY, .is_fatal = true, .occurred_ns = 10);
    expect_root("b");
    /* Through a consequence to a cause: that is the end. */
    ADD("c", "carol", .kind = DEPENDENCY, .is_fatal = true, .occurred_ns = 10, CAUSE("d"));
    ADD("d", "dave", .occurred_ns = 90);
    expect_root("d");
    cr_expect_eq(verdict.result.victim_count, 3);
    cr_expect_eq(find_row(&verdict.result, "a")->steps, 3);
}

Test(verdict, counts_errors_of_slots_as_causes_alone)
{
    ADD("slot", "alice", .occurred_ns = 1);
    cr_expect_eq(weigh()->root, VERDICT_NONE);
    ADD("end", "bob", .is_fatal = true, .occurred_ns = 100);
    expect_root("end");
    cr_expect_eq(find_row(&verdict.result, "slot")->role, VERDICT_ASIDE);
    ADD("other", "carol", .is_fatal = true, .occurred_ns = 200, CAUSE("slot"));
    expect_root("slot");
    cr_expect_eq(find_row(&verdict.result, "end")->role, VERDICT_APART);
    options.strategy = VERDICT_EARLIEST;
    again();
    ADD("slot", "alice", .occurred_ns = 1);
    ADD("end", "bob", .is_fatal = true, .occurred_ns = 100);
    expect_root("end");
}

Test(verdict, blames_the_incarnation_that_is_named_or_else_the_newest_that_failed)
{
    static const struct {
        uint64_t incarnation;
        const char *root; /* the one that is blamed is made the earlier of the two */
    } cases[] = {{0, "a3"}, {1, "a1"}, {2, "b"}, {3, "a3"}, {4, "b"}};
    for (uint32_t i = 0; i < COUNT(cases); i++) {
        struct verdict_blame blame = {TEXT("alice"), cases[i].incarnation};
        again();
        ADD("a1", "alice", .incarnation = 1, .is_fatal = true, .occurred_ns = i == 1 ? 30 : 40);
        ADD("a2", "alice", .incarnation = 2,
            .occurred_ns = 31); /* a slot's: this incarnation did not fail */
        ADD("a3", "alice", .incarnation = 3, .is_fatal = true, .occurred_ns = 35);
        ADD("b", "bob", .is_fatal = true, .occurred_ns = 20, .blames = &blame, .blame_count = 1);
        expect_root(cases[i].root);
        bool is_victim = strcmp(cases[i].root, "b") != 0;
        cr_expect_eq(find_row(&verdict.result, "b")->link,
                     is_victim ? VERDICT_LINK_BLAME : VERDICT_LINK_NONE);
        cr_expect_eq(verdict.result.victim_count, is_victim);
    }
}

Test(verdict, lets_nobody_blame_the_incarnation_that_speaks)
{
    ADD("a1", "alice", .incarnation = 2, .is_fatal = true, .occurred_ns = 10, BLAME("alice"));
    ADD("a2", "alice", .incarnation = 2, .is_fatal = true, .occurred_ns = 20);
    expect_root("a1");
    cr_expect_eq(verdict.result.victim_count, 0);
    /* An earlier incarnation of one's own may be blamed. */
    struct verdict_blame blame = {TEXT("alice"), 1};
    again();
    ADD("a1", "alice", .incarnation = 2, .is_fatal = true, .occurred_ns = 10, .blames = &blame,
        .blame_count = 1);
    ADD("a0", "alice", .incarnation = 1, .is_fatal = true, .occurred_ns = 20);
    expect_root("a0");
}

Test(verdict, prefers_the_way_by_a_cause_to_one_as_long_by_blame)
{
    static const struct span causes[] = {TEXT("m")};
    struct verdict_blame blame = {TEXT("alice"), 0};
    ADD("r", "alice", .is_fatal = true, .occurred_ns = 9);
    ADD("m", "mid", .occurred_ns = 10, CAUSE("r"));
    ADD("v", "vic", .is_fatal = true, .occurred_ns = 11, .causes = causes, .cause_count = 1,
        .blames = &blame, .blame_count = 1);
    /* Both ways are two steps; the first row of the total order decides: r before m. */
    const struct verdict_row *v = find_row(weigh(), "v");
    cr_expect_eq(v->steps, 2);
    cr_expect_eq(v->next, verdict.result.root);
    cr_expect_eq(v->link, VERDICT_LINK_BLAME);
    const struct verdict_row *m = find_row(&verdict.result, "m");
    cr_expect_eq(m->steps, 1);
    cr_expect_eq(m->link, VERDICT_LINK_CAUSE);
    cr_expect_eq(m->role, VERDICT_VICTIM, "though a job cannot fail of it");
}

Test(verdict, looks_at_arrival_with_first_and_with_first_alone)
{
    static const char *const roots[] = {"a", "a", "b"};
    for (int strategy = 0; strategy < VERDICT_STRATEGY_COUNT; strategy++) {
        options.strategy = (enum verdict_strategy)strategy;
        again();
        ADD("b", "bob", .is_fatal = true, .occurred_ns = 20);
        ADD("a", "alice", .is_fatal = true, .occurred_ns = 10);
        expect_root(roots[strategy]);
        cr_expect_eq(verdict.result.reason,
                     strategy == VERDICT_FIRST ? VERDICT_ARRIVED : VERDICT_STAMP);
    }
}

/* ---- stamps -----------------------------------------------------------------------------------*/

struct stamp {
    int64_t occurred_ns;
    uint64_t uncertainty_ns;
    int64_t believed_from_ns;
};

static void add_stamped(const char *id, struct stamp stamp)
{
    add((struct verdict_error){.id = span_text(id),
                               .party = TEXT("alice"),
                               .is_fatal = true,
                               .occurred_ns = stamp.occurred_ns,
                               .uncertainty_ns = stamp.uncertainty_ns,
                               .believed_from_ns = stamp.believed_from_ns});
}

Test(verdict, never_puts_a_missing_zero_or_absurd_stamp_first)
{
    static const struct stamp cases[] = {
        {0, 0, 0},
        {-1, 0, 0},
        {INT64_MIN, 0, 0},
        {1, UINT64_MAX, 0},        /* the clock was never compared */
        {1, DAY + 1, 0},           /* wrong by more than a day */
        {1000 * SECOND + 1, 0, 0}, /* behind the moment of weighing */
        {INT64_MAX, 0, 0},
        {INT64_MAX, DAY, 0},
        {1, 0, 2}, /* before its incarnation */
        {1, 5, 7},
        {INT64_MIN, UINT64_MAX, INT64_MAX},
        {1, 1, INT64_MAX},
    };
    for (uint32_t i = 0; i < COUNT(cases); i++)
        for (int strategy = VERDICT_CAUSAL; strategy <= VERDICT_EARLIEST; strategy++) {
            options.strategy = (enum verdict_strategy)strategy;
            again();
            add_stamped("absurd", cases[i]);
            expect_root("absurd");
            ADD("good", "zoe", .is_fatal = true, .occurred_ns = 1000 * SECOND);
            expect_root("good");
            cr_expect_eq(verdict.result.reason, VERDICT_STAMPED, "case %u", i);
            cr_expect_eq(find_row(&verdict.result, "absurd")->stamp_ns, 0);
        }
}

Test(verdict, believes_stamps_up_to_their_bounds)
{
    static const struct stamp cases[] = {
        {1, 0, 0},
        {1, DAY, 0},
        {1000 * SECOND, 0, 0},
        {1000 * SECOND + 5, 5, 0}, /* within its uncertainty of now */
        {2, 0, 2},
        {2, 5, 7}, /* within its uncertainty of its incarnation's beginning */
    };
    for (uint32_t i = 0; i < COUNT(cases); i++) {
        again();
        add_stamped("x", cases[i]);
        cr_expect_eq(root_of(weigh())->stamp_ns, cases[i].occurred_ns, "case %u", i);
    }
}

Test(verdict, dates_a_silent_death_back_to_the_last_sign_of_life)
{
    ADD("lost", "alice", .kind = PARTY_LOST, .is_fatal = true, .occurred_ns = 300 * SECOND,
        .last_sign_ns = 290 * SECOND, .uncertainty_ns = SECOND);
    ADD("timeout", "bob", .is_fatal = true, .occurred_ns = 295 * SECOND);
    expect_root("lost");
    cr_expect_eq(root_of(&verdict.result)->stamp_ns, 290 * SECOND);
    cr_expect_eq(root_of(&verdict.result)->error->uncertainty_ns, SECOND, "it is kept");
    cr_expect_eq(verdict.result.reason, VERDICT_STAMP);
    /* A sign of life behind the death is none; a death without a stamp has the sign. */
    static const int64_t occurred[] = {280 * SECOND, 0};
    for (uint32_t i = 0; i < COUNT(occurred); i++) {
        again();
        add((struct verdict_error){.id = TEXT("lost"),
                                   .is_fatal = true,
                                   .occurred_ns = occurred[i],
                                   .last_sign_ns = 290 * SECOND});
        cr_expect_eq(root_of(weigh())->stamp_ns, occurred[i] > 0 ? occurred[i] : 290 * SECOND);
    }
}

Test(verdict, orders_by_the_middle_and_says_when_uncertainties_overlap)
{
    static const struct {
        uint64_t uncertainty_ns[2];
        enum verdict_reason reason;
        uint32_t close_count;
    } cases[] = {
        {{0, 0}, VERDICT_STAMP, 0},        /* the stamps are 10 apart */
        {{4, 5}, VERDICT_STAMP, 0},        /* less than that together */
        {{5, 5}, VERDICT_STAMP_CLOSE, 1},  /* they touch */
        {{6, 5}, VERDICT_STAMP_CLOSE, 1},  /* they overlap */
        {{0, 10}, VERDICT_STAMP_CLOSE, 1}, /* so does one alone */
        {{DAY, DAY}, VERDICT_STAMP_CLOSE, 1},
    };
    for (uint32_t i = 0; i < COUNT(cases); i++) {
        again();
        ADD("a", "zoe", .is_fatal = true, .occurred_ns = 100,
            .uncertainty_ns = cases[i].uncertainty_ns[0]);
        ADD("b", "bob", .is_fatal = true, .occurred_ns = 110,
            .uncertainty_ns = cases[i].uncertainty_ns[1]);
        expect_root("a");
        cr_expect_eq(verdict.result.reason, cases[i].reason, "case %u", i);
        cr_expect_eq(verdict.result.close_count, cases[i].close_count, "case %u", i);
        cr_expect_eq(verdict.result.apart_ns, 10);
    }
}

/* Each goes before all that follow. */
Test(verdict, breaks_ties_by_one_total_order)
{
    static const struct verdict_error order[] = {
        ERROR("x9", "zoe", .incarnation = 9, .occurred_ns = 1, .uncertainty_ns = 9),
        ERROR("x8", "zoe", .incarnation = 9, .occurred_ns = 2),
        ERROR("x7", "al", .incarnation = 9, .occurred_ns = 2, .uncertainty_ns = 1),
        ERROR("x6", "alice", .incarnation = 9, .occurred_ns = 2, .uncertainty_ns = 1),
        ERROR("y", "bob", .incarnation = 3, .occurred_ns = 2, .uncertainty_ns = 1),
        ERROR("b/9", "bob", .incarnation = 10, .occurred_ns = 2, .uncertainty_ns = 1),
        ERROR("b/10", "bob", .incarnation = 10, .occurred_ns = 2, .uncertainty_ns = 1),
        ERROR("b/11", "bob", .incarnation = 10, .occurred_ns = 2, .uncertainty_ns = 1),
        ERROR("n1", "", .incarnation = 1, .uncertainty_ns = 8),
        ERROR("n0", "a", .incarnation = 1, .uncertainty_ns = 7),
        ERROR("m0", "b", .incarnation = 1, .uncertainty_ns = 6),
    };
    static const enum verdict_reason reasons[] = {
        VERDICT_STAMP_CLOSE, VERDICT_SURER, VERDICT_NAMED,   VERDICT_NAMED, VERDICT_NAMED,
        VERDICT_NAMED,       VERDICT_NAMED, VERDICT_STAMPED, VERDICT_NAMED, VERDICT_NAMED,
    };
    for (uint32_t i = 0; i + 1 < COUNT(order); i++) {
        again();
        for (uint32_t k = COUNT(order); k > i; k--) {
            struct verdict_error error = order[k - 1];
            error.is_fatal = true;
            add(error);
        }
        const struct verdict_result *result = weigh();
        cr_expect_eq(result->root, 0);
        cr_expect_eq(result->rival, 1);
        cr_expect_eq(result->reason, reasons[i], "%u: %s", i, verdict_reason_name(result->reason));
        for (uint32_t k = i; k < COUNT(order); k++)
            cr_expect(span_equal(result->rows[k - i].error->id, order[k].id), "%u %u", i, k);
    }
}

Test(verdict, says_when_a_cause_is_known_to_nobody)
{
    add((struct verdict_error){.id = TEXT("aside"), .occurred_ns = 1, CAUSE("gone")});
    add((struct verdict_error){.id = TEXT("a"), .is_fatal = true, .occurred_ns = 2});
    cr_expect(weigh()->is_complete, "what is not in scope does not matter");
    add((struct verdict_error){.id = TEXT("b"), .is_fatal = true, .occurred_ns = 3, CAUSE("c")});
    cr_expect_not(weigh()->is_complete);
    cr_expect_eq(verdict.result.unknown_count, 1);
    cr_expect_eq(find_row(&verdict.result, "b")->unknown_count, 1);
    add((struct verdict_error){.id = TEXT("c"), .occurred_ns = 4});
    cr_expect(weigh()->is_complete);
}

Test(verdict, ignores_an_error_that_is_its_own_cause)
{
    add((struct verdict_error){.id = TEXT("a"), .is_fatal = true, CAUSE("a")});
    expect_root("a");
    cr_expect_eq(verdict.result.victim_count, 0);
    cr_expect(verdict.result.is_complete);
}

/* ---- versions of one id -----------------------------------------------------------------------*/

#define HEARSAY(...)                                                                               \
    {                                                                                              \
        .id = TEXT("a"), .occurred_ns = 1, .code = 3, .is_hearsay = true, __VA_ARGS__              \
    }
#define CAUSES(first, count) .causes = two + (first), .cause_count = (count)
#define BLAMES(first) .blames = by_party + (first), .blame_count = 1

Test(verdict, keeps_the_better_version_whichever_came_first)
{
    static const struct span two[] = {TEXT("c"), TEXT("d")};
    static const struct verdict_blame by_party[] = {{TEXT("p"), 0}, {TEXT("p"), 1}, {TEXT("q"), 0}};
    static const struct verdict_error versions[] = {
        /* best first */
        {.id = TEXT("a"), .occurred_ns = 50, .code = 1},
        {.id = TEXT("a"), .occurred_ns = 50, .code = 2},
        {.id = TEXT("a"), .occurred_ns = 50, .code = 2, .party = TEXT("p")},
        {.id = TEXT("a"), .occurred_ns = 60, .code = 0},
        HEARSAY(CAUSES(0, 2)),
        HEARSAY(CAUSES(0, 1), BLAMES(0)),
        HEARSAY(CAUSES(0, 1), BLAMES(1)),
        HEARSAY(CAUSES(0, 1), BLAMES(2)),
        HEARSAY(CAUSES(0, 1)),
        HEARSAY(CAUSES(1, 1)),
        {.id = TEXT("a"), .occurred_ns = 1, .code = 0, .is_hearsay = true},
    };
    for (uint32_t i = 0; i < COUNT(versions); i++)
        for (uint32_t k = 0; k < COUNT(versions); k++) {
            struct verdict_error fatal = versions[k];
            fatal.is_fatal = true;
            again();
            cr_assert_eq(add(versions[i]), VERDICT_OK);
            cr_assert_eq(add(fatal), VERDICT_KNOWN);
            const struct verdict_row *root = root_of(weigh());
            const struct verdict_error *best = &versions[i < k ? i : k];
            cr_expect_eq(verdict.result.row_count, 1);
            cr_expect(root->error->is_fatal, "if one of them is");
            cr_expect_eq(root->error->code, best->code, "%u %u", i, k);
            cr_expect_eq(root->error->occurred_ns, best->occurred_ns);
            cr_expect_eq(root->error->party.bytes, best->party.bytes);
            cr_expect_eq(root->error->cause_count, best->cause_count);
            cr_expect_eq(root->error->blame_count, best->blame_count);
            if (best->cause_count > 0)
                cr_expect(span_equal(root->error->causes[0], best->causes[0]));
            if (best->blame_count > 0) {
                cr_expect(span_equal(root->error->blames[0].party, best->blames[0].party));
                cr_expect_eq(root->error->blames[0].incarnation, best->blames[0].incarnation);
            }
        }
}

/* ---- a plain reference ------------------------------------------------------------------------*/

static char pool_ids[24][16];
static char pool_parties[5][8];

static void name_pool(void)
{
    for (uint32_t i = 0; i < COUNT(pool_ids); i++)
        (void)snprintf(pool_ids[i], sizeof *pool_ids, "j/%u", i * 3);
    for (uint32_t i = 0; i < COUNT(pool_parties); i++)
        (void)snprintf(pool_parties[i], sizeof *pool_parties, "%.*s", (int)(1 + i % 3),
                       i < 3 ? "aaa" : "bbb");
}

struct drawn {
    struct verdict_error error;
    struct span causes[3];
    struct verdict_blame blames[3];
};

static int64_t draw_stamp(void)
{
    static const int64_t odd[] = {0, -5, INT64_MAX, INT64_MIN, 1000 * SECOND + 3};
    return below(5) == 0 ? odd[below(COUNT(odd))] : (int64_t)(1 + below(12));
}

static void draw_error(struct drawn *drawn, uint32_t ids)
{
    struct verdict_error *error = &drawn->error;
    *error = (struct verdict_error){
        .id = span_text(pool_ids[below(ids)]),
        .party = below(12) == 0 ? SPAN_NONE : span_text(pool_parties[below(5)]),
        .incarnation = 1 + below(2),
        .kind = below(10),
        .recoverable = below(2),
        .origin = below(2),
        .code = (int64_t)below(3) - 1,
        .occurred_ns = draw_stamp(),
        .uncertainty_ns = below(6) == 0 ? draw() : below(4),
        .last_sign_ns = below(8) == 0 ? draw_stamp() : 0,
        .believed_from_ns = below(8) == 0 ? (int64_t)below(9) : 0,
        .is_fatal = below(3) != 0,
        .is_hearsay = below(4) == 0,
        .causes = drawn->causes,
        .blames = drawn->blames,
        .cause_count = below(3) == 0 ? below(4) : 0,
        .blame_count = below(2) == 0 ? below(4) : 0,
    };
    for (uint32_t i = 0; i < error->cause_count; i++)
        drawn->causes[i] = span_text(pool_ids[below(ids + 1)]);
    for (uint32_t i = 0; i < error->blame_count; i++)
        drawn->blames[i] = (struct verdict_blame){.party = span_text(pool_parties[below(5)]),
                                                  .incarnation = below(4) == 0 ? 1 + below(3) : 0};
}

/* The job goes on for a window after all that was added so far. */
static void survive_all(struct reference *reference)
{
    static const struct verdict_job enough = {.remaining = 9, .remaining_min = 1, .unended = 9};
    bool is_loss = verdict.fresh_count > 0;
    cr_assert_eq(verdict_step(&verdict, 1002 * SECOND, &enough), VERDICT_SAYS_NOTHING);
    for (int i = 0; i < reference->count && is_loss; i++)
        reference->errors[i].is_survived = true;
    for (int i = 0; i < reference->count && !is_loss; i++)
        cr_assert(!reference->errors[i].error.is_fatal || reference->errors[i].is_survived);
}

static void compare_row(const struct reference *reference, int edges[REFERENCE_MAX][REFERENCE_MAX],
                        int at)
{
    const struct verdict_row *row = &verdict.result.rows[at];
    cr_assert(span_equal(row->error->id, reference->errors[at].error.id));
    cr_assert_eq(row->stamp_ns, reference_stamp(&reference->errors[at].error, 1000 * SECOND));
    cr_assert_eq(row->error->is_fatal, reference->errors[at].error.is_fatal);
    cr_assert_eq((int)row->unknown_count, reference_unknown(reference, at));
    int root = reference->root;
    int distance = root < 0 ? REFERENCE_FAR : at == root ? 0 : reference->distance[at][root];
    if (distance >= REFERENCE_FAR) {
        bool is_apart = root >= 0 && reference->is_in_scope[at];
        cr_assert_eq(row->role, is_apart ? VERDICT_APART : VERDICT_ASIDE);
        cr_assert_eq(row->next, VERDICT_NONE);
        return;
    }
    cr_assert_eq(row->role, at == root ? VERDICT_ROOT : VERDICT_VICTIM);
    cr_assert_eq((int)row->steps, distance);
    if (at == root)
        return;
    int next = -1;
    for (int k = reference->count - 1; k >= 0; k--) {
        int rest = k == root ? 0 : reference->distance[k][root];
        if (edges[at][k] < REFERENCE_FAR && edges[at][k] + rest == distance)
            next = k;
    }
    cr_assert_eq((int)row->next, next);
    cr_assert_eq(row->link, reference->link[at][next]);
}

static void compare_with(struct reference *reference)
{
    static int edges[REFERENCE_MAX][REFERENCE_MAX];
    const struct verdict_result *result = weigh();
    reference_sort(reference, 1000 * SECOND);
    reference_measure(reference, edges);
    reference_choose(reference, &options);
    cr_assert_eq((int)result->row_count, reference->count);
    cr_assert_eq((int)result->root, reference->root);
    cr_assert_eq((int)result->rival, reference->rival);
    int candidates = 0, unknown = 0;
    for (int i = 0; i < reference->count; i++) {
        compare_row(reference, edges, i);
        candidates += reference->is_candidate[i];
        unknown += reference->is_in_scope[i] ? reference_unknown(reference, i) : 0;
    }
    cr_assert_eq((int)result->candidate_count, candidates);
    cr_assert_eq((int)result->unknown_count, unknown);
    if (reference->rival >= 0)
        cr_assert_eq(result->is_rival_folded,
                     reference_leads(reference, reference->root, reference->rival) &&
                         reference_leads(reference, reference->rival, reference->root));
}

Test(verdict, agrees_with_a_plain_reference_in_100_000_cases)
{
    static struct reference reference;
    static struct drawn drawn[12];
    uint32_t roots = 0, victims = 0, folded = 0, survivors = 0;
    name_pool();
    for (uint32_t round = 0; round < 100000; round++) {
        uint32_t count = 1 + below(COUNT(drawn));
        uint32_t survived = below(4) == 0 ? below(count) : count;
        options.strategy = (enum verdict_strategy)(round % VERDICT_STRATEGY_COUNT);
        reference.count = reference.arrivals = 0;
        again();
        for (uint32_t i = 0; i < count; i++) {
            if (i == survived)
                survive_all(&reference);
            draw_error(&drawn[i], 1 + count);
            reference_add(&reference, &drawn[i].error);
            (void)add(drawn[i].error);
        }
        compare_with(&reference);
        roots += verdict.result.root != VERDICT_NONE;
        victims += verdict.result.victim_count;
        folded += verdict.result.is_rival_folded;
        for (int i = 0; i < reference.count; i++)
            survivors += reference.errors[i].is_survived;
    }
    /* What was drawn is worth comparing. */
    cr_expect_gt(roots, 80000);
    cr_expect_gt(victims, 50000);
    cr_expect_gt(folded, 2000);
    cr_expect_gt(survivors, 10000);
}

Test(verdict, is_the_same_in_any_order_of_arrival)
{
    static struct drawn drawn[40];
    uint32_t order[40];
    name_pool();
    for (uint32_t round = 0; round < 2000; round++) {
        uint32_t count = 2 + below(COUNT(drawn) - 1);
        struct dump first = {0};
        options.strategy = (enum verdict_strategy)(round % 2);
        for (uint32_t i = 0; i < count; i++) {
            order[i] = i;
            draw_error(&drawn[i], COUNT(pool_ids) - 1);
        }
        for (int turn = 0; turn < 4; turn++) {
            again();
            for (uint32_t i = 0; i < count; i++)
                (void)add(drawn[order[i]].error);
            expect_same(&first, weigh());
            shuffle(order, count);
        }
        free(first.text);
    }
}

/* ---- when -------------------------------------------------------------------------------------*/

static const struct verdict_job whole = {.remaining = 3, .remaining_min = 3, .unended = 3};
static const struct verdict_job broken = {.remaining = 2, .remaining_min = 3, .unended = 2};
static const struct verdict_job doubted = {
    .remaining = 2, .remaining_min = 3, .unended = 2, .doubtful = 1};
static const struct verdict_job ended = {.remaining = 0, .remaining_min = 3};

static enum verdict_err add_at(int64_t now_ns, const char *id, int64_t occurred_ns)
{
    struct verdict_error error = {.id = span_text(id),
                                  .party = span_text(id),
                                  .incarnation = 1,
                                  .is_fatal = true,
                                  .occurred_ns = occurred_ns};
    return verdict_add(&verdict, now_ns, &error);
}

static bool root_is(const char *id)
{
    return span_equal(root_of(verdict_result(&verdict))->error->id, span_text(id));
}

Test(verdict, says_nothing_of_losses_that_the_job_survives)
{
    static const struct verdict_job jobs[] = {
        {.remaining = 3, .remaining_min = 3, .unended = 3},
        {.remaining = 0, .remaining_min = 0}, /* nobody created it: no end of its own */
        {.remaining = 2, .remaining_min = 3, .unended = 2, .awaits_spares = true},
    };
    for (uint32_t i = 0; i < COUNT(jobs); i++) {
        again();
        cr_assert_eq(add_at(10, "a", 5), VERDICT_OK);
        for (int64_t now_ns = 10; now_ns < 30 * SECOND; now_ns += SECOND / 2)
            cr_expect_eq(verdict_step(&verdict, now_ns, &jobs[i]), VERDICT_SAYS_NOTHING);
    }
}

Test(verdict, says_nothing_of_a_job_without_an_error)
{
    cr_expect_eq(verdict_step(&verdict, 1, &ended), VERDICT_SAYS_NOTHING);
    struct verdict_error slot = {.id = TEXT("slot"), .occurred_ns = 1};
    cr_assert_eq(verdict_add(&verdict, 2, &slot), VERDICT_OK);
    cr_expect_eq(verdict_step(&verdict, 2, &ended), VERDICT_SAYS_NOTHING);
    cr_expect_eq(verdict_due_ns(&verdict), INT64_MAX);
}

Test(verdict, is_provisional_at_once_and_final_when_the_window_closes)
{
    cr_assert_eq(verdict_step(&verdict, 10, &whole), VERDICT_SAYS_NOTHING);
    cr_assert_eq(add_at(10, "b", 9), VERDICT_OK);
    cr_expect_eq(verdict_step(&verdict, 10, &broken), VERDICT_SAYS_PROVISIONAL);
    cr_expect(root_is("b"));
    cr_expect_not(verdict_result(&verdict)->is_final);
    cr_expect_eq(verdict_step(&verdict, 10, &broken), VERDICT_SAYS_NOTHING);
    cr_expect_eq(verdict_due_ns(&verdict), 10 + 2 * SECOND);
    cr_expect_eq(verdict_step(&verdict, 10 + 2 * SECOND - 1, &broken), VERDICT_SAYS_NOTHING);
    cr_expect_eq(verdict_step(&verdict, 10 + 2 * SECOND, &broken), VERDICT_SAYS_FINAL);
    cr_expect(verdict_result(&verdict)->is_final);
    cr_expect_eq(verdict_due_ns(&verdict), INT64_MAX);
    cr_expect_eq(verdict_step(&verdict, 10 + 3 * SECOND, &broken), VERDICT_SAYS_NOTHING);
}

Test(verdict, is_corrected_by_a_root_that_comes_inside_the_window)
{
    add_at(SECOND, "b", 9);
    cr_assert_eq(verdict_step(&verdict, SECOND, &broken), VERDICT_SAYS_PROVISIONAL);
    cr_assert_eq(add_at(SECOND + LOOK - 1, "a", 8), VERDICT_OK);
    cr_expect_eq(verdict_due_ns(&verdict), SECOND + LOOK);
    cr_expect_eq(verdict_step(&verdict, SECOND + LOOK - 1, &broken), VERDICT_SAYS_NOTHING);
    cr_expect_eq(verdict_step(&verdict, SECOND + LOOK, &broken), VERDICT_SAYS_CORRECTED);
    cr_expect(root_is("a"));
    cr_expect_not(verdict_result(&verdict)->is_final);
    cr_expect_eq(verdict_step(&verdict, SECOND + LOOK, &broken), VERDICT_SAYS_NOTHING);
    /* One that is no better changes nothing, and the last nanosecond counts. */
    add_at(SECOND + LOOK, "c", 10);
    cr_expect_eq(verdict_step(&verdict, SECOND + 2 * LOOK, &broken), VERDICT_SAYS_NOTHING);
    cr_assert_eq(add_at(3 * SECOND - 1, "z", 7), VERDICT_OK);
    cr_expect_eq(verdict_due_ns(&verdict), SECOND + 3 * LOOK);
    cr_expect_eq(verdict_step(&verdict, 3 * SECOND, &broken), VERDICT_SAYS_FINAL);
    cr_expect(root_is("z"));
    cr_expect_eq(verdict_result(&verdict)->row_count, 4);
}

Test(verdict, looks_for_corrections_less_often_the_more_there_is)
{
    static const struct {
        uint32_t count;
        int64_t factor;
    } cases[] = {{1023, 1}, {1024, 2}, {1025, 2}, {4095, 4}, {4096, 5}};
    for (uint32_t i = 0; i < COUNT(cases); i++) {
        char id[16];
        again();
        add_at(SECOND, "b", 9);
        cr_assert_eq(verdict_step(&verdict, SECOND, &broken), VERDICT_SAYS_PROVISIONAL);
        for (uint32_t k = 1; k < cases[i].count; k++) {
            (void)snprintf(id, sizeof id, "%u", k);
            add_at(SECOND, id, k < 9 ? 8 : 10);
        }
        int64_t due_ns = SECOND + cases[i].factor * LOOK;
        cr_expect_eq(verdict_due_ns(&verdict), due_ns, "case %u", i);
        cr_expect_eq(verdict_step(&verdict, due_ns - 1, &broken), VERDICT_SAYS_NOTHING);
        cr_expect_eq(verdict_step(&verdict, due_ns, &broken), VERDICT_SAYS_CORRECTED);
    }
}

Test(verdict, is_not_changed_by_what_is_late)
{
    add_at(SECOND, "b", 9);
    cr_assert_eq(verdict_step(&verdict, SECOND, &broken), VERDICT_SAYS_PROVISIONAL);
    /* Late by the clock, though no step has said so yet. */
    cr_expect_eq(add_at(3 * SECOND, "a", 8), VERDICT_LATE);
    cr_expect_eq(verdict_step(&verdict, 4 * SECOND, &broken), VERDICT_SAYS_FINAL);
    cr_expect_eq(add_at(4 * SECOND, "a", 8), VERDICT_LATE);
    cr_expect_eq(add_at(4 * SECOND, "b", 9), VERDICT_LATE);
    cr_expect_eq(verdict.late_count, 3);
    cr_expect_eq(verdict_weigh(&verdict, 9 * SECOND), verdict_result(&verdict));
    cr_expect(root_is("b"));
    cr_expect(verdict_result(&verdict)->is_final);
    cr_expect_eq(verdict_result(&verdict)->row_count, 1);
}

/* As a broker begins again that had said its last word. */
Test(verdict, stays_final_when_it_is_restored)
{
    add_at(SECOND, "b", 9);
    verdict_restore_final(&verdict, SECOND);
    cr_expect(root_is("b"));
    cr_expect(verdict_result(&verdict)->is_final);
    cr_expect_eq(verdict_step(&verdict, SECOND, &broken), VERDICT_SAYS_NOTHING);
    cr_expect_eq(verdict_due_ns(&verdict), INT64_MAX);
    cr_expect_eq(add_at(SECOND, "a", 8), VERDICT_LATE);
}

Test(verdict, waits_longer_while_a_party_is_in_doubt_but_not_for_ever)
{
    add_at(0, "b", 9);
    cr_assert_eq(verdict_step(&verdict, 0, &doubted), VERDICT_SAYS_PROVISIONAL);
    cr_expect_eq(verdict_due_ns(&verdict), 11 * SECOND);
    cr_expect_eq(verdict_step(&verdict, 11 * SECOND - 1, &doubted), VERDICT_SAYS_NOTHING);
    cr_expect_eq(add_at(11 * SECOND - 1, "a", 8), VERDICT_OK);
    cr_expect_eq(add_at(11 * SECOND, "z", 7), VERDICT_LATE);
    cr_expect_eq(verdict_step(&verdict, 11 * SECOND, &doubted), VERDICT_SAYS_FINAL);
    cr_expect(root_is("a"));
}

Test(verdict, is_final_with_the_loss_of_the_party_in_doubt)
{
    struct verdict_error blaming =
        ERROR("b", "bob", .incarnation = 1, .is_fatal = true, .occurred_ns = 5, BLAME("a"));
    cr_assert_eq(verdict_add(&verdict, 10, &blaming), VERDICT_OK);
    cr_assert_eq(verdict_step(&verdict, 10, &doubted), VERDICT_SAYS_PROVISIONAL);
    cr_expect(root_is("b"));
    cr_expect_eq(verdict_step(&verdict, 5 * SECOND, &doubted), VERDICT_SAYS_NOTHING);
    cr_assert_eq(add_at(8 * SECOND, "a", 7 * SECOND), VERDICT_OK);
    cr_expect_eq(verdict_step(&verdict, 8 * SECOND, &broken), VERDICT_SAYS_FINAL);
    cr_expect(root_is("a"), "its stamp is later, but it is blamed");
}

Test(verdict, is_final_as_soon_as_all_have_ended)
{
    add_at(10, "b", 9);
    cr_expect_eq(verdict_step(&verdict, 10, &ended), VERDICT_SAYS_PROVISIONAL);
    cr_expect_eq(verdict_step(&verdict, 10, &ended), VERDICT_SAYS_FINAL);
    cr_expect_eq(verdict_step(&verdict, 10, &ended), VERDICT_SAYS_NOTHING);
}

Test(verdict, is_given_when_the_job_is_called_off_or_no_spare_came)
{
    static const struct verdict_job jobs[] = {
        {.remaining = 3, .remaining_min = 3, .unended = 3, .is_called_off = true},
        {.remaining = 3,
         .remaining_min = 3,
         .is_called_off = true,
         .unended = 3,
         .awaits_spares = true},
        {.remaining = 2, .remaining_min = 3, .unended = 2},
    };
    static const struct verdict_job waiting = {
        .remaining = 2, .remaining_min = 3, .unended = 2, .awaits_spares = true};
    for (uint32_t i = 0; i < COUNT(jobs); i++) {
        again();
        add_at(10, "a", 9);
        /* Waiting for spares is not surviving. */
        cr_expect_eq(verdict_due_ns(&verdict), 10 + 2 * SECOND);
        cr_assert_eq(verdict_step(&verdict, 10, &waiting), VERDICT_SAYS_NOTHING);
        cr_expect_eq(verdict_due_ns(&verdict), INT64_MAX);
        cr_assert_eq(verdict_step(&verdict, 60 * SECOND, &waiting), VERDICT_SAYS_NOTHING);
        cr_expect_eq(verdict_step(&verdict, 60 * SECOND, &jobs[i]), VERDICT_SAYS_PROVISIONAL);
        cr_expect(root_is("a"));
    }
}

Test(verdict, forgets_a_loss_that_was_survived_unless_something_leads_to_it)
{
    static const struct verdict_job two = {.remaining = 2, .remaining_min = 2, .unended = 2};
    static const struct verdict_job one = {.remaining = 1, .remaining_min = 2, .unended = 1};
    for (int is_blamed = 0; is_blamed < 2; is_blamed++)
        for (int64_t late_ns = -1; late_ns <= 1; late_ns++) {
            again();
            add_at(10, "a", 9);
            cr_assert_eq(verdict_step(&verdict, 10, &two), VERDICT_SAYS_NOTHING);
            cr_expect_eq(verdict_due_ns(&verdict), 10 + 2 * SECOND);
            struct verdict_error error =
                ERROR("b", "b", .is_fatal = true, .occurred_ns = SECOND, BLAME("a"));
            error.blame_count = (uint32_t)is_blamed;
            int64_t now_ns = 10 + 2 * SECOND + late_ns;
            cr_assert_eq(verdict_add(&verdict, now_ns, &error), VERDICT_OK);
            cr_expect_eq(verdict_step(&verdict, now_ns, &one), VERDICT_SAYS_PROVISIONAL);
            cr_expect(root_is(is_blamed || late_ns < 0 ? "a" : "b"));
            if (!is_blamed && late_ns >= 0)
                cr_expect_eq(find_row(verdict_result(&verdict), "a")->role, VERDICT_ASIDE);
        }
}

Test(verdict, survives_nothing_while_a_party_is_in_doubt)
{
    static const struct verdict_job doubt = {
        .remaining = 3, .remaining_min = 3, .unended = 3, .doubtful = 1};
    add_at(0, "a", 9);
    cr_assert_eq(verdict_step(&verdict, 0, &doubt), VERDICT_SAYS_NOTHING);
    cr_expect_eq(verdict_due_ns(&verdict), 11 * SECOND);
    cr_assert_eq(verdict_step(&verdict, 11 * SECOND - 1, &doubt), VERDICT_SAYS_NOTHING);
    cr_expect_eq(verdict.fresh_count, 1);
    cr_assert_eq(verdict_step(&verdict, 11 * SECOND, &doubt), VERDICT_SAYS_NOTHING);
    cr_expect_eq(verdict.fresh_count, 0);
    /* Said again as a party's end, an old error of a slot is fresh; an old loss is not. */
    cr_expect_eq(add_at(12 * SECOND, "a", 9), VERDICT_KNOWN);
    cr_expect_eq(verdict.fresh_count, 0);
}

Test(verdict, keeps_periods_within_their_bounds)
{
    static const int64_t day = LIMIT_PERIOD_MS_MAX * 1000000;
    static const struct {
        int64_t settle_ns, settle_ns_max, want_ns, want_ns_max;
    } cases[] = {
        {-1, -1, 0, 0},
        {0, 0, 0, 0},
        {1, 0, 1, 1},
        {5, 9, 5, 9},
        {day - 1, day, day - 1, day},
        {day, day + 1, day, day},
        {day + 1, INT64_MAX, day, day},
        {INT64_MIN, INT64_MAX, 0, day},
    };
    for (uint32_t i = 0; i < COUNT(cases); i++) {
        options.settle_ns = cases[i].settle_ns;
        options.settle_ns_max = cases[i].settle_ns_max;
        again();
        cr_expect_eq(verdict.options.settle_ns, cases[i].want_ns);
        cr_expect_eq(verdict.options.settle_ns_max, cases[i].want_ns_max);
        add_at(INT64_MAX - 1, "a", 1);
        (void)verdict_step(&verdict, INT64_MAX - 1, &doubted);
        cr_expect_geq(verdict_due_ns(&verdict), INT64_MAX - 1, "no overflow");
    }
}

/* ---- limits -----------------------------------------------------------------------------------*/

static char long_text[LIMIT_ERROR_ID_BYTES + 2];

static void fill_long_text(void)
{
    memset(long_text, 'x', sizeof long_text);
}

Test(verdict, holds_texts_and_links_to_their_limits)
{
    static const struct {
        size_t id, party, cause, blame;
        uint32_t causes, blames;
        enum verdict_err err;
    } cases[] = {
        {1, 0, 1, 1, 0, 0, VERDICT_OK},
        {0, 0, 1, 1, 0, 0, VERDICT_REFUSED},
        {LIMIT_ERROR_ID_BYTES - 1, 0, 1, 1, 0, 0, VERDICT_OK},
        {LIMIT_ERROR_ID_BYTES, 0, 1, 1, 0, 0, VERDICT_OK},
        {LIMIT_ERROR_ID_BYTES + 1, 0, 1, 1, 0, 0, VERDICT_REFUSED},
        {1, LIMIT_NAME_BYTES - 1, 1, 1, 0, 0, VERDICT_OK},
        {1, LIMIT_NAME_BYTES, 1, 1, 0, 0, VERDICT_OK},
        {1, LIMIT_NAME_BYTES + 1, 1, 1, 0, 0, VERDICT_REFUSED},
        {1, 0, 0, 1, 1, 0, VERDICT_REFUSED},
        {1, 0, LIMIT_ERROR_ID_BYTES, 1, LIMIT_ERROR_CAUSES - 1, 0, VERDICT_OK},
        {1, 0, LIMIT_ERROR_ID_BYTES, 1, LIMIT_ERROR_CAUSES, 0, VERDICT_OK},
        {1, 0, 2, 1, LIMIT_ERROR_CAUSES + 1, 0, VERDICT_REFUSED},
        {1, 0, LIMIT_ERROR_ID_BYTES + 1, 1, 1, 0, VERDICT_REFUSED},
        {1, 0, 1, 0, 0, 1, VERDICT_REFUSED},
        {1, 0, 1, LIMIT_NAME_BYTES, 0, LIMIT_ERROR_BLAMES - 1, VERDICT_OK},
        {1, 0, 1, LIMIT_NAME_BYTES, 0, LIMIT_ERROR_BLAMES, VERDICT_OK},
        {1, 0, 1, 2, 0, LIMIT_ERROR_BLAMES + 1, VERDICT_REFUSED},
        {1, 0, 1, LIMIT_NAME_BYTES + 1, 0, 1, VERDICT_REFUSED},
        {9, 9, 9, 9, LIMIT_ERROR_CAUSES, LIMIT_ERROR_BLAMES, VERDICT_OK},
    };
    struct span causes[LIMIT_ERROR_CAUSES + 1];
    struct verdict_blame blames[LIMIT_ERROR_BLAMES + 1];
    fill_long_text();
    for (uint32_t i = 0; i < COUNT(cases); i++) {
        for (uint32_t k = 0; k < COUNT(causes); k++)
            causes[k] = span_of(long_text, cases[i].cause);
        for (uint32_t k = 0; k < COUNT(blames); k++)
            blames[k] = (struct verdict_blame){.party = span_of(long_text, cases[i].blame)};
        again();
        enum verdict_err err =
            add((struct verdict_error){.id = span_of(long_text, cases[i].id),
                                       .party = span_of(long_text, cases[i].party),
                                       .is_fatal = true,
                                       .causes = causes,
                                       .cause_count = cases[i].causes,
                                       .blames = blames,
                                       .blame_count = cases[i].blames});
        cr_expect_eq(err, cases[i].err, "case %u", i);
        cr_expect_eq(verdict.refused_count, err == VERDICT_REFUSED);
        cr_expect_eq(weigh()->row_count, err == VERDICT_OK);
        cr_expect_eq(verdict.result.unknown_count,
                     err == VERDICT_OK && cases[i].cause != cases[i].id ? cases[i].causes : 0);
    }
}

Test(verdict, refuses_another_attempt_and_is_not_spoiled)
{
    options.attempt = 2;
    again();
    add((struct verdict_error){.id = TEXT("a"), .attempt = 2, .is_fatal = true, .occurred_ns = 5});
    cr_expect_eq(add((struct verdict_error){
                     .id = TEXT("b"), .attempt = 1, .is_fatal = true, .occurred_ns = 1}),
                 VERDICT_REFUSED);
    cr_expect_eq(add((struct verdict_error){
                     .id = TEXT("b"), .attempt = 3, .is_fatal = true, .occurred_ns = 1}),
                 VERDICT_REFUSED);
    expect_root("a");
    cr_expect_eq(verdict.refused_count, 2);
    cr_expect_eq(verdict.result.row_count, 1);
    cr_expect(verdict.result.is_complete);
}

Test(verdict, takes_a_kind_that_it_does_not_know_for_a_cause)
{
    add((struct verdict_error){.id = TEXT("a"), .kind = UINT64_MAX, .is_fatal = true});
    add((struct verdict_error){.id = TEXT("b"), .kind = 64 + TERMINATED, .is_fatal = true});
    add((struct verdict_error){
        .id = TEXT("c"), .kind = TERMINATED, .is_fatal = true, .occurred_ns = 1});
    expect_root("a");
    cr_expect_eq(verdict.result.candidate_count, 2);
}

/* The index-th of many, in the total order. */
static enum verdict_err add_one_of_many(uint32_t index, bool is_fatal)
{
    char id[16];
    (void)snprintf(id, sizeof id, "j/%u", index);
    return add((struct verdict_error){
        .id = span_text(id), .is_fatal = is_fatal, .occurred_ns = 1 + index});
}

Test(verdict, holds_the_first_in_order_at_its_limit)
{
    enum { LIMIT = LIMIT_VERDICT_ERRORS };
    static const uint32_t counts[] = {LIMIT - 1, LIMIT, LIMIT + 1, 2 * LIMIT, 2 * LIMIT + 1};
    for (uint32_t i = 0; i < COUNT(counts); i++) {
        bool is_beyond = counts[i] > LIMIT;
        for (int is_backwards = 0; is_backwards < 2; is_backwards++) {
            again();
            for (uint32_t k = 0; k < counts[i]; k++)
                cr_assert_eq(add_one_of_many(is_backwards ? counts[i] - 1 - k : k, true),
                             VERDICT_OK);
            expect_root("j/0");
            const struct verdict_result *result = verdict_result(&verdict);
            cr_expect_eq(result->row_count, is_beyond ? LIMIT : counts[i]);
            cr_expect_eq(result->is_complete, !is_beyond);
            for (uint32_t row = 0; row < result->row_count; row++)
                cr_assert_eq(result->rows[row].stamp_ns, row + 1);
            cr_expect_eq(verdict.fresh_count, result->row_count);
            cr_expect_eq(verdict.by_id.count, result->row_count);
            cr_expect_eq(add_one_of_many(0, true), VERDICT_KNOWN);
        }
    }
}

Test(verdict, lets_slots_errors_go_before_ends_and_survived_ones_before_both)
{
    enum { LIMIT = LIMIT_VERDICT_ERRORS };
    for (uint32_t i = 0; i < LIMIT; i++)
        add_one_of_many(i, i % 2 == 0);
    survive_all(&(struct reference){0});
    cr_expect_eq(weigh()->root, VERDICT_NONE);
    /* A slot's error and an end more: two that were survived go, the oldest. */
    add_one_of_many(LIMIT, false);
    add_one_of_many(LIMIT + 1, true);
    expect_root("j/16385");
    cr_expect(verdict.result.is_complete, "what was survived is not missed");
    cr_expect_eq(verdict.result.row_count, LIMIT);
    cr_expect_eq(verdict.result.rows[0].stamp_ns, 1, "an end, it stays");
    cr_expect_eq(verdict.result.rows[1].stamp_ns, 3, "a slot's oldest went, and so did its next");
    cr_expect_eq(verdict.result.rows[2].stamp_ns, 5);
    cr_expect_eq(verdict.result.rows[3].stamp_ns, 6);
    /* Then as many ends as there is room for: the slot's goes too. */
    for (uint32_t i = 0; i < LIMIT; i++)
        add_one_of_many(LIMIT + 2 + i, true);
    expect_root("j/16385");
    cr_expect_not(verdict.result.is_complete);
    cr_expect_eq(verdict.fresh_count, LIMIT);
    cr_expect_eq(verdict.result.rows[0].stamp_ns, LIMIT + 2);
}

/* Each error has ten links to earlier ones, so there are 10,000 with 100,000 edges; their root is
 * the first, whatever was blamed on the way. */
Test(verdict, weighs_10_000_errors_with_100_000_links)
{
    enum { MANY = 10000, CAUSES = 7, BLAMES = 3 };
    char texts[CAUSES + BLAMES][16], id[16], party[16];
    struct span causes[CAUSES];
    struct verdict_blame blames[BLAMES];
    for (uint32_t i = 0; i < MANY; i++) {
        (void)snprintf(id, sizeof id, "j/%u", i);
        (void)snprintf(party, sizeof party, "p%u", i);
        for (uint32_t k = 0; k < CAUSES + BLAMES; k++) {
            uint32_t to = k == 0 ? (i > 0 ? i - 1 : 0) : below(i + 1);
            bool is_cause = k < CAUSES;
            (void)snprintf(texts[k], sizeof *texts, is_cause ? "j/%u" : "p%u", to);
            if (is_cause)
                causes[k] = span_text(texts[k]);
            else
                blames[k - CAUSES] = (struct verdict_blame){.party = span_text(texts[k])};
        }
        cr_assert_eq(add((struct verdict_error){.id = span_text(id),
                                                .party = span_text(party),
                                                .incarnation = 1,
                                                .is_fatal = true,
                                                .occurred_ns = 1 + below(1000000),
                                                .causes = causes,
                                                .cause_count = CAUSES,
                                                .blames = blames,
                                                .blame_count = BLAMES}),
                     VERDICT_OK);
    }
    expect_root("j/0");
    cr_expect_eq(verdict.result.reason, VERDICT_ALONE);
    cr_expect_eq(verdict.result.victim_count, MANY - 1);
    cr_expect_eq(verdict.result.candidate_count, 1);
}

/* ---- memory -----------------------------------------------------------------------------------*/

static uint64_t calls_left;

static void *failing_resize(struct memory *unused, void *block, size_t old_bytes, size_t new_bytes)
{
    (void)unused;
    (void)old_bytes;
    if (new_bytes == 0) {
        free(block);
        return NULL;
    }
    if (calls_left == 0)
        return NULL;
    calls_left -= 1;
    return realloc(block, new_bytes);
}

Test(verdict, loses_nothing_but_the_error_for_which_memory_is_short)
{
    enum { ERRORS = 40 };
    uint32_t fails = 0;
    memory.resize = failing_resize;
    for (uint64_t call = 0; call < 200; call++) {
        calls_left = UINT64_MAX;
        again();
        uint32_t kept = 0;
        calls_left = call;
        for (uint32_t i = 0; i < ERRORS; i++) {
            enum verdict_err err = add_one_of_many(i, true);
            kept += err == VERDICT_OK;
            cr_assert(err == VERDICT_OK || err == VERDICT_NO_MEMORY);
            cr_assert_eq(weigh()->row_count, kept, "weighing needs no memory");
            fails += err == VERDICT_NO_MEMORY;
        }
        if (kept > 0)
            expect_root("j/0");
        cr_expect_eq(verdict.result.is_complete, kept == ERRORS);
        /* A better version that finds no memory leaves the one that is there. */
        calls_left = 0;
        struct verdict_error better = ERROR("j/0", "p", .occurred_ns = -1);
        if (kept > 0) {
            cr_expect_eq(add(better), VERDICT_NO_MEMORY);
            cr_expect_not(weigh()->is_complete);
            expect_root("j/0");
        }
        calls_left = UINT64_MAX;
        for (uint32_t i = 0; i < ERRORS; i++)
            cr_assert_leq(add_one_of_many(i, true), VERDICT_KNOWN);
        cr_expect_eq(weigh()->row_count, ERRORS);
        cr_expect_eq(verdict.result.candidate_count, ERRORS);
    }
    cr_expect_gt(fails, 100);
}

/* ---- words ------------------------------------------------------------------------------------*/

Test(verdict, has_a_word_for_everything)
{
    for (int i = 0; i < VERDICT_REASON_COUNT; i++)
        for (int k = 0; k < i; k++) {
            cr_expect_str_neq(verdict_reason_name((enum verdict_reason)i),
                              verdict_reason_name((enum verdict_reason)k));
            cr_expect_str_neq(verdict_reason_text((enum verdict_reason)i),
                              verdict_reason_text((enum verdict_reason)k));
        }
    cr_expect_str_eq(verdict_role_name(VERDICT_ROOT), "root");
    cr_expect_str_eq(verdict_role_name(VERDICT_VICTIM), "victim");
    cr_expect_str_eq(verdict_role_name(VERDICT_APART), "apart");
    cr_expect_str_eq(verdict_role_name(VERDICT_ASIDE), "aside");
    for (int i = 0; i < VERDICT_STRATEGY_COUNT; i++) {
        enum verdict_strategy found = VERDICT_STRATEGY_COUNT;
        const char *name = verdict_strategy_name((enum verdict_strategy)i);
        cr_assert(verdict_strategy_find(span_text(name), &found));
        cr_expect_eq(found, i);
    }
    enum verdict_strategy untouched = VERDICT_FIRST;
    cr_expect_not(verdict_strategy_find(span_text("earlies"), &untouched));
    cr_expect_not(verdict_strategy_find(span_text(""), &untouched));
    cr_expect_eq(untouched, VERDICT_FIRST);
}

Test(verdict, says_that_its_caller_left_out_an_error)
{
    add_at(SECOND, "b", 9);
    cr_expect_eq(verdict_leave_out(&verdict, SECOND), VERDICT_NO_MEMORY);
    cr_expect_not(weigh()->is_complete);
    expect_root("b");
    cr_assert_eq(verdict_step(&verdict, SECOND, &broken), VERDICT_SAYS_PROVISIONAL);
    cr_expect_eq(verdict_leave_out(&verdict, 3 * SECOND - 1), VERDICT_NO_MEMORY);
    cr_expect_eq(verdict_leave_out(&verdict, 3 * SECOND), VERDICT_LATE);
    cr_expect_eq(verdict.late_count, 1);
}
