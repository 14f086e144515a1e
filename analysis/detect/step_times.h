/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the latest job steps began, and how long they took. One of the program's steps that is made of rounds is several of
 * them, and very short ones are kept together as one: what is counted in steps must not depend on where those are cut, which
 * have numbers for people. Plain values; any thread.
 */
#ifndef SLOWRANK_ANALYSIS_DETECT_STEP_TIMES_H
#define SLOWRANK_ANALYSIS_DETECT_STEP_TIMES_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/policy.h"

/* By number mod STEP_HISTORY. Zeros: there was none yet. */
struct step_times {
	int64_t starts_ns[STEP_HISTORY], lengths_ns[STEP_HISTORY];
	uint32_t counts[STEP_HISTORY];	      /* so many steps are kept together as one */
	uint64_t program_steps[STEP_HISTORY]; /* the program's number of each */
	uint32_t round_count; /* so many of them are one of the program's, of late */
	uint64_t next;	      /* the number of the step that comes next */
	int64_t known_ns;     /* when all rounds of the latest were known: they come together */
};

/*
 * The number under which a step will be kept: that of the one before, where both together are shorter than
 * KEPT_STEP_NS. apart: not with the one before. A hang has no length, and is kept by itself.
 */
uint64_t step_times_number(const struct step_times *times, int64_t length_ns, bool apart);
/* Keeps it there. */
void step_times_note(
	struct step_times *times, uint64_t number, int64_t start_ns, int64_t length_ns);
/* Then: which of the program's steps that is, or is one of so many rounds of. */
void step_times_of_program(struct step_times *times, uint64_t program_step, uint32_t round_count);

/* Of a step that is kept. */
static inline int64_t step_start_ns(const struct step_times *times, uint64_t step)
{
	return times->starts_ns[step % STEP_HISTORY];
}

static inline double step_length_ns(const struct step_times *times, uint64_t step)
{
	return (double)times->lengths_ns[step % STEP_HISTORY];
}

/* Of one of those that are kept together with it. */
static inline double step_mean_ns(const struct step_times *times, uint64_t step)
{
	return step_length_ns(times, step) / (double)times->counts[step % STEP_HISTORY];
}

/* The first step that is kept. */
static inline uint64_t step_oldest(const struct step_times *times)
{
	return times->next > STEP_HISTORY ? times->next - STEP_HISTORY : 0;
}

/* So many of the latest steps are kept, of those since a step. */
static inline uint64_t steps_kept_since(const struct step_times *times, uint64_t step)
{
	uint64_t oldest = step_oldest(times);

	return times->next - (step > oldest ? step : oldest);
}

/* When a step began; unknown_ns when it is not kept any more. */
static inline int64_t step_start_or(
	const struct step_times *times, uint64_t step, int64_t unknown_ns)
{
	return times->next - step <= STEP_HISTORY ? step_start_ns(times, step) : unknown_ns;
}

/* How many steps the numbers in [from, until) stand for; one each of those that are not kept any more. */
uint64_t steps_kept_in(const struct step_times *times, uint64_t from, uint64_t until);

/* The program's number of a step; of long ago, by how many of its steps there were of late. */
uint64_t step_of_program(const struct step_times *times, uint64_t step);
/* Every so-many-th step is every how-many-th of the program's; 0: there is no such number. */
static inline uint32_t step_every_of_program(const struct step_times *times, uint32_t every)
{
	return every > times->round_count && every % times->round_count == 0 &&
			       times->counts[(times->next - 1) % STEP_HISTORY] == 1
		       ? every / times->round_count
		       : 0;
}

/* Median length of the steps in [from, until) that are kept, in ns; 0 of too few. */
double step_usual_ns(const struct step_times *times, uint64_t from, uint64_t until);

/* The step that began next to a time, and its begin; of long ago, by how long steps are of late. */
uint64_t step_at(
	const struct step_times *times, int64_t time_ns, int64_t now_ns, int64_t *start_ns);

#endif
