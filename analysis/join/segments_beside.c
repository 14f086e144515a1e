/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/join/segments_beside.h"

#include <math.h>
#include <stdlib.h>

#include "analysis/policy.h"

/* Powers of two; what finds no place is not learnt, what lost its place to another is new. */
enum {
	PLACES_MAX = 4096,
	PLACES_TRIED = 8,
	ASYNCHRONOUS_MAX = 4096,
	VISITS_MAX = 4 * BESIDE_CELLS_MAX,
	QUEUES_MAX = 4096 /* ranks; of more, some are new each time */
};

/*
 * What is usual is a running median, over so many at most. It hardly follows while all wait for one rank, and
 * for longer than is usual: a rank that is slow, which is then the one that waits least, must not become the
 * measure; nor sooner where more ranks wait for it. When all have more to do, they wait as before;
 * when a machine is slow now and then, they wait for one another in turn. Longer is more than a quarter of the
 * work, or so many times what three of four instances do not exceed.
 */

/* A regression through the origin, of changes of gaps over waits. */
struct slope {
	double weight, product; /* sums of wait squared, and of wait times change */
};

struct place {
	uint64_t key; /* 0 = free */
	struct slope members, explained;
	struct slope hosts; /* of a host's excess, over how long its device was in calls */
	double work;	    /* usual, from here to the next call */
	double wait;	    /* usual, of the one that waited most */
	double one_rank;    /* how much oftener than not last_rank is waited for, and for long */
	double bound;	    /* the least, of what it took at most */
	double seen;	    /* so many instances of short waits, at most BESIDE_USUAL_SEEN_MAX */
	uint32_t waits_seen, last_rank;
	uint32_t bound_seen;
};

/* A rank that waited, the last time it was at a place. */
struct visit {
	uint64_t key; /* of place and rank; 0 = none */
	int64_t wait_ns, way_ns, gap_ns;
};

struct queue_left {
	uint32_t rank;
	int64_t left_ns;
};

struct beside_places {
	struct queue_left queues[QUEUES_MAX];
	struct place places[PLACES_MAX];
	struct visit visits[VISITS_MAX];
	uint64_t asynchronous[ASYNCHRONOUS_MAX]; /* a hash set, half of it at most; 0 = free */
	size_t asynchronous_count;
};

struct beside_places *beside_places_create(void)
{
	return calloc(1, sizeof(struct beside_places));
}

void beside_places_destroy(struct beside_places *places)
{
	free(places);
}

int64_t *beside_queue_left_ns(struct beside_places *places, uint32_t rank)
{
	struct queue_left *queue = &places->queues[rank % QUEUES_MAX];

	if (queue->rank != rank)
		*queue = (struct queue_left){.rank = rank};
	return &queue->left_ns;
}

bool beside_asynchronous(struct beside_places *places, uint64_t place, bool seen)
{
	size_t at = (size_t)place & (ASYNCHRONOUS_MAX - 1);

	place |= 1;
	while (places->asynchronous[at] && places->asynchronous[at] != place)
		at = (at + 1) & (ASYNCHRONOUS_MAX - 1);
	if (places->asynchronous[at])
		return true;
	if (seen && places->asynchronous_count < ASYNCHRONOUS_MAX / 2) {
		places->asynchronous[at] = place;
		places->asynchronous_count++;
	}
	return seen;
}

static size_t find(const struct beside_places *places, uint64_t key)
{
	for (size_t i = 0; i < PLACES_TRIED; i++) {
		size_t at = (size_t)(key + i) & (PLACES_MAX - 1);

		if (places->places[at].key == key || places->places[at].key == 0)
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

/* Is it mostly one rank that the others wait for, and for long? */
static bool is_one_rank(struct place *place, uint32_t rank, bool is_long, double share)
{
	if (is_long && place->last_rank == rank)
		place->one_rank = fmin(place->one_rank + share, BESIDE_ONE_RANK_MAX);
	else
		place->one_rank = fmax(place->one_rank - BESIDE_OTHER_RANK * share, 0);
	if (is_long && place->one_rank <= 0)
		place->last_rank = rank;
	return place->one_rank >= BESIDE_ONE_RANK_MIN;
}

/*
 * How much an instance says of what is usual, of `others` that all say the same: whole, or next to nothing
 * while all wait for one rank, and for long.
 */
static double share_of(struct place *place, const struct beside_gap *gap)
{
	double wait = (double)gap->most_wait_ns, share = 1.0 / gap->others;
	double part, reduced = share;

	if (place->waits_seen == 0)
		place->wait = wait > BESIDE_WAIT_MIN_NS ? wait : BESIDE_WAIT_MIN_NS;
	bool is_long = wait > place->work / BESIDE_LONG_WAIT_OF_WORK ||
		       (place->waits_seen >= BESIDE_WAITS_SEEN_MIN &&
			       wait > BESIDE_WAITS_LONGER * place->wait + BESIDE_WAIT_MIN_NS);

	if (is_one_rank(place, gap->least_rank, is_long, share))
		reduced /= BESIDE_LONG_WAIT_FACTOR;
	if (place->waits_seen < BESIDE_USUAL_SEEN_MAX)
		place->waits_seen++;
	part = 1.0 / (place->waits_seen + 1);
	place->wait *= wait <= place->wait ? 1 - share * part / 4 : 1 + reduced * part * 3 / 4;
	return reduced;
}

static void learn_usual(struct place *place, const struct beside_gap *gap)
{
	double work = (double)gap->least_gap_ns + (double)gap->least_stay_ns, share;

	if (!gap->least_next)
		return;
	if (place->seen <= 0)
		place->work = work;
	share = share_of(place, gap);
	follow_median(&place->work, work, share / (place->seen + 2));
	if ((double)gap->most_wait_ns <= place->work / BESIDE_LONG_WAIT_OF_WORK &&
		place->seen < BESIDE_USUAL_SEEN_MAX)
		place->seen += 1.0 / gap->others;
}

/* share: of one that says as much as several others, the same noise included. */
static void add(struct slope *slope, double wait, double change, double share)
{
	/* A gap that shrank or grew by more than the wait has another reason: it counts as much. */
	change = clip(change, -BESIDE_CHANGE_MAX * fabs(wait), BESIDE_CHANGE_MAX * fabs(wait));
	slope->weight += share * (wait * wait - BESIDE_FADE * slope->weight);
	slope->product += share * (wait * change - BESIDE_FADE * slope->product);
}

/* So that new evidence counts: no more than so much of what was before. */
static void forget(struct slope *slope, double weight_max)
{
	double kept = slope->weight > weight_max ? weight_max / slope->weight : 1;

	slope->weight *= kept;
	slope->product *= kept;
}

/* Exchanges a rank's last visit of a place for this one; false when it is the first. */
static bool last_visit(struct beside_places *places, uint64_t key, const struct beside_gap *gap,
	struct visit *last)
{
	uint64_t own = (key ^ (gap->rank + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15)) | 1;
	struct visit *visit = &places->visits[(own >> 32) & (VISITS_MAX - 1)];

	*last = *visit;
	*visit = (struct visit){own, gap->wait_ns, gap->least_way_ns, gap->gap_ns};
	return last->key == own;
}

/* Of the longer, or shorter, wait only the part that the other's longer way explains. */
static void learn_explained(
	struct beside_places *places, struct place *place, const struct beside_gap *gap)
{
	struct visit last;

	if (!last_visit(places, place->key, gap, &last) || gap->gap_ns < BESIDE_GAP_MIN_NS ||
		last.gap_ns < BESIDE_GAP_MIN_NS)
		return;
	double wait = (double)(gap->wait_ns - last.wait_ns);
	double way = (double)(gap->least_way_ns - last.way_ns);
	double change = (double)(gap->gap_ns - last.gap_ns);

	if ((wait < 0) != (way < 0))
		return;
	if (fabs(way) < fabs(wait))
		wait = way;
	if (fabs(wait) < BESIDE_WAIT_MIN_NS)
		return;
	if (fabs(wait) > BESIDE_EXPLAINED_MAX_NS) {
		change *= BESIDE_EXPLAINED_MAX_NS / fabs(wait);
		wait = copysign(BESIDE_EXPLAINED_MAX_NS, wait);
	}
	add(&place->explained, wait, change, 1);
}

void beside_learn(struct beside_places *places, uint64_t place, const struct beside_gap *gap)
{
	double wait = (double)gap->wait_ns, least_gap = (double)gap->least_gap_ns;
	size_t at = find(places, place | 1);

	if (gap->least_gap_ns < 0 || at == PLACES_MAX)
		return;
	struct place *known = &places->places[at];

	known->key = place | 1;
	learn_explained(places, known, gap);
	/* Whose next one was queued as well does not show how long the work takes. */
	if (gap->least_gap_ns < gap->least_stay_ns / BESIDE_STAYS_PER_GAP)
		return;
	learn_usual(known, gap);
	/* While one rank is slow, it waits least, and its gaps are longer for that reason. */
	if (known->seen >= BESIDE_USUAL_SEEN_MIN)
		least_gap = fmin(least_gap, known->work - (double)gap->least_stay_ns);
	/* No more than there is to do in the gap can have been done beside the wait. */
	wait = wait < least_gap ? wait : least_gap;
	if (wait >= BESIDE_WAIT_MIN_NS)
		add(&known->members, wait, (double)gap->gap_ns - least_gap, 1.0 / gap->others);
}

void beside_learn_host(struct beside_places *places, uint64_t place, int64_t stays_ns,
	int64_t cpu_ns, int64_t least_cpu_ns)
{
	size_t at = find(places, place | 1);
	double least = fmax((double)least_cpu_ns, BESIDE_WAIT_MIN_NS), stays = (double)stays_ns;

	if (at == PLACES_MAX)
		return;
	struct place *known = &places->places[at];

	known->key = place | 1;
	add(&known->hosts, fmin(stays / least, 1),
		(double)(cpu_ns - least_cpu_ns) / fmax(stays, least), 1);
	forget(&known->hosts, BESIDE_HOST_WEIGHT_MAX);
}

bool beside_host_waits(const struct beside_places *places, uint64_t place)
{
	size_t at = find(places, place | 1);

	return at != PLACES_MAX && places->places[at].hosts.weight >= BESIDE_HOST_WEIGHT_MIN &&
	       places->places[at].hosts.product >
		       BESIDE_HOST_WAITS * places->places[at].hosts.weight;
}

void beside_bound(struct beside_places *places, uint64_t place, int64_t bound_ns)
{
	size_t at = find(places, place | 1);

	if (at == PLACES_MAX || bound_ns < 0)
		return;
	struct place *known = &places->places[at];

	known->key = place | 1;
	if (known->bound_seen == 0 || (double)bound_ns < known->bound)
		known->bound = (double)bound_ns;
	known->bound_seen += known->bound_seen < BESIDE_USUAL_SEEN_MAX;
}

static bool explained_blocks(const struct slope *explained)
{
	return explained->weight >= BESIDE_EXPLAINED_WEIGHT_MIN &&
	       explained->product > BESIDE_EXPLAINED_BLOCKS * explained->weight;
}

enum beside beside_known(const struct beside_places *places, uint64_t place, bool several_streams)
{
	size_t at = find(places, place | 1);

	if (at == PLACES_MAX)
		return BESIDE_UNKNOWN;
	const struct slope *members = &places->places[at].members;
	const struct slope *explained = &places->places[at].explained;

	if (!several_streams)
		return members->weight >= BESIDE_WEIGHT_MIN &&
				       members->product < BESIDE_SLOPE * members->weight &&
				       !explained_blocks(explained)
			       ? BESIDE_WORK
			       : BESIDE_UNKNOWN;
	if (explained_blocks(explained))
		return BESIDE_BLOCKS;
	return explained->weight >= BESIDE_EXPLAINED_WEIGHT_MIN &&
			       explained->product < BESIDE_EXPLAINED * explained->weight
		       ? BESIDE_WORK
		       : BESIDE_UNKNOWN;
}

int64_t beside_work_ns(const struct beside_places *places, uint64_t place)
{
	size_t at = find(places, place | 1);

	if (at == PLACES_MAX)
		return -1;
	const struct place *found = &places->places[at];

	return found->seen >= BESIDE_USUAL_SEEN_MIN	    ? (int64_t)found->work
	       : found->bound_seen >= BESIDE_USUAL_SEEN_MIN ? (int64_t)found->bound
							    : -1;
}
