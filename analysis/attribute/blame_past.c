/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is usual of rows without peers: by rank, and by what they call. A slow step is often cut elsewhere than others are, and
 * calls what no row called before: there what is usual of all rows of its rank tells, for each of its calls.
 */
#include <stdlib.h>

#include "analysis/attribute/blame_internal.h"
#include "analysis/base/hash.h"

/* Powers of two; what finds no place is not learnt, what lost its place to another is new. */
enum { PLACES_MAX = 4096, PLACES_TRIED = 8 };

struct blame_past {
	struct past_row rows[PLACES_MAX];
};

void blame_past_destroy(struct blame_past *past)
{
	free(past);
}

/* What is known of a key; NULL without memory. */
static struct past_row *find(struct blame *blame, uint64_t step, uint64_t key)
{
	struct past_row *oldest = NULL;

	if (!blame->past)
		blame->past = calloc(1, sizeof(*blame->past));
	for (uint64_t i = 0; blame->past && i < PLACES_TRIED; i++) {
		struct past_row *past = &blame->past->rows[(key + i) % PLACES_MAX];

		if (past->key == key) {
			past->step = step;
			return past;
		}
		if (!oldest || past->step < oldest->step)
			oldest = past;
	}
	if (oldest)
		*oldest = (struct past_row){.key = key, .step = step};
	return oldest;
}

static bool is_known(const struct past_row *past)
{
	return past->seen >= PAST_SEEN_MIN;
}

static void learn(struct past_row *past, int64_t length_ns)
{
	int64_t step_ns;

	if (past->seen == 0)
		past->length_ns = length_ns;
	if (past->seen < PAST_SEEN_MAX)
		past->seen++;
	step_ns = past->length_ns / (past->seen < SOME ? SOME : past->seen) + 1;
	past->length_ns = clamp(length_ns, past->length_ns - step_ns, past->length_ns + step_ns);
}

/* Of what it calls most, so often. A row that lacks some of its kinds of calls is taken to be as long as one that has them all. */
static int64_t calls_of(const struct step_grid *grid, const struct grid_row *row)
{
	int64_t counts[OPERATION_NR] = {0}, most = 1;

	for (uint32_t c = row->first_cell; c < row->first_cell + row->cell_count; c++) {
		uint8_t operation = grid->cells[c].part->operation;

		if (operation < OPERATION_NR && ++counts[operation] > most)
			most = counts[operation];
	}
	return most;
}

int64_t blame_past_usual_ns(
	struct blame *blame, const struct step_grid *grid, const struct grid_row *row)
{
	uint64_t rank = hash_mix(0, row->rank) | 1, alike = hash_mix(row->layout, row->rank) | 1;
	struct past_row *each = find(blame, grid->step.number, rank);
	struct past_row *past = find(blame, grid->step.number, alike);
	int64_t calls = calls_of(grid, row), length_ns = row->end_ns - row->start_ns, usual_ns;

	if (!each || !past || each == past)
		return INT64_MAX;
	if (is_known(past))
		usual_ns = past->length_ns;
	else
		usual_ns = is_known(each) ? each->length_ns * calls : INT64_MAX;
	if (blame->traits.suspected && usual_ns != INT64_MAX)
		return usual_ns;
	learn(each, length_ns / calls);
	learn(past, length_ns);
	return usual_ns;
}
