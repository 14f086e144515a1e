/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_simulator: writes the record of a simulated job, which `slowrank report` reads, and
 * prints the truth as one JSON object.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/simulator/write.h"

/* KIND:RANK:SIZE[:FIRST[:LAST[:EVERY]]] */
static bool parse_fault(const char *text, struct sim_options *options)
{
	struct sim_fault *fault = &options->faults[options->fault_count];
	char name[32];
	int count;

	if (options->fault_count == SIM_FAULTS_MAX)
		return false;
	*fault = (struct sim_fault){.first = options->steps / 3, .last = UINT32_MAX};
	count = sscanf(text, "%31[^:]:%u:%lf:%u:%u:%u", name, &fault->rank, &fault->size,
		&fault->first, &fault->last, &fault->every);
	if (count < 3)
		return false;
	if (count == 6)
		fault->course = SIM_COURSE_EVERY;
	fault->kind = sim_fault_by_name(name);
	options->fault_count++;
	return fault->kind < SIM_FAULT_NR && fault->size > 0;
}

static void print_truth(const struct simulator *simulator)
{
	const struct sim_options *options = simulator_options(simulator);
	struct sim_truth truth;

	simulator_truth(simulator, &truth);
	printf("{\"ranks\": %u, \"steps\": %u, \"step_ms\": %.6f, \"faults\": [",
		simulator_layout(simulator)->rank_count, simulator_step_count(simulator),
		truth.step_ns / 1e6);
	for (uint32_t f = 0; f < options->fault_count; f++)
		printf("%s{\"kind\": \"%s\", \"class\": \"%s\", \"rank\": %u, \"first_step\": %u, "
		       "\"slowdown\": %.6f}",
			f ? ", " : "", sim_fault_name(options->faults[f].kind),
			verdict_class_name(sim_fault_class(options->faults[f].kind)),
			options->faults[f].rank, options->faults[f].first, truth.slowdown[f]);
	printf("]}\n");
}

static void usage(FILE *out)
{
	fprintf(out,
		"usage: bench_simulator -o FILE [--seed N] [--ranks N] [--tensor N] [--pipeline "
		"N]\n"
		"  [--expert N] [--virtual N] [--microbatches N] [--layers N] [--steps N]\n"
		"  [--step-ms MS] [--ranks-per-host N] [--sharded] [--overlap] [--irregular N]\n"
		"  [--device-time] [--hide-messages] [--sample N] [--lost SHARE] [--buckets N]\n"
		"  [--batch-steps N]\n"
		"  [--fault KIND:RANK:SIZE[:FIRST[:LAST[:EVERY]]]]...\nkinds:");
	for (int kind = 0; kind < SIM_FAULT_NR; kind++)
		fprintf(out, " %s", sim_fault_name((enum sim_fault_kind)kind));
	fprintf(out, "\n");
}

static const struct option long_options[] = {
	{"seed", required_argument, NULL, 's'},
	{"ranks", required_argument, NULL, 'r'},
	{"tensor", required_argument, NULL, 't'},
	{"pipeline", required_argument, NULL, 'p'},
	{"expert", required_argument, NULL, 'e'},
	{"virtual", required_argument, NULL, 'v'},
	{"microbatches", required_argument, NULL, 'm'},
	{"layers", required_argument, NULL, 'l'},
	{"steps", required_argument, NULL, 'n'},
	{"step-ms", required_argument, NULL, 'd'},
	{"ranks-per-host", required_argument, NULL, 'H'},
	{"irregular", required_argument, NULL, 'i'},
	{"sample", required_argument, NULL, 'S'},
	{"lost", required_argument, NULL, 'L'},
	{"buckets", required_argument, NULL, 'b'},
	{"batch-steps", required_argument, NULL, 'B'},
	{"fault", required_argument, NULL, 'f'},
	{"sharded", no_argument, NULL, 'F'},
	{"overlap", no_argument, NULL, 'O'},
	{"device-time", no_argument, NULL, 'D'},
	{"hide-messages", no_argument, NULL, 'M'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

struct command {
	uint32_t ranks, batch_steps;
	const char *path;
};

/* Where the number behind an option goes; NULL: it is not one of 32 bits. */
static uint32_t *number_of(int choice, struct sim_options *options, struct command *command)
{
	switch (choice) {
	case 'r':
		return &command->ranks;
	case 't':
		return &options->shape.tensor;
	case 'p':
		return &options->shape.pipeline;
	case 'e':
		return &options->shape.expert;
	case 'v':
		return &options->program.virtual_stages;
	case 'm':
		return &options->program.microbatches;
	case 'l':
		return &options->program.layers;
	case 'n':
		return &options->steps;
	case 'H':
		return &options->shape.ranks_per_host;
	case 'i':
		return &options->irregular_every;
	case 'S':
		return &options->sample_every;
	case 'b':
		return &options->program.buckets;
	case 'B':
		return &command->batch_steps;
	default:
		return NULL;
	}
}

static bool take_option(int choice, struct sim_options *options, struct command *command)
{
	uint32_t *number = number_of(choice, options, command);

	if (number) {
		*number = (uint32_t)strtoul(optarg, NULL, 10);
		return true;
	}
	switch (choice) {
	case 's':
		options->seed = strtoull(optarg, NULL, 10);
		return true;
	case 'd':
		options->program.step_ns = strtod(optarg, NULL) * 1e6;
		return true;
	case 'L':
		options->lost_share = strtod(optarg, NULL);
		return true;
	case 'F':
		options->program.sharded = true;
		return true;
	case 'O':
		options->program.overlap = true;
		return true;
	case 'D':
		options->device_time = true;
		return true;
	case 'M':
		options->messages_hidden = true;
		return true;
	case 'o':
		command->path = optarg;
		return true;
	case 'f':
		return parse_fault(optarg, options);
	default:
		return false;
	}
}

static bool parse(int argc, char **argv, struct sim_options *options, struct command *command)
{
	int choice;

	while ((choice = getopt_long(argc, argv, "o:h", long_options, NULL)) != -1) {
		if (!take_option(choice, options, command))
			return false;
	}
	return command->path && optind == argc && options->shape.tensor && options->shape.pipeline;
}

int main(int argc, char **argv)
{
	struct simulator *simulator;
	struct sim_options options;
	struct command command = {8, 4, NULL};
	int error;

	sim_options_default(&options, command.ranks, 1);
	if (!parse(argc, argv, &options, &command)) {
		usage(stderr);
		return 2;
	}
	options.shape.data = command.ranks / (options.shape.tensor * options.shape.pipeline);
	error = simulator_create(&options, &simulator);
	if (error < 0) {
		fprintf(stderr, "bench_simulator: such a job cannot be: %s\n", strerror(-error));
		return 2;
	}
	error = sim_write_record(
		simulator, &(struct sim_feed_options){1, command.batch_steps}, command.path);
	if (error == 0)
		print_truth(simulator);
	else
		fprintf(stderr, "bench_simulator: %s\n", strerror(-error));
	simulator_destroy(simulator);
	return error < 0;
}
