/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/workload/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum option_code {
	OPTION_STEPS = 256,
	OPTION_STEP_MS,
	OPTION_COMPUTE_MS,
	OPTION_TURN_MS,
	OPTION_COLLECTIVES,
	OPTION_BYTES,
	OPTION_SCHEDULE,
	OPTION_SPLIT,
	OPTION_DUPLICATE,
	OPTION_SEED,
	OPTION_JITTER,
	OPTION_PLAN,
	OPTION_FAULT,
	OPTION_TRUTH,
	OPTION_INJECTOR,
	OPTION_WORK_DIRECTORY,
	OPTION_MARKERS,
	OPTION_PROFILER,
	OPTION_READ_LOSS,
	OPTION_ALL_TO_ALL,
	OPTION_PIPELINE,
	OPTION_BY_POINTER,
	OPTION_HELPER,
	OPTION_LAUNCHES,
	OPTION_HOLD,
	OPTION_EXIT_STATUS,
	OPTION_HELP,
};

static const struct option long_options[] = {
	{"steps", required_argument, NULL, OPTION_STEPS},
	{"step-ms", required_argument, NULL, OPTION_STEP_MS},
	{"compute-ms", required_argument, NULL, OPTION_COMPUTE_MS},
	{"turn-ms", required_argument, NULL, OPTION_TURN_MS},
	{"collectives", required_argument, NULL, OPTION_COLLECTIVES},
	{"bytes", required_argument, NULL, OPTION_BYTES},
	{"schedule", required_argument, NULL, OPTION_SCHEDULE},
	{"split", no_argument, NULL, OPTION_SPLIT},
	{"duplicate", no_argument, NULL, OPTION_DUPLICATE},
	{"seed", required_argument, NULL, OPTION_SEED},
	{"jitter", required_argument, NULL, OPTION_JITTER},
	{"plan", required_argument, NULL, OPTION_PLAN},
	{"fault", required_argument, NULL, OPTION_FAULT},
	{"truth", required_argument, NULL, OPTION_TRUTH},
	{"injector", required_argument, NULL, OPTION_INJECTOR},
	{"work-directory", required_argument, NULL, OPTION_WORK_DIRECTORY},
	{"markers", optional_argument, NULL, OPTION_MARKERS},
	{"profiler", no_argument, NULL, OPTION_PROFILER},
	{"read-loss", no_argument, NULL, OPTION_READ_LOSS},
	{"all-to-all", no_argument, NULL, OPTION_ALL_TO_ALL},
	{"pipeline", no_argument, NULL, OPTION_PIPELINE},
	{"by-pointer", no_argument, NULL, OPTION_BY_POINTER},
	{"helper", no_argument, NULL, OPTION_HELPER},
	{"launches", required_argument, NULL, OPTION_LAUNCHES},
	{"hold", required_argument, NULL, OPTION_HOLD},
	{"exit-status", required_argument, NULL, OPTION_EXIT_STATUS},
	{"help", no_argument, NULL, OPTION_HELP},
	{NULL, 0, NULL, 0},
};

static void print_help(const char *program)
{
	printf("usage: mpirun -n N %s [option...]\n"
	       "A training loop with known faults.\n"
	       "  --steps N            true steps (200)\n"
	       "  --step-ms X          device work of a step: the rank sleeps (20)\n"
	       "  --compute-ms X       CPU time of a step (0.5)\n"
	       "  --turn-ms X          device work between two pieces of computing (1)\n"
	       "  --collectives N      collectives of a step (5)\n"
	       "  --bytes N            bytes of all buckets of a step (65536)\n"
	       "  --schedule KIND      ddp, accumulate, eval, changing, nested, irregular\n"
	       "  --split              every second bucket goes over half of the ranks\n"
	       "  --duplicate          on a duplicate of MPI_COMM_WORLD (mpi only)\n"
	       "  --seed N             (1)\n"
	       "  --jitter PERCENT     noise of the device work (1)\n"
	       "  --plan FILE          faults, one a line\n"
	       "  --fault LINE         one more fault: \"rank=2 kind=throttle first=120 last=480 "
	       "size=40\"\n"
	       "                       kinds: compute throttle contention major minor comm "
	       "kernels\n"
	       "                       input\n"
	       "  --truth FILE         append the truth to FILE, as JSON lines\n"
	       "  --injector SOCKET    of fault_injector, for contention and comm\n"
	       "  --work-directory DIR on a real disk, for major faults (/var/tmp)\n"
	       "  --markers[=LIBRARY]  mark steps through libslowrank_marker.so\n"
	       "  --profiler           hold CUPTI, as a profiler in the program does (nccl only)\n"
	       "  --read-loss          wait for the device before each collective (nccl only)\n"
	       "  --all-to-all         after each collective, sends to and receives from all (nccl "
	       "only)\n"
	       "  --pipeline           instead of each collective, a send to one neighbour and a "
	       "receive "
	       "from\n"
	       "                       the other, to and fro in turn (nccl only)\n"
	       "  --by-pointer         all-reduces through a pointer in no library's data (nccl "
	       "only)\n"
	       "  --helper             each rank forks a process that does nothing (nccl only)\n"
	       "  --launches N         more of them a step, which the driver refuses at once (nccl "
	       "only)\n"
	       "  --hold FILE          before step 20, every rank adds a byte to FILE and waits "
	       "for "
	       "FILE.go\n"
	       "  --exit-status N      of every rank at the end (0)\n",
		program);
}

static bool parse_number(const char *text, double least, double most, double *number)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end != '\0' || !(value >= least && value <= most))
		return false;
	*number = value;
	return true;
}

/* Numbers of all options that take one. */
static bool apply_number(struct workload_options *options, int code, const char *text)
{
	double number = 0;
	double most = code == OPTION_COLLECTIVES   ? SCHEDULE_COLLECTIVES_MAX
		      : code == OPTION_BYTES	   ? 1 << 30
		      : code == OPTION_LAUNCHES	   ? 1 << 20
		      : code == OPTION_EXIT_STATUS ? 255
		      : code == OPTION_JITTER	   ? 50
						   : 1e9;

	if (!parse_number(text, code == OPTION_COLLECTIVES || code == OPTION_STEPS ? 1 : 0, most,
		    &number))
		return false;
	switch (code) {
	case OPTION_STEPS:
		options->schedule.step_count = (uint64_t)number;
		break;
	case OPTION_STEP_MS:
		options->step_ms = number;
		break;
	case OPTION_COMPUTE_MS:
		options->compute_ms = number;
		break;
	case OPTION_TURN_MS:
		options->turn_ms = number < 0.01 ? 0.01 : number;
		break;
	case OPTION_COLLECTIVES:
		options->schedule.collectives = (uint32_t)number;
		break;
	case OPTION_BYTES:
		options->schedule.length_bytes = (size_t)number;
		break;
	case OPTION_SEED:
		options->schedule.seed = (uint64_t)number;
		break;
	case OPTION_LAUNCHES:
		options->launches = (uint32_t)number;
		break;
	case OPTION_JITTER:
		options->jitter_percent = number;
		break;
	default:
		options->exit_status = (int)number;
		break;
	}
	return true;
}

static int apply_option(struct workload_options *options, int code, const char *argument)
{
	char why[256];

	switch (code) {
	case OPTION_SCHEDULE:
		if (schedule_kind_parse(argument, &options->schedule.kind))
			return 0;
		fprintf(stderr, "workload: no schedule is called \"%s\"\n", argument);
		return -EINVAL;
	case OPTION_PLAN:
		if (fault_plan_read(&options->plan, argument, why, sizeof(why)) == 0)
			return 0;
		fprintf(stderr, "workload: --plan %s: %s\n", argument, why);
		return -EINVAL;
	case OPTION_FAULT:
		if (fault_plan_parse_line(&options->plan, argument, why, sizeof(why)) == 0)
			return 0;
		fprintf(stderr, "workload: --fault \"%s\": %s\n", argument, why);
		return -EINVAL;
	case OPTION_DUPLICATE:
		options->duplicate = true;
		return 0;
	case OPTION_SPLIT:
		options->schedule.split = true;
		return 0;
	case OPTION_TRUTH:
		options->truth_path = argument;
		return 0;
	case OPTION_INJECTOR:
		options->injector_path = argument;
		return 0;
	case OPTION_WORK_DIRECTORY:
		options->work_directory = argument;
		return 0;
	case OPTION_HOLD:
		options->hold_path = argument;
		return 0;
	case OPTION_READ_LOSS:
		options->read_loss = true;
		return 0;
	case OPTION_ALL_TO_ALL:
		options->all_to_all = true;
		return 0;
	case OPTION_PIPELINE:
		options->pipeline = true;
		return 0;
	case OPTION_BY_POINTER:
		options->by_pointer = true;
		return 0;
	case OPTION_HELPER:
		options->helper = true;
		return 0;
	case OPTION_PROFILER:
		options->profiler = true;
		return 0;
	case OPTION_MARKERS:
		options->marker_library = argument ? argument : "libslowrank_marker.so";
		return 0;
	default:
		if (apply_number(options, code, argument))
			return 0;
		fprintf(stderr, "workload: \"%s\" is not a number this option takes\n", argument);
		return -EINVAL;
	}
}

int workload_options_parse(int argc, char **argv, struct workload_options *options)
{
	struct workload_options parsed = {
		.schedule = {.step_count = 200, .collectives = 5, .length_bytes = 65536, .seed = 1},
		.step_ms = 20,
		.compute_ms = 0.5,
		.turn_ms = 1,
		.jitter_percent = 1,
		.work_directory = "/var/tmp",
	};
	int code;
	int result;

	while ((code = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (code == OPTION_HELP) {
			print_help(argv[0]);
			return 1;
		}
		if (code == '?')
			return -EINVAL; /* getopt has said why */
		result = apply_option(&parsed, code, optarg);
		if (result)
			return result;
	}
	if (optind < argc) {
		fprintf(stderr, "workload: \"%s\" is not an option\n", argv[optind]);
		return -EINVAL;
	}
	*options = parsed;
	return 0;
}
