/* SPDX-License-Identifier: Apache-2.0 */
/* Fitting the hosts' clocks to the job's from the instances of a step; see docs/clocks.md. */
#include <stdlib.h>

#include "coordinator/assembly_internal.h"

/*
 * Two hosts up for the same time within this are taken for one: the stamps leave 0 open, and
 * CLOCK_MONOTONIC counts from boot.
 */
#define SAME_CLOCK_NS INT64_C(50000000)

void assembly_fix_clock(struct assembly *assembly)
{
	struct rank_table *table = assembly->table;

	for (uint32_t r = 0; r < table->end && !assembly->clock_fixed; r++) {
		const struct rank_entry *rank = &table->ranks[r];
		struct clock_fit *clock;
		int64_t offset_ns;

		if (!rank->known || rank->host == UINT32_MAX)
			continue;
		clock = &table->hosts[rank->host].clock;
		offset_ns = clock->offset_ns;
		if (clock->has_high && clock->high_ns >= 0 && clock->high_ns < SAME_CLOCK_NS &&
			(!clock->has_low || clock->low_ns <= 0))
			offset_ns = 0; /* the coordinator's own host */
		/* The reference has no error against itself; others' errors are against it. */
		clock_fit_fix(clock, offset_ns, 0);
		assembly->clock_fixed = true;
	}
}

/* What one host's members say about one instance. */
struct host_ends {
	int64_t last_arrival_ns, first_departure_ns; /* job time, by the fit so far */
	struct host_ns time;
	bool present;
};

static void gather_ends(const struct rank_table *table, const struct step_grid *grid,
	const struct grid_instance *instance, struct host_ends *ends)
{
	for (size_t h = 0; h < table->host_count; h++)
		ends[h] = (struct host_ends){INT64_MIN, INT64_MAX, {0}, false};
	for (uint32_t m = 0; m < instance->member_count; m++) {
		const struct grid_cell *cell =
			&grid->cells[grid->members[instance->first_member + m]];
		struct host_ends *host = &ends[grid->rows[cell->row].host];

		host->present = true;
		host->time = cell->part->departure;
		if (cell->arrival_ns > host->last_arrival_ns)
			host->last_arrival_ns = cell->arrival_ns;
		if (cell->departure_ns < host->first_departure_ns)
			host->first_departure_ns = cell->departure_ns;
	}
}

/* The hosts nearest to the reference in this instance, taken together. */
static struct host_ends nearest_ends(const struct rank_table *table, const struct host_ends *ends,
	uint32_t *level, int64_t *error_ns)
{
	struct host_ends nearest = {INT64_MIN, INT64_MAX, {0}, false};

	*level = UINT32_MAX;
	*error_ns = 0;
	for (size_t h = 0; h < table->host_count; h++) {
		const struct host_entry *host = &table->hosts[h];

		if (ends[h].present && (host->clock.fixed || host->clock_level) &&
			host->clock_level < *level)
			*level = host->clock_level;
	}
	for (size_t h = 0; h < table->host_count && *level != UINT32_MAX; h++) {
		const struct host_entry *host = &table->hosts[h];
		int64_t host_error_ns = clock_fit_error_ns(&host->clock);

		if (!ends[h].present || !(host->clock.fixed || host->clock_level) ||
			host->clock_level != *level)
			continue;
		nearest.present = true;
		if (ends[h].last_arrival_ns > nearest.last_arrival_ns)
			nearest.last_arrival_ns = ends[h].last_arrival_ns;
		if (ends[h].first_departure_ns < nearest.first_departure_ns)
			nearest.first_departure_ns = ends[h].first_departure_ns;
		if (host_error_ns > *error_ns)
			*error_ns = host_error_ns;
	}
	return nearest;
}

/* No departure before any arrival, in either direction. Returns true for the first bounds. */
static bool bound_host(struct host_entry *host, const struct host_ends *own,
	const struct host_ends *nearest, uint32_t level, int64_t error_ns)
{
	int64_t shown_ns = clock_fit_to_job(&host->clock, own->time).value - own->time.value;
	bool first = host->clock.bound_count == 0;

	if (host->clock.fixed || (host->clock_level && host->clock_level <= level))
		return false;
	host->clock_level = level + 1;
	clock_fit_bound(&host->clock, own->time,
		shown_ns + nearest->last_arrival_ns - own->first_departure_ns - error_ns,
		shown_ns + nearest->first_departure_ns - own->last_arrival_ns + error_ns);
	return first;
}

static bool fit_by_instance(struct rank_table *table, const struct step_grid *grid,
	const struct grid_instance *instance, struct host_ends *ends)
{
	uint32_t level;
	int64_t error_ns;
	bool first = false;

	gather_ends(table, grid, instance, ends);
	struct host_ends nearest = nearest_ends(table, ends, &level, &error_ns);
	for (size_t h = 0; nearest.present && h < table->host_count; h++) {
		if (ends[h].present)
			first |= bound_host(&table->hosts[h], &ends[h], &nearest, level, error_ns);
	}
	return first;
}

bool assembly_fit_clocks(struct assembly *assembly, const struct step_grid *grid)
{
	struct rank_table *table = assembly->table;
	struct host_ends *ends;
	bool first = false;

	if (table->host_count < 2)
		return false;
	ends = calloc(table->host_count, sizeof(*ends));
	if (!ends)
		return false; /* the clocks keep their fit; the next step tries again */
	for (size_t o = 0; o < grid->order_count; o++) {
		const struct grid_instance *instance = &grid->instances[grid->order[o]];

		if (!instance->complete || instance->same_host ||
			instance->waits_for != WAITS_FOR_ALL)
			continue;
		first |= fit_by_instance(table, grid, instance, ends);
	}
	free(ends);
	return first;
}
