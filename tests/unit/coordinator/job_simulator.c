/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/coordinator/job_simulator.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t next_random(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *state = x;
}

static double uniform(uint64_t *state)
{
	return ((double)(next_random(state) >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(uint64_t *state)
{
	return sqrt(-2 * log(uniform(state))) * cos(6.283185307179586 * uniform(state));
}

struct sim_options sim_defaults(unsigned ranks, uint64_t seed)
{
	struct sim_options options = {
		.ranks = ranks,
		.hosts = 1,
		.steps = 400,
		.calls = 4,
		.step_ms = 20,
		.compute_share = 0.3,
		.jitter = 0.01,
		.transfer_us = 100,
		.transfer_jitter = 0.2,
		.seed = seed,
		.batch_ms = 250,
	};

	for (unsigned c = 0; c < options.calls; c++)
		options.call[c] = (struct sim_call){
			OPERATION_ALL_REDUCE, SIM_WORLD, 1.0 / options.calls, 1024u << c, 0};
	return options;
}

struct sim_options sim_crowded(unsigned ranks, uint64_t seed, unsigned steps)
{
	struct sim_options options = sim_defaults(ranks, seed);

	options.tcp = true;
	options.hosts = 4;
	options.steps = steps;
	options.waiting = 0.5;
	options.unsteady = 0.1;
	options.fault_count = 1;
	options.faults[0] = (struct sim_fault){SIM_CROWD, 0, 250, steps, 0.12};
	return options;
}

static void add_interval(
	struct sim_rank *rank, unsigned number, double start, double length, int reason)
{
	struct off_cpu_interval *interval;

	if (length < 500000)
		return;
	if ((rank->interval_count & 255) == 0)
		rank->intervals = realloc(
			rank->intervals, (rank->interval_count + 256) * sizeof(*rank->intervals));
	interval = &rank->intervals[rank->interval_count++];
	*interval = (struct off_cpu_interval){.rank = number,
		.start.value = (int64_t)start,
		.end.value = (int64_t)(start + length),
		.other_pid = reason == OFF_CPU_PREEMPTED ? 4242 : 0,
		.reason = (uint8_t)reason};
	if (reason == OFF_CPU_PREEMPTED)
		snprintf(interval->other_name, sizeof(interval->other_name), "stress-hog");
}

static const struct sim_fault *fault_of(
	const struct sim *sim, unsigned rank, unsigned step, enum sim_fault_kind kind)
{
	for (unsigned f = 0; f < sim->options.fault_count; f++) {
		const struct sim_fault *fault = &sim->options.faults[f];

		if (fault->rank == rank && fault->kind == kind && step >= fault->first &&
			step <= fault->last)
			return fault;
	}
	return NULL;
}

/* What counters show of a stretch on the CPU: 3 GHz, give or take. */
static void count_run(struct sim *sim, unsigned number, unsigned step, double ns, bool works)
{
	const struct sim_options *options = &sim->options;
	const struct sim_fault *steal = fault_of(sim, number, step, SIM_STEAL);
	const struct sim_fault *clock = fault_of(sim, number, step, SIM_CLOCK);
	const struct sim_fault *smt = fault_of(sim, number, step, SIM_SMT);
	struct sim_rank *rank = &sim->rank[number];
	bool falls = options->fault_count && step >= options->faults[0].first;
	double stolen = options->stolen_always + (steal ? steal->size / (1 + steal->size) : 0);
	double cycles = (1 - stolen) * ns * 3 * (1 + 0.02 * normal(&rank->random)) /
			(1 + (clock ? clock->size : 0)) * (falls ? 1 - options->clock_falls : 1);

	rank->stolen_ns += stolen * ns;
	rank->cycles += cycles;
	rank->instructions += cycles * (!works	     ? options->poll_per_cycle
					       : smt ? 1 / (1 + smt->size)
						     : 1);
}

/* How much longer it is on the CPU for the same work. */
static double slower(const struct sim *sim, unsigned number, unsigned step)
{
	double times = 1;

	for (enum sim_fault_kind kind = SIM_STEAL; kind <= SIM_SMT; kind++) {
		const struct sim_fault *fault = fault_of(sim, number, step, kind);

		times *= 1 + (fault ? fault->size : 0);
	}
	return times;
}

/* Runs for cpu_ns of CPU time (or, spinning, until a time), under the quota if there is one. */
static void run_on(struct sim *sim, unsigned number, unsigned step, double cpu_ns, double until,
	struct activity *activity)
{
	const struct sim_fault *throttle = fault_of(sim, number, step, SIM_THROTTLE);
	struct sim_rank *rank = &sim->rank[number];
	const double period = 100 * SIM_MS;
	/* spinning in waits uses the quota up too: below 1 CPU it always bites */
	double quota = throttle ? period / (1 + throttle->size) : 2 * period;

	while (cpu_ns > 0 || rank->now < until) {
		double place = fmod(rank->now, period), left = quota - rank->period_used;
		double want = cpu_ns > 0 ? cpu_ns : until - rank->now;

		if (rank->now - place != rank->period_start) {
			rank->period_start = rank->now - place;
			rank->period_used = 0;
			continue;
		}
		if (left <= 1) {
			double freeze = period - place + 1;

			activity->throttled_ns += (int64_t)freeze;
			rank->throttled_ns += freeze;
			add_interval(rank, number, rank->now, freeze, OFF_CPU_THROTTLED);
			rank->now += freeze;
			continue;
		}
		want = fmin(fmin(want, left), period - place + 1);
		rank->now += want;
		rank->period_used += want;
		rank->cpu_ns += want;
		if (sim->options.speed)
			count_run(sim, number, step, want, cpu_ns > 0);
		if (cpu_ns > 0)
			cpu_ns = cpu_ns - want < 1 ? 0 : cpu_ns - want;
	}
}

static void go_off(
	struct sim_rank *rank, unsigned number, double length, int64_t *field, int reason)
{
	*field += (int64_t)length;
	add_interval(rank, number, rank->now, length, reason);
	rank->now += length;
}

/* The segment before a call. */
static void work_until_call(struct sim *sim, unsigned number, unsigned step, double share)
{
	const struct sim_options *options = &sim->options;
	struct sim_rank *rank = &sim->rank[number];
	struct activity *before = &rank->before;
	const struct sim_fault *fault;
	double work = options->step_ms * SIM_MS * share;
	double seconds = work / 1e9;

	if (number == 0)
		work *= 1 + options->imbalance;
	fault = fault_of(sim, number, step, SIM_SPLIT);
	if (fault)
		work *= 1 + fault->size;
	work *= fmax(0.1, 1 + options->jitter / sqrt(share) * normal(&rank->random));
	if (options->compute_share < 1)
		go_off(rank, number, work * (1 - options->compute_share), &before->asleep_ns,
			OFF_CPU_ASLEEP);
	run_on(sim, number, step, work * options->compute_share * slower(sim, number, step), 0,
		before);
	if (uniform(&rank->random) < options->preempt_rate * seconds)
		go_off(rank, number, -options->preempt_ms * SIM_MS * log(uniform(&rank->random)),
			&before->preempted_ns, OFF_CPU_PREEMPTED);
	work = options->step_ms * SIM_MS * share;
	fault = fault_of(sim, number, step, SIM_COMPUTE);
	if (fault)
		run_on(sim, number, step, work * fault->size, 0, before);
	fault = fault_of(sim, number, step, SIM_CONTENTION);
	if (fault)
		go_off(rank, number, work * fault->size * (0.5 + uniform(&rank->random)),
			&before->preempted_ns, OFF_CPU_PREEMPTED);
	fault = fault_of(sim, number, step, SIM_MAJOR);
	if (fault) {
		before->major_faults += 3;
		go_off(rank, number, work * fault->size, &before->major_fault_ns,
			OFF_CPU_MAJOR_FAULT);
	}
	fault = fault_of(sim, number, step, SIM_BLOCK_IO);
	if (fault)
		go_off(rank, number, work * fault->size, &before->block_io_ns, OFF_CPU_BLOCK_IO);
	fault = fault_of(sim, number, step, SIM_MINOR);
	if (fault) { /* a part of the storm is system calls, not faults */
		before->minor_faults += (uint32_t)(work * fault->size / 1000);
		before->minor_fault_ns += (int64_t)(0.7 * work * fault->size);
		rank->now += work * fault->size;
	}
}

unsigned sim_group_of(const struct sim *sim, enum sim_group group, unsigned rank)
{
	return group == SIM_WORLD   ? 0
	       : group == SIM_PAIRS ? rank / 2
				    : rank * 2 / sim->options.ranks;
}

uint64_t sim_communicator(enum sim_group group, unsigned index)
{
	return 1000 + (uint64_t)group * 100 + index;
}

/* Host time, as that host's clock shows it. */
int64_t sim_host_ns(const struct sim *sim, unsigned rank, double time)
{
	unsigned host = rank * sim->options.hosts / sim->options.ranks;

	return (int64_t)(time * (1 + sim->options.drift_ppm[host] * 1e-6) +
			 sim->options.offset_ms[host] * SIM_MS) +
	       INT64_C(1000000000);
}

static void set_address(uint8_t gid[WIRE_GID_BYTES], unsigned rank)
{
	gid[0] = 0xfe;
	gid[15] = (uint8_t)(rank + 1);
}

/* Each rank's numbers are 17, 18: as on real hosts, only address and number together are one. */
static void make_queue_pairs(struct sim *sim, unsigned number)
{
	for (unsigned side = 0; side < 2; side++) {
		struct message_queue_pair *pair = &sim->rank[number].queue_pairs[side];
		unsigned ranks = sim->options.ranks;
		unsigned peer = (number + (side ? ranks - 1 : 1)) % ranks;

		*pair = (struct message_queue_pair){.rank = number,
			.number = 17 + side,
			.peer_number = 18 - side,
			.flags = QUEUE_PAIR_HAS_PEER | QUEUE_PAIR_PEER_GLOBAL |
				 QUEUE_PAIR_OWN_ADDRESS,
			.port = 1,
			.type = 2,
			.device = "sim0"};
		set_address(pair->own_gid, number);
		set_address(pair->peer_gid, peer);
	}
}

static void post_message(struct sim *sim, unsigned number, uint64_t length_bytes, double extra_ns)
{
	struct sim_rank *rank = &sim->rank[number];
	struct message_queue_pair *pair = &rank->queue_pairs[0];
	double ns = 50000 * (0.8 + 0.4 * uniform(&sim->rank[0].random)) + extra_ns;
	unsigned bucket = 63u - (unsigned)__builtin_clzll((uint64_t)ns);

	pair->posted_requests++;
	pair->posted_bytes += length_bytes;
	pair->completed_requests++;
	pair->completed_bytes += length_bytes;
	pair->statuses[0]++;
	if (sim->options.timed_every <= 1 ||
		pair->posted_requests % sim->options.timed_every == 0) {
		pair->latency_count++;
		pair->latency_sum_ns += (uint64_t)ns;
		if ((uint64_t)ns > pair->latency_max_ns)
			pair->latency_max_ns = (uint64_t)ns;
		pair->latency[bucket]++;
	}
	rank->packets += 1 + (double)length_bytes / 4096;
	pair = &sim->rank[(number + 1) % sim->options.ranks].queue_pairs[1];
	pair->received_requests++;
	pair->received_bytes += length_bytes;
}

static void lose(struct sim *sim, unsigned number, double packets)
{
	sim->rank[number].retransmits += packets;
	sim->rank[(number + 1) % sim->options.ranks].out_of_order += packets;
}

/* Data of a rank goes out late; what it gets is only acknowledged late. */
static void send_round(struct sim *sim, unsigned number, unsigned step, const struct sim_call *call)
{
	const struct sim_options *options = &sim->options;
	const struct sim_fault *own = fault_of(sim, number, step, SIM_COMM);
	const struct sim_fault *next = fault_of(sim, (number + 1) % options->ranks, step, SIM_COMM);
	double size = own ? own->size : next ? next->size / 3 : 0;

	post_message(sim, number, call->length_bytes,
		size * options->step_ms * SIM_MS / options->calls + sim->rank[number].stalled);
	if (own && options->lossy)
		lose(sim, number, 1);
	if (next && options->timeouts)
		sim->rank[number].retransmits++;
}

/*
 * A packet of the rank's sends is missed until it is sent again: somewhere in the middle, so that all wait
 * for it, or the last one, so that only who gets it does. Returns how much later all leave.
 */
static double stall(struct sim *sim, unsigned number, unsigned step)
{
	const struct sim_options *options = &sim->options;
	const struct sim_fault *fault = fault_of(sim, number, step, SIM_LOSE);
	struct sim_rank *rank = &sim->rank[number];

	rank->stalled = 0;
	if (fault)
		lose(sim, number, fault->size);
	fault = fault_of(sim, number, step, SIM_STALL);
	if (!fault || uniform(&rank->random) >= fault->size)
		return 0;
	if (options->lossy)
		lose(sim, number, 1);
	rank->stalled = options->stall_ms * SIM_MS * (0.9 + 0.2 * uniform(&rank->random));
	if (uniform(&rank->random) < 0.5)
		return rank->stalled;
	sim->rank[(number + 1) % options->ranks].kept = rank->stalled;
	return 0;
}

/* What sockets have to send in a call, as long as their link is as ever. */
static double waiting_data(struct sim *sim, struct sim_rank *rank)
{
	const struct sim_options *options = &sim->options;

	if (options->waiting <= 0)
		return 20000;
	if (rank->now >= rank->waits_until) {
		rank->waits =
			options->waiting * fmax(0, 1 + options->unsteady * normal(&rank->random));
		rank->waits_until = rank->now + 1e9;
	}
	return rank->waits * options->step_ms * SIM_MS / options->calls;
}

/* By how much a call's transfer is longer on crowded CPUs. */
static double crowd(struct sim *sim, unsigned step, uint64_t *random)
{
	const struct sim_options *options = &sim->options;
	const struct sim_fault *fault = fault_of(sim, 0, step, SIM_CROWD);

	return fault ? 2 * uniform(random) * fault->size * options->step_ms * SIM_MS /
			       options->calls
		     : 0;
}

/* What a call of one group does: arrivals, waits, departures. */
static void meet(struct sim *sim, const struct sim_call *call, unsigned group, unsigned step,
	struct collective_part *parts)
{
	const struct sim_options *options = &sim->options;
	double arrival[SIM_RANKS_MAX], last = 0, root_arrival = 0, transfer;
	uint64_t *random = &sim->rank[0].random;
	enum waits_for waits = operation_waits_for(call->operation);

	transfer = options->transfer_us * 1000 *
			   fmax(0.2, 1 + options->transfer_jitter * normal(random)) +
		   crowd(sim, step, random);
	for (unsigned r = 0; r < options->ranks; r++) {
		const struct sim_fault *link = fault_of(sim, r, step, SIM_COMM);

		if (sim_group_of(sim, call->group, r) != group)
			continue;
		arrival[r] = sim->rank[r].now;
		last = fmax(last, arrival[r]);
		if (r == call->root)
			root_arrival = arrival[r];
		if (link) {
			double extra = link->size * options->step_ms * SIM_MS / options->calls;

			transfer += extra;
			sim->rank[r].busy_ns += extra;
			for (unsigned o = 0; o < options->ranks; o++)
				sim->rank[o].busy_ns += o == r ? 0 : options->echo * extra;
		}
		transfer += stall(sim, r, step);
		if (options->rdma)
			send_round(sim, r, step, call);
		sim->rank[r].busy_ns += waiting_data(sim, &sim->rank[r]);
		sim->rank[r].sent += (double)call->length_bytes;
	}
	for (int pass = 0; pass < 2; pass++) { /* a frozen member holds everyone */
		for (unsigned r = 0; r < options->ranks; r++) {
			struct sim_rank *rank = &sim->rank[r];
			double until = last;

			if (sim_group_of(sim, call->group, r) != group)
				continue;
			if ((waits == WAITS_FOR_ROOT && r != call->root))
				until = root_arrival;
			else if (waits == WAITS_FOR_ROOT ||
				 (waits == WAITS_FOR_ALL_AT_ROOT && r != call->root))
				until = 0;
			run_on(sim, r, step, 0, until, &rank->inside);
			if (waits == WAITS_FOR_ALL)
				last = fmax(last, rank->now);
		}
	}
	for (unsigned r = 0; r < options->ranks; r++) {
		struct sim_rank *rank = &sim->rank[r];
		const struct sim_fault *late;

		if (sim_group_of(sim, call->group, r) != group)
			continue;
		if (waits == WAITS_FOR_ALL)
			rank->now = last;
		rank->now += transfer + 5000 * uniform(&rank->random);
		late = fault_of(sim, r, step, SIM_LEAVE);
		if (late)
			rank->now += late->size * options->step_ms * SIM_MS / options->calls;
		rank->now += rank->kept;
		rank->kept = 0;
		parts[r] = (struct collective_part){
			.communicator_id = sim_communicator(call->group, group),
			.sequence = rank->sequence[call->group]++,
			.length_bytes = call->length_bytes,
			.arrival.value = sim_host_ns(sim, r, arrival[r]),
			.departure.value = sim_host_ns(sim, r, rank->now),
			.before = rank->before,
			.inside = rank->inside,
			.root = waits == WAITS_FOR_ROOT || waits == WAITS_FOR_ALL_AT_ROOT
					? (int32_t)call->root
					: STEP_ROOT_NONE,
			.operation = (uint8_t)call->operation,
			.flags = options->attached ? PART_SEQUENCE_RELATIVE : 0,
		};
		if (options->no_sched) {
			memset(&parts[r].before, 0, sizeof(parts[r].before));
			memset(&parts[r].inside, 0, sizeof(parts[r].inside));
		}
		memset(&rank->before, 0, sizeof(rank->before));
		memset(&rank->inside, 0, sizeof(rank->inside));
	}
}

static void take_speed_samples(struct sim *sim, unsigned number)
{
	struct sim_rank *rank = &sim->rank[number];
	const struct {
		enum metric metric;
		double value;
	} all[] = {
		{METRIC_CPU_STOLEN_NS, 1e7 * floor(rank->stolen_ns / 1e7)},
		{METRIC_CPU_WANTED_NS, 1e7 * floor(rank->cpu_ns / 1e7)},
		{METRIC_CPU_CYCLES, rank->cycles},
		{METRIC_CPU_COUNTED_NS, rank->cpu_ns},
		{METRIC_CPU_INSTRUCTIONS, rank->instructions},
	};

	if (!sim->options.speed)
		return;
	rank->samples = realloc(rank->samples, (rank->sample_count + 5) * sizeof(*rank->samples));
	for (unsigned i = 0; i < 5; i++)
		rank->samples[rank->sample_count++] = (struct metric_sample){.rank = number,
			.metric = (uint16_t)all[i].metric,
			.time.value = sim_host_ns(sim, number, rank->now),
			.value = (int64_t)all[i].value};
}

static void take_samples(struct sim *sim, unsigned number)
{
	struct sim_rank *rank = &sim->rank[number];
	const struct {
		enum metric metric;
		double value;
	} all[] = {
		{METRIC_TCP_BUSY_NS, rank->busy_ns},
		{METRIC_TCP_BYTES_SENT, rank->sent},
		{METRIC_TCP_BYTES_RETRANSMITTED, 0},
		{METRIC_CGROUP_THROTTLED_NS, rank->throttled_ns},
		{METRIC_PROCESS_CPU_NS, rank->cpu_ns},
		{METRIC_RDMA_RETRANSMITS, rank->retransmits},
		{METRIC_RDMA_OUT_OF_ORDER, rank->out_of_order},
		{METRIC_RDMA_PACKETS_SENT, rank->packets},
	};
	unsigned count = sim->options.rdma ? 8 : 5;

	if (rank->now < rank->next_sample)
		return;
	rank->next_sample = rank->now + 1e9;
	rank->samples = realloc(rank->samples, (rank->sample_count + 8) * sizeof(*rank->samples));
	for (unsigned i = sim->options.tcp ? 0 : 3; i < count; i++)
		rank->samples[rank->sample_count++] = (struct metric_sample){.rank = number,
			.metric = (uint16_t)all[i].metric,
			.time.value = sim_host_ns(sim, number, rank->now),
			.value = (int64_t)all[i].value};
	take_speed_samples(sim, number);
	if (!sim->options.rdma)
		return;
	rank->told = realloc(rank->told, (rank->told_count + 2) * sizeof(*rank->told));
	for (unsigned side = 0; side < 2; side++) {
		rank->queue_pairs[side].time.value = sim_host_ns(sim, number, rank->now);
		rank->told[rank->told_count++] = rank->queue_pairs[side];
	}
}

/* One step of all ranks; every rank's step entry is appended. */
static void simulate_step(struct sim *sim, unsigned step)
{
	const struct sim_options *options = &sim->options;
	struct collective_part parts[SIM_CALLS_MAX][SIM_RANKS_MAX];
	bool irregular = options->irregular_every && step % options->irregular_every == 7;

	for (unsigned c = 0; c < options->calls; c++) {
		const struct sim_call *call = &options->call[c];

		for (unsigned r = 0; r < options->ranks; r++)
			work_until_call(sim, r, step, call->share * (irregular ? 3 : 1));
		for (unsigned g = 0; g < options->ranks; g++) {
			if (g <= sim_group_of(sim, call->group, options->ranks - 1))
				meet(sim, call, g, step, parts[c]);
		}
	}
	for (unsigned r = 0; r < options->ranks; r++) {
		struct sim_rank *rank = &sim->rank[r];
		struct step_entry *entry = &rank->entries[rank->entry_count];
		bool open = options->window_steps && entry->part_count;
		/* windows of different ranks end at different steps */
		bool close = !options->window_steps || (step + r) % options->window_steps == 0;

		if (!open)
			*entry = (struct step_entry){.rank = r,
				.index = rank->entry_count,
				.flags = (options->window_steps ? STEP_WINDOW : 0) |
					 (irregular ? STEP_IRREGULAR : 0),
				.signature = 77 + irregular,
				.start.value = sim_host_ns(sim, r, rank->departed)};
		entry->parts = realloc(entry->parts,
			(entry->part_count + options->calls) * sizeof(struct collective_part));
		for (unsigned c = 0; c < options->calls; c++) {
			if (uniform(&rank->random) < options->lost_share)
				entry->flags |= STEP_INCOMPLETE;
			else
				entry->parts[entry->part_count++] = parts[c][r];
		}
		entry->end.value = sim_host_ns(sim, r, rank->now);
		rank->departed = rank->now;
		if (close || step + 1 == options->steps)
			rank->entry_count++;
		take_samples(sim, r);
	}
}

void sim_simulate(struct sim *sim, const struct sim_options *options)
{
	memset(sim, 0, sizeof(*sim));
	sim->options = *options;
	sim->step_start = calloc(options->steps + 1, sizeof(double));
	for (unsigned r = 0; r < options->ranks; r++) {
		struct sim_rank *rank = &sim->rank[r];

		rank->random = (options->seed * 1000 + r + 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
		for (int i = 0; i < 8; i++)
			(void)next_random(&rank->random);
		rank->entries = calloc(options->steps + 2, sizeof(*rank->entries));
		for (int g = 0; g < 3; g++)
			rank->sequence[g] =
				options->attached ? (r * 7919u + (unsigned)g * 13u) % 23u : 0;
		make_queue_pairs(sim, r);
		rank->next_sample = 1e7 * r; /* their samplers are not in step */
	}
	for (unsigned s = 0; s < options->steps; s++) {
		sim->step_start[s] = sim->rank[0].now;
		simulate_step(sim, s);
	}
	sim->end = sim->rank[0].now + 1e9;
	if (options->tamper)
		options->tamper(sim);
}

void sim_free(struct sim *sim, bool fed)
{
	for (unsigned r = 0; r < sim->options.ranks; r++) {
		struct sim_rank *rank = &sim->rank[r];

		for (size_t e = fed ? rank->handed_count : 0; e < rank->entry_count; e++)
			free(rank->entries[e].parts);
		free(rank->entries);
		free(rank->samples);
		free(rank->told);
		free(rank->intervals);
	}
	free(sim->step_start);
}
