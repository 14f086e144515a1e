/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/base/evidence.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/base/clamp.h"
#include "analysis/base/robust_stats.h"

void evidence_fini(struct evidence *evidence)
{
	sample_rings_fini(&evidence->samples);
	free(evidence->intervals);
	*evidence = (struct evidence){0};
}

int evidence_add_sample(struct evidence *evidence, unsigned metric, int64_t time_ns, int64_t value)
{
	if (metric >= METRIC_NR)
		return 0;
	return sample_rings_add(&evidence->samples, metric, (struct sample){time_ns, value});
}

int evidence_add_interval(struct evidence *evidence, const struct evidence_interval *interval)
{
	uint32_t count = evidence->interval_count;

	if (count == evidence->interval_capacity && count < EVIDENCE_INTERVALS) {
		uint32_t capacity = count ? 2 * count : 4;
		struct evidence_interval *grown =
			realloc(evidence->intervals, capacity * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		evidence->intervals = grown;
		evidence->interval_capacity = capacity;
		evidence->interval_next = count;
	}
	evidence->intervals[evidence->interval_next] = *interval;
	evidence->interval_next = (evidence->interval_next + 1) % evidence->interval_capacity;
	evidence->interval_count += count < evidence->interval_capacity;
	return 0;
}

/* The latest sample not after a time; times are the job's, also those found. evidence may be NULL. */
static bool latest(
	const struct evidence *evidence, unsigned metric, int64_t time_ns, struct sample *sample)
{
	if (!evidence || !sample_rings_latest(&evidence->samples, metric,
				 time_ns - evidence->host_to_job_ns, sample))
		return false;
	sample->time_ns += evidence->host_to_job_ns;
	return true;
}

static bool first_after(
	const struct evidence *evidence, unsigned metric, int64_t time_ns, struct sample *sample)
{
	if (!evidence || !sample_rings_first_after(&evidence->samples, metric,
				 time_ns - evidence->host_to_job_ns, sample))
		return false;
	sample->time_ns += evidence->host_to_job_ns;
	return true;
}

/* The latest sample not after a time, or else the first one. */
static bool sample_near(
	const struct evidence *evidence, unsigned metric, int64_t time_ns, struct sample *sample)
{
	return latest(evidence, metric, time_ns, sample) ||
	       first_after(evidence, metric, time_ns, sample);
}

/*
 * What a counter was when a step ended: of long steps the first sample after it, which the probe takes for that;
 * else the latest one before.
 */
static bool sample_at_end(const struct evidence *evidence, unsigned metric, int64_t time_ns,
	int64_t within_ns, struct sample *sample)
{
	return (first_after(evidence, metric, time_ns, sample) &&
		       sample->time_ns <= time_ns + within_ns) ||
	       latest(evidence, metric, time_ns, sample);
}

bool evidence_value(
	const struct evidence *evidence, unsigned metric, int64_t time_ns, int64_t *value)
{
	struct sample sample;

	if (!latest(evidence, metric, time_ns, &sample))
		return false;
	*value = sample.value;
	return true;
}

bool evidence_value_over(const struct evidence *evidence, unsigned metric, int64_t from_ns,
	int64_t until_ns, int64_t *value)
{
	struct sample before, after;
	int64_t inside_ns;

	if (!latest(evidence, metric, until_ns, &before) ||
		!first_after(evidence, metric, until_ns, &after))
		return false;
	inside_ns = until_ns - (before.time_ns > from_ns ? before.time_ns : from_ns);
	if ((double)inside_ns < HALF_SHARE * (double)(after.time_ns - before.time_ns))
		return false;
	*value = after.value;
	return true;
}

static double rate_between(const struct sample *first, const struct sample *last)
{
	return (double)(last->value - first->value) / (double)(last->time_ns - first->time_ns);
}

bool evidence_rate(const struct evidence *evidence, unsigned metric, int64_t from_ns,
	int64_t until_ns, double *rate)
{
	struct sample first, last;

	if (!latest(evidence, metric, until_ns, &last) ||
		!sample_near(evidence, metric, from_ns, &first) || last.time_ns <= first.time_ns ||
		last.time_ns <= from_ns)
		return false;
	*rate = rate_between(&first, &last);
	return true;
}

bool evidence_rate_at(const struct evidence *evidence, unsigned metric, int64_t time_ns,
	int64_t until_ns, double *rate)
{
	struct sample first, last;

	if (!latest(evidence, metric, time_ns - 1, &first) ||
		!first_after(evidence, metric, time_ns - 1, &last) || last.time_ns > until_ns)
		return false;
	*rate = rate_between(&first, &last);
	return true;
}

bool evidence_rate_before(const struct evidence *evidence, unsigned metric, int64_t until_ns,
	int64_t within_ns, double *rate)
{
	int64_t from_ns = until_ns - EVIDENCE_BEFORE_NS;
	struct sample first, last;

	if (!sample_at_end(evidence, metric, until_ns, within_ns, &last))
		return false;
	if (!latest(evidence, metric, from_ns < last.time_ns ? from_ns : last.time_ns - 1,
		    &first) &&
		!first_after(evidence, metric, from_ns, &first))
		return false;
	if (first.time_ns >= last.time_ns)
		return false;
	*rate = rate_between(&first, &last);
	return true;
}

bool evidence_rate_since(const struct evidence *evidence, unsigned metric, int64_t from_ns,
	int64_t until_ns, int64_t within_ns, double *rate)
{
	struct sample first, last;
	double before, known_ns;

	if (!evidence_rate_before(evidence, metric, from_ns, within_ns, &before))
		return evidence_rate(evidence, metric, from_ns, until_ns, rate);
	if (!sample_at_end(evidence, metric, from_ns, within_ns, &first) ||
		!sample_at_end(evidence, metric, until_ns, within_ns, &last))
		return false;
	known_ns = (double)(last.time_ns - from_ns);
	if (known_ns < (double)EVIDENCE_SINCE_NS)
		return false;
	/* A counter does not fall, whatever it did before. */
	*rate = fmax((double)(last.value - first.value) -
				before * (double)(from_ns - first.time_ns),
			0) /
		known_ns;
	return true;
}

bool evidence_began(const struct evidence *evidence, unsigned metric, int64_t from_ns,
	int64_t until_ns, double usual, double now, int64_t *began_ns)
{
	struct sample first, last;
	double span_ns, since_ns;

	if (now <= usual || !latest(evidence, metric, until_ns, &last) ||
		!sample_near(evidence, metric, from_ns, &first) || last.time_ns <= first.time_ns)
		return false;
	span_ns = (double)(last.time_ns - first.time_ns);
	since_ns = ((double)(last.value - first.value) - usual * span_ns) / (now - usual);
	*began_ns = last.time_ns - (int64_t)fmin(fmax(since_ns, 0), span_ns);
	return true;
}

bool evidence_rose(const struct evidence *evidence, unsigned metric, int64_t from_ns,
	int64_t until_ns, int64_t *before_ns)
{
	struct sample before, after;
	int64_t least;

	if (!latest(evidence, metric, from_ns, &before))
		return false;
	for (least = before.value;
		before.time_ns <= until_ns && first_after(evidence, metric, before.time_ns, &after);
		before = after) {
		if (after.value > least) {
			*before_ns = before.time_ns;
			return true;
		}
	}
	return false;
}

bool evidence_noise(const struct evidence *evidence, unsigned metric, int64_t from_ns,
	int64_t until_ns, int64_t least_ns, struct evidence_noise *noise)
{
	double sum = 0, squares = 0, count = 0, time_ns = 0;
	struct sample later, sample;
	bool more = latest(evidence, metric, until_ns, &later);

	for (; more && latest(evidence, metric, later.time_ns - least_ns, &sample) &&
		sample.time_ns >= from_ns;
		later = sample) {
		double rate = rate_between(&sample, &later);

		sum += rate;
		squares += rate * rate;
		time_ns += (double)(later.time_ns - sample.time_ns);
		count++;
	}
	if (count < 2)
		return false;
	*noise = (struct evidence_noise){
		sum / count, fmax(squares - sum * sum / count, 0), count, time_ns};
	return true;
}

bool evidence_usual_rate(const struct evidence *evidence, unsigned metric, int64_t until_ns,
	double *mean, double *deviation)
{
	struct evidence_noise noise;

	if (!evidence_noise(evidence, metric, INT64_MIN, until_ns, EVIDENCE_RATE_NS, &noise) ||
		noise.count < EVIDENCE_RATES_MIN)
		return false;
	*mean = noise.mean;
	*deviation = sqrt(noise.squares / (noise.count - 1));
	return true;
}

int64_t evidence_known_ns(
	const struct evidence *evidence, unsigned metric, int64_t from_ns, int64_t until_ns)
{
	struct sample last;

	return latest(evidence, metric, until_ns, &last) && last.time_ns > from_ns
		       ? last.time_ns - from_ns
		       : 0;
}

bool evidence_ratio(const struct evidence *evidence, unsigned part, unsigned whole, int64_t from_ns,
	int64_t until_ns, double *ratio)
{
	double part_rate, whole_rate;

	if (!evidence_rate(evidence, part, from_ns, until_ns, &part_rate) ||
		!evidence_rate(evidence, whole, from_ns, until_ns, &whole_rate) || whole_rate <= 0)
		return false;
	*ratio = part_rate / whole_rate;
	return true;
}

/* Adds rates by pairs of samples of a span, backwards from its end. Returns how many there are then. */
typedef size_t (*rates_function)(const struct evidence *evidence, unsigned one, unsigned other,
	const struct evidence_span *within, double rates[SAMPLE_RING_MAX], size_t count);

/* The median of all spans' rates and their spread. Returns their count; 0: they are too few. */
static size_t usual_of(rates_function rates_of, const struct evidence *evidence, unsigned one,
	unsigned other, const struct evidence_span *within, size_t span_count, double *median,
	double *spread)
{
	double rates[SAMPLE_RING_MAX];
	size_t count = 0;

	for (size_t i = 0; i < span_count; i++)
		count = rates_of(evidence, one, other, &within[i], rates, count);
	if (count < EVIDENCE_RATES_MIN)
		return 0;
	*median = median_double(rates, count);
	for (size_t i = 0; i < count; i++)
		rates[i] = fabs(rates[i] - *median);
	*spread = 1.4826 * median_double(rates, count);
	return count;
}

static size_t rest_rates(const struct evidence *evidence, unsigned all, unsigned part,
	const struct evidence_span *within, double rates[SAMPLE_RING_MAX], size_t count)
{
	struct sample later, sample, all_later, all_sample;
	bool more = latest(evidence, part, within->end_ns, &later);

	for (; more && count < SAMPLE_RING_MAX &&
		latest(evidence, part, later.time_ns - EVIDENCE_RATE_NS, &sample) &&
		sample.time_ns >= within->start_ns;
		later = sample) {
		if (latest(evidence, all, later.time_ns, &all_later) &&
			latest(evidence, all, sample.time_ns, &all_sample) &&
			all_later.time_ns > all_sample.time_ns)
			rates[count++] = rate_between(&all_sample, &all_later) -
					 rate_between(&sample, &later);
	}
	return count;
}

size_t evidence_usual_rest(const struct evidence *evidence, unsigned all, unsigned part,
	const struct evidence_span *within, size_t span_count, double *median, double *spread)
{
	return usual_of(rest_rates, evidence, all, part, within, span_count, median, spread);
}

static size_t ratio_rates(const struct evidence *evidence, unsigned part, unsigned whole,
	const struct evidence_span *within, double ratios[SAMPLE_RING_MAX], size_t count)
{
	struct sample later, sample, part_later, part_sample;
	bool of_time = whole == METRIC_UNKNOWN;
	bool more = latest(evidence, of_time ? part : whole, within->end_ns, &later);

	for (; more && count < SAMPLE_RING_MAX &&
		latest(evidence, of_time ? part : whole, later.time_ns - EVIDENCE_RATE_NS,
			&sample) &&
		sample.time_ns >= within->start_ns;
		later = sample) {
		if (of_time)
			ratios[count++] = rate_between(&sample, &later);
		else if (later.value > sample.value &&
			 latest(evidence, part, later.time_ns, &part_later) &&
			 latest(evidence, part, sample.time_ns, &part_sample))
			ratios[count++] = (double)(part_later.value - part_sample.value) /
					  (double)(later.value - sample.value);
	}
	return count;
}

size_t evidence_usual_ratio(const struct evidence *evidence, unsigned part, unsigned whole,
	const struct evidence_span *within, size_t span_count, double *median, double *spread)
{
	return usual_of(ratio_rates, evidence, part, whole, within, span_count, median, spread);
}

/* How much of a time lies within spans, 0..1. */
static double share_within(
	const struct evidence_span *spans, size_t count, int64_t start_ns, int64_t end_ns)
{
	int64_t within_ns = 0;

	for (size_t i = 0; i < count && spans[i].start_ns < end_ns; i++) {
		int64_t from_ns = spans[i].start_ns > start_ns ? spans[i].start_ns : start_ns;
		int64_t to_ns = spans[i].end_ns < end_ns ? spans[i].end_ns : end_ns;

		within_ns += to_ns > from_ns ? to_ns - from_ns : 0;
	}
	return (double)within_ns / (double)(end_ns - start_ns);
}

bool evidence_split_rate(const struct evidence *evidence, unsigned metric,
	const struct evidence_span *spans, size_t span_count, int64_t until_ns,
	struct evidence_split *split)
{
	double time = 0, x = 0, y = 0, xx = 0, xy = 0, yy = 0;
	size_t count = 0;
	struct sample later, sample;
	bool more = span_count && latest(evidence, metric, until_ns, &later);

	for (; more && latest(evidence, metric, later.time_ns - EVIDENCE_RATE_NS, &sample) &&
		sample.time_ns >= spans[0].start_ns;
		later = sample) {
		double length = (double)(later.time_ns - sample.time_ns);
		double rate = rate_between(&sample, &later);
		double share = share_within(spans, span_count, sample.time_ns, later.time_ns);

		time += length;
		x += length * share;
		y += length * rate;
		xx += length * share * share;
		xy += length * share * rate;
		yy += length * rate * rate;
		count++;
	}
	if (count < EVIDENCE_SPLIT_MIN)
		return false;
	xx = xx / time - (x / time) * (x / time);
	xy = xy / time - (x / time) * (y / time);
	yy = yy / time - (y / time) * (y / time);
	if (xx < EVIDENCE_SPLIT_SHARE * EVIDENCE_SPLIT_SHARE)
		return false;

	double slope = xy / xx, rest = fmax(yy - slope * xy, 0);

	split->outside = fmax((y - slope * x) / time, 0);
	split->inside = split->outside + slope;
	split->error = sqrt(rest / xx / (double)(count - 2));
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

void evidence_preempted(const struct evidence *evidence, int64_t from_ns, int64_t until_ns,
	uint32_t own_pid, const uint32_t *pids, size_t pid_count, struct evidence_preempted *by)
{
	int64_t shift_ns = evidence ? evidence->host_to_job_ns : 0;

	*by = (struct evidence_preempted){0};
	from_ns -= shift_ns;
	until_ns -= shift_ns;
	for (uint32_t i = 0; evidence && i < evidence->interval_count; i++) {
		const struct evidence_interval *one = &evidence->intervals[i];
		int64_t length_ns = one->end_ns - one->start_ns;

		if (one->reason != OFF_CPU_PREEMPTED || one->end_ns <= from_ns ||
			one->end_ns > until_ns)
			continue;
		by->all_ns += length_ns;
		if (own_pid && one->other_pid == own_pid)
			by->own_threads_ns += length_ns;
		else if (contains(pids, pid_count, one->other_pid) ||
			 strncmp(one->other_name, "slowrank", strlen("slowrank")) == 0)
			by->ranks_ns += length_ns;
	}
}

void evidence_stopped(const struct evidence *evidence, int64_t from_ns, int64_t until_ns,
	struct evidence_stopped *stopped)
{
	uint32_t count = evidence ? evidence->interval_count : 0;

	*stopped = (struct evidence_stopped){0};
	if (evidence) {
		from_ns -= evidence->host_to_job_ns;
		until_ns -= evidence->host_to_job_ns;
	}
	/* Of a full ring, what came before its oldest is forgotten. */
	if (count == EVIDENCE_INTERVALS)
		from_ns = larger(from_ns, evidence->intervals[evidence->interval_next].end_ns);
	stopped->known_ns = larger(until_ns - from_ns, 0);
	for (uint32_t i = 0; i < count; i++) {
		const struct evidence_interval *one = &evidence->intervals[i];
		int64_t start_ns = larger(one->start_ns, from_ns);
		int64_t end_ns = smaller(one->end_ns, until_ns);

		if (one->reason != OFF_CPU_STOPPED || end_ns <= start_ns)
			continue;
		stopped->time_ns += end_ns - start_ns;
		if (!one->other_pid)
			continue;
		stopped->pid = one->other_pid;
		memcpy(stopped->name, one->other_name, sizeof(stopped->name));
	}
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
