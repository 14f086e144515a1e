/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step with several streams as it is laid out for replays: what whatif_streams.c and whatif_turns.c share.
 * One thread.
 */
#ifndef SLOWRANK_ANALYSIS_ATTRIBUTE_WHATIF_STREAMS_INTERNAL_H
#define SLOWRANK_ANALYSIS_ATTRIBUTE_WHATIF_STREAMS_INTERNAL_H

#include "analysis/attribute/whatif.h"

/* What of a cell a replay needs; in the order in which they start. */
struct stream_cell {
	int64_t own_ns, healed_ns; /* its own time, as it was and like its control */
	int64_t opaque_ns;
	int64_t alone_ns; /* it ends so long after its start, whatever others do */
	uint32_t row;
	uint32_t first_need; /* the row's work waits for these before; up to the next one's */
	uint32_t behind;     /* the one before it in its stream, which was over; GRID_NONE */
	uint32_t queue;	     /* CELL_BEHIND: its own time counts from when that one was ready */
	uint32_t control;    /* cell of the grid; GRID_NONE */
	bool works;	     /* the row's work is among the cells */
};

/*
 * The same of a cell of a grid that is in turn: what it waits for in its row is what the row did last. It has an
 * end of its own where its row goes on before its instance ends.
 */
struct stream_turn {
	int64_t own_ns, healed_ns;
	int64_t opaque_ns;
	int64_t alone_ns;
	uint32_t row;
	uint32_t end;	 /* GRID_NONE: the row's */
	uint32_t member; /* of the grid */
};

/* What a member waits for; it stays for fixed_ns after that, and for what its transfer is now. */
enum stream_wait {
	STREAM_NOBODY = 0,
	STREAM_LAST = 1,
	STREAM_ROOT = 2,
	STREAM_MESSAGE = 3, /* it is there so long after it was sent */
	STREAM_GONE = 4,    /* it has ended: a send that was copied away */
};

struct stream_member {
	int64_t fixed_ns, transfer_ns;
	int64_t late_ns; /* of one that is doubtful: after the last that is not */
	uint32_t end;	 /* into ends */
	uint8_t waits_for;
	bool root, doubtful;
};

struct stream_instance {
	uint32_t instance;
	uint32_t started; /* so many cells have, before it ends */
	uint32_t first_member, member_count;
	bool doubtful; /* some members are, some are not */
};

struct stream_layout {
	bool in_turn; /* the grid is: there are turns, not cells */
	struct stream_turn *turns;
	struct stream_cell *cells; /* and one more, that ends the last one's needs */
	uint32_t *grid_cells;	   /* as cells: which of the grid they are */
	uint32_t *places;	   /* by cell of the grid: its end */
	uint32_t *needs, *last;	   /* stream cells; last: those that no other one needs */
	uint8_t *needed;	   /* as cells */
	int64_t *ends;	/* likewise; in turn: by row, then of those with one of their own */
	int64_t *ready; /* as cells: when the row's work came to it */
	struct stream_member *members;
	struct stream_instance *instances;
	uint32_t *started, *ended; /* by row */
	size_t cell_count, need_count, last_count, member_count, instance_count;
	size_t end_count; /* in turn */
};

static inline void raise(int64_t *value, int64_t least)
{
	if (*value < least)
		*value = least;
}

/*
 * Of a grid in turn: lays a row's cells up to and including `until`; at: that one's place among the members, or
 * GRID_NONE.
 */
void whatif_turns_lay(struct stream_layout *layout, const struct step_grid *grid,
	const struct blame *blame, uint32_t r, uint32_t until, uint32_t at);
/* Their replay: before the first one; from one up to another; after the last one. */
void whatif_turns_begin(struct whatif *whatif, const struct step_grid *grid);
void whatif_turns_start(struct whatif *whatif, const struct step_grid *grid,
	const struct blame *blame, size_t from, size_t until);
void whatif_turns_end(struct whatif *whatif, const struct step_grid *grid);

#endif
