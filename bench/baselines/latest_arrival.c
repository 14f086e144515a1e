/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "bench/baselines/baselines_internal.h"

#define MATERIAL_SHARE 0.04 /* of the step: less is noise */

struct latest_arrival {
	struct sums {
		double instances, shortest, gap_ns, step_ns;
	} * sums; /* by rank, of this window */
};

struct latest_arrival *latest_arrival_create(uint32_t rank_count)
{
	struct latest_arrival *state = calloc(1, sizeof(*state));

	if (state)
		state->sums = calloc(rank_count, sizeof(*state->sums));
	if (state && state->sums)
		return state;
	free(state);
	return NULL;
}

void latest_arrival_destroy(struct latest_arrival *state)
{
	if (state)
		free(state->sums);
	free(state);
}

bool latest_arrival_step(struct latest_arrival *state, const struct step_view *view, bool *flags)
{
	bool end = (view->step + 1) % BASELINE_WINDOW == 0, raised = false;

	for (uint32_t rank = 0; rank < view->rank_count; rank++) {
		struct sums *sums = &state->sums[rank];
		const struct rank_view *seen = &view->ranks[rank];

		sums->instances += seen->instances;
		sums->shortest += seen->shortest;
		sums->gap_ns += seen->gap_ns;
		sums->step_ns += view->step_ns;
		if (!end)
			continue;
		flags[rank] = sums->shortest > 0.5 * sums->instances &&
			      sums->gap_ns > MATERIAL_SHARE * sums->step_ns;
		raised |= flags[rank];
		*sums = (struct sums){0, 0, 0, 0};
	}
	return raised;
}
