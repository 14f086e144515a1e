/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/task_room.h"

#include <ctype.h>
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "probe/sources/cgroup_place.h"
#include "probe/sources/text_file.h"

enum {
	TEXT_LENGTH = 4096,
	NUMBER_LENGTH = 64,
	/* nng 1.5.2 (src/core/taskq.c, aio.c, resolver): threads of each process that uses it */
	NNG_FIXED = 7, /* 4 that resolve names, timer, reaper, poller */
	NNG_TASK_MAX = 16,
	NNG_EXPIRE_MAX = 8,
	PARTS = 4,	     /* of what may still be started one probe takes one at most, */
	ALL_PARTS_OF_3 = 2,  /* all that start at once two of three; the job has the rest */
	PROBE_OWN = 4,	     /* itself, its relay, a sampler of stacks, a reader of symbols */
	COORDINATOR_OWN = 8, /* its threads, the page's, a hook */
	/* A limit beyond is nobody's: its user's processes are not counted. */
	USER_LIMIT_COUNTED = 65536,
};

static int64_t nng_threads(void)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	int64_t tasks = processors * 2, expire = processors;

	return NNG_FIXED + (tasks < NNG_TASK_MAX ? tasks : NNG_TASK_MAX) +
	       (expire < NNG_EXPIRE_MAX ? expire : NNG_EXPIRE_MAX);
}

static bool read_number(
	const struct cgroup_place *place, size_t length, const char *name, int64_t *number)
{
	int fd = cgroup_open(place, length, name);
	char text[NUMBER_LENGTH];
	bool found;

	if (fd < 0)
		return false;
	found = text_file_read_fd(fd, text, sizeof(text)) == 0 &&
		text_parse_number(text, number); /* not "max" */
	close(fd);
	return found;
}

/* What the groups of this process leave, each of which counts all below it. */
static int64_t room_in_groups(void)
{
	int64_t room = INT64_MAX, most, present;
	struct cgroup_place place;
	char text[TEXT_LENGTH];

	if (text_file_read("/proc/self/cgroup", text, sizeof(text)) < 0 ||
		!cgroup_place_find(getpid(), text, "pids", &place))
		return room;
	for (size_t length = strlen(place.directory); length >= place.top_length; length--) {
		if (length < strlen(place.directory) && place.directory[length] != '/' &&
			length != place.top_length)
			continue;
		if (read_number(&place, length, "pids.max", &most) &&
			read_number(&place, length, "pids.current", &present) &&
			most - present < room)
			room = most - present;
	}
	return room;
}

/* Threads of this user's processes, as far as /proc shows them. */
static int64_t tasks_of_user(void)
{
	DIR *directory = opendir("/proc");
	struct dirent *entry;
	int64_t count = 0, threads;

	while (directory && (entry = readdir(directory))) {
		char text[TEXT_LENGTH], path[sizeof(entry->d_name) + 8];
		const char *threads_at;
		struct stat status;

		snprintf(path, sizeof(path), "/proc/%s", entry->d_name);
		if (!isdigit((unsigned char)entry->d_name[0]) || stat(path, &status) < 0 ||
			status.st_uid != getuid() ||
			text_file_read_at(text, sizeof(text), "%s/status", path) < 0)
			continue;
		threads_at = strstr(text, "\nThreads:");
		if (threads_at &&
			text_parse_number(threads_at + sizeof("\nThreads:") - 1, &threads))
			count += threads;
	}
	if (directory)
		closedir(directory);
	return count;
}

static int64_t room_of_user(void)
{
	struct rlimit limit;

	/* Root is not limited so. */
	if (getuid() == 0 || getrlimit(RLIMIT_NPROC, &limit) < 0 ||
		limit.rlim_cur >= USER_LIMIT_COUNTED)
		return INT64_MAX;
	return (int64_t)limit.rlim_cur - tasks_of_user();
}

bool task_room_suffices(uint32_t probes, char why[TASK_ROOM_WHY_LENGTH])
{
	int64_t probe = nng_threads() + PROBE_OWN, coordinator = nng_threads() + COORDINATOR_OWN;
	int64_t all = probes * probe + coordinator;
	int64_t groups = room_in_groups(), user = room_of_user();
	int64_t room = groups < user ? groups : user;

	if (room / PARTS >= probe + coordinator && room / 3 * ALL_PARTS_OF_3 >= all)
		return true;
	snprintf(why, TASK_ROOM_WHY_LENGTH,
		"only %lld more processes and threads may be started here (%s): too few for the "
		"job "
		"and for slowrank's %lld",
		(long long)(room > 0 ? room : 0),
		groups < user ? "pids.max of the cgroup" : "ulimit -u", (long long)all);
	return false;
}
