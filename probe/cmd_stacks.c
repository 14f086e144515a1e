/* SPDX-License-Identifier: Apache-2.0 */
/* slowrank stacks: what the threads of a process do, told from outside; of a rank, as its probe tells. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analysis/base/hash.h"
#include "probe/ask/ask.h"
#include "probe/commands.h"
#include "probe/looks/host_looks.h"
#include "probe/stack_text.h"
#include "probe/stacks/names.h"
#include "probe/stacks/target.h"
#include "probe/wire/decode.h"

enum {
	HZ_DEFAULT = 20,
	HZ_MAX = 1000,
	SECONDS_MAX = 3600,
	RANK_SECONDS_MAX = 10,
	KINDS_MAX = 16384,   /* stacks that are told apart */
	TEXT_LENGTH = 65536, /* of one of them */
};

static const char help[] =
	"usage: slowrank stacks --pid PID [OPTION...]\n"
	"       slowrank stacks --rank R [OPTION...]\n\n"
	"Says what each thread of a process does, or waits for: Python frames and native ones in "
	"one\n"
	"stack, read from outside. The process is not stopped, traced or written to, and runs no "
	"code of\n"
	"slowrank's. Of a rank, its job's coordinator is asked, and the probe beside the rank "
	"looks;\n"
	"the job's record keeps the look.\n\n"
	"  --pid PID           the process, on this host\n"
	"  --rank R            the rank, of a job that slowrank watches, on whichever host\n"
	"  --seconds N         look again and again for N seconds, and count (default: look "
	"once);\n"
	"                      of a rank 10 at most\n"
	"  --hz N              with --pid: how often a second (20)\n"
	"  --format text|folded\n"
	"                      folded: a line for each stack, the outermost frame first, and how "
	"often it\n"
	"                      was seen, as tools that draw flame graphs take it (text)\n"
	"  --help              this text\n\n"
	"With --rank, and each with its environment variable (SLOWRANK_COORDINATOR, "
	"...):\n" PROBE_OPTIONS_ASK_HELP
	"\nWith --pid it takes the right to trace the process: its own user, or root. Without BPF "
	"(Linux 6.1\n"
	"and its rights) some native stacks end early, and those of running threads are not "
	"told.\n";

struct options {
	pid_t pid;
	double seconds;
	unsigned hz; /* 0: not given */
	bool folded;
	bool has_rank;
	uint32_t rank;
	struct probe_options ask;
};

struct kind {
	char *text;
	uint64_t hash, times;
};

/* What was seen: different stacks, and how often each. */
struct counts {
	struct kind kinds[KINDS_MAX];
	size_t kind_count;
	size_t last[THREADS_MAX]; /* what each thread of the last look was seen at */
	uint64_t samples, torn, left_out_threads, left_out_kinds;
	uint64_t longest_ns, total_ns, reads;
};

static volatile sig_atomic_t interrupted;

static void interrupt(int signal)
{
	(void)signal;
	interrupted = 1;
}

static bool parse_number(const char *text, double least, double most, double *number)
{
	char *end;

	*number = strtod(text, &end);
	return *text && !*end && *number >= least && *number <= most;
}

static int complain(const char *option, const char *what)
{
	fprintf(stderr, "slowrank stacks: %s %s; see 'slowrank stacks --help'\n", option, what);
	return 2;
}

/* An option of this command's own, with its value. Returns 0, or 2 with a message. */
static int take_own(struct options *options, const char *option, const char *value)
{
	double number;

	if (!value)
		return complain(option, "needs a value");
	if (strcmp(option, "--format") == 0) {
		if (strcmp(value, "text") != 0 && strcmp(value, "folded") != 0)
			return complain(option, "is text or folded");
		options->folded = value[0] == 'f';
	} else if (strcmp(option, "--pid") == 0) {
		if (!parse_number(value, 1, INT32_MAX, &number))
			return complain(option, "needs the number of a process");
		options->pid = (pid_t)number;
	} else if (strcmp(option, "--rank") == 0) {
		if (!parse_number(value, 0, STEP_RANK_COUNT_MAX - 1, &number))
			return complain(option, "needs the number of a rank");
		options->rank = (uint32_t)number;
		options->has_rank = true;
	} else if (strcmp(option, "--hz") == 0) {
		if (!parse_number(value, 1, HZ_MAX, &number))
			return complain(option, "is from 1 to 1000");
		options->hz = (unsigned)number;
	} else if (!parse_number(value, 0, SECONDS_MAX, &options->seconds)) {
		return complain(option, "is from 0 to 3600");
	}
	return 0;
}

static int check(const struct options *options, const char *ask_option)
{
	if (!options->pid && !options->has_rank)
		return complain("--pid or --rank", "is missing");
	if (options->pid && options->has_rank)
		return complain("--pid and --rank:", "one of them");
	if (options->pid && ask_option)
		return complain(ask_option, "is for --rank");
	if (options->has_rank && options->hz)
		return complain("--hz", "is for --pid: a probe looks as often as it costs little");
	if (options->has_rank && options->seconds > RANK_SECONDS_MAX)
		return complain("--seconds", "is from 0 to 10 with --rank");
	return 0;
}

/* Returns 0, 2 with a message, or -1 when help was asked for. */
static int parse(struct options *options, int argc, char **argv)
{
	static const char *const own[] = {"--pid", "--rank", "--seconds", "--hz", "--format"};
	const char *ask_option = NULL;

	*options = (struct options){0};
	if (!probe_options_begin_ask(&options->ask))
		return 2;
	for (int i = 1; i < argc; i++) {
		const char *option = argv[i];
		bool is_own = false;
		int error;

		if (strcmp(option, "--help") == 0 || strcmp(option, "-h") == 0)
			return -1;
		for (size_t o = 0; o < sizeof(own) / sizeof(own[0]); o++)
			is_own |= strcmp(option, own[o]) == 0;
		if (is_own) {
			i++;
			error = take_own(options, option, i < argc ? argv[i] : NULL);
		} else {
			error = probe_options_take_ask(&options->ask, "stacks", argc, argv, &i) !=
				OPTIONS_OK;
			ask_option = option;
		}
		if (error)
			return 2;
	}
	return check(options, ask_option);
}

/* Returns the kind's index, or KINDS_MAX when it is left out. */
static size_t count_text(struct counts *counts, char *text)
{
	uint64_t hash = hash_bytes(hash_bytes_begin(), text, strlen(text));

	for (size_t i = 0; i < counts->kind_count; i++) {
		struct kind *kind = &counts->kinds[i];

		if (kind->hash == hash && strcmp(kind->text, text) == 0) {
			kind->times++;
			free(text);
			return i;
		}
	}
	if (counts->kind_count == KINDS_MAX) {
		counts->left_out_kinds++;
		free(text);
		return KINDS_MAX;
	}
	counts->kinds[counts->kind_count] = (struct kind){text, hash, 1};
	return counts->kind_count++;
}

/* Names of files and functions are the target's choice: none of their bytes may steer a terminal. */
static void clean(char *text)
{
	for (unsigned char *c = (unsigned char *)text; *c; c++) {
		if ((*c < 0x20 && *c != '\n') || *c == 0x7f)
			*c = '?';
		else if (*c == 0xc2 && c[1] >= 0x80 &&
			 c[1] < 0xa0) /* the same once more, in UTF-8 */
			c[0] = c[1] = '?';
	}
}

/* index: its place in the sample, where a thread that has not run since is found again. */
static void count_thread(struct counts *counts, struct stack_names *names,
	const struct stack_thread *thread, size_t index, struct stack_lines *lines, bool folded)
{
	const struct stack_text_thread told = {
		thread->now.name, (int)thread->now.tid, thread->now.on_cpu};
	char *text = NULL;
	size_t length = 0;
	FILE *out;

	if (thread->as_before && counts->last[index] < KINDS_MAX) {
		counts->kinds[counts->last[index]].times++;
		return;
	}
	counts->last[index] = KINDS_MAX;
	if (thread->torn) /* counted with the sample */
		return;
	if (stack_names_merge(names, thread, lines)) {
		counts->torn++;
		return;
	}
	out = open_memstream(&text, &length);
	if (!out)
		return;
	if (folded)
		stack_text_folded(out, &told, lines);
	else
		stack_text_write(out, &told, lines);
	if (fclose(out) != 0 || !text) {
		free(text);
		return;
	}
	clean(text);
	counts->last[index] = count_text(counts, text);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void sleep_until(uint64_t time_ns)
{
	const struct timespec until = {
		(time_t)(time_ns / 1000000000), (long)(time_ns % 1000000000)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR &&
		!interrupted)
		;
}

static const char *problem_text(int error)
{
	return error == -ESRCH ? "it has ended, or runs another program" : strerror(-error);
}

/* Returns 0 when there was a look at least, else why there was none. */
static int look(const struct options *options, struct stack_target *target,
	struct stack_names *names, struct counts *counts)
{
	static struct stack_sample sample;
	static struct stack_lines lines;
	uint64_t step_ns = 1000000000 / (options->hz ? options->hz : HZ_DEFAULT),
		 begin_ns = now_ns(), next_ns = begin_ns;
	uint64_t end_ns = begin_ns + (uint64_t)(options->seconds * 1e9);
	int error = 0;

	do {
		error = stack_target_sample(target, now_ns(), UINT64_MAX, &sample);
		if (error)
			break;
		counts->samples++;
		counts->torn += sample.torn;
		counts->left_out_threads += sample.left_out;
		counts->total_ns += sample.took_ns;
		counts->reads += sample.reads;
		if (sample.took_ns > counts->longest_ns)
			counts->longest_ns = sample.took_ns;
		stack_names_learn(names, &sample);
		for (size_t i = 0; i < sample.count; i++)
			count_thread(counts, names, &sample.threads[i], i, &lines, options->folded);
		next_ns += step_ns;
		if (next_ns < now_ns())
			next_ns = now_ns(); /* it takes longer than that */
		if (next_ns < end_ns)
			sleep_until(next_ns);
	} while (next_ns < end_ns && !interrupted);
	if (counts->samples && error)
		fprintf(stderr, "slowrank: after %" PRIu64 " looks: %s\n", counts->samples,
			problem_text(error));
	return counts->samples ? 0 : error;
}

static int compare_kinds(const void *a, const void *b)
{
	const struct kind *left = a, *right = b;

	if (left->times != right->times)
		return left->times < right->times ? 1 : -1;
	return strcmp(left->text, right->text);
}

static void print(const struct options *options, struct stack_target *target, struct counts *counts)
{
	const char *reason;
	const struct python *python = stack_target_python(target, &reason);

	/* A single look is told in the order of threads. */
	if (counts->samples > 1)
		qsort(counts->kinds, counts->kind_count, sizeof(*counts->kinds), compare_kinds);
	if (!options->folded && python)
		printf("process %d, Python 3.%u\n", (int)options->pid, python->layout.minor);
	else if (!options->folded)
		printf("process %d; no Python frames: %s\n", (int)options->pid, reason);
	for (size_t i = 0; i < counts->kind_count; i++) {
		const struct kind *kind = &counts->kinds[i];

		if (options->folded)
			printf("%s %" PRIu64 "\n", kind->text, kind->times);
		else if (counts->samples > 1)
			printf("\n%" PRIu64 " of %" PRIu64 " looks: %s", kind->times,
				counts->samples, kind->text);
		else
			printf("\n%s", kind->text);
	}
}

/* What was not seen, and what it took: on standard error, so that the stacks can be piped on. */
static void print_limits(const struct stack_target *target, const struct counts *counts)
{
	const char *without = stack_target_without_bpf(target);
	double samples = (double)counts->samples;

	fprintf(stderr,
		"slowrank: %" PRIu64
		" looks, %.2f ms each on average (longest %.2f), %.0f pages read in each",
		counts->samples, (double)counts->total_ns / samples / 1e6,
		(double)counts->longest_ns / 1e6, (double)counts->reads / samples);
	if (counts->torn)
		fprintf(stderr,
			"; %" PRIu64 " stacks changed while they were read, and are left out",
			counts->torn);
	if (counts->left_out_threads)
		fprintf(stderr, "; %" PRIu64 " threads are left out", counts->left_out_threads);
	if (counts->left_out_kinds)
		fprintf(stderr, "; %" PRIu64 " stacks are left out: too many different ones",
			counts->left_out_kinds);
	fprintf(stderr, "\n");
	if (without)
		fprintf(stderr, "slowrank: some native frames may be missing: %s\n", without);
}

static int run(const struct options *options, struct stack_target *target, struct counts *counts)
{
	struct stack_names *names;
	int error = stack_names_create(target, &names);

	if (!error) {
		error = look(options, target, names, counts);
		stack_names_destroy(names);
	}
	if (error) {
		fprintf(stderr, "slowrank stacks: process %d: %s\n", (int)options->pid,
			problem_text(error));
		return 2;
	}
	print(options, target, counts);
	print_limits(target, counts);
	return 0;
}

static void print_profile(const struct options *options, const struct message_answer *answer)
{
	const struct stack_profile *profile = answer->stacks;

	if (!options->folded) {
		printf("rank %" PRIu32 ": process %" PRIu32 " on %s", profile->rank, answer->pid,
			answer->host);
		if (profile->python_minor)
			printf(", Python 3.%u", profile->python_minor);
		printf("%s%s\n", profile->why[0] ? "; " : "", profile->why);
	}
	stack_text_profile(stdout, profile, options->folded);
	fprintf(stderr, "slowrank: %" PRIu32 " looks by the rank's probe, %.0f ms of its CPU time",
		profile->looks, (double)profile->cost_ns / 1e6);
	if (profile->incomplete)
		fprintf(stderr,
			"; %" PRIu32 " stacks changed while they were read, and are left out",
			profile->incomplete);
	fprintf(stderr, "\n");
}

/* A few seconds are no steps to wait for: as many as there are. */
static int look_at_rank(const struct options *options)
{
	struct message_question question = {.kind = DIRECTIVE_STACKS,
		.rank = options->rank,
		.steps = options->seconds > 0 ? HOST_LOOKS_STEPS_MAX : 0,
		.limit_ms = (uint32_t)(options->seconds * 1000)};
	struct message_answer *answer;
	int status = ask_look(&options->ask, "stacks", &question, &answer);

	if (status)
		return status;
	if (answer->stacks->sum_count) {
		print_profile(options, answer);
	} else {
		const char *result = stack_result_text((enum stack_result)answer->stacks->result);

		fprintf(stderr, "slowrank stacks: rank %" PRIu32 " on %s: %s%s%s\n", options->rank,
			answer->host, result[0] ? result : "none of its threads was seen",
			answer->stacks->why[0] ? ": " : "", answer->stacks->why);
		status = 2;
	}
	message_answer_destroy(answer);
	return status;
}

int cmd_stacks(int argc, char **argv)
{
	static struct counts counts;
	struct sigaction action = {.sa_handler = interrupt};
	struct stack_target *target;
	struct options options;
	int result = parse(&options, argc, argv);

	if (result) {
		if (result < 0)
			printf("%s", help);
		return result < 0 ? 0 : result;
	}
	if (options.has_rank)
		return look_at_rank(&options);
	result = stack_target_open(options.pid, &target);
	if (result) {
		fprintf(stderr, "slowrank stacks: process %d cannot be read: %s\n",
			(int)options.pid,
			result == -ESRCH ? "there is none (or it is the kernel's own)"
					 : strerror(-result));
		return 2;
	}
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	result = run(&options, target, &counts);
	for (size_t i = 0; i < counts.kind_count; i++)
		free(counts.kinds[i].text);
	stack_target_close(target);
	return result;
}
