/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/assembly.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/assembly_internal.h"

void assembly_init(struct assembly *assembly, struct rank_table *table)
{
	memset(assembly, 0, sizeof(*assembly));
	assembly->table = table;
	assembly->oldest_ns = INT64_MAX;
	assembly->newest_ns = INT64_MIN;
	assembly->last_cut_ns = INT64_MIN;
}

void assembly_fini(struct assembly *assembly)
{
	free(assembly->scans);
	free(assembly->communicators);
}

int64_t assembly_job_ns(
	const struct assembly *assembly, const struct rank_entry *rank, struct host_ns time)
{
	return clock_fit_to_job(&assembly->table->hosts[rank->host].clock, time).value;
}

void assembly_note_entry(struct assembly *assembly, const struct packed_step *step)
{
	const struct rank_entry *rank = &assembly->table->ranks[step->rank];
	int64_t start_ns = assembly_job_ns(assembly, rank, step->start);
	int64_t end_ns = assembly_job_ns(assembly, rank, step->end);

	if (start_ns < assembly->oldest_ns)
		assembly->oldest_ns = start_ns;
	if (end_ns > assembly->newest_ns)
		assembly->newest_ns = end_ns;
}

static int reserve_scans(struct assembly *assembly)
{
	size_t capacity = assembly->table->rank_capacity;

	if (assembly->scan_capacity >= capacity)
		return 0;
	struct rank_scan *grown = realloc(assembly->scans, capacity * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	memset(grown + assembly->scan_capacity, 0,
		(capacity - assembly->scan_capacity) * sizeof(*grown));
	assembly->scans = grown;
	assembly->scan_capacity = capacity;
	return 0;
}

/* Drops parts of a rank that came too late: their job step is over. */
static void skip_old(struct assembly *assembly, uint32_t number)
{
	struct rank_entry *rank = &assembly->table->ranks[number];

	while (rank->entry_count) {
		const struct packed_step *entry = rank_entry_at(rank, 0)->entry;

		while (rank->part_head < entry->part_count &&
			assembly_job_ns(assembly, rank, entry->parts[rank->part_head].departure) <
				assembly->last_cut_ns) {
			rank->part_head++;
			rank->hole = true;
			assembly->scans[number].departed_valid = false;
		}
		if (rank->part_head < entry->part_count ||
			assembly_job_ns(assembly, rank, entry->end) > assembly->last_cut_ns)
			return;
		assembly_pop(assembly, rank);
	}
}

/* A row on its way into the grid: what lies between the parts that are added. */
struct row_builder {
	struct assembly *assembly;
	struct step_grid *grid;
	struct rank_entry *rank;
	const struct clock_fit *clock;
	uint32_t number;
	struct host_ns departed;
	size_t timed, untimed; /* parts */ /* from the last part */
	const struct activity *before;
};

/* What is known of a part's communicator. */
static void find_communicator(
	struct row_builder *builder, const struct packed_part *part, struct grid_part *added)
{
	uint64_t id = added->kind->communicator_id;
	struct rank_communicator *communicator;

	if (!id || !assembly_sequence(
			   builder->assembly, builder->number, added->kind, part, &added->sequence))
		return;
	communicator = rank_entry_communicator(builder->rank, id);
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

static int add_part(struct row_builder *builder, const struct packed_step *entry,
	const struct packed_part *part)
{
	int64_t segment_ns = part->arrival.value - builder->departed.value;
	int64_t arrival_ns = clock_fit_to_job(builder->clock, part->arrival).value;
	/* By the same clock as the next arrival: a long call drifts by more than the gap after it. */
	struct grid_part added = {
		.kind = packed_kind(entry, part),
		.inside = packed_activity(entry, part->inside),
		.arrival_ns = arrival_ns,
		.call_ns = clock_fit_to_job(builder->clock, part->departure).value - arrival_ns,
		.segment_ns = segment_ns > 0 ? segment_ns : 0,
		.own_index = STEP_RANK_UNKNOWN,
	};

	builder->before = grid_sum_activities(
		builder->grid, builder->before, packed_activity(entry, part->before));
	if (!builder->before)
		return -ENOMEM;
	if (added.kind->flags & PART_ENQUEUE_ONLY) {
		builder->untimed++;
		return 0;
	}
	builder->timed++;
	added.before = builder->before;
	find_communicator(builder, part, &added);
	builder->departed = part->departure;
	builder->before = &activity_none;
	return grid_add_part(builder->grid, &added);
}

static int add_parts(struct assembly *assembly, uint32_t number, struct step_grid *grid)
{
	struct rank_entry *rank = &assembly->table->ranks[number];
	struct rank_scan *scan = &assembly->scans[number];
	struct row_builder builder = {
		.assembly = assembly,
		.grid = grid,
		.rank = rank,
		.clock = &assembly->table->hosts[rank->host].clock,
		.number = number,
		.departed = scan->departed,
		.before = &activity_none,
	};
	bool departed_valid = scan->departed_valid && !rank->hole;
	bool hole = rank->hole;
	size_t at = rank->part_head;

	for (size_t e = 0; e < rank->entry_count && e <= scan->at.entry; e++, at = 0) {
		const struct packed_step *entry = rank_entry_at(rank, e)->entry;
		size_t end = e < scan->at.entry ? entry->part_count : scan->at.part;

		hole |= end > at && (entry->flags & STEP_INCOMPLETE);
		if (!departed_valid) {
			builder.departed = entry->start;
			departed_valid = true;
		}
		for (size_t p = at; p < end; p++) {
			int error = add_part(&builder, entry, &entry->parts[p]);

			if (error < 0)
				return error;
		}
	}
	scan->untimed = builder.untimed && !builder.timed;
	grid->untimed |= scan->untimed;
	/* When the last part before a stretch without times ended says nothing of what comes after. */
	grid->rows[grid->row_count - 1].hole = hole || (scan->was_untimed && builder.timed);
	return 0;
}

static int build_grid(struct assembly *assembly, struct step_grid *grid)
{
	const struct rank_table *table = assembly->table;
	int error = 0;

	grid_clear(grid);
	for (uint32_t r = 0; r < table->end && error == 0; r++) {
		const struct rank_entry *rank = &table->ranks[r];

		if (!rank->known || !assembly->scans[r].found || rank->entry_count == 0)
			continue;
		const struct packed_step *head = rank_entry_at(rank, 0)->entry;
		const struct clock_fit *clock = &table->hosts[rank->host].clock;
		struct host_ns start =
			rank->part_head ? head->parts[rank->part_head - 1].departure : head->start;
		int64_t error_ns = clock_fit_error_ns(clock);

		error = grid_add_row(
			grid, r, rank->host, clock_fit_to_job(clock, start).value, error_ns);
		if (error == 0) {
			grid->rows[grid->row_count - 1].host_to_job_ns =
				grid->rows[grid->row_count - 1].start_ns - start.value;
			error = add_parts(assembly, r, grid);
		}
		if (error_ns > grid->clock_error_ns)
			grid->clock_error_ns = error_ns;
	}
	return error < 0 ? error : grid_link(grid);
}

int assembly_next(struct assembly *assembly, bool finish, struct step_grid *grid)
{
	struct rank_table *table = assembly->table;
	int error = reserve_scans(assembly);

	if (error < 0)
		return error;
	if (assembly->newest_ns == INT64_MIN)
		return 0;
	if (table->known_count < table->world_size && !finish &&
		assembly->newest_ns - assembly->oldest_ns < ASSEMBLY_LAG_NS)
		return 0; /* the first steps wait for everyone */
	assembly_fix_clock(assembly);
	if (!assembly->cut.valid && !assembly_choose_cut(assembly, finish))
		return 0;
	if (!assembly_reach_cut(assembly, finish))
		return 0;
	error = build_grid(assembly, grid);
	if (error == 0 && assembly_fit_clocks(assembly, grid))
		error = build_grid(assembly, grid); /* the first bounds of a host: use them now */
	if (error < 0)
		return error;
	const struct rank_entry *leader = &table->ranks[assembly->cut.rank];
	const struct packed_step *entry = rank_entry_at(leader, assembly->cut.entry)->entry;

	grid->number = assembly->next_number++;
	grid->flags = entry->flags;
	grid->signature = entry->signature;
	grid->end_ns = assembly->cut.time_ns;
	grid->start_ns =
		assembly->last_cut_ns != INT64_MIN
			? assembly->last_cut_ns
			: assembly_job_ns(assembly, leader, rank_entry_at(leader, 0)->entry->start);
	return 1;
}

/* The head entry's parts below end are done. */
static void take_parts(struct assembly *assembly, uint32_t number, size_t end)
{
	const struct rank_entry *rank = &assembly->table->ranks[number];
	const struct packed_step *head = rank_entry_at(rank, 0)->entry;
	struct rank_scan *scan = &assembly->scans[number];

	if (!(head->part_flags & (PART_ENQUEUE_ONLY | PART_SEQUENCE_RELATIVE))) {
		if (end > rank->part_head) { /* nothing to remember but the last one's end */
			scan->departed = head->parts[end - 1].departure;
			scan->departed_valid = true;
		}
		return;
	}
	for (size_t p = rank->part_head; p < end; p++) {
		const struct part_kind *kind = packed_kind(head, &head->parts[p]);

		if (kind->flags & PART_ENQUEUE_ONLY)
			continue;
		scan->departed = head->parts[p].departure;
		scan->departed_valid = true;
		assembly_remember(assembly, number, kind, &head->parts[p]);
	}
}

/* Moves one rank's stream past the cut. */
static void advance_rank(struct assembly *assembly, uint32_t number)
{
	struct rank_entry *rank = &assembly->table->ranks[number];
	struct rank_scan *scan = &assembly->scans[number];

	if (scan->found) {
		for (; scan->at.entry > 0 && rank->entry_count; scan->at.entry--) {
			take_parts(assembly, number, rank_entry_at(rank, 0)->entry->part_count);
			assembly_pop(assembly, rank);
		}
		if (rank->entry_count) {
			take_parts(assembly, number, scan->at.part);
			rank->part_head = scan->at.part;
			if (rank->part_head == rank_entry_at(rank, 0)->entry->part_count)
				assembly_pop(assembly, rank);
		}
		rank->hole = false;
	}
	if (!scan->found || rank->lagging)
		skip_old(assembly, number);
	*scan = (struct rank_scan){.departed = scan->departed,
		.departed_valid = scan->departed_valid,
		.was_untimed = scan->untimed,
		.at.part = rank->entry_count ? rank->part_head : 0};
}

void assembly_advance(struct assembly *assembly)
{
	assembly->last_cut_ns = assembly->cut.time_ns;
	for (uint32_t r = 0; r < assembly->table->end; r++) {
		if (assembly->table->ranks[r].known)
			advance_rank(assembly, r);
	}
	for (uint32_t r = 0; r < assembly->table->end; r++)
		assembly_find_shifts(assembly, r);
	assembly->cut.valid = false;
	assembly->ready_rank = 0;
}
