/* SPDX-License-Identifier: Apache-2.0 */
/* Which looks at stacks there are of a verdict, as JSON: the key "stacks" of an object that is open. One thread. */
#ifndef SLOWRANK_COORDINATOR_REPORT_STACKS_JSON_H
#define SLOWRANK_COORDINATOR_REPORT_STACKS_JSON_H

#include "coordinator/report/json_writer.h"
#include "coordinator/report/model.h"
#include "coordinator/report/stacks.h"

/* Nothing where there are none. Of a hang with the innermost frames of threads that call collectives. */
void report_json_stacks(struct json_writer *writer, const struct report_model *model,
	const struct verdict *verdict);

/* Of an object that is open: "why", what a look came to where it is not all; and when, for how long, how many steps and looks. */
void stacks_json_why(struct json_writer *writer, const struct stack_profile *profile);
void stacks_json_extent(struct json_writer *writer, const struct report_model *model,
	const struct kept_stacks *look);

#endif
