/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uneven experts. Tokens go to experts by one all-to-all and come back by another; a rank whose
 * experts are asked more than others takes long between the two and nowhere else. A slow machine is
 * slow in all of its work.
 */
#include <math.h>

#include "analysis/uneven/internal.h"

static void take_segments(
	const struct judge *judge, const struct step_grid *grid, size_t r, struct rank_state *state)
{
	const struct grid_row *row = &grid->rows[r];
	double sums[2][2] = {{0}}; /* expert or not; excess, control */
	uint64_t dispatched = 0;
	bool open = false;

	for (uint32_t i = 0; i < row->cell_count; i++) {
		const struct grid_cell *cell = &grid->cells[row->first_cell + i];
		const struct blame_cell blamed =
			blame_cell_of(&judge->blame, grid, row->first_cell + i);
		bool exchange = cell->part->operation == OPERATION_ALL_TO_ALL;
		bool expert = exchange && open && cell->part->communicator_id == dispatched;

		sums[expert][0] +=
			(double)(grid_own_ns(grid, row->first_cell + i) - blamed.control_ns);
		sums[expert][1] += (double)blamed.control_ns;
		open = exchange && !expert;
		dispatched = cell->part->communicator_id;
	}
	state->experts.excess += (float)sums[1][0] - state->experts.excess / EXPERT_MEMORY;
	state->experts.control += (float)sums[1][1] - state->experts.control / EXPERT_MEMORY;
	state->experts.other_excess +=
		(float)sums[0][0] - state->experts.other_excess / EXPERT_MEMORY;
	state->experts.other_control +=
		(float)sums[0][1] - state->experts.other_control / EXPERT_MEMORY;
}

void judge_experts_step(struct judge *judge, const struct step_grid *grid)
{
	for (size_t r = 0; r < grid->row_count; r++) {
		struct rank_state *state = &judge->ranks[grid->rows[r].rank];

		if ((state->incident || state->signal.runs[RUN_QUICK].change.sum > 0 ||
			    state->signal.runs[RUN_SLOW].change.sum > 0) &&
			!grid->rows[r].hole && !grid->rows[r].works && judge->blame.rows[r].judged)
			take_segments(judge, grid, r, state);
	}
}

bool judge_experts_only(const struct rank_state *state)
{
	float other = fmaxf(state->experts.other_excess, 0);

	return state->experts.control > 0 && state->experts.excess > 0 &&
	       state->experts.other_control >=
		       EXPERT_OTHER_WORK_MIN *
			       (state->experts.other_control + state->experts.control) &&
	       state->experts.excess >= EXPERT_SHARE_MIN * (state->experts.excess + other) &&
	       state->experts.excess / state->experts.control >=
		       EXPERT_TIMES_OTHER_MIN * other / state->experts.other_control;
}
