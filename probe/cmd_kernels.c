/* SPDX-License-Identifier: Apache-2.0 */
/* slowrank kernels: what the device of a rank runs, by a deep look that its probe makes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/ask/ask.h"
#include "probe/commands.h"
#include "probe/wire/decode.h"

enum { STEPS_DEFAULT = 10, STEPS_MAX = 100, LIMIT_MS = 10000 };

static const char help[] =
	"usage: slowrank kernels --rank R [OPTION...]\n\n"
	"Says which kernels the GPU of a rank runs, and for how long: the coordinator of its job "
	"is "
	"asked,\n"
	"and the probe beside the rank has CUPTI time each kernel for a few steps "
	"(docs/operations.md, "
	"Deep\n"
	"looks). The job's record keeps the look. A rank is looked at four times by hand.\n\n"
	"  --rank R            the rank\n"
	"  --steps N           for so many steps, within 10 s (10; at most 100)\n"
	"  --help              this text\n\n"
	"And each with its environment variable (SLOWRANK_COORDINATOR, "
	"...):\n" PROBE_OPTIONS_ASK_HELP;

struct options {
	bool has_rank;
	uint32_t rank, steps;
	struct probe_options ask;
};

static int complain(const char *option, const char *what)
{
	fprintf(stderr, "slowrank kernels: %s %s; see 'slowrank kernels --help'\n", option, what);
	return 2;
}

static bool parse_number(
	const char *text, unsigned long least, unsigned long most, uint32_t *number)
{
	unsigned long found;
	char *end;

	if (!text || *text < '0' || *text > '9')
		return false;
	found = strtoul(text, &end, 10);
	if (*end || found < least || found > most)
		return false;
	*number = (uint32_t)found;
	return true;
}

/* Returns 0, 2 with a message, or -1 when help was asked for. */
static int parse(struct options *options, int argc, char **argv)
{
	*options = (struct options){.steps = STEPS_DEFAULT};
	if (!probe_options_begin_ask(&options->ask))
		return 2;
	for (int i = 1; i < argc; i++) {
		const char *option = argv[i];

		if (strcmp(option, "--help") == 0 || strcmp(option, "-h") == 0)
			return -1;
		if (strcmp(option, "--rank") == 0) {
			if (!parse_number(argv[++i], 0, STEP_RANK_COUNT_MAX - 1, &options->rank))
				return complain(option, "needs the number of a rank");
			options->has_rank = true;
		} else if (strcmp(option, "--steps") == 0) {
			if (!parse_number(argv[++i], 1, STEPS_MAX, &options->steps))
				return complain(option, "is from 1 to 100");
		} else if (probe_options_take_ask(&options->ask, "kernels", argc, argv, &i) !=
			   OPTIONS_OK) {
			return 2;
		}
	}
	return options->has_rank ? 0 : complain("--rank", "is missing");
}

static double ms_per_step(const struct kernel_profile *profile, int64_t time_ns)
{
	return (double)time_ns / 1e6 / (profile->steps ? profile->steps : 1);
}

static void print_profile(const struct message_answer *answer)
{
	const struct kernel_profile *profile = answer->kernels;
	double steps = profile->steps ? profile->steps : 1;

	printf("rank %" PRIu32 ": process %" PRIu32 " on %s, %" PRIu32
	       " steps; times of a step on average\n\n",
		profile->rank, answer->pid, answer->host, profile->steps);
	printf("kernels %.3f ms in %.0f calls, copies %.3f ms in %.0f, the device idle %.3f ms, "
	       "the "
	       "host waits for it %.3f ms\n",
		ms_per_step(profile, profile->kernel_ns), (double)profile->kernel_count / steps,
		ms_per_step(profile, profile->copy_ns), (double)profile->copy_count / steps,
		ms_per_step(profile, profile->idle_ns),
		ms_per_step(profile, profile->synchronise_ns));
	if (kernel_launch_quantile_us(profile->launches, 0.5) > 0)
		printf("launch to start: below %.0f us (half of them), %.0f us (99 %%)\n",
			kernel_launch_quantile_us(profile->launches, 0.5),
			kernel_launch_quantile_us(profile->launches, 0.99));
	printf("\n%10s %8s  kernel (collectives are left out)\n", "ms", "calls");
	for (size_t i = 0; i < profile->sum_count; i++)
		printf("%10.3f %8.1f  %s\n", ms_per_step(profile, profile->sums[i].time_ns),
			(double)profile->sums[i].count / steps, profile->sums[i].name);
	if (profile->dropped)
		fprintf(stderr, "slowrank: %" PRIu64 " records were lost: sums are too small\n",
			profile->dropped);
}

int cmd_kernels(int argc, char **argv)
{
	struct message_question question = {.kind = DIRECTIVE_DEEP, .limit_ms = LIMIT_MS};
	char text[LOOK_TEXT_LENGTH];
	struct message_answer *answer;
	struct options options;
	int status = parse(&options, argc, argv);

	if (status) {
		if (status < 0)
			printf("%s", help);
		return status < 0 ? 0 : status;
	}
	question.rank = options.rank;
	question.steps = options.steps;
	status = ask_look(&options.ask, "kernels", &question, &answer);
	if (status)
		return status;
	if (answer->kernels->result == LOOK_DONE) {
		print_profile(answer);
	} else {
		fprintf(stderr, "slowrank kernels: rank %" PRIu32 " on %s: %s\n", options.rank,
			answer->host,
			look_result_tell((enum look_result)answer->kernels->result,
				answer->kernels->launches_a_second, text));
		status = 2;
	}
	message_answer_destroy(answer);
	return status;
}
