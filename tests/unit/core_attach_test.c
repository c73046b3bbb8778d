/* SPDX-License-Identifier: MPL-2.0 */
/* core_attach_test.c -- attachments of errors: pieces in order, within a budget, over a crash. */
#include "broker/core/core_internal.h"
#include "tests/unit/core_driver.h"

TestSuite(core_attach, .init = init, .fini = fini);

static const char error_id[] = "job/alice/1/1";
static payload_id last_payload;

static void attach_piece(const char *error, const char *name, uint64_t offset, uint32_t bytes,
                         bool is_last)
{
    static char content[LIMIT_ATTACHMENT_PIECE_BYTES];
    struct msg msg = {.type = MSG_ATTACHMENT,
                      .as.attachment = {.request = 7,
                                        .job = span_text("job"),
                                        .error = span_text(error),
                                        .name = span_text(name),
                                        .offset = offset,
                                        .is_last = is_last,
                                        .bytes = span_of(content, bytes)}};
    step((struct event){.type = EVENT_MESSAGE,
                        .conn = 5,
                        .payload = bytes > 0 ? ++last_payload : 0,
                        .as.msg = &msg});
}

/* What is said of the bytes from there on. */
static void fetch_piece(const char *error, const char *name, uint64_t offset)
{
    message(5, (struct msg){.type = MSG_FETCH,
                            .as.fetch = {.request = 8,
                                         .job = span_text("job"),
                                         .error = span_text(error),
                                         .name = span_text(name),
                                         .offset = offset}});
    for (uint32_t i = 0; i < effects.count; i++) {
        const struct effect *effect = &effects.items[i];
        if (effect->type != EFFECT_SEND_MSG || effects.msgs[effect->index].type != MSG_FETCHED)
            continue;
        const struct msg_fetched *msg = &effects.msgs[effect->index].as.fetched;
        forget();
        say("%llu of %llu, payload %u from %u%s", (unsigned long long)msg->offset,
            (unsigned long long)msg->total, effect->payload, effect->offset,
            msg->is_whole ? ", whole" : "");
    }
}

static void meet(void)
{
    join(1);
    ask_from(5);
    last_payload = 0;
}

Test(core_attach, keeps_pieces_in_order)
{
    meet();
    attach_piece(error_id, "stderr", 0, 100, false);
    EXPECT("5 < done 0 \n");
    attach_piece(error_id, "stderr", 200, 100, false); /* something is missing */
    EXPECT("5 < done 10 errbus.too_late\n");
    attach_piece(error_id, "stderr", 0, 100, false); /* its answer was lost */
    EXPECT("5 < done 0 \n");
    attach_piece(error_id, "stderr", 100, 50, true);
    EXPECT("5 < done 0 \n");
    attach_piece(error_id, "stderr", 150, 1, true); /* it is whole */
    EXPECT("5 < done 10 errbus.too_late\n");
    fetch_piece(error_id, "stderr", 0);
    EXPECT("0 of 150, payload 1 from 0, whole");
    fetch_piece(error_id, "stderr", 99);
    EXPECT("99 of 150, payload 1 from 99, whole");
    fetch_piece(error_id, "stderr", 100);
    EXPECT("100 of 150, payload 4 from 0, whole");
    fetch_piece(error_id, "stderr", 1000);
    EXPECT("150 of 150, payload 0 from 0, whole");
    compact();
    crash(1);
    ask_from(5);
    fetch_piece(error_id, "stderr", 120);
    EXPECT("120 of 150, payload 4 from 20, whole");
}

Test(core_attach, knows_errors_and_names_apart)
{
    meet();
    attach_piece(error_id, "stderr", 0, 0, true); /* nothing was said */
    attach_piece(error_id, "log", 0, 10, false);
    attach_piece("job/alice/1/12", "stderr", 0, 20, true);
    forget();
    fetch_piece(error_id, "stderr", 0);
    EXPECT("0 of 0, payload 0 from 0, whole");
    fetch_piece(error_id, "log", 0);
    EXPECT("0 of 10, payload 1 from 0");
    fetch_piece("job/alice/1/12", "stderr", 0);
    EXPECT("0 of 20, payload 2 from 0, whole");
    fetch_piece("job/alice/1/12", "log", 0);
    EXPECT("5 < done 1 errbus.not_kept\n");
    compact();
}

Test(core_attach, takes_none_of_nothing)
{
    meet();
    attach_piece("other/alice/1/1", "stderr", 0, 10, true);
    EXPECT("5 < done 1 errbus.name\n");
    attach_piece("job", "stderr", 0, 10, true);
    EXPECT("5 < done 1 errbus.name\n");
    attach_piece(error_id, "a\nb", 0, 10, true);
    EXPECT("5 < done 1 errbus.name\n");
    job_name = "nobody's";
    message(5, (struct msg){.type = MSG_FETCH,
                            .as.fetch = {.request = 8,
                                         .job = span_text("nobody's"),
                                         .error = span_text(error_id),
                                         .name = span_text("stderr")}});
    EXPECT("5 < done 1 errbus.no_job\n");
    job_name = "job";
    message(1, (struct msg){.type = MSG_BEAT});
}

Test(core_attach, lets_the_oldest_go_for_the_newest)
{
    options.attachment_bytes_max = 250;
    restart();
    meet();
    attach_piece(error_id, "a", 0, 100, true);
    attach_piece(error_id, "b", 0, 100, true);
    attach_piece(error_id, "c", 0, 50, true); /* exactly full */
    forget();
    fetch_piece(error_id, "a", 0);
    EXPECT("0 of 100, payload 1 from 0, whole");
    attach_piece(error_id, "d", 0, 1, true);
    EXPECT("5 < done 0 \n");
    fetch_piece(error_id, "a", 0);
    EXPECT("5 < done 1 errbus.not_kept\n");
    fetch_piece(error_id, "b", 0);
    EXPECT("0 of 100, payload 2 from 0, whole");
    attach_piece(error_id, "e", 0, 200, false); /* in pieces, all others go for it */
    attach_piece(error_id, "e", 200, 50, false);
    forget();
    attach_piece(error_id, "e", 250, 1, true);
    EXPECT("5 < done 4 errbus.full\n");
    fetch_piece(error_id, "e", 0); /* it ends where there was no room */
    EXPECT("0 of 250, payload 5 from 0");
    fetch_piece(error_id, "d", 0);
    EXPECT("5 < done 1 errbus.not_kept\n");
    compact();
    crash(1);
}

Test(core_attach, keeps_so_many_and_no_more)
{
    char name[16];
    meet();
    is_alone = true;
    for (unsigned i = 0; i <= LIMIT_ATTACHMENTS; i++) {
        snprintf(name, sizeof name, "n%u", i);
        attach_piece(error_id, name, 0, 1, true);
        forget();
    }
    fetch_piece(error_id, "n0", 0);
    EXPECT("5 < done 1 errbus.not_kept\n");
    fetch_piece(error_id, "n1", 0);
    EXPECT("0 of 1, payload 2 from 0, whole");
    is_alone = false;
    compact();
}
