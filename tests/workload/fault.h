/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies the fault plan to one rank, with real means, at step bounds, and writes what it did
 * to the truth log. One thread: the one that runs the training loop.
 */
#ifndef SLOWRANK_TESTS_WORKLOAD_FAULT_H
#define SLOWRANK_TESTS_WORKLOAD_FAULT_H

#include "tests/workload/options.h"
#include "tests/workload/truth.h"

struct fault_control;

/* Device work besides the usual, in ns. */
struct fault_extra {
	int64_t longer_ns; /* by which the usual kernels take longer */
	int64_t more_ns;   /* of another kernel */
};

/*
 * Prepares what the plan needs on this rank (cgroup, file). A fault that cannot be applied here
 * is reported on stderr and in the truth log as "applied": false, and the job goes on. Returns
 * 0 or -ENOMEM. options and truth must outlive it.
 */
int fault_control_create(const struct workload_options *options, uint32_t rank, struct truth *truth,
	struct fault_control **control) __attribute__((warn_unused_result));
/* Ends what is still on and removes what was made; NULL is fine. */
void fault_control_destroy(struct fault_control *control);

/* A true step begins: switches faults off and on. */
void fault_control_step(struct fault_control *control, uint64_t step);

/*
 * Spends the extra time of this rank's faults for this share of a step. Returns the extra device
 * work that the caller has to do itself (faults of compute and kernels).
 */
struct fault_extra fault_control_segment(struct fault_control *control, double share);

/* Counts time outside of collectives, for the truth log. */
void fault_control_account(struct fault_control *control, int64_t own_ns);

/* True while any fault of this rank is on. */
bool fault_control_active(const struct fault_control *control);

#endif
