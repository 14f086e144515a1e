/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of segments share. A grid is one thread's at a time. */
#ifndef SLOWRANK_ANALYSIS_JOIN_SEGMENTS_INTERNAL_H
#define SLOWRANK_ANALYSIS_JOIN_SEGMENTS_INTERNAL_H

#include "analysis/base/hash.h"
#include "analysis/join/align.h"
#include "analysis/policy.h"

enum { BESIDE_MEMBERS_MAX = 16 }; /* of an instance that are looked at */

static inline int64_t segments_length_ns(const struct step_grid *grid, const struct grid_cell *cell)
{
	return grid_times_of(grid, cell)->departure_ns - grid_times_of(grid, cell)->arrival_ns;
}

static inline int64_t segments_later_ns(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/*
 * Where stages send to each other, hosts run far ahead, until no more launches fit into the queue of a device that waits
 * for another rank: then they wait as long. How long the device was in calls, and no host's time was taken for it yet; what is
 * left of a step, hosts may wait for in the next one.
 */
struct segments_waits {
	bool known; /* the row sends or receives by its device */
	int64_t left_ns, until_ns;
	int64_t of_step_ns;
};

static inline void segments_add_wait(struct segments_waits *waits, const struct cell_times *times)
{
	int64_t from_ns = segments_later_ns(times->arrival_ns, waits->until_ns);

	if (times->departure_ns <= from_ns)
		return;
	waits->left_ns += times->departure_ns - from_ns;
	waits->of_step_ns += times->departure_ns - from_ns;
	waits->until_ns = times->departure_ns;
}

/* A place of the host's, as its calls come; beside those of its device. */
static inline uint64_t segments_host_place(const struct grid_row *row, uint32_t i)
{
	return hash_mix(~row->layout, i);
}

/* A list of messages by what they are (segments_messages.c), and by sequence. */
void segments_sort_messages(struct step_grid *grid, uint32_t *list, uint32_t count);
/*
 * Puts the cells of each group of sends and receives, which are those that overlap on one stream of a device, in
 * that order: so the same one always has the work before them for its own.
 */
void segments_settle_groups(struct step_grid *grid, const struct grid_row *row);
/* Do two messages overlap on one stream? Then neither waits for the other, however little that is. */
bool segments_one_group(const struct step_grid *grid, uint32_t before, uint32_t c);

/*
 * A row that sends and receives is in turn when all of its cells join, and none came before the one before
 * it had ended. Then it needs no lists; else it is overlapped.
 */
void segments_settle_turn(const struct step_grid *grid, struct grid_row *row);
/* The layout, own times and flags of a row in turn. */
void segments_find_turn(struct step_grid *grid, struct grid_row *row);

/*
 * Each cell of an overlapped row beside the member of its instance that waited least, into grid->beside. Flags
 * of the row's cells are set.
 */
void segments_learn(struct step_grid *grid, const struct grid_row *row);

/* How long hosts took by themselves before each cell, and this one's device stayed in calls since the one before. */
void segments_learn_hosts(struct step_grid *grid, const struct grid_row *row);

#endif
