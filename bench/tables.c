/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKET_NR = 6, CONFIDENCE_NR = 5 };
/* By true slow-down: nearest of 4, 10, 30, 100, 300 %, by ratio; below 2 %: too little to see. */
static const char *const bucket_names[BUCKET_NR] = {
	"< 2 %", "4 %", "10 %", "30 %", "100 %", "300 %"};

static int bucket_of(const struct outcome *outcome)
{
	static const double limits[] = {0.02, 0.063, 0.173, 0.55, 1.73};
	int bucket = 0;

	while (bucket < BUCKET_NR - 1 && outcome->slowdown - 1 >= limits[bucket])
		bucket++;
	return bucket;
}

struct tally {
	unsigned jobs, detected, rank_right, class_right, cause_right, timed, in_time;
	double blamed, ranks;
	double *errors, *delays, *onsets;
	size_t error_count, delay_count, onset_count;
};

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static double quantile(double *values, size_t count, double share)
{
	if (count == 0)
		return NAN;
	qsort(values, count, sizeof(*values), compare);
	return values[(size_t)(share * (double)(count - 1) + 0.5)];
}

/* Faults that go on from their first step can be told soon. */
static bool is_timed(const struct outcome *outcome)
{
	return outcome->scenario.kind < SIM_FAULT_HANG &&
	       sim_fault_class(outcome->scenario.kind) != VERDICT_WORKLOAD_IMBALANCE &&
	       outcome->scenario.options.faults[0].course == SIM_COURSE_CONSTANT;
}

/* Within three steps or a second, whichever is later; the second to the end of a step. */
static bool is_in_time(const struct outcome *outcome)
{
	return outcome->delay_steps <= 3 || outcome->delay_s <= 1;
}

static void add(struct tally *tally, const struct outcome *outcome)
{
	tally->jobs++;
	tally->detected += outcome->detected;
	tally->rank_right += outcome->rank_right;
	tally->class_right += outcome->class_right;
	tally->cause_right += outcome->cause_right;
	tally->blamed += outcome->blamed_healthy;
	tally->ranks += outcome->ranks;
	if (is_timed(outcome)) {
		tally->timed++;
		tally->in_time += is_in_time(outcome);
	}
	if (!isnan(outcome->slowdown_error))
		tally->errors[tally->error_count++] = outcome->slowdown_error;
	if (!isnan(outcome->delay_steps) &&
		outcome->scenario.options.faults[0].course == SIM_COURSE_CONSTANT)
		tally->delays[tally->delay_count++] = outcome->delay_steps;
	if (!isnan(outcome->onset_error_steps) &&
		outcome->scenario.options.faults[0].course == SIM_COURSE_CONSTANT)
		tally->onsets[tally->onset_count++] = outcome->onset_error_steps;
}

static double percent(double part, double whole)
{
	return whole > 0 ? 100 * part / whole : 0;
}

static void print_row(FILE *out, const char *name, struct tally *tally)
{
	char in_time[16] = "";

	if (tally->timed)
		snprintf(in_time, sizeof(in_time), "%.1f", percent(tally->in_time, tally->timed));
	if (tally->jobs)
		fprintf(out,
			"| %s | %u | %.1f | %.1f | %.1f | %.1f | %.3f | %.2f / %.2f | %s | %.0f / "
			"%.0f | %.0f / %.0f |\n",
			name, tally->jobs, percent(tally->detected, tally->jobs),
			percent(tally->rank_right, tally->jobs),
			percent(tally->class_right, tally->jobs),
			percent(tally->cause_right, tally->jobs),
			percent(tally->blamed, tally->ranks),
			100 * quantile(tally->errors, tally->error_count, 0.5),
			100 * quantile(tally->errors, tally->error_count, 0.9), in_time,
			quantile(tally->delays, tally->delay_count, 0.5),
			quantile(tally->delays, tally->delay_count, 0.95),
			quantile(tally->onsets, tally->onset_count, 0.5),
			quantile(tally->onsets, tally->onset_count, 0.95));
}

typedef bool (*belongs)(const struct outcome *outcome, int value);

static bool of_kind(const struct outcome *outcome, int value)
{
	return (int)outcome->scenario.kind == value;
}
static bool of_bucket(const struct outcome *outcome, int value)
{
	return sim_fault_class(outcome->scenario.kind) != VERDICT_WORKLOAD_IMBALANCE &&
	       outcome->scenario.kind < SIM_FAULT_HANG &&
	       outcome->scenario.plan != SIM_PLAN_SPIKE && bucket_of(outcome) == value;
}
static bool of_family(const struct outcome *outcome, int value)
{
	return outcome->scenario.kind < SIM_FAULT_NR && (int)outcome->scenario.family == value;
}
static bool of_plan(const struct outcome *outcome, int value)
{
	return outcome->scenario.kind < SIM_FAULT_NR && (int)outcome->scenario.plan == value;
}
static bool of_noise(const struct outcome *outcome, int value)
{
	return outcome->scenario.kind < SIM_FAULT_NR && (int)outcome->scenario.noise_level == value;
}

static bool of_size(const struct outcome *outcome, int value)
{
	return outcome->ranks >> value == 1;
}

static void print_rows(FILE *out, const struct outcome *outcomes, size_t count, double *space,
	belongs in, int value, const char *name)
{
	struct tally tally = {
		.errors = space, .delays = space + count, .onsets = space + 2 * count};

	for (size_t i = 0; i < count; i++) {
		if (in(&outcomes[i], value))
			add(&tally, &outcomes[i]);
	}
	print_row(out, name, &tally);
}

static void print_head(FILE *out, const char *what)
{
	fprintf(out,
		"\n| %s | jobs | detected %% | rank right %% | class right %% | cause right %% | "
		"healthy ranks blamed %% | slow-down error %% p50 / p90 | in time %% | alert, "
		"steps p50 / p95 | onset error, steps p50 / p95 |\n"
		"|---|---|---|---|---|---|---|---|---|---|---|\n",
		what);
}

static void print_confidence(FILE *out, const struct outcome *outcomes, size_t count)
{
	fprintf(out, "\n| confidence | verdicts | mean confidence %% | rank and class right %% |\n"
		     "|---|---|---|---|\n");
	for (int bin = 0; bin < CONFIDENCE_NR; bin++) {
		static const double from[CONFIDENCE_NR + 1] = {0, 0.6, 0.8, 0.9, 0.97, 1.01};
		unsigned told = 0, right = 0;
		double sum = 0;

		for (size_t i = 0; i < count; i++) {
			for (uint32_t v = 0; v < outcomes[i].verdict_count; v++) {
				double confidence = outcomes[i].verdicts[v].confidence;

				if (confidence < from[bin] || confidence >= from[bin + 1])
					continue;
				told++;
				sum += confidence;
				right += outcomes[i].verdicts[v].right;
			}
		}
		if (told)
			fprintf(out, "| %.2f to %.2f | %u | %.1f | %.1f |\n", from[bin],
				from[bin + 1], told, percent(sum, told), percent(right, told));
	}
}

static void print_method(FILE *out, const struct outcome *outcomes, size_t count, int method)
{
	unsigned faulty = 0, detected = 0, right = 0, healthy = 0, alarmed = 0;
	double blamed = 0, ranks = 0;

	for (size_t i = 0; i < count; i++) {
		const struct outcome *outcome = &outcomes[i];
		bool own = method == BASELINE_NR;
		int bucket = bucket_of(outcome);

		if (outcome->scenario.kind == SIM_FAULT_NR) {
			healthy++;
			alarmed += own ? outcome->alerts > 0 : outcome->baselines[method].alarm;
		}
		if (!of_bucket(outcome, bucket) || bucket < 2)
			continue;
		faulty++;
		detected += own ? outcome->detected : outcome->baselines[method].detected;
		right += own ? outcome->rank_right : outcome->baselines[method].rank_right;
		blamed += own ? outcome->blamed_healthy : outcome->baselines[method].blamed_healthy;
		ranks += outcome->ranks;
	}
	fprintf(out, "| %s | %u | %.1f | %.1f | %.3f | %u | %.1f |\n",
		method == BASELINE_NR ? "slowrank" : baseline_name((enum baseline_method)method),
		faulty, percent(detected, faulty), percent(right, faulty), percent(blamed, ranks),
		healthy, percent(alarmed, healthy));
}

static void print_methods(FILE *out, const struct outcome *outcomes, size_t count)
{
	fprintf(out, "\n| method | machine faults >= 10 %% | detected %% | rank right %% | healthy "
		     "ranks blamed %% | healthy jobs | with an alarm %% "
		     "|\n|---|---|---|---|---|---|---|\n");
	for (int method = BASELINE_NR; method >= 0; method--)
		print_method(out, outcomes, count, method);
}

static void print_json(FILE *out, const struct outcome *outcomes, size_t count, double *space)
{
	struct tally large = {
		.errors = space, .delays = space + count, .onsets = space + 2 * count};
	double healthy_steps = 0, alarms = 0, cpu = 0;
	unsigned small = 0, small_right = 0, healthy = 0;

	for (size_t i = 0; i < count; i++) {
		const struct outcome *outcome = &outcomes[i];
		int bucket = bucket_of(outcome);

		cpu += outcome->analyse_s;
		if (outcome->scenario.kind == SIM_FAULT_NR) {
			healthy++;
			healthy_steps += outcome->steps;
			alarms += outcome->alerts;
		} else if (of_bucket(outcome, bucket) && bucket == 1) {
			small++;
			small_right += outcome->rank_right;
		} else if (of_bucket(outcome, bucket) && bucket > 1) {
			add(&large, outcome);
		}
	}
	fprintf(out,
		"\n{\"jobs\": %zu, \"healthy_jobs\": %u, \"healthy_steps\": %.0f, "
		"\"false_alarms\": %.0f, \"false_alarms_per_million_steps\": %.2f, "
		"\"large\": {\"jobs\": %u, \"rank_right\": %.4f, \"class_right\": %.4f, "
		"\"healthy_ranks_blamed\": %.6f}, \"small\": {\"jobs\": %u, \"rank_right\": %.4f}, "
		"\"cpu_s\": %.1f}\n",
		count, healthy, healthy_steps, alarms,
		healthy_steps > 0 ? 1e6 * alarms / healthy_steps : 0, large.jobs,
		percent(large.rank_right, large.jobs) / 100,
		percent(large.class_right, large.jobs) / 100,
		percent(large.blamed, large.ranks) / 100, small, percent(small_right, small) / 100,
		cpu);
}

void tables_print(FILE *out, const struct outcome *outcomes, size_t count, bool baselines)
{
	static const char *const noises[] = {"quiet", "usual", "heavy"};
	double *space = calloc(3 * count + 1, sizeof(*space));

	if (!space)
		return;
	print_head(out, "fault");
	for (int kind = 0; kind <= SIM_FAULT_NR; kind++)
		print_rows(out, outcomes, count, space, of_kind, kind,
			sim_fault_name((enum sim_fault_kind)kind));
	print_head(out, "true slow-down");
	for (int bucket = 0; bucket < BUCKET_NR; bucket++)
		print_rows(out, outcomes, count, space, of_bucket, bucket, bucket_names[bucket]);
	print_head(out, "layout");
	for (int family = 0; family < SIM_FAMILY_NR; family++)
		print_rows(out, outcomes, count, space, of_family, family,
			sim_family_name((enum sim_family)family));
	print_head(out, "ranks");
	for (int power = 0; power < 32; power++) {
		char name[16];

		snprintf(name, sizeof(name), "%u", 1u << power);
		print_rows(out, outcomes, count, space, of_size, power, name);
	}
	print_head(out, "course");
	for (int plan = 0; plan < SIM_PLAN_NR; plan++)
		print_rows(out, outcomes, count, space, of_plan, plan,
			sim_plan_name((enum sim_plan)plan));
	print_head(out, "noise");
	for (int level = 0; level < 3; level++)
		print_rows(out, outcomes, count, space, of_noise, level, noises[level]);
	print_confidence(out, outcomes, count);
	if (baselines)
		print_methods(out, outcomes, count);
	print_json(out, outcomes, count, space);
	free(space);
}

void tables_print_failure(FILE *out, const struct outcome *outcome)
{
	const struct sim_scenario *scenario = &outcome->scenario;
	const struct sim_shape *shape = &scenario->options.shape;

	fprintf(out,
		"%s seed %llu: %s, %s, noise %u, %u ranks (%u x %u x %u), step %.0f ms, true "
		"slow-down %.3f, rank %u: detected %d rank %d class %d alerts %u blamed healthy "
		"%u, slow-down error %.2f, onset error %.0f, %u of %u steps judged\n",
		sim_fault_name(scenario->kind), (unsigned long long)outcome->seed,
		sim_family_name(scenario->family), sim_plan_name(scenario->plan),
		scenario->noise_level, outcome->ranks, shape->data, shape->tensor, shape->pipeline,
		scenario->options.program.step_ns / 1e6, outcome->slowdown,
		scenario->options.faults[0].rank, outcome->detected, outcome->rank_right,
		outcome->class_right, outcome->alerts, outcome->blamed_healthy,
		outcome->slowdown_error, outcome->onset_error_steps, outcome->steps_judged,
		outcome->steps);
}

static void print_number(FILE *out, const char *name, double value)
{
	if (isnan(value))
		fprintf(out, ", \"%s\": null", name);
	else
		fprintf(out, ", \"%s\": %.4f", name, value);
}

void tables_print_job(FILE *out, const struct outcome *outcome)
{
	const struct sim_scenario *scenario = &outcome->scenario;

	fprintf(out,
		"{\"kind\": \"%s\", \"seed\": %llu, \"layout\": \"%s\", \"course\": \"%s\", "
		"\"noise\": %u, \"overlap\": %d, \"ranks\": %u, \"step_ms\": %.0f, \"steps\": %u, "
		"\"steps_judged\": %u, \"first_step\": %u, \"detected\": %d, \"rank_right\": %d, "
		"\"class_right\": %d, "
		"\"cause_right\": %d, \"alerts\": %u, \"blamed_healthy\": %u, "
		"\"every_steps\": %u",
		sim_fault_name(scenario->kind), (unsigned long long)outcome->seed,
		sim_family_name(scenario->family), sim_plan_name(scenario->plan),
		scenario->noise_level, scenario->options.program.overlap, outcome->ranks,
		scenario->options.program.step_ns / 1e6, outcome->steps, outcome->steps_judged,
		scenario->options.faults[0].first, outcome->detected, outcome->rank_right,
		outcome->class_right, outcome->cause_right, outcome->alerts,
		outcome->blamed_healthy, outcome->every_steps);
	print_number(out, "slowdown", outcome->slowdown);
	print_number(out, "slowdown_told", outcome->slowdown_told);
	print_number(out, "slowdown_error", outcome->slowdown_error);
	print_number(out, "delay_steps", outcome->delay_steps);
	print_number(out, "delay_s", outcome->delay_s);
	print_number(out, "onset_error_steps", outcome->onset_error_steps);
	print_number(out, "cpu_s", outcome->analyse_s);
	fprintf(out, "}\n");
}
