/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/simulator/simulator.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench/simulator/random.h"

#define CLOCK_START_NS 1e12 /* hosts are up that long: no time becomes negative */
#define SHUFFLE_NS 1000	    /* calls of a group begin within so much */

struct simulator {
	struct sim_options options;
	struct sim_layout layout;
	struct sim_program *usual, *irregular;
	struct sim_timeline *timeline;
	struct sim_timeline *without[SIM_FAULTS_MAX]; /* worlds free of one fault */
	double *ends;				      /* by step: true time */
	double on_ns[SIM_FAULTS_MAX], off_ns[SIM_FAULTS_MAX];
	uint32_t step_count;
	uint64_t *sequences; /* by rank and group type; messages by direction and way */
	uint64_t *entry_count;
};

enum { SEQUENCES = SIM_GROUP_NR + 2 * SIM_DIRECTION_NR };

void sim_options_default(struct sim_options *options, uint32_t ranks, uint64_t seed)
{
	*options = (struct sim_options){
		.seed = seed,
		.shape = {ranks, 1, 1, 1, 8},
		.program = {.step_ns = 40e6,
			.transfer_share = 0.15,
			.microbatches = 1,
			.virtual_stages = 1,
			.layers = 2,
			.buckets = 4,
			.norm = true},
		.noise = {.work = 0.01,
			.rank = 0.002,
			.spikes_per_s = 0.05,
			.spike_ns = 200e3,
			.spike_index = 1.3,
			.spike_largest_ns = 20e6,
			.transfer = 0.1,
			.leave_ns = 5e3},
		.steps = 300,
		.on_cpu_share = 1,
		.sample_every = 1,
		.counters = true,
		.clock_offset_ns = 5e6,
		.clock_drift = 20e-6,
	};
}

static int make_programs(struct simulator *simulator)
{
	const struct sim_options *options = &simulator->options;
	uint32_t stages = options->shape.pipeline;
	int error = 0;

	simulator->usual = calloc(stages, sizeof(*simulator->usual));
	simulator->irregular = calloc(stages, sizeof(*simulator->irregular));
	if (!simulator->usual || !simulator->irregular)
		return -ENOMEM;
	for (uint32_t stage = 0; stage < stages && error == 0; stage++) {
		error = sim_program_init(&simulator->usual[stage], &simulator->layout,
			&options->program, stage, false);
		if (error == 0)
			error = sim_program_init(&simulator->irregular[stage], &simulator->layout,
				&options->program, stage, true);
	}
	return error;
}

static int make_timelines(struct simulator *simulator)
{
	const struct sim_options *options = &simulator->options;
	struct sim_world world = {
		.seed = options->seed,
		.layout = &simulator->layout,
		.usual = simulator->usual,
		.irregular = simulator->irregular,
		.irregular_every = options->irregular_every,
		.noise = &simulator->options.noise,
		.step_ns = options->program.step_ns,
		.on_cpu_share = options->on_cpu_share,
		.polls = options->polls,
		.faults = simulator->options.faults,
		.fault_count = options->fault_count,
	};
	int error = sim_timeline_create(&world, true, &simulator->timeline);

	for (uint32_t f = 0; f < options->fault_count && error == 0; f++) {
		world.masked = 1u << f;
		error = sim_timeline_create(&world, false, &simulator->without[f]);
	}
	return error;
}

int simulator_create(const struct sim_options *options, struct simulator **result)
{
	struct simulator *simulator;
	int error;

	if (!options->steps || !options->sample_every || options->fault_count > SIM_FAULTS_MAX)
		return -EINVAL;
	/* Of two stages with several chunks, messages of both directions go the same way. */
	if (options->grouped && options->shape.pipeline == 2 && options->program.virtual_stages > 1)
		return -EINVAL;
	for (uint32_t f = 0; f < options->fault_count; f++) {
		if (options->faults[f].course == SIM_COURSE_EVERY && !options->faults[f].every)
			return -EINVAL;
	}
	simulator = calloc(1, sizeof(*simulator));
	if (!simulator)
		return -ENOMEM;
	simulator->options = *options;
	error = sim_layout_init(&simulator->layout, &options->shape);
	if (error < 0)
		goto fail;
	error = -ENOMEM;
	simulator->ends = calloc(options->steps, sizeof(double));
	simulator->sequences =
		calloc((size_t)simulator->layout.rank_count * SEQUENCES, sizeof(uint64_t));
	simulator->entry_count = calloc(simulator->layout.rank_count, sizeof(uint64_t));
	if (!simulator->ends || !simulator->sequences || !simulator->entry_count)
		goto fail;
	error = make_programs(simulator);
	if (error == 0)
		error = make_timelines(simulator);
	if (error < 0)
		goto fail;
	*result = simulator;
	return 0;
fail:
	simulator_destroy(simulator);
	return error;
}

void simulator_destroy(struct simulator *simulator)
{
	if (!simulator)
		return;
	sim_timeline_destroy(simulator->timeline);
	for (uint32_t f = 0; f < SIM_FAULTS_MAX; f++)
		sim_timeline_destroy(simulator->without[f]);
	for (uint32_t stage = 0; stage < simulator->options.shape.pipeline; stage++) {
		if (simulator->usual)
			sim_program_fini(&simulator->usual[stage]);
		if (simulator->irregular)
			sim_program_fini(&simulator->irregular[stage]);
	}
	free(simulator->usual);
	free(simulator->irregular);
	free(simulator->ends);
	free(simulator->sequences);
	free(simulator->entry_count);
	sim_layout_fini(&simulator->layout);
	free(simulator);
}

int simulator_step(struct simulator *simulator)
{
	struct sim_timeline *timeline = simulator->timeline;
	const struct sim_options *options = &simulator->options;
	uint32_t step = simulator->step_count;
	double before = timeline->end;
	int error;

	if (step == options->steps || timeline->any_stuck)
		return 0;
	error = sim_timeline_step(timeline, step);
	for (uint32_t f = 0; f < options->fault_count && error == 0; f++) {
		struct sim_timeline *without = simulator->without[f];
		double without_before = without->end;

		error = sim_timeline_step(without, step);
		if (sim_fault_size(&options->faults[f], step) > 0 && !timeline->any_stuck) {
			simulator->on_ns[f] += timeline->end - before;
			simulator->off_ns[f] += without->end - without_before;
		}
	}
	if (error < 0)
		return error;
	simulator->ends[simulator->step_count++] = timeline->end;
	return 1;
}

const struct sim_options *simulator_options(const struct simulator *simulator)
{
	return &simulator->options;
}

const struct sim_layout *simulator_layout(const struct simulator *simulator)
{
	return &simulator->layout;
}

const struct sim_timeline *simulator_timeline(const struct simulator *simulator)
{
	return simulator->timeline;
}

uint32_t simulator_step_count(const struct simulator *simulator)
{
	return simulator->step_count;
}

double simulator_step_end(const struct simulator *simulator, uint32_t index)
{
	return index < simulator->step_count ? simulator->ends[index] : 0;
}

void simulator_truth(const struct simulator *simulator, struct sim_truth *truth)
{
	memset(truth, 0, sizeof(*truth));
	if (simulator->step_count)
		truth->step_ns = simulator->ends[simulator->step_count - 1] / simulator->step_count;
	for (uint32_t f = 0; f < simulator->options.fault_count; f++)
		truth->slowdown[f] =
			simulator->off_ns[f] > 0 ? simulator->on_ns[f] / simulator->off_ns[f] : 1;
}

struct host_ns simulator_host_time(const struct simulator *simulator, uint32_t rank, double time)
{
	const struct sim_options *options = &simulator->options;
	uint32_t host = sim_host(&simulator->layout, rank);
	double offset = 2 * sim_uniform(sim_random(options->seed, 5, host, 0)) - 1;
	double drift = 2 * sim_uniform(sim_random(options->seed, 6, host, 0)) - 1;

	return (struct host_ns){
		(int64_t)(CLOCK_START_NS + time * (1 + drift * options->clock_drift) +
			  offset * options->clock_offset_ns)};
}

static uint64_t communicator_id(
	const struct simulator *simulator, enum sim_group_type type, uint32_t group)
{
	return sim_random(simulator->options.seed, 7, (uint64_t)type, group) | 1;
}

uint32_t simulator_communicators(const struct simulator *simulator, uint32_t rank,
	struct communicator communicators[SIM_COMMUNICATORS_MAX])
{
	uint32_t count = 0;

	for (int type = 0; type < SIM_GROUP_NR; type++) {
		const struct sim_group_table *table = &simulator->layout.groups[type];

		if (table->size < 2 || table->group_of[rank] == UINT32_MAX)
			continue;
		communicators[count++] =
			(struct communicator){communicator_id(simulator, (enum sim_group_type)type,
						      table->group_of[rank]),
				table->size, table->index_of[rank]};
	}
	return count;
}

uint32_t simulator_parts_max(const struct simulator *simulator)
{
	uint32_t members = simulator->layout.groups[SIM_EXPERT].size;

	return simulator->timeline->part_stride *
	       (simulator->options.grouped && members > 1 ? 2 * members : 1);
}

static bool is_message(const struct sim_op *op)
{
	return op->kind == SIM_OP_SEND || op->kind == SIM_OP_RECEIVE;
}

static void fill_part(const struct simulator *simulator, uint32_t rank, const struct sim_op *op,
	const struct sim_part *from, struct collective_part *part)
{
	const struct sim_group_table *table = &simulator->layout.groups[op->group];

	*part = (struct collective_part){
		.communicator_id = communicator_id(
			simulator, (enum sim_group_type)op->group, table->group_of[rank]),
		.length_bytes = op->length_bytes,
		.arrival = simulator_host_time(simulator, rank, from->arrival),
		.departure = simulator_host_time(simulator, rank, from->departure),
		.root = STEP_ROOT_NONE,
		.operation = op->operation,
		.flags = simulator->options.device_time ? PART_DEVICE_TIME : 0,
		.stream = op->kind == SIM_OP_COLLECTIVE_ASYNC,
	};
	if (!is_message(op))
		return;
	part->peer = op->peer_stage + 1;
	if (!simulator->options.grouped)
		part->purpose = op->direction == SIM_FORWARD ? PURPOSE_FORWARD : PURPOSE_BACKWARD;
	if (simulator->options.stream_each)
		part->stream = (uint8_t)part->peer;
}

/* An all-to-all as its messages: with each member one each way. Returns how many. */
static size_t fill_exchange(
	const struct simulator *simulator, const struct sim_op *op, struct collective_part *parts)
{
	const struct collective_part whole = parts[0];
	uint32_t members = simulator->layout.groups[op->group].size;

	for (uint32_t i = 0; i < 2 * members; i++) {
		parts[i] = whole;
		parts[i].operation = i % 2 ? OPERATION_RECEIVE : OPERATION_SEND;
		parts[i].peer = i / 2 + 1;
		if (i > 0)
			parts[i].before = (struct activity){0};
	}
	return 2 * members;
}

/* The calls of a group begin when it does, or, shuffled, so shortly after it that their order is any. */
static void begin_group(const struct simulator *simulator, uint32_t rank, struct host_ns began,
	struct collective_part *parts, size_t count)
{
	const struct sim_options *options = &simulator->options;

	for (size_t p = 0; p < count; p++) {
		uint64_t random = sim_random(options->seed, 9,
			(uint64_t)rank << 32 | simulator->timeline->step,
			(uint64_t)parts[p].peer << 32 | parts[p].sequence << 1 |
				(parts[p].operation == OPERATION_SEND));

		parts[p].arrival = began;
		if (options->shuffled)
			parts[p].arrival.value += (int64_t)(SHUFFLE_NS * sim_uniform(random));
		if (parts[p].departure.value < parts[p].arrival.value)
			parts[p].departure = parts[p].arrival;
	}
}

/* The number of a part's call: a group's collectives; a direction's sends; its receives. */
static uint64_t *sequence_of(
	const struct simulator *simulator, uint32_t rank, const struct sim_op *op)
{
	uint32_t kind = op->group;

	if (is_message(op))
		kind = SIM_GROUP_NR + op->direction +
		       (op->kind == SIM_OP_SEND ? SIM_DIRECTION_NR : 0u);
	return &simulator->sequences[(size_t)rank * SEQUENCES + kind];
}

static bool seen(const struct simulator *simulator, uint32_t rank, const struct sim_op *op,
	uint64_t sequence, bool *lost)
{
	const struct sim_options *options = &simulator->options;
	uint64_t place = (uint64_t)simulator->timeline->step << 16 | op->part;

	if (op->group == SIM_TENSOR && sequence % options->sample_every)
		return false;
	if (is_message(op) && options->messages_hidden)
		return false;
	if (options->lost_share > 0 &&
		sim_uniform(sim_random(options->seed, 8, rank, place)) < options->lost_share) {
		*lost = true;
		return false;
	}
	return true;
}

static void sort_by_arrival(struct collective_part *parts, size_t count)
{
	for (size_t i = 1; i < count; i++) { /* nearly sorted already */
		struct collective_part part = parts[i];
		size_t at = i;

		for (; at > 0 && parts[at - 1].arrival.value > part.arrival.value; at--)
			parts[at] = parts[at - 1];
		parts[at] = part;
	}
}

/* What parts cover of the step; they are in order of arrival, and may overlap. */
static int64_t covered_ns(const struct step_entry *entry)
{
	int64_t sum = 0, until = entry->start.value;

	for (size_t p = 0; p < entry->part_count; p++) {
		int64_t from = entry->parts[p].arrival.value, to = entry->parts[p].departure.value;

		from = from > until ? from : until;
		to = to < entry->end.value ? to : entry->end.value;
		if (to > from)
			sum += to - from;
		until = to > until ? to : until;
	}
	return sum;
}

bool simulator_entry(struct simulator *simulator, uint32_t rank, struct step_entry *entry,
	struct collective_part *parts)
{
	const struct sim_timeline *timeline = simulator->timeline;
	const struct sim_program *program = sim_timeline_program(timeline, rank);
	const struct sim_options *options = &simulator->options;
	struct activity carried = {0};
	bool lost = false;
	const struct sim_op *send = NULL; /* just before */
	struct host_ns began = {0};	  /* the group */
	size_t count = 0, first = 0;	  /* first: of the group */

	if (timeline->stuck[rank])
		return false;
	for (uint32_t i = 0; i < program->op_count; i++) {
		const struct sim_op *op = &program->ops[i];
		const struct sim_part *from;
		uint64_t sequence;

		if (op->kind == SIM_OP_WORK || op->kind == SIM_OP_JOIN)
			continue;
		from = &timeline->parts[(size_t)rank * timeline->part_stride + op->part];
		sequence = (*sequence_of(simulator, rank, op))++;
		if (from->before)
			activity_add(&carried, &timeline->activities[from->before - 1]);
		if (!seen(simulator, rank, op, sequence, &lost)) {
			carried.comm_call_ns += (int64_t)(from->departure - from->arrival);
			continue;
		}
		fill_part(simulator, rank, op, from, &parts[count]);
		parts[count].sequence = sequence;
		parts[count].before = carried;
		carried = (struct activity){0};
		if (!options->grouped || op->kind != SIM_OP_RECEIVE || !send || op != send + 1) {
			first = count;
			began = parts[count].arrival;
		}
		send = op->kind == SIM_OP_SEND ? op : NULL;
		count += options->grouped && op->operation == OPERATION_ALL_TO_ALL
				 ? fill_exchange(simulator, op, &parts[count])
				 : 1;
		if (count - first > 1)
			begin_group(simulator, rank, began, &parts[first], count - first);
	}
	if (!options->by_launch)
		sort_by_arrival(parts, count);
	*entry = (struct step_entry){
		.rank = rank,
		.flags = (timeline->step_irregular ? STEP_IRREGULAR : 0u) |
			 (lost ? STEP_INCOMPLETE : 0u),
		.index = simulator->entry_count[rank]++,
		.signature = program->signature,
		.start = simulator_host_time(simulator, rank, timeline->started[rank]),
		.end = simulator_host_time(simulator, rank, timeline->now[rank]),
		.part_count = count,
		.parts = parts,
	};
	entry->comm_ns = covered_ns(entry);
	entry->compute_ns = entry->end.value - entry->start.value - entry->comm_ns;
	return true;
}

bool simulator_open_part(
	const struct simulator *simulator, uint32_t rank, struct collective_part *part)
{
	const struct sim_timeline *timeline = simulator->timeline;
	const struct sim_program *program = sim_timeline_program(timeline, rank);
	struct sim_part open = {0};
	const struct sim_op *at = sim_timeline_open(timeline, rank, &open.arrival);

	if (!at)
		return false;
	open.departure = open.arrival;
	fill_part(simulator, rank, at, &open, part);
	part->sequence = *sequence_of(simulator, rank, at);
	for (const struct sim_op *op = program->ops; op < at; op++) { /* earlier in this step */
		if (op->kind != SIM_OP_WORK && op->kind != SIM_OP_JOIN)
			part->sequence += sequence_of(simulator, rank, op) ==
					  sequence_of(simulator, rank, at);
	}
	return true;
}

struct counted {
	enum metric metric;
	double value;
};

/* Returns how many there are. */
static uint32_t sample_all(const struct simulator *simulator, uint32_t rank, double time,
	const struct counted *counted, uint32_t count, struct metric_sample *samples)
{
	if (!simulator->options.counters)
		return 0;
	for (uint32_t i = 0; i < count; i++)
		samples[i] = (struct metric_sample){rank, (uint16_t)counted[i].metric,
			simulator_host_time(simulator, rank, time), (int64_t)counted[i].value};
	return count;
}

uint32_t simulator_samples(const struct simulator *simulator, uint32_t rank,
	struct metric_sample samples[SIM_SAMPLES_MAX])
{
	const struct sim_counters *counters = &simulator->timeline->counters[rank];
	const struct counted counted[SIM_SAMPLES_MAX] = {
		{METRIC_CGROUP_THROTTLED_NS, counters->throttled_ns},
		{METRIC_PROCESS_MAJOR_FAULTS, counters->major_faults},
		{METRIC_PROCESS_MINOR_FAULTS, counters->minor_faults},
	};

	return sample_all(simulator, rank, simulator->timeline->now[rank], counted, 3, samples);
}

/* CPU time of a rank's launching thread until a time. */
static double launched_ns(const struct simulator *simulator, double time)
{
	double sum = 0;

	for (double second = 0; second < time && simulator->options.launchers_poll; second += 1e9)
		sum += fmin(time - second, 1e9) * sim_uniform(sim_random(simulator->options.seed,
							  24, (uint64_t)(second / 1e9), 0));
	return sum;
}

uint32_t simulator_socket_samples(const struct simulator *simulator, uint32_t rank, double time,
	struct metric_sample samples[SIM_SAMPLES_MAX])
{
	struct sim_sockets sockets = sim_timeline_sockets(simulator->timeline, rank, time);
	double launched = launched_ns(simulator, time);
	const struct counted counted[] = {
		{METRIC_TCP_BUSY_NS, sockets.busy_ns},
		{METRIC_TCP_BYTES_SENT, sockets.sent_bytes},
		{METRIC_TCP_BYTES_RETRANSMITTED, 0},
		{METRIC_PROCESS_CPU_NS, sockets.cpu_ns + launched},
		{METRIC_LAUNCHERS_CPU_NS, launched},
	};

	return sample_all(
		simulator, rank, time, counted, simulator->options.launchers_poll ? 5 : 4, samples);
}
