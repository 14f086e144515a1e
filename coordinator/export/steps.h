/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of the program as they are exported: those that are judged as several rounds are put together again, and
 * what each rank had in steps is summed. Memory: of one step, and of one row for each rank. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_EXPORT_STEPS_H
#define SLOWRANK_COORDINATOR_EXPORT_STEPS_H

#include "analysis/join/align.h"
#include "analysis/judge/judge.h"

enum export_known {
	EXPORT_KNOWS_CALLS =
		1 << 0, /* wait_ns, transfer_ns, inherited_ns: its collectives have times */
	EXPORT_KNOWS_DELAY = 1 << 1, /* own_delay_ns */
};

/* One rank in one step. Times of the epoch. */
struct export_rank_step {
	uint32_t rank;
	uint32_t rounds; /* that it is made of */
	uint32_t known;	 /* enum export_known */
	int64_t start_ns, end_ns;
	struct row_phases phases;
	int64_t wait_ns, transfer_ns, own_delay_ns, inherited_ns;
};

struct export_step {
	uint32_t stretch; /* of batches: behind each gap another one begins */
	uint64_t number;
	int64_t start_ns, end_ns; /* of the epoch */
	bool judged, irregular;
	size_t row_count;
	const struct export_rank_step *rows; /* by rank */
};

/* What the steps had of a rank. */
struct export_rank_sum {
	struct row_phases phases;
	int64_t own_delay_ns, inherited_ns;
};

struct export_steps {
	int (*on_step)(void *context, const struct export_step *step); /* negative errno: no more */
	void *context;
	struct export_step step; /* that is open */
	bool open;
	struct export_rank_step *by_rank, *rows; /* of it; rows: when it has ended */
	size_t by_rank_capacity, row_capacity;
	uint32_t rank_end;
	struct export_rank_sum *sums; /* by rank */
	size_t sum_capacity;
};

/* Zero-initialised but for on_step and its context: no step yet. */
void export_steps_fini(struct export_steps *steps);

/* Adds a job step. Calls on_step when one of the program has ended. Returns 0, -ENOMEM, or what on_step did. */
int export_steps_add(struct export_steps *steps, const struct judged_step *judged,
	int64_t unix_offset_ns) __attribute__((warn_unused_result));

/* The stretch has ended: what is open is the last step; what comes next is of another stretch. */
int export_steps_end(struct export_steps *steps) __attribute__((warn_unused_result));

/* What the steps had of a rank; zero for one that was in none. */
struct export_rank_sum export_steps_sum(const struct export_steps *steps, uint32_t rank);

#endif
