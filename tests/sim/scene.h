/* SPDX-License-Identifier: MPL-2.0 */
/* scene.h -- a small world without chance, for scenarios that read as transcripts.
 *
 * Parts take a millisecond each way (data longer, if asked for), parties are called by their name,
 * and read and acknowledge whatever comes as soon as it comes, unless they are told not to.  What
 * they see is written down, a line each: "[ 110] bob: alice/w 3 failed, root alice app.hot". */
#ifndef SIM_SCENE_H
#define SIM_SCENE_H

#include "tests/sim/stage.h"

#include <stdbool.h>
#include <stdint.h>

struct scene {
    struct stage stage;
    int64_t lost_after_ms, grace_ms, broker_lost_ms; /* of parties that start */
    uint32_t line_at;                                /* lines before it were compared */
    bool is_holding[WORLD_HOSTS];                    /* reads only when told to */
    bool is_unacked[WORLD_HOSTS];                    /* reads, and acknowledges only when told to */
};

struct scene_options {
    struct world_options world;
    int64_t lost_after_ms, grace_ms, broker_lost_ms;
    bool is_telling_events;
};

/* Heartbeat 100 ms and broker_lost 2000 ms for all, lost_after 500 ms, grace 200 ms. */
void scene_options_init(struct scene_options *options);
void scene_open(struct scene *scene, const struct scene_options *options);
/* Ends everything and checks that nothing leaks; gives what promise was broken, or NULL. */
const char *scene_close(struct scene *scene);

/* A process of this party starts; goes on until the party is up, or 20 ms passed. */
void scene_join(struct scene *scene, const char *party);
void scene_join_job(struct scene *scene, const char *party, const char *job);
/* The same, for so long only. */
void scene_start(struct scene *scene, const char *party, int64_t for_ms);
struct app *scene_app(struct scene *scene, const char *party);
void scene_run(struct scene *scene, int64_t for_ms);
/* All that party can read now, without acknowledging it. */
void scene_read(struct scene *scene, const char *party);
void scene_ack_all(struct scene *scene, const char *party);

/* The rest as in app.h and world.h, for a party called by its name. */
enum wire_code scene_publish(struct scene *scene, const char *party, const char *topic,
                             const char *text);
enum wire_code scene_reserve(struct scene *scene, const char *party, const char *topic,
                             int64_t deadline_ms);
enum wire_code scene_commit(struct scene *scene, const char *party, const char *topic, uint64_t seq,
                            const char *text);
void scene_fail(struct scene *scene, const char *party, const char *topic, uint64_t seq,
                const char *type, bool with_cause);
void scene_subscribe(struct scene *scene, const char *party, const char *pattern);
void scene_await(struct scene *scene, const char *party, const char *topic, uint64_t seq);
void scene_flush(struct scene *scene, const char *party);
/* Gone without a word; the broker is told after so long (WORLD_NEVER: never). */
void scene_kill(struct scene *scene, const char *party, int64_t notice_ms);
void scene_freeze(struct scene *scene, const char *party, int64_t for_ms);
/* Both connections break, and both ends are told at once. */
void scene_break(struct scene *scene, const char *party);

/* Compares the lines since the last call; expected: each ending in '\n'.  NULL: they are the same;
 * otherwise both, for people. */
const char *scene_compare(struct scene *scene, const char *expected);

#endif
