/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/page/tracks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A step's cost counts half after some 44 more: enough of them that a small cost that stays beats a large one that does not. */
static const float kept_share = 63.0F / 64.0F;

void tracks_fini(struct tracks *tracks)
{
	for (size_t i = 0; i < tracks->count; i++) {
		free(tracks->list[i].sum_ns);
		free(tracks->list[i].steps);
	}
	free(tracks->ranks);
	memset(tracks, 0, sizeof(*tracks));
}

int tracks_copy(struct tracks *into, const struct tracks *from, size_t column_count,
	const bool chosen[TRACKS_MAX])
{
	*into = (struct tracks){.least = from->least};
	for (size_t i = 0; i < from->count; i++) {
		struct track *track = &into->list[into->count];

		if (!chosen[i])
			continue;
		*track = from->list[i];
		track->sum_ns = calloc(column_count + 1, TRACK_NR * sizeof(float));
		track->steps = calloc(column_count + 1, sizeof(uint32_t));
		into->count++;
		if (!track->sum_ns || !track->steps) {
			tracks_fini(into);
			return -ENOMEM;
		}
		memcpy(track->sum_ns, from->list[i].sum_ns,
			column_count * TRACK_NR * sizeof(float));
		memcpy(track->steps, from->list[i].steps, column_count * sizeof(uint32_t));
	}
	return 0;
}

void tracks_fold(struct tracks *tracks, size_t column_count)
{
	for (size_t i = 0; i < tracks->count; i++) {
		struct track *track = &tracks->list[i];

		for (size_t column = 0; column < HEAT_COLUMNS_MAX; column++) {
			size_t one = 2 * column, other = one + 1;

			for (size_t k = 0; k < TRACK_NR; k++)
				track->sum_ns[column * TRACK_NR + k] =
					(one < column_count ? track->sum_ns[one * TRACK_NR + k]
							    : 0) +
					(other < column_count ? track->sum_ns[other * TRACK_NR + k]
							      : 0);
			track->steps[column] = (one < column_count ? track->steps[one] : 0) +
					       (other < column_count ? track->steps[other] : 0);
		}
	}
}

const struct track *tracks_find(const struct tracks *tracks, uint32_t rank)
{
	uint32_t slot = rank < tracks->rank_capacity ? tracks->ranks[rank].slot : 0;

	return slot ? &tracks->list[slot - 1] : NULL;
}

static int add_track(struct tracks *tracks)
{
	struct track track = {.sum_ns = calloc((size_t)HEAT_COLUMNS_MAX * TRACK_NR, sizeof(float)),
		.steps = calloc(HEAT_COLUMNS_MAX, sizeof(uint32_t))};

	if (!track.sum_ns || !track.steps) {
		free(track.sum_ns);
		free(track.steps);
		return -ENOMEM;
	}
	tracks->list[tracks->count++] = track;
	return 0;
}

static size_t cheapest(const struct tracks *tracks)
{
	size_t least = 0;

	for (size_t i = 1; i < tracks->count; i++) {
		if (tracks->list[i].peak < tracks->list[least].peak)
			least = i;
	}
	return least;
}

/* Gives the rank a place: a new one, or that of the rank that cost least. */
static int place(struct tracks *tracks, uint32_t rank)
{
	size_t slot = tracks->count;
	struct track *track;
	int error = slot < TRACKS_MAX ? add_track(tracks) : 0;

	if (error)
		return error;
	if (slot == TRACKS_MAX) {
		slot = cheapest(tracks);
		track = &tracks->list[slot];
		tracks->ranks[track->rank].slot = 0;
		memset(track->sum_ns, 0, (size_t)HEAT_COLUMNS_MAX * TRACK_NR * sizeof(float));
		memset(track->steps, 0, HEAT_COLUMNS_MAX * sizeof(uint32_t));
	}
	tracks->list[slot].rank = rank;
	tracks->list[slot].peak = tracks->ranks[rank].lately;
	tracks->ranks[rank].slot = (uint32_t)slot + 1;
	tracks->least = tracks->list[cheapest(tracks)].peak;
	return 0;
}

static void add_row(struct track *track, size_t column, const struct blame_row *row)
{
	float *sums = &track->sum_ns[column * TRACK_NR];

	track->steps[column]++;
	sums[TRACK_WAIT] += (float)row->wait_ns;
	sums[TRACK_TRANSFER] += (float)row->transfer_ns;
	sums[TRACK_DELAY] += (float)row->charged_ns;
	sums[TRACK_INHERITED] += (float)row->inherited_ns;
	for (size_t kind = 0; kind < EXCESS_NR; kind++) {
		sums[TRACK_OWN + kind] += (float)row->own[kind];
		sums[TRACK_CONTROL + kind] += (float)row->control[kind];
	}
}

int tracks_take(struct tracks *tracks, size_t column, uint32_t rank, const struct blame_row *row)
{
	struct tracked_rank *tracked;
	int error = array_grow((void **)&tracks->ranks, &tracks->rank_capacity, (size_t)rank + 1,
		sizeof(*tracks->ranks));

	if (error < 0)
		return error;
	tracked = &tracks->ranks[rank];
	tracked->lately = tracked->lately * kept_share + (float)row->charged_ns;
	if (!tracked->slot) {
		if (tracks->count == TRACKS_MAX && tracked->lately <= tracks->least)
			return 0;
		error = place(tracks, rank);
		if (error < 0)
			return error;
	}
	struct track *track = &tracks->list[tracked->slot - 1];

	if (tracked->lately > track->peak)
		track->peak = tracked->lately;
	add_row(track, column, row);
	return 0;
}
