/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/join/assembly.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/join/assembly_internal.h"

void assembly_init(struct assembly *assembly, struct rank_streams *streams)
{
	memset(assembly, 0, sizeof(*assembly));
	assembly->streams = streams;
	assembly->newest_ns = assembly->began_ns = INT64_MIN;
	assembly->last_cut_ns = INT64_MIN;
}

void assembly_fini(struct assembly *assembly)
{
	assembly_retold_fini(&assembly->retold);
	free(assembly->scans);
	free(assembly->communicators);
}

void assembly_note_entry(struct assembly *assembly, const struct packed_step *step)
{
	const struct rank_stream *rank = &assembly->streams->ranks[step->rank];
	int64_t end_ns = assembly_job_ns(assembly, rank, step->end);

	if (end_ns > assembly->newest_ns)
		assembly->newest_ns = end_ns;
}

/* Drops parts of a rank that came too late: their job step is over. */
static void skip_old(struct assembly *assembly, uint32_t number)
{
	struct rank_stream *rank = &assembly->streams->ranks[number];

	while (rank->entry_count) {
		const struct packed_step *entry = stream_at(rank, 0)->entry;

		while (rank->part_head < entry->part_count &&
			assembly_job_ns(assembly, rank, entry->times[rank->part_head].departure) <
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

int assembly_next(struct assembly *assembly, bool finish, struct step_grid *grid)
{
	struct rank_streams *streams = assembly->streams;
	int error = array_grow((void **)&assembly->scans, &assembly->scan_capacity,
		streams->rank_capacity, sizeof(*assembly->scans));

	if (error < 0)
		return error;
	if (assembly->newest_ns == INT64_MIN)
		return 0;
	if (assembly->began_ns == INT64_MIN)
		assembly->began_ns = assembly->newest_ns;
	if (streams->known_count < streams->world_size && !finish &&
		assembly->newest_ns - assembly->began_ns < ASSEMBLY_LAG_NS)
		return 0; /* the first steps wait for everyone */
	assembly_fix_clock(assembly);
	if (!assembly->cut.valid && !assembly_choose_cut(assembly, finish))
		return 0;
	if (!assembly_reach_cut(assembly, finish))
		return 0;
	error = assembly_build_grid(assembly, grid);
	if (error == 0 && assembly_fit_clocks(assembly, grid))
		error = assembly_build_grid(
			assembly, grid); /* the first bounds of a host: use them now */
	if (error < 0)
		return error;
	const struct rank_stream *leader = &streams->ranks[assembly->cut.rank];
	const struct packed_step *entry = stream_at(leader, assembly->cut.entry)->entry;

	grid->step.number = assembly->next_number++;
	assembly->next_step += assembly->cut.begins_step;
	grid->step.of_program = assembly->next_step - 1;
	grid->step.round_count = assembly->cut.round_count;
	grid->step.ends_program = assembly->cut.round + 1 == assembly->cut.round_count;
	grid->step.flags = entry->flags;
	grid->step.signature = entry->signature;
	grid->step.end_ns = assembly->cut.time_ns;
	grid->step.known_ns = assembly->cut.known_ns;
	grid->step.start_ns =
		assembly->last_cut_ns != INT64_MIN
			? assembly->last_cut_ns
			: assembly_job_ns(assembly, leader, stream_at(leader, 0)->entry->start);
	return 1;
}

/* The communicators of calls that the device told of. */
static void note_devices(struct rank_stream *rank, const struct packed_step *head, size_t end)
{
	if (!(head->part_flags & PART_DEVICE_TIME))
		return;
	rank->on_device = true;
	for (size_t p = rank->part_head; p < end; p++) {
		const struct part_kind *kind = packed_kind(head, p);
		struct rank_communicator *communicator =
			stream_communicator(rank, kind->communicator_id);

		if (communicator && kind->flags & PART_DEVICE_TIME)
			communicator->on_device = true;
	}
}

/* The head entry's parts below end are done. */
static void take_parts(struct assembly *assembly, uint32_t number, size_t end)
{
	struct rank_stream *rank = &assembly->streams->ranks[number];
	const struct packed_step *head = stream_at(rank, 0)->entry;
	struct rank_scan *scan = &assembly->scans[number];

	note_devices(rank, head, end);
	if (!(head->part_flags & (PART_ENQUEUE_ONLY | PART_SEQUENCE_RELATIVE))) {
		if (end > rank->part_head) { /* nothing to remember but the last one's end */
			scan->departed = head->times[end - 1].departure;
			scan->departed_valid = true;
		}
		return;
	}
	for (size_t p = rank->part_head; p < end; p++) {
		const struct part_kind *kind = packed_kind(head, p);

		if (kind->flags & PART_ENQUEUE_ONLY)
			continue;
		scan->departed = head->times[p].departure;
		scan->departed_valid = true;
		assembly_remember(
			assembly, number, kind, &head->times[p], packed_sequence(head, p));
	}
}

/* All of the head entry is done. */
static void end_entry(struct assembly *assembly, uint32_t number)
{
	struct rank_stream *rank = &assembly->streams->ranks[number];

	if (stream_at(rank, 0)->entry->flags & STEP_INCOMPLETE)
		assembly->scans[number].departed_valid = false; /* its last part may be lost */
	assembly_pop(assembly, rank);
}

/* Moves one rank's stream past the cut. */
static void advance_rank(struct assembly *assembly, uint32_t number)
{
	struct rank_stream *rank = &assembly->streams->ranks[number];
	struct rank_scan *scan = &assembly->scans[number];

	if (scan->found) {
		for (; scan->at.entry > 0 && rank->entry_count; scan->at.entry--) {
			take_parts(assembly, number, stream_at(rank, 0)->entry->part_count);
			end_entry(assembly, number);
		}
		if (rank->entry_count) {
			take_parts(assembly, number, scan->at.part);
			rank->part_head = scan->at.part;
			if (rank->part_head == stream_at(rank, 0)->entry->part_count)
				end_entry(assembly, number);
		}
		rank->hole = false;
	}
	if (!scan->found || rank->lagging)
		skip_old(assembly, number);
	*scan = (struct rank_scan){.departed = scan->reckoned ? scan->reckoned_end : scan->departed,
		.departed_valid = scan->departed_valid || scan->reckoned,
		.was_reckoned = scan->reckoned,
		.was_untimed = scan->untimed,
		.counted = scan->counted,
		.counted_from = scan->counted_from,
		.ahead = scan->ahead,
		.at.part = rank->entry_count ? rank->part_head : 0};
}

void assembly_advance(struct assembly *assembly)
{
	assembly->last_cut_ns = assembly->cut.time_ns;
	assembly->last_cut.given =
		assembly->scans[assembly->cut.rank].at.entry == assembly->cut.entry;
	for (uint32_t r = 0; r < assembly->streams->end; r++) {
		if (assembly->streams->ranks[r].known)
			advance_rank(assembly, r);
	}
	for (uint32_t r = 0; r < assembly->streams->end; r++)
		assembly_find_shifts(assembly, r);
	assembly->cut.valid = false;
	assembly->ready_rank = 0;
}
