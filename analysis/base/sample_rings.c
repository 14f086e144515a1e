/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/base/sample_rings.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static_assert(METRIC_NR <= 64, "a bit for each");

/*
 * A metric that has no sample in the newest row has, where that row took the place of an older one, still
 * its own sample of then: its value lies there, its time is replaced_ns.
 */
struct sample_group {
	int64_t *rows;
	int64_t replaced_ns;
	uint64_t in_newest; /* a bit for each column that has a sample in the newest row */
	uint8_t width;	    /* metrics */
	uint8_t count;
	uint8_t next;  /* where the next row goes */
	bool replaced; /* the newest row took an older one's place */
};

void sample_rings_fini(struct sample_rings *rings)
{
	for (size_t g = 0; g < rings->group_count; g++)
		free(rings->groups[g].rows);
	free(rings->groups);
	*rings = (struct sample_rings){0};
}

static int64_t *row_at(const struct sample_group *group, size_t place)
{
	return &group->rows[place * (group->width + (size_t)1)];
}

static size_t newest_of(const struct sample_group *group)
{
	return (group->next + (size_t)SAMPLE_RING_MAX - 1) % SAMPLE_RING_MAX;
}

static bool in_newest(const struct sample_group *group, size_t column)
{
	return group->in_newest >> column & 1;
}

static uint64_t all_columns(const struct sample_group *group)
{
	return UINT64_MAX >> (64 - group->width);
}

/* All at once: rings that grew would leave holes as large as themselves in the memory of many ranks. */
static size_t ring_length_bytes(size_t width)
{
	return SAMPLE_RING_MAX * (width + 1) * sizeof(int64_t);
}

/* One more group of so many metrics, none of which lies in it yet. */
static int add_group(struct sample_rings *rings, uint8_t width)
{
	size_t count = rings->group_count;
	struct sample_group *grown = realloc(rings->groups, (count + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	rings->groups = grown;
	grown[count] =
		(struct sample_group){.width = width, .rows = malloc(ring_length_bytes(width))};
	if (!grown[count].rows)
		return -ENOMEM;
	rings->group_count++;
	return 0;
}

/* Where a metric's first sample goes: to others of which it is the first, too, or to a group of its own. */
static int find_place(struct sample_rings *rings, unsigned metric, int64_t time_ns)
{
	struct sample_place *place = &rings->places[metric];

	for (size_t g = 0; g < rings->group_count; g++) {
		struct sample_group *group = &rings->groups[g];

		if (group->count != 1 || group->rows[0] != time_ns)
			continue;
		int64_t *rows = realloc(group->rows, ring_length_bytes(group->width + (size_t)1));

		if (!rows)
			return -ENOMEM;
		group->rows = rows;
		*place = (struct sample_place){(uint8_t)(g + 1), group->width++};
		return 0;
	}
	int error = add_group(rings, 1);

	if (error == 0)
		*place = (struct sample_place){rings->group_count, 0};
	return error;
}

/* Metrics that have no sample in the newest row are from now on a group of their own. */
static int part(struct sample_rings *rings, size_t index)
{
	struct sample_group *group = &rings->groups[index], *other;
	uint8_t kept = (uint8_t)__builtin_popcountll(group->in_newest);
	size_t newest = newest_of(group), stride = group->width + (size_t)1;
	int error = add_group(rings, (uint8_t)(group->width - kept));

	if (error < 0)
		return error;
	group = &rings->groups[index];
	other = &rings->groups[rings->group_count - 1];
	for (size_t place = 0; place < group->count; place++) {
		const int64_t *row = &group->rows[place * stride];
		int64_t *stays = &group->rows[place * (kept + (size_t)1)];
		int64_t *leaves = row_at(other, place);

		*leaves++ = place == newest ? group->replaced_ns : row[0];
		*stays++ = row[0];
		for (size_t column = 0; column < group->width; column++)
			*(in_newest(group, column) ? stays++ : leaves++) = row[1 + column];
	}
	other->count = (uint8_t)(group->count - !group->replaced);
	other->next = (uint8_t)newest;
	for (unsigned m = 0; m < METRIC_NR; m++) {
		struct sample_place *place = &rings->places[m];

		if (place->group != index + 1)
			continue;
		uint64_t before = (UINT64_C(1) << place->column) - 1;
		bool stays = in_newest(group, place->column);

		place->group = stays ? place->group : rings->group_count;
		place->column = (uint8_t)__builtin_popcountll(
			(stays ? group->in_newest : ~group->in_newest) & before);
	}
	group->width = kept;
	group->in_newest = all_columns(group);
	int64_t *rows = realloc(group->rows, ring_length_bytes(kept));

	if (rows) /* else they stay as they are, with room to spare */
		group->rows = rows;
	other->in_newest = all_columns(other);
	return 0;
}

/* A row that has a time, and no value yet. */
static void add_row(struct sample_group *group, int64_t time_ns)
{
	int64_t *row = row_at(group, group->next);

	group->replaced = group->count == SAMPLE_RING_MAX;
	group->replaced_ns = group->replaced ? row[0] : 0;
	group->in_newest = 0;
	row[0] = time_ns;
	group->next = (uint8_t)((group->next + 1) % SAMPLE_RING_MAX);
	group->count += !group->replaced;
}

void sample_rings_expect(const struct sample_rings *rings)
{
	__builtin_prefetch(rings);
	__builtin_prefetch(&rings->group_count);
}

void sample_rings_expect_groups(const struct sample_rings *rings)
{
	__builtin_prefetch(rings->groups);
}

void sample_rings_expect_rows(const struct sample_rings *rings)
{
	for (size_t g = 0; g < rings->group_count; g++) {
		const struct sample_group *group = &rings->groups[g];

		__builtin_prefetch(row_at(group, newest_of(group)), 1);
		__builtin_prefetch(row_at(group, group->next), 1);
	}
}

int sample_rings_add(struct sample_rings *rings, unsigned metric, struct sample sample)
{
	struct sample_place *place = &rings->places[metric];
	int error = place->group ? 0 : find_place(rings, metric, sample.time_ns);

	if (error < 0)
		return error;
	struct sample_group *group = &rings->groups[place->group - 1];

	if (group->count == 0 || in_newest(group, place->column) ||
		row_at(group, newest_of(group))[0] != sample.time_ns) {
		if (group->count && group->in_newest != all_columns(group))
			error = part(rings, place->group - (size_t)1);
		if (error < 0)
			return error;
		group = &rings->groups[place->group - 1];
		add_row(group, sample.time_ns);
	}
	row_at(group, newest_of(group))[1 + place->column] = sample.value;
	group->in_newest |= UINT64_C(1) << place->column;
	return 0;
}

/* False: there is none of this metric at the place. */
static bool sample_at(
	const struct sample_group *group, size_t column, size_t place, struct sample *sample)
{
	const int64_t *row = row_at(group, place);

	*sample = (struct sample){row[0], row[1 + column]};
	if (place != newest_of(group) || in_newest(group, column))
		return true;
	sample->time_ns = group->replaced_ns;
	return group->replaced;
}

/* Of the samples on one side of a time, that time included or not, the one next to it. */
static bool find_next_to(const struct sample_rings *rings, unsigned metric, int64_t time_ns,
	bool after, struct sample *found)
{
	const struct sample_place *at = &rings->places[metric];
	const struct sample_group *group = at->group ? &rings->groups[at->group - 1] : NULL;
	struct sample sample;
	bool any = false;

	for (size_t place = 0; group && place < group->count; place++) {
		if (sample_at(group, at->column, place, &sample) &&
			(sample.time_ns > time_ns) == after &&
			(!any || (after ? sample.time_ns < found->time_ns
					: sample.time_ns > found->time_ns))) {
			*found = sample;
			any = true;
		}
	}
	return any;
}

bool sample_rings_latest(
	const struct sample_rings *rings, unsigned metric, int64_t time_ns, struct sample *found)
{
	return find_next_to(rings, metric, time_ns, false, found);
}

bool sample_rings_first_after(
	const struct sample_rings *rings, unsigned metric, int64_t time_ns, struct sample *found)
{
	return find_next_to(rings, metric, time_ns, true, found);
}
