/* SPDX-License-Identifier: Apache-2.0 */
/* What the probes of a simulated job say, and what the pipeline makes of it. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/coordinator/job_simulator.h"
#include "tests/unit/coordinator/made_batch.h"

void sim_on_verdict(void *context, enum verdict_event event, const struct verdict *verdict)
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
			verdict->slowdown, verdict->sure.confidence,
			(unsigned long)verdict->first_step, (unsigned long)verdict->last_step);
}

static void announce(
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
struct message_batch *sim_batch(struct sim *sim, struct sim_feed *feed, unsigned probe,
	unsigned first, unsigned last, double until, bool final)
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
		announce(sim, batch, first, last);
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

/* Feeds the whole job; the pipeline is the caller's. Returns a negative errno or 0. */
int sim_feed_all(struct sim *sim, struct pipeline *pipeline)
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
				made_batch_release,
				(struct job_ns){(int64_t)until + INT64_C(1000500000)}, &reply);
		}
		if (final)
			break;
	}
	free(feed);
	return error < 0 ? error : pipeline_finish(pipeline);
}

/* Simulates, feeds and reports one job. The caller calls sim_free(sim, true). */
void sim_job(struct sim *sim, const struct sim_options *options, struct sim_result *result)
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
