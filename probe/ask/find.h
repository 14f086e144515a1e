/* SPDX-License-Identifier: Apache-2.0 */
/* Where the coordinator of a job is that already runs, for who has a question to it. One thread. */
#ifndef SLOWRANK_PROBE_ASK_FIND_H
#define SLOWRANK_PROBE_ASK_FIND_H

#include "probe/coordinator_process.h"

enum { ASK_WHY_LENGTH = 512 };

struct ask_place {
	struct job_place job;		  /* its name is "" where any job there will do */
	unsigned attempts;		  /* URLs: one, or those of coordinator_process_url() */
	char url[COORDINATOR_URL_LENGTH]; /* the first one */
	char where[256];		  /* for people */
};

/*
 * What the options name; else the one that runs on this host, in the user's private folder; else that of the job whose
 * environment this process has. Returns 0 or -ENOENT: then why is one line.
 */
int ask_place_find(struct ask_place *place, const struct probe_options *options,
	char why[ASK_WHY_LENGTH]) __attribute__((warn_unused_result));

#endif
