/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a torchrun that is to be started tells of its job: by its command line, and where that says
 * nothing by its PET_... variables. Pure; any thread.
 */
#ifndef SLOWRANK_PROBE_ATTACH_TORCHRUN_COMMAND_H
#define SLOWRANK_PROBE_ATTACH_TORCHRUN_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

struct torchrun_command {
	bool several_hosts; /* it may run on more than one */
	char job_id[64];    /* the same on all hosts of the job */
	char address[128];  /* where its ranks meet; "" = on none of its hosts */
};

/*
 * environment holds NUL-separated NAME=VALUE strings. Returns false when the command is no torchrun,
 * also not one behind `python -m`.
 */
bool torchrun_command_parse(char *const argv[], const char *environment, size_t length_bytes,
	struct torchrun_command *command);

#endif
