/* SPDX-License-Identifier: MPL-2.0 */
/* session_tasks_test.c -- a member of a group: what it is given, what it says of it, and what it
 * says again on another connection. */
#include "libbus/session/session.h"

#include "tests/unit/session_driver.h"

static struct driver d;
static uint32_t sub;

enum { TASKS = 40, REPLIES = 41 }; /* the broker's numbers of topics */

static void init(void)
{
    struct session_sub_options options = {.group = span_text("team"), .credit = 8};
    driver_up(&d);
    cr_assert_eq(session_subscribe(d.session, span_text("master/tasks"), &options, &sub), CODE_OK);
    struct msg msg = driver_expect(&d, MSG_SUBSCRIBE);
    cr_expect(span_equal(msg.as.subscribe.group, span_text("team")));
    cr_expect_eq(msg.as.subscribe.credit, 8);
    driver_say(&d, &(struct msg){.type = MSG_SUBSCRIBED,
                                 .as.subscribed = {.number = msg.as.subscribe.number, .sub = sub}});
    driver_accept(&d, 0, msg.as.subscribe.number);
}

static void fini(void)
{
    driver_fini(&d);
}

TestSuite(session_tasks, .init = init, .fini = fini);

static struct frame a_task(uint64_t seq, unsigned delivery, uint64_t reply_to)
{
    struct frame frame = driver_value(TASKS, seq, "task");
    frame.delivery = (uint8_t)delivery;
    frame.reply_to = reply_to;
    return frame;
}

static void deliver(struct frame task)
{
    const struct frame frames[] = {driver_topic_frame(TASKS, "master/tasks"),
                                   driver_topic_frame(REPLIES, "master/_replies"), task};
    driver_deliver(&d, sub, frames, 3);
}

static struct session_item take(void)
{
    struct session_item item;
    cr_assert_eq(session_sub_take(d.session, sub, &item, NULL), CODE_OK);
    buffer_unref(&item.buffer);
    return item;
}

static struct msg expect_task(uint64_t seq, uint64_t delivery, uint64_t how)
{
    struct msg msg = driver_expect(&d, MSG_TASK);
    cr_expect_eq(msg.as.task.sub, sub);
    cr_expect_eq(msg.as.task.topic, TASKS);
    cr_expect_eq(msg.as.task.seq, seq);
    cr_expect_eq(msg.as.task.delivery, delivery);
    cr_expect_eq(msg.as.task.how, how);
    return msg;
}

Test(session_tasks, come_in_any_order_and_again)
{
    deliver(a_task(5, 1, FRAME_NO_REPLY));
    deliver(a_task(3, 2, FRAME_NO_REPLY));
    deliver(a_task(5, 2, FRAME_NO_REPLY));
    struct session_item first = take();
    cr_expect_eq(first.seq, 5);
    cr_expect_eq(first.delivery, 1);
    cr_expect_eq(take().seq, 3);
    struct session_item again = take();
    cr_expect_eq(again.seq, 5);
    cr_expect_eq(again.delivery, 2);
    cr_expect_neq(first.lease, again.lease);
    session_task_end(d.session, again.lease, SESSION_TASK_REJECTED, 100, error_of("app.no"));
    struct msg msg = expect_task(5, 2, 2);
    cr_expect_eq(msg.as.task.retry_after_ms, 100);
    cr_expect_gt(msg.as.task.error.bytes, 0);
    session_task_end(d.session, again.lease, SESSION_TASK_DONE, 0, SPAN_NONE); /* it is settled */
    session_task_end(d.session, first.lease, SESSION_TASK_DONE, 0, SPAN_NONE);
    (void)expect_task(5, 1, 0);
}

Test(session_tasks, that_are_requests_are_answered_before_they_are_done)
{
    deliver(a_task(5, 1, 77));
    struct session_item item = take();
    cr_expect_eq(item.reply_to, 77);
    cr_assert_eq(session_task_reply(d.session, d.now_ns, item.lease, span_text("did"), NULL),
                 CODE_OK);
    struct buffer *part = driver_part(&d);
    struct batch_reader reader;
    struct frame frame;
    cr_assert_eq(batch_reader_init(&reader, buffer_span(part)), WIRE_OK);
    cr_assert_eq(batch_reader_next(&reader, &frame), WIRE_OK);
    cr_expect_eq(frame.flags & FRAME_KIND_MASK, FRAME_COMMIT);
    cr_expect_eq(frame.topic, REPLIES);
    cr_expect_eq(frame.seq, 77);
    buffer_unref(&part);
    cr_expect_eq(expect_task(5, 1, 0).as.task.after, 1);
    cr_expect_eq(session_task_reply(d.session, d.now_ns, item.lease, span_text("did"), NULL),
                 CODE_ECLOSED, "once");
}

Test(session_tasks, that_are_no_requests_are_not_answered)
{
    deliver(a_task(5, 1, FRAME_NO_REPLY));
    cr_expect_eq(session_task_reply(d.session, d.now_ns, take().lease, span_text("did"), NULL),
                 CODE_EINVAL);
}

static void say_over(uint64_t seq, uint64_t delivery)
{
    driver_say(&d,
               &(struct msg){
                   .type = MSG_TASK_OVER,
                   .as.task_over = {.sub = sub, .topic = TASKS, .seq = seq, .delivery = delivery}});
}

/* Whatever comes first, the task or the word that its lease is over. */
Test(session_tasks, whose_leases_were_over_before_are_not_handed_out)
{
    struct session_item item;
    for (uint64_t seq = 0; seq < 2; seq++) {
        if (seq == 0)
            say_over(seq, 1);
        deliver(a_task(seq, 1, FRAME_NO_REPLY));
        if (seq == 1)
            say_over(seq, 1);
        cr_expect_eq(session_sub_take(d.session, sub, &item, NULL), CODE_ETIMEDOUT);
        (void)expect_task(seq, 1, 1); /* given back, in case that it is another one */
        deliver(a_task(seq, 2, FRAME_NO_REPLY));
        cr_expect_eq(take().delivery, 2, "it has it again");
    }
    deliver(a_task(0, 1, FRAME_NO_REPLY));
    cr_expect_eq(take().delivery, 1, "it was replayed");
}

Test(session_tasks, that_are_over_are_told_to_who_has_them)
{
    struct buffer *why = NULL;
    deliver(a_task(5, 1, 77));
    struct session_item item = take();
    cr_expect_not(session_task_is_over(d.session, item.lease, NULL));
    driver_say(
        &d, &(struct msg){.type = MSG_TASK_OVER,
                          .as.task_over = {.sub = sub, .topic = TASKS, .seq = 5, .delivery = 2}});
    cr_expect_not(session_task_is_over(d.session, item.lease, NULL), "that is another lease");
    driver_say(&d, &(struct msg){.type = MSG_TASK_OVER,
                                 .as.task_over = {.sub = sub,
                                                  .topic = TASKS,
                                                  .seq = 5,
                                                  .delivery = 1,
                                                  .error = error_of("app.enough")}});
    cr_expect(session_task_is_over(d.session, item.lease, &why));
    cr_expect_not_null(why);
    buffer_unref(&why);
    cr_expect_eq(session_task_reply(d.session, d.now_ns, item.lease, span_text("did"), NULL),
                 CODE_ESETTLED);
    session_task_end(d.session, item.lease, SESSION_TASK_DONE, 0, SPAN_NONE);
    cr_expect(session_task_is_over(d.session, item.lease, NULL));
}

Test(session_tasks, are_told_again_on_another_connection_until_they_are_accepted)
{
    deliver(a_task(5, 1, FRAME_NO_REPLY));
    deliver(a_task(6, 1, FRAME_NO_REPLY));
    deliver(a_task(7, 1, FRAME_NO_REPLY));
    deliver(a_task(8, 1, FRAME_NO_REPLY)); /* not taken: it comes again */
    struct session_item accepted = take();
    struct session_item said = take();
    (void)take();
    session_task_end(d.session, accepted.lease, SESSION_TASK_DONE, 0, SPAN_NONE);
    uint64_t number = expect_task(5, 1, 0).as.task.number;
    driver_accept(&d, 0, number);
    session_task_end(d.session, said.lease, SESSION_TASK_DONE, 0, SPAN_NONE);
    (void)expect_task(6, 1, 0);
    driver_break_link(&d);
    driver_greet_to_attach(&d, true);
    for (uint64_t seq = 6; seq <= 7; seq++) {
        struct msg msg = driver_expect(&d, MSG_POSITION);
        cr_expect_eq(msg.as.position.sub, sub);
        cr_expect_eq(msg.as.position.topic, TASKS);
        cr_expect_eq(msg.as.position.next_seq, seq);
        cr_expect_eq(msg.as.position.chunk_offset, 1, "the delivery");
    }
    (void)driver_expect(&d, MSG_READY);
    driver_attached(&d);
    struct session_item item;
    cr_expect_eq(session_sub_take(d.session, sub, &item, NULL), CODE_ETIMEDOUT);
    deliver(a_task(8, 1, FRAME_NO_REPLY));
    cr_expect_eq(take().seq, 8);
}

Test(session_tasks, are_given_back_when_their_subscription_is_closed)
{
    deliver(a_task(5, 1, FRAME_NO_REPLY));
    deliver(a_task(6, 1, FRAME_NO_REPLY));
    struct session_item done = take();
    struct session_item held = take();
    session_task_end(d.session, done.lease, SESSION_TASK_DONE, 0, SPAN_NONE);
    session_unsubscribe(d.session, sub, false);
    (void)expect_task(5, 1, 0);
    (void)driver_expect(&d, MSG_UNSUBSCRIBE);
    cr_expect(session_task_is_over(d.session, held.lease, NULL));
    session_task_end(d.session, held.lease, SESSION_TASK_DONE, 0, SPAN_NONE);
    cr_expect_eq(session_task_reply(d.session, d.now_ns, held.lease, span_text("x"), NULL),
                 CODE_ECLOSED);
}

Test(session_tasks, are_kept_when_nothing_more_is_wanted)
{
    deliver(a_task(5, 1, FRAME_NO_REPLY));
    struct session_item held = take();
    cr_expect_eq(session_sub_drain(d.session, sub), CODE_OK);
    struct msg msg = driver_expect(&d, MSG_UNSUBSCRIBE);
    cr_expect_eq(msg.as.unsubscribe.sub, sub);
    cr_expect_eq(msg.as.unsubscribe.is_drained, 1);
    deliver(a_task(6, 1, FRAME_NO_REPLY)); /* it was under way */
    struct session_item late = take();
    cr_expect_not(session_task_is_over(d.session, held.lease, NULL));
    session_task_end(d.session, late.lease, SESSION_TASK_RETURNED, 0, SPAN_NONE);
    (void)expect_task(6, 1, 1);
    session_task_end(d.session, held.lease, SESSION_TASK_DONE, 0, SPAN_NONE);
    (void)expect_task(5, 1, 0);
    uint32_t reader;
    struct session_sub_options options = {.from_seq = 0};
    cr_assert_eq(session_subscribe(d.session, span_text("a/b"), &options, &reader), CODE_OK);
    cr_expect_eq(session_sub_drain(d.session, reader), CODE_EINVAL);
    cr_expect_eq(session_sub_drain(d.session, 999), CODE_EINVAL);
}

/* Neither by the end of their own subscription nor by that of another one. */
Test(session_tasks, are_not_done_before_all_of_their_reply_is_there)
{
    static char large[3 * LIMIT_CHUNK_BYTES];
    struct session_sub_options options = {.group = span_text("other"), .credit = 1};
    uint32_t other;
    cr_assert_eq(session_subscribe(d.session, span_text("master/x"), &options, &other), CODE_OK);
    (void)driver_expect(&d, MSG_SUBSCRIBE);
    deliver(a_task(5, 1, 77));
    struct session_item task = take();
    cr_assert_eq(
        session_task_reply(d.session, d.now_ns, task.lease, span_of(large, sizeof large), NULL),
        CODE_OK);
    session_unsubscribe(d.session, other, false);
    struct msg msg = driver_expect(&d, MSG_UNSUBSCRIBE);
    cr_expect_eq(msg.as.unsubscribe.sub, other);
    session_unsubscribe(d.session, sub, false);
    cr_assert_eq(driver_hear(&d).type, MSG_NONE);
    struct buffer *part = NULL;
    while ((part = driver_part(&d)) != NULL)
        buffer_unref(&part);
    driver_say(&d,
               &(struct msg){.type = MSG_CHUNKED,
                             .as.chunked = {.topic = REPLIES, .seq = 77, .bytes = sizeof large}});
    (void)expect_task(5, 1, 0);
    msg = driver_expect(&d, MSG_UNSUBSCRIBE);
    cr_expect_eq(msg.as.unsubscribe.sub, sub);
}

static void *(*heap_resize)(struct memory *memory, void *block, size_t old_bytes, size_t new_bytes);
static uint64_t fail_at; /* the allocation that fails */

static void *failing_resize(struct memory *memory, void *block, size_t old_bytes, size_t new_bytes)
{
    if (new_bytes > 0 && memory->calls == fail_at)
        return NULL;
    return heap_resize(memory, block, old_bytes, new_bytes);
}

/* Whichever allocation fails. */
Test(session_tasks, leave_a_large_reply_alone_that_finds_no_memory)
{
    static char large[3 * LIMIT_CHUNK_BYTES];
    struct buffer *reply = buffer_copy(span_of(large, sizeof large));
    enum wire_code code = CODE_ENOMEM;
    unsigned failed = 0;
    deliver(a_task(5, 1, 77));
    struct session_item task = take();
    heap_resize = d.memory.resize;
    d.memory.resize = failing_resize;
    for (uint64_t n = 1; code != CODE_OK; n++) {
        fail_at = d.memory.calls + n;
        code = session_task_reply(d.session, d.now_ns, task.lease, buffer_span(reply), reply);
        cr_assert(code == CODE_OK || code == CODE_ENOMEM);
        failed += code == CODE_ENOMEM;
        cr_assert_eq(atomic_load(&reply->refs), code == CODE_OK ? 2 : 1);
    }
    d.memory.resize = heap_resize;
    cr_expect_gt(failed, 0);
    buffer_unref(&reply);
}

/* A task behind a large value of one's own: what became of it is said when that value is there. */
static struct session_mark settle_behind(uint32_t big, uint64_t *out_seq)
{
    static char large[3 * LIMIT_CHUNK_BYTES];
    const struct span value = span_of(large, sizeof large);
    struct buffer *part = NULL;
    cr_assert_eq(session_publish(d.session, d.now_ns, big, &value, 1, out_seq), CODE_OK);
    deliver(a_task(5, 1, FRAME_NO_REPLY));
    session_task_end(d.session, take().lease, SESSION_TASK_DONE, 0, SPAN_NONE);
    struct session_mark mark = session_mark(d.session);
    cr_assert_eq(driver_hear(&d).type, MSG_NONE);
    while ((part = driver_part(&d)) != NULL)
        buffer_unref(&part);
    driver_accept(&d, 1, 0);
    return mark;
}

Test(session_tasks, are_flushed_when_what_became_of_them_is_accepted)
{
    uint64_t seq = 0;
    uint32_t big = driver_topic(&d, "alice/big", 60, 1 << 24);
    struct session_mark mark = settle_behind(big, &seq);
    driver_say(
        &d, &(struct msg){
                .type = MSG_CHUNKED,
                .as.chunked = {.topic = 60, .seq = seq, .bytes = 3 * (uint64_t)LIMIT_CHUNK_BYTES}});
    cr_expect_not(session_mark_reached(d.session, mark));
    uint64_t number = expect_task(5, 1, 0).as.task.number;
    cr_expect_not(session_mark_reached(d.session, mark));
    driver_accept(&d, 1, number);
    cr_expect(session_mark_reached(d.session, mark));
}

Test(session_tasks, wait_no_more_for_a_large_value_that_is_taken_back)
{
    uint64_t seq = 0;
    uint64_t number = 0;
    uint32_t big = driver_topic(&d, "alice/big", 60, 1 << 24);
    struct session_mark mark = settle_behind(big, &seq);
    cr_assert_eq(session_retract(d.session, big, seq, error_of("app.sorry"), &number), CODE_OK);
    (void)driver_expect(&d, MSG_RETRACT);
    number = expect_task(5, 1, 0).as.task.number;
    cr_expect_not(session_mark_reached(d.session, mark));
    driver_accept(&d, 1, number);
    cr_expect(session_mark_reached(d.session, mark));
}

/* ---- requests -------------------------------------------------------------------------------- */

Test(session_tasks, are_asked_for_with_a_slot_for_the_reply)
{
    const struct span values[] = {span_text("ab"), span_text("cd")};
    uint64_t seq = 9;
    uint32_t tasks = driver_topic(&d, "alice/tasks", 50, 4096);
    uint32_t replies = driver_topic(&d, "alice/_replies", 51, 4096);
    cr_assert_eq(session_publish(d.session, d.now_ns, tasks, values, 2, NULL), CODE_OK);
    cr_assert_eq(
        session_request(d.session, d.now_ns, tasks, replies, span_text("do"), NULL, 500, &seq),
        CODE_OK);
    cr_expect_eq(seq, 0);
    struct buffer *part = driver_part(&d);
    struct batch_reader reader;
    struct frame frame;
    struct frame_reserve reserve;
    cr_assert_eq(batch_reader_init(&reader, buffer_span(part)), WIRE_OK);
    cr_assert_eq(batch_reader_next(&reader, &frame), WIRE_OK);
    cr_expect_eq(frame_count(&frame), 2);
    cr_assert_eq(batch_reader_next(&reader, &frame), WIRE_OK);
    cr_expect_eq(frame.flags & FRAME_KIND_MASK, FRAME_RESERVE);
    cr_expect_eq(frame.topic, 51);
    cr_expect_eq(frame.seq, 0);
    cr_assert_eq(frame_reserve_decode(frame.value, &reserve), WIRE_OK);
    cr_expect_eq(reserve.deadline_ms, 500);
    cr_assert_eq(batch_reader_next(&reader, &frame), WIRE_OK);
    cr_expect_eq(frame.flags & FRAME_KIND_MASK, FRAME_VALUE);
    cr_expect_eq(frame.topic, 50);
    cr_expect_eq(frame.seq, 2);
    cr_expect_eq(frame.reply_to, 0);
    cr_expect_eq(
        session_request(d.session, d.now_ns, tasks, tasks, span_text("do"), NULL, -1, &seq),
        CODE_EINVAL);
    buffer_unref(&part);
}
