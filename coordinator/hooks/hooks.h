/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What others do about incidents: a command, a webhook, or both, each with a thread of its own. Whoever tells of an
 * event never waits. For one thread, but for the state.
 */
#ifndef SLOWRANK_COORDINATOR_HOOKS_HOOKS_H
#define SLOWRANK_COORDINATOR_HOOKS_HOOKS_H

#include "coordinator/hooks/webhook.h"

enum { HOOKS_GRACE_MS = 10000 };

struct hooks;

struct hooks_options {
	const char *command;		/* of --on-incident, or NULL; it outlives the hooks */
	struct webhook_options webhook; /* url NULL: none */
};

/* Returns 0 or a negative errno; then why is one line. The caller owns it. */
int hooks_create(const struct hooks_options *options, struct hooks **hooks,
	char why[WEBHOOK_WHY_LENGTH]) __attribute__((warn_unused_result));

/* Delivers what waits, for HOOKS_GRACE_MS at most; says on stderr how many did not arrive. NULL is fine. */
void hooks_destroy(struct hooks *hooks);

void hooks_tell(struct hooks *hooks, enum verdict_event event, const struct verdict *verdict,
	const struct report_model *model);

struct hooks_state {
	bool has_command, has_webhook;
	struct hook_worker_state command, webhook;
	uint64_t webhook_retries;
};
/* Any thread. */
void hooks_get_state(struct hooks *hooks, struct hooks_state *state);

#endif
