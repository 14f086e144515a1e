/* SPDX-License-Identifier: Apache-2.0 */
/* What a replay gains, and what of it shows in the next step only. */
#include <stdlib.h>
#include <string.h>

#include "analysis/attribute/whatif.h"
#include "analysis/base/robust_stats.h"

void whatif_line_fini(struct whatif_line *line)
{
	free(line->ahead_ns);
	*line = (struct whatif_line){0};
}

void whatif_line_reset(struct whatif_line *line)
{
	if (line->capacity)
		memset(line->ahead_ns, 0, line->capacity * sizeof(*line->ahead_ns));
}

int whatif_line_reserve(struct whatif_line *line, const struct step_grid *grid)
{
	size_t count = grid->row_count ? grid->rows[grid->row_count - 1].rank + (size_t)1 : 0;

	return array_grow(
		(void **)&line->ahead_ns, &line->capacity, count, sizeof(*line->ahead_ns));
}

int64_t whatif_line_gain(
	struct whatif *whatif, const struct step_grid *grid, struct whatif_line *line)
{
	int64_t limit_ns = grid->end_ns - grid->start_ns, usual_ns;

	for (size_t r = 0; r < grid->row_count; r++)
		whatif->scratch[r] = whatif->ends_before[r] - whatif->times[r];
	usual_ns = lower_median_int64(whatif->scratch, grid->row_count);
	if (!line)
		return usual_ns;
	whatif_line_reset(line); /* ranks that are not here have nothing to bring */
	for (size_t r = 0; r < grid->row_count; r++) {
		int64_t ahead_ns = whatif->ends_before[r] - whatif->times[r] - usual_ns;

		line->ahead_ns[grid->rows[r].rank] = ahead_ns > limit_ns    ? limit_ns
						     : ahead_ns < -limit_ns ? -limit_ns
									    : ahead_ns;
	}
	return usual_ns;
}
