/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/score.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/simulator/write.h"
#include "coordinator/pipeline.h"
#include "coordinator/pipeline_internal.h"

#define NOTICEABLE 1.02 /* faults below this true slow-down may stay unnamed */

struct job {
	struct pipeline *pipeline;
	struct baselines *baselines; /* NULL: not asked for */
	uint32_t alerts;
};

static void on_verdict(void *context, enum verdict_event event, const struct verdict *verdict)
{
	struct job *job = context;

	(void)verdict;
	job->alerts += event == VERDICT_EVENT_ALERT;
}

static int take(void *context, struct message_batch *batch,
	void (*release)(struct message_batch *batch), struct job_ns received)
{
	struct job *job = context;
	struct message_reply reply;
	int result = pipeline_push_batch(job->pipeline, batch, release, received, &reply);

	return result < 0 ? result : 0;
}

static void see(void *context, const struct step_entry *entry)
{
	struct job *job = context;

	if (job->baselines)
		baselines_see(job->baselines, entry);
}

static bool machine(const struct verdict *verdict)
{
	return verdict->verdict_class != VERDICT_WORKLOAD_IMBALANCE;
}

static bool culprit(const struct simulator *simulator, uint32_t rank)
{
	const struct sim_options *options = simulator_options(simulator);

	for (uint32_t f = 0; f < options->fault_count; f++) {
		if (sim_fault_names(&options->faults[f], simulator_layout(simulator), rank))
			return true;
	}
	return false;
}

/* Whether a verdict speaks of a fault: names mostly its ranks, or where it has none, nobody. */
static bool about(const struct simulator *simulator, const struct sim_fault *fault,
	const struct verdict *verdict)
{
	const struct sim_layout *layout = simulator_layout(simulator);
	uint32_t named = 0, count = sim_fault_rank_count(fault, layout);
	bool imbalance = sim_fault_class(fault->kind) == VERDICT_WORKLOAD_IMBALANCE;

	for (uint32_t i = 0; i < verdict->rank_count && i < VERDICT_RANKS_MAX; i++)
		named += sim_fault_names(fault, layout, verdict->ranks[i]);
	if (imbalance)
		return !machine(verdict) && (!verdict->rank_count || !count || named);
	if (!count)
		return verdict->rank_count == 0;
	return named * 2 >= count || named == VERDICT_RANKS_MAX ||
	       (fault->kind == SIM_FAULT_NODE_PAIR && named);
}

/* Whether a verdict is about this fault alone: what others cost is part of what it tells. */
static bool alone(const struct simulator *simulator, const struct sim_fault *fault,
	const struct verdict *verdict)
{
	for (uint32_t i = 0; i < verdict->rank_count && i < VERDICT_RANKS_MAX; i++) {
		if (culprit(simulator, verdict->ranks[i]) &&
			!sim_fault_names(fault, simulator_layout(simulator), verdict->ranks[i]))
			return false;
	}
	return true;
}

static double alert_step(const struct simulator *simulator, const struct verdict *verdict)
{
	uint32_t count = simulator_step_count(simulator);
	double half = count ? simulator_step_end(simulator, count - 1) / count / 2 : 0;

	for (uint32_t step = 0; step < count; step++) {
		double end = (double)sim_job_time(simulator_step_end(simulator, step)).value;

		if (end + half >= (double)verdict->alert.value)
			return step;
	}
	return count;
}

/* From the start of the first faulty step to the alert. */
static double alert_delay_s(const struct simulator *simulator, const struct sim_fault *fault,
	const struct verdict *verdict)
{
	double start = fault->first ? simulator_step_end(simulator, fault->first - 1) : 0;

	return 1e-9 * (double)(verdict->alert.value - sim_job_time(start).value);
}

static void score_fault(const struct simulator *simulator, uint32_t index, double slowdown,
	const struct report_model *model, struct outcome *outcome)
{
	const struct sim_fault *fault = &simulator_options(simulator)->faults[index];
	bool named = false, cause = false, right_class = false;

	for (size_t v = 0; v < model->verdict_count; v++) {
		const struct verdict *verdict = &model->verdicts[v];

		if (!about(simulator, fault, verdict))
			continue;
		right_class |= verdict->verdict_class == sim_fault_class(fault->kind);
		cause |= verdict->cause == sim_fault_cause(fault->kind);
		if (!named && index == 0) {
			outcome->delay_steps =
				alert_step(simulator, verdict) - (double)fault->first + 1;
			outcome->delay_s = alert_delay_s(simulator, fault, verdict);
			outcome->onset_error_steps =
				fabs((double)verdict->first_step - (double)fault->first);
			outcome->every_steps = verdict->period.steps;
			if (fault->course == SIM_COURSE_CONSTANT && fault->kind < SIM_FAULT_HANG &&
				alone(simulator, fault, verdict))
				outcome->slowdown_told = verdict->slowdown;
			if (fault->course == SIM_COURSE_EVERY &&
				fault->every == verdict->period.steps)
				outcome->slowdown_told = verdict->period.slowdown;
			outcome->slowdown_error =
				fabs(outcome->slowdown_told - slowdown) / slowdown;
		}
		named = true;
	}
	outcome->detected |= named;
	if (slowdown >= NOTICEABLE || named || fault->kind >= SIM_FAULT_HANG) {
		outcome->rank_right &= named;
		outcome->class_right &= right_class;
		outcome->cause_right &= cause;
	}
}

/* A spike is nothing to tell; its plan has one fault, which verdicts about it would pass for. */
static bool verdict_right(
	const struct simulator *simulator, const struct verdict *verdict, bool spike)
{
	const struct sim_options *options = simulator_options(simulator);

	for (uint32_t i = 0; machine(verdict) && i < verdict->rank_count && i < VERDICT_RANKS_MAX;
		i++) {
		if (!culprit(simulator, verdict->ranks[i]))
			return false;
	}
	for (uint32_t f = 0; f < options->fault_count && !spike; f++) {
		const struct sim_fault *fault = &options->faults[f];

		if (about(simulator, fault, verdict) &&
			verdict->verdict_class == sim_fault_class(fault->kind))
			return true;
	}
	return false;
}

static void score_verdicts(const struct simulator *simulator, const struct report_model *model,
	struct outcome *outcome)
{
	bool spike = outcome->scenario.plan == SIM_PLAN_SPIKE;

	for (size_t v = 0; v < model->verdict_count && v < OUTCOME_VERDICTS_MAX; v++) {
		const struct verdict *verdict = &model->verdicts[v];

		outcome->verdicts[v].confidence = verdict->sure.confidence;
		outcome->verdicts[v].right = verdict_right(simulator, verdict, spike);
		outcome->verdict_count++;
	}
}

static void score(const struct simulator *simulator, const struct report_model *model,
	struct outcome *outcome)
{
	const struct sim_options *options = simulator_options(simulator);
	struct sim_truth truth;

	simulator_truth(simulator, &truth);
	outcome->ranks = simulator_layout(simulator)->rank_count;
	outcome->steps = simulator_step_count(simulator);
	outcome->steps_judged = (uint32_t)model->totals.steps;
	outcome->slowdown = options->fault_count ? truth.slowdown[0] : 1;
	outcome->rank_right = outcome->class_right = outcome->cause_right = true;
	outcome->slowdown_told = outcome->slowdown_error = outcome->delay_steps = outcome->delay_s =
		outcome->onset_error_steps = NAN;
	for (size_t v = 0; v < model->verdict_count; v++) {
		const struct verdict *verdict = &model->verdicts[v];

		for (uint32_t i = 0; i < verdict->rank_count && i < VERDICT_RANKS_MAX; i++)
			outcome->blamed_healthy +=
				machine(verdict) && !culprit(simulator, verdict->ranks[i]);
	}
	score_verdicts(simulator, model, outcome);
	if (outcome->scenario.plan == SIM_PLAN_SPIKE) { /* reported at most, never told */
		outcome->rank_right = outcome->class_right = outcome->alerts == 0;
		return;
	}
	for (uint32_t f = 0; f < options->fault_count; f++)
		score_fault(simulator, f, truth.slowdown[f], model, outcome);
	outcome->rank_right &= outcome->blamed_healthy == 0;
	if (!options->fault_count)
		outcome->rank_right = outcome->class_right = outcome->alerts == 0;
}

static void score_baseline(const struct simulator *simulator,
	const struct baseline_finding *finding, enum baseline_method method,
	struct outcome *outcome)
{
	const struct sim_options *options = simulator_options(simulator);
	const struct sim_fault *fault = &options->faults[0];
	uint32_t named = 0, expected = 0, known = 0;
	bool faulty = options->fault_count && outcome->scenario.plan != SIM_PLAN_SPIKE;

	for (uint32_t i = 0; i < finding->rank_count && i < BASELINE_RANKS_MAX; i++, known++)
		named += culprit(simulator, finding->ranks[i]);
	for (uint32_t rank = 0; rank < outcome->ranks; rank++)
		expected += culprit(simulator, rank);
	outcome->baselines[method].alarm = finding->raised;
	outcome->baselines[method].blamed_healthy = finding->rank_count - named;
	outcome->baselines[method].detected =
		faulty && finding->raised && finding->first_step >= fault->first;
	if (!faulty || (outcome->slowdown < NOTICEABLE && !finding->raised))
		outcome->baselines[method].rank_right = !finding->raised;
	else
		outcome->baselines[method].rank_right = finding->raised && named == known &&
							2 * named >= expected &&
							(named || !expected);
}

static double cpu_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void finish_baselines(
	const struct simulator *simulator, const struct job *job, struct outcome *outcome)
{
	if (!job->baselines)
		return;
	baselines_finish(job->baselines);
	for (int method = 0; method < BASELINE_NR; method++)
		score_baseline(simulator,
			baselines_finding(job->baselines, (enum baseline_method)method),
			(enum baseline_method)method, outcome);
}

static struct sim_feed_options feed_options(const struct sim_scenario *scenario, uint64_t seed)
{
	return (struct sim_feed_options){seed, scenario->options.program.step_ns < 100e6 ? 8 : 1};
}

int score_record(const struct sim_scenario *scenario, uint64_t seed, const char *path)
{
	const struct sim_feed_options feed = feed_options(scenario, seed);
	struct simulator *simulator;
	int error = simulator_create(&scenario->options, &simulator);

	if (error < 0)
		return error;
	error = sim_write_record(simulator, &feed, path);
	simulator_destroy(simulator);
	return error;
}

int score_job(
	const struct sim_scenario *scenario, uint64_t seed, bool baselines, struct outcome *outcome)
{
	const struct sim_feed_options feed = feed_options(scenario, seed);
	struct job job = {NULL, NULL, 0};
	const struct pipeline_options options = {on_verdict, &job};
	struct simulator *simulator;
	double start = cpu_s();
	int error = simulator_create(&scenario->options, &simulator);

	if (error < 0)
		return error;
	error = pipeline_create(&options, &job.pipeline);
	if (error == 0 && baselines)
		error = baselines_create(simulator_layout(simulator)->rank_count, &job.baselines);
	if (error == 0)
		error = sim_feed(simulator, &feed, take, see, &job);
	if (error == 0)
		error = pipeline_finish(job.pipeline);
	if (error == 0) {
		memset(outcome, 0, sizeof(*outcome));
		outcome->scenario = *scenario;
		outcome->seed = seed;
		outcome->alerts = job.alerts;
		outcome->analyse_s = cpu_s() - start;
		score(simulator, pipeline_report(job.pipeline), outcome);
		finish_baselines(simulator, &job, outcome);
	}
	baselines_destroy(job.baselines);
	pipeline_destroy(job.pipeline);
	simulator_destroy(simulator);
	return error;
}
