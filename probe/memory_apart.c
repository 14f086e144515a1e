/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/memory_apart.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "probe/sources/text_file.h"

enum { CGROUP_TEXT_LENGTH = 4096, NUMBER_LENGTH = 64 };

static bool is_limited(const struct cgroup_place *place, size_t length)
{
	int fd =
		cgroup_open(place, length, place->unified ? "memory.max" : "memory.limit_in_bytes");
	char text[NUMBER_LENGTH];
	int64_t bytes;
	bool limited;

	if (fd < 0)
		return false;
	/* v2 says "max"; v1 a number of pages that no machine has. */
	limited = text_file_read_fd(fd, text, sizeof(text)) == 0 &&
		  text_parse_number(text, &bytes) && bytes < INT64_C(1) << 60;
	close(fd);
	return limited;
}

size_t memory_apart_place(const struct cgroup_place *place,
	bool (*limited)(const struct cgroup_place *place, size_t length))
{
	size_t found = 0;

	for (size_t length = strlen(place->directory); length > place->top_length;) {
		size_t above = length - 1;

		while (above > place->top_length && place->directory[above] != '/')
			above--;
		if (limited(place, length))
			found = above;
		length = above;
	}
	return found;
}

/* By our own mounts: what lies in those of the process may be anything, and this is to be written to. */
static bool find_group(pid_t pid, struct cgroup_place *place)
{
	char text[CGROUP_TEXT_LENGTH];

	return text_file_read_at(text, sizeof(text), "/proc/%d/cgroup", (int)pid) == 0 &&
	       cgroup_place_find(pid, text, "memory", place) &&
	       strncmp(place->directory, "/proc/", 6) != 0;
}

static void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)!write(fd, text, strlen(text));
	close(fd);
}

/*
 * The group is one for all probes there, stays, and has no limit: that is each process's own. In v2 a group is of
 * all controllers: the processors stay those of the job, whatever they are beside it.
 */
static void leave_group(pid_t job)
{
	struct cgroup_place place, own;
	char path[CGROUP_PATH_LENGTH + 64];
	cpu_set_t processors;
	size_t length;
	bool bound = sched_getaffinity(0, sizeof(processors), &processors) == 0;

	if (!find_group(job, &place) || !find_group(getpid(), &own))
		return;
	length = memory_apart_place(&place, is_limited);
	/* With the slash: this process is below the same group. */
	if (!length || strncmp(place.directory, own.directory, length + 1) != 0)
		return;
	snprintf(path, sizeof(path), "%.*s/" MEMORY_APART_GROUP, (int)length, place.directory);
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return;
	snprintf(path, sizeof(path), "%.*s/" MEMORY_APART_GROUP "/cgroup.procs", (int)length,
		place.directory);
	write_text(path, "0");
	if (bound)
		(void)sched_setaffinity(0, sizeof(processors), &processors);
}

void memory_apart(pid_t job)
{
	const struct rlimit data = {
		(rlim_t)MEMORY_APART_MIB << 20, (rlim_t)MEMORY_APART_COORDINATOR_MIB << 20};
	struct rlimit present;

	leave_group(job ? job : getpid());
	write_text("/proc/self/oom_score_adj", "1000");
	if (getrlimit(RLIMIT_DATA, &present) == 0 && present.rlim_max > data.rlim_max)
		(void)setrlimit(RLIMIT_DATA, &data);
}
