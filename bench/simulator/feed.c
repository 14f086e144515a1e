/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/simulator/feed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/simulator/looks.h"
#include "bench/simulator/random.h"

#define JOB_CLOCK_NS 5e11 /* the coordinator's host started later than the others */
#define LATENCY_NS 150e3  /* of a request, at least */
#define SAMPLES_EVERY_NS 1e9
enum { PENDING_STEPS_MAX = 64, HANG_BEATS = 120 };
#define HEARTBEAT_NS 250e6 /* of a job that hangs, at least */
#define BATCH_AGE_NS 1e9   /* no step waits longer to be told: probes send what is there */
#define OPEN_CALL_NS 1e9   /* shorter ones are not told */
#define HANG_STEPS 15.0	   /* of its usual steps that a hang is watched for */

struct pending_host {
	struct message_batch *batch; /* being filled; NULL = nothing yet */
	uint32_t first_rank, rank_count;
	uint32_t steps;
	uint64_t number;
	double next_sample; /* of what is not sockets */
	struct sim_looks looks;
	double first_end; /* of the first step that waits to be told */
	size_t interval_capacity, sample_capacity;
	double sent, received; /* of its last batch: true times; 0 = none */
};

struct feeder {
	struct simulator *simulator;
	struct sim_feed_options options;
	sim_take_batch take;
	sim_see_entry see;
	void *context;
	struct pending_host *hosts;
	uint32_t host_count;
	uint32_t *order;
	double last_end; /* of the step before */
	int64_t unix_offset_ns;
};

struct job_ns sim_job_time(double time)
{
	return (struct job_ns){(int64_t)(JOB_CLOCK_NS + time)};
}

static void release(struct message_batch *batch)
{
	for (size_t s = 0; s < batch->step_count; s++)
		free(batch->steps[s].parts);
	free(batch->steps);
	free(batch->ranks);
	free(batch->communicators);
	free(batch->intervals);
	free(batch->samples);
	free(batch->sources);
	free(batch->open_calls);
	free(batch);
}

static int announce(
	const struct feeder *feeder, const struct pending_host *host, struct message_batch *batch)
{
	static const char *const sources[] = {
		"bpf.collectives", "bpf.sched", "bpf.throttle", "bpf.faults"};
	const struct sim_layout *layout = simulator_layout(feeder->simulator);

	batch->ranks = calloc(host->rank_count, sizeof(*batch->ranks));
	batch->communicators = calloc(
		(size_t)host->rank_count * SIM_COMMUNICATORS_MAX, sizeof(*batch->communicators));
	batch->sources = calloc(4, sizeof(*batch->sources));
	if (!batch->ranks || !batch->communicators || !batch->sources)
		return -ENOMEM;
	for (; batch->source_count < 4; batch->source_count++) {
		struct message_source *source = &batch->sources[batch->source_count];

		snprintf(source->name, sizeof(source->name), "%s", sources[batch->source_count]);
		source->state = SOURCE_ON;
	}
	for (uint32_t i = 0; i < host->rank_count; i++) {
		struct communicator communicators[SIM_COMMUNICATORS_MAX];
		uint32_t rank = host->first_rank + i;
		uint32_t count = simulator_communicators(feeder->simulator, rank, communicators);
		struct message_rank *message = &batch->ranks[batch->rank_count++];

		message->rank = rank;
		message->world_size = layout->rank_count;
		message->local_rank = i;
		message->pid = 1000 + i;
		snprintf(message->host, sizeof(message->host), "node%u", sim_host(layout, rank));
		snprintf(message->program, sizeof(message->program), "simulated");
		for (uint32_t c = 0; c < count; c++)
			batch->communicators[batch->communicator_count++] =
				(struct message_communicator){rank, communicators[c]};
	}
	return 0;
}

static int open_batch(struct feeder *feeder, uint32_t index)
{
	struct pending_host *host = &feeder->hosts[index];
	size_t entries = (size_t)host->rank_count * PENDING_STEPS_MAX;
	struct message_batch *batch = calloc(1, sizeof(*batch));
	int error = 0;

	if (!batch)
		return -ENOMEM;
	if (feeder->options.batch_steps == 1)
		entries = host->rank_count;
	batch->probe_id = 0x51000000u + index;
	batch->host_id = 0x9000u + index;
	snprintf(batch->job_id, sizeof(batch->job_id), "simulated");
	batch->steps = calloc(entries, sizeof(*batch->steps));
	batch->number = host->number++;
	if (!batch->steps)
		error = -ENOMEM;
	if (error == 0 && batch->number == 0)
		error = announce(feeder, host, batch);
	if (error < 0) {
		release(batch);
		return error;
	}
	host->interval_capacity = host->sample_capacity = 0;
	host->batch = batch;
	host->steps = 0;
	return 0;
}

/* Sends a host's batch. now: true time, not before anything in it. */
static int deliver(struct feeder *feeder, uint32_t index, double now, bool final)
{
	struct pending_host *host = &feeder->hosts[index];
	struct message_batch *batch;
	double latency =
		LATENCY_NS *
		(1 + sim_uniform(sim_random(feeder->options.seed, 20, index, host->number)));
	int error = host->batch ? 0 : open_batch(feeder, index);

	if (error < 0)
		return error;
	batch = host->batch;
	host->batch = NULL;
	batch->final = final;
	batch->sent = simulator_host_time(feeder->simulator, host->first_rank, now);
	if (host->sent > 0) {
		batch->previous_sent =
			simulator_host_time(feeder->simulator, host->first_rank, host->sent);
		batch->previous_received = sim_job_time(host->received);
		batch->previous_reply_sent = sim_job_time(host->received + 1e4);
		batch->previous_reply_received = simulator_host_time(
			feeder->simulator, host->first_rank, host->received + 1e4 + LATENCY_NS);
	}
	host->sent = now;
	host->received = now + latency;
	return feeder->take(feeder->context, batch, release, sim_job_time(now + latency));
}

static int add_entry(struct feeder *feeder, struct pending_host *host, uint32_t rank)
{
	struct message_batch *batch = host->batch;
	struct step_entry *entry = &batch->steps[batch->step_count];
	struct collective_part *parts =
		calloc(simulator_parts_max(feeder->simulator), sizeof(*parts));

	if (!parts)
		return -ENOMEM;
	if (!simulator_entry(feeder->simulator, rank, entry, parts)) {
		free(parts);
		return 0;
	}
	batch->step_count++;
	if (feeder->see)
		feeder->see(feeder->context, entry);
	return 0;
}

static int add_stretch(struct feeder *feeder, const struct sim_stretch *stretch)
{
	const struct sim_layout *layout = simulator_layout(feeder->simulator);
	struct pending_host *host = &feeder->hosts[sim_host(layout, stretch->rank)];
	struct message_batch *batch = host->batch;
	struct off_cpu_interval *interval;

	if (batch->interval_count == WIRE_INTERVALS_PER_BATCH_MAX)
		return 0;
	if (batch->interval_count == host->interval_capacity) {
		size_t capacity = host->interval_capacity ? 2 * host->interval_capacity : 16;
		struct off_cpu_interval *grown =
			realloc(batch->intervals, capacity * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		batch->intervals = grown;
		host->interval_capacity = capacity;
	}
	interval = &batch->intervals[batch->interval_count++];
	*interval = (struct off_cpu_interval){.rank = stretch->rank,
		.start = simulator_host_time(feeder->simulator, stretch->rank, stretch->start),
		.end = simulator_host_time(feeder->simulator, stretch->rank, stretch->end),
		.reason = stretch->reason};
	if (stretch->reason == OFF_CPU_PREEMPTED) {
		interval->other_pid = 4242;
		snprintf(interval->other_name, sizeof(interval->other_name), "stress-ng");
	}
	return 0;
}

/* Room for the samples of all ranks of a host. */
static int reserve_samples(struct pending_host *host)
{
	struct message_batch *batch = host->batch;
	size_t needed = batch->sample_count + (size_t)host->rank_count * SIM_SAMPLES_MAX;
	struct metric_sample *grown;

	if (needed <= host->sample_capacity)
		return 0;
	grown = realloc(batch->samples, 2 * needed * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	batch->samples = grown;
	host->sample_capacity = 2 * needed;
	return 0;
}

static int look_at_sockets(struct feeder *feeder, struct pending_host *host, double time)
{
	struct message_batch *batch = host->batch;
	int error;

	if (batch->sample_count + (size_t)host->rank_count * SIM_SAMPLES_MAX >
		WIRE_SAMPLES_PER_BATCH_MAX)
		return 0;
	error = reserve_samples(host);
	for (uint32_t i = 0; i < host->rank_count && error == 0; i++)
		batch->sample_count += simulator_socket_samples(feeder->simulator,
			host->first_rank + i, time, &batch->samples[batch->sample_count]);
	return error;
}

/* What a host's probe saw of sockets during the last step, and after it. */
static int look_through_step(struct feeder *feeder, struct pending_host *host)
{
	const struct sim_timeline *timeline = simulator_timeline(feeder->simulator);
	double time;
	int error = 0;

	while (error == 0 && sim_looks_next(&host->looks, timeline->end, &time))
		error = look_at_sockets(feeder, host, time);
	for (uint32_t i = 0; i < host->rank_count; i++)
		sim_looks_step(&host->looks, i, timeline->started[host->first_rank + i],
			timeline->now[host->first_rank + i]);
	if (error == 0 && sim_looks_after(&host->looks, &time))
		error = look_at_sockets(feeder, host, time);
	return error;
}

/* Adds the step to what a host has to tell. */
static int fill_host(struct feeder *feeder, uint32_t h)
{
	const struct sim_timeline *timeline = simulator_timeline(feeder->simulator);
	const struct sim_layout *layout = simulator_layout(feeder->simulator);
	struct pending_host *host = &feeder->hosts[h];
	bool sample = timeline->end >= host->next_sample;
	int error = host->batch ? 0 : open_batch(feeder, h);

	if (error == 0)
		error = look_through_step(feeder, host);
	if (error == 0)
		error = reserve_samples(host);
	for (uint32_t i = 0; i < host->rank_count && error == 0; i++) {
		struct message_batch *batch = host->batch;
		uint32_t rank = host->first_rank + i;

		error = add_entry(feeder, host, rank);
		if (sample && error == 0)
			batch->sample_count += simulator_samples(
				feeder->simulator, rank, &batch->samples[batch->sample_count]);
	}
	for (size_t i = 0; i < timeline->stretch_count && error == 0; i++) {
		if (sim_host(layout, timeline->stretches[i].rank) == h)
			error = add_stretch(feeder, &timeline->stretches[i]);
	}
	if (sample)
		host->next_sample = timeline->end + SAMPLES_EVERY_NS;
	if (host->steps++ == 0)
		host->first_end = timeline->end;
	return error;
}

static void shuffle(struct feeder *feeder, uint64_t step)
{
	for (uint32_t i = feeder->host_count; i > 1; i--) {
		uint32_t other = (uint32_t)(sim_random(feeder->options.seed, 21, step, i) % i);
		uint32_t held = feeder->order[i - 1];

		feeder->order[i - 1] = feeder->order[other];
		feeder->order[other] = held;
	}
}

/* The last step, host by host; a host that is not due keeps it for later. */
static int feed_step(struct feeder *feeder)
{
	double end = simulator_timeline(feeder->simulator)->end;
	uint32_t step = simulator_step_count(feeder->simulator);
	uint32_t limit = 2 * feeder->options.batch_steps - 1;
	double next_end = 2 * end - feeder->last_end; /* when it is as long as this one */
	int error = 0;

	feeder->last_end = end;
	shuffle(feeder, step);
	for (uint32_t i = 0; i < feeder->host_count && error >= 0; i++) {
		uint32_t h = feeder->order[i];

		error = fill_host(feeder, h);
		/* A probe sends what is finished at least once a second, however long steps are. */
		if (error == 0 && (feeder->hosts[h].steps >= limit ||
					  next_end - feeder->hosts[h].first_end > BATCH_AGE_NS ||
					  sim_random(feeder->options.seed, 22, h, step) %
							  feeder->options.batch_steps ==
						  0))
			error = deliver(feeder, h, end + 1e3 * (i + 1), false);
	}
	return error < 0 ? error : 0;
}

/* What is left, and that it was the last. */
static int feed_end(struct feeder *feeder)
{
	double end = simulator_timeline(feeder->simulator)->end;
	int error = 0;

	shuffle(feeder, UINT64_MAX);
	for (uint32_t i = 0; i < feeder->host_count && error >= 0; i++)
		error = deliver(feeder, feeder->order[i], end + 2e6 + 1e3 * (i + 1), true);
	return error < 0 ? error : 0;
}

/* What a host's ranks are inside of; and those whose process ended, once. */
static int add_open_calls(struct feeder *feeder, uint32_t h, double now, bool first)
{
	const struct sim_options *options = simulator_options(feeder->simulator);
	struct pending_host *host = &feeder->hosts[h];
	int64_t limit;
	int error = host->batch ? 0 : open_batch(feeder, h);
	struct message_batch *batch = host->batch;

	if (error < 0)
		return error;
	batch->open_calls = calloc(host->rank_count, sizeof(*batch->open_calls));
	if (!batch->open_calls)
		return -ENOMEM;
	for (uint32_t i = 0; i < host->rank_count; i++) {
		uint32_t rank = host->first_rank + i;
		struct collective_part part;

		limit = simulator_host_time(feeder->simulator, rank, now - OPEN_CALL_NS).value;
		if (!simulator_open_part(feeder->simulator, rank, &part) ||
			part.arrival.value > limit)
			continue;
		batch->open_calls[batch->open_call_count++] =
			(struct message_open_call){.rank = rank,
				.peer = part.peer,
				.communicator_id = part.communicator_id,
				.sequence = part.sequence,
				.arrival = part.arrival,
				.operation = part.operation,
				.flags = part.flags};
	}
	if (!first || batch->ranks || options->faults[0].kind != SIM_FAULT_DEATH ||
		options->faults[0].rank - host->first_rank >= host->rank_count)
		return 0;
	batch->ranks = calloc(1, sizeof(*batch->ranks));
	if (!batch->ranks)
		return -ENOMEM;
	batch->rank_count = 1;
	*batch->ranks = (struct message_rank){.rank = options->faults[0].rank,
		.world_size = simulator_layout(feeder->simulator)->rank_count,
		.local_rank = options->faults[0].rank - host->first_rank,
		.pid = 1000 + options->faults[0].rank - host->first_rank,
		.exited = 1,
		.exit_code = 137};
	snprintf(batch->ranks->host, sizeof(batch->ranks->host), "node%u", h);
	snprintf(batch->ranks->program, sizeof(batch->ranks->program), "simulated");
	return 0;
}

/* The job hangs: its probes go on, and tell what their ranks are inside of. */
static int beat(struct feeder *feeder)
{
	double now = simulator_timeline(feeder->simulator)->end, every = HEARTBEAT_NS;
	double watched = HANG_STEPS * simulator_options(feeder->simulator)->program.step_ns;
	int error = 0;

	if (watched / HANG_BEATS > every)
		every = watched / HANG_BEATS;
	for (uint32_t i = 0; i < HANG_BEATS && error >= 0; i++) {
		now += every;
		for (uint32_t h = 0; h < feeder->host_count && error >= 0; h++) {
			error = add_open_calls(feeder, h, now, i == 1);
			if (error == 0)
				error = deliver(feeder, h, now, i + 1 == HANG_BEATS);
		}
	}
	return error < 0 ? error : 0;
}

static int feed_all(struct feeder *feeder)
{
	struct simulator *simulator = feeder->simulator;
	int result;

	while ((result = simulator_step(simulator)) > 0) {
		int error = feed_step(feeder);

		if (error < 0)
			return error;
	}
	if (result < 0)
		return result;
	if (simulator_timeline(simulator)->any_stuck)
		return beat(feeder);
	return feed_end(feeder);
}

int sim_feed(struct simulator *simulator, const struct sim_feed_options *options,
	sim_take_batch take, sim_see_entry see, void *context)
{
	const struct sim_layout *layout = simulator_layout(simulator);
	struct feeder feeder = {.simulator = simulator,
		.options = *options,
		.take = take,
		.see = see,
		.context = context,
		.host_count = layout->host_count};
	int error = -ENOMEM;

	if (!options->batch_steps || 2 * options->batch_steps - 1 > PENDING_STEPS_MAX)
		return -EINVAL;
	feeder.hosts = calloc(feeder.host_count, sizeof(*feeder.hosts));
	feeder.order = calloc(feeder.host_count, sizeof(*feeder.order));
	if (!feeder.hosts || !feeder.order)
		goto done;
	error = 0;
	for (uint32_t h = 0; h < feeder.host_count && error == 0; h++) {
		uint32_t first = h * layout->shape.ranks_per_host;
		uint32_t left = layout->rank_count - first;

		feeder.order[h] = h;
		feeder.hosts[h].first_rank = first;
		feeder.hosts[h].rank_count =
			left < layout->shape.ranks_per_host ? left : layout->shape.ranks_per_host;
		error = sim_looks_init(&feeder.hosts[h].looks, feeder.hosts[h].rank_count,
			sim_uniform(sim_random(options->seed, 23, h, 0)));
	}
	if (error == 0)
		error = feed_all(&feeder);
	for (uint32_t h = 0; h < feeder.host_count; h++) {
		sim_looks_fini(&feeder.hosts[h].looks);
		if (feeder.hosts[h].batch)
			release(feeder.hosts[h].batch);
	}
done:
	free(feeder.hosts);
	free(feeder.order);
	return error;
}
