/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks as lines "thread;frame;frame COUNT", as flamegraph.pl and speedscope read them: microseconds in a step, or what
 * enum flame_unit says where no steps were seen. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_REPORT_FOLDED_H
#define SLOWRANK_COORDINATOR_REPORT_FOLDED_H

#include <stdio.h>

#include "coordinator/report/stacks.h"

enum folded_of {
	FOLDED_SUSPECT = 0,
	FOLDED_CONTROL = 1,
	FOLDED_DIFFERENCE =
		2, /* two columns, the control's and the suspect's, as difffolded.pl has them */
};

/* of: other than the suspect needs pair->control. Returns 0, -ENOMEM, or why a write failed. */
int report_folded_write(const struct report_model *model, const struct stacks_pair *pair,
	enum folded_of of, FILE *out) __attribute__((warn_unused_result));

#endif
