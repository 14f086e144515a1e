/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One job step as a grid: a row of cells per rank (its blocking collectives, in its order), and
 * the instances that join cells of several ranks. Built for one step, then cleared and reused,
 * so that steady state takes no memory. One thread.
 */
#ifndef SLOWRANK_ANALYSIS_JOIN_ALIGN_H
#define SLOWRANK_ANALYSIS_JOIN_ALIGN_H

#include "analysis/base/arena.h"
#include "analysis/base/step.h"

#define GRID_NONE UINT32_MAX

enum grid_cell_flag {
	CELL_LOCAL = 1 << 0, /* no communication: its length is the rank's own work */
	CELL_ASYNC = 1 << 1, /* the rank's work goes on while it lasts */
	CELL_QUEUED =
		1 << 2,	     /* it began when its stream was free: when it was ready is not known */
	CELL_ALONE = 1 << 3, /* a send that left before the receiver came */
	CELL_RECKONED = 1 << 4, /* queued, and its own time is what is usual there */
	CELL_LAST = 1 << 5,	/* of its stream in the step */
	CELL_BEHIND = 1 << 6,	/* reckoned from when the one before it in its stream was ready */
	CELL_TOGETHER = 1 << 7, /* of a row in turn: another of its row was posted with it */
};

/* No activity at all: what the pointers of a grid point to where there is none. */
extern const struct activity activity_none;

/* One rank's part of one instance, with the segment before it. */
struct grid_cell {
	const struct part_kind *part;  /* the grid's own where the cell may be filled again */
	int64_t opaque_ns;	       /* point-to-point and completion calls in that segment */
	const struct activity *own;    /* off-CPU times and faults of the segment */
	const struct activity *inside; /* and of the call */
	uint32_t row;		       /* index into rows */
	uint32_t instance;  /* index into instances; GRID_NONE: its communicator is not known */
	uint32_t own_index; /* rank within the communicator; STEP_RANK_UNKNOWN */
	uint8_t flags;	    /* enum grid_cell_flag */
	uint8_t lane;	    /* of an overlapped row: its stream, numbered alike on all peers */
	bool host_queued; /* its host waited for room in its device's queue: without that it took its own time */
};

/* Where a cell of an overlapped grid stands among those of its row. */
struct cell_stream {
	uint32_t
		needs; /* so many of the row's cells, in order of departure, ended before it came */
	/* Of an overlapped row: the cell before it in its lane; of shown work: the message that it
	 * waits for; or GRID_NONE. */
	uint32_t before;
};

/*
 * A cell's times on the job's clock, as the grid was made. Once it is linked, what they are is in its columns
 * (grid_own_ns() and its like), and only overlapped rows are asked for these.
 */
struct cell_times {
	int64_t arrival_ns, departure_ns;
	int64_t own_ns; /* the segment before it, without point-to-point waits */
};

/* What a rank's own entries say of their time, summed. */
struct row_phases {
	int64_t input_ns, compute_ns, host_ns, comm_ns;
};

struct grid_row {
	uint32_t rank;
	uint32_t first_cell, cell_count;
	uint64_t layout; /* hash of its operations: rows with equal layouts are peers */
	uint64_t
		calls; /* the caller's hash of all that its cells are made from but times; 0: none */
	int64_t start_ns, end_ns;
	int64_t clock_error_ns;
	int64_t host_to_job_ns; /* job time - host time, at its start */
	uint32_t host;
	struct step_launches launches; /* of entries that end in this step */
	struct row_phases phases;      /* likewise */
	int64_t own_ns;		       /* of all its cells; not of overlapped rows */
	bool hole;		       /* its parts are not all here */
	bool start_unknown; /* it is not known when its last part before this step ended: the wait in a part
	                that was lost may lie before its start */
	bool plain; /* not overlapped, each cell joins, and of their segments only own_ns is known */
	bool in_turn; /* not overlapped, but it sends or receives: its calls block, one after the other */
	bool bare;  /* plain, without a hole, and nothing is known of what was inside its calls */
	bool first; /* of some instance's members */
	bool overlapped; /* several streams, or work of its own: segments.c */
	bool works;	 /* overlapped, and its work is among the cells */
};

struct grid_instance {
	uint64_t communicator_id, sequence;
	uint64_t length_bytes;
	uint32_t first_member, member_count; /* into members */
	uint32_t size;			     /* members it should have; 0 = unknown */
	int32_t root;
	int64_t clock_error_ns; /* worst of its members' rows */
	uint32_t host;		/* of its first member */
	uint8_t operation, waits_for;
	bool mixed;	/* members call different operations */
	bool complete;	/* every member is here */
	bool usable;	/* most are, and they agree on what it is: lateness among them counts */
	bool same_host; /* all members: no clock error between them */
	bool reckoned; /* the times of some member are what the others tell: its transfer says nothing */
	bool again;  /* it has the members of the instance before it in order */
	bool inside; /* there was activity inside some member's call */
};

enum grid_member_flag {			/* beside those of its cell */
	MEMBER_INSIDE = 1 << 8,		/* there was activity inside the call */
	MEMBER_OVERLAPPED = 1 << 9,	/* of an overlapped row */
	MEMBER_HOLE = 1 << 10,		/* of a row with a hole */
	MEMBER_START_UNKNOWN = 1 << 13, /* of a row whose start is not known */
	MEMBER_DEVICE_TIME = 1 << 11,
	MEMBER_HOST_TIME = 1 << 12,
	MEMBER_IN_TURN = 1 << 14, /* of a row in turn */
};

/*
 * What is looked at member by member, kept by instance: at 100,000 ranks each cell of an instance
 * lies on a page of its own. So are times, in columns of their own.
 */
struct grid_member {
	uint32_t row;
	uint32_t flags; /* enum grid_cell_flag, enum grid_member_flag */
};

/* What a grid is a grid of. */
struct grid_step {
	uint64_t number; /* the job step */
	uint32_t flags;	 /* enum step_flag of the reference rank */
	uint64_t signature;
	int64_t start_ns, end_ns; /* from the cut before to this cut */
	int64_t clock_error_ns;	  /* worst between two hosts in it */
	/* The program's step that it is, or is one of several rounds of: then all of these are known when the last one ends. */
	uint64_t of_program;
	uint32_t round_count;
	bool ends_program;
	int64_t known_ns;
};

/* What holds for all of it, or for some of it. */
struct grid_traits {
	bool alike;	 /* all instances are, all cells join, nothing is overlapped */
	bool overlapped; /* some row is, or is in turn */
	bool in_turn; /* no row is overlapped, or meets itself; some are in turn; all cells join */
	bool device_time; /* some part has */
	bool host_time;	  /* some part has the host's times in place of its device's */
	bool untimed;	  /* some row's parts were seen by their enqueue times alone */
	bool linked;
};

/* How it is made, and made again: align.c and assembly_repeat.c. */
struct grid_making {
	size_t cell_capacity, time_capacity, row_capacity, instance_capacity;
	uint32_t *table; /* hash: instance + 1, 0 = free */
	size_t table_capacity;
	struct arena arena;	 /* what was linked, and what calls are; until it is cleared */
	struct arena activities; /* sums of them */
	struct arena passing;	 /* while it is linked */
	uint32_t *scratch;	 /* of these */
	struct beside_places
		*beside;   /* what is known of places, from step to step: segments_beside.h */
	uint64_t repeats;  /* how often it was filled again since it was cleared */
	bool errors_moved; /* rows' clock errors are others than in the step that it repeats */
};

struct step_grid {
	struct grid_step step;
	struct grid_traits traits;
	size_t cell_count, row_count, instance_count, order_count;
	struct grid_cell *cells;  /* row by row */
	struct cell_times *times; /* as cells; NULL once the grid was filled again */
	struct grid_row *rows;	  /* by rank */
	struct grid_instance *instances;
	size_t member_end; /* of members: there are gaps between instances */
	/* Cell indices, grouped by instance (of overlapped grids: in order), by rank; then those that join nothing. */
	uint32_t *members;
	struct grid_member *member_parts;	     /* as members */
	int64_t *arrival_ns, *departure_ns, *own_ns; /* as members: their cells' times */
	uint32_t *places;			     /* per cell: its index in members */
	uint32_t *order; /* instances, so that each comes after all that its members did before */
	/* Of overlapped rows, by row: cells in order of departure; by stream and then arrival; and in the
	 * order in which peers are compared. Elsewhere all are the cells' own order. */
	uint32_t *by_departure, *by_stream, *by_place;
	struct cell_stream *streams; /* as cells; of overlapped grids alone */
	struct grid_making making;
};

void grid_init(struct step_grid *grid);
void grid_fini(struct step_grid *grid);
void grid_clear(struct step_grid *grid);

/* Adds a row; ranks in ascending order. */
int grid_add_row(struct step_grid *grid, uint32_t rank, uint32_t host, int64_t start_ns,
	int64_t clock_error_ns) __attribute__((warn_unused_result));

/* A part on its way into the grid. What it points to must outlive the grid's use. */
struct grid_part {
	const struct part_kind *kind;
	const struct activity *before; /* of the segment: more than the part's own when enqueue-only
	                                  parts lie between */
	const struct activity *inside;
	uint64_t sequence;
	int64_t arrival_ns;
	int64_t call_ns;    /* from arrival to departure */
	int64_t segment_ns; /* from the departure before to the arrival */
	uint32_t size;	    /* of its communicator; 0 = unknown */
	uint32_t own_index; /* of the rank in it; STEP_RANK_UNKNOWN */
	bool joined;	    /* its communicator and sequence are known */
	bool reckoned;	    /* its times are what others tell of it */
};

/*
 * A send and its receive have a communicator of their own: one direction between two ranks. own_index: the part's rank
 * within the communicator.
 */
uint64_t grid_pair_key(const struct part_kind *part, uint32_t own_index);

/* Adds a part to the last row. Returns 0 or -ENOMEM. */
int grid_add_part(struct step_grid *grid, const struct grid_part *part)
	__attribute__((warn_unused_result));

/*
 * The sum of two activities, kept until the grid is cleared; NULL without memory. Either is
 * returned as it is where the other is activity_none.
 */
const struct activity *grid_sum_activities(struct step_grid *grid, const struct activity *one,
	const struct activity *other) __attribute__((warn_unused_result));

static inline struct cell_times *grid_times_of(
	const struct step_grid *grid, const struct grid_cell *cell)
{
	return &grid->times[cell - grid->cells];
}

static inline struct cell_stream *grid_stream_of(
	const struct step_grid *grid, const struct grid_cell *cell)
{
	return &grid->streams[cell - grid->cells];
}

/* So many of a row's cells, in order of departure, ended before one of them came. */
static inline uint32_t grid_ended_before(
	const struct step_grid *grid, const struct grid_row *row, uint32_t c)
{
	return row->overlapped ? grid->streams[c].needs : c - row->first_cell;
}

/* The cell at a place of a row, in the order in which peers are compared. */
static inline uint32_t grid_cell_at(
	const struct step_grid *grid, const struct grid_row *row, uint32_t position)
{
	return row->overlapped ? grid->by_place[row->first_cell + position]
			       : row->first_cell + position;
}

/* Joins the cells into instances and orders these. */
int grid_link(struct step_grid *grid) __attribute__((warn_unused_result));
/*
 * Parts of it, of align_members.c. Groups the members by instance, these in order as far as there is
 * one; within one, rows ascend, so ranks do. Large instances mostly have a power of two of members,
 * and rows are walked through all of them at once: the gap keeps these from falling into the same set
 * of a cache.
 */
void grid_place_members(struct step_grid *grid);
enum { GRID_GAP_MEMBERS_MIN = 64, GRID_MEMBER_GAP = 8 };
struct grid_member grid_member_of(const struct step_grid *grid, const struct grid_cell *cell);
/* Its last part, of align_order.c: fills in the order; scratch has room. */
void grid_order_instances(struct step_grid *grid);

static inline int64_t grid_own_ns(const struct step_grid *grid, uint32_t c)
{
	return grid->own_ns[grid->places[c]];
}

/* What members have of their row's flags in any grid. */
static inline uint32_t grid_row_flags(const struct grid_row *row)
{
	return (row->hole ? (uint32_t)MEMBER_HOLE : 0) |
	       (row->start_unknown ? (uint32_t)MEMBER_START_UNKNOWN : 0);
}

static inline int64_t grid_call_ns(const struct step_grid *grid, uint32_t c)
{
	return grid->departure_ns[grid->places[c]] - grid->arrival_ns[grid->places[c]];
}

/*
 * Nobody leaves a call that waits for all before the last one has entered. True where device times say otherwise;
 * *left_ns: when the first one left.
 */
bool grid_times_contradict(
	const struct step_grid *grid, const struct grid_instance *instance, int64_t *left_ns);

/* To be called when cells' times or flags were changed since: takes them over into member_parts. */
void grid_refresh_members(struct step_grid *grid);

#endif
