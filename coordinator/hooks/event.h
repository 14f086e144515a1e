/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a hook is told of an incident: a copy, so that nothing of the pipeline is needed any more. It is shared by
 * those who hold it, and not changed. Any thread.
 */
#ifndef SLOWRANK_COORDINATOR_HOOKS_EVENT_H
#define SLOWRANK_COORDINATOR_HOOKS_EVENT_H

#include "coordinator/report/model.h"

enum { HOOK_VARIABLES = 9 };

struct hook_event {
	enum verdict_event event;
	uint32_t incident;
	/* "INCIDENT_...=...", NULL at the end. Hosts have letters, digits, '.', '-' and '_' only. */
	char *variables[HOOK_VARIABLES + 1];
	char *json; /* the line of --alerts, without its end */
	size_t json_length;
};

/* Returns 0 or -ENOMEM. The caller holds it. */
int hook_event_create(enum verdict_event event, const struct verdict *verdict,
	const struct report_model *model, struct hook_event **made)
	__attribute__((warn_unused_result));

struct hook_event *hook_event_hold(struct hook_event *event); /* once more */
void hook_event_release(struct hook_event *event);	      /* NULL is fine */

#endif
