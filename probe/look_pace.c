/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/look_pace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BESIDE = 8, CHANGED_STEPS = 3, KNOWN_LEAST = 8, PERIOD_NS_LEAST = 1000000000 };

/* A step is longer or shorter than usual: by this share, and by so many robust deviations. */
static const double change_share = 0.08, change_deviations = 5;
/* Two stretches are alike. */
static const double same_share = 0.03;

void look_pace_init(struct look_pace *pace)
{
	*pace = (struct look_pace){.budget_ns = LOOK_PACE_BUDGET_NS};
}

static void push(struct look_pace_lengths *lengths, int64_t ns)
{
	lengths->ns[lengths->count++ % LOOK_PACE_RECENT] = ns;
}

static int compare_lengths(const void *left, const void *right)
{
	int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

	return (a > b) - (a < b);
}

static int compare_costs(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

/* Sorts them. 0 of none. */
static int64_t median(int64_t *values, size_t count)
{
	qsort(values, count, sizeof(*values), compare_lengths);
	return count ? values[count / 2] : 0;
}

/* The newest but the last skip ones, at most limit. Returns how many. */
static size_t newest(
	const struct look_pace_lengths *lengths, size_t skip, size_t limit, int64_t *values)
{
	size_t kept = lengths->count < LOOK_PACE_RECENT ? (size_t)lengths->count : LOOK_PACE_RECENT;
	size_t count = kept > skip ? kept - skip : 0;

	if (count > limit)
		count = limit;
	for (size_t i = 0; i < count; i++)
		values[i] = lengths->ns[(lengths->count - 1 - skip - i) % LOOK_PACE_RECENT];
	return count;
}

static int64_t usual_ns(const struct look_pace_lengths *lengths, size_t limit)
{
	int64_t values[LOOK_PACE_RECENT];

	return median(values, newest(lengths, 0, limit, values));
}

/* The last steps are all longer, or all shorter, than those before. */
static bool has_changed(const struct look_pace *pace)
{
	int64_t last[CHANGED_STEPS], values[LOOK_PACE_RECENT], usual;
	size_t count = newest(&pace->outside, CHANGED_STEPS, LOOK_PACE_RECENT, values);
	size_t longer = 0, shorter = 0;
	double limit;

	if (count < KNOWN_LEAST)
		return false;
	usual = median(values, count);
	for (size_t i = 0; i < count; i++)
		values[i] = llabs(values[i] - usual);
	/* 1.4826: from the median absolute deviation to a normal distribution's standard one. */
	limit = fmax(change_share * (double)usual,
		change_deviations * 1.4826 * (double)median(values, count));
	(void)newest(&pace->outside, 0, CHANGED_STEPS, last);
	for (size_t i = 0; i < CHANGED_STEPS; i++) {
		longer += (double)(last[i] - usual) > limit;
		shorter += (double)(usual - last[i]) > limit;
	}
	return longer == CHANGED_STEPS || shorter == CHANGED_STEPS;
}

/* A window between two stretches that are alike: what is different in it is its cost. */
static void measure_cost(struct look_pace *pace)
{
	int64_t after_ns = usual_ns(&pace->after, BESIDE), before_ns = pace->before_ns;
	double beside = (double)(after_ns + before_ns) / 2;

	if (before_ns && pace->inside.count >= LOOK_PACE_STEPS / 2 &&
		fabs((double)(after_ns - before_ns)) <= same_share * beside) {
		double cost = (double)usual_ns(&pace->inside, LOOK_PACE_RECENT) / beside - 1;

		pace->costs[pace->cost_count++ % LOOK_PACE_COSTS] = fmin(fmax(cost, 0), 1);
	}
	pace->before_ns = 0;
}

void look_pace_step(struct look_pace *pace, struct host_ns start, struct host_ns end)
{
	int64_t length_ns = end.value - start.value;

	if (!pace->begun || length_ns <= 0)
		return;
	/* Those inside are told late, when their kernels are known. */
	if (start.value >= pace->on_ns && (pace->on || end.value <= pace->off_ns)) {
		push(&pace->inside, length_ns);
		return;
	}
	if (pace->on || start.value < pace->off_ns)
		return; /* in part, or of before */
	push(&pace->outside, length_ns);
	if (pace->after.count < BESIDE) {
		push(&pace->after, length_ns);
		if (pace->after.count == BESIDE)
			measure_cost(pace);
	}
	if (has_changed(pace)) {
		pace->change = true;
		pace->outside.count = 0; /* what is usual is learned anew */
	}
}

double look_pace_cost(const struct look_pace *pace)
{
	double sorted[LOOK_PACE_COSTS];
	size_t count =
		pace->cost_count < LOOK_PACE_COSTS ? (size_t)pace->cost_count : LOOK_PACE_COSTS;

	if (!count)
		return LOOK_PACE_COST_FIRST;
	memcpy(sorted, pace->costs, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), compare_costs);
	return sorted[count / 2];
}

static int64_t window_ns(const struct look_pace *pace, int64_t least_ns, int64_t steps)
{
	int64_t step_ns = usual_ns(&pace->outside, LOOK_PACE_RECENT);
	int64_t length_ns = step_ns * steps > least_ns ? step_ns * steps : least_ns;

	return length_ns < LOOK_PACE_LENGTH_NS_MAX ? length_ns : LOOK_PACE_LENGTH_NS_MAX;
}

int64_t look_pace_period_ns(const struct look_pace *pace)
{
	double cost = look_pace_cost(pace);
	double lost_ns = cost * (double)window_ns(pace, LOOK_PACE_NS, LOOK_PACE_STEPS);
	int64_t period_ns = PERIOD_NS_LEAST; /* times two, so that those of several hosts meet */

	if (cost <= LOOK_PACE_COST)
		return 0;
	while (period_ns < LOOK_PACE_PERIOD_NS_MAX && (double)period_ns * LOOK_PACE_COST < lost_ns)
		period_ns *= 2;
	return period_ns;
}

static void begin_window(struct look_pace *pace, int64_t now_ns, int64_t length_ns)
{
	pace->begun = pace->on = true;
	pace->on_ns = now_ns;
	pace->end_ns = now_ns + length_ns;
	pace->before_ns = pace->outside.count >= BESIDE ? usual_ns(&pace->outside, BESIDE) : 0;
	pace->inside.count = pace->after.count = 0;
}

/* A window that recurs is due: the wall clock has passed a multiple of the period. */
static bool is_due(const struct look_pace *pace, int64_t now_ns, int64_t unix_ns)
{
	int64_t period_ns = look_pace_period_ns(pace);

	/* Even a cheap one rests for a moment, so that its cost is measured again. */
	if (!period_ns)
		return pace->after.count >= BESIDE || now_ns - pace->off_ns > PERIOD_NS_LEAST;
	return unix_ns / period_ns != pace->last_unix_ns / period_ns;
}

bool look_pace_want(struct look_pace *pace, struct host_ns now, int64_t unix_ns)
{
	int64_t change_ns = window_ns(pace, LOOK_PACE_CHANGE_NS, LOOK_PACE_CHANGE_STEPS);

	if (!pace->begun) {
		begin_window(pace, now.value, LOOK_PACE_FIRST_NS);
	} else if (pace->on) {
		if (now.value >= pace->end_ns) {
			pace->on = false;
			pace->off_ns = now.value;
		}
	} else if (pace->change && pace->budget_ns >= change_ns) {
		pace->change = false;
		pace->budget_ns -= change_ns;
		begin_window(pace, now.value, change_ns);
		pace->before_ns = 0; /* of another length */
	} else if (is_due(pace, now.value, unix_ns)) {
		begin_window(pace, now.value,
			look_pace_period_ns(pace) ? window_ns(pace, LOOK_PACE_NS, LOOK_PACE_STEPS)
						  : LOOK_PACE_LENGTH_NS_MAX);
	}
	if (pace->last_ns)
		pace->budget_ns +=
			(now.value - pace->last_ns) / (60000000000 / LOOK_PACE_BUDGET_NS);
	if (pace->budget_ns > LOOK_PACE_BUDGET_NS)
		pace->budget_ns = LOOK_PACE_BUDGET_NS;
	pace->last_ns = now.value;
	pace->last_unix_ns = unix_ns;
	return pace->on;
}
