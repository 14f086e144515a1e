/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job's speedometer: what it does in a second, as a share of what it usually does, whatever its steps are. Each call counts
 * with the time that one of its kind usually takes from the call before it; docs/analysis.md has the formulas. It needs no
 * peers and no causes, so it checks what these say. Memory is taken at the start. One thread.
 */
#ifndef SLOWRANK_ANALYSIS_DETECT_PROGRESS_H
#define SLOWRANK_ANALYSIS_DETECT_PROGRESS_H

#include "analysis/join/align.h"

struct progress;

int progress_create(struct progress **progress) __attribute__((warn_unused_result));
void progress_destroy(struct progress *progress); /* NULL is fine */

/* The next job step, into the slot that is open. The grid must be linked; nothing of it is kept. */
void progress_step(struct progress *progress, const struct step_grid *grid);
/* The steps since the last slot are one. aside: it does not tell what is usual, since a fault is known of. */
void progress_end_slot(struct progress *progress, bool aside);
/* What a rank did in the latest slot: usual time of its calls; 0 where most of its time is of calls that are not known yet. */
double progress_latest_done_ns(const struct progress *progress);
/* The same afterwards, of the slots that are kept and have some of [from_ns, until_ns). */
void progress_set_aside(struct progress *progress, int64_t from_ns, int64_t until_ns, bool aside);

/* Usual time of the calls over the time that they took: about 1 where nothing is wrong. */
struct progress_rate {
	double rate;
	double error;	/* standard error, by how slots differ */
	uint32_t slots; /* that it is known from; 0: it is not known */
};
/* Of the slots whose middle is in [from_ns, until_ns). */
struct progress_rate progress_between(
	const struct progress *progress, int64_t from_ns, int64_t until_ns);
/* The same without those that are aside, where enough others are in it: what a verdict's fault cost is nobody else's. */
struct progress_rate progress_beside(
	const struct progress *progress, int64_t from_ns, int64_t until_ns);
/* What was usual before such a time: of the latest slots that are not aside. */
struct progress_rate progress_before(
	const struct progress *progress, int64_t from_ns, int64_t until_ns);
/* What is usual next to a time that is over: before and after it. Not known while little came after. */
struct progress_rate progress_around(
	const struct progress *progress, int64_t from_ns, int64_t until_ns);

/* The share of what is usual that the job does not do: the same work takes 1 / (1 - share) times as long. */
struct progress_loss {
	double share, error; /* standard error */
	bool known;
};
struct progress_loss progress_lost(
	const struct progress_rate *usual, const struct progress_rate *now);
/*
 * Next to nothing is left of a loss in the latest slot since a time, or in the latest few of a small one; false where that
 * may be chance.
 */
bool progress_is_back(const struct progress *progress, int64_t from_ns,
	const struct progress_rate *usual, const struct progress_loss *loss);

#endif
