/* SPDX-License-Identifier: Apache-2.0 */
/* An episode of a job of which nothing is known but what is said here: rank 1 is slow for the last ten of twenty seconds. */
#ifndef SLOWRANK_TESTS_MADE_EPISODE_H
#define SLOWRANK_TESTS_MADE_EPISODE_H

#include "analysis/explain/explain.h"

enum { MADE_RANKS_MAX = 8, MADE_SLOW = 1 };

struct made_job {
	struct explain_rank *ranks;
	uint32_t rank_count; /* MADE_RANKS_MAX at most */
	const char (*missing)[VERDICT_DETAIL_LENGTH];
	const struct judge_looks *looks;
	struct stack_looks *stacks;
	uint32_t every_steps;
};

static inline struct explain_rank made_rank(const void *context, uint32_t rank)
{
	static const struct launch_sums none;
	const struct made_job *job = context;

	job->ranks[rank].launches = job->ranks[rank].episode_launches = &none;
	return job->ranks[rank];
}

static inline void made_explain(
	const struct made_job *job, const struct excess_sums *sums, struct explanation *explanation)
{
	static const uint32_t slow = MADE_SLOW;
	const int64_t second_ns = 1000000000;
	double scratch[MADE_RANKS_MAX];
	const struct explain_context context = {.rank = made_rank,
		.job = job,
		.rank_count = job->rank_count,
		.looks = job->looks,
		.stacks = job->stacks,
		.missing = job->missing,
		.now_ns = 20 * second_ns,
		.scratch = scratch};
	struct episode_past past;
	const struct episode episode = {.ranks = &slow,
		.rank_count = 1,
		.every_steps = job->every_steps,
		.sums = *sums,
		.onset_ns = 10 * second_ns,
		.loud_until_ns = 20 * second_ns,
		.past = &past};

	explain_past(&context, slow, episode.onset_ns, &past);
	explain(&context, &episode, explanation);
}

#endif
