/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small simulator of MPI jobs for the tests of the pipeline: ranks that work, wait, transfer;
 * noise; faults with known truth; hosts with clocks of their own; probes that cut batches. It
 * shares no code with the analysis. Header only, for one test program each.
 */
#ifndef SLOWRANK_TESTS_UNIT_COORDINATOR_JOB_SIMULATOR_H
#define SLOWRANK_TESTS_UNIT_COORDINATOR_JOB_SIMULATOR_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/pipeline_internal.h"

enum {
	SIM_RANKS_MAX = 64,
	SIM_CALLS_MAX = 32, /* collectives in a step */
	SIM_FAULTS_MAX = 8,
	SIM_HOSTS_MAX = 8,
	SIM_VERDICTS_MAX = 64,
};
#define SIM_MS 1000000.0

enum sim_fault_kind {
	SIM_COMPUTE,
	SIM_THROTTLE, /* a real quota: size is how much longer the rank's CPU time takes */
	SIM_CONTENTION,
	SIM_MAJOR,
	SIM_MINOR,
	SIM_BLOCK_IO,
	SIM_COMM,  /* the rank's link */
	SIM_LEAVE, /* it leaves collectives late, though its link is as ever */
};

struct sim_fault {
	enum sim_fault_kind kind;
	unsigned rank;
	unsigned first, last; /* steps */
	double size;	      /* of the step */
};

/* Who takes part in a call. */
enum sim_group { SIM_WORLD, SIM_PAIRS, SIM_HALVES };

struct sim_call {
	enum operation operation;
	enum sim_group group;
	double share; /* of the step's work, before it */
	uint64_t length_bytes;
	unsigned root;
};

struct sim_options {
	unsigned ranks, hosts, steps, calls;
	struct sim_call call[SIM_CALLS_MAX];
	double step_ms;	      /* work of a step: asleep and on the CPU */
	double compute_share; /* of it on the CPU; the rest is asleep, as on a device */
	double jitter;	      /* relative standard deviation of a segment */
	double preempt_rate;  /* per rank and second */
	double preempt_ms;    /* mean of an exponential */
	double transfer_us;   /* of one call */
	double transfer_jitter;
	double imbalance; /* rank 0 has that much more work, always */
	unsigned fault_count;
	struct sim_fault faults[SIM_FAULTS_MAX];
	uint64_t seed;
	double offset_ms[SIM_HOSTS_MAX], drift_ppm[SIM_HOSTS_MAX];
	bool attached;	       /* sequences count from a different place on each rank */
	bool probe_per_rank;   /* else one per host */
	unsigned window_steps; /* > 0: entries are windows of that many steps */
	double lost_share;     /* of parts that the probes never saw */
	double batch_ms;
	bool tcp;      /* metrics of sockets */
	double echo;   /* with tcp: what others' sockets show of a slow link's data that waits */
	bool rdma;     /* a ring of queue pairs: from each rank to the next one */
	bool lossy;    /* with rdma: a slow link is one that loses packets */
	bool no_sched; /* the kernel side is missing: no activities, samples only */
	unsigned irregular_every;
	unsigned rank_exits; /* 0 = none; else this rank stops being heard of half way */
};

struct sim_rank {
	double now; /* true time, ns */
	double departed;
	double period_used; /* CPU time used in the current quota period */
	double period_start;
	uint64_t random;
	struct activity before, inside;
	uint64_t sequence[3];
	double busy_ns, sent, throttled_ns, cpu_ns;
	struct step_entry *entries;
	size_t entry_count, handed_count;
	struct metric_sample *samples;
	size_t sample_count;
	double next_sample;
	struct message_queue_pair queue_pairs[2]; /* to the next rank, to the one before */
	double retransmits, packets;
	struct message_queue_pair *told;
	size_t told_count;
	struct off_cpu_interval *intervals;
	size_t interval_count;
};

struct sim {
	struct sim_options options;
	struct sim_rank rank[SIM_RANKS_MAX];
	double *step_start; /* true */
	double end;
	/* what the pipeline said */
	unsigned alert_count, update_count, recovered_count;
	struct verdict alerts[SIM_VERDICTS_MAX];
	FILE *log;
};

static inline uint64_t sim_next(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *state = x;
}

static inline double sim_uniform(uint64_t *state)
{
	return ((double)(sim_next(state) >> 11) + 0.5) / 9007199254740992.0;
}

static inline double sim_normal(uint64_t *state)
{
	return sqrt(-2 * log(sim_uniform(state))) * cos(6.283185307179586 * sim_uniform(state));
}

static inline struct sim_options sim_defaults(unsigned ranks, uint64_t seed)
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

static inline void sim_interval(
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

static inline const struct sim_fault *sim_fault(
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

/* Runs for cpu_ns of CPU time (or, spinning, until a time), under the quota if there is one. */
static inline void sim_run(struct sim *sim, unsigned number, unsigned step, double cpu_ns,
	double until, struct activity *activity)
{
	const struct sim_fault *throttle = sim_fault(sim, number, step, SIM_THROTTLE);
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
			sim_interval(rank, number, rank->now, freeze, OFF_CPU_THROTTLED);
			rank->now += freeze;
			continue;
		}
		want = fmin(fmin(want, left), period - place + 1);
		rank->now += want;
		rank->period_used += want;
		rank->cpu_ns += want;
		if (cpu_ns > 0)
			cpu_ns = cpu_ns - want < 1 ? 0 : cpu_ns - want;
	}
}

static inline void sim_off(
	struct sim_rank *rank, unsigned number, double length, int64_t *field, int reason)
{
	*field += (int64_t)length;
	sim_interval(rank, number, rank->now, length, reason);
	rank->now += length;
}

/* The segment before a call. */
static inline void sim_segment(struct sim *sim, unsigned number, unsigned step, double share)
{
	const struct sim_options *options = &sim->options;
	struct sim_rank *rank = &sim->rank[number];
	struct activity *before = &rank->before;
	const struct sim_fault *fault;
	double work = options->step_ms * SIM_MS * share;
	double seconds = work / 1e9;

	if (number == 0)
		work *= 1 + options->imbalance;
	work *= fmax(0.1, 1 + options->jitter / sqrt(share) * sim_normal(&rank->random));
	if (options->compute_share < 1)
		sim_off(rank, number, work * (1 - options->compute_share), &before->asleep_ns,
			OFF_CPU_ASLEEP);
	sim_run(sim, number, step, work * options->compute_share, 0, before);
	if (sim_uniform(&rank->random) < options->preempt_rate * seconds)
		sim_off(rank, number,
			-options->preempt_ms * SIM_MS * log(sim_uniform(&rank->random)),
			&before->preempted_ns, OFF_CPU_PREEMPTED);
	work = options->step_ms * SIM_MS * share;
	fault = sim_fault(sim, number, step, SIM_COMPUTE);
	if (fault)
		sim_run(sim, number, step, work * fault->size, 0, before);
	fault = sim_fault(sim, number, step, SIM_CONTENTION);
	if (fault)
		sim_off(rank, number, work * fault->size * (0.5 + sim_uniform(&rank->random)),
			&before->preempted_ns, OFF_CPU_PREEMPTED);
	fault = sim_fault(sim, number, step, SIM_MAJOR);
	if (fault) {
		before->major_faults += 3;
		sim_off(rank, number, work * fault->size, &before->major_fault_ns,
			OFF_CPU_MAJOR_FAULT);
	}
	fault = sim_fault(sim, number, step, SIM_BLOCK_IO);
	if (fault)
		sim_off(rank, number, work * fault->size, &before->block_io_ns, OFF_CPU_BLOCK_IO);
	fault = sim_fault(sim, number, step, SIM_MINOR);
	if (fault) { /* a part of the storm is system calls, not faults */
		before->minor_faults += (uint32_t)(work * fault->size / 1000);
		before->minor_fault_ns += (int64_t)(0.7 * work * fault->size);
		rank->now += work * fault->size;
	}
}

static inline unsigned sim_group_of(const struct sim *sim, enum sim_group group, unsigned rank)
{
	return group == SIM_WORLD   ? 0
	       : group == SIM_PAIRS ? rank / 2
				    : rank * 2 / sim->options.ranks;
}

static inline uint64_t sim_communicator(enum sim_group group, unsigned index)
{
	return 1000 + (uint64_t)group * 100 + index;
}

/* Host time, as that host's clock shows it. */
static inline int64_t sim_host_ns(const struct sim *sim, unsigned rank, double time)
{
	unsigned host = rank * sim->options.hosts / sim->options.ranks;

	return (int64_t)(time * (1 + sim->options.drift_ppm[host] * 1e-6) +
			 sim->options.offset_ms[host] * SIM_MS) +
	       INT64_C(1000000000);
}

static inline void sim_address(uint8_t gid[WIRE_GID_BYTES], unsigned rank)
{
	gid[0] = 0xfe;
	gid[15] = (uint8_t)(rank + 1);
}

/* Each rank's numbers are 17, 18: as on real hosts, only address and number together are one. */
static inline void sim_make_queue_pairs(struct sim *sim, unsigned number)
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
		sim_address(pair->own_gid, number);
		sim_address(pair->peer_gid, peer);
	}
}

static inline void sim_post(
	struct sim *sim, unsigned number, uint64_t length_bytes, double extra_ns)
{
	struct sim_rank *rank = &sim->rank[number];
	struct message_queue_pair *pair = &rank->queue_pairs[0];
	double ns = 50000 * (0.8 + 0.4 * sim_uniform(&sim->rank[0].random)) + extra_ns;
	unsigned bucket = 63u - (unsigned)__builtin_clzll((uint64_t)ns);

	pair->posted_requests++;
	pair->posted_bytes += length_bytes;
	pair->completed_requests++;
	pair->completed_bytes += length_bytes;
	pair->statuses[0]++;
	pair->latency_count++;
	pair->latency_sum_ns += (uint64_t)ns;
	if ((uint64_t)ns > pair->latency_max_ns)
		pair->latency_max_ns = (uint64_t)ns;
	pair->latency[bucket]++;
	rank->packets += 1 + (double)length_bytes / 4096;
	rank->retransmits += extra_ns > 0 && sim->options.lossy;
	pair = &sim->rank[(number + 1) % sim->options.ranks].queue_pairs[1];
	pair->received_requests++;
	pair->received_bytes += length_bytes;
}

/* Data of a rank goes out late; what it gets is only acknowledged late. */
static inline void sim_ring(
	struct sim *sim, unsigned number, unsigned step, const struct sim_call *call)
{
	const struct sim_options *options = &sim->options;
	const struct sim_fault *own = sim_fault(sim, number, step, SIM_COMM);
	const struct sim_fault *next =
		sim_fault(sim, (number + 1) % options->ranks, step, SIM_COMM);
	double size = own ? own->size : next ? next->size / 3 : 0;

	sim_post(
		sim, number, call->length_bytes, size * options->step_ms * SIM_MS / options->calls);
}

/* What a call of one group does: arrivals, waits, departures. */
static inline void sim_meet(struct sim *sim, const struct sim_call *call, unsigned group,
	unsigned step, struct collective_part *parts)
{
	const struct sim_options *options = &sim->options;
	double arrival[SIM_RANKS_MAX], last = 0, root_arrival = 0, transfer;
	uint64_t *random = &sim->rank[0].random;
	enum waits_for waits = operation_waits_for(call->operation);

	transfer = options->transfer_us * 1000 *
		   fmax(0.2, 1 + options->transfer_jitter * sim_normal(random));
	for (unsigned r = 0; r < options->ranks; r++) {
		const struct sim_fault *link = sim_fault(sim, r, step, SIM_COMM);

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
		if (options->rdma)
			sim_ring(sim, r, step, call);
		sim->rank[r].busy_ns += 20000;
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
			sim_run(sim, r, step, 0, until, &rank->inside);
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
		rank->now += transfer + 5000 * sim_uniform(&rank->random);
		late = sim_fault(sim, r, step, SIM_LEAVE);
		if (late)
			rank->now += late->size * options->step_ms * SIM_MS / options->calls;
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

static inline void sim_sample(struct sim *sim, unsigned number)
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
		{METRIC_RDMA_PACKETS_SENT, rank->packets},
	};
	unsigned count = sim->options.rdma ? 7 : 5;

	if (rank->now < rank->next_sample)
		return;
	rank->next_sample = rank->now + 1e9;
	rank->samples = realloc(rank->samples, (rank->sample_count + 7) * sizeof(*rank->samples));
	for (unsigned i = sim->options.tcp ? 0 : 3; i < count; i++)
		rank->samples[rank->sample_count++] = (struct metric_sample){.rank = number,
			.metric = (uint16_t)all[i].metric,
			.time.value = sim_host_ns(sim, number, rank->now),
			.value = (int64_t)all[i].value};
	if (!sim->options.rdma)
		return;
	rank->told = realloc(rank->told, (rank->told_count + 2) * sizeof(*rank->told));
	for (unsigned side = 0; side < 2; side++) {
		rank->queue_pairs[side].time.value = sim_host_ns(sim, number, rank->now);
		rank->told[rank->told_count++] = rank->queue_pairs[side];
	}
}

/* One step of all ranks; every rank's step entry is appended. */
static inline void sim_step(struct sim *sim, unsigned step)
{
	const struct sim_options *options = &sim->options;
	struct collective_part parts[SIM_CALLS_MAX][SIM_RANKS_MAX];
	bool irregular = options->irregular_every && step % options->irregular_every == 7;

	for (unsigned c = 0; c < options->calls; c++) {
		const struct sim_call *call = &options->call[c];

		for (unsigned r = 0; r < options->ranks; r++)
			sim_segment(sim, r, step, call->share * (irregular ? 3 : 1));
		for (unsigned g = 0; g < options->ranks; g++) {
			if (g <= sim_group_of(sim, call->group, options->ranks - 1))
				sim_meet(sim, call, g, step, parts[c]);
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
			if (sim_uniform(&rank->random) < options->lost_share)
				entry->flags |= STEP_INCOMPLETE;
			else
				entry->parts[entry->part_count++] = parts[c][r];
		}
		entry->end.value = sim_host_ns(sim, r, rank->now);
		rank->departed = rank->now;
		if (close || step + 1 == options->steps)
			rank->entry_count++;
		sim_sample(sim, r);
	}
}

static inline void sim_on_verdict(
	void *context, enum verdict_event event, const struct verdict *verdict)
{
	struct sim *sim = context;

	if (event == VERDICT_EVENT_ALERT && sim->alert_count < SIM_VERDICTS_MAX)
		sim->alerts[sim->alert_count] = *verdict;
	sim->alert_count += event == VERDICT_EVENT_ALERT;
	sim->update_count += event == VERDICT_EVENT_UPDATE;
	sim->recovered_count += event == VERDICT_EVENT_RECOVERED;
	if (sim->log)
		fprintf(sim->log,
			"%d %u %s %s ranks %u (%u) slowdown %.3f confidence %.2f steps %lu-%lu\n",
			event, verdict->id, verdict_class_name(verdict->verdict_class),
			cause_name(verdict->cause), verdict->rank_count, verdict->ranks[0],
			verdict->slowdown, verdict->confidence, (unsigned long)verdict->first_step,
			(unsigned long)verdict->last_step);
}

static inline void sim_release(struct message_batch *batch)
{
	for (size_t s = 0; s < batch->step_count; s++)
		free(batch->steps[s].parts);
	free(batch->steps);
	free(batch->ranks);
	free(batch->communicators);
	free(batch->intervals);
	free(batch->samples);
	free(batch->sources);
	free(batch->queue_pairs);
	free(batch);
}

struct sim_feed {
	size_t entry[SIM_RANKS_MAX], interval[SIM_RANKS_MAX], sample[SIM_RANKS_MAX],
		told[SIM_RANKS_MAX];
	uint64_t number[SIM_RANKS_MAX];
};

static inline void sim_announce(
	const struct sim *sim, struct message_batch *batch, unsigned first, unsigned last)
{
	static const char *const sources[] = {
		"bpf.collectives", "bpf.sched", "bpf.throttle", "bpf.faults"};
	unsigned count = last - first + 1;

	batch->ranks = calloc(count, sizeof(*batch->ranks));
	batch->communicators = calloc(3u * count, sizeof(*batch->communicators));
	batch->sources = calloc(4, sizeof(*batch->sources));
	for (unsigned s = 0; s < 4; s++) {
		snprintf(batch->sources[s].name, sizeof(batch->sources[s].name), "%s", sources[s]);
		batch->sources[s].state = s && sim->options.no_sched ? SOURCE_MISSING : SOURCE_ON;
		if (s && sim->options.no_sched)
			snprintf(batch->sources[s].why, sizeof(batch->sources[s].why),
				"no BPF rights");
	}
	batch->source_count = 4;
	for (unsigned r = first; r <= last; r++) {
		struct message_rank *rank = &batch->ranks[batch->rank_count++];

		rank->rank = r;
		rank->world_size = sim->options.ranks;
		rank->pid = 1000 + r;
		snprintf(rank->host, sizeof(rank->host), "node%u",
			r * sim->options.hosts / sim->options.ranks);
		for (int g = 0; g < 3; g++) {
			unsigned own = sim_group_of(sim, (enum sim_group)g, r), size = 0, index = 0;

			for (unsigned other = 0; other < sim->options.ranks; other++) {
				if (sim_group_of(sim, (enum sim_group)g, other) != own)
					continue;
				index += other < r;
				size++;
			}
			batch->communicators[batch->communicator_count++] =
				(struct message_communicator){
					r, {sim_communicator((enum sim_group)g, own), size, index}};
		}
	}
}

/* What one probe has to say up to a host time. */
static inline struct message_batch *sim_batch(struct sim *sim, struct sim_feed *feed,
	unsigned probe, unsigned first, unsigned last, double until, bool final)
{
	struct message_batch *batch = calloc(1, sizeof(*batch));
	size_t steps = 0, intervals = 0, samples = 0, told = 0;

	batch->probe_id = 9000 + probe;
	batch->number = feed->number[probe]++;
	batch->host_id = 50 + first * sim->options.hosts / sim->options.ranks;
	batch->sent.value = sim_host_ns(sim, first, until);
	batch->final = final;
	snprintf(batch->job_id, sizeof(batch->job_id), "sim");
	if (batch->number == 0)
		sim_announce(sim, batch, first, last);
	for (unsigned r = first; r <= last; r++) {
		steps += sim->rank[r].entry_count;
		intervals += sim->rank[r].interval_count;
		samples += sim->rank[r].sample_count;
		told += sim->rank[r].told_count;
	}
	batch->steps = calloc(steps + 1, sizeof(*batch->steps));
	batch->intervals = calloc(intervals + 1, sizeof(*batch->intervals));
	batch->samples = calloc(samples + 1, sizeof(*batch->samples));
	batch->queue_pairs = calloc(told + 1, sizeof(*batch->queue_pairs));
	for (unsigned r = first; r <= last; r++) {
		struct sim_rank *rank = &sim->rank[r];
		int64_t limit = sim_host_ns(sim, r, until);
		bool silent = sim->options.rank_exits && r == sim->options.rank_exits &&
			      until > sim->end / 2;

		for (; feed->entry[r] < rank->entry_count &&
			rank->entries[feed->entry[r]].end.value <= limit && !silent;
			feed->entry[r]++)
			batch->steps[batch->step_count++] = rank->entries[feed->entry[r]];
		rank->handed_count = feed->entry[r];
		for (; feed->interval[r] < rank->interval_count &&
			rank->intervals[feed->interval[r]].end.value + (sim_host_ns(sim, r, 0)) <=
				limit;
			feed->interval[r]++) {
			struct off_cpu_interval *out = &batch->intervals[batch->interval_count++];

			*out = rank->intervals[feed->interval[r]];
			out->start.value = sim_host_ns(sim, r, (double)out->start.value);
			out->end.value = sim_host_ns(sim, r, (double)out->end.value);
		}
		for (; feed->sample[r] < rank->sample_count &&
			rank->samples[feed->sample[r]].time.value <= limit;
			feed->sample[r]++)
			batch->samples[batch->sample_count++] = rank->samples[feed->sample[r]];
		for (; feed->told[r] < rank->told_count &&
			rank->told[feed->told[r]].time.value <= limit;
			feed->told[r]++)
			batch->queue_pairs[batch->queue_pair_count++] = rank->told[feed->told[r]];
	}
	return batch;
}

static inline void sim_simulate(struct sim *sim, const struct sim_options *options)
{
	memset(sim, 0, sizeof(*sim));
	sim->options = *options;
	sim->step_start = calloc(options->steps + 1, sizeof(double));
	for (unsigned r = 0; r < options->ranks; r++) {
		struct sim_rank *rank = &sim->rank[r];

		rank->random = (options->seed * 1000 + r + 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
		for (int i = 0; i < 8; i++)
			(void)sim_next(&rank->random);
		rank->entries = calloc(options->steps + 2, sizeof(*rank->entries));
		for (int g = 0; g < 3; g++)
			rank->sequence[g] =
				options->attached ? (r * 7919u + (unsigned)g * 13u) % 23u : 0;
		sim_make_queue_pairs(sim, r);
		rank->next_sample = 1e7 * r; /* their samplers are not in step */
	}
	for (unsigned s = 0; s < options->steps; s++) {
		sim->step_start[s] = sim->rank[0].now;
		sim_step(sim, s);
	}
	sim->end = sim->rank[0].now + 1e9;
}

/* Feeds the whole job; the pipeline is the caller's. Returns a negative errno or 0. */
static inline int sim_feed_all(struct sim *sim, struct pipeline *pipeline)
{
	const struct sim_options *options = &sim->options;
	struct sim_feed *feed = calloc(1, sizeof(*feed));
	unsigned probes = options->probe_per_rank ? options->ranks : options->hosts;
	int error = 0;

	for (double until = options->batch_ms * SIM_MS; error >= 0;
		until += options->batch_ms * SIM_MS) {
		bool final = until > sim->end;

		for (unsigned p = 0; p < probes && error >= 0; p++) {
			unsigned first =
				options->probe_per_rank ? p : p * options->ranks / options->hosts;
			unsigned last = options->probe_per_rank
						? p
						: (p + 1) * options->ranks / options->hosts - 1;
			double skew = final ? 0 : (double)p * 3 * SIM_MS;
			struct message_reply reply;

			error = pipeline_push_batch(pipeline,
				sim_batch(sim, feed, p, first, last, until - skew, final),
				sim_release, (struct job_ns){(int64_t)until + INT64_C(1000500000)},
				&reply);
		}
		if (final)
			break;
	}
	free(feed);
	return error < 0 ? error : pipeline_finish(pipeline);
}

static inline void sim_free(struct sim *sim, bool fed)
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

/* What is left of a job once its pipeline is gone. */
struct sim_result {
	int error;
	struct job_totals totals;
	size_t verdict_count;
	struct verdict verdicts[SIM_VERDICTS_MAX];
	uint32_t rank_count, node_count;
	struct rank_totals ranks[SIM_RANKS_MAX];
};

/* Simulates, feeds and reports one job. The caller calls sim_free(sim, true). */
static inline void sim_job(
	struct sim *sim, const struct sim_options *options, struct sim_result *result)
{
	struct pipeline_options pipeline_options = {sim_on_verdict, sim};
	const struct report_model *model;
	struct pipeline *pipeline;

	memset(result, 0, sizeof(*result));
	sim_simulate(sim, options);
	if (getenv("SLOWRANK_SIM_LOG"))
		sim->log = stderr;
	result->error = pipeline_create(&pipeline_options, &pipeline);
	if (result->error)
		return;
	result->error = sim_feed_all(sim, pipeline);
	model = pipeline_report(pipeline);
	result->totals = model->totals;
	result->rank_count = model->rank_count;
	result->node_count = model->node_count;
	for (size_t i = 0; i < model->rank_count && i < SIM_RANKS_MAX; i++)
		result->ranks[i] = model->ranks[i].totals;
	result->verdict_count =
		model->verdict_count < SIM_VERDICTS_MAX ? model->verdict_count : SIM_VERDICTS_MAX;
	if (result->verdict_count)
		memcpy(result->verdicts, model->verdicts,
			result->verdict_count * sizeof(struct verdict));
	pipeline_destroy(pipeline);
}

#endif
