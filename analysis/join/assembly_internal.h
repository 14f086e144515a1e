/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the assembly share. One thread. */
#ifndef SLOWRANK_ANALYSIS_JOIN_ASSEMBLY_INTERNAL_H
#define SLOWRANK_ANALYSIS_JOIN_ASSEMBLY_INTERNAL_H

#include "analysis/join/assembly.h"

#include "analysis/policy.h"

int64_t assembly_job_ns(
	const struct assembly *assembly, const struct rank_stream *rank, struct host_ns time);
struct communicator_entry *assembly_communicator(const struct assembly *assembly, uint64_t id);
/*
 * What messages of one direction between two ranks are counted on; NULL where the pair is not known, a rank has too
 * many of them, or memory is short.
 */
struct rank_communicator *assembly_channel(
	struct assembly *assembly, uint32_t rank, const struct part_kind *kind);

/* The sequence number of a part, shifted; false while the shift of an attached rank is unknown. */
bool assembly_shifted_sequence(
	struct assembly *assembly, uint32_t rank, const struct part_kind *kind, uint64_t *sequence);
static inline bool assembly_sequence(struct assembly *assembly, uint32_t rank,
	const struct packed_step *step, size_t part, uint64_t *sequence)
{
	const struct part_kind *kind = packed_kind(step, part);

	*sequence = packed_sequence(step, part);
	return !(kind->flags & PART_SEQUENCE_RELATIVE) ||
	       assembly_shifted_sequence(assembly, rank, kind, sequence);
}
/* Remembers a part that was handed out; when all of a step are, the shifts are looked for. */
void assembly_remember(struct assembly *assembly, uint32_t rank, const struct part_kind *kind,
	const struct packed_times *times, uint64_t sequence);
void assembly_find_shifts(struct assembly *assembly, uint32_t rank);

/* Chooses the next cut from the leading rank's entries. False: not yet. */
bool assembly_choose_cut(struct assembly *assembly, bool finish);

/* What the program repeats, and all of it: where it has no collective, its end is a place to cut at. */
static inline bool assembly_is_cycle(const struct packed_step *entry)
{
	return entry->part_count &&
	       !(entry->flags & (STEP_WINDOW | STEP_IRREGULAR | STEP_INCOMPLETE));
}

/*
 * The place in an entry to cut at, from its part `from` on: the last collective of the widest
 * communicator. blocking: set when the entry has parts that tell of time spent. False: there is none.
 */
bool assembly_best_part(struct assembly *assembly, uint32_t rank, const struct packed_step *entry,
	size_t from, bool *blocking, size_t *best);
/*
 * How many job steps a leader's entry is: its rounds, where it is made of such; else 1. ends: the last part of
 * each, where there are several; room for ENTRY_CYCLES_MAX.
 */
uint32_t assembly_find_rounds(
	struct assembly *assembly, uint32_t rank, const struct packed_step *entry, uint16_t *ends);
/* The same of any rank's entry, where it can be cut into so many; false: it cannot. */
bool assembly_round_ends(struct assembly *assembly, uint32_t rank, const struct packed_step *entry,
	uint32_t round_count, uint16_t *ends);
/* The communicator's entry, remembered with the rank's; NULL when it was not announced. */
struct communicator_entry *assembly_shared(
	const struct assembly *assembly, struct rank_communicator *communicator);

/*
 * Makes the grid of what lies before the cut; fills the one of the step before again where that
 * repeats. Returns 0 or -ENOMEM.
 */
int assembly_build_grid(struct assembly *assembly, struct step_grid *grid)
	__attribute__((warn_unused_result));

/*
 * A part whose place in the rank's stream says nothing of others': by its enqueue time alone a host may run ahead of its
 * device. Where the device told of calls on its communicator before, the cut follows those that it does not tell of as well.
 */
static inline bool assembly_part_is_loose(struct rank_stream *rank, const struct part_kind *kind)
{
	const struct rank_communicator *communicator;

	if (!(kind->flags & PART_ENQUEUE_ONLY))
		return false;
	communicator = stream_communicator(rank, kind->communicator_id);
	return !communicator || !communicator->on_device || kind->flags & PART_SEQUENCE_RELATIVE ||
	       part_kind_is_message(kind);
}

/* What devices tell of calls before the cut, where some rank's does not tell all: assembly_untimed.c. */
struct timed_calls {
	struct timed_call *table; /* hash; NULL: all are told, or none */
	size_t capacity;
};
int assembly_note_timed_calls(struct assembly *assembly, struct arena *arena,
	struct timed_calls *calls) __attribute__((warn_unused_result));
/* A rank whose device told of calls before, and does not tell of some before the cut. */
bool assembly_falls_silent(const struct assembly *assembly, uint32_t rank);
/* Gives a part that was seen by its enqueue time alone the times that others tell of; false: nobody does. */
bool assembly_reckon(const struct timed_calls *calls, struct grid_part *part);

/*
 * Looks in a linked grid for calls whose device times are those of later calls (assembly_retold.c), and for the times that are theirs. Returns
 * 1 where the grid is to be made again with these; 0; or -ENOMEM.
 */
int assembly_retell(struct assembly *assembly, const struct step_grid *grid)
	__attribute__((warn_unused_result));
/* NULL: its times are its own. */
const struct retold_call *assembly_retold_call(const struct assembly *assembly, uint32_t rank,
	uint64_t communicator_id, uint64_t sequence);
/* The rank has such calls. */
bool assembly_is_retold(const struct assembly *assembly, uint32_t rank);
void assembly_retold_fini(struct retold_calls *retold);

/* Does the rank have something before the cut? */
bool assembly_has_row(const struct assembly *assembly, uint32_t rank);
/* The layout of what a rank has before the cut; 0: it is not one whole entry. */
uint64_t assembly_layout_of(const struct assembly *assembly, uint32_t rank);
/*
 * Where a rank's first segment begins: after its last part before the cut, for what it did from there to
 * the entry's start is its own, too. By the hosts' times, it is not known whose time that is.
 */
struct host_ns assembly_row_start(const struct rank_stream *rank, const struct rank_scan *scan);
/* An entry of the row ends before the cut. */
static inline void assembly_add_entry(struct grid_row *row, const struct packed_step *entry)
{
	row->phases.input_ns += entry->input_ns;
	row->phases.compute_ns += entry->compute_ns;
	row->phases.host_ns += entry->host_ns;
	row->phases.comm_ns += entry->comm_ns;
	if (entry->launches)
		step_launches_add(&row->launches, entry->launches);
}

/* The grid is of the step before, and this one has the same ranks with the same calls. */
bool assembly_grid_repeats(struct assembly *assembly, const struct step_grid *grid);
enum { GRID_TIMES_MAX = 64 }; /* cells of a row that are filled in at a time */
/* Fills in its times, and activities where there are any. */
void assembly_repeat_grid(struct assembly *assembly, struct step_grid *grid);

/* Cuts every rank; false: some have not delivered enough yet. */
bool assembly_reach_cut(struct assembly *assembly, bool finish);

/* Drops a rank's head entry, and takes its batch's stamps if nobody has. */
void assembly_pop(struct assembly *assembly, struct rank_stream *rank);
/* Fixes the reference host's clock, once. */
void assembly_fix_clock(struct assembly *assembly);
/* Feeds the clocks from a linked grid. Returns true when a host got its first bounds. */
bool assembly_fit_clocks(struct assembly *assembly, const struct step_grid *grid);

#endif
