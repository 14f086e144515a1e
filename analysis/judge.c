/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/judge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/blame.h"
#include "analysis/whatif.h"

struct judge {
	struct judge_options options;
	struct blame blame;
	struct whatif whatif;
	struct judge_rank_totals *totals;
	size_t total_capacity;
	struct job_totals job;
};

int judge_create(const struct judge_options *options, struct judge **result)
{
	struct judge *judge = calloc(1, sizeof(*judge));

	if (!judge)
		return -ENOMEM;
	judge->options = *options;
	blame_init(&judge->blame);
	whatif_init(&judge->whatif);
	*result = judge;
	return 0;
}

void judge_destroy(struct judge *judge)
{
	if (!judge)
		return;
	blame_fini(&judge->blame);
	whatif_fini(&judge->whatif);
	free(judge->totals);
	free(judge);
}

int judge_measurable(struct judge *judge, uint32_t rank, uint32_t evidence_mask)
{
	(void)judge;
	(void)rank;
	(void)evidence_mask;
	return 0;
}

void judge_missing(struct judge *judge, enum evidence_source source, const char *why)
{
	(void)judge;
	(void)source;
	(void)why;
}

int judge_interval(struct judge *judge, const struct off_cpu_interval *interval,
	struct job_ns start, struct job_ns end)
{
	(void)judge;
	(void)interval;
	(void)start;
	(void)end;
	return 0;
}

int judge_sample(struct judge *judge, const struct metric_sample *sample, struct job_ns time)
{
	(void)judge;
	(void)sample;
	(void)time;
	return 0;
}

int judge_step(struct judge *judge, const struct step_grid *grid)
{
	int error = blame_step(&judge->blame, grid);

	if (error < 0)
		return error;
	judge->job.steps++;
	judge->job.steps_incomplete += judge->blame.incomplete;
	return 0;
}

int judge_finish(struct judge *judge)
{
	(void)judge;
	return 0;
}

void judge_job_totals(struct judge *judge, struct job_totals *totals)
{
	*totals = judge->job;
}

struct judge_rank_totals judge_rank_totals(const struct judge *judge, uint32_t rank)
{
	return rank < judge->total_capacity ? judge->totals[rank] : (struct judge_rank_totals){0};
}

const struct verdict *judge_verdicts(const struct judge *judge, size_t *count)
{
	(void)judge;
	*count = 0;
	return NULL;
}
