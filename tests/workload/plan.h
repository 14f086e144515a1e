/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fault plan: which rank is slowed, how, from which step to which, and by how much. One
 * fault a line, as "rank=2 kind=throttle first=120 last=480 size=40"; '#' starts a comment.
 * Plain values, no state.
 */
#ifndef SLOWRANK_TESTS_WORKLOAD_PLAN_H
#define SLOWRANK_TESTS_WORKLOAD_PLAN_H

#include <stddef.h>
#include <stdint.h>

enum fault_kind {
	FAULT_NONE = 0,
	FAULT_COMPUTE = 1,    /* more CPU work (on a device: longer kernels) */
	FAULT_THROTTLE = 2,   /* CPU quota of a real cgroup */
	FAULT_CONTENTION = 3, /* real CPU hogs on the core the rank is pinned to */
	FAULT_MAJOR = 4,      /* real major page faults, read from disk */
	FAULT_MINOR = 5,      /* map, touch and unmap fresh memory */
	FAULT_COMM = 6,	      /* the network of the rank's node is shaped */
	FAULT_KERNELS = 7,    /* on a device: another kernel besides; else as compute */
	FAULT_INPUT = 8,      /* the host sleeps before each step, as one that has no input yet */
	FAULT_RECLAIM = 9,    /* the limit of a real memory cgroup */
	FAULT_KIND_NR
};
const char *fault_kind_name(enum fault_kind kind); /* "throttle", ... */

struct fault {
	uint32_t rank;
	enum fault_kind kind;
	uint64_t first_step; /* inclusive */
	uint64_t last_step;  /* inclusive */
	double size_percent; /* wanted growth of the step on this rank */
	double period_ms;    /* throttle: period of the quota; default 100, the kernel's own */
	uint32_t core;	     /* contention: the core; default the last one */
	uint32_t hog_count;  /* contention: 0 = from the size */
};

enum { FAULT_PLAN_CAPACITY = 32 };

struct fault_plan {
	size_t fault_count;
	struct fault faults[FAULT_PLAN_CAPACITY];
};

/*
 * Adds the fault that a line names; empty lines and comments add nothing. Returns 0; -EINVAL
 * or -ENOSPC with one line of explanation in why, and the plan untouched.
 */
int fault_plan_parse_line(struct fault_plan *plan, const char *line, char *why, size_t why_size)
	__attribute__((warn_unused_result));

/* Adds all faults of a file. Returns 0 or a negative errno, with the reason in why. */
int fault_plan_read(struct fault_plan *plan, const char *path, char *why, size_t why_size)
	__attribute__((warn_unused_result));

#endif
