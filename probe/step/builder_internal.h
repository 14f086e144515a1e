/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a step builder: shared by the files of this room alone. */
#ifndef SLOWRANK_PROBE_STEP_BUILDER_INTERNAL_H
#define SLOWRANK_PROBE_STEP_BUILDER_INTERNAL_H

#include "analysis/steps/period.h"
#include "probe/step/builder.h"

enum {
	/* Finished steps that wait to be taken: as many as were held may come at once. */
	STEP_CUT_NR = STEP_PART_COUNT_MAX,
};

/* A finished step: the parts from the cut before it, and where it ends. */
struct step_cut {
	uint64_t end_position; /* parts before it, since creation */
	uint64_t index;
	uint32_t flags;
	bool timed; /* end and tail are given; else it ends with its last part */
	struct host_ns end;
	struct activity tail;
};

/* What comes with a part besides itself. */
struct step_part_context {
	struct activity others;
	struct step_launches launches;
	bool lost_before;
};

struct step_builder {
	uint32_t rank;
	size_t part_count_max;
	int64_t window_ns;
	struct period_detector *detector;

	/* Parts [head, tail) of the arrays are not taken yet; parts[head] is number first. */
	size_t capacity, head, tail;
	size_t touched; /* so many of the arrays were written to since they were got */
	struct collective_part *parts;
	struct step_part_context *contexts;
	uint64_t first;

	struct step_cut *cuts; /* ring of STEP_CUT_NR */
	size_t cut_first, cut_count;
	uint64_t cut_end; /* end_position of the newest cut: what is open starts there */
	uint64_t next_index;

	bool started;		      /* there was a part or a marker */
	struct host_ns taken_end;     /* end of the last step taken: start of the next */
	bool others_known;	      /* taken_others was set by a part */
	struct activity taken_others; /* running totals there */
	struct step_launches next_launches, taken_launches;
	struct host_ns open_start; /* time at which the open part of the stream starts */
	struct host_ns last_time;  /* the latest time heard of */
	struct host_ns last_departure;
	int64_t cycle_length_ns; /* of the last regular step */
	bool lost;		 /* events were lost before the next part */

	bool marked;	   /* markers decide */
	bool marked_begin; /* begins were seen: ends mean nothing */
	bool tail_open;	   /* the newest cut waits for the next part, to learn its tail */
	uint64_t marked_step;
};

static inline uint64_t step_builder_position(const struct step_builder *builder)
{
	return builder->first + (builder->tail - builder->head);
}

/* Finishes what is open up to end_position. cut: all but end_position and index are taken. */
void step_builder_cut(
	struct step_builder *builder, uint64_t end_position, const struct step_cut *cut);

/* Closes windows whose time is up, or accepts the cycle that is tried. */
void step_builder_watch(struct step_builder *builder);

/* Turns what the detector has decided into finished steps. */
void step_builder_take_segments(struct step_builder *builder);

/* Accepts the cycle that is tried when it has repeated often enough and still holds, or at the
 * end. False: there is none. */
bool step_builder_accept(struct step_builder *builder, bool final);

/* Closes all that is open as one entry. */
void step_builder_close_open(struct step_builder *builder);

/* Splits the activity before the part just added at the marker that lies in that segment. */
void step_builder_split_tail(struct step_builder *builder, struct collective_part *part);

#endif
