/* SPDX-License-Identifier: Apache-2.0 */
/* Since when transfers are slow: by the steps, or by the sockets of those whose they are, where something else went before. */
#include <math.h>
#include <stdlib.h>

#include "analysis/judge/internal.h"

int64_t judge_before_now(const struct judge *judge, int64_t length_ns, uint64_t steps)
{
	int64_t from_ns = judge_now_ns(judge) - length_ns;

	if (judge->times.next < steps)
		return from_ns;
	int64_t start_ns = step_start_ns(&judge->times, judge->times.next - steps);

	return start_ns < from_ns ? start_ns : from_ns;
}

/* By what share of the time transfers are longer, in the run or in its latest steps, whatever is more. */
static double latest_level(const struct judge *judge)
{
	uint64_t steps = steps_kept_since(&judge->times, 0);
	const struct comm_state *comm = judge->comm;

	/* Something small before it must not pass for its begin. */
	return fmax(
		run_share(&comm->run), signal_latest_level(&comm->signal, &judge->times,
					       steps < LATEST_STEPS ? steps : LATEST_STEPS, false));
}

int64_t judge_comm_onset(const struct judge *judge, uint64_t *step)
{
	const struct comm_state *comm = judge->comm;
	const struct run *run = &comm->run;

	*step = run->first_step;
	if (run->dated)
		return run->start_ns;
	*step = signal_onset(
		&comm->signal, &judge->times, &judge->block, run_begin(run), latest_level(judge));
	return step_start_or(&judge->times, *step, run->start_ns);
}

/* The step that the change next to a time began with; where none stands out there, the one at that time. */
static uint64_t change_near(const struct judge *judge, int64_t time_ns)
{
	int64_t start_ns;
	uint64_t step = step_at(&judge->times, time_ns, judge_now_ns(judge), &start_ns);
	uint64_t earliest =
		step_at(&judge->times, time_ns - SAMPLE_NS, judge_now_ns(judge), &start_ns);
	uint64_t from = earliest + judge->block.end_step - judge->block.first_step;
	uint64_t change = signal_onset(&judge->comm->signal, &judge->times, &judge->block,
		(struct run_begin){.first_step = from, .side_since = from}, latest_level(judge));

	return change > earliest + 1 &&
			       llabs(step_start_ns(&judge->times, change) - time_ns) <= SAMPLE_NS
		       ? change
		       : step;
}

/* What came before its ranks' sockets were busy is no part of a run. False: nothing did, or too long ago. */
static bool begin_later(const struct judge *judge, int64_t began_ns, struct run *run)
{
	double excess_ns = 0;
	uint64_t end = judge->times.next, step = change_near(judge, began_ns);

	if (step <= run->first_step || end - step > STEP_HISTORY)
		return false;
	for (uint64_t s = step; s < end; s++)
		excess_ns += fabs((double)judge->comm->signal.lost_ns[s % STEP_HISTORY]);
	run->dated = true;
	run->first_step = step;
	run->start_ns = step_start_ns(&judge->times, step);
	run->sums.steps = steps_kept_in(&judge->times, step, end);
	run->sums.time_ns = judge_now_ns(judge) - run->start_ns;
	run->sums.delay_ns = (int64_t)fmin(excess_ns, (double)run->sums.time_ns);
	run->blocks = 1 + (uint32_t)(run->sums.time_ns / BLOCK_NS);
	run->loud_blocks = run->loud_blocks < run->blocks ? run->loud_blocks : run->blocks;
	run->loud_ns = run->loud_ns < run->sums.time_ns ? run->loud_ns : run->sums.time_ns;
	return true;
}

bool judge_comm_locate_late(struct judge *judge, int64_t onset_ns, struct verdict *verdict)
{
	struct comm_state *comm = judge->comm;
	int64_t now_ns = judge_now_ns(judge), first_ns = INT64_MAX;
	int64_t latest_ns = judge_before_now(judge, MOVE_LATEST_NS, MOVE_LATEST_STEPS);

	if (judge->comm->links.count || comm->run.every || comm->run.dated ||
		now_ns - onset_ns < 2 * (now_ns - latest_ns))
		return false;
	judge_comm_remember(judge, onset_ns);
	comm->sockets.remembers =
		judge_comm_locate(judge, latest_ns, now_ns, verdict) && verdict->rank_count;
	for (uint32_t i = 0; comm->sockets.remembers && i < verdict->rank_count; i++) {
		int64_t began_ns;

		if (judge_comm_began(judge, verdict->ranks[i], onset_ns, latest_ns, &began_ns) &&
			began_ns < first_ns)
			first_ns = began_ns;
	}
	comm->sockets.remembers = comm->sockets.remembers && first_ns < INT64_MAX &&
				  begin_later(judge, first_ns, &comm->run);
	return comm->sockets.remembers;
}

bool judge_comm_moves(const struct judge *judge)
{
	int64_t latest_ns = judge_before_now(judge, MOVE_LATEST_NS, MOVE_LATEST_STEPS);
	int64_t unlike_ns = judge->comm->sockets.unlike_ns;

	return unlike_ns && judge_now_ns(judge) - unlike_ns < 2 * (judge_now_ns(judge) - latest_ns);
}
