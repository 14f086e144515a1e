/* SPDX-License-Identifier: Apache-2.0 */
/* What stacks say of an episode, for explain() and its measures. One thread. */
#ifndef SLOWRANK_ANALYSIS_EXPLAIN_STACK_CAUSES_H
#define SLOWRANK_ANALYSIS_EXPLAIN_STACK_CAUSES_H

#include "analysis/explain/explain.h"
#include "analysis/explain/stack_difference.h"

struct stack_seen {
	enum known known; /* KNOWN_SHARE: the difference is there; else why it is not, or nothing */
	char why[VERDICT_DETAIL_LENGTH];
	const struct stack_difference *difference; /* of KNOWN_SHARE */
	double steps;				   /* of the look, in the episode's time */
};

void explain_stacks(const struct explain_context *context, const struct episode *episode,
	struct stack_seen *seen);

/* It is one of the stacks' causes, and explains enough. */
bool explain_stacks_tell(const struct episode *episode, enum cause cause);

/* Where the time goes that the cause explains, or, of other causes, most of the excess. Untouched where that is not known. */
void explain_stacks_where(
	const struct episode *episode, enum cause cause, struct verdict_where *where);

#endif
