/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "bench/baselines/baselines_internal.h"

#define THRESHOLD 0.75 /* gpu_rel_threshold of the extension's examples */

struct section_score {
	float *times;	/* by rank, section, step of the window */
	float *medians; /* by rank, section */
};

struct section_score *section_score_create(uint32_t rank_count)
{
	struct section_score *state = calloc(1, sizeof(*state));
	size_t sections = (size_t)rank_count * BASELINE_SECTION_NR;

	if (!state)
		return NULL;
	state->times = calloc(sections * BASELINE_WINDOW, sizeof(float));
	state->medians = calloc(sections, sizeof(float));
	if (state->times && state->medians)
		return state;
	section_score_destroy(state);
	return NULL;
}

void section_score_destroy(struct section_score *state)
{
	if (!state)
		return;
	free(state->times);
	free(state->medians);
	free(state);
}

static int compare(const void *left, const void *right)
{
	float a = *(const float *)left, b = *(const float *)right;

	return (a > b) - (a < b);
}

static bool score_ranks(struct section_score *state, const struct step_view *view, bool *flags)
{
	float best[BASELINE_SECTION_NR];
	bool raised = false;

	for (size_t i = 0; i < (size_t)view->rank_count * BASELINE_SECTION_NR; i++) {
		float *times = &state->times[i * BASELINE_WINDOW];

		qsort(times, BASELINE_WINDOW, sizeof(*times), compare);
		state->medians[i] = times[BASELINE_WINDOW / 2];
	}
	memcpy(best, state->medians, sizeof(best));
	for (size_t i = 0; i < (size_t)view->rank_count * BASELINE_SECTION_NR; i++) {
		if (state->medians[i] < best[i % BASELINE_SECTION_NR])
			best[i % BASELINE_SECTION_NR] = state->medians[i];
	}
	for (uint32_t rank = 0; rank < view->rank_count; rank++) {
		const float *own = &state->medians[(size_t)rank * BASELINE_SECTION_NR];
		double score = 0, weight = 0;

		for (int s = 0; s < BASELINE_SECTION_NR; s++) {
			/* a section that a rank lacks is compared by nobody */
			if (best[s] <= 0)
				continue;
			score += (double)best[s]; /* own time as weight, times best / own */
			weight += (double)own[s];
		}
		flags[rank] = weight > 0 && score / weight < THRESHOLD;
		raised |= flags[rank];
	}
	return raised;
}

bool section_score_step(struct section_score *state, const struct step_view *view, bool *flags)
{
	uint32_t at = view->step % BASELINE_WINDOW;

	for (uint32_t rank = 0; rank < view->rank_count; rank++) {
		for (int s = 0; s < BASELINE_SECTION_NR; s++)
			state->times[((size_t)rank * BASELINE_SECTION_NR + (size_t)s) *
					     BASELINE_WINDOW +
				     at] = (float)view->ranks[rank].section_ns[s];
	}
	return at == BASELINE_WINDOW - 1 && score_ranks(state, view, flags);
}
