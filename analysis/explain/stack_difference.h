/* SPDX-License-Identifier: Apache-2.0 */
/* How the stacks of a suspect differ from its control's: what it does for longer, and where. Pure; any thread. */
#ifndef SLOWRANK_ANALYSIS_EXPLAIN_STACK_DIFFERENCE_H
#define SLOWRANK_ANALYSIS_EXPLAIN_STACK_DIFFERENCE_H

#include "analysis/base/verdict.h"
#include "analysis/explain/stack_frames.h"

/* A step, or each step of a period; all 0 where the control may have as much by chance. */
struct stack_excess {
	double own_ns, control_ns;
	double blocked_share; /* of the rank's: it waited, for no CPU */
	uint32_t looks;	      /* that saw the rank there: so exact is own_ns */
	struct verdict_where where;
};

struct stack_difference {
	/* Of what stacks are for; THREAD and WAIT are none of that. What other threads did while it waited counts, too. */
	struct stack_excess classes[STACK_CLASS_NR];
	struct stack_excess all; /* where most of the excess is, whatever that is for */
};

/*
 * Of threads that call collectives, outside of these. every_steps: the rank is slow in every so-many-th step alone; 0: in all.
 * Both have steps. Returns 0, -ENOMEM, or -ENODATA where they cannot be compared: why says it.
 */
int stack_profile_compare(const struct stack_profile *suspect, const struct stack_profile *control,
	uint32_t every_steps, struct stack_difference *difference, char why[VERDICT_DETAIL_LENGTH])
	__attribute__((warn_unused_result));

#endif
