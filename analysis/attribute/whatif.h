/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step as it would have been if some ranks had behaved like their controls, everything else
 * kept: a max-plus replay of the grid, instance by instance. One thread.
 */
#ifndef SLOWRANK_ANALYSIS_ATTRIBUTE_WHATIF_H
#define SLOWRANK_ANALYSIS_ATTRIBUTE_WHATIF_H

#include "analysis/attribute/blame.h"

/*
 * How much earlier each rank ended the step before in a replay, beyond what all of them did; the
 * next step is replayed from there. What one group gains may show with the others only after the
 * next collective that they share. Zero-initialised is empty; whatif_line_reset() when what is healed
 * changes.
 */
struct whatif_line {
	int64_t *ahead_ns; /* by rank */
	size_t capacity;
};
void whatif_line_fini(struct whatif_line *line);
void whatif_line_reset(struct whatif_line *line);

/* What of a healed row's own time becomes its control's. */
enum whatif_part {
	WHATIF_ALL = 0,
	WHATIF_COMPUTE = 1, /* time on the CPU, or the device's; in blame's words EXCESS_COMPUTE */
	WHATIF_HOST = 2,    /* all other kinds of excess: the host's, off the CPU, faults */
};

/* What is not as it was. All of it may be combined; zero-initialised changes nothing. */
struct whatif_change {
	const uint8_t *healed; /* per row: not 0 where segments become their controls' and holds
	                          vanish; NULL: nowhere */
	enum whatif_part part;
	const double *scales;  /* per row: work times this, of overlapped grids only; or NULL */
	const int64_t *own_ns; /* per cell: its own time; or NULL */
	const int64_t *faster; /* per instance: its transfer is shorter by this; or NULL */
};

struct stream_layout;

/* The largest excess that is healed at a position, and how long that rank was in calls not seen there. */
struct whatif_relief {
	int64_t excess_ns, opaque_ns;
};

struct whatif {
	struct arena arena;   /* of all that is of one step */
	int64_t *times;	      /* per row; NULL: the step was not replayed yet */
	int64_t *ends_before; /* per row: when it ended, as it was */
	int64_t *scratch;
	uint8_t *nobody;	       /* per row: 0 */
	struct whatif_relief *relief;  /* per cell: of a control, what is healed at its position */
	struct stream_layout *streams; /* of overlapped grids, else NULL */
	struct whatif_change change;   /* what is replayed; healed is never NULL */
	bool relieved;		       /* some of this replay's rows are healed, and some are not */
	bool all_healed; /* all of them are, in all their time; nothing else is changed, none has a hole */
	bool holes;	    /* some row has one */
	bool ends_known;    /* ends_before are this step's */
	bool ends_replayed; /* and were replayed */
};

void whatif_init(struct whatif *whatif);
void whatif_fini(struct whatif *whatif);

/* To be called for each step, before the first replay of it. */
void whatif_next_step(struct whatif *whatif);

/*
 * Replays the step. line: from the step before, and for the next; NULL: every row starts as it
 * did. *gain_ns: by how much the usual row (lower median) ends earlier; may be negative, by noise; 0 where instances
 * contradict each other.
 * Returns 0 or -ENOMEM.
 */
int whatif_replay(struct whatif *whatif, const struct step_grid *grid, const struct blame *blame,
	const struct whatif_change *change, struct whatif_line *line, int64_t *gain_ns)
	__attribute__((warn_unused_result));

/* A healed cell's own time. */
int64_t whatif_healed_ns(const struct whatif *whatif, const struct step_grid *grid,
	const struct blame *blame, uint32_t c);

/* By how much the transfer shrinks for all when the healed members no longer hold it. */
int64_t whatif_released_ns(const struct whatif *whatif, const struct step_grid *grid,
	const struct blame *blame, const struct grid_instance *instance);

/* A transfer as it is replayed, of what it was. */
static inline int64_t whatif_transfer_ns(
	const struct whatif *whatif, uint32_t instance, int64_t transfer_ns)
{
	if (whatif->change.faster)
		transfer_ns -= whatif->change.faster[instance];
	return transfer_ns > 0 ? transfer_ns : 0;
}

/*
 * How much earlier a member comes: an instance's transfer counts from where its members left their last
 * one late, so what its own cannot be shorter by, that can.
 */
static inline int64_t whatif_sooner_ns(const struct whatif *whatif, const struct step_grid *grid,
	const struct blame *blame, uint32_t instance, uint32_t member)
{
	const struct blame_meeting *meeting = &blame->meetings[instance];
	int64_t sooner_ns;

	if (!whatif->change.faster || !meeting->lagged)
		return 0;
	sooner_ns =
		whatif->change.faster[instance] - blame_transfer_ns(blame, grid, meeting, member);
	if (sooner_ns > blame->lags[member])
		sooner_ns = blame->lags[member];
	return sooner_ns > 0 ? sooner_ns : 0;
}

/*
 * What is left of opaque time at a control's position, where a peer is healed. That one, the last, waited
 * for nobody: what others were in such calls for longer they may have waited for it, at most its excess.
 * The rest is transfers, or waits for others.
 */
static inline int64_t whatif_relieved_ns(
	const struct whatif *whatif, uint32_t control, int64_t opaque_ns)
{
	const struct whatif_relief *relief = &whatif->relief[control];
	int64_t waited_ns = opaque_ns - relief->opaque_ns;

	if (waited_ns > relief->excess_ns)
		waited_ns = relief->excess_ns;
	return waited_ns > 0 ? opaque_ns - waited_ns : opaque_ns;
}

/*
 * Of rows with a hole it is not known what lies in it: others' lateness, mostly, that may be healed.
 * Such a member comes with the last of the whole ones at the latest, or as much after it as it did in
 * truth: by how much it waited less than the least of the whole ones, unless it is healed. INT64_MAX: none is whole.
 */
#define MEMBER_DOUBTFUL ((uint32_t)MEMBER_HOLE | (uint32_t)MEMBER_START_UNKNOWN)
int64_t whatif_least_wait_ns(
	const struct step_grid *grid, const struct blame *blame, uint32_t index);
int64_t whatif_wait_ns(
	const struct step_grid *grid, const struct blame *blame, uint32_t index, uint32_t member);

/* Room for all rows of a grid. Returns 0 or -ENOMEM. */
int whatif_line_reserve(struct whatif_line *line, const struct step_grid *grid)
	__attribute__((warn_unused_result));
/*
 * By how much the usual row ends earlier than it did, after a replay; what others gained beyond that they
 * bring into the next step. line may be NULL.
 */
int64_t whatif_line_gain(
	struct whatif *whatif, const struct step_grid *grid, struct whatif_line *line);

/*
 * Grids with overlapped rows: laid out once a step, before it is replayed by whatif_replay(), relief filled
 * where relieved. NULL without memory.
 */
struct stream_layout *whatif_streams_lay_out(
	struct arena *arena, const struct step_grid *grid, const struct blame *blame);
void whatif_replay_streams(
	struct whatif *whatif, const struct step_grid *grid, const struct blame *blame);

#endif
