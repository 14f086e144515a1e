/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adams and MacKay, Bayesian Online Changepoint Detection, 2007, algorithm 1, with a constant
 * hazard and a normal likelihood of unknown mean and variance (their section 3.1 has the same
 * family); step times are taken relative to the first steps' mean.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/baselines/baselines_internal.h"

#define HAZARD (1.0 / 250)
#define CERTAIN 0.9
#define WORSE 1.02 /* mean after over mean before */
enum { RUN_MAX = 400, RECENT = 5, SCALE_STEPS = 10 };

struct belief { /* of one run length: normal-gamma */
	double probability, mean, kappa, alpha, beta;
};

struct change_point {
	struct belief runs[RUN_MAX + 1];
	uint32_t run_count;
	double scale, scale_sum, recent[RECENT];
	uint32_t seen;
};

static const struct belief prior = {1, 1, 1, 1, 1e-3};

struct change_point *change_point_create(void)
{
	struct change_point *state = calloc(1, sizeof(*state));

	if (state) {
		state->runs[0] = prior;
		state->run_count = 1;
	}
	return state;
}

void change_point_destroy(struct change_point *state)
{
	free(state);
}

/* Student's t: the prediction of a belief. */
static double predict(const struct belief *belief, double value)
{
	double freedom = 2 * belief->alpha;
	double scale = belief->beta * (belief->kappa + 1) / (belief->alpha * belief->kappa);
	double distance = (value - belief->mean) * (value - belief->mean) / scale;

	return exp(lgamma((freedom + 1) / 2) - lgamma(freedom / 2) -
		   0.5 * log(freedom * 3.141592653589793 * scale) -
		   (freedom + 1) / 2 * log1p(distance / freedom));
}

static void learn(struct belief *belief, double value)
{
	double off = value - belief->mean;

	belief->beta += belief->kappa * off * off / (2 * (belief->kappa + 1));
	belief->mean += off / (belief->kappa + 1);
	belief->kappa += 1;
	belief->alpha += 0.5;
}

static void update(struct change_point *state, double value)
{
	struct belief *runs = state->runs;
	double changed = 0, sum = 0;

	if (state->run_count > RUN_MAX) { /* the longest two are one */
		runs[RUN_MAX - 1].probability += runs[RUN_MAX].probability;
		state->run_count = RUN_MAX;
	}
	for (uint32_t r = state->run_count; r-- > 0;) {
		double grown = runs[r].probability * predict(&runs[r], value);

		changed += grown * HAZARD;
		runs[r + 1] = runs[r];
		runs[r + 1].probability = grown * (1 - HAZARD);
		learn(&runs[r + 1], value);
	}
	runs[0] = prior;
	runs[0].probability = changed;
	state->run_count++;
	for (uint32_t r = 0; r < state->run_count; r++)
		sum += runs[r].probability;
	for (uint32_t r = 0; r < state->run_count && sum > 0; r++)
		runs[r].probability /= sum;
}

bool change_point_step(struct change_point *state, const struct step_view *view)
{
	double young = 0, recent = 0, before = 0, weight = 0;

	if (state->seen++ < SCALE_STEPS) {
		state->scale_sum += view->step_ns;
		state->scale = state->scale_sum / state->seen;
		return false;
	}
	memmove(state->recent, state->recent + 1, (RECENT - 1) * sizeof(double));
	state->recent[RECENT - 1] = view->step_ns / state->scale;
	for (uint32_t r = RECENT + 1; r < state->run_count; r++) {
		before += state->runs[r].probability * state->runs[r].mean;
		weight += state->runs[r].probability;
	}
	before = weight > 1e-9 ? before / weight : 1;
	update(state, state->recent[RECENT - 1]);
	for (uint32_t r = 0; r <= RECENT && r < state->run_count; r++)
		young += state->runs[r].probability;
	for (int i = 0; i < RECENT; i++)
		recent += state->recent[i] / RECENT;
	return state->seen > SCALE_STEPS + 2 * RECENT && young > CERTAIN && recent > WORSE * before;
}
