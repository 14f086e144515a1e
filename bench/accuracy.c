/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_accuracy: jobs with known truth through the whole pipeline, in one process. Prints a
 * Markdown table and, last, one JSON object on stdout; progress goes to stderr. See
 * docs/simulator.md for what the columns mean.
 */
#include <getopt.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/tables.h"

enum { JOBS_MAX = 64 };

struct run {
	struct sim_scenario_limits limits;
	uint32_t seeds; /* of each kind */
	uint64_t first_seed;
	double budget_s;
	uint32_t threads;
	bool verbose, baselines;
	FILE *each;	    /* NULL: not asked for */
	const char *record; /* the first job's, instead of judging; NULL: not asked for */
	uint32_t kind_count;
	enum sim_fault_kind kinds[SIM_FAULT_NR + 1];
	atomic_uint next;
	atomic_bool failed;
	struct timespec started;
	pthread_mutex_t lock; /* of outcomes and stderr */
	struct outcome *outcomes;
	size_t outcome_count;
};

static double elapsed_s(const struct run *run)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - run->started.tv_sec) +
	       1e-9 * (double)(now.tv_nsec - run->started.tv_nsec);
}

static void keep(struct run *run, const struct outcome *outcome)
{
	pthread_mutex_lock(&run->lock);
	run->outcomes[run->outcome_count++] = *outcome;
	if (run->verbose &&
		(!(outcome->rank_right && outcome->class_right) || outcome->slowdown_error > 0.2 ||
			outcome->onset_error_steps > 10))
		tables_print_failure(stderr, outcome);
	if (run->each) {
		tables_print_job(run->each, outcome);
		fflush(run->each); /* a long run can be followed, and cut short */
	}
	if (run->outcome_count % 50 == 0)
		fprintf(stderr, "%zu of %u jobs, %.0f s\n", run->outcome_count,
			run->seeds * run->kind_count, elapsed_s(run));
	pthread_mutex_unlock(&run->lock);
}

static void *work(void *context)
{
	struct run *run = context;

	for (;;) {
		unsigned number = atomic_fetch_add(&run->next, 1);
		uint64_t seed = run->first_seed + number / run->kind_count;
		struct sim_scenario scenario;
		struct outcome outcome;
		int error;

		if (number >= run->seeds * run->kind_count || atomic_load(&run->failed) ||
			(run->budget_s > 0 && elapsed_s(run) > run->budget_s))
			return NULL;
		sim_scenario_draw(
			&scenario, run->kinds[number % run->kind_count], seed, &run->limits);
		error = run->record ? score_record(&scenario, seed, run->record)
				    : score_job(&scenario, seed, run->baselines, &outcome);
		if (error == 0 && run->record)
			return NULL;
		if (error == 0) {
			keep(run, &outcome);
			continue;
		}
		fprintf(stderr, "bench_accuracy: %s seed %llu: %s\n", sim_fault_name(scenario.kind),
			(unsigned long long)seed, strerror(-error));
		atomic_store(&run->failed, true);
	}
}

static bool add_kind(struct run *run, const char *name)
{
	enum sim_fault_kind kind = sim_fault_by_name(name);

	if (run->kind_count > SIM_FAULT_NR || (kind == SIM_FAULT_NR && strcmp(name, "none") != 0))
		return false;
	run->kinds[run->kind_count++] = kind;
	return true;
}

static bool add_layout(struct run *run, const char *name)
{
	for (int family = 0; family < SIM_FAMILY_NR; family++) {
		if (strcmp(sim_family_name((enum sim_family)family), name) != 0)
			continue;
		run->limits.families |= 1u << family;
		return true;
	}
	return false;
}

static bool set_course(struct run *run, const char *name)
{
	int plan = 0;

	while (plan < SIM_PLAN_NR && strcmp(sim_plan_name((enum sim_plan)plan), name) != 0)
		plan++;
	run->limits.one_course = true;
	run->limits.course = (enum sim_plan)plan;
	return plan < SIM_PLAN_NR;
}

static void usage(void)
{
	fprintf(stderr,
		"usage: bench_accuracy [--seeds N] [--first-seed N] [--only KIND]...\n"
		"  [--layout NAME]... [--ranks-min N] [--ranks-max N] [--sizes-even]\n"
		"  [--rank-steps-max N] [--plain] [--course NAME] [--every N]\n"
		"  [--device-time] [--polls] [--minutes N] [--jobs N] [--verbose] [--baselines] "
		"[--each FILE] [--record "
		"FILE]\nkinds: none");
	for (int kind = 0; kind < SIM_FAULT_NR; kind++)
		fprintf(stderr, " %s", sim_fault_name((enum sim_fault_kind)kind));
	fprintf(stderr, "\nlayouts:");
	for (int family = 0; family < SIM_FAMILY_NR; family++)
		fprintf(stderr, "%s %s", family ? "," : "",
			sim_family_name((enum sim_family)family));
	fprintf(stderr, "\ncourses:");
	for (int plan = 0; plan < SIM_PLAN_NR; plan++)
		fprintf(stderr, "%s %s", plan ? "," : "", sim_plan_name((enum sim_plan)plan));
	fprintf(stderr, "\n");
}

/* Options that are numbers; false for others. */
static bool take_number(struct run *run, int choice, uint32_t number)
{
	switch (choice) {
	case 's':
		run->seeds = number;
		return true;
	case 'f':
		run->first_seed = number;
		return true;
	case 'm':
		run->limits.ranks_min = number;
		return true;
	case 'M':
		run->limits.ranks_max = number;
		return true;
	case 't':
		run->budget_s = 60.0 * number;
		return true;
	case 'j':
		run->threads = number;
		return true;
	case 'n':
		run->limits.every = number;
		return true;
	case 'r':
		run->limits.rank_steps_max = number;
		return true;
	default:
		return false;
	}
}

static const struct option options[] = {
	{"seeds", required_argument, NULL, 's'},
	{"first-seed", required_argument, NULL, 'f'},
	{"only", required_argument, NULL, 'o'},
	{"ranks-min", required_argument, NULL, 'm'},
	{"ranks-max", required_argument, NULL, 'M'},
	{"layout", required_argument, NULL, 'l'},
	{"sizes-even", no_argument, NULL, 'E'},
	{"rank-steps-max", required_argument, NULL, 'r'},
	{"minutes", required_argument, NULL, 't'},
	{"jobs", required_argument, NULL, 'j'},
	{"every", required_argument, NULL, 'n'},
	{"record", required_argument, NULL, 'R'},
	{"plain", no_argument, NULL, 'p'},
	{"course", required_argument, NULL, 'c'},
	{"device-time", no_argument, NULL, 'd'},
	{"polls", no_argument, NULL, 'P'},
	{"verbose", no_argument, NULL, 'v'},
	{"baselines", no_argument, NULL, 'b'},
	{"each", required_argument, NULL, 'e'},
	{0},
};

static bool parse(int argc, char **argv, struct run *run)
{
	int choice;

	while ((choice = getopt_long(argc, argv, "", options, NULL)) != -1) {
		uint32_t number = optarg ? (uint32_t)strtoul(optarg, NULL, 10) : 0;

		if (take_number(run, choice, number))
			continue;
		switch (choice) {
		case 'l':
			if (!add_layout(run, optarg))
				return false;
			break;
		case 'c':
			if (!set_course(run, optarg))
				return false;
			break;
		case 'E':
			run->limits.even = true;
			break;
		case 'R':
			run->record = optarg;
			run->threads = 1;
			break;
		case 'p':
			run->limits.plain = true;
			break;
		case 'd':
			run->limits.device_time = true;
			break;
		case 'P':
			run->limits.polls = true;
			break;
		case 'v':
			run->verbose = true;
			break;
		case 'b':
			run->baselines = true;
			break;
		case 'e':
			run->each = fopen(optarg, "w");
			if (!run->each)
				return false;
			break;
		case 'o':
			if (!add_kind(run, optarg))
				return false;
			break;
		default:
			return false;
		}
	}
	return optind == argc && run->seeds && run->seeds <= 1000000 && run->threads &&
	       run->threads <= JOBS_MAX && run->limits.ranks_min >= 8 &&
	       run->limits.ranks_max >= run->limits.ranks_min;
}

int main(int argc, char **argv)
{
	struct run run = {.limits = {.ranks_min = 8, .ranks_max = 8192},
		.seeds = 20,
		.first_seed = 1,
		.threads = 1,
		.lock = PTHREAD_MUTEX_INITIALIZER};
	pthread_t threads[JOBS_MAX];
	uint32_t started = 0;

	if (!parse(argc, argv, &run)) {
		usage();
		return 2;
	}
	if (run.kind_count == 0) {
		for (int kind = 0; kind <= SIM_FAULT_NR; kind++)
			run.kinds[run.kind_count++] = (enum sim_fault_kind)kind;
	}
	run.outcomes = calloc((size_t)run.seeds * run.kind_count, sizeof(*run.outcomes));
	if (!run.outcomes)
		return 1;
	clock_gettime(CLOCK_MONOTONIC, &run.started);
	for (; started < run.threads; started++) {
		if (pthread_create(&threads[started], NULL, work, &run))
			break;
	}
	if (started == 0)
		work(&run);
	while (started > 0)
		pthread_join(threads[--started], NULL);
	if (!run.record)
		tables_print(stdout, run.outcomes, run.outcome_count, run.baselines);
	free(run.outcomes);
	if (run.each && fclose(run.each) != 0)
		return 1;
	return atomic_load(&run.failed);
}
