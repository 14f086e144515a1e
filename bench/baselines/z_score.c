/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "bench/baselines/baselines_internal.h"

#define THRESHOLD 3.0

struct z_score {
	double *times; /* by rank, step of the window */
	double *sums;  /* by rank */
};

struct z_score *z_score_create(uint32_t rank_count)
{
	struct z_score *state = calloc(1, sizeof(*state));

	if (!state)
		return NULL;
	state->times = calloc((size_t)rank_count * BASELINE_WINDOW, sizeof(double));
	state->sums = calloc(rank_count, sizeof(double));
	if (state->times && state->sums)
		return state;
	z_score_destroy(state);
	return NULL;
}

void z_score_destroy(struct z_score *state)
{
	if (!state)
		return;
	free(state->times);
	free(state->sums);
	free(state);
}

bool z_score_step(struct z_score *state, const struct step_view *view, bool *flags)
{
	double count = view->rank_count, sum = 0, squares = 0, mean, deviation;
	bool raised = false;

	for (uint32_t rank = 0; rank < view->rank_count; rank++) {
		double *time = &state->times[(size_t)rank * BASELINE_WINDOW +
					     view->step % BASELINE_WINDOW];

		state->sums[rank] += view->ranks[rank].own_ns - *time;
		*time = view->ranks[rank].own_ns;
		sum += state->sums[rank];
	}
	if (view->step + 1 < BASELINE_WINDOW)
		return false;
	mean = sum / count;
	for (uint32_t rank = 0; rank < view->rank_count; rank++)
		squares += (state->sums[rank] - mean) * (state->sums[rank] - mean);
	deviation = sqrt(squares / count);
	for (uint32_t rank = 0; rank < view->rank_count; rank++) {
		flags[rank] = deviation > 0 && state->sums[rank] - mean > THRESHOLD * deviation;
		raised |= flags[rank];
	}
	return raised;
}
