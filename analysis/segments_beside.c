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
/*
 * What is usual is a running median: it follows by a part in so many of where all waited little, and
 * hardly at all where somebody waited for long: a rank that is slow, which is then the one that waits
 * least, must not become the measure.
 */
enum { USUAL_SEEN_MIN = 8, USUAL_SEEN_MAX = 256, LONG_WAIT_FACTOR = 16 };

struct beside_place {
	uint64_t place;		/* 0 = free */
	double weight, product; /* sums of wait squared, and of wait times change */
	double work;		/* usual, from here to the next call */
	uint32_t seen;		/* so many of short waits, at most USUAL_SEEN_MAX */
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

static double clip(double value, double least, double most)
{
	return value < least ? least : value > most ? most : value;
}

/* Robbins and Monro, 1951: up by a part when the value is larger, else down. */
static void follow_median(double *median, double value, double part)
{
	*median *= value > *median ? 1 + part : 1 - part;
}

static void learn_usual(struct beside_place *place, const struct beside_gap *gap)
{
	double work = (double)gap->least_gap_ns + (double)gap->least_stay_ns, part;

	if (place->seen == 0) {
		place->work = work;
		place->seen = 1;
	}
	part = 1.0 / (place->seen + 1);
	if ((double)gap->wait_ns > place->work / 2)
		part /= LONG_WAIT_FACTOR;
	else if (place->seen < USUAL_SEEN_MAX)
		place->seen++;
	follow_median(&place->work, work, part);
}

void beside_learn(struct beside_place *places, uint64_t place, const struct beside_gap *gap)
{
	double wait = (double)gap->wait_ns, least_gap = (double)gap->least_gap_ns, change;
	size_t at;

	place |= 1;
	if (gap->least_gap_ns < 0 || (at = find(places, place)) == PLACES_MAX)
		return;
	places[at].place = place;
	learn_usual(&places[at], gap);
	/* No more than there is to do in the gap can have been done beside the wait. */
	wait = wait < least_gap ? wait : least_gap;
	if (wait < WAIT_MIN_NS)
		return;
	/* A gap that shrank or grew by more than the wait has another reason: it counts as much. */
	change = clip((double)gap->gap_ns - least_gap, -1.5 * wait, 1.5 * wait);
	places[at].weight += wait * wait - FADE * places[at].weight;
	places[at].product += wait * change - FADE * places[at].product;
}

bool beside_known(const struct beside_place *places, uint64_t place)
{
	size_t at = find(places, place | 1);

	return at < PLACES_MAX && places[at].weight >= WEIGHT_MIN &&
	       places[at].product < SLOPE_BESIDE * places[at].weight;
}

int64_t beside_work_ns(const struct beside_place *places, uint64_t place)
{
	size_t at = find(places, place | 1);

	return at < PLACES_MAX && places[at].seen >= USUAL_SEEN_MIN ? (int64_t)places[at].work : -1;
}
