/* SPDX-License-Identifier: Apache-2.0 */
/* One step as the baselines see it, and the methods. Private to bench/baselines. */
#ifndef SLOWRANK_BENCH_BASELINES_INTERNAL_H
#define SLOWRANK_BENCH_BASELINES_INTERNAL_H

#include "bench/baselines/baselines.h"

struct rank_view {
	bool present;
	double length_ns, own_ns;		/* of the step; outside collectives */
	double section_ns[BASELINE_SECTION_NR]; /* own time before each kind of operation */
	double gap_ns; /* where its stay was the shortest: the longest less it, summed */
};

struct step_view {
	uint32_t step, rank_count;
	double step_ns; /* median over ranks */
	struct rank_view *ranks;
};

/* Each takes a step and sets flags of ranks it names; true: it raises an alarm. */
struct latest_arrival;
struct latest_arrival *latest_arrival_create(uint32_t rank_count);
bool latest_arrival_step(struct latest_arrival *state, const struct step_view *view, bool *flags);
void latest_arrival_destroy(struct latest_arrival *state);

struct section_score;
struct section_score *section_score_create(uint32_t rank_count);
bool section_score_step(struct section_score *state, const struct step_view *view, bool *flags);
void section_score_destroy(struct section_score *state);

struct z_score;
struct z_score *z_score_create(uint32_t rank_count);
bool z_score_step(struct z_score *state, const struct step_view *view, bool *flags);
void z_score_destroy(struct z_score *state);

struct change_point;
struct change_point *change_point_create(void);
bool change_point_step(struct change_point *state, const struct step_view *view);
void change_point_destroy(struct change_point *state);

#endif
