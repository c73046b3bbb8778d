/* SPDX-License-Identifier: MPL-2.0 */
/* swarm_access.c -- in one of six seeds the broker has an access table, and others come into force
 * at random moments: each leaves some parties out, or out of one job, lets some read a few topics
 * alone, and has its principals in another order.
 *
 * By the table of each step the world checks who is sent what, and that nobody without access is
 * heard.  What a reader is to be sent is checked when faults are over: then all may read all. */
#include "libbus/base/must.h"
#include "tests/sim/swarm_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 2048 };

static const char names[SWARM_PARTIES] = {'a', 'b', 'c', 'd', 'e', 'f'};
static const char *const readable[] = {"a/#", "b/#", "c/x",       "+/x",
                                       "+/y", "d/+", "_groups/#", "+/_replies"};
static const char *const jobs[] = {"job", "other", "*"};

enum part { OUT, IN_ONE_JOB, READS_SOME, READS_ALL };

static enum part draw_part(struct dice *dice)
{
    if (dice_hits(dice, 200))
        return OUT;
    if (dice_hits(dice, 150))
        return IN_ONE_JOB;
    return dice_hits(dice, 400) ? READS_SOME : READS_ALL;
}

__attribute__((format(printf, 2, 3))) static void say(char *text, const char *format, ...)
{
    va_list args;
    size_t at = strlen(text);
    va_start(args, format);
    int bytes = vsnprintf(text + at, TEXT_BYTES - at, format, args);
    va_end(args);
    must(bytes >= 0 && (size_t)bytes < TEXT_BYTES - at);
}

static void say_rule(struct dice *dice, char *text, char name, enum part part)
{
    uint64_t job = part == IN_ONE_JOB ? dice_below(dice, 2) : 2;
    if (part == OUT)
        return;
    say(text, "allow %c party", name);
    if (part == READS_SOME)
        say(text, " reads");
    for (uint64_t i = part == READS_SOME ? 1 + dice_below(dice, 3) : 0; i > 0; i--)
        say(text, " %s", readable[dice_below(dice, sizeof readable / sizeof readable[0])]);
    say(text, " in %s\n", jobs[job]);
}

static struct access *make_table(struct swarm *swarm, const enum part parts[SWARM_PARTIES])
{
    char text[TEXT_BYTES] = "allow ops admin\nallow ops party as * in *\nuid ops 99\n";
    struct access_fault fault;
    struct dice *dice = &swarm->access_dice;
    uint64_t first = dice_below(dice, SWARM_PARTIES);
    for (uint64_t i = 0; i < SWARM_PARTIES; i++) {
        uint64_t at = (first + i) % SWARM_PARTIES;
        say(text, "uid %c %u\n", names[at], (unsigned)at + 1);
        say_rule(dice, text, names[at], parts[at]);
    }
    struct access *made = access_read(&swarm->access_memory, span_text(text), &fault);
    must(made != NULL);
    return made;
}

static struct access *make_open_table(struct swarm *swarm)
{
    enum part parts[SWARM_PARTIES];
    for (unsigned i = 0; i < SWARM_PARTIES; i++)
        parts[i] = READS_ALL;
    return make_table(swarm, parts);
}

/* Told with a letter for each party. */
static struct access *draw_table(struct swarm *swarm)
{
    static const char letters[] = {
        [OUT] = '-', [IN_ONE_JOB] = '1', [READS_SOME] = 's', [READS_ALL] = 'a'};
    enum part parts[SWARM_PARTIES];
    char told[SWARM_PARTIES + 1] = "";
    for (unsigned i = 0; i < SWARM_PARTIES; i++) {
        parts[i] = draw_part(&swarm->access_dice);
        told[i] = letters[parts[i]];
    }
    world_line(swarm->stage.world,
               "another access table (-: out, 1: in one job, s: reads some, a: all): %s", told);
    return make_table(swarm, parts);
}

void swarm_begin_access(struct swarm *swarm, uint64_t seed, struct core_options *options)
{
    dice_init(&swarm->access_dice, seed ^ UINT64_C(0x616363657373));
    memory_heap_init(&swarm->access_memory, UINT64_MAX);
    if (!dice_hits(&swarm->access_dice, 167))
        return;
    swarm->tables[swarm->table_count++] = make_open_table(swarm);
    options->access = swarm->tables[0];
}

void swarm_plan_access(struct swarm *swarm)
{
    if (swarm->table_count == 0)
        return;
    for (int64_t i = dice_between(&swarm->access_dice, 1, SWARM_TABLES - 2); i > 0; i--)
        swarm_put_down(swarm, dice_between(&swarm->access_dice, 0, swarm->climate.active_ns),
                       SWARM_ACCESS, WORLD_NOBODY, 0);
}

void swarm_change_access(struct swarm *swarm, bool lets_all_in)
{
    if (swarm->table_count == 0 || swarm->table_count == SWARM_TABLES)
        return;
    struct access *made = lets_all_in ? make_open_table(swarm) : draw_table(swarm);
    swarm->tables[swarm->table_count++] = made;
    world_use_access(swarm->stage.world, made);
}

void swarm_end_access(struct swarm *swarm)
{
    for (uint32_t i = 0; i < swarm->table_count; i++)
        access_free(&swarm->tables[i]);
}
