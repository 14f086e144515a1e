/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks' streams up to the cut as the rows of a grid. Steps mostly repeat: assembly_repeat.c.
 */
#include <errno.h>

#include "analysis/join/assembly_internal.h"

/* A row on its way into the grid: what lies between the parts that are added. */
struct row_builder {
	struct assembly *assembly;
	struct step_grid *grid;
	struct rank_stream *rank;
	const struct clock_fit *clock;
	uint32_t number;
	struct host_ns departed; /* from the last part */
	size_t timed, untimed;	 /* parts */
	const struct activity *before;
};

/* What is known of a part's communicator. */
static void find_communicator(struct row_builder *builder, const struct packed_step *entry,
	size_t part, struct grid_part *added)
{
	uint64_t id = added->kind->communicator_id;
	struct rank_communicator *communicator;

	if (!id || !assembly_sequence(
			   builder->assembly, builder->number, entry, part, &added->sequence))
		return;
	communicator = stream_communicator(builder->rank, id);
	if (!communicator)
		return;
	added->joined = true;
	added->own_index = communicator->own_index;
	added->size = communicator->size;
	if (!added->size) {
		const struct communicator_entry *shared =
			assembly_communicator(builder->assembly, id);

		added->size = shared ? shared->member_count : 0;
	}
}

static int add_part(struct row_builder *builder, const struct packed_step *entry, size_t part)
{
	const struct packed_times *times = &entry->times[part];
	int64_t segment_ns = times->arrival.value - builder->departed.value;
	int64_t arrival_ns = clock_fit_to_job(builder->clock, times->arrival).value;
	/* By the same clock as the next arrival: a long call drifts by more than the gap after it. */
	struct grid_part added = {
		.kind = packed_kind(entry, part),
		.inside = packed_inside(entry, part),
		.arrival_ns = arrival_ns,
		.call_ns = clock_fit_to_job(builder->clock, times->departure).value - arrival_ns,
		.segment_ns = segment_ns > 0 ? segment_ns : 0,
		.own_index = STEP_RANK_UNKNOWN,
	};

	builder->before =
		grid_sum_activities(builder->grid, builder->before, packed_before(entry, part));
	if (!builder->before)
		return -ENOMEM;
	if (added.kind->flags & PART_ENQUEUE_ONLY) {
		builder->untimed++;
		return 0;
	}
	builder->timed++;
	added.before = builder->before;
	find_communicator(builder, entry, part, &added);
	builder->departed = times->departure;
	builder->before = &activity_none;
	return grid_add_part(builder->grid, &added);
}

static int add_parts(struct assembly *assembly, uint32_t number, struct step_grid *grid)
{
	struct rank_stream *rank = &assembly->streams->ranks[number];
	struct rank_scan *scan = &assembly->scans[number];
	struct row_builder builder = {
		.assembly = assembly,
		.grid = grid,
		.rank = rank,
		.clock = &assembly->streams->hosts[rank->host].clock,
		.number = number,
		.departed = scan->departed,
		.before = &activity_none,
	};
	bool departed_valid = scan->departed_valid && !rank->hole;
	bool hole = rank->hole;
	size_t at = rank->part_head;

	for (size_t e = 0; e < rank->entry_count && e <= scan->at.entry; e++, at = 0) {
		const struct packed_step *entry = stream_at(rank, e)->entry;
		size_t end = e < scan->at.entry ? entry->part_count : scan->at.part;

		hole |= end > at && (entry->flags & STEP_INCOMPLETE);
		if (!departed_valid) {
			builder.departed = entry->start;
			departed_valid = true;
		}
		for (size_t p = at; p < end; p++) {
			int error = add_part(&builder, entry, p);

			if (error < 0)
				return error;
		}
		if (end == entry->part_count)
			assembly_add_entry(&grid->rows[grid->row_count - 1], entry);
	}
	scan->untimed = builder.untimed && !builder.timed;
	grid->traits.untimed |= scan->untimed;
	/* When the last part before a stretch without times ended says nothing of what comes after. */
	grid->rows[grid->row_count - 1].hole = hole || (scan->was_untimed && builder.timed);
	grid->rows[grid->row_count - 1].start_unknown = !scan->departed_valid;
	return 0;
}

static int add_row(struct assembly *assembly, uint32_t r, struct step_grid *grid)
{
	const struct rank_stream *rank = &assembly->streams->ranks[r];
	const struct clock_fit *clock = &assembly->streams->hosts[rank->host].clock;
	struct host_ns start = assembly_row_start(rank, &assembly->scans[r]);
	int error = grid_add_row(grid, r, rank->host, clock_fit_to_job(clock, start).value,
		clock_fit_error_ns(clock));

	if (error < 0)
		return error;
	struct grid_row *row = &grid->rows[grid->row_count - 1];

	row->host_to_job_ns = row->start_ns - start.value;
	row->calls = assembly_layout_of(assembly, r);
	return add_parts(assembly, r, grid);
}

int assembly_build_grid(struct assembly *assembly, struct step_grid *grid)
{
	const struct rank_streams *streams = assembly->streams;
	int error = 0;

	if (assembly_grid_repeats(assembly, grid)) {
		assembly_repeat_grid(assembly, grid);
		return 0;
	}
	grid_clear(grid);
	for (uint32_t r = 0; r < streams->end && error == 0; r++) {
		if (assembly_has_row(assembly, r))
			error = add_row(assembly, r, grid);
	}
	assembly->grid_announcements = assembly->announcements;
	return error < 0 ? error : grid_link(grid);
}
