/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/page/tracks.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A step's cost counts half after some 44 more: enough of them that a small cost that stays beats a large one that does not. */
static const float kept_share = 63.0F / 64.0F;

enum { SAMPLES = 2 * SAMPLED_NR };

static void track_fini(struct track *track)
{
	free(track->sum_ns);
	free(track->steps);
	free(track->sampled);
	free(track->times);
}

/* Room for so many columns, all empty. Returns 0 or -ENOMEM: then nothing is held. */
static int track_make_room(struct track *track, size_t columns)
{
	track->sum_ns = calloc(columns * TRACK_NR + 1, sizeof(*track->sum_ns));
	track->steps = calloc(columns + 1, sizeof(*track->steps));
	track->sampled = calloc(columns * SAMPLES + 1, sizeof(*track->sampled));
	track->times = calloc(columns + 1, sizeof(*track->times));
	if (track->sum_ns && track->steps && track->sampled && track->times)
		return 0;
	track_fini(track);
	return -ENOMEM;
}

void tracks_fini(struct tracks *tracks)
{
	for (size_t i = 0; i < tracks->count; i++)
		track_fini(&tracks->list[i]);
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
		*track = (struct track){.rank = from->list[i].rank, .peak = from->list[i].peak};
		if (track_make_room(track, column_count)) {
			tracks_fini(into);
			return -ENOMEM;
		}
		into->count++;
		memcpy(track->sum_ns, from->list[i].sum_ns,
			column_count * TRACK_NR * sizeof(float));
		memcpy(track->steps, from->list[i].steps, column_count * sizeof(uint32_t));
		memcpy(track->sampled, from->list[i].sampled,
			column_count * SAMPLES * sizeof(float));
		memcpy(track->times, from->list[i].times, column_count * sizeof(uint16_t));
	}
	return 0;
}

/* The mean of what was sampled so often, and of more; NaN counts as nothing. */
static float mean_of(float one, unsigned times, float other, unsigned other_times)
{
	if (isnan(one) || !times)
		return other;
	if (isnan(other))
		return one;
	return one + (other - one) * (float)other_times / (float)(times + other_times);
}

static void add_samples(struct track *track, size_t column, const float *values, unsigned times)
{
	float *into = &track->sampled[column * SAMPLES];
	unsigned sum = track->times[column] + times;

	for (size_t k = 0; k < SAMPLES; k++)
		into[k] = mean_of(into[k], track->times[column], values[k], times);
	track->times[column] = (uint16_t)(sum < UINT16_MAX ? sum : UINT16_MAX);
}

/* Two columns become one, which is not after them: what is left of the one is overwritten. */
static void fold_samples(struct track *track, size_t column, size_t column_count)
{
	float none[SAMPLES];

	for (size_t k = 0; k < SAMPLES; k++)
		none[k] = NAN;
	for (size_t from = 2 * column; from < 2 * column + 2; from++) {
		const float *values = &track->sampled[from * SAMPLES];
		bool is = from < column_count && track->times[from];

		if (from == 2 * column) {
			memmove(&track->sampled[column * SAMPLES], is ? values : none,
				sizeof(none));
			track->times[column] = is ? track->times[from] : 0;
		} else if (is) {
			add_samples(track, column, values, track->times[from]);
		}
	}
}

void tracks_fold(struct tracks *tracks, size_t column_count)
{
	for (size_t i = 0; i < tracks->count; i++) {
		struct track *track = &tracks->list[i];

		for (size_t column = 0; column <= column_count / 2; column++)
			fold_samples(track, column, column_count);
		for (size_t column = (column_count + 1) / 2; column < column_count; column++)
			track->times[column] = 0;
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
	struct track track = {0};
	int error = track_make_room(&track, HEAT_COLUMNS_MAX);

	if (error == 0)
		tracks->list[tracks->count++] = track;
	return error;
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
		memset(track->times, 0, HEAT_COLUMNS_MAX * sizeof(uint16_t));
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

void tracks_take_samples(struct track *track, size_t column, const float own[SAMPLED_NR],
	const float control[SAMPLED_NR])
{
	float values[SAMPLES];

	memcpy(values, own, SAMPLED_NR * sizeof(float));
	memcpy(&values[SAMPLED_NR], control, SAMPLED_NR * sizeof(float));
	add_samples(track, column, values, 1);
}
