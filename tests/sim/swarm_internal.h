/* SPDX-License-Identifier: MPL-2.0 */
/* swarm_internal.h -- what swarm.c and swarm_check.c share. */
#ifndef SIM_SWARM_INTERNAL_H
#define SIM_SWARM_INTERNAL_H

#include "tests/sim/climate.h"
#include "tests/sim/stage.h"
#include "tests/sim/swarm.h"

#include <bus/bus.h>
#include <stdbool.h>
#include <stdint.h>

enum { SWARM_PARTIES = 6, SWARM_TOPICS = 3, SWARM_TABLES = 12 };

enum swarm_phase { SWARM_ACTIVE, SWARM_CALM };

enum swarm_act {
    SWARM_SPEAK, /* who says something, if it is up */
    SWARM_HARM,
    SWARM_START, /* value: who */
    SWARM_END,   /* who's session is over; value: the oracle's record of it */
    SWARM_QUIET, /* who reads all there is */
    SWARM_PROBE, /* who must be able to publish; value: topic */
    SWARM_CRASH, /* the broker is killed */
    SWARM_COMPACT,
    SWARM_CANCEL,   /* the first job, by somebody from outside */
    SWARM_NIGHT,    /* most parties of the first job end, and come again */
    SWARM_ACCESS,   /* another access table comes into force */
    SWARM_SCRIPTED, /* value: the moment of the script */
};

struct swarm {
    struct swarm_options options;
    struct climate climate;
    struct stage stage;
    struct dice *dice;
    struct dice
        journal_dice; /* of all that concerns the broker's journal: the rest stays as it is */
    struct dice secret_dice; /* of what errors have in them, likewise */
    enum disclosure of_job;  /* the level of the first job */
    enum swarm_phase phase;
    uint64_t job_bytes_max;
    uint64_t value_count;
    uint32_t crash_count;
    uint32_t crash_kills_permille; /* with which a party is killed, too */
    uint32_t spare_permille;       /* which another broker makes of it, while this one serves on */
    uint32_t bulk_left;
    bool is_passing;        /* large values have no room in their job */
    uint32_t probe_count;   /* not answered yet */
    const char *probe_name; /* the topic that was tried last, in vain */
    uint64_t baseline_bytes;
    int64_t in_vain_ns; /* when parties began to wait for those that never join */
    bool is_completing[WORLD_HOSTS];
    bool is_burying[WORLD_HOSTS];
    struct memory access_memory;
    struct access *tables[SWARM_TABLES]; /* that were in force; of the last one the core reads */
    uint32_t table_count;                /* 0: everybody may do everything */
    struct dice access_dice;
    struct swarm_report report;
};

/* swarm.c */
/* Bytes like no others, if there is room for a number; good until the next ones at that place. */
struct span swarm_value(struct swarm *swarm, size_t at, size_t bytes);
size_t swarm_draw_bytes(struct swarm *swarm);
const char *swarm_own_topic(struct swarm *swarm, const struct app *app);
void swarm_read_all(struct swarm *swarm, struct app *app);
void swarm_kill(struct swarm *swarm, uint32_t who);
/* What is drawn once for all; a run that follows a script has its moments from there. */
void swarm_put_down(struct swarm *swarm, int64_t at_ns, enum swarm_act what, uint32_t who,
                    uint64_t value);

/* swarm_night.c */
void swarm_plan_nights(struct swarm *swarm, struct dice *dice);
void swarm_night(struct swarm *swarm);
/* That party is over.  If the run that it chose was refused, it comes again without a choice. */
void swarm_give_up_run(struct swarm *swarm, uint32_t who);

/* swarm_access.c */
/* In some seeds there is an access table from the beginning; the first one lets all in. */
void swarm_begin_access(struct swarm *swarm, uint64_t seed, struct core_options *options);
void swarm_plan_access(struct swarm *swarm);
/* Another table, which leaves some out, or none. */
void swarm_change_access(struct swarm *swarm, bool lets_all_in);
void swarm_end_access(struct swarm *swarm);

/* swarm_work.c */
void swarm_make_groups(struct swarm *swarm);
/* One of the speeches from SPEECH_JOIN on. */
void swarm_speak_of_work(struct swarm *swarm, struct app *app, enum speech speech);
/* Takes all tasks there are, and says what becomes of each. */
void swarm_work_all(struct swarm *swarm, struct app *app);
/* Somebody looks at what dead letters there are, and why. */
void swarm_show_letters(struct swarm *swarm, uint32_t job);
/* All dead letters are dropped, or given to their groups again. */
void swarm_treat_letters(struct swarm *swarm, uint32_t job, bool is_drop);

/* swarm_check.c: each tells the world what is wrong. */
void swarm_note_baseline(struct swarm *swarm);
/* Faults are over and all time ran out: nobody waits without reason. */
void swarm_check_calm(struct swarm *swarm);
/* That party ended, and all others know. */
void swarm_check_ended(struct swarm *swarm, uint32_t who);
/* All are gone, and the broker has forgotten them. */
void swarm_check_after(struct swarm *swarm);

#endif
