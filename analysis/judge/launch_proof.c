/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Without device times, a rank that calls late has not necessarily made anybody wait: its device may still
 * have been at work, and so may the others'. What was launched meanwhile tells: docs/analysis.md.
 */
#include <math.h>
#include <string.h>

#include "analysis/base/robust_stats.h"
#include "analysis/explain/measures.h"
#include "analysis/judge/internal.h"
#include "analysis/policy.h"

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
	add(state->incident ? &state->run_launches : &state->block.launches, &step);
	add(&state->launches, &step);
	if (state->launches.steps >= LAUNCH_STEPS_KEPT)
		halve(&state->launches);
}

void judge_launches_block(struct judge *judge)
{
	bool quiet = judge->block.steps > 0;

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		struct rank_state *state = &judge->ranks[r];

		quiet &= !state->incident && !judge_suspected(state, RUN_QUICK);
		if (!state->incident && state->signal.runs[RUN_QUICK].change.sum > 0)
			add(&state->run_launches, &state->block.launches);
		state->block.launches = (struct launch_sums){0};
	}
	if (!quiet)
		return;
	double lengths[QUIET_BLOCKS];
	size_t count;

	judge->judged.quiet.lengths_ns[judge->judged.quiet.count++ % QUIET_BLOCKS] =
		(double)judge->block.time_ns / (double)judge->block.steps;
	count = judge->judged.quiet.count < QUIET_BLOCKS ? judge->judged.quiet.count : QUIET_BLOCKS;
	memcpy(lengths, judge->judged.quiet.lengths_ns, count * sizeof(lengths[0]));
	judge->judged.quiet.step_ns = median_double(lengths, count);
}

/*
 * How much longer the program's steps in a run are than while nobody was suspected, or, where somebody always is, than
 * those before it; 0: not known.
 */
static double growth_of(const struct judge *judge, const struct run *run)
{
	double usual_ns = judge->judged.quiet.count >= LAUNCH_QUIET_BLOCKS_MIN
				  ? judge->judged.quiet.step_ns
				  : step_usual_ns(&judge->times, 0, run->first_step);

	return usual_ns > 0 && judge->judged.count > WARM_UP_BLOCKS
		       ? ((double)run->sums.time_ns - (double)run->sums.steps * usual_ns) /
				 run->sums.program_steps
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

/* There is a reason, other than one that a host which spins may have too, or the kernel saw enough in all. */
static bool seen_by_kernel(
	const struct excess_sums *run, const struct explanation *explanation, double proof_ns)
{
	return (cause_says_why(explanation->cause) && explanation->cause != CAUSE_CPU_CONTENTION) ||
	       kept_from_launching(run) >= proof_ns * run->program_steps;
}

/*
 * The device idled for that long more than a control's, or the host launched nothing, and steps became
 * longer. That it launched nothing is seen in windows, or all the time by the kernel.
 */
static bool held_up_by_host(const struct judge *judge, uint32_t rank, const struct run *of_run,
	const struct explanation *explanation)
{
	const struct excess_sums *run = &of_run->sums;
	const struct rank_state *state = &judge->ranks[rank];
	const struct launch_sums *own = &state->run_launches, *usual;
	double proof_ns = LAUNCH_PROVEN_SHARE * (double)run->delay_ns / run->program_steps;
	const struct explain_context context = judge_explain_context(judge, judge_now_ns(judge));
	bool longer = growth_of(judge, of_run) >= proof_ns;
	uint32_t control;

	if (longer && seen_by_kernel(run, explanation, proof_ns))
		return true;
	if (own->steps < LAUNCH_STEPS_MIN || !explain_launch_control(&context, rank, &control))
		return false;
	usual = &judge->ranks[control].launches;
	double idle_ns = launch_sums_per_step(own, own->idle_ns) -
			 launch_sums_per_step(usual, usual->idle_ns);
	double silence_ns = launch_sums_per_step(own, own->silence_ns) -
			    launch_sums_per_step(usual, usual->silence_ns);

	return idle_ns >= proof_ns || (longer && silence_ns >= proof_ns);
}

bool judge_launches_prove(const struct judge *judge, uint32_t rank, const struct run *of_run,
	const struct explanation *explanation)
{
	if (!of_run->sums.host_times)
		return true;
	if (explanation->computes)
		return !of_run->sums.several_groups;
	return held_up_by_host(judge, rank, of_run, explanation);
}
