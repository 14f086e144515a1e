/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "bench/baselines/baselines_internal.h"

#define MATERIAL_SHARE 0.04 /* of the step: less is noise */

struct latest_arrival {
	uint32_t *late; /* by rank: steps of this window in which it made others wait */
};

struct latest_arrival *latest_arrival_create(uint32_t rank_count)
{
	struct latest_arrival *state = calloc(1, sizeof(*state));

	if (state)
		state->late = calloc(rank_count, sizeof(*state->late));
	if (state && state->late)
		return state;
	free(state);
	return NULL;
}

void latest_arrival_destroy(struct latest_arrival *state)
{
	if (state)
		free(state->late);
	free(state);
}

bool latest_arrival_step(struct latest_arrival *state, const struct step_view *view, bool *flags)
{
	bool end = (view->step + 1) % BASELINE_WINDOW == 0, raised = false;

	for (uint32_t rank = 0; rank < view->rank_count; rank++) {
		state->late[rank] += view->ranks[rank].gap_ns > MATERIAL_SHARE * view->step_ns;
		if (!end)
			continue;
		flags[rank] = 2 * state->late[rank] > BASELINE_WINDOW;
		raised |= flags[rank];
		state->late[rank] = 0;
	}
	return raised;
}
