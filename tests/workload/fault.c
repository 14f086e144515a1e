/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/workload/fault.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/workload/fault_means.h"
#include "tests/workload/work.h"

struct own_fault {
	const struct fault *fault;
	const struct fault_means *means; /* NULL for compute and kernels */
	void *state;
	bool prepared;
	bool active;
	bool applied;
	int64_t begin_monotonic_ns;
	int64_t begin_realtime_ns;
	double step_ms_before;
	uint64_t begin_step;
	double own_ms_before;
	int64_t begin_own_ns;
};

struct fault_control {
	const struct workload_options *options;
	struct truth *truth;
	uint32_t rank;
	uint64_t step;
	int64_t loop_start_ns;
	int64_t loop_start_cpu_ns;
	int64_t own_ns; /* so far, outside of collectives */
	size_t fault_count;
	struct own_fault faults[FAULT_PLAN_CAPACITY];
};

static const struct fault_means *means_of(enum fault_kind kind)
{
	switch (kind) {
	case FAULT_THROTTLE:
		return &fault_means_throttle;
	case FAULT_CONTENTION:
		return &fault_means_contention;
	case FAULT_MAJOR:
		return &fault_means_major;
	case FAULT_MINOR:
		return &fault_means_minor;
	case FAULT_RECLAIM:
		return &fault_means_reclaim;
	case FAULT_COMM:
		return &fault_means_comm;
	default:
		return NULL;
	}
}

static struct fault_environment environment_of(const struct fault_control *control)
{
	struct fault_environment environment = {
		.options = control->options, .rank = control->rank, .steps_done = control->step};
	int64_t length_ns = work_monotonic_ns() - control->loop_start_ns;

	if (control->loop_start_ns != 0 && control->step > 0 && length_ns > 0) {
		environment.cpu_share =
			(double)(work_process_cpu_ns() - control->loop_start_cpu_ns) /
			(double)length_ns;
		environment.step_length_ms = (double)length_ns / 1e6 / (double)control->step;
	}
	return environment;
}

int fault_control_create(const struct workload_options *options, uint32_t rank, struct truth *truth,
	struct fault_control **control)
{
	struct fault_control *made = calloc(1, sizeof(*made));

	if (!made)
		return -ENOMEM;
	made->options = options;
	made->rank = rank;
	made->truth = truth;
	for (size_t i = 0; i < options->plan.fault_count; i++) {
		struct own_fault *own = &made->faults[made->fault_count++];
		struct fault_environment environment = environment_of(made);
		int result = 0;

		own->fault = &options->plan.faults[i];
		own->means = means_of(own->fault->kind);
		if (own->fault->rank != rank)
			continue;
		if (own->means && own->means->prepare)
			result = own->means->prepare(own->fault, &environment, &own->state);
		own->prepared = result == 0;
		if (result)
			fprintf(stderr, "workload: rank %u: no %s fault: %s\n", rank,
				fault_kind_name(own->fault->kind), strerror(-result));
	}
	*control = made;
	return 0;
}

static void begin_fault(struct fault_control *control, struct own_fault *own)
{
	struct fault_environment environment = environment_of(control);
	int result = own->prepared ? 0 : -ENOTSUP;

	own->active = true;
	own->begin_step = control->step;
	own->step_ms_before = environment.step_length_ms;
	own->begin_own_ns = control->own_ns;
	if (control->step > 0)
		own->own_ms_before = (double)control->own_ns / 1e6 / (double)control->step;
	if (!result && own->means && own->means->begin)
		result = own->means->begin(own->state, &environment);
	own->applied = result == 0;
	own->begin_monotonic_ns = work_monotonic_ns();
	own->begin_realtime_ns = work_realtime_ns();
}

static void end_fault(struct fault_control *control, struct own_fault *own)
{
	int64_t now = work_monotonic_ns();
	uint64_t steps = control->step > own->begin_step ? control->step - own->begin_step : 1;

	if (own->applied && own->means && own->means->end)
		own->means->end(own->state);
	own->active = false;
	truth_add(control->truth,
		"{\"event\": \"fault\", \"rank\": %u, \"kind\": \"%s\", \"applied\": %s, "
		"\"first_step\": %" PRIu64 ", \"last_step\": %" PRIu64
		", \"size_percent\": %.1f, \"begin_monotonic_ns\": %" PRId64
		", \"begin_realtime_ns\": %" PRId64 ", \"end_monotonic_ns\": %" PRId64
		", \"step_ms_before\": %.3f, \"step_ms_during\": %.3f, \"own_ms_before\": %.3f"
		", \"own_ms_during\": %.3f}",
		control->rank, fault_kind_name(own->fault->kind), own->applied ? "true" : "false",
		own->begin_step, control->step > 0 ? control->step - 1 : 0,
		own->fault->size_percent, own->begin_monotonic_ns, own->begin_realtime_ns, now,
		own->step_ms_before, (double)(now - own->begin_monotonic_ns) / 1e6 / (double)steps,
		own->own_ms_before,
		(double)(control->own_ns - own->begin_own_ns) / 1e6 / (double)steps);
}

/* Another rank's contention: keep off its core while it lasts. */
static void step_aside(struct fault_control *control, struct own_fault *own, bool wanted)
{
	int result;

	(void)control;
	if (own->fault->kind != FAULT_CONTENTION || wanted == own->active)
		return;
	result = wanted ? fault_leave_core(own->fault->core) : fault_use_all_cores();
	if (result)
		fprintf(stderr, "workload: cannot set the affinity: %s\n", strerror(-result));
	own->active = wanted;
}

/* What a fault adds to a step. */
static int64_t fault_length_ns(const struct fault_control *control, const struct own_fault *own)
{
	double step_ms = control->options->step_ms + control->options->compute_ms;

	return (int64_t)(own->fault->size_percent / 100 * step_ms * 1e6);
}

void fault_control_step(struct fault_control *control, uint64_t step)
{
	control->step = step;
	if (control->loop_start_ns == 0) {
		control->loop_start_ns = work_monotonic_ns();
		control->loop_start_cpu_ns = work_process_cpu_ns();
	}
	for (size_t i = 0; i < control->fault_count; i++) {
		struct own_fault *own = &control->faults[i];
		bool wanted = step >= own->fault->first_step && step <= own->fault->last_step;

		if (own->fault->rank != control->rank) {
			step_aside(control, own, wanted);
			continue;
		}
		if (wanted && !own->active)
			begin_fault(control, own);
		else if (!wanted && own->active)
			end_fault(control, own);
		if (wanted && own->fault->kind == FAULT_INPUT)
			work_sleep(fault_length_ns(control, own));
	}
}

struct fault_extra fault_control_segment(struct fault_control *control, double share)
{
	struct fault_extra extra = {0};

	for (size_t i = 0; i < control->fault_count; i++) {
		struct own_fault *own = &control->faults[i];
		int64_t length_ns = (int64_t)((double)fault_length_ns(control, own) * share);

		if (own->fault->rank != control->rank || !own->active || !own->applied ||
			own->fault->kind == FAULT_INPUT)
			continue;
		if (own->fault->kind == FAULT_KERNELS)
			extra.more_ns += length_ns;
		else if (!own->means)
			extra.longer_ns += length_ns;
		else if (own->means->spend)
			own->means->spend(own->state, length_ns);
	}
	return extra;
}

void fault_control_account(struct fault_control *control, int64_t own_ns)
{
	control->own_ns += own_ns;
}

bool fault_control_active(const struct fault_control *control)
{
	for (size_t i = 0; i < control->fault_count; i++) {
		if (control->faults[i].active && control->faults[i].fault->rank == control->rank)
			return true;
	}
	return false;
}

void fault_control_destroy(struct fault_control *control)
{
	if (!control)
		return;
	control->step++; /* the last step is over too */
	for (size_t i = 0; i < control->fault_count; i++) {
		struct own_fault *own = &control->faults[i];

		if (own->fault->rank == control->rank && own->active)
			end_fault(control, own);
		if (own->prepared && own->means && own->means->release)
			own->means->release(own->state);
	}
	free(control);
}
