/* SPDX-License-Identifier: MPL-2.0 */
/* verdict.h -- why a job failed: chooses one root among all errors of one attempt, and says when
 * the verdict is given.
 *
 * WHICH ERRORS COUNT.  Errors are weighed, one for each id.  An error is *fatal* if a job can fail
 * because of it: the failure or loss of a party, a cancel, the job's deadline.  The error of a
 * settled slot counts as the cause of a fatal error, and never by itself.  In *scope* are all fatal
 * errors that the job did not survive (see WHEN), and all errors to which these lead.
 *
 * LINKS.  An error leads to its causes, by id.  If it blames a party, it also leads to the fatal
 * errors of one incarnation of that party: the incarnation that it names, or else the newest one
 * that has any.  An error never blames its own incarnation.  To blame a party that did not fail
 * adds nothing.  Nor does a cause that is not known here; the verdict then says that it is
 * incomplete.  Errors that lead to each other are folded into one.
 *
 * CANDIDATES.  Some kinds are mere consequences (consequence_kinds: told to stop, something needed
 * failed).  They are never the root while any other error is in scope.  Where a chain ends in one,
 * the error before it counts as the end.  Candidates, by strategy:
 *   causal    the errors at the folded ends: they lead to no error but those that lead back
 *   earliest  every error in scope
 *   first     every error in scope
 *
 * The root is the first candidate in the total order.  With `first` it is the candidate that
 * arrived first; no other strategy looks at the order of arrival.
 *
 * THE TOTAL ORDER.  It chooses among the candidates; with `causal`, the links have decided before.
 * The rules, in turn:
 *   - an error with a usable stamp comes before one without
 *   - the earlier stamp
 *   - the smaller uncertainty
 *   - the party's name by its bytes; the incarnation
 *   - the id by its length, then by its bytes
 *
 * The stamp is the time of the occurrence, in broker time.  For a party that fell silent it is the
 * party's last sign of life: the party died after that, and before the silence was noticed.  A
 * stamp is not usable if it is 0 or below, or if its uncertainty is above a day.  Nor is it usable
 * if it lies, by more than its uncertainty, before the incarnation began or after the moment of
 * weighing.
 *
 * Two stamps whose uncertainties overlap are ordered by their middles, as all others are.  To call
 * them equal would give no order: a may overlap b, and b may overlap c, while a is clearly before
 * c.  Then the winner would depend on who is compared first.  The middle is the best guess.  If the
 * clocks cannot tell which was earlier, the reason says so (VERDICT_STAMP_CLOSE).
 *
 * The same set of errors, weighed at the same moment, gives the same result in any order of
 * arrival: rows, root, rival, paths and counts.  With `first`, the root and all that follows from
 * it are excepted.  This also holds beyond LIMIT_VERDICT_ERRORS.  The errors that are dropped then
 * are the last in an order, and not the last to arrive: first the survived ones, the oldest of them
 * first; then errors of slots; then fatal ones, from the end of the total order.  Several versions
 * of one id are one error.  First-hand goes before hearsay, then more links before fewer, then the
 * content decides.  The error is fatal if one version is.
 *
 * VICTIMS.  Each error that leads to the root is a victim, and has a next error on its path.  That
 * is the one nearest to the root: a cause is one step, a blame two, because a stated cause is surer
 * than a suspicion.  Of several, it is the first in the total order.
 *
 * WHEN.  A verdict is about the job.  There is none while the job goes on, or may go on (enough
 * parties remain, or spares are awaited).  The job survives a loss when it went on for a whole
 * settle window after it.  When the job cannot go on, a provisional verdict is given at once.
 * Another root that comes while the window is open corrects it.  The final verdict is given when
 * every party has ended, or when the window closes: settle_ns after the provisional one.  The
 * window stays open while a party is in doubt (suspect, in grace, asked and silent), up to
 * settle_ns_max.  What comes later is marked late and changes nothing. */
#ifndef CORE_VERDICT_H
#define CORE_VERDICT_H

#include "libbus/base/graph.h"
#include "libbus/base/limits.h"
#include "libbus/base/map.h"
#include "libbus/base/memory.h"
#include "libbus/base/span.h"

#include <stdbool.h>
#include <stdint.h>

#define VERDICT_NONE UINT32_MAX /* no row */

enum verdict_strategy {
    VERDICT_CAUSAL,
    VERDICT_EARLIEST,
    VERDICT_FIRST,
    VERDICT_STRATEGY_COUNT,
};

struct verdict_options {
    enum verdict_strategy strategy;
    uint64_t attempt;           /* errors of another attempt are refused */
    uint64_t consequence_kinds; /* bit k: kind k is a mere consequence, see CANDIDATES */
    int64_t settle_ns;          /* 0 .. LIMIT_PERIOD_MS_MAX; beyond, the nearest of these */
    int64_t settle_ns_max;      /* lost_after plus grace; below settle_ns: as settle_ns */
};

/* The job as it is now: counts of parties. */
struct verdict_job {
    uint32_t remaining;     /* live, or completed well */
    uint32_t remaining_min; /* below it the job cannot go on */
    uint32_t unended;       /* that have not ended yet */
    uint32_t doubtful;      /* of these: suspect, in grace, asked and silent */
    bool awaits_spares;     /* below the minimum, and its join window is open */
    bool is_called_off;     /* cancelled, or its deadline passed */
};

struct verdict_blame {
    struct span party;
    uint64_t incarnation; /* of its party, when the error occurred; 0: cannot be told */
};

/* One error. kind is of enum error_kind.  Readers of the result get kind, recoverable, origin and
 * code; of these only consequence_kinds decide anything. */
struct verdict_error {
    struct span id;    /* 1 .. LIMIT_ERROR_ID_BYTES */
    struct span party; /* whose failure it is; empty: the broker's word about the job */
    uint64_t incarnation;
    uint64_t attempt;
    uint64_t kind;
    uint64_t recoverable;
    uint64_t origin;
    int64_t code;
    int64_t occurred_ns; /* broker's monotonic clock; 0: unknown */
    uint64_t uncertainty_ns;
    int64_t last_sign_ns;     /* of a party that fell silent: when it was heard last; else 0 */
    int64_t believed_from_ns; /* stamps of its incarnation before this do not count; 0: unknown */
    bool is_fatal;            /* a job can fail of it */
    bool is_hearsay;          /* told by another party, in a chain of causes */
    const struct span *causes;
    uint32_t cause_count; /* up to LIMIT_ERROR_CAUSES */
    const struct verdict_blame *blames;
    uint32_t blame_count; /* up to LIMIT_ERROR_BLAMES */
};

enum verdict_role {
    VERDICT_ROOT,
    VERDICT_VICTIM, /* leads to the root */
    VERDICT_APART,  /* in scope, and does not lead to the root */
    VERDICT_ASIDE,  /* not in scope: survived, or a slot's */
    VERDICT_ROLE_COUNT,
};

enum verdict_link {
    VERDICT_LINK_NONE,
    VERDICT_LINK_CAUSE, /* the next error is named as a cause */
    VERDICT_LINK_BLAME, /* the next error is of a party that is blamed */
    VERDICT_LINK_COUNT,
};

struct verdict_row {
    const struct verdict_error *error;
    int64_t stamp_ns; /* as weighed; 0: not usable */
    enum verdict_role role;
    enum verdict_link link; /* to next */
    uint32_t next;          /* VICTIM: the next row on its path; else VERDICT_NONE */
    uint32_t steps;         /* ROOT, VICTIM: steps to the root */
    uint32_t unknown_count; /* causes that are not known here */
};

/* Why the root won over its rival, the candidate that came next. */
enum verdict_reason {
    VERDICT_NO_ROOT,     /* no error is in scope */
    VERDICT_ALONE,       /* there was no other candidate, and so no rival */
    VERDICT_STAMP,       /* it occurred apart_ns earlier */
    VERDICT_STAMP_CLOSE, /* the same, but the uncertainties of the two overlap */
    VERDICT_STAMPED,     /* its rival has no usable stamp */
    VERDICT_SURER,       /* the same stamp, with the smaller uncertainty */
    VERDICT_NAMED,       /* only its name comes before the rival's */
    VERDICT_ARRIVED,     /* it arrived first */
    VERDICT_REASON_COUNT,
};

struct verdict_result {
    const struct verdict_row *rows; /* in the total order */
    uint32_t row_count;
    uint32_t root;  /* rows, or VERDICT_NONE */
    uint32_t rival; /* as root */
    enum verdict_reason reason;
    uint64_t apart_ns;        /* STAMP, STAMP_CLOSE: between the two stamps */
    bool is_rival_folded;     /* root and rival lead to each other */
    uint32_t candidate_count; /* the root among them */
    uint32_t close_count;     /* other candidates whose uncertainty overlaps the root's */
    uint32_t victim_count;
    uint32_t apart_count;
    uint32_t farthest;      /* the victim with the longest path, the first of several; no victim:
                               the root */
    uint32_t unknown_count; /* causes that are not known, of errors in scope */
    bool is_complete;       /* all causes are known, and nothing was left out for want of room */
    bool is_final;
};

enum verdict_err {
    VERDICT_OK = 0,
    VERDICT_KNOWN,     /* its id is kept already; the better version of the two stays */
    VERDICT_LATE,      /* the window is closed: nothing changed */
    VERDICT_REFUSED,   /* malformed, or of another attempt; counted, nothing changed */
    VERDICT_NO_MEMORY, /* left out; the verdict says so */
};

enum verdict_says {
    VERDICT_SAYS_NOTHING,
    VERDICT_SAYS_PROVISIONAL,
    VERDICT_SAYS_CORRECTED, /* provisional still, with another root */
    VERDICT_SAYS_FINAL,
};

enum verdict_state {
    VERDICT_CALM,     /* the job goes on, or nothing failed */
    VERDICT_SETTLING, /* the provisional verdict was said; the window is open */
    VERDICT_CLOSED,   /* the final one was said */
    VERDICT_STATE_COUNT,
};

enum verdict_event {
    VERDICT_BREAKS,   /* a fatal error is there, and the job cannot go on */
    VERDICT_SURVIVES, /* the job went on for a whole window after a loss */
    VERDICT_CLOSES,   /* every party ended, or the window is over */
    VERDICT_EVENT_COUNT,
};

struct verdict_item; /* an error that is kept */

struct verdict {
    struct memory *memory;
    struct verdict_options options;
    struct verdict_job job; /* as of the last step */
    enum verdict_state state;

    struct verdict_item **items;
    uint32_t item_count, item_room;
    struct name_map by_id;
    uint64_t arrivals;
    uint32_t link_count;  /* causes and blames of all */
    uint32_t fresh_count; /* fatal, not survived */
    bool has_left_out;
    uint64_t refused_count;
    uint64_t late_count;

    int64_t loss_ns;   /* when the last fresh one came */
    int64_t opened_ns; /* when the provisional verdict was said */
    int64_t looked_ns; /* when verdict_step() was called last */
    bool has_news;     /* since then */
    uint32_t said_root_bytes;
    char said_root[LIMIT_ERROR_ID_BYTES]; /* id of the root as it was said last */

    struct graph graph; /* a node a row, then a node for each incarnation that can be blamed */
    uint32_t *block;    /* the arrays below, block_room elements each */
    uint32_t block_room;
    uint32_t *order;        /* items, then scratch for sorting */
    uint32_t *spare;        /* scratch for sorting */
    uint32_t *row_of;       /* the row of each item */
    uint32_t *fatal;        /* rows of fatal errors, by incarnation */
    uint32_t *incarnations; /* where in fatal each incarnation begins; one more for the end */
    uint32_t *nearest;      /* of each incarnation, the row on the path */
    uint32_t *is_proper;    /* a component has an error that may be the root */
    uint32_t *leads_on;     /* a component leads to another one that is proper, or leads to one */
    uint32_t incarnation_count;
    bool has_cause; /* something in scope is more than a mere consequence */
    struct verdict_row *rows;
    uint32_t row_room;
    struct verdict_result result;
};

void verdict_init(struct verdict *verdict, struct memory *memory,
                  const struct verdict_options *options);
void verdict_fini(struct verdict *verdict);
/* Replaces the windows of the options: parties that join later may be given more time. */
void verdict_set_windows(struct verdict *verdict, int64_t settle_ns, int64_t settle_ns_max);

/* Takes a copy.  The error that ends a party is added before the step that counts the party as
 * ended.  Reserves all memory for weighing, so that weighing cannot fail. */
enum verdict_err verdict_add(struct verdict *verdict, int64_t now_ns,
                             const struct verdict_error *error);

/* The caller has no memory for an error: the verdict will say that one is left out.  NO_MEMORY or
 * LATE. */
enum verdict_err verdict_leave_out(struct verdict *verdict, int64_t now_ns);

/* Called when time has passed, errors were added, or the job changed; then again, at the same
 * moment, until it returns NOTHING.  What it says is about verdict_result().  If a job cannot go on
 * and has no error to show for it, the caller adds one first; until then the result is NOTHING. */
enum verdict_says verdict_step(struct verdict *verdict, int64_t now_ns,
                               const struct verdict_job *job);
/* All errors so far are survived if the job, as of the last step, went on for a whole window.
 * Returns whether this call made them so.  verdict_add() and verdict_step() do the same.  A caller
 * that must note it calls this first. */
bool verdict_survive(struct verdict *verdict, int64_t now_ns);
/* The same without a window: a journal says so, or a part of the job ended well. */
void verdict_set_survived(struct verdict *verdict);
/* The caller stood still for so long, and could not hear the parties: windows that are open do not
 * count that time. */
void verdict_stood_still(struct verdict *verdict, int64_t gap_ns);
/* For replay: the final verdict on all errors so far was given at now_ns. */
void verdict_restore_final(struct verdict *verdict, int64_t now_ns);
/* When the next step is due if nothing happens; INT64_MAX: never. */
int64_t verdict_due_ns(const struct verdict *verdict);

/* Weighs the errors that are there, in any state of the job.  A final result is not changed. */
const struct verdict_result *verdict_weigh(struct verdict *verdict, int64_t now_ns);
/* The result of the last weighing.  It and all that it points to stand until the next call with
 * verdict. */
const struct verdict_result *verdict_result(const struct verdict *verdict);

const char *verdict_reason_name(enum verdict_reason reason); /* a word for programs */
/* A sentence for people about the root; {rival} and {apart} are filled in from the result. */
const char *verdict_reason_text(enum verdict_reason reason);
const char *verdict_role_name(enum verdict_role role);
const char *verdict_strategy_name(enum verdict_strategy strategy);
bool verdict_strategy_find(struct span name, enum verdict_strategy *out_strategy);

#endif
