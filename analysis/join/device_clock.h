/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clocks of devices against each other. Each device's times come on its host's clock, with the
 * error of that conversion (tens of us to a ms, docs/clocks.md). Members of a collective leave it
 * together, so what departures differ by, always in the same way, is the clocks' error and is taken
 * out. Slowly, so that a link that turns slow is not taken for a clock. One thread.
 */
#ifndef SLOWRANK_ANALYSIS_JOIN_DEVICE_CLOCK_H
#define SLOWRANK_ANALYSIS_JOIN_DEVICE_CLOCK_H

#include "analysis/join/align.h"

struct device_clocks {
	struct device_correction *ranks; /* by rank */
	size_t rank_capacity;
	int64_t *scratch;
	size_t scratch_capacity;
};

void device_clocks_init(struct device_clocks *clocks);
void device_clocks_fini(struct device_clocks *clocks);

/*
 * Moves the rows of a linked grid whose parts have device times; raises the grid's clock error to
 * what departures still differ by. Returns 0 or -ENOMEM, the grid as it was.
 */
int device_clocks_align(struct device_clocks *clocks, struct step_grid *grid)
	__attribute__((warn_unused_result));

#endif
