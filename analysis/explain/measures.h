/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One function a cause: what it explains of an episode. Named in causes.def, for one or several causes that are told apart by
 * the same measurement; called by explain() alone, in the order of the table. The finding is all zero.
 */
#ifndef SLOWRANK_ANALYSIS_EXPLAIN_MEASURES_H
#define SLOWRANK_ANALYSIS_EXPLAIN_MEASURES_H

#include "analysis/base/evidence.h"
#include "analysis/explain/explain.h"

#define RANK_CAUSE(                                                                                \
	id, number, name, class, precedence, proof, sources, least, certain, measure, ...)         \
	void measure(const struct explain_context *context, struct episode *episode,               \
		enum cause cause, struct finding *finding);
#define LINK_CAUSE(...)
#define JOB_CAUSE(...)
#include "analysis/explain/causes.def"
#undef RANK_CAUSE
#undef LINK_CAUSE
#undef JOB_CAUSE

static inline struct explain_rank explain_rank_of(
	const struct explain_context *context, uint32_t rank)
{
	return context->rank(context->job, rank);
}

/* figures.c: what counters say of a rank, between two times or at the later one. */
struct figure {
	enum figure_kind {
		FIGURE_VALUE,	    /* the latest */
		FIGURE_VALUE_OVER,  /* of most of the time between, by the next sample */
		FIGURE_RATE,	    /* growth, per ns */
		FIGURE_RATIO,	    /* growth for each that another counter grew by */
		FIGURE_USUAL_RATIO, /* the same, the median before a time */
	} kind;
	unsigned metric, other_metric; /* the latter: of ratios */
	int64_t from_ns, until_ns;
	bool of_host; /* all ranks of a host have the same */
};
bool explain_figure(const struct explain_context *context, uint32_t rank,
	const struct figure *figure, double *value);
/* The lower median of those others, at most EXPLAIN_OTHERS_MAX, of whom it is known. False: of none. */
bool explain_figure_of_others(const struct explain_context *context, const struct episode *episode,
	const struct figure *figure, double *usual);

/*
 * A counter's growth since the onset, per ns: how much faster than of others it is on the episode's rank where it is fastest.
 * False where it is not known, or slower than least: the others, who are many in large jobs, are not asked then.
 */
bool explain_counter_excess(const struct explain_context *context, const struct episode *episode,
	unsigned metric, double least, double *over, double *usual);

/* figures.c: where the kernel could not be asked, counters of samplers stand in. */
void explain_add_counters(const struct explain_context *context, struct episode *episode);

/*
 * How long the threads that launch waited for a CPU, for each ns on one: the episode's first rank, and what is usual for
 * others on its host or was for itself, whichever is more. more: beyond that, per ns. False: not known.
 */
struct queued {
	double own, usual, more;
};
bool explain_queued(const struct explain_context *context, const struct episode *episode,
	struct queued *queued);

/* figures.c: is it one of the episode's ranks? */
bool explain_names(const struct episode *episode, uint32_t rank);

/* A healthy rank of the same role as own_rank, which is one of the episode's. */
bool explain_is_control(const struct explain_context *context, const struct episode *episode,
	uint32_t own_rank, uint32_t rank);

/* Why a source is missing; "" where nothing is known to be wrong. */
const char *explain_missing(const struct explain_context *context, uint32_t source);

/* launches.c: the rank of the others whose silence is usual among those looked at; false when there is none. */
bool explain_launch_control(
	const struct explain_context *context, uint32_t rank, uint32_t *control);
/* The same of launch-gaps, by windows of launches. */
void explain_launch_windows(const struct explain_context *context, const struct episode *episode,
	struct finding *finding);

#endif
