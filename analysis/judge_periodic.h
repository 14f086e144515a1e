/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes back every so many steps, on a rank or in transfers, within the judge; docs/analysis.md
 * says how it is found. Ranks that may do so have one of a bounded number of places; what is less
 * certain gives way. One thread.
 */
#ifndef SLOWRANK_ANALYSIS_JUDGE_PERIODIC_H
#define SLOWRANK_ANALYSIS_JUDGE_PERIODIC_H

#include "analysis/explain/excess.h"

struct comm_run;
struct judge;
struct rank_state;
struct track;

enum { PERIODICS_MAX = 64 }; /* places; 255 at most */

struct periodic {
	uint32_t rank;
	uint32_t every; /* 0: none */
	uint64_t phase; /* step number mod every */
	uint64_t first_step;
	bool always;			      /* as long as is known: when it began is not */
	double surprise, height, base, share; /* as of a fold_finding */
	struct excess_sums sums;  /* of these steps, since they were noticed; and of those of the */
	struct excess_sums block; /* open block, not in sums yet */
};

/* A rank's place becomes free. */
void judge_periodic_forget(struct judge *judge, struct rank_state *state);
/* Takes a step of a rank that has a place. */
void judge_periodic_take(struct judge *judge, const struct rank_state *state, uint64_t step,
	const struct excess_sums *sums);

/*
 * After a block: looks at ranks and transfers, once a second at most, and at verdicts, which may turn out
 * to be of every so-many-th step.
 */
void judge_periodic_look(struct judge *judge);
/* Then: tells of ranks for which it is certain. Returns 0 or a negative errno of judge_open(). */
int judge_periodic_block(struct judge *judge) __attribute__((warn_unused_result));
/* Transfers that are long in such steps, for no late rank: fills in the run. False: none are. */
bool judge_periodic_transfers(const struct judge *judge, struct comm_run *run);

/*
 * Of the open block's steps of a class: the delay, as a share of their length; state NULL: of transfers.
 * share_of_block: they are so much of its time; 0: it has none.
 */
double judge_periodic_level(const struct judge *judge, const struct rank_state *state,
	uint32_t every, uint64_t phase, double *share_of_block);
/* What a track is of still comes in such steps, and not in others; or it does not come any more. */
bool judge_periodic_holds(const struct judge *judge, const struct track *track);
/* The open block's slow steps of a rank into the sums of its track. */
void judge_periodic_add(
	const struct judge *judge, const struct rank_state *state, struct track *track);

#endif
