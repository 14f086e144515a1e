/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose time delayed whom, within one job step. Compares each segment with its control (the
 * lower median of the same segment over peers), carries own lateness forward to the instance
 * where others had to wait for it, and splits each collective into wait and transfer. Formulas:
 * docs/analysis.md. One thread.
 */
#ifndef SLOWRANK_ANALYSIS_ATTRIBUTE_BLAME_H
#define SLOWRANK_ANALYSIS_ATTRIBUTE_BLAME_H

#include "analysis/base/arena.h"
#include "analysis/base/clamp.h"
#include "analysis/join/align.h"

/*
 * What an excess is made of. COMPUTE is the rest that no other one explains: time on the CPU where
 * the CPU does the work, time on the device where that is what the parts show. HOST_CPU: the host's
 * own time on the CPU, where the work is the device's.
 */
enum excess_kind {
	EXCESS_COMPUTE = 0,
	EXCESS_PREEMPTED = 1,
	EXCESS_THROTTLED = 2,
	EXCESS_BLOCK_IO = 3,
	EXCESS_ASLEEP = 4,
	EXCESS_MAJOR_FAULT = 5,
	EXCESS_MINOR_FAULT = 6,
	EXCESS_HOST_CPU = 7,
	EXCESS_COLLECTOR = 8, /* garbage collection */
	EXCESS_NR
};

/* One rank in one step. All in ns. */
struct blame_row {
	int64_t delay_ns;      /* own excess that made others wait */
	int64_t charged_ns;    /* the judge's: what of it counts against the rank */
	int64_t comm_delay_ns; /* own late departure from collectives that did */
	int64_t own_excess_ns; /* own segments minus their controls, summed with sign */
	int64_t inherited_ns;  /* late because it had waited */
	int64_t wait_ns, transfer_ns;
	int64_t own[EXCESS_NR];	    /* what its segments (and holds) were made of */
	int64_t control[EXCESS_NR]; /* the same of its controls */
	int64_t minor_faults, control_minor_faults;
	int64_t past_ns; /* of alone: by how much it exceeds its past, beyond what the kernel says */
	bool judged;	 /* it had peers, and no hole */
	bool alone; /* it has none: its host is held against what the kernel says of it, and its past */
	bool on_device;	 /* its work is a device's */
	bool host_times; /* and only the host's times are known */
	bool unjoined;	 /* of some of these parts nobody knows whom it met */
};

/* One instance's transfer, for the comparison with its own past, and with others of its kind. */
struct blame_transfer {
	uint64_t shape; /* hash of communicator, operation, length */
	uint64_t kind;	/* of other communicators too: operation, length, members, on one host? */
	int64_t transfer_ns; /* lower median over members, holds taken out, lag of the last added */
	uint32_t instance;
};

/* Per cell, for the what-if replay. */
struct blame_cell {
	int64_t control_ns;    /* the control's own time */
	uint32_t control_cell; /* GRID_NONE: no peers */
	int64_t most_ns;       /* in a replay its own time is not more: see CELL_QUEUED */
};

/* The control of one position: what peers' cells there are compared with. */
struct blame_control {
	int64_t control_ns;
	int64_t own_ns; /* of the cell */
	uint32_t cell;
	bool plain;	     /* nothing is known of what the cell's segment is made of */
	bool queued;	     /* the cell is: CELL_QUEUED */
	int64_t measured_ns; /* the same of the peers' cells that are not queued, or control_ns */
};

/*
 * Per member of an instance, of rows that are not overlapped: what its row does before it, since its
 * last instance.
 */
struct blame_lead {
	int64_t own_ns, control_ns; /* segments, and their controls */
};

enum blame_mixed {
	MIXED_ACTIVITY = 1 << 0, /* it is known what segments, or their controls, are made of */
	MIXED_OPAQUE = 1 << 1,	 /* some is opaque */
};

/* Per member of an instance: how its time inside is split. */
struct blame_share {
	int64_t wait_ns, transfer_ns;
};

/* Per instance: what its members' leads and shares are reckoned from, where they are not kept. */
struct blame_meeting {
	int64_t last_arrival_ns, last_departure_ns;
	int64_t shortest_call_ns; /* by duration */
	uint32_t control;	  /* of its members' segments; GRID_NONE: leads are kept */
	bool by_duration;	  /* the clocks are too uncertain: shortest communication decides */
	bool kept;		  /* shares are */
	bool lagged;		  /* some of lags is not 0 */
};

struct blame_column_meeting;
struct blame_past;

/* What holds for the step. */
struct blame_traits {
	bool incomplete;     /* some instance lacked members, or calls made none at all */
	bool in_order;	     /* no instance is left out of the grid's order */
	bool alike;	     /* the grid is, all rows have peers: leads are not kept */
	bool opaque;	     /* some time is, or may be */
	bool several_groups; /* some instance by the hosts' times is not of all rows */
	bool suspected; /* the caller's: some rank may be at fault, so that this is nobody's past */
};

struct blame {
	struct arena arena;		/* of all that is of one step */
	struct blame_row *rows;		/* as grid rows */
	struct blame_cell *cells;	/* as grid cells, of overlapped rows; see blame_cell_of() */
	struct blame_meeting *meetings; /* as grid instances */
	struct blame_lead *leads;	/* as grid members; see blame_lead_own_ns() */
	uint8_t *mixed;			/* as grid members: enum blame_mixed, of leads */
	int64_t *
		opaque_ns; /* likewise, where mixed says so: calls that are no cells, and cells that join
	                       nothing */
	struct blame_share *shares; /* as grid members; see blame_transfer_ns() */
	int64_t *
		holds; /* likewise, where held: off-CPU inside after the last arrival, more than the
	                   others */
	int64_t *lags; /* likewise, where lagged: so late for having left their last one late */
	struct blame_transfer *transfers;
	size_t transfer_count;
	struct blame_carry *carries; /* by rank, from step to step */
	uint8_t *peers;		     /* by rank: it had some of late, up to PEERS_MEMORY */
	struct blame_past *past;     /* of ranks without; NULL: there is none */
	size_t carry_capacity, peers_capacity;
	struct blame_tally *tallies;		      /* as rows */
	struct blame_column_meeting *column_meetings; /* room for all of a grid that is alike */
	struct blame_control *controls;		      /* by group of peers, and in it by position */
	uint32_t *row_controls; /* as rows: the first control of its peers; GRID_NONE: no peers */
	int64_t *scratch;	/* values to take medians of, and room to do so */
	uint32_t *cursors;	/* per row: cells taken so far */
	uint8_t *held;		/* as grid instances: some hold in it is not 0 */
	struct blame_traits traits;
};

void blame_init(struct blame *blame);
void blame_fini(struct blame *blame);

/* Fills rows, cells and transfers from a linked grid. Returns 0 or -ENOMEM. */
int blame_step(struct blame *blame, const struct step_grid *grid)
	__attribute__((warn_unused_result));

/*
 * After blame_step(): a transfer took hold_ns longer for all since its instance's member m was kept from running,
 * though it was not inside of the call itself: what moves its data are other threads of its process.
 */
void blame_hold(struct blame *blame, const struct step_grid *grid, uint32_t instance, uint32_t m,
	int64_t hold_ns);

static inline int64_t blame_opaque_ns(const struct blame *blame, uint32_t member)
{
	return blame->mixed[member] & MIXED_OPAQUE ? blame->opaque_ns[member] : 0;
}

/* What an instance's member of that number did before it: own_ns, and control_ns, of its lead. */
static inline int64_t blame_lead_own_ns(const struct blame *blame, const struct step_grid *grid,
	const struct blame_meeting *meeting, uint32_t member)
{
	return meeting->control == GRID_NONE ? blame->leads[member].own_ns : grid->own_ns[member];
}

static inline int64_t blame_lead_control_ns(
	const struct blame *blame, const struct blame_meeting *meeting, uint32_t member)
{
	return meeting->control == GRID_NONE ? blame->leads[member].control_ns
					     : blame->controls[meeting->control].control_ns;
}

/* The longest transfer, where they are not kept. */
static inline int64_t blame_longest_transfer_ns(const struct blame_meeting *meeting)
{
	return meeting->by_duration
		       ? meeting->shortest_call_ns
		       : larger(meeting->last_departure_ns - meeting->last_arrival_ns, 0);
}

/* The part of its time inside that was not waiting. */
static inline int64_t blame_transfer_ns(const struct blame *blame, const struct step_grid *grid,
	const struct blame_meeting *meeting, uint32_t member)
{
	int64_t after_ns = grid->departure_ns[member] - meeting->last_arrival_ns;

	if (meeting->kept)
		return blame->shares[member].transfer_ns;
	if (meeting->by_duration)
		return meeting->shortest_call_ns;
	return after_ns > 0 ? after_ns : 0;
}

/* The control of a cell whose row has peers and is not overlapped. */
static inline uint32_t blame_control_of(
	const struct blame *blame, const struct step_grid *grid, uint32_t c)
{
	uint32_t row = grid->cells[c].row;

	return blame->row_controls[row] + c - grid->rows[row].first_cell;
}

/*
 * Asks for what the instances after a place of the order need. Their cells lie far apart: without a look ahead,
 * a pass over a large pipeline waits for memory most of the time. Inlined by force: compilers leave out
 * calls of functions that return nothing and only prefetch.
 */
static inline __attribute__((always_inline)) void blame_fetch_ahead(
	const struct blame *blame, const struct step_grid *grid, size_t o)
{
	enum { CELLS_AHEAD = 8, INSTANCES_AHEAD = 24, MEMBERS_MAX = 8 };
	const struct grid_instance *instance;

	if (!grid->traits.overlapped || o + INSTANCES_AHEAD >= grid->order_count)
		return;
	instance = &grid->instances[grid->order[o + INSTANCES_AHEAD]];
	__builtin_prefetch(instance);
	instance = &grid->instances[grid->order[o + 2 * CELLS_AHEAD]];
	__builtin_prefetch(&grid->members[instance->first_member]);
	__builtin_prefetch(&grid->member_parts[instance->first_member]);
	__builtin_prefetch(&blame->shares[instance->first_member]);
	instance = &grid->instances[grid->order[o + CELLS_AHEAD]];
	for (uint32_t m = 0; m < instance->member_count && m < MEMBERS_MAX; m++) {
		uint32_t c = grid->members[instance->first_member + m];

		__builtin_prefetch(&grid->cells[c]);
		__builtin_prefetch(&grid->cells[c].row);
		__builtin_prefetch(&grid->places[c]);
		if (grid->traits.in_turn)
			continue;
		__builtin_prefetch(&grid->by_departure[c]);
		__builtin_prefetch(&blame->cells[c]);
	}
}

/* What a cell is compared with. */
static inline struct blame_cell blame_cell_of(
	const struct blame *blame, const struct step_grid *grid, uint32_t c)
{
	const struct grid_cell *cell = &grid->cells[c];
	const struct grid_row *row = &grid->rows[cell->row];

	if (row->overlapped)
		return blame->cells[c];
	if (blame->row_controls[cell->row] == GRID_NONE)
		return (struct blame_cell){grid_own_ns(grid, c), GRID_NONE, INT64_MAX};
	const struct blame_control *control = &blame->controls[blame_control_of(blame, grid, c)];

	return (struct blame_cell){control->control_ns, control->cell, INT64_MAX};
}

#endif
