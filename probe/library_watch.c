/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/library_watch.h"

#include <errno.h>

#include "probe/attach/library.h"

enum { LIBRARIES_MAX = 64 };

static const int64_t first_interval_ns = 50 * 1000000;
static const int64_t longest_interval_ns = INT64_C(10000) * 1000000;

void library_watch_init(struct library_watch *watch, struct bpf_source *bpf)
{
	watch->bpf = bpf;
	watch->count = 0;
}

static void attach(
	struct library_watch *watch, const struct library_file *files, size_t count, bool in_use)
{
	size_t skipped;

	/* What could not be attached is kept by the source, and told in the coverage. */
	for (size_t i = 0; i < count; i++)
		bpf_source_attach_library(watch->bpf, &files[i], in_use, &skipped);
}

void library_watch_command(struct library_watch *watch, char *const argv[])
{
	static struct library_file files[LIBRARIES_MAX];
	size_t count = 0;

	if (watch->bpf && library_find_for_command(argv, files, LIBRARIES_MAX, &count) == 0)
		attach(watch, files, count, false);
}

/* Looks at what a process has mapped; false when it is gone. */
static bool look_at(struct library_watch *watch, pid_t pid)
{
	static struct library_file files[LIBRARIES_MAX];
	size_t count = 0;
	int result = library_find_in_process(pid, files, LIBRARIES_MAX, &count);

	if (result == 0)
		attach(watch, files, count, true);
	return result != -ESRCH;
}

void library_watch_process(struct library_watch *watch, pid_t pid)
{
	size_t i;

	if (!watch->bpf)
		return;
	for (i = 0; i < watch->count && watch->processes[i].pid != pid; i++)
		;
	if (i == LIBRARY_WATCH_MAX)
		return;
	watch->processes[i] =
		(struct watched_process){.pid = pid, .interval_ns = first_interval_ns};
	if (i == watch->count)
		watch->count++;
	look_at(watch, pid);
}

void library_watch_look(struct library_watch *watch, struct host_ns now)
{
	for (size_t i = 0; i < watch->count;) {
		struct watched_process *process = &watch->processes[i];

		if (now.value < process->next.value) {
			i++;
		} else if (look_at(watch, process->pid)) {
			process->next.value = now.value + process->interval_ns;
			process->interval_ns *= 2;
			if (process->interval_ns > longest_interval_ns)
				process->interval_ns = longest_interval_ns;
			i++;
		} else {
			*process = watch->processes[--watch->count];
		}
	}
}
