/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/evidence.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void evidence_fini(struct evidence *evidence)
{
	for (int m = 0; m < METRIC_NR; m++)
		free(evidence->metrics[m].samples);
	free(evidence->intervals);
	*evidence = (struct evidence){0};
}

/*
 * Where the next one goes in a ring that doubles up to max before it overwrites its oldest.
 * Returns 0 or -ENOMEM.
 */
static int take_place(void **ring, size_t size, uint32_t max, uint32_t *count, uint32_t *capacity,
	uint32_t *next, uint32_t *place)
{
	if (*count == *capacity && *capacity < max) {
		uint32_t grown_capacity = *capacity ? 2 * *capacity : 4;
		void *grown = realloc(*ring, grown_capacity * size);

		if (!grown)
			return -ENOMEM;
		*ring = grown;
		*capacity = grown_capacity;
		*next = *count;
	}
	*place = *next;
	*next = (*next + 1) % *capacity;
	*count += *count < *capacity;
	return 0;
}

int evidence_add_sample(struct evidence *evidence, unsigned metric, int64_t time_ns, int64_t value)
{
	struct evidence_ring *ring;
	uint32_t at;
	int error;

	if (metric >= METRIC_NR)
		return 0;
	ring = &evidence->metrics[metric];
	error = take_place((void **)&ring->samples, sizeof(*ring->samples), EVIDENCE_SAMPLES,
		&ring->count, &ring->capacity, &ring->next, &at);
	if (error < 0)
		return error;
	ring->samples[at] = (struct evidence_sample){time_ns, value};
	return 0;
}

int evidence_add_interval(struct evidence *evidence, const struct evidence_interval *interval)
{
	uint32_t at;
	int error = take_place((void **)&evidence->intervals, sizeof(*evidence->intervals),
		EVIDENCE_INTERVALS, &evidence->interval_count, &evidence->interval_capacity,
		&evidence->interval_next, &at);

	if (error < 0)
		return error;
	evidence->intervals[at] = *interval;
	return 0;
}

/* The latest sample not after a time, and the first one after another time. */
static const struct evidence_sample *latest(
	const struct evidence *evidence, unsigned metric, int64_t time_ns)
{
	const struct evidence_sample *found = NULL;
	const struct evidence_ring *ring = &evidence->metrics[metric];

	for (uint32_t i = 0; i < ring->count; i++) {
		const struct evidence_sample *sample = &ring->samples[i];

		if (sample->time_ns <= time_ns && (!found || sample->time_ns > found->time_ns))
			found = sample;
	}
	return found;
}

static const struct evidence_sample *earliest_after(
	const struct evidence *evidence, unsigned metric, int64_t time_ns)
{
	const struct evidence_sample *found = NULL;
	const struct evidence_ring *ring = &evidence->metrics[metric];

	for (uint32_t i = 0; i < ring->count; i++) {
		const struct evidence_sample *sample = &ring->samples[i];

		if (sample->time_ns > time_ns && (!found || sample->time_ns < found->time_ns))
			found = sample;
	}
	return found;
}

bool evidence_value(
	const struct evidence *evidence, unsigned metric, int64_t time_ns, int64_t *value)
{
	const struct evidence_sample *sample =
		evidence ? latest(evidence, metric, time_ns - evidence->host_to_job_ns) : NULL;

	if (sample)
		*value = sample->value;
	return sample;
}

bool evidence_rate(const struct evidence *evidence, unsigned metric, int64_t from_ns,
	int64_t until_ns, double *rate)
{
	const struct evidence_sample *first, *last;

	if (!evidence)
		return false;
	from_ns -= evidence->host_to_job_ns;
	until_ns -= evidence->host_to_job_ns;
	last = latest(evidence, metric, until_ns);
	first = latest(evidence, metric, from_ns);
	if (!first)
		first = earliest_after(evidence, metric, from_ns);
	if (!first || !last || last->time_ns <= first->time_ns || last->time_ns <= from_ns)
		return false;
	*rate = (double)(last->value - first->value) / (double)(last->time_ns - first->time_ns);
	return true;
}

bool evidence_rate_before(
	const struct evidence *evidence, unsigned metric, int64_t until_ns, double *rate)
{
	const struct evidence_sample *first, *last;
	int64_t from_ns;

	if (!evidence)
		return false;
	until_ns -= evidence->host_to_job_ns;
	from_ns = until_ns - EVIDENCE_BEFORE_NS;
	last = latest(evidence, metric, until_ns);
	if (!last)
		return false;
	first = latest(evidence, metric, from_ns < last->time_ns ? from_ns : last->time_ns - 1);
	if (!first)
		first = earliest_after(evidence, metric, from_ns);
	if (!first || first->time_ns >= last->time_ns)
		return false;
	*rate = (double)(last->value - first->value) / (double)(last->time_ns - first->time_ns);
	return true;
}

bool evidence_rate_since(const struct evidence *evidence, unsigned metric, int64_t from_ns,
	int64_t until_ns, double *rate)
{
	const struct evidence_sample *first, *last;
	double before, known_ns;

	if (!evidence_rate_before(evidence, metric, from_ns, &before))
		return evidence_rate(evidence, metric, from_ns, until_ns, rate);
	from_ns -= evidence->host_to_job_ns;
	first = latest(evidence, metric, from_ns);
	last = latest(evidence, metric, until_ns - evidence->host_to_job_ns);
	known_ns = last ? (double)(last->time_ns - from_ns) : 0;
	if (known_ns < (double)EVIDENCE_SINCE_NS)
		return false;
	*rate = ((double)(last->value - first->value) -
			before * (double)(from_ns - first->time_ns)) /
		known_ns;
	return true;
}

bool evidence_usual_rate(const struct evidence *evidence, unsigned metric, int64_t until_ns,
	double *mean, double *deviation)
{
	double sum = 0, squares = 0, count = 0;
	const struct evidence_sample *later =
		evidence ? latest(evidence, metric, until_ns - evidence->host_to_job_ns) : NULL;

	while (later) {
		const struct evidence_sample *sample = latest(evidence, metric, later->time_ns - 1);

		if (sample) {
			double rate = (double)(later->value - sample->value) /
				      (double)(later->time_ns - sample->time_ns);

			sum += rate;
			squares += rate * rate;
			count++;
		}
		later = sample;
	}
	if (count < EVIDENCE_RATES_MIN)
		return false;
	*mean = sum / count;
	*deviation = sqrt(fmax(squares - sum * sum / count, 0) / (count - 1));
	return true;
}

static bool contains(const uint32_t *pids, size_t count, uint32_t pid)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (pids[middle] == pid)
			return true;
		if (pids[middle] < pid)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

double evidence_rivals_among(const struct evidence *evidence, int64_t from_ns, int64_t until_ns,
	uint32_t own_pid, const uint32_t *pids, size_t pid_count, int64_t *seen_ns)
{
	int64_t all_ns = 0, among_ns = 0, shift_ns = evidence ? evidence->host_to_job_ns : 0;

	from_ns -= shift_ns;
	until_ns -= shift_ns;
	for (uint32_t i = 0; evidence && i < evidence->interval_count; i++) {
		const struct evidence_interval *one = &evidence->intervals[i];

		if (one->reason != OFF_CPU_PREEMPTED || one->end_ns <= from_ns ||
			one->end_ns > until_ns)
			continue;
		all_ns += one->end_ns - one->start_ns;
		if (one->other_pid != own_pid && contains(pids, pid_count, one->other_pid))
			among_ns += one->end_ns - one->start_ns;
	}
	*seen_ns = all_ns;
	return all_ns > 0 ? (double)among_ns / (double)all_ns : 0;
}

/* Preempted between two times, by another process or by a thread of the same one. */
static bool is_rival(const struct evidence_interval *interval, int64_t from_ns, int64_t until_ns,
	uint32_t own_pid, bool of_own)
{
	return interval->reason == OFF_CPU_PREEMPTED && interval->end_ns > from_ns &&
	       interval->end_ns <= until_ns && (interval->other_pid == own_pid) == of_own;
}

static const struct evidence_interval *worst_rival(const struct evidence *evidence, int64_t from_ns,
	int64_t until_ns, uint32_t own_pid, bool of_own, int64_t *worst_ns)
{
	const struct evidence_interval *worst = NULL;

	for (uint32_t i = 0; i < evidence->interval_count; i++) {
		const struct evidence_interval *one = &evidence->intervals[i];
		int64_t sum_ns = 0;

		if (!is_rival(one, from_ns, until_ns, own_pid, of_own) || !one->other_name[0])
			continue;
		for (uint32_t k = 0; k < evidence->interval_count; k++) {
			const struct evidence_interval *other = &evidence->intervals[k];

			if (is_rival(other, from_ns, until_ns, own_pid, of_own) &&
				other->other_pid == one->other_pid &&
				strcmp(other->other_name, one->other_name) == 0)
				sum_ns += other->end_ns - other->start_ns;
		}
		if (sum_ns > *worst_ns) {
			*worst_ns = sum_ns;
			worst = one;
		}
	}
	return worst;
}

bool evidence_worst_rival(const struct evidence *evidence, int64_t from_ns, int64_t until_ns,
	uint32_t own_pid, struct evidence_rival *rival)
{
	const struct evidence_interval *worst;
	int64_t worst_ns = 0, all_ns = 0;

	if (!evidence)
		return false;
	from_ns -= evidence->host_to_job_ns;
	until_ns -= evidence->host_to_job_ns;
	worst = worst_rival(evidence, from_ns, until_ns, own_pid, false, &worst_ns);
	if (!worst)
		worst = worst_rival(evidence, from_ns, until_ns, own_pid, true, &worst_ns);
	if (!worst)
		return false;
	for (uint32_t i = 0; i < evidence->interval_count; i++) {
		const struct evidence_interval *one = &evidence->intervals[i];

		if (is_rival(one, from_ns, until_ns, own_pid, worst->other_pid == own_pid))
			all_ns += one->end_ns - one->start_ns;
	}
	memcpy(rival->name, worst->other_name, sizeof(rival->name));
	rival->pid = worst->other_pid;
	rival->share = (double)worst_ns / (double)all_ns;
	return true;
}
