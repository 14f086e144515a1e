/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/detect/periodic.h"

#include <math.h>

#include "analysis/base/robust_stats.h"

/* Shares of their steps, the oldest first. Returns how many: none where steps are kept together, which cannot be told apart. */
static size_t take_series(const struct signal *signal, const struct step_times *times, bool told,
	double values[STEP_HISTORY])
{
	uint64_t oldest = step_oldest(times);
	size_t count = 0;

	if (steps_kept_in(times, oldest, times->next) > times->next - oldest)
		return 0;
	for (uint64_t s = oldest; s < times->next; s++) {
		double length = step_length_ns(times, s);
		double lost = (double)signal->lost_ns[s % STEP_HISTORY];

		lost = told ? fabs(lost) : fmax(lost, 0);
		values[count++] = length > 0 ? lost / length : 0;
	}
	return count;
}

/* Healthy ranks end here: too few of their steps are hit at all. */
static bool find(const double *values, size_t count, struct fold_finding *finding)
{
	size_t hits = 0;

	for (size_t i = 0; i < count; i++)
		hits += values[i] >= PERIODIC_HEIGHT_MIN;
	return hits >= FOLD_HITS_MIN && fold_find(values, count, finding) &&
	       finding->surprise >= PERIODIC_NOTICED_SURPRISE &&
	       finding->height >= PERIODIC_HEIGHT_MIN;
}

bool periodic_find(const struct signal *signal, const struct step_times *times, bool told,
	struct fold_finding *finding)
{
	double values[STEP_HISTORY];

	return find(values, take_series(signal, times, told, values), finding);
}

/* The first of the slow steps, as far as is known. */
static uint64_t find_onset(
	const struct step_times *times, const double *values, const struct fold_finding *finding)
{
	size_t steps = (size_t)(times->next - step_oldest(times)), count = 0;
	double own[STEP_HISTORY], lengths[STEP_HISTORY];

	for (size_t i = finding->phase; i < steps; i += finding->period_steps) {
		own[count] = values[i] - finding->base;
		lengths[count++] = 1;
	}
	return step_oldest(times) + finding->phase +
	       finding->period_steps * change_onset(own, lengths, count, 1, finding->height);
}

bool periodic_look(const struct signal *signal, const struct step_times *times, bool told,
	struct periodic *periodic)
{
	double values[STEP_HISTORY];
	struct fold_finding finding;

	if (!find(values, take_series(signal, times, told, values), &finding))
		return false;

	uint32_t phase = (uint32_t)((step_oldest(times) + finding.phase) % finding.period_steps);
	uint64_t onset = find_onset(times, values, &finding);

	if (periodic->every != finding.period_steps || periodic->phase != phase)
		*periodic = (struct periodic){.every = finding.period_steps,
			.phase = phase,
			.first_step = onset,
			.always = onset < step_oldest(times) + 2 * finding.period_steps};
	if (onset < periodic->first_step)
		periodic->first_step = onset;
	periodic->surprise = finding.surprise;
	periodic->height = finding.height;
	periodic->base = finding.base;
	periodic->share = finding.share;
	return true;
}

/* The usual length of steps since its onset, of its class or of all others; 0: none are known. */
static double usual_length(
	const struct periodic *periodic, const struct step_times *times, bool of_class)
{
	double lengths[STEP_HISTORY];
	uint64_t kept = steps_kept_since(times, periodic->first_step);
	size_t count = 0;

	for (uint64_t s = times->next - kept; s < times->next; s++) {
		if (periodic_has(periodic, s) == of_class)
			lengths[count++] = step_mean_ns(times, s);
	}
	return median_double(lengths, count);
}

bool periodic_is_proven(const struct periodic *periodic, const struct step_times *times,
	size_t signals, struct gate_sheet *sheet)
{
	double own = usual_length(periodic, times, true);
	double other = usual_length(periodic, times, false);
	double share = periodic->height * own / (own + (periodic->every - 1) * other);

	return gate_passed(sheet, GATE_LEVEL, share,
		       periodic->always ? SMALL_SHARE_MIN : PERIODIC_SHARE_MIN) &&
	       gate_passed_in(sheet, GATE_LONGER, own - other,
		       GAIN_SHARE_MIN * periodic->height * own, periodic->height * own) &&
	       gate_passed(sheet, GATE_HITS, periodic->surprise,
		       PERIODIC_TOLD_SURPRISE + log((double)signals));
}

double periodic_level(const struct signal *signal, const struct step_times *times,
	const struct block *block, uint32_t every, uint64_t phase, double *share_of_block)
{
	uint64_t kept = steps_kept_since(times, block->first_step);
	double lost = 0, length = 0;

	for (uint64_t s = times->next - kept; s < times->next; s++) {
		if (s % every != phase)
			continue;
		lost += signal_step_ns(signal, times, s);
		length += step_length_ns(times, s);
	}
	*share_of_block = length / fmax((double)block->time_ns, 1);
	return length > 0 ? lost / length : 0;
}

bool periodic_is_loud(const struct periodic *periodic, const struct signal *signal,
	const struct step_times *times, const struct block *block, struct gate_sheet *sheet)
{
	double share_of_block;

	return gate_passed(sheet, GATE_LOUD,
		periodic_level(
			signal, times, block, periodic->every, periodic->phase, &share_of_block),
		periodic->base + periodic->height / 2);
}

bool periodic_holds(const struct periodic *periodic, const struct signal *signal,
	const struct step_times *times)
{
	uint64_t span = (uint64_t)PERIODIC_LATEST_ROUNDS * periodic->every;
	uint64_t kept = steps_kept_since(times, times->next > span ? times->next - span : 0);
	uint64_t hits = 0, other_hits = 0, rounds = kept / periodic->every;

	for (uint64_t s = times->next - kept; s < times->next; s++) {
		if (signal_step_ns(signal, times, s) <
			periodic->height / 2 * step_length_ns(times, s))
			continue;
		hits += periodic_has(periodic, s);
		other_hits += !periodic_has(periodic, s);
	}
	return (2 * hits >= rounds || 2 * (hits + other_hits) < rounds) &&
	       2 * other_hits < rounds * (periodic->every - 1);
}

bool periodic_explains(const struct periodic *periodic, const struct signal *signal,
	const struct step_times *times, size_t signals)
{
	return periodic->every && periodic->share >= PERIODIC_CLASS_SHARE_MIN &&
	       periodic_is_proven(periodic, times, signals, NULL) &&
	       periodic_holds(periodic, signal, times);
}

struct run periodic_run(const struct periodic *periodic, const struct signal *signal,
	const struct step_times *times)
{
	uint64_t kept = steps_kept_since(times, periodic->first_step), first = times->next - kept;
	struct run run = {.first_step = first,
		.start_ns = step_start_ns(times, first),
		.dated = true,
		.small = true,
		.change.evidence = periodic->surprise,
		.every = periodic->every,
		.phase = periodic->phase};

	run.sums.steps = steps_kept_in(times, first, times->next);
	for (uint64_t s = first; s < times->next; s++) {
		run.sums.time_ns += times->lengths_ns[s % STEP_HISTORY];
		if (!periodic_has(periodic, s))
			continue;
		run.sums.delay_ns += (int64_t)fabsf(signal->lost_ns[s % STEP_HISTORY]);
		run.loud_ns += times->lengths_ns[s % STEP_HISTORY];
		run.loud_blocks++;
	}
	run.blocks = run.loud_blocks;
	run.level = periodic->height * (double)run.blocks;
	return run;
}
