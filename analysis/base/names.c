/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/base/step.h"
#include "analysis/base/verdict.h"

#define NAME_OR_UNKNOWN(names, index)                                                              \
	((size_t)(index) < sizeof(names) / sizeof((names)[0]) && (names)[index] ? (names)[index]   \
										: "unknown")

const char *operation_name(enum operation operation)
{
	static const char *const names[OPERATION_NR] = {
		[OPERATION_ALL_REDUCE] = "all-reduce",
		[OPERATION_BROADCAST] = "broadcast",
		[OPERATION_REDUCE] = "reduce",
		[OPERATION_ALL_GATHER] = "all-gather",
		[OPERATION_REDUCE_SCATTER] = "reduce-scatter",
		[OPERATION_ALL_TO_ALL] = "all-to-all",
		[OPERATION_GATHER] = "gather",
		[OPERATION_SCATTER] = "scatter",
		[OPERATION_BARRIER] = "barrier",
		[OPERATION_SCAN] = "scan",
		[OPERATION_EXCLUSIVE_SCAN] = "exclusive-scan",
		[OPERATION_SEND] = "send",
		[OPERATION_RECEIVE] = "receive",
		[OPERATION_NEIGHBOR] = "neighbor",
		[OPERATION_COMMUNICATOR_CREATE] = "communicator-create",
		[OPERATION_COMPUTE] = "compute",
	};

	return NAME_OR_UNKNOWN(names, operation);
}

enum waits_for operation_waits_for(enum operation operation)
{
	switch (operation) {
	case OPERATION_ALL_REDUCE:
	case OPERATION_ALL_GATHER:
	case OPERATION_REDUCE_SCATTER:
	case OPERATION_ALL_TO_ALL:
	case OPERATION_BARRIER:
	case OPERATION_COMMUNICATOR_CREATE:
		return WAITS_FOR_ALL;
	case OPERATION_BROADCAST:
	case OPERATION_SCATTER:
		return WAITS_FOR_ROOT;
	case OPERATION_REDUCE:
	case OPERATION_GATHER:
		return WAITS_FOR_ALL_AT_ROOT;
	case OPERATION_SCAN:
	case OPERATION_EXCLUSIVE_SCAN:
		return WAITS_FOR_PREFIX;
	default:
		return WAITS_FOR_NOBODY;
	}
}

const char *phase_name(enum phase phase)
{
	static const char *const names[PHASE_NR] = {
		[PHASE_INPUT] = "input",
		[PHASE_COMPUTE] = "compute",
		[PHASE_HOST] = "host",
		[PHASE_COMM_WAIT] = "comm_wait",
		[PHASE_COMM_TRANSFER] = "comm_transfer",
	};

	return NAME_OR_UNKNOWN(names, phase);
}

const char *off_cpu_reason_name(enum off_cpu_reason reason)
{
	static const char *const names[OFF_CPU_NR] = {
		[OFF_CPU_PREEMPTED] = "preempted",
		[OFF_CPU_THROTTLED] = "throttled",
		[OFF_CPU_BLOCK_IO] = "block-io",
		[OFF_CPU_ASLEEP] = "asleep",
		[OFF_CPU_MAJOR_FAULT] = "major-page-fault",
		[OFF_CPU_STOPPED] = "stopped",
	};

	return NAME_OR_UNKNOWN(names, reason);
}

const char *verdict_class_name(enum verdict_class verdict_class)
{
	static const char *const names[VERDICT_CLASS_NR] = {
		[VERDICT_COMPUTE_SLOW] = "compute-slow",
		[VERDICT_HOST_SLOW] = "host-slow",
		[VERDICT_COMM_SLOW] = "comm-slow",
		[VERDICT_WORKLOAD_IMBALANCE] = "workload-imbalance",
		[VERDICT_HANG] = "hang",
	};

	return NAME_OR_UNKNOWN(names, verdict_class);
}

void step_launches_add(struct step_launches *sum, const struct step_launches *other)
{
	sum->window = other->window;
	sum->launches += other->launches;
	sum->graph_launches += other->graph_launches;
	sum->silence_ns += other->silence_ns;
	sum->idle_ns += other->idle_ns;
	sum->wait_ns += other->wait_ns;
}

void activity_add(struct activity *sum, const struct activity *other)
{
	sum->preempted_ns += other->preempted_ns;
	sum->throttled_ns += other->throttled_ns;
	sum->block_io_ns += other->block_io_ns;
	sum->asleep_ns += other->asleep_ns;
	sum->major_fault_ns += other->major_fault_ns;
	sum->minor_fault_ns += other->minor_fault_ns;
	sum->comm_call_ns += other->comm_call_ns;
	sum->host_ns += other->host_ns;
	sum->collector_ns += other->collector_ns;
	sum->major_faults += other->major_faults;
	sum->minor_faults += other->minor_faults;
}

const char *cost_of_name(enum cost_of of)
{
	static const char *const names[COST_NR] = {"rank", "node", "link", "role", "phase"};

	return of < COST_NR ? names[of] : "unknown";
}
