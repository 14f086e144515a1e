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
	/* Where the rank fell silent: what others tell, and its parts until all are known. */
	const struct timed_calls *calls;
	struct grid_part *parts;
	size_t part_count;
	bool retold; /* some of them had the device times of other calls */
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

/* The same call as one that the device told of; NULL without memory. */
static const struct part_kind *kind_on_device(struct step_grid *grid, const struct part_kind *kind)
{
	struct part_kind *made = arena_take(&grid->making.arena, 1, sizeof(*made));

	if (!made)
		return NULL;
	*made = *kind;
	made->flags = (uint8_t)((kind->flags & ~PART_ENQUEUE_ONLY) | PART_DEVICE_TIME);
	return made;
}

/* A part whose device time is another call's gets its own, or what others tell. */
static void retell(struct row_builder *builder, struct grid_part *part)
{
	const struct retold_call *call =
		builder->retold && part->joined
			? assembly_retold_call(builder->assembly, builder->number,
				  part->kind->communicator_id, part->sequence)
			: NULL;

	if (!call)
		return;
	part->arrival_ns = call->arrival_ns;
	part->call_ns = call->departure_ns - call->arrival_ns;
	part->reckoned = !call->found;
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
		find_communicator(builder, entry, part, &added);
		if (!builder->parts || !assembly_reckon(builder->calls, &added)) {
			builder->untimed++;
			return 0;
		}
		added.kind = kind_on_device(builder->grid, added.kind);
		if (!added.kind)
			return -ENOMEM;
	} else {
		find_communicator(builder, entry, part, &added);
		retell(builder, &added);
		builder->departed = times->departure;
	}
	builder->timed++;
	added.before = builder->before;
	builder->before = &activity_none;
	if (!builder->parts)
		return grid_add_part(builder->grid, &added);
	builder->parts[builder->part_count++] = added;
	return 0;
}

/* The parts of a rank that fell silent, or told times of other calls, in order of arrival. */
static int add_reckoned(struct row_builder *builder, struct rank_scan *scan)
{
	struct grid_row *row = &builder->grid->rows[builder->grid->row_count - 1];
	int64_t departed_ns = row->start_ns;
	int error = 0;

	for (size_t i = 1; i < builder->part_count; i++) {
		struct grid_part part = builder->parts[i];
		size_t at = i;

		for (; at > 0 && builder->parts[at - 1].arrival_ns > part.arrival_ns; at--)
			builder->parts[at] = builder->parts[at - 1];
		builder->parts[at] = part;
	}
	for (size_t i = 0; i < builder->part_count && error == 0; i++) {
		struct grid_part *part = &builder->parts[i];
		int64_t segment_ns = part->arrival_ns - departed_ns;

		part->segment_ns = segment_ns > 0 ? segment_ns : 0;
		departed_ns = part->arrival_ns + part->call_ns;
		scan->reckoned = part->reckoned || builder->retold;
		scan->reckoned_end.value = departed_ns - row->host_to_job_ns;
		error = grid_add_part(builder->grid, part);
	}
	return error;
}

/* Room for the parts of a rank that fell silent, or told times of other calls. */
static int prepare_reckoning(struct row_builder *builder, const struct timed_calls *calls)
{
	size_t count = 0;

	builder->retold = assembly_is_retold(builder->assembly, builder->number);
	if (!builder->retold &&
		(!calls->table || !assembly_falls_silent(builder->assembly, builder->number)))
		return 0;
	for (size_t e = 0; e < builder->rank->entry_count &&
			   e <= builder->assembly->scans[builder->number].at.entry;
		e++)
		count += stream_at(builder->rank, e)->entry->part_count;
	builder->calls = calls;
	builder->parts =
		arena_take(&builder->grid->making.arena, count + 1, sizeof(*builder->parts));
	return builder->parts ? 0 : -ENOMEM;
}

static int add_parts(struct assembly *assembly, uint32_t number, const struct timed_calls *calls,
	struct step_grid *grid)
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
	int error = prepare_reckoning(&builder, calls);

	for (size_t e = 0; e < rank->entry_count && e <= scan->at.entry && error == 0;
		e++, at = 0) {
		const struct packed_step *entry = stream_at(rank, e)->entry;
		size_t end = e < scan->at.entry ? entry->part_count : scan->at.part;

		hole |= end > at && (entry->flags & STEP_INCOMPLETE);
		if (!departed_valid) {
			builder.departed = entry->start;
			departed_valid = true;
		}
		for (size_t p = at; p < end && error == 0; p++)
			error = add_part(&builder, entry, p);
		if (end == entry->part_count)
			assembly_add_entry(&grid->rows[grid->row_count - 1], entry);
	}
	scan->reckoned = false;
	if (error == 0)
		error = add_reckoned(&builder, scan);
	scan->untimed = builder.untimed && !builder.timed;
	grid->traits.untimed |= scan->untimed;
	/* When the last part before a stretch without times ended says nothing of what comes after. */
	grid->rows[grid->row_count - 1].hole = hole || (scan->was_untimed && builder.timed);
	grid->rows[grid->row_count - 1].start_unknown = !scan->departed_valid;
	return error;
}

static int add_row(struct assembly *assembly, uint32_t r, const struct timed_calls *calls,
	struct step_grid *grid)
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
	return add_parts(assembly, r, calls, grid);
}

static int make_grid(struct assembly *assembly, struct step_grid *grid)
{
	const struct rank_streams *streams = assembly->streams;
	struct timed_calls calls;
	int error;

	grid_clear(grid);
	error = assembly_note_timed_calls(assembly, &grid->making.arena, &calls);
	for (uint32_t r = 0; r < streams->end && error == 0; r++) {
		if (assembly_has_row(assembly, r))
			error = add_row(assembly, r, &calls, grid);
	}
	assembly->grid_announcements = assembly->announcements;
	return error < 0 ? error : grid_link(grid);
}

int assembly_build_grid(struct assembly *assembly, struct step_grid *grid)
{
	int error;

	assembly->retold.count = 0;
	if (assembly_grid_repeats(assembly, grid)) {
		assembly_repeat_grid(assembly, grid);
		return 0;
	}
	error = make_grid(assembly, grid);
	if (error == 0 && grid->traits.device_time) {
		error = assembly_retell(assembly, grid);
		if (error > 0)
			error = make_grid(assembly, grid);
	}
	return error;
}
