/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When calls of a device waited for other ranks beside the device's work. A collective's kernel that waits holds some
 * of the device's processors and its memory busy, so work beside it takes longer, and not by the rank's own doing. One thread.
 */
#ifndef SLOWRANK_ANALYSIS_ATTRIBUTE_BLAME_WAITS_H
#define SLOWRANK_ANALYSIS_ATTRIBUTE_BLAME_WAITS_H

#include "analysis/join/align.h"

struct blame_wait {
	int64_t from_ns, until_ns;
	int64_t before_ns; /* of all that came before it in its lane */
	uint8_t lane;
};

struct blame_waits {
	const int64_t *last_arrival_ns; /* as grid instances */
	struct blame_wait *waits;	/* of one row: by lane, then in order of time */
	size_t count;
};

/* For an overlapped grid. Takes its room from the arena, whose error says whether there was some. */
void blame_waits_begin(
	struct blame_waits *waits, const struct step_grid *grid, struct arena *arena);

/* Finds those of a row. */
void blame_waits_of_row(
	struct blame_waits *waits, const struct step_grid *grid, const struct grid_row *row);

/* For how long calls of some one other lane of the row waited within a stretch of time, at most, in ns. */
int64_t blame_waits_beside(
	const struct blame_waits *waits, uint8_t lane, int64_t begin_ns, int64_t end_ns);

#endif
