/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From job steps to verdicts: feeds each step through blame, change points, class, cause and
 * alert policy, and keeps the totals. Everything depends on the steps and the evidence before
 * their ends only, never on when they came in. One thread; see docs/analysis.md.
 */
#ifndef SLOWRANK_ANALYSIS_JUDGE_JUDGE_H
#define SLOWRANK_ANALYSIS_JUDGE_JUDGE_H

#include "analysis/base/evidence_source.h"
#include "analysis/base/verdict.h"
#include "analysis/explain/kernel_profile.h"
#include "analysis/join/align.h"
#include "analysis/locate/link_flows.h"

struct judge;

struct judge_options {
	/* Called for each alert, update and recovery, in order; may be NULL. */
	void (*on_verdict)(void *context, enum verdict_event event, const struct verdict *verdict);
	void *context;
};

int judge_create(const struct judge_options *options, struct judge **judge)
	__attribute__((warn_unused_result));
void judge_destroy(struct judge *judge); /* NULL is fine */

/*
 * Calls on_sheet at the end of each block, for each rank and for transfers that were looked at: what
 * held them back, or did not, and what the delay is made of (why; NULL: there is none). Changes no verdict.
 * on_sheet NULL: no more.
 */
struct explanation;
struct gate_sheet;
void judge_watch_sheets(struct judge *judge,
	void (*on_sheet)(
		void *context, const struct gate_sheet *sheet, const struct explanation *why),
	void *context);

/*
 * Calls on_step for each job step, once it is known what it cost whom. A step of the program that is made of rounds
 * is several (grid->step.of_program). What the totals of ranks sum is in the rows: of the grid their phases, of the
 * blame charged_ns, inherited_ns, wait_ns and transfer_ns. Valid during the call; changes no verdict. NULL: no more.
 */
struct blame;
struct judged_step {
	const struct step_grid *grid;
	const struct blame *blame; /* its rows are the grid's; NULL: nobody is charged */
	const struct judge *judge; /* for judge_evidence() */
};
void judge_watch_steps(struct judge *judge,
	void (*on_step)(void *context, const struct judged_step *step), void *context);

/* What was sampled of a rank, by the job's time as its latest step has it; NULL: nothing. Valid until the judge is given more. */
struct evidence;
const struct evidence *judge_evidence(const struct judge *judge, uint32_t rank);

/* What can be measured on a rank: enum evidence_source bits. */
int judge_measurable(struct judge *judge, uint32_t rank, uint32_t evidence_mask)
	__attribute__((warn_unused_result));
/* A process of the job: when its ranks take the CPU from each other, that is no fault yet. */
int judge_process(struct judge *judge, uint32_t rank, uint32_t pid)
	__attribute__((warn_unused_result));
/* Why a source is missing, for the texts; kept as text, cut to VERDICT_DETAIL_LENGTH. */
void judge_missing(struct judge *judge, enum evidence_source source, const char *why);

/*
 * Evidence of a rank, in order of time; only what is not later than a step's end is used for that
 * step, so evidence should come before the steps that it belongs to. The job time is what the clocks
 * are known to be so far: it counts until the rank's first step says better.
 */
int judge_interval(struct judge *judge, const struct off_cpu_interval *interval,
	struct job_ns start) __attribute__((warn_unused_result));
int judge_sample(struct judge *judge, const struct metric_sample *sample, struct job_ns time)
	__attribute__((warn_unused_result));
/* To be called before some samples of several ranks are given: fetches what they go to, side by side. */
void judge_expect_samples(
	const struct judge *judge, const struct metric_sample *samples, size_t count);

/*
 * What a deep look at a rank saw, or why it saw nothing. The newest of each rank is kept, and the
 * oldest, which shows it before a fault; of few ranks. It counts from the next block on.
 */
int judge_kernel_profile(struct judge *judge, const struct kernel_profile *profile,
	struct job_ns start, struct job_ns stop) __attribute__((warn_unused_result));

/* The same of stacks: the newest of few ranks are kept, see explain/stack_looks.h. */
struct stack_looks;
struct stack_profile;
int judge_stack_profile(struct judge *judge, const struct stack_profile *profile,
	struct job_ns start, struct job_ns stop) __attribute__((warn_unused_result));
/* NULL: none. Valid until the next profile. */
const struct stack_looks *judge_stacks(const struct judge *judge);

enum judge_look_kind { JUDGE_LOOK_KERNELS = 0, JUDGE_LOOK_STACKS = 1, JUDGE_LOOK_KIND_NR };
/* A rank that should be looked at, and a healthy one of its role to compare it with. */
struct judge_look_want {
	uint32_t suspect, control;
	bool first;	       /* in a verdict, and not looked at since that one's onset */
	bool early;	       /* in none yet: it may come to nothing */
	uint32_t period_steps; /* not 0: it is slow in each so-many-th step */
	int64_t step_ns;       /* usual length of a step, of late */
};
typedef bool judge_may_look(void *context, enum judge_look_kind kind, uint32_t rank, bool first);
/* Instead of a rank: may a suspicion be looked at before there is a verdict, whosever it is? */
#define JUDGE_LOOK_EARLY UINT32_MAX
/*
 * Ranks that are in a verdict, or suspected, whose cause such a look may tell: kernels of ranks on devices, stacks of slow
 * hosts. may_look: false for ranks that must be left alone now; asked of suspects, and of controls, for which each look is
 * a first. Fills at most capacity, returns how many.
 */
size_t judge_look_wants(const struct judge *judge, enum judge_look_kind kind,
	judge_may_look *may_look, void *context, struct judge_look_want *wants, size_t capacity);
/*
 * While the job hangs: ranks that did not arrive, and one of those that wait for them, of which no stacks were seen since.
 * Fills at most capacity, returns how many.
 */
size_t judge_hang_look_wants(const struct judge *judge, judge_may_look *may_look, void *context,
	uint32_t *ranks, size_t capacity);
/* Looks kept, in no order, at most two of a rank; NULL behind the last. Valid until the next profile. */
const struct kernel_profile *judge_look(const struct judge *judge, size_t index);

/* What a rank's queue pair did for another rank: increments; the same rules as above hold. */
int judge_link(struct judge *judge, const struct link_sample *sample, struct job_ns time)
	__attribute__((warn_unused_result));

/* The next job step. The grid must be linked; the judge keeps nothing of it. */
int judge_step(struct judge *judge, const struct step_grid *grid)
	__attribute__((warn_unused_result));

/*
 * Nothing moves: some members of an instance never entered it, or its members wait for each other.
 * The arrays are the caller's, ascending.
 */
struct hang_finding {
	const uint32_t *missing; /* who never came, or came to an end */
	size_t missing_count;
	const uint32_t *waiting; /* who is inside, or waits for those */
	size_t waiting_count;
	struct job_ns since;	  /* when the first of them entered */
	struct verdict_hang call; /* that they wait in */
	/* What they wait in, and where each of the missing (the first ones of them) was last. */
	size_t detail_count;
	char details[VERDICT_EVIDENCE_MAX][VERDICT_DETAIL_LENGTH];
};

/*
 * Says that the job hangs at a time, or (finding NULL) that it goes on. The first call opens the
 * verdict, later ones change it, NULL ends it.
 */
int judge_hang(struct judge *judge, const struct hang_finding *finding, struct job_ns now)
	__attribute__((warn_unused_result));

/*
 * For how long, in ns, nothing may move before that counts as a hang (policy.h): of ranks that cannot go on
 * by themselves, or of those that are alive, which depends on the usual step.
 */
int64_t judge_hang_limit_ns(const struct judge *judge, bool alive);

/* No more steps will come: decides on what is open. */
int judge_finish(struct judge *judge) __attribute__((warn_unused_result));

void judge_job_totals(const struct judge *judge, struct job_totals *totals);

/*
 * What single parts of the job cost, by kind, the dearest first; those that cost less than half a
 * percent of the step are left out. Returns how many.
 */
size_t judge_costs(const struct judge *judge, struct job_cost costs[COSTS_MAX]);

/* What a rank's collectives were, over the judged steps. */
struct judge_rank_totals {
	uint64_t steps;
	int64_t wait_ns, transfer_ns;
	int64_t own_excess_ns, inherited_ns;
	uint32_t role;
};
/* All zero for a rank that was never seen. */
struct judge_rank_totals judge_rank_totals(const struct judge *judge, uint32_t rank);

/* Verdicts so far, by id; valid until the next call that is not a getter. */
const struct verdict *judge_verdicts(const struct judge *judge, size_t *count);

#endif
