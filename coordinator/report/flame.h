/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flame graphs of a look, of its control and of their difference, as one page that needs nothing else: flame_page.html with
 * the stacks in it as JSON. Names are the target's choice; they reach the page as text alone. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_REPORT_FLAME_H
#define SLOWRANK_COORDINATOR_REPORT_FLAME_H

#include <stdio.h>

#include "coordinator/report/json_writer.h"
#include "coordinator/report/stacks.h"

/* The stacks alone, as an object without a key. Returns 0 or -ENOMEM: then nothing is written. */
int report_flame_json(struct json_writer *writer, const struct report_model *model,
	const struct stacks_pair *pair) __attribute__((warn_unused_result));

/* How such a page begins, by which one is known again. */
#define FLAME_PAGE_MARK "<!DOCTYPE html>\n<!-- slowrank.flame/1 -->\n"

/* Returns 0, -ENOMEM, or why a write failed. */
int report_flame_write(const struct report_model *model, const struct stacks_pair *pair, FILE *out)
	__attribute__((warn_unused_result));

#endif
