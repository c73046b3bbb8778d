/* SPDX-License-Identifier: MPL-2.0 */
/* fact_fuzz.c -- foreign bytes as the facts of a journal, one behind the other as in
 * tests/corpus/facts (length in two bytes, payload in four, record): refused in words, or taken;
 * then the core says all it knows, goes on, and ends with nothing left. */
#include "broker/core/core.h"
#include "libbus/base/must.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define BYTES_MAX (UINT64_C(64) * 1024 * 1024)

static bool replay_all(struct core *core, struct effects *effects, const uint8_t *data,
                       size_t bytes)
{
    size_t at = 0;
    while (at + 6 <= bytes) {
        size_t count = (size_t)data[at] << 8 | data[at + 1];
        payload_id payload = data[at + 5]; /* few are enough */
        at += 6;
        if (count > bytes - at)
            count = bytes - at;
        effects_clear(effects);
        if (core_replay(core, (struct span){data + at, count}, payload, effects) != NULL)
            return false;
        at += count;
    }
    return true;
}

/* Whatever was taken can be said again, and is taken again. */
static void say_again(struct core *core, struct memory *memory, const struct core_options *options,
                      struct effects *effects)
{
    struct effects unheard;
    struct core *second = core_new(memory, options, 0);
    must(second != NULL);
    effects_init(&unheard, memory);
    effects_clear(effects);
    core_snapshot(core, effects);
    for (uint32_t i = 0; i < effects->count; i++) {
        const struct effect *effect = &effects->items[i];
        must(effect->type == EFFECT_FACT);
        effects_clear(&unheard);
        must(core_replay(second, effects_record(effects, effect), effect->payload, &unheard) ==
             NULL);
    }
    effects_fini(&unheard);
    core_free(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct memory small, large;
    struct effects effects;
    struct core_options options;
    memory_heap_init(&small, BYTES_MAX);
    memory_heap_init(&large, UINT64_MAX);
    effects_init(&effects, &large);
    core_options_init(&options);
    options.has_facts = true;
    struct core *core = core_new(&small, &options, 0);
    must(core != NULL);
    if (replay_all(core, &effects, data, bytes)) {
        struct event now = {.now_ns = 1, .wall_ns = 1};
        effects_clear(&effects);
        core_resume(core, &now, &effects);
        say_again(core, &large, &options, &effects);
        struct event tick = {.type = EVENT_TICK, .now_ns = INT64_C(100000000000)};
        effects_clear(&effects);
        core_step(core, &tick, &effects);
    }
    core_free(&core);
    effects_fini(&effects);
    must(small.bytes_used == 0 && large.bytes_used == 0);
    return 0;
}
