/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that looks at the stacks of a rank and of its loader's workers, again and again, and tells what it sees through
 * a pipe. It is forked from the probe, gives up what it need not have, has limits of its own, and ends with its probe: what the
 * rank's memory makes of it is its own harm. It slows itself down so that looking costs SAMPLER_SHARE of a CPU.
 */
#ifndef SLOWRANK_PROBE_LOOKS_SAMPLER_H
#define SLOWRANK_PROBE_LOOKS_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "analysis/explain/stack_profile.h"
#include "probe/looks/samples.h"

enum {
	SAMPLER_HZ = 50,
	SAMPLER_LOOK_NS_MAX =
		20000000, /* a look that takes more CPU time costs too much, however seldom */
	SAMPLER_READ_NS =
		2000000, /* then no more of the rank's threads, or of its workers, have a turn in a look */
	SAMPLER_WORKERS_MAX = 16, /* child processes of the rank */
	SAMPLER_MIB = 768,
	SAMPLER_RECORD_BYTES = 16384, /* at most, of what follows a head */
};
#define SAMPLER_SHARE 0.02 /* of one CPU; beside it, files are opened and names are found once */

/* A record: this, and length bytes. */
struct sampler_head {
	uint32_t kind, length;
};

enum sampler_record {
	SAMPLER_TEXT = 1,   /* names, each with its NUL */
	SAMPLER_NODE = 2,   /* struct stack_node */
	SAMPLER_THREAD = 3, /* struct sampler_thread */
	SAMPLER_LOOK = 4,   /* the time as int64_t, then struct sample_seen ... */
	SAMPLER_END = 5,    /* struct sampler_end; nothing comes behind it */
};

struct sampler_thread {
	uint32_t index;
	struct stack_thread_info info;
};

struct sampler_end {
	uint8_t result; /* enum stack_result */
	uint8_t python_minor;
	uint32_t incomplete;
	int64_t cost_ns;
	char why[STACK_PROFILE_WHY_LENGTH];
};

struct sampler_options {
	pid_t pid;
	int64_t limit_ns; /* then it ends; 0: after one look */
};

/*
 * Starts one. *fd: where it writes; the caller closes it. It ends by itself, and sooner, with SAMPLER_END, after a SIGTERM.
 * Returns its pid, which the caller waits for, or a negative errno.
 */
pid_t sampler_start(const struct sampler_options *options, int *fd)
	__attribute__((warn_unused_result));

#endif
