/* SPDX-License-Identifier: Apache-2.0 */
/* One function a cause: what it explains of an episode. Named in causes.def; called by explain() alone. */
#ifndef SLOWRANK_ANALYSIS_EXPLAIN_MEASURES_H
#define SLOWRANK_ANALYSIS_EXPLAIN_MEASURES_H

#include "analysis/explain/explain.h"

#define RANK_CAUSE(                                                                                \
	id, number, name, class, precedence, proof, sources, least, certain, measure, ...)         \
	void measure(const struct explain_context *context, const struct episode *episode,         \
		struct finding *finding);
#define LINK_CAUSE(...)
#define JOB_CAUSE(...)
#include "analysis/explain/causes.def"
#undef RANK_CAUSE
#undef LINK_CAUSE
#undef JOB_CAUSE

/* counters.c: where the kernel could not be asked, counters of samplers stand in. */
void explain_add_counters(const struct explain_context *context, struct episode *episode);

/* counters.c: a counter's growth on the episode's ranks since its onset, beyond the usual of the others, per ns. */
bool explain_counter_excess(const struct explain_context *context, const struct episode *episode,
	unsigned metric, double *over, double *usual);

/*
 * How long the threads that launch waited for a CPU, for each ns on one: the episode's first rank, and what is usual for
 * others on its host or was for itself, whichever is more. more: beyond that, per ns. False: not known.
 */
struct queued {
	double own, usual, more;
};
bool explain_queued(const struct explain_context *context, const struct episode *episode,
	struct queued *queued);

/* Is it one of the episode's ranks? */
bool explain_names(const struct episode *episode, uint32_t rank);

/* Why a source is missing; "" where nothing is known to be wrong. */
const char *explain_missing(const struct explain_context *context, uint32_t source);

/* launches.c: the rank of the others whose silence is usual among those looked at; false when there is none. */
bool explain_launch_control(
	const struct explain_context *context, uint32_t rank, uint32_t *control);
/* The same of launch-gaps, by windows of launches. */
void explain_launch_windows(const struct explain_context *context, const struct episode *episode,
	struct finding *finding);

#endif
