/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a command for an event: /bin/sh -c, in a session of its own, with the event's JSON as its standard input, its
 * variables beside the environment, and no other file of ours; what it prints goes nowhere. For one thread.
 */
#ifndef SLOWRANK_COORDINATOR_HOOKS_COMMAND_H
#define SLOWRANK_COORDINATOR_HOOKS_COMMAND_H

#include "coordinator/hooks/worker.h"

enum { HOOK_COMMAND_MS = 60000 };

struct hook_command {
	const char *text; /* for the shell */
	int limit_ms;	  /* then its session is killed; 0 = HOOK_COMMAND_MS */
	bool told;	  /* that it failed */
};

/* As hook_worker_options.deliver; context: a struct hook_command. Says once on stderr how one ended that failed. */
bool hook_command_deliver(
	void *context, struct hook_worker *worker, const struct hook_event *event);

#endif
