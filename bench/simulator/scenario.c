/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/simulator/scenario.h"

#include <string.h>

#include "bench/simulator/random.h"

struct draw {
	uint64_t seed, place;
};

static uint32_t pick(struct draw *draw, uint32_t count)
{
	return (uint32_t)(sim_random(draw->seed, 100, draw->place++, 0) % count);
}

static double pick_between(struct draw *draw, double low, double high)
{
	return low + (high - low) * sim_uniform(sim_random(draw->seed, 100, draw->place++, 0));
}

const char *sim_family_name(enum sim_family family)
{
	static const char *const names[SIM_FAMILY_NR] = {
		"data", "data x tensor", "1F1B", "interleaved", "expert", "sharded"};

	return family < SIM_FAMILY_NR ? names[family] : "unknown";
}

const char *sim_plan_name(enum sim_plan plan)
{
	static const char *const names[SIM_PLAN_NR] = {
		"constant", "recovery", "every n-th", "drift", "spike", "several", "moving"};

	return plan < SIM_PLAN_NR ? names[plan] : "unknown";
}

/* Powers of two between the limits; twice as large is drawn half as often beyond 64 ranks. */
static uint32_t draw_ranks(struct draw *draw, const struct sim_scenario_limits *limits)
{
	uint32_t ranks = limits->ranks_min;

	if (limits->even) {
		uint32_t sizes = 1;

		while (ranks << sizes <= limits->ranks_max)
			sizes++;
		return ranks << pick(draw, sizes);
	}
	while (ranks * 2 <= limits->ranks_max && pick(draw, 16) < (ranks < 64 ? 11u : 8u))
		ranks *= 2;
	return ranks;
}

/* Blocks of 200 ms want some seconds. */
static uint32_t steps_of(double step_ns)
{
	double wanted = 12e9 / step_ns;

	return wanted < 120 ? 120 : wanted > 1500 ? 1500 : (uint32_t)wanted;
}

static double draw_step_ns(
	struct draw *draw, uint32_t ranks, const struct sim_scenario_limits *limits)
{
	static const double steps_ms[] = {8, 20, 40, 60, 150, 400, 1500, 6000, 30000};
	uint32_t count = sizeof(steps_ms) / sizeof(*steps_ms), shortest = 0;

	while (limits->rank_steps_max && shortest + 1 < count &&
		(uint64_t)ranks * steps_of(1e6 * steps_ms[shortest]) > limits->rank_steps_max &&
		steps_of(1e6 * steps_ms[shortest]) > 120)
		shortest++;
	return 1e6 * steps_ms[shortest + pick(draw, count - shortest)];
}

static void draw_shape(struct draw *draw, struct sim_scenario *scenario, uint32_t ranks,
	const struct sim_scenario_limits *limits)
{
	struct sim_options *options = &scenario->options;
	struct sim_shape *shape = &options->shape;
	uint32_t tensor = 1u << pick(draw, ranks >= 64 ? 4 : 2);
	uint32_t pipeline = ranks >= 64 ? 4u << pick(draw, 2) : ranks >= 16 ? 4 : 2;

	options->program.step_ns = draw_step_ns(draw, ranks, limits);
	options->program.transfer_share = pick_between(draw, 0.08, 0.25);
	options->program.layers = 1 + pick(draw, 2);
	shape->ranks_per_host = ranks >= 32 ? 8 : ranks / 4;
	switch (scenario->family) {
	case SIM_FAMILY_TENSOR:
		shape->tensor = 2 * tensor <= ranks / 2 && tensor < 8 ? 2 * tensor : tensor;
		break;
	case SIM_FAMILY_PIPELINE:
	case SIM_FAMILY_INTERLEAVED:
		shape->pipeline = pipeline;
		shape->tensor = tensor * pipeline * 2 <= ranks ? tensor : 1;
		options->program.layers = 1;
		options->program.microbatches = 2 * pipeline;
		if (scenario->family == SIM_FAMILY_INTERLEAVED)
			options->program.virtual_stages = 2;
		break;
	case SIM_FAMILY_EXPERT:
		shape->expert = ranks >= 16 ? 8 : 4;
		break;
	case SIM_FAMILY_SHARDED:
		options->program.sharded = true;
		options->program.layers = 4;
		break;
	default:
		break;
	}
	shape->data = ranks / (shape->tensor * shape->pipeline);
	options->device_time = limits->device_time;
	options->polls = limits->polls;
	if (limits->device_time && shape->pipeline == 1 && scenario->family != SIM_FAMILY_EXPERT)
		options->program.overlap = pick(draw, 2) == 0;
	if (limits->device_time)
		options->program.buckets = 2u << pick(draw, 4);
}

static void draw_noise(struct draw *draw, struct sim_scenario *scenario)
{
	struct sim_noise *noise = &scenario->options.noise;
	double step_ns = scenario->options.program.step_ns;

	scenario->noise_level = pick(draw, 3);
	switch (scenario->noise_level) {
	case 0:
		noise->work = 0.003;
		noise->spikes_per_s = 0;
		noise->transfer = 0.03;
		break;
	case 1:
		noise->sequence = 0.005;
		break;
	default:
		noise->work = 0.02;
		noise->rank = 0.005;
		noise->spikes_per_s = 0.5;
		noise->transfer = 0.25;
		noise->transfer_tail = 0.002;
		noise->sequence = 0.01;
		noise->collector_per_step = 0.01;
		noise->collector_ns = 0.2 * step_ns < 30e6 ? 0.2 * step_ns : 30e6;
		break;
	}
	scenario->options.clock_offset_ns = pick_between(draw, 0, 50e6);
	scenario->options.clock_drift = pick_between(draw, 0, 50e-6);
	scenario->options.lost_share = pick(draw, 4) == 0 ? 0.0005 : 0;
	scenario->options.irregular_every = pick(draw, 3) == 0 ? 50 : 0;
	scenario->options.sample_every = pick(draw, 4) == 0 ? 4 : 1;
}

/* The size that makes the step about that much longer. */
static double draw_size(struct draw *draw, const struct sim_scenario *scenario)
{
	static const double sizes[] = {0.04, 0.1, 0.3, 1, 3};
	const struct sim_options *options = &scenario->options;
	double size = sizes[pick(draw, 5)] * pick_between(draw, 0.9, 1.2), bubbles = 1;

	if (options->shape.pipeline > 1)
		bubbles += (options->shape.pipeline - 1.0) / options->program.virtual_stages /
			   options->program.microbatches;
	switch (scenario->kind) {
	case SIM_FAULT_LINK:
	case SIM_FAULT_NIC:
	case SIM_FAULT_NODE_PAIR:
	case SIM_FAULT_CONGESTION:
		return size * 1.3;
	case SIM_FAULT_SEQUENCE:
		return pick_between(draw, 0.15, 0.5);
	case SIM_FAULT_EXPERTS:
		return pick_between(draw, 0.4, 2);
	case SIM_FAULT_STAGE:
		return pick_between(draw, 0.15, 0.8);
	default:
		return size * bubbles / (1 - options->program.transfer_share);
	}
}

static void place_faults(struct draw *draw, struct sim_scenario *scenario, uint32_t ranks,
	const struct sim_scenario_limits *limits)
{
	struct sim_options *options = &scenario->options;
	struct sim_fault *fault = &options->faults[0];
	uint32_t steps = options->steps;

	*fault = (struct sim_fault){.kind = scenario->kind,
		.rank = pick(draw, ranks),
		.first = steps * 2 / 5 + pick(draw, steps / 10),
		.last = steps - 1,
		.every = limits->every ? limits->every : 7};
	fault->size = draw_size(draw, scenario);
	fault->other = (fault->rank + options->shape.ranks_per_host) % ranks;
	options->fault_count = 1;
	if (scenario->kind == SIM_FAULT_EXPERTS)
		fault->rank %= options->shape.expert;
	if (sim_fault_class(scenario->kind) == VERDICT_WORKLOAD_IMBALANCE)
		fault->first = 0; /* the model's, not the machine's: from the start */
	switch (scenario->plan) {
	case SIM_PLAN_RECOVERY:
		fault->last = fault->first + steps * 3 / 10;
		break;
	case SIM_PLAN_EVERY:
		fault->course = SIM_COURSE_EVERY;
		break;
	case SIM_PLAN_DRIFT:
		fault->course = SIM_COURSE_DRIFT;
		break;
	case SIM_PLAN_SPIKE:
		fault->course = SIM_COURSE_SPIKE;
		fault->size = 3;
		break;
	case SIM_PLAN_SEVERAL:
	case SIM_PLAN_MOVING:
		options->faults[1] = *fault;
		options->faults[1].rank = (fault->rank + 1 + pick(draw, ranks - 1)) % ranks;
		options->faults[1].other =
			(options->faults[1].rank + options->shape.ranks_per_host) % ranks;
		options->fault_count = 2;
		if (scenario->plan == SIM_PLAN_MOVING) {
			fault->last = fault->first + steps / 4;
			options->faults[1].first = fault->last + 1;
		}
		break;
	default:
		break;
	}
}

static enum sim_plan draw_plan(
	struct draw *draw, enum sim_fault_kind kind, const struct sim_scenario_limits *limits)
{
	uint32_t number = pick(draw, 2 * SIM_PLAN_NR);

	if (limits->every && kind <= SIM_FAULT_CONGESTION)
		return SIM_PLAN_EVERY;
	/* Congestion has no place, so there are not several, and it does not move. */
	if (limits->one_course &&
		(kind < SIM_FAULT_CONGESTION ||
			(kind == SIM_FAULT_CONGESTION && limits->course < SIM_PLAN_SEVERAL)))
		return limits->course;
	if (limits->plain || kind > SIM_FAULT_LINK || number >= SIM_PLAN_NR)
		return SIM_PLAN_CONSTANT;
	return (enum sim_plan)number;
}

void sim_scenario_draw(struct sim_scenario *scenario, enum sim_fault_kind kind, uint64_t seed,
	const struct sim_scenario_limits *limits)
{
	struct draw draw = {sim_random(seed, 99, kind, 0), 0};
	struct sim_options *options = &scenario->options;
	uint32_t ranks = draw_ranks(&draw, limits);

	memset(scenario, 0, sizeof(*scenario));
	sim_options_default(options, ranks, seed);
	scenario->kind = kind;
	do {
		scenario->family = (enum sim_family)pick(&draw, SIM_FAMILY_NR);
	} while (limits->families && !(limits->families >> scenario->family & 1));
	if (kind == SIM_FAULT_EXPERTS)
		scenario->family = SIM_FAMILY_EXPERT;
	if (kind == SIM_FAULT_STAGE && scenario->family != SIM_FAMILY_INTERLEAVED)
		scenario->family = SIM_FAMILY_PIPELINE;
	draw_shape(&draw, scenario, ranks, limits);
	draw_noise(&draw, scenario);
	options->steps = steps_of(options->program.step_ns);
	scenario->plan = draw_plan(&draw, kind, limits);
	if (kind < SIM_FAULT_NR)
		place_faults(&draw, scenario, ranks, limits);
}
