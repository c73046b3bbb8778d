/* SPDX-License-Identifier: MPL-2.0 */
/* flow_window_test.c -- windows over a modelled link: a rate, a delay, and a queue before it. */
#include "libbus/base/flow_window.h"
#include "libbus/base/limits.h"
#include "libbus/base/trip.h"

#include <criterion/criterion.h>

#define MS_NS INT64_C(1000000)
#define S_NS INT64_C(1000000000)
#define KIB UINT64_C(1024)
#define MIB (UINT64_C(1024) * 1024)
#define FLOOR (512 * KIB)

enum { BATCH = 65536, UNDER_WAY_MAX = 4096 };

/* The sender always has more, but for app_rate.  One batch is sent after the other. */
struct model {
    struct flow_share share;
    struct flow_window flow;
    uint64_t rate; /* bytes a second */
    int64_t delay_ns;
    uint64_t batch;    /* bytes */
    int64_t hop_ns;    /* a second link: each batch is passed on when it is whole */
    uint64_t app_rate; /* 0: no bound */
    int64_t now_ns;
    int64_t free_ns; /* when the link has sent all that was given to it */
    int64_t app_ns;  /* when the sender has the next batch */
    uint64_t sent;
    struct {
        int64_t at_ns;
        uint64_t position;
    } answers[UNDER_WAY_MAX]; /* on their way, a ring */
    unsigned head, count;
    int64_t queue_ns_max; /* that a batch waited before the link */
    uint64_t window_max;
};

static int64_t far_ns(int64_t delay_ns)
{
    return 2 * delay_ns < TRIP_NEAR_NS ? 0 : 2 * delay_ns;
}

static void model_init(struct model *model, uint64_t rate, int64_t delay_ns)
{
    *model = (struct model){
        .share = {.bytes_max = 1024 * MIB}, .rate = rate, .delay_ns = delay_ns, .batch = BATCH};
    flow_window_init(&model->flow, &model->share, FLOOR, 256 * MIB);
    flow_window_restart(&model->flow, far_ns(delay_ns));
}

static void send_batch(struct model *model)
{
    int64_t start_ns = model->free_ns > model->now_ns ? model->free_ns : model->now_ns;
    if (start_ns - model->now_ns > model->queue_ns_max)
        model->queue_ns_max = start_ns - model->now_ns;
    model->free_ns = start_ns + (int64_t)(model->batch * (uint64_t)S_NS / model->rate);
    flow_window_piece(&model->flow, model->batch);
    flow_window_sent(&model->flow, model->sent, model->sent + model->batch, model->now_ns);
    model->sent += model->batch;
    cr_assert_lt(model->count, UNDER_WAY_MAX);
    unsigned at = (model->head + model->count++) % UNDER_WAY_MAX;
    model->answers[at].at_ns = model->free_ns + model->hop_ns + 2 * model->delay_ns;
    model->answers[at].position = model->sent;
}

static void send_all(struct model *model)
{
    while (model->sent - model->flow.arrived < flow_window_bytes(&model->flow)) {
        if (model->app_rate > 0 && model->app_ns > model->now_ns) {
            flow_window_stopped(&model->flow, false);
            return;
        }
        send_batch(model);
        if (model->app_rate > 0)
            model->app_ns =
                (model->app_ns > model->now_ns - MS_NS ? model->app_ns : model->now_ns) +
                (int64_t)(model->batch * (uint64_t)S_NS / model->app_rate);
    }
    flow_window_stopped(&model->flow, true);
}

/* Runs for so long.  Returns the bytes a second that arrived. */
static uint64_t run(struct model *model, int64_t ns)
{
    int64_t end_ns = model->now_ns + ns;
    uint64_t before = model->flow.arrived;
    model->queue_ns_max = 0;
    model->window_max = 0;
    for (;;) {
        send_all(model);
        uint64_t window = flow_window_bytes(&model->flow);
        model->window_max = window > model->window_max ? window : model->window_max;
        bool is_app = model->app_rate > 0 && !model->flow.is_held;
        bool is_answer =
            model->count > 0 && !(is_app && model->app_ns < model->answers[model->head].at_ns);
        int64_t next_ns = is_answer ? model->answers[model->head].at_ns : model->app_ns;
        cr_assert(is_answer || is_app, "it goes on");
        if (next_ns >= end_ns)
            break;
        model->now_ns = next_ns > model->now_ns ? next_ns : model->now_ns;
        if (!is_answer)
            continue;
        flow_window_arrived(&model->flow, model->answers[model->head].position, model->now_ns);
        model->head = (model->head + 1) % UNDER_WAY_MAX;
        model->count -= 1;
    }
    model->now_ns = end_ns;
    return (model->flow.arrived - before) * (uint64_t)S_NS / (uint64_t)ns;
}

static const uint64_t rates[] = {10000000 / 8, 100000000 / 8, 1000000000 / 8};
static const int64_t delays_ns[] = {MS_NS / 10, 5 * MS_NS, 25 * MS_NS, 100 * MS_NS};

/* What bytes are in time on this link. */
static int64_t ns_of(const struct model *model, uint64_t bytes)
{
    return (int64_t)(bytes * (uint64_t)S_NS / model->rate);
}

/* What may stand before a link when it is full: a part of a round trip, the floor, and a batch. */
static int64_t queue_ns_most(const struct model *model)
{
    bool is_near = far_ns(model->delay_ns) == 0;
    uint64_t bytes = (is_near ? FLOOR : FLOW_LEAST_BYTES) + FLOW_STEP_BYTES + 3 * BATCH;
    return 2 * model->delay_ns / 4 + 2 * FLOW_SLACK_NS + ns_of(model, bytes);
}

Test(flow_window, fills_each_link_and_leaves_no_queue)
{
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        for (size_t j = 0; j < sizeof delays_ns / sizeof *delays_ns; j++) {
            struct model model;
            model_init(&model, rates[i], delays_ns[j]);
            run(&model, 4 * S_NS);
            for (int part = 0; part < 10; part++) {
                uint64_t got = run(&model, 6 * S_NS);
                cr_expect_geq(got, rates[i] / 100 * 95, "%zu, %zu: %lu of %lu", i, j, got,
                              rates[i]);
                cr_expect_leq(model.queue_ns_max, queue_ns_most(&model), "%zu, %zu: %ld ns", i, j,
                              model.queue_ns_max);
            }
        }
    }
}

Test(flow_window, doubles_with_each_round_trip_at_first)
{
    struct model model;
    model_init(&model, rates[2], 100 * MS_NS);
    run(&model, 7 * 200 * MS_NS); /* 5 doublings lie between 1 MB and 25 MB */
    cr_assert_geq(run(&model, S_NS), rates[2] / 100 * 95);
}

/* At the start of a long link all is sent in one burst, twice as fast as the link carries it. */
Test(flow_window, does_not_end_the_start_behind_a_burst)
{
    struct model model;
    model_init(&model, rates[2], 200 * MS_NS);
    run(&model, 7 * 400 * MS_NS); /* 5 doublings lie between 2 MB and 50 MB */
    cr_assert_geq(run(&model, S_NS), rates[2] / 100 * 95);
}

/* Where the round trip is given, the window is that of a topic. */
static void model_init_given(struct model *model, uint64_t rate, int64_t delay_ns)
{
    model_init(model, rate, delay_ns);
    flow_window_fini(&model->flow);
    flow_window_init(&model->flow, &model->share, FLOW_START_BYTES_MAX, 256 * MIB);
    flow_window_set_trip(&model->flow, far_ns(delay_ns));
}

/* What may stand before a link while the window grows.  A queue is seen when it is two slacks long.
 * That is known a round trip later, in which the window doubles.  And what the window begins
 * with. */
static int64_t start_queue_ns_most(const struct model *model)
{
    int64_t trip_ns = far_ns(model->delay_ns);
    uint64_t first = flow_carried(FLOW_START_RATE, trip_ns);
    int64_t grown_ns = trip_ns / 8 * 11 + 3 * FLOW_SLACK_MOST_NS + ns_of(model, 3 * BATCH);
    return grown_ns > ns_of(model, first) ? grown_ns : ns_of(model, first);
}

Test(flow_window, starts_with_little_queue_before_any_link)
{
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        for (size_t j = 1; j < sizeof delays_ns / sizeof *delays_ns; j++) {
            for (int is_given = 0; is_given < 2; is_given++) {
                struct model model;
                if (is_given)
                    model_init_given(&model, rates[i], delays_ns[j]);
                else
                    model_init(&model, rates[i], delays_ns[j]);
                run(&model, 5 * S_NS);
                cr_expect_leq(model.queue_ns_max, start_queue_ns_most(&model),
                              "%zu, %zu, %d: %ld of %ld ms", i, j, is_given,
                              (long)(model.queue_ns_max / MS_NS),
                              (long)(start_queue_ns_most(&model) / MS_NS));
            }
        }
    }
}

/* Once the link is full the queue of the start goes: so long it may last. */
Test(flow_window, leaves_the_queue_of_the_start_soon)
{
    for (size_t j = 2; j < sizeof delays_ns / sizeof *delays_ns; j++) {
        struct model model;
        int64_t trip_ns = far_ns(delays_ns[j]);
        int64_t queue_ns = 0;
        model_init_given(&model, rates[2], delays_ns[j]);
        for (int part = 0; part < 500; part++) {
            run(&model, 10 * MS_NS);
            queue_ns += model.queue_ns_max > FLOW_SLACK_MOST_NS + trip_ns / 8 ? 10 * MS_NS : 0;
        }
        cr_expect_leq(queue_ns, 3 * trip_ns, "%zu: %ld ms", j, (long)(queue_ns / MS_NS));
        cr_expect_geq(run(&model, S_NS), rates[2] / 100 * 95, "%zu", j);
    }
}

/* A round that ends behind a large piece seems to be faster than it is. */
Test(flow_window, begins_no_start_again_for_a_round_that_was_a_little_faster)
{
    struct flow_share share = {.bytes_max = 1024 * MIB};
    struct flow_window flow;
    const struct {
        uint64_t bytes;
        int64_t ns;
    } rounds[] = {{10 * MIB, 100 * MS_NS}, {17 * MIB, 140 * MS_NS}, {13 * MIB, 100 * MS_NS}};
    int64_t now_ns = S_NS;
    flow_window_init(&flow, &share, FLOOR, 256 * MIB);
    flow_window_restart(&flow, 100 * MS_NS);
    for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++) {
        flow_window_stopped(&flow, true);
        flow_window_sent(&flow, flow.arrived, flow.arrived + rounds[i].bytes, now_ns);
        now_ns += rounds[i].ns;
        flow_window_arrived(&flow, flow.arrived + rounds[i].bytes, now_ns);
        cr_expect_eq(flow.is_full, i > 0, "%zu", i);
    }
}

/* Values of 1 MiB over two links of 100 Mbit/s: each takes 84 ms on each of them. */
Test(flow_window, has_room_for_a_piece_on_each_of_two_links)
{
    struct model model;
    model_init_given(&model, rates[1], 50 * MS_NS);
    model.batch = MIB;
    model.hop_ns = ns_of(&model, MIB);
    run(&model, 5 * S_NS);
    cr_expect_geq(run(&model, 4 * S_NS), rates[1] / 100 * 95);
    cr_expect_leq(model.queue_ns_max, model.hop_ns + 2 * FLOW_SLACK_MOST_NS);
}

/* One question after the other: the bytes of an answer take three round trips or more. */
Test(flow_window, of_questions_grows_until_answers_take_long)
{
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        int64_t trip_ns = 200 * MS_NS;
        uint64_t bytes = 65536;
        int64_t took_ns = 0;
        for (int question = 0; question < 20; question++) {
            took_ns = trip_ns + (int64_t)(bytes * (uint64_t)S_NS / rates[i]);
            bytes = flow_question_bytes(bytes, took_ns, trip_ns);
        }
        cr_expect_geq(took_ns, 4 * trip_ns, "%zu", i);
        cr_expect_lt(took_ns, 9 * trip_ns, "%zu", i);
    }
    cr_expect_eq(flow_question_bytes(100, 399, 100), 200);
    cr_expect_eq(flow_question_bytes(100, 400, 100), 100);
    cr_expect_eq(flow_question_bytes(100, 899, 100), 100);
    cr_expect_eq(flow_question_bytes(100, 900, 100), 50, "the link became slower");
}

Test(flow_window, is_the_floor_on_one_machine)
{
    struct model model;
    model_init(&model, UINT64_C(2000000000), 50 * MS_NS / 1000);
    for (int part = 0; part < 25; part++) {
        run(&model, S_NS);
        cr_assert_eq(model.window_max, FLOOR);
    }
}

/* A piece fills the window, and the answer takes as long as a ninth of it. */
Test(flow_window, has_room_for_another_piece_on_a_short_link_that_is_slow)
{
    struct model model;
    model_init(&model, rates[2], 450 * MS_NS / 1000);
    model.batch = MIB;
    run(&model, S_NS);
    cr_expect_geq(run(&model, S_NS), rates[2] / 100 * 98);
    cr_expect_leq(model.window_max, FLOOR + MIB);
    model.rate = UINT64_C(2000000000); /* as on one machine */
    run(&model, S_NS);
    run(&model, S_NS);
    cr_expect_eq(model.window_max, FLOOR);
    model.rate = rates[0]; /* so slow that the answer is nothing to it */
    run(&model, 5 * S_NS);
    run(&model, 5 * S_NS);
    cr_expect_eq(model.window_max, FLOOR);
}

Test(flow_window, falls_with_the_rate_within_ten_round_trips)
{
    struct model model;
    model_init(&model, rates[2], 25 * MS_NS);
    run(&model, 3 * S_NS);
    uint64_t before = flow_window_bytes(&model.flow);
    model.rate /= 10;
    /* What is on its way fills a queue: so a round trip takes that long first. */
    run(&model, 10 * (50 * MS_NS + ns_of(&model, before) / 4));
    cr_expect_leq(flow_window_bytes(&model.flow), before / 6);
    cr_expect_geq(run(&model, S_NS), model.rate / 100 * 95);
    cr_expect_leq(model.queue_ns_max, queue_ns_most(&model), "%ld ns", model.queue_ns_max);
    model.rate *= 10;
    run(&model, S_NS);
    cr_expect_geq(run(&model, S_NS), model.rate / 100 * 95, "and grows with it again");
}

Test(flow_window, follows_a_path_that_becomes_longer_or_shorter)
{
    struct model model;
    model_init(&model, rates[2], 25 * MS_NS);
    run(&model, 3 * S_NS);
    model.delay_ns = 75 * MS_NS;
    run(&model, FLOW_TRIP_KEPT_NS + 3 * S_NS);
    cr_expect_geq(run(&model, 2 * S_NS), model.rate / 100 * 95);
    model.delay_ns = 25 * MS_NS;
    cr_expect_geq(run(&model, 2 * S_NS), model.rate / 100 * 95);
    run(&model, FLOW_TRIP_KEPT_NS);
    cr_expect_geq(run(&model, 2 * S_NS), model.rate / 100 * 95);
    cr_expect_leq(model.queue_ns_max, queue_ns_most(&model), "%ld ns", model.queue_ns_max);
}

/* Smallest and largest window between two measurements of the round trip. */
Test(flow_window, does_not_oscillate)
{
    struct model model;
    uint64_t least = UINT64_MAX;
    uint64_t most = 0;
    model_init(&model, rates[2], 25 * MS_NS);
    run(&model, 3 * S_NS);
    for (int part = 0; part < 30 * 20; part++) {
        run(&model, 50 * MS_NS);
        uint64_t window = flow_window_bytes(&model.flow);
        least = window < least ? window : least;
        most = window > most ? window : most;
    }
    uint64_t carried = rates[2] / 20;
    cr_expect_geq(least, carried / 10 * 7, "%lu of %lu", least, carried);
    cr_expect_leq(most, carried / 10 * 13, "%lu of %lu", most, carried);
}

Test(flow_window, keeps_what_it_knows_while_the_sender_has_little)
{
    struct model model;
    model_init(&model, rates[2], 25 * MS_NS);
    run(&model, 3 * S_NS);
    uint64_t before = flow_window_bytes(&model.flow);
    model.app_rate = rates[2] / 20;
    model.app_ns = model.now_ns;
    run(&model, 8 * S_NS);
    run(&model, 8 * S_NS);
    uint64_t after = flow_window_bytes(&model.flow);
    cr_expect_geq(after, before / 10 * 6, "%lu of %lu", after, before);
    cr_expect_leq(after, before / 10 * 13, "%lu of %lu", after, before);
    model.app_rate = 0;
    run(&model, S_NS / 2);
    cr_expect_geq(run(&model, S_NS), rates[2] / 100 * 95, "at once");
}

/* A link of which the sender never used more than a part: the window is no larger than that. */
Test(flow_window, does_not_grow_for_a_sender_that_has_little)
{
    struct model model;
    model_init(&model, rates[2], 100 * MS_NS);
    model.app_rate = rates[0] / 4;
    run(&model, 8 * S_NS);
    cr_assert_leq(model.window_max, FLOW_START_BYTES_MAX);
    model.app_rate = rates[1];
    run(&model, 8 * S_NS);
    cr_assert_leq(model.window_max, rates[1] / 5 * 8,
                  "what six round trips' worth of what it sends");
}

Test(flow_window, goes_on_after_a_standstill)
{
    struct model model;
    model_init(&model, rates[2], 25 * MS_NS);
    run(&model, 3 * S_NS);
    model.free_ns = model.now_ns + 2 * S_NS;
    run(&model, 3 * S_NS);
    cr_assert_geq(run(&model, S_NS), rates[2] / 100 * 95);
}

Test(flow_window, is_never_more_than_it_may_be)
{
    struct model model;
    struct flow_share share = {.bytes_max = UINT64_MAX};
    model_init(&model, rates[2], 100 * MS_NS);
    flow_window_fini(&model.flow);
    flow_window_init(&model.flow, &model.share, FLOOR, 2 * MIB);
    flow_window_restart(&model.flow, 200 * MS_NS);
    run(&model, 5 * S_NS);
    cr_assert_eq(model.window_max, 2 * MIB);
    flow_window_init(&model.flow, &share, FLOOR, FLOOR / 3);
    cr_assert_eq(flow_window_bytes(&model.flow), FLOOR / 3, "the floor is no more, either");
}

Test(flow_window, shares_a_sum_by_need)
{
    struct model models[3];
    uint64_t whole[3];
    for (size_t i = 0; i < 3; i++) {
        model_init(&models[i], rates[2], (int64_t)(i + 1) * 25 * MS_NS);
        run(&models[i], 5 * S_NS);
        whole[i] = flow_window_bytes(&models[i].flow);
    }
    struct flow_share share = {0};
    for (size_t i = 0; i < 3; i++) {
        models[i].flow.share = &share;
        share.wanted += models[i].flow.more_bytes;
    }
    share.bytes_max = share.wanted / 4;
    uint64_t sum = 0;
    for (size_t i = 0; i < 3; i++) {
        uint64_t window = flow_window_bytes(&models[i].flow);
        sum += window - FLOOR;
        cr_expect_geq(window - FLOOR, (whole[i] - FLOOR) / 4 - 64 * KIB);
        cr_expect_leq(window - FLOOR, (whole[i] - FLOOR) / 4);
    }
    cr_assert_leq(sum, share.bytes_max);
    flow_window_fini(&models[2].flow);
    flow_window_fini(&models[1].flow);
    share.bytes_max = share.wanted;
    cr_assert_eq(flow_window_bytes(&models[0].flow), whole[0], "what others leave is there");
    flow_window_restart(&models[0].flow, 0);
    cr_assert_eq(share.wanted, 0);
    cr_assert_eq(flow_window_bytes(&models[0].flow), FLOOR);
}

/* That is shared, too, as all is that is beyond a floor. */
Test(flow_window, is_wider_for_a_reason_of_its_sender)
{
    struct flow_share share = {.bytes_max = 8 * MIB};
    struct flow_window flows[2];
    for (size_t i = 0; i < 2; i++)
        flow_window_init(&flows[i], &share, FLOOR, 16 * MIB);
    flow_window_widen(&flows[0], 3 * MIB);
    cr_expect_eq(flow_window_bytes(&flows[0]), FLOOR + 3 * MIB);
    cr_expect_eq(flow_window_bytes(&flows[1]), FLOOR);
    flow_window_widen(&flows[0], 32 * MIB);
    cr_expect_eq(share.wanted, 16 * MIB - FLOOR, "with it the window is the largest");
    flow_window_widen(&flows[1], 2 * MIB);
    cr_expect_leq(flow_window_bytes(&flows[0]) + flow_window_bytes(&flows[1]), 2 * FLOOR + 8 * MIB);
    flow_window_learn(&flows[1], 50 * MS_NS);
    flow_window_learn(&flows[1], 0);
    cr_expect_eq(share.wanted, 18 * MIB - FLOOR, "another link changes nothing of it");
    flow_window_widen(&flows[0], 0);
    cr_expect_eq(flow_window_bytes(&flows[0]), FLOOR);
    flow_window_restart(&flows[1], 0);
    cr_expect_eq(flow_window_bytes(&flows[1]), FLOOR, "a new connection begins anew");
    cr_expect_eq(share.wanted, 0);
    flow_window_init(&flows[0], &share, FLOOR, FLOOR);
    flow_window_widen(&flows[0], 1);
    cr_expect_eq(flow_window_bytes(&flows[0]), FLOOR, "the reader has room for no more");
}

/* A thousand readers as in limits.h, over links that need little, and then much. */
enum { READERS = 1000 };
static struct flow_window windows[READERS];

/* All behind links of this rate.  Returns what they may have on their way together. */
static uint64_t run_readers(struct flow_share *share, size_t from, uint64_t rate)
{
    static struct model model;
    uint64_t sum = 0;
    for (size_t i = from; i < READERS; i++) {
        model_init(&model, rate, 100 * MS_NS);
        flow_window_fini(&windows[i]);
        flow_window_init(&model.flow, share, FLOOR, LIMIT_SUB_WINDOW_BYTES);
        flow_window_restart(&model.flow, 200 * MS_NS);
        run(&model, 3 * S_NS);
        windows[i] = model.flow; /* its part of what is wanted stays */
    }
    for (size_t i = 0; i < READERS; i++)
        sum += flow_window_bytes(&windows[i]);
    return sum;
}

Test(flow_window, of_a_thousand_readers_are_bounded_and_shared_by_need)
{
    struct flow_share share = {.bytes_max = LIMIT_READER_WINDOWS_BYTES};
    for (size_t i = 0; i < READERS; i++)
        flow_window_init(&windows[i], &share, 0, 0);
    cr_expect_leq(run_readers(&share, 0, rates[0]), READERS * FLOOR, "10 Mbit/s need no more");
    cr_expect_eq(share.wanted, 0);
    (void)run_readers(&share, READERS - 10, rates[2]);
    for (size_t i = READERS - 10; i < READERS; i++)
        cr_expect_geq(flow_window_bytes(&windows[i]), rates[2] / 5 / 100 * 95,
                      "ten have all that they need");
    uint64_t sum = run_readers(&share, 0, rates[2]);
    cr_expect_geq(share.wanted, 2 * LIMIT_READER_WINDOWS_BYTES, "they want more than there is");
    cr_expect_leq(sum, READERS * FLOOR + LIMIT_READER_WINDOWS_BYTES);
    cr_expect_geq(sum, LIMIT_READER_WINDOWS_BYTES / 2, "which is not left unused");
}

/* Positions of a peer that lies, and clocks that stand still: no rate is infinite. */
Test(flow_window, bears_what_peers_may_say)
{
    struct flow_share share = {.bytes_max = 1024 * MIB};
    struct flow_window flow;
    flow_window_init(&flow, &share, FLOOR, 64 * MIB);
    flow_window_restart(&flow, 1);
    for (uint64_t i = 1; i < 100; i++) {
        flow_window_stopped(&flow, true);
        flow_window_sent(&flow, flow.arrived, UINT64_MAX / 128 * i, (int64_t)i);
        flow_window_arrived(&flow, UINT64_MAX / 128 * i, i % 2 == 0 ? (int64_t)i : INT64_MAX / 2);
        flow_window_arrived(&flow, 1, 0);
        cr_assert_leq(flow_window_bytes(&flow), 64 * MIB);
    }
}
