/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/simulator/work.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench/simulator/random.h"

/* Lumps in which host faults take their time, ns: a quota period's rest, a scheduler's slices. */
#define THROTTLE_LUMP_NS 20e6
#define CONTENTION_LUMP_NS 3e6
#define BLOCK_IO_LUMP_NS 1e6
#define MAJOR_FAULT_NS 150e3
#define MINOR_FAULT_NS 700.0
#define STRETCH_NS 500e3 /* shorter ones are not reported by name */

enum { /* places in a rank's stream of a step: several for each op */
	PLACES_PER_OP = 8,
	PLACE_WORK = 0,
	PLACE_SPIKE = 1,
	PLACE_SPIKE_LENGTH = 2,
	PLACE_COLLECTOR = 3,
};

int sim_active_init(struct sim_active *active, const struct sim_world *world)
{
	uint32_t ranks = world->layout->rank_count;

	memset(active, 0, sizeof(*active));
	for (uint32_t i = 0; i < world->usual[0].op_count; i++) {
		if (world->usual[0].ops[i].microbatch >= active->microbatch_count)
			active->microbatch_count = world->usual[0].ops[i].microbatch + 1u;
	}
	active->touched = calloc(ranks, sizeof(bool));
	active->streams = calloc(ranks, sizeof(uint64_t));
	active->debt_ns = calloc(ranks, sizeof(double));
	if (active->touched && active->streams && active->debt_ns)
		return 0;
	sim_active_fini(active);
	return -ENOMEM;
}

void sim_active_fini(struct sim_active *active)
{
	free(active->touched);
	free(active->streams);
	free(active->debt_ns);
	memset(active, 0, sizeof(*active));
}

/* So that the rank's transfers over the fault's link take size of the step longer in all. */
static double link_factor(const struct sim_world *world, const struct sim_fault *fault, double size)
{
	uint32_t stage = sim_stage(world->layout, fault->rank);
	double transfers_ns = world->usual[stage].cross_transfer_ns;

	return transfers_ns > 0 ? size * world->step_ns / transfers_ns : 0;
}

static double sequence_length(const struct sim_world *world, double deviation, uint32_t data_index,
	uint32_t step, uint32_t microbatch)
{
	uint64_t place = (uint64_t)step << 16 | microbatch;

	return exp(deviation * sim_normal(sim_random(world->seed, 2, data_index, place)));
}

/* What the imbalance's work comes to for each, when all have as much. */
static void spread_evenly(struct sim_active *active, const struct sim_world *world,
	const struct sim_fault *fault, double size, uint32_t step)
{
	const struct sim_layout *layout = world->layout;
	double sum = 0;

	if (fault->kind == SIM_FAULT_STAGE)
		active->evened_work +=
			size * sim_fault_rank_count(fault, layout) / layout->rank_count;
	if (fault->kind != SIM_FAULT_SEQUENCE)
		return;
	for (uint32_t d = 0; d < layout->shape.data; d++) {
		for (uint32_t m = 0; m < active->microbatch_count; m++)
			sum += sequence_length(world, size, d, step, m);
	}
	active->evened_passes *= sum / layout->shape.data / active->microbatch_count;
}

void sim_active_step(struct sim_active *active, const struct sim_world *world, uint32_t step)
{
	const struct sim_layout *layout = world->layout;

	active->count = 0;
	active->evened_work = active->evened_passes = 1;
	memset(active->touched, 0, layout->rank_count * sizeof(bool));
	for (uint32_t rank = 0; rank < layout->rank_count; rank++)
		active->streams[rank] = sim_random(world->seed, 1, rank, step);
	for (uint32_t f = 0; f < world->fault_count; f++) {
		const struct sim_fault *fault = &world->faults[f];
		double size = sim_fault_size(fault, step);

		if (world->masked >> f & 1)
			spread_evenly(active, world, fault, size, step);
		if (world->masked >> f & 1 || size <= 0)
			continue;
		active->faults[active->count].fault = fault;
		active->faults[active->count].size = size;
		active->faults[active->count++].link_factor = link_factor(world, fault, size);
		if (fault->kind == SIM_FAULT_SEQUENCE || fault->kind == SIM_FAULT_CONGESTION)
			continue;
		for (uint32_t rank = 0; rank < layout->rank_count; rank++)
			active->touched[rank] |= sim_fault_names(fault, layout, rank);
	}
}

static double sequence_factor(const struct sim_active *active, const struct sim_world *world,
	uint32_t rank, uint32_t step, const struct sim_op *op)
{
	double deviation = world->noise->sequence;

	for (uint32_t i = 0; i < active->count; i++) {
		if (active->faults[i].fault->kind == SIM_FAULT_SEQUENCE)
			deviation = active->faults[i].size;
	}
	if (deviation <= 0)
		return 1;
	return sequence_length(
		world, deviation, sim_data_index(world->layout, rank), step, op->microbatch);
}

/* What a host fault adds, in lumps; the debt carries what is not a lump yet. */
static void take_host_fault(
	double *debt_ns, enum sim_fault_kind kind, double owed_ns, struct sim_worked *worked)
{
	struct activity *activity = &worked->activity;
	double lump_ns = kind == SIM_FAULT_THROTTLE	? THROTTLE_LUMP_NS
			 : kind == SIM_FAULT_CONTENTION ? CONTENTION_LUMP_NS
			 : kind == SIM_FAULT_BLOCK_IO	? BLOCK_IO_LUMP_NS
			 : kind == SIM_FAULT_MAJOR	? MAJOR_FAULT_NS
							: 0;
	double taken_ns;

	*debt_ns += owed_ns;
	if (*debt_ns <= 0 || *debt_ns < lump_ns)
		return;
	taken_ns = lump_ns > 0 ? lump_ns * floor(*debt_ns / lump_ns) : *debt_ns;
	*debt_ns -= taken_ns;
	worked->length_ns += taken_ns;
	worked->reason = OFF_CPU_UNKNOWN;
	switch (kind) {
	case SIM_FAULT_THROTTLE:
		activity->throttled_ns += (int64_t)taken_ns;
		worked->reason = OFF_CPU_THROTTLED;
		break;
	case SIM_FAULT_CONTENTION:
		activity->preempted_ns += (int64_t)taken_ns;
		worked->reason = OFF_CPU_PREEMPTED;
		break;
	case SIM_FAULT_BLOCK_IO:
		activity->block_io_ns += (int64_t)taken_ns;
		worked->reason = OFF_CPU_BLOCK_IO;
		break;
	case SIM_FAULT_MAJOR:
		activity->major_fault_ns += (int64_t)taken_ns;
		activity->major_faults += (uint32_t)(taken_ns / MAJOR_FAULT_NS + 0.5);
		break;
	case SIM_FAULT_MINOR:
		activity->minor_fault_ns += (int64_t)taken_ns;
		activity->minor_faults += (uint32_t)(taken_ns / MINOR_FAULT_NS);
		break;
	default:
		activity->asleep_ns += (int64_t)taken_ns;
		worked->reason = OFF_CPU_ASLEEP;
		break;
	}
	worked->stretch_ns = taken_ns;
	if (worked->stretch_ns < STRETCH_NS)
		worked->reason = OFF_CPU_UNKNOWN;
}

static void take_faults(struct sim_active *active, const struct sim_world *world, uint32_t rank,
	const struct sim_op *op, struct sim_worked *worked)
{
	const struct sim_layout *layout = world->layout;
	double base_ns = worked->length_ns;

	for (uint32_t i = 0; i < active->count; i++) {
		const struct sim_fault *fault = active->faults[i].fault;
		double size = active->faults[i].size;

		if (!sim_fault_names(fault, layout, rank))
			continue;
		switch (fault->kind) {
		case SIM_FAULT_COMPUTE:
		case SIM_FAULT_STAGE:
			worked->length_ns += base_ns * size;
			break;
		case SIM_FAULT_EXPERTS:
			if (op->section == SIM_SECTION_EXPERT)
				worked->length_ns += base_ns * size;
			break;
		case SIM_FAULT_THROTTLE:
			if (world->polls) /* its transfers show it */
				break;
			/* fall through */
		case SIM_FAULT_CONTENTION:
		case SIM_FAULT_MAJOR:
		case SIM_FAULT_MINOR:
		case SIM_FAULT_BLOCK_IO:
			take_host_fault(
				&active->debt_ns[rank], fault->kind, base_ns * size, worked);
			break;
		case SIM_FAULT_INPUT: /* all of it before the step's work begins */
			if (op->section == SIM_SECTION_INPUT)
				take_host_fault(&active->debt_ns[rank], fault->kind,
					size * world->usual[sim_stage(layout, rank)].work_ns,
					worked);
			break;
		default:
			break;
		}
	}
}

static void add_noise(const struct sim_active *active, const struct sim_world *world, uint32_t rank,
	uint32_t op_index, const struct sim_op *op, struct sim_worked *worked)
{
	const struct sim_noise *noise = world->noise;
	uint64_t base = active->streams[rank], place = (uint64_t)op_index * PLACES_PER_OP;
	double chance = noise->spikes_per_s * op->work_ns * 1e-9;

	worked->length_ns *= exp(noise->work * sim_normal(sim_random_at(base, place + PLACE_WORK)));
	if (chance > 0 && sim_uniform(sim_random_at(base, place + PLACE_SPIKE)) < chance) {
		double spike_ns = sim_pareto(sim_random_at(base, place + PLACE_SPIKE_LENGTH),
			noise->spike_ns, noise->spike_index, noise->spike_largest_ns);

		worked->activity.preempted_ns += (int64_t)spike_ns;
		worked->length_ns += spike_ns;
	}
	if (op->section == SIM_SECTION_OPTIMIZER && noise->collector_per_step > 0 &&
		sim_uniform(sim_random_at(base, place + PLACE_COLLECTOR)) <
			noise->collector_per_step) {
		worked->activity.collector_ns += (int64_t)noise->collector_ns;
		worked->length_ns += noise->collector_ns;
	}
}

void sim_work(struct sim_active *active, const struct sim_world *world, uint32_t rank,
	uint32_t step, uint32_t op_index, const struct sim_op *op, struct sim_worked *worked)
{
	memset(worked, 0, sizeof(*worked));
	worked->length_ns = op->work_ns * active->evened_work;
	if (op->section >= SIM_SECTION_FORWARD && op->section != SIM_SECTION_OPTIMIZER &&
		op->section != SIM_SECTION_IRREGULAR)
		worked->length_ns *=
			active->evened_passes * sequence_factor(active, world, rank, step, op);
	if (world->noise->rank > 0)
		worked->length_ns *=
			exp(world->noise->rank * sim_normal(sim_random(world->seed, 3, rank, 0)));
	if (active->touched[rank])
		take_faults(active, world, rank, op, worked);
	add_noise(active, world, rank, op_index, op, worked);
	if (world->on_cpu_share < 1) /* the device works while the thread sleeps */
		worked->activity.asleep_ns += (int64_t)((1 - world->on_cpu_share) * op->work_ns);
}

static bool hit(const struct sim_fault *fault, const struct sim_world *world,
	const uint32_t *members, uint32_t count, bool crosses)
{
	const struct sim_layout *layout = world->layout;
	bool first = false, second = false;

	if (!crosses)
		return false;
	switch (fault->kind) {
	case SIM_FAULT_CONGESTION:
		return true;
	case SIM_FAULT_THROTTLE:
		if (!world->polls)
			return false;
		/* fall through */
	case SIM_FAULT_LINK:
	case SIM_FAULT_NIC:
		for (uint32_t i = 0; i < count && !first; i++)
			first = sim_fault_names(fault, layout, members[i]);
		return first;
	case SIM_FAULT_NODE_PAIR:
		for (uint32_t i = 0; i < count; i++) {
			first |= sim_host(layout, members[i]) == sim_host(layout, fault->rank);
			second |= sim_host(layout, members[i]) == sim_host(layout, fault->other);
		}
		return first && second;
	default:
		return false;
	}
}

double sim_transfer(const struct sim_active *active, const struct sim_world *world,
	const struct sim_op *op, const uint32_t *members, uint32_t member_count, bool crosses,
	uint64_t random, double *extra_ns)
{
	const struct sim_noise *noise = world->noise;
	double length_ns = op->transfer_ns * exp(noise->transfer * sim_normal(random));

	if (noise->transfer_tail > 0 &&
		sim_uniform(sim_random_at(random, 1)) < noise->transfer_tail)
		length_ns *= sim_pareto(sim_random_at(random, 2), 1.5, 1.5, 20);
	*extra_ns = 0;
	for (uint32_t i = 0; i < active->count; i++) {
		if (hit(active->faults[i].fault, world, members, member_count, crosses))
			*extra_ns += op->transfer_ns * active->faults[i].link_factor;
	}
	return length_ns + *extra_ns;
}

bool sim_link_slow(const struct sim_active *active, const struct sim_world *world, uint32_t rank)
{
	for (uint32_t i = 0; i < active->count; i++) {
		const struct sim_fault *fault = active->faults[i].fault;

		if (fault->kind == SIM_FAULT_CONGESTION ||
			(fault->kind >= SIM_FAULT_LINK && fault->kind <= SIM_FAULT_NODE_PAIR &&
				sim_fault_names(fault, world->layout, rank)))
			return true;
	}
	return false;
}

bool sim_held(const struct sim_active *active, const struct sim_world *world, uint32_t rank)
{
	for (uint32_t i = 0; i < active->count && world->polls; i++) {
		const struct sim_fault *fault = active->faults[i].fault;

		if (fault->kind == SIM_FAULT_THROTTLE && fault->rank == rank)
			return true;
	}
	return false;
}
