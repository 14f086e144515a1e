/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_page RECORD STEPS SECONDS ADDRESS [PAGE]: a live page of a large job. The record's job (bench_simulator made it; its last
 * half has a fault) is judged once; then the page is given STEPS steps with what its steps cost each rank, which ranks have it
 * turned by another number of nodes each time: the middle fifth of them has the fault. Prints the page's address and serves it by the coordinator's
 * own server, with one step more each second, for SECONDS; then prints what that took as a JSON object. PAGE: also written to disk.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "coordinator/page/page.h"
#include "coordinator/replay.h"
#include "coordinator/web.h"

enum { STEPS_MAX = 128, NODE_RANKS = 8 };

/* What the record's steps cost each rank, and one that is made of them. */
struct job {
	struct blame_row *steps[STEPS_MAX];
	size_t step_count, row_count;
	const struct judge *judge;
	struct grid_row *rows;
	struct blame_row *blame_rows;
	uint32_t *row_controls;
	uint32_t culprit; /* the row that cost most at the end */
	uint64_t random, made;
	int64_t now_ns;
	struct step_grid grid;
	struct blame blame;
};

static double cpu_s(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void take_step(void *context, const struct judged_step *step)
{
	struct job *job = context;
	size_t rows = step->grid->row_count;
	struct blame_row *copy;

	if (!step->blame || job->step_count == STEPS_MAX ||
		(job->row_count && rows != job->row_count))
		return;
	copy = malloc(rows * sizeof(*copy));
	if (!copy)
		return;
	memcpy(copy, step->blame->rows, rows * sizeof(*copy));
	job->steps[job->step_count++] = copy;
	job->judge = step->judge;
	job->now_ns = step->grid->step.end_ns;
	if (job->row_count)
		return;
	job->row_count = rows;
	job->rows = calloc(rows, sizeof(*job->rows));
	job->blame_rows = calloc(rows, sizeof(*job->blame_rows));
	job->row_controls = calloc(rows, sizeof(*job->row_controls)); /* all are peers */
	for (size_t r = 0; job->rows && r < rows; r++)
		job->rows[r] = (struct grid_row){
			.rank = step->grid->rows[r].rank, .host = step->grid->rows[r].host};
}

static void watch(void *context, struct pipeline *pipeline)
{
	pipeline_watch_steps(pipeline, take_step, context);
}

static void find_culprit(struct job *job)
{
	const struct blame_row *last = job->steps[job->step_count - 1];

	for (size_t r = 0; r < job->row_count; r++) {
		if (last[r].charged_ns > last[job->culprit].charged_ns)
			job->culprit = (uint32_t)r;
	}
}

static uint64_t draw(struct job *job)
{
	job->random = job->random * UINT64_C(6364136223846793005) + 1;
	return job->random >> 33;
}

/* One step more, with the fault or without it. */
static void add_step(struct job *job, struct trail *trail, bool faulty, int64_t step_ns)
{
	size_t quarter = job->step_count / 4,
	       from = faulty ? 2 * quarter + draw(job) % quarter : draw(job) % quarter,
	       by = draw(job) % (job->row_count / NODE_RANKS) * NODE_RANKS;
	const struct blame_row *step = job->steps[from];
	struct blame_row turned;

	memcpy(job->blame_rows, step + by, (job->row_count - by) * sizeof(*step));
	memcpy(job->blame_rows + job->row_count - by, step, by * sizeof(*step));
	turned = job->blame_rows[job->culprit];
	job->blame_rows[(job->culprit + job->row_count - by) % job->row_count] = turned;
	job->blame_rows[job->culprit] = step[job->culprit];
	job->grid = (struct step_grid){.rows = job->rows, .row_count = job->row_count};
	job->grid.step = (struct grid_step){.number = job->made,
		.of_program = job->made,
		.start_ns = job->now_ns,
		.end_ns = job->now_ns + step_ns,
		.ends_program = true};
	job->now_ns += step_ns;
	job->made++;
	job->blame.rows = job->blame_rows;
	job->blame.row_controls = job->row_controls;
	trail_take(trail, &(struct judged_step){
				  .grid = &job->grid, .blame = &job->blame, .judge = job->judge});
}

/* Returns the longest that the pipeline's thread was held up by one publication. */
static double serve(struct job *job, struct trail *trail, const struct report_model *model,
	struct web *web, int seconds)
{
	const struct timespec second = {.tv_sec = 1};
	double longest_s = 0;

	for (int i = 0; i < seconds; i++) {
		double begun_s = cpu_s(CLOCK_THREAD_CPUTIME_ID), took_s;
		int64_t now_ns = (int64_t)(cpu_s(CLOCK_MONOTONIC) * 1e9);

		web_expect(web);
		web_publish(web, model, trail, (struct job_ns){job->now_ns}, now_ns);
		took_s = cpu_s(CLOCK_THREAD_CPUTIME_ID) - begun_s;
		longest_s = i > 2 && took_s > longest_s ? took_s
							: longest_s; /* all of it is new at first */
		nanosleep(&second, NULL);
		add_step(job, trail, false, INT64_C(1000000000));
	}
	return longest_s;
}

static int write_page(const struct report_model *model, const struct trail *trail, const char *path)
{
	FILE *file = fopen(path, "we");
	int error = file ? page_write(model, trail, file) : -errno;

	if (file && fclose(file) && !error)
		error = -EIO;
	return error;
}

int main(int argc, char **argv)
{
	struct job job = {.random = 1};
	struct replay_options options = {
		.command = "bench_page", .path = argv[1], .on_pipeline = watch, .context = &job};
	struct report_model model;
	char why[HTTP_WHY_LENGTH] = "no memory";
	struct replay *replay = NULL;
	struct trail *trail = NULL;
	struct rusage usage;
	struct web *web = NULL;
	uint64_t steps;
	double longest_s;

	if (argc < 5 || argc > 6) {
		fprintf(stderr, "usage: %s RECORD STEPS SECONDS ADDRESS [PAGE]\n", argv[0]);
		return 2;
	}
	steps = strtoull(argv[2], NULL, 10);
	if (replay_open(&options, &replay) || replay_run(replay) || replay_report(replay, &model) ||
		job.step_count < 8 || trail_create(&trail))
		return 1;
	find_culprit(&job);
	while (job.made < steps)
		add_step(&job, trail, job.made >= 2 * steps / 5 && job.made < 3 * steps / 5,
			INT64_C(1000000000));
	if ((argc == 6 && write_page(&model, trail, argv[5])) ||
		web_create(&(struct web_options){.address = argv[4]}, &web, why)) {
		fprintf(stderr, "bench_page: %s\n", why);
		return 1;
	}
	printf("%s\n", web_url(web));
	fflush(stdout);
	longest_s = serve(&job, trail, &model, web, atoi(argv[3]));
	getrusage(RUSAGE_SELF, &usage);
	printf("{\"publication_ms\": %.1f, \"resident_max_mib\": %ld}\n", longest_s * 1e3,
		usage.ru_maxrss / 1024);
	web_destroy(web);
	trail_destroy(trail);
	replay_close(replay);
	return 0;
}
