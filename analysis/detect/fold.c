/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/detect/fold.h"

#include <assert.h>
#include <math.h>

#include "analysis/base/robust_stats.h"
#include "analysis/detect/changepoint.h"

/* How many steps the next shorter stretch has. */
static size_t shorter(size_t stretch)
{
	return stretch * 5 / 6;
}

/*
 * Over how many looks the chance is shared out, for a period of 1: short periods are likelier, each takes its part as
 * 1 / period, its classes alike.
 */
static double count_looks(void)
{
	double harmonic_sum = 0, stretches = 0;

	for (uint32_t period = 2; period <= FOLD_PERIOD_MAX; period++)
		harmonic_sum += 1.0 / period;
	for (size_t stretch = FOLD_VALUES_MAX; stretch >= FOLD_STRETCH_MIN;
		stretch = shorter(stretch))
		stretches++;
	return harmonic_sum * stretches * FOLD_DEPTHS;
}

/* A series, the indices of its values, and how much of the chance is each look's. */
struct fold {
	const double *values;
	size_t count;
	double looks;
	uint16_t order[FOLD_VALUES_MAX];
};

/* The larger one comes first, of equal ones the later: in an order that has no period of its own. */
static bool before(const double *values, uint16_t one, uint16_t other)
{
	return values[one] > values[other] || (values[one] >= values[other] && one > other);
}

/* Shell's sort, of indices. */
static void sort_down(const double *values, size_t count, uint16_t *order)
{
	static const size_t gaps[] = {132, 57, 23, 10, 4, 1};

	for (size_t i = 0; i < count; i++)
		order[i] = (uint16_t)i;
	for (size_t g = 0; g < sizeof(gaps) / sizeof(gaps[0]); g++) {
		for (size_t i = gaps[g]; i < count; i++) {
			uint16_t index = order[i];
			size_t at = i;

			for (; at >= gaps[g] && before(values, index, order[at - gaps[g]]);
				at -= gaps[g])
				order[at] = order[at - gaps[g]];
			order[at] = index;
		}
	}
}

/* How many of the indices from on are in a class. */
static size_t class_size(size_t from, size_t count, size_t period, size_t phase)
{
	size_t first = from + (phase + period - from % period) % period;

	return first < count ? (count - 1 - first) / period + 1 : 0;
}

static void try_class(const struct fold *fold, const uint16_t *in_class, size_t taken, size_t from,
	uint32_t period, struct fold_finding *best)
{
	size_t count = fold->count, values = count - from, phase = 0, size;
	double expected = (double)taken / period, surprise;

	for (size_t q = 1; q < period; q++) {
		if (in_class[q] > in_class[phase])
			phase = q;
	}
	if (in_class[phase] < FOLD_HITS_MIN ||
		in_class[phase] < expected + CHANCE_DEVIATIONS * sqrt(expected))
		return;
	size = class_size(from, count, period, phase);
	surprise = hit_surprise(in_class[phase], size, taken - in_class[phase], values - size) -
		   log((double)period * (double)period * fold->looks);
	if (surprise > best->surprise)
		*best = (struct fold_finding){
			.period_steps = period, .phase = phase, .from = from, .surprise = surprise};
}

/* One period: order has the indices of values that are above the median, the largest first. */
static void try_period(const struct fold *fold, const uint16_t *order, size_t hit_count,
	size_t from, uint32_t period, struct fold_finding *best)
{
	uint16_t in_class[FOLD_PERIOD_MAX] = {0};
	size_t size = (fold->count - from + period - 1) / period, taken = 0;

	for (size_t depth = 1; depth <= FOLD_DEPTHS && taken < hit_count; depth++) {
		for (; taken < depth * size && taken < hit_count; taken++)
			in_class[order[taken] % period]++;
		try_class(fold, in_class, taken, from, period, best);
	}
}

static void try_stretch(const struct fold *fold, size_t from, struct fold_finding *best)
{
	const double *values = fold->values;
	uint16_t latest[FOLD_VALUES_MAX];
	size_t hit_count = 0, kept = 0;

	for (size_t i = 0; i < fold->count; i++) {
		if (fold->order[i] >= from)
			latest[kept++] = fold->order[i];
	}
	/* What is as small as the usual is no hit, though nothing is larger. */
	while (hit_count < kept / 2 && values[latest[hit_count]] > values[latest[kept / 2]])
		hit_count++;
	for (uint32_t period = 2; period <= FOLD_PERIOD_MAX && kept / period >= FOLD_HITS_MIN;
		period++)
		try_period(fold, latest, hit_count, from, period, best);
}

static void measure(const double *values, size_t count, struct fold_finding *finding)
{
	double own[FOLD_VALUES_MAX], others[FOLD_VALUES_MAX], in_class = 0, all = 0;
	size_t own_count = 0, other_count = 0;

	for (size_t i = finding->from; i < count; i++) {
		if (i % finding->period_steps == finding->phase)
			own[own_count++] = values[i];
		else
			others[other_count++] = values[i];
	}
	finding->base = median_double(others, other_count);
	finding->height = median_double(own, own_count) - finding->base;
	for (size_t i = finding->from; i < count; i++) {
		double above = fmax(values[i] - finding->base, 0);

		all += above;
		in_class += i % finding->period_steps == finding->phase ? above : 0;
	}
	finding->share = all > 0 ? in_class / all : 0;
}

/* The class of a multiple of the period that is above the others alone; false when it is not. */
static bool split_class(
	const double *values, size_t count, uint32_t times, struct fold_finding *finding)
{
	uint32_t period = finding->period_steps * times;
	double most = -INFINITY, next = -INFINITY;
	size_t phase = 0;

	for (size_t q = finding->phase; q < period; q += finding->period_steps) {
		struct fold_finding part = {
			.period_steps = period, .phase = q, .from = finding->from};

		measure(values, count, &part);
		if (part.height > most) {
			next = most;
			most = part.height;
			phase = q;
		} else {
			next = fmax(next, part.height);
		}
	}
	if (next > most / 2)
		return false;
	finding->period_steps = period;
	finding->phase = phase;
	return true;
}

/* What comes back in every 14th step does in one half of every 7th. */
static void refine(const double *values, size_t count, struct fold_finding *finding)
{
	size_t kept = count - finding->from;
	uint32_t times = 2;

	while (finding->period_steps * times <= FOLD_PERIOD_MAX &&
		kept / (finding->period_steps * times) >= FOLD_HITS_MIN)
		times = split_class(values, count, times, finding) ? 2 : times + 1;
}

bool fold_find(const double *values, size_t count, struct fold_finding *result)
{
	struct fold fold = {.values = values, .count = count, .looks = count_looks()};
	struct fold_finding best = {0};

	assert(count <= FOLD_VALUES_MAX);
	sort_down(values, count, fold.order);
	try_stretch(&fold, 0, &best);
	for (size_t stretch = shorter(FOLD_VALUES_MAX); stretch >= FOLD_STRETCH_MIN;
		stretch = shorter(stretch)) {
		if (stretch < count)
			try_stretch(&fold, count - stretch, &best);
	}
	if (best.surprise <= 0)
		return false;
	refine(values, count, &best);
	measure(values, count, &best);
	*result = best;
	return true;
}
