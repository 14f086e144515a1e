/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/segments_beside.h"

#include <stdlib.h>

enum {
	PLACES_MAX = 4096,
	PLACES_TRIED = 8
}; /* a power of two; what finds no place is not learnt */

/* Waits that differ by less say nothing beside the jitter of kernels. */
#define WAIT_MIN_NS 50000
/* Between -1 and 0, nearer to -1; and this much evidence: sixteen waits of 100 us, or one of 400. */
#define SLOPE_BESIDE (-0.5)
#define WEIGHT_MIN (16.0 * 1e5 * 1e5)
/* What was learnt fades, by a part in so many. */
#define FADE (1.0 / 4096)

struct beside_place {
	uint64_t place;		/* 0 = free */
	double weight, product; /* sums of wait squared, and of wait times gap */
};

struct beside_place *beside_places_create(void)
{
	return calloc(PLACES_MAX, sizeof(struct beside_place));
}

void beside_places_destroy(struct beside_place *places)
{
	free(places);
}

static size_t find(const struct beside_place *places, uint64_t place)
{
	for (size_t i = 0; i < PLACES_TRIED; i++) {
		size_t at = (size_t)(place + i) & (PLACES_MAX - 1);

		if (places[at].place == place || places[at].place == 0)
			return at;
	}
	return PLACES_MAX;
}

void beside_learn(struct beside_place *places, uint64_t place, int64_t wait_ns, int64_t gap_ns)
{
	double wait = (double)wait_ns, gap = (double)gap_ns;
	size_t at;

	place |= 1;
	if (wait_ns < WAIT_MIN_NS || (at = find(places, place)) == PLACES_MAX)
		return;
	/* A gap that shrank or grew by more than the wait has another reason: it counts as much. */
	if (gap < -1.5 * wait)
		gap = -1.5 * wait;
	if (gap > 1.5 * wait)
		gap = 1.5 * wait;
	places[at].place = place;
	places[at].weight += wait * wait - FADE * places[at].weight;
	places[at].product += wait * gap - FADE * places[at].product;
}

bool beside_known(const struct beside_place *places, uint64_t place)
{
	size_t at = find(places, place | 1);

	return at < PLACES_MAX && places[at].weight >= WEIGHT_MIN &&
	       places[at].product < SLOPE_BESIDE * places[at].weight;
}
