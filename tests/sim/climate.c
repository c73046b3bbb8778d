/* SPDX-License-Identifier: MPL-2.0 */
/* climate.c -- drawing one; see climate.h. */
#include "tests/sim/climate.h"

#include "libbus/base/must.h"

uint32_t climate_pick(struct dice *dice, const uint32_t *weights, uint32_t count)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += weights[i];
    if (sum == 0)
        return count;
    uint64_t at = dice_below(dice, sum);
    for (uint32_t i = 0; i < count; i++) {
        if (at < weights[i])
            return i;
        at -= weights[i];
    }
    return count;
}

const char *climate_fault_name(enum fault fault)
{
    static const char *const names[FAULT_COUNT] = {
        [FAULT_BREAK] = "a break",
        [FAULT_BREAK_ONE] = "a break of one channel",
        [FAULT_HALF_OPEN] = "a half-open link",
        [FAULT_STALL] = "a stall",
        [FAULT_FREEZE] = "a freeze",
        [FAULT_KILL] = "a kill",
        [FAULT_INTRUDE] = "an intruder",
        [FAULT_REPEAT] = "a repetition",
        [FAULT_STOP] = "a stop of the broker",
        [FAULT_CLOCK] = "a jump of its clock",
        [FAULT_FULL] = "a full disk",
        [FAULT_MEMORY] = "an allocation that fails",
        [FAULT_RIVAL] = "a second broker",
        [FAULT_LATE] = "a late look of the broker",
    };
    must(fault < FAULT_COUNT && names[fault] != NULL);
    return names[fault];
}

static uint64_t one_of(struct dice *dice, const uint64_t *choices, uint32_t count)
{
    return choices[dice_below(dice, count)];
}
#define ONE_OF(dice, ...)                                                                          \
    one_of((dice), (const uint64_t[]){__VA_ARGS__},                                                \
           sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

/* Tables small enough to be filled. */
static void draw_core(struct core_options *core, struct dice *dice)
{
    core->topic_window_bytes = ONE_OF(dice, 1024, 4096, 16384, 65536, 1 << 20);
    core->topic_keep_bytes = ONE_OF(dice, 1, 512, 4096, 65536);
    core->topic_keep_slots = ONE_OF(dice, 1, 4, 64, 1000);
    core->job_bytes_max = ONE_OF(dice, 32768, 262144, 4 << 20, 4 << 20);
    core->value_bytes_max = ONE_OF(dice, 50000, 2 << 20, 2 << 20);
    core->linger_ms = 60000;
    core->open_slots_max = (uint32_t)ONE_OF(dice, 8, 64, 4096, 4096);
    core->topics_max = 64;
    core->parties_max = 16;
}

static void draw_network(struct world_options *options, struct dice *dice)
{
    for (int channel = 0; channel < CHANNEL_COUNT; channel++) {
        options->delay_least_ns[channel] = dice_between(dice, 20000, WORLD_MS);
        options->delay_most_ns[channel] =
            options->delay_least_ns[channel] +
            dice_between(dice, 0, (int64_t)ONE_OF(dice, 100000, 2000000, 20000000, 60000000));
    }
    options->spike_permille = (uint32_t)ONE_OF(dice, 0, 0, 10, 50);
    options->spike_most_ns = 100 * WORLD_MS;
    options->tick_late_ns = (int64_t)ONE_OF(dice, 0, 1000000, 5000000);
    options->lane_parts_max = (uint32_t)ONE_OF(dice, 1, 4, 16, 1000);
}

static void draw_speech(struct climate *climate, struct dice *dice)
{
    static const uint32_t usual[SPEECH_COUNT] = {
        [SPEECH_PUBLISH] = 30,  [SPEECH_RESERVE] = 25, [SPEECH_COMMIT] = 22,
        [SPEECH_FAIL] = 6,      [SPEECH_RETRACT] = 3,  [SPEECH_AGAIN] = 2,
        [SPEECH_SUBSCRIBE] = 6, [SPEECH_SUB_ADD] = 2,  [SPEECH_UNSUBSCRIBE] = 2,
        [SPEECH_TAKE] = 30,     [SPEECH_ACK] = 25,     [SPEECH_RETURN] = 1,
        [SPEECH_AWAIT] = 12,    [SPEECH_UNAWAIT] = 2,  [SPEECH_FLUSH] = 6,
        [SPEECH_PROGRESS] = 1,  [SPEECH_END] = 1,
    };
    for (uint32_t i = 0; i <= SPEECH_END; i++) {
        bool is_left_out = i >= SPEECH_FAIL && i != SPEECH_SUBSCRIBE && dice_hits(dice, 250);
        climate->speech_weights[i] =
            is_left_out ? 0 : usual[i] * (uint32_t)dice_between(dice, 1, 4);
    }
    climate->active_ns = dice_between(dice, 300, 3000) * WORLD_MS;
    climate->speech_every_ns = (int64_t)ONE_OF(dice, 2, 5, 10, 20, 40) * WORLD_MS;
    climate->deadline_permille = (uint32_t)ONE_OF(dice, 0, 200, 700);
    climate->deadline_most_ms = (int64_t)ONE_OF(dice, 20, 200, 1500);
    climate->chosen_permille = (uint32_t)ONE_OF(dice, 0, 100, 500);
    climate->large_permille = (uint32_t)ONE_OF(dice, 0, 0, 30, 100);
    climate->large_bytes_max = 100000;
    climate->bulk_max = (uint32_t)ONE_OF(dice, 0, 0, 0, 2);
    climate->small_bytes_max = ONE_OF(dice, 16, 64, 300);
    climate->durable_permille = (uint32_t)ONE_OF(dice, 0, 300, 800);
    climate->gap_permille = (uint32_t)ONE_OF(dice, 0, 300, 800);
    climate->keep_most_ms = (int64_t)ONE_OF(dice, 100, 1000, 4000);
}

static void draw_faults(struct climate *climate, struct dice *dice)
{
    static const uint32_t usual[FAULT_COUNT] = {
        [FAULT_BREAK] = 6,  [FAULT_BREAK_ONE] = 4, [FAULT_HALF_OPEN] = 3, [FAULT_STALL] = 4,
        [FAULT_FREEZE] = 4, [FAULT_KILL] = 3,      [FAULT_INTRUDE] = 3,   [FAULT_REPEAT] = 4,
    };
    for (uint32_t i = 0; i <= FAULT_REPEAT; i++)
        climate->fault_weights[i] =
            dice_hits(dice, 400) ? 0 : usual[i] * (uint32_t)dice_between(dice, 1, 4);
    climate->fault_every_ns = (int64_t)ONE_OF(dice, 0, 100, 300, 300, 1000) * WORLD_MS;
    climate->quiet_permille = (uint32_t)ONE_OF(dice, 0, 200, 700);
    climate->notice_most_ns = (int64_t)ONE_OF(dice, 1, 20, 300) * WORLD_MS;
    climate->restart_most_ns = (int64_t)ONE_OF(dice, 20, 300, 1500) * WORLD_MS;
    climate->restart_permille = (uint32_t)ONE_OF(dice, 500, 900, 1000);
}

void climate_draw(struct climate *climate, struct world_options *options, struct dice *dice)
{
    climate->job_count = dice_hits(dice, 200) ? 2 : 1;
    climate->party_count = (uint32_t)dice_between(dice, 2, climate->job_count == 2 ? 3 : 6);
    climate->topic_count = (uint32_t)dice_between(dice, 1, 3);
    draw_speech(climate, dice);
    draw_faults(climate, dice);
    draw_network(options, dice);
    draw_core(&options->core, dice);
    options->no_notice_permille = climate->quiet_permille;
    options->notice_most_ns = climate->notice_most_ns;
    climate->heartbeat_ms = (int64_t)ONE_OF(dice, 50, 100, 200);
    climate->lost_after_ms = climate->heartbeat_ms * dice_between(dice, 3, 8);
    climate->grace_ms = (int64_t)ONE_OF(dice, 0, 50, 400);
    climate->broker_lost_ms = climate->lost_after_ms + dice_between(dice, 500, 2000);
    climate->freeze_most_ns = climate->lost_after_ms * 2 * WORLD_MS;
    climate->outbox_bytes_max = ONE_OF(dice, 2048, 16384, 1 << 20);
    climate->inbox_bytes_max = ONE_OF(dice, 4096, 65536, 1 << 20);
    /* In pieces of a value is what there are most of to lose, to repeat and to give up. */
    climate->chunk_bytes_max = climate->outbox_bytes_max < 1 << 20 ? 32 * 1024 : 0;
    climate->needs_permille = (uint32_t)ONE_OF(dice, 0, 300, 900);
}

static void draw_groups(struct climate *climate, struct dice *dice)
{
    static const uint32_t usual[FATE_COUNT] = {
        [FATE_REPLY] = 20, [FATE_DONE] = 4,  [FATE_BACK] = 3,
        [FATE_LATER] = 3,  [FATE_NEVER] = 2, [FATE_FAILED] = 3};
    climate->group_count = (uint32_t)dice_between(dice, 1, CLIMATE_GROUPS);
    for (uint32_t i = 0; i < CLIMATE_GROUPS; i++) {
        climate->deliver_max[i] = (uint32_t)ONE_OF(dice, 1, 2, 3, 5, 16);
        climate->group_from[i] = dice_hits(dice, 300) ? -1 : 0;
    }
    climate->credit_most = (uint32_t)ONE_OF(dice, 1, 1, 2, 8, 32);
    climate->lapse_permille = (uint32_t)ONE_OF(dice, 0, 0, 300, 1000);
    for (uint32_t i = 0; i < FATE_COUNT; i++)
        climate->fate_weights[i] = i > FATE_REPLY && dice_hits(dice, 300)
                                       ? 0
                                       : usual[i] * (uint32_t)dice_between(dice, 1, 4);
    climate->retry_most_ms = (int64_t)ONE_OF(dice, 5, 100, 1000);
    climate->deadline_asked_permille = (uint32_t)ONE_OF(dice, 0, 200, 700);
    climate->speech_weights[SPEECH_JOIN] = 4 * (uint32_t)dice_between(dice, 1, 4);
    climate->speech_weights[SPEECH_WORK] =
        dice_hits(dice, 150) ? 0 : 30 * (uint32_t)dice_between(dice, 1, 4);
    climate->speech_weights[SPEECH_REQUEST] =
        dice_hits(dice, 150) ? 0 : 15 * (uint32_t)dice_between(dice, 1, 4);
    climate->speech_weights[SPEECH_CANCEL] = dice_hits(dice, 400) ? 0 : 3;
    climate->speech_weights[SPEECH_LETTERS] = dice_hits(dice, 400) ? 0 : 2;
}

void climate_draw_more(struct climate *climate, struct world_options *options, struct dice *dice)
{
    static const uint32_t usual[FAULT_COUNT] = {[FAULT_STOP] = 3,
                                                [FAULT_CLOCK] = 3,
                                                [FAULT_FULL] = 3,
                                                [FAULT_MEMORY] = 6,
                                                [FAULT_RIVAL] = 2};
    for (uint32_t i = FAULT_STOP; i <= FAULT_RIVAL; i++)
        climate->fault_weights[i] =
            dice_hits(dice, 600) ? 0 : usual[i] * (uint32_t)dice_between(dice, 1, 4);
    if (dice_hits(dice, 650))
        draw_groups(climate, dice);
    options->core.unserved_ms = (int64_t)ONE_OF(dice, 100, 500, 2000);
    options->link_rate = ONE_OF(dice, 0, 0, 0, 12500000, 1250000, 250000);
    climate->fault_weights[FAULT_LATE] =
        dice_hits(dice, 600) ? 0 : 6 * (uint32_t)dice_between(dice, 1, 4);
}
