/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach_deep.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe/attach/launcher_environment.h"
#include "probe/attach/load.h"
#include "probe/device_environment.h"

static const char library_name[] = "libslowrank_inject.so";

enum { LINE_BYTES = 4608, LINES_MAX = 1 << 17, DEPTH_MAX = 64 };

/* A process that has a device's libraries mapped. */
struct candidate {
	pid_t pid, parent;
	uint32_t rank; /* as its launcher says; STEP_RANK_UNKNOWN */
	bool has_device, has_driver;
};

static void look_at_mappings(struct candidate *candidate)
{
	static const char *const names[] = {"/libcuda.so", "/libnccl.so", "/librccl.so",
		"/libtorch_cuda.so", "/libamdhip64.so"};
	char path[64], line[LINE_BYTES];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)candidate->pid);
	file = fopen(path, "re");
	for (size_t i = 0; file && i < LINES_MAX && fgets(line, sizeof(line), file); i++) {
		for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
			if (!strstr(line, names[k]))
				continue;
			candidate->has_device = true;
			candidate->has_driver |= k == 0 || k == 4;
		}
	}
	if (file)
		fclose(file);
}

static const struct candidate *find(const struct candidate *list, size_t count, pid_t pid)
{
	for (size_t i = 0; i < count; i++) {
		if (list[i].pid == pid)
			return &list[i];
	}
	return NULL;
}

/*
 * A rank: not its helpers, which inherit its environment and mappings, and not the launcher,
 * which may have the libraries without being a rank.
 */
static bool is_rank(const struct candidate *list, size_t count, const struct candidate *candidate)
{
	const struct candidate *above = candidate;

	if (!candidate->has_device ||
		(candidate->rank == STEP_RANK_UNKNOWN && !candidate->has_driver))
		return false;
	for (unsigned depth = 0; depth < DEPTH_MAX; depth++) {
		above = find(list, count, above->parent);
		if (!above)
			return true;
		if (above->has_device && above->rank == candidate->rank)
			return false;
	}
	return true;
}

static size_t find_ranks(const struct attach_process *tree, size_t count, pid_t *ranks)
{
	struct candidate *list = calloc(count ? count : 1, sizeof(*list));
	struct launcher_environment launcher;
	size_t rank_count = 0;

	if (!list)
		return 0;
	for (size_t i = 0; i < count; i++) {
		list[i] = (struct candidate){
			.pid = tree[i].pid, .parent = tree[i].parent, .rank = STEP_RANK_UNKNOWN};
		look_at_mappings(&list[i]);
		if (list[i].has_device && launcher_environment_read(tree[i].pid, &launcher) == 0)
			list[i].rank = launcher.rank;
	}
	for (size_t i = 0; i < count; i++) {
		if (is_rank(list, count, &list[i]))
			ranks[rank_count++] = list[i].pid;
	}
	free(list);
	return rank_count;
}

/* Consent: asked for on a terminal; elsewhere the option is enough, and it is said. */
static bool is_wanted(const struct probe_options *options, size_t rank_count)
{
	char answer[16] = "";
	bool ask = !options->yes && isatty(STDIN_FILENO) && isatty(STDERR_FILENO);

	fprintf(stderr,
		"slowrank: --deep loads %s into %zu running rank%s: one thread of each is stopped "
		"for about a millisecond (ptrace) and makes a thread that opens the library, which "
		"stays there until the process ends%s",
		library_name, rank_count, rank_count == 1 ? "" : "s", ask ? ".\n" : "\n");
	if (!ask)
		return true;
	fprintf(stderr, "slowrank: go on? [y/N] ");
	if (!fgets(answer, sizeof(answer), stdin))
		return false;
	return answer[0] == 'y' || answer[0] == 'Y';
}

static void load_all(const char *path, const pid_t *ranks, struct attach_deep_result *result)
{
	struct load_report report;
	char why[LOAD_WHY_BYTES] = "";
	size_t there_count = 0;

	for (size_t i = 0; i < result->rank_count; i++) {
		int error = load_library(
			ranks[i], path, library_name, "slowrank_inject_start", &report);

		if (error && error != -EALREADY) {
			fprintf(stderr, "slowrank: %s\n", report.why);
			snprintf(why, sizeof(why), "%s", report.why);
			continue;
		}
		result->loaded_count++;
		there_count += error == -EALREADY;
		if (report.longest_ns > result->longest_stop_ns)
			result->longest_stop_ns = report.longest_ns;
	}
	if (there_count && there_count == result->rank_count)
		snprintf(result->coverage, sizeof(result->coverage),
			"in the process already, from attach --deep or slowrank run: %zu ranks",
			result->rank_count);
	else if (result->loaded_count == result->rank_count)
		snprintf(result->coverage, sizeof(result->coverage),
			"loaded into the process by attach --deep: %zu ranks, longest stop %.2f ms",
			result->rank_count, (double)result->longest_stop_ns / 1e6);
	else
		snprintf(result->coverage, sizeof(result->coverage),
			"loaded into the process by attach --deep: %zu of %zu ranks; %.120s",
			result->loaded_count, result->rank_count, why);
}

bool attach_deep(const struct probe_options *options, const struct attach_process *tree,
	size_t count, struct attach_deep_result *result)
{
	char path[PATH_MAX];
	pid_t *ranks = calloc(count ? count : 1, sizeof(*ranks));
	bool wanted = true;

	*result = (struct attach_deep_result){0};
	if (ranks)
		result->rank_count = find_ranks(tree, count, ranks);
	if (!result->rank_count) {
		snprintf(result->coverage, sizeof(result->coverage),
			"attach --deep found no process with a GPU's libraries to load into");
		fprintf(stderr, "slowrank: %s\n", result->coverage);
	} else if (!device_environment_library(path, sizeof(path))) {
		snprintf(result->coverage, sizeof(result->coverage),
			"%s is not beside slowrank: nothing was loaded", library_name);
		fprintf(stderr, "slowrank: %s\n", result->coverage);
	} else if (is_wanted(options, result->rank_count)) {
		load_all(path, ranks, result);
		fprintf(stderr, "slowrank: %s\n", result->coverage);
	} else {
		wanted = false;
	}
	free(ranks);
	return wanted;
}
