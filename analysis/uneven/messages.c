/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uneven sequences in pipelines that show only communication. What a rank does before it sends and
 * what the receiver does with the message is work on the same microbatch: where sequences differ in
 * length, both are long, or both are short, against their peers. A slow machine is slow on one end.
 */
#include <errno.h>
#include <math.h>

#include "analysis/uneven/internal.h"

/*
 * Of each send the work since the message before it, of each receive that up to the next one, as a
 * share of what the controls took, less the rank's usual; NAN where there is none.
 */
static void find_work(struct judge *judge, const struct step_grid *grid, const struct grid_row *row,
	double least_ns)
{
	struct message_state *state = &judge->imbalance->work->messages;
	struct rank_state *rank = &judge->ranks[row->rank];
	double own_ns = 0, control_ns = 0;
	uint32_t receive = GRID_NONE;

	for (uint32_t c = row->first_cell; c < row->first_cell + row->cell_count; c++) {
		const struct grid_cell *cell = &grid->cells[c];
		bool send = cell->part->operation == OPERATION_SEND;
		float over;

		/* Queued: its own time is not seen. */
		own_ns += cell->flags & (CELL_RECKONED | CELL_QUEUED)
				  ? NAN
				  : (double)grid_own_ns(grid, c);
		control_ns += (double)blame_cell_of(&judge->blame, grid, c).control_ns;
		state->work[c] = NAN;
		if (!send && cell->part->operation != OPERATION_RECEIVE)
			continue;
		over = control_ns >= least_ns && !isnan(own_ns)
			       ? (float)fmin(own_ns / control_ns - 1, MESSAGES_DEVIATION_MAX)
			       : NAN;
		if (!isnan(over)) {
			float usual = rank->usual.message;

			rank->usual.message += (over - usual) / UNEVEN_MEMORY;
			over -= usual;
		}
		if (send)
			state->work[c] = over;
		if (receive != GRID_NONE)
			state->work[receive] = over;
		receive = send ? GRID_NONE : c;
		own_ns = control_ns = 0;
	}
}

static void forget(struct message_state *state)
{
	double share = 1 - 1.0 / UNEVEN_MEMORY;

	state->count *= share;
	state->xx *= share;
	state->yy *= share;
	state->xy *= share;
}

int judge_messages_step(struct judge *judge, const struct step_grid *grid)
{
	struct message_state *state = &judge->imbalance->work->messages;
	double least_ns = MESSAGES_WORK_MIN * (double)(grid->step.end_ns - grid->step.start_ns);

	state->work = arena_take(&judge->arena, grid->cell_count, sizeof(*state->work));
	if (!state->work)
		return -ENOMEM;
	forget(state);
	for (size_t r = 0; r < grid->row_count; r++) {
		const struct grid_row *row = &grid->rows[r];

		if (!row->hole && !row->works && judge->blame.rows[r].judged)
			find_work(judge, grid, row, least_ns);
		else
			for (uint32_t i = 0; i < row->cell_count; i++)
				state->work[row->first_cell + i] = NAN;
	}
	for (size_t i = 0; i < grid->instance_count; i++) {
		const struct grid_instance *instance = &grid->instances[i];
		const uint32_t *members = &grid->members[instance->first_member];
		double x, y;

		if (instance->waits_for != WAITS_FOR_PARTNER || instance->member_count != 2)
			continue;
		x = (double)state->work[members[0]];
		y = (double)state->work[members[1]];
		if (isnan(x) || isnan(y))
			continue;
		state->count++;
		state->xx += x * x;
		state->yy += y * y;
		state->xy += x * y;
	}
	return 0;
}

double judge_messages_correlation(const struct message_state *state)
{
	return state->xx > 0 && state->yy > 0 ? state->xy / sqrt(state->xx * state->yy) : 0;
}

bool judge_messages_alike(const struct message_state *state)
{
	/* A few of the program's first steps tell nothing of those that it repeats. */
	return state->count >= STEPS_KNOWN_MIN && state->xy > 0 &&
	       state->xy >= pow(MESSAGES_DEVIATION_MIN, 2) * state->count &&
	       judge_messages_correlation(state) >= MESSAGES_CORRELATION_MIN;
}
