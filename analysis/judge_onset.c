/* SPDX-License-Identifier: Apache-2.0 */
/* Since when: the step that a change began with, from the history of steps. */
#include <math.h>
#include <string.h>

#include "analysis/base/robust_stats.h"
#include "analysis/judge_internal.h"

uint64_t judge_onset(const struct judge *judge, const struct rank_state *of_rank,
	uint64_t run_first_step, double level)
{
	double values[STEP_HISTORY] = {0}, lengths[STEP_HISTORY] = {0};
	uint64_t end = judge->next_step;
	uint64_t first = end > STEP_HISTORY ? end - STEP_HISTORY : 0;
	size_t count = 0;

	/* The block before may hold the first steps, too few of them to show. */
	uint64_t earliest =
		run_first_step > judge->block.steps ? run_first_step - judge->block.steps : 0;
	if (first < earliest)
		first = earliest;
	for (uint64_t s = first; s < end; s++) {
		values[count] = of_rank ? judge_step_delay(judge, of_rank, s)
					: fabs((double)judge->comm->steps[s % STEP_HISTORY]);
		lengths[count++] = (double)judge->step_length_ns[s % STEP_HISTORY];
	}
	double sorted[STEP_HISTORY];

	memcpy(sorted, lengths, sizeof(sorted));
	size_t onset =
		change_onset(values, lengths, count, lower_median_double(sorted, count), level);

	/* Loud through all of the history: it began with the run. */
	return onset == 0 && first > run_first_step ? run_first_step : first + onset;
}

void judge_refine_onset(struct judge *judge, struct track *track)
{
	struct verdict *verdict = &judge->verdicts[track->verdict];
	uint64_t later = judge->next_step - track->alert_step, first = UINT64_MAX;

	if (track->loud_blocks > ONSET_BLOCKS ||
		judge->next_step - track->run_first_step > STEP_HISTORY / 2)
		return;
	for (uint32_t i = 0; i < verdict->rank_count; i++) {
		const struct rank_state *state = &judge->ranks[verdict->ranks[i]];
		uint64_t onset = judge_onset(judge, state, track->run_first_step,
			judge_latest_level(judge, state, later));

		first = onset < first ? onset : first;
	}
	if (first >= track->alert_step)
		return;
	verdict->first_step = first;
	track->usual_step_ns = judge_gpu_usual_step_ns(judge, first);
	track->onset_ns = judge->step_start_ns[first % STEP_HISTORY];
	verdict->onset.value = track->onset_ns;
}

double judge_comm_latest_level(const struct judge *judge)
{
	double excess = 0, time = 0;

	for (uint64_t i = 1; i <= LATEST_STEPS && i <= judge->next_step; i++) {
		size_t at = (judge->next_step - i) % STEP_HISTORY;

		excess += fmax((double)judge->comm->steps[at], 0);
		time += (double)judge->step_length_ns[at];
	}
	/* Something small before it must not pass for its begin. */
	return fmax(judge_comm_share(judge->comm), time > 0 ? excess / time : 0);
}

int64_t judge_comm_onset(const struct judge *judge, uint64_t *step)
{
	const struct comm_run *run = &judge->comm->run;

	*step = run->first_step;
	if (run->dated)
		return run->start_ns;
	*step = judge_onset(judge, NULL, run->first_step, judge_comm_latest_level(judge));
	return judge->next_step - *step <= STEP_HISTORY ? judge->step_start_ns[*step % STEP_HISTORY]
							: run->start_ns;
}
