/* SPDX-License-Identifier: MPL-2.0 */
/* verdict.h -- why a job failed: one root among all the errors of one attempt, and when it is said.
 *
 * WHAT IS WEIGHED.  Errors, one for each id.  An error is *fatal* if a job can fail of it: the
 * failure or loss of a party, a cancel, the job's deadline.  Settled slots are data: their errors
 * count as causes of fatal ones and never by themselves.  In *scope* is every fatal error that the
 * job did not survive (see WHEN), and all to which these lead.
 *
 * WHAT LEADS WHERE.  An error leads to its causes, by id; and if it blames a party, to the fatal
 * errors of that party's incarnation: the one it names, or else the newest that has any.  Nobody
 * blames the incarnation that speaks.  A party that is blamed and did not fail explains nothing,
 * neither does a cause that nobody knows: of the latter the verdict says that it is incomplete.
 * Errors that lead to each other are folded into one.
 *
 * WHO WINS.  Some kinds are mere consequences (consequence_kinds: told to stop, something needed
 * failed).  They are never the root while another error is in scope; where a chain ends in one, the
 * error before it counts as the end.  Candidates, by strategy:
 *   causal    the errors of the folded ends: what leads to no other error but those that lead back
 *   earliest  every error in scope
 *   first     every error in scope
 * The first of them in the total order is the root; with `first`, the one that arrived first, which
 * is the one strategy that looks at the order of arrival.
 *
 * THE TOTAL ORDER.  It chooses among the candidates; with `causal`, links have decided before.  A
 * usable stamp before none; the earlier stamp; if stamps tie, the smaller uncertainty; then the
 * party by its bytes; the incarnation; the id by its length, then by its bytes.  The stamp is the
 * occurrence in broker time; of a party that fell silent, its last sign of life, as the death came
 * behind that and not when the silence was noticed.  Not usable are 0 and below, an uncertainty
 * above a day, and what lies, by more than the uncertainty, before the incarnation that it is about
 * or behind the moment of weighing. Two stamps whose uncertainties overlap are ordered as any
 * others, by their middles.  To call them equal would be no order: a may overlap b, and b may
 * overlap c, while a is clearly before c, and then the winner would depend on who is compared
 * first.  The middle is the best guess there is; what the clocks cannot tell is said with the
 * reason (VERDICT_STAMP_CLOSE), not decided otherwise.
 *
 * The same set of errors, weighed at the same moment, gives the same result in whatever order they
 * arrived: rows, root, rival, paths and counts.  (`first` excepted, for root and what follows from
 * it.)  That holds beyond LIMIT_VERDICT_ERRORS too: what goes is the last in an order, and not the
 * last to come: what was survived, the oldest first; then errors of slots, then fatal ones, from
 * the end of the total order.  Several versions of one id are one error: first-hand before hearsay,
 * more links before fewer, then by content; fatal if one of them is.
 *
 * WHO BELONGS TO THE ROOT.  Each error that leads to the root is its victim, and has a next error
 * on its path: the nearest to the root (a cause is one step, a blame two: what was said outright
 * goes before what was suspected), then the first in the total order.
 *
 * WHEN.  A verdict is about the job.  While it goes on, or may yet (enough parties remain, or
 * spares are awaited), there is none; a loss after which it went on for a whole settle window is
 * survived.  When it cannot go on, a provisional verdict is said at once; a root that comes in
 * while the window is open corrects it; the final one is said when every party has ended, or the
 * window closes: settle_ns after the provisional one, later while a party is in doubt (suspect, in
 * grace, asked and silent), at settle_ns_max in any case.  What comes later is late and changes
 * nothing. */
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
    uint64_t attempt;           /* errors of another one are refused */
    uint64_t consequence_kinds; /* bit k: kind k is never the root while another error is there */
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
    uint64_t incarnation; /* that lived when the error occurred; 0: cannot be told */
};

/* One error.  kind is of enum error_kind; kind (but for consequence_kinds), recoverable, origin and
 * code are carried for whoever reads the result, and decide nothing. */
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
    int64_t believed_from_ns; /* no stamp of its incarnation counts before; 0: unknown */
    bool is_fatal;            /* a job can fail of it */
    bool is_hearsay;          /* told by another party, as part of a chain of causes */
    const struct span *causes;
    uint32_t cause_count; /* up to LIMIT_ERROR_CAUSES */
    const struct verdict_blame *blames;
    uint32_t blame_count; /* up to LIMIT_ERROR_BLAMES */
};

enum verdict_role {
    VERDICT_ROOT,
    VERDICT_VICTIM, /* leads to the root */
    VERDICT_APART,  /* in scope, and does not */
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
    uint32_t next;          /* VICTIM: the row behind it on its path; else VERDICT_NONE */
    uint32_t steps;         /* ROOT, VICTIM: how far the root is */
    uint32_t unknown_count; /* causes that nobody knows */
};

/* Why the root won over its rival, the candidate that came next. */
enum verdict_reason {
    VERDICT_NO_ROOT,     /* there is nothing that the job failed of */
    VERDICT_ALONE,       /* no other could be the root; there is no rival */
    VERDICT_STAMP,       /* it occurred apart_ns earlier */
    VERDICT_STAMP_CLOSE, /* so it seems, but the uncertainties of the two overlap */
    VERDICT_STAMPED,     /* its rival has no usable stamp */
    VERDICT_SURER,       /* stamped the same, with the smaller uncertainty */
    VERDICT_NAMED,       /* nothing but its name goes before the rival's */
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
    uint32_t unknown_count; /* causes that nobody knows, of errors in scope */
    bool is_complete;       /* none of these, and nothing was left out for want of room */
    bool is_final;
};

enum verdict_err {
    VERDICT_OK = 0,
    VERDICT_KNOWN,     /* its id is there; the better version of the two stands */
    VERDICT_LATE,      /* the window is closed: nothing changed */
    VERDICT_REFUSED,   /* malformed, or of another attempt; counted, nothing changed */
    VERDICT_NO_MEMORY, /* left out, and the verdict will say so */
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
    VERDICT_BREAKS,   /* there is what the job failed of, and it cannot go on */
    VERDICT_SURVIVES, /* the window of a loss is over, and it went on */
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
    int64_t looked_ns; /* when it was looked at last */
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
    uint32_t *is_proper;    /* a component has an error that may be a root */
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
/* As in the options: parties that join later may be given more time. */
void verdict_set_windows(struct verdict *verdict, int64_t settle_ns, int64_t settle_ns_max);

/* Takes a copy.  What a party's end is about is added before the step that tells of the end.
 * Reserves all that weighing needs, so that weighing cannot fail. */
enum verdict_err verdict_add(struct verdict *verdict, int64_t now_ns,
                             const struct verdict_error *error);

/* What the caller has no memory for is left out, and the verdict will say so: NO_MEMORY or LATE. */
enum verdict_err verdict_leave_out(struct verdict *verdict, int64_t now_ns);

/* Time passed, errors were added, or the job changed.  To be called again, at the same moment,
 * until it says nothing.  What it says is about verdict_result().  A job that cannot go on and has
 * no error to show for it is given one by its caller first; until then nothing is said. */
enum verdict_says verdict_step(struct verdict *verdict, int64_t now_ns,
                               const struct verdict_job *job);
/* What was added so far is survived if the job, as of the last step, went on for a whole window;
 * whether it became so now.  verdict_add() and verdict_step() see to it as well: a caller that has
 * to tell of it asks first. */
bool verdict_survive(struct verdict *verdict, int64_t now_ns);
/* The same whatever the window: a journal tells so, or part of the job ended well. */
void verdict_set_survived(struct verdict *verdict);
/* As a journal tells: the final word about what was added was said at now_ns. */
void verdict_restore_final(struct verdict *verdict, int64_t now_ns);
/* When the next step is due if nothing happens; INT64_MAX: never. */
int64_t verdict_due_ns(const struct verdict *verdict);

/* Weighs what is there, whatever the job's state; the final result stays what it was. */
const struct verdict_result *verdict_weigh(struct verdict *verdict, int64_t now_ns);
/* What was weighed last.  Good, with all that it points to, until the next call with verdict. */
const struct verdict_result *verdict_result(const struct verdict *verdict);

const char *verdict_reason_name(enum verdict_reason reason); /* a word for programs */
/* A sentence for people about the root; {rival} and {apart} stand for those of the result. */
const char *verdict_reason_text(enum verdict_reason reason);
const char *verdict_role_name(enum verdict_role role);
const char *verdict_strategy_name(enum verdict_strategy strategy);
bool verdict_strategy_find(struct span name, enum verdict_strategy *out_strategy);

#endif
