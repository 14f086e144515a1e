/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is a rank's own time when its parts lie on several streams: which of them its work waits
 * for, and which go on beside it. Rows with one stream of blocking collectives need none of this.
 * Pure but for the grid; one thread.
 */
#ifndef SLOWRANK_ANALYSIS_JOIN_SEGMENTS_H
#define SLOWRANK_ANALYSIS_JOIN_SEGMENTS_H

#include "analysis/join/align.h"
#include "analysis/policy.h"

/*
 * Nothing is received before it was sent. Of a group of sends and receives, which is one kernel, NCCL tells when some
 * of it ended, so a receive that waited may look as if it had not: it ends when its send begins, or the next kernel of
 * its stream does. Before segments_settle(). Returns 0 or -ENOMEM.
 */
int segments_end_receives(struct step_grid *grid) __attribute__((warn_unused_result));

/*
 * Numbers the streams of every overlapped row, and puts cells that started together into the same
 * order on all rows. Before anything else knows where cells lie.
 */
void segments_settle(struct step_grid *grid);

/*
 * For every overlapped row of a grid whose cells are joined: the orders by departure and by
 * stream, what each cell had to wait for in its row, its flags, its own time, and the row's layout.
 * Returns 0 or -ENOMEM.
 */
int segments_find(struct step_grid *grid) __attribute__((warn_unused_result));

/*
 * Does the rank's work wait, before a cell, for one that ended? Not for what goes on beside it, but for
 * the last of it: what comes when all of another stream is done most likely needs it, as does what comes at
 * once. Where work is shown, for sends never, and for messages only where they are its input
 * (cell_stream.before).
 */
static inline bool segments_holds(const struct step_grid *grid, const struct grid_row *row,
	const struct grid_cell *ended, const struct grid_cell *cell)
{
	if (row->works)
		return ended->part->operation != OPERATION_SEND &&
		       ended->part->operation != OPERATION_RECEIVE;
	return !(ended->flags & CELL_ASYNC) ||
	       (ended->lane != cell->lane &&
		       ((ended->flags & CELL_LAST) ||
			       grid_times_of(grid, cell)->arrival_ns -
					       grid_times_of(grid, ended)->departure_ns <
				       TOGETHER_NS));
}

/* How much of a cell's time its rank did nothing else: from its last other cell's end on. */
int64_t segments_exposed_ns(const struct step_grid *grid, uint32_t c);

/*
 * When the last one came that a send or receive could wait for. Those that are posted together end
 * together, so the partners of all of them count.
 */
int64_t segments_last_partner_ns(const struct step_grid *grid, uint32_t c);

/*
 * What a rank received last before a cell of an overlapped row, in bytes: by the group of sends and receives of its device
 * that ended last before the cell came. 0: that was no such group, or one of sends.
 */
uint64_t segments_received_bytes(const struct step_grid *grid, uint32_t c);

#endif
