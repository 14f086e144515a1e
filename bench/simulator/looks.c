/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/simulator/looks.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define TURN_NS 50e6
#define REGULAR_NS 1e9
#define REGULAR_MOST_NS 60e9
#define LONG_STEP_NS 1e9
#define HURRIED_NS 100e6
#define HURRY_NS 1e9 /* length of a hurry */
#define REST_NS 5e9  /* from the begin of one to that of the next */

int sim_looks_init(struct sim_looks *looks, uint32_t rank_count, double random)
{
	*looks = (struct sim_looks){.rank_count = rank_count,
		.phase_ns = fmod(random * REGULAR_NS, TURN_NS),
		.regular = random * REGULAR_NS,
		.regular_ns = REGULAR_NS,
		.hurried = INFINITY,
		.paces = calloc(rank_count, sizeof(*looks->paces))};
	return looks->paces ? 0 : -ENOMEM;
}

void sim_looks_fini(struct sim_looks *looks)
{
	free(looks->paces);
}

bool sim_looks_next(struct sim_looks *looks, double until, double *time)
{
	double next = fmin(looks->regular, looks->hurried);

	if (next > until)
		return false;
	if (next >= looks->regular)
		looks->regular += looks->regular_ns;
	if (next >= looks->hurried)
		looks->hurried += HURRIED_NS;
	if (looks->hurried > looks->hurried_until)
		looks->hurried = INFINITY;
	*time = next;
	return true;
}

void sim_looks_step(struct sim_looks *looks, uint32_t index, double start, double end)
{
	double turn = looks->phase_ns + TURN_NS * ceil((end - looks->phase_ns) / TURN_NS);
	bool slower = step_pace_is_slower(&looks->paces[index], (int64_t)(end - start));

	looks->regular_ns = fmin(fmax(REGULAR_NS, 1.25 * (end - start)), REGULAR_MOST_NS);
	if (end - start >= LONG_STEP_NS) {
		looks->after = fmax(looks->after, turn);
	} else if (slower && turn >= looks->rested_until) {
		looks->hurried = turn;
		looks->hurried_until = turn + HURRY_NS;
		looks->rested_until = turn + REST_NS;
	}
}

bool sim_looks_after(struct sim_looks *looks, double *time)
{
	*time = looks->after;
	if (looks->after > 0)
		looks->regular = looks->after + looks->regular_ns;
	looks->after = 0;
	return *time > 0;
}
