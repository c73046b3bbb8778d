/* SPDX-License-Identifier: MPL-2.0 */
/* core_lead_test.c -- how far a writer may be ahead: parties that write and read at some rate, over
 * links that take their time, in virtual time.
 *
 * alice writes values of 4 KiB, 32 to a frame, as long as she has credit; the others read. */
#include "libbus/base/flow_window.h"
#include "libbus/base/trip.h"
#include "tests/unit/core_driver.h"

#define TICK_NS INT64_C(20000)
#define US INT64_C(1000)
#define MB 1e6 /* bytes a second */
#define GB 1e9
#define WHOLE DEFAULT_TOPIC_WINDOW_BYTES
enum {
    VALUE_BYTES = 4096,
    VALUE_COST = FRAME_HEADER_BYTES + VALUE_BYTES,
    FRAME_VALUES = 32,
    FRAME_COST = FRAME_VALUES * VALUE_COST,
    FRAME_BYTES = FRAME_HEADER_BYTES + FRAME_VALUES * VALUE_BYTES,
    TOLD_EVERY = 128 * 1024, /* a reader says what it took */
    TOLD_FAR = 16 * 1024,    /* ... over a link, when it waits for more */
    WAY_ROOM = 1 << 14,
    READERS_MAX = 5,
};

/* What is on its way: a number each that is there at a time. */
struct way {
    struct {
        int64_t at_ns;
        uint64_t number;
    } items[WAY_ROOM];
    uint32_t head, count;
};

static void way_add(struct way *way, int64_t at_ns, uint64_t number)
{
    cr_assert_lt(way->count, WAY_ROOM);
    uint32_t at = (way->head + way->count++) % WAY_ROOM;
    way->items[at].at_ns = at_ns;
    way->items[at].number = number;
}

static bool way_take(struct way *way, uint64_t *out_number)
{
    if (way->count == 0 || way->items[way->head].at_ns > now_ns)
        return false;
    *out_number = way->items[way->head].number;
    way->head = (way->head + 1) % WAY_ROOM;
    way->count -= 1;
    return true;
}

/* A disk that syncs all that was decided, again and again.  What is said waits for it. */
static int64_t sync_ns; /* one takes so long; 0: nothing waits */
static int64_t sync_end_ns;
static uint64_t sync_steps; /* will be kept by then */

struct writer {
    double rate;
    int64_t delay_ns; /* of its link, one way */
    double way_rate;  /* what that carries; 0: no less than it writes */
    uint32_t frames;  /* that it writes at once */
    int64_t way_ns;   /* when what is on the link has arrived */
    double budget;    /* bytes that it may write now */
    uint32_t topic;
    uint64_t seq, arrived_seq;
    uint64_t used, known; /* credit as it knows it */
    uint64_t batch_bytes; /* as the last CREDIT said */
    struct way data, credit;
    struct way held; /* as credit: by step, until that one is kept */
    struct way here; /* came to the broker and were not sent: since when, and end of their slots */
    int64_t wait_most_ns;
    uint64_t sent_bytes;
};

struct reader {
    conn_id conn;
    double rate; /* 0: it takes nothing */
    int64_t delay_ns;
    double budget;
    uint64_t received, taken, told;
    struct way data, takens;
    struct way held; /* as data: by step, until that one is kept */
    uint64_t sent, untold_most;
};

static struct writer alice;
static struct reader readers[READERS_MAX];
static uint32_t reader_count;

static void init_lead(void)
{
    init();
    is_alone = true; /* thousands of steps */
    logged[0] = '\0';
    memset(&alice, 0, sizeof alice);
    alice.frames = 1;
    memset(readers, 0, sizeof readers);
    reader_count = 0;
    sync_ns = sync_end_ns = 0;
    sync_steps = 0;
}

static void fini_lead(void)
{
    fini();
    is_alone = false;
    link_trip_ns = 0;
    memset(numbers, 0, sizeof numbers);
}

TestSuite(core_lead, .init = init_lead, .fini = fini_lead, .timeout = 60);

/* ---- what the last step said ----------------------------------------------------------------- */

static void hear_credit(const struct effect *effect)
{
    const struct msg *msg = &effects.msgs[effect->index];
    if (effect->conn != 1 || msg->type != MSG_CREDIT || msg->as.credit.topic != alice.topic)
        return;
    if (sync_ns > 0)
        way_add(&alice.held, (int64_t)steps, msg->as.credit.limit_bytes);
    else
        way_add(&alice.credit, now_ns + alice.delay_ns, msg->as.credit.limit_bytes);
    alice.batch_bytes = msg->as.credit.batch_bytes;
}

static void hear_data(const struct effect *effect, uint64_t bytes)
{
    uint64_t begin_seq;
    for (uint32_t i = 0; i < reader_count; i++) {
        struct reader *reader = &readers[i];
        if (effect->conn != reader->conn + 10)
            continue;
        if (sync_ns > 0)
            way_add(&reader->held, (int64_t)steps, bytes);
        else
            way_add(&reader->data, now_ns + reader->delay_ns, bytes);
        reader->sent += bytes;
        if (reader->untold_most < reader->sent - reader->told)
            reader->untold_most = reader->sent - reader->told;
    }
    if (effect->conn != 12 || effect->type != EFFECT_SEND_RANGE)
        return;
    alice.sent_bytes += bytes; /* to bob, who stands for all */
    for (uint32_t i = 0; i < effect->count; i++) {
        int64_t came_ns = alice.here.items[alice.here.head].at_ns;
        bool is_there = way_take(&alice.here, &begin_seq);
        cr_assert(is_there);
        if (now_ns - came_ns > alice.wait_most_ns)
            alice.wait_most_ns = now_ns - came_ns;
    }
}

static void hear(void)
{
    for (uint32_t i = 0; i < effects.count; i++) {
        const struct effect *effect = &effects.items[i];
        switch (effect->type) {
        case EFFECT_SEND_MSG: hear_credit(effect); break;
        case EFFECT_SEND_RANGE: hear_data(effect, effect->bytes); break;
        case EFFECT_SEND_FRAME:
            hear_data(effect, frame_total(effects.frames[effect->index].frame.value.bytes));
            break;
        default: break;
        }
    }
    forget();
}

/* What was said up to this step goes on. */
static void let_go(struct way *held, struct way *way, int64_t delay_ns)
{
    for (; held->count > 0 && held->items[held->head].at_ns <= (int64_t)kept; held->count--) {
        way_add(way, now_ns + delay_ns, held->items[held->head].number);
        held->head = (held->head + 1) % WAY_ROOM;
    }
}

static void sync_some(void)
{
    if (sync_ns == 0 || now_ns < sync_end_ns)
        return;
    kept = sync_steps;
    let_go(&alice.held, &alice.credit, alice.delay_ns);
    for (uint32_t i = 0; i < reader_count; i++)
        let_go(&readers[i].held, &readers[i].data, readers[i].delay_ns);
    sync_steps = steps;
    sync_end_ns = now_ns + sync_ns;
}

/* ---- who writes and who reads ---------------------------------------------------------------- */

static uint64_t far_ns(int64_t delay_ns)
{
    return 2 * delay_ns < TRIP_NEAR_NS ? 0 : (uint64_t)(2 * delay_ns);
}

/* Alice has joined. */
static void begin_to_write(double rate, int64_t delay_ns)
{
    alice.topic = open_topic(1, "alice/a");
    alice.rate = rate;
    alice.delay_ns = delay_ns;
    for (uint32_t i = 0; i < effects.count; i++)
        if (effects.items[i].type == EFFECT_SEND_MSG &&
            effects.msgs[effects.items[i].index].type == MSG_TOPIC_OPENED)
            alice.known = effects.msgs[effects.items[i].index].as.topic_opened.limit_bytes;
}

static void start_writer(double rate, int64_t delay_ns)
{
    link_trip_ns = far_ns(delay_ns);
    join(1);
    begin_to_write(rate, delay_ns);
    if (far_ns(delay_ns) == 0)
        cr_assert_eq(alice.known, options.topic_window_bytes);
}

static void say_beat(conn_id conn, uint64_t trip_ns, bool is_unjudged)
{
    message(conn, (struct msg){.type = MSG_BEAT,
                               .as.beat = {.trip_ns = trip_ns, .is_unjudged = is_unjudged}});
}

static struct reader *new_reader(double rate, int64_t delay_ns)
{
    struct reader *reader = &readers[reader_count++];
    reader->conn = 1 + reader_count;
    reader->rate = rate;
    reader->delay_ns = delay_ns;
    link_trip_ns = far_ns(delay_ns);
    join(reader->conn);
    return reader;
}

static struct reader *start_reader(const char *durable, double rate, int64_t delay_ns)
{
    struct reader *reader = new_reader(rate, delay_ns);
    subscribe(reader->conn, 1, "alice/a", durable, 0, 0);
    hear();
    return reader;
}

/* One that has room for as much as its link carries. */
static struct reader *start_roomy_reader(double rate, int64_t delay_ns)
{
    struct reader *reader = new_reader(rate, delay_ns);
    message(reader->conn, (struct msg){.type = MSG_SUBSCRIBE,
                                       .as.subscribe = {.number = ++numbers[reader->conn],
                                                        .sub = 1,
                                                        .pattern = span_text("alice/a"),
                                                        .window_bytes = LIMIT_SUB_WINDOW_BYTES}});
    hear();
    return reader;
}

/* When a frame is there that is written now. */
static int64_t arrival_ns(void)
{
    if (alice.way_rate > 0)
        alice.way_ns = (alice.way_ns > now_ns ? alice.way_ns : now_ns) +
                       (int64_t)(alice.frames * FRAME_COST * 1e9 / alice.way_rate);
    return (alice.way_rate > 0 ? alice.way_ns : now_ns) + alice.delay_ns;
}

static void write_some(void)
{
    uint64_t number;
    alice.budget += alice.rate * (double)TICK_NS / 1e9;
    if (alice.budget > 1e9)
        alice.budget = 1e9;
    while (way_take(&alice.credit, &number))
        if (number > alice.known)
            alice.known = number;
    uint32_t values = alice.frames * FRAME_VALUES;
    uint32_t cost = alice.frames * FRAME_COST;
    for (; alice.used < alice.known && alice.budget >= cost; alice.seq += values) {
        alice.used += cost;
        alice.budget -= cost;
        way_add(&alice.data, arrival_ns(), alice.seq);
    }
    if (alice.used >= alice.known)
        alice.budget = 0; /* who waits saves nothing up */
    while (way_take(&alice.data, &number)) {
        alice.arrived_seq = number + values;
        way_add(&alice.here, now_ns, number);
        batch(1, (payload_id)(1 + number / values),
              (struct event_range){.kind = FRAME_VALUE,
                                   .topic = alice.topic,
                                   .seq = number,
                                   .count = values,
                                   .value_bytes = VALUE_BYTES});
        cr_assert_null(strstr(said, "refusal"), "%s", error_message);
        hear();
    }
}

static void read_some(struct reader *reader)
{
    uint64_t number;
    reader->budget += reader->rate * (double)TICK_NS / 1e9;
    while (way_take(&reader->data, &number))
        reader->received += number;
    uint64_t there = reader->received - reader->taken;
    if (reader->budget >= (double)there)
        reader->budget = (double)there;
    reader->taken += (uint64_t)reader->budget;
    reader->budget -= (double)(uint64_t)reader->budget;
    bool is_waiting = reader->taken == reader->received && far_ns(reader->delay_ns) > 0;
    if (reader->taken - reader->told >= (is_waiting ? TOLD_FAR : TOLD_EVERY)) {
        reader->told = reader->taken;
        way_add(&reader->takens, now_ns + reader->delay_ns, reader->told);
    }
    while (way_take(&reader->takens, &number)) {
        message(reader->conn,
                (struct msg){.type = MSG_TAKEN, .as.taken = {.sub = 1, .bytes = number}});
        hear();
    }
}

/* Returns what was sent to bob, a second. */
static double run_ms(int64_t ms)
{
    uint64_t before = alice.sent_bytes;
    alice.wait_most_ns = 0;
    for (int64_t end_ns = now_ns + ms * MS; now_ns < end_ns; now_ns += TICK_NS) {
        sync_some();
        write_some();
        for (uint32_t i = 0; i < reader_count; i++)
            read_some(&readers[i]);
        while (core_deadline_ns(core) <= now_ns) {
            step((struct event){.type = EVENT_TICK});
            hear();
        }
    }
    return (double)(alice.sent_bytes - before) * 1000 / (double)ms;
}

/* What was written and is not taken, as credit counts it. */
static uint64_t untaken(const struct reader *reader)
{
    return alice.used - reader->told / FRAME_BYTES * FRAME_COST;
}

/* ---- readers that take ----------------------------------------------------------------------- */

/* 8 MiB would be 8 ms. */
Test(core_lead, lets_nothing_wait_long_behind_what_a_faster_writer_said)
{
    start_writer(4 * GB, 20 * US);
    start_reader("", 1 * GB, 20 * US);
    run_ms(100);
    cr_expect_gt(run_ms(100), 0.97 * GB);
    cr_expect_leq(alice.wait_most_ns, MS);
}

Test(core_lead, follows_the_rate_at_which_is_taken)
{
    start_writer(20 * GB, 20 * US);
    struct reader *bob = start_reader("", 1 * GB, 20 * US);
    run_ms(100);
    cr_expect_leq(untaken(bob), 2 << 20);
    bob->rate = 8 * GB;
    run_ms(100);
    cr_expect_gt(run_ms(100), 0.97 * 8 * GB);
    cr_expect_gt(untaken(bob), 2 << 20);
    cr_expect_leq(alice.wait_most_ns, MS);
    bob->rate = 1 * GB;
    run_ms(100);
    cr_expect_gt(run_ms(100), 0.97 * GB);
    cr_expect_leq(untaken(bob), 2 << 20);
    cr_expect_leq(alice.wait_most_ns, MS);
}

/* The broker sends all of that as soon as it comes.  8 MiB would be 8 ms. */
Test(core_lead, lets_little_queue_before_the_broker)
{
    start_writer(20 * GB, 20 * US);
    alice.way_rate = 1 * GB;
    struct reader *bob = start_reader("", 4 * GB, 20 * US);
    run_ms(200);
    cr_expect_gt(run_ms(100), 0.97 * GB);
    cr_expect_leq(untaken(bob), 4 << 20);
}

/* Else nothing would be on its way while the next one is made. */
Test(core_lead, has_room_for_some_large_batches)
{
    start_writer(20 * GB, 20 * US);
    alice.frames = 4; /* half a MiB */
    alice.way_rate = 0.5 * GB;
    struct reader *bob = start_reader("", 4 * GB, 20 * US);
    run_ms(400);
    cr_expect_gt(run_ms(100), 0.97 * 0.5 * GB);
    cr_expect_gt(untaken(bob), 3 << 20);
    cr_expect_leq(untaken(bob), 6 << 20);
}

/* Whoever queues as much before the broker as behind it has long rounds. */
Test(core_lead, is_not_more_patient_because_values_come_late)
{
    start_writer(20 * GB, 20 * US);
    alice.way_rate = 1.05 * GB;
    struct reader *bob = start_reader("", 1 * GB, 20 * US);
    run_ms(200);
    cr_expect_gt(run_ms(100), 0.97 * GB);
    cr_expect_leq(untaken(bob), 4 << 20);
    cr_expect_leq(alice.wait_most_ns, MS);
}

/* Its rounds are long, so it has the least.  It needs no more until it is faster. */
Test(core_lead, lets_a_slow_writer_be_ahead_by_less_until_it_is_faster)
{
    start_writer(0.1 * GB, 20 * US);
    struct reader *bob = start_reader("", 4 * GB, 20 * US);
    run_ms(500);
    cr_expect_gt(run_ms(100), 0.97 * 0.1 * GB);
    cr_expect_lt(alice.known - bob->told / FRAME_BYTES * FRAME_COST, 2 << 20);
    alice.rate = 20 * GB;
    run_ms(100);
    cr_expect_gt(run_ms(100), 0.97 * 4 * GB);
}

/* Rounds wait for the disk there. */
Test(core_lead, takes_no_round_for_a_queue_where_there_is_a_journal)
{
    options.durability = 1; /* `process` */
    restart();
    start_writer(20 * GB, 20 * US);
    alice.way_rate = 1 * GB;
    struct reader *bob = start_reader("", 4 * GB, 20 * US);
    run_ms(400);
    cr_expect_gt(untaken(bob), 6 << 20);
}

/* Its rounds are long, and no queue is to blame. */
Test(core_lead, fills_a_link_that_is_just_not_long)
{
    start_writer(20 * GB, 450 * US);
    start_reader("", 3 * GB, 20 * US);
    run_ms(200);
    cr_expect_gt(run_ms(100), 0.95 * 3 * GB);
}

/* ... and to be written takes longer than to be passed on. */
Test(core_lead, is_further_ahead_where_what_is_said_is_written_first)
{
    options.durability = 1; /* `process` */
    restart();
    start_writer(20 * GB, 20 * US);
    struct reader *bob = start_reader("", 2 * GB, 20 * US);
    run_ms(200);
    cr_expect_gt(run_ms(100), 0.97 * 2 * GB);
    cr_expect_geq(untaken(bob), 2 << 20, "as much as is taken within a millisecond");
    cr_expect_leq(alice.wait_most_ns, 2 * MS);
}

/* What is sent, and credit, waits for a disk that takes so long for a sync. */
static struct reader *start_behind_a_disk(double rate, int64_t one_sync_ns)
{
    options.durability = 3; /* `shared` */
    options.holds_outcomes = true;
    restart();
    steps = kept = 0;
    start_writer(4 * GB, 20 * US);
    struct reader *bob = start_roomy_reader(rate, 20 * US);
    sync_ns = one_sync_ns;
    run_ms(200);
    bob->untold_most = 0;
    return bob;
}

/* Half a MiB for each sync would be half of it. */
Test(core_lead, is_as_fast_where_what_is_sent_waits_for_a_disk)
{
    start_behind_a_disk(1 * GB, MS);
    cr_expect_gt(run_ms(200), 0.95 * GB);
    cr_expect_leq(alice.wait_most_ns, 3 * MS, "but for the disk");
}

/* It takes little in the time of a sync, so its window has little more. */
Test(core_lead, sends_little_more_to_a_slow_reader_behind_a_disk)
{
    struct reader *bob = start_behind_a_disk(20 * MB, 2 * MS);
    cr_expect_gt(run_ms(500), 0.95 * 20 * MB);
    cr_expect_leq(bob->untold_most, 2 * DEFAULT_SUB_WINDOW_BYTES);
}

/* It takes as much in that time as there is. */
Test(core_lead, sends_no_more_for_a_disk_than_it_may)
{
    options.topic_window_bytes = 4 * WHOLE;
    struct reader *bob = start_behind_a_disk(4 * GB, 4 * MS);
    run_ms(200);
    uint64_t most = DEFAULT_SUB_WINDOW_BYTES + LIMIT_SYNC_WINDOW_BYTES + LIMIT_BATCH_BYTES;
    cr_expect_leq(bob->untold_most, most);
    cr_expect_geq(bob->untold_most, LIMIT_SYNC_WINDOW_BYTES);
}

/* Each batch wakes threads of each who reads it. */
Test(core_lead, asks_for_larger_batches_where_more_read)
{
    start_writer(4 * GB, 20 * US);
    for (unsigned count = 1; count <= READERS_MAX; count++) {
        start_reader("", 1 * GB, 20 * US);
        run_ms(10);
        unsigned times = count < 4 ? count : 4;
        cr_expect_eq(alice.batch_bytes, times * DEFAULT_BATCH_BYTES, "%u", count);
    }
    cr_expect_eq(alice.batch_bytes, LIMIT_BATCH_BYTES);
}

/* What is granted and still on its way keeps nobody waiting. */
Test(core_lead, leaves_the_whole_window_to_a_slow_link)
{
    start_writer(400 * MB, 25 * MS);
    struct reader *bob = start_reader("", 4 * GB, 20 * US);
    run_ms(1000);
    cr_expect_gt(run_ms(200), 0.9 * (double)WHOLE / 0.05);
    bob->rate = 100 * MB; /* of which 5 MB are on the link */
    run_ms(1000);
    cr_expect_gt(run_ms(500), 0.9 * 100 * MB);
    bob->rate = 4 * GB;
    run_ms(2000);
    cr_expect_gt(run_ms(200), 0.85 * (double)WHOLE / 0.05, "it came back");
}

/* With what is on its way to it, the least window is twice that. */
Test(core_lead, is_never_too_small_for_a_reader_that_is_far_away)
{
    start_writer(4 * GB, 20 * US);
    struct reader *bob = start_reader("", 4 * GB, 10 * MS);
    run_ms(1000);
    cr_expect_gt(run_ms(500), 0.9 * 512 * 1024 / 0.02);
    cr_expect_leq(untaken(bob), 2 << 20);
}

/* What is on its way to it is what its link carries in a round trip. */
Test(core_lead, sends_as_much_ahead_as_the_link_of_a_reader_carries)
{
    start_writer(4 * GB, 20 * US);
    struct reader *bob = start_roomy_reader(200 * MB, 10 * MS);
    run_ms(1000);
    cr_expect_gt(run_ms(500), 0.95 * 200 * MB);
    uint64_t on_its_way = alice.sent_bytes - bob->told;
    cr_expect_leq(on_its_way, 200 * MB * 0.020 * 2, "%lu", on_its_way);
}

/* Both links carry the same: what is granted is what they carry in their round trips. */
Test(core_lead, grants_as_much_as_the_links_of_writer_and_reader_carry)
{
    start_writer(125 * MB, 25 * MS);
    struct reader *bob = start_roomy_reader(125 * MB, 25 * MS);
    run_ms(3000);
    cr_expect_gt(run_ms(500), 0.95 * 125 * MB);
    run_ms(12000);
    cr_expect_gt(run_ms(500), 0.95 * 125 * MB);
    cr_expect_leq(untaken(bob), 125 * MB * 0.100 * 2, "%lu", untaken(bob));
}

/* Two windows one behind the other double together: the link is full after six round trips. */
/* ---- a link that is not judged yet ----------------------------------------------------------- */

/* A writer whose link takes so long opens its topic.  Nobody knows of the link yet. */
static void start_unjudged(int64_t delay_ns)
{
    join(1);
    say_beat(1, 0, true);
    forget();
    begin_to_write(4 * GB, delay_ns);
    cr_assert_eq(alice.known, LIMIT_UNJUDGED_BYTES);
}

/* The whole window would be more than six seconds of the link. */
Test(core_lead, grants_little_to_a_slow_link_before_and_after_it_is_judged)
{
    int64_t delay_ns = 100 * MS;
    start_unjudged(delay_ns);
    struct reader *bob = start_reader("", 1.25 * MB, 20 * US);
    for (int part = 0; part < 200; part++) {
        run_ms(10);
        if (part == 40)
            say_beat(1, (uint64_t)(2 * delay_ns), false);
        /* It starts, with room for a piece on each of the two links. */
        uint64_t most = part <= 40 ? LIMIT_UNJUDGED_BYTES : WHOLE / 6;
        cr_assert_leq(untaken(bob), most + FRAME_COST, "part %d", part);
    }
    run_ms(1000); /* what was sent ahead is taken */
    cr_expect_gt(run_ms(2000), 0.9 * 1.25 * MB);
    run_ms(6000); /* the round trip is measured anew */
    cr_expect_gt(run_ms(4000), 0.75 * 1.25 * MB);
}

/* Between BEAT and the next look at the links a reader takes something. */
Test(core_lead, grants_little_until_the_links_are_looked_at)
{
    start_unjudged(100 * MS);
    struct reader *bob = start_reader("", 200 * MB, 20 * US);
    run_ms(1003);
    say_beat(1, (uint64_t)(200 * MS), false);
    for (int part = 0; part < 10; part++) {
        run_ms(1);
        cr_assert_leq(alice.known, bob->told / FRAME_BYTES * FRAME_COST + WHOLE / 8, "%d", part);
    }
}

Test(core_lead, grants_the_whole_window_once_the_link_is_known_to_be_short)
{
    start_unjudged(20 * US);
    struct reader *bob = start_reader("", 0, 20 * US); /* it takes nothing */
    run_ms(500);
    cr_expect_leq(untaken(bob), LIMIT_UNJUDGED_BYTES + FRAME_COST);
    say_beat(1, 0, false);
    run_ms(200);
    cr_expect_geq(untaken(bob), WHOLE);
}

/* It was long before the connection was lost, and is taken for long until BEAT says otherwise. */
Test(core_lead, grants_little_on_a_new_connection_over_a_long_link)
{
    start_writer(4 * GB, 100 * MS);
    struct reader *bob = start_reader("", 1.25 * MB, 20 * US);
    run_ms(3000);
    uint64_t before = untaken(bob);
    resume(1, tokens[1], 0);
    forget();
    for (int part = 0; part < 20; part++) {
        run_ms(10);
        cr_assert_leq(untaken(bob), before + FRAME_COST, "part %d", part);
    }
}

Test(core_lead, doubles_what_it_grants_with_each_round_trip)
{
    start_writer(125 * MB, 100 * MS);
    start_roomy_reader(125 * MB, 100 * MS);
    run_ms(3000);
    cr_expect_gt(run_ms(500), 0.95 * 125 * MB);
}

/* Of the only row of this kind. */
static uint64_t window_told(uint64_t kind)
{
    const struct msg_status_row *row = NULL;
    message(9, (struct msg){.type = MSG_STATUS, .as.status = {.request = 1}});
    for (uint32_t i = 0; i < effects.msg_count; i++)
        if (effects.msgs[i].type == MSG_STATUS_ROW && effects.msgs[i].as.status_row.kind == kind)
            row = &effects.msgs[i].as.status_row;
    cr_assert_not_null(row);
    uint64_t bytes = row->window_bytes;
    hear();
    return bytes;
}

Test(core_lead, is_told_in_the_status)
{
    enum { JOB, PARTY, TOPIC, SUB };
    start_writer(4 * GB, 20 * US);
    start_roomy_reader(200 * MB, 10 * MS);
    observe(9, "");
    run_ms(2000);
    uint64_t carried = (uint64_t)(200 * MB * 0.020);
    cr_expect_geq(window_told(SUB), carried);
    cr_expect_leq(window_told(SUB), FLOW_START_TRIPS * carried);
    cr_expect_eq(window_told(JOB), window_told(SUB));
    cr_expect_geq(window_told(TOPIC), carried);
}

/* A batch takes 105 ms on each of two links.  It is no part of their round trip. */
Test(core_lead, has_room_for_a_batch_on_each_link_once)
{
    enum { TOPIC = 2 };
    start_writer(1.25 * MB, 25 * MS);
    start_roomy_reader(1.25 * MB, 25 * MS);
    run_ms(13000);
    cr_expect_gt(run_ms(2000), 0.95 * 1.25 * MB);
    observe(9, "");
    uint64_t most = (uint64_t)(1.25 * MB * 0.130) + 2 * FRAME_COST + FLOW_STEP_BYTES;
    uint64_t told = window_told(TOPIC);
    cr_expect_leq(told, most, "%lu of %lu", told, most);
}

/* Whoever waits behind a batch waits for it on each link. */
Test(core_lead, asks_for_batches_of_five_milliseconds_over_a_slow_link)
{
    start_writer(2.5 * MB, 100 * MS);
    start_roomy_reader(2.5 * MB, 25 * MS);
    run_ms(6000);
    cr_expect_gt(run_ms(2000), 0.95 * 2.5 * MB);
    cr_expect_leq(alice.batch_bytes, (uint64_t)(2.5 * MB * 0.0065));
    cr_expect_geq(alice.batch_bytes, (uint64_t)(2.5 * MB * 0.0045));
}

/* The slow reader of two: what it takes is little, and little is on its way. */
Test(core_lead, sends_no_more_ahead_than_a_slow_reader_takes)
{
    start_writer(4 * GB, 20 * US);
    struct reader *bob = start_roomy_reader(10 * MB, 10 * MS);
    run_ms(3000);
    cr_expect_gt(run_ms(500), 0.95 * 10 * MB);
    cr_expect_leq(alice.sent_bytes - bob->told, 2 * DEFAULT_SUB_WINDOW_BYTES);
}

Test(core_lead, follows_the_slowest_of_its_readers)
{
    start_writer(4 * GB, 20 * US);
    start_reader("", 4 * GB, 20 * US);
    struct reader *carol = start_reader("", 200 * MB, 20 * US);
    run_ms(200);
    cr_expect_gt(run_ms(200), 0.97 * 200 * MB);
    cr_expect_leq(untaken(carol), 2 << 20);
    carol->rate = 2 * GB;
    run_ms(100);
    cr_expect_gt(run_ms(100), 0.97 * 2 * GB);
}

/* ---- readers that take nothing --------------------------------------------------------------- */

Test(core_lead, gives_the_whole_window_when_nothing_is_taken_for_a_while)
{
    start_writer(4 * GB, 20 * US);
    struct reader *bob = start_reader("", 1 * GB, 20 * US);
    run_ms(100);
    bob->rate = 0;
    run_ms(90);
    cr_expect_leq(untaken(bob), 2 << 20, "he may be about to take more");
    run_ms(20);
    cr_expect_geq(untaken(bob), WHOLE);
    cr_expect_leq(untaken(bob), WHOLE + FRAME_COST);
    cr_expect_eq(run_ms(1000), 0);
    bob->rate = 1 * GB;
    cr_expect_gt(run_ms(20), 0.97 * GB);
    run_ms(20);
    cr_expect_gt(run_ms(100), 0.97 * GB);
    cr_expect_leq(alice.wait_most_ns, MS, "as before");
}

/* Who is not there has nothing wait for it. */
Test(core_lead, begins_with_the_whole_window)
{
    start_writer(4 * GB, 20 * US);
    struct reader *bob = start_reader("kept", 0, 20 * US);
    closed(2);
    closed(12);
    run_ms(5);
    cr_expect_geq(untaken(bob), WHOLE);
}

Test(core_lead, gives_the_whole_window_beside_a_durable_name_that_goes_away)
{
    start_writer(4 * GB, 20 * US);
    start_reader("", 1 * GB, 20 * US);
    struct reader *carol = start_reader("kept", 1 * GB, 20 * US);
    run_ms(100);
    closed(3);
    closed(13);
    carol->rate = 0;
    run_ms(10);
    uint64_t before = alice.used;
    run_ms(200);
    cr_expect_geq(alice.used - before, WHOLE / 2);
    cr_expect_eq(run_ms(100), 0);
}

/* ---- by hand: a window of 64 KiB, and a reader that is sent one frame at a time -------------- */

enum { SMALL = 64 * 1024, TOPICS = 1500 }; /* more than are looked at in one step */

static uint64_t bob_sent, bob_taken;
static uint64_t granted[4 * TOPICS]; /* by topic: credit, if any was told lately */

static void look(void)
{
    for (uint32_t i = 0; i < effects.count; i++) {
        const struct effect *effect = &effects.items[i];
        const struct msg *msg = &effects.msgs[effect->index];
        if (effect->conn == 12 && effect->type == EFFECT_SEND_RANGE)
            bob_sent += effect->bytes;
        if (effect->conn == 12 && effect->type == EFFECT_SEND_FRAME)
            bob_sent += frame_total(effects.frames[effect->index].frame.value.bytes);
        if (effect->conn == 1 && effect->type == EFFECT_SEND_MSG && msg->type == MSG_CREDIT)
            granted[msg->as.credit.topic] = msg->as.credit.limit_bytes;
    }
    forget();
}

static void write_one(uint32_t topic, uint64_t seq)
{
    batch(1, 7,
          (struct event_range){
              .kind = FRAME_VALUE, .topic = topic, .seq = seq, .value_bytes = VALUE_BYTES});
    look();
}

/* bob has all that he was sent. */
static void take_all_sent(void)
{
    bob_taken = bob_sent;
    message(2, (struct msg){.type = MSG_TAKEN, .as.taken = {.sub = 1, .bytes = bob_taken}});
    look();
}

static void pass(int64_t ms)
{
    for (int64_t until_ns = now_ns + ms * MS; now_ns < until_ns; now_ns += MS)
        while (core_deadline_ns(core) <= now_ns) {
            step((struct event){.type = EVENT_TICK});
            look();
        }
}

static void start_small(const char *pattern)
{
    options.topic_window_bytes = SMALL;
    restart();
    bob_sent = bob_taken = 0;
    memset(granted, 0, sizeof granted);
    join(1);
    join(2);
    subscribe_as(
        2, (struct msg_subscribe){.sub = 1, .pattern = span_text(pattern), .window_bytes = 1});
    forget();
}

enum {
    FILL = SMALL / VALUE_COST + 1,
    TAKEN = 5
}; /* values: all that may be written; some of them */

static void write_some_of(uint32_t topic, uint64_t from_seq, uint64_t end_seq)
{
    for (uint64_t seq = from_seq; seq < end_seq; seq++)
        write_one(topic, seq);
}

/* What is written with new credit is not sent for long, though something is taken: from then on its
 * window is less, and its writer waits at that. */
static void narrow(uint32_t topic)
{
    write_some_of(topic, 0, FILL);
    for (int i = 0; i < TAKEN; i++)
        take_all_sent();
    write_some_of(topic, FILL, FILL + TAKEN);
    now_ns += MS;
    memset(granted, 0, sizeof granted);
    take_all_sent();
}

Test(core_lead, makes_a_writer_wait_at_less_while_something_is_taken)
{
    start_small("alice/#");
    uint32_t a = open_topic(1, "alice/a");
    narrow(a);
    pass(60);
    take_all_sent();
    pass(60);
    cr_expect_not(granted[a], "it waits from then on");
    take_all_sent();
    cr_expect(granted[a], "so much was taken that it is less than that");
    write_some_of(a, FILL + TAKEN, FILL + TAKEN + 1);
    memset(granted, 0, sizeof granted);
    pass(99);
    cr_expect_not(granted[a]);
    pass(2);
    cr_expect(granted[a], "nothing was for a while");
}

/* Values that were written with the credit before say nothing about the credit after. */
Test(core_lead, judges_by_values_that_were_written_with_new_credit)
{
    start_small("alice/#");
    uint32_t a = open_topic(1, "alice/a");
    uint64_t taken = 0;
    write_one(a, 0); /* one is always on its way to him */
    for (; granted[a] == 0 && taken < FILL; taken++) {
        write_one(a, taken + 1);
        take_all_sent();
    }
    cr_assert(granted[a], "more credit than the first");
    uint64_t seq = taken + 4;
    write_some_of(a, taken + 1, seq); /* the first credit is enough for them */
    now_ns += MS;
    take_all_sent();
    taken += 1;
    for (uint64_t limit = granted[a]; seq * VALUE_COST < limit; seq++)
        write_one(a, seq);
    memset(granted, 0, sizeof granted);
    for (; granted[a] == 0 && taken < seq; taken++)
        take_all_sent();
    uint64_t untaken = (seq - taken) * VALUE_COST;
    cr_expect_eq(granted[a], seq * VALUE_COST + SMALL - untaken, "the window is whole");
}

/* What lies behind a promise that is not kept waits for its writer, and not for who reads it. */
Test(core_lead, does_not_count_what_waits_for_its_writer)
{
    start_small("alice/#");
    uint32_t a = open_topic(1, "alice/a");
    write_some_of(a, 0, FILL);
    for (int i = 0; i < TAKEN; i++)
        take_all_sent();
    reserve(1, a, FILL);
    write_some_of(a, FILL + 1, FILL + TAKEN);
    for (int i = TAKEN + 1; i < FILL; i++)
        take_all_sent();
    now_ns += MS;
    take_all_sent(); /* the last before it */
    commit(1, a, FILL, 7);
    look();
    uint64_t seq = FILL + TAKEN; /* all before it are sent, and taken when the next are */
    for (int i = 0; i <= TAKEN; i++)
        take_all_sent();
    while (COST_SLOT_BYTES + (seq - 1) * VALUE_COST < granted[a])
        write_one(a, seq++);
    take_all_sent();
    uint64_t used = COST_SLOT_BYTES + (seq - 1) * VALUE_COST;
    uint64_t untaken = (seq - FILL - TAKEN - 1) * VALUE_COST;
    cr_expect_eq(granted[a] - used, SMALL - untaken);
}

Test(core_lead, gives_each_of_many_writers_the_whole_window)
{
    static uint32_t topics[TOPICS];
    char name[32];
    start_small("alice/#");
    for (uint32_t i = 0; i < TOPICS; i++) {
        snprintf(name, sizeof name, "alice/%u", i);
        topics[i] = open_topic(1, name);
        write_some_of(topics[i], 0, FILL);
    }
    for (uint32_t i = 0; i < TAKEN * TOPICS; i++)
        take_all_sent();
    for (uint32_t i = 0; i < TOPICS; i++)
        write_some_of(topics[i], FILL, FILL + TAKEN);
    now_ns += MS;
    memset(granted, 0, sizeof granted);
    for (uint32_t i = 0; i < TOPICS; i++)
        take_all_sent();
    pass(99);
    for (uint32_t i = 1; i < TOPICS; i++) /* of the first, one more was sent, for it was alone */
        cr_assert_not(granted[topics[i]], "topic %u: granted too soon", i);
    pass(2);
    for (uint32_t i = 1; i < TOPICS; i++)
        cr_assert(granted[topics[i]], "topic %u: its writer waits for ever", i);
}

/* What lies for a group waits for workers. */
Test(core_lead, leaves_the_whole_window_to_groups)
{
    start_small("bob/#");
    join(3);
    share(3, 1, "alice/a", "work", 1);
    uint32_t a = open_topic(1, "alice/a");
    write_some_of(a, 0, FILL);
    for (uint64_t seq = 0; seq < TAKEN; seq++)
        done(3, a, seq, 1);
    write_some_of(a, FILL, FILL + TAKEN + 1); /* carol has one more */
    now_ns += MS;
    memset(granted, 0, sizeof granted);
    done(3, a, TAKEN, 1);
    look();
    cr_expect(granted[a]);
}

/* A broker that begins again knows nothing of rates, and owes as much credit as the one before. */
Test(core_lead, begins_again_with_the_whole_window)
{
    is_alone = false;
    start_small("alice/#");
    uint32_t a = open_topic(1, "alice/a");
    narrow(a);
    cr_expect_not(granted[a]);
    crash(10);
    resume(1, tokens[1], 0);
    look();
    cr_expect(granted[a]);
}

static void write_large(uint32_t topic, uint64_t seq)
{
    batch(1, 7,
          (struct event_range){
              .kind = FRAME_VALUE, .topic = topic, .seq = seq, .value_bytes = 10 * SMALL});
}

/* One value may pass the window, however large; the next waits until there is room again. */
Test(core_lead, lets_one_value_in_that_is_larger_than_the_window)
{
    start_small("alice/#");
    uint32_t a = open_topic(1, "alice/a");
    narrow(a);
    for (int i = 0; i < FILL; i++)
        take_all_sent();
    for (uint64_t seq = FILL + TAKEN; seq < 2 * FILL; seq++) {
        take_all_sent();
        now_ns += MS;
        write_large(a, seq);
        cr_assert_null(strstr(said, "refusal"), "%s", error_message);
        look();
    }
    write_large(a, 2 * FILL);
    cr_expect_not_null(strstr(said, "refusal"), "%s", said);
}

/* Its window is full at times in good health: who is behind for as long as a pause is slow. */
Test(core_lead, names_who_is_slow_once)
{
    start_writer(4 * GB, 20 * US);
    start_reader("", 1 * GB, 20 * US);
    logged[0] = '\0';
    run_ms(50);
    cr_expect_str_empty(logged);
    run_ms(150);
    cr_expect_not_null(strstr(logged, "consumer.slow: bob holds the writer of alice/a back"), "%s",
                       logged);
    logged[0] = '\0';
    run_ms(1000);
    cr_expect_str_empty(logged);
}
