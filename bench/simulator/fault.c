/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/simulator/fault.h"

#include <string.h>

static const struct {
	const char *name;
	enum verdict_class verdict_class;
	enum cause cause;
} facts[SIM_FAULT_NR] = {
	[SIM_FAULT_COMPUTE] = {"compute", VERDICT_COMPUTE_SLOW, CAUSE_UNKNOWN},
	[SIM_FAULT_THROTTLE] = {"throttle", VERDICT_HOST_SLOW, CAUSE_CGROUP_THROTTLE},
	[SIM_FAULT_CONTENTION] = {"contention", VERDICT_HOST_SLOW, CAUSE_CPU_CONTENTION},
	[SIM_FAULT_MAJOR] = {"major-faults", VERDICT_HOST_SLOW, CAUSE_MAJOR_PAGE_FAULT},
	[SIM_FAULT_MINOR] = {"minor-faults", VERDICT_HOST_SLOW, CAUSE_MINOR_PAGE_FAULT},
	[SIM_FAULT_BLOCK_IO] = {"block-io", VERDICT_HOST_SLOW, CAUSE_BLOCK_IO},
	[SIM_FAULT_INPUT] = {"input", VERDICT_HOST_SLOW, CAUSE_INPUT_PIPELINE},
	[SIM_FAULT_LINK] = {"link", VERDICT_COMM_SLOW, CAUSE_NIC_LINK},
	[SIM_FAULT_NIC] = {"nic", VERDICT_COMM_SLOW, CAUSE_NIC_LINK},
	[SIM_FAULT_NODE_PAIR] = {"node-pair", VERDICT_COMM_SLOW, CAUSE_PATH_CONGESTION},
	[SIM_FAULT_CONGESTION] = {"congestion", VERDICT_COMM_SLOW, CAUSE_PATH_CONGESTION},
	[SIM_FAULT_STAGE] = {"stage-imbalance", VERDICT_WORKLOAD_IMBALANCE, CAUSE_STAGE_IMBALANCE},
	[SIM_FAULT_SEQUENCE] = {"sequence-imbalance", VERDICT_WORKLOAD_IMBALANCE,
		CAUSE_SEQUENCE_IMBALANCE},
	[SIM_FAULT_EXPERTS] = {"experts", VERDICT_WORKLOAD_IMBALANCE, CAUSE_UNKNOWN},
	[SIM_FAULT_HANG] = {"hang", VERDICT_HANG, CAUSE_UNKNOWN},
	[SIM_FAULT_DEATH] = {"death", VERDICT_HANG, CAUSE_UNKNOWN},
};

const char *sim_fault_name(enum sim_fault_kind kind)
{
	return kind < SIM_FAULT_NR ? facts[kind].name : "none";
}

enum sim_fault_kind sim_fault_by_name(const char *name)
{
	int kind = 0;

	while (kind < SIM_FAULT_NR && strcmp(facts[kind].name, name) != 0)
		kind++;
	return (enum sim_fault_kind)kind;
}

enum verdict_class sim_fault_class(enum sim_fault_kind kind)
{
	return kind < SIM_FAULT_NR ? facts[kind].verdict_class : VERDICT_UNKNOWN;
}

enum cause sim_fault_cause(enum sim_fault_kind kind)
{
	return kind < SIM_FAULT_NR ? facts[kind].cause : CAUSE_UNKNOWN;
}

double sim_fault_size(const struct sim_fault *fault, uint32_t step)
{
	if (step < fault->first || step > fault->last)
		return 0;
	switch (fault->course) {
	case SIM_COURSE_EVERY:
		return (step - fault->first) % fault->every == 0 ? fault->size : 0;
	case SIM_COURSE_DRIFT:
		return fault->size * (step - fault->first + 1) / (fault->last - fault->first + 1);
	case SIM_COURSE_SPIKE:
		return step == fault->first ? fault->size : 0;
	default:
		return fault->size;
	}
}

bool sim_fault_names(const struct sim_fault *fault, const struct sim_layout *layout, uint32_t rank)
{
	uint32_t host = sim_host(layout, rank);

	switch (fault->kind) {
	case SIM_FAULT_NIC:
		return host == sim_host(layout, fault->rank);
	case SIM_FAULT_NODE_PAIR:
		return host == sim_host(layout, fault->rank) ||
		       host == sim_host(layout, fault->other);
	case SIM_FAULT_CONGESTION:
	case SIM_FAULT_SEQUENCE:
		return false;
	case SIM_FAULT_STAGE:
		return sim_stage(layout, rank) == sim_stage(layout, fault->rank);
	case SIM_FAULT_EXPERTS:
		return sim_data_index(layout, rank) % layout->shape.expert == fault->rank;
	default:
		return rank == fault->rank;
	}
}

uint32_t sim_fault_rank_count(const struct sim_fault *fault, const struct sim_layout *layout)
{
	uint32_t count = 0;

	for (uint32_t rank = 0; rank < layout->rank_count; rank++)
		count += sim_fault_names(fault, layout, rank);
	return count;
}
