/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The means behind the faults, one struct of functions per kind. Errors go to stderr with what
 * to do about them; a mean that failed stays off. One thread.
 */
#ifndef SLOWRANK_TESTS_WORKLOAD_FAULT_MEANS_H
#define SLOWRANK_TESTS_WORKLOAD_FAULT_MEANS_H

#include "tests/workload/options.h"

/* What a mean is told about the rank it works on. */
struct fault_environment {
	const struct workload_options *options;
	uint32_t rank;
	double cpu_share; /* of one core, that this rank used so far in the loop; 0 = unknown */
	double step_length_ms; /* mean so far, waiting included; 0 = unknown */
	uint64_t steps_done;
};

struct fault_means {
	/* Before the loop: makes what is needed. *state is passed to the others. 0 or -errno. */
	int (*prepare)(const struct fault *fault, const struct fault_environment *environment,
		void **state);
	int (*begin)(void *state, const struct fault_environment *environment);
	/* Spends about that much time on the fault's own work; NULL = works by itself. */
	void (*spend)(void *state, int64_t length_ns);
	void (*end)(void *state);
	void (*release)(void *state); /* after end */
};

extern const struct fault_means fault_means_throttle;
extern const struct fault_means fault_means_contention;
extern const struct fault_means fault_means_major;
extern const struct fault_means fault_means_minor;
extern const struct fault_means fault_means_reclaim;
extern const struct fault_means fault_means_comm;

/* On the ranks that a contention fault does not name: leave its core, come back. */
int fault_leave_core(uint32_t core);
int fault_use_all_cores(void);

/*
 * Asks the fault injector to do one command ("hog ...", "stop ...", "shape ...") and waits for
 * its answer, at most 10 s. Returns 0 or a negative errno, after a line on stderr.
 */
int injector_request(const char *socket_path, const char *command)
	__attribute__((warn_unused_result));

#endif
