/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which looks at stacks tell of an incident, and how their frames, threads and places in the step are called. Shared by
 * the writers of stacks. Pure; any thread.
 */
#ifndef SLOWRANK_COORDINATOR_REPORT_STACKS_H
#define SLOWRANK_COORDINATOR_REPORT_STACKS_H

#include "analysis/explain/stack_looks.h"
#include "coordinator/report/line.h"
#include "coordinator/report/model.h"

enum {
	STACKS_WHY_LENGTH = 320,
	STACKS_FRAME_LENGTH = 2 * (STACK_PROFILE_NAME_MAX + 1) + 32,
	STACKS_LABEL_LENGTH = 64,
};

/* What a user asks for. */
struct stacks_wish {
	bool has_rank, has_incident;
	uint32_t rank, incident; /* incident: the verdict's id */
};

/* The best look at a rank of an incident, and the one it is held against; of a hang that is one that waits. */
struct stacks_pair {
	const struct verdict *verdict;		 /* NULL: of none */
	const struct kept_stacks *own, *control; /* control: NULL = none */
};

/*
 * Without an incident the first one that has looks, then looks that somebody asked for by hand. False: there are none;
 * why says it in one line.
 */
bool stacks_find(const struct report_model *model, const struct stacks_wish *wish,
	struct stacks_pair *pair, char why[STACKS_WHY_LENGTH]);

/* Looks that saw something, at the verdict's first rank that has some. False: there are none. */
bool stacks_of_verdict(
	const struct report_model *model, const struct verdict *verdict, struct stacks_pair *pair);

/*
 * Who is shown of a hang: of the missing ranks the first ones that were looked at, then one that waits. Fills looks, returns
 * how many.
 */
enum { STACKS_MISSING_SHOWN = 3, STACKS_HANG_SHOWN = STACKS_MISSING_SHOWN + 1 };
size_t stacks_of_hang(const struct report_model *model, const struct verdict *verdict,
	const struct kept_stacks *looks[STACKS_HANG_SHOWN]);

/* What a look is to a verdict: "suspect", "control"; of a hang "missing", "waiting"; NULL: nothing. pair: the verdict's. */
const char *stacks_part_in(const struct verdict *verdict, const struct stacks_pair *pair,
	const struct kept_stacks *look);

/* "the process ended: ..."; nothing where the look was done and nothing is missing. */
void stacks_add_why(struct line *line, const struct stack_profile *profile);

/* "save (torch/serialization.py:212)", "pthread_cond_wait (libc.so.6)", "[waiting: read pipe:[8812]]"; "[on pipe:[8812]]" without a function. */
void stacks_add_frame(
	struct line *line, uint8_t kind, const char *function, const char *file, int32_t number);
void stacks_add_node(struct line *line, const struct stack_profile *profile, uint32_t node);

/*
 * "main", "pt_autograd_0", "worker 2 python" (the rank's second child by its number). numbers: false leaves those in the
 * thread's own name out, which are of devices, ranks and members of a pool: the same for the same thread of another rank.
 */
void stacks_add_thread(
	struct line *line, const struct stack_profile *profile, uint32_t thread, bool numbers);

/* "before collective 4, all-reduce": in the rank's step, from 1. */
void stacks_add_segment(struct line *line, const struct stack_segment *segment);

const char *stacks_state_name(uint8_t state); /* "running", "waits for a lock", ... */

/* What a thread that calls collectives did for longest. */
struct stacks_caller {
	uint32_t thread, node;
	uint8_t state;
};
/* The process's first thread comes first. Fills at most capacity, returns how many. */
size_t stacks_callers(
	const struct stack_profile *profile, struct stacks_caller *callers, size_t capacity);

/*
 * The innermost frames of a stack, the innermost first: what it waits for, and of each kind those that tell where it is.
 * Fills at most STACKS_INNERMOST_MAX of nodes, returns how many.
 */
enum { STACKS_INNERMOST_MAX = 20 };
size_t stacks_innermost(
	const struct stack_profile *profile, uint32_t node, uint32_t nodes[STACKS_INNERMOST_MAX]);

/* "[waiting: fsync /a/b] in save (train.py:12)": what the first caller waits for, or does, and where. */
void stacks_add_short(struct line *line, const struct stack_profile *profile);

#endif
