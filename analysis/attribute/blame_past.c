/* SPDX-License-Identifier: Apache-2.0 */
/* What is usual of rows without peers: by rank, and by what they call. */
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

struct past_row *blame_past_find(struct blame *blame, uint64_t step, const struct grid_row *row)
{
	uint64_t key = hash_mix(row->layout, row->rank) | 1;
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

void blame_past_learn(struct past_row *past, int64_t length_ns, bool suspected)
{
	int64_t step_ns;

	if (past->seen == 0)
		past->length_ns = length_ns;
	if (suspected && past->seen >= PAST_SEEN_MIN)
		return;
	if (past->seen < PAST_SEEN_MAX)
		past->seen++;
	step_ns = past->length_ns / (past->seen < SOME ? SOME : past->seen) + 1;
	past->length_ns = clamp(length_ns, past->length_ns - step_ns, past->length_ns + step_ns);
}
