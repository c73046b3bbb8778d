/* SPDX-License-Identifier: MPL-2.0 */
/* msg_kind_test.c -- what the table of messages decides is complete and fits together. */
#include "libbus/wire/msg.h"

#include "tests/lib/titles.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

static bool is_to_client(enum msg_type type)
{
    const struct msg_kind *kind = msg_kind((unsigned)type);
    return kind != NULL && kind->direction == MSG_TO_CLIENT;
}

Test(msg_kind, stands_for_each_row_and_for_nothing_else)
{
    for (uint32_t i = 0; i < TITLES; i++) {
        const struct msg_kind *kind = msg_kind(titles[i].number);
        cr_assert_not_null(kind, "%s", titles[i].name);
        cr_expect_str_eq(kind->name, titles[i].name);
        cr_expect_eq(kind->lane, titles[i].lane, "%s", titles[i].name);
        cr_expect_eq(kind->direction, titles[i].direction, "%s", titles[i].name);
    }
    cr_assert_null(msg_kind(MSG_NONE));
    cr_assert_null(msg_kind(127));
    cr_assert_null(msg_kind(BATCH_NUMBER));
    cr_assert_null(msg_kind(UINT32_MAX));
}

Test(msg_kind, has_somebody_who_may_say_what_goes_to_the_broker)
{
    const unsigned all = MSG_BY_NEWCOMER | MSG_BY_ANYONE | MSG_BY_LATE;
    for (uint32_t i = 0; i < TITLES; i++) {
        const struct msg_kind *kind = msg_kind(titles[i].number);
        if (kind->direction != MSG_TO_BROKER)
            continue;
        unsigned speakers = kind->as.to_broker.speakers;
        cr_expect_neq(speakers & all, 0, "nobody may say %s", kind->name);
        cr_expect_eq(speakers & ~all, 0, "%s", kind->name);
        if (speakers & MSG_BY_NEWCOMER)
            cr_expect_eq(speakers, MSG_BY_NEWCOMER, "%s begins a session", kind->name);
        if (kind->id == MSG_NUMBER || kind->id == MSG_NUMBER_OR_0)
            cr_expect(speakers & MSG_BY_PARTY, "nobody counts %s", kind->name);
    }
}

/* Whether both have the same id, so that the one finds the other. */
static bool is_matched(const struct msg_kind *question, const struct msg_kind *answer)
{
    return answer->id == MSG_NO_ID || question->id == answer->id;
}

Test(msg_kind, has_answers_that_go_to_the_client_and_say_what_they_answer)
{
    for (uint32_t i = 0; i < TITLES; i++) {
        const struct msg_kind *kind = msg_kind(titles[i].number);
        if (kind->direction != MSG_TO_BROKER)
            continue;
        const enum msg_type ends[] = {kind->as.to_broker.answer, kind->as.to_broker.refusal};
        cr_expect(ends[0] != MSG_NONE || ends[1] == MSG_NONE, "%s is only refused", kind->name);
        cr_expect(kind->id != MSG_REQUEST || ends[0] != MSG_NONE,
                  "nothing returns the request of %s", kind->name);
        for (size_t j = 0; j < 2; j++) {
            if (ends[j] == MSG_NONE)
                continue;
            const struct msg_kind *answer = msg_kind((unsigned)ends[j]);
            cr_assert(is_to_client(ends[j]), "%s", kind->name);
            cr_expect_eq(answer->as.to_client.part, MSG_ANSWER, "%s to %s", answer->name,
                         kind->name);
            cr_expect(is_matched(kind, answer), "%s to %s", answer->name, kind->name);
        }
    }
}

/* Whether a question has this answer. */
static bool has_question(unsigned answer)
{
    for (uint32_t i = 0; i < TITLES; i++) {
        const struct msg_kind *kind = msg_kind(titles[i].number);
        if (kind->direction == MSG_TO_BROKER && ((unsigned)kind->as.to_broker.answer == answer ||
                                                 (unsigned)kind->as.to_broker.refusal == answer))
            return true;
    }
    return false;
}

Test(msg_kind, has_questions_to_all_that_answers)
{
    for (uint32_t i = 0; i < TITLES; i++) {
        const struct msg_kind *kind = msg_kind(titles[i].number);
        if (kind->direction != MSG_TO_CLIENT)
            continue;
        enum msg_type asked = kind->as.to_client.question;
        cr_expect_eq(kind->as.to_client.part == MSG_ANSWER, has_question(titles[i].number), "%s",
                     kind->name);
        cr_expect_eq(kind->as.to_client.part == MSG_ROW, asked != MSG_NONE, "%s", kind->name);
        if (asked == MSG_NONE)
            continue;
        const struct msg_kind *question = msg_kind((unsigned)asked);
        cr_assert(question != NULL && question->direction == MSG_TO_BROKER, "%s", kind->name);
        cr_expect_neq(question->as.to_broker.answer, MSG_NONE, "%s has no end", kind->name);
        cr_expect(is_matched(question, kind), "%s", kind->name);
    }
}

Test(msg_kind, weighs_bytes_on_the_data_channel_alone)
{
    for (uint32_t i = 0; i < TITLES; i++) {
        const struct msg_kind *kind = msg_kind(titles[i].number);
        bool is_data = kind->lane == MSG_LANE_DATA;
        if (kind->direction == MSG_TO_BROKER)
            cr_expect(kind->as.to_broker.weight == MSG_LIGHT ||
                          (kind->as.to_broker.weight == MSG_BYTES) == is_data,
                      "%s", kind->name);
        else
            cr_expect(kind->as.to_client.wait == MSG_AT_ONCE ||
                          (kind->as.to_client.wait == MSG_OUTCOMES) == is_data,
                      "%s", kind->name);
    }
}

Test(msg_kind, finds_the_id_of_a_message)
{
    struct msg msg = {.type = MSG_DEAD, .as.dead = {.request = 5, .number = 9}};
    cr_expect_eq(msg_id(&msg), 5, "the number is that of a letter");
    msg_id_set(&msg, 6);
    cr_expect_eq(msg.as.dead.request, 6);
    cr_expect(!msg_is_numbered(&msg));
    msg = (struct msg){.type = MSG_ACK, .as.ack = {.sub = 1, .number = 7}};
    cr_expect_eq(msg_id(&msg), 7);
    cr_expect(msg_is_numbered(&msg));
    msg_id_set(&msg, 0);
    cr_expect_eq(msg.as.ack.number, 0);
    cr_expect(!msg_is_numbered(&msg));
    msg = (struct msg){.type = MSG_FAIL};
    cr_expect(msg_is_numbered(&msg), "it must have a number");
    msg = (struct msg){.type = MSG_BEAT, .as.beat.sent_ns = 3};
    cr_expect_eq(msg_id(&msg), 0);
    msg = (struct msg){.type = MSG_REFUSAL, .as.refusal.number = 3};
    cr_expect_eq(msg_id(&msg), 0, "it counts itself, and answers no number");
}

Test(msg_kind, keeps_the_texts_of_a_message)
{
    char job[] = "train";
    char why[] = "enough";
    uint8_t room[11];
    struct msg msg = {.type = MSG_JOB_CANCEL,
                      .as.job_cancel = {.request = 4, .job = {job, 5}, .message = {why, 6}}};
    struct msg less = msg;
    cr_expect(!msg_keep(&less, room, sizeof room - 1));
    cr_assert(msg_keep(&msg, room, sizeof room));
    memset(job, '-', sizeof job);
    memset(why, '-', sizeof why);
    cr_expect(span_equal(msg.as.job_cancel.job, span_text("train")));
    cr_expect(span_equal(msg.as.job_cancel.message, span_text("enough")));
    cr_expect_eq(msg.as.job_cancel.request, 4);
    msg = (struct msg){.type = MSG_UNAWAIT, .as.unawait.want = 1};
    cr_expect(msg_keep(&msg, room, 0), "it has no texts");
}

/* For a switch over one direction. */
Test(msg_kind, tells_directions_apart)
{
    cr_expect_eq(msg_to_broker(&(struct msg){.type = MSG_HELLO}), TO_BROKER_HELLO);
    cr_expect_eq(msg_to_client(&(struct msg){.type = MSG_BYE}), TO_CLIENT_BYE);
}

Test(msg_kind, goes_one_way, .signal = SIGABRT)
{
    (void)msg_to_client(&(struct msg){.type = MSG_HELLO});
}
