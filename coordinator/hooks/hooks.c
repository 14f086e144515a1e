/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/hooks/hooks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/hooks/command.h"

struct hooks {
	struct hook_command command;
	struct hook_worker *commander, *poster; /* NULL: none */
	struct webhook *webhook;
	atomic_uint_least64_t unmade; /* events that there was no memory for */
};

int hooks_create(
	const struct hooks_options *options, struct hooks **result, char why[WEBHOOK_WHY_LENGTH])
{
	struct hooks *hooks = calloc(1, sizeof(*hooks));
	int error = hooks ? 0 : -ENOMEM;

	snprintf(why, WEBHOOK_WHY_LENGTH, "no memory for hooks");
	if (!error && options->webhook.url)
		error = webhook_create(&options->webhook, &hooks->webhook, why);
	if (!error && options->webhook.url)
		error = hook_worker_create(&(struct hook_worker_options){.deliver = webhook_deliver,
						   .context = hooks->webhook},
			&hooks->poster);
	if (!error && options->command) {
		hooks->command.text = options->command;
		error = hook_worker_create(
			&(struct hook_worker_options){
				.deliver = hook_command_deliver, .context = &hooks->command},
			&hooks->commander);
	}
	if (error) {
		hooks_destroy(hooks);
		return error;
	}
	*result = hooks;
	return 0;
}

static void stop(struct hook_worker *worker, const char *what, uint64_t unmade)
{
	struct hook_worker_state last;

	if (!worker)
		return;
	hook_worker_destroy(worker, HOOKS_GRACE_MS, &last);
	last.dropped += unmade;
	if (last.failed || last.dropped)
		fprintf(stderr,
			"slowrank: of the %s, %" PRIu64 " failed and %" PRIu64 " were dropped\n",
			what, last.failed, last.dropped);
}

void hooks_destroy(struct hooks *hooks)
{
	if (!hooks)
		return;
	stop(hooks->commander, "commands of --on-incident", hooks->unmade);
	stop(hooks->poster, "webhooks", hooks->unmade);
	webhook_destroy(hooks->webhook);
	free(hooks);
}

void hooks_tell(struct hooks *hooks, enum verdict_event event, const struct verdict *verdict,
	const struct report_model *model)
{
	struct hook_event *made;

	if (hook_event_create(event, verdict, model, &made)) {
		atomic_fetch_add(&hooks->unmade, 1);
		return;
	}
	if (hooks->commander)
		hook_worker_push(hooks->commander, made);
	if (hooks->poster)
		hook_worker_push(hooks->poster, made);
	hook_event_release(made);
}

void hooks_get_state(struct hooks *hooks, struct hooks_state *state)
{
	uint64_t unmade = atomic_load(&hooks->unmade);

	*state = (struct hooks_state){
		.has_command = hooks->commander != NULL, .has_webhook = hooks->poster != NULL};
	if (hooks->commander)
		hook_worker_get_state(hooks->commander, &state->command);
	if (hooks->poster)
		hook_worker_get_state(hooks->poster, &state->webhook);
	if (hooks->webhook)
		state->webhook_retries = webhook_retries(hooks->webhook);
	state->command.dropped += unmade;
	state->webhook.dropped += unmade;
}
