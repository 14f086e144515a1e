/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Without device times, a rank that calls late has not necessarily made anybody wait: its device may still
 * have been at work, and so may the others'. What was launched meanwhile tells: docs/analysis.md.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/judge_internal.h"
#include "analysis/robust_stats.h"

/* Steps looked at before they count; what is kept of earlier ones fades. */
#define STEPS_MIN 2.0
#define STEPS_KEPT 32.0
/* This much of a rank's delay must be seen in what it launched, or in what the step took more. */
#define PROVEN_SHARE 0.5

enum { QUIET_BLOCKS_MIN = 4 };

static void add(struct launch_sums *sums, const struct launch_sums *other)
{
	sums->steps += other->steps;
	sums->launches += other->launches;
	sums->silence_ns += other->silence_ns;
	sums->idle_ns += other->idle_ns;
	sums->wait_ns += other->wait_ns;
}

static void halve(struct launch_sums *sums)
{
	sums->steps /= 2;
	sums->launches /= 2;
	sums->silence_ns /= 2;
	sums->idle_ns /= 2;
	sums->wait_ns /= 2;
}

void judge_launches_take(struct rank_state *state, const struct step_launches *launches)
{
	struct launch_sums step = {1, (double)launches->launches, (double)launches->silence_ns,
		(double)launches->idle_ns, (double)launches->wait_ns};

	if (launches->window == 0)
		return;
	add(state->track ? &state->run_launches : &state->block_launches, &step);
	add(&state->launches, &step);
	if (state->launches.steps >= STEPS_KEPT)
		halve(&state->launches);
}

void judge_launches_block(struct judge *judge)
{
	bool quiet = judge->block.steps > 0;

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		struct rank_state *state = &judge->ranks[r];

		quiet &= !state->track && !judge_suspected(state, RUN_QUICK);
		if (!state->track && state->runs[RUN_QUICK].change.sum > 0)
			add(&state->run_launches, &state->block_launches);
		state->block_launches = (struct launch_sums){0};
	}
	if (!quiet)
		return;
	double lengths[QUIET_BLOCKS];
	size_t count;

	judge->quiet_lengths_ns[judge->quiet_blocks++ % QUIET_BLOCKS] =
		(double)judge->block.time_ns / (double)judge->block.steps;
	count = judge->quiet_blocks < QUIET_BLOCKS ? judge->quiet_blocks : QUIET_BLOCKS;
	memcpy(lengths, judge->quiet_lengths_ns, count * sizeof(lengths[0]));
	judge->quiet_step_ns = median_double(lengths, count);
}

static double per_step(const struct launch_sums *sums, double value)
{
	return sums->steps > 0 ? value / sums->steps : 0;
}

/* The rank of the others whose silence is usual among those looked at; false when there is none. */
static bool find_control(const struct judge *judge, uint32_t rank, uint32_t *control)
{
	double usual;
	size_t count = 0;

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		const struct launch_sums *sums = &judge->ranks[r].launches;

		if (r != rank && !judge->ranks[r].track && sums->steps >= STEPS_MIN)
			judge->scratch[count++] = per_step(sums, sums->silence_ns);
	}
	if (count == 0)
		return false;
	usual = lower_median_double(judge->scratch, count);
	*control = 0;
	while (*control == rank || judge->ranks[*control].track ||
		judge->ranks[*control].launches.steps < STEPS_MIN ||
		per_step(&judge->ranks[*control].launches,
			judge->ranks[*control].launches.silence_ns) != usual)
		++*control;
	return true;
}

/*
 * How much longer the steps of a run are than while nobody was suspected, or, where somebody always is, than
 * those before it; 0: not known.
 */
static double growth_of(const struct judge *judge, const struct delay_run *run)
{
	double usual_ns = judge->quiet_blocks >= QUIET_BLOCKS_MIN
				  ? judge->quiet_step_ns
				  : judge_usual_length(judge, 0, run->first_step);

	return usual_ns > 0 && judge->blocks > WARM_UP_BLOCKS
		       ? (double)run->sums.time_ns / (double)run->sums.steps - usual_ns
		       : 0;
}

/*
 * How long the host was kept from launching, as the kernel saw it, in ns more than the control was. A host
 * that spins until there is room for one more launch is busy for longer, and on a shared core preempted for
 * longer too, in the same proportion: that much does not count.
 */
static double kept_from_launching(const struct excess_sums *run)
{
	double own = (double)run->own[EXCESS_HOST_CPU],
	       usual = (double)run->control[EXCESS_HOST_CPU];
	double busier = usual > 0 ? fmax(1, own / usual) : 1, kept_ns = 0;

	for (int k = EXCESS_COMPUTE + 1; k < EXCESS_NR; k++) {
		double times = k == EXCESS_PREEMPTED ? busier : 1;

		if (k != EXCESS_HOST_CPU)
			kept_ns += (double)run->own[k] - times * (double)run->control[k];
	}
	return kept_ns;
}

/* The kernel names a cause, other than one that a host which spins may have too, or saw enough in all. */
static bool seen_by_kernel(
	const struct excess_sums *run, const struct classification *class, double proof_ns)
{
	return (class->cause != CAUSE_UNKNOWN && class->cause != CAUSE_CPU_CONTENTION) ||
	       kept_from_launching(run) >= proof_ns * (double)run->steps;
}

/*
 * The device idled for that long more than a control's, or the host launched nothing, and steps became
 * longer. That it launched nothing is seen in windows, or all the time by the kernel.
 */
static bool held_up_by_host(const struct judge *judge, uint32_t rank, const struct delay_run *of_run,
	const struct classification *class)
{
	const struct excess_sums *run = &of_run->sums;
	const struct rank_state *state = &judge->ranks[rank];
	const struct launch_sums *own = &state->run_launches, *usual;
	double proof_ns = PROVEN_SHARE * (double)run->delay_ns / (double)run->steps;
	bool longer = growth_of(judge, of_run) >= proof_ns;
	uint32_t control;

	if (longer && seen_by_kernel(run, class, proof_ns))
		return true;
	if (own->steps < STEPS_MIN || !find_control(judge, rank, &control))
		return false;
	usual = &judge->ranks[control].launches;
	double idle_ns = per_step(own, own->idle_ns) - per_step(usual, usual->idle_ns);
	double silence_ns = per_step(own, own->silence_ns) - per_step(usual, usual->silence_ns);

	return idle_ns >= proof_ns || (longer && silence_ns >= proof_ns);
}

bool judge_launches_prove(const struct judge *judge, uint32_t rank, const struct delay_run *of_run,
	const struct classification *class)
{
	if (!of_run->sums.host_times)
		return true;
	if (class->verdict_class == VERDICT_COMPUTE_SLOW)
		return !of_run->sums.several_groups;
	return held_up_by_host(judge, rank, of_run, class);
}

static void push_evidence(struct verdict *verdict, const struct verdict_evidence *evidence)
{
	if (verdict->evidence_count == VERDICT_EVIDENCE_MAX)
		return;
	verdict->evidence[verdict->evidence_count++] = *evidence;
}

/* The host was ahead: it waited for its device before it could call. */
static void tell_waits(const struct excess_sums *sums, struct verdict *verdict)
{
	double steps = (double)sums->steps * 1e6;
	struct verdict_evidence evidence = {.kind = CAUSE_UNKNOWN,
		.overlap_ms_per_step = (double)sums->own[EXCESS_COMPUTE] / steps,
		.control_ms_per_step = (double)sums->control[EXCESS_COMPUTE] / steps};

	for (uint32_t i = 0; i < verdict->evidence_count; i++) {
		if (verdict->evidence[i].kind == CAUSE_UNKNOWN)
			return; /* said already */
	}
	snprintf(evidence.detail, sizeof(evidence.detail),
		"its host waited for its device before it could call");
	push_evidence(verdict, &evidence);
}

void judge_launches_tell(
	const struct judge *judge, const struct excess_sums *sums, struct verdict *verdict)
{
	const struct launch_sums *own, *usual;
	struct verdict_evidence evidence = {.kind = CAUSE_LAUNCH_GAPS};
	uint32_t control;

	if (!sums->host_times || verdict->rank_count == 0 || sums->steps == 0)
		return;
	if (verdict->verdict_class == VERDICT_COMPUTE_SLOW)
		tell_waits(sums, verdict);
	own = &judge->ranks[verdict->ranks[0]].run_launches;
	if (verdict->verdict_class != VERDICT_HOST_SLOW || own->steps < STEPS_MIN ||
		!find_control(judge, verdict->ranks[0], &control))
		return;
	usual = &judge->ranks[control].launches;
	evidence.overlap_ms_per_step = per_step(own, own->silence_ns) / 1e6;
	evidence.control_ms_per_step = per_step(usual, usual->silence_ns) / 1e6;
	snprintf(evidence.detail, sizeof(evidence.detail),
		"no launch, and not waiting for the device; with nothing left to run %.1f ms, "
		"others "
		"%.1f; %.0f launches a step, others %.0f",
		per_step(own, own->idle_ns) / 1e6, per_step(usual, usual->idle_ns) / 1e6,
		per_step(own, own->launches), per_step(usual, usual->launches));
	push_evidence(verdict, &evidence);
	if (verdict->cause != CAUSE_UNKNOWN)
		return;
	verdict->cause = CAUSE_LAUNCH_GAPS;
	verdict->share_explained =
		fmin(1, fmax(0, (evidence.overlap_ms_per_step - evidence.control_ms_per_step) *
					1e6 * (double)sums->steps / (double)sums->delay_ns));
}
